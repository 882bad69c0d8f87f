//! What rules and the translation add to a packet that is forwarded: 510 bytes from one of 40 VLANs to a router at the last. On a simulated wire, whose own cost is the same in
//! each row, so the differences count. `cargo bench -p corelane-stack`; with a row's name and a number of packets, for one that counts instructions, that alone is run.
#![allow(clippy::unwrap_used, dead_code)] // no part of the product

#[path = "../tests/simulated/frames.rs"]
mod frames;
#[path = "../tests/simulated/gateway.rs"]
mod gateway;
#[path = "../../rules/tests/rules/gateway.rs"]
mod post;

use corelane_nat::Settings as Nat;
use corelane_rules::language::import;
use corelane_rules::{Execution, Limits, RuleSet, Rules};
use corelane_sim::CardSetup;
use corelane_stack::{NatSettings, ReversePath, Settings, Tags};
use gateway::{Gateway, ip, settings, tagged};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// Packets that come at once.
const BATCH: u32 = 32;
const ROWS: [&str; 6] = ["plain", "tree", "flat", "skipto", "nat", "nat-home"];

fn rules(row: &str) -> Option<Arc<RuleSet>> {
    let (script, execution) = match row {
        "tree" => (post::written(), Execution::Tree),
        "flat" => (post::written(), Execution::Flat),
        "skipto" => (post::jumping(), Execution::Skipto),
        _ => return None,
    };
    let mut rules = Rules::new(true, Limits::default());
    let vlans = (1..=post::VLANS).map(|vlan| format!("vlan{vlan}"));
    rules.name_interfaces(std::iter::once("eth0".to_owned()).chain(vlans).collect()).unwrap();
    rules.apply_all(import(&script).unwrap().into_iter().map(|(_, command)| command)).unwrap();
    Some(Arc::new(rules.compile(execution)))
}

fn settings_of(row: &str) -> Settings {
    let mut settings = settings().with_interface("eth0");
    for vlan in 1..=post::VLANS {
        settings = settings.and_vlan(&format!("vlan{vlan}"), Tags::One(vlan)).with_network(ip(&format!("10.{vlan}.0.1")), 16);
        settings = settings.with_forwarding(ReversePath::Off);
    }
    settings = settings.with_route(ip("0.0.0.0"), 0, ip("10.40.0.9"));
    settings.rules = rules(row);
    if row.starts_with("nat") {
        let nat = Nat::new(Ipv4Addr::new(10, 40, 0, 1));
        settings.nat = Some(NatSettings { interfaces: vec![post::VLANS.into()], settings: nat });
    }
    settings
}

/// Forwards so many packets; nanoseconds for each.
fn forward(row: &str, packets: u32) -> f64 {
    let mut gateway = Gateway::new(&settings_of(row), &[CardSetup::default()], 1024);
    gateway.host(0, Tags::One(post::VLANS), &["10.40.0.9"]);
    gateway.host(0, Tags::One(1), &["10.1.0.7"]);
    let mac = gateway.mac(0);
    let frame =
        |from: SocketAddr, to: SocketAddr, vlan: u16| tagged(&frames::udp(mac, from, to, &[1; 510 - 28]), Tags::One(vlan));
    let outside = SocketAddr::new(ip("192.0.2.1"), 53);
    let out = |number: u32| {
        let vlan = 1 + (number % 39) as u16;
        let host = Ipv4Addr::new(10, vlan as u8, 0, 7 + (number / 39 % 8) as u8);
        frame(SocketAddr::new(IpAddr::V4(host), 4000 + (number % 64) as u16), outside, vlan)
    };
    let home = frame(outside, SocketAddr::new(ip("10.40.0.1"), 4000), post::VLANS);
    let first = frame(SocketAddr::new(ip("10.1.0.7"), 4000), outside, 1);
    let frames: Vec<_> = (0..BATCH * 20).map(|number| if row == "nat-home" { home.clone() } else { out(number) }).collect();
    // Neighbours are known, and sessions are there, before it begins.
    gateway.tests[0].send(&first);
    for batch in frames.chunks(BATCH as usize) {
        gateway.hear();
        batch.iter().for_each(|frame| gateway.tests[0].send(frame));
    }
    gateway.hear();
    let before = gateway.stack.counts().forwarded;
    let begun = Instant::now();
    for batch in frames.chunks(BATCH as usize).cycle().take((packets / BATCH) as usize) {
        batch.iter().for_each(|frame| gateway.tests[0].send(frame));
        gateway.turn();
        gateway.tests[0].take();
    }
    let took = begun.elapsed().as_nanos() as f64 / f64::from(packets / BATCH * BATCH);
    assert_eq!(gateway.stack.counts().forwarded - before, u64::from(packets / BATCH * BATCH), "{row}");
    took
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    if let (Some(row), Some(packets)) = (arguments.next(), arguments.next()) {
        println!("{row}: {:.0} ns a packet", forward(&row, packets.parse().unwrap()));
        return;
    }
    for row in ROWS {
        let best = (0..5).map(|_| forward(row, 20_000)).fold(f64::MAX, f64::min);
        println!("{row}: {best:.0} ns a packet");
    }
}
