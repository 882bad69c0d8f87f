//! Where fragments wait: a few in the port's frames as they came, the others in memory of the lane's own.
//!
//! A port whose frames wait for fragments that never come has none left to receive into, so few of them may, and a flood fills the shelf. What waits
//! there was copied; without a flood nothing is.

use corelane_isr::reassembly::Limits;
use corelane_seam::{Error, Frame, FrameMemory};

/// The part of the port's frames that may wait for fragments: the original's.
const PORT_PART: usize = 32;

/// The memory.
pub(crate) struct Shelf {
    memory: FrameMemory,
    /// The port's frames that may wait.
    of_port: usize,
}

impl Shelf {
    /// For what these limits let wait, beside the frames of a port, and for what sockets keep of it: half of the port's frames at most. So there is always
    /// one for a fragment that pushes another out. The system gives the memory as it is used.
    pub fn new(limits: &Limits, port: &FrameMemory) -> Result<Self, Error> {
        let waiting = limits.fragments.min(Limits::for_lane(port.frame_bytes()).fragments);
        let frames = waiting + port.frames() / 2 + 1;
        Ok(Self { memory: FrameMemory::new(frames, port.frame_bytes())?, of_port: port.frames() / PORT_PART })
    }

    /// The fragment as it may wait, where so many do; none if there is no room for it.
    pub fn keep(&self, fragment: Frame, waiting: usize) -> Option<Frame> {
        if waiting < self.of_port {
            return Some(fragment);
        }
        // Where headers were put in front of a frame's data, they take its headroom.
        let mut copy = self.memory.frame().filter(|copy| copy.headroom() + copy.room() >= fragment.len())?;
        let in_front = fragment.len().saturating_sub(copy.room());
        copy.prepend(&fragment[..in_front]);
        copy.append(&fragment[in_front..]);
        copy.facts = fragment.facts;
        Some(copy)
    }
}
