//! What the service counts.

corelane::counters! {
    /// What the RPC service counts beside what all services do.
    pub enum RpcCounter {
        RequestsRefused "requests_refused" Counter "requests" "Requests answered with a refusal of their protocol, such as an unknown procedure.";
        RequestsDropped "requests_dropped" Counter "requests" "Requests left without an answer: answers where requests belong, repetitions of one in progress, and datagrams at a bound.";
        RequestsHeldMaxHits "requests_held_max_hits" Counter "hits" "Requests refused because the service had too many to answer later.";
        ProtocolErrors "protocol_errors" Counter "hits" "Connections closed, and datagrams dropped, because they brought what is no request.";
        DuplicatesFound "duplicates_found" Counter "requests" "Repetitions of a request that were given its answer again.";
        DuplicatesMaxHits "duplicates_max_hits" Counter "hits" "Answers not kept for repetitions of their request: too long, or all places taken by requests in progress.";
    }
}
