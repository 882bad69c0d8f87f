//! Paired rounds: every server is measured once a round, in an order that turns around, and ratios are taken within a
//! round, so that what the host does to all of them cancels out.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use corelane_load::stats::{Estimate, median};
use serde::Serialize;

use super::bars::{Bar, Divisor, Figure, Limit, Word};
use super::cells::Cell;
use super::counts::Counts;
use super::entrants::Entrant;
use super::generator::{self, Sample};
use super::interrupt::Interrupt;
use super::load::{Load, Timing};
use super::softirq;
use super::stage::{Running, Stage};

/// How long an idle server is watched.
const IDLE_WATCH: Duration = Duration::from_secs(2);

/// How much is measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Extent {
    /// Lengths of one measurement.
    pub timing: Timing,
    /// Rounds of each cell, whatever they show.
    pub rounds: usize,
}

/// One server's part of one round.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// What the generator saw.
    #[serde(flatten)]
    pub sample: Sample,
    /// Processor time per answered request of the kernel's own thread of the server's CPU; `None` where it cannot be seen.
    pub softirq_us_per_request: Option<f64>,
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
    /// What it receives into.
    pub buffer: String,
    /// What it was loaded with.
    pub load: Load,
    /// CPU milliseconds a second without traffic, where the cell asks for it.
    pub idle_cpu_ms_per_s: Option<f64>,
}

/// All that one cell showed.
#[derive(Debug, Serialize)]
pub struct CellResult {
    /// The cell's name.
    pub cell: &'static str,
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
    pub bar: Limit,
    /// What came of it.
    pub word: Word,
}

impl Measured {
    /// What a request cost the server's CPU.
    pub fn cpu_us_per_request(&self) -> f64 {
        self.sample.cpu_us_per_request + self.softirq_us_per_request.unwrap_or(0.0)
    }
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

/// Measures one cell.
///
/// # Errors
/// When a server does not start or answers wrongly, or when a signal asks for the end.
pub fn run(cell: &Cell, lineup: &[Entrant], stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<CellResult> {
    let start = |&entrant: &Entrant| {
        let load = cell.load_of(entrant);
        stage.start(entrant, load.asks, load.transport)
    };
    let running: Vec<Running> = lineup.iter().map(start).collect::<Result<_>>()?;
    let rounds = (0..extent.rounds).map(|number| round(cell, stage, &running, number, extent.timing, interrupt));
    let rounds = rounds.collect::<Result<Vec<_>>>()?;
    let verdicts = judge_all(cell, lineup, &rounds);
    let contenders = running.iter().map(|running| contender(cell, running, interrupt)).collect::<Result<_>>()?;
    Ok(CellResult { cell: cell.name, contenders, rounds, verdicts })
}

fn round(
    cell: &Cell,
    stage: &Stage,
    running: &[Running],
    number: usize,
    timing: Timing,
    interrupt: &Interrupt,
) -> Result<Vec<Measured>> {
    let mut order: Vec<usize> = (0..running.len()).collect();
    if number % 2 == 1 {
        order.reverse();
    }
    let mut measured = Vec::with_capacity(running.len());
    for index in order {
        interrupt.check()?;
        let part = measure(stage, cell.load_of(running[index].entrant), &running[index], timing)
            .with_context(|| format!("{}, {}, round {}", cell.name, running[index].entrant, number + 1))?;
        measured.push((index, part));
    }
    measured.sort_by_key(|&(index, _)| index);
    Ok(measured.into_iter().map(|(_, part)| part).collect())
}

fn measure(stage: &Stage, load: Load, running: &Running, timing: Timing) -> Result<Measured> {
    let used_ns = || Ok::<_, anyhow::Error>((running.server.cpu_ns()?, stage.softirq_ns()));
    let counts = running.counts();
    let (server_ns, softirq_ns) = used_ns()?;
    let sample = generator::measure(&stage.corelane, load, running, timing)?;
    let (server_after_ns, softirq_after_ns) = used_ns()?;
    let counts = counts.and_then(|before| Some(running.counts()?.since(&before)));
    let softirq_us_per_request = softirq_ns
        .zip(softirq_after_ns)
        .map(|(before, after)| softirq::us_per_request(sample.cpu_us_per_request, server_after_ns - server_ns, after - before));
    Ok(Measured { sample, softirq_us_per_request, counts })
}

fn contender(cell: &Cell, running: &Running, interrupt: &Interrupt) -> Result<Contender> {
    let idle = if cell.idle_cpu { Some(idle_cpu_ms_per_s(running, interrupt)?) } else { None };
    Ok(Contender {
        name: running.entrant.to_string(),
        driver: running.driver.clone(),
        buffer: running.entrant.buffer(cell.load.transport),
        load: cell.load_of(running.entrant),
        idle_cpu_ms_per_s: idle,
    })
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
    let stand_in = |bar: Bar| match bar.of {
        Entrant::Corelane if !lineup.contains(&Entrant::Corelane) => Bar { of: cell.stand_in, ..bar },
        _ => bar,
    };
    let judged = |bar: Bar| judge(cell.name, bar, lineup, rounds);
    cell.all_bars().map(stand_in).filter_map(judged).collect()
}

fn judge(cell: &'static str, bar: Bar, lineup: &[Entrant], rounds: &[Vec<Measured>]) -> Option<Verdict> {
    let divisor = match bar.by {
        Divisor::Nothing => None,
        Divisor::One(entrant) => Some(entrant),
        Divisor::BestFramework => Some(cheapest(Entrant::is_framework, lineup, rounds)?),
        Divisor::BestLoop => Some(cheapest(Entrant::is_loop, lineup, rounds)?),
        Divisor::BestWebServer => Some(cheapest(Entrant::is_web_server, lineup, rounds)?),
    };
    if divisor == Some(bar.of) {
        return None;
    }
    let all = |entrant| figures(bar.figure, entrant, lineup, rounds);
    let (values, whose) = match divisor {
        None => (all(bar.of)?, String::new()),
        Some(by) => (ratios(&all(bar.of)?, &all(by)?), format!(" / {by}")),
    };
    let best = match bar.by {
        Divisor::BestFramework => " (best framework)",
        Divisor::BestLoop => " (best loop)",
        Divisor::BestWebServer => " (best web server)",
        Divisor::Nothing | Divisor::One(_) => "",
    };
    Verdict::of_rounds(cell, format!("{}{whose}{best}, {}", bar.of, bar.figure), &values, bar.limit)
}

/// A figure of one entrant, round by round; `None` if it does not take part.
fn figures(which: Figure, entrant: Entrant, lineup: &[Entrant], rounds: &[Vec<Measured>]) -> Option<Vec<f64>> {
    let place = lineup.iter().position(|&other| other == entrant)?;
    Some(rounds.iter().map(|round| figure(which, &round[place])).collect())
}

fn ratios(of: &[f64], by: &[f64]) -> Vec<f64> {
    of.iter().zip(by).map(|(of, by)| of / by).collect()
}

/// Who of those that are `among` them has the lowest median CPU per request.
fn cheapest(among: fn(Entrant) -> bool, lineup: &[Entrant], rounds: &[Vec<Measured>]) -> Option<Entrant> {
    let candidates = lineup.iter().copied().filter(|&entrant| among(entrant));
    let costs = candidates.filter_map(|entrant| Some((median(&figures(Figure::Cpu, entrant, lineup, rounds)?)?, entrant)));
    costs.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, entrant)| entrant)
}

