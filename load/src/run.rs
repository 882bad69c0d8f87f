//! One run: starts the lanes, listens to them, reads the clocks at the ends of the window, and writes the report.

use crate::collector::{Collector, Complete, LaneSum};
use crate::course::Event;
use crate::curve::{curve, quantiles};
use crate::ends::Ends;
use crate::error::Error;
use crate::facts::{Reading, ServerWatch, Watched, generator};
use crate::hdr::{self, About, Line};
use crate::interval::{Interval, Times};
use crate::plan::{Extent, Mode, Plan};
use crate::report::{Flow, Generator, Handshakes, Lane, Opened, Progress, Report, SCHEMA, Settings};
use crate::secure::Secure;
use crate::verdict;
use crate::workloads::{self, WorkloadEntry};
use corelane::Lanes;
use corelane::admin::machine::wall_clock;
use corelane::admin::watch::Reader;
use corelane::lanes::{LaneSettings, Running};
use corelane::service::{Limits, StreamOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How often a watcher is shown the run.
const SHOW_EVERY: u64 = 200_000_000;

/// How long after everything should be over a lane is waited for.
const GRACE: Duration = Duration::from_secs(30);

/// What goes beside a run.
pub struct Beside<'a> {
    /// Whose cost is measured.
    pub watched: Watched,
    /// Where the histogram log goes.
    pub hdr: Option<&'a mut dyn std::io::Write>,
    /// Is shown the run; returns false to end it early.
    pub show: &'a mut dyn FnMut(&Progress) -> bool,
}

/// Makes one run of a plan.
///
/// # Errors
/// Settings that cannot be met, a target that cannot be had at all, a server's process that cannot be read.
pub fn run(entry: &WorkloadEntry, plan: Plan, beside: Beside<'_>) -> Result<Report, Error> {
    measure(entry, plan, beside).map(|(report, _)| report)
}

/// [`run`], with all that was measured in the window.
///
/// # Errors
/// As for [`run`].
pub fn measure(entry: &WorkloadEntry, plan: Plan, beside: Beside<'_>) -> Result<(Report, Interval), Error> {
    let plan = Arc::new(plan.settled()?);
    let mut server = ServerWatch::open(beside.watched, &plan)?;
    let (events, told) = channel();
    let ends = Ends { plan: plan.clone(), events, stop: Arc::default() };
    let lanes = (entry.client)(lanes(&plan), ends.clone());
    let lanes = match &plan.secure {
        Some(secure) => secure.client.clone().before(lanes)?,
        None => lanes,
    };
    let running = lanes.start()?;
    let own = Reader::of(running.counters()).ok();
    let mut conduct = Conduct {
        collector: Collector::new(plan.clone()),
        running: &running,
        own: own.as_ref(),
        server: server.as_mut(),
        first: None,
        last: None,
        log: beside.hdr.map(|out| Log { out, has_header: false }),
        started_unix_s: 0.0,
    };
    conduct.listen(&told, &ends, beside.show)?;
    Ok(conduct.report(&plan))
}

/// The bounds of a client: only the plan bounds it, and it breaks nothing off by itself.
pub fn limits(plan: &Plan) -> Limits {
    let (send, receive) = plan.buffers;
    let stream = StreamOptions::new().keep_alive(Duration::ZERO).send_buffer_bytes(send).receive_buffer_bytes(receive);
    Limits::new()
        .connections_max(u32::MAX)
        .receive_rate_min(0)
        .idle_limit(Duration::ZERO)
        .read_limit(Duration::ZERO)
        .send_limit(Duration::ZERO)
        .connect_limit(plan.timeout)
        .handshake_limit(plan.timeout)
        .handshakes_max(u32::MAX)
        .output_max(usize::MAX)
        .datagram_sockets_max(u32::MAX)
        .datagrams_waiting_max(u32::MAX)
        .stream(stream)
}

/// The lanes that a plan asks for.
fn lanes(plan: &Plan) -> Lanes {
    // Lanes say a few words to one another; channels between hundreds of lanes must not cost gigabytes.
    let settings = LaneSettings::new().channel_messages(8);
    let lanes = Lanes::per_core().lanes(plan.lanes).driver(plan.driver).lane_settings(settings);
    let mut lanes = lanes.spin(plan.spin).limits(limits(plan));
    if let Some(cpus) = &plan.cpus {
        lanes = lanes.cpus(cpus.clone());
    }
    if let Some(port) = &plan.packet {
        lanes = lanes.packet(port.clone());
    }
    lanes.connections_max(u32::MAX)
}

