//! Sessions over UDP: what comes out is what went in, it comes to nobody else, and there are no more sessions than may be.

use super::cast::changed;
use super::{behind, list, named, upstream};
use corelane::admin::watch::ServiceCounter as C;
use corelane::service::{Limits, Random};
use corelane::testing::{DatagramPeer, Faults, Nobody, Play, Rig, RigPlan, Turn, World, at, client, for_seeds};
use corelane_proxy::UdpProxy;
use corelane_upstreams::{Balance, Settings, flow_key};
use std::net::SocketAddr;
use std::time::Duration;

const PORT: u16 = 5_353;
const CLIENTS: usize = 12;
const EACH: usize = 20;
const PAUSE: Duration = Duration::from_millis(2);

fn proxied(world: &World, lanes: usize, limits: Limits, to: &str, settings: Settings) -> Rig {
    let behind = corelane_upstreams::entry::Behind { key: flow_key, ..behind(to, settings) };
    Rig::new(world, &RigPlan::lanes(lanes), move |roster| {
        let proxy = UdpProxy::new(&behind, roster.lane()).idle(Duration::from_secs(2)).resolving(named);
        roster.serve_datagrams(at(PORT), limits, proxy);
    })
}

/// A datagram of a client: who it is, and which one, with bytes of a size that the seed gives.
fn said(seed: u64, client: usize, number: usize) -> Vec<u8> {
    let mut random = Random::new(seed ^ (client << 16 | number) as u64);
    let bytes = [0, 1, 9, 500, 1_400][random.index(5)];
    [&[client as u8, number as u8], &random.bytes(bytes)[..]].concat()
}

/// One that answers each datagram with its bytes changed.
struct Upstream {
    peer: DatagramPeer,
    heard: Vec<(SocketAddr, Vec<u8>)>,
}

/// Clients that send each their datagrams, some at a time, and upstreams.
struct Cast {
    seed: u64,
    random: Random,
    clients: Vec<(DatagramPeer, usize, Vec<Vec<u8>>)>,
    upstreams: Vec<Upstream>,
}

impl Cast {
    fn new(world: &World, seed: u64, clients: usize, upstreams: u8) -> Self {
        let clients: Vec<_> = (0..clients).map(|number| (world.bind(client(number)).unwrap(), 0, Vec::new())).collect();
        let upstreams = (1..=upstreams).map(|number| Upstream { peer: world.bind(upstream(number)).unwrap(), heard: Vec::new() });
        (0..clients.len()).for_each(|number| world.alarm(world.now() + PAUSE, number as u64));
        Self { seed, random: Random::new(seed), clients, upstreams: upstreams.collect() }
    }

    /// Each answer is one to what this client has said; returns how many there are.
    fn judge(&self) -> usize {
        for (number, (_, _, heard)) in self.clients.iter().enumerate() {
            for bytes in heard {
                let answered = changed(bytes);
                assert_eq!(usize::from(answered[0]), number, "an answer came to another client");
                assert_eq!(answered, said(self.seed, number, usize::from(answered[1])), "other bytes came out");
            }
        }
        self.clients.iter().map(|(_, _, heard)| heard.len()).sum()
    }

    /// What each session has brought to an upstream came in the order in which its client had sent it.
    fn judge_order(&self) {
        for upstream in &self.upstreams {
            for number in 0..self.clients.len() {
                let of_client = upstream.heard.iter().filter(|(_, bytes)| usize::from(bytes[0]) == number);
                let numbers: Vec<u8> = of_client.clone().map(|(_, bytes)| bytes[1]).collect();
                assert!(numbers.is_sorted(), "client {number}: {numbers:?}");
                let sessions: Vec<SocketAddr> = of_client.map(|(from, _)| *from).collect();
                assert!(sessions.windows(2).all(|pair| pair[0] == pair[1]), "a client has one session: {sessions:?}");
            }
        }
    }
}

