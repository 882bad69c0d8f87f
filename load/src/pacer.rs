//! Which request of an open loop is due, and on which connection it goes.

use crate::arrivals::{Arrivals, Schedule};
use crate::plan::{Mode, Plan};
use std::collections::VecDeque;

/// Arrivals in order, and the clients with room for one more, in turn.
pub struct Pacer {
    source: Option<Source>,
    schedule: Option<Schedule>,
    /// The next arrival.
    head: Option<u64>,
    /// The clients that were offered, in turn. Those that were withdrawn since stand here until their turn comes.
    queue: VecDeque<u32>,
    is_queued: Vec<bool>,
    has_room: Vec<bool>,
    /// How many have room.
    rooms: usize,
    /// Since when there is a client with room.
    room_since: u64,
    /// When the last client with room was taken or withdrawn. One that has room for more comes back at once: then there always was room.
    emptied_at: u64,
    /// In an open loop, which client was taken last, and when.
    taken: Option<(u32, u64)>,
    is_open_loop: bool,
    /// What is due has no time of its own: it is due when it can go.
    is_unpaced: bool,
    /// The first of the free clients is there for what was due when it was taken.
    is_kept: bool,
}

/// What the schedule is made from when the start is known.
struct Source {
    arrivals: Arrivals,
    rate: f64,
    lane: usize,
    lanes: usize,
    seed: u64,
}

impl Pacer {
    /// For a lane's share of the plan; never anything due in a closed loop.
    pub fn new(plan: &Plan, lane: usize) -> Self {
        let source = match &plan.mode {
            Mode::Closed | Mode::Flood | Mode::Sink => None,
            Mode::Open { rate, arrivals } | Mode::Connections { rate, arrivals, .. } => {
                Some(Source { arrivals: arrivals.clone(), rate: *rate, lane, lanes: plan.lanes, seed: plan.seed })
            }
        };
        let clients = if source.is_some() { plan.connections_of(lane) as usize } else { 0 };
        Self {
            source,
            schedule: None,
            head: None,
            queue: VecDeque::new(),
            is_queued: vec![false; clients],
            has_room: vec![false; clients],
            rooms: 0,
            room_since: 0,
            emptied_at: u64::MAX,
            taken: None,
            is_open_loop: matches!(plan.mode, Mode::Open { .. }),
            is_unpaced: matches!(plan.mode, Mode::Connections { arrivals: Arrivals::AsTheyCan, .. }),
            is_kept: false,
        }
    }

    /// The run starts then.
    pub fn start(&mut self, at: u64) {
        assert!(self.source.is_none() || self.schedule.is_none(), "arrivals are scheduled once");
        if let Some(Source { arrivals, rate, lane, lanes, seed }) = self.source.take() {
            let mut schedule = Schedule::new(arrivals, rate, at, lane, lanes, seed);
            self.head = schedule.next();
            self.schedule = Some(schedule);
        }
    }

    /// One more request may go on this client. It comes behind all others, but what is due at the same moment goes together: a send costs
    /// about the same for one request as for several, and those that follow are late by so much less.
    pub fn offer(&mut self, client: u32, now: u64) {
        if self.has_room.is_empty() || std::mem::replace(&mut self.has_room[client as usize], true) {
            return;
        }
        if self.rooms == 0 && (now != self.emptied_at || self.is_unpaced) {
            self.room_since = now;
        }
        self.rooms += 1;
        if std::mem::replace(&mut self.is_queued[client as usize], true) {
            return;
        }
        match self.taken == Some((client, now)) {
            true => {
                self.is_kept = true;
                self.queue.push_front(client);
            }
            false => self.queue.push_back(client),
        }
        assert!(self.rooms <= self.queue.len() && self.queue.len() <= self.has_room.len(), "a client stands in the queue once");
    }

    /// No request may go on this client any more, until it is offered again.
    pub fn withdraw(&mut self, client: u32, now: u64) {
        if self.has_room.get_mut(client as usize).is_some_and(std::mem::take) {
            self.give_room(now);
        }
    }

    /// One client with room is gone.
    fn give_room(&mut self, now: u64) {
        assert!(self.rooms > 0, "who goes was counted");
        self.rooms -= 1;
        self.emptied_at = if self.rooms == 0 { now } else { self.emptied_at };
    }

    /// The client that was kept for what was due at another moment goes behind the others.
    fn go_round(&mut self, now: u64) {
        if self.taken.is_some_and(|(_, at)| at != now) && std::mem::take(&mut self.is_kept) {
            self.queue.rotate_left(1);
        }
    }

    /// When the next request can go: never, while there is no room.
    pub fn next_due(&self) -> u64 {
        if self.rooms == 0 { u64::MAX } else { self.head.unwrap_or(u64::MAX) }
    }

    /// Whether a request is due and has not gone, with or without room for it.
    pub fn is_late(&self, now: u64) -> bool {
        self.head.is_some_and(|head| head <= now)
    }

    /// Whether all arrivals are taken.
    pub fn is_done(&self) -> bool {
        self.schedule.is_some() && self.head.is_none()
    }

    /// The next request if it is due and there is a client that it `can_use`: when it was to start, when it could have, and where it
    /// goes. Places that cannot be used (their connection is lost) are passed over until they have room again.
    pub fn take_due(&mut self, now: u64, mut can_use: impl FnMut(u32) -> bool) -> Option<(u64, u64, u32)> {
        let intended = self.head.filter(|&at| at <= now)?;
        self.go_round(now);
        while let Some(client) = self.queue.pop_front() {
            (self.is_queued[client as usize], self.is_kept) = (false, false);
            if !std::mem::take(&mut self.has_room[client as usize]) {
                continue;
            }
            self.give_room(now);
            if can_use(client) {
                self.head = self.schedule.as_mut().and_then(Iterator::next);
                self.taken = self.is_open_loop.then_some((client, now));
                let could = intended.max(self.room_since);
                return Some((if self.is_unpaced { could } else { intended }, could, client));
            }
        }
        None
    }

