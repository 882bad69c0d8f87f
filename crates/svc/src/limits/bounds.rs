//! All bounds of a lane's services in one table: who pays for what is bounded, and what counts that the bound was met.
//!
//! The peers share all that one of them could use up: a peer never holds more than it leaves ([`Share`](corelane_seam::share::Share); memory by the same rule),
//! and where all is taken, it is taken back from who has most, longest: from the largest peer, and within a peer from its largest and oldest connections.
//! A bound of one connection, or of a service itself, stops nobody else.
//!
//! A row of a service of ours is attacked by that service's own tests, all others by those of this crate: each from one address, beside clients of another address and of the
//! attackers' own.

/// To whom what is bounded belongs: who pays for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A peer, with all its connections: it has its share.
    Peer,
    /// A connection: each has a bound of its own.
    Connection,
    /// A service, for what its own code begins; peers have no part of it but by that.
    Service,
}

/// A bound of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The limit's name, that of the lane's setting, or what is bounded.
    pub name: &'static str,
    /// The payer.
    pub owner: Owner,
    /// The counter of how often it was met.
    pub counter: &'static str,
    /// The service whose own bound it is; none for those of all services.
    pub service: Option<&'static str>,
}

const fn bound(name: &'static str, owner: Owner, counter: &'static str) -> Bound {
    Bound { name, owner, counter, service: None }
}

/// One that a peer's clients of a service share.
const fn shared(service: &'static str, name: &'static str, counter: &'static str) -> Bound {
    Bound { name, owner: Owner::Peer, counter, service: Some(service) }
}

/// Those of one of our services.
pub fn of(service: &str) -> impl Iterator<Item = &'static Bound> {
    BOUNDS.iter().filter(move |bound| bound.service == Some(service))
}

/// All of them.
pub const BOUNDS: &[Bound] = &[
    bound("memory", Owner::Peer, "memory_hits"),
    bound("lane_connections_max", Owner::Peer, "connections_cap_hits"),
    bound("connections_max", Owner::Peer, "connections_max_hits"),
    bound("connections_per_peer_max", Owner::Peer, "connections_per_peer_max_hits"),
    bound("handshakes_max", Owner::Peer, "handshakes_max_hits"),
    bound("tasks_max", Owner::Peer, "tasks_max_hits"),
    bound("requests_in_flight_max", Owner::Connection, "requests_in_flight_max_hits"),
    bound("timers_per_connection_max", Owner::Connection, "timers_max_hits"),
    bound("record_max", Owner::Connection, "record_max_hits"),
    bound("output_high", Owner::Connection, "output_high_hits"),
    bound("output_max", Owner::Connection, "output_max_hits"),
    bound("alarms_max", Owner::Service, "timers_max_hits"),
    bound("asks_max", Owner::Service, "asks_max_hits"),
    bound("offload_max", Owner::Service, "offload_max_hits"),
    bound("datagram_sockets_max", Owner::Service, "datagram_sockets_max_hits"),
    bound("datagrams_waiting_max", Owner::Service, "datagrams_waiting_max_hits"),
    bound("watches_max", Owner::Service, "watches_refused"),
    bound("channel_messages", Owner::Service, "messages_refused"),
    shared("http", "lines of the log that wait for their answer", "log_lines_cut"),
    shared("http", "answers that wait for memory", "answers_kept_max_hits"),
    shared("http files", "large files that are open", "open_files_max_hits"),
    shared("http files", "names that are looked up", "answers_5xx"),
    shared("http files", "lists of names that are sent", "answers_5xx"),
    shared("http files", "parts of files that are read ahead", "read_ahead_max_hits"),
    shared("rpc", "calls that are remembered", "duplicates_max_hits"),
    shared("rpc", "calls that are held", "requests_held_max_hits"),
    shared("dashboard", "streams of events", "dashboard_streams_displaced"),
    shared("hyper", "heads that have not come whole", "memory_hits"),
];
