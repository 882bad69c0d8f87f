//! One look, as the page in the browser needs it.

use super::sample::{Sample, microseconds, rate};
use corelane::admin::watch::{
    ConnectionRow, ConnectionState, LaneFigures, ProcessFigures, ServiceFigures, ServiceName, Snapshot,
};
use corelane::admin::wrong::{Finding, Grade, findings};
use corelane_upstreams::{Row, Shown, since};
use serde::Serialize;
use std::cmp::Reverse;

/// The most lanes that are told, the most lines of what is wrong, and the most connections. How many there are is told.
const LANES_MAX: usize = 256;
const WRONG_MAX: usize = 50;
const CONNECTIONS_MAX: usize = 20;
/// The most upstreams that are told.
const UPSTREAMS_MAX: usize = 256;

#[derive(Debug, Serialize)]
pub(super) struct Look<'a> {
    pid: u32,
    program: &'a str,
    started_unix_milliseconds: u64,
    driver: &'a str,
    steering: &'a str,
    sample: Option<&'a Sample>,
    imbalance: Option<f64>,
    lanes_in_all: usize,
    lanes: Vec<Lane>,
    services: Vec<Service<'a>>,
    /// The lane of each bucket.
    buckets: &'a [u16],
    wrong_in_all: usize,
    wrong: Vec<Wrong>,
    connections_in_all: usize,
    connections: Vec<Connection>,
    upstreams_in_all: usize,
    upstreams: Vec<Upstream<'a>>,
}

/// An upstream: totals, but for what stands of each second.
#[derive(Debug, Serialize)]
pub(super) struct Upstream<'a> {
    service: &'a str,
    url: &'a str,
    name: &'a str,
    /// None where its name has none.
    address: Option<String>,
    /// Why its name is not resolved.
    fault: Option<&'a str>,
    state: &'static str,
    weight: u16,
    open: u32,
    /// Of each second.
    uses: f64,
    bytes_to: f64,
    bytes_from: f64,
    failures: u64,
    retries: u64,
    ejections: u64,
    first_byte_p50_us: Option<f64>,
    first_byte_p99_us: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Lane {
    cpu: Option<u32>,
    state: &'static str,
    /// Shares of the last second: worked, looked for work in vain, slept.
    shares: Option<[f64; 3]>,
    /// The share that packets took, of a lane that polls, that of services and tasks, and its burst.
    network: Option<f64>,
    user: Option<f64>,
    burst: Option<u64>,
    requests: f64,
    open: u64,
    strays: f64,
    turn_p99_us: Option<f64>,
    request_p99_us: Option<f64>,
    memory: u64,
    stalled_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Service<'a> {
    name: &'a str,
    url: &'a str,
    open: u64,
    requests: f64,
    /// Answers that were errors: the clients' fault, and the server's.
    errors: Option<[f64; 2]>,
    bytes_in: f64,
    bytes_out: f64,
    strays: f64,
}

/// A connection that is open, as its lane's row tells of it.
#[derive(Debug, PartialEq, Serialize)]
struct Connection {
    lane: usize,
    number: u32,
    flow: Option<u32>,
    bucket: Option<usize>,
    /// The lane whose bucket it is, where a table steers.
    of_lane: Option<usize>,
    age_s: u64,
}

impl<'a> Look<'a> {
    /// `rows` are those of all connections, each with its lane.
    pub fn of(
        snapshot: &'a Snapshot,
        figures: &ProcessFigures<'a>,
        sample: Option<&'a Sample>,
        rows: &[(usize, ConnectionRow)],
    ) -> Self {
        let (connections_in_all, connections) = connections(snapshot, rows);
        let mut wrong: Vec<Wrong> = findings(snapshot).into_iter().map(Wrong::from).collect();
        let wrong_in_all = wrong.len();
        wrong.truncate(WRONG_MAX);
        Self {
            pid: snapshot.process.pid,
            program: &snapshot.program,
            started_unix_milliseconds: snapshot.started_unix_nanoseconds / 1_000_000,
            driver: figures.driver,
            steering: figures.steering,
            sample,
            imbalance: figures.imbalance,
            lanes_in_all: snapshot.lanes.len(),
            lanes: figures.lanes.iter().take(LANES_MAX).map(Lane::of).collect(),
            services: snapshot.services.iter().zip(&figures.services).map(|(one, of)| Service::of(&one.name, of)).collect(),
            buckets: &snapshot.steering.lanes,
            wrong_in_all,
            wrong,
            connections_in_all,
            connections,
            upstreams_in_all: 0,
            upstreams: Vec::new(),
        }
    }

    /// With upstreams, of so many.
    pub fn with_upstreams(self, upstreams_in_all: usize, upstreams: Vec<Upstream<'a>>) -> Self {
        Self { upstreams_in_all, upstreams, ..self }
    }
}

impl Lane {
    fn of(lane: &LaneFigures) -> Self {
        Self {
            cpu: lane.cpu,
            state: lane.state,
            shares: lane.shares.map(|shares| [shares.productive, shares.empty, shares.asleep]),
            network: lane.network_share,
            user: lane.user_share,
            burst: lane.burst_frames,
            requests: rate(lane.requests),
            open: lane.connections_open,
            strays: rate(lane.strays),
            turn_p99_us: microseconds(lane.turn_nanoseconds.p99),
            request_p99_us: microseconds(lane.request_nanoseconds.p99),
            memory: lane.memory_used_bytes,
            stalled_s: lane.stalled_nanoseconds.map(|age| age as f64 / 1e9),
        }
    }
}

