//! The published runs.

use super::super::knobs::Knobs;
use super::machine::{RULES_FLAT, RULES_SKIPTO, RULES_TREE};

/// One of them: what was set, and what was published of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// What was changed since the one before.
    pub change: &'static str,
    /// Ticks a second.
    pub hz: u32,
    /// The knobs.
    pub knobs: Knobs,
    /// Rules that a frame visits.
    pub rules: u32,
    /// Megabytes a second that were forwarded; as many thousand frames.
    pub mbytes: Option<u32>,
    /// Frames a second that found no room.
    pub errors: Option<u32>,
    /// The network's share of the CPU, per cent.
    pub network_share: Option<u32>,
}

const FIRST: Published = Published {
    change: "as it was",
    hz: 1000,
    knobs: Knobs::DEFAULT,
    rules: RULES_FLAT,
    mbytes: Some(20),
    errors: Some(600),
    network_share: None,
};
const NEXT: Published = Published { mbytes: None, errors: None, ..FIRST };
const USER_30: Published = Published {
    change: "user_frac 50 -> 30",
    hz: 2500,
    knobs: Knobs { user_frac: 30, ..Knobs::DEFAULT },
    mbytes: Some(35),
    ..NEXT
};

/// The published runs in their order, each with one change: small gains by ticks, the large one by `user_frac`, none by `burst_max`, which was taken back, then those by
/// rules. Of a 2.8 GHz Pentium 4 with one gigabit card, the default gateway of 1300 users.
pub const PUBLISHED: [Published; 7] = [
    FIRST,
    Published { change: "hz 1000 -> 1500", hz: 1500, ..NEXT },
    Published { change: "hz 1500 -> 2500", hz: 2500, ..NEXT },
    USER_30,
    Published {
        change: "burst_max 150 -> 300, taken back",
        knobs: Knobs { burst_max: 300, ..USER_30.knobs },
        mbytes: None,
        ..USER_30
    },
    Published { change: "skipto", rules: RULES_SKIPTO, mbytes: Some(40), network_share: Some(70), ..USER_30 },
    Published { change: "rules as a tree", rules: RULES_TREE, mbytes: Some(55), network_share: Some(45), ..USER_30 },
];
