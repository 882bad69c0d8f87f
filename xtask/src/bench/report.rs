//! What is printed, and what is written for machines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use corelane_load::stats::median;
use serde::Serialize;

use super::attack;
use super::bars::Word;
use super::contention;
use super::counts::Counts;
use super::cpus::{GENERATOR_CPU, SERVER_CPU};
use super::doubts;
use super::event;
use super::host::Host;
use super::idle::IdleOutcome;
use super::load::{Asks, Load};
use super::open_loop::OpenOutcome;
use super::packet;
use super::rounds::{CellResult, Extent, Measured, Verdict};
use super::stage::Driver;

/// All of a run, as it is written to the JSON file.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it was taken.
    pub host: Host,
    /// Time that the host took from this machine during the run.
    pub stolen_ms: u64,
    /// How long the run took.
    pub took_s: f64,
    /// The driver that was asked for.
    pub driver: Driver,
    /// The other build of Corelane that took part.
    pub beside: Option<PathBuf>,
    /// The generator's driver.
    pub generator_driver: &'static str,
    /// How much was measured.
    pub extent: Extent,
    /// What was found.
    #[serde(flatten)]
    pub findings: Findings,
}

/// What the cells of a subject showed.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// The cells in rounds.
    pub cells: Vec<CellResult>,
    /// The idle cell.
    pub idle: Vec<IdleOutcome>,
    /// Peers that did not take part, and why.
    pub left_out: Vec<String>,
    /// The open loop.
    pub open_loop: Option<OpenOutcome>,
    /// Waits for locks, by round: with steering, and without.
    pub contentions: Vec<[contention::Sample; 2]>,
    /// The cells of events.
    pub events: Vec<event::CellRounds>,
    /// The cells of echoes over frames.
    pub packets: Vec<packet::CellRounds>,
    /// The flood of frames.
    pub flood: Option<packet::Floods>,
    /// Lines of programs that count nanoseconds.
    pub nanoseconds: Vec<String>,
    /// Exact counts of instructions.
    pub instructions: Vec<event::Count>,
    /// What honest clients met under attack.
    pub attacks: Vec<attack::Sample>,
    /// Every verdict, those of the cells included.
    pub verdicts: Vec<Verdict>,
}

const HEADS: &[&str] = &[
    "server",
    "driver",
    "buffer",
    "lanes",
    "bytes",
    "conns",
    "depth",
    "CPU us/req",
    "ksoftirqd",
    "gen. us/req",
    "req/s",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "max us",
    "lost",
    "server CPU",
    "gen. CPU",
    "sends/req",
    "recvs/req",
    "seen/req",
    "B/send",
    "B/recv",
    "idle ms/s",
];

const IDLE_HEADS: &[&str] = &["server", "driver", "lanes", "conns", "RSS MiB", "RSS B/conn", "idle CPU ms/s", "opening CPU us"];

const OPEN_HEADS: &[&str] = &[
    "server",
    "saturation/s",
    "offered/s",
    "achieved/s",
    "lag p50 us",
    "lag p99 us",
    "p50 us",
    "p99 us",
    "CPU us/req",
    "server CPU",
    "stolen",
];

/// What the columns do not say of themselves.
const NOTES: &str = "buffer: what a receive is into; of datagrams every server asks for queues of 4 MiB each way, of streams for none\n\
    CPU us/req: the server's threads, and beside them ksoftirqd of their CPU, whose part is shown; - where it cannot be seen\n\
    verdict: met where the whole interval keeps the bar, MISSED where none of it does, open else; the rounds are as many as were asked for\n";

const VERDICT_HEADS: &[&str] = &["cell", "figure", "value", "90 % interval", "bar", "rounds", "verdict"];

/// The table of one cell: of every figure the median over the rounds, of the longest latency the longest, of what was
/// lost the sum.
pub fn cell_table(outcome: &CellResult) -> String {
    let rows = (0..outcome.contenders.len()).map(|index| row(outcome, index));
    let title = format!("{}, {} rounds", outcome.cell, outcome.rounds.len());
    let samples = outcome.rounds.iter().flatten().map(|part| part.sample.doubts.as_slice());
    format!("{title}\n{}{}", table(HEADS, &rows.collect::<Vec<_>>()), doubts::tally(samples))
}

