//! Errors about packets that were translated, and packets that make no sense.

use crate::common::{EXTERNAL, Lane, SECOND, SYN, datagram, echo, end, ends, ip, packet, segment};
use corelane_nat::{Cause, Forward, Settings, Verdict};
use corelane_rss::{Protocol, Transport, Tuple};
use corelane_seam::Random;
use corelane_wire::packet::checksum::Sum;
use corelane_wire::packet::{IpProtocol, icmp};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// An error that quotes so many bytes of a packet.
fn error(from: Ipv4Addr, to: Ipv4Addr, about: &[u8], quoted: usize) -> Vec<u8> {
    let quoted = &about[..quoted.min(about.len())];
    let message = icmp::Message::TimeExceeded { code: icmp::Code::new(0).unwrap(), packet: quoted };
    packet(&ip(IpProtocol::ICMP, from, to), 8 + quoted.len(), |writer| message.emit(writer).unwrap())
}

/// RFC 5508, section 4: the packet inside an error becomes what the host has sent, and every checksum is right.
#[test]
fn an_error_tells_the_host_of_what_it_has_sent() {
    let (inside, remote) = (end("10.0.0.5:4001"), end("198.51.100.7:53"));
    let sent =
        [datagram(inside, remote, b"question"), segment(inside, remote, SYN), echo(*inside.ip(), *remote.ip(), 4001, false)];
    for before in sent {
        for quoted in [28, 36, 38, 40, 576] {
            let mut lane = Lane::new(&Settings::new(EXTERNAL));
            lane.source(0, datagram(end("10.0.0.4:4001"), end("198.51.100.7:1"), b""));
            lane.source(0, segment(end("10.0.0.4:4001"), end("198.51.100.7:1"), SYN));
            lane.source(0, echo(Ipv4Addr::new(10, 0, 0, 4), Ipv4Addr::new(198, 51, 100, 9), 4001, false));
            let mut after = before.clone();
            assert_eq!(lane.out(0, &mut after), Verdict::Translated);
            assert_ne!(after[20..26], before[20..26], "another port");
            let mut told = error(ROUTER, EXTERNAL, &after, quoted);
            assert_eq!(lane.nat.incoming(0, &mut told), Verdict::Translated);
            let ends = ends(&told);
            assert_eq!((ends.0.ip(), ends.1.ip()), (&ROUTER, inside.ip()));
            assert_eq!(told[28..], before[..quoted.min(before.len())], "{quoted} bytes of it");
        }
    }
}

/// All kinds of errors, source quench among them (RFC 792); a redirect tells of a way of the outside, and is for nobody inside (RFC 5508, section 4).
#[test]
fn each_kind_of_error_is_translated_and_nothing_else_that_quotes() {
    let (inside, remote) = (end("10.0.0.5:4001"), end("198.51.100.7:53"));
    for (kind, is_translated) in [(3, true), (4, true), (11, true), (12, true), (5, false), (13, false)] {
        let mut lane = Lane::new(&Settings::new(EXTERNAL));
        let before = datagram(inside, remote, b"question");
        let mut sent = before.clone();
        assert_eq!(lane.out(0, &mut sent), Verdict::Translated);
        let mut told = error(ROUTER, EXTERNAL, &sent, 576);
        told[20] = kind;
        told[22..24].fill(0);
        let sum = Sum::of(&told[20..]).checksum();
        told[22..24].copy_from_slice(&sum.to_be_bytes());
        let came = told.clone();
        if is_translated {
            assert_eq!(lane.nat.incoming(0, &mut told), Verdict::Translated, "{kind}");
            assert_eq!((ends(&told).1.ip(), &told[28..]), (inside.ip(), &before[..]), "{kind}");
        } else {
            assert_eq!((lane.nat.incoming(0, &mut told), told), (Verdict::Untouched, came), "{kind}");
        }
    }
}

