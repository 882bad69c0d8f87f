//! Flows and their answers: mappings, ports, lanes, timeouts.

use crate::common::{ACK, EXTERNAL, FIN, Lane, SECOND, SYN, datagram, echo, end, ends, segment};
use corelane_nat::{Mapping, Nat, Settings, Timeouts, Verdict};
use corelane_rss::{Protocol, Tuple};
use corelane_seam::Random;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

const INSIDE: &str = "10.0.0.5:4000";
const REMOTE: &str = "198.51.100.7:53";

#[test]
fn answers_find_their_way_back() {
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    let (inside, remote) = (end(INSIDE), end(REMOTE));
    let source = lane.source(0, datagram(inside, remote, b"question"));
    assert_eq!(source, SocketAddrV4::new(EXTERNAL, 4000), "the port is kept where it is free");
    assert_eq!(lane.destination(1, datagram(remote, source, b"answer!")), Some(inside));
    let source = lane.source(2, segment(inside, remote, SYN));
    assert_eq!(lane.destination(3, segment(remote, source, SYN.with(ACK))), Some(inside));
    let source = lane.source(4, echo(*inside.ip(), *remote.ip(), 77, false));
    assert_eq!(lane.destination(5, echo(*remote.ip(), EXTERNAL, source.port(), true)).map(|to| *to.ip()), Some(*inside.ip()));
    assert_eq!(
        (lane.nat.sessions(), lane.nat.counts().begun, lane.nat.counts().away),
        (3, 3, 1),
        "an echo has no ports to choose"
    );
    // With the same identifier to somebody else it keeps what stands for that, and has nothing to choose there either.
    let other = lane.source(6, echo(*inside.ip(), Ipv4Addr::new(198, 51, 100, 9), 77, false));
    assert_eq!((other, lane.nat.counts().begun, lane.nat.counts().away), (source, 4, 2));
}

/// Whoever was not sent to does not come in: the gateway gets it as it was (RFC 4787, section 5).
#[test]
fn strangers_stay_outside() {
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    let (inside, remote) = (end(INSIDE), end(REMOTE));
    let source = lane.source(0, datagram(inside, remote, b""));
    for stranger in ["198.51.100.8:53", "198.51.100.7:54"] {
        assert_eq!(lane.destination(1, datagram(end(stranger), source, b"")), None, "{stranger}");
    }
    assert_eq!(lane.destination(1, segment(remote, source, SYN)), None, "another protocol");
    assert_eq!(lane.destination(1, datagram(remote, SocketAddrV4::new(EXTERNAL, 4001), b"")), None);
    assert_eq!(lane.destination(1, datagram(remote, end("192.0.2.2:4000"), b"")), None, "another address");
    assert_eq!(lane.destination(1, echo(*remote.ip(), EXTERNAL, 4000, false)), None, "a request is for the gateway");
    assert_eq!(lane.nat.sessions(), 1);
}

#[test]
fn what_the_gateway_itself_sends_is_its_own() {
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    let mut own = datagram(SocketAddrV4::new(EXTERNAL, 123), end(REMOTE), b"");
    let mut reply = echo(Ipv4Addr::new(10, 0, 0, 5), Ipv4Addr::new(198, 51, 100, 7), 7, true);
    assert_eq!((lane.out(0, &mut own), lane.out(0, &mut reply)), (Verdict::Untouched, Verdict::Untouched));
    assert_eq!(lane.nat.sessions(), 0);
}

#[test]
fn a_checksum_of_udp_that_is_none_stays_none() {
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    let mut bytes = datagram(end(INSIDE), end(REMOTE), b"data");
    bytes[26..28].fill(0);
    assert_eq!(lane.out(0, &mut bytes), Verdict::Translated);
    assert_eq!(bytes[26..28], [0, 0]);
    assert_eq!(ends(&bytes).0, SocketAddrV4::new(EXTERNAL, 4000));
}

/// Of all data of two bytes, those are among them whose checksum comes out as 0, in each direction.
#[test]
fn a_checksum_of_udp_that_would_be_none_is_all_ones() {
    let (inside, remote) = (end(INSIDE), end(REMOTE));
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    let (mut ones, mut ones_back) = (0, 0);
    for data in 0..=u16::MAX {
        let mut bytes = datagram(inside, remote, &data.to_be_bytes());
        assert_eq!(lane.out(0, &mut bytes), Verdict::Translated);
        ends(&bytes);
        ones += usize::from(bytes[26..28] == [0xff, 0xff]);
        let mut back = datagram(remote, SocketAddrV4::new(EXTERNAL, 4000), &data.to_be_bytes());
        assert_eq!(lane.nat.incoming(0, &mut back), Verdict::Translated);
        ends(&back);
        ones_back += usize::from(back[26..28] == [0xff, 0xff]);
    }
    assert!(ones > 0 && ones_back > 0, "{ones} and {ones_back}");
}

