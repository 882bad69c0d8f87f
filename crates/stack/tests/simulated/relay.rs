//! Messages of DHCP between clients at a VLAN and servers elsewhere.

use crate::frames::{STACK, TEST, datagram, udp_in};
use crate::gateway::{Came, Gateway, ip, settings};
use crate::lanes::{ADDRESSES, mac, meet, plan};
use crate::program::{Card, Plan, Program};
use crate::rules::compiled;
use corelane_sim::{CardSetup, Faults};
use corelane_stack::{Drop, Error, ReversePath, Settings, Stack, Tags};
use corelane_wire::packet::dhcp::{BROADCAST, Choice, Header, Operation, RELAY_INFORMATION, View};
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::{Network, Packet, UpperLayer};
use corelane_wire::xdr::Writer;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Where the clients are, where nobody relays, and where the servers are.
const CLIENTS: (usize, Tags) = (0, Tags::One(7));
const OTHERS: (usize, Tags) = (0, Tags::One(8));
const SERVERS: (usize, Tags) = (1, Tags::None);
/// The stack's addresses at the first two.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 9);
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const CLIENT: Mac = Mac([2, 7, 7, 7, 7, 7]);

const DISCOVER: Choice<'static> = Choice { code: 53, data: &[1] };
const LIST: Choice<'static> = Choice { code: 55, data: &[1, 3, 6] };
const OURS: Choice<'static> = Choice { code: RELAY_INFORMATION, data: b"\x01\x06eth0.7" };

fn three() -> Settings {
    let settings = settings().with_interface("eth0").and_vlan("eth0.7", CLIENTS.1).with_network(OWN.into(), 24);
    let settings = settings.with_relay(NEAR).with_relay(FAR).and_vlan("eth0.8", OTHERS.1).with_network(OTHER.into(), 24);
    settings.and_interface("eth1").with_network(ip("10.3.0.1"), 24).with_route(ip("192.0.2.0"), 24, ip("10.3.0.254"))
}

fn open(settings: &Settings) -> Gateway {
    let mut gateway = Gateway::new(settings, &[CardSetup::default(), CardSetup::default()], 1024);
    gateway.host(SERVERS.0, SERVERS.1, &["10.3.0.9"]);
    gateway.host(SERVERS.0, SERVERS.1, &["10.3.0.254"]);
    gateway
}

fn header(operation: Operation) -> Header {
    let mut hardware_address = [0; 16];
    hardware_address[..6].copy_from_slice(&CLIENT.0);
    let nobody = Ipv4Addr::UNSPECIFIED;
    let (transaction, seconds, flags, names) = (77, 3, 0, [9; 192]);
    let (client, yours, server, relay) = (nobody, nobody, nobody, nobody);
    let (hardware, hardware_bytes, hops) = (1, 6, 0);
    Header {
        operation,
        hardware,
        hardware_bytes,
        hops,
        transaction,
        seconds,
        flags,
        client,
        yours,
        server,
        relay,
        hardware_address,
        names,
    }
}

fn request() -> Header {
    header(Operation::Request)
}

/// An answer for a client of [`CLIENTS`].
fn reply() -> Header {
    Header { relay: OWN, yours: Ipv4Addr::new(10, 0, 0, 50), hops: 1, ..header(Operation::Reply) }
}

