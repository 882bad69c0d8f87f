//! Clients over datagrams: sockets of their own, what is sent without being asked, and what the network says of it.

use crate::for_seeds;
use crate::rig::{Family, MS, Nobody, Play, Rig, RigPlan, at, burst};
use corelane_lane::Order as Command;
use corelane_seam::Instant;
use corelane_seam::{Address, Datagrams, Fault, Lease, Reason};
use corelane_sim::{DatagramPeer, Faults, Random, Report, Turn, World};
use corelane_svc::{Cx, DatagramService, Error, Input, Limits, Next, Output, Peer, Replies, Silent, SocketId, StreamService};
use corelane_watch::ServiceCounter as C;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const ECHO: u16 = 9;

/// Any address, for a socket with a peer.
fn any() -> SocketAddr {
    "0.0.0.0:0".parse().unwrap()
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Started,
    Alarm,
    Opened(SocketId, Result<Address, Fault>),
    /// On this socket, from this peer.
    Received(SocketId, Address, Vec<u8>),
    Sent(SocketId),
    Fault(SocketId, Fault),
}

/// A client that does what a test says.
struct Scripted<F>(F);

impl<F: FnMut(&mut Cx<'_>, Event, Option<&mut Replies>) + 'static> DatagramService for Scripted<F> {
    type Talk = Silent;
    fn started(&mut self, cx: &mut Cx<'_>) {
        (self.0)(cx, Event::Started, None);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        (self.0)(cx, Event::Alarm, None);
    }

    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            let payload = batch.payload(arrival);
            for number in 0..arrival.datagrams() {
                let size = arrival.datagram_bytes as usize;
                let datagram = &payload[number * size..payload.len().min((number + 1) * size)];
                let event = Event::Received(cx.socket(), arrival.peer.clone(), datagram.to_vec());
                (self.0)(cx, event, Some(replies));
            }
        }
    }

    fn opened(&mut self, cx: &mut Cx<'_>, socket: SocketId, outcome: Result<corelane_seam::Address, Fault>) {
        assert_eq!(cx.socket(), socket);
        (self.0)(cx, Event::Opened(socket, outcome), None);
    }

    fn sent(&mut self, cx: &mut Cx<'_>, socket: SocketId, replies: &mut Replies) {
        assert_eq!(cx.socket(), socket);
        (self.0)(cx, Event::Sent(socket), Some(replies));
    }

    fn fault(&mut self, cx: &mut Cx<'_>, socket: SocketId, fault: Fault) {
        assert_eq!(cx.socket(), socket);
        (self.0)(cx, Event::Fault(socket, fault), None);
    }
}

/// Sends everything back.
struct Echo;

impl DatagramService for Echo {
    type Talk = Silent;
    fn receive(&mut self, _: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        batch.arrivals().iter().for_each(|arrival| replies.echo(batch, arrival));
    }
}