/// The table of the idle cell.
pub fn idle_table(cell: &str, outcomes: &[IdleOutcome]) -> String {
    let row = |outcome: &IdleOutcome| {
        vec![
            outcome.name.clone(),
            outcome.driver.clone(),
            "1".to_owned(),
            outcome.connections.to_string(),
            format!("{:.1}", outcome.rss_bytes as f64 / f64::from(1 << 20)),
            format!("{:.0}", outcome.rss_bytes_per_connection),
            format!("{:.2}", outcome.idle_cpu_ms_per_s),
            format!("{:.1}", outcome.opening_cpu_us),
        ]
    };
    let samples = outcomes.iter().map(|outcome| outcome.doubts.as_slice());
    format!("{cell}\n{}{}", table(IDLE_HEADS, &outcomes.iter().map(row).collect::<Vec<_>>()), doubts::tally(samples))
}

/// The table of the open loop.
pub fn open_table(cell: &str, outcome: &OpenOutcome) -> String {
    let row = vec![
        outcome.name.clone(),
        format!("{:.0}", outcome.saturation_per_s),
        format!("{:.1}", outcome.offered_per_s),
        format!("{:.1}", outcome.achieved_per_s),
        number(Some(outcome.lag_p50_us), 1),
        number(Some(outcome.lag_p99_us), 1),
        number(Some(outcome.p50_us), 0),
        number(Some(outcome.p99_us), 0),
        number(Some(outcome.cpu_us_per_request), 3),
        percent(Some(outcome.server_load)),
        percent(Some(outcome.stolen)),
    ];
    format!("{cell}\n{}{}", table(OPEN_HEADS, &[row]), doubts::tally([outcome.doubts.as_slice()].into_iter()))
}

/// The table of all verdicts, and lines about the generator and the host.
pub fn summary(report: &Report) -> String {
    let verdicts = &report.findings.verdicts;
    let count = |word| verdicts.iter().filter(|verdict| verdict.word == word).count();
    let rows: Vec<_> = verdicts.iter().map(verdict_row).collect();
    let host = &report.host;
    let left_out: String = report.findings.left_out.iter().map(|peer| format!("left out: {peer}\n")).collect();
    format!(
        "{}\n{left_out}servers on CPU {SERVER_CPU}; generator: corelane load, one lane on CPU {GENERATOR_CPU}, {}\n\
        {NOTES}{} of {} bars met, {} missed, {} open; Linux {}, {} x {}, {}; {} ms stolen in {:.0} s\n",
        table(VERDICT_HEADS, &rows),
        report.generator_driver,
        count(Word::Met),
        rows.len(),
        count(Word::Missed),
        count(Word::Open),
        host.kernel,
        host.cpus,
        host.cpu,
        host.congestion_control,
        report.stolen_ms,
        report.took_s,
    )
}

/// Writes the whole report to `path`, making its folder.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let text = serde_json::to_string_pretty(report)?;
    fs::write(path, text + "\n").with_context(|| path.display().to_string())
}

fn row(outcome: &CellResult, index: usize) -> Vec<String> {
    let contender = &outcome.contenders[index];
    let load = &contender.load;
    let parts: Vec<&Measured> = outcome.rounds.iter().map(|round| &round[index]).collect();
    let mut row = vec![
        contender.name.clone(),
        contender.driver.clone(),
        contender.buffer.clone(),
        "1".to_owned(),
        load.bytes.to_string(),
        load.connections.to_string(),
        load.depth.to_string(),
    ];
    row.extend(timed_columns(&parts));
    row.extend(counted_columns(load, &parts));
    row.push(number(contender.idle_cpu_ms_per_s, 2));
    row
}

