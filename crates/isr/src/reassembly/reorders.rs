//! Datagrams that run after later ones of their flow, because they waited for fragments.

use corelane_seam::Instant;

/// Flows that are remembered at most.
const FLOWS: usize = 1024;
/// Bits of a flow id that do not choose its place. The lower ones are the bucket's, of which a lane has few.
const SHIFT: u32 = 32 - FLOWS.ilog2();

#[derive(Clone, Copy, Debug)]
struct Seen {
    flow: u32,
    /// The latest arrival of what has run of it.
    arrived: Instant,
}

/// Counts reorders on the lane where datagrams run, whole ones and reassembled ones alike: each is told by its flow id and when it arrived.
/// Memory is fixed: a flow whose place another takes is forgotten, which is counted, and its next datagram counts as its first.
#[derive(Debug)]
pub struct Reorders {
    seen: Box<[Option<Seen>]>,
    counted: u64,
    forgotten: u64,
}

impl Default for Reorders {
    fn default() -> Self {
        Self { seen: vec![None; FLOWS].into(), counted: 0, forgotten: 0 }
    }
}

impl Reorders {
    /// Takes a datagram of `flow` that runs now; whether one that arrived later has run before it. Of two that arrived at the same time none
    /// was the later.
    pub fn run(&mut self, flow: u32, arrived: Instant) -> bool {
        let place = &mut self.seen[(flow >> SHIFT) as usize];
        if let Some(seen) = place.as_mut().filter(|seen| seen.flow == flow) {
            let is_late = arrived < seen.arrived;
            seen.arrived = seen.arrived.max(arrived);
            self.counted += u64::from(is_late);
            return is_late;
        }
        self.forgotten += u64::from(place.is_some());
        *place = Some(Seen { flow, arrived });
        false
    }

    /// Datagrams that ran after a later one of their flow.
    #[must_use]
    pub const fn counted(&self) -> u64 {
        self.counted
    }

    /// Flows that were forgotten because another took their place.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}
