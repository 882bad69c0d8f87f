//! What is said and believed on the link: who has which address, and what of all that comes is nobody's.

use crate::alone::Alone;
use crate::frames::{self, STACK, STACK_V6, TEST, TEST_MAC, TEST_V6, addresses, arp, datagram, ethernet, packets, udp};
use corelane_stack::Drop;
use corelane_wire::packet::arp::Operation;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::neighbour::{AdvertisementFlags, Choice, Message, Options};
use corelane_wire::packet::tcp::{self, Flags};
use corelane_wire::packet::{EtherType, IpProtocol, Network, Packet, UpperLayer, icmpv6, vlan};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const PORT: u16 = 60_007;
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 77]);
const ENDS: [(IpAddr, IpAddr); 2] = [(IpAddr::V4(TEST), IpAddr::V4(STACK)), (IpAddr::V6(TEST_V6), IpAddr::V6(STACK_V6))];

fn kind(v6: bool) -> EtherType {
    if v6 { EtherType::IPV6 } else { EtherType::IPV4 }
}

/// What comes from an address of ours was sent by nobody who can be answered: with both ends the same, an answer would be a question again, for ever.
#[test]
fn our_own_addresses_say_nothing_on_the_wire() {
    for (_, own) in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, local) = alone.bind(own, PORT, None);
        let forged = udp(alone.mac(), local, local, b"loop");
        let mut echo = frames::echo(alone.mac(), own.is_ipv6(), b"loop", 65_528).remove(0);
        let (from, to) = if own.is_ipv6() { (22, 38) } else { (26, 30) };
        let length = to - from;
        echo.copy_within(to..to + length, from);
        let closed = udp(alone.mac(), SocketAddr::new(own, 5), SocketAddr::new(own, 6), b"loop");
        for frame in [forged, echo, closed] {
            let before =
                (alone.stack.counts().of(Drop::NotOurs) + alone.stack.counts().of(Drop::Checksum), *alone.stack.counts());
            alone.test.send(&frame);
            assert!(alone.receive(socket).is_empty());
            let counts = *alone.stack.counts();
            assert_eq!(counts.of(Drop::NotOurs) + counts.of(Drop::Checksum), before.0 + 1);
            assert_eq!((counts.echoes, counts.errors_out), (before.1.echoes, before.1.errors_out));
        }
        assert_eq!(alone.send(socket, local, b"to itself"), (1, 0));
        assert_eq!(alone.receive(socket).len(), 1, "what the stack itself sends to itself comes");
    }
}

/// An ARP message or an advertisement in which OTHER has the neighbour's address: an answer, or unasked.
fn claim(alone: &Alone, v6: bool, his: Mac, answers: bool) -> Vec<u8> {
    if v6 {
        return frames::advertisement(alone.mac(), TEST_V6, his, answers);
    }
    let (operation, target) = if answers { (Operation::Reply, STACK) } else { (Operation::Request, TEST) };
    let mut frame = arp(operation, alone.mac(), TEST, target);
    frame[22..28].copy_from_slice(&his.0);
    frame
}

/// An answer to who has asked at the link address, as most give it.
fn confirmation(alone: &Alone) -> Vec<u8> {
    let flags = AdvertisementFlags { is_router: false, is_solicited: true, replaces: false };
    let message = Message::Advertisement { target: TEST_V6, flags, options: Options::new(&[]).unwrap() };
    frames::discovery(alone.mac(), (TEST_V6, STACK_V6), &message, 65_528).remove(0)
}

/// The questions of the stack's among some frames: to which station each went.
fn asked(sent: &[Vec<u8>]) -> Vec<Mac> {
    let is_question = |frame: &&Vec<u8>| {
        let packet = Packet::of_frame(frame).unwrap();
        match (packet.network, packet.transport) {
            (Network::Arp(message), _) => message.operation == Operation::Request,
            (_, UpperLayer::Icmpv6(view)) => {
                matches!(view.message(), Ok(icmpv6::Message::Neighbour(Message::Solicitation { .. })))
            }
            _ => false,
        }
    };
    sent.iter().filter(is_question).map(|frame| Mac(*frame.first_chunk().unwrap())).collect()
}

/// Sends a datagram; returns which station it went to.
fn goes_to(alone: &mut Alone, socket: corelane_seam::Socket, to: SocketAddr) -> Mac {
    alone.send(socket, to, b"next");
    let sent = alone.test.take();
    Mac(*sent.iter().find(|frame| datagram(frame).is_some()).unwrap().first_chunk().unwrap())
}

