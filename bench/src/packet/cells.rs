//! What is measured of packets: this file is the whole list.

use std::fmt;

use crate::bars::Limit;
use crate::load::{Asks, Carrier, Load};

/// Who echoes datagrams at the far end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// A lane over frames (AF_XDP).
    Packet,
    /// The same, which takes packets in by itself.
    Polling,
    /// The same, which holds packets to no part of its time (`user_frac=0`).
    Ungoverned,
    /// A lane's socket, to which datagrams come one by one.
    Sockets,
    /// A lane's socket, asked by datagrams one by one that the kernel puts together where they come close to each other (GRO).
    Merged,
    /// A lane's socket, which is asked by trains of datagrams.
    Trains,
    /// The kernel, in the program of the interface: the limit.
    Program,
    /// DPDK's testpmd over a packet socket.
    Testpmd,
    /// [`Echo::Packet`] of another build.
    PacketBeside,
    /// [`Echo::Polling`] of another build.
    PollingBeside,
}

impl Echo {
    /// All of them, the one that is judged first.
    pub const ALL: [Self; 10] = [
        Self::Packet,
        Self::Polling,
        Self::Ungoverned,
        Self::Sockets,
        Self::Merged,
        Self::Trains,
        Self::Program,
        Self::Testpmd,
        Self::PacketBeside,
        Self::PollingBeside,
    ];

    /// The lanes over frames of this build, and of each the other build's.
    pub const BUILDS: [[Self; 2]; 2] = [[Self::Packet, Self::PacketBeside], [Self::Polling, Self::PollingBeside]];

    /// Whether it is a lane over frames.
    pub fn is_over_frames(self) -> bool {
        self == Self::Ungoverned || Self::BUILDS.as_flattened().contains(&self)
    }

    /// Whether it is of the build beside this one.
    pub fn is_beside(self) -> bool {
        matches!(self, Self::PacketBeside | Self::PollingBeside)
    }

    /// Whether it takes packets in by itself.
    pub fn polls(self) -> bool {
        matches!(self, Self::Polling | Self::Ungoverned | Self::PollingBeside)
    }

    /// What it is asked in `cell`.
    pub fn load(self, cell: &Cell) -> Load {
        let transport = if self == Self::Trains { Carrier::UdpTrains } else { Carrier::UdpSingles };
        let [connections, depth] = cell.in_flight;
        Load { asks: Asks::Echo, transport, bytes: cell.bytes, connections, depth, spin: false }
    }
}

impl fmt::Display for Echo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Packet => "packet lane",
            Self::Polling => "packet lane, polls",
            Self::Ungoverned => "packet lane, polls, no controller",
            Self::Sockets => "sockets",
            Self::Merged => "sockets, GRO",
            Self::Trains => "sockets, trains",
            Self::Program => "XDP_TX",
            Self::Testpmd => "testpmd, af_packet",
            Self::PacketBeside => "packet lane, the build beside",
            Self::PollingBeside => "packet lane, polls, the build beside",
        })
    }
}

/// All of them fit the 256 entries that an end of veth holds.
const MANY: [usize; 2] = [8, 16];

/// An echo of one size.
#[derive(Debug)]
pub struct Cell {
    /// What `--only` and the tables call it.
    pub name: &'static str,
    /// Bytes of a datagram's payload.
    pub bytes: usize,
    /// Sockets of the generator, and datagrams in flight on each.
    pub in_flight: [usize; 2],
    /// The most that the packet lane may cost of the sockets.
    pub bar: Option<Limit>,
    /// The part of the best rate that is asked for, where it is not as much as can be answered. Then lanes that poll take part alone, with a controller and without one.
    pub part: Option<f64>,
}

impl Cell {
    /// Whether it is measured of somebody.
    pub fn has(&self, echo: Echo) -> bool {
        self.part.is_none() || matches!(echo, Echo::Polling | Echo::Ungoverned)
    }
}

/// All sizes: the last one fills the wire's MTU of 1,500.
pub const CELLS: &[Cell] = &[
    Cell { name: "packet-lone", bytes: 64, in_flight: [1, 1], bar: None, part: None },
    Cell { name: "packet-64", bytes: 64, in_flight: MANY, bar: None, part: None },
    Cell { name: "packet-510", bytes: 510, in_flight: MANY, bar: Some(Limit::AtMost(0.75)), part: None },
    Cell { name: "packet-1472", bytes: 1_472, in_flight: MANY, bar: None, part: None },
    Cell { name: "packet-64-half", bytes: 64, in_flight: MANY, bar: None, part: Some(0.5) },
];

/// The most that a build may cost of the one beside it, and its median answer may take.
pub const BESIDE: Limit = Limit::AtMost(1.03);

/// The most that a packet may cost where it may take a part of the lane's time, of what it costs without a controller.
pub const GOVERNED: Limit = Limit::AtMost(1.03);

/// The goal beyond the bar of the 510 bytes.
pub const GOAL: Limit = Limit::AtMost(0.5);

/// The flood of one CPU.
pub const FLOOD: &str = "packet-flood";
/// The cost of lanes while nothing comes.
pub const IDLE: &str = "packet-idle";
/// Whether any flow is reordered.
pub const ORDER: &str = "packet-order";
/// What is counted in nanoseconds, without a wire.
pub const NANOSECONDS: &str = "packet-ns";