/// A run under way.
struct Conduct<'a> {
    collector: Collector,
    running: &'a Running,
    own: Option<&'a Reader>,
    server: Option<&'a mut ServerWatch>,
    first: Option<Reading>,
    last: Option<Reading>,
    log: Option<Log<'a>>,
    started_unix_s: f64,
}

impl Conduct<'_> {
    fn listen(&mut self, told: &Receiver<Event>, ends: &Ends, show: &mut dyn FnMut(&Progress) -> bool) -> Result<(), Error> {
        let mut show_at = 0;
        let mut quiet_since = corelane::now().nanoseconds();
        while !self.collector.is_over() {
            match told.recv_timeout(self.patience(show_at)) {
                Ok(event) => {
                    quiet_since = corelane::now().nanoseconds();
                    self.collector.take(event);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Error::LaneLost),
            }
            self.read_clocks(&ends.plan);
            self.write_log()?;
            if let Some((kind, fault)) = self.collector.unreachable().filter(|_| ends.plan.gives_up) {
                return Err(Error::Unreachable { url: ends.plan.url.clone(), kind: *kind, fault: fault.clone() });
            }
            let now = corelane::now().nanoseconds();
            if now >= show_at {
                show_at = now + SHOW_EVERY;
                let goes_on = show(&self.collector.progress(now));
                ends.stop.fetch_or(!goes_on, Ordering::Relaxed);
            }
            if now.saturating_sub(quiet_since) > self.longest_silence(&ends.plan) {
                return Err(Error::LaneLost);
            }
        }
        self.read_clocks(&ends.plan);
        self.read_clocks_at_last();
        show(&self.collector.progress(corelane::now().nanoseconds()));
        self.write_log()
    }

    /// How long lanes may say nothing: they tell every second, but may wait for connections and for the last answers.
    fn longest_silence(&self, plan: &Plan) -> u64 {
        crate::course::nanoseconds(plan.timeout * 3 + plan.warm_up + GRACE)
    }

    /// Until the next thing that has its time: an end of the window, or the watcher's turn.
    fn patience(&self, show_at: u64) -> Duration {
        let now = corelane::now().nanoseconds();
        let (from, until) = self.collector.window().unwrap_or((u64::MAX, u64::MAX));
        let next = if self.first.is_none() {
            from
        } else if self.last.is_none() {
            until
        } else {
            u64::MAX
        };
        Duration::from_nanos(next.min(show_at).saturating_sub(now).max(1))
    }

    /// Reads the clocks once at each end of the window. A number of requests has its end when all are done.
    fn read_clocks(&mut self, plan: &Plan) {
        let Some((from, until)) = self.collector.window() else { return };
        let now = corelane::now().nanoseconds();
        if self.started_unix_s == 0.0 {
            self.started_unix_s = (wall_clock() as f64 - now as f64 + from as f64) / 1e9;
        }
        // Without a warm-up nobody does anything before the window, and it may begin before this thread gets to run again.
        if self.first.is_none() && (now >= from || plan.warm_up.is_zero()) {
            let reading = Reading::take(self.running, self.own, self.server.as_deref_mut());
            self.first = Some(reading.not_before(from));
        }
        if self.first.is_some() && self.last.is_none() && (now >= until || self.collector.is_over()) {
            self.last = Some(Reading::take(self.running, self.own, self.server.as_deref_mut()));
        }
    }

    /// A run that ended before its window has its readings all the same: what the lanes are, and have open, is known.
    fn read_clocks_at_last(&mut self) {
        for reading in [&mut self.first, &mut self.last] {
            reading.get_or_insert_with(|| Reading::take(self.running, self.own, self.server.as_deref_mut()));
        }
    }

    fn write_log(&mut self) -> Result<(), Error> {
        let complete = self.collector.take_complete();
        let Some(log) = &mut self.log else { return Ok(()) };
        complete.iter().try_for_each(|part| log.write(self.started_unix_s, part)).map_err(|error| Error::Log(error.to_string()))
    }

    fn report(mut self, plan: &Plan) -> (Report, Interval) {
        let mut report = report_of(plan, &self.collector, &self.running.driver().to_string());
        report.started_unix_s = self.started_unix_s;
        let total = &self.collector.total;
        let done = if plan.mode == Mode::Flood { total.sent } else { total.in_window };
        let server_ended = self.add_facts(&mut report, done);
        verdict::judge(plan, &self.collector, server_ended, &mut report);
        (report, self.collector.total)
    }

    /// Returns whether the server's process has ended meanwhile.
    fn add_facts(&mut self, report: &mut Report, done: u64) -> bool {
        let (Some(first), Some(last)) = (&self.first, &self.last) else { return false };
        let connections = if report.connection_us.is_none() { report.settings.connections } else { 0 };
        // By time, because the clocks are read a moment after the window's ends, under the same load.
        let requests = match report.settings.requests {
            None if report.seconds > 0.0 => done as f64 * last.since(first) / 1e9 / report.seconds,
            None => 0.0,
            Some(_) => done as f64,
        };
        let cost = self.server.as_mut().map(|server| server.report((first, last), requests, connections));
        let server_ended = matches!(cost, Some(None));
        if let Some(cost) = cost.flatten() {
            let per_request = cost.cpus_used * last.since(first) / 1e3 / requests;
            report.server_us_per_request = Some(per_request).filter(|us| us.is_finite());
            report.server = Some(cost);
        }
        let told = std::mem::replace(&mut report.generator, generator(self.running, self.own, (first, last), requests));
        self.add_flow_costs(report);
        for (lane, told) in report.generator.lanes.iter_mut().zip(told.lanes) {
            let Lane { cpu, cpu_used, busy, waiting_for_cpu, .. } = *lane;
            *lane = Lane { cpu, cpu_used, busy, waiting_for_cpu, ..told };
        }
        server_ended
    }
}

