//! How long upstreams take: a histogram of fixed size.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Buckets within a power of two.
const PARTS: usize = 4;

/// Powers of two: the last bucket begins at a little under four minutes.
const POWERS: usize = 27;

const BUCKETS: usize = PARTS * POWERS;

/// Times in microseconds, in four buckets to each power of two: each is known to a quarter. Longer ones than four minutes are counted as such.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Times {
    buckets: Box<[u64; BUCKETS]>,
    sum: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), sum: Duration::ZERO }
    }
}

/// Times as they are written: each bucket with something in it, by its end and how many there are; and the sum of all.
#[derive(Serialize, Deserialize)]
struct Written {
    microseconds: Vec<(u64, u64)>,
    #[serde(default)]
    microseconds_sum: u64,
}

impl From<Times> for Written {
    fn from(times: Times) -> Self {
        let some = times.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        let microseconds = some.map(|(bucket, count)| (end(bucket), *count)).collect();
        Self { microseconds, microseconds_sum: u64::try_from(times.sum.as_micros()).unwrap_or(u64::MAX) }
    }
}

impl From<Written> for Times {
    fn from(told: Written) -> Self {
        let mut times = Self { sum: Duration::from_micros(told.microseconds_sum), ..Self::default() };
        for (end, count) in told.microseconds {
            let found = &mut times.buckets[bucket(end.saturating_sub(1))];
            *found = found.saturating_add(count);
        }
        times
    }
}

/// The bucket of so many microseconds.
fn bucket(micros: u64) -> usize {
    if micros < PARTS as u64 {
        return micros as usize;
    }
    let power = micros.ilog2() as usize;
    let part = (micros >> (power - 2)) as usize % PARTS;
    ((power - 1) * PARTS + part).min(BUCKETS - 1)
}

/// The first number of microseconds above a bucket.
fn end(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64 + 1;
    }
    let (power, part) = (bucket / PARTS + 1, bucket % PARTS);
    ((PARTS + part + 1) as u64) << (power - 2)
}

impl Times {
    /// Notes one.
    pub fn note(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(micros)] += 1;
        self.sum = self.sum.saturating_add(time);
    }

    /// Adds those of another lane.
    pub fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets.iter()).for_each(|(all, more)| *all = all.saturating_add(*more));
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Those that have come since an earlier look.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        since.buckets.iter_mut().zip(before.buckets.iter()).for_each(|(all, earlier)| *all = all.saturating_sub(*earlier));
        since.sum = since.sum.saturating_sub(before.sum);
        since
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The sum of all.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// How many took less than each of these ends, which rise: buckets with something in them, and the sum up to there.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let mut sum = 0;
        self.buckets.iter().enumerate().filter_map(move |(bucket, count)| {
            sum = u64::saturating_add(sum, *count);
            (*count > 0).then(|| (Duration::from_micros(end(bucket)), sum))
        })
    }

    /// The time within which this part of all was, from 0 to 1, rounded up to the end of its bucket; none where there is nothing.
    pub fn within(&self, part: f64) -> Option<Duration> {
        let rank = (self.count() as f64 * part).ceil().max(1.0) as u64;
        self.cumulative().find(|(_, sum)| *sum >= rank).map(|(time, _)| time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_bucket_around_it() {
        for micros in (0..5_000).chain((13..26).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1])) {
            let at = bucket(micros);
            assert!(micros < end(at), "{micros} is below the end of its bucket");
            assert!(at == 0 || micros >= end(at - 1), "{micros} is not in the one before");
        }
        assert_eq!((bucket(1 << 30), bucket(u64::MAX)), (BUCKETS - 1, BUCKETS - 1));
    }

    #[test]
    fn parts_and_sums_are_those_of_what_was_noted() {
        let mut times = Times::default();
        assert_eq!((times.within(0.5), times.count()), (None, 0));
        (1..=100).for_each(|millis| times.note(Duration::from_millis(millis)));
        let mut both = times.clone();
        both.add(&times);
        assert_eq!((both.count(), both.sum()), (200, Duration::from_millis(10_100)));
        for (part, millis) in [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)] {
            let (got, exact) = (both.within(part).unwrap(), Duration::from_millis(millis));
            assert!(got > exact && got <= exact * 5 / 4, "{part}: {got:?}");
        }
        assert_eq!(both.cumulative().last().unwrap().1, 200);
        assert_eq!(both.since(&times), times);
    }

    #[test]
    fn what_is_told_is_read_as_it_was() {
        let mut times = Times::default();
        [0, 1, 3, 4, 999, 1 << 40].into_iter().for_each(|micros| times.note(Duration::from_micros(micros)));
        let text = serde_json::to_string(&times).unwrap();
        assert_eq!(serde_json::from_str::<Times>(&text).unwrap(), times);
        let strange = r#"{"microseconds":[[0,18446744073709551615],[1,2],[18446744073709551615,3]]}"#;
        let read: Times = serde_json::from_str(strange).unwrap();
        assert_eq!((read.count(), read.within(0.5)), (u64::MAX, Some(Duration::from_micros(1))), "nothing of it overflows");
    }
}
