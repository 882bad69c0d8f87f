//! Who gets a lane's memory, who waits for it, and who ends for it.

use crate::rig::{MS, Nobody, Rig, RigPlan, S, address, patient};
use corelane_seam::{Lease, Payer};
use corelane_sim::{Faults, Peer, Status, World};
use corelane_svc::{Cx, Input, Limits, Next, Output, Peer as Ends, Refused, Silent, StreamService};
use corelane_watch::{LaneCounter, ServiceCounter as C};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const MIB: usize = 1 << 20;
/// Bytes of the lane, of which a quarter is the reserve and a 128th of that what a peer may hold of it.
const MEMORY: usize = 16 * MIB;
const MAIN: usize = MEMORY / 4 * 3;
const SMALL: usize = MEMORY / 4 / 128;

/// Keeps for each connection as much memory as it asks for, in four bytes; answers `ok`, or `never`.
struct Lender {
    /// How often it was called.
    calls: Rc<Cell<u64>>,
}

impl StreamService for Lender {
    type Talk = Silent;
    type Session = Vec<Lease>;

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Ends) -> Vec<Lease> {
        Vec::new()
    }

    fn receive(&mut self, cx: &mut Cx<'_>, kept: &mut Vec<Lease>, input: &mut Input, output: &mut Output) -> Next {
        self.calls.set(self.calls.get() + 1);
        while let Some(wish) = input.contiguous(4) {
            let answer: &'static [u8] = match cx.lease(u32::from_be_bytes(wish.try_into().unwrap()) as usize) {
                Ok(lease) => {
                    kept.push(lease);
                    b"ok"
                }
                Err(Refused::TooLarge { .. }) => b"never",
                Err(_) => break,
            };
            input.skip(4);
            output.push(answer);
        }
        Next::Continue
    }
}

struct Case {
    rig: Rig,
    calls: Rc<Cell<u64>>,
}

impl Case {
    fn new() -> Self {
        Self::with(patient())
    }

    fn with(limits: Limits) -> Self {
        let calls: Rc<Cell<u64>> = Rc::default();
        let world = World::new(1, Faults::none());
        let plan = RigPlan::lanes(1).memory(MEMORY);
        let rig = Rig::serving(&world, &plan, limits, |_| Lender { calls: calls.clone() });
        Self { rig, calls }
    }

    /// Takes all that is free beside the reserve.
    fn take_main(&self) -> Vec<Lease> {
        self.take_down_to(MEMORY / 4)
    }

    /// Takes what is free, until so many bytes of it are left.
    fn take_down_to(&self, left: usize) -> Vec<Lease> {
        let arena = &self.rig.arenas[0];
        std::iter::from_fn(|| (arena.free() > left).then(|| arena.lease(SMALL)).flatten()).collect()
    }

    /// A connection of client `number` that has asked for `bytes`.
    fn ask(&mut self, number: usize, bytes: usize) -> Peer {
        let peer = self.rig.connect(number);
        self.rig.wait(MS);
        assert_eq!(peer.send(&(bytes as u32).to_be_bytes()), 4);
        self.rig.wait(MS);
        peer
    }

    /// Connections of client 0, 1 and so on, who hold so much each, in pieces of a mebibyte.
    fn fill(&mut self, each: &[usize]) -> Vec<Peer> {
        let pieces = each.iter().enumerate().flat_map(|(number, &bytes)| vec![(number, bytes.min(MIB)); bytes.div_ceil(MIB)]);
        let peers: Vec<Peer> = pieces.map(|(number, bytes)| self.ask(number, bytes)).collect();
        assert!(peers.iter().all(is_lent));
        peers
    }

    fn held(&self) -> usize {
        self.rig.arenas[0].held(Payer::LANE)
    }

    fn close(mut self, peers: &[Peer]) {
        peers.iter().for_each(Peer::close);
        self.rig.wait(5 * MS);
        assert_eq!(self.held(), 0, "whoever is gone holds nothing");
        self.rig.close(&mut Nobody);
    }
}

