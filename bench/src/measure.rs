//! One cell of servers under the load of the generator: measured in rounds, judged, and shown.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::bars::{Bar, Divisor, Figure};
use super::cells::Cell;
use super::entrants::Entrant;
use super::generator;
use super::interrupt::Interrupt;
use super::load::{Load, Timing};
use super::measured::{CellResult, Contender, Measured, NOTE, table};
use super::report::Findings;
use super::rounds::{Extent, Rounds, Verdict};
use super::softirq;
use super::stage::{Running, Stage};

/// How long an idle server is watched.
const IDLE_WATCH: Duration = Duration::from_secs(2);

/// Rounds in which the greatest rate of each server is found, of which a part is offered then.
const PEAK_ROUNDS: usize = 3;

/// The columns do not say that each server is offered a part of its own rate.
const PART_NOTE: &str =
    "-third: an open loop, in which each is offered a third of the rate that it reached as fast as it could\n";

/// Measures one cell, and shows it among the findings.
///
/// # Errors
/// When a server does not start or answers wrongly, or when a signal asks for the end.
pub fn measure_cell(
    cell: &Cell,
    lineup: &[Entrant],
    stage: &mut Stage,
    extent: Extent,
    interrupt: &Interrupt,
    findings: &mut Findings,
) -> Result<CellResult> {
    let start = |&entrant: &Entrant| {
        let load = cell.load_of(entrant);
        stage.start(entrant, load.asks, load.transport)
    };
    let running: Vec<Running> = lineup.iter().map(start).collect::<Result<_>>()?;
    let one = |place: usize, rate| measure(&stage.corelane, cell.load_of(lineup[place]), &running[place], rate, extent.timing);
    let rates = match cell.part {
        Some(part) => {
            let rounds = extent.rounds.min(PEAK_ROUNDS);
            let peaks = Rounds::take(cell.name, lineup.to_vec(), rounds, interrupt, |place| one(place, None))?;
            let peak = |who: &Entrant| peaks.median(*who, |measured: &Measured| measured.sample.requests_per_s);
            lineup.iter().map(|who| peak(who).map(|peak| part * peak)).collect()
        }
        None => vec![None; lineup.len()],
    };
    let rounds = Rounds::take(cell.name, lineup.to_vec(), extent.rounds, interrupt, |place| one(place, rates[place]))?;
    let contenders = running.iter().map(|running| contender(cell, running, interrupt)).collect::<Result<_>>()?;
    let found = CellResult { rounds, contenders };
    findings.note(NOTE);
    if cell.part.is_some() {
        findings.note(PART_NOTE);
    }
    findings.show(&table(&found), &found, judge_all(cell, &found.rounds))?;
    Ok(found)
}

/// Measures one server once, by this generator, at a rate or as fast as answers come.
///
/// # Errors
/// When it refuses, closes, stops answering or answers with wrong bytes.
pub fn measure(generator: &Path, load: Load, running: &Running, rate: Option<f64>, timing: Timing) -> Result<Measured> {
    let used_ns = || Ok::<_, anyhow::Error>((running.server.cpu_ns()?, running.softirq.cpu_ns()));
    let counts = running.counts();
    let (server_ns, softirq_ns) = used_ns()?;
    let sample = generator::measure(generator, load, running, rate, timing)?;
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
        driver: running.driver.clone(),
        buffer: running.entrant.buffer(cell.load.transport),
        load: cell.load_of(running.entrant),
        idle_cpu_ms_per_s: idle,
    })
}

/// CPU milliseconds a second that a server uses while nothing is asked of it.
fn idle_cpu_ms_per_s(running: &Running, interrupt: &Interrupt) -> Result<f64> {
    interrupt.check()?;
    let (start, before) = (Instant::now(), running.server.cpu_ns()?);
    thread::sleep(IDLE_WATCH);
    let used_ns = running.server.cpu_ns()? - before;
    Ok(used_ns as f64 / 1e6 / start.elapsed().as_secs_f64())
}

/// The bars that can be judged of who took part; without Corelane its stand-in is judged in its place.
fn judge_all(cell: &Cell, rounds: &Rounds<Entrant, Measured>) -> Vec<Verdict> {
    let stand_in = |bar: Bar| match bar.of {
        Entrant::Corelane if !rounds.who.contains(&Entrant::Corelane) => Bar { of: cell.stand_in, ..bar },
        _ => bar,
    };
    cell.all_bars().map(stand_in).filter_map(|bar| judge(bar, rounds)).collect()
}

fn judge(bar: Bar, rounds: &Rounds<Entrant, Measured>) -> Option<Verdict> {
    let (divisor, best) = match bar.by {
        Divisor::Nothing => (None, ""),
        Divisor::One(entrant) => (Some(entrant), ""),
        Divisor::BestFramework => (Some(cheapest(Entrant::is_framework, rounds)?), " (best framework)"),
        Divisor::BestLoop => (Some(cheapest(Entrant::is_loop, rounds)?), " (best loop)"),
        Divisor::BestWebServer => (Some(cheapest(Entrant::is_web_server, rounds)?), " (best web server)"),
        Divisor::BestProxy => (Some(cheapest(Entrant::is_proxy, rounds)?), " (best proxy)"),
    };
    let of = |measured: &Measured| figure(bar.figure, measured);
    let (values, whose) = match divisor {
        Some(by) if by == bar.of => return None,
        Some(by) => (rounds.ratios(bar.of, by, of)?, format!(" / {by}{best}")),
        None => (rounds.values(bar.of, of)?, String::new()),
    };
    Verdict::of_rounds(rounds.cell, format!("{}{whose}, {}", bar.of, bar.figure), &values, bar.limit)
}

