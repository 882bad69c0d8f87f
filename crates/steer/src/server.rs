//! What is to be steered.

use corelane_svc::TransportAddress;

/// What is to be steered.
pub struct Server {
    /// Where it is served, each with its port.
    pub places: Vec<TransportAddress>,
    /// How many lanes there are: 1 to 256, if anything is served.
    pub lanes: usize,
    /// Something is served over frames: what comes there finds its lane by the lanes themselves, which follow the table.
    pub over_frames: bool,
    /// Other processes may have sockets at the same places: what comes from now on is taken over from them.
    pub joins: bool,
}