fn is_lent(peer: &Peer) -> bool {
    peer.read(usize::MAX) == b"ok"
}

#[test]
fn a_peer_holds_no_more_than_it_leaves_and_one_more_may_come_to_its_end() {
    let mut case = Case::new();
    let peers: Vec<Peer> = (0..12).map(|_| case.ask(1, MIB)).collect();
    case.rig.wait(100 * MS);
    let lent = peers.iter().filter(|peer| is_lent(peer)).count();
    assert_eq!(lent, MAIN / MIB / 2, "half of what is there: one less, for the block of its request, and one more by the grant");
    let other = case.ask(2, MIB);
    assert!(is_lent(&other), "another peer is lent as much as that one left");
    case.rig.wait(2 * S);
    assert!(peers.iter().any(is_lent), "who stands still with what it was granted makes room for the next");
    peers[0].close();
    case.rig.wait(50 * MS);
    case.close(&[&peers[..], &[other]].concat());
}

#[test]
fn who_waits_costs_nothing_and_is_called_again_when_its_part_is_free() {
    let mut case = Case::new();
    let hogs = case.fill(&[3 * MIB, 3 * MIB, 2 * MIB, MIB, MIB, MIB / 2, MIB / 2, MIB / 4]);
    let waiting = case.ask(9, MIB);
    case.rig.wait(S / 2);
    assert!(!is_lent(&waiting));
    let (calls, turns) = (case.calls.get(), case.turns());
    for _ in 0..5 {
        case.rig.wait(S);
    }
    assert_eq!(case.calls.get(), calls, "who cannot be lent anything is not asked what it wants");
    assert!(case.turns() - turns < 5 * 20, "{} turns in 5 s", case.turns() - turns);
    hogs.iter().for_each(Peer::close);
    case.rig.wait(50 * MS);
    assert!(is_lent(&waiting));
    case.close(&[waiting]);
}

impl Case {
    fn turns(&self) -> u64 {
        self.rig.lane_count(LaneCounter::TurnsProductive) + self.rig.lane_count(LaneCounter::TurnsEmpty)
    }
}

#[test]
fn what_can_never_be_lent_is_told_at_once() {
    let mut case = Case::new();
    let peer = case.ask(1, 5 * MIB);
    assert_eq!(peer.read(usize::MAX), b"never");
    case.rig.wait(S);
    assert_eq!((case.calls.get(), peer.status()), (1, Status::Open));
    case.close(&[peer]);
}

#[test]
fn those_who_hold_much_and_stand_still_end_for_one_who_needs_little() {
    let mut case = Case::new();
    let hogs = case.fill(&[5 * MIB, 3 * MIB, MIB, MIB, MIB / 2, MIB / 2, MIB / 4, MIB / 4]);
    let poor = case.ask(9, MIB);
    case.rig.wait(S / 2);
    assert!(!is_lent(&poor) && case.rig.count(C::MemoryEndings) == 0, "everybody has had their memory for less than a second");
    case.rig.wait(S);
    assert!(is_lent(&poor));
    let ended: Vec<usize> = (0..hogs.len()).filter(|&at| hogs[at].status() != Status::Open).collect();
    assert_eq!((ended.len() as u64, case.rig.count(C::MemoryEndings), case.rig.count(C::EndingsAborted)), (1, 1, 1));
    assert!(ended[0] < 5, "of the peer that held the most");
    let reports = case.rig.reports.borrow().clone();
    assert_eq!(reports.len(), 1);
    let says = ["lane 0: memory is short: 1 connections were ended that held 1024 KiB", "192.0.2.1 held the most", "--memory"];
    assert!(says.iter().all(|part| reports[0].to_string().contains(part)), "{}", reports[0]);
    case.close(&[&hogs[..], &[poor]].concat());
}

