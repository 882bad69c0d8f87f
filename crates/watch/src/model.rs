//! The figures that people are shown of a process, each made here and nowhere else: `stat`, `top`, the dashboard, metrics and graphs take them from here, so none of them can show another.
//!
//! page --[`Snapshot`]--[`Snapshot::since`]--> what two looks differ in --[`ProcessFigures`]--> views

use crate::catalogue::{Counter, LaneCounter, LaneState, PacketCounter, ServiceCounter};
use crate::derived::{Shares, is_wrong};
use crate::histogram::{Histogram, LaneHistogram};
use crate::snapshot::{LaneSnapshot, ServiceSnapshot, Snapshot, Values};

/// How often something came: in the span, or since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// How often.
    pub count: u64,
    /// The same for each second of the span; none without one.
    pub per_second: Option<f64>,
}

impl Count {
    fn of(snapshot: &Snapshot, count: u64) -> Self {
        Self { count, per_second: snapshot.per_second(count) }
    }

    /// For each second of the span, or how often since the start.
    #[must_use]
    pub fn shown(self) -> f64 {
        self.per_second.unwrap_or(self.count as f64)
    }
}

/// Values that so many of 100 in a histogram do not exceed, in the histogram's unit ([`Histogram::quantile`]); none where there were no values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Half of them.
    pub p50: Option<u64>,
    /// 90 of 100.
    pub p90: Option<u64>,
    /// 99 of 100.
    pub p99: Option<u64>,
    /// 99.9 of 100.
    pub p999: Option<u64>,
}

impl Quantiles {
    /// Those of a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        let [p50, p90, p99, p999] = [500, 900, 990, 999].map(|thousandths| histogram.quantile(thousandths));
        Self { p50, p90, p99, p999 }
    }
}

/// The figures of a process, and of its lanes and services.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessFigures<'a> {
    /// The driver of its lanes, in a word.
    pub driver: &'a str,
    /// How its flows find lanes, in words.
    pub steering: &'a str,
    /// Requests of the services.
    pub requests: Count,
    /// Answers that were errors, whoever was at fault.
    pub errors: Count,
    /// Bytes that came.
    pub bytes_in: Count,
    /// Bytes that left.
    pub bytes_out: Count,
    /// Connections and datagrams that arrived on another lane than their flow's.
    pub strays: Count,
    /// Connections that are open.
    pub connections_open: u64,
    /// Requests of the busiest lane divided by the mean of all; 1 is even. None without requests.
    pub imbalance: Option<f64>,
    /// How long requests took from receive to send, on all lanes.
    pub request_nanoseconds: Quantiles,
    /// The part of their time in which lanes worked, 0 to 1, on average; none without a span.
    pub worked_share: Option<f64>,
    /// [`LaneFigures::network_share`] of the lanes that poll, on average.
    pub network_share: Option<f64>,
    /// [`LaneFigures::user_share`] of the lanes that poll, on average.
    pub user_share: Option<f64>,
    /// The greatest burst of those lanes, in frames.
    pub burst_frames: Option<u64>,
    /// Memory that all lanes lend.
    pub memory_used_bytes: u64,
    /// Each lane, by its number.
    pub lanes: Vec<LaneFigures>,
    /// Each service, by its number.
    pub services: Vec<ServiceFigures>,
}

/// The figures of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneFigures {
    /// The CPU that it is on.
    pub cpu: Option<u32>,
    /// Its state, in a word.
    pub state: &'static str,
    /// The time since its last turn began; none before its first.
    pub last_turn_age_nanoseconds: Option<u64>,
    /// How long it has been in its turn, if that is too long ([`STALL_NANOSECONDS`](crate::STALL_NANOSECONDS)).
    pub stalled_nanoseconds: Option<u64>,
    /// How it spent the span; none without one.
    pub shares: Option<Shares>,
    /// The part of the span in which it received and handled packets, 0 to 1, or the kernel's threads received at its CPU; none for a lane that does not poll and has no such threads
    /// beside it.
    pub network_share: Option<f64>,
    /// The part in which such a lane did other work: services and tasks, with what they waited for the CPU. A lane that spins by the original's controller shows less, for a poll in vain is both spinning and the
    /// network's.
    pub user_share: Option<f64>,
    /// Frames of each port that its packets may have before others have their part; none for a lane that does not poll.
    pub burst_frames: Option<u64>,
    /// How long its productive turns took.
    pub turn_nanoseconds: Quantiles,
    /// How long requests took from receive to send.
    pub request_nanoseconds: Quantiles,
    /// Memory that it lends.
    pub memory_used_bytes: u64,
    /// Requests of the services.
    pub requests: Count,
    /// Connections and datagrams that arrived here and are another lane's.
    pub strays: Count,
    /// Connections that are open.
    pub connections_open: u64,
}

