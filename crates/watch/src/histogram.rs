//! How often values of which size came: fixed buckets in a lane's row, and what readers make of them.
//!
//! Four buckets to each power of two, so a reader knows a value to within a quarter of it. The writer finds the bucket by the place of the
//! value's highest bit: some shifts, one load and one store, whatever the value is. What is derived is the readers' business.

use std::fmt::Write;

/// The buckets of a histogram. The last one also has what is larger than it: from 2^40 on, half of an hour in nanoseconds.
pub const BUCKETS: usize = 160;

/// Each power of two has so many buckets, as a power of two.
const FINE_BITS: u32 = 2;

/// What is said of one histogram where it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramDeclaration {
    /// The name in text and JSON, in snake case.
    pub name: &'static str,
    /// Of what its values are numbers.
    pub unit: &'static str,
    /// One sentence on what is recorded, and when.
    pub meaning: &'static str,
}

/// The histograms of each lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneHistogram {
    /// How long productive turns took.
    TurnNanoseconds,
    /// How many completions productive turns found.
    TurnCompletions,
    /// How long requests took from receive to send.
    RequestNanoseconds,
    /// How many messages lay in the lane's channels when it took some.
    ChannelMessages,
}

impl LaneHistogram {
    /// All, in the order of their words in a row.
    pub const ALL: [Self; 4] = [Self::TurnNanoseconds, Self::TurnCompletions, Self::RequestNanoseconds, Self::ChannelMessages];

    /// What is said of each, in the same order.
    pub const DECLARED: [HistogramDeclaration; 4] = [
        HistogramDeclaration {
            name: "turn_nanoseconds",
            unit: "nanoseconds",
            meaning: "How long productive turns took: from when their work was collected until the lane looked, or waited, for more. The turn that a lane is in, or has just ended, is not in it yet.",
        },
        HistogramDeclaration {
            name: "turn_completions",
            unit: "completions",
            meaning: "How many completions each productive turn found; it has as many values as there were productive turns.",
        },
        HistogramDeclaration {
            name: "request_nanoseconds",
            unit: "nanoseconds",
            meaning: "How long requests took from receive to send: from the beginning of their turn to its end. A held request counts until the turn in which it is answered. Requests of a connection that are answered together count with their mean.",
        },
        HistogramDeclaration {
            name: "channel_messages",
            unit: "messages",
            meaning: "How many messages of other lanes each turn took that found any: how long the queue had grown, up to what a turn takes.",
        },
    ];

    /// What is said of it.
    pub fn declaration(self) -> &'static HistogramDeclaration {
        &Self::DECLARED[self as usize]
    }
}

/// The bucket that counts a value.
#[inline(always)]
pub(crate) fn bucket(value: u64) -> usize {
    if value < 1 << FINE_BITS {
        return value as usize;
    }
    let exponent = value.ilog2();
    let fine = (value >> (exponent - FINE_BITS)) as usize; // its highest bit, and those behind it
    ((((exponent - FINE_BITS) as usize) << FINE_BITS) + fine).min(BUCKETS - 1)
}

/// The smallest value that a bucket counts.
fn lowest(bucket: usize) -> u64 {
    assert!(bucket < BUCKETS, "one of a histogram's buckets");
    let fine = 1 << FINE_BITS;
    if bucket < 2 * fine {
        return bucket as u64;
    }
    ((fine + bucket % fine) as u64) << (bucket / fine - 1)
}

/// The largest value that a bucket counts.
fn highest(bucket: usize) -> u64 {
    if bucket + 1 == BUCKETS { u64::MAX } else { lowest(bucket + 1) - 1 }
}

/// How often values of which size came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram(Vec<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(vec![0; BUCKETS])
    }
}

impl Histogram {
    pub(crate) fn from_words(word: impl Fn(usize) -> u64) -> Self {
        Self((0..BUCKETS).map(word).collect())
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// The values that came, in growing order: the smallest and the largest that a bucket counts, and how many it has.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let counted = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, &count)| (lowest(bucket), highest(bucket), count))
    }

    /// A value that so many thousandths of all values do not exceed: at most a quarter above the smallest such one, but for those of the last
    /// bucket, which are "at least" its smallest. None if there were no values.
    ///
    /// # Panics
    /// With more than 1000 thousandths.
    pub fn quantile(&self, thousandths: u32) -> Option<u64> {
        assert!(thousandths <= 1000, "{thousandths} of 1000");
        let due = (u128::from(self.count()) * u128::from(thousandths)).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = self.0.iter().position(|&count| {
            seen += u128::from(count);
            seen >= due
        })?;
        Some(if found + 1 == BUCKETS { lowest(found) } else { highest(found) })
    }

    /// Adds the values of another.
    pub fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(count, more)| *count = count.saturating_add(*more));
    }

    /// The values that came after `earlier` was read.
    pub fn since(&self, earlier: &Self) -> Self {
        Self(self.0.iter().zip(&earlier.0).map(|(now, before)| now.saturating_sub(*before)).collect())
    }
}

/// The histograms as Markdown, for COUNTERS.md.
pub(crate) fn document(out: &mut String) {
    out.push_str("\nHistograms, with four buckets to each power of two:\n\n| name | unit | meaning |\n| --- | --- | --- |\n");
    for HistogramDeclaration { name, unit, meaning } in LaneHistogram::DECLARED {
        let _ = writeln!(out, "| `{name}` | {unit} | {meaning} |");
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.0[bucket(value)] += 1);
        histogram
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!(lowest(0), 0);
        for one in 0..BUCKETS {
            assert_eq!((bucket(lowest(one)), bucket(highest(one))), (one, one));
        }
        assert_eq!(lowest(BUCKETS - 1), 7 << 38);
    }

    #[test]
    fn nothing_has_no_quantile_and_the_last_bucket_is_told_by_its_smallest() {
        assert_eq!((of(&[]).quantile(500), of(&[]).count()), (None, 0));
        assert_eq!(of(&[u64::MAX]).quantile(1000), Some(7 << 38));
        assert_eq!(of(&[3]).quantile(0), Some(3));
    }

    proptest! {
        #[test]
        fn a_quantile_is_known_to_a_quarter(mut values in proptest::collection::vec(0..1_u64 << 40, 1..80), thousandths in 0..1001_u32) {
            let found = of(&values).quantile(thousandths).unwrap();
            values.sort_unstable();
            let due = (values.len() * thousandths as usize).div_ceil(1000).max(1);
            let exact = values[due - 1];
            prop_assert!(exact <= found && found <= exact + exact / 4, "{exact} {found}");
        }

        #[test]
        fn what_is_joined_and_taken_away_is_the_same(first in proptest::collection::vec(any::<u64>(), 0..20), more in proptest::collection::vec(any::<u64>(), 0..20)) {
            let mut all = of(&first);
            all.join(&of(&more));
            prop_assert_eq!(all.count(), (first.len() + more.len()) as u64);
            prop_assert_eq!(all.since(&of(&first)), of(&more));
            prop_assert_eq!(all.buckets().map(|(.., count)| count).sum::<u64>(), all.count());
        }
    }
}
