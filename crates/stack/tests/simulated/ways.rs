//! Ways to others: which are narrow, whose router has an address of the link alone, and by which a sender has chosen to go.

use crate::alone::{Alone, put_together};
use crate::frames::{
    STACK, STACK_V6, TEST, TEST_MAC, TEST_V6, addresses, advertisement, datagram, echo, ethernet, packets, udp, written,
};
use crate::lanes::{ADDRESSES, mac, meet, plan};
use crate::program::Program;
use corelane_seam::Socket;
use corelane_stack::Drop;
use corelane_wire::packet::checksum::Sum;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::{EtherType, IpProtocol, Packet, UpperLayer, fragment, icmp, icmpv6, udp as udp_header};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const PORT: u16 = 60_007;
const ENDS: [(IpAddr, IpAddr); 2] = [(IpAddr::V4(TEST), IpAddr::V4(STACK)), (IpAddr::V6(TEST_V6), IpAddr::V6(STACK_V6))];

/// A frame in which a router says that of this packet only so many bytes pass.
fn too_big(alone: &Alone, ends: (IpAddr, IpAddr), most: u32, frame: &[u8]) -> Vec<u8> {
    too_big_to(alone.mac(), ends, most, frame)
}

/// The same, to that station.
fn too_big_to(mac: Mac, (from, to): (IpAddr, IpAddr), most: u32, frame: &[u8]) -> Vec<u8> {
    let packet = &frame[14..frame.len().min(14 + 500)];
    let (protocol, kind, message) = match from.is_ipv4() {
        true => {
            let message = icmp::Message::TooBig { most: most as u16, packet };
            (IpProtocol::ICMP, EtherType::IPV4, written(600, |writer| message.emit(writer)))
        }
        false => {
            let message = icmpv6::Message::TooBig { most, packet };
            (IpProtocol::ICMPV6, EtherType::IPV6, written(600, |writer| message.emit(&addresses(from, to), writer)))
        }
    };
    ethernet(mac, kind, &packets(from, to, protocol, &message, 65_528, 1)[0])
}

/// Frames that carry so many bytes to the test's machine.
fn sent(alone: &mut Alone, socket: Socket, to: SocketAddr, bytes: usize) -> Vec<Vec<u8>> {
    assert_eq!(alone.send(socket, to, &vec![7; bytes]), (1, 0));
    alone.test.take()
}

#[test]
fn a_router_that_says_a_packet_is_too_big_is_believed_for_ten_minutes() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, _) = alone.bind(ends.1, PORT, None);
        let to = SocketAddr::new(ends.0, 9);
        let whole = sent(&mut alone, socket, to, 1400);
        assert_eq!(whole.len(), 1);
        let told = too_big(&alone, ends, 1300, &whole[0]);
        assert!(alone.ask(&[told]).is_empty());
        let cut = sent(&mut alone, socket, to, 1400);
        assert!(cut.len() == 2 && cut.iter().all(|frame| frame.len() <= 1300 + 14), "{}", cut.len());
        assert!(put_together(&cut).ends_with(&[7; 1400]));
        // Narrower still, of what is in fragments now; and the echoes, too.
        let told = too_big(&alone, ends, 1280, &cut[0]);
        assert!(alone.ask(&[told]).is_empty());
        let mac = alone.mac();
        for cut in [sent(&mut alone, socket, to, 1400), alone.ask(&echo(mac, ends.0.is_ipv6(), &[7; 1400], 65_528))] {
            assert!(cut.len() == 2 && cut.iter().all(|frame| frame.len() <= 1280 + 14));
        }
        assert_eq!(alone.stack.counts().ways_narrowed, 2);
        alone.world.pass(Duration::from_secs(601));
        alone.settle();
        alone.test.take();
        // Whether the neighbour is still there is asked as well.
        let frames = sent(&mut alone, socket, to, 1400);
        assert!(frames.iter().filter_map(|frame| datagram(frame)).count() == 1, "tried anew");
    }
}