fn timed_columns(parts: &[&Measured]) -> Vec<String> {
    let middle = |of: fn(&Measured) -> f64| median(&parts.iter().map(|part| of(part)).collect::<Vec<_>>());
    let max_us = parts.iter().map(|part| part.sample.max_us).reduce(f64::max);
    vec![
        number(middle(Measured::cpu_us_per_request), 3),
        number(median(&parts.iter().filter_map(|part| part.softirq_us_per_request).collect::<Vec<_>>()), 3),
        number(middle(|part| part.sample.generator_us_per_request), 3),
        number(middle(|part| part.sample.requests_per_s), 0),
        number(middle(|part| part.sample.p50_us), 0),
        number(middle(|part| part.sample.p99_us), 0),
        number(middle(|part| part.sample.p999_us), 0),
        number(max_us, 0),
        parts.iter().map(|part| part.sample.lost).sum::<u64>().to_string(),
        percent(middle(|part| part.sample.server_load)),
        percent(middle(|part| part.sample.generator_load)),
    ]
}

/// Exact counts, by request that reached the server.
fn counted_columns(load: &Load, parts: &[&Measured]) -> Vec<String> {
    let middle = |of: &dyn Fn(&Counts, f64) -> Option<f64>| {
        let value = |part: &&Measured| {
            let counts = part.counts.as_ref()?;
            let requests = match load.asks {
                Asks::Get(_) => counts.requests?,
                _ => counts.bytes_received? / load.bytes as f64,
            };
            of(counts, requests)
        };
        median(&parts.iter().filter_map(value).collect::<Vec<_>>())
    };
    vec![
        number(middle(&|counts, requests| Some(counts.sends? / requests)), 4),
        number(middle(&|counts, requests| Some(counts.receives? / requests)), 4),
        number(middle(&|counts, requests| Some(counts.requests? / requests)), 4),
        number(middle(&|counts, _| Some(counts.bytes_sent? / counts.sends?)), 0),
        number(middle(&|counts, _| Some(counts.bytes_received? / counts.receives?)), 0),
    ]
}

fn verdict_row(verdict: &Verdict) -> Vec<String> {
    vec![
        verdict.cell.to_owned(),
        verdict.what.clone(),
        format!("{:.3}", verdict.value),
        verdict.interval.map_or_else(dash, |[low, high]| format!("{low:.3} to {high:.3}")),
        verdict.bar.to_string(),
        verdict.rounds.to_string(),
        verdict.word.to_string(),
    ]
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.filter(|value| value.is_finite()).map_or_else(dash, |value| format!("{value:.digits$}"))
}

fn percent(share: Option<f64>) -> String {
    share.filter(|share| share.is_finite()).map_or_else(dash, |share| format!("{:.0} %", share * 100.0))
}

fn dash() -> String {
    "-".to_owned()
}

