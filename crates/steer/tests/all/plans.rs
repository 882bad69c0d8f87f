//! Plans for invented machines.

use corelane_machine::ethtool::{Channels, Fields, FlowKind, HashFunction, Rss};
use corelane_machine::interfaces::{Interface, Link};
use corelane_machine::interrupts::{Interrupt, Queue};
use corelane_machine::topology::Cpu;
use corelane_steer::{LanePlan, Topology, Warning, Wish, plan};

const WISH: Wish = Wish { lanes: None, cpus: None, tcp: true, udp: true };

/// CPUs of one thread each, all on one node.
fn flat(cpus: impl IntoIterator<Item = usize>) -> Topology {
    let cpu = |number| Cpu { number, node: 0, first_sibling: number };
    Topology { cpus: cpus.into_iter().map(cpu).collect(), ..Topology::default() }
}

/// Two nodes of four cores with two threads each, numbered as firmware does: 0-7 are the first threads, 8-15 the second ones.
fn two_nodes() -> Topology {
    let cpu = |number: usize| Cpu { number, node: number % 8 / 4, first_sibling: number % 8 };
    Topology { cpus: (0..16).map(cpu).collect(), ..Topology::default() }
}

/// A card with a queue for each of these CPUs, its interrupts 100 and on.
fn card(node: Option<usize>, queue_cpus: &[usize]) -> Interface {
    let interrupt = |(number, cpu): (usize, &usize)| Interrupt {
        number: 100 + number as u32,
        name: format!("eth0-TxRx-{number}"),
        queue: Some(Queue { number, receives: true, transmits: true }),
        fired: 0,
        cpus: vec![*cpu],
        allowed: vec![*cpu],
    };
    Interface {
        link: Link { name: "eth0".to_owned(), up: true, ..Link::default() },
        device: true,
        node,
        rps_cpus: vec![Vec::new(); queue_cpus.len()],
        interrupts: queue_cpus.iter().enumerate().map(interrupt).collect(),
        ..Interface::default()
    }
}

fn with(topology: Topology, interface: Interface) -> Topology {
    Topology { interface: Some(interface), ..topology }
}

fn cpus(plan: &LanePlan) -> Vec<usize> {
    plan.lanes.iter().map(|lane| lane.cpu.number).collect()
}

fn queues(plan: &LanePlan) -> Vec<Vec<usize>> {
    plan.lanes.iter().map(|lane| lane.queues.clone()).collect()
}

#[test]
fn each_cpu_has_a_lane_whatever_their_number() {
    for count in [1, 2, 3, 8, 64, 127, 128, 256] {
        let plan = plan(&flat(0..count), &WISH);
        assert_eq!(cpus(&plan), (0..count).collect::<Vec<_>>());
        assert_eq!(plan.warnings, []);
    }
}

#[test]
fn holes_among_the_numbers_stay() {
    let plan = plan(&flat([1, 4, 5, 90]), &WISH);
    assert_eq!(cpus(&plan), [1, 4, 5, 90]);
    assert_eq!(plan.warnings, []);
}

#[test]
fn what_the_control_group_pays_for_bounds_the_lanes() {
    let topology = Topology { paid_cpus: Some(3), ..flat(0..8) };
    assert_eq!(cpus(&plan(&topology, &WISH)), [0, 1, 2]);
    let more = plan(&topology, &Wish { lanes: Some(5), ..WISH });
    assert_eq!(cpus(&more), [0, 1, 2, 3, 4]);
    assert_eq!(more.warnings, [Warning::MoreLanesThanCpus { lanes: 5, cpus: 3 }]);
    assert!(more.warnings[0].to_string().contains("--lanes 3"), "{}", more.warnings[0]);
}

#[test]
fn more_lanes_than_cpus_go_round() {
    let plan = plan(&flat([0, 2]), &Wish { lanes: Some(5), ..WISH });
    assert_eq!(cpus(&plan), [0, 2, 0, 2, 0]);
    assert_eq!(plan.warnings, [Warning::MoreLanesThanCpus { lanes: 5, cpus: 2 }]);
}

#[test]
fn each_core_is_used_before_its_second_thread() {
    let neighbours = |number: usize| Cpu { number, node: 0, first_sibling: number / 2 * 2 };
    let topology = Topology { cpus: (0..8).map(neighbours).collect(), ..Topology::default() };
    assert_eq!(cpus(&plan(&topology, &Wish { lanes: Some(4), ..WISH })), [0, 2, 4, 6]);
    assert_eq!(cpus(&plan(&topology, &Wish { lanes: Some(6), ..WISH })), [0, 1, 2, 3, 4, 6]);
    assert_eq!(cpus(&plan(&topology, &WISH)), (0..8).collect::<Vec<_>>());
    // Affinity may have taken the first thread away.
    let topology = Topology { cpus: [1, 2, 3].map(neighbours).to_vec(), ..Topology::default() };
    assert_eq!(cpus(&plan(&topology, &Wish { lanes: Some(2), ..WISH })), [1, 2]);
}

