//! A port as a neighbour of its link: it hears what is said to all, follows what becomes of its interface, and what its messages advise works as it is written.

use crate::ends::{Kind, nodes};
use crate::node::{Node, memory};
use crate::wire::{FAR, FAR_MAC, FAR_V6, OURS, OURS_V6, arp, far, ipv6, on_network, run, wire};
use corelane_os::netlink::Request;
use corelane_os::testing::skip;
use corelane_seam::{Frame, FrameMemory, Port, PortState};
use corelane_select::bpf::assembly::{Alu, Assembler, Register};
use corelane_select::bpf::{Program, ProgramKind};
use corelane_xdp::{Error, Interface, Loss, Ours, Queue, afxdp, packet, ports_for};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

/// Somebody says unasked that he has an address, by a request or a reply (RFC 5227, section 3).
fn announcement(operation: u8, mac: [u8; 6], address: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut packet = arp(target);
    packet[21] = operation;
    packet[6..12].copy_from_slice(&mac);
    packet[22..28].copy_from_slice(&mac);
    packet[28..32].copy_from_slice(&address.octets());
    packet
}

/// The same of IPv6, to all nodes; and what a router asks of all who listen.
fn to_all_nodes(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = ipv6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), next, payload);
    packet[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    packet
}

fn advertisement(target: Ipv6Addr) -> Vec<u8> {
    to_all_nodes(58, &[&[136, 0, 0, 0, 0x20, 0, 0, 0][..], &target.octets(), &[2, 1], &FAR_MAC].concat())
}

fn query() -> Vec<u8> {
    to_all_nodes(0, &[&[58, 0, 5, 2, 0, 0, 1, 0, 130, 0, 0, 0, 3, 232, 0, 0][..], &[0; 20]].concat())
}

/// What the kernel at the near end knows of the far end's address.
fn known_to_kernel() -> String {
    let shown = Command::new("ip").args(["neigh", "show", &FAR.to_string()]).output().unwrap();
    String::from_utf8(shown.stdout).unwrap()
}