#[test]
fn a_router_is_not_believed_of_what_was_not_sent_or_never_fits() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, local) = alone.bind(ends.1, PORT, None);
        let to = SocketAddr::new(ends.0, 9);
        let whole = sent(&mut alone, socket, to, 1400).remove(0);
        let other = |alone: &Alone, from: SocketAddr, bytes: usize| udp(alone.mac(), from, to, &vec![7; bytes]);
        let nobody = SocketAddr::new(ends.1, PORT + 1);
        let stranger = SocketAddr::new(if ends.0.is_ipv4() { "10.0.0.77" } else { "fd00::77" }.parse().unwrap(), PORT);
        let least = if ends.0.is_ipv4() { 1300 } else { 1279 };
        // A port that no datagram goes to, and an answer to an echo that nobody was sent.
        let to_none = udp(alone.mac(), local, SocketAddr::new(ends.0, 0), &vec![7; 1400]);
        let unasked = echo_reply(&alone, (ends.1, ends.0), &[7; 1400]);
        let forged = [
            too_big(&alone, ends, 1300, &to_none),
            too_big(&alone, ends, 1300, &unasked),
            // Of a port that no socket has, of an address that is not ours, and of a packet that was not too big.
            too_big(&alone, ends, 1300, &other(&alone, nobody, 1400)),
            too_big(&alone, ends, 1300, &other(&alone, stranger, 1400)),
            too_big(&alone, ends, 1300, &other(&alone, local, 100)),
            // As long as the interface takes, and what each link of IPv6 takes more of.
            too_big(&alone, ends, 1500, &whole),
            too_big(&alone, ends, least, &other(&alone, nobody, 1400)),
        ];
        assert!(alone.ask(&forged).is_empty());
        if ends.0.is_ipv6() {
            let told = too_big(&alone, ends, 1279, &whole);
            assert!(alone.ask(&[told]).is_empty());
        }
        assert_eq!((sent(&mut alone, socket, to, 1400).len(), alone.stack.counts().ways_narrowed), (1, 0));
    }
}

/// A frame with an answer to an echo, as the stack sends them.
fn echo_reply(alone: &Alone, (from, to): (IpAddr, IpAddr), data: &[u8]) -> Vec<u8> {
    let reply = icmp::Echo { identification: 7, sequence: 9, data };
    let (protocol, kind, message) = match from.is_ipv4() {
        true => (IpProtocol::ICMP, EtherType::IPV4, written(2000, |writer| icmp::Message::EchoReply(reply).emit(writer))),
        false => {
            let message = icmpv6::Message::EchoReply(reply);
            (IpProtocol::ICMPV6, EtherType::IPV6, written(2000, |writer| message.emit(&addresses(from, to), writer)))
        }
    };
    ethernet(alone.mac(), kind, &packets(from, to, protocol, &message, 65_528, 1)[0])
}

/// What is too big of an answer to an echo is believed where one was sent: without a socket.
#[test]
fn a_router_is_believed_of_a_long_echo_that_was_answered() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let mac = alone.mac();
        let ask = |alone: &mut Alone, bytes: usize| alone.ask(&echo(mac, ends.0.is_ipv6(), &vec![7; bytes], 65_528));
        for (bytes, narrowed) in [(100, 0), (1400, 1)] {
            let answer = ask(&mut alone, bytes).remove(0);
            // It may quote more than was sent.
            let quoted = if bytes == 1400 { answer } else { echo_reply(&alone, (ends.1, ends.0), &[7; 1400]) };
            let told = too_big(&alone, ends, 1300, &quoted);
            assert!(alone.ask(&[told]).is_empty());
            assert_eq!(alone.stack.counts().ways_narrowed, narrowed, "{bytes}");
        }
        assert_eq!(ask(&mut alone, 1400).len(), 2, "and the next is cut");
    }
}

