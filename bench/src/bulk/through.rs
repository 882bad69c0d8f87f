//! From socket to socket: what a GiB costs who passes on what comes, as it comes.

use std::fmt;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use corelane_load::report::Report;
use serde::Serialize;

use super::roads::Road;
use super::senders::{BUILD_FOLDER, CONNECTIONS, GIB, serve};
use crate::bars::{Limit, PARITY};
use crate::cpus::SERVER_CPU;
use crate::interrupt::Interrupt;
use crate::load::Timing;
use crate::rounds::{Extent, Rounds, Verdict};
use crate::server::Server;
use crate::softirq::Threads;
use crate::stage::Stage;
use crate::tables::{self, number};

/// A size of messages, and what the cell is called.
pub struct Cell {
    /// Its name, for `--only` and the table.
    pub name: &'static str,
    /// Bytes of a message, of which four are asked for at once on each connection.
    bytes: usize,
    /// Whether its cost is judged: of smaller messages the calls weigh, and of larger ones how much a receive brings.
    is_judged: bool,
}

/// All cells.
pub const CELLS: [Cell; 6] = [
    Cell { name: "bulk-through-64", bytes: 64, is_judged: false },
    Cell { name: "bulk-through-4096", bytes: 4 << 10, is_judged: false },
    Cell { name: "bulk-through-16384", bytes: 16 << 10, is_judged: false },
    Cell { name: "bulk-through", bytes: 64 << 10, is_judged: true },
    Cell { name: "bulk-through-1048576", bytes: 1 << 20, is_judged: false },
    Cell { name: "bulk-through-4194304", bytes: 4 << 20, is_judged: false },
];

/// The buffer of the plain loop.
const BUFFER: &str = "65536";

/// The server that passes them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passer {
    /// `echo`, whose leases move.
    Corelane,
    /// A plain loop of read(2) and write(2).
    Loop,
}

impl fmt::Display for Passer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Corelane { "corelane (echo)" } else { "plain loop (epoll)" })
    }
}

/// The figures of one window.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Processor time of the server, with what the kernel's own thread of its CPU did meanwhile, in seconds for each GiB that came and left.
    cpu_s_per_gib: f64,
    /// Payload each way, in 10^9 bits a second.
    gigabits_per_s: f64,
}

/// Measures both, in rounds.
///
/// # Errors
/// When a program does not start, or passes nothing on.
pub fn run(cell: &Cell, stage: &Stage, road: &Road, extent: Extent, interrupt: &Interrupt) -> Result<Rounds<Passer, Sample>> {
    let who = vec![Passer::Corelane, Passer::Loop];
    let measure = |place: usize| measure(who[place], cell.bytes, stage, road, extent.timing);
    Rounds::take(cell.name, who.clone(), extent.rounds, interrupt, measure)
}

fn measure(server: Passer, bytes: usize, stage: &Stage, road: &Road, timing: Timing) -> Result<Sample> {
    let address = road.address(&mut None)?.to_string();
    let command = match server {
        Passer::Corelane => serve(stage, road, &[format!("echo=tcp://{address}")])?,
        Passer::Loop => {
            let mut command = road.on(true, &stage.peers.join("target").join(BUILD_FOLDER).join("peer-epoll"))?;
            command.args(["tcp", &address, BUFFER]);
            command
        }
    };
    let server = Server::start(command)?;
    let softirq = Threads::of(&[SERVER_CPU]);
    let (own, kernel) = (server.cpu_ns()?, softirq.cpu_ns());
    let report = load(stage, road, &address, bytes, server.pid(), timing)?;
    let (own, kernel) = (server.cpu_ns()? - own, softirq.cpu_ns().zip(kernel).map_or(0, |(after, before)| after - before));
    sample(&report, 1.0 + kernel as f64 / own.max(1) as f64)
}

fn load(stage: &Stage, road: &Road, address: &str, bytes: usize, pid: i32, timing: Timing) -> Result<Report> {
    let mut command = road.on(false, &stage.corelane)?;
    let [warm_up, window] = [timing.warm_up, timing.window].map(|time| format!("{}us", time.as_micros()));
    command.args(["load", "echo", &format!("tcp://{address}"), "--json", "--quiet", "--lanes", "1"]);
    command.args([
        "--driver",
        crate::generator::DRIVER,
        "--connections",
        CONNECTIONS,
        "--depth",
        "4",
        "--size",
        &bytes.to_string(),
    ]);
    command.args(["--warmup", &warm_up, "--duration", &window, "--server-pid", &pid.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("starting the generator")?;
    serde_json::from_slice(&output.stdout).with_context(|| format!("the generator: {}", output.status))
}

fn sample(report: &Report, with_kernel: f64) -> Result<Sample> {
    ensure!(report.bytes_received > 0, "nothing came back: {:?}", report.errors);
    let cpus = report.server.as_ref().context("the server's process has ended")?.cpus_used;
    let bytes = report.bytes_received as f64;
    Ok(Sample {
        cpu_s_per_gib: cpus * report.seconds * with_kernel / (bytes / GIB),
        gigabits_per_s: bytes * 8.0 / report.seconds / 1e9,
    })
}

/// The verdict.
pub fn judge(cell: &Cell, rounds: &Rounds<Passer, Sample>) -> Option<Verdict> {
    if !cell.is_judged {
        return None;
    }
    let cost = |sample: &Sample| sample.cpu_s_per_gib;
    rounds.judge(Passer::Corelane, Passer::Loop, "server's CPU per GiB", cost, Limit::AtMost(PARITY))
}

/// The figures of both.
pub fn table(rounds: &Rounds<Passer, Sample>) -> String {
    tables::of_rounds(rounds, "server", |_, who| {
        let median = |of: fn(&Sample) -> f64, digits| number(rounds.median(who, of), digits);
        vec![("CPU s/GiB", median(|sample| sample.cpu_s_per_gib, 3)), ("Gb/s", median(|sample| sample.gigabits_per_s, 2))]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_counts_once() {
        let server = corelane_load::report::Server { cpus_used: 0.5, ..Default::default() };
        let report = Report { bytes_received: 1 << 30, seconds: 2.0, server: Some(server), ..Report::default() };
        let once = sample(&report, 1.5).expect("a sample");
        assert!((once.cpu_s_per_gib - 1.5).abs() < 1e-12 && (once.gigabits_per_s - 4.294_967_296).abs() < 1e-9);
        assert!(sample(&Report { bytes_received: 0, ..report.clone() }, 1.0).is_err());
        assert!(sample(&Report { server: None, ..report }, 1.0).is_err());
    }
}