/// A lane with a client as its first service, and an echo as its second.
fn rig_with(
    world: &World,
    family: Family,
    limits: Limits,
    client: impl Fn() -> Box<dyn FnMut(&mut Cx<'_>, Event, Option<&mut Replies>)>,
) -> Rig {
    let plan = RigPlan::lanes(1).family(family);
    Rig::new(world, &plan, move |roster| {
        roster.client_datagrams(limits, Scripted(client()));
        roster.serve_datagrams(family.at(ECHO), Limits::default(), Echo);
    })
}

/// What a client was told, in order.
type Seen = Rc<RefCell<Vec<Event>>>;

/// A client that notes what it is told, and does what `act` says then.
fn noted(
    world: &World,
    family: Family,
    limits: Limits,
    act: impl FnMut(&mut Cx<'_>, &Event, Option<&mut Replies>) + Clone + 'static,
) -> (Rig, Seen) {
    let seen = Seen::default();
    let shared = seen.clone();
    let rig = rig_with(world, family, limits, move || {
        let (seen, mut act) = (shared.clone(), act.clone());
        Box::new(move |cx: &mut Cx<'_>, event, replies: Option<&mut Replies>| {
            act(cx, &event, replies);
            seen.borrow_mut().push(event);
        })
    });
    (rig, seen)
}

/// The numbers that a client has out on one socket, and those that came back.
struct Asker {
    family: Family,
    out: BTreeMap<u32, Instant>,
    next: u32,
    answered: u32,
}

/// How many numbers each socket asks for.
const NUMBERS: u32 = 200;
/// After how long a number is asked for again.
const AGAIN: Duration = Duration::from_millis(20);

impl Asker {
    fn new(family: Family) -> Self {
        Self { family, out: BTreeMap::new(), next: 0, answered: 0 }
    }

    /// Asks for numbers until `window` are out, some in trains and some singly, and again for what has been out for too long.
    fn ask(&mut self, cx: &mut Cx<'_>, socket: SocketId, mut replies: Option<&mut Replies>, window: usize) {
        let (now, to) = (cx.now(), self.family.at(ECHO));
        let late = self.out.iter().filter(|out| *out.1 + AGAIN <= now).map(|out| *out.0);
        let more = window.saturating_sub(self.out.len()).min((NUMBERS - self.next) as usize) as u32;
        let numbers: Vec<u32> = late.chain(self.next..self.next + more).collect();
        for number in numbers {
            // Where there is no memory now, the next call asks.
            let Some(bytes) = cx.arena().copy_of(&number.to_be_bytes()).map(Lease::share) else { return };
            let replies = replies.as_deref_mut().or_else(|| cx.datagrams(socket)).unwrap();
            let taken = match number % 3 {
                0 => replies.send_single(to.clone(), None, bytes),
                _ => replies.send(to.clone(), None, bytes),
            };
            assert!(taken);
            self.out.insert(number, now);
            self.next = self.next.max(number + 1);
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        let number = u32::from_be_bytes(bytes.try_into().unwrap());
        self.answered += u32::from(self.out.remove(&number).is_some());
    }
}

/// One more socket that asks the echo.
fn open(cx: &mut Cx<'_>, family: Family, askers: &mut BTreeMap<SocketId, Asker>) {
    askers.insert(cx.open_datagrams(family.any(), Some(family.at(ECHO))).unwrap(), Asker::new(family));
}

/// Some sockets ask an echo for numbers, and again for those that were lost, until all have come back.
pub fn run(seed: u64, faults: Faults) -> Report {
    let (world, family) = (World::new(seed, faults), Family::of(seed));
    let mut random = Random::new(seed);
    let (sockets, window) = (random.one_to(5), random.one_to(40));
    let askers: Rc<RefCell<BTreeMap<SocketId, Asker>>> = Rc::default();
    let shared = askers.clone();
    let mut rig = rig_with(&world, family, Limits::default(), move || {
        let askers = shared.clone();
        Box::new(move |cx: &mut Cx<'_>, event, replies: Option<&mut Replies>| match event {
            Event::Started => {
                (0..sockets).for_each(|_| open(cx, family, &mut askers.borrow_mut()));
                cx.start_alarm(AGAIN, 0).unwrap();
            }
            Event::Received(socket, from, bytes) => {
                assert!(family.is_at(&from, ECHO), "{from}");
                let askers = &mut *askers.borrow_mut();
                let asker = askers.get_mut(&socket).unwrap();
                asker.hear(&bytes);
                asker.ask(cx, socket, replies, window);
            }
            Event::Alarm => {
                askers.borrow_mut().iter_mut().for_each(|(&socket, asker)| asker.ask(cx, socket, None, window));
                cx.start_alarm(AGAIN, 0).unwrap();
            }
            Event::Opened(_, Ok(_)) => {}
            Event::Opened(socket, Err(fault)) => {
                assert!(faults.filled_table > 0 && fault.reason == Reason::NoDescriptor, "{fault:?}");
                assert!(askers.borrow_mut().remove(&socket).is_some());
                open(cx, family, &mut askers.borrow_mut());
            }
            Event::Sent(_) => {}
            Event::Fault(_, fault) => assert!(faults.datagram_error + faults.datagram_refused > 0, "{fault:?}"),
        })
    });
    let is_done = || askers.borrow().values().all(|asker| asker.answered == NUMBERS) && !askers.borrow().is_empty();
    while !is_done() {
        rig.wait(AGAIN);
        assert!(world.now() < Instant::from_nanoseconds(0) + 1_000_000 * MS, "it never comes to an end");
    }
    assert_eq!(rig.count(C::DatagramSocketsOpen), sockets as u64);
    if faults == Faults::none() {
        let numbers = u64::from(NUMBERS) * sockets as u64;
        assert_eq!([C::DatagramsIn, C::DatagramsOut].map(|counter| rig.count(counter)), [numbers; 2]);
    }
    rig.close(&mut Nobody);
    assert_eq!(rig.count(C::DatagramSocketsOpen), 0);
    world.report()
}

#[test]
fn every_number_comes_back() {
    for_seeds(40, |seed| {
        run(seed, Faults::none());
    });
}

#[test]
fn every_number_comes_back_in_the_end_under_every_fault() {
    for_seeds(100, |seed| {
        run(seed, Faults::all(seed));
    });
}

/// A test's own end, that only listens.
struct Listener(DatagramPeer, usize);

impl Play for Listener {
    fn news(&mut self, _: &World, turn: Turn) {
        if matches!(turn, Turn::Datagrams(_)) {
            self.1 += std::iter::from_fn(|| self.0.receive()).count();
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}

#[test]
fn a_client_sends_as_fast_as_the_way_allows_without_being_asked() {
    let world = World::new(1, Faults::none());
    let there = world.bind("192.0.2.9:9".parse().unwrap()).unwrap();
    let to = there.local();
    let mut left = 100;
    let (mut rig, seen) = noted(&world, Family::Inet, Limits::default(), move |cx, event, replies| match event {
        Event::Started => {
            let socket = cx.open_datagrams(any(), None).unwrap();
            // It waits until the socket is open.
            assert!(cx.datagrams(socket).unwrap().send(to, None, &b"first"[..]));
        }
        Event::Sent(socket) if left == 0 => cx.close_datagrams(*socket),
        Event::Sent(socket) => {
            left -= 1;
            assert!(cx.datagrams(*socket).is_none(), "its output is an argument of the call");
            let replies = replies.unwrap();
            assert!((0..10).all(|_| replies.send(to, None, &b"more"[..])));
        }
        _ => {}
    });
    let mut listener = Listener(there, 0);
    rig.pass(500 * MS, &mut listener);
    assert_eq!((listener.1, rig.count(C::DatagramsOut), rig.count(C::TrainsOut)), (1001, 1001, 101));
    assert_eq!(seen.borrow().iter().filter(|event| matches!(event, Event::Sent(_))).count(), 101);
    assert_eq!(rig.count(C::DatagramSocketsOpen), 0, "its service closed it");
    rig.close(&mut listener);
}

#[test]
fn at_the_bound_no_socket_is_opened_until_one_is_closed() {
    let world = World::new(1, Faults::none());
    let limits = Limits::new().datagram_sockets_max(2);
    let mut sockets = Vec::new();
    let (mut rig, seen) = noted(&world, Family::Inet, limits, move |cx, event, _| match event {
        Event::Started => {
            sockets.extend((0..2).map(|_| cx.open_datagrams(any(), None).unwrap()));
            assert_eq!(cx.open_datagrams(any(), None), Err(Error::SocketsFull { sockets: 2 }));
            cx.start_alarm(Duration::from_millis(1), 0).unwrap();
        }
        Event::Alarm if sockets.len() == 2 => {
            cx.close_datagrams(sockets[0]);
            assert!(cx.datagrams(sockets[0]).is_none());
            sockets.push(sockets[1]);
            cx.start_alarm(Duration::from_millis(1), 0).unwrap();
        }
        Event::Alarm => {
            let third = cx.open_datagrams(any(), None).unwrap();
            assert!(!sockets.contains(&third), "a name is not used again");
        }
        _ => {}
    });
    rig.wait(5 * MS);
    let opened = seen.borrow().iter().filter(|event| matches!(event, Event::Opened(_, Ok(_)))).count();
    assert_eq!((opened, rig.count(C::DatagramSocketsOpen), rig.count(C::DatagramSocketsMaxHits)), (3, 2, 1));
    rig.close(&mut Nobody);
}

#[test]
fn no_more_waits_at_a_socket_than_its_bound() {
    let world = World::new(1, Faults::none());
    let there = world.bind("192.0.2.9:9".parse().unwrap()).unwrap();
    let (to, limits) = (there.local(), Limits::new().datagrams_waiting_max(5));
    let (mut rig, _) = noted(&world, Family::Inet, limits, move |cx, event, _| {
        if *event == Event::Started {
            let socket = cx.open_datagrams(any(), None).unwrap();
            let replies = cx.datagrams(socket).unwrap();
            let taken = (0..8).filter(|_| replies.send_single(to, None, &b"x"[..])).count();
            assert_eq!(taken, 5);
        }
    });
    let mut listener = Listener(there, 0);
    rig.pass(5 * MS, &mut listener);
    assert_eq!((listener.1, rig.count(C::DatagramsRefused), rig.count(C::DatagramsWaitingMaxHits)), (5, 3, 3));
    rig.close(&mut listener);
}

#[test]
fn a_client_hears_that_nobody_is_there_and_goes_on() {
    let world = World::new(1, Faults::none());
    let mut client = None;
    let (mut rig, seen) = noted(&world, Family::Inet, Limits::default(), move |cx, event, _| match event {
        Event::Started => client = Some(cx.open_datagrams(any(), Some(at(77).into())).unwrap()),
        Event::Opened(socket, Ok(local)) => {
            assert_eq!(local.ip(), Some(at(0).ip()), "the way to the peer");
            let replies = cx.datagrams(*socket).unwrap();
            assert!(replies.send(at(77), None, &b"anybody?"[..]));
            assert!(!replies.send(at(ECHO), None, &b"elsewhere"[..]));
            cx.start_alarm(Duration::from_millis(10), 0).unwrap();
        }
        Event::Alarm => assert!(cx.datagrams(client.unwrap()).unwrap().send(at(77), None, &b"now?"[..])),
        _ => {}
    });
    rig.wait(5 * MS);
    let faults: Vec<_> = seen.borrow().iter().filter(|event| matches!(event, Event::Fault(..))).cloned().collect();
    assert!(matches!(faults[..], [Event::Fault(_, Fault { reason: Reason::Refused, .. })]), "{faults:?}");
    assert_eq!((rig.count(C::DatagramFaults), rig.count(C::DatagramsRefused)), (1, 1));
    let there = world.bind(at(77)).unwrap();
    rig.wait(10 * MS);
    let (from, text) = there.receive().unwrap();
    assert_eq!((from.ip(), &text[..]), (at(0).ip(), &b"now?"[..]));
    there.send(from, b"yes").unwrap();
    rig.wait(5 * MS);
    assert!(matches!(seen.borrow().last(), Some(Event::Received(_, from, text)) if *from == at(77) && text == b"yes"));
    rig.close(&mut Nobody);
}

#[test]
fn what_cannot_be_opened_is_told_and_its_name_is_void() {
    let world = World::new(1, Faults::none());
    let (mut rig, seen) = noted(&world, Family::Inet, Limits::default(), |cx, event, _| match event {
        Event::Started => {
            let socket = cx.open_datagrams(at(ECHO), None).unwrap();
            assert!(cx.datagrams(socket).unwrap().send(at(1), None, &b"never leaves"[..]));
            cx.start_alarm(Duration::from_millis(1), 0).unwrap();
        }
        Event::Opened(socket, Err(_)) => cx.close_datagrams(*socket),
        _ => {}
    });
    rig.wait(5 * MS);
    let reason = match seen.borrow()[1] {
        Event::Opened(_, Err(fault)) => fault.reason,
        ref other => panic!("{other:?}"),
    };
    assert_eq!((reason, seen.borrow().len()), (Reason::AddressInUse, 3));
    assert_eq!((rig.count(C::DatagramSocketsOpen), rig.count(C::DatagramsRefused)), (0, 1));
    rig.close(&mut Nobody);
}

#[test]
fn a_socket_closed_before_it_is_open_is_not_spoken_of() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults::all(seed));
        let (mut rig, seen) = noted(&world, Family::Inet, Limits::default(), |cx, event, _| {
            if *event == Event::Started {
                // One would be opened, one could not be.
                for local in [any(), at(ECHO)] {
                    let socket = cx.open_datagrams(local, None).unwrap();
                    cx.close_datagrams(socket);
                }
            }
        });
        rig.wait(5_000 * MS);
        assert_eq!((&seen.borrow()[..], rig.count(C::DatagramSocketsOpen)), (&[Event::Started][..], 0));
        rig.close(&mut Nobody);
    });
}

