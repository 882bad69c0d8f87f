//! What a port's fast path is told of ways.

use crate::forwarding::{NARROW, PLACES, ask, datagram, four, host, open, routed};
use crate::gateway::{Gateway, arp_of, ip};
use corelane_nat::Settings as Nat;
use corelane_seam::Driver;
use corelane_seam::{LearntWay, LinkSide, VlanTag};
use corelane_stack::{MssClamp, NatSettings, Settings};
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::ethernet::Mac;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// What is told of a second datagram, by when all stations are known.
fn told(gateway: &mut Gateway, from: usize, ends: (IpAddr, IpAddr)) -> Vec<LearntWay> {
    let frame = datagram(gateway, from, ends, 100);
    ask(gateway, from, &frame);
    gateway.told.ways.borrow_mut().clear();
    assert_eq!(ask(gateway, from, &frame).len(), 1, "{ends:?}");
    gateway.told.ways.take()
}

fn tags(place: usize) -> [Option<VlanTag>; 2] {
    let tag = |protocol, control| Some(VlanTag { protocol, control });
    [[tag(0x8100, 7), None], [tag(0x8100, 8), None], [tag(0x88a8, 300), tag(0x8100, 7)], [None; 2]][place]
}

#[test]
fn a_port_is_told_how_packets_of_a_pair_go_on() {
    let mut gateway = open(&routed(four()));
    for (from, to, v6) in
        (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).flat_map(|(from, to)| [(from, to, false), (from, to, true)])
    {
        let ends = (host(from, v6, 9), host(to, v6, if from == to { 254 } else { 9 }));
        let ways = told(&mut gateway, from, ends);
        let station = gateway.hosts.iter().find(|host| host.addresses.contains(&ends.1)).unwrap().mac;
        let [near, far] = [from, to].map(|place| gateway.mac(PLACES[place].0).0);
        // Interface 0 has the frames without tags of the first port.
        let side = |place, destination| LinkSide {
            interface: place as u16 + 2,
            tags: tags(place),
            destination,
            hands_over_opening: false,
        };
        let [LearntWay { until, .. }] = ways[..] else { panic!("{ways:?}") };
        let should = LearntWay {
            source: ends.0,
            destination: ends.1,
            comes: side(from, near),
            leaves: side(to, station.0),
            leaves_from: far,
            device: gateway.devices[PLACES[to].0],
            mtu: [1500, NARROW as u16, 1496, 1500][to],
            until,
        };
        assert_eq!(ways, [should]);
        assert!(until > gateway.stack.now(), "it holds for a while");
    }
}

/// Ways to where nothing leaves end, and others are not told until it does again.
#[test]
fn no_way_leads_to_a_port_without_a_carrier() {
    let mut gateway = open(&routed(four()));
    let pair = (host(0, false, 9), host(3, false, 9));
    assert_eq!(told(&mut gateway, 0, pair).len(), 1);
    let frame = datagram(&gateway, 0, pair, 100);
    let told_with = |gateway: &mut Gateway, has_carrier| {
        gateway.cards[PLACES[3].0].set_carrier(has_carrier);
        gateway.world.pass(Duration::from_secs(2));
        gateway.turn();
        gateway.told.ways.borrow_mut().clear();
        ask(gateway, 0, &frame);
        gateway.told.ways.take().len()
    };
    let ends = gateway.told.ends.get();
    assert_eq!(told_with(&mut gateway, false), 0);
    assert!(gateway.told.ends.get() > ends, "those that lead there hold no more");
    assert_eq!(told_with(&mut gateway, true), 1);
}

/// The next packet of the pair may go another way, or another packet is made of it.
#[test]
fn ways_that_depend_on_more_are_not_told() {
    let inside = (host(0, false, 9), host(1, false, 9));
    let outside = (host(0, false, 9), ip("192.0.2.77"));
    let mut gateway = open(&routed(four()));
    assert_eq!(told(&mut gateway, 0, outside).len(), 1);
    let several = routed(four()).with_route(ip("0.0.0.0"), 0, host(3, false, 9));
    assert_eq!(told(&mut open(&several), 0, outside), [], "one of two routers is drawn");
    let nat = |settings: Settings| {
        settings.with_nat(NatSettings { interfaces: vec![4], settings: Nat::new(Ipv4Addr::new(10, 3, 0, 1)) })
    };
    let mut gateway = open(&nat(routed(four())));
    assert_eq!(told(&mut gateway, 0, outside), [], "its source is translated");
    assert_eq!(told(&mut gateway, 0, inside).len(), 1);
    let clamping = |at: usize| {
        let mut settings = routed(four());
        settings.interfaces[at].mss = MssClamp::To(1000);
        let [way] = told(&mut open(&settings), 0, inside)[..] else { panic!("one way") };
        [way.comes, way.leaves].map(|side| side.hands_over_opening)
    };
    assert_eq!([1, 2, 3].map(clamping), [[true, false], [false, true], [false; 2]], "each side by its own interface");
}

#[test]
fn ways_end_when_routes_or_stations_change() {
    let mut gateway = open(&routed(four()));
    let pair = (host(0, false, 9), host(3, false, 9));
    assert_eq!(told(&mut gateway, 0, pair).len(), 1);
    let ends = gateway.told.ends.get();
    assert!(gateway.stack.delete_route(ip("0.0.0.0"), 0, host(3, false, 254)));
    assert!(gateway.told.ends.get() > ends);
    // Somebody else says that he has the address: until that is sure, nothing is told.
    let (mac, other) = (gateway.mac(1), Mac([2, 7, 7, 7, 7, 7]));
    let (IpAddr::V4(his), IpAddr::V4(ours)) = (host(3, false, 9), host(3, false, 1)) else { unreachable!() };
    gateway.world.pass(Duration::from_secs(2));
    let ends = gateway.told.ends.get();
    gateway.hosts.retain(|host| !host.addresses.contains(&his.into()));
    gateway.send(1, PLACES[3].1, &arp_of(other, Operation::Request, mac, his, ours));
    gateway.turn();
    assert_eq!(gateway.told.ends.get(), ends + 2, "of each port once");
    gateway.told.ways.borrow_mut().clear();
    let frame = datagram(&gateway, 0, pair, 100);
    ask(&mut gateway, 0, &frame);
    assert_eq!(gateway.told.ways.take(), []);
}
