//! What is known of a packet beside its bytes, and which packets are not ours by that.

use crate::ends::{Kind, nodes};
use crate::node::{Node, memory};
use crate::wire::{FAR, KERNEL, NEAR_MAC, OURS, OURS_V6, arp, datagram, far, ipv6, on_network, run, solicitation, udp, wire};
use corelane_os::testing::skip;
use corelane_seam::{Checksum, Port, VlanTag};
use corelane_select::bpf::assembly::{Alu, Assembler, Register, When, Width};
use corelane_xdp::{Loss, Ours, afxdp, packet, ports_for};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A number of bpf(2), and its attribute.
fn bpf(command: i32, attribute: &[u8]) -> OwnedFd {
    let mut whole = [0_u8; 128];
    whole[..attribute.len()].copy_from_slice(attribute);
    // SAFETY: the attribute has so many readable bytes, and what it names stays for the call.
    let number = unsafe { libc::syscall(libc::SYS_bpf, command, whole.as_ptr(), whole.len()) };
    assert!(number >= 0, "bpf {command}: {}", std::io::Error::last_os_error());
    // SAFETY: the call has just made this descriptor.
    unsafe { OwnedFd::from_raw_fd(number as i32) }
}

/// Has the interface put a tag of that VLAN beside each packet of IPv4 that leaves it, as long as this lives (`BPF_PROG_TYPE_SCHED_CLS` at
/// `BPF_TCX_EGRESS`, Linux 6.6).
fn tag_what_leaves(name: &str, vlan: i32) -> OwnedFd {
    const PROTOCOL: i16 = 16;
    const VLAN_PUSH: i32 = 18;
    let mut a = Assembler::new();
    let end = a.label();
    a.load(Width::Four, Register::R2, Register::R1, PROTOCOL);
    a.branch(When::NotEqual, Register::R2, i32::from(0x0800_u16.to_be()), end);
    a.alu(Alu::Move, Register::R2, i32::from(0x8100_u16.to_be()));
    a.alu(Alu::Move, Register::R3, vlan);
    a.call(VLAN_PUSH);
    a.place(end);
    a.alu(Alu::Move, Register::R0, -1);
    a.exit();
    let (program, licence) = (a.finish(), c"GPL");
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
    let mut attribute = words(&[3, program.len() as u32]);
    attribute.extend((program.as_ptr().expose_provenance() as u64).to_ne_bytes());
    attribute.extend((licence.as_ptr().expose_provenance() as u64).to_ne_bytes());
    let loaded = bpf(5, &attribute);
    let interface = corelane_xdp::Interface::find(name).unwrap().link.interface;
    bpf(28, &words(&[loaded.as_raw_fd().unsigned_abs(), interface, 47, 0]))
}

/// A packet whose tag lies beside its bytes is the kernel's, as one is whose tag lies in them.
#[test]
fn packets_of_a_vlan_are_the_kernels() {
    const NAME: &str = "facts::packets_of_a_vlan_are_the_kernels";
    on_network(NAME, || {
        wire(1);
        let queue = afxdp::open("near", &Ours::All, 1).unwrap().remove(0);
        if !queue.tells_tags() {
            return skip(NAME, "this kernel or veth tells no program of tags (Linux 6.8)");
        }
        drop(queue);
        let (mut near, mut far) = (nodes(Kind::Xdp, 1).remove(0), far());
        for round in 0..3 {
            let tagged = tag_what_leaves("far", 5);
            far.send(&[datagram(OURS, round, b"of a VLAN"), datagram(OURS, round, b"and another")]).unwrap();
            drop(tagged);
            let after = datagram(OURS, round, b"of none");
            far.send(std::slice::from_ref(&after)).unwrap();
            let frames = near.frames(1);
            assert_eq!(frames.iter().map(|frame| frame.to_vec()).collect::<Vec<_>>(), [after], "round {round}");
            assert!(frames[0].facts.hash.is_none(), "veth's hash is of use to nobody");
        }
        near.close();
        far.close();
    });
}

