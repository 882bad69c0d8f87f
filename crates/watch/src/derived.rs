//! What readers make of a snapshot beyond its counters: how lanes spent their time, who is stalled, how evenly the work lies.

use crate::catalogue::{Kind, LaneCounter, LaneState, PacketCounter, ServiceCounter};
use crate::process::Liveness;
use crate::snapshot::{LaneSnapshot, Snapshot, Values};

/// A lane that has been in one turn for so long is said to be stalled: a thousand times what any turn should take.
pub const STALL_NANOSECONDS: u64 = 1_000_000_000;

/// How a lane spent the time between two looks, as parts of 1 that are 1 together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Neither of the others: it worked.
    pub productive: f64,
    /// It looked for work and found none.
    pub empty: f64,
    /// It slept in the driver.
    pub asleep: f64,
}

/// Whom a lane's call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving<'a> {
    /// The service's name.
    pub service: &'a str,
    /// The connection's number on its lane; none for a call that is for no connection.
    pub connection: Option<u32>,
}

impl<'a> Serving<'a> {
    /// What the word of [`LaneCounter::Serving`] says, where services have these names by number. None outside of any service's call.
    pub fn of(word: u64, name: impl Fn(usize) -> Option<&'a str>) -> Option<Self> {
        let service = name(usize::try_from(word >> 32).ok()?.checked_sub(1)?)?;
        Some(Self { service, connection: (word as u32).checked_sub(1) })
    }

    /// In words, also for a lane that is outside of any service's call.
    pub fn words(serving: Option<Self>) -> String {
        match serving {
            None => "outside of any service's call".to_owned(),
            Some(Self { service, connection: None }) => format!("serving {service}"),
            Some(Self { service, connection: Some(connection) }) => format!("serving {service}, connection {connection}"),
        }
    }
}

/// The turns of a lane that polls of which a service had most, and that were too long while packets waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongTurns<'a> {
    /// The lane's number.
    pub lane: usize,
    /// The service's name.
    pub service: &'a str,
    /// How many there were, and for how many nanoseconds the service had them.
    pub turns: u64,
    /// See there.
    pub nanoseconds: u64,
}

impl LongTurns<'_> {
    /// Milliseconds for which the service had each of them, on the average.
    #[must_use]
    pub fn milliseconds_each(&self) -> f64 {
        self.nanoseconds as f64 / 1e6 / self.turns.max(1) as f64
    }
}

impl LaneSnapshot {
    /// What all services on the lane have counted together.
    pub fn all(&self, counter: ServiceCounter) -> u64 {
        self.services.iter().fold(0, |sum, row| sum.saturating_add(row.get(counter)))
    }
}

/// The choice that a word of the page stands for: its place in the list, from 1. None for 0, and for a word that a program of another version has written.
#[must_use]
pub fn choice_of<T: Copy>(word: u64, all: &[T]) -> Option<T> {
    let place = usize::try_from(word).ok()?.checked_sub(1)?;
    all.get(place).copied()
}

impl Snapshot {
    /// What the packet paths of all lanes have of a counter together.
    #[must_use]
    pub fn packets_sum(&self, counter: PacketCounter) -> u64 {
        let packets = self.lanes.iter().filter_map(|lane| lane.packets.as_ref());
        packets.map(|packets| packets.values.get(counter)).fold(0, u64::saturating_add)
    }

    /// Which of these each lane's packet path has, by the lane's number; lanes without one are left out, and what no version known here writes.
    pub fn packets_choices<T: Copy>(&self, counter: PacketCounter, all: &[T]) -> impl Iterator<Item = (usize, T)> {
        let one = move |lane: &LaneSnapshot| choice_of(lane.packets.as_ref()?.values.get(counter), all);
        self.lanes.iter().enumerate().filter_map(move |(number, lane)| Some((number, one(lane)?)))
    }

    /// Nanoseconds since the lane's last turn began; none before its first.
    pub(crate) fn age(&self, lane: &LaneSnapshot) -> Option<u64> {
        let began = lane.values.get(LaneCounter::LastTurnNanoseconds);
        (began > 0).then(|| self.at_nanoseconds.saturating_sub(began))
    }

    /// How long a lane has been in its turn, if that is too long. A sleeping lane is in none, and a dead one in its last.
    pub(crate) fn stalled(&self, lane: &LaneSnapshot) -> Option<u64> {
        let age = self.age(lane).filter(|&age| age >= STALL_NANOSECONDS)?;
        (lane.is_awake() && lane.is_whole && self.liveness != Liveness::Dead).then_some(age)
    }

    /// The lanes that are stalled, by number: for how many nanoseconds, and for whom, in words.
    pub fn stalls(&self) -> impl Iterator<Item = (usize, u64, String)> {
        let name = |service: usize| self.services.get(service).map(|service| service.name.name.as_str());
        self.lanes.iter().enumerate().filter_map(move |(number, lane)| {
            let serving = Serving::of(lane.values.get(LaneCounter::Serving), name);
            Some((number, self.stalled(lane)?, Serving::words(serving)))
        })
    }

