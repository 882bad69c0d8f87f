//! Ports that lead inside.

use crate::common::{ACK, EXTERNAL, FIN, Lane, SYN, datagram, echo, end, ends, ip, packet, segment};
use corelane_nat::{Cause, Error, Forward, Settings, Verdict};
use corelane_rss::Transport;
use corelane_wire::packet::IpProtocol;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);

fn forward(transport: Transport, ports: RangeInclusive<u16>, inside_port: u16) -> Forward {
    Forward { transport, external: EXTERNAL, ports, inside: SERVER, inside_port }
}

fn settings() -> Settings {
    let mut settings = Settings::new(EXTERNAL);
    settings.forwards = vec![
        forward(Transport::Tcp, 443..=443, 8443),
        forward(Transport::Udp, 5000..=5099, 6000),
        forward(Transport::Tcp, 8000..=8000, 80),
    ];
    settings
}

fn at(address: Ipv4Addr, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(address, port)
}

#[test]
fn a_port_leads_inside_and_its_answers_outside() {
    let (mut lane, client) = (Lane::new(&settings()), end("198.51.100.7:40000"));
    assert_eq!(lane.destination(0, segment(client, at(EXTERNAL, 443), SYN)), Some(at(SERVER, 8443)));
    assert_eq!(lane.source(0, segment(at(SERVER, 8443), client, SYN.with(ACK))), at(EXTERNAL, 443));
    for (outside, inside) in [(5000, 6000), (5042, 6042), (5099, 6099)] {
        assert_eq!(lane.destination(0, datagram(client, at(EXTERNAL, outside), b"")), Some(at(SERVER, inside)));
        assert_eq!(lane.source(0, datagram(at(SERVER, inside), client, b"")), at(EXTERNAL, outside));
    }
    for beside in [4999, 5100, 443] {
        assert_eq!(lane.destination(0, datagram(client, at(EXTERNAL, beside), b"")), None, "{beside}");
    }
    assert_eq!(lane.nat.sessions(), 0, "a flood from outside fills nothing");
    assert_eq!(lane.source(0, datagram(at(SERVER, 8443), client, b"")).port(), 8443, "another protocol is a session");
    assert_eq!(lane.nat.sessions(), 1);
}

/// No session gets a port that leads elsewhere, whether that was so before or comes to be so.
#[test]
fn a_forwarded_port_is_given_to_nobody() {
    let mut settings = settings();
    settings.ports = 5000..=5101;
    let (mut lane, remote) = (Lane::new(&settings), end("198.51.100.7:53"));
    let host = end("10.0.0.5:5000");
    let port = lane.source(0, datagram(host, remote, b"")).port();
    assert_eq!(port, 5100, "the only even one");
    lane.nat.set_forwards(&[forward(Transport::Udp, 5100..=5100, 1)]).unwrap();
    assert_eq!(lane.destination(0, datagram(remote, at(EXTERNAL, 5100), b"")), Some(at(SERVER, 1)));
    assert_ne!(lane.source(0, datagram(host, end("198.51.100.8:53"), b"")).port(), 5100);
    assert_eq!(lane.destination(0, datagram(remote, at(EXTERNAL, 5000), b"")), None, "what led there before");
    lane.nat.set_forwards(&[forward(Transport::Udp, 0..=9, 1)]).unwrap_err();
    assert_eq!(lane.destination(0, datagram(remote, at(EXTERNAL, 5100), b"")), Some(at(SERVER, 1)), "those before stay");
}

