//! `cargo xtask bench flood`: what is answered, and what is left of the CPU for others, as more and more is offered: the livelock curve of
//! J. Mogul and K. Ramakrishnan (Eliminating Receive Livelock in an Interrupt-Driven Kernel, 1997).
//!
//! ```text
//! near, CPU 1                                   far, CPU 0
//! frames of a program (live frames) --> veth: the kernel receives, or the lane --> echo --> answers are counted at the near end
//!                                       beside it on CPU 0: a program that computes without end, or a task of the lane
//! ```
//!
//! All that takes part on CPU 0 has the same rank there, but for what the cure itself changes.

mod curve;
mod flooded;
mod seen;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use super::bars::Limit;
use super::conduct::conduct;
use super::interrupt::Interrupt;
use super::manner::Manner;
use super::packet::wire;
use super::report::Findings;
use super::rounds::{Extent, Rounds, Verdict};
use super::server;
use super::stage::{Ours, Stage};
use super::tables::{self, number};
pub use flooded::spin;
use flooded::{Flooded, Target};
use seen::{CELL, Curve, Curves, Step};
use xtask::workspace::Workspace;

/// The highest offer by the most that was answered of the others: a little more than the bar asks for.
const HIGHEST_BY_PEAK: f64 = 11.0;
/// Datagrams a second that no way of receiving keeps up with.
const SATURATING: f64 = 6e6;
/// Datagrams a second that are offered, before the highest.
const OFFERS: [f64; 8] = [10e3, 25e3, 50e3, 100e3, 150e3, 200e3, 300e3, 400e3];
/// How long a flood lasts before it is looked at.
const BEFORE: Duration = Duration::from_millis(150);
/// Answers to the highest offer, by the most answers to any below it.
const GOODPUT: Limit = Limit::AtLeast(0.95);
/// The highest offer, by the most that was answered of any below it.
const HIGHEST: Limit = Limit::AtLeast(10.0);
/// Points by which the share of the CPU of who computes differs from what was set, where nobody answers: neither packets nor services take anything from it then.
const POINTS: Limit = Limit::AtMost(5.0);
/// Milliseconds within which 99 of 100 requests of a service beside are answered, and requests without an answer.
const P99_MS: Limit = Limit::AtMost(10.0);
const LOST: Limit = Limit::AtMost(0.0);

/// The command's arguments.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
    /// One of those who are flooded alone, by the beginning of its name; may be given again
    #[arg(long, value_name = "NAME", conflicts_with = "record")]
    only: Vec<String>,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When a program is missing that every wire is made with, or a wire or a server cannot be made.
    pub fn run(&self) -> Result<()> {
        conduct(
            "flood",
            &self.manner,
            &Ours::ALONE,
            |_| flooded::build(),
            |stage, extent, interrupt| {
                wire::ensure_programs(server::is_installed)?;
                let mut findings = Findings::default();
                let curves = self.measure(stage, extent, interrupt)?;
                findings.show(&table(&curves), &curves, judge(&curves))?;
                if self.manner.record {
                    curve::write(&Workspace::load()?.root, &curves)?;
                }
                Ok(findings)
            },
        )
    }

    fn measure(&self, stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<Curves> {
        let is_wanted =
            |one: &Flooded| self.only.is_empty() || self.only.iter().any(|only| one.to_string().starts_with(only.as_str()));
        let who: Vec<_> = Flooded::ALL.into_iter().filter(is_wanted).collect();
        Rounds::take(CELL, who.clone(), extent.rounds, interrupt, |place| {
            let target = Target::new(who[place], stage)?;
            let window = extent.timing.window;
            let mut steps: Vec<Step> =
                OFFERS.map(|offer| step(&target, true, offer, window)).into_iter().collect::<Result<_>>()?;
            let peak = steps.iter().map(|step| step.answered_per_s).fold(0.0, f64::max);
            let highest = HIGHEST_BY_PEAK * peak.max(OFFERS[0]);
            steps.push(step(&target, true, highest, window)?);
            let unanswered = step(&target, false, highest.max(SATURATING), window)?;
            Ok(Curve { steps, unanswered, beside: target.beside(&stage.corelane, highest, window)? })
        })
    }
}