fn message(header: &Header, options: &[Choice<'_>]) -> Vec<u8> {
    let mut memory = [0; 4096];
    let mut writer = Writer::new(&mut memory);
    header.emit(options.iter().copied(), &mut writer).unwrap();
    writer.written().to_vec()
}

/// A frame of a client with a message to all of the link.
fn asked(header: &Header, options: &[Choice<'_>]) -> Vec<u8> {
    said(Mac::BROADCAST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, &message(header, options))
}

fn said(to: Mac, source: Ipv4Addr, destination: Ipv4Addr, message: &[u8]) -> Vec<u8> {
    udp_in(to, (source, 68).into(), (destination, 67).into(), message, 65_528, 1).remove(0)
}

/// What a server says to the stack.
fn answer(gateway: &mut Gateway, server: Ipv4Addr, header: &Header, options: &[Choice<'_>]) -> Vec<Came> {
    let frame = said(gateway.mac(SERVERS.0), server, OWN, &message(header, options));
    gateway.ask(SERVERS.0, SERVERS.1, &frame)
}

/// Between whom a datagram went, and the message in it.
type Heard = ((SocketAddr, SocketAddr), Header, Vec<(u8, Vec<u8>)>);

fn heard(came: &Came) -> Heard {
    let packet = Packet::of_frame(&came.frame).unwrap();
    let (Network::V4(ip), UpperLayer::Udp(udp)) = (packet.network, packet.transport) else { panic!("{packet:?}") };
    assert!(ip.is_checksum_right() && udp.has_checksum() && udp.is_checksum_right(&ip.addresses()));
    let (head, ports) = (ip.header().unwrap(), udp.header());
    let view = View::new(udp.payload()).unwrap();
    assert!(udp.payload().len() >= 300);
    let options = view.options().map(|option| (option.code, option.data.to_vec())).collect();
    (((head.source, ports.source).into(), (head.destination, ports.destination).into()), view.header(), options)
}

fn options(all: &[Choice<'_>]) -> Vec<(u8, Vec<u8>)> {
    all.iter().map(|option| (option.code, option.data.to_vec())).collect()
}

fn ends(source: Ipv4Addr, destination: Ipv4Addr, port: u16) -> (SocketAddr, SocketAddr) {
    ((source, 67).into(), (destination, port).into())
}

#[test]
fn a_request_goes_to_each_server_with_our_address_and_the_circuit() {
    let mut gateway = open(&three());
    for (source, to) in [(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST), (Ipv4Addr::new(10, 0, 0, 50), OWN)] {
        let station = if to == OWN { gateway.mac(0) } else { Mac::BROADCAST };
        let frame = said(station, source, to, &message(&request(), &[DISCOVER, LIST]));
        let came = gateway.ask(CLIENTS.0, CLIENTS.1, &frame);
        assert_eq!(came.len(), 2, "{came:?}");
        for (came, server, host) in [(&came[0], NEAR, 0), (&came[1], FAR, 1)] {
            assert_eq!((came.port, came.tags, came.to()), (SERVERS.0, SERVERS.1, gateway.hosts[host].mac));
            let expected = Header { hops: 1, relay: OWN, ..request() };
            assert_eq!(heard(came), (ends(OWN, server, 67), expected, options(&[DISCOVER, LIST, OURS])));
        }
    }
    assert_eq!((gateway.stack.counts().relay_requests, gateway.stack.counts().dropped()), (2, 0));
    assert_eq!(gateway.stack.counts().datagrams_arrived, 0, "no socket has to do with it");
    assert!(gateway.memories.iter().all(|memory| memory.counts().held == 0), "nothing is kept");
}

#[test]
fn an_answer_goes_to_the_client_without_asking_for_him() {
    let mut gateway = open(&three());
    let yours = reply().yours;
    let broadcast = (Ipv4Addr::BROADCAST, Mac::BROADCAST);
    for (header, (to, mac)) in [
        (reply(), (yours, CLIENT)),
        (Header { flags: BROADCAST, ..reply() }, broadcast),
        (Header { flags: 1, ..reply() }, (yours, CLIENT)),
        (
            Header { yours: Ipv4Addr::UNSPECIFIED, client: Ipv4Addr::new(10, 0, 0, 51), ..reply() },
            ([10, 0, 0, 51].into(), CLIENT),
        ),
        (Header { client: Ipv4Addr::new(10, 0, 0, 51), ..reply() }, (yours, CLIENT)),
        (Header { yours: Ipv4Addr::UNSPECIFIED, ..reply() }, broadcast),
        (Header { hardware: 6, ..reply() }, broadcast),
        (Header { hardware_bytes: 8, ..reply() }, broadcast),
        (Header { hardware_address: [0; 16], ..reply() }, broadcast),
        (Header { hardware_address: [0xff; 16], ..reply() }, broadcast),
        (Header { yours: Ipv4Addr::new(10, 0, 0, 255), ..reply() }, broadcast),
    ] {
        let came = answer(&mut gateway, FAR, &header, &[DISCOVER, OURS, LIST]);
        assert_eq!(came.len(), 1, "{header:?}");
        assert_eq!((came[0].port, came[0].tags, came[0].to()), (CLIENTS.0, CLIENTS.1, mac), "{header:?}");
        assert_eq!(came[0].frame[6..12], gateway.mac(CLIENTS.0).0);
        assert_eq!(heard(&came[0]), (ends(OWN, to, 68), header, options(&[DISCOVER, LIST])));
    }
    // A server that says nothing of the circuit is as good.
    assert_eq!(answer(&mut gateway, NEAR, &reply(), &[DISCOVER]).len(), 1);
    assert_eq!((gateway.stack.counts().relay_replies, gateway.questions), (12, 0));
    assert_eq!(gateway.stack.counts().dropped(), 0);
}

#[test]
fn nothing_is_relayed_where_the_settings_do_not_say_so() {
    let mut gateway = open(&three());
    let frame = asked(&request(), &[DISCOVER]);
    gateway.loses(OTHERS, &frame, Drop::NotOurs, "another VLAN");
    gateway.loses(SERVERS, &frame, Drop::NotOurs, "another port");
    gateway.loses((0, Tags::None), &frame, Drop::NotOurs, "without tags");
    let others =
        udp_in(Mac::BROADCAST, (Ipv4Addr::UNSPECIFIED, 68).into(), (Ipv4Addr::BROADCAST, 69).into(), &[1; 300], 65_528, 1);
    gateway.loses(CLIENTS, &others[0], Drop::NotOurs, "another port of UDP");
    let of_network = said(Mac::BROADCAST, [10, 0, 0, 50].into(), [10, 0, 0, 255].into(), &message(&request(), &[DISCOVER]));
    gateway.loses(CLIENTS, &of_network, Drop::NotOurs, "of a network");
    // There we have a socket like anybody, and none is open.
    let came =
        gateway.ask(OTHERS.0, OTHERS.1, &said(gateway.mac(0), [10, 1, 0, 9].into(), OTHER, &message(&request(), &[DISCOVER])));
    assert_eq!((came.len(), gateway.stack.counts().of(Drop::Port)), (0, 1));
    // Where packets are forwarded it is no other.
    let mut settings = three();
    settings.interfaces.iter_mut().for_each(|one| (one.forwards, one.reverse_path) = (true, ReversePath::Strict));
    let mut gateway = open(&settings);
    assert!(gateway.ask(OTHERS.0, OTHERS.1, &frame).is_empty());
    assert_eq!(gateway.ask(CLIENTS.0, CLIENTS.1, &frame).len(), 2);
    assert_eq!((gateway.stack.counts().relay_requests, gateway.stack.counts().forwarded), (1, 0));
}

#[test]
fn what_a_client_may_not_say_goes_no_further() {
    let mut gateway = open(&three());
    for hops in [16, 17, 255] {
        gateway.loses(CLIENTS, &asked(&Header { hops, ..request() }, &[DISCOVER]), Drop::Relay, "a loop");
    }
    for relay in [OWN, OTHER, [10, 9, 9, 9].into()] {
        gateway.loses(CLIENTS, &asked(&Header { relay, ..request() }, &[DISCOVER]), Drop::Relay, "a relay's address");
    }
    gateway.loses(CLIENTS, &asked(&request(), &[DISCOVER, OURS]), Drop::Relay, "a relay's option");
    gateway.loses(CLIENTS, &asked(&reply(), &[DISCOVER]), Drop::Relay, "an answer to all of the link");
    let whole = message(&request(), &[DISCOVER, LIST]);
    for length in [0, 1, 239, 240, 247] {
        let frame = said(Mac::BROADCAST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, &whole[..length]);
        gateway.loses(CLIENTS, &frame, Drop::Malformed, "cut short");
    }
    let mut long = message(&request(), &[DISCOVER]);
    long.resize(1473, 0);
    let frame = said(Mac::BROADCAST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, &long);
    gateway.loses(CLIENTS, &frame, Drop::Relay, "too long");
    for source in [Ipv4Addr::BROADCAST, OWN, OTHER, [127, 0, 0, 1].into(), [224, 0, 0, 1].into()] {
        gateway.loses(CLIENTS, &said(Mac::BROADCAST, source, Ipv4Addr::BROADCAST, &whole), Drop::NotOurs, "nobody's address");
    }
    let mut wrong = asked(&request(), &[DISCOVER]);
    wrong[300] ^= 1;
    gateway.loses(CLIENTS, &wrong, Drop::Checksum, "damaged");
    let parts = udp_in(Mac::BROADCAST, (Ipv4Addr::UNSPECIFIED, 68).into(), (Ipv4Addr::BROADCAST, 67).into(), &whole, 256, 1);
    parts.iter().for_each(|part| gateway.loses(CLIENTS, part, Drop::NotOurs, "a fragment"));
    // Our address there is asked from elsewhere.
    let frame = said(gateway.mac(0), [10, 1, 0, 9].into(), OWN, &whole);
    gateway.loses(OTHERS, &frame, Drop::Relay, "another link");
    assert_eq!(gateway.stack.counts().relay_requests, 0);
    long.truncate(1472);
    let frame = said(Mac::BROADCAST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, &long);
    assert_eq!(gateway.ask(CLIENTS.0, CLIENTS.1, &frame).len(), 2);
    let came = gateway.ask(CLIENTS.0, CLIENTS.1, &asked(&Header { hops: 15, ..request() }, &[DISCOVER]));
    assert_eq!(came.iter().map(|came| heard(came).1.hops).collect::<Vec<_>>(), [16, 16]);
}

/// The longest message that fits into a packet of the client's link is cut on its way, for a relay adds something.
#[test]
fn a_message_that_grows_too_long_leaves_in_fragments() {
    let mut gateway = open(&three());
    let long = [7; 255];
    let filler: Vec<_> =
        (0..4).map(|_| Choice { code: 250, data: &long }).chain([Choice { code: 251, data: &long[..200] }]).collect();
    let frame = asked(&request(), &filler);
    assert_eq!(frame.len(), 14 + 28 + 240 + 4 * 257 + 202 + 1);
    assert_eq!(gateway.ask(CLIENTS.0, CLIENTS.1, &frame).len(), 4, "two for each server");
}

#[test]
fn what_is_no_answer_of_a_server_goes_no_further() {
    let mut gateway = open(&three());
    let to = gateway.mac(SERVERS.0);
    let mut refused = |at: (usize, Tags), server: Ipv4Addr, header: &Header, options: &[Choice<'_>], why, what: &str| {
        let frame = said(to, server, OWN, &message(header, options));
        let frame = if at.0 == 0 { [&gateway.mac(0).0, &frame[6..]].concat() } else { frame };
        gateway.loses(at, &frame, why, what);
    };
    refused(SERVERS, [10, 3, 0, 8].into(), &reply(), &[DISCOVER], Drop::Relay, "no server");
    refused(CLIENTS, NEAR, &reply(), &[DISCOVER], Drop::ReversePath, "a client in a server's name");
    refused(CLIENTS, FAR, &reply(), &[DISCOVER], Drop::ReversePath, "a client in a far server's name");
    refused(SERVERS, NEAR, &request(), &[DISCOVER], Drop::Relay, "a request of a server");
    for relay in [OTHER, Ipv4Addr::UNSPECIFIED] {
        refused(SERVERS, NEAR, &Header { relay, ..reply() }, &[DISCOVER], Drop::Relay, "for another relay");
    }
    let circuit = |data| [DISCOVER, Choice { code: RELAY_INFORMATION, data }];
    refused(SERVERS, NEAR, &reply(), &circuit(b"\x01\x06eth0.8"), Drop::Relay, "of another circuit");
    refused(SERVERS, NEAR, &reply(), &circuit(b"\x02\x01x\x01\x05eth0."), Drop::Relay, "of another circuit");
    refused(SERVERS, NEAR, &reply(), &circuit(b"\x01\x07eth0.7"), Drop::Malformed, "a list cut short");
    for yours in [OWN, OTHER, [224, 0, 0, 1].into(), [127, 0, 0, 1].into()] {
        refused(SERVERS, NEAR, &Header { yours, ..reply() }, &[DISCOVER], Drop::Relay, "an address of no client");
    }
    assert_eq!(gateway.stack.counts().relay_replies, 0);
}

/// What is counted as relayed has left; each message that a rule keeps back is counted where rules are.
#[test]
fn what_rules_keep_back_is_counted_apart() {
    let frame = asked(&request(), &[DISCOVER]);
    for (set, left, kept_back) in [
        ("deny udp from any to 10.3.0.9 out", 1, 1),
        ("deny udp from me to any 67 out", 0, 2),
        ("deny udp from any to any 67 in", 0, 1),
        ("deny udp from any to any 68 out", 2, 0),
    ] {
        let mut gateway = open(&three().with_rules(compiled(set)));
        assert_eq!(gateway.ask(CLIENTS.0, CLIENTS.1, &frame).len(), left, "{set}");
        let counts = *gateway.stack.counts();
        assert_eq!((counts.relay_requests, counts.of(Drop::Judged)), (u64::from(left > 0), kept_back), "{set}");
        assert_eq!(counts.dropped(), kept_back, "{set}");
    }
    for (set, left) in [("deny udp from any to any 68 out", 0), ("deny udp from any to any 69 out", 1)] {
        let mut gateway = open(&three().with_rules(compiled(set)));
        assert_eq!(answer(&mut gateway, NEAR, &reply(), &[DISCOVER]).len(), left, "{set}");
        let counts = gateway.stack.counts();
        assert_eq!((counts.relay_replies, counts.of(Drop::Judged)), (left as u64, 1 - left as u64), "{set}");
    }
    // Without a way there is nothing that was passed on, either.
    let mut lost = three();
    lost.interfaces[1].relay = vec!["198.51.100.9".parse().unwrap()];
    let mut gateway = open(&lost);
    gateway.loses(CLIENTS, &frame, Drop::NoRoute, "no server can be reached");
    assert_eq!(gateway.stack.counts().relay_requests, 0);
}

/// A client that takes ever other names has no more of them relayed than all of its interface may, and takes nothing of another interface's.
#[test]
fn who_takes_many_names_takes_nothing_of_another_interface() {
    let mut gateway = open(&three().with_relay(NEAR));
    let frame = |number: u32| {
        let mut header = request();
        header.hardware_address[2..6].copy_from_slice(&number.to_be_bytes());
        asked(&header, &[DISCOVER])
    };
    gateway.ask(CLIENTS.0, CLIENTS.1, &frame(0));
    for number in 1..3001 {
        gateway.send(CLIENTS.0, CLIENTS.1, &frame(number));
        if number % 50 == 0 {
            gateway.hear();
        }
    }
    let counts = *gateway.stack.counts();
    // 250 at once, and 500 a second in the 0.12 that have passed.
    assert!((250..330).contains(&counts.relay_requests), "{counts:?}");
    assert_eq!(counts.of(Drop::RelayLimited), 3001 - counts.relay_requests);
    // The interface of servers relays to one of them, too.
    for number in 0..100 {
        gateway.ask(SERVERS.0, SERVERS.1, &frame(number));
    }
    assert_eq!(gateway.stack.counts().relay_requests - counts.relay_requests, 100);
}

/// One client's requests are bounded, and others' go on.
#[test]
fn floods_are_bounded_and_others_are_served() {
    let mut gateway = open(&three());
    let frame = asked(&request(), &[DISCOVER]);
    gateway.ask(CLIENTS.0, CLIENTS.1, &frame);
    let flood = |gateway: &mut Gateway, frames: u64| {
        for _ in 0..frames / 50 {
            (0..50).for_each(|_| gateway.send(CLIENTS.0, CLIENTS.1, &frame));
            gateway.hear();
        }
    };
    flood(&mut gateway, 2000);
    let counts = *gateway.stack.counts();
    let relayed = counts.relay_requests;
    // Five of its own, what all have in common, and what comes in 0.08 seconds.
    assert!((130..170).contains(&relayed), "{relayed}");
    assert_eq!(counts.of(Drop::RelayLimited), 2001 - relayed);
    let mut others = 0;
    for number in 0..20 {
        let mut header = request();
        header.hardware_address[5] = number;
        others += gateway.ask(CLIENTS.0, CLIENTS.1, &asked(&header, &[DISCOVER])).len() / 2;
    }
    assert!(others >= 19, "{others}: one at most shares with the first");
    gateway.world.pass(Duration::from_secs(1));
    flood(&mut gateway, 1000);
    let more = gateway.stack.counts().relay_requests - relayed;
    assert!((130..400).contains(&more), "{more}");
}

#[test]
fn answers_are_bounded() {
    let mut gateway = open(&three());
    let frame = said(gateway.mac(SERVERS.0), NEAR, OWN, &message(&reply(), &[DISCOVER]));
    for _ in 0..60 {
        (0..50).for_each(|_| gateway.send(SERVERS.0, SERVERS.1, &frame));
        gateway.hear();
    }
    let counts = gateway.stack.counts();
    assert!((1000..2000).contains(&counts.relay_replies), "{counts:?}");
    assert_eq!(counts.of(Drop::RelayLimited) + counts.relay_replies, 3000);
}

/// A request may come to any lane, and its answer to another: each relays what it gets.
#[test]
fn each_lane_relays_what_comes_to_it() {
    for card in [Card::Aligned, Card::Scattered, Card::Plain] {
        let change = |settings: Settings| settings.with_interface("eth0").with_relay(TEST);
        let mut program = Program::new(&Plan { card, change, ..plan(4, 9) }, &ADDRESSES);
        meet(&mut program);
        for number in 0..32 {
            let mut header = request();
            header.hardware_address[5] = number;
            let whole = message(&header, &[DISCOVER]);
            program.test.send(&said(Mac::BROADCAST, [10, 0, 0, 100 + number].into(), Ipv4Addr::BROADCAST, &whole));
            program.pass(1_000_000);
        }
        program.pass(20_000_000);
        let mut asked = Vec::new();
        for datagram in program.test.take().iter().filter_map(|frame| datagram(frame)) {
            assert_eq!((datagram.from, datagram.to), ends(STACK, TEST, 67));
            asked.push(View::new(&datagram.payload).unwrap().header());
        }
        assert_eq!(asked.iter().map(|header| header.hardware_address[5]).collect::<Vec<_>>(), (0..32).collect::<Vec<_>>());
        assert!(asked.iter().all(|header| header.relay == STACK && header.hops == 1));
        for header in &asked {
            let yours = Ipv4Addr::new(10, 0, 0, 100 + header.hardware_address[5]);
            let whole = message(&Header { operation: Operation::Reply, yours, ..*header }, &[DISCOVER]);
            let port = 1067 + u16::from(header.hardware_address[5]);
            let frame = udp_in(mac(&program), (TEST, port).into(), (STACK, 67).into(), &whole, 65_528, 1).remove(0);
            program.test.send(&frame);
            program.pass(1_000_000);
        }
        program.pass(20_000_000);
        let answered: Vec<_> = program.test.take().iter().filter_map(|frame| datagram(frame)).collect();
        assert_eq!(answered.len(), 32);
        let counts: Vec<_> = (0..4).map(|lane| program.counts(lane)).collect();
        let lanes = |of: fn(&corelane_stack::PacketCounts) -> u64| {
            let each: Vec<_> = counts.iter().map(of).collect();
            assert_eq!(each.iter().sum::<u64>(), 32);
            each.iter().filter(|&&relayed| relayed > 0).count()
        };
        assert!(lanes(|counts| counts.relay_requests) > 1 && lanes(|counts| counts.relay_replies) > 1);
        program.close();
    }
}

#[test]
fn a_server_that_no_way_leads_to_is_counted() {
    let mut gateway = open(&three().with_relay([198, 51, 100, 1]));
    assert_eq!(gateway.stack.counts().of(Drop::NoRoute), 0);
    // The interface of the last server has nobody to relay to but this one.
    let came = gateway.ask(SERVERS.0, SERVERS.1, &asked(&request(), &[DISCOVER]));
    assert_eq!((came.len(), gateway.stack.counts().of(Drop::NoRoute)), (0, 1));
}

#[test]
fn what_cannot_relay_is_refused_with_its_name() {
    let refused = |settings: Settings, name: &str| {
        let gateway = std::panic::AssertUnwindSafe(|| made(&settings));
        assert_eq!(gateway().unwrap_err(), Error::Relay { interface: name.into() });
    };
    let named = |name: &str| settings().with_interface(name);
    let one = |name: &str| named(name).with_network(OWN.into(), 24);
    assert!(made(&one("eth0").with_relay(NEAR)).is_ok());
    refused(named("eth0").with_relay(NEAR), "eth0");
    refused(named("eth0").with_network(ip("fd00::1"), 64).with_relay(NEAR), "eth0");
    // Of IPv6, an address of the link names no link to a server elsewhere, and is on none of ours alone.
    let far = ip("2001:db8:5::7");
    refused(one("eth0").with_relay(far), "eth0");
    refused(one("eth0").with_network(ip("fe80::1"), 64).with_relay(far), "eth0");
    let both = || one("eth0").with_network(ip("fe80::1"), 64).with_network(ip("fd00::1"), 64).with_relay(NEAR);
    assert!(made(&both().with_relay(far)).is_ok());
    for server in ["fe80::7", "ff02::1:2", "::", "::1", "fd00::1", "::ffff:10.0.0.9"] {
        refused(both().with_relay(ip(server)), "eth0");
    }
    refused(one("").with_relay(NEAR), "");
    refused(one(&"x".repeat(65)).with_relay(NEAR), &"x".repeat(65));
    assert!(made(&one(&"x".repeat(64)).with_relay(NEAR)).is_ok());
    for server in [OWN, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, [224, 0, 0, 1].into(), [127, 0, 0, 1].into()] {
        refused(one("eth0").with_relay(server), "eth0");
    }
    let many = |count: u8| (0..count).fold(one("eth0"), |settings, number| settings.with_relay([10, 8, 0, number + 1]));
    assert!(made(&many(8)).is_ok());
    refused(many(9), "eth0");
    assert!(Error::Relay { interface: "eth0".into() }.to_string().contains("eth0"));
}

fn made(settings: &Settings) -> Result<(), Error> {
    let world = corelane_sim::World::new(1, Faults::none());
    let card = world.interface(CardSetup::default());
    let arena = corelane_seam::Arena::new(8 << 20).unwrap();
    let below = world.driver(arena.clone(), corelane_seam::Tuning::default());
    let memory = corelane_seam::FrameMemory::new(64, 2048).unwrap();
    let port = corelane_sim::SimPort::open(&card, 0, below.lane(), memory, 16).unwrap();
    Stack::with_ports(below, arena, corelane_seam::Tuning::default(), vec![Box::new(port)], settings).map(drop)
}