#[test]
fn when_the_reserve_is_nearly_gone_the_largest_end_at_once() {
    let mut case = Case::new();
    let hogs = case.fill(&[5 * MIB]);
    let small: Vec<Peer> = (0..660).map(|number| case.far(number, SMALL / 2)).collect();
    assert!(small.iter().all(is_lent), "a peer is lent a small part however little there is");
    assert_eq!((hogs.len() - open(&hogs), small.len() - open(&small)), (2, 0), "the largest end, not those who hold little");
    assert_eq!((case.rig.count(C::MemoryEndings), case.rig.reports.borrow().len()), (2, 1));
    case.close(&[hogs, small].concat());
}

#[test]
fn a_peer_of_several_services_is_one_peer() {
    let world = World::new(1, Faults::none());
    let plan = RigPlan::lanes(1).memory(MEMORY);
    let places = [address(), SocketAddr::new(address().ip(), address().port() + 1)];
    let rig = Rig::new(&world, &plan, |roster| {
        for at in places {
            let lender = Lender { calls: Rc::default() };
            roster.serve(at, patient(), lender);
        }
    });
    let mut case = Case { rig, calls: Rc::default() };
    let taken = case.take_main();
    let at_first = case.ask_at(places[0], 100, SMALL / 2);
    let at_second = case.ask_at(places[1], 100, SMALL / 2);
    let other = case.ask_at(places[1], 101, SMALL / 2);
    let lent = [&at_first, &at_second, &other].map(is_lent);
    assert_eq!(lent, [true, false, true], "its part of the reserve is one part, however many services it goes to");
    assert_eq!(case.rig.count(C::MemoryEndings), 0);
    drop(taken);
    case.close(&[at_first, at_second, other]);
}

#[test]
fn when_memory_lies_in_pieces_the_largest_end() {
    let mut case = Case::new();
    let hogs = case.fill(&[2 * MIB, MIB]);
    let arena = case.rig.arenas[0].clone();
    let mut pieces: Vec<Lease> = std::iter::from_fn(|| arena.lease(32 << 10)).collect();
    pieces.sort_by_key(|lease| lease.as_ptr());
    let mut number = 0;
    pieces.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    assert!(arena.free() > arena.reserve() && !arena.has(64 << 10), "much is free, in pieces of 32 KiB");
    let small = case.ask(9, 100);
    assert!(is_lent(&small));
    case.rig.wait(5 * MS);
    assert_eq!((case.rig.count(C::MemoryEndings), arena.has(64 << 10)), (1, true));
    assert_eq!(hogs.iter().filter(|peer| peer.status() != Status::Open).count(), 1);
    drop(pieces);
    case.close(&[&hogs[..], &[small]].concat());
}

impl Case {
    /// As [`Case::ask`], from more addresses than the rig's clients have.
    fn far(&mut self, number: usize, bytes: usize) -> Peer {
        self.ask_at(address(), number, bytes)
    }

    /// The same at the service that is found there.
    fn ask_at(&mut self, to: SocketAddr, number: usize, bytes: usize) -> Peer {
        let from = SocketAddr::from(([198, 18, (number / 250) as u8, 1 + (number % 250) as u8], 0));
        let peer = self.rig.world.connect(from, to).unwrap();
        self.rig.wait(MS);
        assert_eq!(peer.send(&(bytes as u32).to_be_bytes()), 4);
        self.rig.wait(MS);
        peer
    }
}

#[test]
fn who_moves_a_byte_now_and_then_stands_still() {
    let mut case = Case::new();
    let hogs = case.fill(&[5 * MIB, 3 * MIB, MIB, MIB, MIB / 2, MIB / 2, MIB / 4, MIB / 4]);
    let poor = case.ask(9, MIB);
    for _ in 0..3 {
        case.rig.wait(400 * MS);
        // Three bytes of four: nothing comes of them.
        hogs.iter().for_each(|peer| assert_eq!(peer.send(&[0]), 1));
    }
    case.rig.wait(800 * MS);
    assert!(is_lent(&poor), "a byte of a mebibyte is no move");
    assert_eq!(case.rig.count(C::MemoryEndings), 1);
    case.close(&[&hogs[..], &[poor]].concat());
}

