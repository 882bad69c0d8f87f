//! What a connection costs that has nothing to do: memory of the server, and CPU time while all of them rest.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use corelane_load::report::Server;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use super::cells::Idle;
use super::doubts;
use super::entrants::Entrant;
use super::generator;
use super::interrupt::Interrupt;
use super::load::{Asks, Carrier, Timing, words};
use super::rounds::Verdict;
use super::stage::{Running, Stage};
use super::tables::{self, number};

/// How often a connection is used where memory is measured. The warm-up is as long: before the window each has echoed once.
const USED_EVERY: Duration = Duration::from_secs(4);

/// How long the memory of used connections is watched, and the CPU time of resting ones.
const WATCH: Duration = Duration::from_secs(2);

/// Before the CPU time of resting connections counts.
const SETTLE: Duration = Duration::from_secs(1);

/// Descriptors needed beside those of the connections, in the generator and in the server.
const OTHER_DESCRIPTORS: u64 = 100;

/// How long a server may take to become quiet after the last connection.
const QUIET_WITHIN: Duration = Duration::from_secs(3);

/// What one server showed.
#[derive(Clone, Debug, Serialize)]
pub struct IdleOutcome {
    /// The server.
    pub name: String,
    /// What it asks the operating system through.
    pub driver: String,
    /// Connections that rest.
    pub connections: usize,
    /// Its resident memory with all of them.
    pub rss_bytes: u64,
    /// How much that grew, by connection.
    pub rss_bytes_per_connection: f64,
    /// CPU milliseconds a second while all rest but one a second.
    pub idle_cpu_ms_per_s: f64,
    /// CPU microseconds for accepting one and closing it.
    pub opening_cpu_us: f64,
    /// What the generator doubted.
    pub doubts: Vec<String>,
}

/// Raises this process's limit of open files, which servers and the generator inherit, as far as it may go.
///
/// # Errors
/// When that is not far enough for `connections`.
pub fn raise_file_limit(connections: usize) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("getrlimit")?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("setrlimit")?;
    }
    let needed = connections as u64 + OTHER_DESCRIPTORS;
    ensure!(hard >= needed, "the limit of open files is {hard}, expected {needed}: raise it (ulimit -Hn)");
    Ok(())
}

/// Measures one server twice: its memory with connections that have been used, its CPU time with connections of which one a
/// second is.
///
/// # Errors
/// When it does not start, does not echo, or when a signal asks for the end.
pub fn run(entrant: Entrant, connections: usize, stage: &mut Stage, interrupt: &Interrupt) -> Result<IdleOutcome> {
    let running = stage.start(entrant, Asks::Echo, Carrier::Tcp)?;
    let hold = |every, warm_up| {
        interrupt.check()?;
        let timing = Timing { warm_up, window: WATCH };
        hold(&stage.corelane, connections, every, timing, &running).with_context(|| entrant.to_string())
    };
    let (used, mut doubts) = hold(USED_EVERY, USED_EVERY)?;
    let before_ns = await_quiet(&running)?;
    let (resting, more_doubts) = hold(Duration::from_secs(connections as u64), SETTLE)?;
    let life_ns = await_quiet(&running)? - before_ns;
    doubts.extend(more_doubts);
    Ok(IdleOutcome {
        name: entrant.to_string(),
        driver: running.driver.clone(),
        connections,
        rss_bytes: used.resident_bytes,
        rss_bytes_per_connection: used.bytes_per_connection.context("the generator's report has no memory of the server")?,
        idle_cpu_ms_per_s: resting.cpus_used * 1e3,
        opening_cpu_us: life_ns as f64 / 1e3 / connections as f64,
        doubts,
    })
}

/// Holds connections each of which is used once in `every`. What the server showed, and the doubts.
fn hold(
    generator: &Path,
    connections: usize,
    every: Duration,
    timing: Timing,
    running: &Running,
) -> Result<(Server, Vec<String>)> {
    let connections = connections.to_string();
    let every = format!("{}us", every.as_micros());
    let options = [words(["--connections", &connections, "--every", &every]), timing.options()].concat();
    let report = generator::run(generator, "idle", running, &options)?;
    Ok((report.server.context("the generator's report has no server")?, report.doubts))
}

/// Holds an outcome against the bars.
pub fn judge(cell: &Idle, outcome: &IdleOutcome) -> [Verdict; 2] {
    let verdict = |what: &str, value, bar| Verdict::of_one(cell.name, format!("{}, {what}", outcome.name), value, bar);
    [
        verdict("RSS bytes per connection", outcome.rss_bytes_per_connection, cell.rss_bytes),
        verdict("idle CPU ms/s", outcome.idle_cpu_ms_per_s, cell.cpu_ms_per_s),
    ]
}

/// The table of the idle cell.
pub fn table(cell: &str, outcomes: &[IdleOutcome]) -> String {
    let row = |outcome: &IdleOutcome| {
        vec![
            ("server", outcome.name.clone()),
            ("driver", outcome.driver.clone()),
            ("lanes", "1".to_owned()),
            ("conns", outcome.connections.to_string()),
            ("RSS MiB", number(outcome.rss_bytes as f64 / f64::from(1 << 20), 1)),
            ("RSS B/conn", number(outcome.rss_bytes_per_connection, 0)),
            ("idle CPU ms/s", number(outcome.idle_cpu_ms_per_s, 2)),
            ("opening CPU us", number(outcome.opening_cpu_us, 1)),
        ]
    };
    let samples = outcomes.iter().map(|outcome| outcome.doubts.as_slice());
    format!("{cell}\n{}{}", tables::table(&outcomes.iter().map(row).collect::<Vec<_>>()), doubts::tally(samples))
}

/// Waits until the server has used no CPU for a while; returns what it has used so far, in nanoseconds. One that never rests
/// shows that in its idle CPU.
fn await_quiet(running: &Running) -> Result<u64> {
    let deadline = Instant::now() + QUIET_WITHIN;
    let mut before = running.server.cpu_ns()?;
    while Instant::now() < deadline {
        thread::sleep(Duration::from_millis(100));
        let now = running.server.cpu_ns()?;
        if now == before {
            break;
        }
        before = now;
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;
    use crate::cells::IDLE;

    fn outcome(bytes: f64, cpu: f64) -> IdleOutcome {
        IdleOutcome {
            name: "x".to_owned(),
            driver: "y".to_owned(),
            connections: 1,
            rss_bytes: 0,
            rss_bytes_per_connection: bytes,
            idle_cpu_ms_per_s: cpu,
            opening_cpu_us: 1.0,
            doubts: Vec::new(),
        }
    }

    #[test]
    fn the_memory_bar_is_met_at_it_and_the_cpu_bar_only_under_it() {
        let met = |bytes, cpu| judge(&IDLE, &outcome(bytes, cpu)).map(|verdict| verdict.word == Word::Met);
        assert_eq!(met(350.0, 0.0), [true, true]);
        assert_eq!(met(350.1, 0.99), [false, true]);
        assert_eq!(met(0.0, 1.0), [true, false]);
    }

    #[test]
    fn a_limit_out_of_reach_is_named() {
        let error = raise_file_limit(usize::MAX / 2).expect_err("nobody has that many");
        assert!(error.to_string().contains("ulimit"), "{error}");
    }
}