/// The flow of an error is that of the host which has asked: from inside as he has sent, from outside as answers come.
#[test]
fn an_error_is_of_the_flow_that_it_is_about() {
    let (inside, remote) = (end("10.0.0.5:4001"), end("198.51.100.7:53"));
    let mut lane = Lane::new(&Settings::new(EXTERNAL).for_lane(1, 4));
    let source = lane.source(0, datagram(inside, remote, b"question"));
    let flow = |from: SocketAddrV4, to: SocketAddrV4| {
        let tuple = Tuple::new(SocketAddr::V4(from), SocketAddr::V4(to), Protocol::UDP).unwrap();
        Some(lane.hasher.tuple(&tuple).unwrap().flow)
    };
    let answer = datagram(remote, inside, b"answer");
    let from_inside = error(Ipv4Addr::new(10, 0, 9, 1), *remote.ip(), &answer, 28);
    assert_eq!(lane.nat.flow_of_error(&from_inside, 0), flow(inside, remote));
    let from_outside = error(ROUTER, EXTERNAL, &datagram(source, remote, b"question"), 28);
    let flow_in = lane.nat.flow_of_error(&from_outside, 0);
    assert!(flow_in == flow(remote, source) && lane.is_home(flow_in.unwrap()));
    let request = echo(*inside.ip(), *remote.ip(), 7, false);
    for other in [&answer[..], &from_inside[..40], &request[..], &[][..]] {
        assert_eq!(lane.nat.flow_of_error(other, 0), None);
    }
}

/// The other way: an inside host complains of an answer.
#[test]
fn an_error_from_inside_tells_of_what_came_from_outside() {
    let (inside, remote) = (end("10.0.0.5:4001"), end("198.51.100.7:53"));
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    let source = lane.source(0, datagram(inside, remote, b"question"));
    let before = datagram(remote, source, b"answer");
    let mut after = before.clone();
    assert_eq!(lane.nat.incoming(0, &mut after), Verdict::Translated);
    let mut told = error(*inside.ip(), *remote.ip(), &after, 576);
    assert_eq!(lane.out(0, &mut told), Verdict::Translated);
    assert_eq!((ends(&told).0.ip(), &told[28..]), (source.ip(), &before[..]));
    let mut foreign = error(*inside.ip(), *remote.ip(), &datagram(remote, end("10.0.0.5:9"), b""), 576);
    assert_eq!(lane.out(0, &mut foreign), Verdict::Untouched);
}

#[test]
fn an_error_keeps_no_session_and_its_lane_is_found() {
    let (inside, remote) = (end("10.0.0.5:4001"), end("198.51.100.7:53"));
    let mut lanes: Vec<Lane> = (0..2).map(|lane| Lane::new(&Settings::new(EXTERNAL).for_lane(lane, 2))).collect();
    let mut sent = datagram(inside, remote, b"question");
    assert_eq!(lanes[1].out(0, &mut sent), Verdict::Translated);
    let told = error(ROUTER, EXTERNAL, &sent, 576);
    assert_eq!(lanes[0].nat.incoming(0, &mut told.clone()), Verdict::Elsewhere(1));
    assert_eq!(lanes[1].nat.incoming(200 * SECOND, &mut told.clone()), Verdict::Translated);
    assert_eq!(lanes[1].nat.incoming(400 * SECOND, &mut told.clone()), Verdict::Untouched);
    let mut elsewhere = error(ROUTER, Ipv4Addr::new(192, 0, 2, 9), &sent, 576);
    assert_eq!(lanes[1].nat.incoming(0, &mut elsewhere), Verdict::Untouched, "it quotes what another has sent");
}

/// The last port of what was sent, its addresses, or its class: another packet than those that were sent is nobody's.
#[test]
fn an_error_about_what_nobody_has_sent_goes_to_nobody() {
    let (inside, remote) = (end("10.0.0.5:4001"), end("198.51.100.7:53"));
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    let source = lane.source(0, datagram(inside, remote, b"question"));
    for wrong in [
        datagram(source, end("198.51.100.7:54"), b""),
        datagram(source, end("198.51.100.8:53"), b""),
        datagram(SocketAddrV4::new(EXTERNAL, 4003), remote, b""),
        segment(source, remote, SYN),
    ] {
        assert_eq!(lane.nat.incoming(0, &mut error(ROUTER, EXTERNAL, &wrong, 576)), Verdict::Untouched);
    }
}

