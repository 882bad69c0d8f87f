//! What a port has lost, in plain numbers.

/// Packets that a port has lost since it was opened, by why. What its kind does not lose stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// They found no free frame to be received into, or were longer than one where each lies in one (AF_XDP).
    pub no_frame: u64,
    /// The ring of received ones had no place (AF_XDP, packet sockets).
    pub ring_full: u64,
    /// They were longer than frames have room for, or in more pieces than a packet may have, or a receive was for.
    pub too_long: u64,
    /// They were taken to be sent, and the interface's own queue was full (packet sockets).
    pub send_lost: u64,
}
