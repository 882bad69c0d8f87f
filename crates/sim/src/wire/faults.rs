//! What may go wrong on a wire.

/// How likely each fault is, in chances per 1,000 opportunities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireFaults {
    /// A frame is lost.
    pub loss: u16,
    /// A frame arrives twice.
    pub duplicate: u16,
    /// A frame overtakes those before it.
    pub reorder: u16,
    /// A bit of a frame is another one.
    pub corrupt: u16,
    /// A frame, and those behind it, arrive later.
    pub delay: u16,
    /// The interface that a frame arrives at goes down for some milliseconds: what arrives or leaves meanwhile is lost.
    pub down: u16,
    /// The interface goes on reading a frame's memory for some time after it was sent.
    pub late_release: u16,
}

impl WireFaults {
    /// All of them, so likely each.
    pub const fn all(chance: u16) -> Self {
        Self {
            loss: chance,
            duplicate: chance,
            reorder: chance,
            corrupt: chance,
            delay: chance,
            down: chance,
            late_release: chance,
        }
    }
}

/// What happened on the wires of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounts {
    /// Frames lost by chance.
    pub lost: u64,
    /// Frames that came twice.
    pub duplicated: u64,
    /// Frames that overtook others.
    pub reordered: u64,
    /// Frames that were changed.
    pub corrupted: u64,
    /// Frames that came later.
    pub delayed: u64,
    /// How often an interface went down by chance.
    pub downs: u64,
    /// Frames lost because an interface was down.
    pub down: u64,
    /// Frames dropped because their queue had no memory to receive into, or no port.
    pub missed: u64,
    /// Frames whose memory was read for longer than they took to leave.
    pub late_releases: u64,
}
