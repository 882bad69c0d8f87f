//! Whether steering makes lanes wait for one another: the kernel's own count of waits for locks (tracepoint `lock:contention_begin`) in a
//! server whose table chooses the lanes, beside one whose lanes the kernel's hash chooses.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use corelane_load::report::Report;
use serde::Serialize;

use super::bars::Limit;
use super::cpus::{GENERATOR_CPU, SERVER_CPU};
use super::interrupt::Interrupt;
use super::rounds::{Extent, Rounds, Verdict};
use super::server::{self, Server};
use super::stage::Stage;
use super::tables::{self, number};

/// What the tables call it.
pub const NAME: &str = "steer-contention";

/// The ways of steering that are compared: the judged one, and what it is divided by.
const WAYS: [&str; 2] = ["program", "kernel"];

/// What contentions with steering may be of those without.
const BAR: Limit = Limit::AtMost(1.1);

/// Lanes of the server and of the generator: all that two CPUs have.
const LANES: &str = "2";

const EVENT: &str = "lock:contention_begin";

/// One server in one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Requests answered.
    pub requests: u64,
    /// Waits for locks of its threads.
    pub contentions: u64,
}

impl Sample {
    fn per_thousand(&self) -> f64 {
        self.contentions as f64 * 1_000.0 / self.requests as f64
    }
}

/// Runs the rounds.
///
/// # Errors
/// When perf is missing or may not count, a server does not start or answers wrongly, or a signal asks for the end.
pub fn run(extent: Extent, stage: &Stage, interrupt: &Interrupt) -> Result<Rounds<&'static str, Sample>> {
    // Two CPUs are for both sides here.
    server::pin(&[SERVER_CPU, GENERATOR_CPU])?;
    Rounds::take(NAME, WAYS.to_vec(), extent.rounds, interrupt, |place| {
        measure(&stage.corelane, WAYS[place], extent.timing.window)
    })
}

fn measure(corelane: &Path, steering: &str, window: Duration) -> Result<Sample> {
    let url = format!("tcp://{}", server::free_address(&mut None)?);
    let mut command = Command::new(corelane);
    command.args(["serve", "--lanes", LANES, "--steering", steering, &format!("echo={url}")]);
    let server = Server::start(command)?;
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x", ",", "-e", EVENT, "-p", &server.pid().to_string(), "--"]);
    perf.arg(corelane).args(["load", "echo", &url, "--connections", "64", "--depth", "4", "--lanes", LANES]);
    perf.args(["--duration", &format!("{}s", window.as_secs_f64()), "--warmup", "0s", "--quiet", "--json"]);
    let output = perf.stdin(Stdio::null()).output().context("perf, of Debian's package linux-perf: install it")?;
    let words = String::from_utf8_lossy(&output.stderr);
    let report: Report = serde_json::from_slice(&output.stdout).with_context(|| format!("the generator says {words}"))?;
    ensure!(report.requests > 0, "nothing was answered: {words}");
    Ok(Sample { requests: report.requests, contentions: counted(&words)? })
}

/// The count in what `perf stat -x ,` prints: its first field, in the line of the event.
fn counted(words: &str) -> Result<u64> {
    let line = words.lines().find(|line| line.contains(EVENT));
    let count = line.and_then(|line| line.split(',').next()?.parse().ok());
    let Some(count) = count else { bail!("perf does not count {EVENT} (it takes root): {words}") };
    Ok(count)
}

/// The verdict on the bar.
pub fn judge(rounds: &Rounds<&'static str, Sample>) -> Option<Verdict> {
    rounds.judge(WAYS[0], WAYS[1], "contentions per request", Sample::per_thousand, BAR)
}

/// Contentions per 1,000 requests, in the median over the rounds.
pub fn table(rounds: &Rounds<&'static str, Sample>) -> String {
    let per_thousand = |way| number(rounds.median(way, Sample::per_thousand), 3);
    tables::of_rounds(rounds, "steering", |_, way| vec![("contentions per 1,000 requests", per_thousand(way))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;

    #[test]
    fn the_count_is_found_in_perfs_words() {
        assert_eq!(counted("some word\n1234,,lock:contention_begin,3000,100.00,,\n").unwrap(), 1_234);
        assert!(counted("<not supported>,,lock:contention_begin,0,0.00,,\n").is_err() && counted("").is_err());
    }

    #[test]
    fn ratios_are_of_contentions_per_request() {
        let sample = |requests, contentions| Sample { requests, contentions };
        let rounds = vec![vec![sample(1_000, 10), sample(2_000, 10)]; 3];
        let rounds = Rounds { rounds, ..Rounds::new(NAME, WAYS.to_vec()) };
        let verdict = judge(&rounds).expect("both ran");
        assert_eq!((verdict.value, verdict.word, verdict.rounds), (2.0, Word::Missed, 3));
        let table = table(&rounds);
        let last: Vec<_> = table.lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(last, [["program", "10.000"], ["kernel", "5.000"]]);
    }
}