/// What is said to all of the link comes to the port and to the kernel, who needs it as well; what claims an address of ours is ours alone.
#[test]
fn words_to_all_of_the_link_are_heard_here_and_by_the_kernel() {
    on_network("neighbourhood::words_to_all_of_the_link_are_heard_here_and_by_the_kernel", || {
        wire(1);
        let ours = Ours::Addresses(vec![OURS.into(), OURS_V6.into()]);
        let (memory, mut far, other) = (memory(), far(), [2, 0, 0, 0, 0, 9]);
        let queue = afxdp::open("near", &ours, 1).unwrap().remove(0);
        let mut node = Node::new(queue.port(memory.clone(), 64).unwrap(), memory);
        let stranger = Ipv4Addr::new(10, 9, 0, 99);
        run(&[&format!("neigh replace {FAR} lladdr 02:00:00:00:00:02 dev near nud stale")]);
        for (number, (word, is_heard)) in [
            (announcement(1, other, FAR, FAR), true),
            (announcement(2, other, FAR, FAR), true),
            (advertisement(FAR_V6), true),
            (query(), true),
            (announcement(2, other, OURS, stranger), true),
            (advertisement(OURS_V6), true),
            // The kernel's alone.
            (announcement(1, other, FAR, stranger), false),
            (to_all_nodes(58, &[134, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), false),
        ]
        .into_iter()
        .enumerate()
        {
            // Nothing overtakes what was sent before, but for what goes another way: so the last of these is waited for by its own way.
            far.send(&[word.clone(), announcement(1, FAR_MAC, stranger, stranger)]).unwrap();
            let came: Vec<_> = heard_until(&mut node, &stranger.octets());
            assert_eq!(came.contains(&word), is_heard, "{number}: {came:?}");
        }
        assert!(known_to_kernel().contains("02:00:00:00:00:09"), "{}", known_to_kernel());
        node.close();
        far.close();
    });
}

/// Packets that come, up to that which announces this address.
fn heard_until(node: &mut Node, sender: &[u8]) -> Vec<Vec<u8>> {
    let mut came: Vec<Vec<u8>> = Vec::new();
    while !came.iter().any(|packet| packet[12..14] == [8, 6] && packet[28..32] == *sender && packet[38..42] == *sender) {
        came.extend(node.packets(1));
    }
    came
}

/// Waits for a port's news, and has it take them in, until that is so, 10 seconds at the most.
fn until(port: &mut dyn Port, condition: impl Fn(&dyn Port) -> bool) {
    const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
    while !condition(port) {
        let news = port.news().expect("a real port has news");
        let has_news = poll(&mut [PollFd::new(&news, PollFlags::IN)], Some(&PATIENCE)).unwrap();
        assert!(has_news == 1, "waited in vain: {:?}, {:?}", port.state(), port.facts());
        port.take_news();
    }
}

/// Waits until the port says that its interface is so.
fn is_up(port: &mut dyn Port, state: PortState) {
    until(port, |port| port.state() == state);
}

/// Address, longest packet and carrier change behind a port: it says so at once, and loses what it sends to nobody.
#[test]
fn a_port_follows_its_interface() {
    for is_xdp in [true, false] {
        on_network("neighbourhood::a_port_follows_its_interface", || {
            wire(1);
            let memory = memory();
            let mut port: Box<dyn Port> = match is_xdp {
                true => Box::new(afxdp::open("near", &Ours::All, 1).unwrap().remove(0).port(memory.clone(), 64).unwrap()),
                false => Box::new(packet::open("near", 1).unwrap().remove(0).port(memory.clone()).unwrap()),
            };
            is_up(&mut *port, PortState::Up);
            run(&["link set near mtu 1400", "link set near address 02:00:00:00:00:07"]);
            until(&mut *port, |port| port.facts().link.mac == [2, 0, 0, 0, 0, 7]);
            assert_eq!(port.facts().frame_bytes_max, 1414);
            let send = |port: &mut Box<dyn Port>| {
                let mut frames: Vec<Frame> = memory.frame().into_iter().collect();
                frames[0].append(&arp(FAR));
                port.send(1, &mut frames).unwrap()
            };
            assert_eq!(send(&mut port).taken, 1);
            run(&["link set far down"]);
            is_up(&mut *port, PortState::NoCarrier);
            assert_eq!((send(&mut port).refused, port.lost().send_lost), (1, 1));
            run(&["link set far up"]);
            is_up(&mut *port, PortState::Up);
            assert_eq!((send(&mut port).taken, port.lost().send_lost), (1, 1));
            // One that leaves a bridge is there as before.
            run(&[
                "link add bridge type bridge",
                "link set near master bridge",
                "link set near nomaster",
                "link set near mtu 1300",
            ]);
            until(&mut *port, |port| port.facts().frame_bytes_max == 1314);
            assert_eq!(port.state(), PortState::Up);
            run(&["link set near down"]);
            is_up(&mut *port, PortState::Down);
            run(&["link delete near"]);
            is_up(&mut *port, PortState::Gone);
            port.end(1);
        });
    }
}

/// What is between brackets in the message, behind the words.
fn advised(message: &str, words: &str) -> Vec<String> {
    let (_, rest) = message.split_once(words).unwrap_or_else(|| panic!("{words}: {message}"));
    let (command, _) = rest.split_once([')', ',']).unwrap();
    format!("{words}{command}").split(' ').map(str::to_owned).collect()
}

fn carry_out(command: &[String]) {
    let done = Command::new(&command[0]).args(&command[1..]).output().unwrap();
    assert!(done.status.success(), "{command:?}: {done:?}");
}

/// A program that somebody left at the interface, and no process has.
fn leave_program(flags: u32) {
    let mut a = Assembler::new();
    a.alu(Alu::Move, Register::R0, 2);
    a.exit();
    let program = Program::load(ProgramKind::Xdp, &a.finish(), "left").unwrap();
    let index = Interface::find("near").unwrap().link.interface;
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    // `IFLA_XDP` with `IFLA_XDP_FD` and `IFLA_XDP_FLAGS`.
    let number = program.as_fd().as_raw_fd().to_ne_bytes();
    Request::one(19, &head).nested(43, &[(1, &number), (3, &flags.to_ne_bytes())]).ask(0).unwrap();
}

#[test]
fn a_program_that_nobody_has_is_taken_off_as_the_message_says() {
    on_network("neighbourhood::a_program_that_nobody_has_is_taken_off_as_the_message_says", || {
        wire(1);
        for (flags, mode) in [(1 << 2, "xdpdrv"), (1 << 1, "xdpgeneric")] {
            leave_program(flags);
            let refused = afxdp::open("near", &Ours::All, 1).unwrap_err();
            assert!(matches!(&refused, Error::ProgramThere { holder: None, mode: named, .. } if *named == mode), "{refused}");
            carry_out(&advised(&refused.to_string(), "ip link set"));
            afxdp::open("near", &Ours::All, 1).unwrap();
        }
    });
}

/// Lanes that are too few and too many for the interface's queues are refused, and what the message advises helps.
#[test]
fn queues_are_as_many_as_lanes_once_the_advice_is_followed() {
    const NAME: &str = "neighbourhood::queues_are_as_many_as_lanes_once_the_advice_is_followed";
    on_network(NAME, || {
        if Command::new("ethtool").arg("--version").output().is_err() {
            return skip(NAME, "ethtool is not installed");
        }
        wire(2);
        let ours = Ours::Addresses(vec![OURS.into()]);
        let refused = ports_for("near", &ours, 1).unwrap_err();
        assert!(matches!(refused, Error::QueuesUnserved { have: 2, lanes: 1, .. }), "{refused}");
        assert!(refused.to_string().contains("or serve with 2 lanes (--lanes 2)"), "{refused}");
        assert_eq!(ports_for("near", &ours, 2).unwrap().queues.len(), 2);
        carry_out(&advised(&refused.to_string(), "ethtool -L near"));
        assert_eq!(ports_for("near", &ours, 1).unwrap().queues.len(), 1);
        let refused = ports_for("near", &ours, 2).unwrap_err();
        assert!(matches!(refused, Error::NoQueue { queue: 1, remedy: Some(_), .. }), "{refused}");
        carry_out(&advised(&refused.to_string(), "ethtool -L near"));
        assert_eq!(ports_for("near", &ours, 2).unwrap().queues.len(), 2);
    });
}

/// A driver that runs programs does not run one where the other end of its wire sends by more queues, or longer packets: the kernel says so, and the advice helps.
#[test]
fn what_keeps_a_driver_from_its_program_is_told_and_cured_as_the_message_says() {
    const NAME: &str = "neighbourhood::what_keeps_a_driver_from_its_program_is_told_and_cured_as_the_message_says";
    on_network(NAME, || {
        if Command::new("ethtool").arg("--version").output().is_err() {
            return skip(NAME, "ethtool is not installed");
        }
        let ours = Ours::Addresses(vec![OURS.into()]);
        wire(2);
        carry_out(&"ethtool -L near rx 1 tx 1".split(' ').map(str::to_owned).collect::<Vec<_>>());
        let lost = |ours: &Ours| match &ports_for("near", ours, 1).unwrap().lost[..] {
            [lost @ Loss::Native { .. }, ..] => Some(lost.to_string()),
            [] => None,
            other => panic!("{other:?}"),
        };
        let queues = lost(&ours).unwrap();
        assert!(
            queues.contains("the driver of near does not run the XDP program") && queues.contains("peer tx queues"),
            "{queues}"
        );
        carry_out(&advised(&queues, "ethtool -L far"));
        assert_eq!(lost(&ours), None);
        run(&["link set far mtu 9000"]);
        let length = lost(&ours).unwrap();
        assert!(length.contains("MTU is too large"), "{length}");
        carry_out(&advised(&length, "ip link set far mtu"));
        assert_eq!(lost(&ours), None);
    });
}

/// A plain wire of this kind has one queue, and one lane has all.
#[test]
fn a_plain_wire_with_its_defaults_has_a_queue_for_one_lane() {
    on_network("neighbourhood::a_plain_wire_with_its_defaults_has_a_queue_for_one_lane", || {
        run(&["link add near type veth peer name far", "link set near up", "link set far up"]);
        let ours = Ours::Addresses(vec![OURS.into()]);
        assert!(matches!(ports_for("near", &ours, 1).unwrap().queues[..], [Queue::Xdp(_)]));
    });
}

/// An MTU that frames have no room for, and an address that the kernel has, are cured as the messages say.
#[test]
fn an_mtu_and_an_address_are_cured_as_the_message_says() {
    on_network("neighbourhood::an_mtu_and_an_address_are_cured_as_the_message_says", || {
        wire(1);
        let queue = || afxdp::open("near", &Ours::All, 1).unwrap().remove(0);
        run(&["link set near mtu 3000"]);
        let few = || FrameMemory::new(4, 2048).unwrap();
        let refused = queue().port(few(), 2).unwrap_err();
        carry_out(&advised(&refused.to_string(), "ip link set near mtu"));
        queue().port(few(), 2).unwrap();
        let ours = Ours::Addresses(vec![IpAddr::from([10, 9, 0, 1])]);
        let refused = ports_for("near", &ours, 1).unwrap_err();
        carry_out(&advised(&refused.to_string(), "ip addr del"));
        ports_for("near", &ours, 1).unwrap();
    });
}

/// Two processes at one interface would both answer, with one link-layer address, where packet sockets keep nobody away.
#[test]
fn a_second_process_with_an_address_is_refused() {
    on_network("neighbourhood::a_second_process_with_an_address_is_refused", || {
        wire(1);
        let opened = |ours: Ipv4Addr| {
            let mut queues = packet::open("near", 1).unwrap();
            packet::take_addresses(&mut queues, &Ours::Addresses(vec![ours.into()])).map(|()| queues)
        };
        let first = opened(OURS).unwrap().remove(0).port(memory()).unwrap();
        let refused = opened(OURS).unwrap_err();
        assert_eq!(refused, Error::AddressServed { address: OURS.into(), name: "near".into() });
        let refused = afxdp::open("near", &Ours::Addresses(vec![OURS.into()]), 1).unwrap_err();
        assert!(matches!(refused, Error::AddressServed { .. }), "nor by another kind of port: {refused}");
        opened(FAR).unwrap();
        drop(first);
        opened(OURS).unwrap();
    });
}

/// What a port is told of its interface while a driver waits for it wakes that.
#[test]
fn a_driver_hears_words_while_it_waits() {
    on_network("neighbourhood::a_driver_hears_words_while_it_waits", || {
        wire(1);
        let (mut node, mut far) = (nodes(Kind::Xdp, 1).remove(0), far());
        for _ in 0..20 {
            let receive = node.receive();
            node.collect(0);
            far.send(&[announcement(1, FAR_MAC, FAR, FAR)]).unwrap();
            assert_eq!(node.arrived(receive).unwrap().len(), 1);
        }
        node.close();
        far.close();
    });
}
