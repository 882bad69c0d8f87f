//! A flood of fragments that are never completed, over a stack with a port of few frames: honest datagrams pass, and the port keeps its frames.

use crate::alone::{Alone, FRAMES};
use crate::frames::{STACK, TEST, udp_in};
use crate::gateway::tagged;
use corelane_seam::Address;
use corelane_stack::Tags;
use std::net::{Ipv4Addr, SocketAddr};

/// Forged fragments between the two of an honest datagram.
const BETWEEN: u16 = 200;
/// Honest datagrams.
const HONEST: u16 = 40;
/// Frames that arrive before the stack takes a turn: the port's ring has more.
const BURST: u16 = 50;

/// An interface that has nothing to do with those who are honest.
const OTHER: Tags = Tags::One(7);

/// How many of so many honest datagrams pass, with so many fragments between the two of each that come with these tags, forged to be from there.
fn passed((honest, between): (u16, u16), tags: Tags, forged: impl Fn(u16) -> Ipv4Addr) -> u16 {
    let mut alone =
        Alone::with(|settings| settings.and_vlan("other", OTHER).with_network(Ipv4Addr::new(10, 99, 0, 1).into(), 24));
    alone.meet();
    let (socket, local) = alone.bind(STACK, 60_007, None);
    let (mac, peer) = (alone.mac(), SocketAddr::new(TEST.into(), 4000));
    let (mut passed, mut name, payload) = (0, 0_u16, vec![7; 2000]);
    for name_of_honest in 0..honest {
        let parts = udp_in(mac, peer, local, &payload, 1480, name_of_honest);
        alone.test.send(&parts[0]);
        for number in 0..between {
            name = name.wrapping_add(1);
            let from = SocketAddr::new(forged(name).into(), 9);
            alone.test.send(&tagged(&udp_in(mac, from, local, &[1; 100], 64, name)[0], tags));
            if number % BURST == 0 {
                alone.settle();
            }
        }
        alone.settle();
        let held = alone.memory.counts().held;
        assert!(held <= FRAMES / 32, "{held} frames of the port wait for fragments");
        alone.test.send(&parts[1]);
        passed += u16::from(alone.receive(socket) == [(Address::from(peer), payload.clone())]);
    }
    assert!(alone.stack.counts().frames_in > u64::from(honest) * u64::from(between), "all came");
    passed
}

fn from_anywhere(name: u16) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 | u32::from(name).wrapping_mul(2_654_435_761) >> 8)
}

#[test]
fn f_04_honest_datagrams_pass_a_flood_from_anywhere() {
    let passed = passed((HONEST, BETWEEN), Tags::None, from_anywhere);
    assert!(2 * passed >= HONEST, "{passed} of {HONEST}");
}

#[test]
fn f_05_honest_datagrams_pass_a_flood_from_one() {
    let passed = passed((HONEST, BETWEEN), Tags::None, |_| Ipv4Addr::new(10, 66, 66, 66));
    assert_eq!(passed, HONEST);
}

/// More than may wait at all come by the other interface.
#[test]
fn honest_datagrams_pass_a_flood_by_another_interface() {
    assert_eq!(passed((6, 2500), OTHER, from_anywhere), 6);
}

#[test]
fn datagrams_of_many_peers_whose_fragments_are_interleaved_are_put_together() {
    let mut alone = Alone::new();
    alone.meet();
    let (socket, local) = alone.bind(STACK, 60_007, None);
    let (mac, payload) = (alone.mac(), vec![3; 8000]);
    let peer = |number: u8| SocketAddr::new(Ipv4Addr::new(10, 0, 0, 100 + number).into(), 4000);
    let parts: Vec<_> = (0..16).map(|number| udp_in(mac, peer(number), local, &payload, 1480, number.into())).collect();
    for place in 0..parts[0].len() {
        parts.iter().for_each(|parts| alone.test.send(&parts[place]));
        alone.settle();
    }
    let mut arrived = 0;
    for _ in 0..16 {
        arrived += alone.receive(socket).len();
    }
    assert_eq!(arrived, 16);
}