/// RFC 826 and RFC 4861, section 7.2.5: an address that moves is followed; one whose owner objects is not.
#[test]
fn an_address_that_moves_is_followed_at_once_and_a_forged_word_is_not() {
    let cases =
        [false, true].into_iter().flat_map(|v6| [(v6, false, false), (v6, true, false), (v6, false, true), (v6, true, true)]);
    for ((v6, answers, objects), is_brief) in cases.flat_map(|case| [(case, false), (case, true)]) {
        let ends = ENDS[usize::from(v6)];
        let mut alone = Alone::new();
        let (socket, _) = alone.bind(ends.1, PORT, None);
        let to = SocketAddr::new(ends.0, 9);
        alone.send(socket, to, b"first");
        alone.test.take();
        let first = claim(&alone, v6, TEST_MAC, true);
        alone.ask(&[first]);
        assert_eq!(goes_to(&mut alone, socket, to), TEST_MAC);
        let word = claim(&alone, v6, OTHER, answers);
        let sent = alone.ask(&vec![word; 20]);
        assert_eq!(asked(&sent), [TEST_MAC], "the one who is known is asked, once");
        assert_eq!(goes_to(&mut alone, socket, to), TEST_MAC, "and has a moment to answer");
        if objects {
            // Who is asked at his link address need not say it (RFC 4861, section 7.2.4).
            let objection = if v6 && is_brief { confirmation(&alone) } else { claim(&alone, v6, TEST_MAC, true) };
            alone.ask(&[objection]);
        }
        alone.world.pass(Duration::from_millis(200));
        alone.settle();
        assert_eq!(goes_to(&mut alone, socket, to), if objects { TEST_MAC } else { OTHER }, "{v6} {answers} {objects}");
    }
}

/// RFC 4861, section 7.2.4: who asks without saying his link address is looked for, and not answered to all.
#[test]
fn a_solicitation_without_a_link_address_is_answered_to_its_sender() {
    let mut alone = Alone::new();
    alone.meet();
    let message = Message::Solicitation { target: STACK_V6, options: Options::new(&[]).unwrap() };
    let answers = alone.ask(&frames::discovery(alone.mac(), (TEST_V6, STACK_V6), &message, 65_528));
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0][..6], TEST_MAC.0, "he is known");
    let stranger: Ipv6Addr = "fd00::99".parse().unwrap();
    let answers = alone.ask(&frames::discovery(alone.mac(), (stranger, STACK_V6), &message, 65_528));
    assert_eq!(asked(&answers).len(), answers.len(), "a stranger is asked for");
    let elsewhere: Ipv6Addr = "2001:db8::9".parse().unwrap();
    assert!(alone.ask(&frames::discovery(alone.mac(), (elsewhere, STACK_V6), &message, 65_528)).is_empty(), "no neighbour");
}

/// RFC 4861, sections 7.1.1 and 7.1.2, and RFC 6980: what contradicts itself, and what comes in pieces, is not believed.
#[test]
fn words_of_neighbours_that_cannot_be_are_dropped() {
    let mut alone = Alone::new();
    alone.meet();
    let source = frames::written(8, |writer| Choice::Source(OTHER).emit(writer));
    let target = frames::written(8, |writer| Choice::Target(OTHER).emit(writer));
    let asks = Message::Solicitation { target: STACK_V6, options: Options::new(&source).unwrap() };
    let bare = Message::Solicitation { target: STACK_V6, options: Options::new(&[]).unwrap() };
    let flags = AdvertisementFlags { is_router: false, is_solicited: true, replaces: true };
    let says = Message::Advertisement { target: TEST_V6, flags, options: Options::new(&target).unwrap() };
    let (nobody, all) = (Ipv6Addr::UNSPECIFIED, "ff02::1".parse().unwrap());
    for (ends, message, part) in [
        ((nobody, "ff02::1:ff00:1".parse().unwrap()), asks, 65_528),
        ((nobody, STACK_V6), bare, 65_528),
        ((TEST_V6, all), says, 65_528),
        ((TEST_V6, STACK_V6), asks, 16),
        ((TEST_V6, STACK_V6), says, 16),
    ] {
        let frames = frames::discovery(alone.mac(), ends, &message, part);
        let before = alone.stack.counts().dropped();
        assert!(alone.ask(&frames).is_empty(), "{ends:?} {message:?}");
        assert_eq!(alone.stack.counts().dropped(), before + 1, "{ends:?} {message:?}");
    }
    let free = alone.ask(&frames::discovery(alone.mac(), (nobody, "ff02::1:ff00:1".parse().unwrap()), &bare, 65_528));
    assert_eq!(free.len(), 1, "who looks whether an address is free hears that it is not (RFC 4862, section 5.4.3)");
    assert_eq!(free[0][..6], [0x33, 0x33, 0, 0, 0, 1]);
}