/// RFC 4787, REQ-1: with one lane every answer comes home, so that one port is enough; and the parity of a port is kept (REQ-4).
#[test]
fn a_port_is_kept_for_all_destinations_unless_each_flow_is_to_have_its_own() {
    let remote = |number: u16| SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, number as u8), 1000 + number);
    let ports = |mapping: Mapping| {
        let mut settings = Settings::new(EXTERNAL);
        settings.mapping = mapping;
        let mut lane = Lane::new(&settings);
        (0..200).map(|number| lane.source(0, datagram(end(INSIDE), remote(number), b"")).port()).collect::<BTreeSet<_>>()
    };
    assert_eq!(ports(Mapping::Independent).len(), 1);
    let own = ports(Mapping::Dependent);
    assert_eq!(own.len(), 200);
    assert!(own.iter().all(|port| port % 2 == 0), "{own:?}");
}

#[test]
fn two_hosts_never_share_a_port() {
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    let host = |number: u32| SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0000 + number), 4001);
    let ports: Vec<u16> = (1..=500).map(|number| lane.source(0, datagram(host(number), end(REMOTE), b"")).port()).collect();
    assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 500);
    assert!(ports.iter().all(|port| port % 2 == 1));
    for (number, port) in (1..).zip(&ports) {
        assert_eq!(lane.destination(1, datagram(end(REMOTE), SocketAddrV4::new(EXTERNAL, *port), b"")), Some(host(number)));
    }
}

/// Each lane chooses ports with which answers come to it; what comes elsewhere all the same is handed to the lane whose port it is.
#[test]
fn answers_come_home_to_the_lane_that_has_asked() {
    let lanes: usize = 5;
    let mut all: Vec<Lane> = (0..lanes).map(|lane| Lane::new(&Settings::new(EXTERNAL).for_lane(lane, lanes))).collect();
    for number in 0..2_000_u32 {
        let lane = number as usize % lanes;
        let inside = SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0000 + number / 50), 2000 + (number % 50) as u16);
        let remote = SocketAddrV4::new(Ipv4Addr::from_bits(0xc633_6400 + number % 7), 443);
        let source = all[lane].source(0, segment(inside, remote, SYN));
        let tuple = Tuple::new(SocketAddr::V4(remote), SocketAddr::V4(source), Protocol::TCP).unwrap();
        let flow = all[lane].hasher.tuple(&tuple).unwrap().flow;
        assert!(all[lane].is_home(flow), "session {number}");
        let mut answer = segment(remote, source, SYN.with(ACK));
        assert_eq!(all[(lane + 1) % lanes].nat.incoming(0, &mut answer), Verdict::Elsewhere(lane));
        assert_eq!(all[lane].destination(0, answer), Some(inside));
    }
    assert!(all.iter().all(|lane| lane.nat.counts().away == 0 && lane.nat.sessions() == 400));
    // An echo has no port that could be chosen: its identifier says whose it is.
    let source = all[3].source(0, echo(Ipv4Addr::new(10, 0, 0, 9), Ipv4Addr::new(198, 51, 100, 7), 7, false));
    let mut reply = echo(Ipv4Addr::new(198, 51, 100, 7), EXTERNAL, source.port(), true);
    assert_eq!(all[0].nat.incoming(0, &mut reply), Verdict::Elsewhere(3));
    assert_eq!((all[3].nat.counts().away, all[0].nat.counts().elsewhere), (1, 401));
    // Beyond the last lane's ports nobody's are.
    assert_eq!(all[0].nat.incoming(0, &mut datagram(end(REMOTE), SocketAddrV4::new(EXTERNAL, 1023), b"")), Verdict::Untouched);
}

