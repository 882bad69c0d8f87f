//! What the counter page says of a lane's packet path beside the counts.

use crate::interface::Interface;
use corelane_isr::reassembly::FragmentCounts;
use corelane_seam::{Lost, PortKind, PortState};

/// What is counted elsewhere than in the counts, as of the last turn; of several interfaces together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauges {
    pub fragments: FragmentCounts,
    pub fragments_waiting: usize,
    pub lost: Lost,
    /// Addresses that somebody else has, and those that keep the program from being ready.
    pub taken: (u64, u64),
    pub mtu_short: Option<usize>,
    pub state: PortState,
    pub kind: PortKind,
    /// How many interfaces there are, and the number of that whose state is told.
    interfaces: usize,
    told: usize,
}

impl Gauges {
    /// Of an interface, and of the fragments.
    pub fn of(interface: &Interface, (fragments, fragments_waiting): (&FragmentCounts, usize)) -> Self {
        Self {
            fragments: *fragments,
            fragments_waiting,
            lost: *interface.lost(),
            taken: interface.taken(),
            mtu_short: interface.mtu_short(),
            state: interface.state(),
            kind: interface.kind(),
            interfaces: 1,
            told: 0,
        }
    }

    /// The number of the interface whose state is told.
    pub fn told(&self) -> usize {
        self.told
    }

    /// With one more interface: what was lost adds up, and of states one that is not up is told.
    pub fn add(&mut self, interface: &Interface) {
        let Lost { no_frame, ring_full, too_long, send_lost } = *interface.lost();
        self.lost.no_frame += no_frame;
        self.lost.ring_full += ring_full;
        self.lost.too_long += too_long;
        self.lost.send_lost += send_lost;
        let (taken, unready) = interface.taken();
        self.taken = (self.taken.0 + taken, self.taken.1 + unready);
        self.mtu_short = self.mtu_short.into_iter().chain(interface.mtu_short()).min();
        let is_well = interface.state() == PortState::Up && interface.mtu_short().is_none();
        if self.state == PortState::Up && !is_well {
            (self.state, self.told) = (interface.state(), self.interfaces);
        }
        self.interfaces += 1;
    }
}
