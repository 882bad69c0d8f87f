//! Puts together what the lanes tell: second by second, and in all.

use crate::course::{Event, Gaps, Peaks, kinds};
use crate::curve::quantiles;
use crate::interval::Interval;
use crate::kinds::{Errors, Kind};
use crate::plan::{Extent, Plan};
use crate::report::{LaneFlow, Progress, Second};
use crate::secure::HandshakesTimed;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the run has come to so far.
pub struct Collector {
    plan: Arc<Plan>,
    /// The window, in nanoseconds of the lanes' clock, once it is known.
    window: Option<(u64, u64)>,
    pending: BTreeMap<i64, Pending>,
    pub(crate) total: Interval,
    pub(crate) opening: Errors,
    pub(crate) handshakes: HandshakesTimed,
    pub(crate) lanes: Vec<LaneSum>,
    pub(crate) series: Vec<Second>,
    /// Intervals that are complete and were not taken yet.
    complete: Vec<Complete>,
    unreachable: Option<(Kind, String)>,
}

/// What one lane has come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneSum {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) connections: u32,
    pub(crate) early: Option<String>,
    pub(crate) peaks: Peaks,
    pub(crate) gaps: Gaps,
    /// The longest latency, in nanoseconds.
    pub(crate) longest: u64,
    ended: u64,
    is_over: bool,
    has_nothing: bool,
}

/// An interval that some lanes have told.
struct Pending {
    interval: Interval,
    length: u64,
    requests: Vec<u64>,
    flows: Vec<LaneFlow>,
    told: Vec<bool>,
}

/// One interval of all lanes.
pub struct Complete {
    /// When it began, in seconds from the window's begin.
    pub at_s: f64,
    /// Its length in seconds.
    pub length_s: f64,
    /// What was measured.
    pub interval: Interval,
}

impl Collector {
    /// For the run of a plan.
    pub fn new(plan: Arc<Plan>) -> Self {
        let lanes = vec![LaneSum::default(); plan.lanes];
        Self {
            plan,
            window: None,
            pending: BTreeMap::new(),
            total: Interval::default(),
            opening: Errors::default(),
            handshakes: HandshakesTimed::default(),
            lanes,
            series: Vec::new(),
            complete: Vec::new(),
            unreachable: None,
        }
    }