/// No lane believes what another could not: of a datagram to a port that can be none's, each looks for the socket as well.
#[test]
fn no_lane_narrows_a_way_of_what_was_not_sent() {
    let mut program = Program::new(&plan(4, 3), &ADDRESSES);
    meet(&mut program);
    let lane_mac = mac(&program);
    for (from, to) in ENDS {
        for (source, destination) in [(PORT, 0), (PORT + 1, 0), (PORT + 1, 9), (0, 0)] {
            let quoted = udp(lane_mac, SocketAddr::new(to, source), SocketAddr::new(from, destination), &[7; 1400]);
            program.test.send(&too_big_to(lane_mac, (from, to), 1300, &quoted));
        }
    }
    program.pass(10_000_000);
    let narrowed = |program: &Program| (0..4).map(|lane| program.counts(lane).ways_narrowed).collect::<Vec<_>>();
    assert_eq!(narrowed(&program), [0; 4]);
    let (from, to) = ENDS[0];
    let quoted = udp(lane_mac, SocketAddr::new(to, PORT), SocketAddr::new(from, 9), &[7; 1400]);
    program.test.send(&too_big_to(lane_mac, (from, to), 1300, &quoted));
    program.pass(10_000_000);
    assert_eq!(narrowed(&program), [1; 4], "each has the socket");
    program.close();
}

/// From a router older than RFC 1191, and one that says what no link has: what each host takes is taken.
#[test]
fn of_ipv4_no_way_is_narrower_than_each_host_takes() {
    for most in [0, 68, 575] {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, _) = alone.bind(STACK, PORT, None);
        let to = SocketAddr::new(TEST.into(), 9);
        let whole = sent(&mut alone, socket, to, 1400).remove(0);
        let told = too_big(&alone, ENDS[0], most, &whole);
        assert!(alone.ask(&[told]).is_empty());
        assert_eq!(sent(&mut alone, socket, to, 1400).len(), 1408_usize.div_ceil(552), "{most}");
    }
}

/// An echo request of IPv4 with options in its header.
fn with_options(alone: &Alone, options: &[u8]) -> Vec<u8> {
    assert!(options.len().is_multiple_of(4));
    let mut frame = echo(alone.mac(), false, b"by a way", 65_528).remove(0);
    frame.splice(34..34, options.iter().copied());
    frame[14] += (options.len() / 4) as u8;
    let length = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame[24..26].fill(0);
    let checksum = Sum::of(&frame[14..34 + options.len()]).checksum();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// RFC 1122, sections 3.2.1.8, 3.2.2.5 and 3.3.5.
#[test]
fn options_of_ipv4_are_passed_over_or_told_of() {
    let mut alone = Alone::new();
    alone.meet();
    let told = |frame: &[u8]| match Packet::of_frame(frame).unwrap().transport {
        UpperLayer::Icmp(view) => view.kind(),
        other => panic!("{other:?}"),
    };
    for (options, kind) in [
        (&[1, 1, 1, 0][..], Some((0, 0))),
        (&[148, 4, 0, 0], Some((0, 0))),
        (&[7, 7, 4, 0, 0, 0, 0, 0], Some((0, 0))),
        (&[7, 200, 4, 0], Some((12, 0))),
        (&[1, 1, 1, 148], Some((12, 0))),
        // On its way by a route of its sender's, and at the end of one.
        (&[131, 7, 4, 10, 0, 0, 77, 0], Some((3, 5))),
        (&[137, 7, 8, 10, 0, 0, 77, 0], None),
    ] {
        let question = with_options(&alone, options);
        let answers = alone.ask(&[question]);
        assert_eq!(answers.first().map(|frame| told(frame)), kind, "{options:?}");
        assert!(answers.len() <= 1);
    }
    let wrong = with_options(&alone, &[1, 1, 148, 1]);
    assert_eq!(alone.ask(&[wrong])[0][38], 22, "the byte that is wrong is pointed at");
    assert!(alone.is_clean());
}

/// A fragment within what was put together of fragments is dropped, and not taken for a datagram.
#[test]
fn a_fragment_of_a_fragment_is_nothing() {
    let mut alone = Alone::new();
    alone.meet();
    let (socket, local) = alone.bind(STACK_V6, PORT, None);
    let peer = SocketAddr::new(TEST_V6.into(), 4000);
    let ends = addresses(peer.ip(), local.ip());
    let whole = written(16, |writer| {
        udp_header::Header { source: 4000, destination: PORT }.emit(&ends, b"question", writer)?;
        writer.put(b"question")
    });
    for (inner_more, answers) in [(true, 0), (false, 1)] {
        let header = fragment::Header { next: IpProtocol::UDP, offset: Default::default(), more: inner_more, identification: 9 };
        let inner = written(8 + whole.len(), |writer| {
            header.emit(writer)?;
            writer.put(&whole)
        });
        let parts = packets(peer.ip(), local.ip(), IpProtocol::FRAGMENT, &inner, 16, 5);
        parts.iter().for_each(|part| alone.test.send(&ethernet(alone.mac(), EtherType::IPV6, part)));
        assert_eq!(alone.receive(socket).len(), answers, "an atomic one is a whole (RFC 6946)");
    }
    assert_eq!(alone.stack.counts().of(Drop::Malformed), 1);
    assert!(alone.is_clean());
}

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// A router's address is the link's, as a rule (RFC 4861, section 6.1.2): it is asked for and sent to, and what it asks is answered.
#[test]
fn what_is_behind_a_router_of_the_link_is_reached() {
    let mut alone = Alone::with(|settings| settings.with_route(Ipv6Addr::UNSPECIFIED.into(), 0, ROUTER.into()));
    let (socket, local) = alone.bind(STACK_V6, PORT, None);
    let far = SocketAddr::new("2001:db8::9".parse().unwrap(), 9);
    assert_eq!(alone.send(socket, far, b"far"), (1, 0));
    assert_eq!(alone.test.take().len(), 1, "it is asked for");
    let answer = advertisement(alone.mac(), ROUTER, TEST_MAC, true);
    let left = alone.ask(&[answer]);
    assert_eq!(left.len(), 1);
    let found = datagram(&left[0]).unwrap();
    assert_eq!((found.from, found.to, &left[0][..6]), (local, far, &TEST_MAC.0[..]));
}

/// RFC 4443, section 4.2: who asks all stations is answered by each from an address of its own.
#[test]
fn an_echo_of_all_stations_is_answered_from_an_own_address() {
    let mut alone = Alone::new();
    alone.meet();
    let all: Ipv6Addr = "ff02::1".parse().unwrap();
    let request = icmp::Echo { identification: 7, sequence: 9, data: b"anybody" };
    let message = icmpv6::Message::EchoRequest(request);
    let message = written(64, |writer| message.emit(&addresses(TEST_V6.into(), all.into()), writer));
    let packet = packets(TEST_V6.into(), all.into(), IpProtocol::ICMPV6, &message, 65_528, 1).remove(0);
    let group = Mac([0x33, 0x33, 0, 0, 0, 1]);
    let answers = alone.ask(&[ethernet(group, EtherType::IPV6, &packet)]);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0][22..38], STACK_V6.octets());
}