/// Lines of aligned columns: the first to the left, the others to the right.
fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ") + "\n"
    };
    let head = line(&mut heads.iter().copied());
    rows.iter().map(|row| line(&mut row.iter().map(String::as_str))).fold(head, |all, line| all + &line)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::bars::Limit;
    use super::super::generator::{self, Sample};
    use super::super::load::{Asks, Carrier, Timing};
    use super::super::rounds::Contender;
    use super::*;

    fn measured(cpu_us: f64, max_us: f64, counts: Option<Counts>) -> Measured {
        let sample = Sample {
            requests: 90,
            lost: 2,
            window_s: 1.0,
            cpu_us_per_request: cpu_us,
            generator_us_per_request: 1.5,
            requests_per_s: 90.0,
            server_load: 0.5,
            generator_load: 0.25,
            p50_us: 10.0,
            p99_us: 20.0,
            p999_us: 30.0,
            max_us,
            doubts: if max_us > 100.0 { vec![format!("waited {max_us} us")] } else { Vec::new() },
        };
        Measured { sample, softirq_us_per_request: Some(0.25), counts }
    }

    fn outcome() -> CellResult {
        let counts = Counts { sends: Some(25.0), bytes_sent: Some(6_400.0), bytes_received: Some(6_400.0), ..Counts::default() };
        let load = Load { asks: Asks::Echo, transport: Carrier::Tcp, bytes: 64, connections: 7, depth: 3, spin: false };
        let contender = |name: &str| Contender {
            name: name.to_owned(),
            driver: "epoll".to_owned(),
            buffer: "16K/conn".to_owned(),
            load,
            idle_cpu_ms_per_s: None,
        };
        CellResult {
            cell: "a-cell",
            contenders: vec![contender("one"), contender("two")],
            rounds: vec![
                vec![measured(3.0, 500.0, Some(counts)), measured(1.0, 1.0, None)],
                vec![measured(1.0, 900.0, Some(counts)), measured(1.0, 1.0, None)],
                vec![measured(2.0, 100.0, Some(counts)), measured(1.0, 1.0, None)],
            ],
            verdicts: Vec::new(),
        }
    }

    fn words(table: &str, line: usize) -> Vec<&str> {
        table.lines().nth(line).expect("the line").split_whitespace().collect()
    }

    #[test]
    fn a_row_holds_medians_the_longest_latency_and_all_that_was_lost() {
        let table = cell_table(&outcome());
        let expected = "one epoll 16K/conn 1 64 7 3 2.250 0.250 1.500 90 10 20 30 900 6 50 % 25 % 0.2500 - - 256 - -";
        assert_eq!(words(&table, 2).join(" "), expected);
        assert!(words(&table, 3).join(" ").ends_with("25 % - - - - - -"));
        assert_eq!(table.lines().last(), Some("2 of 6 samples: waited N us"));
    }

    #[test]
    fn an_open_loop_is_a_row_with_what_was_stolen() {
        let outcome = OpenOutcome {
            name: "one".to_owned(),
            saturation_per_s: 2_000.0,
            offered_per_s: 1_000.0,
            achieved_per_s: 999.5,
            lag_p50_us: 1.25,
            lag_p99_us: f64::NAN,
            p50_us: 20.0,
            p99_us: 30.0,
            cpu_us_per_request: 0.5,
            server_load: 0.25,
            stolen: 0.031,
            doubts: vec!["late".to_owned()],
        };
        let table = open_table("a-cell", &outcome);
        assert_eq!(words(&table, 2).join(" "), "one 2000 1000.0 999.5 1.2 - 20 30 0.500 25 % 3 %");
        assert_eq!(table.lines().last(), Some("1 of 1 samples: late"));
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".to_owned(), "12345".to_owned()], vec!["bcd".to_owned(), "1".to_owned()]];
        assert_eq!(table(&["x", "y"], &rows), "x        y\na    12345\nbcd      1\n");
    }

    #[test]
    fn a_verdict_is_one_word() {
        let verdict = |word| Verdict {
            cell: "a-cell",
            what: "a / b".to_owned(),
            value: 0.9,
            interval: Some([0.8, 1.1]),
            rounds: 40,
            bar: Limit::AtLeast(0.95),
            word,
        };
        let last = |word| verdict_row(&verdict(word)).pop().expect("a verdict");
        assert_eq!([Word::Met, Word::Missed, Word::Open].map(last), ["met", "MISSED", "open"]);
        assert_eq!(verdict_row(&verdict(Word::Open))[2..6], ["0.900", "0.800 to 1.100", "at least 0.95", "40"]);
    }

    #[test]
    fn the_written_file_keeps_every_raw_round() {
        let timing = Timing { warm_up: Duration::from_millis(200), window: Duration::from_millis(800) };
        let report = Report {
            host: Host::read(),
            stolen_ms: 1,
            took_s: 2.0,
            driver: Driver::Auto,
            beside: None,
            generator_driver: generator::DRIVER,
            extent: Extent { timing, rounds: 3 },
            findings: Findings { cells: vec![outcome()], ..Findings::default() },
        };
        let folder = std::env::temp_dir().join(format!("bench-report-{}", std::process::id()));
        let path = folder.join("deeper/echo.json");
        write(&report, &path).expect("writes, and makes the folder");
        let text = fs::read_to_string(&path).expect("it is there");
        fs::remove_dir_all(&folder).expect("clean up");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let rounds = value["cells"][0]["rounds"].as_array().expect("rounds");
        let cpu = |round: &serde_json::Value| round[0]["cpu_us_per_request"].as_f64();
        assert_eq!(rounds.iter().filter_map(cpu).collect::<Vec<_>>(), [3.0, 1.0, 2.0]);
        assert_eq!(value["cells"][0]["rounds"][1][0]["doubts"][0], "waited 900 us");
        assert_eq!(value["extent"]["timing"]["window"], 0.8);
    }
}