/// The figures of a service on all lanes.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceFigures {
    /// Connections that are open.
    pub connections_open: u64,
    /// Its requests.
    pub requests: Count,
    /// Requests for each send; none where nothing was sent.
    pub requests_per_send: Option<f64>,
    /// Answers that were errors ([`Values::errors`]): the clients' fault, and the server's. None for a service that counts no such.
    pub errors: Option<[Count; 2]>,
    /// Bytes that came.
    pub bytes_in: Count,
    /// Bytes that left.
    pub bytes_out: Count,
    /// Connections and datagrams that arrived on another lane than their flow's.
    pub strays: Count,
    /// How often limits were hit at which clients are not served as they should be ([`is_wrong`]).
    pub limit_hits: Count,
}

impl<'a> ProcessFigures<'a> {
    /// Those of all services.
    #[must_use]
    pub fn of(snapshot: &'a Snapshot) -> Self {
        Self::of_services(snapshot, &(0..snapshot.services.len()).collect::<Vec<_>>())
    }

    /// The same where what services count together is that of these, by number.
    ///
    /// # Panics
    /// If there is no such service.
    #[must_use]
    pub fn of_services(snapshot: &'a Snapshot, services: &[usize]) -> Self {
        let first = snapshot.lanes.first().map(|lane| &lane.name);
        let values = || services.iter().map(|&service| &snapshot.services[service].values);
        let count = |counter| Count::of(snapshot, sum(values(), counter));
        let errors = values().filter_map(Values::errors).flatten().fold(0, u64::saturating_add);
        let lanes: Vec<_> = snapshot.lanes.iter().map(|lane| LaneFigures::of(snapshot, lane, services)).collect();
        Self {
            driver: first.map_or("", |name| &name.driver),
            steering: first.map_or("", |name| &name.steering),
            requests: count(ServiceCounter::Requests),
            errors: Count::of(snapshot, errors),
            bytes_in: count(ServiceCounter::BytesIn),
            bytes_out: count(ServiceCounter::BytesOut),
            strays: count(ServiceCounter::Strays),
            connections_open: sum(values(), ServiceCounter::ConnectionsOpen),
            imbalance: snapshot.imbalance(ServiceCounter::Requests),
            request_nanoseconds: Quantiles::of(&snapshot.histogram(LaneHistogram::RequestNanoseconds)),
            worked_share: mean(lanes.iter().filter_map(|lane| Some(lane.shares?.productive))),
            network_share: mean(lanes.iter().filter_map(|lane| lane.network_share)),
            user_share: mean(lanes.iter().filter_map(|lane| lane.user_share)),
            burst_frames: lanes.iter().filter_map(|lane| lane.burst_frames).max(),
            memory_used_bytes: snapshot.total.get(LaneCounter::MemoryUsed),
            services: snapshot.services.iter().map(|service| ServiceFigures::of(snapshot, service)).collect(),
            lanes,
        }
    }
}

impl LaneFigures {
    fn of(snapshot: &Snapshot, lane: &LaneSnapshot, services: &[usize]) -> Self {
        let sum = |counter| sum(services.iter().map(|&service| &lane.services[service]), counter);
        let (shares, network_share) = (snapshot.shares(lane), snapshot.network_share(lane));
        // The lane's time has a poll's in it, and not that of the kernel's threads, which it waits for.
        let left = |spent: Shares, network: f64| match lane.is_beside_threads() {
            true => spent.productive.min(1.0 - network),
            false => spent.productive - network,
        };
        let user_share = shares.zip(network_share).map(|(spent, network)| left(spent, network).max(0.0));
        let burst = lane.packets.as_ref().map(|packets| packets.values.get(PacketCounter::PollingBurst));
        Self {
            cpu: lane.name.cpu,
            state: lane.state().map_or("unknown", LaneState::name),
            last_turn_age_nanoseconds: snapshot.age(lane),
            stalled_nanoseconds: snapshot.stalled(lane),
            shares,
            network_share,
            user_share,
            burst_frames: burst.filter(|burst| *burst > 0),
            turn_nanoseconds: Quantiles::of(lane.histogram(LaneHistogram::TurnNanoseconds)),
            request_nanoseconds: Quantiles::of(lane.histogram(LaneHistogram::RequestNanoseconds)),
            memory_used_bytes: lane.values.get(LaneCounter::MemoryUsed),
            requests: Count::of(snapshot, sum(ServiceCounter::Requests)),
            strays: Count::of(snapshot, sum(ServiceCounter::Strays)),
            connections_open: sum(ServiceCounter::ConnectionsOpen),
        }
    }
}

