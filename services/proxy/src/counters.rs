//! What the proxy counts. The counters of each upstream stand in its table.

corelane::counters! {
    /// What the proxy counts beside what all services do.
    pub enum ProxyCounter {
        ClientsTurnedAway "clients_turned_away" Counter "connections" "Clients that were broken off because no upstream took their connection, or none serves.";
        Retries "retries" Counter "attempts" "Attempts at a further upstream, after one had not taken a connection.";
        Ejections "ejections" Counter "ejections" "Upstreams that were left out for a while, because they had failed several times in a row.";
        UpstreamsInRotation "upstreams_in_rotation" Gauge "upstreams" "Upstreams that clients are sent to now.";
        Upstreams "upstreams" Gauge "upstreams" "Upstreams that there are: each address of a name is one, and so is a name without an address.";
    }
}