fn figure(figure: Figure, measured: &Measured) -> f64 {
    match figure {
        Figure::Cpu => measured.cpu_us_per_request(),
        Figure::MedianLatency => measured.sample.p50_us,
        Figure::ServerLoad => measured.sample.server_load,
        Figure::GeneratorCost => measured.sample.generator_us_per_request / measured.sample.cpu_us_per_request,
        // What cannot be read is no number, and keeps no limit.
        Figure::SendsPerRequest => measured.counts.and_then(|counts| Some(counts.sends? / counts.requests?)).unwrap_or(f64::NAN),
        Figure::Rate => measured.sample.requests_per_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::{CELLS, GENERATOR_CELLS};
    use crate::entrants::Peer;

    const LINEUP: [Entrant; 4] =
        [Entrant::Corelane, Entrant::Peer(Peer::Tokio), Entrant::Peer(Peer::Compio), Entrant::Peer(Peer::Monoio)];

    fn measured(cpu_us: f64) -> Measured {
        let sample = Sample {
            cpu_us_per_request: cpu_us,
            generator_us_per_request: 6.0,
            server_load: 0.97,
            p50_us: 10.0 * cpu_us,
            ..Sample::default()
        };
        Measured { sample, softirq_us_per_request: None, counts: None }
    }

    fn rounds(costs: &[[f64; 4]]) -> Vec<Vec<Measured>> {
        costs.iter().map(|round| round.iter().map(|&cost| measured(cost)).collect()).collect()
    }

    fn bar(by: Divisor, at_most: f64) -> Bar {
        Bar { figure: Figure::Cpu, of: Entrant::Corelane, by, limit: Limit::AtMost(at_most) }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The host halves its speed in the second round; the ratio does not notice.
        let rounds = rounds(&[[4.0, 5.0, 9.0, 9.0], [8.0, 10.0, 18.0, 18.0], [4.0, 5.0, 9.0, 9.0]]);
        let verdict = judge("x", bar(Divisor::One(LINEUP[1]), 0.9), &LINEUP, &rounds).expect("both ran");
        assert_eq!((verdict.value, verdict.interval), (0.8, Some([0.8, 0.8])));
        assert_eq!(verdict.word, Word::Met);
    }

    #[test]
    fn the_generator_is_judged_by_itself() {
        let cell = &GENERATOR_CELLS[0];
        let rounds: Vec<Vec<Measured>> = [4.0, 5.0, 12.0].iter().map(|&cost| vec![measured(cost)]).collect();
        let [load, cost] = &judge_all(cell, cell.entrants, &rounds)[..] else { panic!("two bars") };
        assert_eq!((load.value, load.bar, load.word), (0.97, Limit::AtLeast(0.95), Word::Met));
        assert_eq!((cost.value, cost.bar, cost.word), (1.2, Limit::AtMost(1.2), Word::Open));
        assert!(load.what.starts_with("epoll, ") && cost.what.starts_with("epoll, "), "{} {}", load.what, cost.what);
    }

    #[test]
    fn the_best_framework_is_the_one_with_the_lowest_median() {
        // compio is the cheapest once, monoio in the median.
        let rounds = rounds(&[[1.0, 5.0, 1.0, 3.0], [1.0, 5.0, 6.0, 3.0], [1.0, 5.0, 6.0, 4.0]]);
        assert_eq!(cheapest(Entrant::is_framework, &LINEUP, &rounds), Some(Entrant::Peer(Peer::Monoio)));
        assert_eq!(cheapest(Entrant::is_framework, &LINEUP[..1], &rounds), None);
        let verdict = judge("x", bar(Divisor::BestFramework, 0.3), &LINEUP, &rounds).expect("all ran");
        assert!(verdict.what.contains("monoio (best framework)"), "{}", verdict.what);
        assert_eq!(verdict.word, Word::Open, "0.25 to 0.33");
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
    fn the_best_one_may_be_one_with_our_block_and_of_loops_it_is_a_loop() {
        let lineup =
            [Entrant::Corelane, Entrant::Peer(Peer::Tokio), Entrant::WithOurBlock(Peer::Tokio), Entrant::Peer(Peer::Udp)];
        let rounds = rounds(&[[1.0, 4.0, 2.0, 3.0]; 3]);
        assert_eq!(cheapest(Entrant::is_framework, &lineup, &rounds), Some(lineup[2]));
        let verdict = judge("x", bar(Divisor::BestLoop, 1.15), &lineup, &rounds).expect("both ran");
        assert!(verdict.what.starts_with("corelane / udp (best loop), "), "{}", verdict.what);
        assert_eq!(verdict.value, 1.0 / 3.0);
    }

    #[test]
    fn a_build_beside_is_what_the_new_one_is_divided_by() {
        let lineup = [Entrant::Corelane, Entrant::Beside, Entrant::Peer(Peer::Epoll), LINEUP[1]];
        let of = |old: f64| {
            let verdicts = judge_all(&CELLS[0], &lineup, &rounds(&[[2.1, old, 9.0, 9.0]; 3]));
            let verdict = verdicts.iter().find(|verdict| verdict.what.contains("beside")).expect("both builds ran");
            (verdict.what.clone(), verdict.bar, verdict.word)
        };
        let what = "corelane / corelane, the build beside, CPU per request".to_owned();
        assert_eq!(of(2.0), (what.clone(), Limit::AtMost(1.05), Word::Met));
        assert_eq!(of(1.9), (what, Limit::AtMost(1.05), Word::Missed));
        let alone = judge_all(&CELLS[0], &LINEUP, &rounds(&[[1.0; 4]; 3]));
        assert!(alone.iter().all(|verdict| !verdict.what.contains("beside")));
    }

    #[test]
    fn what_the_kernels_thread_did_for_a_server_is_the_servers_cost() {
        let cost = |softirq_us_per_request| figure(Figure::Cpu, &Measured { softirq_us_per_request, ..measured(2.0) });
        assert_eq!((cost(Some(0.5)), cost(Some(0.0)), cost(None)), (2.5, 2.0, 2.0));
        let own = Measured { softirq_us_per_request: Some(1.0), ..measured(2.0) };
        assert_eq!(figure(Figure::GeneratorCost, &own), 3.0, "lane against threads: the generator's has no such part");
    }
}
