//! Scenes played from many seeds, and what is said of one that fails.

use crate::scene::{Played, Scene};
use corelane_seam::Instant;
use corelane_sim::{FaultCounts, FaultKind, Faults, for_seeds};
use std::fmt;

/// The events that are shown of a run that fails: the last ones before it did.
const EVENTS: usize = 12;

/// The sum of many runs.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// Runs that were played.
    pub runs: usize,
    /// Operations that their lanes asked of their drivers.
    pub operations: u64,
    /// How often each fault happened.
    pub faults: FaultCounts,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs, {} operations", self.runs, self.operations)?;
        let happened = FaultKind::ALL.into_iter().filter(|&kind| self.faults.of(kind) > 0);
        happened.into_iter().try_for_each(|kind| write!(f, ", {} {}", kind.name(), self.faults.of(kind)))
    }
}

/// A run that fails: what was wrong, and where. Shown by `Debug` as by `Display`, so that a test may return it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Failure {
    /// The seed that shows it again.
    pub seed: u64,
    /// The fault.
    pub wrong: String,
    /// The faults without which it does not fail, with their chances in 1,000; those that it can do without are left out.
    pub faults: Vec<(FaultKind, u16)>,
    /// The client that saw it, if it fails with that one alone.
    pub alone: Option<usize>,
    /// Turns of lanes before it failed.
    pub turns: u64,
    /// The time by the clock of the world.
    pub time: Instant,
    /// The lines that lanes told their operator, and the last events before it failed.
    pub story: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.wrong)?;
        let clients = self.alone.map_or("all clients".to_owned(), |client| format!("client {client} alone"));
        let faults = if self.faults.is_empty() { "no fault" } else { "these faults in 1,000 opportunities:" };
        write!(f, "it takes {clients} and {faults}")?;
        self.faults.iter().try_for_each(|(kind, chance)| write!(f, " {} {chance}", kind.name()))?;
        writeln!(f, "\nbefore it, at {} ns and after {} turns:", self.time.nanoseconds(), self.turns)?;
        self.story.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        write!(f, "CORELANE_SEED={} shows this again", self.seed)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

/// Plays a scene from `count` seeds ([`seeds`](crate::seeds) says which): `faults` gives each its faults, `set` sets it up.
///
/// In each run all clients must come to the end of their scripts, hear exactly what is due, and be cut off only where the network did it
/// ([`Faults::reset`], [`Faults::aborted_accept`], [`Faults::lost_accept`]). Then the lanes drain: they must end, give back all memory, have ended every
/// operation once, and have counted no panic and no ticket that was dropped.
///
/// A run that fails is played again with fewer faults and fewer clients, as long as it fails, before it is returned.
///
/// # Errors
/// The first run that fails.
///
/// # Panics
/// As [`seeds`](crate::seeds) and `set` do; then standard error names the seed.
pub fn simulate(count: u64, faults: impl Fn(u64) -> Faults, mut set: impl FnMut(&mut Scene)) -> Result<Summary, Failure> {
    let mut summary = Summary { runs: 0, operations: 0, faults: FaultCounts::default() };
    let mut failure = None;
    for_seeds(count, |seed| {
        if failure.is_some() {
            return;
        }
        let played = Run { seed, faults: faults(seed), only: None }.play(&mut set);
        summary.runs += 1;
        summary.operations += played.rig.world.report().operations;
        summary.faults.add(&played.rig.world.report().faults);
        if played.wrong.is_some() {
            failure = Some(reduced(Run { seed, faults: faults(seed), only: None }, played, &mut set));
        }
    });
    failure.map_or(Ok(summary), Err)
}

/// The arguments with which one run is played.
#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    faults: Faults,
    /// The one client that plays; none: all.
    only: Option<usize>,
}

impl Run {
    fn play(&self, set: &mut impl FnMut(&mut Scene)) -> Played {
        let mut scene = Scene::new(self.seed, self.faults);
        set(&mut scene);
        scene.play(self.only)
    }
}

/// The failure of a run, played again with one client and then without one kind of fault after the other, as long as it fails.
fn reduced(run: Run, played: Played, set: &mut impl FnMut(&mut Scene)) -> Failure {
    let mut least = (run, played);
    if let Some(client) = least.1.client {
        least = smaller(Run { only: Some(client), ..run }, least, set);
    }
    for kind in FaultKind::ALL.into_iter().filter(|&kind| run.faults.chance(kind) > 0) {
        let less = Run { faults: least.0.faults.with(kind, 0), ..least.0 };
        least = smaller(less, least, set);
    }
    told(least.0, &least.1)
}

/// The run with less if it fails as well, else the other.
fn smaller(less: Run, than: (Run, Played), set: &mut impl FnMut(&mut Scene)) -> (Run, Played) {
    let played = less.play(set);
    if played.wrong.is_some() { (less, played) } else { than }
}

fn told(run: Run, played: &Played) -> Failure {
    let (report, log) = (played.rig.world.report(), played.rig.world.log());
    let said = played.rig.reports.borrow().iter().map(|record| format!("operator: {record}")).collect::<Vec<_>>();
    let needed = FaultKind::ALL.map(|kind| (kind, run.faults.chance(kind)));
    let story = log[log.len().saturating_sub(EVENTS)..].iter().cloned().chain(said).collect();
    Failure {
        seed: run.seed,
        wrong: played.wrong.clone().unwrap_or_default(),
        faults: needed.into_iter().filter(|(_, chance)| *chance > 0).collect(),
        alone: run.only,
        turns: report.turns,
        time: report.now,
        story,
    }
}
