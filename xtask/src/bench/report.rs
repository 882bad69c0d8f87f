//! What is printed, and what is written for machines.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::counts::Counts;
use super::idle::IdleOutcome;
use super::proc::Host;
use super::rounds::{Extent, Measured, Outcome, Verdict};
use super::stage::Driver;
use super::stats::median;

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
    /// How much was measured.
    pub extent: Extent,
    /// The paired cells.
    pub cells: Vec<Outcome>,
    /// The idle cell.
    pub idle: Vec<IdleOutcome>,
    /// Every verdict, those of the cells included.
    pub verdicts: Vec<Verdict>,
}

const HEADS: &[&str] = &[
    "server",
    "driver",
    "lanes",
    "bytes",
    "conns",
    "depth",
    "CPU us/req",
    "req/s",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "max us",
    "lost",
    "server",
    "generator",
    "sends/req",
    "recvs/req",
    "seen/req",
    "B/send",
    "B/recv",
    "idle ms/s",
];

const IDLE_HEADS: &[&str] = &[
    "server",
    "driver",
    "lanes",
    "conns",
    "RSS before MiB",
    "RSS B/conn",
    "idle CPU ms/s",
    "opening CPU us",
];

const VERDICT_HEADS: &[&str] = &[
    "cell",
    "figure",
    "value",
    "90 % interval",
    "bar",
    "rounds",
    "verdict",
];

/// The table of one cell: of every figure the median over the rounds, of the longest latency the longest, of what was
/// lost the sum.
pub fn cell_table(outcome: &Outcome) -> String {
    let rows = (0..outcome.contenders.len()).map(|index| row(outcome, index));
    let title = format!("{}, {} rounds", outcome.cell, outcome.rounds.len());
    format!("{title}\n{}", table(HEADS, &rows.collect::<Vec<_>>()))
}

/// The table of the idle cell.
pub fn idle_table(cell: &str, outcomes: &[IdleOutcome]) -> String {
    let row = |outcome: &IdleOutcome| {
        vec![
            outcome.name.clone(),
            outcome.driver.clone(),
            "1".to_owned(),
            outcome.connections.to_string(),
            format!(
                "{:.1}",
                outcome.rss_before_bytes as f64 / f64::from(1 << 20)
            ),
            format!("{:.0}", outcome.rss_bytes_per_connection),
            format!("{:.2}", outcome.idle_cpu_ms_per_s),
            format!("{:.1}", outcome.opening_cpu_us),
        ]
    };
    format!(
        "{cell}\n{}",
        table(IDLE_HEADS, &outcomes.iter().map(row).collect::<Vec<_>>())
    )
}

/// The table of all verdicts, and a line about the host.
pub fn summary(report: &Report) -> String {
    let met = report.verdicts.iter().filter(|verdict| verdict.met).count();
    let rows: Vec<_> = report.verdicts.iter().map(verdict_row).collect();
    let host = &report.host;
    format!(
        "{}\n{met} of {} bars met; Linux {}, {} x {}, {}; {} ms stolen in {:.0} s\n",
        table(VERDICT_HEADS, &rows),
        rows.len(),
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

fn row(outcome: &Outcome, index: usize) -> Vec<String> {
    let (load, contender) = (&outcome.load, &outcome.contenders[index]);
    let parts: Vec<&Measured> = outcome.rounds.iter().map(|round| &round[index]).collect();
    let mut row = vec![
        contender.name.clone(),
        contender.driver.clone(),
        "1".to_owned(),
        load.bytes.to_string(),
        load.connections.to_string(),
        load.depth.to_string(),
    ];
    row.extend(timed_columns(&parts));
    row.extend(counted_columns(&parts));
    row.push(number(contender.idle_cpu_ms_per_s, 2));
    row
}

fn timed_columns(parts: &[&Measured]) -> Vec<String> {
    let middle =
        |of: fn(&Measured) -> f64| median(&parts.iter().map(|part| of(part)).collect::<Vec<_>>());
    let max_us = parts.iter().map(|part| part.sample.max_us).reduce(f64::max);
    let percent =
        |share: Option<f64>| share.map_or_else(dash, |share| format!("{:.0} %", share * 100.0));
    vec![
        number(middle(|part| part.sample.cpu_us_per_request), 3),
        number(middle(|part| part.sample.requests_per_s), 0),
        number(middle(|part| part.sample.p50_us), 0),
        number(middle(|part| part.sample.p99_us), 0),
        number(middle(|part| part.sample.p999_us), 0),
        number(max_us, 0),
        parts
            .iter()
            .map(|part| part.sample.lost)
            .sum::<u64>()
            .to_string(),
        percent(middle(|part| part.sample.server_load)),
        percent(middle(|part| part.sample.generator_load)),
    ]
}

/// Exact counts, by request that the generator saw answered.
fn counted_columns(parts: &[&Measured]) -> Vec<String> {
    let middle = |of: &dyn Fn(&Counts, f64) -> Option<f64>| {
        let value =
            |part: &&Measured| of(part.counts.as_ref()?, part.sample.requests_in_all as f64);
        median(&parts.iter().filter_map(value).collect::<Vec<_>>())
    };
    vec![
        number(
            middle(&|counts, requests| Some(counts.sends? / requests)),
            4,
        ),
        number(
            middle(&|counts, requests| Some(counts.receives? / requests)),
            4,
        ),
        number(
            middle(&|counts, requests| Some(counts.requests? / requests)),
            4,
        ),
        number(
            middle(&|counts, _| Some(counts.bytes_sent? / counts.sends?)),
            0,
        ),
        number(
            middle(&|counts, _| Some(counts.bytes_received? / counts.receives?)),
            0,
        ),
    ]
}

fn verdict_row(verdict: &Verdict) -> Vec<String> {
    let word = match (verdict.met, verdict.open) {
        (true, false) => "met",
        (true, true) => "met, interval straddles the bar",
        (false, false) => "MISSED",
        (false, true) => "MISSED, interval straddles the bar",
    };
    vec![
        verdict.cell.to_owned(),
        verdict.what.clone(),
        format!("{:.3}", verdict.value),
        verdict
            .interval
            .map_or_else(dash, |[low, high]| format!("{low:.3} to {high:.3}")),
        verdict.bar.to_string(),
        verdict.rounds.to_string(),
        word.to_owned(),
    ]
}

fn number(value: Option<f64>, digits: usize) -> String {
    value
        .filter(|value| value.is_finite())
        .map_or_else(dash, |value| format!("{value:.digits$}"))
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
        let padded = cells
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        padded.collect::<Vec<_>>().join("  ") + "\n"
    };
    let head = line(&mut heads.iter().copied());
    rows.iter()
        .map(|row| line(&mut row.iter().map(String::as_str)))
        .fold(head, |all, line| all + &line)
}
