//! The whole list of cells that are measured of gateways.

use super::contenders::{Gateway, Rules};
use crate::bars::Limit;

/// The cost of one packet.
#[derive(Debug)]
pub struct Cell {
    /// Its name, for `--only` and the tables.
    pub name: &'static str,
    /// The contenders.
    pub who: &'static [Gateway],
    /// Houses are VLANs, else networks of the port itself.
    pub is_tagged: bool,
    /// How users send.
    pub by: Means,
}

/// How users send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Frames of a program (live frames).
    Frames,
    /// Sockets of the kernel.
    Sockets,
}

/// Without VLANs, which this kernel may not have: against its own forwarding.
const AGAINST_LINUX: &[Gateway] = &[
    Gateway::Kernel,
    Gateway::Flat,
    Gateway::ByMap,
    Gateway::Redirect,
    Gateway::Lane(Rules::Xdp),
    Gateway::Lane(Rules::Tree),
    Gateway::Polling(Rules::No),
    Gateway::Polling(Rules::Flat),
    Gateway::Polling(Rules::Skipto),
    Gateway::Polling(Rules::Tree),
];

/// On VLANs, as the post has them: ours alone.
const OURS: &[Gateway] = &[
    Gateway::Lane(Rules::Xdp),
    Gateway::Lane(Rules::Flat),
    Gateway::Lane(Rules::Tree),
    Gateway::Polling(Rules::No),
    Gateway::Polling(Rules::Flat),
    Gateway::Polling(Rules::Skipto),
    Gateway::Polling(Rules::Tree),
];

/// All of them.
pub const CELLS: &[Cell] = &[
    Cell { name: "gateway-510", who: AGAINST_LINUX, is_tagged: false, by: Means::Frames },
    Cell { name: "gateway-510-sockets", who: AGAINST_LINUX, is_tagged: false, by: Means::Sockets },
    Cell { name: "gateway-vlan-510", who: OURS, is_tagged: true, by: Means::Frames },
];

/// The tree in XDP, of nftables' rules one after the other, of their verdict maps, and of a bare redirect.
pub const XDP_BY: [(Gateway, Limit); 3] =
    [(Gateway::Flat, Limit::AtMost(0.1)), (Gateway::ByMap, Limit::AtMost(0.35)), (Gateway::Redirect, Limit::AtMost(1.3))];
/// A lane that polls, of nftables' rules one after the other.
pub const LANE_BY_FLAT: Limit = Limit::AtMost(0.6);
/// The cost of rules in a lane as a tree, by their cost one after the other.
pub const TREE_BY_FLAT: Limit = Limit::AtMost(0.15);
/// The same of what they cost with jumps as they are written.
pub const TREE_BY_SKIPTO: Limit = Limit::AtMost(0.4);