/// RFC 4787, REQ-9: inside hosts reach each other by their external ends, and see each other's external ones.
#[test]
fn inside_hosts_reach_each_other_from_outside() {
    let (mut lane, host) = (Lane::new(&settings()), end("10.0.0.5:4000"));
    let mut bytes = segment(host, at(EXTERNAL, 443), SYN);
    assert_eq!(lane.out(0, &mut bytes), Verdict::Translated);
    let (source, destination) = ends(&bytes);
    assert_eq!((*source.ip(), destination), (EXTERNAL, at(SERVER, 8443)));
    let mut back = segment(destination, source, SYN.with(ACK));
    assert_eq!(lane.out(0, &mut back), Verdict::Translated);
    assert_eq!(ends(&back), (at(EXTERNAL, 443), host));
    // Two hosts that have both sent to each other's external end.
    let other = end("10.0.0.6:4100");
    let (one_end, other_end) = (at(EXTERNAL, 4000), at(EXTERNAL, 4100));
    lane.source(0, datagram(other, end("198.51.100.7:53"), b""));
    let mut first = datagram(host, other_end, b"");
    let before = first.clone();
    assert_eq!((lane.out(0, &mut first), &first), (Verdict::Untouched, &before), "the other has not sent yet");
    let mut second = datagram(other, one_end, b"");
    assert_eq!(lane.out(0, &mut second), Verdict::Translated);
    assert_eq!(ends(&second), (other_end, host));
    let mut third = datagram(host, other_end, b"");
    assert_eq!(lane.out(0, &mut third), Verdict::Translated);
    assert_eq!(ends(&third), (one_end, other));
}

/// Whether an inside host has a port of another lane's only that lane knows: what is sent there by inside is brought there, from an external end.
#[test]
fn inside_hosts_of_other_lanes_are_looked_for_there() {
    let mut lanes: Vec<Lane> = (0..2).map(|lane| Lane::new(&Settings::new(EXTERNAL).for_lane(lane, 2))).collect();
    let (host, other) = (end("10.0.0.5:4000"), end("10.0.0.6:4100"));
    let others_end = lanes[1].source(0, datagram(other, end("198.51.100.7:53"), b""));
    let mut packet = datagram(host, others_end, b"");
    assert_eq!(lanes[0].out(0, &mut packet), Verdict::Elsewhere(1));
    let (hosts_end, to) = ends(&packet);
    assert_eq!((hosts_end.ip(), to), (&EXTERNAL, others_end));
    assert_eq!(lanes[1].nat.incoming(0, &mut packet), Verdict::Untouched, "the other has not sent there yet");
}

/// What nothing leads on from is the gateway's own, whatever its port and its protocol: it stays as it was, and takes no session.
#[test]
fn what_an_inside_host_wants_of_the_gateway_is_the_gateways() {
    let (mut lane, host) = (Lane::new(&settings()), end("10.0.0.5:4000"));
    let gre = packet(&ip(IpProtocol::GRE, *host.ip(), EXTERNAL), 8, |_| ());
    let asks_for_time = packet(&ip(IpProtocol::ICMP, *host.ip(), EXTERNAL), 20, |writer| writer.put(&[13]).unwrap());
    let short = packet(&ip(IpProtocol::TCP, *host.ip(), EXTERNAL), 8, |_| ());
    for mut bytes in [
        datagram(host, at(EXTERNAL, 53), b""),
        segment(host, at(EXTERNAL, 22), SYN),
        echo(*host.ip(), EXTERNAL, 4000, false),
        datagram(host, at(EXTERNAL, 1024), b""),
        datagram(host, at(EXTERNAL, 40_000), b""),
        segment(host, at(EXTERNAL, 40_000), SYN),
        segment(host, at(EXTERNAL, 65_535), ACK),
        gre,
        asks_for_time,
        short,
    ] {
        let before = bytes.clone();
        assert_eq!((lane.out(0, &mut bytes), &bytes), (Verdict::Untouched, &before));
    }
    assert_eq!((lane.nat.sessions(), lane.nat.ports(), lane.nat.counts().refused_unfit), (0, 0, 0));
    // A port of another address, of another protocol or of another kind of ports leads from there alone.
    lane.source(0, datagram(end("10.0.0.6:40000"), end("198.51.100.7:53"), b""));
    let mut opens = segment(host, at(EXTERNAL, 40_000), SYN);
    assert_eq!(lane.out(0, &mut opens), Verdict::Untouched);
    assert_eq!(lane.nat.sessions(), 1);
}