/// A service over connections, which may not have datagram sockets.
struct Stream;

impl StreamService for Stream {
    type Talk = Silent;
    type Session = ();

    fn started(&mut self, cx: &mut Cx<'_>) {
        assert_eq!(cx.open_datagrams(any(), None), Err(Error::NotOverDatagrams));
    }

    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}

    fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Continue
    }
}

#[test]
fn a_socket_is_its_services_own() {
    let world = World::new(1, Faults::none());
    let socket: Rc<RefCell<Option<SocketId>>> = Rc::default();
    let plan = RigPlan::lanes(1);
    let shared = socket.clone();
    let mut rig = Rig::new(&world, &plan, move |roster| {
        let (mine, theirs) = (shared.clone(), shared.clone());
        let owner = Scripted(move |cx: &mut Cx<'_>, event, _: Option<&mut Replies>| {
            if event == Event::Started {
                *mine.borrow_mut() = cx.open_datagrams(any(), None).ok();
            }
        });
        let other = Scripted(move |cx: &mut Cx<'_>, event, _: Option<&mut Replies>| {
            if event == Event::Started {
                let socket = theirs.borrow().unwrap();
                assert!(cx.datagrams(socket).is_none());
                cx.close_datagrams(socket);
            }
        });
        roster.client_datagrams(Limits::default(), owner);
        roster.client_datagrams(Limits::default(), other);
        roster.client(Limits::default(), Stream);
    });
    rig.wait(5 * MS);
    assert_eq!((0..3).map(|service| rig.count_of(service, C::Panics)).sum::<u64>(), 0, "{:?}", rig.reports.borrow());
    assert_eq!(rig.count(C::DatagramSocketsOpen), 1);
    rig.close(&mut Nobody);
}