/// A frame with such a tag in its bytes.
fn tagged(frame: &[u8], control: u16) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &control.to_be_bytes(), &frame[12..]].concat()
}

fn bytes_of(frames: &[corelane_seam::Frame]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| frame.to_vec()).collect()
}

/// A tag that names no VLAN carries a priority alone (IEEE 802.1Q, 9.6): a packet of ours is ours with it, in its bytes or beside them.
#[test]
fn a_tag_that_carries_a_priority_alone_changes_nothing() {
    const NAME: &str = "facts::a_tag_that_carries_a_priority_alone_changes_nothing";
    on_network(NAME, || {
        wire(1);
        let (memory, mut far) = (memory(), far());
        let queue = afxdp::open("near", &Ours::Addresses(vec![OURS.into(), OURS_V6.into()]), 1).unwrap().remove(0);
        let tells_tags = queue.tells_tags();
        let mut near = Node::new(queue.port(memory.clone(), 128).unwrap(), memory);
        let v4 = datagram(OURS, 7, b"of IPv4");
        for word in [v4.clone(), arp(OURS), ipv6(OURS_V6, 17, &udp((7, 7), b"of IPv6")), solicitation(OURS_V6)] {
            let priority = tagged(&word, 0xe000);
            far.send(&[tagged(&word, 0xe005), tagged(&priority, 0xe005), priority.clone(), word.clone()]).unwrap();
            assert_eq!(bytes_of(&near.frames(2)), [priority, word]);
        }
        // What is said to all of the link comes by the kernel, who takes the tag out.
        let mut word = arp(FAR);
        word[28..32].copy_from_slice(&FAR.octets());
        far.send(&[tagged(&word, 5), tagged(&word, 0xe000)]).unwrap();
        assert_eq!(bytes_of(&near.frames(1)), [word]);
        if !tells_tags {
            return skip(NAME, "this kernel or veth tells no program of tags (Linux 6.8)");
        }
        for control in [0, 0xe000] {
            let tagging = tag_what_leaves("far", control);
            far.send(std::slice::from_ref(&v4)).unwrap();
            drop(tagging);
            far.send(&[arp(OURS)]).unwrap();
            assert_eq!(bytes_of(&near.frames(2)), [v4.clone(), arp(OURS)]);
        }
        near.close();
        far.close();
    });
}

/// Of ports of the kernel's addresses the same holds.
#[test]
fn a_datagram_to_a_port_of_ours_may_have_a_priority() {
    on_network("facts::a_datagram_to_a_port_of_ours_may_have_a_priority", || {
        wire(1);
        let (memory, mut far) = (memory(), far());
        let ports = Ours::Ports(vec![(KERNEL, 7).into()]);
        let mut near = Node::new(afxdp::open("near", &ports, 1).unwrap().remove(0).port(memory.clone(), 128).unwrap(), memory);
        let word = datagram(KERNEL, 7, b"at a port");
        let priority = tagged(&word, 0xe000);
        far.send(&[tagged(&word, 5), tagged(&datagram(KERNEL, 8, b"elsewhere"), 0xe000), priority.clone()]).unwrap();
        assert_eq!(bytes_of(&near.frames(1)), [priority]);
        near.close();
        far.close();
    });
}

