//! What the gateway is made of.

use super::traffic::Traffic;

/// Rules that a frame visits in the list as it was: 4 for each of 40 VLANs. Published.
pub const RULES_FLAT: u32 = 160;
/// The same after the first use of `skipto`. Fitted: its gain was published, and with the tree's number of rules it would be several times that.
pub const RULES_SKIPTO: u32 = 135;
/// The same after the list had been rewritten as a tree. Published.
pub const RULES_TREE: u32 = 50;

/// A machine. Times are of its CPU, and no longer than a second; each constant of [`Machine::GATEWAY`] says where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Frames that wait for the driver in the receive ring.
    pub ring: u32,
    /// Bytes that the card keeps while the bus is taken.
    pub held_bytes: u32,
    /// Bytes of a frame.
    pub frame_bytes: u32,
    /// Megabits a second of the wire.
    pub wire_mbits: u32,
    /// Megabytes a second of the bus, which each forwarded frame crosses twice.
    pub bus_mbytes: u32,
    /// Nanoseconds of a frame in driver and stack, without rules.
    pub frame_ns: u64,
    /// Nanoseconds of a rule, visited on the way in and on the way out.
    pub rule_ns: u64,
    /// Rules that a frame visits.
    pub rules: u32,
    /// Nanoseconds of a tick's first poll, whatever it finds.
    pub round_ns: u64,
    /// Nanoseconds of a look at the card's status, which each `reg_frac`th tick has.
    pub status_ns: u64,
    /// Nanoseconds of a chunk, whatever it finds.
    pub chunk_ns: u64,
    /// Nanoseconds of a tick of the clock, which are nobody's share.
    pub clock_ns: u64,
    /// The share of the CPU that programs want, per cent.
    pub user_wants: u32,
    /// What comes.
    pub traffic: Traffic,
}

impl Machine {
    /// The published gateway: a Pentium 4 of 2.8 GHz, one gigabit card on a PCI bus.
    pub const GATEWAY: Self = Self {
        ring: 24,           // fitted, to the first run: 20 frames a tick of 1 ms, and no more
        held_bytes: 64_000, // of the order of such cards' packet memory
        frame_bytes: 1_000, // published: 20 MB/s are 20 kpps
        wire_mbits: 1_000,  // published
        bus_mbytes: 125,    // PCI of 32 bits and 33 MHz, 133 at most; no published run comes to it
        frame_ns: 2_880,    // fitted with the next, to the runs with 70 % (flat) and 45 % (tree) of the CPU
        rule_ns: 107,       // 150 cycles a rule and direction
        rules: RULES_FLAT,  // published
        round_ns: 2_000,    // of the order of two reads across the bus, the status every so often among them
        status_ns: 0,       // within the one before: no published run shows it
        chunk_ns: 300,      // fitted, to the last run's 45 %: bursts find nothing most of the time there
        clock_ns: 2_000,    // of the order of a clock's interrupt
        user_wants: 100,    // programs take what they get, the case that user_frac is for
        traffic: Traffic {
            most: 100_000, // more than was ever forwarded: the gateway is the limit
            flows: 50,     // fitted with the next, to the first run: 600 errors a second
            round_trip_us: 20_000,
            train: 2, // fitted, to the first run: mild, since each of the 1300 users has 100 Mb/s
            rest_us: 0,
            period_us: 0,
        },
    };

    /// Nanoseconds of a frame with its rules.
    pub(super) const fn each_ns(&self) -> u64 {
        bounded(self.frame_ns.saturating_add(self.rule_ns.saturating_mul(self.rules as u64)))
    }

    /// Nanoseconds of a chunk, of a tick's first one or of another, with a look at the status or without.
    pub(super) const fn call_ns(&self, is_first: bool, checks_status: bool) -> u64 {
        let first = if is_first { bounded(self.round_ns) } else { 0 };
        bounded(self.chunk_ns) + first + if checks_status { bounded(self.status_ns) } else { 0 }
    }

    /// Nanoseconds for which a frame takes the bus.
    pub(super) const fn bus_ns(&self) -> u64 {
        per(self.frame_bytes as u64 * 1_000, self.bus_mbytes)
    }

    /// Nanoseconds for which a frame takes the wire, with preamble, check sum and gap.
    pub(super) const fn wire_ns(&self) -> u64 {
        per((self.frame_bytes as u64 + 24) * 8_000, self.wire_mbits)
    }

    /// How long a frame can wait for the bus: nanoseconds.
    pub(super) const fn held_ns(&self) -> u64 {
        per(self.held_bytes as u64 * 1_000, self.bus_mbytes)
    }
}

/// A time that is no more than a second.
const fn bounded(ns: u64) -> u64 {
    if ns < 1_000_000_000 { ns } else { 1_000_000_000 }
}

/// A part; of nothing as of one.
const fn per(whole: u64, parts: u32) -> u64 {
    if parts == 0 { whole } else { whole / parts as u64 }
}
