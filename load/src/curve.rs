//! From a histogram of nanoseconds to what a report holds: quantiles, and a curve by percentile, in microseconds.

use crate::report::{Point, Quantiles};
use hdrhistogram::Histogram;

/// Most quantiles that can be asked for at once.
pub const MOST_QUANTILES: usize = 32;

/// Most points of a curve.
pub const MOST_POINTS: usize = 120;

/// What a share is made smaller by before the library multiplies it with the count and rounds up: what the decimal
/// lost on its way to a binary fraction would else lift 99.9 % of 1,000 to the 1,000th. Changes no rank under 10^14.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// The quantiles in `percents`, each under its own name (`"99.9"`), with `min`, `mean`, `stddev` and `max`.
///
/// A quantile is the least time within which at least so many percent of the requests were answered, as the histogram
/// resolves it (three digits), to the nanosecond. Empty if nothing was recorded.
pub fn quantiles(times: &Histogram<u64>, percents: &[f64]) -> Quantiles {
    if times.is_empty() {
        return Quantiles::new();
    }
    let at = |percent: f64| times.value_at_quantile(percent / 100.0 * (1.0 - ROUNDING)) as f64;
    let asked = percents.iter().map(|&percent| (percent.to_string(), at(percent)));
    let summary = [("min", times.min() as f64), ("mean", times.mean()), ("stddev", times.stdev()), ("max", times.max() as f64)];
    let summary = summary.map(|(name, ns)| (name.to_owned(), ns));
    asked.chain(summary).map(|(name, ns)| (name, microseconds(ns))).collect()
}

/// The curve by percentile: closer points the closer to 100 %, both coordinates rising from point to point, the last
/// one 100 % and the longest time. At most [`MOST_POINTS`]; none if nothing was recorded.
pub fn curve(times: &Histogram<u64>) -> Vec<Point> {
    if times.is_empty() {
        return Vec::new();
    }
    // The distance to 100 % is halved until it is under one request, with so many points each time, and two at the ends.
    let halvings = u64::BITS - times.len().leading_zeros();
    let steps = times.iter_quantiles((MOST_POINTS as u32 - 2) / halvings);
    let mut points: Vec<Point> =
        steps.map(|step| Point { percent: step.percentile(), us: microseconds(step.value_iterated_to() as f64) }).collect();
    points.dedup_by(|next, point| next.us == point.us);
    points
}

/// Reads percentages: `50,90,99,99.9` in any order. Gives them in rising order.
///
/// # Errors
/// A sentence for the one who wrote `text`: not a number, outside of 0 to 100, given twice, or over [`MOST_QUANTILES`].
pub fn parse_quantiles(text: &str) -> Result<Vec<f64>, String> {
    let mut percents = Vec::new();
    for item in text.split(',').map(str::trim) {
        let percent = parse_quantile(item)?;
        if percents.contains(&percent) {
            return Err(format!("the quantile {percent} is given twice: leave one out"));
        }
        if percents.len() == MOST_QUANTILES {
            return Err(format!("more than {MOST_QUANTILES} quantiles: leave some out"));
        }
        percents.push(percent);
    }
    percents.sort_by(f64::total_cmp);
    Ok(percents)
}

fn parse_quantile(item: &str) -> Result<f64, String> {
    match item.parse::<f64>() {
        // Adding makes zero of minus zero, which is written with its sign.
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent + 0.0),
        Ok(percent) => Err(format!("the quantile {percent} is outside of 0 to 100 (percent)")),
        Err(_) => Err(format!("the quantile \"{item}\" is no number: write percentages, as in 50,99,99.9")),
    }
}