impl ServiceFigures {
    fn of(snapshot: &Snapshot, ServiceSnapshot { values, .. }: &ServiceSnapshot) -> Self {
        let count = |counter| Count::of(snapshot, values.get(counter));
        let hits = values.all().filter(|one| one.name.ends_with("_hits") && is_wrong(one.name));
        let per_send = ServiceCounter::RATIOS.iter().find(|ratio| ratio.name == "requests_per_send");
        Self {
            connections_open: values.get(ServiceCounter::ConnectionsOpen),
            requests: count(ServiceCounter::Requests),
            requests_per_send: per_send.and_then(|ratio| values.ratio(ratio)),
            errors: values.errors().map(|errors| errors.map(|count| Count::of(snapshot, count))),
            bytes_in: count(ServiceCounter::BytesIn),
            bytes_out: count(ServiceCounter::BytesOut),
            strays: count(ServiceCounter::Strays),
            limit_hits: Count::of(snapshot, hits.map(|one| one.value).fold(0, u64::saturating_add)),
        }
    }

    /// Answers that were errors, whoever was at fault; none for a service that counts no such.
    #[must_use]
    pub fn all_errors(&self) -> Option<Count> {
        let [clients, server] = self.errors?;
        let per_second = clients.per_second.zip(server.per_second).map(|(clients, server)| clients + server);
        Some(Count { count: clients.count.saturating_add(server.count), per_second })
    }
}

fn sum<'a>(rows: impl Iterator<Item = &'a Values<ServiceCounter>>, counter: ServiceCounter) -> u64 {
    rows.fold(0, |sum, row| sum.saturating_add(row.get(counter)))
}

