//! Messages of DHCP for IPv6 between clients at a VLAN, relays beside them, and servers elsewhere.

use crate::frames::udp_in;
use crate::gateway::{Came, Gateway, ip, settings};
use crate::rules::compiled;
use corelane_sim::CardSetup;
use corelane_stack::{Drop, ReversePath, Settings, Tags};
use corelane_wire::packet::dhcpv6::{Choice, Header, INTERFACE_ID, Kind, RELAY_MESSAGE};
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::{Network, Packet, UpperLayer};
use corelane_wire::xdr::Writer;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Where the clients are, where nobody relays, and where the servers are.
const CLIENTS: (usize, Tags) = (0, Tags::One(7));
const OTHERS: (usize, Tags) = (0, Tags::One(8));
const SERVERS: (usize, Tags) = (1, Tags::None);
/// The group of relays and servers, and its stations.
const GROUP: &str = "ff02::1:2";
const STATIONS: Mac = Mac([0x33, 0x33, 0, 1, 0, 2]);
/// The stack's addresses at the first two; a client, a relay beside him, and two servers.
const OWN: &str = "fd07::1";
const OTHER: &str = "fd08::1";
const CLIENT: &str = "fe80::77";
const NEARER: &str = "fd07::9";
const NEAR: &str = "fd03::9";
const FAR: &str = "2001:db8:5::7";

/// A solicitation, and what answers it.
const SOLICIT: &[u8] = &[1, 0xa, 0xb, 0xc, 0, 1, 0, 4, 0, 3, 0, 1];
const ADVERTISE: &[u8] = &[2, 0xa, 0xb, 0xc, 0, 2, 0, 2, 0, 3];

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn three() -> Settings {
    let settings = settings().with_interface("eth0").and_vlan("eth0.7", CLIENTS.1).with_network(ip("fe80::1"), 64);
    let settings = settings.with_network(ip(OWN), 64).with_network(ip("10.0.0.1"), 24).with_relay(ip(NEAR)).with_relay(ip(FAR));
    let settings = settings.with_relay(ip("10.3.0.9")).and_vlan("eth0.8", OTHERS.1).with_network(ip(OTHER), 64);
    let settings = settings.and_interface("eth1").with_network(ip("fd03::1"), 64);
    settings.with_route(ip("2001:db8:5::"), 48, ip("fd03::fe"))
}

fn open(settings: &Settings) -> Gateway {
    let mut gateway = Gateway::new(settings, &[CardSetup::default(), CardSetup::default()], 1024);
    gateway.host(SERVERS.0, SERVERS.1, &[NEAR]);
    gateway.host(SERVERS.0, SERVERS.1, &["fd03::fe"]);
    gateway.host(CLIENTS.0, CLIENTS.1, &[CLIENT, NEARER]);
    gateway
}

fn relayed(header: &Header, options: &[Choice<'_>]) -> Vec<u8> {
    let mut memory = [0; 8192];
    let mut writer = Writer::new(&mut memory);
    header.emit(options.iter().copied(), &mut writer).unwrap();
    writer.written().to_vec()
}

const NAME: Choice<'static> = Choice { code: INTERFACE_ID, data: b"eth0.7" };

fn within(message: &[u8]) -> Choice<'_> {
    Choice { code: RELAY_MESSAGE, data: message }
}

/// What a relay says to a server, or a server to a relay.
fn header(kind: Kind, hops: u8, link: &str, peer: &str) -> Header {
    Header { kind, hops, link: v6(link), peer: v6(peer) }
}

fn forward(hops: u8, link: &str, peer: &str) -> Header {
    header(Kind::RELAY_FORWARD, hops, link, peer)
}

fn reply(link: &str, peer: &str) -> Header {
    header(Kind::RELAY_REPLY, 0, link, peer)
}

fn said(to: Mac, source: &str, destination: &str, message: &[u8]) -> Vec<u8> {
    udp_in(to, (v6(source), 546).into(), (v6(destination), 547).into(), message, 65_528, 1).remove(0)
}

/// A frame of a client's with a message to all relays of his link.
fn asked(message: &[u8]) -> Vec<u8> {
    said(STATIONS, CLIENT, GROUP, message)
}

