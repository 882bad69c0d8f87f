//! `corelane proxy`: shows the upstreams of a running process, takes one out and in again.

use crate::gateway::Asked;
use anyhow::{Result, anyhow};
use corelane::admin::control::ask_services;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Shows the servers behind a running proxy (`serve proxy=tcp://..?to=HOST:PORT,..`), takes one out and in again
///
/// Counts are those of all lanes. Each lane judges by what it has seen itself, so its states may differ from those of others; the worst is shown. docs/proxy.md says what each means.
#[derive(clap::Args)]
pub struct Arguments {
    /// The process; need not be named where only one serves
    #[arg(long, global = true, value_parser = crate::stat::process_number)]
    pid: Option<u32>,
    /// As JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show each upstream with its state, connections, failures, latencies and bytes
    Show,
    /// Take an upstream out: nothing new goes there, and what is under way goes on
    Drain(Named),
    /// Take it in again
    Enable(Named),
}

#[derive(clap::Args)]
struct Named {
    /// Its name in to=, or one address of a name
    upstream: String,
}

/// Has the process carry it out, and prints what it says.
pub fn run(arguments: &Arguments) -> Result<()> {
    let asked = Asked::of(arguments.pid, arguments.json)?;
    match &arguments.command {
        Command::Show => {
            let rows = joined(answers(&asked, "show")?);
            asked.print(&rows, || table(&rows))
        }
        Command::Drain(Named { upstream }) => change(&asked, "drain", upstream),
        Command::Enable(Named { upstream }) => change(&asked, "enable", upstream),
    }
}

/// One lane's answer.
#[derive(Deserialize)]
struct Answer<T> {
    service: String,
    number: usize,
    answer: T,
}

#[derive(Deserialize)]
struct Changed {
    named: usize,
}

fn answers<T: for<'a> Deserialize<'a>>(asked: &Asked, words: &str) -> Result<Vec<Answer<T>>> {
    Ok(serde_json::from_str(&asked.said(ask_services(&asked.page, &format!("upstreams {words}")))?)?)
}

fn change(asked: &Asked, word: &str, upstream: &str) -> Result<()> {
    let changed: Vec<Answer<Changed>> = answers(asked, &format!("{word} {upstream}"))?;
    match changed.iter().any(|answer| answer.answer.named > 0) {
        true => Ok(()),
        false => Err(anyhow!("no upstream is named {upstream:?}: `corelane proxy show` has their names")),
    }
}

/// An upstream, as one lane shows it, or all together.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Row {
    #[serde(default)]
    service: String,
    #[serde(default)]
    number: usize,
    name: String,
    address: Option<String>,
    state: String,
    weight: u64,
    fault: Option<String>,
    /// Each bucket of times with something in it: its end, and how many.
    #[serde(default)]
    microseconds: Vec<(u64, u64)>,
    /// All other numbers, which are added.
    #[serde(flatten)]
    counts: BTreeMap<String, u64>,
}

/// The states, from the best to the worst.
const STATES: [&str; 7] = ["up", "rising", "ejected", "down", "drained", "leaving", "unresolved"];

impl Row {
    fn severity(&self) -> usize {
        STATES.iter().position(|state| *state == self.state).unwrap_or(STATES.len())
    }

    fn add(&mut self, other: Self) {
        if other.severity() > self.severity() {
            self.state.clone_from(&other.state);
        }
        self.fault = self.fault.take().or(other.fault);
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        let mut times: BTreeMap<u64, u64> = self.microseconds.drain(..).collect();
        for (end, count) in other.microseconds {
            *times.entry(end).or_default() += count;
        }
        self.microseconds = times.into_iter().collect();
    }

    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or_default()
    }

    fn failures(&self) -> u64 {
        self.counts.iter().filter(|(name, _)| name.starts_with("failed_")).map(|(_, count)| count).sum()
    }

    /// The time within which this part of all uses had their first bytes.
    fn within(&self, part: f64) -> String {
        let all: u64 = self.microseconds.iter().map(|(_, count)| count).sum();
        let rank = (all as f64 * part).ceil() as u64;
        let mut sum = 0;
        let found = self.microseconds.iter().find(|(_, count)| {
            sum += count;
            sum >= rank
        });
        found.map_or_else(|| "-".to_owned(), |(end, _)| format!("{:?}", std::time::Duration::from_micros(*end)))
    }
}

/// The rows of all lanes, each upstream of a service once.
fn joined(answers: Vec<Answer<Vec<Row>>>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for Answer { service, number, answer } in answers {
        for row in answer {
            let row = Row { service: service.clone(), number, ..row };
            let is_same = |known: &&mut Row| known.number == number && known.name == row.name && known.address == row.address;
            match rows.iter_mut().find(is_same) {
                Some(known) => known.add(row),
                None => rows.push(row),
            }
        }
    }
    rows
}

/// The columns behind the name.
const COLUMNS: [&str; 11] =
    ["address", "state", "weight", "open", "uses", "failed", "retries", "p50", "p99", "bytes-to", "bytes-from"];

/// A line for each upstream, its columns as wide as they have to be.
fn table(rows: &[Row]) -> String {
    let cells = |row: &Row| {
        let address = row.address.clone().unwrap_or_else(|| row.fault.clone().unwrap_or_else(|| "-".to_owned()));
        let number = |name: &str| row.count(name).to_string();
        [
            row.name.clone(),
            address,
            row.state.clone(),
            row.weight.to_string(),
            number("uses_open"),
            number("uses"),
            row.failures().to_string(),
            number("retries"),
            row.within(0.5),
            row.within(0.99),
            number("bytes_to"),
            number("bytes_from"),
        ]
    };
    let head: Vec<String> = ["upstream"].into_iter().chain(COLUMNS).map(str::to_owned).collect();
    let lines: Vec<Vec<String>> = [head].into_iter().chain(rows.iter().map(|row| cells(row).to_vec())).collect();
    let widths: Vec<usize> = (0..=COLUMNS.len()).map(|at| lines.iter().map(|line| line[at].len()).max().unwrap_or(0)).collect();
    let line = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_lanes_are_joined_and_shown() {
        let row = |state: &str, uses: u64| {
            format!(
                r#"{{"name":"a:1","address":"10.0.0.1:1","state":"{state}","weight":1,"uses_open":1,"fault":null,"uses":{uses},"failed_connect":2,"failed_reset":1,"retries":2,"microseconds":[[100,{uses}],[5000,1]]}}"#
            )
        };
        let text = format!(
            r#"[{{"service":"proxy","number":0,"lane":0,"answer":[{}]}},{{"service":"proxy","number":0,"lane":1,"answer":[{}]}},{{"service":"http","number":1,"lane":0,"answer":[{}]}}]"#,
            row("up", 5),
            row("ejected", 6),
            row("up", 7)
        );
        let rows = joined(serde_json::from_str(&text).unwrap());
        assert_eq!(rows.len(), 2, "each service has its own");
        assert_eq!((rows[0].state.as_str(), rows[0].count("uses"), rows[0].failures()), ("ejected", 11, 6));
        assert_eq!(rows[0].microseconds, [(100, 11), (5_000, 2)]);
        assert_eq!((rows[0].within(0.5), rows[0].within(0.99)), ("100µs".to_owned(), "5ms".to_owned()));
        let shown = table(&rows);
        let second = shown.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(second, ["a:1", "10.0.0.1:1", "ejected", "1", "2", "11", "6", "4", "100µs", "5ms", "0", "0"]);
    }
}