#[test]
fn lanes_are_near_the_card() {
    let topology = with(two_nodes(), card(Some(1), &[4, 5, 6, 7]));
    assert_eq!(cpus(&plan(&topology, &Wish { lanes: Some(2), ..WISH })), [4, 5]);
    assert_eq!(cpus(&plan(&topology, &Wish { lanes: Some(6), ..WISH })), [4, 5, 6, 7, 12, 13], "near before a core of its own");
    let ten = plan(&topology, &Wish { lanes: Some(10), ..WISH });
    assert_eq!(cpus(&ten), [0, 1, 4, 5, 6, 7, 12, 13, 14, 15]);
    assert_eq!(queues(&ten)[2..6], [[0], [1], [2], [3]]);
    let nowhere = with(two_nodes(), card(None, &[0, 1]));
    assert_eq!(cpus(&plan(&nowhere, &Wish { lanes: Some(2), ..WISH })), [0, 1]);
}

#[test]
fn lanes_are_where_the_packets_come_in() {
    let topology = with(flat(0..8), card(Some(0), &[6, 2, 3]));
    let plan = plan(&topology, &Wish { lanes: Some(3), ..WISH });
    assert_eq!((cpus(&plan), queues(&plan)), (vec![2, 3, 6], vec![vec![1], vec![2], vec![0]]));
    assert_eq!(plan.warnings, []);
}

#[test]
fn four_queues_for_eight_lanes() {
    let mut card = card(Some(0), &[0, 1, 2, 3]);
    card.channels = Some(Channels { combined: 4, combined_max: 6, ..Channels::default() });
    let plan = plan(&with(flat(0..8), card), &WISH);
    assert_eq!(queues(&plan)[..5], [vec![0], vec![1], vec![2], vec![3], vec![]]);
    let [warning] = &plan.warnings[..] else { panic!("{:?}", plan.warnings) };
    let expected =
        Warning::FewerQueuesThanLanes { interface: "eth0".to_owned(), queues: 4, queues_max: 6, setting: "combined", lanes: 8 };
    assert_eq!(*warning, expected);
    assert!(warning.to_string().contains("ethtool -L eth0 combined 6"), "{warning}");
}

#[test]
fn queues_that_only_receive_are_set_by_their_own_name() {
    let mut card = card(None, &[0, 1]);
    card.channels = Some(Channels { rx: 2, rx_max: 4, tx: 2, tx_max: 4, ..Channels::default() });
    let plan = plan(&with(flat(0..3), card), &WISH);
    assert_eq!(plan.warnings[0].remedy(), "ethtool -L eth0 rx 3");
}

#[test]
fn where_there_are_no_more_queues_fewer_lanes_are_the_remedy() {
    let plan = plan(&with(flat(0..2), card(None, &[1])), &WISH);
    assert_eq!(queues(&plan), [vec![], vec![0]]);
    assert!(plan.warnings[0].to_string().contains("--lanes 1"), "{:?}", plan.warnings);
}

#[test]
fn an_interface_without_device_and_queues_is_not_spoken_of() {
    let bare = Interface { device: false, interrupts: Vec::new(), ..card(None, &[0]) };
    assert_eq!(plan(&with(flat(0..4), bare), &WISH).warnings, []);
    let with_queues = Interface { device: false, interrupts: Vec::new(), ..card(None, &[0, 0]) };
    let plan = plan(&with(flat(0..4), with_queues), &WISH);
    assert_eq!(plan.warnings.iter().map(Warning::name).collect::<Vec<_>>(), ["fewer_queues_than_lanes"]);
    assert!(queues(&plan).iter().all(Vec::is_empty), "nobody knows where they come in");
}

#[test]
fn the_order_of_named_cpus_stays() {
    let topology = with(two_nodes(), card(Some(1), &[4, 5, 6, 7]));
    let named = |cpus: &[usize], lanes| Wish { cpus: Some(cpus.to_vec()), lanes, ..WISH };
    assert_eq!(cpus(&plan(&topology, &named(&[9, 4, 0], None))), [9, 4, 0]);
    assert_eq!(cpus(&plan(&topology, &named(&[9, 4, 0], Some(2)))), [9, 4]);
    assert_eq!(cpus(&plan(&topology, &named(&[9, 4], Some(3)))), [9, 4, 9]);
    assert_eq!(cpus(&plan(&topology, &named(&[9, 99], None))), [9], "99 is the caller's to refuse");
    assert_eq!(plan(&topology, &named(&[99], None)).lanes, []);
    assert_eq!(plan(&topology, &named(&[9], Some(0))).lanes, []);
}

