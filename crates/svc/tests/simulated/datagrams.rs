//! Datagrams: batches in, trains out, from the address that was asked.

use crate::echo::pattern;
use crate::for_seeds;
use crate::rig::{Family, MS, Nobody, Play, Rig, RigPlan, at, burst};
use corelane_lane::Order as Command;
use corelane_seam::{Address, DATAGRAM_BYTES_MAX, Datagrams, Reason};
use corelane_sim::{DatagramPeer, Faults, Planted, Random, Report, Turn, World};
use corelane_svc::{Cx, DatagramService, Limits, Replies, Silent};
use corelane_watch::ServiceCounter as C;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

pub const PORT: u16 = 9;
const ARRIVED: u64 = 110_000;

/// Sends everything back; what begins with `!` panics, `?` asks for more than a reply may hold, `+` for two.
pub struct Echo;

impl DatagramService for Echo {
    type Talk = Silent;
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            cx.count_requests(arrival.datagrams());
            match batch.payload(arrival).first() {
                Some(b'!') => burst("told to"),
                Some(b'?') => replies.reply(arrival, &[b'?'; 2000][..], 10),
                Some(b'+') => {
                    replies.echo(batch, arrival);
                    replies.send(arrival.peer.clone(), arrival.asked, &b"more"[..]);
                }
                _ => replies.echo(batch, arrival),
            }
        }
    }
}

fn rig(world: &World, lanes: usize, ip: [u8; 4]) -> Rig {
    rig_at(world, lanes, SocketAddr::from((ip, PORT)).into())
}

fn rig_at(world: &World, lanes: usize, address: Address) -> Rig {
    Rig::new(world, &RigPlan::lanes(lanes), move |roster| roster.serve_datagrams(address.clone(), Limits::default(), Echo))
}

/// A client of the echo: what it sent, and what came back.
pub struct Shouter {
    pub peer: DatagramPeer,
    pub sent: Vec<Vec<u8>>,
    got: Vec<(SocketAddr, Vec<u8>)>,
}

impl Shouter {
    pub fn new(world: &World, number: usize) -> Self {
        Self::of(world, Family::Inet, number)
    }

    pub fn of(world: &World, family: Family, number: usize) -> Self {
        Self { peer: world.bind(family.asker(world, number)).unwrap(), sent: Vec::new(), got: Vec::new() }
    }

    /// What a Unix socket has no room for it refuses at once: it was not sent.
    pub fn send(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        match self.peer.send(to, &bytes) {
            Ok(()) => self.sent.push(bytes),
            Err(fault) => assert_eq!(fault.reason, Reason::Busy),
        }
    }

    pub fn hear(&mut self) {
        let peer = self.peer.clone();
        self.got.extend(std::iter::from_fn(|| peer.receive()));
    }

    /// What came back, without the addresses.
    pub fn answers(&self) -> Vec<Vec<u8>> {
        self.got.iter().map(|(_, bytes)| bytes.clone()).collect()
    }
}

pub struct Shouters(pub Vec<Shouter>);

impl Shouters {
    pub fn of(world: &World, family: Family, count: usize) -> Self {
        Self((0..count).map(|number| Shouter::of(world, family, number)).collect())
    }
}

