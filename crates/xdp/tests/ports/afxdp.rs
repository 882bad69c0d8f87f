//! AF_XDP.

use crate::ends::{self, Kind, nodes};
use crate::node::{Node, memory};
use crate::wire::{FAR, FAR_MAC, KERNEL, NEAR_MAC, OURS, arp, datagram, far, ipv4, on_network, ping, run, udp, wire};
use corelane_seam::FrameMemory;
use corelane_xdp::{Error, Ours, afxdp};
use std::net::UdpSocket;
use std::process::Command;

#[test]
fn a_port_echoes() {
    on_network("afxdp::a_port_echoes", || ends::echoes(Kind::Xdp));
}

#[test]
fn a_port_survives_its_interface_going_down_and_up_and_away() {
    on_network("afxdp::a_port_survives_its_interface_going_down_and_up_and_away", || ends::goes_down_and_away(Kind::Xdp));
}

/// Whether somebody at the near end has answered what the far end sent last.
fn kernel_answers(far: &mut Node, kind: u16) -> bool {
    // The kernel answers within the call that sends, or shortly after: what marks the end of that is an answer that must come.
    far.send(&[arp(KERNEL)]).unwrap();
    let (mut seen, mut marked) = (false, false);
    while !marked {
        for frame in far.frames(1) {
            let is = |kind: u16| frame[12..14] == kind.to_be_bytes();
            marked |= is(0x0806) && frame[28..32] == KERNEL.octets();
            seen |= is(kind) && !(is(0x0806) && frame[28..32] == KERNEL.octets());
        }
    }
    seen
}

/// Who has an address answers for it, and nobody else does.
#[test]
fn an_address_of_ours_is_ours_alone() {
    on_network("afxdp::an_address_of_ours_is_ours_alone", || {
        wire(1);
        let mut near = nodes(Kind::Xdp, 1).remove(0);
        let mut far = far();
        let ours = [
            arp(OURS),
            ping(OURS),
            datagram(OURS, 7, b"x"),
            ipv4(OURS, 17, 0x2000, 0, &udp((1, 7), b"a first fragment")),
            ipv4(OURS, 17, 3, 0, b"a last fragment"),
            ipv4(OURS, 6, 0, 8, &[0; 20]),
        ];
        for packet in ours {
            far.send(std::slice::from_ref(&packet)).unwrap();
            assert!(!kernel_answers(&mut far, u16::from_be_bytes([packet[12], packet[13]])));
            assert_eq!(*near.frames(1)[0], *packet);
        }
        let socket = UdpSocket::bind((KERNEL, 7)).unwrap();
        far.send(&[datagram(KERNEL, 7, b"the kernel's")]).unwrap();
        let mut bytes = [0; 100];
        assert_eq!(socket.recv(&mut bytes).unwrap(), 12);
        far.send(&[ping(KERNEL)]).unwrap();
        assert!(kernel_answers(&mut far, 0x0800));
        far.send(&[vec![0xff; 14], NEAR_MAC.to_vec(), [&NEAR_MAC[..], &FAR_MAC, &[0x08, 0x00, 0x45]].concat()])
            .unwrap_or_default();
        assert!(near.waiting().is_empty(), "what is the kernel's or no packet at all is not ours");
        near.close();
    });
}

/// With ports alone the address stays the kernel's, with all that belongs to it.
#[test]
fn ports_of_a_kernels_address_are_ours_and_the_rest_is_not() {
    on_network("afxdp::ports_of_a_kernels_address_are_ours_and_the_rest_is_not", || {
        wire(1);
        let queue = afxdp::open("near", &Ours::Ports(vec![(KERNEL, 7).into(), (KERNEL, 9).into()]), 1).unwrap().remove(0);
        let memory = memory();
        let mut near = Node::new(queue.port(memory.clone(), 64).unwrap(), memory);
        let mut far = far();
        let ours =
            [datagram(KERNEL, 7, b"x"), datagram(KERNEL, 9, b"y"), ipv4(KERNEL, 17, 0, 40, &udp((7, 9), b"behind options"))];
        for packet in ours {
            far.send(std::slice::from_ref(&packet)).unwrap();
            assert_eq!(*near.frames(1)[0], *packet);
        }
        let socket = UdpSocket::bind((KERNEL, 8)).unwrap();
        far.send(&[datagram(KERNEL, 8, b"the kernel's")]).unwrap();
        let mut bytes = [0; 100];
        assert_eq!(socket.recv_from(&mut bytes).unwrap(), (12, (FAR, 7777).into()));
        let theirs = [
            ipv4(KERNEL, 17, 0x2000, 0, &udp((1, 7), b"a first fragment")),
            ipv4(KERNEL, 17, 1, 0, &udp((1, 7), b"not a port")),
            ipv4(KERNEL, 6, 0, 0, &udp((1, 7), b"not UDP at all, but TCP")),
            datagram(OURS, 7, b"another address"),
            ipv4(KERNEL, 17, 0, 0, &[0, 1, 0]),
        ];
        far.send(&theirs).unwrap();
        far.send(&[ping(KERNEL)]).unwrap();
        assert!(kernel_answers(&mut far, 0x0800));
        assert!(near.waiting().is_empty());
        near.close();
    });
}

