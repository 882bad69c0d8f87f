//! Paired rounds: every server is measured once a round, in an order that turns around, and ratios are taken within a
//! round, so that what the host does to all of them cancels out.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use corelane_load::stats::{Estimate, median};
use serde::Serialize;

use super::cells::{Bar, Cell, Divisor, Entrant, FRAMEWORKS, Figure};
use super::counts::Counts;
use super::interrupt::Interrupt;
use super::load::{self, Load, Sample, Timing};
use super::stage::{Running, Stage};

/// How long an idle server is watched.
const IDLE_WATCH: Duration = Duration::from_secs(2);

/// How much is measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Extent {
    /// Lengths of one measurement.
    pub timing: Timing,
    /// Rounds to begin with.
    pub rounds: usize,
    /// Rounds after which an interval that straddles its bar is left at that.
    pub most_rounds: usize,
}

/// One server's part of one round.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// What the generator saw.
    #[serde(flatten)]
    pub sample: Sample,
    /// What the server counted meanwhile, warm-up and draining included.
    pub counts: Option<Counts>,
}

/// A server of an outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// What it asks the operating system through.
    pub driver: String,
    /// CPU milliseconds a second without traffic, where the cell asks for it.
    pub idle_cpu_ms_per_s: Option<f64>,
}

/// All that one cell showed.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The cell's name.
    pub cell: &'static str,
    /// Its load.
    pub load: Load,
    /// Its servers.
    pub contenders: Vec<Contender>,
    /// By round, then in the order of the servers.
    pub rounds: Vec<Vec<Measured>>,
    /// What came of the bars.
    pub verdicts: Vec<Verdict>,
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
    pub bar: f64,
    /// Whether it is met.
    pub met: bool,
    /// Whether the interval leaves that open.
    pub open: bool,
}

