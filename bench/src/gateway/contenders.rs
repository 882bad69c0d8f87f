//! Who takes the part of the gateway.

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
}

impl Gateway {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Kernel, Self::Flat, Self::ByMap, Self::Redirect, Self::Lane(Rules::No), Self::Polling(Rules::No)];

    /// Whether it is ours.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Lane(_) | Self::Polling(_))
    }

    /// Hops that it takes from a packet.
    pub fn hops(self) -> u8 {
        u8::from(self != Self::Redirect)
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.pad("kernel, no rules"),
            Self::Flat => f.pad("nftables, flat"),
            Self::ByMap => f.pad("nftables, verdict map"),
            Self::Redirect => f.pad("XDP redirect"),
            Self::Lane(rules) => f.pad(&format!("lane{rules}")),
            Self::Polling(rules) => f.pad(&format!("lane, polls{rules}")),
        }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::No => ", no rules",
        })
    }
}