impl<'a> Service<'a> {
    fn of(name: &'a ServiceName, figures: &ServiceFigures) -> Self {
        Self {
            name: &name.name,
            url: &name.url,
            open: figures.connections_open,
            requests: rate(figures.requests),
            errors: figures.errors.map(|errors| errors.map(rate)),
            bytes_in: rate(figures.bytes_in),
            bytes_out: rate(figures.bytes_out),
            strays: rate(figures.strays),
        }
    }
}

/// Upstreams, with their rates since an earlier look.
pub(super) fn behind<'a>(snapshot: &'a Snapshot, upstreams: &'a [Shown], earlier: &[Shown]) -> Vec<Upstream<'a>> {
    let seconds = snapshot.span_nanoseconds.map(|span| span as f64 / 1e9).filter(|seconds| *seconds > 0.0);
    let rate = |count: u64| seconds.map_or(0.0, |seconds| count as f64 / seconds);
    let url = |number: usize| snapshot.services.get(number).map_or("", |service| &service.name.url);
    let told = |(one, since): (&'a Shown, Shown)| {
        let Row { name, address, state, weight, uses, fault, counts, times, .. } = &one.row;
        let within = |part| times.within(part).map(|time| time.as_micros() as f64);
        Upstream {
            service: &one.service,
            url: url(one.number),
            name,
            address: address.as_ref().map(ToString::to_string),
            fault: fault.as_deref(),
            state: state.word(),
            weight: *weight,
            open: *uses,
            uses: rate(since.row.counts.uses),
            bytes_to: rate(since.row.counts.bytes_to),
            bytes_from: rate(since.row.counts.bytes_from),
            failures: counts.failures(),
            retries: counts.retries,
            ejections: counts.ejections,
            first_byte_p50_us: within(0.5),
            first_byte_p99_us: within(0.99),
        }
    };
    upstreams.iter().zip(since(upstreams, earlier)).take(UPSTREAMS_MAX).map(told).collect()
}

/// How many connections are open, and those that need to be looked at first: strays, then the oldest.
fn connections(snapshot: &Snapshot, rows: &[(usize, ConnectionRow)]) -> (usize, Vec<Connection>) {
    let buckets = &snapshot.steering.lanes;
    let of_lane = |flow: u32| buckets.get(flow as usize % buckets.len().max(1)).map(|lane| usize::from(*lane));
    let is_stray = |(lane, row): &(usize, ConnectionRow)| row.flow.and_then(of_lane).is_some_and(|of| of != *lane);
    let mut open: Vec<_> = rows.iter().filter(|(_, row)| row.state == ConnectionState::Open).collect();
    open.sort_by_key(|one| (Reverse(is_stray(one)), one.1.opened_second, one.0, one.1.number));
    let told = |(lane, row): &(usize, ConnectionRow)| Connection {
        lane: *lane,
        number: row.number,
        flow: row.flow,
        bucket: row.flow.filter(|_| !buckets.is_empty()).map(|flow| flow as usize % buckets.len()),
        of_lane: row.flow.and_then(of_lane),
        age_s: (snapshot.at_nanoseconds / 1_000_000_000).saturating_sub(row.opened_second),
    };
    (open.len(), open.iter().take(CONNECTIONS_MAX).map(|one| told(one)).collect())
}

/// A line of what is wrong.
#[derive(Debug, Serialize)]
struct Wrong {
    text: String,
    /// Somebody is not served at present.
    grave: bool,
}

impl From<Finding> for Wrong {
    fn from(Finding { grade, text }: Finding) -> Self {
        Self { text, grave: grade == Grade::Grave }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page, Reader};

    #[test]
    fn strays_are_told_before_the_oldest_and_no_more_than_are_read() {
        let page = Page::heap(&Description { lanes: vec![LaneName::default(); 2], ..Description::default() }).unwrap();
        page.steering().set("", &[0, 1]);
        let snapshot = Reader::of(&page).unwrap().snapshot(100_000_000_000);
        let row = |number: u32, flow, opened_second, state| (0, ConnectionRow { number, flow: Some(flow), opened_second, state });
        let mut rows = vec![row(1, 2, 90, ConnectionState::Open), row(2, 2, 80, ConnectionState::Open)];
        rows.extend([row(3, 7, 95, ConnectionState::Open), row(4, 2, 1, ConnectionState::Closing)]);
        let (count, told) = connections(&snapshot, &rows);
        assert_eq!((count, told.iter().map(|one| one.number).collect::<Vec<_>>()), (3, vec![3, 2, 1]));
        assert_eq!(told[0], Connection { lane: 0, number: 3, flow: Some(7), bucket: Some(1), of_lane: Some(1), age_s: 5 });
        rows.extend((0..30).map(|number| row(number, 2, 5, ConnectionState::Open)));
        let (count, told) = connections(&snapshot, &rows);
        assert_eq!((count, told.len()), (33, CONNECTIONS_MAX));
    }
}
