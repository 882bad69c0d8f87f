//! What is damaged, unwanted or too much: it is dropped and counted, and whoever is to hear of it does.

use crate::alone::{Alone, FRAMES};
use crate::frames::{self, STACK, STACK_V6, TEST, TEST_MAC, TEST_V6, addresses, datagram, echo, ethernet, packets, udp, udp_in};
use corelane_seam::{Address, Bind, DatagramOp, DatagramOutcome, Datagrams, Driver, Fault, Op, Outcome, Reason, Socket};
use corelane_sim::CardSetup;
use corelane_stack::Drop;
use corelane_wire::packet::ethernet::Mac;
use corelane_wire::packet::icmp::{self, Code};
use corelane_wire::packet::neighbour::{AdvertisementFlags, Choice, Message, Options};
use corelane_wire::packet::{EtherType, IpProtocol, Packet, UpperLayer, icmpv6};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const PORT: u16 = 60_007;
/// The test's machine and the stack, in both families.
const ENDS: [(IpAddr, IpAddr); 2] = [(IpAddr::V4(TEST), IpAddr::V4(STACK)), (IpAddr::V6(TEST_V6), IpAddr::V6(STACK_V6))];

fn kind(ip: IpAddr) -> EtherType {
    if ip.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 }
}

/// A frame with a datagram whose bytes, header included, were changed.
fn changed(alone: &Alone, ends: (IpAddr, IpAddr), change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let whole = udp(alone.mac(), SocketAddr::new(ends.0, 7), SocketAddr::new(ends.1, PORT), b"question");
    let mut bytes = whole[whole.len() - 16..].to_vec();
    change(&mut bytes);
    ethernet(alone.mac(), kind(ends.0), &packets(ends.0, ends.1, IpProtocol::UDP, &bytes, 65_528, 0)[0])
}

#[test]
fn damaged_datagrams_are_counted_and_reach_nobody() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, _) = alone.bind(ends.1, PORT, None);
        let mut damaged = 0;
        let lengths = |length: u16| move |bytes: &mut Vec<u8>| bytes[4..6].copy_from_slice(&length.to_be_bytes());
        let mut refused = |alone: &mut Alone, frame: Vec<u8>, why: Drop| {
            let before = alone.stack.counts().of(why);
            alone.test.send(&frame);
            assert!(alone.receive(socket).is_empty(), "{why:?}");
            damaged += 1;
            let counts = *alone.stack.counts();
            assert_eq!((counts.of(why), counts.datagrams_damaged), (before + 1, damaged), "{why:?}");
            assert!(counts.datagrams_add_up() && alone.test.take().is_empty(), "nobody is told of it");
        };
        for length in [0, 7, 17, 0xffff] {
            let frame = changed(&alone, ends, lengths(length));
            refused(&mut alone, frame, Drop::Malformed);
        }
        let frame = changed(&alone, ends, |bytes| bytes.truncate(7));
        refused(&mut alone, frame, Drop::Malformed);
        for at in [0, 7, 8, 15] {
            let frame = changed(&alone, ends, |bytes| bytes[at] ^= 0x40);
            refused(&mut alone, frame, Drop::Checksum);
        }
        // Each fragment is as it was sent, but for one bit of the last.
        let mut parts = udp_in(alone.mac(), SocketAddr::new(ends.0, 7), SocketAddr::new(ends.1, PORT), &[5; 3000], 1400, 4);
        let last = parts.last_mut().unwrap();
        *last.last_mut().unwrap() ^= 1;
        let last = parts.pop().unwrap();
        parts.iter().for_each(|part| alone.test.send(part));
        refused(&mut alone, last, Drop::Checksum);
        assert!(alone.is_clean());
    }
}

#[test]
fn a_datagram_without_a_checksum_is_taken_by_ipv4_alone() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, _) = alone.bind(ends.1, PORT, None);
        let frame = changed(&alone, ends, |bytes| bytes[6..8].fill(0));
        alone.test.send(&frame);
        assert_eq!(alone.receive(socket).len(), usize::from(ends.0.is_ipv4()));
        assert_eq!(alone.stack.counts().of(Drop::Checksum), u64::from(ends.0.is_ipv6()));
    }
}

