//! The figures of a flood.

use serde::Serialize;

use super::flooded::Flooded;
use crate::rounds::Rounds;

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
    /// By offer, the highest last.
    pub steps: Vec<Step>,
    /// More than any way of receiving keeps up with, to a port that nobody has: all that it costs is the network's, and who computes has what is left.
    pub unanswered: Step,
    /// A service on the same lane over the kernel's sockets, under the highest offer: the 99th percentile of its answers in milliseconds, and requests
    /// without an answer. None where there is no such service.
    pub beside: Option<[f64; 2]>,
}

impl Curve {
    /// Under the highest offer.
    pub fn highest(&self) -> &Step {
        // reason: there is a step for the highest offer.
        self.steps.last().expect("the highest offer is one")
    }

    /// The most that was answered of any offer below the highest.
    pub fn peak(&self) -> f64 {
        self.steps[..self.steps.len() - 1].iter().map(|step| step.answered_per_s).fold(0.0, f64::max)
    }
}

/// All rounds.
pub type Curves = Rounds<Flooded, Curve>;
