//! The figures of a flood.

use serde::Serialize;

use super::flooded::Flooded;
use crate::rounds::Rounds;
use corelane_load::stats::median;

/// By how much more is answered of the last doubling than of any offer below, where a curve still rises.
const RISES: f64 = 1.05;
/// The offers below the last doubling, by the greatest.
const BELOW: f64 = 0.7;
/// The least that an emitter brings of twice the last offer, by that one, as long as it is not at its bound.
pub const CAN: f64 = 1.5;

/// The name of the only cell, for `--only` and the tables.
pub const CELL: &str = "flood";

/// The figures of one offer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Step {
    /// Datagrams a second that were put on the wire, those among them for which it had no room.
    pub offered_per_s: f64,
    /// Answers a second.
    pub answered_per_s: f64,
    /// Per cent of the time that who computes beside had the CPU.
    pub computing: f64,
    /// Per cent of the time that was not the network's: of services, tasks and other programs. None where nobody knows.
    pub others: Option<f64>,
}

/// The figures of one who is flooded, in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// By offer, each more than the last.
    pub steps: Vec<Step>,
    /// Ten times the most that was answered, or as much as can be.
    pub highest: Step,
    /// As much to a port that nobody has: all that it costs is the network's, and who computes has what is left.
    pub unanswered: Step,
    /// A service on the same lane over the kernel's sockets, under the highest offer: the 99th percentile of its answers in milliseconds, and requests
    /// without an answer. None where there is no such service.
    pub beside: Option<[f64; 2]>,
}

impl Curve {
    /// The most that was answered of any offer.
    pub fn peak(&self) -> f64 {
        most_answered(self.all())
    }

    /// The most that was answered, by the most of any offer below the last doubling.
    fn rise(&self) -> f64 {
        let greatest = self.all().map(|step| step.offered_per_s).fold(0.0, f64::max);
        self.peak() / most_answered(self.all().filter(|step| step.offered_per_s <= BELOW * greatest))
    }

    fn all(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().chain([&self.highest])
    }
}

/// Whether answers have fallen twice below the most.
pub fn has_fallen(steps: &[Step]) -> bool {
    let most = most_answered(steps.iter());
    steps.iter().rev().take_while(|step| step.answered_per_s < most).count() >= 2
}

/// Whether twice as much as before was asked of the emitter, and did not come.
pub fn is_bound(steps: &[Step]) -> bool {
    matches!(steps, [.., before, last] if last.offered_per_s < CAN * before.offered_per_s)
}

/// The most that was answered of these offers.
pub fn most_answered<'a>(steps: impl Iterator<Item = &'a Step>) -> f64 {
    steps.map(|step| step.answered_per_s).fold(0.0, f64::max)
}

impl Curves {
    /// The middle of a figure over the rounds that have it.
    pub fn middle(&self, who: Flooded, of: impl Fn(&Curve) -> Option<f64>) -> Option<f64> {
        let values = self.values(who, |one| of(one).unwrap_or(f64::NAN))?;
        median(&values.into_iter().filter(|value| value.is_finite()).collect::<Vec<_>>())
    }

    /// Offers in the longest of the rounds, but for the highest.
    pub fn offers(&self, who: Flooded) -> usize {
        self.values(who, |one| one.steps.len() as f64).into_iter().flatten().fold(0.0, f64::max) as usize
    }

    /// Whether more was answered with the last doubling of the offer: the peak was not found.
    pub fn still_rises(&self, who: Flooded) -> bool {
        self.middle(who, |one| Some(one.rise())).is_none_or(|rise| rise > RISES)
    }
}

/// All rounds.
pub type Curves = Rounds<Flooded, Curve>;
