//! `cargo xtask bench scale`: whether a request costs a lane among many what it costs a lane alone, and in as many processes of one lane each, which share nothing but the
//! machine; and beside peers with as many threads.

use std::fmt;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use super::bars::{Limit, PARITY};
use super::build::build_peers;
use super::cells::wants;
use super::conduct::conduct;
use super::cpus::Sides;
use super::doubts;
use super::entrants::{Entrant, Peer};
use super::interrupt::Interrupt;
use super::load::{Asks, Carrier, Load, Page, Timing};
use super::manner::Manner;
use super::measure::measure;
use super::measured::Measured;
use super::report::Findings;
use super::rounds::{Extent, Rounds, Verdict};
use super::stage::{Ours, Running, Stage};
use super::tables::{self, number, percent};
use super::web;

/// Lanes of the servers that are compared, as far as the machine has CPUs for them and for their generators.
const LANES: [usize; 4] = [1, 2, 4, 8];

/// The most that a request may cost among several lanes, as a part of its cost alone.
const COST: Limit = Limit::AtMost(1.1);
/// The least that a lane answers among several, as a part of what it answers alone.
const RATE: Limit = Limit::AtLeast(0.9);

/// Bytes of the file that is asked for.
const FILE: usize = 4 << 10;

/// A load, and who is put under it beside Corelane.
struct Cell {
    name: &'static str,
    /// For each lane.
    load: Load,
    peer: Peer,
}

const CELLS: [Cell; 3] = [
    Cell { name: "scale-echo-64-d16", load: Load { asks: Asks::Echo, bytes: 64, depth: 16, ..FILES }, peer: Peer::Tokio },
    Cell { name: "scale-http-4096-d1", load: FILES, peer: Peer::H2o },
    Cell { name: "scale-http-4096-new", load: Load { asks: Asks::Get(Page::FileAnew), ..FILES }, peer: Peer::H2o },
];

const FILES: Load =
    Load { asks: Asks::Get(Page::File), transport: Carrier::Tcp, bytes: FILE, connections: 64, depth: 1, spin: false };

/// A server with so many lanes, or threads; or as many servers of one lane each, which share nothing but the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Contestant {
    entrant: Entrant,
    lanes: usize,
    is_apart: bool,
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.is_apart, self.entrant.is_corelane()) {
            (true, _) => "process",
            (false, true) => "lane",
            (false, false) => "thread",
        };
        let several = match (self.lanes, self.is_apart) {
            (1, _) => "",
            (_, true) => "es",
            (_, false) => "s",
        };
        write!(f, "{}, {} {what}{several}", self.entrant, self.lanes)
    }
}

/// One of them in one round; of several servers all that they answered, and the longest that one took.
#[derive(Clone, Debug, Serialize)]
struct Sample {
    lanes: usize,
    cpu_us_per_request: f64,
    requests_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    /// Of one CPU, as all these.
    server_load: f64,
    generator_load: f64,
    doubts: Vec<String>,
}

impl Sample {
    fn of(parts: &[Measured], lanes: usize) -> Self {
        let sum = |of: &dyn Fn(&Measured) -> f64| parts.iter().map(of).sum::<f64>();
        let most = |of: &dyn Fn(&Measured) -> f64| parts.iter().map(of).fold(0.0, f64::max);
        let requests_per_s = sum(&|part| part.sample.requests_per_s);
        let cpu_us_per_s = sum(&|part| part.sample.requests_per_s * part.cpu_us_per_request());
        Self {
            lanes,
            cpu_us_per_request: cpu_us_per_s / requests_per_s,
            requests_per_s,
            p50_us: most(&|part| part.sample.p50_us),
            p99_us: most(&|part| part.sample.p99_us),
            server_load: sum(&|part| part.sample.server_load),
            generator_load: sum(&|part| part.sample.generator_load),
            doubts: parts.iter().flat_map(|part| part.sample.doubts.clone()).collect(),
        }
    }

    fn rate_of_a_lane(&self) -> f64 {
        self.requests_per_s / self.lanes as f64
    }
}

