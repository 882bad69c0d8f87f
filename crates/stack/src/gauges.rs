//! What the counter page says of a lane's packet path beside the counts.

use crate::interfaces::Interfaces;
use crate::trunk::Trunk;
use corelane_isr::reassembly::FragmentCounts;
use corelane_seam::{Lost, PortKind, PortState};

/// What is counted elsewhere than in the counts, as of the last turn; of several interfaces together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauges {
    pub fragments: FragmentCounts,
    pub fragments_waiting: usize,
    pub links: LinkGauges,
}

/// What is to be said of ports and interfaces: what was lost adds up, and of states one that is not up is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkGauges {
    pub lost: Lost,
    /// Addresses that somebody else has, and those that keep the program from being ready.
    pub taken: (u64, u64),
    pub mtu_short: Option<usize>,
    pub state: PortState,
    pub kind: PortKind,
    /// The number of the port whose state is told.
    pub told: usize,
}

impl LinkGauges {
    pub fn of(trunks: &[Trunk], interfaces: &Interfaces) -> Self {
        let (mut lost, mut taken, mut mtu_short) = (Lost::default(), (0, 0), None);
        for trunk in trunks {
            let Lost { no_frame, ring_full, too_long, send_lost } = *trunk.lost();
            lost.no_frame += no_frame;
            lost.ring_full += ring_full;
            lost.too_long += too_long;
            lost.send_lost += send_lost;
        }
        // A port that is not up is told before one whose packets are too short.
        let mut told = trunks.iter().position(|trunk| trunk.state() != PortState::Up);
        for interface in interfaces.iter() {
            let (more, unready) = interface.taken();
            taken = (taken.0 + more, taken.1 + unready);
            mtu_short = mtu_short.into_iter().chain(interface.mtu_short()).min();
            told = told.or(interface.mtu_short().map(|_| interface.port()));
        }
        let told = told.unwrap_or(0);
        Self { lost, taken, mtu_short, state: trunks[told].state(), kind: trunks[0].kind(), told }
    }
}