impl Conduct<'_> {
    /// What went one way has its costs by time, as requests have.
    fn add_flow_costs(&self, report: &mut Report) {
        let Some(flow) = &mut report.flow else { return };
        let gib_per_second = flow.gigabits_per_second * 1e9 / 8.0 / f64::from(1 << 30);
        let of = |cpus: f64| Some(cpus / gib_per_second).filter(|seconds| seconds.is_finite());
        flow.server_s_per_gib = report.server.as_ref().and_then(|server| of(server.cpus_used));
        flow.generator_s_per_gib = of(report.generator.lanes.iter().map(|lane| lane.cpu_used).sum());
    }
}

/// What the lanes of a run have told, as a report. What the operating system says of both sides is not in it, nor the
/// verdict ([`judge`](crate::judge)). `driver` is what the lanes ask the operating system through.
pub fn report_of(plan: &Plan, collector: &Collector, driver: &str) -> Report {
    let (total, seconds) = (&collector.total, collector.seconds());
    let errors = collector.errors();
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    // What is offered is connections where these have the times of their own, and each stands for its requests.
    let (each, went) = match plan.mode {
        Mode::Connections { requests, .. } => (u64::from(requests), total.asked),
        _ => (1, total.sent),
    };
    let has_rate = plan.mode.has_times();
    let times = |times: &Times| times.0.as_ref().map(|times| quantiles(times, &plan.quantiles));
    Report {
        schema: SCHEMA,
        program: format!("corelane {}", env!("CARGO_PKG_VERSION")),
        workload: plan.workload.clone(),
        target: plan.url.clone(),
        settings: settings(plan, driver),
        seconds,
        requests: total.requests,
        requests_per_second: per_second(total.in_window),
        answered_in_window: total.in_window,
        offered_per_second: has_rate.then(|| per_second(total.offered * each)),
        not_sent: has_rate.then(|| total.offered.saturating_sub(went) * each),
        sent: total.sent,
        bytes_sent: total.bytes_sent,
        bytes_received: total.bytes_received,
        renewed: total.renewed,
        asked_again: total.asked_again,
        handshakes: plan.secure.is_some().then(|| handshakes_of(collector)),
        handshake_us: times(&collector.handshakes.times),
        counted: plan.counts().iter().zip(total.counted).map(|(name, count)| ((*name).to_owned(), count)).collect(),
        errors: errors.by_name(plan.kinds()),
        flow: plan.mode.is_one_way().then(|| flow_of(plan, total, seconds)),
        latency_from: if has_rate { "intended start" } else { "send" }.to_owned(),
        latency_us: times(&total.latency).unwrap_or_default(),
        service_us: times(&total.service),
        send_lag_us: times(&total.lag),
        connect_us: times(&total.connect),
        connection_us: times(&total.connection),
        response_us: times(&total.response),
        transfer_us: times(&total.transfer),
        opened: matches!(plan.mode, Mode::Connections { .. }).then(|| opened_of(collector)),
        target_lanes: plan.aimed.as_ref().map(|aimed| aimed.target_lanes()).unwrap_or_default(),
        generator: Generator { lanes: lanes_of(collector), ..Generator::default() },
        series: collector.series.clone(),
        distribution: total.latency.0.as_ref().map(|times| curve(times)).unwrap_or_default(),
        service_distribution: total.service.0.as_ref().map(|times| curve(times)).unwrap_or_default(),
        ..Report::default()
    }
}

