//! The fast path between real wires: what a lane has told goes by the programs alone.

use crate::node::{Node, memory};
use crate::wire::{on_network, run, sum};
use corelane_rules::language::command;
use corelane_rules::{Count, Direction, Execution, Facts, Interface as Number, Limits, Records, RuleId, Rules, Transport};
use corelane_seam::{LearntWay, LinkSide, Offload, Port, VlanTag};
use corelane_xdp::{Error, FastPath, Interface, Ours, afxdp, ports_for};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Link addresses of our ends, by the number of their wire; and of the far ends.
pub const OURS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 3]];
pub const FAR: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 4]];
const SOURCE: [u8; 4] = [10, 0, 0, 1];
const DESTINATION: [u8; 4] = [10, 0, 1, 1];
pub const SECOND: u64 = 1_000_000_000;

/// Two wires, `near0` to `far0` and `near1` to `far1`.
pub fn wires() {
    for wire in 0..2 {
        let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        run(&[
            &format!("link add near{wire} address {} type veth peer name far{wire} address {}", mac(OURS[wire]), mac(FAR[wire])),
            &format!("link set near{wire} up"),
            &format!("link set far{wire} up"),
        ]);
    }
}

/// A port that goes the fast path.
pub fn near(name: &str, fast: &Arc<FastPath>) -> (Node, Rc<dyn Offload>) {
    let mut choice = ports_for(name, &Ours::All, 1).unwrap();
    choice.offload(fast).unwrap();
    let memory = memory();
    let port = choice.queues.remove(0).port(memory.clone(), 128).unwrap();
    let offload = port.offload().unwrap();
    (Node::of_box(port, memory), offload)
}

/// A far end: with a program, without which a wire takes nothing that is redirected.
pub fn far(name: &str) -> Node {
    let memory = memory();
    let port = afxdp::open(name, &Ours::All, 1).unwrap().remove(0).port(memory.clone(), 128).unwrap();
    Node::new(port, memory)
}

pub fn tags(count: usize, number: u16) -> [Option<VlanTag>; 2] {
    let tag = |protocol, control| Some(VlanTag { protocol, control });
    match count {
        0 => [None, None],
        1 => [tag(0x8100, number), None],
        _ => [tag(0x88a8, 100), tag(0x8100, number)],
    }
}

/// A datagram from one wire's far end, or as it comes to the other's.
pub fn frame(macs: [[u8; 6]; 2], tags: [Option<VlanTag>; 2], hops: u8, number: u16) -> Vec<u8> {
    let tags = tags.into_iter().flatten().flat_map(|tag| [tag.protocol.to_be_bytes(), tag.control.to_be_bytes()]);
    let mut header = [&[0x45, 0, 0, 60][..], &number.to_be_bytes(), &[0, 0, hops, 17, 0, 0], &SOURCE, &DESTINATION].concat();
    let checksum = sum(&header);
    header[10..12].copy_from_slice(&checksum);
    [macs.concat(), tags.flatten().collect(), vec![8, 0], header, vec![0, 7, 0, 9, 0, 40, 0, 0], vec![7; 32]].concat()
}

pub fn way(comes: (u16, usize), leaves: (u16, usize), until: u64) -> LearntWay {
    let side = |(interface, count), destination| LinkSide {
        interface,
        tags: tags(count, interface),
        destination,
        hands_over_opening: true,
    };
    LearntWay {
        source: SOURCE.into(),
        destination: DESTINATION.into(),
        comes: side(comes, OURS[0]),
        leaves: side(leaves, FAR[1]),
        leaves_from: OURS[1],
        device: Interface::find("near1").unwrap().link.interface,
        mtu: 1500,
        until,
    }
}

/// Tells the way, once the far end was seen to take what is redirected, and waits until it is in force.
fn teach(node: &mut Node, offload: &Rc<dyn Offload>, way: &LearntWay) {
    let end = node.driver.now() + 20 * SECOND;
    loop {
        let now = node.driver.now();
        if offload.learn(now, &LearntWay { until: now + way.until, ..*way }) {
            break;
        }
        assert!(now < end, "the way is not taken");
        node.collect(1_000_000);
    }
    node.settle();
}

fn facts(comes: u16, leaves: u16) -> Facts {
    Facts {
        receive: Number(comes),
        transmit: Number(leaves),
        protocol: 17,
        transport: Transport::Ports(7, 9),
        length: 60,
        ..Facts::between(SOURCE.into(), DESTINATION.into())
    }
}

pub fn rules() -> Rules {
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces((1..=9).map(|vlan| format!("vlan{vlan}")).collect()).unwrap();
    for vlan in 1..=9 {
        rules.apply(command(&format!("add count ip from any to any in via vlan{vlan}"), 1).unwrap()).unwrap();
        rules.apply(command(&format!("add count udp from any to any out via vlan{vlan}"), 1).unwrap()).unwrap();
    }
    rules
}

