//! Whether the program lives, and whether it is to be sent work: both from its page.

use corelane::admin::packets::{port_faults_of, sum_of};
use corelane::admin::watch::{LaneState, PacketCounter, Snapshot};
use std::fmt::Write;

/// A lane that has been in one turn for so long will not come back: whoever looks after the process had better start it anew.
const DEAD_NANOSECONDS: u64 = 60_000_000_000;

/// An answer to a probe.
#[derive(Debug, PartialEq, Eq)]
pub struct Health {
    pub is_good: bool,
    /// Why, a line each.
    pub words: String,
}

/// Whether it lives: it does unless a lane has been in one turn for a minute.
pub fn live(snapshot: &Snapshot) -> Health {
    let mut health = Health { is_good: true, words: String::new() };
    for (number, age, for_whom) in snapshot.stalls() {
        health.is_good &= age < DEAD_NANOSECONDS;
        // Writing to a string does not fail.
        let _ = writeln!(health.words, "lane {number} has been in one turn for {} s, {for_whom}", age / 1_000_000_000);
    }
    health.finish("live")
}

/// Whether it is to be sent work: every lane serves, none drains, packets come and go at the interface that lanes have, and its addresses are
/// nobody else's, which is waited for half a minute at the most: nobody proves who he is. A lane that has left its buckets to others serves.
pub fn ready(snapshot: &Snapshot) -> Health {
    let mut health = Health { is_good: true, words: String::new() };
    for (number, lane) in snapshot.lanes.iter().enumerate() {
        if !matches!(lane.state(), Some(LaneState::Running | LaneState::Spinning | LaneState::Sleeping)) {
            health.is_good = false;
            let state = lane.state().map_or("in a state unknown here", LaneState::name);
            let _ = writeln!(health.words, "lane {number} is {state}");
        }
    }
    for words in port_faults_of(snapshot) {
        health.is_good = false;
        let _ = writeln!(health.words, "{words}");
    }
    let taken = sum_of(snapshot, PacketCounter::AddressesUnready);
    if taken > 0 {
        health.is_good = false;
        let _ = writeln!(
            health.words,
            "addresses of lanes that another station of the link has: {taken} (this is waited for 30 s at the most)"
        );
    }
    health.finish("ready")
}

impl Health {
    fn finish(mut self, what: &str) -> Self {
        let not = if self.is_good { "" } else { "not " };
        self.words.insert_str(0, &format!("{not}{what}\n"));
        self
    }
}