/// RFC 5382, REQ-4: who opens a connection to the port of an inside host that may be about to open the same is not answered; nobody else's port is silent.
#[test]
fn two_who_open_a_connection_to_each_other_at_once_are_not_disturbed() {
    let (host, other, remote) = (end("10.0.0.5:4000"), end("10.0.0.6:4100"), end("198.51.100.7:443"));
    let (one_end, other_end) = (at(EXTERNAL, 4000), at(EXTERNAL, 4100));
    let mut lane = Lane::new(&settings());
    let stranger = end("198.51.100.8:5000");
    let come = |lane: &mut Lane, to, flags| lane.nat.incoming(0, &mut segment(stranger, to, flags));
    assert_eq!(come(&mut lane, other_end, SYN), Verdict::Untouched, "nobody has the port");
    assert_eq!(lane.source(0, segment(other, remote, SYN)), other_end);
    assert_eq!(come(&mut lane, other_end, SYN), Verdict::Refused(Cause::Unasked));
    assert_eq!(lane.nat.counts().refused_unfit, 1);
    for flags in [ACK, SYN.with(ACK), FIN, SYN.with(corelane_wire::packet::tcp::Flags::RST)] {
        assert_eq!(come(&mut lane, other_end, flags), Verdict::Untouched, "{flags:?}: it may hear that there is none");
    }
    for beside in [at(EXTERNAL, 4101), at(EXTERNAL, 443)] {
        assert_ne!(come(&mut lane, beside, SYN), Verdict::Refused(Cause::Unasked), "{beside}");
    }
    // The inside host goes on, and the stranger's next comes in.
    assert_eq!(lane.source(0, segment(other, stranger, SYN)), other_end);
    assert_eq!(come(&mut lane, other_end, SYN), Verdict::Translated);
    // Both inside.
    let mut first = segment(host, other_end, SYN);
    assert_eq!(lane.out(0, &mut first), Verdict::Refused(Cause::Unasked), "the other has not sent yet");
    let mut second = segment(other, one_end, SYN);
    assert_eq!(lane.out(0, &mut second), Verdict::Translated);
    assert_eq!(ends(&second), (other_end, host));
    let mut third = segment(host, other_end, SYN);
    assert_eq!(lane.out(0, &mut third), Verdict::Translated);
    assert_eq!(ends(&third), (one_end, other));
}

#[test]
fn forwards_that_cannot_be_are_refused_with_words() {
    let error = |forwards: &[Forward]| Lane::new(&settings()).nat.set_forwards(forwards).unwrap_err();
    let one = forward(Transport::Tcp, 80..=90, 8000);
    let overlapping = error(&[one.clone(), forward(Transport::Tcp, 90..=99, 9000)]);
    let text = "tcp 192.0.2.1:80-90 to 10.0.0.7:8000 and tcp 192.0.2.1:90-99 to 10.0.0.7:9000 have a port in common";
    assert!(overlapping.to_string().starts_with(text), "{overlapping}");
    assert!(matches!(error(&[one.clone(), forward(Transport::Tcp, 91..=99, 8010)]), Error::Overlap { .. }), "at the inside host");
    assert!(Lane::new(&settings()).nat.set_forwards(&[one.clone(), forward(Transport::Udp, 80..=90, 8000)]).is_ok());
    let elsewhere = Forward { external: Ipv4Addr::new(192, 0, 2, 9), ..one.clone() };
    let round = Forward { inside: EXTERNAL, ..one.clone() };
    let over = Forward { inside_port: 65_530, ..one.clone() };
    let none = Forward { ports: RangeInclusive::new(9, 8), ..one.clone() };
    let zero = Forward { inside_port: 0, ..one.clone() };
    for wrong in [elsewhere, round, over, none, zero] {
        assert_eq!(error(std::slice::from_ref(&wrong)), Error::Forward { forward: Box::new(wrong) });
    }
    let many: Vec<_> = (0..1025).map(|number| forward(Transport::Tcp, number + 1..=number + 1, number + 1)).collect();
    assert_eq!(error(&many), Error::Forwards { got: 1025 });
}
