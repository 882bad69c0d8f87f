//! The load generator, `corelane load` on CPUs of its own, and what its report says of a server.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use corelane_load::Verdict;
use corelane_load::kinds::Kind;
use corelane_load::report::Report;
use serde::Serialize;

use super::cpus::{GENERATOR_CPU, list};
use super::load::{Load, Timing, words};
use super::server;
use super::stage::Running;

/// What the generator asks the operating system through: the same for every server, whatever the server's own driver is.
pub const DRIVER: &str = "epoll";

/// How often a window is measured in which nothing was answered. A busy host may keep a server from its CPU for longer than a
/// short window; that is not the server's fault.
const TRIES: usize = 3;

/// Whether the generator prints a report when it ends with this code.
fn has_report(code: i32) -> bool {
    Verdict::ALL.iter().any(|&verdict| verdict as i32 == code)
}

/// What one window showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Requests answered in the window.
    pub requests: u64,
    /// Datagrams given up after a timeout.
    pub lost: u64,
    /// Length of the window.
    pub window_s: f64,
    /// Processor time of all the server's threads per answered request.
    pub cpu_us_per_request: f64,
    /// Processor time of the generator's lanes per answered request.
    pub generator_us_per_request: f64,
    /// Answered requests per second.
    pub requests_per_s: f64,
    /// Share of one CPU that the server's threads used.
    pub server_load: f64,
    /// Share of one CPU that the generator's lanes used, all together.
    pub generator_load: f64,
    /// Median time from sending a request to receiving its last byte.
    pub p50_us: f64,
    /// 99th percentile of it.
    pub p99_us: f64,
    /// 99.9th percentile of it.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Why the generator does not believe its figures. Its own limit and a disturbed host do not change what a request costs
    /// the server, so such a sample is kept.
    pub doubts: Vec<String>,
}

/// Puts `load` on a server and measures one window, at a rate or as fast as answers come.
///
/// # Errors
/// When the server refuses, closes, stops answering or answers with wrong bytes.
pub fn measure(generator: &Path, load: Load, running: &Running, rate: Option<f64>, timing: Timing) -> Result<Sample> {
    let options = [load.options(), timing.options(), offered(rate)].concat();
    try_often(timing, || run(generator, load.workload(), running, &options))
}

/// Puts `load` on a server through a command that is a generator already, and measures one window, at a rate or as fast as answers come; without a process, what the server costs is 0.
///
/// # Errors
/// As [`measure`].
pub fn measure_by(
    command: impl Fn() -> Result<Command>,
    load: Load,
    url: &str,
    pid: Option<i32>,
    rate: Option<f64>,
    timing: Timing,
) -> Result<Sample> {
    let options = [load.options(), timing.options(), offered(rate)].concat();
    try_often(timing, || carry_out(command()?, load.workload(), url, pid, &[GENERATOR_CPU], &options))
}

/// The generator's option for a rate.
fn offered(rate: Option<f64>) -> Vec<String> {
    rate.map(|rate| words(["--rate", &format!("{rate:.0}")])).unwrap_or_default()
}

fn try_often(timing: Timing, run: impl Fn() -> Result<Report>) -> Result<Sample> {
    for _ in 0..TRIES {
        let report = run()?;
        if report.requests > 0 {
            return Ok(sample(&report));
        }
    }
    bail!("the server answered nothing within {:?}, {TRIES} times", timing.window)
}

/// Runs the generator against a server, and checks that it carried out all of its task.
///
/// # Errors
/// When it cannot, or when requests failed; datagrams may be lost.
pub fn run(generator: &Path, workload: &str, running: &Running, options: &[String]) -> Result<Report> {
    let cpus = &running.sides.generator;
    carry_out(server::on_cpus(cpus, generator)?, workload, &running.url(), Some(running.server.pid()), cpus, options)
}

fn carry_out(
    mut command: Command,
    workload: &str,
    url: &str,
    pid: Option<i32>,
    cpus: &[usize],
    options: &[String],
) -> Result<Report> {
    command.args(["load", workload, url, "--json", "--quiet"]);
    if let Some(pid) = pid {
        command.args(["--server-pid", &pid.to_string()]);
    }
    command.args(["--lanes", &cpus.len().to_string(), "--cpus", &list(cpus), "--driver", DRIVER]).args(options);
    // It stays in this program's process group, so that Ctrl-C ends it at once, and the error that follows ends the servers.
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("starting the generator")?;
    let report = read(&output).with_context(|| format!("generator {command:?}"))?;
    ensure!(pid.is_none() == report.server.is_none(), "the generator tells of the server that it was told of");
    Ok(report)
}

fn read(output: &Output) -> Result<Report> {
    if !output.status.code().is_some_and(has_report) {
        bail!("it failed: {}; its own message is above", output.status);
    }
    let report = serde_json::from_slice(&output.stdout).context("reading its report")?;
    check(&report)?;
    Ok(report)
}

/// Refuses a run in which requests failed, or that was not carried out whole: the doubts that no sample is kept with.
fn check(report: &Report) -> Result<()> {
    let failures = Kind::ALL.iter().filter(|&&kind| kind.is_failure() && kind != Kind::Lost);
    for kind in failures {
        let count = errors(report, *kind);
        ensure!(count == 0, "requests failed: {count} by {kind}");
    }
    let is_told = report.server.is_some() == report.server_us_per_request.is_some();
    ensure!(is_told, "the generator's report has no cost of the server");
    let open: u64 = report.generator.lanes.iter().map(|lane| lane.connections).sum();
    let wanted = report.settings.connections;
    ensure!(open == wanted, "{open} connections were open at the end, expected {wanted}");
    let length_s = report.settings.duration_s.unwrap_or(0.0);
    ensure!(report.seconds >= length_s, "the run was cut short after {} of {length_s} s", report.seconds);
    Ok(())
}