/// Measures one cell.
///
/// # Errors
/// When a server does not start or answers wrongly, or when a signal asks for the end.
pub fn run(cell: &Cell, lineup: &[Entrant], stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Outcome> {
    let start = |&entrant: &Entrant| stage.start(entrant, cell.load.transport);
    let running: Vec<Running> = lineup.iter().map(start).collect::<Result<_>>()?;
    let mut rounds = Vec::new();
    let mut verdicts = Vec::new();
    while wanted(rounds.len(), &verdicts, extent) {
        rounds.push(round(cell, &running, rounds.len(), extent.timing, interrupt)?);
        verdicts = judge_all(cell, lineup, &rounds);
    }
    let contenders = running.iter().map(|running| contender(cell, running, interrupt)).collect::<Result<_>>()?;
    Ok(Outcome { cell: cell.name, load: cell.load, contenders, rounds, verdicts })
}

/// Whether another round is to follow `done`.
fn wanted(done: usize, verdicts: &[Verdict], extent: Extent) -> bool {
    let open = verdicts.iter().any(|verdict| verdict.open);
    done < extent.rounds || (open && done < extent.most_rounds)
}

fn round(cell: &Cell, running: &[Running], number: usize, timing: Timing, interrupt: &Interrupt) -> Result<Vec<Measured>> {
    let mut order: Vec<usize> = (0..running.len()).collect();
    if number % 2 == 1 {
        order.reverse();
    }
    let mut measured = Vec::with_capacity(running.len());
    for index in order {
        interrupt.check()?;
        let part = measure(cell.load, &running[index], timing)
            .with_context(|| format!("{}, {}, round {}", cell.name, running[index].entrant, number + 1))?;
        measured.push((index, part));
    }
    measured.sort_by_key(|&(index, _)| index);
    Ok(measured.into_iter().map(|(_, part)| part).collect())
}

fn measure(load: Load, running: &Running, timing: Timing) -> Result<Measured> {
    let before = running.counts();
    let sample = load::measure(load, &running.server, running.address, timing)?;
    let growth = before.and_then(|before| Some(running.counts()?.since(&before)));
    Ok(Measured { sample, counts: growth })
}

fn contender(cell: &Cell, running: &Running, interrupt: &Interrupt) -> Result<Contender> {
    let idle = if cell.idle_cpu { Some(idle_cpu_ms_per_s(running, interrupt)?) } else { None };
    Ok(Contender { name: running.entrant.to_string(), driver: running.driver.clone(), idle_cpu_ms_per_s: idle })
}

/// CPU milliseconds a second that a server uses while nothing is asked of it.
pub fn idle_cpu_ms_per_s(running: &Running, interrupt: &Interrupt) -> Result<f64> {
    interrupt.check()?;
    let (start, before) = (Instant::now(), running.server.cpu_ns()?);
    thread::sleep(IDLE_WATCH);
    let used_ns = running.server.cpu_ns()? - before;
    Ok(used_ns as f64 / 1e6 / start.elapsed().as_secs_f64())
}

/// The bars that can be judged with `lineup`; without Corelane its stand-in is judged in its place.
fn judge_all(cell: &Cell, lineup: &[Entrant], rounds: &[Vec<Measured>]) -> Vec<Verdict> {
    let stand_in = |bar: &Bar| match bar.of {
        Entrant::Corelane if !lineup.contains(&Entrant::Corelane) => Bar { of: cell.stand_in, ..*bar },
        _ => *bar,
    };
    let judged = |bar: Bar| judge(cell.name, bar, lineup, rounds);
    cell.bars.iter().map(stand_in).filter_map(judged).collect()
}

fn judge(cell: &'static str, bar: Bar, lineup: &[Entrant], rounds: &[Vec<Measured>]) -> Option<Verdict> {
    let divisor = match bar.by {
        Divisor::One(entrant) => entrant,
        Divisor::BestFramework => best_framework(lineup, rounds)?,
    };
    let place = |wanted: Entrant| lineup.iter().position(|&entrant| entrant == wanted);
    let (of, by) = (place(bar.of)?, place(divisor)?);
    if of == by {
        return None;
    }
    let ratio = |round: &Vec<Measured>| figure(bar.figure, &round[of]) / figure(bar.figure, &round[by]);
    let estimate = Estimate::of(&rounds.iter().map(ratio).collect::<Vec<_>>())?;
    let best = if bar.by == Divisor::BestFramework { " (best framework)" } else { "" };
    Some(Verdict {
        cell,
        what: format!("{} / {divisor}{best}, {}", bar.of, bar.figure),
        value: estimate.median,
        interval: Some([estimate.low, estimate.high]),
        rounds: rounds.len(),
        bar: bar.at_most,
        met: estimate.meets(bar.at_most),
        open: estimate.straddles(bar.at_most),
    })
}

/// The framework with the lowest median CPU per request.
fn best_framework(lineup: &[Entrant], rounds: &[Vec<Measured>]) -> Option<Entrant> {
    let cost = |index: usize| {
        let values: Vec<f64> = rounds.iter().map(|round| figure(Figure::Cpu, &round[index])).collect();
        median(&values)
    };
    let is_framework = |entrant: Entrant| FRAMEWORKS.iter().any(|&peer| entrant == Entrant::Peer(peer));
    let candidates = lineup.iter().enumerate().filter(|&(_, &entrant)| is_framework(entrant));
    let costs = candidates.filter_map(|(index, &entrant)| Some((cost(index)?, entrant)));
    costs.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, entrant)| entrant)
}

