//! What a report must say, from an account that is kept beside the engine.

use corelane_load::interval::LONGEST_NS;
use corelane_load::kinds::Kind;
use corelane_load::plan::{Extent, Mode, Plan};
use corelane_load::report::{Quantiles, Report};
use std::collections::BTreeMap;

/// What counts: in a closed loop that ends by time what happens in the window, else what was to start in it.
#[derive(Clone, Copy)]
pub struct Window {
    pub from: u64,
    pub until: u64,
    pub by_time: bool,
}

impl Window {
    pub fn of(plan: &Plan, (from, until): (u64, u64)) -> Self {
        Self { from, until, by_time: plan.mode == Mode::Closed && matches!(plan.extent, Extent::For(_)) }
    }

    pub fn has(&self, at: u64) -> bool {
        self.from <= at && at < self.until
    }

    pub fn counts(&self, intended: u64, now: u64) -> bool {
        self.has(if self.by_time { now } else { intended })
    }
}

/// Times that are known, each to lie between two bounds (mostly the same one twice).
#[derive(Clone, Debug, Default)]
pub struct Spans {
    least: Vec<u64>,
    most: Vec<u64>,
}

impl Spans {
    pub fn add(&mut self, nanoseconds: u64) {
        self.add_between(nanoseconds, nanoseconds);
    }

    /// Clocks jump here, and longer times than a histogram holds are counted as its longest.
    pub fn add_between(&mut self, least: u64, most: u64) {
        self.least.push(least.min(LONGEST_NS));
        self.most.push(most.min(LONGEST_NS));
    }

    /// Compares with what a report says in microseconds: each quantile lies within one bucket of the histogram (three digits).
    fn compare(&self, name: &str, reported: &Quantiles) {
        if self.least.is_empty() {
            return assert!(reported.is_empty(), "{name}: nothing was to be recorded, but {reported:?}");
        }
        let (mut least, mut most) = (self.least.clone(), self.most.clone());
        least.sort_unstable();
        most.sort_unstable();
        let bucket = |ns: u64| ns / 1_000 + 1;
        let between = |what: &str, low: u64, high: u64, got: f64| {
            let got = (got * 1e3).round() as u64;
            assert!(got + bucket(low) >= low && got <= high + bucket(high), "{name} {what}: {got} ns, not {low} to {high}");
        };
        for (percent, &us) in reported {
            let Ok(share) = percent.parse::<f64>() else { continue };
            // The least time within which so many percent were answered, in whole numbers: percentages have one decimal here.
            let rank = ((share * 10.0).round() as usize * least.len()).div_ceil(1_000).max(1) - 1;
            between(percent, least[rank], most[rank], us);
        }
        between("min", least[0], most[0], reported["min"]);
        between("max", least[least.len() - 1], most[most.len() - 1], reported["max"]);
        let mean = |times: &[u64]| (times.iter().sum::<u64>() as f64 / times.len() as f64) as u64;
        between("mean", mean(&least), mean(&most), reported["mean"]);
    }
}

/// Requests that what has a time of its own stands for: a connection for those on it.
pub fn requests_each(plan: &Plan) -> u64 {
    if let Mode::Connections { requests, .. } = plan.mode { u64::from(requests) } else { 1 }
}

/// All that an account can say of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub requests: u64,
    /// Answered in each second of the window.
    pub seconds: BTreeMap<u64, u64>,
    pub offered: u64,
    pub not_sent: u64,
    pub sent: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub errors: BTreeMap<Kind, u64>,
    /// Requests that failed, each of one kind.
    pub failed: u64,
    /// When the last request that counts was answered or given up.
    pub ended: u64,
    /// How much later than that it may have been.
    pub ended_within: u64,
    pub latency: Spans,
    pub service: Spans,
    pub lag: Spans,
    pub connect: Spans,
    /// Of the connections on which something was answered.
    pub connection: Spans,
    pub response: Spans,
    pub transfer: Spans,
    /// Answered, lane by lane.
    pub lanes: Vec<u64>,
}

impl Figures {
    pub fn error(&mut self, kind: Kind, count: u64) {
        if count > 0 {
            *self.errors.entry(kind).or_default() += count;
        }
    }

    pub fn of(&self, kind: Kind) -> u64 {
        self.errors.get(&kind).copied().unwrap_or(0)
    }