/// Between whom a datagram went, and what it carries.
fn heard(came: &Came) -> ((SocketAddr, SocketAddr), Vec<u8>) {
    let packet = Packet::of_frame(&came.frame).unwrap();
    let (Network::V6(ip, _), UpperLayer::Udp(udp)) = (packet.network, packet.transport) else { panic!("{packet:?}") };
    assert!(udp.is_checksum_right(&ip.addresses()) && ip.header().hops == 64);
    let (head, ports) = (ip.header(), udp.header());
    (((head.source, ports.source).into(), (head.destination, ports.destination).into()), udp.payload().to_vec())
}

fn ends(source: &str, destination: &str, port: u16) -> (SocketAddr, SocketAddr) {
    ((v6(source), 547).into(), (v6(destination), port).into())
}

/// As of IPv4.
#[test]
fn what_rules_keep_back_is_counted_apart() {
    for (set, left, kept_back) in [
        ("deny udp from any to fd03::9 out", 1, 1),
        ("deny udp from me to any 547 out", 0, 2),
        ("deny udp from any to any 546 out", 2, 0),
    ] {
        let mut gateway = open(&three().with_rules(compiled(set)));
        assert_eq!(gateway.ask(CLIENTS.0, CLIENTS.1, &asked(SOLICIT)).len(), left, "{set}");
        let answered = answer(&mut gateway, NEAR, &relayed(&reply(OWN, CLIENT), &[NAME, within(ADVERTISE)])).len();
        let counts = gateway.stack.counts();
        let kept_back = kept_back + 1 - answered as u64;
        assert_eq!((counts.relay_requests, counts.of(Drop::Judged)), (u64::from(left > 0), kept_back), "{set}");
        assert_eq!((counts.relay_replies, answered), (answered as u64, usize::from(left < 2)), "{set}");
    }
}

/// RFC 8415, section 19.1.1.
#[test]
fn a_request_goes_to_each_server_within_ours() {
    let mut gateway = open(&three());
    for (station, destination) in [(STATIONS, GROUP), (gateway.mac(0), OWN)] {
        for message in [SOLICIT, &[3, 1, 2, 3], &[11, 1, 2, 3, 0, 99, 0, 0], &[200, 0, 0, 0]] {
            let came = gateway.ask(CLIENTS.0, CLIENTS.1, &said(station, CLIENT, destination, message));
            assert_eq!(came.len(), 2, "{came:?}");
            for (came, server, host) in [(&came[0], NEAR, 0), (&came[1], FAR, 1)] {
                assert_eq!((came.port, came.tags, came.to()), (SERVERS.0, SERVERS.1, gateway.hosts[host].mac));
                let ours = relayed(&forward(0, OWN, CLIENT), &[NAME, within(message)]);
                assert_eq!(heard(came), (ends(OWN, server, 547), ours));
            }
        }
    }
    assert_eq!((gateway.stack.counts().relay_requests, gateway.stack.counts().dropped()), (8, 0));
    assert_eq!(gateway.stack.counts().datagrams_arrived, 0, "no socket has to do with it");
    assert!(gateway.memories.iter().all(|memory| memory.counts().held == 0), "nothing is kept");
}

/// Section 19.1.2: what a relay says that is nearer goes on within ours, until eight have passed it on.
#[test]
fn relays_may_stand_in_a_row() {
    let mut gateway = open(&three());
    // One of the link alone is told of by our address there, another by its own.
    for (source, link) in [(CLIENT, OWN), (NEARER, "::")] {
        for hops in 0..8 {
            let message = relayed(&forward(hops, "::", "fe80::5"), &[within(SOLICIT)]);
            let came = gateway.ask(CLIENTS.0, CLIENTS.1, &said(STATIONS, source, GROUP, &message));
            let ours = relayed(&forward(hops + 1, link, source), &[NAME, within(&message)]);
            assert_eq!(came.iter().map(|came| heard(came).1).collect::<Vec<_>>(), [&ours[..]; 2]);
        }
        for hops in [8, 9, 255] {
            let message = relayed(&forward(hops, "::", "fe80::5"), &[within(SOLICIT)]);
            gateway.loses(CLIENTS, &said(STATIONS, source, GROUP, &message), Drop::Relay, "a loop");
        }
        // And back, to the port of relays.
        let inner = relayed(&reply("::", "fe80::5"), &[within(ADVERTISE)]);
        let came = answer(&mut gateway, NEAR, &relayed(&reply(link, source), &[NAME, within(&inner)]));
        assert_eq!(came.len(), 1);
        let own = if source == CLIENT { "fe80::1" } else { OWN };
        assert_eq!(heard(&came[0]), (ends(own, source, 547), inner));
    }
}

