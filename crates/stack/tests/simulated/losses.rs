//! What goes no further is counted at the interface by which it came, or at that by which it was to leave.

use crate::forwarded::{changed, with_options};
use crate::forwarding::{NARROW, PLACES, ask, datagram, four, host, open, routed};
use crate::frames::{ethernet, packets, udp_in};
use crate::gateway::{Gateway, ip, settings};
use crate::rules::compiled;
use corelane_sim::CardSetup;
use corelane_stack::{Losses, ReversePath, Tags};
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::{EtherType, IpProtocol};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// In the order of [`Losses`]: refused, errors, not ours, drops, unsent.
type Five = [u64; 5];
const NONE: Five = [0; 5];

fn five(losses: &Losses) -> Five {
    [losses.refused, losses.errors, losses.not_ours, losses.drops, losses.unsent]
}

fn lost(gateway: &Gateway) -> Vec<Five> {
    gateway.losses().iter().map(five).collect()
}

/// One of a kind at one of five interfaces.
fn one(interface: usize, kind: usize) -> Vec<Five> {
    let mut all = vec![NONE; 5];
    all[interface][kind] = 1;
    all
}

/// What is lost of a frame that comes to a place of a new gateway.
fn of_frame(place: usize, frame: impl FnOnce(&Gateway) -> Vec<u8>) -> Vec<Five> {
    let mut settings = four();
    settings.interfaces.iter_mut().for_each(|one| one.reverse_path = ReversePath::Strict);
    let mut gateway = open(&settings);
    let frame = frame(&gateway);
    let _what_senders_hear = ask(&mut gateway, place, &frame);
    assert_eq!(gateway.stack.counts().dropped(), 1);
    lost(&gateway)
}

#[test]
fn what_came_is_lost_at_the_interface_that_it_came_by() {
    let far = ip("192.0.2.1");
    for (place, (port, _)) in PLACES.into_iter().enumerate() {
        let (near, other) = (host(place, false, 9), host((place + 1) % 4, false, 9));
        let to = |to: IpAddr| move |gateway: &Gateway| datagram(gateway, place, (near, to), 100);
        let drops = one(place + 1, 3);
        assert_eq!(of_frame(place, to(far)), drops, "no route");
        assert_eq!(of_frame(place, to(host(place, false, 1))), drops, "no socket");
        assert_eq!(of_frame(place, |gateway| datagram(gateway, place, (other, far), 100)), drops, "from elsewhere");
        assert_eq!(of_frame(place, |gateway| datagram(gateway, place, (ip("127.0.0.1"), other), 100)), drops, "a martian");
        assert_eq!(of_frame(place, |gateway| changed(&to(other)(gateway), |packet| packet[8] = 1)), drops, "hops");
        let errors = one(place + 1, 1);
        assert_eq!(of_frame(place, |gateway| [&to(other)(gateway)[..24], &[0; 30]].concat()), errors, "a wrong sum");
        assert_eq!(of_frame(place, |gateway| with_options(&to(other)(gateway), &[131, 60, 4, 0])), errors, "an option");
        let short = |gateway: &Gateway| ethernet(gateway.mac(port), EtherType::IPV4, &[0x45, 0, 0, 99]);
        assert_eq!(of_frame(place, short), errors, "cut short");
        let of_group = |gateway: &Gateway| [&[1, 0, 0x5e, 0, 0, 9], &to(other)(gateway)[6..]].concat();
        assert_eq!(of_frame(place, of_group), one(place + 1, 2), "for a group");
    }
}

/// Which of a port's interfaces a frame is of that has tags of none, nobody knows.
#[test]
fn tags_of_no_interface_are_counted_at_that_without_tags() {
    let mut gateway = open(&routed(four()));
    for (port, first) in [(0, 0), (1, 4)] {
        let before = lost(&gateway)[first][2];
        let frame = datagram(&gateway, 0, (host(0, false, 9), host(1, false, 9)), 100);
        assert!(gateway.ask(port, Tags::One(99), &frame).is_empty());
        assert_eq!(lost(&gateway)[first][2], before + 1);
    }
    assert_eq!(lost(&gateway), [[0, 0, 1, 0, 0], NONE, NONE, NONE, [0, 0, 1, 0, 0]]);
}

#[test]
fn what_rules_refuse_is_counted_at_the_interface_that_it_came_by() {
    let set =
        compiled("deny udp from any to any 5000 in via eth0.7\ndeny udp from any to any out via eth1\ndeny icmp from me to any");
    let mut gateway = open(&routed(four()).with_rules(set));
    for (place, to) in [(0, 1), (1, 3), (2, 3)] {
        let frame = datagram(&gateway, place, (host(place, false, 9), host(to, false, 9)), 100);
        assert!(ask(&mut gateway, place, &frame).is_empty());
    }
    let refused = |count| [count, 0, 0, 0, 0];
    assert_eq!(lost(&gateway), [NONE, refused(1), refused(1), refused(1), NONE]);
    // What we ourselves would say is refused at the interface that it was to leave by.
    let silent = datagram(&gateway, 3, (host(3, false, 9), host(3, false, 1)), 100);
    assert!(ask(&mut gateway, 3, &silent).is_empty());
    assert_eq!(lost(&gateway)[4], [1, 0, 0, 1, 0], "no socket, and nothing said of it");
}

