//! What is measured of packets: this file is the whole list.

use std::fmt;

use serde::Serialize;

use crate::bench::bars::Limit;
use crate::bench::load::{Asks, Carrier, Load};

/// Who echoes datagrams at the far end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Echo {
    /// A lane over frames (AF_XDP).
    Packet,
    /// The same, which takes packets in by itself.
    Polling,
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
}

impl Echo {
    /// All of them, the one that is judged first.
    pub const ALL: [Self; 7] =
        [Self::Packet, Self::Polling, Self::Sockets, Self::Merged, Self::Trains, Self::Program, Self::Testpmd];

    /// Whether it is a lane over frames.
    pub fn is_over_frames(self) -> bool {
        matches!(self, Self::Packet | Self::Polling)
    }

    /// What it is asked.
    pub fn load(self, bytes: usize) -> Load {
        let transport = if self == Self::Trains { Carrier::UdpTrains } else { Carrier::UdpSingles };
        Load { asks: Asks::Echo, transport, bytes, connections: CONNECTIONS, depth: DEPTH, spin: false }
    }
}

impl fmt::Display for Echo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Packet => "packet lane",
            Self::Polling => "packet lane, polls",
            Self::Sockets => "sockets",
            Self::Merged => "sockets, GRO",
            Self::Trains => "sockets, trains",
            Self::Program => "XDP_TX",
            Self::Testpmd => "testpmd, af_packet",
        })
    }
}

/// Sockets of the generator, and datagrams in flight on each: all of them fit the 256 entries that an end of veth holds.
const CONNECTIONS: usize = 8;
const DEPTH: usize = 16;

/// An echo of one size.
#[derive(Debug)]
pub struct Cell {
    /// What `--only` and the tables call it.
    pub name: &'static str,
    /// Bytes of a datagram's payload.
    pub bytes: usize,
    /// The most that the packet lane may cost of the sockets.
    pub bar: Option<Limit>,
}

/// All sizes: the last one fills the wire's MTU of 1,500.
pub const CELLS: &[Cell] = &[
    Cell { name: "packet-64", bytes: 64, bar: None },
    Cell { name: "packet-510", bytes: 510, bar: Some(Limit::AtMost(0.75)) },
    Cell { name: "packet-1472", bytes: 1_472, bar: None },
];

/// The goal beyond the bar of the 510 bytes.
pub const GOAL: Limit = Limit::AtMost(0.5);

/// The flood of one CPU.
pub const FLOOD: &str = "packet-flood";
/// Whether any flow is reordered.
pub const ORDER: &str = "packet-order";
/// What is counted in nanoseconds, without a wire.
pub const NANOSECONDS: &str = "packet-ns";