#[test]
fn of_lanes_on_one_cpu_the_first_has_its_queues() {
    let plan = plan(&with(flat(0..2), card(None, &[0, 1, 0, 1])), &Wish { lanes: Some(4), ..WISH });
    assert_eq!(queues(&plan), [vec![0, 2], vec![1, 3], vec![], vec![]]);
}

#[test]
fn interrupts_without_a_lane_are_named() {
    let topology = with(flat(0..4), card(None, &[0, 1, 2, 3]));
    let plan = plan(&topology, &Wish { cpus: Some(vec![0, 1]), ..WISH });
    let expected = Warning::InterruptsElsewhere { interface: "eth0".to_owned(), interrupts: vec![102, 103], cpus: vec![2, 3] };
    assert_eq!(plan.warnings, [expected]);
    assert!(plan.warnings[0].to_string().contains("/proc/irq/102/smp_affinity_list"), "{}", plan.warnings[0]);
}

#[test]
fn an_interrupt_that_floats_belongs_to_no_lane() {
    let mut card = card(None, &[0, 1]);
    card.interrupts[1].cpus = vec![0, 1];
    let plan = plan(&with(flat(0..2), card), &WISH);
    assert_eq!((queues(&plan), plan.warnings), (vec![vec![0], vec![]], vec![]));
}

#[test]
fn packets_that_are_sent_on_to_lanes_are_named() {
    let mut card = card(None, &[0, 1, 2, 3]);
    card.rps_cpus = vec![vec![], vec![2, 3], vec![7], vec![0]];
    let plan = plan(&with(flat(0..4), card), &WISH);
    let expected = Warning::PacketsSentOn { interface: "eth0".to_owned(), queues: vec![1, 3], cpus: vec![0, 2, 3] };
    assert_eq!(plan.warnings, [expected]);
    assert_eq!(plan.warnings[0].what(), "eth0 has packets of queue 1,3 sent on to CPU 0,2-3 by another hash than the lanes'");
}

#[test]
fn one_client_comes_to_one_queue_where_ports_are_not_hashed() {
    let mut card = card(None, &[0, 1]);
    let fields = vec![(FlowKind::TcpV4, Fields(0xf0)), (FlowKind::UdpV4, Fields(0x30)), (FlowKind::UdpV6, Fields(0x30))];
    card.rss = Some(Rss { function: Some(HashFunction::Toeplitz), key: vec![7; 40], table: vec![0, 1], fields });
    let topology = with(flat(0..2), card);
    let of_both = plan(&topology, &WISH);
    let flows = vec![FlowKind::UdpV4, FlowKind::UdpV6];
    assert_eq!(of_both.warnings, [Warning::AddressesOnly { interface: "eth0".to_owned(), flows }]);
    assert!(of_both.warnings[0].remedy().contains("ethtool -N eth0 rx-flow-hash udp4 sdfn"));
    assert_eq!(plan(&topology, &Wish { udp: false, ..WISH }).warnings, [], "datagrams are not served");
}

#[test]
fn a_table_with_fewer_entries_than_queues_is_named() {
    let mut card = card(None, &[0, 1, 2, 3]);
    card.rss = Some(Rss { function: None, key: Vec::new(), table: vec![0, 1], fields: Vec::new() });
    let plan = plan(&with(flat(0..4), card), &WISH);
    assert_eq!(plan.warnings, [Warning::FewerEntriesThanQueues { interface: "eth0".to_owned(), entries: 2, queues: 4 }]);
}

#[test]
fn warnings_fit_into_the_counter_pages() {
    let interface = || "fifteen-letters".to_owned();
    let all = [
        Warning::MoreLanesThanCpus { lanes: 1024, cpus: 1000 },
        Warning::FewerQueuesThanLanes { interface: interface(), queues: 100, queues_max: 128, setting: "combined", lanes: 1024 },
        Warning::FewerEntriesThanQueues { interface: interface(), entries: 128, queues: 1000 },
        Warning::PacketsSentOn { interface: interface(), queues: (100..110).collect(), cpus: (100..110).collect() },
        Warning::InterruptsElsewhere { interface: interface(), interrupts: vec![1000; 9], cpus: (100..200).collect() },
        Warning::AddressesOnly { interface: interface(), flows: vec![FlowKind::UdpV4, FlowKind::UdpV6] },
    ];
    for warning in all {
        assert!(warning.to_string().len() <= 240, "{} bytes: {warning}", warning.to_string().len());
    }
}