/// Each packet of several queues comes to the socket of its own queue, and once.
#[test]
fn each_queue_has_its_own_port() {
    on_network("afxdp::each_queue_has_its_own_port", || {
        wire(2);
        let mut nodes = nodes(Kind::Xdp, 2);
        assert_eq!(nodes.iter().map(|node| node.facts.queue).collect::<Vec<_>>(), [0, 1]);
        let mut far = far();
        far.send(&(0..50).map(|number| datagram(OURS, number, b"one of many")).collect::<Vec<_>>()).unwrap();
        let mut seen = 0;
        while seen < 50 {
            seen += nodes.iter_mut().map(|node| node.waiting().len()).sum::<usize>();
        }
        assert_eq!(seen, 50);
        nodes.into_iter().for_each(Node::close);
    });
}

/// What arrives while the kernel has no frame is dropped and counted, and nothing else is.
#[test]
fn drops_are_counted() {
    on_network("afxdp::drops_are_counted", || {
        use corelane_seam::Port;
        wire(1);
        let memory = FrameMemory::new(8, 2048).unwrap();
        let queue = afxdp::open("near", &Ours::All, 1).unwrap().remove(0);
        let mut port = queue.port(memory.clone(), 16).unwrap();
        let mut far = far();
        far.send(&(0..20).map(|number| datagram(OURS, number, b"too many")).collect::<Vec<_>>()).unwrap();
        let mut frames = Vec::new();
        while frames.len() < 8 {
            port.receive(1, 64, &mut frames).unwrap();
        }
        // What the kernel has taken up by now it has dropped; frames behind that come when it has frames again.
        while port.drops().unwrap().no_frame < 12 {}
        assert_eq!(port.drops().unwrap(), afxdp::Drops { dropped: 12, ring_full: 0, no_frame: 12 });
        frames.clear();
        port.receive(1, 64, &mut frames).unwrap();
        far.send(&[datagram(OURS, 99, b"now")]).unwrap();
        while frames.is_empty() {
            port.receive(1, 64, &mut frames).unwrap();
        }
        assert!(frames[0].ends_with(b"now"));
        frames.clear();
        drop(port);
        assert_eq!(memory.counts().free, 8);
    });
}

#[test]
fn what_cannot_be_opened_is_said() {
    on_network("afxdp::what_cannot_be_opened_is_said", || {
        wire(1);
        assert!(matches!(afxdp::open("nobody", &Ours::All, 1), Err(Error::NoInterface { .. })));
        assert!(matches!(afxdp::open("near", &Ours::All, 2), Err(Error::NoQueue { queue: 1, .. })));
        assert!(matches!(afxdp::open("near", &Ours::Addresses(Vec::new()), 1), Err(Error::Range { .. })));
        let queue = || afxdp::open("near", &Ours::All, 1).unwrap().remove(0);
        let refused = queue().port(FrameMemory::new(8, 8192).unwrap(), 16).unwrap_err();
        assert!(matches!(refused, Error::Range { got: 8192, .. }), "{refused}");
        assert!(matches!(queue().port(memory(), 48), Err(Error::Range { got: 48, .. })));
        let taken = queue();
        assert!(matches!(afxdp::open("near", &Ours::All, 1), Err(Error::Busy { .. })), "the interface has a program");
        drop(taken);
        run(&["link set near mtu 3000"]);
        assert!(matches!(queue().port(memory(), 16), Err(Error::FrameShort { needed: 3018, got: 1792, .. })));
    });
}

/// The names of the programs that the interface has, as ip(8) shows it.
fn has_program() -> bool {
    let shown = Command::new("ip").args(["-d", "link", "show", "near"]).output().unwrap();
    String::from_utf8_lossy(&shown.stdout).contains("xdp")
}

#[test]
fn the_program_goes_with_the_last_queue() {
    on_network("afxdp::the_program_goes_with_the_last_queue", || {
        wire(2);
        let mut queues = afxdp::open("near", &Ours::All, 2).unwrap();
        assert!(has_program());
        drop(queues.remove(0));
        assert!(has_program());
        drop(queues);
        assert!(!has_program());
    });
}