/// The cells and the manner of a measurement.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
    /// One cell alone; may be given again.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = PossibleValuesParser::new(CELLS.each_ref().map(|cell| cell.name)))]
    only: Vec<String>,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When the machine has fewer than four CPUs, or a server cannot be built or started, or answers wrongly. h2o that is not installed is left out, by name.
    pub fn run(&self) -> Result<()> {
        Sides::of(LANES[1]).context("one lane cannot be compared with itself")?;
        conduct("scale", &self.manner, &Ours::ALONE, build_peers, |stage, extent, interrupt| {
            self.measure(stage, extent, interrupt)
        })
    }

    fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        stage.web = Some(web::Folder::with_files(&[FILE])?);
        let sides: Vec<Sides> = LANES.into_iter().map_while(|lanes| Sides::of(lanes).ok()).collect();
        let mut findings = Findings::default();
        let absent = web::missing(Peer::H2o);
        if let Some(why) = &absent {
            findings.leave_out(format!("{}: {why}", Peer::H2o));
        }
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let peer = (cell.peer != Peer::H2o || absent.is_none()).then_some(Entrant::Peer(cell.peer));
            let rounds = take(cell, peer, &sides, stage, extent, interrupt)?;
            findings.show(&table(&rounds), &rounds, judge(&rounds, peer))?;
        }
        findings.sides =
            Some(format!("servers of {} CPUs and generators of as many, a lane or a thread on each", counts(&sides)));
        Ok(findings)
    }
}

fn counts(sides: &[Sides]) -> String {
    sides.iter().map(|sides| sides.server.len().to_string()).collect::<Vec<_>>().join(", ")
}

/// Starts all, and measures one after the other in each round; those that nobody asks cost nothing meanwhile.
fn take(
    cell: &Cell,
    peer: Option<Entrant>,
    sides: &[Sides],
    stage: &mut Stage,
    extent: Extent,
    interrupt: &Interrupt,
) -> Result<Rounds<Contestant, Sample>> {
    let mut who = Vec::new();
    let mut running: Vec<Vec<Running>> = Vec::new();
    for sides in sides {
        let lanes = sides.server.len();
        let together = [Some(Entrant::Corelane), peer].into_iter().flatten().map(|entrant| (entrant, vec![sides.clone()], false));
        let apart = (lanes > 1).then(|| (Entrant::Corelane, sides.apart(), true));
        for (entrant, sides, is_apart) in together.chain(apart) {
            who.push(Contestant { entrant, lanes, is_apart });
            running.push(sides.into_iter().map(|sides| start(cell, entrant, sides, stage)).collect::<Result<_>>()?);
        }
    }
    Rounds::take(cell.name, who, extent.rounds, interrupt, |place| {
        let parts = measure_all(cell, &stage.corelane, &running[place], extent.timing)?;
        Ok(Sample::of(&parts, running[place].iter().map(|running| running.sides.server.len()).sum()))
    })
}

fn start(cell: &Cell, entrant: Entrant, sides: Sides, stage: &mut Stage) -> Result<Running> {
    stage.take(sides);
    stage.start(entrant, cell.load.asks, cell.load.transport)
}

/// Loads all of them at once, each by a generator of its own.
fn measure_all(cell: &Cell, generator: &Path, servers: &[Running], timing: Timing) -> Result<Vec<Measured>> {
    let measure = |running: &Running| {
        let load = Load { connections: cell.load.connections * running.sides.server.len(), ..cell.load };
        measure(generator, load, running, None, timing)
    };
    thread::scope(|scope| {
        let all: Vec<_> = servers.iter().map(|running| scope.spawn(move || measure(running))).collect();
        // reason: a measurement fails by its result.
        all.into_iter().map(|one| one.join().expect("no panic")).collect()
    })
}

/// The most lanes against one, against as many processes, and against as many threads of the peer; fewer are shown.
fn judge(rounds: &Rounds<Contestant, Sample>, peer: Option<Entrant>) -> Vec<Verdict> {
    let cost = |sample: &Sample| sample.cpu_us_per_request;
    let lanes = rounds.who.iter().map(|who| who.lanes).max().unwrap_or(1);
    let most = Contestant { entrant: Entrant::Corelane, lanes, is_apart: false };
    let (alone, apart) = (Contestant { lanes: 1, ..most }, Contestant { is_apart: true, ..most });
    let by = |other, limit| rounds.judge(most, other, "CPU per request", cost, limit);
    let rate = rounds.judge(most, alone, "requests per second and lane", Sample::rate_of_a_lane, RATE);
    let of_peer = |entrant| by(Contestant { entrant, ..most }, Limit::AtMost(PARITY));
    [by(alone, COST), rate, by(apart, Limit::AtMost(PARITY)), peer.and_then(of_peer)].into_iter().flatten().collect()
}

