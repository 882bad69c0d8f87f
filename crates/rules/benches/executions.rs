//! What a packet costs under 160 rules that count, by execution. `cargo bench -p corelane-rules`.
#![allow(clippy::unwrap_used)] // no part of the product

#[path = "../tests/rules/gateway.rs"]
mod gateway;

use corelane_rules::language::import;
use corelane_rules::{Direction, Execution, Facts, Interface, Limits, Records, RuleSet, Rules};
use gateway::{VLANS, jumping, written};
use std::hint::black_box;
use std::time::Instant;

fn compiled(script: &str, execution: Execution) -> RuleSet {
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces((1..=VLANS).map(|vlan| format!("vlan{vlan}")).collect()).unwrap();
    rules.apply_all(import(script).unwrap().into_iter().map(|(_, command)| command)).unwrap();
    rules.compile(execution)
}

fn packets() -> Vec<Facts> {
    let one = |vlan: u16| {
        let facts = Facts { length: 510, ..Facts::between([10, 0, vlan as u8, 5].into(), [10, 7, 7, 7].into()) };
        [
            Facts { direction: Direction::In, receive: Interface(vlan), ..facts },
            Facts { direction: Direction::Out, transmit: Interface(vlan), ..facts },
        ]
    };
    // Neighbours in the list are of different VLANs: 7 and the number of VLANs have no common divisor but 1.
    (0..VLANS).flat_map(|at| one(1 + at * 7 % VLANS)).collect()
}

fn main() {
    const ROUNDS: u64 = 2_000;
    let packets = packets();
    for (name, script, execution) in [
        ("flat", written(), Execution::Flat),
        ("skipto", jumping(), Execution::Skipto),
        ("tree", written(), Execution::Tree),
        ("tree of the skipto script", jumping(), Execution::Tree),
    ] {
        let (set, mut records) = (compiled(&script, execution), Records::default());
        let mut best = f64::MAX;
        for _ in 0..7 {
            let begun = Instant::now();
            for now in 0..ROUNDS {
                packets.iter().for_each(|facts| {
                    black_box(set.judge(black_box(facts), now, &mut records));
                });
            }
            best = best.min(begun.elapsed().as_nanos() as f64 / (ROUNDS * packets.len() as u64) as f64);
        }
        println!("{name}: {best:.1} ns a packet");
    }
}
