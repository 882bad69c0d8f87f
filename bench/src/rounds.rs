//! Rounds: all that are compared are measured once in each, in an order that turns around, and ratios are taken within a round, so that what the host
//! does to all of them cancels out.

use std::fmt::Display;

use anyhow::{Context, Result};
use corelane_load::stats::{Estimate, median};
use serde::{Serialize, Serializer};

use super::bars::{Limit, Word};
use super::interrupt::Interrupt;
use super::load::Timing;

/// How much is measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Extent {
    /// Lengths of one measurement.
    pub timing: Timing,
    /// Rounds of each cell, whatever they show.
    pub rounds: usize,
}

/// The rounds of a cell: who is compared, and what each round showed of them.
#[derive(Debug, Serialize)]
#[serde(bound(serialize = "W: Display, S: Serialize"))]
pub struct Rounds<W, S> {
    /// The cell's name.
    pub cell: &'static str,
    /// Who takes part.
    #[serde(serialize_with = "as_names")]
    pub who: Vec<W>,
    /// By round, then in the order of those who take part.
    pub rounds: Vec<Vec<S>>,
}

fn as_names<W: Display, Z: Serializer>(who: &[W], serializer: Z) -> Result<Z::Ok, Z::Error> {
    serializer.collect_seq(who.iter().map(W::to_string))
}

/// A figure held against its bar.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The cell's name.
    pub cell: &'static str,
    /// What the figure is.
    pub what: String,
    /// The figure, with its interval if it is a paired ratio.
    pub value: f64,
    /// The bootstrap 90 % interval of a paired ratio.
    pub interval: Option<[f64; 2]>,
    /// Rounds that it comes from.
    pub rounds: usize,
    /// The bar.
    pub bar: Limit,
    /// What came of it.
    pub word: Word,
}

impl Verdict {
    /// About a paired ratio, or a figure of every round.
    pub fn of_rounds(cell: &'static str, what: String, values: &[f64], bar: Limit) -> Option<Self> {
        let estimate = Estimate::of(values)?;
        Some(Self {
            cell,
            what,
            value: estimate.median,
            interval: Some([estimate.low, estimate.high]),
            rounds: values.len(),
            bar,
            word: bar.word(&estimate),
        })
    }

    /// About a figure of one run.
    pub fn of_one(cell: &'static str, what: String, value: f64, bar: Limit) -> Self {
        Self { cell, what, value, interval: None, rounds: 1, bar, word: bar.word_of_one(value) }
    }
}

impl<W: Copy + PartialEq + Display, S> Rounds<W, S> {
    /// No round yet.
    pub fn new(cell: &'static str, who: Vec<W>) -> Self {
        Self { cell, who, rounds: Vec::new() }
    }

    /// So many rounds, by what measures the one at a place of `who`.
    ///
    /// # Errors
    /// As [`Rounds::add`].
    pub fn take(
        cell: &'static str,
        who: Vec<W>,
        rounds: usize,
        interrupt: &Interrupt,
        mut measure: impl FnMut(usize) -> Result<S>,
    ) -> Result<Self> {
        let mut taken = Self::new(cell, who);
        (0..rounds).try_for_each(|_| taken.add(interrupt, &mut measure))?;
        Ok(taken)
    }

    /// Adds a round; every second one begins at the end.
    ///
    /// # Errors
    /// When one cannot be measured, by its name, or a signal asks for the end.
    pub fn add(&mut self, interrupt: &Interrupt, mut measure: impl FnMut(usize) -> Result<S>) -> Result<()> {
        let number = self.rounds.len() + 1;
        eprintln!("{}, round {number} ...", self.cell);
        let mut order: Vec<usize> = (0..self.who.len()).collect();
        if number.is_multiple_of(2) {
            order.reverse();
        }
        let mut measured = Vec::with_capacity(order.len());
        for place in order {
            interrupt.check()?;
            let sample = measure(place).with_context(|| format!("{}, {}, round {number}", self.cell, self.who[place]))?;
            measured.push((place, sample));
        }
        measured.sort_by_key(|&(place, _)| place);
        self.rounds.push(measured.into_iter().map(|(_, sample)| sample).collect());
        Ok(())
    }

