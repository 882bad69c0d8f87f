//! Packet sockets.

use crate::afxdp::kernel_answers;
use crate::ends::{self, Kind, on_every_driver};
use crate::wire::{KERNEL, OURS, arp, datagram, far, on_network, ping, wire};

#[test]
fn a_packet_socket_echoes() {
    on_every_driver("packet::a_packet_socket_echoes", |by| ends::echoes(by, Kind::Packet));
}

#[test]
fn a_packet_socket_survives_its_interface_going_down_and_up_and_away() {
    on_every_driver("packet::a_packet_socket_survives_its_interface_going_down_and_up_and_away", |by| {
        ends::goes_down_and_away(by, Kind::Packet)
    });
}

#[test]
fn a_packet_socket_has_packets_longer_than_a_frame() {
    on_every_driver("packet::a_packet_socket_has_packets_longer_than_a_frame", |by| ends::long_packets(by, Kind::Packet));
}

/// More comes than the ring has places: all of it comes, whole and in order.
#[test]
fn a_ring_goes_on_behind_its_end() {
    on_network("packet::a_ring_goes_on_behind_its_end", || {
        wire(1);
        let (mut near, mut far) = (ends::nodes(Kind::Packet, 1).remove(0), far());
        for round in 0..80_u16 {
            let packets: Vec<_> = (0..40).map(|number| datagram(OURS, number, &round.to_be_bytes().repeat(50))).collect();
            assert_eq!(far.send(&packets), Ok(40));
            let frames = near.frames(40);
            assert!(frames.iter().zip(&packets).all(|(frame, packet)| **frame == **packet), "round {round}");
        }
        near.close();
        far.close();
    });
}

/// Two sockets share what comes: each packet is had once.
#[test]
fn packet_sockets_of_one_interface_share_what_comes() {
    on_network("packet::packet_sockets_of_one_interface_share_what_comes", || {
        wire(1);
        let mut nodes = ends::nodes(Kind::Packet, 2);
        far().send(&(0..50).map(|number| datagram(OURS, number, b"one of many")).collect::<Vec<_>>()).unwrap();
        let mut seen = 0;
        while seen < 50 {
            seen += nodes.iter_mut().map(|node| node.waiting().len()).sum::<usize>();
        }
        assert_eq!(seen, 50);
        nodes.into_iter().for_each(crate::node::Node::close);
    });
}

/// The kernel sees what comes for an address of ours, and says nothing to it, so that ours is the only answer. For its own address it answers.
#[test]
fn the_kernel_does_not_answer_for_an_address_of_ours() {
    on_network("packet::the_kernel_does_not_answer_for_an_address_of_ours", || {
        wire(1);
        let (mut near, mut far) = (ends::nodes(Kind::Packet, 1).remove(0), far());
        for packet in [arp(OURS), ping(OURS), datagram(OURS, 7, b"x")] {
            far.send(std::slice::from_ref(&packet)).unwrap();
            assert!(!kernel_answers(&mut far, u16::from_be_bytes([packet[12], packet[13]])));
            while !near.frames(1).iter().any(|frame| **frame == *packet) {}
        }
        far.send(&[ping(KERNEL)]).unwrap();
        assert!(kernel_answers(&mut far, 0x0800));
        near.close();
        far.close();
    });
}
