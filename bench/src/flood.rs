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

use super::bars::{Limit, Word};
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

/// The highest offer by the most that was answered of the others: a little more than [`TENFOLD`].
const HIGHEST_BY_PEAK: f64 = 11.0;
/// Datagrams a second that are offered first. Then it is twice as many, again and again, until answers fall twice or no more can be offered.
const OFFERS: [f64; 8] = [10e3, 25e3, 50e3, 100e3, 150e3, 200e3, 300e3, 400e3];
/// Offers beyond these, at the most.
const DOUBLINGS: u32 = 6;
/// The offers at most that are taken for ten times the peak, because more was answered of the one before than of any below it.
const HIGHEST_TRIES: usize = 3;
/// How long a flood lasts before it is looked at.
const BEFORE: Duration = Duration::from_millis(150);
/// Answers to the highest offer, by the most answers to any.
const GOODPUT: Limit = Limit::AtLeast(0.95);
/// The highest offer, by the most that was answered of any, where an emitter can offer as much.
const TENFOLD: f64 = 10.0;
/// Points by which a share of the CPU differs from what was set, under the highest offer. Where nobody answers it is that of who computes, since services take nothing then. Where
/// the offer is answered it is other programs', if it is kept for those. Else it is that of all but the network, which may have more: services then leave packets less than their part.
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
            let answered = |offer| step(&target, true, offer, window);
            let steps = rise(answered)?;
            let (offer, highest) = highest(&steps, answered)?;
            let unanswered = step(&target, false, offer, window)?;
            Ok(Curve { steps, highest, unanswered, beside: target.beside(&stage.corelane, offer, window)? })
        })
    }
}

/// The steps of more and more offers, until the peak is found or no more can be offered.
fn rise(mut step: impl FnMut(f64) -> Result<Step>) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = OFFERS.into_iter().map(&mut step).collect::<Result<_>>()?;
    for doubling in 1..=DOUBLINGS {
        if seen::has_fallen(&steps) || doubling > 1 && seen::is_bound(&steps) {
            break;
        }
        steps.push(step(OFFERS[OFFERS.len() - 1] * f64::from(1 << doubling))?);
    }
    Ok(steps)
}

/// The answers to ten times the peak, and the offer for that. Where more was answered of it than of any offer below, that is the peak.
fn highest(steps: &[Step], mut step: impl FnMut(f64) -> Result<Step>) -> Result<(f64, Step)> {
    let mut offer = HIGHEST_BY_PEAK * seen::most_answered(steps.iter()).max(OFFERS[0]);
    let mut highest = step(offer)?;
    for _ in 1..HIGHEST_TRIES {
        let is_tenfold = highest.offered_per_s >= TENFOLD * highest.answered_per_s;
        if is_tenfold || highest.offered_per_s < seen::CAN / 2.0 * offer {
            break;
        }
        offer = HIGHEST_BY_PEAK * highest.answered_per_s;
        highest = step(offer)?;
    }
    Ok((offer, highest))
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
    let above = |share: f64| share - f64::from(user_frac);
    let other_programs = "share of other programs under the highest answered offer, points from what was set";
    let all = "share of all but the network under the highest answered offer, points below what was set";
    [
        judge_goodput(curves, who),
        of("share of who computes, points from what was set", &|one| above(one.unanswered.computing).abs(), POINTS),
        match who {
            Flooded::Polling(_) => of(other_programs, &|one| above(one.highest.computing).abs(), POINTS),
            _ => of(all, &|one| one.highest.others.map_or(f64::NAN, |others| f64::max(-above(others), 0.0)), POINTS),
        },
        beside("TCP service on it, p99 in ms", 0, P99_MS),
        beside("TCP service on it, requests without an answer", 1, LOST),
    ]
}

/// The answers to the highest offer by the best of any, with how high that offer is in words. A curve that still rises meets nothing, because its peak is not known; nor does one that
/// was not offered ten times its peak.
fn judge_goodput(curves: &Curves, who: Flooded) -> Option<Verdict> {
    let times = curves.middle(who, |one| Some(one.highest.offered_per_s / one.peak()))?;
    let at = if times >= TENFOLD {
        "ten times the best".into()
    } else {
        format!("{times:.1} times the best, all that can be offered")
    };
    let rises = if curves.still_rises(who) { " so far: it still rises" } else { "" };
    let goodput = curves.values(who, |one| one.highest.answered_per_s / one.peak())?;
    let verdict = Verdict::of_rounds(CELL, format!("{who}: answered at {at} / of the best{rises}"), &goodput, GOODPUT)?;
    let is_at_the_bar = rises.is_empty() && times >= TENFOLD;
    let word = if is_at_the_bar || verdict.word != Word::Met { verdict.word } else { Word::Open };
    Some(Verdict { word, ..verdict })
}

