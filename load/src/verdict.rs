//! Whether a run can be believed, and what set its rate.

use crate::collector::Collector;
use crate::kinds::{Kind, is_failure};
use crate::plan::{Mode, Plan};
use crate::report::{Lane, Paired, Report};
use corelane::lanes::Transport;

/// What came of a load, as its program ends: what scripts act on. The numbers are its exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Every request was answered rightly, and the figures can be believed.
    Good = 0,
    /// Requests failed, some or all; the report says how, and whether its figures can be believed all the same.
    Failures = 3,
    /// No request failed, but the figures are not to be believed: the run fell behind, was cut short, or was disturbed.
    Doubts = 4,
}

impl Verdict {
    /// All.
    pub const ALL: [Self; 3] = [Self::Good, Self::Failures, Self::Doubts];

    fn of(has_failures: bool, is_believable: bool) -> Self {
        match (has_failures, is_believable) {
            (true, _) => Self::Failures,
            (false, false) => Self::Doubts,
            (false, true) => Self::Good,
        }
    }
}

impl Report {
    /// What came of the run, or runs.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.has_failures(), self.believable)
    }

    /// Which answers came that were not right, by status, where the workload counts that.
    pub(crate) fn other_answers(&self) -> Option<String> {
        let statuses = self.counted.iter().filter(|(name, times)| name.starts_with("status_") && **times > 0);
        let words: Vec<String> = statuses.map(|(name, times)| format!("{} {times} times", name.replace('_', " "))).collect();
        (!words.is_empty()).then(|| format!("what came had {}", words.join(", ")))
    }

    fn has_failures(&self) -> bool {
        self.errors.iter().any(|(kind, &count)| count > 0 && is_failure(kind))
    }
}

impl Paired {
    /// What came of all rounds.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.a.has_failures() || self.b.has_failures(), self.believable)
    }
}

/// A rate counts as achieved from this share of what was offered on.
const ACHIEVED: f64 = 0.99;

/// A lane of the generator that works, or waits for its CPU, for this share of the time is at its limit.
const BUSY: f64 = 0.95;

/// A server is at its limit when it uses this share of a whole number of CPUs.
const USED: f64 = 0.93;

/// A lane that must wait for its CPU for this share of the time measures the waiting.
const WAITING: f64 = 0.05;

/// From this share on, the time that the host took from the machine casts doubt.
const STOLEN: f64 = 0.1;

/// The send lag at 99 % may be this long, whatever the latency, in microseconds.
const LAG_US: f64 = 1_000.0;

/// More failures than this share of what was answered or failed cast doubt: the figures are of the others.
const FAILED: f64 = 0.01;

/// A lane of the generator may be away for this share of the window, and for so long at once, in microseconds.
const AWAY: f64 = 0.05;
const AWAY_US: f64 = 250_000.0;

/// Settles `limit`, `believable`, `doubts` and `notes` of a report that is otherwise complete.
pub fn judge(plan: &Plan, collector: &Collector, server_ended: bool, report: &mut Report) {
    report.limit = limit(plan, report).to_owned();
    let early = collector.lanes.iter().filter_map(|lane| lane.early.clone());
    let mut doubts: Vec<String> = early.map(|why| format!("the run was given up: {why}")).take(1).collect();
    doubts.extend([missing(plan, collector), fell_behind(plan, report), lagged(report)].into_iter().flatten());
    if plan.mode != Mode::Flood {
        // A flood need not be answered, and is to use all that the generator has.
        doubts.extend([nothing_answered(report).or_else(|| failed(plan, report)), generator_limit(report)].into_iter().flatten());
    }
    doubts.extend([waited(report), was_away(report), stolen(report)].into_iter().flatten());
    doubts.extend(server_ended.then(|| "the server's process ended during the run".to_owned()));
    report.believable = doubts.is_empty();
    report.doubts = doubts;
    report.notes = notes(report);
}

/// What set the rate.
fn limit(plan: &Plan, report: &Report) -> &'static str {
    let keeps_up = report.offered_per_second.is_some_and(|offered| ended_per_second(plan, report) >= offered * ACHIEVED);
    if keeps_up {
        return "rate";
    }
    let server_is_full = report.server.as_ref().is_some_and(|server| {
        let cpus = server.cpus_used.round().max(1.0);
        server.cpus_used >= cpus * USED
    });
    if server_is_full {
        return "server";
    }
    if report.generator.lanes.iter().any(is_full) { "generator" } else { "neither" }
}

/// Requests that came to an end each second, answered or failed. A connection that fails takes all its requests along.
fn ended_per_second(plan: &Plan, report: &Report) -> f64 {
    let each = if let Mode::Connections { requests, .. } = &plan.mode { f64::from(*requests) } else { 1.0 };
    report.requests_per_second + failures(plan, report) as f64 * each / report.seconds.max(f64::MIN_POSITIVE)
}

/// Requests that failed, and connections that could not be had.
fn failures(plan: &Plan, report: &Report) -> u64 {
    // A datagram that is no answer leaves the one that it is sent for to be lost.
    let is_another = |name: &str| plan.transport == Transport::Udp && name == Kind::Mismatch.name();
    report.errors.iter().filter(|(name, _)| is_failure(name) && !is_another(name)).map(|(_, count)| count).sum()
}