/// With all that comes being ours, such a tag is put back where the sender had it: so a card that takes tags out has VLANs of ours as well.
#[test]
fn a_tag_that_was_taken_out_is_put_back() {
    const NAME: &str = "facts::a_tag_that_was_taken_out_is_put_back";
    on_network(NAME, || {
        wire(1);
        let queue = afxdp::open("near", &Ours::All, 1).unwrap().remove(0);
        if !queue.tells_tags() {
            return skip(NAME, "this kernel or veth tells no program of tags (Linux 6.8)");
        }
        let memory = memory();
        let (mut near, mut far) = (Node::new(queue.port(memory.clone(), 128).unwrap(), memory), far());
        let sent = datagram(OURS, 7, b"of a VLAN");
        for control in [5, 0x6fff] {
            let tagging = tag_what_leaves("far", control);
            far.send(std::slice::from_ref(&sent)).unwrap();
            drop(tagging);
            far.send(std::slice::from_ref(&sent)).unwrap();
            let tag = [[0x81, 0], (control as u16).to_be_bytes()].concat();
            let tagged = [&sent[..12], &tag[..], &sent[12..]].concat();
            // What else comes are the kernel's own words.
            let ours: Vec<_> = ends_with(&mut near, b"of a VLAN", 2).iter().map(|frame| frame.to_vec()).collect();
            assert_eq!(ours, [tagged, sent.clone()]);
        }
        near.close();
        far.close();
    });
}

/// Where the kernel runs the program, it tells it of no tag: that is said, with what mends it.
#[test]
fn an_interface_that_hides_tags_is_noted() {
    on_network("facts::an_interface_that_hides_tags_is_noted", || {
        let tags = Loss::Tags { name: "near".into() };
        assert!(tags.to_string().contains("(ethtool -K near rxvlan off)"), "{tags}");
        wire(1);
        let choice = ports_for("near", &Ours::All, 1).unwrap();
        let tells = choice.queues.iter().all(|queue| matches!(queue, corelane_xdp::Queue::Xdp(queue) if queue.tells_tags()));
        assert_eq!(choice.lost.contains(&tags), !tells);
    });
}

/// The kernel's socket at the far end, and who has our address there.
fn kernels_socket() -> UdpSocket {
    let [a, b, c, d, e, f] = NEAR_MAC;
    let neighbour = format!("neigh add 10.8.0.2 lladdr {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x} dev far nud permanent");
    run(&["addr add 10.8.0.1/24 dev far", &neighbour]);
    let socket = UdpSocket::bind("10.8.0.1:7000").unwrap();
    socket.connect("10.8.0.2:7001").unwrap();
    socket
}

/// Frames of that end, whatever else the kernel says on its own.
fn ends_with(near: &mut Node, end: &[u8], count: usize) -> Vec<corelane_seam::Frame> {
    let mut found = Vec::new();
    while found.len() < count {
        found.extend(near.frames(1).into_iter().filter(|frame| frame.ends_with(end)));
    }
    found
}

/// A packet socket says which tag was beside a packet, that a checksum was left out because none was needed, and when each packet came.
#[test]
fn a_packet_socket_tells_tag_checksum_and_time() {
    on_network("facts::a_packet_socket_tells_tag_checksum_and_time", || {
        wire(1);
        let (mut near, socket) = (nodes(Kind::Packet, 1).remove(0), kernels_socket());
        let before = near.driver.now();
        (0..2).for_each(|_| assert_eq!(socket.send(b"from the kernel").unwrap(), 15));
        let frames = ends_with(&mut near, b"from the kernel", 2);
        assert!(frames.iter().all(|frame| frame.facts.checksum == Checksum::Good && frame.facts.vlan.is_none()));
        let times: Vec<_> = frames.iter().map(|frame| frame.facts.time).collect();
        assert!(before <= times[0] && times[0] < times[1] && times[1] <= near.driver.now(), "{before}, {times:?}");
        let tagged = tag_what_leaves("far", 5 | 3 << 13);
        socket.send(b"of a VLAN").unwrap();
        let frame = ends_with(&mut near, b"of a VLAN", 1).remove(0);
        assert_eq!(frame.facts.vlan, Some(VlanTag { protocol: 0x8100, control: 5 | 3 << 13 }));
        drop((tagged, frame, frames));
        let mut far = far();
        far.send(&[datagram(OURS, 7, b"as it is")]).unwrap();
        let frame = ends_with(&mut near, b"as it is", 1).remove(0);
        assert_eq!(frame.facts.checksum, Checksum::Unknown, "nobody has said anything");
        drop(frame);
        near.close();
        far.close();
    });
}

