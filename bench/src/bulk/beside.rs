//! Small requests on the lane that pushes: what they take beside it, and alone.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use corelane_load::report::Report;
use serde::Serialize;

use super::roads::Road;
use super::senders::{serve, sink_words};
use crate::bars::Limit;
use crate::interrupt::Interrupt;
use crate::load::Timing;
use crate::rounds::{Extent, Rounds, Verdict};
use crate::server::Server;
use crate::stage::Stage;
use crate::tables::{self, number};

/// The name of the cell.
pub const NAME: &str = "bulk-beside";

/// The most time that 99 of 100 small requests may take beside bulk, as a multiple of the time without.
const BAR: Limit = Limit::AtMost(2.0);

/// Bytes of a piece that is pushed meanwhile.
const PIECE: usize = 64 << 10;

/// Small requests a second.
const RATE: &str = "500";

/// The load that goes on beside the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// Nothing.
    None,
    /// The same lane pushes.
    Push,
}

impl fmt::Display for Company {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::None { "echo alone" } else { "echo beside push" })
    }
}

/// The time that small requests took.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    p50_us: f64,
    p99_us: f64,
    /// The rate of what was pushed meanwhile, in 10^9 bits a second.
    gigabits_per_s: f64,
}

/// Measures both, in rounds.
///
/// # Errors
/// When a program does not start, or answers nothing.
pub fn run(stage: &Stage, road: &Road, extent: Extent, interrupt: &Interrupt) -> Result<Rounds<Company, Sample>> {
    let who = vec![Company::None, Company::Push];
    Rounds::take(NAME, who.clone(), extent.rounds, interrupt, |place| measure(who[place], stage, road, extent.timing))
}

fn measure(company: Company, stage: &Stage, road: &Road, timing: Timing) -> Result<Sample> {
    let mut last = None;
    let [push, echo] = [road.address(&mut last)?, road.address(&mut last)?];
    let _server = Server::start(serve(stage, road, &[format!("push=tcp://{push}?size={PIECE}"), format!("echo=tcp://{echo}")])?)?;
    let sink = (company == Company::Push).then(|| {
        // It takes what the other leaves of their CPU: else a request would wait for the receiver, and not for the lane.
        let mut command = road.on(false, Path::new("nice"))?;
        command.args(["-n", "19"]).arg(&stage.corelane);
        let longer = Timing { window: timing.window + timing.warm_up, ..timing };
        command.args(sink_words(&format!("tcp://{push}"), longer));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("starting the sink")
    });
    let sink = sink.transpose()?;
    let requests = told(asking(stage, road, &format!("tcp://{echo}"), timing)?.spawn().context("starting the generator")?)?;
    let pushed = sink.map(told).transpose()?;
    ensure!(requests.requests > 0, "nothing was answered: {:?}", requests.errors);
    let latency = |name: &str| requests.latency_us.get(name).copied().unwrap_or(f64::NAN);
    let flow = pushed.and_then(|report| report.flow).map_or(0.0, |flow| flow.gigabits_per_second);
    Ok(Sample { p50_us: latency("50"), p99_us: latency("99"), gigabits_per_s: flow })
}

fn asking(stage: &Stage, road: &Road, url: &str, timing: Timing) -> Result<Command> {
    let mut command = road.on(false, &stage.corelane)?;
    let [warm_up, window] = [timing.warm_up, timing.window].map(|time| format!("{}us", time.as_micros()));
    command.args(["load", "echo", url, "--json", "--quiet", "--lanes", "1", "--driver", crate::generator::DRIVER]);
    command.args(["--connections", "4", "--rate", RATE, "--warmup", &warm_up, "--duration", &window]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    Ok(command)
}

fn told(generator: std::process::Child) -> Result<Report> {
    let output = generator.wait_with_output().context("waiting for the generator")?;
    serde_json::from_slice(&output.stdout).with_context(|| format!("the generator: {}", output.status))
}

/// The verdict.
pub fn judge(rounds: &Rounds<Company, Sample>) -> Option<Verdict> {
    rounds.judge(Company::Push, Company::None, "latency at 99 %", |sample| sample.p99_us, BAR)
}

/// The figures of both.
pub fn table(rounds: &Rounds<Company, Sample>) -> String {
    tables::of_rounds(rounds, "requests", |_, who| {
        let median = |of: fn(&Sample) -> f64, digits| number(rounds.median(who, of), digits);
        vec![
            ("p50 us", median(|sample| sample.p50_us, 0)),
            ("p99 us", median(|sample| sample.p99_us, 0)),
            ("Gb/s", median(|sample| sample.gigabits_per_s, 2)),
        ]
    })
}