#[test]
fn what_stands_behind_a_datagram_in_its_packet_is_none_of_it() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, _) = alone.bind(ends.1, PORT, None);
        let frame = changed(&alone, ends, |bytes| bytes.extend([0xee; 9]));
        alone.test.send(&frame);
        assert_eq!(alone.receive(socket), [(Address::from(SocketAddr::new(ends.0, 7)), b"question".to_vec())]);
    }
}

#[test]
fn what_all_stations_hear_is_for_none_of_them_alone() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, _) = alone.bind(ends.1, PORT, None);
        for to in [Mac::BROADCAST, Mac([0x01, 0, 0x5e, 0, 0, 1])] {
            for port in [PORT, PORT + 1] {
                let before = alone.stack.counts().of(Drop::NotOurs);
                alone.test.send(&udp(to, SocketAddr::new(ends.0, 7), SocketAddr::new(ends.1, port), b"question"));
                assert!(alone.receive(socket).is_empty() && alone.test.take().is_empty(), "{to:?} {port}");
                assert_eq!(alone.stack.counts().of(Drop::NotOurs), before + 1, "{to:?} {port}");
            }
        }
    }
}

/// A frame of the test's machine that says of a packet that it did not arrive.
fn unreachable(alone: &Alone, ends: (IpAddr, IpAddr), code: u8, packet: &[u8]) -> Vec<u8> {
    let (protocol, message) = if ends.0.is_ipv4() {
        let message = icmp::Message::Unreachable { code: Code::new(code).unwrap(), packet };
        (IpProtocol::ICMP, frames::written(8 + packet.len(), |writer| message.emit(writer)))
    } else {
        let message = icmpv6::Message::Unreachable { code: Code::new(code).unwrap(), packet };
        let of = addresses(ends.0, ends.1);
        (IpProtocol::ICMPV6, frames::written(8 + packet.len(), |writer| message.emit(&of, writer)))
    };
    ethernet(alone.mac(), kind(ends.0), &packets(ends.0, ends.1, protocol, &message, 65_528, 2)[0])
}

/// What a socket is told in place of datagrams, within a millisecond.
fn fault_at(alone: &mut Alone, socket: Socket) -> Option<Fault> {
    let handle = alone.push(DatagramOp::Receive { socket, into: Datagrams::new() });
    alone.settle();
    if let Some(completion) = alone.take(handle) {
        let Outcome::Datagram(DatagramOutcome::Arrived { fault, .. }) = completion.outcome else { panic!("{completion:?}") };
        return fault;
    }
    alone.push(Op::StopReceive { socket });
    alone.settle();
    assert!(alone.take(handle).is_some(), "a receive ends when it is stopped");
    None
}

#[test]
fn who_has_sent_hears_that_nobody_is_there() {
    for (ends, port, host) in [(ENDS[0], 3, 1), (ENDS[1], 4, 3)] {
        let mut alone = Alone::new();
        alone.meet();
        let peer = SocketAddr::new(ends.0, 9);
        let (joined, local) = alone.bind(ends.1, PORT, Some(peer));
        let (other, _) = alone.bind(ends.1, PORT + 1, None);
        assert_eq!(alone.send(joined, peer, b"anybody?"), (1, 0));
        let sent: Vec<_> = alone.test.take().into_iter().filter(|frame| datagram(frame).is_some()).collect();
        assert_eq!(sent.len(), 1);
        let packet = &sent[0][14..];
        for (code, reason) in [(port, Reason::Refused), (host, Reason::Unreachable)] {
            let told = unreachable(&alone, ends, code, packet);
            alone.test.send(&told);
            alone.settle();
            assert_eq!(fault_at(&mut alone, joined).map(|fault| fault.reason), Some(reason));
            assert_eq!(fault_at(&mut alone, joined), None, "it is told once");
        }
        // Others' packets, other protocols, less than the ports, and a checksum that is wrong.
        let foreign = udp(alone.mac(), SocketAddr::new(ends.0, PORT), peer, b"x");
        let mut of_tcp = packet.to_vec();
        of_tcp[if ends.0.is_ipv4() { 9 } else { 6 }] = IpProtocol::TCP.0;
        let head = if ends.0.is_ipv4() { 20 } else { 40 };
        for quoted in [&foreign[14..], &of_tcp[..], &packet[..head + 3], &packet[..head - 1], &[]] {
            let told = unreachable(&alone, ends, port, quoted);
            alone.test.send(&told);
            alone.settle();
        }
        let mut wrong = unreachable(&alone, ends, port, packet);
        *wrong.last_mut().unwrap() ^= 1;
        alone.test.send(&wrong);
        alone.settle();
        assert_eq!((fault_at(&mut alone, joined), fault_at(&mut alone, other)), (None, None));
        assert_eq!((alone.stack.counts().of(Drop::Checksum), local.port()), (1, PORT));
    }
}

