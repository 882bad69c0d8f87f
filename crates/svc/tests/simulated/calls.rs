//! What a client asks of its lane: to be called when the lane starts and at a time, connections from an address, why one failed, and to
//! break one off.

use crate::for_seeds;
use crate::rig::{Family, MS, Play, Rig, RigPlan, S, at, endings, patient};
use corelane_seam::{Fault, Instant, Reason};
use corelane_sim::{Faults, Peer as Played, Random, Report, Status, Turn, World};
use corelane_svc::{ConnectionId, Ending, Input, Limits, Next, Origin, Output, Peer, Says, StreamService};
use corelane_watch::{LaneCounter, ServiceCounter as C};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

type Cx<'a> = corelane_svc::Cx<'a, Says<u64>>;

/// What a client is told.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Started,
    Alarm,
    Connected(u32),
    Received(u32),
    Closed(u32, Ending, Option<Fault>),
    Message(u64),
}

/// What was told, where and when.
#[derive(Clone, Debug)]
struct Told {
    lane: usize,
    service: usize,
    now: Instant,
    event: Event,
}

type Seen = Rc<RefCell<Vec<Told>>>;

/// A client that notes what it is told, and does what a test says.
struct Scripted<F> {
    service: usize,
    seen: Seen,
    act: F,
}