    /// Which services had turns that were too long while packets waited, lane by lane.
    pub fn long_turns(&self) -> impl Iterator<Item = LongTurns<'_>> {
        let of_lane = |(lane, row)| self.long_turns_of(lane, row);
        self.lanes.iter().enumerate().flat_map(of_lane).filter(|one| one.turns > 0)
    }

    fn long_turns_of<'a>(&'a self, lane: usize, row: &'a LaneSnapshot) -> impl Iterator<Item = LongTurns<'a>> {
        row.services.iter().zip(&self.services).map(move |(values, service)| LongTurns {
            lane,
            service: &service.name.name,
            turns: values.get(ServiceCounter::TurnsLong),
            nanoseconds: values.get(ServiceCounter::InLongTurnsNanoseconds),
        })
    }

    /// How a lane spent the span; none without a span.
    pub(crate) fn shares(&self, lane: &LaneSnapshot) -> Option<Shares> {
        let span = self.span_nanoseconds.filter(|&span| span > 0)? as f64;
        // A sleep counts when it ends: one that goes on is known by its beginning only.
        let sleeps_for = self.age(lane).filter(|_| lane.activity() == Some(LaneState::Sleeping)).unwrap_or(0);
        let slept = lane.values.get(LaneCounter::SleepNanoseconds).saturating_add(sleeps_for);
        let asleep = (slept as f64 / span).min(1.0);
        let empty = (lane.values.get(LaneCounter::SpinNanoseconds) as f64 / span).min(1.0 - asleep);
        Some(Shares { productive: 1.0 - asleep - empty, empty, asleep })
    }

    /// The part of the span that the network had of a lane's time, 0 to 1: in which the lane received and handled packets, if it polls, and in which the kernel's threads did at its
    /// CPU, if they are governed. None without a span, and for another lane.
    pub(crate) fn network_share(&self, lane: &LaneSnapshot) -> Option<f64> {
        let span = self.span_nanoseconds.filter(|&span| span > 0)? as f64;
        let nanoseconds = match lane.polled() {
            Some(packets) => packets.get(PacketCounter::NetworkNanoseconds),
            None if lane.is_beside_threads() => lane.values.get(LaneCounter::ReceivingNanoseconds),
            None => return None,
        };
        Some((nanoseconds as f64 / span).min(1.0))
    }

    /// How unevenly a count lies on the lanes: the most that one has, divided by what each would have; 1 is even. None if there is nothing.
    pub(crate) fn imbalance(&self, counter: ServiceCounter) -> Option<f64> {
        let counts = || self.lanes.iter().map(|lane| lane.all(counter));
        let all: u128 = counts().map(u128::from).sum();
        let most = counts().max()?;
        (all > 0).then(|| most as f64 * self.lanes.len() as f64 / all as f64)
    }
}

impl Values<ServiceCounter> {
    /// Answers that were errors, or refusals of a request, by the names of the service's own counters: the clients' fault, and the server's. None for a
    /// service that counts no such.
    pub fn errors(&self) -> Option<[u64; 2]> {
        let ending = |ends: &[&str]| {
            let named = self.all().filter(|one| one.kind == Kind::Counter && ends.iter().any(|end| one.name.ends_with(end)));
            named.map(|one| one.value).reduce(u64::saturating_add)
        };
        match (ending(&["_4xx", "requests_refused"]), ending(&["_5xx"])) {
            (None, None) => None,
            (clients, servers) => Some([clients.unwrap_or(0), servers.unwrap_or(0)]),
        }
    }
}

/// What a counter's name ends with if it counts what should not be: by the names' own rule, so a service's own counters are found as well.
const ENDS: [&str; 12] = [
    "_hits",
    "_refused",
    "_dropped",
    "_failed",
    "_starved",
    "_truncated",
    "_aborted",
    "_no_descriptor",
    "_cut_short",
    "_turned_away",
    "_4xx",
    "_5xx",
];
/// Those that are told by no such ending.
const NAMES: [&str; 10] = [
    "stalls",
    "strays",
    "connects_stray",
    "panics",
    "tasks_panicked",
    "works_broken",
    "memory_endings",
    "share_endings",
    "log_lines_cut",
    "transform_refusals",
];

/// Bounds at which all is well: a client that reads more slowly than its answers come, asks for more at once than is taken at once, has
/// gone quiet, or was busy while its bucket moved. Each meets them in ordinary service, and is served as it should be.
const WELL: [&str; 4] = ["output_high_hits", "requests_in_flight_max_hits", "idle_limit_hits", "moves_refused"];

