//! Whether the generator keeps the times that it is told: an open loop at a part of what the server can take.

use std::time::Duration;

use anyhow::{Context, Result};
use corelane_load::report::Report;
use serde::Serialize;

use super::cells::OpenLoop;
use super::doubts;
use super::generator;
use super::interrupt::Interrupt;
use super::load::{Timing, words};
use super::rounds::Verdict;
use super::stage::Stage;
use super::tables::{self, number, percent};

/// How long it runs.
pub const TIMING: Timing = Timing { warm_up: Duration::from_secs(1), window: Duration::from_secs(10) };

/// What the run showed.
#[derive(Clone, Debug, Serialize)]
pub struct OpenOutcome {
    /// The server.
    pub name: String,
    /// The rate that saturates it.
    pub saturation_per_s: f64,
    /// Requests a second that were to start in the window.
    pub offered_per_s: f64,
    /// Requests a second that were answered in it.
    pub achieved_per_s: f64,
    /// How late the generator sent, in the median.
    pub lag_p50_us: f64,
    /// And at 99 %.
    pub lag_p99_us: f64,
    /// Median time from a request's intended start to its answer.
    pub p50_us: f64,
    /// 99th percentile of it.
    pub p99_us: f64,
    /// Processor time of the server's threads per request.
    pub cpu_us_per_request: f64,
    /// Share of one CPU that they used.
    pub server_load: f64,
    /// Share of all CPU time that the host took from this machine.
    pub stolen: f64,
    /// What the generator doubted.
    pub doubts: Vec<String>,
}

/// Runs it; `saturation_per_s` is what the server took when it was asked without a pause.
///
/// # Errors
/// When the server does not start or answers wrongly, or when a signal asks for the end.
pub fn run(
    cell: &OpenLoop,
    saturation_per_s: f64,
    timing: Timing,
    stage: &mut Stage,
    interrupt: &Interrupt,
) -> Result<OpenOutcome> {
    interrupt.check()?;
    let running = stage.start(cell.server, cell.load.asks, cell.load.transport)?;
    let rate = (saturation_per_s * cell.part).to_string();
    let options = [cell.load.options(), timing.options(), words(["--rate", &rate])].concat();
    let report = generator::run(&stage.corelane, cell.load.workload(), &running, &options).context(cell.name)?;
    outcome(cell, saturation_per_s, &report)
}

fn outcome(cell: &OpenLoop, saturation_per_s: f64, report: &Report) -> Result<OpenOutcome> {
    let lag = report.send_lag_us.as_ref().context("the generator's report has no send lag")?;
    let of = |times: &corelane_load::report::Quantiles, name: &str| times.get(name).copied().unwrap_or(f64::NAN);
    Ok(OpenOutcome {
        name: cell.server.to_string(),
        saturation_per_s,
        offered_per_s: report.offered_per_second.context("the generator's report has no offered rate")?,
        achieved_per_s: report.requests_per_second,
        lag_p50_us: of(lag, "50"),
        lag_p99_us: of(lag, "99"),
        p50_us: of(&report.latency_us, "50"),
        p99_us: of(&report.latency_us, "99"),
        cpu_us_per_request: report.server_us_per_request.unwrap_or(f64::NAN),
        server_load: report.server.as_ref().map_or(f64::NAN, |server| server.cpus_used),
        stolen: report.generator.stolen,
        doubts: report.doubts.clone(),
    })
}

/// Holds an outcome against the bars.
pub fn judge(cell: &OpenLoop, outcome: &OpenOutcome) -> [Verdict; 2] {
    let deviation = (outcome.achieved_per_s / outcome.offered_per_s - 1.0).abs();
    let verdict = |what: &str, value, bar| Verdict::of_one(cell.name, format!("{}, {what}", outcome.name), value, bar);
    [
        verdict("deviation of the achieved rate from the offered one", deviation, cell.deviation),
        verdict("median send lag in us", outcome.lag_p50_us, cell.lag_us),
    ]
}

/// The table of the open loop.
pub fn table(cell: &str, outcome: &OpenOutcome) -> String {
    let row = vec![
        ("server", outcome.name.clone()),
        ("saturation/s", number(outcome.saturation_per_s, 0)),
        ("offered/s", number(outcome.offered_per_s, 1)),
        ("achieved/s", number(outcome.achieved_per_s, 1)),
        ("lag p50 us", number(outcome.lag_p50_us, 1)),
        ("lag p99 us", number(outcome.lag_p99_us, 1)),
        ("p50 us", number(outcome.p50_us, 0)),
        ("p99 us", number(outcome.p99_us, 0)),
        ("CPU us/req", number(outcome.cpu_us_per_request, 3)),
        ("server CPU", percent(outcome.server_load)),
        ("stolen", percent(outcome.stolen)),
    ];
    format!("{cell}\n{}{}", tables::table(&[row]), doubts::tally([outcome.doubts.as_slice()].into_iter()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bars::Word;
    use crate::cells::OPEN_LOOP;

    fn report(achieved: f64, lag_us: f64) -> Report {
        Report {
            requests_per_second: achieved,
            offered_per_second: Some(1_000.0),
            send_lag_us: Some(BTreeMap::from([("50".to_owned(), lag_us)])),
            ..Report::default()
        }
    }

    #[test]
    fn a_rate_is_missed_on_either_side_and_a_lag_at_its_bar() {
        let met = |achieved, lag_us| {
            let outcome = outcome(&OPEN_LOOP, 2_000.0, &report(achieved, lag_us)).expect("an open loop");
            judge(&OPEN_LOOP, &outcome).map(|verdict| verdict.word == Word::Met)
        };
        assert_eq!(met(999.5, 49.9), [true, true]);
        assert_eq!(met(1_000.5, 0.0), [true, true]);
        assert_eq!(met(998.0, 50.0), [false, false]);
        assert_eq!(met(1_002.0, f64::NAN), [false, false]);
        assert_eq!(met(0.0, 1e6), [false, false]);
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
        let table = super::table("a-cell", &outcome);
        let words: Vec<_> = table.lines().nth(2).expect("a row").split_whitespace().collect();
        assert_eq!(words.join(" "), "one 2000 1000.0 999.5 1.2 - 20 30 0.500 25 % 3 %");
        assert_eq!(table.lines().last(), Some("1 of 1 samples: late"));
    }

    #[test]
    fn a_closed_loop_is_no_outcome() {
        for report in [Report { send_lag_us: None, ..report(1.0, 1.0) }, Report { offered_per_second: None, ..report(1.0, 1.0) }]
        {
            outcome(&OPEN_LOOP, 1.0, &report).expect_err("no open loop");
        }
    }
}