fn errors(report: &Report, kind: Kind) -> u64 {
    report.errors.get(kind.name()).copied().unwrap_or(0)
}

fn sample(report: &Report) -> Sample {
    let latency = |name: &str| report.latency_us.get(name).copied().unwrap_or(f64::NAN);
    Sample {
        requests: report.requests,
        lost: errors(report, Kind::Lost),
        window_s: report.seconds,
        cpu_us_per_request: report.server_us_per_request.unwrap_or_default(),
        generator_us_per_request: report.generator.us_per_request,
        requests_per_s: report.requests_per_second,
        server_load: report.server.as_ref().map_or(0.0, |server| server.cpus_used),
        generator_load: report.generator.lanes.iter().map(|lane| lane.cpu_used).sum(),
        p50_us: latency("50"),
        p99_us: latency("99"),
        p999_us: latency("99.9"),
        max_us: latency("max"),
        doubts: report.doubts.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use corelane_load::report::{Generator, Lane, Server, Settings};

    use super::*;

    fn report() -> Report {
        Report {
            settings: Settings { connections: 3, duration_s: Some(0.8), ..Settings::default() },
            seconds: 0.8,
            requests: 40,
            requests_per_second: 50.0,
            errors: Kind::ALL.iter().map(|kind| (kind.name().to_owned(), 0)).collect(),
            latency_us: BTreeMap::from([("50", 5.0), ("99", 9.0), ("99.9", 9.9), ("max", 10.0)].map(|(k, v)| (k.to_owned(), v))),
            server_us_per_request: Some(2.0),
            server: Some(Server { cpus_used: 0.75, ..Server::default() }),
            generator: Generator {
                us_per_request: 1.5,
                lanes: vec![Lane { connections: 3, cpu_used: 0.5, ..Lane::default() }],
                ..Generator::default()
            },
            doubts: vec!["the host took 20 %".to_owned()],
            ..Report::default()
        }
    }

    fn with_errors(kind: Kind) -> Report {
        let mut report = report();
        report.errors.insert(kind.name().to_owned(), 7);
        report
    }

    #[test]
    fn a_report_becomes_a_sample_with_its_doubts() {
        let expected = Sample {
            requests: 40,
            lost: 0,
            window_s: 0.8,
            cpu_us_per_request: 2.0,
            generator_us_per_request: 1.5,
            requests_per_s: 50.0,
            server_load: 0.75,
            generator_load: 0.5,
            p50_us: 5.0,
            p99_us: 9.0,
            p999_us: 9.9,
            max_us: 10.0,
            doubts: vec!["the host took 20 %".to_owned()],
        };
        assert_eq!(sample(&report()), expected);
        assert_eq!(sample(&with_errors(Kind::Lost)).lost, 7);
        let alone = Report { server: None, server_us_per_request: None, ..report() };
        assert_eq!(sample(&alone), Sample { cpu_us_per_request: 0.0, server_load: 0.0, ..expected });
    }

    #[test]
    fn failures_are_named_but_a_datagram_may_be_lost() {
        check(&report()).expect("nothing failed; its doubts do not matter");
        for kind in [Kind::Lost, Kind::Duplicate, Kind::Reordered] {
            check(&with_errors(kind)).expect("no failure");
        }
        for kind in [Kind::Mismatch, Kind::Closed, Kind::ClientTimeout] {
            let error = check(&with_errors(kind)).expect_err("a failure").to_string();
            assert!(error.contains(&format!("7 by {kind}")), "{error}");
        }
    }

    #[test]
    fn a_report_is_read_where_the_code_promises_one() {
        let text = serde_json::to_vec(&report()).expect("JSON");
        let ended = |code: i32, stdout: &[u8]| {
            // A status as wait(2) gives it: the code is in the second byte.
            read(&Output { status: ExitStatus::from_raw(code << 8), stdout: stdout.to_vec(), stderr: Vec::new() })
        };
        for code in Verdict::ALL.map(|verdict| verdict as i32) {
            assert_eq!(ended(code, &text).expect("a report"), report());
        }
        for code in [1, 2] {
            let error = ended(code, &text).expect_err("no run was made").to_string();
            assert!(error.contains(&format!("exit status: {code}")), "{error}");
        }
        ended(0, b"no report").expect_err("no JSON");
        let failed = serde_json::to_vec(&with_errors(Kind::Reset)).expect("JSON");
        let error = ended(3, &failed).expect_err("a failure").to_string();
        assert!(error.contains("7 by reset"), "{error}");
    }

    #[test]
    fn a_run_that_is_not_whole_is_refused() {
        let error = check(&Report { seconds: 0.7, ..report() }).expect_err("cut short").to_string();
        assert!(error.contains("0.7 of 0.8 s"), "{error}");
        check(&Report { server_us_per_request: None, ..report() }).expect_err("no cost");
        let mut fewer = report();
        fewer.generator.lanes[0].connections = 2;
        let error = check(&fewer).expect_err("one is missing").to_string();
        assert!(error.contains("2 connections"), "{error}");
    }
}
