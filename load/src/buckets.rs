//! What a histogram holds, bucket by bucket: what other figures can be computed from.

use crate::interval::Times;

/// Requests that took about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The shortest time that falls into it, in nanoseconds.
    pub from_ns: u64,
    /// The longest one.
    pub to_ns: u64,
    /// How many.
    pub count: u64,
}

/// The buckets that are not empty, by rising time. One is a nanosecond wide up to 2 us, and at most a thousandth of its time beyond.
pub fn buckets(times: &Times) -> Vec<Bucket> {
    let Some(times) = &times.0 else { return Vec::new() };
    let recorded = times.iter_recorded().map(|step| (step.value_iterated_to(), step.count_since_last_iteration()));
    let bucket =
        |(value, count)| Bucket { from_ns: times.lowest_equivalent(value), to_ns: times.highest_equivalent(value), count };
    recorded.map(bucket).collect()
}

/// The first bucket with which at least `percent` of all requests are counted; none if there are no requests.
pub fn quantile(buckets: &[Bucket], percent: f64) -> Option<Bucket> {
    let all: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let wanted = percent / 100.0 * all as f64;
    let mut counted = 0;
    buckets.iter().copied().find(|bucket| {
        counted += bucket.count;
        counted as f64 >= wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_was_recorded() {
        let mut times = Times::new(true);
        for (ns, count) in [(7, 2), (100, 5), (1_000_000, 3)] {
            times.record(ns, count);
        }
        let buckets = buckets(&times);
        assert_eq!(buckets[..2], [Bucket { from_ns: 7, to_ns: 7, count: 2 }, Bucket { from_ns: 100, to_ns: 100, count: 5 }]);
        let last = buckets[2];
        assert!((last.from_ns..=last.to_ns).contains(&1_000_000) && last.count == 3 && last.to_ns - last.from_ns < 1_000);
        let of = |percent| quantile(&buckets, percent).map(|bucket| bucket.from_ns);
        assert_eq!([of(0.0), of(20.0), of(20.1), of(70.0)], [Some(7), Some(7), Some(100), Some(100)]);
        assert_eq!([of(70.1), of(100.0)], [Some(last.from_ns); 2]);
        assert_eq!(quantile(&[], 50.0), None);
    }
}
