//! The statistics that a ratio is judged with: medians, a bootstrap interval, and when to go on measuring.

use corelane::service::Random;
use serde::Serialize;

/// Resamples of one bootstrap.
const RESAMPLES: usize = 2_000;

/// Share of the resampled medians that lies below and above the interval, together a tenth.
const TAIL: f64 = 0.05;

/// Fixed, so that the same rounds are always judged alike.
const SEED: u64 = 0x636f_7265_6c61_6e65;

/// A median and the bootstrap 90 % interval around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The median of the values themselves.
    pub median: f64,
    /// The 5th percentile of the resampled medians.
    pub low: f64,
    /// The 95th percentile of the resampled medians.
    pub high: f64,
}

impl Estimate {
    /// Estimates the median of `values`; `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let median = median(values)?;
        let mut random = Random::new(SEED);
        let mut resample = vec![0.0; values.len()];
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .filter_map(|_| {
                resample.fill_with(|| values[random.index(values.len())]);
                self::median(&resample)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let tail = (RESAMPLES as f64 * TAIL) as usize;
        let (low, high) = (medians[tail], medians[RESAMPLES - 1 - tail]);
        Some(Self { median, low, high })
    }

    /// Whether the median is at or under `bar`.
    pub fn meets(&self, bar: f64) -> bool {
        self.median <= bar
    }

    /// Whether the interval leaves open on which side of `bar` the median is. At the bar is met, so an interval that
    /// ends at the bar leaves nothing open.
    pub fn straddles(&self, bar: f64) -> bool {
        self.low <= bar && bar < self.high
    }
}

/// The median, of an even number the mean of the two in the middle; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(low: f64, median: f64, high: f64) -> Estimate {
        Estimate { median, low, high }
    }

    #[test]
    fn median_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_same_values_give_the_same_interval() {
        let values: Vec<f64> = (0..15).map(|i| f64::from(i * i % 11)).collect();
        assert_eq!(Estimate::of(&values), Estimate::of(&values));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn the_interval_holds_the_median_and_narrows_with_agreement() {
        let loose = Estimate::of(&[0.5, 0.8, 1.0, 1.2, 1.5]).expect("values");
        assert!(loose.low < loose.median && loose.median < loose.high, "{loose:?}");
        let agreed = Estimate::of(&[0.9; 15]).expect("values");
        assert_eq!(agreed, estimate(0.9, 0.9, 0.9));
    }

    /// The chance that the median of a resample of 1, 2, ... `count` is at most `most`: that more than half of its values are, each of
    /// which is with the same chance. Exact, so that it owes nothing to the code above.
    fn chance_of_at_most(most: usize, count: usize) -> f64 {
        let chance = most as f64 / count as f64;
        let ways = |hits: usize| (0..hits).map(|at| (count - at) as f64 / (hits - at) as f64).product::<f64>();
        let of = |hits: usize| ways(hits) * chance.powi(hits as i32) * (1.0 - chance).powi((count - hits) as i32);
        (count / 2 + 1..=count).map(of).sum()
    }

    #[test]
    fn nine_of_ten_medians_of_resamples_lie_in_the_interval() {
        // So many that the medians are fine steps of chance: a 5 % end that lies at 2.5 or at 10 % is seen.
        const COUNT: usize = 999;
        let values: Vec<f64> = (1..=COUNT).map(|value| value as f64).collect();
        let Estimate { low, median, high } = Estimate::of(&values).expect("values");
        assert_eq!(median, 500.0);
        // Of 2,000 resamples the 5 % end lies within 1.5 % of where it should, but for one seed in a hundred.
        let below = [low, high].map(|end| chance_of_at_most(end as usize, COUNT));
        assert!((0.035..0.065).contains(&below[0]) && (0.935..0.965).contains(&below[1]), "{low} to {high}: {below:?}");
    }

    #[test]
    fn fifteen_rounds_have_this_interval() {
        let values: Vec<f64> = (1..=15).map(f64::from).collect();
        // Of all medians 2.5 % are at most 4, and 8.8 % at most 5: the 5 % end is 5, and the other one, by symmetry, 11.
        assert!(chance_of_at_most(4, 15) < 0.05 && chance_of_at_most(5, 15) > 0.05);
        assert_eq!(Estimate::of(&values), Some(estimate(5.0, 8.0, 11.0)));
        let skewed = [0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6];
        assert_eq!(Estimate::of(&skewed), Some(estimate(0.94, 0.97, 1.2)));
    }

    #[test]
    fn one_wild_round_does_not_move_the_interval() {
        let mut values = [1.0; 15];
        values[7] = 100.0;
        assert_eq!(Estimate::of(&values), Some(estimate(1.0, 1.0, 1.0)));
    }

    #[test]
    fn an_interval_straddles_only_a_bar_inside_it() {
        let around = estimate(0.9, 1.0, 1.1);
        assert!(around.straddles(1.0));
        assert!(around.straddles(0.9), "below and at the bar, and above it: open");
        assert!(!around.straddles(1.1), "all of it is at or under the bar: met");
        assert!(!around.straddles(0.89), "all of it is over the bar: missed");
        assert!(!around.straddles(1.2));
    }

    #[test]
    fn at_the_bar_is_met() {
        assert!(estimate(0.9, 1.0, 1.1).meets(1.0));
        assert!(!estimate(0.9, 1.01, 1.1).meets(1.0));
    }
}
