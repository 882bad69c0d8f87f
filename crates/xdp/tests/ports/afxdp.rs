//! AF_XDP.

use crate::ends::{self, Kind, nodes, on_every_driver};
use crate::node::{Node, ROOM, memory};
use crate::wire::{
    FAR, FAR_MAC, KERNEL, NEAR_MAC, OURS, OURS_V6, arp, datagram, far, far_with, ipv4, ipv6, on_network, ping, run, solicitation,
    udp, wire,
};
use corelane_os::netlink::generic::{Family, ask, attributes};
use corelane_os::testing::skip;
use corelane_seam::{FRAMES_MAX, Frame, FrameMemory, Port, Reason};
use corelane_sim::{CapturedPort, FaultyPort, PortFaults};
use corelane_xdp::{Error, Interface, Loss, Ours, Queue, afxdp, packet, ports_for, tap};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv6Addr, UdpSocket};
use std::process::{Command, Stdio};

#[test]
fn a_port_echoes() {
    on_every_driver("afxdp::a_port_echoes", |by| ends::echoes(by, Kind::Xdp));
}

/// The kernel copies here, and that is told.
#[test]
fn a_port_has_packets_longer_than_a_frame() {
    on_every_driver("afxdp::a_port_has_packets_longer_than_a_frame", |by| ends::long_packets(by, Kind::Xdp));
}

/// Whether packets longer than a frame can come here.
fn pieces_lack() -> Option<String> {
    run(&["link set near mtu 9000", "link set far mtu 9000"]);
    let queue = afxdp::open("near", &Ours::All, 1).unwrap().remove(0);
    queue.port(memory(), 64).err().map(|why| why.to_string())
}

/// The ring takes whole packets: one that has not all of its places waits with those behind it.
#[test]
fn long_packets_leave_as_far_as_the_ring_has_places_for_all_of_one() {
    const NAME: &str = "afxdp::long_packets_leave_as_far_as_the_ring_has_places_for_all_of_one";
    on_network(NAME, || {
        use corelane_seam::Port;
        wire(1);
        if let Some(why) = pieces_lack() {
            return skip(NAME, &why);
        }
        let memory = memory();
        let mut port = afxdp::open("near", &Ours::All, 1).unwrap().remove(0).port(memory.clone(), 16).unwrap();
        let mut far = far();
        let packets: Vec<_> = (0..5).map(|number| datagram(FAR, number, &vec![number as u8; 8000])).collect();
        let mut frames: Vec<_> = packets.iter().flat_map(|packet| cut(&memory, packet)).collect();
        assert_eq!(frames.len(), 25);
        assert_eq!(port.send(1, &mut frames).unwrap().taken, 15);
        assert_eq!(Frame::packets(&frames).map(<[Frame]>::len).collect::<Vec<_>>(), [5, 5]);
        while !frames.is_empty() {
            port.send(1, &mut frames).unwrap();
        }
        assert!(far.packets(5) == packets);
        drop(port);
        assert_eq!(memory.counts().free, memory.frames());
        far.close();
    });
}

/// A packet in frames as full as they can be.
fn cut(memory: &FrameMemory, packet: &[u8]) -> Vec<Frame> {
    let chunks = packet.chunks(ROOM);
    let last = chunks.len() - 1;
    let frame = |(number, bytes): (usize, &[u8])| {
        let mut frame = memory.frame().unwrap();
        frame.append(bytes);
        frame.facts.continues = number < last;
        frame
    };
    chunks.enumerate().map(frame).collect()
}

