//! What rules and the translation add to a packet that is forwarded: 510 bytes from one of 40 VLANs to a router at the last. On a simulated wire, whose own cost is the same in
//! each row, so the differences count. The last rows translate packets of few and of many flows, each of a flow by chance; what makes them costs the same in both, so that their
//! ratio is that of whole packets. `cargo bench -p corelane-stack`; with a row's name or a number of flows, and a number of packets, for one that counts instructions, that alone is
//! run.
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
use corelane_seam::Random;
use corelane_sim::CardSetup;
use corelane_stack::{NatSettings, ReversePath, Settings, Tags};
use corelane_wire::packet::checksum::Sum;
use gateway::{Gateway, ip, settings, tagged, untagged};
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

/// Flows that are translated in turns, and the rounds of which the ratio is the median.
const FLOWS: [u32; 2] = [10, 100_000];
const ROUNDS: usize = 15;
/// Packets of a round: two of each flow. A shorter one would find most of its flows' memory as the other's round has left it, cold, which that of a lane is not.
const EACH: u32 = 200_000;
/// Where things stand behind the tag of a frame: the VLAN, the header of IPv4, and that of UDP.
const VLAN: usize = 14;
const HEADER: usize = 18;
const UDP: usize = HEADER + 20;

/// A gateway that translates, and has a session for each of so many flows.
struct Translating {
    gateway: Gateway,
    flows: u32,
    random: Random,
    frame: Vec<u8>,
}

impl Translating {
    fn new(flows: u32) -> Self {
        let mut settings = settings_of("nat");
        let externals: Vec<_> = (1..=4).map(|last| Ipv4Addr::new(10, 40, 0, last)).collect();
        for external in &externals[1..] {
            settings = settings.with_network((*external).into(), 16);
        }
        settings.nat.as_mut().unwrap().settings.externals = externals;
        let mut gateway = Gateway::new(&settings, &[CardSetup::default()], 1024);
        gateway.host(0, Tags::One(post::VLANS), &["10.40.0.9"]);
        let (from, to) = (SocketAddr::new(ip("10.1.0.7"), 4000), SocketAddr::new(ip("192.0.2.1"), 53));
        let frame = tagged(&frames::udp(gateway.mac(0), from, to, &[1; 510 - 28]), Tags::One(1));
        let mut translating = Self { gateway, flows, random: Random::new(1), frame };
        translating.send(0);
        translating.gateway.hear();
        for first in (0..flows).step_by(BATCH as usize) {
            (first..flows.min(first + BATCH)).for_each(|flow| translating.send(flow));
            translating.gateway.turn();
            translating.gateway.tests[0].take();
        }
        let sessions = translating.gateway.stack.view().nat_in_use().unwrap().0;
        assert_eq!(sessions, flows as usize, "each flow has its session");
        translating
    }

    /// Sends a packet of a flow: of its VLAN, host and port, without a checksum of UDP.
    fn send(&mut self, flow: u32) {
        let (vlan, host, port) = (1 + (flow % 39) as u16, flow / 39 / 20, 4000 + (flow / 39 % 20) as u16);
        let frame = &mut self.frame;
        frame[VLAN..VLAN + 2].copy_from_slice(&vlan.to_be_bytes());
        frame[HEADER + 12..HEADER + 16].copy_from_slice(&[10, vlan as u8, 1 + (host >> 8) as u8, host as u8]);
        frame[HEADER + 10..HEADER + 12].fill(0);
        let sum = Sum::of(&frame[HEADER..UDP]).checksum();
        frame[HEADER + 10..HEADER + 12].copy_from_slice(&sum.to_be_bytes());
        frame[UDP..UDP + 2].copy_from_slice(&port.to_be_bytes());
        frame[UDP + 6..UDP + 8].fill(0);
        self.gateway.tests[0].send(frame);
    }

    /// Takes what has left. The router is asked now and then whether he is still there, and answers.
    fn take(&mut self) {
        for frame in self.gateway.tests[0].take().iter().filter(|frame| frame.len() < self.frame.len()) {
            let (tags, frame) = untagged(frame);
            if let Some(answer) = self.gateway.answer(0, tags, &frame) {
                self.gateway.send(0, tags, &answer);
            }
        }
    }

    /// Nanoseconds of the processor a packet.
    fn round(&mut self, packets: u32) -> f64 {
        let before = self.gateway.stack.counts().forwarded;
        let begun = spent();
        for _ in 0..packets / BATCH {
            for _ in 0..BATCH {
                let flow = self.random.index(self.flows as usize) as u32;
                self.send(flow);
            }
            self.gateway.turn();
            self.take();
        }
        let took = (spent() - begun) as f64 / f64::from(packets / BATCH * BATCH);
        assert_eq!(self.gateway.stack.counts().forwarded - before, u64::from(packets / BATCH * BATCH));
        took
    }
}

/// Nanoseconds for which this thread has had a processor, by proc_pid_schedstat(5): what others had meanwhile is in no round.
fn spent() -> u64 {
    // The kernel adds up when it looks at the thread.
    std::thread::yield_now();
    let all = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    all.split_whitespace().next().unwrap().parse().unwrap()
}

/// The median of the rounds' ratios; the two take turns.
fn of_flows() {
    let mut both = FLOWS.map(Translating::new);
    let mut rounds: Vec<[f64; 2]> = Vec::new();
    for round in 0..ROUNDS {
        let mut took = [0.0; 2];
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        order.iter().for_each(|place| took[*place] = both[*place].round(EACH));
        rounds.push(took);
    }
    for (place, flows) in FLOWS.into_iter().enumerate() {
        println!("nat, {flows} flows: {:.0} ns a packet", median(rounds.iter().map(|took| took[place])));
    }
    let ratios: Vec<f64> = rounds.iter().map(|took| took[1] / took[0]).collect();
    let [low, high] = interval(&ratios);
    let middle = median(ratios.iter().copied());
    println!("nat, {} flows by {}: {middle:.3} ({low:.3} to {high:.3} in {ROUNDS} rounds)", FLOWS[1], FLOWS[0]);
    println!("each: {ratios:.3?}");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The bootstrap 90 % interval of the median.
fn interval(values: &[f64]) -> [f64; 2] {
    let mut random = Random::new(1);
    let mut medians: Vec<f64> =
        (0..10_000).map(|_| median((0..values.len()).map(|_| values[random.index(values.len())]))).collect();
    medians.sort_by(f64::total_cmp);
    [medians[500], medians[9_499]]
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
        let packets = packets.parse().unwrap();
        let took = match row.parse() {
            Ok(flows) => Translating::new(flows).round(packets),
            Err(_) => forward(&row, packets),
        };
        println!("{row}: {took:.0} ns a packet");
        return;
    }
    for row in ROWS {
        let best = (0..5).map(|_| forward(row, 20_000)).fold(f64::MAX, f64::min);
        println!("{row}: {best:.0} ns a packet");
    }
    of_flows();
}