impl Play for Shouters {
    fn news(&mut self, _: &World, turn: Turn) {
        let Turn::Datagrams(peer) = turn else { return };
        if let Some(shouter) = self.0.iter_mut().find(|shouter| shouter.peer == peer) {
            shouter.hear();
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}

pub fn in_order(mut answers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    answers.sort();
    answers
}

/// Some clients send some datagrams each, numbered, in bursts of one size or of many; then the lanes drain.
pub fn run(seed: u64, faults: Faults) -> Report {
    run_with(seed, faults, None)
}

/// The same with a driver that has a bug.
fn run_with(seed: u64, faults: Faults, bug: Option<Planted>) -> Report {
    let (world, family) = (World::new(seed, faults), Family::of(seed));
    if let Some(bug) = bug {
        world.plant(bug);
    }
    let mut rig = rig_at(&world, 2, family.at(PORT));
    let mut random = Random::new(seed);
    let (mut shouters, to) = (Shouters::of(&world, family, 5), family.way(&world, PORT));
    let mut number = 0u32;
    for _ in 0..10 {
        for shouter in &mut shouters.0 {
            let size = random.below(1_400) as usize;
            for _ in 0..random.below(12) {
                number += 1;
                let bytes = if random.below(8) == 0 { random.below(3_000) as usize } else { size };
                let datagram = [&b"d"[..], &number.to_be_bytes(), &pattern(seed, bytes)].concat();
                shouter.send(to, datagram);
            }
        }
        rig.pass(random.time_below(MS), &mut shouters);
    }
    rig.pass(Duration::from_nanos(10 * ARRIVED), &mut shouters);
    rig.drain(&mut shouters);
    rig.pass(Duration::from_nanos(10 * ARRIVED), &mut shouters);
    shouters.0.iter_mut().for_each(Shouter::hear);
    world.check().unwrap();
    let refused = rig.count(C::DatagramsRefused);
    let loses = match family.is_unix() {
        // Where the network does nothing, all that was sent is answered, or refused for want of room at who asked.
        true => {
            let count = |what: fn(&Shouter) -> usize| shouters.0.iter().map(what).sum::<usize>() as u64;
            assert_eq!(count(|shouter| shouter.got.len()) + refused, count(|shouter| shouter.sent.len()));
            refused > 0
        }
        false => faults.datagram_loss + faults.datagram_duplicate + faults.datagram_reorder + faults.datagram_refused > 0,
    };
    for shouter in &shouters.0 {
        assert!(shouter.got.iter().all(|(from, bytes)| *from == to && shouter.sent.contains(bytes)));
        assert!(loses || in_order(shouter.answers()) == in_order(shouter.sent.clone()), "every datagram has its answer");
        assert!(loses || faults != Faults::none() || shouter.answers() == shouter.sent, "answers keep their order");
    }
    assert_eq!(rig.count(C::DatagramsIn), rig.count(C::DatagramsOut) + refused);
    assert!(loses || refused == 0);
    assert_eq!((rig.count(C::BytesIn), rig.count(C::Requests)), (rig.count(C::BytesOut), rig.count(C::DatagramsIn)));
    world.report()
}

#[test]
fn every_datagram_comes_back() {
    for_seeds(60, |seed| {
        run(seed, Faults::none());
    });
}

#[test]
fn what_comes_back_is_right_under_every_fault() {
    for_seeds(150, |seed| {
        run(seed, Faults::all(seed));
    });
}

/// Memory that the system reads after the send has ended is released once, in order, and unchanged till then.
#[test]
fn what_a_driver_says_wrong_of_a_release_is_noticed() {
    let faults = Faults { late_release: 600, ..Faults::none() };
    let fails = |seed, bug| catch_unwind(AssertUnwindSafe(|| run_with(seed, faults, bug))).is_err();
    assert!((0..20).all(|seed| !fails(seed, None)));
    for bug in [Planted::EarlyRelease, Planted::LostRelease, Planted::DoubleRelease, Planted::UnorderedRelease] {
        assert!((0..50).any(|seed| fails(seed, Some(bug))), "{bug:?}");
    }
}

/// What is not released counts as if it waited: the service answers no more than may, and takes nothing that it could not answer.
#[test]
fn memory_that_is_not_released_pushes_back_and_is_charged() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults { late_completion: 300, ..Faults::none() });
        let limits = Limits::new().datagrams_waiting_max(150);
        let mut rig = Rig::new(&world, &RigPlan::lanes(1), move |roster| {
            roster.serve_datagrams(SocketAddr::from(([10, 0, 0, 1], PORT)), limits, Echo);
        });
        let mut shouters = Shouters(vec![Shouter::new(&world, 0)]);
        world.keep_sends(true);
        for _ in 0..40 {
            (0..10).for_each(|_| shouters.0[0].send(at(PORT), vec![7; 1_000]));
            rig.pass(MS / 2, &mut shouters);
        }
        let (held, taken) = (rig.count(C::DatagramsOut), rig.count(C::DatagramsIn));
        assert!((100..=250).contains(&held) && taken < 350, "{held} are held of {taken}");
        assert!(rig.arenas[0].used() >= held as usize * 1_000, "the kernel has it still");
        world.keep_sends(false);
        rig.pass(50 * MS, &mut shouters);
        assert_eq!(rig.count(C::DatagramsIn), 400, "there is room again, and what waited in the socket is served");
        assert_eq!(rig.count(C::DatagramsOut) + rig.count(C::DatagramsRefused), 400);
        rig.close(&mut shouters);
        assert_eq!(rig.arenas[0].used(), 0);
    });
}

