//! Whether flows arrive where the table sends them: what was sent to each bucket, against the lanes on which it was counted.

use corelane_rss::{Bucket, FlowId, Table};
use std::collections::BTreeMap;
use std::fmt;

/// What was sent to one bucket, and where it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The bucket.
    pub bucket: Bucket,
    /// Flows that were sent.
    pub sent: u64,
    /// Arrivals by lane, as these count them.
    pub arrived: Vec<u64>,
}

/// Flows of one bucket that arrived on a lane that is not the bucket's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misplaced {
    /// The bucket.
    pub bucket: Bucket,
    /// The bucket's lane.
    pub belongs_to: usize,
    /// Where they arrived.
    pub arrived_on: usize,
    /// How many.
    pub flows: u64,
}

/// What one lane should have got, and got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneSum {
    /// Flows that were sent to its buckets.
    pub sent: u64,
    /// Flows that arrived there, whosever they are.
    pub arrived: u64,
    /// Those of them that belong to others.
    pub strays: u64,
}

/// What comes of all batches. What was sent either arrived or was lost, and what arrived was on its lane or a stray:
/// `sent = arrived + lost`, and the lanes' sums are the whole's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Flows that were sent.
    pub sent: u64,
    /// Those that arrived, on whatever lane.
    pub arrived: u64,
    /// Those that did not arrive.
    pub lost: u64,
    /// Those that arrived on another lane than their bucket's.
    pub strays: u64,
    /// The same by bucket and lane, in the order of the batches.
    pub misplaced: Vec<Misplaced>,
    /// By lane.
    pub lanes: Vec<LaneSum>,
    /// Buckets of which more arrived than was sent, by others' doing: they are in none of the sums.
    pub disturbed: Vec<Bucket>,
}

impl Verdict {
    /// Judges `batches` by `table`.
    #[must_use]
    pub fn of(table: &Table, batches: &[Batch]) -> Self {
        let last = table.owners().last().unwrap_or(0);
        let lanes = batches.iter().map(|batch| batch.arrived.len()).max().unwrap_or(0).max(last + 1);
        let mut verdict = Self { lanes: vec![LaneSum::default(); lanes], ..Self::default() };
        batches.iter().for_each(|batch| verdict.add(table, batch));
        verdict
    }

    /// Whether every flow arrived, on its lane.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.strays == 0 && self.lost == 0
    }

    fn add(&mut self, table: &Table, batch: &Batch) {
        let arrived: u64 = batch.arrived.iter().sum();
        let Some(lost) = batch.sent.checked_sub(arrived) else { return self.disturbed.push(batch.bucket) };
        let belongs_to = table.lane(batch.bucket);
        assert!(belongs_to < self.lanes.len() && batch.arrived.len() <= self.lanes.len(), "each lane has a sum");
        self.lanes[belongs_to].sent += batch.sent;
        (self.sent, self.arrived, self.lost) = (self.sent + batch.sent, self.arrived + arrived, self.lost + lost);
        for (arrived_on, &flows) in batch.arrived.iter().enumerate().filter(|(_, flows)| **flows > 0) {
            self.lanes[arrived_on].arrived += flows;
            if arrived_on != belongs_to {
                self.lanes[arrived_on].strays += flows;
                self.strays += flows;
                self.misplaced.push(Misplaced { bucket: batch.bucket, belongs_to, arrived_on, flows });
            }
        }
        assert!(self.sent == self.arrived + self.lost && self.strays <= self.arrived, "every flow arrived or was lost");
    }
}

/// A line of a log of arrivals that says nothing of an arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// Its number, from 1.
    pub line: usize,
    /// What it says, cut to 40 characters.
    pub got: String,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, got } = self;
        write!(f, "line {line} is {got:?}: write a flow id and the lane (or queue) where it arrived, as in 0x21f7db62 3")
    }
}

impl std::error::Error for LogError {}

/// Reads a log of arrivals, each line with a flow id in hexadecimal and the lane (or queue of a card) where it arrived, and whatever
/// behind them. Empty lines, lines that begin with `#`, and a first line of headings, are passed over. Returns a batch for each bucket
/// of `table` that is named.
///
/// # Errors
/// [`LogError`] for the first line that is none of these.
pub fn read_log(table: &Table, log: &str) -> Result<Vec<Batch>, LogError> {
    let mut batches: BTreeMap<Bucket, Batch> = BTreeMap::new();
    let lines = log.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    for (at, (index, line)) in lines.enumerate() {
        let Some((flow, lane)) = arrival(line) else {
            if at == 0 && !line.starts_with("0x") {
                continue;
            }
            return Err(LogError { line: index + 1, got: line.chars().take(40).collect() });
        };
        let bucket = table.buckets().of(flow);
        let batch = batches.entry(bucket).or_insert_with(|| Batch { bucket, sent: 0, arrived: Vec::new() });
        batch.sent += 1;
        batch.arrived.resize(batch.arrived.len().max(lane + 1), 0);
        batch.arrived[lane] += 1;
        assert!(batch.sent == batch.arrived.iter().sum(), "a log tells of what arrived");
    }
    Ok(batches.into_values().collect())
}

/// The flow and its lane, which is a number below 256.
fn arrival(line: &str) -> Option<(FlowId, usize)> {
    let mut words = line.split_ascii_whitespace();
    let flow = u32::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    let lane: u8 = words.next()?.parse().ok()?;
    Some((FlowId(flow), lane.into()))
}
