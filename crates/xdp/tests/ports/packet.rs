//! Packet sockets.

use crate::ends::{self, Kind, on_every_driver};
use crate::wire::{OURS, datagram, far, on_network, wire};

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