impl<F: FnMut(&mut Cx<'_>, &Event) + 'static> Scripted<F> {
    fn told(&mut self, cx: &mut Cx<'_>, event: Event) {
        if !matches!(event, Event::Closed(..)) {
            assert_eq!(cx.fault(), None, "a fault in {event:?}");
        }
        (self.act)(cx, &event);
        self.seen.borrow_mut().push(Told { lane: cx.lane(), service: self.service, now: cx.now(), event });
    }
}

impl<F: FnMut(&mut Cx<'_>, &Event) + 'static> StreamService for Scripted<F> {
    type Talk = Says<u64>;
    type Session = u32;

    fn started(&mut self, cx: &mut Cx<'_>) {
        self.told(cx, Event::Started);
    }

    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) -> u32 {
        unreachable!("a client accepts no connections")
    }

    fn connected(&mut self, cx: &mut Cx<'_>, session: &mut u32, _: &mut Output) -> Next {
        self.told(cx, Event::Connected(*session));
        Next::Continue
    }

    fn receive(&mut self, cx: &mut Cx<'_>, session: &mut u32, input: &mut Input, _: &mut Output) -> Next {
        input.skip(input.len());
        self.told(cx, Event::Received(*session));
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_>, session: u32, ending: Ending) {
        let fault = cx.fault();
        self.told(cx, Event::Closed(session, ending, fault));
    }

    fn lane_message(&mut self, cx: &mut Cx<'_>, _: Origin, at: u64) {
        self.told(cx, Event::Message(at));
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        self.told(cx, Event::Alarm);
    }
}

/// Lanes with so many clients each; `make` gives what service `service` of lane `lane` does.
fn clients<F: FnMut(&mut Cx<'_>, &Event) + 'static>(
    world: &World,
    lanes: usize,
    services: usize,
    limits: Limits,
    make: impl Fn(usize, usize) -> F,
) -> (Rig, Seen) {
    let seen = Seen::default();
    let plan = RigPlan::lanes(lanes);
    let rig = Rig::new(world, &plan, |roster| {
        for service in 0..services {
            let scripted = Scripted { service, seen: seen.clone(), act: make(roster.lane(), service) };
            roster.client(limits, scripted);
        }
    });
    (rig, seen)
}

/// The lanes' one client each.
fn client<F: FnMut(&mut Cx<'_>, &Event) + 'static>(world: &World, limits: Limits, make: impl Fn() -> F) -> (Rig, Seen) {
    clients(world, 1, 1, limits, |_, _| make())
}

fn events(seen: &Seen) -> Vec<Event> {
    seen.borrow().iter().map(|told| told.event.clone()).collect()
}

/// Servers that are played: they keep what connects to them, and close when the other end does.
#[derive(Default)]
struct Servers(Vec<Played>);

impl Play for Servers {
    fn news(&mut self, _: &World, turn: Turn) {
        match turn {
            Turn::Incoming(peer) => self.0.push(peer),
            Turn::Peer(peer) if matches!(peer.status(), Status::Ended | Status::Failed(_)) => peer.close(),
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// Lets time pass until something is so; it may be a clock that jumps.
fn wait_until(rig: &mut Rig, servers: &mut Servers, is_so: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        rig.pass(S, servers);
    }
    panic!("it does not come about");
}

fn server() -> SocketAddr {
    "192.0.2.9:9".parse().unwrap()
}

// The first turn.

#[test]
fn every_service_is_told_once_that_its_lane_turns() {
    for_seeds(50, |seed| {
        let world = World::new(seed, Faults::all(seed));
        let (mut rig, seen) = clients(&world, 3, 2, patient(), |_, _| |_: &mut Cx<'_>, _: &Event| {});
        wait_until(&mut rig, &mut Servers::default(), || seen.borrow().len() == 6);
        rig.close(&mut crate::rig::Nobody);
        let mut told: Vec<_> = seen.borrow().iter().map(|told| (told.lane, told.service, told.event.clone())).collect();
        told.sort_by_key(|told| (told.0, told.1));
        let expected = (0..3).flat_map(|lane| (0..2).map(move |service| (lane, service, Event::Started)));
        assert_eq!(told, expected.collect::<Vec<_>>());
    });
}

// Alarms.

/// Alarms at random times on three lanes with four services each, which set them one after the other, or on the word of another lane.
fn alarms(seed: u64, faults: Faults) -> Report {
    let world = World::new(seed, faults);
    let due: Rc<RefCell<Vec<[Option<u64>; 4]>>> = Rc::new(RefCell::new(vec![[None; 4]; 3]));
    let (shared, rung) = (due.clone(), Rc::new(Cell::new(0)));
    let counted = rung.clone();
    let (mut rig, seen) = clients(&world, 3, 4, patient(), move |lane, service| {
        let (due, rung, mut left) = (shared.clone(), counted.clone(), 12);
        let mut random = Random::new(seed ^ (lane * 4 + service) as u64);
        move |cx: &mut Cx<'_>, event: &Event| {
            // Only what rings takes it off the list: a word that changes nothing any more does not.
            if *event == Event::Alarm
                && let Some(at) = due.borrow_mut()[lane][service].take()
            {
                assert!(cx.now().nanoseconds() >= at, "rang {} ns early", at - cx.now().nanoseconds());
                rung.set(rung.get() + 1);
            }
            if left == 0 {
                return;
            }
            left -= 1;
            let at = match *event {
                Event::Message(at) => at,
                _ => {
                    cx.now().nanoseconds()
                        + [0, random.below(3_000), random.below(3_000_000), random.below(1_000_000_000)][random.below(4) as usize]
                }
            };
            // Some words come while an alarm is set: they replace it.
            due.borrow_mut()[lane][service] = Some(at);
            cx.start_alarm(Instant::from_nanoseconds(at), 0).unwrap();
            let _ = cx.send((lane + 1) % 3, cx.now().nanoseconds() + random.below(20_000_000));
        }
    });
    rig.wait(2 * S);
    // Every alarm that was set rings, or is replaced by one that does.
    let all_rang = || rung.get() > 0 && due.borrow().iter().flatten().flatten().count() == 0;
    wait_until(&mut rig, &mut Servers::default(), all_rang);
    assert_once_a_turn(&seen);
    rig.close(&mut crate::rig::Nobody);
    world.report()
}

/// Asserts that an alarm rings once at the most in a turn.
fn assert_once_a_turn(seen: &Seen) {
    let mut last = BTreeMap::new();
    for told in seen.borrow().iter().filter(|told| told.event == Event::Alarm) {
        let before = last.insert((told.lane, told.service), told.now);
        assert!(before.is_none_or(|before| before < told.now), "twice in one turn");
    }
}

#[test]
fn alarms_never_come_early_and_none_is_lost() {
    for_seeds(60, |seed| {
        alarms(seed, Faults::none());
        alarms(seed, Faults::all(seed));
    });
}

/// A lane that turns without a pause: an alarm comes in the first turn that begins at its time or later.
#[test]
fn on_a_busy_lane_an_alarm_comes_in_the_first_turn_that_it_can() {
    for_seeds(100, |seed| {
        let faults = if seed % 2 == 0 { Faults::none() } else { Faults { clock_jump: 0, ..Faults::all(seed) } };
        let world = World::new(seed, faults);
        let mut random = Random::new(seed);
        let times: Vec<Instant> = (0..20).map(|_| world.now() + random.time_below(3 * MS)).collect();
        let (end, asked) = (world.now() + 4 * MS, times.clone());
        let (mut rig, seen) = clients(&world, 1, 2, patient(), move |_, service| {
            let mut times = asked.clone();
            times.sort_unstable_by(|a, b| b.cmp(a));
            move |cx: &mut Cx<'_>, _: &Event| match service {
                0 if cx.now() < end => cx.start_alarm(cx.now(), 0).unwrap(),
                0 => {}
                _ => cx.start_alarm(times.pop().unwrap_or(Instant::NEVER), 0).unwrap(),
            }
        });
        rig.wait(S);
        let seen = seen.borrow();
        let turns: Vec<Instant> = seen.iter().filter(|told| told.service == 0).map(|told| told.now).collect();
        let rings: Vec<Instant> =
            seen.iter().filter(|told| told.service == 1 && told.event == Event::Alarm).map(|told| told.now).collect();
        let mut times = times;
        times.sort_unstable();
        assert_eq!(rings.len(), times.len(), "each rings once");
        let mut earliest = Instant::from_nanoseconds(0);
        for (&time, &ring) in times.iter().zip(&rings) {
            // It was set in the turn in which the one before it rang.
            let first = turns.iter().copied().find(|&turn| turn >= time && turn > earliest);
            assert_eq!(Some(ring), first.or(Some(ring).filter(|&ring| ring >= end)), "due at {time:?}");
            earliest = ring;
        }
        drop(seen);
        rig.close(&mut crate::rig::Nobody);
    });
}

/// An idle lane wakes for its alarm, to the clock's own resolution: within the few microseconds that its turn takes here.
#[test]
fn an_idle_lane_wakes_for_its_alarm_and_sleeps_until_then() {
    for_seeds(50, |seed| {
        let world = World::new(seed, Faults::none());
        let time = world.now() + 10 * MS + Duration::from_nanos(seed % 1_000 * 12_345);
        let (mut rig, seen) = client(&world, patient(), move || {
            move |cx: &mut Cx<'_>, event: &Event| {
                if *event == Event::Started {
                    cx.start_alarm(time, 0).unwrap();
                }
            }
        });
        rig.wait(S);
        assert_eq!(events(&seen), [Event::Started, Event::Alarm]);
        let rang = seen.borrow()[1].now;
        assert!((time..time + Duration::from_micros(5)).contains(&rang), "rang {rang:?}, due {time:?}");
        let turns = rig.lane_count(LaneCounter::TurnsProductive) + rig.lane_count(LaneCounter::TurnsEmpty);
        assert!(turns < 10, "{turns} turns");
        rig.close(&mut crate::rig::Nobody);
    });
}

/// A service has one alarm: setting it again, earlier or later, or to never, forgets the one before; ringing ends it; another service's
/// stays.
#[test]
fn an_alarm_that_is_set_again_is_replaced() {
    let world = World::new(1, Faults::none());
    let start = world.now();
    let (mut rig, seen) = clients(&world, 1, 4, patient(), move |_, service| {
        move |cx: &mut Cx<'_>, event: &Event| {
            if *event == Event::Started {
                let times: &[u64] = [&[50, 20][..], &[20, 50], &[20, u64::MAX], &[30]][service];
                times.iter().for_each(|&time| cx.start_alarm(start + Duration::from_millis(time), 0).unwrap());
            }
        }
    });
    rig.wait(S);
    let rings: Vec<(usize, u128)> =
        seen.borrow()[4..].iter().map(|told| (told.service, (told.now - start).as_millis())).collect();
    assert_eq!(rings, [(0, 20), (3, 30), (1, 50)]);
    rig.close(&mut crate::rig::Nobody);
}

// Connections from an address.

#[test]
fn the_peer_sees_the_address_that_was_asked_for() {
    for_seeds(30, |seed| {
        let world = World::new(seed, Faults::none());
        let six: SocketAddr = "[2001:db8::9]:9".parse().unwrap();
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let asked = [
            (None, server()),
            (Some(parse("10.0.0.1:0")), server()),
            (Some(parse("10.0.0.1:5555")), server()),
            (Some(parse("127.0.0.7:0")), server()),
            (Some(parse("[fd00::1]:5555")), six),
            (None, six),
        ];
        world.listen(server()).unwrap();
        world.listen(six).unwrap();
        let (mut rig, seen) = client(&world, patient(), move || {
            move |cx: &mut Cx<'_>, event: &Event| {
                if *event == Event::Started {
                    for (number, &(from, to)) in asked.iter().enumerate() {
                        cx.connect_from(from.map(Into::into), to, number as u32).unwrap();
                    }
                }
            }
        });
        let mut servers = Servers::default();
        rig.pass(S, &mut servers);
        let sources: Vec<SocketAddr> = servers.0.iter().map(Played::remote).collect();
        assert_eq!(events(&seen).len(), 1 + asked.len());
        for (from, to) in asked {
            let default = if to.is_ipv4() { "10.0.0.1:0" } else { "[fd00::1]:0" };
            let from = from.unwrap_or(parse(default));
            let fits = |source: &&SocketAddr| source.ip() == from.ip() && (from.port() == 0 || source.port() == from.port());
            assert!(sources.iter().any(|source| fits(&source)), "{from} to {to}: {sources:?}");
        }
        let mut ports: Vec<(bool, u16)> = sources.iter().map(|source| (source.is_ipv4(), source.port())).collect();
        ports.sort_unstable();
        ports.dedup();
        assert!(ports.len() == asked.len() && ports.iter().all(|port| port.1 != 0), "{sources:?}");
        rig.close(&mut servers);
    });
}

// Why a connection failed.

/// The ending and fault of one connection to `to`.
fn ending_of(
    limits: Limits,
    from: Option<SocketAddr>,
    to: SocketAddr,
    with: impl Fn(&World, &mut Rig, &mut Servers),
) -> (Ending, Option<Fault>) {
    let world = World::new(1, Faults::none());
    let (mut rig, seen) = client(&world, limits, move || {
        move |cx: &mut Cx<'_>, event: &Event| {
            if *event == Event::Started {
                cx.connect_from(from.map(Into::into), to, 0_u32).unwrap();
            }
        }
    });
    world.listen(server()).unwrap();
    let mut servers = Servers::default();
    with(&world, &mut rig, &mut servers);
    rig.pass(200 * S, &mut servers);
    let closed = events(&seen).into_iter().find_map(|event| match event {
        Event::Closed(0, ending, fault) => Some((ending, fault)),
        _ => None,
    });
    rig.close(&mut servers);
    closed.unwrap()
}

