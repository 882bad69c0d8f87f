//! The post's ramp: what each step of its tuning brought, on 40 VLANs with 160 rules, as more and more is offered, then ten times what went through at the most, then as much as can
//! be; and what is left of the CPU for a program that computes beside.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::contenders::{Asked, Gateway, Rules};
use super::houses::{FRAME_BYTES, TAG_BYTES};
use super::running::{Passed, Running};
use crate::bars::Limit;
use crate::interrupt::Interrupt;
use crate::rounds::{Extent, Rounds, Verdict};
use crate::stage::Stage;
use crate::tables::{self, number};

/// The name of the cell, for `--only` and the tables.
pub const CELL: &str = "gateway-post";

/// Packets a second that are offered, before ten times the most that went through of them.
const OFFERS: [f64; 8] = [25e3, 50e3, 100e3, 200e3, 300e3, 400e3, 600e3, 800e3];
/// How long an offer lasts before it is looked at.
const BEFORE: Duration = Duration::from_millis(150);
/// The factor that is asked for to have ten times that: the pace falls short, because the kernel sets up a run of frames anew now and then.
const TENFOLD: f64 = 12.0;
/// The goodput at the tenfold offer, by the most of any before it.
const GOODPUT: Limit = Limit::AtLeast(0.95);
/// The tenfold offer, by the most that went through of any before it.
const OFFERED: Limit = Limit::AtLeast(10.0);
/// Points by which the share of who computes beside differs from what was set, under the tenfold offer.
const POINTS: Limit = Limit::AtMost(5.0);

/// A step of the post's tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tuned {
    gateway: Gateway,
    /// The share of the CPU that is left for others, where it polls.
    user_frac: u32,
    /// The post's megabytes a second after it, if it has such a step.
    post_mb_per_s: Option<u32>,
}

const fn tuned(gateway: Gateway, user_frac: u32, post_mb_per_s: Option<u32>) -> Tuned {
    Tuned { gateway, user_frac, post_mb_per_s }
}

/// In the post's order, which began with polling; behind it the same without.
const STEPS: [Tuned; 6] = [
    tuned(Gateway::Polling(Rules::Flat), 50, Some(20)),
    tuned(Gateway::Polling(Rules::Flat), 30, Some(35)),
    tuned(Gateway::Polling(Rules::Skipto), 30, Some(40)),
    tuned(Gateway::Polling(Rules::Tree), 30, Some(55)),
    tuned(Gateway::Lane(Rules::Flat), 0, None),
    tuned(Gateway::Lane(Rules::Tree), 0, None),
];

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gateway.polls() {
            true => f.pad(&format!("{}, {} % for others", self.gateway, self.user_frac)),
            false => self.gateway.fmt(f),
        }
    }
}

/// The figures of one step in one round: by offer, the tenfold and the greatest last.
#[derive(Clone, Debug, Serialize)]
pub struct Ramp(Vec<Passed>);

impl Ramp {
    /// Offers more and more, and each for as long.
    fn climb(running: &Running, window: Duration) -> Result<Self> {
        let offer = |rate| running.offered(rate, BEFORE, window);
        let mut ramp = Self(OFFERS.map(Some).into_iter().map(&offer).collect::<Result<_>>()?);
        ramp.0.push(offer(Some(TENFOLD * ramp.peak()))?);
        ramp.0.push(offer(None)?);
        Ok(ramp)
    }

    fn tenfold(&self) -> &Passed {
        &self.0[OFFERS.len()]
    }

    /// The most packets a second that went through of any offer before the tenfold one.
    fn peak(&self) -> f64 {
        self.0[..OFFERS.len()].iter().map(|one| one.forwarded_per_s).fold(0.0, f64::max)
    }

    fn mb_per_s(&self) -> f64 {
        self.peak() * (FRAME_BYTES + TAG_BYTES) as f64 / 1e6
    }
}

/// All rounds.
pub struct Ramps(Rounds<Tuned, Ramp>);