/// The server `among` these that has the lowest median CPU per request.
fn cheapest(among: fn(Entrant) -> bool, rounds: &Rounds<Entrant, Measured>) -> Option<Entrant> {
    let candidates = rounds.who.iter().copied().filter(|&entrant| among(entrant));
    let costs = candidates.filter_map(|entrant| Some((rounds.median(entrant, Measured::cpu_us_per_request)?, entrant)));
    costs.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, entrant)| entrant)
}

fn figure(figure: Figure, measured: &Measured) -> f64 {
    match figure {
        Figure::Cpu => measured.cpu_us_per_request(),
        Figure::MedianLatency => measured.sample.p50_us,
        Figure::TailLatency => measured.sample.p99_us,
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
    use crate::bars::{Limit, Word};
    use crate::cells::{CELLS, GENERATOR_CELLS};
    use crate::entrants::Peer;
    use crate::generator::Sample;

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

    fn rounds(who: &[Entrant], costs: &[[f64; 4]]) -> Rounds<Entrant, Measured> {
        let rounds = costs.iter().map(|round| round.iter().take(who.len()).map(|&cost| measured(cost)).collect()).collect();
        Rounds { cell: "x", who: who.to_vec(), rounds }
    }

    fn bar(by: Divisor, at_most: f64) -> Bar {
        Bar { figure: Figure::Cpu, of: Entrant::Corelane, by, limit: Limit::AtMost(at_most) }
    }

    #[test]
    fn the_generator_is_judged_by_itself() {
        let cell = &GENERATOR_CELLS[0];
        let rounds = rounds(cell.entrants, &[4.0, 5.0, 12.0].map(|cost| [cost; 4]));
        let [load, cost] = &judge_all(cell, &rounds)[..] else { panic!("two bars") };
        assert_eq!((load.value, load.bar, load.word), (0.97, Limit::AtLeast(0.95), Word::Met));
        assert_eq!((cost.value, cost.bar, cost.word), (1.2, Limit::AtMost(1.2), Word::Open));
        assert!(load.what.starts_with("epoll, ") && cost.what.starts_with("epoll, "), "{} {}", load.what, cost.what);
    }

    #[test]
    fn the_best_framework_is_the_one_with_the_lowest_median() {
        // compio is the cheapest once, monoio in the median.
        let costs = [[1.0, 5.0, 1.0, 3.0], [1.0, 5.0, 6.0, 3.0], [1.0, 5.0, 6.0, 4.0]];
        assert_eq!(cheapest(Entrant::is_framework, &rounds(&LINEUP[..1], &costs)), None);
        let rounds = rounds(&LINEUP, &costs);
        assert_eq!(cheapest(Entrant::is_framework, &rounds), Some(Entrant::Peer(Peer::Monoio)));
        let verdict = judge(bar(Divisor::BestFramework, 0.3), &rounds).expect("all ran");
        assert!(verdict.what.contains("monoio (best framework)"), "{}", verdict.what);
        assert_eq!(verdict.word, Word::Open, "0.25 to 0.33");
    }

    #[test]
    fn without_corelane_its_stand_in_is_judged() {
        let lineup = [Entrant::Peer(Peer::Epoll), LINEUP[1], LINEUP[2], LINEUP[3]];
        let rounds = rounds(&lineup, &[[2.0, 4.0, 4.0, 4.0]]);
        let cell = CELLS.iter().find(|cell| cell.name == "tcp-4096-c64-d16").expect("the cell");
        let verdicts = judge_all(cell, &rounds);
        // Of its three bars one would compare the loop with itself, and one needs a second driver.
        assert_eq!(verdicts.len(), 1);
        assert_eq!(verdicts[0].value, 0.5);
        assert!(verdicts[0].what.starts_with("epoll / "), "{}", verdicts[0].what);
    }

    #[test]
    fn the_best_one_may_be_one_with_our_block_and_of_loops_it_is_a_loop() {
        let lineup =
            [Entrant::Corelane, Entrant::Peer(Peer::Tokio), Entrant::WithOurBlock(Peer::Tokio), Entrant::Peer(Peer::Udp)];
        let rounds = rounds(&lineup, &[[1.0, 4.0, 2.0, 3.0]; 3]);
        assert_eq!(cheapest(Entrant::is_framework, &rounds), Some(lineup[2]));
        let verdict = judge(bar(Divisor::BestLoop, 1.15), &rounds).expect("both ran");
        assert!(verdict.what.starts_with("corelane / udp (best loop), "), "{}", verdict.what);
        assert_eq!(verdict.value, 1.0 / 3.0);
    }

    #[test]
    fn a_build_beside_is_what_the_new_one_is_divided_by() {
        let lineup = [Entrant::Corelane, Entrant::Beside, Entrant::Peer(Peer::Epoll), LINEUP[1]];
        let of = |old: f64| {
            let verdicts = judge_all(&CELLS[0], &rounds(&lineup, &[[2.1, old, 9.0, 9.0]; 3]));
            let verdict = verdicts.iter().find(|verdict| verdict.what.contains("beside")).expect("both builds ran");
            (verdict.what.clone(), verdict.bar, verdict.word)
        };
        let what = "corelane / corelane, the build beside, CPU per request".to_owned();
        assert_eq!(of(2.0), (what.clone(), Limit::AtMost(1.05), Word::Met));
        assert_eq!(of(1.9), (what, Limit::AtMost(1.05), Word::Missed));
        let alone = judge_all(&CELLS[0], &rounds(&LINEUP, &[[1.0; 4]; 3]));
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