fn microseconds(nanoseconds: f64) -> f64 {
    nanoseconds.round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{LONGEST_NS, histogram};
    use proptest::prelude::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut all = histogram();
        times.into_iter().for_each(|ns| all.saturating_record(ns));
        all
    }

    #[test]
    fn quantiles_of_one_to_a_thousand() {
        let all = quantiles(&of(1..=1_000), &[0.0, 50.0, 99.0, 99.9, 99.99, 100.0]);
        let us = |name: &str| all[name];
        assert_eq!((us("0"), us("50"), us("99")), (0.001, 0.5, 0.99));
        assert_eq!((us("99.9"), us("99.99"), us("100")), (0.999, 1.0, 1.0));
        // The variance of 1 to n is (n^2 - 1) / 12: 288.67 squared.
        assert_eq!((us("min"), us("mean"), us("stddev"), us("max")), (0.001, 0.501, 0.289, 1.0));
        assert_eq!(all.len(), 10);
    }

    #[test]
    fn no_share_is_lifted_to_the_next_rank() {
        let percents: Vec<f64> = (1..=1_000).map(|tenths| f64::from(tenths) / 10.0).collect();
        let all = quantiles(&of(1..=1_000), &percents);
        for (rank, percent) in (1_u32..).zip(&percents) {
            assert_eq!(all[&percent.to_string()], f64::from(rank) / 1_000.0, "{percent} %");
        }
    }

    #[test]
    fn times_keep_three_digits_and_whole_nanoseconds() {
        let all = quantiles(&of([1_234_567]), &[50.0]);
        for name in ["50", "min", "mean", "max"] {
            let us = all[name];
            assert!((us - 1_234.567).abs() < 1.234, "{name}: {us}");
            assert_eq!(us, (us * 1_000.0).round() / 1_000.0, "{name}");
        }
        assert_eq!(all["stddev"], 0.0);
    }

    #[test]
    fn the_longest_time_is_kept_though_the_shorter_are_many() {
        let mut times = of([1_000; 3]);
        times.saturating_record_n(1_000, 1_000_000_000);
        times.saturating_record(u64::MAX);
        let longest = LONGEST_NS as f64 / 1_000.0;
        let got = quantiles(&times, &[99.9999999])["max"];
        assert!((got / longest - 1.0).abs() < 0.001, "{got}");
        let last = curve(&times).pop().expect("points");
        assert_eq!((last.percent, last.us), (100.0, got));
    }

    #[test]
    fn of_nothing_there_is_nothing() {
        assert!(quantiles(&histogram(), &[50.0]).is_empty());
        assert!(curve(&histogram()).is_empty());
    }

    #[test]
    fn a_curve_of_equal_times_is_one_point() {
        assert_eq!(curve(&of([7; 5])), [Point { percent: 100.0, us: 0.007 }]);
    }

    #[test]
    fn the_curve_of_two_times() {
        let expected = [Point { percent: 75.0, us: 0.01 }, Point { percent: 100.0, us: 0.02 }];
        assert_eq!(curve(&of([10, 10, 10, 20])), expected);
    }

    #[test]
    fn a_curve_of_many_times_uses_its_room_and_no_more() {
        for bits in 0..63_u64 {
            let mut times = histogram();
            // Ever shorter steps to 100 %, each with times of its own: the curve that takes the most points.
            for step in 0..=bits {
                let count = 1_u64 << (bits - step);
                (0..64).for_each(|part| times.saturating_record_n(1 + part + 64 * step, count / 64 + 1));
            }
            let points = curve(&times).len();
            assert!(points <= MOST_POINTS, "{points} points of 2^{bits}");
            assert!(bits < 12 || points > MOST_POINTS / 3, "{points} points of 2^{bits}");
        }
        let mut full = of([1, 2, 3]);
        full.saturating_record_n(4, u64::MAX);
        assert!(curve(&full).len() <= MOST_POINTS);
    }

    #[test]
    fn quantiles_are_read_and_sorted() {
        assert_eq!(parse_quantiles("50,90,99,99.9"), Ok(vec![50.0, 90.0, 99.0, 99.9]));
        assert_eq!(parse_quantiles(" 100, 0 ,-0.0").unwrap_err(), "the quantile 0 is given twice: leave one out");
        assert_eq!(parse_quantiles("99.9,-0,5e1"), Ok(vec![0.0, 50.0, 99.9]));
        assert_eq!(parse_quantiles("-0").unwrap()[0].to_string(), "0");
    }

    #[test]
    fn what_is_no_quantile_is_refused_with_a_word() {
        for (text, word) in [
            ("", "no number"),
            ("50,,99", "no number"),
            ("50,p99", "\"p99\" is no number"),
            ("101", "outside of 0 to 100"),
            ("-1", "outside of 0 to 100"),
            ("inf", "outside of 0 to 100"),
            ("NaN", "outside of 0 to 100"),
            ("99.9,50,99.90", "99.9 is given twice"),
        ] {
            let error = parse_quantiles(text).expect_err(text);
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn so_many_quantiles_and_no_more() {
        let list = |count: usize| (0..count).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(parse_quantiles(&list(MOST_QUANTILES)).map(|all| all.len()), Ok(MOST_QUANTILES));
        assert!(parse_quantiles(&list(MOST_QUANTILES + 1)).unwrap_err().contains("more than 32"));
    }

    proptest! {
        /// Times under 2,048 ns are held exactly, so the rank can be counted out in whole numbers.
        #[test]
        fn a_quantile_is_the_time_of_its_rank(
            mut times in prop::collection::vec(1_u64..2_048, 1..3_000),
            ten_thousandths in 1_u64..=1_000_000,
        ) {
            let percent = ten_thousandths as f64 / 10_000.0;
            let name = percent.to_string();
            let got = quantiles(&of(times.iter().copied()), &[percent])[&name];
            times.sort_unstable();
            let rank = (ten_thousandths as usize * times.len()).div_ceil(1_000_000);
            prop_assert_eq!((got * 1_000.0).round() as u64, times[rank - 1]);
        }

        #[test]
        fn quantiles_rise_between_min_and_max(
            times in prop::collection::vec(0_u64..2 * LONGEST_NS, 1..50),
            mut percents in prop::collection::vec(0.0..=100.0, 1..32),
        ) {
            percents.sort_by(f64::total_cmp);
            let all = quantiles(&of(times), &percents);
            let rising = percents.iter().map(|percent| all[&percent.to_string()]);
            let rising: Vec<f64> = [all["min"]].into_iter().chain(rising).chain([all["max"]]).collect();
            prop_assert!(rising.is_sorted(), "{:?}", rising);
            prop_assert!(all["min"] <= all["mean"] && all["mean"] <= all["max"]);
        }

        #[test]
        fn a_curve_tells_the_share_of_each_time(
            counts in prop::collection::vec((0_u64..2 * LONGEST_NS, 1_u64..1 << 40), 1..200),
        ) {
            let mut times = histogram();
            counts.iter().for_each(|&(ns, count)| times.saturating_record_n(ns, count));
            let points = curve(&times);
            prop_assert!(points.len() <= MOST_POINTS);
            prop_assert!(points.is_sorted_by(|a, b| a.percent < b.percent && a.us < b.us));
            for point in &points {
                let share = times.count_between(0, (point.us * 1_000.0).round() as u64) as f64 / times.len() as f64;
                prop_assert!((point.percent / 100.0 - share).abs() < 1e-12);
            }
            let last = points[points.len() - 1];
            prop_assert_eq!((last.percent, last.us), (100.0, quantiles(&times, &[])["max"]));
        }

        #[test]
        fn whatever_is_read_does_not_panic(text in ".{0,40}|[0-9.,e+-]{0,40}") {
            if let Ok(percents) = parse_quantiles(&text) {
                prop_assert!(percents.is_sorted_by(|a, b| a < b));
                prop_assert!(percents.iter().all(|percent| (0.0..=100.0).contains(percent)));
            }
        }
    }
}