/// With several lanes a port is kept wherever its answers come home: far fewer ports than flows.
#[test]
fn a_port_is_kept_where_the_hash_permits() {
    let mut lane = Lane::new(&Settings::new(EXTERNAL).for_lane(1, 4));
    let remote = |number: u16| SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, number as u8), 1000 + number);
    let mut ports = BTreeSet::new();
    for number in 0..200 {
        let source = lane.source(0, datagram(end(INSIDE), remote(number), b""));
        let answer = Tuple::new(SocketAddr::V4(remote(number)), SocketAddr::V4(source), Protocol::UDP).unwrap();
        assert!(lane.is_home(lane.hasher.tuple(&answer).unwrap().flow), "{number}");
        ports.insert(source.port());
    }
    assert!(ports.len() < 50, "{}", ports.len());
    assert_eq!((lane.nat.sessions(), lane.nat.counts().away, lane.nat.ports()), (200, 0, ports.len()));
}

/// The first and the last second of each kind (RFC 4787, REQ-5 and REQ-6; RFC 5382, REQ-5; RFC 5508, REQ-2).
#[test]
fn sessions_end_when_nothing_was_sent_for_their_time() {
    let (inside, remote) = (end(INSIDE), end(REMOTE));
    let Timeouts { udp, established, transitory, echo: echo_time } = Timeouts::default();
    assert_eq!((udp, established, transitory, echo_time), (300, 7440, 240, 60));
    let late = SECOND - 1;
    for (seconds, is_there) in [(udp, true), (udp + 2, false)] {
        let mut lane = Lane::new(&Settings::new(EXTERNAL));
        let source = lane.source(late, datagram(inside, remote, b""));
        lane.destination(100 * SECOND + late, datagram(remote, source, b""));
        let back = datagram(remote, source, b"");
        let now = 100 * SECOND + late + u64::from(seconds) * SECOND;
        assert_eq!(lane.destination(now, back).is_some(), is_there, "{seconds} seconds after an answer");
        lane.nat.expire(now, 100_000);
        assert_eq!(lane.nat.sessions(), usize::from(is_there));
    }
    let connection: &[(bool, corelane_wire::packet::tcp::Flags)] =
        &[(true, SYN), (false, SYN.with(ACK)), (true, ACK), (true, FIN.with(ACK)), (false, FIN.with(ACK)), (true, ACK)];
    for (segments, timeout) in
        [(1, transitory), (2, transitory), (3, established), (4, established), (5, transitory), (6, transitory)]
    {
        for (seconds, is_there) in [(timeout, true), (timeout + 2, false)] {
            let mut lane = Lane::new(&Settings::new(EXTERNAL));
            let mut source = SocketAddrV4::new(EXTERNAL, inside.port());
            for (is_out, flags) in &connection[..segments] {
                match is_out {
                    true => source = lane.source(late, segment(inside, remote, *flags)),
                    false => assert_eq!(lane.destination(late, segment(remote, source, *flags)), Some(inside)),
                }
            }
            lane.nat.expire(late + u64::from(seconds) * SECOND, 100_000);
            assert_eq!(lane.nat.sessions(), usize::from(is_there), "{segments} segments, {seconds} seconds");
        }
    }
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    lane.source(late, echo(*inside.ip(), *remote.ip(), 7, false));
    lane.nat.expire(late + u64::from(echo_time) * SECOND, 100_000);
    assert_eq!(lane.nat.sessions(), 1);
    lane.nat.expire(late + u64::from(echo_time + 2) * SECOND, 100_000);
    assert_eq!((lane.nat.sessions(), lane.nat.ports(), lane.nat.counts().ended), (0, 0, 1));
}

/// A connection that was established for long gives its port back soon after it is closed, not hours later.
#[test]
fn a_closed_connection_ends_early() {
    let (inside, remote, mut lane) = (end(INSIDE), end(REMOTE), Lane::new(&Settings::new(EXTERNAL)));
    let source = lane.source(0, segment(inside, remote, SYN));
    lane.destination(0, segment(remote, source, SYN.with(ACK)));
    lane.source(0, segment(inside, remote, ACK));
    for second in 1..1_000 {
        lane.nat.expire(second * SECOND, 1_000);
    }
    assert_eq!(lane.nat.sessions(), 1);
    lane.source(1_000 * SECOND, segment(inside, remote, FIN.with(ACK)));
    lane.destination(1_000 * SECOND, segment(remote, source, FIN.with(ACK)));
    lane.nat.expire(1_242 * SECOND, 1_000);
    assert_eq!((lane.nat.sessions(), lane.nat.ports()), (0, 0));
}

