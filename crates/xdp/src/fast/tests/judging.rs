//! Verdicts and counters.

use super::super::{FastPath, FastTraffic};
use super::drawn::{OWN, packet, rules};
use super::{DENY, LANE, SENT, counted, enter, entries, fast, may, program, way};
use crate::fast::ways::Entry;
use corelane_rules::{Decision, Direction, Execution, Facts, Interface, Records, RuleSet};
use corelane_seam::Random;
use std::collections::BTreeMap;
use std::net::IpAddr;

const ROUNDS: u64 = 200;
const PACKETS: u64 = 50;

/// What becomes of a packet that has a way, by the reference.
fn expected(flat: &RuleSet, facts: &Facts, records: &mut Records) -> u32 {
    for direction in [Direction::In, Direction::Out] {
        let facts = Facts { direction, ..*facts };
        if flat.judge(&facts, 1, records).decision != Decision::Allow {
            return DENY;
        }
    }
    SENT
}

#[test]
fn a_program_judges_and_counts_as_lanes_do() {
    if !may("a_program_judges_and_counts_as_lanes_do") {
        return;
    }
    let own: Vec<IpAddr> = OWN.map(|own| own.parse().unwrap()).to_vec();
    let (mut answers, mut unfit) = (BTreeMap::new(), 0);
    let fast = fast();
    for seed in 0..ROUNDS {
        let mut random = Random::new(seed);
        // The ways of the round before hold no more.
        fast.unlearn();
        let mut rules = rules(&mut random);
        let (flat, tree) = (rules.compile(Execution::Flat), rules.compile(Execution::Tree));
        let Ok(program) = program(&fast, &tree, &own, false) else {
            unfit += 1;
            continue;
        };
        let mut records = Records::default();
        let (mut sources, mut destinations) = (BTreeMap::new(), BTreeMap::new());
        let mut traffic = traffic_of(&fast);
        fast.zero(&flat.rules().map(|(id, ..)| id).collect::<Vec<_>>()).unwrap();
        for _ in 0..PACKETS {
            let (mut facts, frame) = packet(&mut random);
            let pair = (IpAddr::from(facts.source), IpAddr::from(facts.destination));
            let [source, destination] = entries(&fast, &way(pair, facts.receive.0, facts.transmit.0));
            let mut draw = |half: &Entry| {
                let is_known = random.below(8) > 0;
                is_known.then(|| enter(&fast, half));
                is_known
            };
            let may_come = *sources.entry((facts.receive, pair.0)).or_insert_with(|| draw(&source));
            let leaves = *destinations.entry(pair.1).or_insert_with(|| draw(&destination).then_some(facts.transmit));
            let known = leaves.filter(|_| may_come && pair.0 != pair.1);
            facts.transmit = known.unwrap_or(Interface::NONE);
            let should = if known.is_some() { expected(&flat, &facts, &mut records) } else { LANE };
            let answer = program.answer(&frame).unwrap();
            assert_eq!(answer, should, "{facts:?}\n{frame:02x?}\n{}", flat.trace(&facts, 1, &records).join("\n"));
            *answers.entry(answer).or_insert(0) += 1;
            let (receive, transmit) = (usize::from(facts.receive.0), usize::from(facts.transmit.0));
            match answer {
                SENT => {
                    traffic[receive] = add(traffic[receive], [1, facts.length.into(), 0, 0, 0]);
                    traffic[transmit] = add(traffic[transmit], [0, 0, 1, facts.length.into(), 0]);
                }
                DENY => traffic[receive][4] += 1,
                _ => {}
            }
        }
        assert_counts(&fast, &flat, &records);
        assert_eq!(traffic_of(&fast), traffic);
    }
    println!("{ROUNDS} sets of {PACKETS} packets: {answers:?}, {unfit} sets unfit");
    assert!(unfit < ROUNDS / 20 && answers.len() == 3 && answers.values().all(|count| *count > ROUNDS * PACKETS / 10));
}

fn assert_counts(fast: &FastPath, flat: &RuleSet, records: &Records) {
    for (id, number, rule) in flat.rules() {
        let (should, got) = (records.count(id), counted(fast, id));
        assert_eq!((should.packets, should.bytes, should.packets > 0), (got.packets, got.bytes, got.last > 0), "{number} {rule}");
    }
}

/// By the numbers of interfaces.
fn traffic_of(fast: &FastPath) -> [[u64; 5]; 5] {
    std::array::from_fn(|interface| {
        let FastTraffic { packets_in, bytes_in, packets_out, bytes_out, denied } =
            fast.traffic(Interface(interface as u16)).unwrap();
        [packets_in, bytes_in, packets_out, bytes_out, denied]
    })
}

fn add(to: [u64; 5], what: [u64; 5]) -> [u64; 5] {
    std::array::from_fn(|at| to[at] + what[at])
}