impl Play for Cast {
    fn news(&mut self, world: &World, turn: Turn) {
        match turn {
            Turn::Alarm(number) => {
                let (peer, next, _) = &mut self.clients[number as usize];
                for _ in 0..1 + self.random.index(4) {
                    if *next < EACH {
                        peer.send(at(PORT), &said(self.seed, number as usize, *next)).unwrap();
                        *next += 1;
                    }
                }
                if *next < EACH {
                    world.alarm(world.now() + PAUSE, number);
                }
            }
            Turn::Datagrams(peer) => {
                if let Some(upstream) = self.upstreams.iter_mut().find(|upstream| upstream.peer == peer) {
                    while let Some((from, bytes)) = peer.receive() {
                        let answer = changed(&bytes);
                        peer.send(from, &answer).unwrap();
                        upstream.heard.push((from, bytes));
                    }
                } else if let Some((_, _, heard)) = self.clients.iter_mut().find(|(client, ..)| *client == peer) {
                    while let Some((from, bytes)) = peer.receive() {
                        assert_eq!(from, at(PORT), "answers come from the address that was asked");
                        heard.push(bytes);
                    }
                }
            }
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}

fn run(seed: u64, faults: Faults) -> (Rig, Cast) {
    let mut random = Random::new(seed ^ 0x7564_7070);
    let world = World::new(seed, faults);
    let balance = [Balance::RoundRobin, Balance::Least, Balance::Hash][random.index(3)];
    let settings = Settings { balance, ejection: Duration::from_millis(100), ..Settings::new() };
    let mut rig = proxied(&world, 2, Limits::new(), &list(3), settings);
    let mut cast = Cast::new(&world, seed, CLIENTS, 3);
    rig.pass(Duration::from_millis(500), &mut cast);
    cast.judge();
    (rig, cast)
}

#[test]
fn each_datagram_and_its_answer_come_through_in_order() {
    for_seeds(60, |seed| {
        let (mut rig, mut cast) = run(seed, Faults::none());
        assert_eq!(cast.judge(), CLIENTS * EACH, "nothing is lost that the network does not lose");
        cast.judge_order();
        assert_eq!((rig.named("sessions"), rig.named("sessions_begun")), (CLIENTS as u64, CLIENTS as u64));
        assert_eq!((rig.named("to_upstreams"), rig.named("to_clients")), (240, 240));
        // Idle ones end, with their sockets.
        rig.pass(Duration::from_secs(5), &mut cast);
        assert_eq!((rig.named("sessions"), rig.named("sessions_idle")), (0, CLIENTS as u64));
        assert_eq!(rig.count(C::DatagramSocketsOpen), 2, "those of the lanes themselves");
        rig.close(&mut cast);
    });
}

#[test]
fn nothing_comes_to_another_client_under_every_fault() {
    for_seeds(200, |seed| {
        let (mut rig, mut cast) = run(seed, Faults::all(seed));
        rig.close(&mut cast);
        cast.judge();
    });
}

/// A lane with one session's place for each of the first so many clients, but for what peers leave to each other.
fn narrow(world: &World, sockets: u32) -> Rig {
    proxied(world, 1, Limits::new().datagram_sockets_max(sockets), &list(1), Settings::new())
}

#[test]
fn there_are_no_more_sessions_than_may_be_and_forged_ones_push_out_each_other() {
    let world = World::new(3, Faults::none());
    let mut rig = narrow(&world, 64);
    let mut cast = Cast::new(&world, 3, 0, 1);
    let steady: Vec<_> = (0..20).map(|number| world.bind(client(number)).unwrap()).collect();
    let ask = |rig: &mut Rig, cast: &mut Cast, peers: &[DatagramPeer]| {
        peers.iter().for_each(|peer| peer.send(at(PORT), b"??").unwrap());
        rig.pass(Duration::from_millis(5), cast);
        peers.iter().filter(|peer| std::iter::from_fn(|| peer.receive()).count() == 1).count()
    };
    // They have spoken again behind an answer, so they are there.
    (0..2).for_each(|_| assert_eq!(ask(&mut rig, &mut cast, &steady), steady.len()));
    // 400 of others come, who never speak twice.
    for round in 0..40 {
        let forged: Vec<_> = (0..10)
            .map(|one| {
                let number = round * 10 + one;
                let from = SocketAddr::from(([203, (number / 250) as u8, (number % 250) as u8, 9], 7));
                world.bind(from).unwrap()
            })
            .collect();
        ask(&mut rig, &mut cast, &forged);
        assert!(rig.named("sessions") <= 56, "{} sessions", rig.named("sessions"));
        assert!(rig.count(C::DatagramSocketsOpen) <= 64);
    }
    assert!(rig.named("sessions_made_room") >= 350, "{}", rig.named("sessions_made_room"));
    let begun = rig.named("sessions_begun");
    assert_eq!(ask(&mut rig, &mut cast, &steady), steady.len());
    assert_eq!(rig.named("sessions_begun"), begun, "those that are there have kept their sessions");
    rig.close(&mut cast);
}

#[test]
fn one_client_has_no_more_than_it_leaves_to_others() {
    let world = World::new(5, Faults::none());
    let mut rig = narrow(&world, 64);
    let mut cast = Cast::new(&world, 5, 0, 1);
    let greedy: Vec<_> = (0..200).map(|port| world.bind(SocketAddr::from(([192, 0, 2, 1], 1_000 + port))).unwrap()).collect();
    greedy.iter().for_each(|peer| peer.send(at(PORT), b"??").unwrap());
    rig.pass(Duration::from_millis(50), &mut cast);
    let (has, refused) = (rig.named("sessions"), rig.named("sessions_refused"));
    assert!(has <= 28 && refused == 200 - has, "{has} sessions, {refused} refused");
    let other = world.bind(client(7)).unwrap();
    other.send(at(PORT), b"??").unwrap();
    rig.pass(Duration::from_millis(5), &mut cast);
    assert!(other.receive().is_some() && rig.named("sessions") == has + 1);
    // Its own oldest makes room when it has stood still.
    rig.pass(Duration::from_millis(600), &mut cast);
    greedy[199].send(at(PORT), b"??").unwrap();
    rig.pass(Duration::from_millis(5), &mut cast);
    assert_eq!((rig.named("sessions"), rig.named("sessions_made_room")), (has + 1, 1));
    assert!(greedy[199].receive().is_some());
    rig.close(&mut cast);
}

#[test]
fn a_drain_waits_for_answers_that_are_owed_and_not_for_ever() {
    for answers in [true, false] {
        let world = World::new(9, Faults::none());
        let mut rig = proxied(&world, 1, Limits::new(), &list(1), Settings::new());
        let (asks, upstream) = (world.bind(client(1)).unwrap(), world.bind(upstream(1)).unwrap());
        asks.send(at(PORT), b"late").unwrap();
        rig.wait(Duration::from_millis(5));
        let (from, _) = upstream.receive().unwrap();
        rig.begin_drain();
        rig.wait(Duration::from_millis(300));
        assert!(!rig.has_ended(), "an answer is owed");
        let before = world.now();
        if answers {
            upstream.send(from, b"LATE").unwrap();
        }
        rig.until_ended(&mut Nobody);
        assert!(rig.has_ended() && world.now() < before + Duration::from_secs(3));
        rig.wait(Duration::from_millis(5));
        assert_eq!(asks.receive(), answers.then(|| (at(PORT), b"LATE".to_vec())));
    }
}

#[test]
fn who_comes_before_a_name_is_resolved_is_counted_and_served_later() {
    let world = World::new(11, Faults::none());
    let mut rig = proxied(&world, 1, Limits::new(), "1-2.test:80", Settings::new());
    let mut cast = Cast::new(&world, 11, 3, 2);
    rig.pass(Duration::from_millis(500), &mut cast);
    let lost = rig.named("clients_turned_away") as usize;
    assert_eq!(cast.judge(), 3 * EACH - lost);
    assert!(cast.upstreams.iter().all(|upstream| !upstream.heard.is_empty()), "each address of the name has a part");
    rig.close(&mut cast);
}
