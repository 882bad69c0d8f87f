//! The whole of a run: its verdicts are printed, and all of it is written for machines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::bars::Word;
use super::cpus::{GENERATOR_CPU, SERVER_CPU};
use super::host::Host;
use super::rounds::{Extent, Verdict};
use super::stage::Driver;
use super::tables::{Column, dash, table};

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
    /// By cell, every raw figure.
    pub cells: Vec<Value>,
    /// Peers that did not take part, and why.
    pub left_out: Vec<String>,
    /// What came of all bars.
    pub verdicts: Vec<Verdict>,
    /// The tables of the cells, each followed by an empty line.
    #[serde(skip)]
    pub tables: String,
    /// What their columns do not say of themselves.
    #[serde(skip)]
    pub notes: Vec<&'static str>,
    /// The CPUs of both sides, in words; without, each has the one that it usually has.
    #[serde(skip)]
    pub sides: Option<String>,
}

impl Findings {
    /// Prints what a cell showed, and keeps it with its raw figures and what came of its bars.
    ///
    /// # Errors
    /// When the figures cannot be written as JSON.
    pub fn show(&mut self, table: &str, raw: &impl Serialize, verdicts: impl IntoIterator<Item = Verdict>) -> Result<()> {
        println!("{table}");
        self.tables += &format!("{table}\n");
        self.cells.push(serde_json::to_value(raw)?);
        self.verdicts.extend(verdicts);
        Ok(())
    }

    /// Keeps what columns do not say of themselves, once.
    pub fn note(&mut self, note: &'static str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Says who does not take part, and keeps it.
    pub fn leave_out(&mut self, who: String) {
        eprintln!("left out: {who}");
        self.left_out.push(who);
    }
}

/// What the columns of verdicts do not say of themselves.
const NOTE: &str = "verdict: met where the whole interval keeps the bar, MISSED where none of it does, open else; the rounds are as many as were asked for\n";

/// The table of all verdicts, and lines about the generator and the host.
pub fn summary(report: &Report) -> String {
    let verdicts = &report.findings.verdicts;
    let count = |word| verdicts.iter().filter(|verdict| verdict.word == word).count();
    let rows: Vec<_> = verdicts.iter().map(verdict_row).collect();
    let host = &report.host;
    let notes = report.findings.notes.concat();
    let left_out: String = report.findings.left_out.iter().map(|peer| format!("left out: {peer}\n")).collect();
    format!(
        "{}\n{left_out}{}; generator: corelane load, {}\n\
        {notes}{NOTE}{} of {} bars met, {} missed, {} open; Linux {}, {} x {}, {}; {} ms stolen in {:.0} s\n",
        table(&rows),
        report
            .findings
            .sides
            .clone()
            .unwrap_or_else(|| format!("servers on CPU {SERVER_CPU}, the generator's lane on CPU {GENERATOR_CPU}")),
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

fn verdict_row(verdict: &Verdict) -> Vec<Column> {
    vec![
        ("cell", verdict.cell.to_owned()),
        ("figure", verdict.what.clone()),
        ("value", format!("{:.3}", verdict.value)),
        ("90 % interval", verdict.interval.map_or_else(dash, |[low, high]| format!("{low:.3} to {high:.3}"))),
        ("bar", verdict.bar.to_string()),
        ("rounds", verdict.rounds.to_string()),
        ("verdict", verdict.word.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bars::Limit;
    use crate::generator;
    use crate::judged::Judged;
    use crate::load::Timing;
    use crate::measured::{self, tests::outcome};

    #[test]
    fn verdicts_of_a_record_are_read_again() {
        let (interval, bar) = (Some([0.8, 1.1]), Limit::AtLeast(0.95));
        let verdict = |word| Verdict { cell: "a-cell", what: "a / b, c".to_owned(), value: 0.9, interval, rounds: 40, bar, word };
        let never = Verdict::of_one("b-cell", "latency, us".to_owned(), f64::INFINITY, Limit::Under(9.0));
        let all = [verdict(Word::Met), verdict(Word::Missed), verdict(Word::Open), never];
        let text = table(&all.iter().map(verdict_row).collect::<Vec<_>>());
        assert!(text.contains("a-cell     a / b, c  0.900  0.800 to 1.100  at least 0.95      40   MISSED\n"), "{text}");
        let read = Judged::all(&text);
        assert_eq!(read.len(), all.len(), "{text}");
        for (read, verdict) in read.iter().zip(&all) {
            assert_eq!((read.cell.as_str(), &read.figure), (verdict.cell, &verdict.what));
            assert_eq!((read.value, read.interval), (verdict.value, verdict.interval));
            assert_eq!((read.limit, read.word), (verdict.bar, verdict.word));
        }
    }

    #[test]
    fn tables_of_a_record_are_those_that_were_printed() {
        let mut findings = Findings::default();
        findings.show(&measured::table(&outcome()), &outcome(), None).expect("JSON");
        findings.show("packet-ns\n20 bytes: 3.7 ns\n", &"raw", None).expect("JSON");
        assert_eq!(findings.tables, format!("{}\npacket-ns\n20 bytes: 3.7 ns\n\n", measured::table(&outcome())));
        assert_eq!(findings.cells[1], "raw");
        [1, 2].into_iter().for_each(|_| findings.note("of a column"));
        assert_eq!(findings.notes, ["of a column"], "once, however many cells say it");
    }

    #[test]
    fn the_written_file_keeps_every_raw_round() {
        let mut findings = Findings::default();
        findings.show("", &outcome(), None).expect("JSON");
        let timing = Timing { warm_up: Duration::from_millis(200), window: Duration::from_millis(800) };
        let report = Report {
            host: Host::read(),
            stolen_ms: 1,
            took_s: 2.0,
            driver: Driver::Auto,
            beside: None,
            generator_driver: generator::DRIVER,
            extent: Extent { timing, rounds: 3 },
            findings,
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