/// Whether a lane had no time left: it worked, or waited for its CPU, all the time.
fn is_full(lane: &Lane) -> bool {
    lane.busy + lane.waiting_for_cpu >= BUSY
}

fn nothing_answered(report: &Report) -> Option<String> {
    if report.flow.is_some() {
        return (report.bytes_received == 0).then(|| "nothing came: does the server send by itself?".to_owned());
    }
    let others = report.other_answers().map_or_else(String::new, |others| format!("; {others}"));
    (report.requests == 0).then(|| format!("nothing was answered rightly{others}"))
}

fn missing(plan: &Plan, collector: &Collector) -> Option<String> {
    let open: u64 = collector.lanes.iter().map(|lane| u64::from(lane.connections)).sum();
    let wanted = u64::from(plan.connections);
    let counts = !matches!(plan.mode, Mode::Connections { .. });
    (counts && open < wanted).then(|| format!("only {open} of {wanted} connections were open at the end"))
}

/// Requests that failed, and connections that could not be had, where they are too many.
fn failed(plan: &Plan, report: &Report) -> Option<String> {
    let failed = failures(plan, report);
    let share = failed as f64 / (failed + report.requests).max(1) as f64;
    (share > FAILED).then(|| {
        format!(
            "{:.1} % of what was tried failed: the rate counts only what succeeded; the latency counts that, and requests that timed out",
            share * 100.0
        )
    })
}

fn fell_behind(plan: &Plan, report: &Report) -> Option<String> {
    let (offered, achieved) = (report.offered_per_second?, report.requests_per_second);
    let whose = match report.limit.as_str() {
        "server" => "the server was at its limit",
        "generator" => "the generator was at its limit: give it more lanes, or CPUs of its own",
        _ => "every connection had as many requests in flight as it may: more connections, or more depth, would show more",
    };
    // Requests that failed were sent in time: of those it is said that they failed.
    (ended_per_second(plan, report) < offered * ACHIEVED)
        .then(|| format!("the run fell behind: {achieved:.1} requests/s were answered of {offered:.1} offered; {whose}"))
}

fn lagged(report: &Report) -> Option<String> {
    let lag = *report.send_lag_us.as_ref()?.get("99")?;
    let latency = report.latency_us.get("99").copied();
    // The lag is of all that were sent at times of their own, the latency of all that were answered: either may be the longer one.
    let beside = match latency {
        Some(latency) if lag < latency => format!("which is a part of the latency at 99 %, {latency:.0} us"),
        Some(latency) => format!("as long as the latency at 99 %, {latency:.0} us, or longer: that is the generator's own"),
        None => "and no latency was measured".to_owned(),
    };
    (lag > LAG_US && latency.is_none_or(|latency| lag > latency / 10.0))
        .then(|| format!("the generator sent late: 1 % of what had its own time by more than {lag:.0} us, {beside}; let it spin, or give it more lanes"))
}

fn generator_limit(report: &Report) -> Option<String> {
    let lane = report.generator.lanes.iter().find(|lane| is_full(lane))?;
    let waiting = match lane.waiting_for_cpu {
        waiting if waiting >= 0.005 => format!(" and waited {:.0} % for its CPU", waiting * 100.0),
        _ => String::new(),
    };
    (report.limit == "generator" && report.offered_per_second.is_none()).then(|| {
        format!(
            "the generator was at its limit (lane {} was busy {:.0} % of the time{}): the server may do more; give the generator more lanes, or CPUs of its own",
            lane.lane,
            lane.busy * 100.0,
            waiting
        )
    })
}

fn waited(report: &Report) -> Option<String> {
    let lane = report.generator.lanes.iter().find(|lane| lane.waiting_for_cpu > WAITING)?;
    Some(format!(
        "lane {} of the generator waited {:.0} % of the time for its CPU: something else runs there",
        lane.lane,
        lane.waiting_for_cpu * 100.0
    ))
}

fn was_away(report: &Report) -> Option<String> {
    let lane = report.generator.lanes.iter().max_by(|a, b| a.longest_gap_us.total_cmp(&b.longest_gap_us))?;
    let most = report.generator.lanes.iter().map(|lane| lane.gaps_us).fold(0.0, f64::max);
    (lane.longest_gap_us > AWAY_US || most > report.seconds * 1e6 * AWAY).then(|| {
        format!(
            "lane {} of the generator was away for up to {:.0} ms, though it had something to do: it was stopped, or had no CPU, or its turn took so long",
            lane.lane,
            lane.longest_gap_us / 1e3
        )
    })
}

fn stolen(report: &Report) -> Option<String> {
    let stolen = report.generator.stolen;
    (stolen > STOLEN).then(|| format!("the host took {:.0} % of this machine's CPU time", stolen * 100.0))
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let generator = &report.generator;
    if generator.socket_buffer_drops > 0 {
        let drops = generator.socket_buffer_drops;
        notes.push(format!("{drops} packets were dropped in this network namespace because a socket's buffer was full (a train of datagrams is one)"));
    }
    if report.seconds < 1.0 && report.requests > 0 {
        notes.push(format!("the run was short: {:.3} s", report.seconds));
    }
    notes
}