#[test]
fn packets_go_between_wires_without_a_lane_and_are_counted_as_by_one() {
    on_network("fast::packets_go_between_wires_without_a_lane_and_are_counted_as_by_one", || {
        wires();
        let fast = FastPath::new().unwrap();
        let ((mut lane, offload), (_other, _)) = (near("near0", &fast), near("near1", &fast));
        let [mut sender, mut receiver] = ["far0", "far1"].map(far);
        assert!(!offload.learn(1, &way((1, 0), (2, 0), SECOND)), "there are no rules yet");
        let (mut rules, mut records) = (rules(), Records::default());
        let flat = rules.compile(Execution::Flat);
        fast.put(&rules.compile(Execution::Tree), &[]).unwrap();
        let mut traffic = [[0_u64; 2]; 10];
        for (comes, leaves) in (0..3).flat_map(|comes| (0..3).map(move |leaves| (comes, leaves))) {
            let (comes, leaves) = ((1 + comes as u16, comes), (4 + leaves as u16, leaves));
            let way = way(comes, leaves, 100 * SECOND);
            // The first comes to the lane.
            let came = |number| frame([OURS[0], FAR[0]], way.comes.tags, 64, number);
            fast.unlearn();
            sender.send(&[came(0)]).unwrap();
            assert_eq!(lane.packets(1), [came(0)]);
            teach(&mut lane, &offload, &way);
            for number in 1..=20 {
                sender.send(&[came(number)]).unwrap();
                assert_eq!(receiver.packets(1), [frame([FAR[1], OURS[1]], way.leaves.tags, 63, number)]);
                for direction in [Direction::In, Direction::Out] {
                    assert!(flat.judge(&Facts { direction, ..facts(comes.0, leaves.0) }, 1, &mut records).is_allowed());
                }
                traffic[usize::from(comes.0)][0] += 1;
                traffic[usize::from(leaves.0)][1] += 1;
            }
            assert!(lane.waiting().is_empty(), "nothing more came to the lane");
        }
        let ids: Vec<RuleId> = flat.rules().map(|(id, ..)| id).collect();
        for (id, Count { packets, bytes, .. }) in ids.iter().zip(fast.counts(&ids).unwrap()) {
            let should = records.count(*id);
            assert_eq!((packets, bytes), (should.packets, should.bytes), "{id:?}");
        }
        for (interface, [came, left]) in traffic.into_iter().enumerate() {
            let got = fast.traffic(Number(interface as u16)).unwrap();
            assert_eq!(
                [got.packets_in, got.bytes_in, got.packets_out, got.bytes_out, got.denied],
                [came, 60 * came, left, 60 * left, 0]
            );
        }
        assert_eq!(fast.drops(Interface::find("near1").unwrap().link.interface), Ok(0));
        // Without rules that a program can carry out, all comes to the lane again.
        assert!(fast.put(&flat, &[]).is_err());
        let came = frame([OURS[0], FAR[0]], tags(2, 3), 64, 9);
        sender.send(std::slice::from_ref(&came)).unwrap();
        assert_eq!(lane.packets(1), [came]);
    });
}

/// While packets come, sets follow each other: each packet arrives, and is counted by one whole set.
#[test]
fn sets_follow_each_other_under_packets_and_none_is_lost() {
    on_network("fast::sets_follow_each_other_under_packets_and_none_is_lost", || {
        wires();
        let fast = FastPath::new().unwrap();
        let ((mut lane, offload), (_other, _)) = (near("near0", &fast), near("near1", &fast));
        let [mut sender, mut receiver] = ["far0", "far1"].map(far);
        let mut rules = rules();
        fast.put(&rules.compile(Execution::Tree), &[]).unwrap();
        teach(&mut lane, &offload, &way((1, 0), (5, 1), 100 * SECOND));
        let came = |number| frame([OURS[0], FAR[0]], tags(0, 0), 64, number);
        let (mut arrived, mut ids) = (0, Vec::new());
        for round in 0..40_u16 {
            std::thread::scope(|scope| {
                let fast = &fast;
                // Two rules that count each packet once are in the set, or neither.
                if round % 3 == 2 {
                    rules.apply(command("delete 7", 1).unwrap()).unwrap();
                } else {
                    for rest in ["in", "out"] {
                        rules.apply(command(&format!("add 7 count ip from any to any {rest}"), 1).unwrap()).unwrap();
                    }
                }
                let set = rules.compile(Execution::Tree);
                ids.extend(set.rules().filter(|(_, number, _)| *number == 7).map(|(id, ..)| id));
                let put = scope.spawn(move || fast.put(&set, &[]).unwrap());
                for number in 0..20 {
                    sender.send(&[came(100 * round + number)]).unwrap();
                }
                let frames = receiver.packets(20);
                let should = |number| frame([FAR[1], OURS[1]], tags(1, 5), 63, 100 * round + number);
                assert_eq!(frames, (0..20).map(should).collect::<Vec<_>>());
                arrived += 20;
                put.join().unwrap();
            });
            let counts = fast.counts(&ids).unwrap();
            for pair in counts.chunks(2) {
                assert_eq!(pair[0].packets, pair[1].packets, "round {round}: in and out by the same set");
            }
            ids.retain(|id| rules_have(&mut rules, *id));
        }
        let set = rules.compile(Execution::Flat);
        let last = set.rules().last().unwrap().0;
        assert_eq!(fast.counts(&[last]).unwrap()[0].packets, 2 * arrived, "the last rule is in all sets");
        assert!(lane.waiting().is_empty());
    });
}