/// A train of datagrams that nobody has cut is lost, and counted; what comes behind it comes.
#[test]
fn a_train_of_datagrams_is_counted_as_too_long() {
    const NAME: &str = "facts::a_train_of_datagrams_is_counted_as_too_long";
    on_network(NAME, || {
        wire(1);
        let socket = kernels_socket();
        let mut port = packet::open("near", 1).unwrap().remove(0).port(memory()).unwrap();
        let train = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::UdpGsoSegment, &1000);
        if train.is_err() || socket.send(&[1; 3000]).is_err() {
            return skip(NAME, "this kernel sends no trains of datagrams");
        }
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::UdpGsoSegment, &0).unwrap();
        socket.send(b"behind it").unwrap();
        let mut frames = Vec::new();
        while !frames.iter().any(|frame: &corelane_seam::Frame| frame.ends_with(b"behind it")) {
            frames.clear();
            port.receive(1, 64, &mut frames).unwrap();
        }
        let losses = port.lost();
        assert_eq!((losses.too_long, losses.ring_full, losses.send_lost), (1, 0, 0));
    });
}

/// What the other end of the wire does not take, because it is too long there, is lost, and counted as such; what follows is not.
#[test]
fn what_the_interface_drops_when_it_is_sent_is_counted() {
    for is_xdp in [true, false] {
        on_network("facts::what_the_interface_drops_when_it_is_sent_is_counted", || {
            wire(1);
            let (memory, mut far) = (memory(), far());
            let mut port: Box<dyn Port> = match is_xdp {
                true => Box::new(afxdp::open("near", &Ours::All, 1).unwrap().remove(0).port(memory.clone(), 64).unwrap()),
                false => Box::new(packet::open("near", 1).unwrap().remove(0).port(memory.clone()).unwrap()),
            };
            run(&["link set far mtu 1000"]);
            let mut send = |packets: &[&[u8]]| {
                let frame = |bytes: &&[u8]| {
                    let mut frame = memory.frame().unwrap();
                    frame.append(bytes);
                    frame
                };
                port.send(1, &mut packets.iter().map(frame).collect()).unwrap();
                port.lost().send_lost
            };
            let (long, short) = (datagram(FAR, 7, &[1; 1200]), datagram(FAR, 7, b"fits"));
            assert_eq!(send(&[&short]), 0);
            assert_eq!((send(&[&long, &short]), send(&[&long]), send(&[&short])), (1, 2, 2), "AF_XDP: {is_xdp}");
            assert_eq!(bytes_of(&ends_with(&mut far, b"fits", 3)), [short.clone(), short.clone(), short]);
            far.close();
        });
    }
}

/// Groups of stations that interfaces of this thread's network are to hear, as numbers.
fn groups() -> String {
    std::fs::read_to_string("/proc/thread-self/net/dev_mcast").unwrap()
}

/// The interface hears who asks for our IPv6 addresses as long as a port of it is there.
#[test]
fn who_asks_for_our_address_is_let_through() {
    on_network("facts::who_asks_for_our_address_is_let_through", || {
        const GROUP: &str = "3333ff000002";
        wire(1);
        let ours = Ours::Addresses(vec![OURS.into(), OURS_V6.into()]);
        assert!(!groups().contains(GROUP));
        let queue = afxdp::open("near", &ours, 1).unwrap().remove(0);
        assert!(groups().contains(GROUP), "{}", groups());
        let port = queue.port(memory(), 64).unwrap();
        assert!(groups().contains(GROUP));
        drop(port);
        assert!(!groups().contains(GROUP), "{}", groups());
        let mut queues = packet::open("near", 2).unwrap();
        packet::take_addresses(&mut queues, &ours).unwrap();
        let port = queues.remove(0).port(memory()).unwrap();
        drop(queues);
        assert!(groups().contains(GROUP));
        drop(port);
        assert!(!groups().contains(GROUP));
    });
}