/// A packet with more pieces than one may have, or than a receive is for, is lost whole, and counted; what comes behind it comes.
#[test]
fn what_has_too_many_pieces_is_lost_and_counted() {
    const NAME: &str = "afxdp::what_has_too_many_pieces_is_lost_and_counted";
    on_network(NAME, || {
        use corelane_seam::Port;
        wire(1);
        if let Some(why) = pieces_lack() {
            return skip(NAME, &why);
        }
        let memory = memory();
        let mut port = afxdp::open("near", &Ours::All, 1).unwrap().remove(0).port(memory.clone(), 128).unwrap();
        run(&["link set near mtu 65000", "link set far mtu 65000"]);
        let mut far = far_with(FrameMemory::new(64, 1 << 14).unwrap());
        let mut comes = |data: &[usize], at_most: usize| {
            far.send(&data.iter().map(|&bytes| ipv4(OURS, 17, 0, 0, &udp((1, 7), &vec![1; bytes]))).collect::<Vec<_>>()).unwrap();
            let (mut seen, mut frames) = (Vec::new(), Vec::new());
            // The last is short, and always comes.
            while seen.last() != data.last() {
                port.receive(1, at_most, &mut frames).unwrap();
                assert!(frames.len() <= at_most && frames.last().is_none_or(|last| !last.facts.continues));
                let lengths = Frame::packets(&frames).map(|packet| packet.iter().map(|frame| frame.len()).sum());
                seen.extend(lengths.map(|bytes: usize| bytes - 42));
                frames.clear();
            }
            (seen, port.too_long())
        };
        // 1,792 bytes of each frame are for a packet.
        assert_eq!(comes(&[17 * 1792 - 42, 17 * 1792 - 41, 100], 64), (vec![17 * 1792 - 42, 100], 1));
        assert_eq!(comes(&[8000, 100], 4), (vec![100], 2), "it needs five");
        assert_eq!(
            comes(&[8000, 5000, 5000, 100], 5),
            (vec![8000, 5000, 5000, 100], 2),
            "what does not fit comes with the next batch"
        );
        drop(port);
        assert_eq!(memory.counts().free, memory.frames());
        far.close();
    });
}

#[test]
fn a_port_survives_its_interface_going_down_and_up_and_away() {
    on_every_driver("afxdp::a_port_survives_its_interface_going_down_and_up_and_away", |by| {
        ends::goes_down_and_away(by, Kind::Xdp)
    });
}