#[test]
fn a_quoted_header_with_options_is_read_past_them() {
    let mut alone = Alone::new();
    alone.meet();
    let peer = SocketAddr::new(TEST.into(), 9);
    let (joined, _) = alone.bind(STACK, PORT, Some(peer));
    alone.send(joined, peer, b"anybody?");
    let sent = alone.test.take();
    let packet = sent.iter().find(|frame| datagram(frame).is_some()).unwrap()[14..].to_vec();
    let mut with_options = packet[..20].to_vec();
    with_options[0] = 0x46;
    with_options.extend([1, 1, 1, 0]);
    with_options.extend(&packet[20..]);
    let told = unreachable(&alone, ENDS[0], 3, &with_options);
    alone.test.send(&told);
    alone.settle();
    assert_eq!(fault_at(&mut alone, joined).map(|fault| fault.reason), Some(Reason::Refused));
}

#[test]
fn echoes_are_answered_at_most_so_often() {
    let mut alone = Alone::new();
    alone.meet();
    let question = echo(alone.mac(), false, b"there?", 65_528);
    let mut answered = 0;
    for _ in 0..20 {
        answered += alone.ask(&vec![question[0].clone(); 50]).len();
    }
    // A bucket of 500, and ten thousand a second: twenty rounds take some twenty milliseconds.
    assert!((500..900).contains(&answered), "{answered} answers to a thousand");
    assert_eq!(alone.stack.counts().errors_limited, 1000 - answered as u64);
}

/// Sends the first fragment of a message, whose others never come; returns how many errors the stack has sent in the end.
fn first_alone(ends: (IpAddr, IpAddr), protocol: IpProtocol, message: &[u8]) -> usize {
    let mut alone = Alone::new();
    alone.meet();
    let first = packets(ends.0, ends.1, protocol, message, 1400, 5).remove(0);
    let frame = ethernet(alone.mac(), kind(ends.0), &first);
    assert!(alone.ask(&[frame]).is_empty());
    for _ in 0..61 {
        alone.world.pass(Duration::from_secs(1));
        alone.settle();
    }
    alone.stack.counts().errors_out as usize
}

#[test]
fn nothing_is_said_of_errors_that_were_not_put_together() {
    for (ends, protocol, error, question) in [(ENDS[0], IpProtocol::ICMP, 3, 8), (ENDS[1], IpProtocol::ICMPV6, 1, 128)] {
        let message = |kind: u8| [&[kind, 0, 0, 0][..], &[7; 2000]].concat();
        assert_eq!(first_alone(ends, protocol, &message(error)), 0, "{protocol:?}");
        assert_eq!(first_alone(ends, protocol, &message(question)), 1, "{protocol:?}");
    }
}

