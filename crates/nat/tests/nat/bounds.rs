//! What one host may take, what all may take, and settings that cannot be.

use crate::common::{EXTERNAL, Lane, SECOND, datagram, echo, end, segment};
use corelane_nat::{Cause, Error, Mapping, Nat, Settings, Timeouts, Verdict};
use corelane_rss::{FlowHasher, HashTypes, Key};
use corelane_seam::Random;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

fn from(host: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port)
}

#[test]
fn one_host_takes_no_more_than_its_share() {
    let mut settings = Settings::new(EXTERNAL);
    (settings.sessions_each, settings.mapping) = (100, Mapping::Dependent);
    let mut lane = Lane::new(&settings);
    let honest = lane.source(0, datagram(from(1, 5000), end("198.51.100.7:53"), b""));
    for port in 1..=u16::MAX {
        let verdict = lane.out(0, &mut datagram(from(66, port), end("198.51.100.7:53"), b""));
        assert_eq!(verdict, if port <= 100 { Verdict::Translated } else { Verdict::Refused(Cause::Source) });
    }
    assert_eq!((lane.nat.sessions(), lane.nat.counts().refused_source), (101, 65_435));
    assert_eq!(lane.destination(0, datagram(end("198.51.100.7:53"), honest, b"")), Some(from(1, 5000)));
    lane.source(0, datagram(from(2, 5000), end("198.51.100.7:53"), b""));
    // When its sessions have ended it may begin as many again.
    lane.nat.expire(400 * SECOND, 10_000);
    assert_eq!((lane.nat.sessions(), lane.nat.ports()), (0, 0));
    assert_eq!(lane.out(400 * SECOND, &mut datagram(from(66, 1), end("198.51.100.7:53"), b"")), Verdict::Translated);
}

#[test]
fn sessions_are_bounded_in_all() {
    let mut settings = Settings::new(EXTERNAL);
    settings.sessions = 50;
    let mut lane = Lane::new(&settings);
    for host in 0..=255 {
        let verdict = lane.out(0, &mut datagram(from(host, 5000), end("198.51.100.7:53"), b""));
        assert_eq!(verdict, if host < 50 { Verdict::Translated } else { Verdict::Refused(Cause::Sessions) }, "{host}");
    }
    assert_eq!(lane.nat.counts().refused_sessions, 206);
    assert!(lane.nat.memory_bytes() < 4096, "{}", lane.nat.memory_bytes());
}

/// Ports end before sessions do; a host goes to the next external address when its own has none left (RFC 4787, REQ-2: as long as it can, it keeps to one).
#[test]
fn ports_are_given_to_one_end_each_until_there_are_none() {
    let mut settings = Settings::new(EXTERNAL);
    (settings.ports, settings.mapping) = (2000..=2099, Mapping::Dependent);
    settings.externals.push(Ipv4Addr::new(192, 0, 2, 2));
    let mut lane = Lane::new(&settings);
    let sources: Vec<_> =
        (0..200).map(|port| lane.source(0, datagram(from(1, 6000 + port), end("198.51.100.7:53"), b""))).collect();
    let mut different = sources.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), 200);
    assert!(sources[..100].iter().all(|source| source.ip() == sources[0].ip()) && sources[199].ip() != sources[0].ip());
    let refused = lane.out(0, &mut datagram(from(1, 7000), end("198.51.100.7:53"), b""));
    assert_eq!((refused, lane.nat.counts().refused_ports), (Verdict::Refused(Cause::Ports), 1));
    lane.source(0, segment(from(1, 7000), end("198.51.100.7:53"), crate::common::SYN));
    lane.source(0, echo(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(198, 51, 100, 7), 1, false));
}

/// Where no port of the wished parity is left, one of the other brings answers home as well (RFC 4787, section 4.2.2: it is kept where that can be).
#[test]
fn a_port_of_the_other_parity_brings_answers_home() {
    let mut settings = Settings::new(EXTERNAL);
    (settings.ports, settings.mapping) = (2000..=2009, Mapping::Dependent);
    let mut lane = Lane::new(&settings);
    let ports: Vec<u16> =
        (0..10).map(|number| lane.source(0, datagram(from(1, 6000 + 2 * number), end("198.51.100.7:53"), b"")).port()).collect();
    assert!(ports[..5].iter().all(|port| port % 2 == 0) && ports[5..].iter().all(|port| port % 2 == 1), "{ports:?}");
    assert_eq!((lane.nat.ports(), lane.nat.counts().away), (10, 0));
}