/// The same packet of IPv6 behind the header of a fragment that is the only one (RFC 6946).
fn as_only_fragment(frame: &[u8]) -> Vec<u8> {
    let mut cut = [&frame[..54], &[frame[20], 0, 0, 0, 0, 0, 0, 7], &frame[54..]].concat();
    let length = u16::from_be_bytes([frame[18], frame[19]]) + 8;
    cut[18..20].copy_from_slice(&length.to_be_bytes());
    cut[20] = 44;
    cut
}

/// RFC 6980, section 5: of a neighbour nothing is believed or answered that came with such a header, though it is whole; an echo is.
#[test]
fn words_of_neighbours_in_the_only_fragment_are_dropped() {
    let mut alone = Alone::new();
    alone.meet();
    let (socket, _) = alone.bind(STACK_V6, PORT, None);
    let words = [
        frames::solicitation(STACK_V6, 255),
        frames::advertisement(alone.mac(), TEST_V6, OTHER, true),
        frames::advertisement(alone.mac(), TEST_V6, OTHER, false),
    ];
    for (number, word) in words.iter().enumerate() {
        assert!(alone.ask(&[as_only_fragment(word)]).is_empty(), "{number}");
        assert_eq!(alone.stack.counts().of(Drop::NotOurs), number as u64 + 1);
    }
    alone.world.pass(Duration::from_secs(1));
    assert_eq!(goes_to(&mut alone, socket, SocketAddr::new(TEST_V6.into(), 9)), TEST_MAC);
    let echo = frames::echo(alone.mac(), true, b"whole", 65_528).remove(0);
    assert_eq!(alone.ask(&[as_only_fragment(&echo)]).iter().filter(|frame| frame[54] == 129).count(), 1);
}

/// One forged datagram is not one broadcast: questions have a bound, and those who are known are served meanwhile.
#[test]
fn questions_to_all_of_the_link_are_bounded() {
    let mut alone = Alone::with(|settings| settings.with_network(STACK.into(), 8));
    alone.meet();
    let (socket, _) = alone.bind(STACK, PORT, None);
    let mut questions = 0;
    for number in 0..400 {
        let stranger = Ipv4Addr::from_bits(0x0a09_0000 + number);
        alone.send(socket, SocketAddr::new(stranger.into(), 9), b"anybody?");
        questions += asked(&alone.test.take()).len();
    }
    assert!((100..260).contains(&questions), "{questions}: a hundred at once, and 250 a second");
    assert!(alone.stack.counts().questions_limited > 0);
    assert_eq!(goes_to(&mut alone, socket, SocketAddr::new(TEST.into(), 9)), TEST_MAC);
}

/// A frame with a segment of TCP.
fn segment(mac: Mac, ends: (IpAddr, IpAddr), flags: Flags, payload: &[u8]) -> Vec<u8> {
    let header = tcp::Header {
        source: 4000,
        destination: 80,
        sequence: 100,
        acknowledgement: 900,
        flags,
        window: 1000,
        urgent: 0,
        options: Default::default(),
    };
    let bytes = frames::written(20 + payload.len(), |writer| {
        header.emit(&addresses(ends.0, ends.1), payload, writer)?;
        writer.put(payload)
    });
    ethernet(mac, kind(ends.0.is_ipv6()), &packets(ends.0, ends.1, IpProtocol::TCP, &bytes, 65_528, 1)[0])
}

/// Sequence, acknowledgement and flags of a reset.
type Reset = (u32, u32, Flags);