#[test]
fn a_panic_in_any_call_is_counted_and_the_socket_lives_on() {
    let world = World::new(1, Faults::none());
    let (mut rig, seen) = noted(&world, Family::Inet, Limits::default(), {
        let mut socket = None;
        move |cx, event, _| match event {
            Event::Started => {
                socket = cx.open_datagrams(any(), Some(at(77).into())).ok();
                cx.start_alarm(Duration::from_millis(1), 0).unwrap();
            }
            Event::Alarm => {
                cx.start_alarm(Duration::from_millis(1), 0).unwrap();
                assert!(cx.datagrams(socket.unwrap()).unwrap().send(at(77), None, &b"x"[..]));
            }
            _ => burst("told to"),
        }
    });
    rig.wait(10 * MS);
    let sent = seen.borrow().iter().filter(|event| **event == Event::Alarm).count() as u64;
    assert!(sent >= 5 && rig.count(C::DatagramsOut) >= sent - 1, "{sent}");
    assert!(rig.count(C::Panics) > 2 * (sent - 1) && rig.count(C::DatagramFaults) >= sent - 1);
    rig.close(&mut Nobody);
}

/// A client that floods, and one whose socket is just being opened, when the drain begins.
#[test]
fn a_drain_ends_clients_whatever_they_do() {
    for_seeds(100, |seed| {
        let (world, family) = (World::new(seed, Faults::all(seed)), Family::of(seed));
        let late: Rc<RefCell<Vec<Error>>> = Rc::default();
        let shared = late.clone();
        let (mut rig, _) = noted(&world, family, Limits::default(), move |cx, event, replies| match event {
            Event::Started => {
                for _ in 0..3 {
                    cx.open_datagrams(family.any(), Some(family.at(ECHO))).unwrap();
                }
                cx.start_alarm(cx.now(), 0).unwrap();
            }
            Event::Opened(socket, Ok(_)) => drop(cx.datagrams(*socket).unwrap().send(family.at(ECHO), None, &b"begin"[..])),
            Event::Sent(_) | Event::Received(..) => {
                replies.unwrap().send(family.at(ECHO), None, &b"on and on"[..]);
            }
            Event::Alarm => {
                cx.start_alarm(Duration::from_millis(1), 0).unwrap();
                shared.borrow_mut().extend(cx.open_datagrams(family.any(), None).err());
            }
            _ => {}
        });
        rig.wait((seed % 4) as u32 * MS);
        rig.control.give(Command::Drain);
        rig.close(&mut Nobody);
        assert!(late.borrow().iter().all(|error| matches!(error, Error::Draining | Error::SocketsFull { .. })));
    });
}