/// What a server says to the stack.
fn answer(gateway: &mut Gateway, server: &str, message: &[u8]) -> Vec<Came> {
    let frame = said(gateway.mac(SERVERS.0), server, OWN, message);
    gateway.ask(SERVERS.0, SERVERS.1, &frame)
}

/// Section 19.2.
#[test]
fn what_an_answer_carries_goes_to_the_client() {
    let mut gateway = open(&three());
    let options = |message| [within(message), NAME, Choice { code: 300, data: b"more" }];
    for (server, message) in [(NEAR, ADVERTISE), (FAR, &[7, 1, 2, 3]), (NEAR, &[10, 0, 0, 0]), (NEAR, &[200, 0, 0, 0])] {
        let came = answer(&mut gateway, server, &relayed(&reply(OWN, CLIENT), &options(message)));
        assert_eq!(came.len(), 1, "{message:?}");
        assert_eq!((came[0].port, came[0].tags, came[0].to()), (CLIENTS.0, CLIENTS.1, gateway.hosts[2].mac));
        assert_eq!(heard(&came[0]), (ends("fe80::1", CLIENT, 546), message.to_vec()));
    }
    // A server that says nothing of the interface is as good, and a client may have another address.
    let came = answer(&mut gateway, NEAR, &relayed(&reply(OWN, NEARER), &[within(ADVERTISE)]));
    assert_eq!(heard(&came[0]), (ends(OWN, NEARER, 546), ADVERTISE.to_vec()));
    assert_eq!((gateway.stack.counts().relay_replies, gateway.stack.counts().dropped()), (5, 0));
}

#[test]
fn what_a_client_may_not_say_goes_no_further() {
    let mut gateway = open(&three());
    for kind in [2, 7, 10] {
        gateway.loses(CLIENTS, &asked(&[kind, 0, 0, 0]), Drop::Relay, "what servers say");
    }
    let answers = relayed(&reply(OWN, CLIENT), &[NAME, within(ADVERTISE)]);
    gateway.loses(CLIENTS, &asked(&answers), Drop::Relay, "what servers say to relays");
    let of_relay = relayed(&forward(0, "::", "fe80::5"), &[within(SOLICIT)]);
    for message in [&SOLICIT[..0], &SOLICIT[..3], &SOLICIT[..7], &SOLICIT[..11], &of_relay[..33], &of_relay[..of_relay.len() - 1]]
    {
        gateway.loses(CLIENTS, &asked(message), Drop::Malformed, "cut short");
    }
    for source in [OWN, OTHER, "::", "::1", "ff02::1"] {
        gateway.loses(CLIENTS, &said(STATIONS, source, GROUP, SOLICIT), Drop::NotOurs, "nobody's address");
    }
    let mut wrong = asked(SOLICIT);
    wrong[62] ^= 1;
    gateway.loses(CLIENTS, &wrong, Drop::Checksum, "damaged");
    let to = gateway.mac(0);
    gateway.loses(OTHERS, &said(to, "fd08::9", OWN, SOLICIT), Drop::Relay, "our address, from another link");
    // The longest that relays in a row may make of one, and one byte more: it comes in fragments.
    let longest = |bytes: usize| [&[1, 0, 0, 0, 0, 99][..], &(bytes as u16 - 8).to_be_bytes(), &vec![7; bytes - 8]].concat();
    let most = 1452 + 8 * (34 + 8 + 64);
    for (bytes, refused) in [(most, 0), (most + 1, 1)] {
        let parts = udp_in(to, (v6(NEARER), 547).into(), (v6(OWN), 547).into(), &longest(bytes), 1200, 5);
        let came: Vec<_> = parts.iter().flat_map(|part| gateway.ask(CLIENTS.0, CLIENTS.1, part)).collect();
        assert_eq!((came.len(), gateway.stack.counts().relay_requests), (if refused == 0 { 4 } else { 0 }, 1), "{bytes}");
    }
    assert_eq!(gateway.stack.counts().of(Drop::Relay), 3 + 1 + 1 + 1);
}