/// Whoever waited for a neighbour was to leave by the neighbour's interface.
#[test]
fn what_waits_in_vain_is_unsent_where_it_was_to_leave() {
    let mut gateway = open(&four());
    let frame = datagram(&gateway, 0, (host(0, false, 9), host(1, false, 77)), 100);
    let unsent = |gateway: &Gateway| lost(gateway).iter().map(|lost| lost[4]).collect::<Vec<_>>();
    ask(&mut gateway, 0, &frame);
    assert_eq!(unsent(&gateway), [0; 5]);
    for _ in 0..4 {
        gateway.world.pass(Duration::from_secs(1));
        gateway.hear();
    }
    assert_eq!(unsent(&gateway), [0, 0, 1, 0, 0]);
    assert!(lost(&gateway).iter().all(|lost| (lost[0], lost[3]) == (0, 0)));
    // More than may wait push out those before.
    let mut gateway = open(&four());
    (0..70).for_each(|_| gateway.send(PLACES[0].0, PLACES[0].1, &frame));
    gateway.hear();
    assert_eq!(unsent(&gateway), [0, 0, 6, 0, 0]);
}

/// What is too long, and what has no frame to be cut into, came by its own interface; an answer without a frame is unsent.
#[test]
fn what_has_no_frame_is_lost_once() {
    let few = || {
        let settings = settings().with_interface("eth0").with_network(host(0, false, 1), 24).with_forwarding(ReversePath::Off);
        let settings = settings.and_vlan("eth0.8", PLACES[1].1).with_network(host(1, false, 1), 24).with_mtu(NARROW);
        let mut gateway = Gateway::new(&settings.with_forwarding(ReversePath::Off), &[CardSetup::default()], 16);
        gateway.host(0, Tags::None, &["10.0.0.9"]);
        gateway.host(0, PLACES[1].1, &["10.1.0.9"]);
        gateway
    };
    let mut gateway = few();
    let frame = |gateway: &Gateway, to, bytes| {
        let [from, to] = [host(0, false, 9), to].map(|address| SocketAddr::new(address, 4000));
        udp_in(gateway.mac(0), from, to, &vec![1; bytes], 65_528, 7).remove(0)
    };
    let long = frame(&gateway, host(1, false, 9), 1400);
    let kept = changed(&long, |packet| packet[6] |= 0x40);
    assert_eq!(gateway.ask(0, Tags::None, &kept).len(), 1, "its sender hears that it is too long");
    let held: Vec<_> =
        std::iter::from_fn(|| (gateway.memories[0].counts().free > 1).then(|| gateway.memories[0].frame())).collect();
    assert!(gateway.ask(0, Tags::None, &long).is_empty());
    assert_eq!(lost(&gateway), [[0, 0, 0, 2, 0], NONE]);
    drop(held);
    let mut gateway = few();
    let closed = frame(&gateway, host(0, false, 1), 100);
    let held: Vec<_> = std::iter::from_fn(|| gateway.memories[0].frame()).collect();
    gateway.send(0, Tags::None, &closed);
    gateway.hear();
    drop(held);
    gateway.hear();
    let all: u64 = gateway.losses().iter().map(Losses::all).sum();
    assert_eq!(all, gateway.stack.counts().dropped());
}

/// A port that sends nothing says so, and is told at its interface without tags.
#[test]
fn what_a_port_loses_is_told_at_its_interface_without_tags() {
    let mut gateway = open(&routed(four()));
    let frame = datagram(&gateway, 0, (host(0, false, 9), host(3, false, 9)), 100);
    assert_eq!(ask(&mut gateway, 0, &frame).len(), 1);
    gateway.send(PLACES[0].0, PLACES[0].1, &frame);
    gateway.cards[1].set_carrier(false);
    gateway.hear();
    for _ in 0..30 {
        gateway.world.pass(Duration::from_millis(100));
        gateway.hear();
    }
    assert_eq!(lost(&gateway), one(4, 4));
    assert_eq!(gateway.stack.counts().dropped(), 0, "it had left the stack");
}

/// Packets of other protocols, and whatever comes in them, are those of the interface.
#[test]
fn protocols_that_nobody_knows_are_lost_where_they_came() {
    let mut gateway = open(&routed(four()));
    let packet = packets(host(2, false, 9), host(0, false, 1), IpProtocol(200), &[1; 40], 65_528, 7).remove(0);
    let frame = ethernet(gateway.mac(0), EtherType::IPV4, &packet);
    ask(&mut gateway, 2, &frame);
    let arp = ethernet(Mac::BROADCAST, EtherType::ARP, &[1; 9]);
    ask(&mut gateway, 1, &arp);
    assert_eq!(lost(&gateway), [NONE, NONE, [0, 1, 0, 0, 0], [0, 0, 0, 1, 0], NONE]);
}
