//! Packets that are longer than a frame, on a wire that carries them: they lie in several.

use crate::alone::{Alone, put_together};
use crate::frames::{STACK, STACK_V6, TEST, TEST_V6, arp, datagram, echo, udp_in};
use corelane_seam::{Address, Frame};
use corelane_stack::Drop;
use corelane_wire::packet::arp::Operation;
use std::net::{IpAddr, SocketAddr};

/// Bytes of the longest packet of the wire, with its headers: it lies in five frames.
const MOST: usize = 9014;
/// Bytes that a frame has room for.
const ROOM: usize = 2048 - Frame::HEADROOM;

fn alone() -> Alone {
    Alone::on_wire(MOST, 256, |settings| settings)
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

/// Datagrams of all numbers of frames, at and beside their borders, are one packet in both directions, and their sums are right.
#[test]
fn datagrams_longer_than_a_frame_come_and_go_uncut() {
    let mut alone = alone();
    alone.meet();
    for (ours, theirs, head) in [(IpAddr::from(STACK), IpAddr::from(TEST), 42), (STACK_V6.into(), TEST_V6.into(), 62)] {
        let (socket, local) = alone.bind(ours, 60_007, None);
        let peer = SocketAddr::new(theirs, 4000);
        let borders = (1..=5).flat_map(|frames| [-1, 0, 1].map(|beside| (frames * ROOM - head).saturating_add_signed(beside)));
        for length in borders.filter(|length| length + head <= MOST).chain([1, 7777, MOST - head]) {
            let frames = udp_in(alone.mac(), peer, local, &data(length), 65_528, 1);
            assert_eq!(frames.len(), 1);
            alone.test.send(&frames[0]);
            assert_eq!(alone.receive(socket), [(Address::from(peer), data(length))], "{length}");
            assert_eq!(alone.send(socket, peer, &data(length)), (1, 0));
            let sent = alone.test.take();
            assert_eq!(sent.len(), 1, "{length} bytes are not cut");
            let found = datagram(&sent[0]).unwrap();
            assert_eq!((found.from, found.to), (local, peer));
            assert!(found.payload == data(length), "{length}");
        }
        // One byte more is cut, and the fragments come together.
        let longer = data(MOST - head + 1);
        assert_eq!(alone.send(socket, peer, &longer), (1, 0));
        let sent = alone.test.take();
        assert!(sent.len() > 1 && put_together(&sent).ends_with(&longer));
    }
    assert!(alone.is_clean(), "{:?}", alone.memory.counts());
    assert_eq!(alone.stack.counts().dropped(), 0);
}

#[test]
fn echoes_longer_than_a_frame_are_answered_uncut() {
    let mut alone = alone();
    alone.meet();
    for v6 in [false, true] {
        let mac = alone.mac();
        let answer = alone.ask(&echo(mac, v6, &data(7000), 65_528));
        assert!(answer.len() == 1 && answer[0].ends_with(&data(7000)));
    }
    assert_eq!(alone.stack.counts().echoes, 2);
    assert!(alone.is_clean());
}

/// A bit that is wrong is found in whichever frame it lies.
#[test]
fn the_sum_goes_over_all_frames() {
    let mut alone = alone();
    alone.meet();
    let (socket, local) = alone.bind(STACK, 60_007, None);
    let peer = SocketAddr::new(TEST.into(), 4000);
    let right = udp_in(alone.mac(), peer, local, &data(8000), 65_528, 1).remove(0);
    let places = [50, ROOM - 1, ROOM, 2 * ROOM + 1, 3 * ROOM, 4 * ROOM + 7, right.len() - 1];
    for place in places {
        let mut wrong = right.clone();
        wrong[place] ^= 1;
        alone.test.send(&wrong);
        assert!(alone.receive(socket).is_empty(), "{place}");
    }
    assert_eq!(alone.stack.counts().of(Drop::Checksum), places.len() as u64);
    alone.test.send(&right);
    assert_eq!(alone.receive(socket).len(), 1);
    assert!(alone.is_clean());
}

/// What the header says is what counts: what follows a packet in its frames is left out, and what is missing is noticed.
#[test]
fn lengths_of_long_packets_may_lie() {
    let mut alone = alone();
    alone.meet();
    let (socket, local) = alone.bind(STACK, 60_007, None);
    let peer = SocketAddr::new(TEST.into(), 4000);
    let right = udp_in(alone.mac(), peer, local, &data(5000), 65_528, 1).remove(0);
    for more in [1, 18, ROOM, 2 * ROOM] {
        alone.test.send(&[&right[..], &vec![0xee; more]].concat());
        assert_eq!(alone.receive(socket), [(Address::from(peer), data(5000))], "{more} bytes follow");
    }
    let cuts = (14..right.len()).step_by(97).chain([ROOM - 1, ROOM, ROOM + 1, 2 * ROOM, right.len() - 1]);
    for cut in cuts {
        alone.test.send(&right[..cut]);
        assert!(alone.receive(socket).is_empty(), "cut at {cut}");
    }
    assert_eq!(alone.stack.counts().datagrams_in, 4);
    assert!(alone.is_clean());
}

/// The longest datagrams come in fragments as long as the wire takes them, and in such as a narrower one makes; what leaves comes together, also here.
#[test]
fn the_longest_datagrams_come_and_go_in_fragments() {
    for most in [1514, MOST] {
        let mut alone = Alone::on_wire(most, 1024, |settings| settings);
        alone.meet();
        for (ours, theirs, longest) in
            [(IpAddr::from(STACK), IpAddr::from(TEST), 65_507), (STACK_V6.into(), TEST_V6.into(), 65_527)]
        {
            let (socket, local) = alone.bind(ours, 60_007, None);
            let peer = SocketAddr::new(theirs, 4000);
            for (name, length) in [25_001, 60_000, longest].into_iter().enumerate() {
                // What the wire takes; what just does not fit into a frame; and what each link of IPv6 takes.
                for part in [(most - 14 - 48) & !7, (ROOM - 14).min(most - 62) & !7, 1232] {
                    let frames = udp_in(alone.mac(), peer, local, &data(length), part, name as u16);
                    frames.iter().for_each(|frame| alone.test.send(frame));
                    assert!(alone.receive(socket) == [(Address::from(peer), data(length))], "{length} bytes by {part} at {most}");
                }
                assert_eq!(alone.send(socket, peer, &data(length)), (1, 0));
                assert!(put_together(&alone.test.take()).ends_with(&data(length)), "{length} at {most}");
                assert_eq!(alone.send(socket, local, &data(length)), (1, 0));
                assert!(alone.receive(socket) == [(Address::from(local), data(length))], "{length} at {most}");
            }
        }
        assert!(alone.is_clean(), "{:?}", alone.memory.counts());
        assert_eq!(alone.stack.counts().dropped(), 0);
    }
}

/// Also in any order, and with bytes that fill up their frames.
#[test]
fn fragments_longer_than_a_frame_come_together_in_any_order() {
    let mut alone = alone();
    alone.meet();
    for (ours, theirs) in [(IpAddr::from(STACK), IpAddr::from(TEST)), (STACK_V6.into(), TEST_V6.into())] {
        let (socket, local) = alone.bind(ours, 60_007, None);
        let peer = SocketAddr::new(theirs, 4000);
        for (name, more) in [0, 1, 7, ROOM].into_iter().enumerate() {
            let mut frames = udp_in(alone.mac(), peer, local, &data(20_003), 4000, name as u16);
            frames.rotate_left(1 + name);
            frames.reverse();
            frames.iter().for_each(|frame| alone.test.send(&[&frame[..], &vec![0xee; more]].concat()));
            assert!(alone.receive(socket) == [(Address::from(peer), data(20_003))], "{more} bytes follow");
        }
    }
    assert!(alone.is_clean(), "{:?}", alone.memory.counts());
}

/// Of a neighbour whose address is asked for, all fragments of the longest datagram wait.
#[test]
fn the_longest_datagram_waits_for_its_neighbour() {
    let mut alone = Alone::new();
    let (socket, _) = alone.bind(STACK, 60_007, None);
    assert_eq!(alone.send(socket, SocketAddr::new(TEST.into(), 9), &data(65_507)), (1, 0));
    assert_eq!(alone.test.take().len(), 1, "one question");
    let mac = alone.mac();
    let left = alone.ask(&[arp(Operation::Reply, mac, TEST, STACK)]);
    assert!(put_together(&left).ends_with(&data(65_507)));
    assert!(alone.is_clean());
}

/// Packets of several frames wait for a neighbour whole, and leave whole and in order.
#[test]
fn long_packets_wait_for_their_neighbour() {
    let mut alone = alone();
    let (socket, _) = alone.bind(STACK, 60_007, None);
    let to = SocketAddr::new(TEST.into(), 9);
    let lengths = [5000, 1, 8000, 2000];
    lengths.iter().for_each(|&length| assert_eq!(alone.send(socket, to, &data(length)), (1, 0)));
    assert_eq!(alone.test.take().len(), 1, "one question");
    let mac = alone.mac();
    let left = alone.ask(&[arp(Operation::Reply, mac, TEST, STACK)]);
    let found: Vec<_> = left.iter().map(|frame| datagram(frame).unwrap().payload).collect();
    assert!(found == lengths.map(data), "{:?}", found.iter().map(Vec::len).collect::<Vec<_>>());
    assert!(alone.is_clean());
}

/// What the stack sends to itself comes back in as many frames.
#[test]
fn long_packets_to_itself_come_back() {
    let mut alone = alone();
    let (socket, local) = alone.bind(STACK_V6, 60_007, None);
    assert_eq!(alone.send(socket, local, &data(7000)), (1, 0));
    assert_eq!(alone.receive(socket), [(Address::from(local), data(7000))]);
    assert!(alone.is_clean());
}