/// Whether a counter of this name counts what should not be: refusals, losses, answers that are errors, limits that were hit.
pub fn is_wrong(name: &str) -> bool {
    !WELL.contains(&name) && (NAMES.contains(&name) || ENDS.iter().any(|end| name.ends_with(end)))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::catalogue::Counter;
    use crate::page::{Description, LaneName, Page, ServiceName};
    use crate::reader::Reader;

    fn page(lanes: usize) -> Page {
        let services = vec![ServiceName::default()];
        Page::heap(&Description { services, lanes: vec![LaneName::default(); lanes], ..Description::default() }).unwrap()
    }

    #[test]
    fn a_lane_works_or_looks_for_work_or_sleeps() {
        let page = page(1);
        let reader = Reader::of(&page).unwrap();
        let (before, lane) = (reader.snapshot(1_000), page.lane(0).unwrap());
        assert_eq!(before.shares(&before.lanes[0]), None, "there is no span");
        let shares = |at| {
            let since = reader.snapshot(at).since(&before).unwrap();
            since.shares(&since.lanes[0]).unwrap()
        };
        lane.add(LaneCounter::SleepNanoseconds, 500);
        lane.add(LaneCounter::SpinNanoseconds, 250);
        assert_eq!(shares(2_000), Shares { productive: 0.25, empty: 0.25, asleep: 0.5 });
        lane.set(LaneCounter::LaneState, LaneState::Sleeping as u64);
        lane.set(LaneCounter::LastTurnNanoseconds, 1_900);
        assert_eq!(shares(2_000).asleep, 0.6, "it sleeps at present");
        lane.add(LaneCounter::SleepNanoseconds, 5_000);
        assert_eq!(shares(2_000), Shares { productive: 0.0, empty: 0.0, asleep: 1.0 }, "it slept before the span, too");
    }

    #[test]
    fn a_stalled_lane_is_told_with_whom_it_serves() {
        let services = ["echo", "http"].map(|name| ServiceName { name: name.to_owned(), ..ServiceName::default() });
        let description =
            Description { services: services.into(), lanes: vec![LaneName::default(); 2], ..Description::default() };
        let page = Page::heap(&description).unwrap();
        let (reader, lane) = (Reader::of(&page).unwrap(), page.lane(1).unwrap());
        lane.set(LaneCounter::LaneState, LaneState::Running as u64);
        lane.set(LaneCounter::LastTurnNanoseconds, 1);
        for (word, words) in [
            (0, "outside of any service's call"),
            (2 << 32, "serving http"),
            (2 << 32 | 8, "serving http, connection 7"),
            (9 << 32 | 8, "outside of any service's call"),
        ] {
            lane.set(LaneCounter::Serving, word);
            let stalls: Vec<_> = reader.snapshot(1 + 2 * STALL_NANOSECONDS).stalls().collect();
            assert_eq!(stalls, [(1, 2 * STALL_NANOSECONDS, words.to_owned())]);
        }
    }

    #[test]
    fn work_that_lies_unevenly_shows() {
        let page = page(4);
        let reader = Reader::of(&page).unwrap();
        assert_eq!(reader.snapshot(0).imbalance(ServiceCounter::Requests), None);
        for (lane, count) in [(0, 60), (1, 20), (2, 20)] {
            page.service(lane, 0).unwrap().add(ServiceCounter::Requests, count);
        }
        assert_eq!(reader.snapshot(0).imbalance(ServiceCounter::Requests), Some(2.4));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_name() {
        let known: Vec<&str> = LaneCounter::DECLARED.iter().chain(ServiceCounter::DECLARED).map(|one| one.name).collect();
        // What only services of HTTP and proxies count.
        let of_services =
            ["answers_4xx", "answers_5xx", "answers_cut_short", "heads_refused", "log_lines_cut", "clients_turned_away"];
        let is_known = |name: &&str| known.contains(name) || of_services.contains(name);
        assert!(NAMES.iter().chain(&WELL).all(is_known), "names that are declared");
        let occurs = |end: &&str| known.iter().chain(&of_services).any(|name| name.ends_with(*end));
        assert!(ENDS.iter().all(occurs), "endings that occur");
        assert!(of_services.iter().all(|name| is_wrong(name)));
        let good = [
            "requests",
            "accepts",
            "endings_completed",
            "handshakes",
            "sleeps",
            "messages_sent",
            "connects_home",
            "answers_late",
        ];
        for good in good.into_iter().chain(WELL) {
            assert!(known.contains(&good) && !is_wrong(good), "{good}");
        }
        assert!(!is_wrong("answers_2xx") && !is_wrong("answers_3xx"));
    }

    #[test]
    fn a_lane_that_drains_says_so_while_it_sleeps_and_is_not_stalled() {
        let page = page(1);
        let (reader, lane) = (Reader::of(&page).unwrap(), page.lane(0).unwrap());
        lane.set(LaneCounter::LaneState, LaneState::Sleeping as u64);
        lane.set(LaneCounter::LastTurnNanoseconds, 1);
        let seen = || reader.snapshot(9 * STALL_NANOSECONDS);
        assert_eq!(seen().lanes[0].state(), Some(LaneState::Sleeping));
        lane.set(LaneCounter::DrainBeganNanoseconds, 1);
        let drains = seen();
        assert_eq!((drains.lanes[0].state(), drains.lanes[0].activity()), (Some(LaneState::Draining), Some(LaneState::Sleeping)));
        assert_eq!(drains.stalls().count(), 0);
        lane.set(LaneCounter::LaneState, LaneState::Ended as u64);
        assert_eq!(seen().lanes[0].state(), Some(LaneState::Ended));
    }
}
