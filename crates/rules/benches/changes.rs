//! The work of control for a change, before any lane is told. `cargo bench -p corelane-rules --bench changes`.
#![allow(clippy::unwrap_used)] // no part of the product

#[allow(dead_code)] // shared with tests
#[path = "../tests/rules/gateway.rs"]
mod gateway;

use corelane_rules::language::{Command, command, import};
use corelane_rules::{Execution, Limits, Rules};
use gateway::{VLANS, written};
use std::fmt::Write as _;
use std::hint::black_box;

fn begun() -> Rules {
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces((1..=VLANS).map(|vlan| format!("vlan{vlan}")).collect()).unwrap();
    rules.apply_all(import(&written()).unwrap().into_iter().map(|(_, command)| command)).unwrap();
    rules
}

/// 1,000 rules behind all others, each of one VLAN and direction.
fn more() -> String {
    let mut script = "#!/bin/sh\nfwcmd=\"/sbin/ipfw -q\"\n".to_owned();
    for number in 0..1_000 {
        let direction = if (number / VLANS).is_multiple_of(2) { "in" } else { "out" };
        let vlan = 1 + number % VLANS;
        writeln!(script, "$fwcmd add {} count ip from any to any {direction} via vlan{vlan}", 40_000 + number).unwrap();
    }
    script
}

/// Processor time of this thread, in nanoseconds (sched-stats in the kernel's documentation).
fn cpu_ns() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split_whitespace().next().unwrap().parse().unwrap()
}

/// The least processor time of some runs, in milliseconds.
fn least<T>(what: &str, mut work: impl FnMut() -> T) {
    let time = |_| {
        let begun = cpu_ns();
        black_box(work());
        (cpu_ns() - begun) / 1e6
    };
    println!("{what}: {:.2} ms", (0..7).map(time).fold(f64::MAX, f64::min));
}

fn main() {
    let (rules, script) = (begun(), more());
    let commands: Vec<Command> = import(&script).unwrap().into_iter().map(|(_, command)| command).collect();
    let mut changed = rules.clone();
    changed.apply_all(commands.clone()).unwrap();
    least("160 rules compiled", || rules.clone().compile(Execution::Tree));
    least("1,000 more read", || import(&script).unwrap());
    least("1,000 more applied", || rules.clone().apply_all(commands.clone()).unwrap());
    least("1,160 rules compiled", || changed.clone().compile(Execution::Tree));
    least("1,000 more one by one, each compiled", || {
        let mut rules = rules.clone();
        for command in &commands {
            rules.apply_all([command.clone()]).unwrap();
            black_box(rules.compile(Execution::Tree));
        }
    });
    for keys in [10_000_u32, 100_000] {
        let mut rules = begun();
        let key = |number: u32| format!("{} 1", std::net::Ipv4Addr::from_bits(number.wrapping_mul(0x9e37_79b9)));
        let add = |number| command(&format!("table t add {}", key(number)), 1).unwrap();
        rules.apply_all((0..keys).map(add)).unwrap();
        least(&format!("one key more in {keys}"), || rules.clone().apply_all([add(keys)]).unwrap());
    }
}
