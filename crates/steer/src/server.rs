//! What is to be steered.

use corelane_svc::TransportAddress;

/// What is to be steered.
pub struct Server {
    /// Where it is served, each with its port.
    pub places: Vec<TransportAddress>,
    /// How many lanes there are: 1 to 256, if anything is served.
    pub lanes: usize,
    /// Other processes may have sockets at the same places: what comes from now on is taken over from them.
    pub joins: bool,
}