fn rules_have(rules: &mut Rules, wanted: RuleId) -> bool {
    rules.compile(Execution::Flat).rules().any(|(id, ..)| id == wanted)
}

/// What the system does not send after all is counted: the far end takes nothing that is redirected, or the interface is down.
#[test]
fn what_is_lost_at_the_redirect_is_counted() {
    on_network("fast::what_is_lost_at_the_redirect_is_counted", || {
        wires();
        let fast = FastPath::new().unwrap();
        let ((mut lane, offload), (_other, _)) = (near("near0", &fast), near("near1", &fast));
        let [mut sender, receiver] = ["far0", "far1"].map(far);
        fast.put(&rules().compile(Execution::Tree), &[]).unwrap();
        teach(&mut lane, &offload, &way((1, 0), (2, 1), 100 * SECOND));
        drop(receiver);
        let device = Interface::find("near1").unwrap().link.interface;
        match fast.drops(device) {
            Ok(drops) => assert_eq!(drops, 0),
            Err(why @ (Error::Absent { .. } | Error::Program(_) | Error::Forbidden { .. })) => {
                return corelane_os::testing::skip("fast::what_is_lost_at_the_redirect_is_counted", &why.to_string());
            }
            Err(why) => panic!("{why}"),
        }
        let mut sent = 0;
        let mut send = |lost: &str| {
            sender.send(&[frame([OURS[0], FAR[0]], tags(0, 0), 64, 1)]).unwrap();
            sent += 1;
            for _ in 0..1_000 {
                if fast.drops(device) == Ok(sent) {
                    return;
                }
                sender.collect(1_000_000);
            }
            panic!("{lost}: {:?} of {sent}", fast.drops(device));
        };
        send("no program at the far end");
        run(&["link set near1 down"]);
        send("the interface is down");
        assert_eq!(fast.traffic(Number(2)).unwrap().packets_out, 2, "they were counted before");
        assert_eq!(fast.drops(Interface::find("near0").unwrap().link.interface), Ok(0));
    });
}

/// A way is told for its time, and for one generation; and a lane is not asked to write it again and again.
#[test]
fn ways_end() {
    on_network("fast::ways_end", || {
        wires();
        let fast = FastPath::new().unwrap();
        let ((mut lane, offload), (_other, _)) = (near("near0", &fast), near("near1", &fast));
        let [mut sender, mut receiver] = ["far0", "far1"].map(far);
        fast.put(&rules().compile(Execution::Tree), &[]).unwrap();
        let came = frame([OURS[0], FAR[0]], tags(0, 0), 64, 1);
        teach(&mut lane, &offload, &way((1, 0), (2, 1), SECOND / 20));
        let end = lane.driver.now() + SECOND / 10;
        while lane.driver.now() < end {
            lane.collect(SECOND / 10);
        }
        sender.send(std::slice::from_ref(&came)).unwrap();
        assert_eq!(lane.packets(1), std::slice::from_ref(&came), "its time is over");
        let way = way((1, 0), (2, 1), 100 * SECOND);
        teach(&mut lane, &offload, &way);
        sender.send(std::slice::from_ref(&came)).unwrap();
        receiver.packets(1);
        offload.unlearn();
        sender.send(std::slice::from_ref(&came)).unwrap();
        assert_eq!(lane.packets(1), std::slice::from_ref(&came), "something changed");
        let unknown = LearntWay { device: 999, ..way };
        assert!(!offload.learn(lane.driver.now(), &unknown), "no port is at that interface");
        let now = lane.driver.now();
        let address = |number: u32| -> IpAddr { std::net::Ipv4Addr::from(number).into() };
        let flood = |first: u32, now| {
            let way = LearntWay { until: now + 100 * SECOND, ..way };
            (first..first + 100).filter(|number| offload.learn(now, &LearntWay { source: address(*number), ..way })).count()
        };
        assert_eq!(flood(0, now), 30, "a flood learns no more at once: so many sources, and their destination");
        lane.settle();
        assert_eq!(flood(1_000, now), 31, "the destination was written lately");
        lane.settle();
        assert_eq!(flood(2_000, now + 2 * SECOND), 30, "a second later it is written again");
    });
}