#[test]
fn in_a_drain_nobody_is_asked_to_go_on() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults { late_completion: 300, ..Faults::none() });
        let (mut rig, seen) = noted(&world, Family::Inet, Limits::default(), |cx, event, replies| match event {
            Event::Started => drop(cx.open_datagrams(any(), Some(at(ECHO).into()))),
            Event::Opened(socket, _) => assert!(cx.datagrams(*socket).unwrap().send(at(ECHO), None, &b"begin"[..])),
            Event::Sent(_) => assert!(replies.unwrap().send(at(ECHO), None, &b"on and on"[..])),
            _ => {}
        });
        rig.wait(10 * MS);
        let sent = || seen.borrow().iter().filter(|event| matches!(event, Event::Sent(_))).count();
        let before = sent();
        assert!(before > 1, "it floods");
        rig.close(&mut Nobody);
        assert_eq!(sent(), before);
    });
}

/// What has arrived cannot be received, because the lane has no memory.
#[test]
fn at_the_deadline_a_drain_waits_for_no_socket() {
    let world = World::new(1, Faults::none());
    let limits = Limits::new().drain_limit(Duration::from_millis(100));
    let plan = RigPlan::lanes(1);
    let mut rig = Rig::new(&world, &plan, |roster| {
        roster.serve_datagrams(at(ECHO), limits, Echo);
    });
    rig.wait(MS);
    let held: Vec<Lease> = std::iter::from_fn(|| rig.arenas[0].lease(64 << 10)).collect();
    world.bind("192.0.2.9:9".parse().unwrap()).unwrap().send(at(ECHO), b"?").unwrap();
    rig.wait(MS);
    let begun = world.now();
    rig.control.give(Command::Drain);
    rig.until_ended(&mut Nobody);
    assert!(rig.has_ended() && (100 * MS..200 * MS).contains(&(world.now() - begun)), "{:?}", world.now() - begun);
    assert_eq!(rig.count(C::DrainDeadlineHits), 1);
    drop(held);
    world.check().unwrap();
}