#[test]
fn nothing_is_relayed_where_the_settings_do_not_say_so() {
    let mut gateway = open(&three());
    gateway.loses(OTHERS, &asked(SOLICIT), Drop::NotOurs, "another VLAN");
    gateway.loses(SERVERS, &asked(SOLICIT), Drop::NotOurs, "another port");
    let other = udp_in(STATIONS, (v6(CLIENT), 546).into(), (v6(GROUP), 548).into(), SOLICIT, 65_528, 1).remove(0);
    gateway.loses(CLIENTS, &other, Drop::NotOurs, "another port of UDP");
    gateway.loses(CLIENTS, &said(STATIONS, CLIENT, "ff05::1:3", SOLICIT), Drop::NotOurs, "the group of servers alone");
    // Who has servers of the other family alone hears nobody of this one.
    let mut settings = three();
    settings.interfaces[1].relay.retain(IpAddr::is_ipv4);
    let mut gateway = open(&settings);
    gateway.loses(CLIENTS, &asked(SOLICIT), Drop::NotOurs, "of IPv4 alone");
    // Where packets are forwarded it is no other.
    let mut settings = three();
    settings.interfaces.iter_mut().for_each(|one| (one.forwards, one.reverse_path) = (true, ReversePath::Strict));
    let mut gateway = open(&settings);
    assert!(gateway.ask(OTHERS.0, OTHERS.1, &asked(SOLICIT)).is_empty());
    assert_eq!(gateway.ask(CLIENTS.0, CLIENTS.1, &asked(SOLICIT)).len(), 2);
    assert_eq!((gateway.stack.counts().relay_requests, gateway.stack.counts().forwarded), (1, 0));
}

#[test]
fn what_is_no_answer_of_a_server_goes_no_further() {
    let mut gateway = open(&three());
    let to = [gateway.mac(0), gateway.mac(SERVERS.0)];
    let mut refused = |at: (usize, Tags), server: &str, message: &[u8], why, what: &str| {
        gateway.loses(at, &said(to[at.0], server, OWN, message), why, what);
    };
    let good = relayed(&reply(OWN, CLIENT), &[NAME, within(ADVERTISE)]);
    refused(SERVERS, "fd03::8", &good, Drop::Relay, "no server");
    refused(CLIENTS, NEAR, &good, Drop::ReversePath, "a client in a server's name");
    refused(OTHERS, FAR, &good, Drop::ReversePath, "a client in a far server's name");
    refused(SERVERS, NEAR, SOLICIT, Drop::Relay, "a request of a server");
    refused(SERVERS, NEAR, ADVERTISE, Drop::Relay, "an answer that is for no relay");
    refused(SERVERS, NEAR, &relayed(&reply(OTHER, CLIENT), &[within(ADVERTISE)]), Drop::Relay, "of another link");
    for name in [&b"eth0.8"[..], b"eth0.", b"eth0.77", b""] {
        let message = relayed(&reply(OWN, CLIENT), &[Choice { code: INTERFACE_ID, data: name }, within(ADVERTISE)]);
        refused(SERVERS, NEAR, &message, Drop::Relay, "of another interface");
    }
    for peer in [OWN, OTHER, "fe80::1", "::", "::1", "ff02::1", "fd08::9", "fd03::8", "2001:db8:5::8", "2001:db8:77::1"] {
        refused(SERVERS, NEAR, &relayed(&reply(OWN, peer), &[within(ADVERTISE)]), Drop::Relay, peer);
    }
    refused(SERVERS, NEAR, &relayed(&reply(OWN, CLIENT), &[NAME]), Drop::Malformed, "nothing within");
    refused(SERVERS, NEAR, &relayed(&reply(OWN, CLIENT), &[within(&ADVERTISE[..3])]), Drop::Malformed, "cut short within");
    let around = relayed(&forward(0, OWN, CLIENT), &[within(SOLICIT)]);
    for message in [SOLICIT, &around] {
        refused(SERVERS, NEAR, &relayed(&reply(OWN, CLIENT), &[within(message)]), Drop::Relay, "what clients say, within");
    }
    assert_eq!(gateway.stack.counts().relay_replies, 0);
}