fn table(rounds: &Rounds<Contestant, Sample>) -> String {
    let columns = |_, who| {
        let middle = |of: &dyn Fn(&Sample) -> f64| rounds.median(who, of);
        vec![
            ("CPU us/req", number(middle(&|sample| sample.cpu_us_per_request), 3)),
            ("req/s", number(middle(&|sample| sample.requests_per_s), 0)),
            ("req/s and lane", number(middle(&Sample::rate_of_a_lane), 0)),
            ("p50 us", number(middle(&|sample| sample.p50_us), 0)),
            ("p99 us", number(middle(&|sample| sample.p99_us), 0)),
            ("server CPU", percent(middle(&|sample| sample.server_load))),
            ("gen. CPU", percent(middle(&|sample| sample.generator_load))),
        ]
    };
    let samples = rounds.rounds.iter().flatten().map(|sample| sample.doubts.as_slice());
    tables::of_rounds(rounds, "server", columns) + &doubts::tally(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;
    use crate::generator;

    const TOKIO: Entrant = Entrant::Peer(Peer::Tokio);

    fn measured(cpu_us: f64, rate: f64) -> Measured {
        let sample = generator::Sample {
            cpu_us_per_request: cpu_us,
            requests_per_s: rate,
            server_load: 0.5,
            p50_us: 10.0 * cpu_us,
            ..generator::Sample::default()
        };
        Measured { sample, softirq_us_per_request: None, machine_us_per_request: None, counts: None }
    }

    fn rounds() -> Rounds<Contestant, Sample> {
        let who = [(Entrant::Corelane, 1), (TOKIO, 1), (Entrant::Corelane, 2), (TOKIO, 2)];
        let mut who = who.map(|(entrant, lanes)| Contestant { entrant, lanes, is_apart: false }).to_vec();
        who.push(Contestant { is_apart: true, ..who[2] });
        let one = |lanes, cpu_us, rate| Sample::of(&[measured(cpu_us, rate)], lanes);
        let apart = Sample::of(&[measured(2.0, 60.0), measured(2.5, 60.0)], 2);
        let round = vec![one(1, 2.0, 100.0), one(1, 2.0, 100.0), one(2, 2.1, 160.0), one(2, 3.0, 120.0), apart];
        Rounds { rounds: vec![round; 3], ..Rounds::new("a-cell", who) }
    }

    #[test]
    fn several_servers_are_one_with_all_their_lanes() {
        let all = Sample::of(&[measured(2.0, 300.0), measured(4.0, 100.0)], 2);
        assert_eq!((all.cpu_us_per_request, all.requests_per_s, all.rate_of_a_lane()), (2.5, 400.0, 200.0));
        assert_eq!((all.p50_us, all.server_load), (40.0, 1.0));
    }

    #[test]
    fn several_lanes_are_held_against_one_and_against_processes_and_the_most_against_the_peer() {
        let verdicts = judge(&rounds(), Some(TOKIO));
        let words: Vec<_> = verdicts.iter().map(|verdict| (verdict.what.as_str(), verdict.value, verdict.word)).collect();
        let expected = [
            ("corelane, 2 lanes / corelane, 1 lane, CPU per request", 1.05, Word::Met),
            ("corelane, 2 lanes / corelane, 1 lane, requests per second and lane", 0.8, Word::Missed),
            ("corelane, 2 lanes / corelane, 2 processes, CPU per request", 2.1 / 2.25, Word::Met),
            ("corelane, 2 lanes / tokio, 2 threads, CPU per request", 0.7, Word::Met),
        ];
        assert_eq!(words.len(), expected.len());
        for ((what, value, word), expected) in words.into_iter().zip(expected) {
            assert_eq!((what, word), (expected.0, expected.2));
            assert!((value - expected.1).abs() < 1e-9, "{what}: {value}");
        }
        assert_eq!(judge(&rounds(), None).len(), 3);
    }

    #[test]
    fn a_row_tells_what_all_lanes_answer_and_what_each_does() {
        let table = table(&rounds());
        let words: Vec<_> = table.lines().nth(4).expect("a row").split_whitespace().collect();
        assert_eq!(words[..6], ["corelane,", "2", "lanes", "2.100", "160", "80"]);
    }
}
