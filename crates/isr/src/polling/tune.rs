//! Settings that are found by trying: who runs something tells what it measures, and is told what to try next.
//!
//! ```text
//! Tuner::new(limits, dimensions) --.seen(what was measured) -> TuneStep::Try { settings, why }    set them, measure for a second, tell it
//!                                                           -> TuneStep::Done { best, why }       set them, and leave it
//! ```
//!
//! It climbs: from the best settings that are known it changes one [`Dimension`] by a step, on and on while that helps, then the next. What is to be tuned is handed in,
//! so it serves the original's knobs ([`original`]), those by the clock ([`timed`]) and others alike.
//!
//! What limits is looked at first: where the network takes all that the programs' share leaves, that share, if it may be smaller; and a bound of the burst is not tried where the
//! burst does not come near it.
//!
//! **Noise.** One measurement says little. The start is measured four times; whatever is tried, twice at least, and on while the difference is within the noise, which is
//! estimated on the way, five times at most. Better is what is better by more than the noise, and by 2 % at least; or what carries as much for
//! far less of the CPU. Measurements that are left then look more closely. The best is measured again every so often; where it is
//! no longer what it was, something else has changed, and it counts as it is now.
//!
//! **The programs' share.** Settings that keep less of the CPU for programs than was asked for are never tried, and what leaves them less by more than
//! five points when measured is not kept. Without a share that is asked for, the tuner may choose it.
//!
//! **Bounds.** It ends after as many measurements as it was given, with the best so far; and at once where nothing comes, or nothing is lost.

mod dimension;
mod measured;
mod moves;
pub mod original;
pub mod timed;
mod words;

pub use dimension::{Bears, Dimension, Settings, Towards};
pub use measured::Seen;
pub use words::{Why, WhyDone};

use measured::{Look, Mean, Noise, Verdict};
use moves::Moves;

/// Measurements of the start before anything is tried.
const START_SEEN: u32 = 4;
/// Measurements of what was found better, which may have been luck, before anything else is tried.
const BETTER_SEEN: u32 = 2;
/// After so many measurements of others, the best is measured again.
const BEST_AGAIN: u32 = 10;
/// Measurements without any traffic, one after the other, that end it.
const SILENT_MOST: u32 = 2;
/// How far below the share that was asked for programs may be measured: points.
const SHARE_TOLERANCE: u32 = 5;
/// What carries as much as the best and takes so much less of the CPU is better: points.
const FREES_LEAST: u32 = 15;
/// The programs' share is the limit where the network comes as near to what it leaves: points.
const SHARE_NEAR: u32 = 4;

/// What it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The share of the CPU that programs keep at least, per cent. Without it, the tuner chooses.
    pub user_share: Option<u32>,
    /// Measurements at most.
    pub measurements: u32,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TuneStep {
    /// These are to be set and measured. They may be the ones that are set.
    Try {
        /// What to set.
        settings: Settings,
        /// Why.
        why: Why,
    },
    /// These are to be set, and nothing else comes.
    Done {
        /// The best that was found.
        best: Settings,
        /// Why it ends.
        why: WhyDone,
    },
}

/// Looks for the best settings.
#[derive(Clone, Debug)]
pub struct Tuner {
    limits: Limits,
    dimensions: Vec<Dimension>,
    /// The best settings: a place in each dimension's values.
    best: Vec<usize>,
    best_seen: Mean,
    start_seen: Mean,
    trial: Option<Trial>,
    moves: Moves,
    noise: Noise,
    look: Look,
    measurements: u32,
    /// Measurements of the best that come before anything else is tried.
    to_see: u32,
    /// Measurements since the best was measured.
    since_best: u32,
    silent: u32,
    /// The start keeps less for programs than was asked for: it is left before anything is measured.
    is_left: bool,
    end: Option<WhyDone>,
    lines: Vec<String>,
}

/// Settings that are being tried.
#[derive(Clone, Debug)]
struct Trial {
    dimension: usize,
    at: usize,
    seen: Mean,
}