/// RFC 4861, section 4.2: clients ask servers for addresses where a router says that these have some.
#[test]
fn hosts_hear_that_servers_have_addresses_where_that_is_relayed() {
    let advertised = || three().with_introduction();
    for relays in [true, false] {
        let mut settings = advertised();
        settings.interfaces[1].advertises = Some(Default::default());
        settings.interfaces[1].relay.retain(|server| relays || server.is_ipv4());
        let mut gateway = open(&settings);
        let mut said = Vec::new();
        for _ in 0..40 {
            gateway.world.pass(Duration::from_secs(1));
            said.extend(gateway.hear().into_iter().filter(|came| came.frame[54] == 134));
        }
        // The flags M and O.
        assert!(!said.is_empty() && said.iter().all(|came| came.frame[59] == if relays { 0x80 } else { 0 }), "{said:?}");
    }
}

/// Switches that carry groups to listeners alone are told that one is here, and only where it is relayed.
#[test]
fn the_group_of_relays_is_listened_for() {
    let mut gateway = open(&three());
    for (at, is_there) in [(CLIENTS, true), (OTHERS, false)] {
        let frame = crate::presence::query(v6("fe80::5"), 1, true, v6(GROUP), 28);
        gateway.send(at.0, at.1, &frame);
        let mut came = Vec::new();
        for _ in 0..20 {
            gateway.world.pass(Duration::from_millis(100));
            came.extend(gateway.hear());
        }
        let named = came.iter().filter(|came| came.frame.windows(16).any(|bytes| bytes == v6(GROUP).octets())).count();
        assert_eq!((came.len(), named), if is_there { (1, 1) } else { (0, 0) });
    }
}

/// Who takes many addresses has no more relayed than all of his interface may; and a second client is served beside one who asks without end.
#[test]
fn floods_are_bounded_and_others_are_served() {
    let mut gateway = open(&three());
    let flood = |gateway: &mut Gateway, source: fn(u16) -> String| {
        for number in 0..2000 {
            gateway.send(CLIENTS.0, CLIENTS.1, &said(STATIONS, &source(number), GROUP, SOLICIT));
            if number % 50 == 49 {
                gateway.hear();
            }
        }
    };
    flood(&mut gateway, |_| CLIENT.to_owned());
    let one = gateway.stack.counts().relay_requests;
    assert!((130..170).contains(&one), "{one}");
    for number in 0..20 {
        gateway.ask(CLIENTS.0, CLIENTS.1, &said(STATIONS, &format!("fe80::9:{number:x}"), GROUP, SOLICIT));
    }
    let others = gateway.stack.counts().relay_requests - one;
    assert!(others >= 19, "{others}: one at most shares with the first");
    gateway.world.pass(Duration::from_secs(1));
    let before = gateway.stack.counts().relay_requests;
    flood(&mut gateway, |number| format!("fe80::8:{number:x}"));
    let counts = *gateway.stack.counts();
    assert!((250..330).contains(&(counts.relay_requests - before)), "{counts:?}");
    assert_eq!(counts.of(Drop::RelayLimited) + counts.relay_requests, 4020);
    let frame = said(gateway.mac(SERVERS.0), NEAR, OWN, &relayed(&reply(OWN, CLIENT), &[within(ADVERTISE)]));
    for _ in 0..60 {
        (0..50).for_each(|_| gateway.send(SERVERS.0, SERVERS.1, &frame));
        gateway.hear();
    }
    let replies = gateway.stack.counts().relay_replies;
    assert!((1000..2000).contains(&replies), "{replies}");
}