/// RFC 8200, section 4.5, and RFC 7112, section 5: what is wrong with a fragment of IPv6 is told, and where.
#[test]
fn fragments_that_can_be_part_of_nothing_are_told_of() {
    let mut alone = Alone::new();
    alone.meet();
    let fragment = |offset: usize, more: bool, protocol: IpProtocol, data: &[u8]| {
        let offset = corelane_wire::packet::ipv4::Offset::new(offset).unwrap();
        let header = fragment::Header { next: protocol, offset, more, identification: 9 };
        let bytes = written(8 + data.len(), |writer| {
            header.emit(writer)?;
            writer.put(data)
        });
        ethernet(
            alone.mac(),
            EtherType::IPV6,
            &packets(TEST_V6.into(), STACK_V6.into(), IpProtocol::FRAGMENT, &bytes, 65_528, 1)[0],
        )
    };
    let wrong = [
        (fragment(0, true, IpProtocol::UDP, &[1; 17]), Some((0, 4))),
        (fragment(65_528, false, IpProtocol::UDP, &[1; 16]), Some((0, 42))),
        (fragment(0, true, IpProtocol::TCP, &[1; 16]), Some((3, 0))),
        (fragment(8, true, IpProtocol::TCP, &[1; 16]), None),
        (fragment(0, true, IpProtocol::UDP, &[1; 16]), None),
    ];
    for (frame, told) in wrong {
        let answers = alone.ask(&[frame]);
        let found = answers.first().map(|frame| match Packet::of_frame(frame).unwrap().transport {
            UpperLayer::Icmpv6(view) => match view.message().unwrap() {
                icmpv6::Message::ParameterProblem { code, at, .. } => (code.number(), at),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        });
        assert_eq!(found, told);
    }
}