impl Case {
    /// Takes all memory but a part of the reserve away for a moment, in which client 9 asks for a little.
    fn squeeze(&mut self) {
        let arena = self.rig.arenas[0].clone();
        let is_plenty = || arena.free() >= arena.reserve() / 4;
        let taken: Vec<Lease> = std::iter::from_fn(|| is_plenty().then(|| arena.lease(SMALL)).flatten()).collect();
        let asks = self.ask(9, 100);
        drop(taken);
        asks.close();
        self.rig.wait(5 * MS);
    }
}

fn open(peers: &[Peer]) -> usize {
    peers.iter().filter(|peer| peer.status() == Status::Open).count()
}

#[test]
fn the_operator_is_told_once_a_second_and_then_of_all_since() {
    let mut case = Case::new();
    let hogs = case.fill(&[4 * MIB, 3 * MIB]);
    case.squeeze();
    assert_eq!((open(&hogs), case.rig.reports.borrow().len()), (5, 1));
    case.squeeze();
    case.squeeze();
    assert_eq!((open(&hogs), case.rig.reports.borrow().len()), (1, 1), "not every time");
    case.rig.wait(S + S / 2);
    let reports = case.rig.reports.borrow().clone();
    assert_eq!(reports.len(), 2, "though nothing has happened since");
    let says = ["4 connections were ended that held 4096 KiB", "192.0.2.2 held the most, 3072 KiB"];
    assert!(says.iter().all(|part| reports[1].text.contains(part)), "{}", reports[1]);
    case.close(&hogs);
}

#[test]
fn the_largest_peers_end_and_not_the_largest_connections() {
    let mut case = Case::new();
    let hogs = case.fill(&[4 * MIB]);
    let large = case.ask(1, 2 * MIB);
    case.squeeze();
    assert_eq!((open(&hogs), large.status()), (2, Status::Open));
    case.close(&[&hogs[..], &[large]].concat());
}

#[test]
fn no_more_are_called_again_than_can_be_lent_what_they_need() {
    let mut case = Case::new();
    let arena = case.rig.arenas[0].clone();
    let mut taken: Vec<Lease> = (0..MAIN / MIB).map(|_| arena.lease(MIB).unwrap()).collect();
    let waiting: Vec<Peer> = (0..40).map(|number| case.far(number, MIB)).collect();
    case.rig.wait(S / 2);
    let calls = case.calls.get();
    taken.truncate(MAIN / MIB - 3);
    case.rig.wait(S / 2);
    let lent = waiting.iter().filter(|peer| is_lent(peer)).count();
    assert!((1..=3).contains(&lent), "{lent}");
    assert!(case.calls.get() - calls <= 12, "{} calls for {lent} leases", case.calls.get() - calls);
    drop(taken);
    waiting.iter().for_each(Peer::close);
    case.rig.wait(S);
    case.close(&[]);
}

#[test]
fn a_rate_is_not_earned_in_advance() {
    let world = World::new(1, Faults::none());
    let limits = Limits::new().receive_rate_min(16).read_limit(Duration::ZERO);
    let mut stage = crate::puppet::Stage::with(&world, &RigPlan::lanes(1), limits, |_, _| None);
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    stage.rig.ask(&peer, "fill 100000\n");
    peer.send(&[b'x'; 60_000]);
    stage.rig.wait(4 * S);
    assert_eq!(peer.status(), Status::Open);
    stage.rig.wait(7 * S);
    assert_eq!(stage.rig.count(C::ReceiveRateMinHits), 1, "60,000 bytes at once are no hour of rest");
    stage.close();
}

/// The lane did not read: the rate of what it would have read is counted anew.
#[test]
fn who_could_not_send_for_want_of_memory_was_not_slow() {
    let mut case = Case::with(patient().receive_rate_min(16));
    // Each holds too little to end for another one of its peer.
    let holders: Vec<Peer> = (0..5).map(|_| case.ask(1, 8 << 10)).collect();
    assert!(holders.iter().all(is_lent));
    let slow = case.rig.connect(1);
    case.rig.wait(MS);
    // With half of the reserve gone, nothing is lent to who has just come either.
    let taken = case.take_down_to(MEMORY / 8);
    assert_eq!(slow.send(&[0, 0]), 2);
    case.rig.wait(30 * S);
    assert!(slow.status() == Status::Open && case.rig.count(C::MemoryHits) == 1, "it is not read from");
    drop(taken);
    case.rig.wait(5 * S);
    assert_eq!(slow.send(&[0, 100]), 2);
    case.rig.wait(MS);
    assert!(is_lent(&slow), "{:?}", slow.status());
    case.close(&[&holders[..], &[slow]].concat());
}