    /// How many were to start in `from..until` and are still here; nothing is due afterwards.
    pub fn take_left(&mut self, from: u64, until: u64) -> u64 {
        let head = self.head.take().is_some_and(|at| (from..until).contains(&at));
        u64::from(head) + self.schedule.take().map_or(0, |schedule| schedule.count_within(from, until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(_: u32) -> bool {
        true
    }

    fn pacer() -> Pacer {
        let mut plan = Plan::new("echo", "tcp://127.0.0.1:7", "127.0.0.1:7".parse::<corelane::Address>().unwrap());
        plan.mode = Mode::Open { rate: 1_000.0, arrivals: Arrivals::Fixed };
        plan.connections = 2;
        let mut pacer = Pacer::new(&plan, 0);
        pacer.start(1_000_000);
        pacer
    }

    #[test]
    fn clients_take_turns_and_nothing_goes_early() {
        let mut pacer = pacer();
        pacer.offer(0, 5);
        pacer.offer(1, 6);
        pacer.offer(1, 7);
        assert_eq!((pacer.next_due(), pacer.take_due(999_999, all)), (1_000_000, None));
        assert_eq!(pacer.take_due(1_000_000, all), Some((1_000_000, 1_000_000, 0)));
        assert_eq!(pacer.take_due(1_000_000, all), None);
        assert_eq!(pacer.take_due(2_500_000, all), Some((2_000_000, 2_000_000, 1)));
        assert_eq!(pacer.next_due(), u64::MAX);
    }

    #[test]
    fn what_is_due_at_once_goes_together_and_the_next_elsewhere() {
        let mut pacer = pacer();
        pacer.offer(0, 5);
        pacer.offer(1, 6);
        let mut at = |now| {
            let client = pacer.take_due(now, all).unwrap().2;
            pacer.offer(client, now);
            client
        };
        assert_eq!([2_000_000, 2_000_000, 3_000_000, 4_000_000].map(&mut at), [0, 0, 1, 0]);
        assert_eq!([8_000_000, 8_000_000, 8_000_000, 9_000_000].map(&mut at), [1, 1, 1, 0]);
    }

    #[test]
    fn a_place_that_cannot_be_used_costs_no_request() {
        let mut pacer = pacer();
        pacer.offer(0, 5);
        assert_eq!(pacer.take_due(1_000_000, |_| false), None);
        assert_eq!((pacer.next_due(), pacer.take_due(1_000_000, all)), (u64::MAX, None));
        pacer.offer(0, 1_200_000);
        pacer.offer(1, 1_200_000);
        assert_eq!(pacer.take_due(1_300_000, |client| client == 1), Some((1_000_000, 1_200_000, 1)));
    }

    #[test]
    fn without_a_rate_each_is_due_when_there_is_room_for_it() {
        let mut plan = Plan::new("echo", "tcp://127.0.0.1:7", "127.0.0.1:7".parse::<corelane::Address>().unwrap());
        plan.mode = Mode::Connections { rate: 0.0, arrivals: Arrivals::AsTheyCan, requests: 1 };
        let mut pacer = Pacer::new(&plan, 0);
        pacer.start(1_000_000);
        for now in [2_000_000, 5_000_000] {
            assert_eq!(pacer.take_due(now, all), None);
            pacer.offer(0, now);
            assert_eq!((pacer.next_due(), pacer.take_due(now + 7, all)), (1_000_000, Some((now, now, 0))));
        }
    }

    #[test]
    fn a_place_that_is_lost_is_no_room() {
        let mut pacer = pacer();
        pacer.offer(0, 5);
        pacer.withdraw(0, 10);
        pacer.withdraw(1, 10);
        assert_eq!(pacer.next_due(), u64::MAX);
        pacer.offer(1, 1_200_000);
        assert_eq!(pacer.take_due(1_300_000, all), Some((1_000_000, 1_200_000, 1)));
        pacer.offer(0, 1_900_000);
        pacer.withdraw(0, 1_950_000);
        pacer.offer(0, 2_500_000);
        assert_eq!(pacer.take_due(2_600_000, all), Some((2_000_000, 2_500_000, 0)));
        assert_eq!(pacer.take_due(3_000_000, all), None);
    }

    #[test]
    fn requests_that_go_late_together_are_all_late() {
        let mut pacer = pacer();
        pacer.offer(0, 5);
        for intended in [1_000_000, 2_000_000] {
            assert_eq!(pacer.take_due(9_000_000, all), Some((intended, intended, 0)));
            pacer.offer(0, 9_000_000);
        }
    }

    #[test]
    fn a_request_that_waited_for_room_is_not_the_generators_delay() {
        let mut pacer = pacer();
        assert_eq!(pacer.take_due(9_000_000, all), None);
        pacer.offer(0, 5_000_000);
        assert_eq!(pacer.take_due(5_100_000, all), Some((1_000_000, 5_000_000, 0)));
        assert_eq!(pacer.take_left(2_000_000, 4_000_001), 3);
        assert_eq!((pacer.next_due(), pacer.take_left(0, u64::MAX)), (u64::MAX, 0));
    }
}
