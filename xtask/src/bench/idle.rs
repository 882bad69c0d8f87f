//! What a connection costs that has nothing to do: memory of the server, and CPU time while all of them rest.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use super::cells::{Entrant, Idle};
use super::interrupt::Interrupt;
use super::load::Transport;
use super::rounds::{Verdict, idle_cpu_ms_per_s};
use super::stage::{Running, Stage};

/// What every connection echoes once.
const REQUEST: [u8; 64] = *b"one request of sixty-four bytes, echoed once, and then silence..";

/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Descriptors needed beside those of the connections, here and in the server.
const OTHER_DESCRIPTORS: u64 = 100;

/// How long a server may take to become quiet after the last connection.
const QUIET_WITHIN: Duration = Duration::from_secs(3);

/// Connections between two looks at the signals.
const CHECK_EVERY: usize = 500;

/// What one server showed.
#[derive(Clone, Debug, Serialize)]
pub struct IdleOutcome {
    /// The server.
    pub name: String,
    /// What it asks the operating system through.
    pub driver: String,
    /// Connections that rest.
    pub connections: usize,
    /// Its resident memory before the first connection.
    pub rss_before_bytes: u64,
    /// How much that grew, by connection.
    pub rss_bytes_per_connection: f64,
    /// CPU milliseconds a second while all rest.
    pub idle_cpu_ms_per_s: f64,
    /// CPU microseconds for accepting one and echoing once.
    pub opening_cpu_us: f64,
}

/// Raises this process's limit of open files, which servers inherit, as far as it may go.
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

/// Measures one server.
///
/// # Errors
/// When it does not start, does not echo, or when a signal asks for the end.
pub fn run(entrant: Entrant, connections: usize, stage: &mut Stage, interrupt: &Interrupt) -> Result<IdleOutcome> {
    let running = stage.start(entrant, Transport::Tcp)?;
    let rss_before_bytes = running.server.rss_bytes()?;
    let cpu_before_ns = running.server.cpu_ns()?;
    let open = open_all(running.address, connections, interrupt).with_context(|| entrant.to_string())?;
    await_quiet(&running)?;
    let opening_ns = running.server.cpu_ns()? - cpu_before_ns;
    let idle_cpu_ms_per_s = idle_cpu_ms_per_s(&running, interrupt)?;
    let growth = running.server.rss_bytes()? as f64 - rss_before_bytes as f64;
    drop(open);
    Ok(IdleOutcome {
        name: entrant.to_string(),
        driver: running.driver.clone(),
        connections,
        rss_before_bytes,
        rss_bytes_per_connection: growth / connections as f64,
        idle_cpu_ms_per_s,
        opening_cpu_us: opening_ns as f64 / 1e3 / connections as f64,
    })
}

/// Holds an outcome against the bars.
pub fn judge(cell: &Idle, outcome: &IdleOutcome) -> [Verdict; 2] {
    let verdict = |what: &str, value: f64, bar: f64, met: bool| Verdict {
        cell: cell.name,
        what: format!("{}, {what}", outcome.name),
        value,
        interval: None,
        rounds: 1,
        bar,
        met,
        open: false,
    };
    let (bytes, most) = (outcome.rss_bytes_per_connection, cell.rss_bytes_at_most);
    let (cpu, under) = (outcome.idle_cpu_ms_per_s, cell.cpu_ms_per_s_under);
    [verdict("RSS bytes per connection", bytes, most, bytes <= most), verdict("idle CPU ms/s", cpu, under, cpu < under)]
}

fn open_all(address: SocketAddr, connections: usize, interrupt: &Interrupt) -> Result<Vec<TcpStream>> {
    let mut open = Vec::with_capacity(connections);
    for index in 0..connections {
        if index % CHECK_EVERY == 0 {
            interrupt.check()?;
        }
        open.push(echo_once(address).with_context(|| format!("connection {index}"))?);
    }
    Ok(open)
}

fn echo_once(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).context("connecting")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.write_all(&REQUEST).context("sending")?;
    let mut answer = [0; REQUEST.len()];
    stream.read_exact(&mut answer).context("receiving")?;
    ensure!(answer == REQUEST, "the server's fault: what came back is not what was sent");
    Ok(stream)
}

/// Waits until the server has used no CPU for a while. One that never rests shows that in its idle CPU.
fn await_quiet(running: &Running) -> Result<()> {
    let deadline = Instant::now() + QUIET_WITHIN;
    let mut before = running.server.cpu_ns()?;
    while Instant::now() < deadline {
        thread::sleep(Duration::from_millis(100));
        let now = running.server.cpu_ns()?;
        if now == before {
            return Ok(());
        }
        before = now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::cells::IDLE;
    use super::*;

    fn outcome(bytes: f64, cpu: f64) -> IdleOutcome {
        IdleOutcome {
            name: "x".to_owned(),
            driver: "y".to_owned(),
            connections: 1,
            rss_before_bytes: 0,
            rss_bytes_per_connection: bytes,
            idle_cpu_ms_per_s: cpu,
            opening_cpu_us: 1.0,
        }
    }

    #[test]
    fn the_memory_bar_is_met_at_it_and_the_cpu_bar_only_under_it() {
        let met = |bytes, cpu| judge(&IDLE, &outcome(bytes, cpu)).map(|verdict| verdict.met);
        assert_eq!(met(600.0, 0.0), [true, true]);
        assert_eq!(met(600.1, 0.99), [false, true]);
        assert_eq!(met(0.0, 1.0), [true, false]);
    }

    #[test]
    fn a_limit_out_of_reach_is_named() {
        let error = raise_file_limit(usize::MAX / 2).expect_err("nobody has that many");
        assert!(error.to_string().contains("ulimit"), "{error}");
    }
}