#[test]
fn an_unknown_protocol_is_told_with_its_place() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let packet = packets(ends.0, ends.1, IpProtocol(200), &[1; 1400], 65_528, 3).remove(0);
        let frame = ethernet(alone.mac(), kind(ends.0), &packet);
        let told = alone.ask(&[frame]);
        assert_eq!(told.len(), 1);
        match Packet::of_frame(&told[0]).unwrap().transport {
            UpperLayer::Icmp(view) => match view.message().unwrap() {
                icmp::Message::Unreachable { code, packet: quoted } => {
                    assert_eq!((code.number(), quoted), (2, &packet[..576 - 28]), "as much as each link carries")
                }
                other => panic!("{other:?}"),
            },
            UpperLayer::Icmpv6(view) => match view.message().unwrap() {
                icmpv6::Message::ParameterProblem { code, at, packet: quoted } => {
                    assert_eq!((code.number(), at, quoted), (1, 6, &packet[..1280 - 48]))
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

/// Behind extension headers, the place is that of the last of them that names the protocol (RFC 4443, section 3.4).
#[test]
fn an_unknown_protocol_behind_extension_headers_is_told_with_its_place() {
    let mut alone = Alone::new();
    alone.meet();
    // Two headers of destination options, each of eight bytes of padding.
    let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let body = [&options(IpProtocol::DESTINATION.0)[..], &options(200), &[1; 40]].concat();
    let packet = packets(ENDS[1].0, ENDS[1].1, IpProtocol::DESTINATION, &body, 65_528, 3).remove(0);
    let frame = ethernet(alone.mac(), kind(ENDS[1].0), &packet);
    let told = alone.ask(&[frame]);
    assert_eq!(told.len(), 1);
    let UpperLayer::Icmpv6(view) = Packet::of_frame(&told[0]).unwrap().transport else { panic!("{told:?}") };
    match view.message().unwrap() {
        icmpv6::Message::ParameterProblem { code, at, .. } => assert_eq!((code.number(), at), (1, 48)),
        other => panic!("{other:?}"),
    }
}

/// RFC 8200, sections 4.2 and 4.4: segments that are left, and options by the two bits in front of their kind. Where each is named is what the sender is told.
#[test]
fn extension_headers_that_are_not_known_are_told_or_dropped_or_passed_over() {
    const PADDED: [u8; 8] = [0, 0, 1, 4, 0, 0, 0, 0];
    let option = |kind: u8| [0, 0, 1, 0, kind, 2, 9, 9];
    let routing = |left: u8| [0, 0, 200, left, 0, 0, 0, 0];
    let (hop, routed, destination) = (IpProtocol::HOP_BY_HOP, IpProtocol::ROUTING, IpProtocol::DESTINATION);
    // What the answer is: an echo's, or a parameter problem of that code at that place, or none.
    let cases = [
        (routed, routing(0), Some(None)),
        (routed, routing(1), Some(Some((0, 42)))),
        (destination, option(0x3e), Some(None)),
        (destination, option(0x7e), None),
        (destination, option(0xbe), Some(Some((2, 44)))),
        (destination, option(0xfe), Some(Some((2, 44)))),
        (hop, option(0x05), Some(None)),
        (hop, option(0x45), None),
        (hop, option(0xc2), Some(Some((2, 44)))),
    ];
    let echo = echo(Mac([0; 6]), true, b"who is there", 65_528).remove(0).split_off(14 + 40);
    for (kind, header, expected) in cases {
        for in_front in [false, true] {
            let mut alone = Alone::new();
            alone.meet();
            let (mut header, mut padded) = (header, PADDED);
            header[0] = IpProtocol::ICMPV6.0;
            padded[0] = destination.0;
            // Behind another header, which is passed over; hop-by-hop options are the first always.
            let is_behind = in_front && kind == destination;
            let body = [if is_behind { &padded[..] } else { &[] }, &header, &echo].concat();
            let packet = packets(ENDS[1].0, ENDS[1].1, kind, &body, 65_528, 3).remove(0);
            let answers = alone.ask(&[ethernet(alone.mac(), EtherType::IPV6, &packet)]);
            let found = answers.first().map(|answer| match Packet::of_frame(answer).unwrap().transport {
                UpperLayer::Icmpv6(view) => match view.message().unwrap() {
                    icmpv6::Message::ParameterProblem { code, at, packet: quoted } => {
                        assert_eq!(quoted, packet);
                        Some((code.number(), at))
                    }
                    icmpv6::Message::EchoReply(_) => None,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            });
            let moved = if is_behind { 8 } else { 0 };
            let expected = expected.map(|told| told.map(|(code, at)| (code, at + moved)));
            assert_eq!((found, answers.len()), (expected, expected.iter().len()), "{kind:?} {header:?}");
            assert_eq!(alone.stack.counts().of(Drop::Protocol), u64::from(expected != Some(None)));
        }
    }
}

/// What is cut up of a packet of IPv6 may begin with options for the destination (RFC 8200, section 4.5): the datagram is behind them.
#[test]
fn options_among_what_was_cut_up_are_passed_over() {
    let mut alone = Alone::new();
    alone.meet();
    let (from, to) = (SocketAddr::new(TEST_V6.into(), 7), SocketAddr::new(STACK_V6.into(), PORT));
    let (socket, _) = alone.bind(to.ip(), PORT, None);
    let payload: Vec<u8> = (0..1600).map(|index| index as u8).collect();
    let whole = udp(alone.mac(), from, to, &payload).split_off(14 + 40);
    let body = [&[IpProtocol::UDP.0, 1, 0x1e, 2, 1, 2, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0][..], &whole].concat();
    for name in [5, 6] {
        let parts = packets(from.ip(), to.ip(), IpProtocol::DESTINATION, &body, 1024, name);
        assert_eq!(parts.len(), 2);
        let frames: Vec<_> = parts.iter().map(|part| ethernet(alone.mac(), EtherType::IPV6, part)).collect();
        assert!(alone.ask(&frames).is_empty());
        assert_eq!(alone.receive(socket), [(Address::from(from), payload.clone())]);
    }
}

/// Binds a socket whose queue holds so many frames.
fn bind_small(alone: &mut Alone, port: u16, frames: usize) -> Socket {
    let address = SocketAddr::new(STACK.into(), port).into();
    let receive_buffer_bytes = (frames * alone.memory.frame_bytes()) as u32;
    let bind = Bind { address, peer: None, share_port: false, v6_only: false, receive_buffer_bytes, send_buffer_bytes: 0 };
    alone.stack.bind(&bind).unwrap()
}

#[test]
fn a_full_queue_drops_and_counts_and_others_have_room() {
    let mut alone = Alone::new();
    alone.meet();
    let (small, large) = (bind_small(&mut alone, 1000, 8), bind_small(&mut alone, 1001, crate::alone::FRAMES));
    let from = SocketAddr::new(TEST.into(), 7);
    let to = |port| SocketAddr::new(STACK.into(), port);
    for number in 0..20 {
        alone.test.send(&udp(alone.mac(), from, to(1000), &[number]));
    }
    alone.settle();
    assert_eq!((alone.stack.counts().of(Drop::Full), alone.stack.dropped(small)), (12, Some(12)));
    // All queues together hold half of the frames.
    for _ in 0..30 {
        (0..20).for_each(|number| alone.test.send(&udp(alone.mac(), from, to(1001), &[number])));
        alone.settle();
    }
    let room = crate::alone::FRAMES / 2 - 8;
    assert_eq!(alone.stack.dropped(large), Some(600 - room as u32));
    assert!(alone.stack.counts().datagrams_add_up());
    assert_eq!(alone.receive(small), (0..8).map(|number| (from.into(), vec![number])).collect::<Vec<_>>());
    alone.test.send(&udp(alone.mac(), from, to(1000), b"now"));
    assert_eq!(alone.receive(small), [(from.into(), b"now".to_vec())], "what was handed over has left room");
    // What a socket held goes with it, and others may have it.
    alone.push(Op::Close { socket: large, reset: false });
    alone.settle();
    assert!(alone.is_clean());
    let other = bind_small(&mut alone, 1002, crate::alone::FRAMES);
    (0..600 / 20).for_each(|_| {
        (0..20).for_each(|number| alone.test.send(&udp(alone.mac(), from, to(1002), &[number])));
        alone.settle();
    });
    assert_eq!(alone.stack.dropped(other), Some(600 - crate::alone::FRAMES as u32 / 2));
}

#[test]
fn who_is_joined_with_a_peer_hears_that_one_and_others_hear_the_rest() {
    let mut alone = Alone::new();
    alone.meet();
    let (peer, stranger) = (SocketAddr::new(TEST.into(), 7), SocketAddr::new(TEST.into(), 8));
    let (bound, local) = alone.bind(STACK, PORT, None);
    let (joined, same) = alone.bind(STACK, PORT, Some(peer));
    assert_eq!(local, same);
    for from in [peer, stranger] {
        alone.test.send(&udp(alone.mac(), from, local, b"hello"));
    }
    assert_eq!(alone.receive(joined), [(peer.into(), b"hello".to_vec())]);
    assert_eq!(alone.receive(bound), [(stranger.into(), b"hello".to_vec())]);
    alone.push(Op::Close { socket: joined, reset: false });
    alone.settle();
    alone.test.send(&udp(alone.mac(), peer, local, b"again"));
    assert_eq!(alone.receive(bound), [(peer.into(), b"again".to_vec())]);
}

#[test]
fn addresses_that_cannot_be_had_are_refused_with_their_reason() {
    let mut alone = Alone::new();
    let bind = |alone: &mut Alone, ip: IpAddr, port: u16, peer: Option<SocketAddr>| {
        let (address, peer) = (SocketAddr::new(ip, port).into(), peer.map(Address::from));
        let bind = Bind { address, peer, share_port: false, v6_only: false, receive_buffer_bytes: 0, send_buffer_bytes: 0 };
        alone.stack.bind(&bind).map_err(|fault| fault.reason)
    };
    let (v4, v6, peer) = (STACK.into(), STACK_V6.into(), SocketAddr::new(TEST.into(), 9));
    bind(&mut alone, v4, PORT, None).unwrap();
    assert_eq!(bind(&mut alone, v4, PORT, None), Err(Reason::AddressInUse));
    bind(&mut alone, v4, PORT, Some(peer)).unwrap();
    assert_eq!(bind(&mut alone, v4, PORT, Some(peer)), Err(Reason::AddressInUse));
    assert_eq!(bind(&mut alone, v6, PORT, Some(peer)), Err(Reason::AddressUnknown), "of two families");
    assert_eq!(bind(&mut alone, v4, PORT, Some("224.0.0.1:9".parse().unwrap())), Err(Reason::Unreachable));
    // Who asks for none is given another each time, even where the last one is free again.
    let mut given = Vec::new();
    for _ in 0..5 {
        let socket = bind(&mut alone, v4, 0, None).unwrap();
        given.push(alone.stack.local_address(socket).unwrap().inet().unwrap().port());
        alone.push(Op::Close { socket, reset: false });
        alone.settle();
    }
    given.sort_unstable();
    given.dedup();
    assert!(given.len() == 5 && given.iter().all(|port| *port >= 49_152), "{given:?}");
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let mut alone = Alone::new();
    alone.meet();
    let (v4, v6) = (alone.bind(STACK, PORT, None).0, alone.bind(STACK_V6, PORT, None).0);
    let there = SocketAddr::new(TEST.into(), 9);
    let there_v6 = SocketAddr::new(TEST_V6.into(), 9);
    for (socket, to, bytes) in [
        (v4, there_v6, 8),
        (v6, there, 8),
        (v4, SocketAddr::new(TEST.into(), 0), 8),
        (v4, "224.0.0.1:9".parse().unwrap(), 8),
        (v6, "[2001:db8::1]:9".parse().unwrap(), 8),
    ] {
        assert_eq!(alone.send(socket, to, &vec![1; bytes]), (0, 1), "{to} {bytes}");
    }
    assert!(alone.test.take().is_empty() && alone.is_clean());
    assert_eq!(alone.send(v4, there, &[1; 65_507]), (1, 0), "the longest that there is");
    let whole = crate::alone::put_together(&alone.test.take());
    assert_eq!(whole.len(), 65_535);
}

#[test]
fn whoever_claims_our_address_in_ipv6_is_counted() {
    let mut alone = Alone::new();
    let option = frames::written(8, |writer| Choice::Target(TEST_MAC).emit(writer));
    let message = Message::Advertisement {
        target: STACK_V6,
        flags: AdvertisementFlags::default(),
        options: Options::new(&option).unwrap(),
    };
    let of = addresses(ENDS[1].0, ENDS[1].1);
    let body = frames::written(32, |writer| icmpv6::Message::Neighbour(message).emit(&of, writer));
    for (hops, conflicts) in [(64, 0), (255, 1)] {
        let mut packet = packets(ENDS[1].0, ENDS[1].1, IpProtocol::ICMPV6, &body, 65_528, 0).remove(0);
        packet[7] = hops;
        let frame = ethernet(alone.mac(), EtherType::IPV6, &packet);
        assert!(alone.ask(&[frame]).is_empty());
        assert_eq!(alone.stack.counts().conflicts, conflicts, "from beyond a router nobody is heard");
    }
}

/// Tunnels whose own checksum is wrong carry nothing, though what is within is right.
#[test]
fn what_a_damaged_tunnel_carries_is_dropped() {
    use corelane_stack::Tunnel;
    use corelane_wire::packet::{gre, udp as udp_format, vxlan};
    let mut alone =
        Alone::with(|settings| settings.with_tunnel(Tunnel::Gre, TEST.into(), 32).with_tunnel(Tunnel::Vxlan, TEST.into(), 32));
    alone.meet();
    let (socket, local) = alone.bind(STACK, PORT, None);
    let inner = udp(alone.mac(), SocketAddr::new(TEST.into(), 7), local, b"within");
    let header = gre::Header { has_checksum: true, key: None, sequence: None, protocol: EtherType::ETHERNET };
    let in_gre = frames::written(16 + inner.len(), |writer| {
        header.emit(&inner, writer)?;
        writer.put(&inner)
    });
    let payload = frames::written(8 + inner.len(), |writer| {
        vxlan::Header { network: vxlan::Network::new(42)? }.emit(writer)?;
        writer.put(&inner)
    });
    let in_vxlan = frames::written(8 + payload.len(), |writer| {
        let header = udp_format::Header { source: 50_000, destination: vxlan::PORT };
        header.emit(&addresses(ENDS[0].0, ENDS[0].1), &payload, writer)?;
        writer.put(&payload)
    });
    // Bytes of neither header that is looked at within: the first of the inner frame's sender.
    for (tunnel, protocol, body, at) in
        [(Tunnel::Gre, IpProtocol::GRE, in_gre, 8 + 6), (Tunnel::Vxlan, IpProtocol::UDP, in_vxlan, 16 + 6)]
    {
        for (flip, came) in [(0, 1), (0x10, 0)] {
            let mut body = body.clone();
            body[at] ^= flip;
            let packet = packets(ENDS[0].0, ENDS[0].1, protocol, &body, 65_528, 1).remove(0);
            let frame = ethernet(alone.mac(), EtherType::IPV4, &packet);
            alone.test.send(&frame);
            assert_eq!(alone.receive(socket).len(), came, "{tunnel:?}");
            let counts = alone.stack.counts().of_tunnel(tunnel);
            assert_eq!((counts.opened, counts.dropped), (1, 1 - came as u64), "{tunnel:?}");
        }
    }
    assert_eq!(alone.stack.counts().of(Drop::Checksum), 2);
}

/// The arrivals of all that waits at a socket: the bytes of each, as it says that they are cut.
fn arrivals(alone: &mut Alone, socket: Socket) -> Vec<Vec<usize>> {
    let handle = alone.push(DatagramOp::Receive { socket, into: Datagrams::new() });
    alone.settle();
    let Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) = alone.take(handle).unwrap().outcome else {
        panic!("something has arrived")
    };
    batch.arrivals().iter().map(|arrival| batch.each(arrival).map(<[u8]>::len).collect()).collect()
}

#[test]
fn datagrams_of_one_size_arrive_as_a_train_and_others_apart() {
    let mut alone = Alone::new();
    alone.meet();
    let (socket, local) = alone.bind(STACK, PORT, None);
    let (one, other) = (SocketAddr::new(TEST.into(), 7), SocketAddr::new(TEST.into(), 8));
    let mut hear = |sent: &[(SocketAddr, usize, usize)]| {
        for &(from, bytes, count) in sent {
            for _ in 0..count {
                alone.test.send(&udp(alone.mac(), from, local, &vec![1; bytes]));
                alone.settle();
            }
        }
        arrivals(&mut alone, socket)
    };
    assert_eq!(
        hear(&[(one, 100, 3), (one, 40, 1), (one, 100, 1), (one, 200, 2)]),
        [vec![100, 100, 100, 40], vec![100], vec![200, 200]]
    );
    assert_eq!(hear(&[(one, 100, 1), (other, 100, 2), (one, 100, 1)]), [vec![100], vec![100, 100], vec![100]]);
    assert_eq!(hear(&[(one, 100, 1), (one, 0, 2), (one, 100, 1)]), [vec![100], vec![0], vec![0], vec![100]]);
    let most = corelane_seam::TRAIN_DATAGRAMS_MAX;
    assert_eq!(hear(&[(one, 1, most + 2)]), [vec![1; most], vec![1; 2]]);
    assert_eq!(hear(&[(one, 1400, 50)]), [vec![1400; 46], vec![1400; 4]], "a train is no longer than a datagram may be");
}

#[test]
fn a_checksum_that_comes_to_nothing_is_sent_as_all_ones() {
    for ends in ENDS {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, _) = alone.bind(ends.1, PORT, None);
        let to = SocketAddr::new(ends.0, 9);
        // What the two bytes do to the sum, the checksum undoes: with those bytes it comes to nothing.
        assert_eq!(alone.send(socket, to, &[0, 0]), (1, 0));
        let sum = |alone: &Alone| {
            let sent = alone.test.take();
            let frame = sent.into_iter().find(|frame| datagram(frame).is_some()).unwrap();
            <[u8; 2]>::try_from(&frame[frame.len() - 4..frame.len() - 2]).unwrap()
        };
        let bytes = sum(&alone);
        assert_eq!(alone.send(socket, to, &bytes), (1, 0));
        assert_eq!(sum(&alone), [0xff; 2]);
    }
}

/// Behind a card that takes tags out and vouches for checksums: what is of a VLAN is not ours, and what is damaged is found, whether the card has looked or not.
#[test]
fn a_tag_that_the_card_took_out_and_checksums_that_it_looked_at() {
    for ends in ENDS {
        let mut alone = Alone::at(CardSetup { offloads: true, ..CardSetup::default() }, FRAMES, |settings| settings);
        alone.meet();
        let (socket, _) = alone.bind(ends.1, PORT, None);
        for round in 1..=20 {
            let good = changed(&alone, ends, |_| {});
            let tagged = [&good[..12], &[0x81, 0, 0, 5], &good[12..]].concat();
            let damaged = changed(&alone, ends, |bytes| bytes[8] ^= 1);
            [tagged, damaged, good].iter().for_each(|frame| alone.test.send(frame));
            assert_eq!(alone.receive(socket), [(Address::from(SocketAddr::new(ends.0, 7)), b"question".to_vec())]);
            let counts = alone.stack.counts();
            assert_eq!(counts.of(Drop::Vlan), round, "{ends:?}");
        }
        assert!(alone.test.take().is_empty());
    }
}

#[test]
fn nobody_answers_who_cannot_be_answered() {
    for (ends, nobodies) in [
        (ENDS[0], &["0.0.0.0", "0.0.0.5", "127.0.0.1", "224.0.0.1", "255.255.255.255", "10.0.0.255"][..]),
        (ENDS[1], &["::", "::1", "ff02::1"][..]),
    ] {
        let mut alone = Alone::new();
        alone.meet();
        let (socket, _) = alone.bind(ends.1, PORT, None);
        for (number, nobody) in nobodies.iter().enumerate() {
            let frame = changed(&alone, (nobody.parse().unwrap(), ends.1), |_| {});
            alone.test.send(&frame);
            assert!(alone.receive(socket).is_empty(), "{nobody}");
            assert_eq!(alone.stack.counts().of(Drop::NotOurs), number as u64 + 1, "{nobody}");
        }
        assert!(alone.test.take().is_empty());
    }
}

#[test]
fn a_header_of_ipv4_whose_checksum_is_wrong_is_no_header() {
    let mut alone = Alone::new();
    alone.meet();
    let mut question = echo(alone.mac(), false, b"there?", 65_528).remove(0);
    // The time to live, which nothing else depends on.
    question[22] ^= 1;
    assert!(alone.ask(&[question]).is_empty());
    assert_eq!(alone.stack.counts().of(Drop::Checksum), 1);
}

#[test]
fn what_is_said_of_neighbours_has_passed_no_router() {
    let mut alone = Alone::new();
    let advertisement = alone.ask(&[frames::solicitation(STACK_V6, 255)]).remove(0);
    let (socket, _) = alone.bind(STACK_V6, PORT, None);
    alone.send(socket, "[fd00::77]:9".parse().unwrap(), b"who?");
    let solicitation = alone.test.take().remove(0);
    for frame in [advertisement, solicitation] {
        assert!(matches!(Packet::of_frame(&frame).unwrap().transport, UpperLayer::Icmpv6(_)));
        assert_eq!(frame[14 + 7], 255, "RFC 4861, section 7.1");
    }
}

#[test]
fn a_datagram_for_which_there_are_never_frames_is_refused_at_once() {
    let mut alone = Alone::of(64, |settings| settings);
    alone.meet();
    let (socket, _) = alone.bind(STACK, PORT, None);
    let to = SocketAddr::new(TEST.into(), 9);
    assert_eq!(alone.send(socket, to, &[1; 60_000]), (0, 1));
    assert_eq!(alone.send(socket, to, &[1; 30_000]), (1, 0));
}