impl Tuner {
    /// A tuner for what runs with each dimension's start.
    #[must_use]
    pub fn new(limits: Limits, dimensions: Vec<Dimension>) -> Self {
        let is_left = dimensions.iter().any(|dimension| {
            dimension.bears == Bears::UserShare && limits.user_share.is_some_and(|least| dimension.start < least)
        });
        let dimensions: Vec<_> = dimensions.into_iter().filter_map(|dimension| dimension.allowed(limits.user_share)).collect();
        let best = dimensions.iter().map(Dimension::place).collect();
        let moves = Moves::new(dimensions.len());
        let [best_seen, start_seen] = [Mean::default(); 2];
        let (trial, noise, end, lines) = (None, Noise::default(), None, Vec::new());
        let (measurements, to_see, since_best, silent) = (0, START_SEEN, 0, 0);
        Self {
            limits,
            dimensions,
            best,
            best_seen,
            start_seen,
            trial,
            moves,
            noise,
            look: Look::FIRST,
            measurements,
            to_see,
            since_best,
            silent,
            is_left,
            end,
            lines,
        }
    }

    /// What was tried so far and what came of it, a line each.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Measurements so far.
    #[must_use]
    pub const fn measurements(&self) -> u32 {
        self.measurements
    }

    /// The settings that are set now were measured. At first these are the starts.
    pub fn seen(&mut self, seen: Seen) -> TuneStep {
        if let Some(why) = self.end {
            return TuneStep::Done { best: self.settings(None), why };
        }
        self.measurements += 1;
        self.silent = if seen.is_silent() { self.silent + 1 } else { 0 };
        if self.silent > 0 {
            return self.after_silence();
        }
        if self.is_left {
            self.is_left = false;
            return self.go_on(TuneStep::Try { settings: self.settings(None), why: Why::Share });
        }
        let step = match self.trial.take() {
            Some(trial) => self.seen_trial(trial, seen),
            None => self.seen_best(seen),
        };
        self.go_on(step)
    }

    /// A step, unless as much was measured as may be.
    fn go_on(&mut self, step: TuneStep) -> TuneStep {
        match step {
            TuneStep::Try { .. } if self.measurements >= self.limits.measurements => self.finish(WhyDone::Measured),
            step => step,
        }
    }

    fn after_silence(&mut self) -> TuneStep {
        if self.silent >= SILENT_MOST {
            return self.finish(WhyDone::NothingCame);
        }
        self.go_on(TuneStep::Try { settings: self.settings(self.trial.as_ref()), why: Why::Again })
    }

    fn seen_best(&mut self, seen: Seen) -> TuneStep {
        self.since_best = 0;
        if self.best_seen.taken > 0 && self.best_seen.is_left_by(seen, &self.noise) {
            self.lines.push(format!(
                "{} packets/s where {:.0} were measured before: it counts as it is now",
                seen.goodput, self.best_seen.goodput
            ));
            (self.best_seen, self.to_see) = (Mean::default(), START_SEEN);
        }
        self.best_seen.add(seen, &mut self.noise);
        self.to_see = self.to_see.saturating_sub(1);
        if self.to_see > 0 {
            return TuneStep::Try { settings: self.settings(None), why: Why::Again };
        }
        if self.start_seen.taken == 0 {
            self.start_seen = self.best_seen;
            let line = format!("{}: {:.0} packets/s, {}", self.settings(None), self.start_seen.goodput, shares(seen));
            self.lines.push(line);
        }
        self.next_trial()
    }

    fn seen_trial(&mut self, mut trial: Trial, seen: Seen) -> TuneStep {
        self.since_best += 1;
        trial.seen.add(seen, &mut self.noise);
        let takes_share = self.limits.user_share.is_some_and(|least| seen.user_share.saturating_add(SHARE_TOLERANCE) < least);
        let verdict = trial.seen.verdict(&self.best_seen, &self.noise, self.look);
        if verdict == Verdict::Unclear && !takes_share {
            let settings = self.settings(Some(&trial));
            self.trial = Some(trial);
            return TuneStep::Try { settings, why: Why::Again };
        }
        let frees = verdict == (Verdict::NotBetter { is_worse: false }) && self.frees(&trial);
        let is_better = (verdict == Verdict::Better || frees) && !takes_share;
        self.tell(
            &trial,
            seen,
            if takes_share {
                "it leaves programs too little"
            } else if frees {
                "kept, for it takes less of the CPU"
            } else if is_better {
                "kept"
            } else {
                "not kept"
            },
        );
        if is_better {
            self.best[trial.dimension] = trial.at;
            self.best_seen = trial.seen;
            (self.since_best, self.to_see) = (0, BETTER_SEEN);
            self.moves.helped();
        } else {
            self.moves.did_not_help(takes_share || verdict == Verdict::NotBetter { is_worse: true });
        }
        self.next_trial()
    }