/// A session that is used lives on, however often its place in the wheel comes; one that ended long ago begins anew, though nobody has taken it out.
#[test]
fn what_is_used_lives_on() {
    let (inside, remote) = (end(INSIDE), end(REMOTE));
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    let source = lane.source(0, datagram(inside, remote, b""));
    let other = lane.source(0, datagram(end("10.0.0.6:4000"), remote, b""));
    for step in 1..200 {
        let now = step * 250 * SECOND;
        assert_eq!(lane.source(now, datagram(inside, remote, b"")), source);
        if step != 2 {
            assert_eq!(lane.destination(now, datagram(remote, other, b"")).is_some(), step == 1, "{step}");
        }
        lane.nat.expire(now, 1_000);
    }
    assert_eq!(lane.nat.sessions(), 1);
    assert_eq!((lane.nat.counts().begun, lane.nat.counts().ended), (2, 1));
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    lane.source(0, datagram(inside, remote, b""));
    lane.source(1_000_000 * SECOND, datagram(inside, remote, b""));
    assert_eq!((lane.nat.counts().begun, lane.nat.counts().ended, lane.nat.sessions()), (2, 1, 1));
}

/// Lanes have equal parts: of what is left over nobody is the owner, from whichever side a packet comes.
#[test]
fn ports_behind_the_last_lanes_are_nobodys() {
    let lanes = 5;
    for lane in 0..lanes {
        let mut lane = Lane::new(&Settings::new(EXTERNAL).for_lane(lane, lanes));
        // Of 64,512 ports each lane has 12,902.
        for port in [65_534, 65_535] {
            let (nobodys, inside) = (SocketAddrV4::new(EXTERNAL, port), end(INSIDE));
            for mut bytes in [datagram(end(REMOTE), nobodys, b""), segment(end(REMOTE), nobodys, SYN)] {
                assert_eq!(lane.nat.incoming(0, &mut bytes), Verdict::Untouched, "{port}");
            }
            for mut bytes in [datagram(inside, nobodys, b""), segment(inside, nobodys, SYN)] {
                assert_eq!(lane.out(0, &mut bytes), Verdict::Untouched, "{port}");
            }
        }
        let last = SocketAddrV4::new(EXTERNAL, 65_533);
        let should = if lane.lane == lanes - 1 { Verdict::Untouched } else { Verdict::Elsewhere(lanes - 1) };
        assert_eq!(lane.nat.incoming(0, &mut datagram(end(REMOTE), last, b"")), should);
    }
}

/// RFC 6056, section 3: who sees some ports cannot tell the next one; another secret gives others.
#[test]
fn no_port_follows_from_another() {
    let ports = |seed: u64| {
        let settings = Settings::new(EXTERNAL);
        let mut random = Random::new(seed);
        let mut lane = Lane::new(&settings);
        lane.nat = Nat::new(&settings, lane.hasher.clone(), || random.bits()).unwrap();
        // The first host has the port itself.
        let host = |number: u32| SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0000 + number), 4001);
        (0..101).map(|number| lane.source(0, datagram(host(number), end(REMOTE), b"")).port()).skip(1).collect::<Vec<_>>()
    };
    let (one, other) = (ports(1), ports(2));
    assert!(one.iter().zip(&other).filter(|(one, other)| one == other).count() < 5, "{one:?} {other:?}");
    let eighths: BTreeSet<u16> = one.iter().map(|port| port / 8192).collect();
    assert_eq!(eighths.len(), 8, "they are of all ports: {one:?}");
    assert!(one.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 2).count() < 5, "{one:?}");
}

/// The clock is the machine's, which may have run for weeks: sessions end in their time all the same.
#[test]
fn sessions_that_begin_late_end_in_time() {
    const WEEKS: u64 = 3_000_000 * SECOND;
    let mut lane = Lane::new(&Settings::new(EXTERNAL));
    lane.nat.expire(WEEKS, 1);
    for round in [1, 2] {
        let now = round * WEEKS;
        lane.source(now, datagram(end(INSIDE), end(REMOTE), b""));
        lane.nat.expire(now + 300 * SECOND, 400);
        assert_eq!(lane.nat.sessions(), 1);
        lane.nat.expire(now + 302 * SECOND, 400);
        assert_eq!((lane.nat.sessions(), lane.nat.ports()), (0, 0), "round {round}");
        // Nothing is in any list now.
        lane.nat.expire(2 * now, 1);
    }
}