fn figure(figure: Figure, measured: &Measured) -> f64 {
    match figure {
        Figure::Cpu => measured.sample.cpu_us_per_request,
        Figure::MedianLatency => measured.sample.p50_us,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::{CELLS, Peer};
    use super::*;

    const LINEUP: [Entrant; 4] =
        [Entrant::Corelane, Entrant::Peer(Peer::Tokio), Entrant::Peer(Peer::Compio), Entrant::Peer(Peer::Monoio)];

    fn measured(cpu_us: f64) -> Measured {
        let sample = Sample {
            requests: 1,
            lost: 0,
            requests_in_all: 1,
            window_s: 1.0,
            cpu_us_per_request: cpu_us,
            requests_per_s: 1.0,
            server_load: 1.0,
            generator_load: 1.0,
            p50_us: 10.0 * cpu_us,
            p99_us: 1.0,
            p999_us: 1.0,
            max_us: 1.0,
        };
        Measured { sample, counts: None }
    }

    fn rounds(costs: &[[f64; 4]]) -> Vec<Vec<Measured>> {
        costs.iter().map(|round| round.iter().map(|&cost| measured(cost)).collect()).collect()
    }

    fn bar(by: Divisor, at_most: f64) -> Bar {
        Bar { figure: Figure::Cpu, of: Entrant::Corelane, by, at_most }
    }

    fn extent() -> Extent {
        let timing = Timing { warm_up: Duration::ZERO, window: Duration::ZERO };
        Extent { timing, rounds: 3, most_rounds: 5 }
    }

    fn verdict(open: bool) -> Verdict {
        let (what, interval) = (String::new(), None);
        Verdict { cell: "", what, value: 1.0, interval, rounds: 1, bar: 1.0, met: true, open }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The host halves its speed in the second round; the ratio does not notice.
        let rounds = rounds(&[[4.0, 5.0, 9.0, 9.0], [8.0, 10.0, 18.0, 18.0], [4.0, 5.0, 9.0, 9.0]]);
        let verdict = judge("x", bar(Divisor::One(LINEUP[1]), 0.9), &LINEUP, &rounds).expect("both ran");
        assert_eq!((verdict.value, verdict.interval), (0.8, Some([0.8, 0.8])));
        assert!(verdict.met && !verdict.open);
    }

    #[test]
    fn the_best_framework_is_the_one_with_the_lowest_median() {
        // compio is the cheapest once, monoio in the median.
        let rounds = rounds(&[[1.0, 5.0, 1.0, 3.0], [1.0, 5.0, 6.0, 3.0], [1.0, 5.0, 6.0, 4.0]]);
        assert_eq!(best_framework(&LINEUP, &rounds), Some(Entrant::Peer(Peer::Monoio)));
        assert_eq!(best_framework(&LINEUP[..1], &rounds), None);
        let verdict = judge("x", bar(Divisor::BestFramework, 0.3), &LINEUP, &rounds).expect("all ran");
        assert!(verdict.what.contains("monoio (best framework)"), "{}", verdict.what);
        assert!(!verdict.met);
    }

    #[test]
    fn without_corelane_its_stand_in_is_judged() {
        let lineup = [Entrant::Peer(Peer::Epoll), LINEUP[1], LINEUP[2], LINEUP[3]];
        let rounds = rounds(&[[2.0, 4.0, 4.0, 4.0]]);
        let cell = CELLS.iter().find(|cell| cell.name == "tcp-4096-c64-d16").expect("the cell");
        let verdicts = judge_all(cell, &lineup, &rounds);
        // Of its three bars one would compare the loop with itself, and one needs a second driver.
        assert_eq!(verdicts.len(), 1);
        assert_eq!(verdicts[0].value, 0.5);
        assert!(verdicts[0].what.starts_with("epoll / "), "{}", verdicts[0].what);
    }

    #[test]
    fn rounds_go_on_while_a_verdict_is_open_and_there_are_rounds_left() {
        assert!(wanted(0, &[], extent()));
        assert!(wanted(2, &[verdict(false)], extent()));
        assert!(!wanted(3, &[verdict(false)], extent()));
        assert!(wanted(3, &[verdict(false), verdict(true)], extent()));
        assert!(!wanted(5, &[verdict(true)], extent()));
    }
}