fn reason_of(from: Option<&str>, to: SocketAddr) -> Reason {
    let from = from.map(|from| from.parse().unwrap());
    let (ending, fault) = ending_of(patient(), from, to, |_, _, _| {});
    assert_eq!(ending, Ending::Error);
    fault.unwrap().reason
}

#[test]
fn the_fault_says_why_a_connection_could_not_be_had() {
    assert_eq!(reason_of(None, at(99)), Reason::Refused);
    assert_eq!(reason_of(None, "203.0.113.1:9".parse().unwrap()), Reason::Unreachable);
    assert_eq!(reason_of(Some("[fd00::1]:0"), server()), Reason::Unreachable);
    assert_eq!(reason_of(Some("10.9.9.9:0"), server()), Reason::AddressUnknown);
}

#[test]
fn the_fault_says_that_a_port_is_taken() {
    let world = World::new(1, Faults::none());
    world.listen(server()).unwrap();
    let (mut rig, seen) = client(&world, patient(), || {
        |cx: &mut Cx<'_>, event: &Event| {
            if *event == Event::Started {
                for number in 0..2_u32 {
                    cx.connect_from("10.0.0.1:5555".parse().ok(), server(), number).unwrap();
                }
            }
        }
    });
    let mut servers = Servers::default();
    rig.pass(S, &mut servers);
    let failed: Vec<Event> = events(&seen).into_iter().filter(|event| matches!(event, Event::Closed(..))).collect();
    let [Event::Closed(_, Ending::Error, Some(fault))] = failed[..] else { panic!("{failed:?}") };
    assert_eq!(fault.reason, Reason::AddressInUse);
    rig.close(&mut servers);
}