/// Each packet ends what is over as fast as others may begin: what has ended keeps nobody out for long.
#[test]
fn sessions_end_as_fast_as_they_begin() {
    let mut settings = Settings::new(EXTERNAL);
    (settings.sessions, settings.timeouts.udp) = (300, 1);
    let mut lane = Lane::new(&settings);
    for number in 0..40_000 {
        let inside = from((number % 200) as u8, 1 + (number / 200) as u16);
        let verdict = lane.out(number * SECOND / 100, &mut datagram(inside, end("198.51.100.7:53"), b""));
        assert_eq!(verdict, Verdict::Translated, "{number}");
    }
}

/// Whatever is refused leaves nothing behind, and all that begins ends.
#[test]
fn what_begins_ends() {
    let mut settings = Settings::new(EXTERNAL);
    (settings.sessions, settings.sessions_each, settings.ports) = (300, 20, 3000..=3199);
    let (mut lane, mut random, mut now) = (Lane::new(&settings), Random::new(5), 0);
    for _ in 0..200_000 {
        now += random.below(SECOND / 2);
        let inside = from(random.below(20) as u8, random.below(50) as u16 + 1);
        let remote = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, random.below(4) as u8), 53);
        let mut bytes = match random.below(3) {
            0 => datagram(inside, remote, b""),
            1 => segment(inside, remote, corelane_wire::packet::tcp::Flags::of_bits(random.below(32) as u16)),
            _ => echo(*inside.ip(), *remote.ip(), inside.port(), false),
        };
        let verdict = lane.out(now, &mut bytes);
        assert!(!matches!(verdict, Verdict::Untouched | Verdict::Elsewhere(_)), "{verdict:?}");
        let counts = lane.nat.counts();
        assert_eq!(lane.nat.sessions() as u64, counts.begun - counts.ended);
        assert!(lane.nat.sessions() <= 300 && lane.nat.ports() <= lane.nat.sessions());
    }
    let counts = lane.nat.counts();
    assert!(counts.refused_source > 0 && counts.ended > 1_000, "{counts:?}");
    lane.nat.expire(now + 10_000 * SECOND, 100_000);
    assert_eq!((lane.nat.sessions(), lane.nat.ports()), (0, 0));
}

#[test]
fn settings_that_cannot_be_are_refused_with_words() {
    let error = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::new(EXTERNAL);
        change(&mut settings);
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        Nat::new(&settings, hasher, || 7).unwrap_err()
    };
    assert_eq!(error(&|settings| settings.externals.clear()), Error::Externals { got: 0 });
    let many = |count: u32| (0..count).map(|number| Ipv4Addr::from_bits(0xc000_0200 + number)).collect();
    assert_eq!(error(&|settings| settings.externals = many(257)), Error::Externals { got: 257 });
    let mut settings = Settings::new(EXTERNAL);
    settings.externals = many(256);
    assert!(Lane::new(&settings).nat.is_external(settings.externals[255]));
    assert_eq!(error(&|settings| settings.externals = vec![EXTERNAL; 2]), Error::Twice { external: EXTERNAL });
    assert_eq!(error(&|settings| settings.lane = (4, 4)), Error::Ports { ports: 1024..=65535, lane: 4, lanes: 4 });
    assert_eq!(
        error(&|settings| (settings.ports, settings.lane) = (2000..=2006, (0, 4))),
        Error::Ports { ports: 2000..=2006, lane: 0, lanes: 4 }
    );
    assert_eq!(error(&|settings| settings.ports = 0..=9), Error::Ports { ports: 0..=9, lane: 0, lanes: 1 });
    let none = error(&|settings| settings.sessions = 0);
    assert_eq!(none.to_string(), "0 sessions, 2048 of one address: there may be 1 to 16777216, and of one address 1 at least");
    assert_eq!(error(&|settings| settings.sessions_each = 0), Error::Sessions { got: 131_072, each: 0 });
    assert_eq!(error(&|settings| settings.sessions = (1 << 24) + 1), Error::Sessions { got: (1 << 24) + 1, each: 2048 });
    assert_eq!(error(&|settings| settings.timeouts.udp = 0), Error::Timeout { got: 0 });
    assert_eq!(
        error(&|settings| settings.timeouts = Timeouts { echo: 8_001, ..Timeouts::default() }),
        Error::Timeout { got: 8_001 }
    );
}