/// None of nothing.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::page::{Description, LaneName, Page, ServiceName};
    use crate::reader::Reader;

    const SECOND: u64 = 1_000_000_000;

    fn page(lanes: usize, services: usize) -> Page {
        let (lanes, services) = (vec![LaneName::default(); lanes], vec![ServiceName::default(); services]);
        Page::heap(&Description { services, lanes, ..Description::default() }).unwrap()
    }

    #[test]
    fn turns_and_requests_are_told_apart_and_so_are_services() {
        let page = page(2, 2);
        let reader = Reader::of(&page).unwrap();
        page.lane(0).unwrap().record_many(LaneHistogram::TurnNanoseconds, 1 << 30, 1000);
        let before = reader.snapshot(SECOND);
        page.lane(0).unwrap().record_many(LaneHistogram::TurnNanoseconds, 7, 99);
        page.lane(0).unwrap().record_many(LaneHistogram::TurnNanoseconds, 14, 1);
        page.lane(1).unwrap().record_many(LaneHistogram::RequestNanoseconds, 28, 1);
        for (lane, service, requests) in [(0, 0, 10), (0, 1, 20), (1, 1, 40)] {
            page.service(lane, service).unwrap().add(ServiceCounter::Requests, requests);
        }
        page.service(0, 1).unwrap().add(ServiceCounter::Sends, 5);
        page.service(0, 1).unwrap().add(ServiceCounter::DatagramSends, 15);
        page.service(0, 1).unwrap().add(ServiceCounter::ConnectionsMaxHits, 3);
        page.service(0, 1).unwrap().add(ServiceCounter::IdleLimitHits, 3);
        let since = reader.snapshot(3 * SECOND).since(&before).unwrap();
        let all = ProcessFigures::of(&since);
        let times = |quantiles: Quantiles| [quantiles.p50, quantiles.p90, quantiles.p99, quantiles.p999];
        assert_eq!(times(all.lanes[0].turn_nanoseconds), [Some(7), Some(7), Some(7), Some(15)], "those of the span");
        assert_eq!((times(all.lanes[0].request_nanoseconds), times(all.lanes[1].turn_nanoseconds)), ([None; 4], [None; 4]));
        assert_eq!((times(all.lanes[1].request_nanoseconds), times(all.request_nanoseconds)), ([Some(31); 4], [Some(31); 4]));
        let count = |count, per_second| Count { count, per_second: Some(per_second) };
        assert_eq!(
            (all.requests, all.lanes[0].requests, all.services[1].requests),
            (count(70, 35.0), count(30, 15.0), count(60, 30.0))
        );
        assert_eq!((all.services[1].requests_per_send, all.services[0].requests_per_send), (Some(3.0), None));
        assert_eq!(all.services[1].limit_hits, count(3, 1.5), "an idle client is no fault");
        let one = ProcessFigures::of_services(&since, &[1]);
        assert_eq!((one.requests, one.lanes[0].requests), (count(60, 30.0), count(20, 10.0)));
        assert_eq!((one.services, one.imbalance), (all.services, all.imbalance), "each service is there, chosen or not");
        let never = ProcessFigures::of(&before);
        assert_eq!((never.requests, never.requests.shown(), all.requests.shown()), (Count::default(), 0.0, 35.0));
    }

    #[test]
    fn only_lanes_that_poll_have_a_network_and_a_user_share() {
        let page = page(3, 0);
        let set = |lane: usize, counters: &[(PacketCounter, u64)]| {
            page.packets(lane).unwrap().together(|row| {
                row.set_protocols(1);
                counters.iter().for_each(|&(counter, value)| row.set(counter, value));
            });
        };
        use PacketCounter as C;
        // The third has packets, and does not poll.
        set(2, &[(C::NetworkNanoseconds, 5)]);
        let reader = Reader::of(&page).unwrap();
        let before = reader.snapshot(SECOND);
        for (lane, network) in [(0, 2), (1, 4)] {
            let knobs = [(C::PollingController, 1), (C::PollingUserFrac, 30), (C::PollingBurst, 60 + lane as u64)];
            set(lane, &[&knobs[..], &[(C::NetworkNanoseconds, network * SECOND / 10)]].concat());
        }
        page.lane(0).unwrap().add(LaneCounter::SleepNanoseconds, SECOND / 10);
        page.lane(0).unwrap().add(LaneCounter::SpinNanoseconds, SECOND / 10);
        page.lane(1).unwrap().add(LaneCounter::SleepNanoseconds, SECOND * 8 / 10);
        let since = reader.snapshot(2 * SECOND).since(&before).unwrap();
        let figures = ProcessFigures::of(&since);
        let near = |share: Option<f64>, wanted: f64| share.is_some_and(|share| (share - wanted).abs() < 1e-9);
        let [first, second, third] = &figures.lanes[..] else { panic!("three lanes") };
        assert!(near(first.network_share, 0.2) && near(first.user_share, 0.6), "{first:?}: looking in vain is no work");
        assert!(near(second.network_share, 0.4) && near(second.user_share, 0.0), "{second:?}: never below nothing");
        assert_eq!((third.network_share, third.user_share, third.burst_frames), (None, None, None));
        assert!(near(figures.network_share, 0.3) && near(figures.user_share, 0.3), "{figures:?}");
        assert!(near(figures.worked_share, (0.8 + 0.2 + 1.0) / 3.0) && figures.burst_frames == Some(61), "{figures:?}");
        let never = ProcessFigures::of(&before);
        assert_eq!((never.worked_share, never.network_share, never.burst_frames), (None, None, None));
    }

    #[test]
    fn a_lane_beside_threads_of_the_kernel_has_their_share_and_its_own() {
        let page = page(3, 0);
        let rows = [0, 1, 2].map(|lane| page.lane(lane).unwrap());
        rows[..2].iter().for_each(|row| row.set(LaneCounter::ReceivingUserFrac, 80));
        let reader = Reader::of(&page).unwrap();
        let before = reader.snapshot(SECOND);
        rows[0].set(LaneCounter::ReceivingNanoseconds, SECOND / 5);
        rows[1].set(LaneCounter::ReceivingNanoseconds, SECOND / 10);
        rows[1].add(LaneCounter::SleepNanoseconds, SECOND * 7 / 10);
        let since = reader.snapshot(2 * SECOND).since(&before).unwrap();
        let figures = ProcessFigures::of(&since);
        let near = |share: Option<f64>, wanted: f64| share.is_some_and(|share| (share - wanted).abs() < 1e-9);
        let [busy, calm, apart] = &figures.lanes[..] else { panic!("three lanes") };
        assert!(near(busy.network_share, 0.2) && near(busy.user_share, 0.8), "{busy:?}: it is awake, and waits for its CPU");
        assert!(near(calm.network_share, 0.1) && near(calm.user_share, 0.3), "{calm:?}: it slept, and they did not run for it");
        assert_eq!((apart.network_share, apart.user_share), (None, None));
    }
}