/// A listener whose backlog is full answers nobody: the client's own limit ends the attempt, or the system's.
#[test]
fn the_fault_says_who_gave_up_waiting() {
    for (connect_limit, reason) in [(500 * MS, Reason::Cancelled), (Duration::from_nanos(u64::MAX), Reason::TimedOut)] {
        let world = World::new(1, Faults::none());
        let (seen, to) = (Seen::default(), at(7));
        let limits = patient().connect_limit(connect_limit);
        let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
            let act = move |cx: &mut Cx<'_>, event: &Event| {
                if *event == Event::Alarm {
                    cx.connect(to, 0_u32).unwrap();
                } else if *event == Event::Started {
                    cx.start_alarm(Duration::from_secs(1), 0).unwrap();
                }
            };
            roster.client(limits, Scripted { service: 0, seen: seen.clone(), act });
            let full = patient().connections_max(1).backlog(1);
            roster.serve(to, full, crate::echo::Echo);
        });
        // They take the one connection that may be open, the place beside it, and the one in the backlog.
        let crowd: Vec<Played> = (0..6).map(|number| rig.connect(number)).collect();
        rig.wait(100 * MS);
        let before = rig.world.now();
        rig.wait(200 * S);
        let seen = events(&seen);
        let Some(&Event::Closed(0, Ending::Error, Some(fault))) = seen.last() else { panic!("{seen:?}") };
        assert_eq!(fault.reason, reason);
        assert!(rig.world.now() > before);
        crowd.iter().for_each(Played::close);
        rig.close(&mut crate::rig::Nobody);
    }
}