#[test]
fn parts_and_what_has_no_ports_are_refused() {
    let (inside, remote) = (end("10.0.0.5:4001"), end("198.51.100.7:53"));
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    let mut part = datagram(inside, remote, b"question");
    part[6] = 0x20;
    assert_eq!(lane.out(0, &mut part), Verdict::Refused(Cause::Fragment));
    let mut gre = packet(&ip(IpProtocol::GRE, *inside.ip(), *remote.ip()), 8, |_| ());
    assert_eq!(lane.out(0, &mut gre), Verdict::Refused(Cause::Protocol));
    let whole = segment(inside, remote, SYN);
    for length in 0..whole.len() {
        assert_eq!(lane.out(0, &mut whole[..length].to_vec()), Verdict::Refused(Cause::Malformed), "{length} bytes");
    }
    // A packet whose own length is shorter than its transport's header.
    let mut short = packet(&ip(IpProtocol::TCP, *inside.ip(), *remote.ip()), 19, |_| ());
    assert_eq!(lane.out(0, &mut short), Verdict::Refused(Cause::Malformed));
    assert_eq!((lane.nat.sessions(), lane.nat.counts().refused_unfit), (0, 43));
    // An error about a later part quotes no ports.
    let source = lane.source(0, datagram(inside, remote, b"question"));
    let mut later = datagram(source, remote, b"question");
    assert_eq!(lane.nat.incoming(0, &mut error(ROUTER, EXTERNAL, &later, 576)), Verdict::Translated);
    later[7] = 1;
    assert_eq!(lane.nat.incoming(0, &mut error(ROUTER, EXTERNAL, &later, 576)), Verdict::Untouched);
}

/// Bytes that were changed at random: nothing panics, and what is not translated is as it was.
#[test]
fn bad_bytes_do_no_harm() {
    let (inside, remote) = (end("10.0.0.5:4001"), end("198.51.100.7:53"));
    let mut settings = Settings::new(EXTERNAL).for_lane(0, 2);
    settings.forwards = vec![Forward {
        transport: Transport::Udp,
        external: EXTERNAL,
        ports: 8000..=8999,
        inside: Ipv4Addr::new(10, 0, 0, 7),
        inside_port: 1,
    }];
    let (mut lane, mut random) = (Lane::new(&settings), Random::new(11));
    let source = lane.source(0, datagram(inside, remote, b"question"));
    let kinds = [
        datagram(inside, remote, b"question"),
        datagram(remote, source, b"answer"),
        segment(inside, remote, SYN),
        echo(*inside.ip(), *remote.ip(), 7, false),
        error(ROUTER, EXTERNAL, &datagram(source, remote, b"question"), 576),
        error(*inside.ip(), *remote.ip(), &datagram(remote, inside, b"answer"), 576),
    ];
    let mut verdicts = [0_u64; 4];
    for _ in 0..200_000 {
        let mut bytes = kinds[random.index(kinds.len())].clone();
        for _ in 0..random.one_to(3) {
            let at = random.index(bytes.len());
            bytes[at] = random.bits() as u8;
        }
        bytes.truncate(if random.below(4) == 0 { random.index(bytes.len() + 1) } else { bytes.len() });
        let before = bytes.clone();
        let verdict = if random.below(2) == 0 { lane.out(0, &mut bytes) } else { lane.nat.incoming(0, &mut bytes) };
        verdicts[match verdict {
            Verdict::Translated => 0,
            Verdict::Untouched => 1,
            Verdict::Elsewhere(_) => 2,
            Verdict::Refused(_) => 3,
        }] += 1;
        assert!(bytes == before || !matches!(verdict, Verdict::Untouched), "{verdict:?}");
        assert_eq!(bytes.len(), before.len());
    }
    assert!(verdicts.iter().all(|count| *count > 300), "{verdicts:?}");
}