    /// Takes in what a lane tells.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Opened { lane, connections } => self.lanes[lane].connections = connections,
            Event::Started { from, until } => {
                assert!(from <= until, "a window ends after it has begun");
                self.window = Some((from, until));
            }
            Event::Interval { lane, index, length, interval } => self.take_interval(lane, index, length, *interval),
            Event::Over { lane, early, connections, ended, opening, peaks, gaps, handshakes } => {
                self.handshakes.merge(&handshakes);
                let sum = &mut self.lanes[lane];
                assert!(!sum.is_over, "a lane is over once");
                (sum.early, sum.connections, sum.ended, sum.is_over) = (early, connections, ended, true);
                (sum.peaks, sum.gaps) = (peaks, gaps);
                sum.errors += opening.failures();
                self.opening.merge(&opening);
            }
            Event::Unreachable { lane, kind, fault } => {
                for (index, sum) in self.lanes.iter_mut().enumerate() {
                    sum.has_nothing |= lane.is_none_or(|lane| lane == index);
                }
                self.unreachable = self.unreachable.take().or(Some((kind, fault)));
            }
        }
        self.complete_intervals();
    }

    fn take_interval(&mut self, lane: usize, index: i64, length: u64, interval: Interval) {
        assert!(!self.lanes[lane].is_over, "a lane that is over tells no more: its intervals may be closed");
        let lanes = self.lanes.len();
        let pending = self.pending.entry(index).or_insert_with(|| Pending {
            interval: Interval::default(),
            length: 0,
            requests: vec![0; lanes],
            flows: vec![LaneFlow::default(); lanes],
            told: vec![false; lanes],
        });
        pending.length = pending.length.max(length);
        pending.requests[lane] += interval.requests;
        pending.flows[lane] = flow_of(&interval);
        if index >= 0 {
            let (sum, longest) = (&mut self.lanes[lane], interval.latency.0.as_ref().map_or(0, |times| times.max()));
            sum.requests += interval.requests;
            sum.errors += interval.errors.failures();
            sum.longest = sum.longest.max(longest);
        }
        match pending.told.contains(&true) {
            // Of one lane alone it is the sum: its histograms need not be copied.
            false => pending.interval = Interval { open: 0, ..interval },
            true => pending.interval.merge(&interval),
        }
        pending.told[lane] = true;
    }

    /// Closes, in order, every interval that all lanes have told, or will never tell.
    fn complete_intervals(&mut self) {
        while let Some(entry) = self.pending.first_entry() {
            let is_complete = entry.get().told.iter().zip(&self.lanes).all(|(&told, lane)| told || lane.is_over);
            if !is_complete {
                return;
            }
            let (index, pending) = entry.remove_entry();
            self.close(index, pending);
        }
    }

    fn close(&mut self, index: i64, pending: Pending) {
        let warm_up = self.plan.warm_up.as_secs_f64();
        let (at_s, length_s) = ((index as f64).max(-warm_up), pending.length as f64 / 1e9);
        if index >= 0 {
            // Also those of which nothing is recorded in the end: they are of the run.
            self.total.prepare(kinds(&self.plan.mode));
            self.total.merge(&pending.interval);
        }
        if self.is_in_series(at_s) && pending.length > 0 {
            self.series.push(self.second(at_s, length_s, &pending));
        }
        self.complete.push(Complete { at_s, length_s, interval: pending.interval });
    }

    /// What comes behind the window is no second of it, but counts.
    fn is_in_series(&self, at_s: f64) -> bool {
        match self.plan.extent {
            Extent::For(length) => at_s < length.as_secs_f64(),
            Extent::Requests(_) => true,
        }
    }

    fn second(&self, at_s: f64, length_s: f64, pending: &Pending) -> Second {
        let interval = &pending.interval;
        let mut errors = interval.errors.by_name(self.plan.kinds());
        errors.retain(|_, &mut count| count > 0);
        let answered = if at_s < 0.0 { interval.requests } else { interval.in_window };
        Second {
            at_s,
            length_s,
            requests_per_second: answered as f64 / length_s,
            errors,
            latency_us: interval.latency.0.as_ref().map(|times| quantiles(times, &self.plan.quantiles)).unwrap_or_default(),
            lanes: pending.requests.clone(),
            flows: if self.plan.mode.is_one_way() { pending.flows.clone() } else { Vec::new() },
        }
    }

    /// The intervals that have become complete since the last call.
    pub fn take_complete(&mut self) -> Vec<Complete> {
        std::mem::take(&mut self.complete)
    }

    /// Whether every lane has done its part.
    pub fn is_over(&self) -> bool {
        self.lanes.iter().all(|lane| lane.is_over)
    }

    /// Why nothing can be had of the target, if that is so for every lane, or for those that had anything to do.
    pub fn unreachable(&self) -> Option<&(Kind, String)> {
        let has_nothing = |lane: &LaneSum| lane.has_nothing || (lane.is_over && lane.requests + lane.errors == 0);
        self.unreachable.as_ref().filter(|_| self.lanes.iter().all(has_nothing))
    }

    /// When the window begins and ends, in nanoseconds of the lanes' clock, once it is known.
    pub fn window(&self) -> Option<(u64, u64)> {
        self.window
    }

    /// Length of the window in seconds: what was asked for, or until the last request was answered or given up; less if the run was ended.
    pub fn seconds(&self) -> f64 {
        let Some((from, until)) = self.window else { return 0.0 };
        let ended = self.lanes.iter().map(|lane| lane.ended).max().unwrap_or(from);
        let was_cut = self.lanes.iter().any(|lane| lane.early.is_some());
        let end = if until == u64::MAX || was_cut { ended } else { until };
        end.saturating_sub(from) as f64 / 1e9
    }

    /// From the window's begin to when the lane's last request was answered or given up.
    pub(crate) fn seconds_of(&self, lane: usize) -> f64 {
        let from = self.window.map_or(u64::MAX, |(from, _)| from);
        self.lanes[lane].ended.saturating_sub(from) as f64 / 1e9
    }

    /// Errors of the whole run, those before the window included.
    pub fn errors(&self) -> Errors {
        let mut errors = self.total.errors;
        errors.merge(&self.opening);
        errors
    }

    /// What to show of the run at `now`, in nanoseconds of the lanes' clock.
    pub fn progress(&self, now: u64) -> Progress {
        let (from, until) = self.window.unwrap_or((u64::MAX, u64::MAX));
        let open = self.lanes.iter().map(|lane| u64::from(lane.connections)).sum();
        let elapsed_s = if from == u64::MAX { 0.0 } else { now as f64 / 1e9 - from as f64 / 1e9 };
        let window_s = if until == u64::MAX { None } else { Some((until - from) as f64 / 1e9) };
        let phase = match () {
            () if self.is_over() => "done",
            () if self.window.is_none() => "connecting",
            () if now < from => "warming up",
            () if now < until => "measuring",
            () => "waiting for the last answers",
        };
        Progress {
            phase: phase.to_owned(),
            what: format!("{} {}", self.plan.workload, self.plan.url),
            connections: (open, u64::from(self.plan.connections)),
            done: self.done(elapsed_s, window_s),
            elapsed_s,
            left_s: window_s.filter(|_| !self.is_over()).map(|length| (length - elapsed_s).max(0.0)),
            rate: self.plan.rate(),
            series: self.series.clone(),
            requests: self.total.requests,
            latency_us: self.total.latency.0.as_ref().map(|times| quantiles(times, &self.plan.quantiles)).unwrap_or_default(),
            errors: self.errors().by_name(self.plan.kinds()),
            lag_us: self.total.lag.0.as_ref().map(|times| times.value_at_quantile(0.5) as f64 / 1e3),
            run: (1, 1),
        }
    }

    fn done(&self, elapsed_s: f64, window_s: Option<f64>) -> f64 {
        let part = match (self.plan.extent, window_s) {
            (Extent::Requests(all), _) => (self.total.requests + self.total.errors.failures()) as f64 / all as f64,
            (_, Some(length)) if length > 0.0 => elapsed_s / length,
            _ => 0.0,
        };
        part.clamp(0.0, 1.0)
    }
}

/// What went one way on a lane in an interval.
fn flow_of(interval: &Interval) -> LaneFlow {
    let Interval { open, opened, closed, bytes_sent, bytes_received, .. } = *interval;
    LaneFlow { connections: open, opened, closed, bytes_sent, bytes_received }
}
