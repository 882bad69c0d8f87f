//! The gateway of the post: 40 VLANs with four rules each that count.

use crate::gateway::{VLANS, jumping, written};
use corelane_rules::language::import;
use corelane_rules::{Count, Direction, Execution, Facts, Interface, Limits, Records, Rules};

fn compiled(script: &str, execution: Execution) -> corelane_rules::RuleSet {
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces((1..=VLANS).map(|vlan| format!("vlan{vlan}")).collect()).unwrap();
    rules.apply_all(import(script).unwrap().into_iter().map(|(_, command)| command)).unwrap();
    rules.compile(execution)
}

/// Packets in both directions on each VLAN, from house to house and to elsewhere.
fn packets() -> Vec<Facts> {
    let mut packets = Vec::new();
    for vlan in 1..=VLANS {
        for other in [[10, 77, 3, 4], [192, 0, 2, 9], [8, 8, 8, 8]] {
            let own = [10, 0, vlan as u8, 5];
            let facts = Facts { protocol: 17, length: 510, ..Facts::between(own.into(), other.into()) };
            packets.push(Facts { direction: Direction::In, receive: Interface(vlan), ..facts });
            let back = Facts { source: facts.destination, destination: facts.source, ..facts };
            packets.push(Facts { direction: Direction::Out, transmit: Interface(vlan), ..back });
        }
    }
    packets
}

/// The most and the mean of what packets visit, and the counts of all rules that count.
fn visits(script: &str, execution: Execution) -> (u32, f64, Vec<Count>) {
    let (set, mut records) = (compiled(script, execution), Records::default());
    let packets = packets();
    let all: Vec<u32> = packets.iter().map(|facts| set.judge_and_tell(facts, 1, &mut records).1).collect();
    let counting = set.rules().filter(|(_, _, rule)| rule.to_string().starts_with("count"));
    let counts = counting.map(|(id, ..)| records.count(id)).collect();
    let mean = f64::from(all.iter().sum::<u32>()) / packets.len() as f64;
    if let Some(report) = set.report() {
        println!("{report}");
    }
    (all.iter().copied().max().unwrap(), mean, counts)
}

#[test]
fn a_tree_visits_a_dozen_where_the_list_visits_all() {
    let (flat, flat_mean, counts) = visits(&written(), Execution::Flat);
    let (skipto, skipto_mean, skipto_counts) = visits(&jumping(), Execution::Skipto);
    let (tree, tree_mean, tree_counts) = visits(&written(), Execution::Tree);
    let (jumped, jumped_mean, jumped_counts) = visits(&jumping(), Execution::Tree);
    println!(
        "160 count rules, visited by a packet, most and mean: flat {flat}, {flat_mean:.1}; skipto {skipto}, {skipto_mean:.1}; tree {tree}, {tree_mean:.1}; tree of the skipto script {jumped}, {jumped_mean:.1}"
    );
    assert_eq!((flat, counts.len()), (161, 160), "all, and the last");
    assert!(skipto <= 60 && tree <= 12 && jumped <= 12);
    assert_eq!(counts, tree_counts);
    let mut sorted = [counts, skipto_counts, jumped_counts].map(|mut counts| {
        counts.sort_unstable_by_key(|count| (count.packets, count.bytes));
        counts
    });
    let total = |counts: &[Count]| counts.iter().map(|count| count.packets).sum::<u64>();
    assert_eq!(total(&sorted[0]), 240);
    let first = std::mem::take(&mut sorted[0]);
    assert!(sorted[1..].iter().all(|other| *other == first), "the skipto script counts the same");
}