#[test]
fn the_fault_says_that_a_connection_was_reset_and_nothing_of_other_endings() {
    let reset = |_: &World, rig: &mut Rig, servers: &mut Servers| {
        rig.pass(S, servers);
        servers.0[0].reset();
    };
    let (ending, fault) = ending_of(patient(), None, server(), reset);
    assert_eq!((ending, fault.unwrap().reason), (Ending::Error, Reason::Reset));
    let finish = |_: &World, rig: &mut Rig, servers: &mut Servers| {
        rig.pass(S, servers);
        servers.0[0].finish();
    };
    assert_eq!(ending_of(patient(), None, server(), finish), (Ending::EndOfStream, None));
    let idle = patient().idle_limit(Duration::from_secs(1));
    assert_eq!(ending_of(idle, None, server(), |_, _, _| {}), (Ending::Closing, None));
}

// Breaking off.

/// What is broken off is gone at once: its output is lost, its peer sees a reset, and its session hears of it once.
#[test]
fn an_aborted_connection_leaves_nothing_behind() {
    for_seeds(50, |seed| {
        let world = World::new(seed, Faults::none());
        world.listen(server()).unwrap();
        let (mut rig, seen) = client(&world, patient(), || {
            let mut id = None;
            move |cx: &mut Cx<'_>, event: &Event| match event {
                Event::Started => id = Some(cx.connect(server(), 7_u32).unwrap()),
                Event::Connected(_) => cx.start_alarm(Duration::from_millis(10), 0).unwrap(),
                Event::Alarm => {
                    let id: ConnectionId = id.unwrap();
                    cx.connection(id).unwrap().write(&[1; 50_000]).unwrap();
                    cx.abort(id);
                    cx.abort(id);
                    cx.start_alarm(Instant::NEVER, 0).unwrap();
                }
                Event::Closed(..) => assert!(cx.connection(id.unwrap()).is_none()),
                _ => {}
            }
        });
        let mut servers = Servers::default();
        rig.pass(5 * MS, &mut servers);
        assert_eq!(rig.connections(), 1);
        rig.pass(S, &mut servers);
        assert_eq!(events(&seen)[3..], [Event::Closed(7, Ending::Aborted, None)]);
        assert_eq!((rig.connections(), rig.count(C::EndingsAborted)), (0, 1));
        assert_eq!((servers.0[0].status(), servers.0[0].readable_bytes()), (Status::Closed, 0));
        assert_eq!(rig.count(C::BytesOut), 0, "nothing of it has left");
        assert!(rig.arenas.iter().all(|arena| arena.used() == 0));
        rig.close(&mut servers);
    });
}