#[test]
fn a_network_of_ipv6_is_one_peer() {
    let world = World::new(1, Faults::none());
    let limits = patient().connections_per_peer_max(2);
    let at: SocketAddr = "[fd00::1]:7".parse().unwrap();
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        roster.serve(at, limits, crate::echo::Echo);
    });
    let from = ["[2001:db8:5::1]:0", "[2001:db8:5::2]:0", "[2001:db8:5:0:ffff::]:0", "[2001:db8:5:1::]:0"];
    let peers = from.map(|from| {
        let peer = world.connect(from.parse().unwrap(), at).unwrap();
        rig.wait(MS);
        peer
    });
    assert_eq!(peers.each_ref().map(|peer| peer.status() == Status::Open), [true, true, false, true]);
    peers.iter().for_each(Peer::close);
    rig.wait(5 * MS);
    rig.close(&mut Nobody);
}

#[test]
fn a_peer_has_half_of_the_connections_over_all_services() {
    let world = World::new(1, Faults::none());
    let places = [address(), SocketAddr::new(address().ip(), address().port() + 1)];
    let own = SocketAddr::new(address().ip(), address().port() + 2);
    let plan = RigPlan::lanes(1).connections_max(20);
    let mut rig = Rig::new(&world, &plan, |roster| {
        roster.tune(|services| services.descriptors(8));
        let of_its_own = patient().connections_per_peer_max(5);
        for (at, limits) in [(places[0], patient()), (places[1], patient()), (own, of_its_own)] {
            roster.serve(at, limits, crate::echo::Echo);
        }
    });
    let connect = |rig: &mut Rig, from: u8, to| {
        let peer = world.connect(SocketAddr::from(([192, 0, 2, from], 0)), to).unwrap();
        rig.wait(MS);
        peer
    };
    let is_open = |peer: &Peer| peer.status() == Status::Open;
    let hog: Vec<Peer> = (0..6).map(|number| connect(&mut rig, 1, places[number % 2])).collect();
    assert_eq!(hog.iter().map(is_open).collect::<Vec<_>>(), [true, true, true, true, false, false], "half of 8 descriptors");
    let honest = [connect(&mut rig, 2, places[0]), connect(&mut rig, 2, places[1])];
    assert!(honest.iter().all(is_open));
    hog[0].close();
    rig.wait(5 * MS);
    assert!(!is_open(&connect(&mut rig, 1, places[1])), "3 are as many as it leaves");
    hog[1..3].iter().for_each(Peer::close);
    rig.wait(5 * MS);
    let again = [connect(&mut rig, 1, places[1]), connect(&mut rig, 1, places[1])];
    assert!(again.iter().all(is_open));
    let at_own: Vec<Peer> = (0..6).map(|_| connect(&mut rig, 3, own)).collect();
    assert_eq!(at_own.iter().filter(|peer| is_open(peer)).count(), 5, "a limit that is set is kept");
    assert_eq!((0..3).map(|service| rig.count_of(service, C::ConnectionsPerPeerMaxHits)).collect::<Vec<_>>(), [1, 2, 1]);
    [&hog[..], &honest, &again, &at_own].concat().iter().for_each(Peer::close);
    rig.wait(5 * MS);
    rig.close(&mut Nobody);
}

/// Produces nothing, and asks again and again to be told that all has left.
struct Eager {
    told: Rc<Cell<u64>>,
}