/// One that goes on sending is told when there is room for as much as it was refused, though some was there all the time.
#[test]
fn who_was_refused_for_want_of_a_release_goes_on_when_there_is_one() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults::none());
        let (limits, taken) = (Limits::new().datagrams_waiting_max(75), Rc::new(RefCell::new(0)));
        let count = taken.clone();
        let (mut rig, _) = noted(&world, Family::Inet, limits, move |cx, event, replies| match event {
            Event::Started => drop(cx.open_datagrams(any(), Some(at(ECHO).into())).unwrap()),
            Event::Opened(socket, _) => *count.borrow_mut() += send_train(cx.datagrams(*socket).unwrap()),
            Event::Sent(_) if *count.borrow() < 250 => *count.borrow_mut() += send_train(replies.unwrap()),
            _ => {}
        });
        world.keep_sends(true);
        rig.wait(20 * MS);
        assert_eq!((*taken.borrow(), rig.count(C::DatagramsRefused)), (50, 50), "half as many have room");
        world.keep_sends(false);
        rig.wait(50 * MS);
        assert_eq!(*taken.borrow(), 250);
        rig.close(&mut Nobody);
    });
}

/// Sends fifty datagrams at once; how many were taken.
fn send_train(replies: &mut Replies) -> u32 {
    if replies.send_train(at(ECHO), None, &[7; 500][..], 10) { 50 } else { 0 }
}