    /// A figure of one, round by round; `None` if it does not take part.
    pub fn values(&self, who: W, figure: impl Fn(&S) -> f64) -> Option<Vec<f64>> {
        let place = self.who.iter().position(|&one| one == who)?;
        Some(self.rounds.iter().map(|round| figure(&round[place])).collect())
    }

    /// A figure of one by that of another, each within a round.
    pub fn ratios(&self, of: W, by: W, figure: impl Fn(&S) -> f64) -> Option<Vec<f64>> {
        Some(divided(&self.values(of, &figure)?, &self.values(by, &figure)?))
    }

    /// The middle of a figure of one.
    pub fn median(&self, who: W, figure: impl Fn(&S) -> f64) -> Option<f64> {
        median(&self.values(who, figure)?)
    }

    /// What comes of a bar for the ratio of two; `what` names the figure. `None` unless both take part.
    pub fn judge(&self, of: W, by: W, what: &str, figure: impl Fn(&S) -> f64, bar: Limit) -> Option<Verdict> {
        Verdict::of_rounds(self.cell, format!("{of} / {by}, {what}"), &self.ratios(of, by, figure)?, bar)
    }
}

/// Values of rounds by others of the same rounds.
pub fn divided(of: &[f64], by: &[f64]) -> Vec<f64> {
    of.iter().zip(by).map(|(of, by)| of / by).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(rounds: &[[f64; 2]]) -> Rounds<&'static str, f64> {
        Rounds { cell: "a-cell", who: vec!["ours", "theirs"], rounds: rounds.iter().map(|round| round.to_vec()).collect() }
    }

    #[test]
    fn every_second_round_begins_at_the_end_and_samples_stay_in_their_places() {
        let interrupt = Interrupt::block().expect("signalfd");
        let mut order = Vec::new();
        let rounds = Rounds::take("a-cell", vec!["a", "b", "c"], 3, &interrupt, |place| {
            order.push(place);
            Ok(10 * order.len() + place)
        });
        assert_eq!(rounds.expect("nothing fails").rounds, [[10, 21, 32], [60, 51, 42], [70, 81, 92]]);
        assert_eq!(order, [0, 1, 2, 2, 1, 0, 0, 1, 2]);
        let refused = Rounds::take("a-cell", vec!["a"], 2, &interrupt, |_| -> Result<()> { anyhow::bail!("it is gone") });
        assert_eq!(format!("{:#}", refused.expect_err("it fails")), "a-cell, a, round 1: it is gone");
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The host halves its speed in the second round; the ratio does not notice.
        let rounds = two(&[[4.0, 5.0], [8.0, 10.0], [4.0, 5.0]]);
        let verdict = rounds.judge("ours", "theirs", "CPU", |&cost| cost, Limit::AtMost(0.9)).expect("both ran");
        assert_eq!((verdict.value, verdict.interval, verdict.rounds), (0.8, Some([0.8, 0.8]), 3));
        assert_eq!((verdict.what.as_str(), verdict.word), ("ours / theirs, CPU", Word::Met));
        assert_eq!(rounds.median("ours", |&cost| cost), Some(4.0));
        assert!(rounds.judge("ours", "nobody", "CPU", |&cost| cost, Limit::AtMost(0.9)).is_none());
    }

    #[test]
    fn who_takes_part_is_written_by_name() {
        let text = serde_json::to_value(two(&[[1.0, 2.0]])).expect("JSON");
        assert_eq!(text, serde_json::json!({"cell": "a-cell", "who": ["ours", "theirs"], "rounds": [[1.0, 2.0]]}));
    }
}