/// Whether somebody at the near end has answered what the far end sent last.
pub fn kernel_answers(far: &mut Node, kind: u16) -> bool {
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

/// The same over IPv6: neighbours ask a group, in which others are as well, for the address.
#[test]
fn an_address_of_ours_over_ipv6_is_ours_and_another_is_not() {
    on_network("afxdp::an_address_of_ours_over_ipv6_is_ours_and_another_is_not", || {
        wire(1);
        let queue = afxdp::open("near", &Ours::Addresses(vec![OURS_V6.into()]), 1).unwrap().remove(0);
        let memory = memory();
        let mut near = Node::new(queue.port(memory.clone(), 64).unwrap(), memory);
        let mut far = far();
        // The same group, another address; another address; a message of another kind to the group.
        let other = Ipv6Addr::from_bits(OURS_V6.to_bits() | 1 << 64);
        let mut redirect = solicitation(OURS_V6);
        redirect[54] = 137;
        far.send(&[solicitation(other), ipv6(other, 17, &udp((1, 7), b"x")), redirect, ipv6(OURS_V6, 58, b"")[..50].to_vec()])
            .unwrap();
        let ours = [
            solicitation(OURS_V6),
            ipv6(OURS_V6, 17, &udp((1, 7), b"x")),
            ipv6(OURS_V6, 44, b"a fragment"),
            ipv6(OURS_V6, 58, b""),
        ];
        far.send(&ours).unwrap();
        assert_eq!(near.frames(4).iter().map(|frame| frame.to_vec()).collect::<Vec<_>>(), ours);
        near.close();
    });
}

/// The kernel takes no queue away that somebody has, and the port goes on.
#[test]
fn a_queue_in_use_is_not_taken_away() {
    on_network("afxdp::a_queue_in_use_is_not_taken_away", || {
        if Command::new("ethtool").arg("--version").output().is_err() {
            return skip("afxdp::a_queue_in_use_is_not_taken_away", "ethtool is not installed");
        }
        wire(2);
        let mut nodes = nodes(Kind::Xdp, 2);
        let fewer = || Command::new("ethtool").args(["-L", "near", "rx", "1", "tx", "1"]).output().unwrap().status.success();
        assert!(!fewer());
        let mut far = far();
        far.send(&[datagram(OURS, 7, b"still there")]).unwrap();
        while nodes.iter_mut().map(|node| node.waiting().len()).sum::<usize>() == 0 {}
        nodes.into_iter().for_each(Node::close);
        // The kernel lets go of the queues a little later.
        assert!((0..1000).any(|_| fewer()));
        let refused = afxdp::open("near", &Ours::All, 2).and_then(drop_ports).unwrap_err();
        assert!(matches!(refused, Error::NoQueue { queue: 1, .. }), "{refused}");
    });
}

/// Opens a port on each queue, and closes all of them.
fn drop_ports(queues: Vec<afxdp::XdpQueue>) -> Result<(), Error> {
    queues.into_iter().try_for_each(|queue| queue.port(memory(), 64).map(drop))
}

/// Wrappers fit around a port of a real interface: faults happen to what arrives, and another program reads what was captured.
#[test]
fn wrappers_fit_around_it() {
    const NAME: &str = "afxdp::wrappers_fit_around_it";
    on_network(NAME, || {
        wire(1);
        let queue = afxdp::open("near", &Ours::All, 1).unwrap().remove(0);
        let memory = memory();
        let (port, capture) = CapturedPort::new(queue.port(memory.clone(), 64).unwrap(), 1 << 20);
        let faults = PortFaults { drop: 500, ..PortFaults::default() };
        let mut drawn = 0_u64;
        let every_other = move || {
            drawn += 1;
            // A frame that is kept draws four times more, for faults that never happen.
            if drawn % 6 == 1 { 0 } else { u64::MAX }
        };
        let (port, counts) = FaultyPort::new(port, faults, every_other);
        let mut near = Node::new(port, memory);
        far().send(&(0..20).map(|number| datagram(OURS, number, b"one of many")).collect::<Vec<_>>()).unwrap();
        let mut seen = 0;
        while seen + (counts.get().dropped as usize) < 20 {
            seen += near.waiting().len();
        }
        assert!(seen > 0 && counts.get().dropped > 0, "{seen}");
        let read = Command::new("tcpdump").args(["-n", "-r", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut read) = read else { return skip(NAME, "tcpdump is not installed") };
        read.stdin.take().unwrap().write_all(&capture.take()).unwrap();
        let output = read.wait_with_output().unwrap();
        let lines = String::from_utf8_lossy(&output.stdout);
        assert_eq!(lines.lines().filter(|line| line.contains("10.9.0.77.7777 > 10.9.0.2.")).count(), 20, "{lines}");
        near.close();
    });
}

/// The best kind of port is chosen, and what was lost is said.
#[test]
fn the_best_port_is_chosen_and_losses_are_told() {
    on_network("afxdp::the_best_port_is_chosen_and_losses_are_told", || {
        wire(1);
        let ours = Ours::Addresses(vec![OURS.into()]);
        let best = ports_for("near", &ours, 1).unwrap();
        assert!(matches!(best.queues[..], [Queue::Xdp(_)]) && best.lost.is_empty());
        assert!(best.frames_max(2048, 0) >= 256);
        let second = ports_for("near", &ours, 1).unwrap_err();
        assert!(matches!(second, Error::ProgramThere { .. }), "it would hear nothing: {second}");
        assert!(second.to_string().contains("end it, or use another interface"), "{second}");
        drop(best);
        without(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN);
        let mut second = ports_for("near", &ours, 1).unwrap();
        assert!(matches!(second.queues[..], [Queue::Packet(_)]) && matches!(second.lost[..], [Loss::Xdp(Error::Program(_))]));
        assert_eq!(second.frames_max(2048, 0), FRAMES_MAX, "nothing of it is locked");
        let words = second.lost[0].to_string();
        assert!(words.contains("give the process CAP_BPF") && !words.contains("classic"), "{words}");
        let memory = memory();
        let mut near = Node::new(second.queues.remove(0).port(memory.clone(), 64).unwrap(), memory);
        far().send(&[datagram(OURS, 7, b"by a packet socket")]).unwrap();
        assert!(near.frames(1)[0].ends_with(b"by a packet socket"));
        near.close();
        assert!(matches!(ports_for("nobody", &ours, 1), Err(Error::NoInterface { .. })));
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

/// Whether lanes can take packets in by themselves here; a test that needs it is left out otherwise.
fn can_poll(test: &str) -> bool {
    wire(1);
    let polled = afxdp::open("near", &Ours::All, 1).and_then(|mut queues| afxdp::poll(&mut queues));
    run(&["link del near"]);
    polled.map_err(|why| skip(test, &why.to_string())).is_ok()
}

#[test]
fn a_port_that_takes_packets_in_by_itself_echoes() {
    const NAME: &str = "afxdp::a_port_that_takes_packets_in_by_itself_echoes";
    on_every_driver(NAME, |by| {
        if can_poll(NAME) {
            ends::echoes(by, Kind::Polling);
        }
    });
}

#[test]
fn a_port_that_takes_packets_in_by_itself_survives_its_interface_going_down_and_up_and_away() {
    const NAME: &str = "afxdp::a_port_that_takes_packets_in_by_itself_survives_its_interface_going_down_and_up_and_away";
    on_every_driver(NAME, |by| {
        if can_poll(NAME) {
            ends::goes_down_and_away(by, Kind::Polling);
        }
    });
}

/// Packets come whole and in order, whether the port has taken them in or the kernel has; and when the port is gone, its queue is free.
#[test]
fn a_port_that_takes_packets_in_by_itself_has_all_and_leaves_its_queue() {
    const NAME: &str = "afxdp::a_port_that_takes_packets_in_by_itself_has_all_and_leaves_its_queue";
    on_network(NAME, || {
        if !can_poll(NAME) {
            return;
        }
        wire(1);
        for _ in 0..3 {
            let mut near = nodes(Kind::Polling, 1).remove(0);
            let mut far = far();
            for round in 0..200 {
                let packets: Vec<_> = (0..40).map(|number| datagram(OURS, number, &[round; 100])).collect();
                assert_eq!(far.send(&packets), Ok(40));
                assert!(near.frames(40).iter().zip(&packets).all(|(frame, packet)| **frame == **packet));
            }
            near.close();
            far.close();
        }
        nodes(Kind::Xdp, 1).into_iter().for_each(Node::close);
    });
}

/// Sending is a part of the lane's time, so a port that shares it by the clock says how long it sent, and one that does not share it does not ask.
#[test]
fn a_port_that_takes_packets_in_by_itself_tells_how_long_it_sent() {
    const NAME: &str = "afxdp::a_port_that_takes_packets_in_by_itself_tells_how_long_it_sent";
    on_network(NAME, || {
        if !can_poll(NAME) {
            return;
        }
        wire(1);
        for is_polling in [true, false] {
            let mut opened = afxdp::open("near", &Ours::Addresses(vec![OURS.into()]), 1).unwrap();
            if is_polling {
                afxdp::poll(&mut opened).unwrap();
            }
            let memory = memory();
            let mut port = opened.remove(0).port(memory.clone(), 128).unwrap();
            let mut frames = vec![memory.frame().unwrap()];
            frames[0].append(&datagram(OURS, 1, b"sent"));
            let before = port.worked().sent;
            assert_eq!(port.send(1, &mut frames).unwrap().taken, 1);
            assert_eq!(port.worked().sent > before, is_polling);
        }
    });
}

/// Has the kernel leave receiving to whoever looks for a whole minute, at what receives for this interface.
pub fn defer_for_a_minute(name: &str) {
    const NAPI_GET: u8 = 11;
    const NAPI_SET: u8 = 14;
    let (interface, family) = (Interface::find(name).unwrap().link.interface, Family::find(c"netdev").unwrap());
    let request = family.list(NAPI_GET).attribute(1, &interface.to_ne_bytes());
    let ids: Vec<_> = ask(request).unwrap().iter().filter_map(|body| attributes(body).unwrap().number(2)).collect();
    assert_eq!(ids.len(), 1, "one queue has one");
    let request = Family::find(c"netdev").unwrap().one(NAPI_SET).attribute(2, &ids[0].to_ne_bytes());
    ask(request.attribute(6, &60_000_000_000_u64.to_ne_bytes())).unwrap();
}

/// Sends a datagram until it has come.
fn brought(port: &mut afxdp::XdpPort, far: &mut Node, text: &[u8]) {
    use corelane_seam::Port;
    let (mut frames, mut tries) = (Vec::new(), 0);
    while frames.is_empty() {
        tries += 1;
        assert!(tries < 10_000, "nothing comes");
        // While it is down nothing leaves, and nothing comes.
        let _sent = far.send(&[datagram(OURS, 1, text)]);
        port.take_news();
        let _came = port.receive(1, 64, &mut frames);
    }
    assert!(frames.iter().all(|frame| frame.ends_with(text)));
}

/// It is the lane itself that takes packets in: where the kernel would do nothing for a minute, a receive brings them. So it is again when the interface
/// was down and has another NAPI.
#[test]
fn a_port_that_takes_packets_in_by_itself_needs_nobody_else() {
    const NAME: &str = "afxdp::a_port_that_takes_packets_in_by_itself_needs_nobody_else";
    on_network(NAME, || {
        use corelane_seam::Port;
        if !can_poll(NAME) {
            return;
        }
        wire(1);
        let mut queues = afxdp::open("near", &Ours::Addresses(vec![OURS.into()]), 1).unwrap();
        afxdp::poll(&mut queues).unwrap();
        let memory = memory();
        let mut port = queues.remove(0).port(memory.clone(), 128).unwrap();
        let (mut far, mut frames) = (far(), Vec::new());
        for round in 0..2 {
            // The kernel wakes a lane that does not look.
            brought(&mut port, &mut far, b"wake up");
            // So many at once that it looks for more. They may come in two.
            let many = (0..60).map(|number| datagram(OURS, number, b"many")).collect::<Vec<_>>();
            for tries in 0.. {
                assert!(tries < 100, "round {round}: so many are not enough");
                far.send(&many).unwrap();
                frames.clear();
                while frames.len() < many.len() {
                    port.receive(1, 64, &mut frames).unwrap();
                }
                if port.has_more() {
                    break;
                }
            }
            defer_for_a_minute("near");
            far.send(&(0..10).map(|number| datagram(OURS, number, b"one of ten")).collect::<Vec<_>>()).unwrap();
            frames.clear();
            port.receive(1, 64, &mut frames).unwrap();
            assert_eq!(frames.len(), 10, "round {round}");
            // It looks once more, and then it does not.
            frames.clear();
            port.receive(1, 64, &mut frames).unwrap();
            far.send(&[datagram(OURS, 7, b"nobody looks")]).unwrap();
            port.receive(1, 64, &mut frames).unwrap();
            assert!(frames.is_empty() && !port.has_more(), "round {round}: the kernel does it all");
            run(&["link set near down", "link set near up"]);
        }
        drop(port);
        assert_eq!(memory.counts().free, memory.frames());
        far.close();
    });
}

/// Where the kernel does not tell by what a queue is received, it goes on receiving, and that is said.
#[test]
fn who_cannot_take_packets_in_by_himself_is_told_and_served() {
    on_network("afxdp::who_cannot_take_packets_in_by_himself_is_told_and_served", || {
        run(&["link add near type bridge", "link set near up"]);
        let mut choice = ports_for("near", &Ours::All, 1).unwrap();
        choice.poll();
        assert!(matches!(choice.lost[..], [Loss::Native { .. }, Loss::Polling(Error::Absent { .. })]), "{:?}", choice.lost);
        assert!(choice.lost[1].to_string().contains("Linux 6.13"), "{}", choice.lost[1]);
        choice.queues.remove(0).port(memory(), 64).unwrap();
    });
}

/// What a port without a queue to send by sends would be lost without a word.
#[test]
fn queues_that_cannot_send_are_refused_in_words() {
    on_network("afxdp::queues_that_cannot_send_are_refused_in_words", || {
        run(&["link add near numrxqueues 2 numtxqueues 1 type veth peer name far numrxqueues 2 numtxqueues 2"]);
        let refused = afxdp::open("near", &Ours::All, 2).unwrap_err();
        assert_eq!(refused, Error::NoSendQueue { name: "near".into(), got: 1, needed: 2, remedy: None });
        assert!(refused.to_string().contains("numtxqueues 2"), "{refused}");
        assert_eq!(afxdp::open("near", &Ours::All, 1).map(|queues| queues.len()), Ok(1));
    });
}

/// Gives `near` so many queues to receive by; the reason, if that is refused.
fn set_queues(count: usize) -> Result<(), String> {
    let output =
        Command::new("ethtool").args(["-L", "near", "rx", &count.to_string()]).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// A queue that comes while a port runs has none, and its packets are the kernel's; the port goes on, and so it does when that queue is gone again.
#[test]
fn an_interface_changes_its_queues_while_a_port_runs() {
    const NAME: &str = "afxdp::an_interface_changes_its_queues_while_a_port_runs";
    on_network(NAME, || {
        wire(2);
        if let Err(why) = set_queues(1) {
            return skip(NAME, &format!("ethtool cannot change queues: {why}"));
        }
        let mut nodes = nodes(Kind::Xdp, 1);
        let mut far = far();
        let mut answers = |nodes: &mut Vec<Node>| {
            far.send(&[datagram(OURS, 7, b"still there?")]).unwrap();
            nodes[0].frames(1).remove(0).ends_with(b"still there?")
        };
        assert!(answers(&mut nodes), "one queue");
        set_queues(2).unwrap();
        assert!(answers(&mut nodes), "a second queue came");
        set_queues(1).unwrap();
        assert!(answers(&mut nodes), "it went");
        assert_eq!(nodes[0].facts.queue, 0);
        nodes.into_iter().for_each(Node::close);
    });
}

/// The kernel refuses to take a queue away as long as somebody has it.
#[test]
fn a_queue_with_a_port_is_not_taken_away() {
    const NAME: &str = "afxdp::a_queue_with_a_port_is_not_taken_away";
    on_network(NAME, || {
        wire(2);
        if let Err(why) = set_queues(2) {
            return skip(NAME, &format!("ethtool cannot change queues: {why}"));
        }
        let nodes = nodes(Kind::Xdp, 2);
        set_queues(1).unwrap_err();
        nodes.into_iter().for_each(Node::close);
        // The kernel lets go of a closed socket's queue a moment later.
        while let Err(why) = set_queues(1) {
            assert!(why.contains("AF_XDP sockets"), "{why}");
            std::thread::yield_now();
        }
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
        assert_eq!(port.drops().unwrap(), afxdp::Drops { dropped: 12, ring_full: 0, no_frame: 12, invalid: 0 });
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

/// Frames of other regions are copied, as many as there are frames for; what is left of a batch is the rest of it, in its own storage.
#[test]
fn frames_of_other_regions_are_sent_as_far_as_there_are_frames_for_copies() {
    on_network("afxdp::frames_of_other_regions_are_sent_as_far_as_there_are_frames_for_copies", || {
        use corelane_seam::Port;
        wire(1);
        let (own, other) = (FrameMemory::new(24, 2048).unwrap(), memory());
        let mut port = afxdp::open("near", &Ours::All, 1).unwrap().remove(0).port(own.clone(), 16).unwrap();
        let mut far = far();
        let frame = |number| {
            let mut frame = other.frame().unwrap();
            frame.append(&datagram(FAR, number, b"of another region"));
            frame
        };
        let mut frames: Vec<_> = (0..12).map(frame).collect();
        frames[3].set_length(0);
        let (storage, free) = (frames.as_ptr(), own.counts().free);
        assert_eq!(free, 8, "the others are lent to be received into");
        let taken = port.send(1, &mut frames).unwrap();
        assert_eq!(
            (taken.taken, taken.refused, frames.len(), frames.as_ptr() == storage),
            (8, 1, 3, true),
            "what is refused needs no copy"
        );
        while !frames.is_empty() {
            port.send(2, &mut frames).unwrap();
        }
        let seen = far.frames(11);
        assert_eq!(seen.iter().map(|frame| frame[37]).collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
        while port.released(3) < 11 {}
        drop(port);
        assert_eq!((own.counts().free, other.counts().free), (24, other.frames()));
    });
}

#[test]
fn what_cannot_be_opened_is_said() {
    on_network("afxdp::what_cannot_be_opened_is_said", || {
        wire(1);
        assert!(matches!(afxdp::open("nobody", &Ours::All, 1), Err(Error::NoInterface { .. })));
        assert!(matches!(afxdp::open("near", &Ours::All, 2), Err(Error::NoQueue { queue: 1, .. })));
        assert!(matches!(afxdp::open("near", &Ours::Addresses(Vec::new()), 1), Err(Error::Range { .. })));
        let taken = afxdp::open("near", &Ours::Addresses(vec![OURS.into(), KERNEL.into()]), 1).unwrap_err();
        let remedy = "ip addr del 10.9.0.1/24 dev near".into();
        assert_eq!(taken, Error::AddressTaken { address: KERNEL.into(), remedy });
        assert!(taken.to_string().contains("(ip addr del 10.9.0.1/24 dev near)"), "{taken}");
        let queue = || afxdp::open("near", &Ours::All, 1).unwrap().remove(0);
        let refused = queue().port(FrameMemory::new(8, 8192).unwrap(), 16).unwrap_err();
        assert!(matches!(refused, Error::Range { got: 8192, .. }), "{refused}");
        assert!(matches!(queue().port(memory(), 48), Err(Error::Range { got: 48, .. })));
        let taken = queue();
        let there = afxdp::open("near", &Ours::All, 1).unwrap_err();
        let process = format!("process {} ", std::process::id());
        assert!(matches!(&there, Error::ProgramThere { holder: Some(holder), .. } if holder.starts_with(&process)), "{there}");
        drop(taken);
        let opened_before = queue();
        run(&["link set near mtu 3000"]);
        assert!(matches!(opened_before.port(memory(), 16), Err(Error::FrameShort { needed: 3018, got: 1792, .. })));
        let refused = queue().port(memory(), 2).unwrap_err();
        assert!(matches!(refused, Error::FrameShort { needed: 3018, got: 1792, .. }), "a ring has room for two packets");
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

const HOLDS: &str = "CORELANE_XDP_HOLDS";
const OPEN: &str = "the port is open";

/// Run by the next test as a process of its own, to be killed; alone it has nothing to do.
#[test]
fn a_process_that_holds_a_port() {
    if std::env::var_os(HOLDS).is_none() {
        return;
    }
    let port = afxdp::open("near", &Ours::All, 1).unwrap().remove(0).port(memory(), 64).unwrap();
    println!("{OPEN}");
    std::io::stdin().lines().for_each(drop);
    drop(port);
}

/// Neither the program nor the queue is held by a process that was killed.
#[test]
fn a_process_that_is_killed_leaves_nothing_attached() {
    on_network("afxdp::a_process_that_is_killed_leaves_nothing_attached", || {
        wire(1);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "afxdp::a_process_that_holds_a_port", "--nocapture"]).env(HOLDS, "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map(Result::unwrap).any(|line| line.contains(OPEN)));
        assert!(has_program());
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!has_program());
        nodes(Kind::Xdp, 1).into_iter().for_each(Node::close);
    });
}

/// A region that the process may not lock is refused with the numbers and the remedy.
#[test]
fn a_region_beyond_the_limit_is_refused_in_words() {
    on_network("afxdp::a_region_beyond_the_limit_is_refused_in_words", || {
        wire(1);
        let queues = afxdp::open("near", &Ours::All, 1).unwrap();
        without(CapabilitySet::IPC_LOCK);
        let most = afxdp::frames_max(4096, 0, 1);
        if most >= FRAMES_MAX {
            return skip("afxdp::a_region_beyond_the_limit_is_refused_in_words", "this process may lock any amount (ulimit -l)");
        }
        let refused = queues.into_iter().next().unwrap().port(FrameMemory::new(most + 1, 4096).unwrap(), 64).unwrap_err();
        assert!(matches!(refused, Error::LockedMemory { bytes, .. } if bytes == (most + 1) * 4096), "{refused}");
        assert!(refused.to_string().contains("ulimit -l"), "{refused}");
    });
}

/// Takes these from this thread, which is the test's own.
fn without(some: CapabilitySet) {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(some);
    set_capabilities(None, sets).unwrap();
}

#[test]
fn who_may_not_is_told_what_is_missing() {
    on_network("afxdp::who_may_not_is_told_what_is_missing", || {
        wire(1);
        let mut sets = capabilities(None).unwrap();
        sets.effective = CapabilitySet::empty();
        set_capabilities(None, sets).unwrap();
        let refused = [
            afxdp::open("near", &Ours::All, 1).map(drop).unwrap_err(),
            packet::open("near", 1).map(drop).unwrap_err(),
            tap::open("other", 1).map(drop).unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.fault().reason, Reason::Permission, "{error}");
            assert!(error.to_string().contains("CAP_"), "{error}");
        }
    });
}
