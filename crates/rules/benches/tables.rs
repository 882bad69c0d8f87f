//! What tables cost: a packet that asks one of 10,000 prefixes, and changes of it. `cargo bench -p corelane-rules --bench tables`.
#![allow(clippy::unwrap_used)] // no part of the product

use corelane_rules::language::command;
use corelane_rules::{Execution, Facts, Limits, Records, Rules};
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

/// A prefix of 17 to 32 bits, and others the next time.
fn prefix(number: u32) -> String {
    let address = number.wrapping_mul(0x9e37_79b9);
    format!("{}/{}", Ipv4Addr::from_bits(address), 17 + number % 16)
}

fn add(rules: &mut Rules, numbers: std::ops::Range<u32>) {
    let numbers: Vec<u32> = numbers.collect();
    let commands = numbers.chunks(8).map(|some| {
        let keys: Vec<String> = some.iter().map(|number| format!("{} 1", prefix(*number))).collect();
        command(&format!("table t add {}", keys.join(" ")), 1).unwrap()
    });
    rules.apply_all(commands).unwrap();
}

fn main() {
    for keys in [10_000, 1_000_000] {
        let mut rules = Rules::new(true, Limits::default());
        rules.apply(command("table t create type addr", 1).unwrap()).unwrap();
        rules.apply(command("add count ip from table(t) to any", 1).unwrap()).unwrap();
        add(&mut rules, 0..keys);
        let (set, mut records) = (rules.compile(Execution::Tree), Records::default());
        let of = |number: u32| Facts::between(Ipv4Addr::from_bits(number.wrapping_mul(0x9e37_79b9)).into(), [1, 1, 1, 1].into());
        let packets: Vec<Facts> = (0..10_000).map(|number| of(number * 7)).collect();
        let mut best = f64::MAX;
        for now in 0..7 {
            let begun = Instant::now();
            packets.iter().for_each(|facts| {
                black_box(set.judge(black_box(facts), now, &mut records));
            });
            best = best.min(begun.elapsed().as_nanos() as f64 / packets.len() as f64);
        }
        println!("{keys} prefixes: {best:.0} ns a packet");
        for (changed, name) in [(1, "one more"), (1_000, "1,000 more")] {
            let begun = Instant::now();
            add(&mut rules, 5_000_000..5_000_000 + changed);
            println!("{keys} prefixes: {name} in {:.2} ms", begun.elapsed().as_nanos() as f64 / 1e6);
            add(&mut rules, 6_000_000..6_000_001);
        }
    }
}