/// What went one way, without what it cost.
fn flow_of(plan: &Plan, total: &Interval, seconds: f64) -> Flow {
    let bytes = if plan.mode == Mode::Flood { total.bytes_sent } else { total.bytes_received };
    let gigabits_per_second = if seconds > 0.0 { bytes as f64 * 8.0 / seconds / 1e9 } else { 0.0 };
    Flow { gigabits_per_second, ..Flow::default() }
}

fn handshakes_of(collector: &Collector) -> Handshakes {
    let crate::secure::HandshakesTimed { full, resumed, .. } = collector.handshakes;
    Handshakes { full, resumed }
}

fn opened_of(collector: &Collector) -> Opened {
    let peaks = || collector.lanes.iter().map(|lane| lane.peaks);
    Opened {
        asked: collector.total.asked,
        answered: collector.total.connection.0.as_ref().map_or(0, |times| times.len()),
        most_at_once: peaks().map(|peaks| peaks.at_once).sum(),
        longest_burst: peaks().map(|peaks| peaks.burst).max().unwrap_or(0),
    }
}

fn lanes_of(collector: &Collector) -> Vec<Lane> {
    let told = |(lane, sum): (usize, &LaneSum)| Lane {
        longest_us: sum.longest as f64 / 1e3,
        gaps_us: sum.gaps.together as f64 / 1e3,
        longest_gap_us: sum.gaps.longest as f64 / 1e3,
        lane: lane as u64,
        connections: u64::from(sum.connections),
        requests: sum.requests,
        errors: sum.errors,
        seconds: collector.seconds_of(lane),
        ..Lane::default()
    };
    collector.lanes.iter().enumerate().map(told).collect()
}

/// The histogram log, written as seconds become complete.
struct Log<'a> {
    out: &'a mut dyn std::io::Write,
    has_header: bool,
}

impl Log<'_> {
    fn write(&mut self, started_unix_s: f64, part: &Complete) -> std::io::Result<()> {
        let is_warm_up = part.at_s < 0.0;
        let latency = line(part, if is_warm_up { About::WarmUp } else { About::Latency }, &part.interval.latency);
        let service = line(part, About::Service, &part.interval.service).filter(|_| !is_warm_up);
        let lines: Vec<Line<'_>> = latency.into_iter().chain(service).collect();
        match std::mem::replace(&mut self.has_header, true) {
            true => hdr::append(self.out, started_unix_s, &lines),
            false => hdr::log(self.out, started_unix_s, &lines),
        }
    }
}

fn line<'a>(part: &Complete, about: About, times: &'a Times) -> Option<Line<'a>> {
    let times = times.0.as_deref().filter(|times| !times.is_empty())?;
    Some(Line { about, start_s: part.at_s, length_s: part.length_s, times })
}

fn settings(plan: &Plan, driver: &str) -> Settings {
    let (mode, arrivals) = match &plan.mode {
        Mode::Closed => ("closed", None),
        Mode::Flood => ("flood", None),
        Mode::Sink => ("sink", None),
        Mode::Open { arrivals, .. } => ("open", Some(arrivals)),
        Mode::Connections { arrivals, .. } => ("connections", Some(arrivals)),
    };
    Settings {
        mode: mode.to_owned(),
        connections: u64::from(plan.connections),
        depth: u64::from(plan.depth),
        size: plan.size as u64,
        call: workloads::find(&plan.workload).and_then(|entry| (entry.call)(plan)),
        rate: plan.rate(),
        requests_per_connection: if let Mode::Connections { requests, .. } = plan.mode {
            Some(u64::from(requests))
        } else {
            plan.requests_each.map(u64::from)
        },
        arrivals: arrivals.map(|arrivals| arrivals.name().to_owned()),
        duration_s: if let Extent::For(length) = plan.extent { Some(length.as_secs_f64()) } else { None },
        requests: if let Extent::Requests(requests) = plan.extent { Some(requests) } else { None },
        warm_up_s: plan.warm_up.as_secs_f64(),
        timeout_s: plan.timeout.as_secs_f64(),
        lanes: plan.lanes as u64,
        spin_us: u64::try_from(plan.spin.as_micros()).unwrap_or(u64::MAX),
        driver: driver.to_owned(),
        seed: plan.seed,
        tls: plan.secure.as_ref().map(Secure::words),
        spread: plan.aim.as_ref().map(|aim| crate::aim::text(&aim.spread)),
    }
}
