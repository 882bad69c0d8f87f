//! The contenders that take the part of the gateway.

use std::fmt;

/// A gateway between the houses, and what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// The kernel, which counts nothing.
    Kernel,
    /// The kernel with nftables, 160 rules one after the other.
    Flat,
    /// The kernel with nftables, the same by verdict maps.
    ByMap,
    /// A program that sends each packet back unseen: the limit.
    Redirect,
    /// A lane over frames.
    Lane(Rules),
    /// A lane over frames that polls.
    Polling(Rules),
}

/// The rules of a lane, and how they are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// None.
    No,
    /// 160 that count, one after the other.
    Flat,
    /// The same behind a jump for each house, as it is written.
    Skipto,
    /// The 160 as a tree of decisions.
    Tree,
    /// That tree in the port's program, which forwards what needs no lane.
    Xdp,
}

/// A contender as it is to be started.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The contender.
    pub gateway: Gateway,
    /// Houses are VLANs, else networks of the port itself.
    pub is_tagged: bool,
    /// A program computes beside it on its CPU, and it leaves others such a share in hundredths if it polls.
    pub beside: Option<u32>,
}

impl Gateway {
    /// Whether it is ours.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Lane(_) | Self::Polling(_))
    }

    /// Whether it takes packets in by itself.
    pub fn polls(self) -> bool {
        matches!(self, Self::Polling(_))
    }

    /// The rules by which a lane counts.
    pub fn rules(self) -> Rules {
        match self {
            Self::Lane(rules) | Self::Polling(rules) => rules,
            Self::Kernel | Self::Flat | Self::ByMap | Self::Redirect => Rules::No,
        }
    }

    /// Hops that it takes from a packet.
    pub fn hops(self) -> u8 {
        u8::from(self != Self::Redirect)
    }
}

impl Rules {
    /// Its name in the gateway's file.
    pub fn execution(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Skipto => "skipto",
            Self::No | Self::Tree | Self::Xdp => "tree",
        }
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.pad("kernel, no rules"),
            Self::Flat => f.pad("nftables, flat"),
            Self::ByMap => f.pad("nftables, verdict map"),
            Self::Redirect => f.pad("XDP redirect"),
            Self::Lane(rules) => f.pad(&format!("lane, {rules}")),
            Self::Polling(rules) => f.pad(&format!("lane, polls, {rules}")),
        }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::No => "no rules",
            Self::Flat => "flat",
            Self::Skipto => "skipto",
            Self::Tree => "tree",
            Self::Xdp => "tree in XDP",
        })
    }
}
