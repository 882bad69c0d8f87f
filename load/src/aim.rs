//! A load that is aimed: its connections take source ports with which their flows belong to given lanes of the target.

use crate::report::TargetLane;
use corelane::admin::rss::{FlowHasher, Spread, Table};
use corelane::service::{Fault, Reason};
use std::net::SocketAddr;
use std::sync::Arc;

/// Ends that one connection tries, one after the other, because they are taken.
pub(crate) const TAKEN_MAX: u32 = 16;

/// Whether an end could not be had because somebody has it.
pub(crate) fn is_taken(fault: Fault) -> bool {
    matches!(fault.reason, Reason::AddressInUse | Reason::AddressUnknown)
}

/// Which lanes of the target the connections lead to.
#[derive(Clone, Debug)]
pub struct Aim {
    /// How connections are shared out among lanes.
    pub spread: Spread,
    /// The target's table.
    pub table: Table,
    /// How the target hashes flows.
    pub hasher: Arc<FlowHasher>,
}

/// The ends of an aimed load.
#[derive(Debug)]
pub struct Aimed {
    /// Of each connection: the target's lane, and which of that lane's connections it is.
    pub(crate) places: Vec<(u8, u32)>,
    pub(crate) lanes: Vec<AimedLane>,
}

/// What leads to one lane of the target.
#[derive(Clone, Debug, Default)]
pub(crate) struct AimedLane {
    pub(crate) ends: Vec<SocketAddr>,
    pub(crate) places: u32,
    pub(crate) buckets: usize,
}

impl Aimed {
    /// From where connection `number` is opened for the `attempt`th time, from 0: each time from an end that no other connection has
    /// until all were used.
    pub(crate) fn end(&self, number: u64, attempt: u64) -> SocketAddr {
        let (lane, place) = self.places[number as usize];
        let AimedLane { ends, places, .. } = &self.lanes[usize::from(lane)];
        let index = (u64::from(place) + attempt * u64::from(*places)) % ends.len() as u64;
        ends[index as usize]
    }

    /// Each lane's share.
    pub(crate) fn target_lanes(&self) -> Vec<TargetLane> {
        let told = |(lane, aimed): (usize, &AimedLane)| TargetLane {
            lane: lane as u64,
            buckets: aimed.buckets as u64,
            connections: u64::from(aimed.places),
            share: f64::from(aimed.places) / self.places.len() as f64,
        };
        self.lanes.iter().enumerate().map(told).collect()
    }
}

/// Reads how connections are shared out: `even`, `one` (lane 0), `one:LANE`, or weights by lane as in `3,1`.
///
/// # Errors
/// What is wrong, in words.
pub fn spread(text: &str) -> Result<Spread, String> {
    let read = match text {
        "one" => Some(Spread::One(0)),
        _ if text.starts_with("weights") => None,
        _ if text.starts_with(|first: char| first.is_ascii_digit()) => format!("weights:{text}").parse().ok(),
        _ => text.parse().ok(),
    };
    let shown = &text[..text.floor_char_boundary(40)];
    read.ok_or_else(|| format!("{shown:?} is none of even, one, one:LANE, and weights by lane such as 3,1"))
}

/// As [`spread`] takes it.
pub(crate) fn text(spread: &Spread) -> String {
    let text = spread.to_string();
    text.strip_prefix("weights:").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_read_as_it_is_written() {
        for text in ["even", "one:3", "3,1", "0,5,1"] {
            assert_eq!(super::text(&spread(text).unwrap()), text);
        }
        assert_eq!(spread("one"), Ok(Spread::One(0)));
        for bad in ["", "two", "one:", "one:x", "1,", "1,-1", ",1", "weights:1,2", "1;2", &"9".repeat(9_999)] {
            assert!(spread(bad).is_err_and(|why| why.len() < 200), "{bad:?}");
        }
    }
}