/// RFC 9293, section 3.10.7.1: who asks for a connection hears at once that there is none.
#[test]
fn a_segment_of_no_connection_is_answered_with_a_reset() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let cases: [(Flags, &[u8], Option<Reset>); 4] = [
            (Flags::SYN, b"", Some((0, 101, Flags::RST.with(Flags::ACK)))),
            (Flags::FIN, b"data", Some((0, 105, Flags::RST.with(Flags::ACK)))),
            (Flags::ACK, b"data", Some((900, 0, Flags::RST))),
            (Flags::RST, b"", None),
        ];
        for (flags, payload, expected) in cases {
            let question = segment(alone.mac(), ends, flags, payload);
            let answers = alone.ask(&[question]);
            let reset = answers.first().map(|frame| {
                let UpperLayer::Tcp(view) = Packet::of_frame(frame).unwrap().transport else { panic!("{frame:?}") };
                assert!(view.is_checksum_right(&addresses(ends.1, ends.0)));
                let header = view.header().unwrap();
                assert_eq!((header.source, header.destination), (80, 4000));
                (header.sequence, header.acknowledgement, header.flags)
            });
            assert_eq!(reset, expected, "{flags:?}");
        }
        let mut damaged = segment(alone.mac(), ends, Flags::SYN, b"");
        *damaged.last_mut().unwrap() ^= 1;
        assert!(alone.ask(&[damaged]).is_empty());
        let question = segment(alone.mac(), ends, Flags::SYN, b"");
        let answers: usize = (0..4).map(|_| alone.ask(&vec![question.clone(); 50]).len()).sum();
        assert!(answers < 70, "{answers}: within the bound of errors");
    }
}

/// RFC 8200, section 4.7: behind "no next header" nothing is wrong. RFC 1112, appendix I: IGMP asks who has joined no group for nothing.
#[test]
fn no_next_header_and_igmp_are_passed_over_in_silence() {
    for (ends, protocol, answers) in [
        (ENDS[0], IpProtocol::IGMP, 0),
        (ENDS[1], IpProtocol::NONE, 0),
        // Each is something else in the other family.
        (ENDS[0], IpProtocol::NONE, 1),
        (ENDS[1], IpProtocol::IGMP, 1),
    ] {
        let mut alone = Alone::new();
        alone.meet();
        let packet = packets(ends.0, ends.1, protocol, b"nothing", 65_528, 1).remove(0);
        let frame = ethernet(alone.mac(), kind(ends.0.is_ipv6()), &packet);
        assert_eq!(alone.ask(&[frame]).len(), answers, "{ends:?} {protocol}");
        assert_eq!(alone.stack.counts().of(Drop::Protocol), 1);
    }
}

/// IEEE 802.1Q, 9.6: a tag with the number 0 is a priority, and the frame is of no VLAN.
#[test]
fn a_frame_with_a_priority_is_of_no_vlan() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, local) = alone.bind(ends.1, PORT, None);
        let plain = udp(alone.mac(), SocketAddr::new(ends.0, 7), local, b"first");
        for (number, came) in [(0, 1), (1, 0)] {
            let protocol = kind(ends.0.is_ipv6());
            let tag = frames::written(4, |writer| vlan::Tag { control: 0xa000 | number, protocol }.emit(writer));
            let tagged = [&plain[..12], &[0x81, 0], &tag, &plain[14..]].concat();
            alone.test.send(&tagged);
            assert_eq!(alone.receive(socket).len(), came, "VLAN {number}");
        }
        let request = arp(Operation::Request, Mac::BROADCAST, TEST, STACK);
        let tagged = [&request[..12], &[0x81, 0, 0xe0, 0, 8, 6], &request[14..]].concat();
        assert_eq!(alone.ask(&[tagged]).len(), 1);
    }
}

/// Who asks from beyond the link without saying his link address has no way back on the link: he is not answered, and nothing breaks.
#[test]
fn who_asks_from_nowhere_is_not_answered() {
    let mut alone = Alone::new();
    let group: Ipv6Addr = "ff02::1:ff00:1".parse().unwrap();
    let message = Message::Solicitation { target: STACK_V6, options: Options::new(&[]).unwrap() };
    for source in ["2001:db8::9", "fd00:9::9"] {
        let mac = Mac([0x33, 0x33, 0xff, 0, 0, 1]);
        let questions = frames::discovery(mac, (source.parse().unwrap(), group), &message, 65_528);
        assert!(alone.ask(&questions).is_empty());
    }
    assert_eq!(alone.stack.counts().of(Drop::Neighbour), 2);
    alone.meet();
    assert!(alone.is_clean());
}