/// The medians over the rounds: a row for each offer.
fn table(curves: &Curves) -> String {
    let mut rows = Vec::new();
    for &who in &curves.who {
        let offers = curves.offers(who);
        for place in 0..offers + 2 {
            let is_highest = place == offers;
            let seen = |one: &Curve| match place.checked_sub(offers) {
                None => one.steps.get(place).copied(),
                Some(0) => Some(one.highest),
                Some(_) => Some(one.unanswered),
            };
            let middle = |of: fn(&Step) -> Option<f64>, digits| number(curves.middle(who, |one| of(&seen(one)?)), digits);
            let beside = |place: usize| {
                let middle = is_highest.then(|| curves.middle(who, |one| Some(one.beside?[place]))).flatten();
                number(middle, 1)
            };
            rows.push(vec![
                ("flooded", who.to_string()),
                ("offered/s", middle(|step| Some(step.offered_per_s), 0)),
                ("answered/s", middle(|step| Some(step.answered_per_s), 0)),
                ("others %", middle(|step| step.others, 1)),
                ("computing %", middle(|step| Some(step.computing), 1)),
                ("TCP p99 ms", beside(0)),
                ("lost", beside(1)),
            ]);
        }
    }
    let note = "others: services, tasks and other programs; computing: what computes without end among them; the last row of each: to a port that nobody has";
    format!("{CELL}, {} B, {} rounds; {note}\n{}", flooded::BYTES, curves.rounds.len(), tables::table(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of a lane that can do so much, to an emitter that can do so much.
    fn answering(most: f64, bound: f64) -> impl FnMut(f64) -> Result<Step> {
        move |offer| {
            let offered_per_s = f64::min(offer, bound);
            // Beyond its peak each datagram more costs a little.
            let answered_per_s =
                if offered_per_s < most { offered_per_s } else { most * (1.0 - 0.01 * (offered_per_s / most).ln()) };
            Ok(Step { offered_per_s, answered_per_s, computing: 30.0, others: None })
        }
    }

    fn judged(most: f64, bound: f64, computing: f64) -> Vec<Verdict> {
        let mut step = answering(most, bound);
        let steps = rise(&mut step).expect("nothing fails");
        let highest = Step { computing, ..highest(&steps, step).expect("nothing fails").1 };
        judged_of(Flooded::Polling(30), Curve { steps, highest, unanswered: highest, beside: None })
    }

    fn judged_of(who: Flooded, curve: Curve) -> Vec<Verdict> {
        judge(&Rounds { rounds: vec![vec![curve]; 5], ..Rounds::new(CELL, vec![who]) })
    }

    #[test]
    fn offers_go_on_until_answers_fall_twice_or_no_more_can_be_offered() {
        let offers = |most, bound| rise(answering(most, bound)).expect("nothing fails").len() - OFFERS.len();
        assert_eq!(offers(200e3, 9e6), 0, "the peak lies within");
        assert_eq!(offers(390e3, 9e6), 2);
        assert_eq!(offers(700e3, 9e6), 3, "800, 1600 and 3200 thousand: two after the best");
        assert_eq!(offers(9e6, 1e6), 2, "1,600 thousand did not come");
    }

    #[test]
    fn goodput_is_judged_at_ten_times_the_peak_or_says_at_what() {
        let [tenfold, bound] = [judged(290e3, 9e6, 30.0), judged(700e3, 5e6, 30.0)].map(|verdicts| verdicts[0].clone());
        assert_eq!(
            (tenfold.word, tenfold.what.contains("answered at ten times the best / of the best")),
            (Word::Met, true),
            "{tenfold:?}"
        );
        assert_eq!(bound.word, Word::Open, "seven times is not ten");
        assert!(bound.what.contains("times the best, all that can be offered / of the best"), "{bound:?}");
    }

    #[test]
    fn a_curve_that_still_rises_meets_nothing() {
        let verdict = &judged(9e6, 3e6, 30.0)[0];
        assert_eq!((verdict.value, verdict.word), (1.0, Word::Open));
        assert!(verdict.what.ends_with("it still rises"), "{verdict:?}");
    }

    #[test]
    fn ten_times_the_peak_is_of_what_is_answered_of_it_as_well() {
        // Each ten times brings the double of what is answered, twice.
        let mut offers = Vec::new();
        let step = |offer| {
            offers.push(offer);
            let answered_per_s = if offers.len() > 2 { 40e3 } else { 20e3 * offers.len() as f64 };
            Ok(Step { offered_per_s: offer, answered_per_s, computing: 30.0, others: None })
        };
        let steps = [Step { offered_per_s: 20e3, answered_per_s: 10e3, computing: 30.0, others: None }];
        let (offer, highest) = highest(&steps, step).expect("nothing fails");
        assert_eq!((offer, highest.answered_per_s), (440e3, 40e3));
        assert_eq!(offers, [110e3, 220e3, 440e3]);
    }

    #[test]
    fn an_emitter_at_its_bound_is_asked_once() {
        let mut asked = 0;
        let step = |_| {
            asked += 1;
            Ok(Step { offered_per_s: 5e6, answered_per_s: 9e5, computing: 30.0, others: None })
        };
        let steps = [Step { offered_per_s: 1e6, answered_per_s: 8e5, computing: 30.0, others: None }];
        highest(&steps, step).expect("nothing fails");
        assert_eq!(asked, 1, "8,800 thousand did not come");
    }

    #[test]
    fn services_may_have_more_than_their_share_under_an_answered_flood_and_no_less() {
        let word = |who, others| {
            let step = Step { offered_per_s: 3e6, answered_per_s: 1e5, computing: 30.0, others: Some(others) };
            let verdicts = judged_of(who, Curve { steps: vec![step], highest: step, unanswered: step, beside: None });
            verdicts.iter().find(|one| one.what.contains("all but the network")).map(|one| one.word)
        };
        for who in [Flooded::Threads(30), Flooded::Computing(30)] {
            assert_eq!([56.0, 26.0, 11.0].map(|others| word(who, others)), [Word::Met, Word::Met, Word::Missed].map(Some));
        }
        assert_eq!(word(Flooded::Polling(30), 56.0), None, "other programs sleep for it");
    }

    #[test]
    fn the_share_of_other_programs_is_judged_where_somebody_answers() {
        let word = |computing| {
            let verdicts = judged(290e3, 9e6, computing);
            verdicts.iter().find(|one| one.what.contains("under the highest answered offer")).map(|one| one.word)
        };
        assert_eq!((word(27.0), word(2.9)), (Some(Word::Met), Some(Word::Missed)));
    }
}