/// Connections broken off at any time: while they are opened, at once, later, twice, and after their end.
#[test]
fn every_aborted_connection_ends_once_under_every_fault() {
    const CONNECTIONS: u32 = 12;
    for_seeds(300, |seed| {
        let (world, family) =
            (World::new(seed, if seed % 3 == 0 { Faults::none() } else { Faults::all(seed) }), Family::of(seed));
        world.listen(family.way(&world, 9)).unwrap();
        let (mut rig, seen) = client(&world, patient(), move || {
            let (mut ids, mut random): (Vec<ConnectionId>, _) = (Vec::new(), Random::new(seed));
            move |cx: &mut Cx<'_>, event: &Event| {
                if *event == Event::Started {
                    ids.extend((0..CONNECTIONS).map(|number| cx.connect(family.at(9), number).unwrap()));
                    // Some before anything was sent on its way.
                    ids.iter().filter(|_| random.below(4) == 0).for_each(|&id| cx.abort(id));
                }
                for &id in ids.iter().filter(|_| random.below(20) == 0) {
                    if let Some(output) = cx.connection(id) {
                        output.push(&[5; 3_000][..]);
                    }
                    cx.abort(id);
                }
                if !matches!(event, Event::Closed(..)) {
                    cx.start_alarm(Duration::from_nanos(random.below(200_000)), 0).unwrap();
                }
            }
        });
        let mut servers = Servers::default();
        let is_closed = |told: &Told| matches!(told.event, Event::Closed(..));
        let all_closed = || seen.borrow().iter().filter(|told| is_closed(told)).count() >= CONNECTIONS as usize;
        wait_until(&mut rig, &mut servers, all_closed);
        // The sessions have ended, and the sockets do a little later.
        while rig.connections() > 0 {
            rig.pass(MS, &mut servers);
        }
        let mut closed: Vec<u32> = Vec::new();
        for event in events(&seen) {
            if let Event::Closed(number, ending, fault) = event {
                assert_eq!(fault.is_some(), ending == Ending::Error, "{ending} with {fault:?}");
                closed.push(number);
            }
        }
        closed.sort_unstable();
        assert_eq!(closed, (0..CONNECTIONS).collect::<Vec<_>>(), "each session is closed once");
        assert_eq!((rig.connections(), endings(&rig, 0)), (0, u64::from(CONNECTIONS)));
        rig.close(&mut servers);
    });
}

/// One seed of the alarms and of the aborted connections, twice.
#[test]
fn the_same_seed_gives_the_same_run() {
    for_seeds(10, |seed| assert_eq!(alarms(seed, Faults::all(seed)), alarms(seed, Faults::all(seed))));
}
