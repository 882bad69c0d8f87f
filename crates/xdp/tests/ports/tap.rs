//! Taps: the kernel is at the other end.

use crate::node::{Node, memory};
use crate::wire::{on_network, run};
use corelane_seam::Reason;
use corelane_xdp::{Error, tap};
use std::net::UdpSocket;

fn node(name: &str) -> Node {
    let memory = memory();
    Node::new(tap::open(name, 1).unwrap().remove(0).port(memory.clone()).unwrap(), memory)
}

#[test]
fn a_tap_is_the_other_end_of_a_wire_to_the_kernel() {
    on_network("tap::a_tap_is_the_other_end_of_a_wire_to_the_kernel", || {
        let mut near = node("wire");
        run(&["addr add 10.8.0.1/24 dev wire", "link set wire address 02:00:00:00:00:01 up"]);
        run(&["neigh add 10.8.0.2 lladdr 02:00:00:00:00:02 dev wire nud permanent"]);
        let socket = UdpSocket::bind("10.8.0.1:7000").unwrap();
        assert_eq!(socket.send_to(b"from the kernel", "10.8.0.2:7001").unwrap(), 15);
        let frame = near.frames(1).remove(0);
        assert!(frame.ends_with(b"from the kernel"));
        // Addresses and ports change places, and the datagram goes back.
        let mut back = frame.to_vec();
        drop(frame);
        back[..12].rotate_left(6);
        back[26..34].rotate_left(4);
        back[34..38].rotate_left(2);
        assert_eq!(near.send(&[back]), Ok(1));
        let mut bytes = [0; 100];
        let (length, from) = socket.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..length], from), (&b"from the kernel"[..], "10.8.0.2:7001".parse().unwrap()));
        near.close();
    });
}

#[test]
fn a_tap_goes_down_and_up_and_away() {
    on_network("tap::a_tap_goes_down_and_up_and_away", || {
        let mut near = node("wire");
        let mut receive = near.receive();
        assert_eq!(near.arrived(receive).unwrap_err().reason, Reason::Down, "nobody has set it up yet");
        run(&["link set wire up"]);
        while near.send(&[vec![2; 60]]).is_err() {
            near.collect(1_000_000);
        }
        receive = near.receive();
        near.collect(0);
        run(&["link set wire down"]);
        assert_eq!(near.arrived(receive).unwrap_err().reason, Reason::Down);
        receive = near.receive();
        near.collect(0);
        run(&["link del wire"]);
        while near.arrived(receive).unwrap_err().reason != Reason::NoInterface {
            receive = near.receive();
        }
        assert_eq!(near.send(&[vec![2; 60]]).unwrap_err().reason, Reason::NoInterface);
        near.close();
    });
}

#[test]
fn what_cannot_be_a_tap_is_said() {
    on_network("tap::what_cannot_be_a_tap_is_said", || {
        run(&["link add taken type veth peer name other", "link set lo up"]);
        assert!(matches!(tap::open("taken", 1), Err(Error::Busy { .. })));
        assert!(matches!(tap::open("", 1), Err(Error::NameInvalid { .. })));
        assert!(matches!(tap::open("wire", 0), Err(Error::Range { .. })));
        assert!(matches!(tap::open("wire", tap::QUEUES_MAX + 1), Err(Error::Range { .. })));
        let queue = tap::open("wire", 1).unwrap().remove(0);
        run(&["link set wire mtu 9000"]);
        let short = queue.port(memory()).unwrap_err();
        assert!(matches!(short, Error::FrameShort { needed: 9018, got: 1920, .. }), "{short}");
    });
}