impl StreamService for Eager {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Ends) {}

    fn receive(&mut self, _cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        let wants_an_answer = input.first() == b"say";
        input.skip(usize::MAX);
        if wants_an_answer {
            output.push(&b"said"[..]);
        }
        output.notify_drained();
        Next::Continue
    }

    fn drained(&mut self, _cx: &mut Cx<'_>, _session: &mut (), output: &mut Output) -> Next {
        self.told.set(self.told.get() + 1);
        output.notify_drained();
        Next::Continue
    }
}

#[test]
fn who_asks_again_with_nothing_written_is_told_when_something_has_left() {
    let told: Rc<Cell<u64>> = Rc::default();
    let world = World::new(1, Faults::none());
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1), patient(), |_| Eager { told: told.clone() });
    let peer = rig.connect(1);
    rig.wait(MS);
    for (text, expected, times) in [("hm", "", 1), ("hm", "", 2), ("say", "said", 3), ("say", "said", 4)] {
        assert_eq!((rig.ask(&peer, text).as_str(), told.get()), (expected, times));
    }
    peer.close();
    rig.wait(5 * MS);
    rig.close(&mut Nobody);
}

/// Makes one more piece of the lane's memory as soon as what it has made before has left.
struct Producer {
    told: Rc<Cell<u64>>,
}

impl StreamService for Producer {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Ends) {}

    fn receive(&mut self, _cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        input.skip(usize::MAX);
        output.notify_drained();
        Next::Continue
    }

    fn drained(&mut self, cx: &mut Cx<'_>, _session: &mut (), output: &mut Output) -> Next {
        self.told.set(self.told.get() + 1);
        assert!(self.told.get() < 10, "it is called again and again for nothing");
        if let Ok(mut lease) = cx.lease(MIB) {
            lease.append(b"made");
            output.push(lease.share());
        }
        Next::Continue
    }
}

#[test]
fn who_had_no_memory_to_go_on_is_told_once_there_is_some() {
    let told: Rc<Cell<u64>> = Rc::default();
    let world = World::new(1, Faults::none());
    let plan = RigPlan::lanes(1).memory(MEMORY);
    let rig = Rig::serving(&world, &plan, patient(), |_| Producer { told: told.clone() });
    let mut case = Case { rig, calls: Rc::default() };
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    let taken = case.take_main();
    assert_eq!(case.rig.ask(&peer, "go on"), "");
    case.rig.wait(5 * S);
    assert_eq!((told.get(), peer.status()), (1, Status::Open), "it waits");
    drop(taken);
    case.rig.wait(S);
    assert_eq!((peer.read(usize::MAX), told.get()), (b"made".to_vec(), 2));
    case.close(&[peer]);
}

/// Answers with so many bytes of the lane's memory as are asked for, in four bytes.
struct Filler;

impl StreamService for Filler {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Ends) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        let Some(wish) = input.contiguous(4) else { return Next::Continue };
        if let Ok(mut lease) = cx.lease(u32::from_be_bytes(wish.try_into().unwrap()) as usize) {
            lease.advance(lease.capacity());
            input.skip(4);
            output.push(lease.share());
        }
        Next::Continue
    }
}

/// A send that has gone whole is all that happens on the lane then: its connection needs nothing more, not even another timer.
#[test]
fn who_waits_is_lent_what_a_send_gives_back() {
    let world = World::new(1, Faults::none());
    let limits = patient().output_high(8 * MIB).idle_limit(Duration::from_secs(1_000));
    let rig = Rig::serving(&world, &RigPlan::lanes(1).memory(MEMORY), limits, |_| Filler);
    let mut case = Case { rig, calls: Rc::default() };
    let first = case.ask(1, 2 * MIB);
    let taken = case.take_main();
    let second = case.ask(2, MIB / 2);
    case.rig.wait(10 * MS);
    assert_eq!(second.readable_bytes(), 0, "it waits for the memory of the first");
    let mut got = 0;
    while got < 2 * MIB {
        got += first.read(usize::MAX).len();
        case.rig.wait(MS / 10);
    }
    case.rig.wait(5 * MS);
    assert_ne!(second.readable_bytes(), 0, "it need not wait for a timer");
    drop(taken);
    case.close(&[first, second]);
}