/// Offers so many a second; what is seen begins a while after the flood and ends before it, so that all of it is of the flood.
fn step(target: &Target, to_echo: bool, offer: f64, window: Duration) -> Result<Step> {
    let (goes_on, begun) = (AtomicBool::new(true), Instant::now());
    thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let sent = target.emit(to_echo, Some(offer), &|| goes_on.load(Ordering::Relaxed))?;
            Ok::<_, anyhow::Error>(sent as f64 / begun.elapsed().as_secs_f64())
        });
        let seen = || Ok::<_, anyhow::Error>((Instant::now(), target.answers()?, target.user_ns()?));
        thread::sleep(BEFORE);
        let first = seen();
        thread::sleep(window);
        let last = seen();
        goes_on.store(false, Ordering::Relaxed);
        // reason: a thread that panicked has said so.
        let offered_per_s = flood.join().expect("the flood's thread")?;
        let ((began, answers, user), (ended, answered, used)) = (first?, last?);
        let took = (ended - began).as_secs_f64();
        let share = |place: usize| Some(used[place]?.saturating_sub(user[place]?) as f64 / took / 1e7);
        let answered_per_s = (answered - answers) as f64 / took;
        Ok(Step { offered_per_s, answered_per_s, computing: share(0).unwrap_or_default(), others: share(1) })
    })
}

/// The verdicts on the bars, for each that is to keep a share.
fn judge(curves: &Curves) -> Vec<Verdict> {
    let cured = curves.who.iter().filter_map(|&who| Some((who, who.user_frac()?)));
    cured.flat_map(|(who, user_frac)| judge_one(curves, who, user_frac)).flatten().collect()
}

fn judge_one(curves: &Curves, who: Flooded, user_frac: u32) -> [Option<Verdict>; 5] {
    let of = |what: &str, figure: &dyn Fn(&Curve) -> f64, bar| {
        Verdict::of_rounds(CELL, format!("{who}: {what}"), &curves.values(who, figure)?, bar)
    };
    let beside = |what: &str, place: usize, bar| {
        let values = curves.values(who, |one| one.beside.map_or(f64::NAN, |beside| beside[place]))?;
        values.iter().all(|value| value.is_finite()).then(|| Verdict::of_rounds(CELL, format!("{who}: {what}"), &values, bar))?
    };
    let points = |one: &Curve| (one.unanswered.computing - f64::from(user_frac)).abs();
    [
        of("answered of the highest offer / of the best", &|one| one.highest().answered_per_s / one.peak(), GOODPUT),
        of("highest offer / most answered", &|one| one.highest().offered_per_s / one.peak(), HIGHEST),
        of("share of who computes, points from what was set", &points, POINTS),
        beside("TCP service on it, p99 in ms", 0, P99_MS),
        beside("TCP service on it, requests without an answer", 1, LOST),
    ]
}

/// The medians over the rounds: a row for each offer.
fn table(curves: &Curves) -> String {
    let mut rows = Vec::new();
    for &who in &curves.who {
        for step in 0..=OFFERS.len() + 1 {
            let seen = |one: &Curve| one.steps.get(step).copied().unwrap_or(one.unanswered);
            let middle = |of: fn(&Step) -> f64, digits| number(curves.median(who, |one| of(&seen(one))), digits);
            let last = step == OFFERS.len();
            let beside = |place: usize| {
                let middle = last.then(|| curves.median(who, |one| one.beside.map_or(f64::NAN, |beside| beside[place])));
                number(middle.flatten().filter(|value| value.is_finite()), 1)
            };
            rows.push(vec![
                ("flooded", who.to_string()),
                ("offered/s", middle(|step| step.offered_per_s, 0)),
                ("answered/s", middle(|step| step.answered_per_s, 0)),
                ("others %", middle(|step| step.others.unwrap_or(f64::NAN), 1)),
                ("computing %", middle(|step| step.computing, 1)),
                ("TCP p99 ms", beside(0)),
                ("lost", beside(1)),
            ]);
        }
    }
    let note = "others: services, tasks and other programs; computing: what computes without end among them; the last row of each: to a port that nobody has";
    format!("{CELL}, {} B, {} rounds; {note}\n{}", flooded::BYTES, curves.rounds.len(), tables::table(&rows))
}