    /// Whether what is tried takes so much less of the CPU that something else is the limit then, which could not be seen before.
    fn frees(&self, trial: &Trial) -> bool {
        let is_for_that = self.dimensions[trial.dimension].bears != Bears::UserShare;
        let carries_as_much = trial.seen.gain(&self.best_seen) > -self.look.gain_least;
        is_for_that && carries_as_much && trial.seen.network_share.saturating_add(FREES_LEAST) <= self.best_seen.network_share
    }

    fn next_trial(&mut self) -> TuneStep {
        if self.best_seen.lost_nothing {
            return self.finish(WhyDone::NothingLost);
        }
        if self.since_best >= BEST_AGAIN || self.to_see > 0 {
            return TuneStep::Try { settings: self.settings(None), why: Why::Best };
        }
        if let Some((dimension, is_second)) = self.limit() {
            self.moves.prefer(dimension, is_second);
        }
        if let Some(step) = self.open_trial() {
            return step;
        }
        if self.look == Look::FIRST {
            self.look = Look::CLOSER;
            self.moves.open_again();
            self.lines.push("what made little difference is looked at more closely".to_owned());
        }
        self.open_trial().unwrap_or_else(|| self.finish(WhyDone::NothingHelps))
    }

    /// Where the network takes all that the programs' share leaves it, that is what to change first: the dimension, and which way is down.
    fn limit(&self) -> Option<(usize, bool)> {
        let is_limit = |(index, dimension): &(usize, &Dimension)| {
            let kept = dimension.values[self.best[*index]];
            dimension.bears == Bears::UserShare
                && self.best_seen.network_share.saturating_add(kept).saturating_add(SHARE_NEAR) >= 100
        };
        let (index, dimension) = self.dimensions.iter().enumerate().find(is_limit)?;
        Some((index, dimension.first == Towards::Up))
    }

    /// The next change that may help.
    fn open_trial(&mut self) -> Option<TuneStep> {
        while let Some(tried) = self.moves.current() {
            let dimension = &self.dimensions[tried.dimension];
            let way = if tried.is_second { dimension.first.other() } else { dimension.first };
            let from = self.best[tried.dimension];
            if let Some(at) = dimension.further(from, way, tried.steps) {
                let [from, to] = [from, at].map(|at| dimension.values[at]);
                let why = Why::Change { name: dimension.name, from, to };
                if dimension.bears != Bears::Burst || self.best_seen.burst > from.min(to) / 2 {
                    let trial = Trial { dimension: tried.dimension, at, seen: Mean::default() };
                    let settings = self.settings(Some(&trial));
                    self.trial = Some(trial);
                    return Some(TuneStep::Try { settings, why });
                }
                let line = format!("{why}: not tried, the burst is {} at most", self.best_seen.burst);
                if !self.lines.contains(&line) {
                    self.lines.push(line);
                }
            }
            self.moves.did_not_help(true);
        }
        None
    }

    fn finish(&mut self, why: WhyDone) -> TuneStep {
        self.end = Some(why);
        self.trial = None;
        let best = self.settings(None);
        let mut line = format!("{why}: {best}");
        if self.start_seen.taken > 0 {
            let gain = 100.0 * self.best_seen.gain(&self.start_seen);
            line += &format!("; {:.0} packets/s ({gain:+.0} %) after {} measurements", self.best_seen.goodput, self.measurements);
        }
        self.lines.push(line);
        TuneStep::Done { best, why }
    }

    /// The best settings, or these with a trial's change.
    fn settings(&self, trial: Option<&Trial>) -> Settings {
        let value = |(index, dimension): (usize, &Dimension)| {
            let at = trial.filter(|trial| trial.dimension == index).map_or(self.best[index], |trial| trial.at);
            (dimension.name, dimension.values[at])
        };
        Settings(self.dimensions.iter().enumerate().map(value).collect())
    }

    fn tell(&mut self, trial: &Trial, seen: Seen, word: &str) {
        let dimension = &self.dimensions[trial.dimension];
        let [from, to] = [self.best[trial.dimension], trial.at].map(|at| dimension.values[at]);
        let (why, gain) = (Why::Change { name: dimension.name, from, to }, 100.0 * trial.seen.gain(&self.best_seen));
        let goodput = trial.seen.goodput;
        self.lines.push(format!("{why}: {goodput:.0} packets/s ({gain:+.1} %), {}: {word}", shares(seen)));
    }
}

fn shares(seen: Seen) -> String {
    let Seen { lost, network_share, user_share, burst, .. } = seen;
    format!("{lost} lost/s, network {network_share} %, programs {user_share} %, burst {burst}")
}