#[test]
fn singles_to_one_peer_leave_as_a_train() {
    let world = World::new(1, Faults { late_completion: 1000, ..Faults::none() });
    let mut rig = rig(&world, 1, [10, 0, 0, 1]);
    let mut shouters = Shouters(vec![Shouter::new(&world, 0), Shouter::new(&world, 1)]);
    rig.wait(MS);
    for number in 0..40 {
        shouters.0[number % 2].send(at(PORT), vec![b'd', number as u8]);
    }
    rig.pass(20 * MS, &mut shouters);
    for shouter in &shouters.0 {
        assert_eq!(shouter.answers(), shouter.sent);
    }
    let (out, sends, trains) = (rig.count(C::DatagramsOut), rig.count(C::DatagramSends), rig.count(C::TrainsOut));
    assert!(out == 40 && trains >= 2 && sends < 10, "{out} datagrams in {sends} sends and {trains} trains");
    rig.close(&mut shouters);
}

#[test]
fn answers_come_from_the_address_that_was_asked() {
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world, 2, [0, 0, 0, 0]);
    let mut near = Shouter { peer: world.bind("127.0.0.5:4000".parse().unwrap()).unwrap(), sent: Vec::new(), got: Vec::new() };
    let mut far = Shouter::new(&world, 0);
    for number in 0..8 {
        near.send(SocketAddr::from(([127, 0, 0, 1 + number], PORT)), vec![number; 100]);
        far.send(at(PORT), [&b"+"[..], &[number]].concat());
    }
    let mut shouters = Shouters(vec![near, far]);
    rig.pass(5 * MS, &mut shouters);
    let mut asked: Vec<_> = shouters.0[0].got.iter().map(|(from, bytes)| (from.ip(), bytes[0])).collect();
    asked.sort_unstable();
    assert_eq!(asked, (0..8).map(|number| ([127, 0, 0, 1 + number].into(), number)).collect::<Vec<_>>());
    let far = &shouters.0[1];
    assert!(far.got.iter().all(|(from, _)| *from == at(PORT)));
    assert!(far.sent.iter().all(|sent| far.answers().contains(sent)) && far.answers().contains(&b"more".to_vec()));
    rig.close(&mut shouters);
}

#[test]
fn a_slow_way_out_pushes_back_and_loses_nothing_that_was_taken() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults { late_completion: 1000, ..Faults::none() });
        let mut rig = rig(&world, 1, [10, 0, 0, 1]);
        let mut shouters = Shouters(vec![Shouter::new(&world, 0)]);
        for _ in 0..300 {
            (0..40).for_each(|_| shouters.0[0].send(at(PORT), vec![7; 1_000]));
            rig.pass(MS / 20, &mut shouters);
            let used = rig.arenas[0].used();
            assert!(used <= 4 << 20, "{used} bytes are held for answers that have not left");
        }
        rig.pass(50 * MS, &mut shouters);
        let taken = rig.count(C::DatagramsIn);
        assert!(taken > 0 && rig.count(C::DatagramsOut) == taken);
        assert!(shouters.0[0].got.iter().all(|(_, bytes)| *bytes == [7; 1_000]));
        rig.close(&mut shouters);
    });
}

#[test]
fn what_no_call_can_send_is_refused_and_counted() {
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world, 1, [10, 0, 0, 1]);
    let mut shouters = Shouters(vec![Shouter::new(&world, 0)]);
    shouters.0[0].send(at(PORT), b"?".to_vec());
    shouters.0[0].send(at(PORT), vec![b'l'; DATAGRAM_BYTES_MAX]);
    shouters.0[0].send(at(PORT), Vec::new());
    rig.pass(5 * MS, &mut shouters);
    assert_eq!(shouters.0[0].answers(), [vec![b'l'; DATAGRAM_BYTES_MAX], Vec::new()]);
    assert_eq!(rig.count(C::DatagramsRefused), 200, "as many as the reply would have been");
    rig.close(&mut shouters);
}

