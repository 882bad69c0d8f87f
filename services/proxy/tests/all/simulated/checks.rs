//! Checks by HTTP, and clients that are told apart by name, on simulated lanes.

use super::{behind, list, listen, proxied, upstream};
use corelane::testing::{Faults, Nobody, Peer, Play, Random, Rig, RigPlan, S, Status, Turn, World, for_seeds, patient};
use corelane_proxy::{Proxy, Routes};
use corelane_upstreams::{Check, Settings, Targets};
use std::net::SocketAddr;

/// Servers that answer what they are asked, each in its way.
#[derive(Default)]
struct Answering {
    all: Vec<(Peer, Vec<u8>)>,
    asked: Vec<(SocketAddr, String)>,
}

fn answer(number: u8) -> &'static [u8] {
    match number {
        1 => b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        2 => b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
        3 => b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        4 => b"220 mail.example ESMTP\r\n",
        5 => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        // It never says more.
        _ => b"HTTP/1.1 200 OK\r\n",
    }
}

impl Play for Answering {
    fn news(&mut self, _: &World, turn: Turn) {
        let peer = match turn {
            Turn::Incoming(peer) => {
                self.all.push((peer.clone(), Vec::new()));
                peer
            }
            Turn::Peer(peer) => peer,
            _ => return,
        };
        let Some((peer, heard)) = self.all.iter_mut().find(|(known, _)| known.id() == peer.id()) else { return };
        heard.extend(peer.read(usize::MAX));
        if heard.ends_with(b"\r\n\r\n") {
            let place = peer.local();
            self.asked.push((place, String::from_utf8(std::mem::take(heard)).unwrap()));
            let number = (1..=6).find(|number| upstream(*number) == place).unwrap();
            peer.send(answer(number));
        }
        if peer.status() != Status::Open {
            peer.close();
        }
    }

    fn is_over(&self) -> bool {
        true
    }
}

#[test]
fn those_that_do_not_answer_well_in_time_are_down() {
    let world = World::new(1, Faults::none());
    listen(&world, 6);
    let check = Check { within: S / 2, path: Some("/health".into()), ..Check::every(S) };
    let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), &list(6), Settings { check: Some(check), ..Settings::new() });
    let mut servers = Answering::default();
    rig.pass(8 * S, &mut servers);
    assert_eq!((rig.named("upstreams_in_rotation"), rig.named("upstreams")), (2, 6));
    let asked = |number: u8| servers.asked.iter().filter(|(place, _)| *place == upstream(number)).count();
    // Those that hang keep nobody from being asked.
    assert!((1..=6).all(|number| (5..=9).contains(&asked(number))), "{:?}", [1, 2, 3, 4, 5, 6].map(asked));
    let expected = "GET /health HTTP/1.1\r\nHost: 198.51.100.1:80\r\nUser-Agent: corelane-check\r\nConnection: close\r\n\r\n";
    assert!(servers.asked.iter().any(|(_, said)| said == expected), "{:?}", servers.asked[0]);
    rig.drain(&mut servers);
}

fn by_name(world: &World, read_limit: std::time::Duration) -> Rig {
    listen(world, 2);
    let others: Targets = upstream(2).to_string().parse().unwrap();
    let (routes, targets) = Routes::read(&format!("a.test>{}", upstream(1)), Some(&others)).unwrap();
    let behind = corelane_upstreams::entry::Behind { targets, ..behind(&list(1), Settings::new()) };
    let limits = patient().read_limit(read_limit);
    Rig::serving(world, &RigPlan::lanes(1), limits, |lane| Proxy::new(&behind, lane).routes(routes.clone()))
}

#[test]
fn who_does_not_say_its_name_in_time_is_broken_off() {
    let world = World::new(1, Faults::none());
    let mut rig = by_name(&world, 3 * S);
    let (silent, slow) = (rig.connect(1), rig.connect(2));
    rig.wait(S);
    slow.send(b"\x16\x03\x01");
    rig.wait(S);
    assert_eq!(rig.connections(), 2);
    rig.wait(4 * S);
    assert_eq!(rig.connections(), 0, "{:?} {:?}", silent.status(), slow.status());
    rig.close(&mut Nobody);
}

/// A message of a client that asks for this name.
fn hello(name: &[u8]) -> Vec<u8> {
    let length = name.len() as u8;
    let extension = [&[0, 0, 0, length + 5, 0, length + 3, 0, 0, length][..], name].concat();
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0, 0, length + 9], &extension].concat();
    let message = [&[1, 0, 0, body.len() as u8][..], &body].concat();
    [&[22, 3, 1, 0, message.len() as u8][..], &message].concat()
}

/// Keeps what servers hear.
#[derive(Default)]
struct Hearing(Vec<(Peer, Vec<u8>)>);

impl Play for Hearing {
    fn news(&mut self, _: &World, turn: Turn) {
        match turn {
            Turn::Incoming(peer) => self.0.push((peer, Vec::new())),
            Turn::Peer(_) => {}
            _ => return,
        }
        for (peer, heard) in &mut self.0 {
            heard.extend(peer.read(usize::MAX));
        }
    }

    fn is_over(&self) -> bool {
        true
    }
}

#[test]
fn no_first_message_confuses_it_in_any_pieces() {
    for_seeds(300, |seed| {
        let (world, mut random) = (World::new(seed, Faults::none()), Random::new(seed));
        let mut rig = by_name(&world, 3 * S);
        let name = [&b"a.test"[..], b"A.Test.", b"b.test"][random.index(3)];
        let (mut said, is_changed) = (hello(name), random.below(2) == 0);
        for _ in 0..if is_changed { random.one_to(4) } else { 0 } {
            let at = random.index(said.len());
            match random.below(3) {
                0 => said[at] = random.bits() as u8,
                1 => said.truncate(at),
                _ => said.insert(at, random.bits() as u8),
            }
            said.push(0);
        }
        let (client, mut servers) = (rig.connect(1), Hearing::default());
        rig.pass(S / 100, &mut servers);
        let mut rest = &said[..];
        while !rest.is_empty() && client.status() == Status::Open {
            let sent = client.send(&rest[..random.one_to(rest.len())]);
            rest = &rest[sent..];
            rig.pass(S / 1_000, &mut servers);
        }
        rig.pass(S / 100, &mut servers);
        if !is_changed {
            let [(server, heard)] = &servers.0[..] else { panic!("one server is reached: {}", servers.0.len()) };
            let expected = if name == b"b.test" { upstream(2) } else { upstream(1) };
            assert!(server.local() == expected && *heard == said, "nothing is changed");
        }
        for (_, heard) in &servers.0 {
            assert!(said.starts_with(heard), "other bytes were heard");
        }
        rig.pass(6 * S, &mut servers);
        client.reset();
        rig.pass(S, &mut servers);
        assert_eq!((rig.connections(), rig.named("panics")), (0, 0));
        servers.0.iter().for_each(|(peer, _)| peer.close());
        rig.close(&mut servers);
    });
}