impl Serialize for Ramps {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Goes up the ramp with all of them in rounds, each started anew for each round.
///
/// # Errors
/// When a gateway does not start or forward, or a signal asks for the end.
pub fn run(stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<Ramps> {
    let rounds = Rounds::take(CELL, STEPS.to_vec(), extent.rounds, interrupt, |place| {
        let Tuned { gateway, user_frac, .. } = STEPS[place];
        let asked = Asked { gateway, is_tagged: true, beside: Some(user_frac) };
        let running = Running::start(asked, &stage.corelane)?;
        Ramp::climb(&running, extent.timing.window)
    })?;
    Ok(Ramps(rounds))
}

/// The verdicts on the bars, for each that polls.
pub fn judge(ramps: &Ramps) -> Vec<Verdict> {
    let ramps = &ramps.0;
    let judged = |who: Tuned| {
        let of = |what: &str, figure: &dyn Fn(&Ramp) -> f64, bar| {
            Verdict::of_rounds(CELL, format!("{who}: {what}"), &ramps.values(who, figure)?, bar)
        };
        let points = |one: &Ramp| (one.tenfold().beside - f64::from(who.user_frac)).abs();
        [
            of("goodput of the tenfold offer / of the best", &|one| one.tenfold().forwarded_per_s / one.peak(), GOODPUT),
            of("tenfold offer / best goodput", &|one| one.tenfold().offered_per_s / one.peak(), OFFERED),
            of("share of who computes, points from what was set", &points, POINTS),
        ]
    };
    ramps.who.iter().filter(|who| who.gateway.polls()).flat_map(|&who| judged(who)).flatten().collect()
}

/// Words about the columns, which do not explain themselves.
const NOTE: &str = "MB/s: the best of the ramp, frames with their tags; network: the gateway's process and who receives for it; beside: a program that computes without end";

/// The medians over the rounds: the post's figures, ours, and what part of the post's ours are; then each offer.
pub fn table(ramps: &Ramps) -> String {
    let ramps = &ramps.0;
    let middle = |who, of: &dyn Fn(&Ramp) -> f64, digits| number(ramps.median(who, of), digits);
    let sum = ramps.who.iter().map(|&who| {
        let post = who.post_mb_per_s.map(f64::from);
        let ratio = post.and_then(|post| Some(ramps.median(who, Ramp::mb_per_s)? / post));
        vec![
            ("step", who.to_string()),
            ("post MB/s", number(post, 0)),
            ("ours MB/s", middle(who, &Ramp::mb_per_s, 1)),
            ("ratio", number(ratio, 2)),
            ("best/s", middle(who, &Ramp::peak, 0)),
            ("tenfold offer/s", middle(who, &|one| one.tenfold().offered_per_s, 0)),
            ("through of it/s", middle(who, &|one| one.tenfold().forwarded_per_s, 0)),
            ("by the best", middle(who, &|one| one.tenfold().forwarded_per_s / one.peak(), 3)),
            ("network %", middle(who, &|one| one.tenfold().network, 1)),
            ("beside %", middle(who, &|one| one.tenfold().beside, 1)),
        ]
    });
    let each = ramps.who.iter().flat_map(|&who| {
        (0..OFFERS.len() + 2).map(move |step| {
            let of = |figure: fn(&Passed) -> f64| ramps.median(who, |one| figure(&one.0[step]));
            vec![
                ("step", who.to_string()),
                ("offered/s", number(of(|one| one.offered_per_s), 0)),
                ("through/s", number(of(|one| one.forwarded_per_s), 0)),
                ("network %", number(of(|one| one.network), 1)),
                ("beside %", number(of(|one| one.beside), 1)),
            ]
        })
    });
    let [sum, each] = [sum.collect::<Vec<_>>(), each.collect()].map(|rows| tables::table(&rows));
    format!("{CELL}, {} rounds; {NOTE}\n{sum}\n{each}", ramps.rounds.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;

    fn ramps(best: f64, tenfold: [f64; 2], beside: f64) -> Ramps {
        let passed = |offered_per_s, forwarded_per_s| Passed { offered_per_s, forwarded_per_s, beside, ..Passed::default() };
        let mut steps = vec![passed(best, best); OFFERS.len()];
        steps.push(passed(tenfold[0], tenfold[1]));
        // What comes of more than that is judged by nobody.
        steps.push(passed(1e9, 1.0));
        Ramps(Rounds { cell: CELL, who: STEPS.to_vec(), rounds: vec![vec![Ramp(steps); STEPS.len()]; 5] })
    }

    #[test]
    fn only_who_polls_is_held_to_what_was_set() {
        let words = |ramps: &Ramps| judge(ramps).iter().map(|one| one.word).collect::<Vec<_>>();
        let met = words(&ramps(1e5, [11e5, 1e5], 33.0));
        assert_eq!(met.len(), 4 * 3);
        assert_eq!(met[3..6], [Word::Met; 3], "30 %");
        assert_eq!(met[..3], [Word::Met, Word::Met, Word::Missed], "50 %");
        assert_eq!(words(&ramps(1e5, [9e5, 9e4], 36.0))[3..6], [Word::Missed; 3]);
    }

    #[test]
    fn the_posts_figures_stand_beside_ours() {
        let text = table(&ramps(1e5, [11e5, 1e5], 33.0));
        let row = text.lines().find(|line| line.starts_with("lane, polls, tree")).expect("a row");
        assert!(row.contains(" 55 ") && row.contains(" 51.4 ") && row.contains(" 0.93 "), "{text}");
    }
}