#[test]
fn a_panic_is_counted_and_the_socket_lives_on() {
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world, 1, [10, 0, 0, 1]);
    let mut shouters = Shouters(vec![Shouter::new(&world, 0)]);
    for text in ["one", "!", "two"] {
        shouters.0[0].send(at(PORT), text.as_bytes().to_vec());
        rig.pass(5 * MS, &mut shouters);
    }
    assert_eq!(shouters.0[0].answers(), [b"one", b"two"]);
    assert_eq!((rig.count(C::Panics), rig.reports.borrow().len()), (1, 1));
    rig.close(&mut shouters);
}

#[test]
fn a_drain_answers_what_was_readable() {
    for_seeds(150, |seed| {
        let quiet =
            Faults { datagram_loss: 0, datagram_duplicate: 0, datagram_reorder: 0, datagram_refused: 0, ..Faults::all(seed) };
        let (world, family) = (World::new(seed, if seed % 3 == 0 { Faults::none() } else { quiet }), Family::of(seed));
        let mut rig = rig_at(&world, 2, family.at(PORT));
        let (mut shouters, to) = (Shouters::of(&world, family, 4), family.way(&world, PORT));
        rig.pass(MS, &mut shouters);
        let mut random = Random::new(seed);
        for shouter in &mut shouters.0 {
            (0..1 + random.below(200))
                .for_each(|number| shouter.send(to, [b"d", &pattern(number, number as usize)[..]].concat()));
        }
        rig.pass(Duration::from_nanos(ARRIVED), &mut shouters);
        rig.control.give(Command::Drain);
        rig.drain(&mut shouters);
        rig.pass(Duration::from_nanos(ARRIVED), &mut shouters);
        for shouter in &mut shouters.0 {
            shouter.hear();
            let (sent, got) = (shouter.sent.len(), shouter.got.len());
            assert!(shouter.answers() == shouter.sent, "{sent} were readable, {got} were answered, or not in order");
        }
        world.check().unwrap();
    });
}

#[test]
fn a_drain_ends_though_datagrams_keep_coming() {
    let world = World::new(1, Faults::none());
    let mut rig = rig(&world, 1, [10, 0, 0, 1]);
    let mut shouters = Shouters(vec![Shouter::new(&world, 0)]);
    rig.control.give(Command::Drain);
    let begun = world.now();
    while !rig.has_ended() {
        shouters.0[0].send(at(PORT), vec![1; 100]);
        rig.pass(Duration::from_micros(1), &mut shouters);
        assert!(world.now() - begun < 1_000 * MS, "it never ends");
    }
    rig.close(&mut Nobody);
}

/// More than a socket has room for is dropped there, and counted: a second after something came, and before the socket closes.
#[test]
fn what_a_socket_has_no_room_for_is_counted() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults::none());
        let mut rig = rig(&world, 1, [10, 0, 0, 1]);
        let mut shouters = Shouters(vec![Shouter::new(&world, 0)]);
        rig.pass(MS, &mut shouters);
        let mut sent = 0;
        let mut burst = |count: u64| {
            (0..count).for_each(|_| shouters.0[0].send(at(PORT), vec![b'd'; 1_000]));
            sent += count;
            // All of it arrives before the lane has a turn.
            world.pass(Duration::from_nanos(10 * ARRIVED));
            sent
        };
        let mut dropped = 0;
        for _ in 0..2 {
            let sent = burst(4_000 + 100 * (seed % 20));
            rig.pass(3_000 * MS, &mut Nobody);
            let before = std::mem::replace(&mut dropped, rig.count(C::TrainsDropped));
            assert!(dropped > before + 100, "{dropped} of {sent}");
            assert_eq!(dropped + rig.count(C::DatagramsIn), sent);
        }
        let sent = burst(4_000);
        rig.drain(&mut Nobody);
        assert!(rig.count(C::TrainsDropped) > dropped + 100);
        assert_eq!(rig.count(C::TrainsDropped) + rig.count(C::DatagramsIn), sent);
    });
}
