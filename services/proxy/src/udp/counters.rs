//! What the proxy of datagrams counts.

corelane::counters! {
    /// What the proxy counts of sessions over UDP beside what all services over datagrams do.
    pub enum UdpCounter {
        Sessions "sessions" Gauge "sessions" "Sessions now: a client's address and port, with the upstream that it was given.";
        SessionsBegun "sessions_begun" Counter "sessions" "Sessions that have begun.";
        SessionsIdle "sessions_idle" Counter "sessions" "Sessions that ended because nothing came for as long as they may be idle.";
        SessionsMadeRoom "sessions_made_room" Counter "sessions" "Sessions that ended because another one needed their place. The one that was idle for longest ends first, of those whose client had not spoken again behind an answer.";
        SessionsFailed "sessions_failed" Counter "sessions" "Sessions that ended because the network said that their upstream cannot be reached, or because this side had no socket for them.";
        ClientsTurnedAway "clients_turned_away" Counter "datagrams" "Datagrams that were dropped because no upstream serves, or none is known yet.";
        SessionsRefused "sessions_refused" Counter "datagrams" "Datagrams that were dropped because they would have begun a session, and there was no place for one: of all, or of their client's.";
        BurstsCut "bursts_cut" Counter "datagrams" "Datagrams that were dropped because their session had more of them at once than one may.";
        ToUpstreams "to_upstreams" Counter "datagrams" "Datagrams of clients that were handed on.";
        ToClients "to_clients" Counter "datagrams" "Datagrams of upstreams that were handed on.";
        Ejections "ejections" Counter "ejections" "Upstreams that were left out for a while, because they had failed several times in a row.";
        UpstreamsInRotation "upstreams_in_rotation" Gauge "upstreams" "Upstreams that clients are sent to now.";
        Upstreams "upstreams" Gauge "upstreams" "Upstreams that there are: each address of a name is one, and so is a name without an address.";
    }
}