    /// A right answer to a request.
    pub fn answered(&mut self, window: Window, lane: usize, (intended, sent): (u64, u64), now: u64) {
        if window.has(now) {
            *self.seconds.entry((now - window.from) / 1_000_000_000).or_default() += 1;
        }
        if window.counts(intended, now) {
            self.requests += 1;
            self.lanes[lane] += 1;
            self.ended = self.ended.max(now);
            self.latency.add(now - intended);
            self.service.add(now - sent);
        }
    }

    /// Compares with the report, in all that is said there.
    pub fn compare(&self, plan: &Plan, window: (u64, u64), report: &Report) {
        for kind in Kind::ALL {
            assert_eq!(report.errors[kind.name()], self.of(kind), "errors: {kind}, of {:?}", self.errors);
        }
        assert_eq!(report.requests, self.requests, "requests");
        assert_eq!(report.sent, self.sent, "sent");
        assert_eq!(report.bytes_sent, self.bytes_sent, "bytes sent");
        assert_eq!(report.bytes_received, self.bytes_received, "bytes received");
        let has_rate = plan.mode != Mode::Closed;
        assert_eq!(report.not_sent, has_rate.then_some(self.not_sent * requests_each(plan)), "not sent");
        self.compare_rates(plan, window, report);
        self.compare_times(plan, report);
        self.compare_opened(report);
        let told: Vec<u64> = report.generator.lanes.iter().map(|lane| lane.requests).collect();
        assert_eq!(told, self.lanes, "requests of each lane");
    }

    fn compare_opened(&self, report: &Report) {
        if let Some(opened) = &report.opened {
            assert_eq!(opened.asked, self.offered - self.not_sent, "connections asked for");
            assert_eq!(opened.answered, self.connection.least.len() as u64, "connections with an answer");
        }
    }

    fn compare_rates(&self, plan: &Plan, (from, until): (u64, u64), report: &Report) {
        let end = if until == u64::MAX { self.ended.max(from) } else { until };
        let (seconds, more) = ((end - from) as f64 / 1e9, self.ended_within as f64 / 1e9);
        let longer = report.seconds - seconds;
        assert!(longer > -1e-9 && longer <= more + 1e-9, "the window: {} s, not {seconds}", report.seconds);
        let count = |rate: f64| (rate * report.seconds).round() as u64;
        let answered: u64 = self.seconds.values().sum();
        assert_eq!(count(report.requests_per_second), if seconds > 0.0 { answered } else { 0 }, "the rate");
        assert_eq!(report.answered_in_window, answered, "what the rate is made of");
        if let Some(offered) = report.offered_per_second {
            let due = self.offered * requests_each(plan);
            assert_eq!(count(offered), if seconds > 0.0 { due } else { 0 }, "what was offered");
        }
        for second in report.series.iter().filter(|second| second.at_s >= 0.0) {
            let expected = self.seconds.get(&(second.at_s as u64)).copied().unwrap_or(0);
            let got = (second.requests_per_second * second.length_s).round() as u64;
            assert_eq!(got, expected, "second {} of {:?}", second.at_s, self.seconds);
        }
        let lengths: f64 = report.series.iter().filter(|second| second.at_s >= 0.0).map(|second| second.length_s).sum();
        if let Extent::For(length) = plan.extent {
            assert!((lengths - length.as_secs_f64()).abs() < 1e-9, "the seconds are {lengths} s together");
        }
    }

    fn compare_times(&self, plan: &Plan, report: &Report) {
        let none = Quantiles::new();
        self.latency.compare("latency", &report.latency_us);
        let (has_rate, by_connection) = (plan.mode != Mode::Closed, matches!(plan.mode, Mode::Connections { .. }));
        for (name, is_there, spans, reported) in [
            ("service", has_rate, &self.service, &report.service_us),
            ("lag", has_rate, &self.lag, &report.send_lag_us),
            ("connect", by_connection, &self.connect, &report.connect_us),
            ("connection", by_connection, &self.connection, &report.connection_us),
            ("response", by_connection, &self.response, &report.response_us),
            ("transfer", by_connection, &self.transfer, &report.transfer_us),
        ] {
            if is_there {
                spans.compare(name, reported.as_ref().unwrap_or(&none));
            } else {
                assert_eq!(reported, &None, "{name} is not measured in this mode");
            }
        }
    }
}
