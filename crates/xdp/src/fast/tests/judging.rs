//! Verdicts and counters.

use super::super::{FastPath, FastTraffic};
use super::drawn::{OWN, many_rules, packet, rules};
use super::{DENY, LANE, SENT, counted, enter, entries, fast, may, program, way};
use crate::fast::ways::Entry;
use corelane_rules::language::{Action, Log, Rule};
use corelane_rules::{Decision, Direction, Execution, Facts, Interface, Records, RuleSet, Rules};
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

/// Whether the rules leave a packet to the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leaves {
    No,
    /// It comes to a large table, of which another question may be asked first.
    Perhaps,
    Yes,
}

/// The rules as a trace begins its lines.
fn words_of(flat: &RuleSet) -> BTreeMap<String, &Rule> {
    flat.rules().map(|(_, number, rule)| (format!("{number:05} {rule}"), rule)).collect()
}

/// Whether a packet that has a way needs a lane, by the rules that it comes to one after the other.
fn leaves(flat: &RuleSet, words: &BTreeMap<String, &Rule>, facts: &Facts) -> Leaves {
    let mut most = Leaves::No;
    for direction in [Direction::In, Direction::Out] {
        let lines = flat.trace_of(&Facts { direction, ..*facts }, None);
        let (verdict, each) = lines.split_last().unwrap();
        for line in each {
            let rule = line.match_indices(": ").find_map(|(at, _)| words.get(&line[..at])).unwrap();
            most = most.max(leaves_at(rule, line.ends_with("matches")));
        }
        if !verdict.starts_with("verdict: allow") {
            break;
        }
    }
    most
}

/// Whether a rule has a packet left that comes to it.
fn leaves_at(rule: &Rule, matches: bool) -> Leaves {
    let asks_states = rule.keep.is_some() || rule.action == Action::CheckState;
    let tells = rule.log != Log::No || matches!(rule.action, Action::Reject(_));
    match () {
        () if asks_states || matches && tells => Leaves::Yes,
        () if rule.to_string().contains("table(large") => Leaves::Perhaps,
        () => Leaves::No,
    }
}

/// Packets to each answer, and those that the rules left to the lane.
#[derive(Debug, Default)]
struct Seen {
    answers: BTreeMap<u32, u64>,
    left: u64,
}

/// Compares what a program and the reference make of packets, answers and counts; false if the set does not fit.
fn compare(fast: &FastPath, random: &mut Random, mut rules: Rules, is_wide: bool, seen: &mut Seen) -> bool {
    let own: Vec<IpAddr> = OWN.map(|own| own.parse().unwrap()).to_vec();
    // The ways of the round before hold no more.
    fast.unlearn();
    let (flat, tree) = (rules.compile(Execution::Flat), rules.compile(Execution::Tree));
    let words_of = words_of(&flat);
    let program = match program(fast, &tree, &own, false) {
        Ok(program) => program,
        Err(unfit) => {
            // Then each packet would be the lane's.
            let (list, mut packet) = (flat.list().join("\n"), || packet(random, is_wide).0);
            (0..PACKETS).for_each(|_| assert!(leaves(&flat, &words_of, &packet()) > Leaves::No, "{unfit}\n{list}"));
            return false;
        }
    };
    let mut records = Records::default();
    let (mut sources, mut destinations) = (BTreeMap::new(), BTreeMap::new());
    let mut traffic = traffic_of(fast);
    fast.zero(&flat.rules().map(|(id, ..)| id).collect::<Vec<_>>()).unwrap();
    for _ in 0..PACKETS {
        let (mut facts, frame) = packet(random, is_wide);
        let pair = (IpAddr::from(facts.source), IpAddr::from(facts.destination));
        let [source, destination] = entries(fast, &way(pair, facts.receive.0, facts.transmit.0));
        let mut draw = |half: &Entry| {
            let is_known = random.below(8) > 0;
            is_known.then(|| enter(fast, half));
            is_known
        };
        let may_come = *sources.entry((facts.receive, pair.0)).or_insert_with(|| draw(&source));
        let way_out = *destinations.entry(pair.1).or_insert_with(|| draw(&destination).then_some(facts.transmit));
        let known = way_out.filter(|_| may_come && pair.0 != pair.1);
        facts.transmit = known.unwrap_or(Interface::NONE);
        let (answer, changed) = program.answer_and_change(&frame).unwrap();
        assert!(answer != LANE || changed == frame, "what is the lane's is as it came");
        let words = || format!("{facts:?}\n{frame:02x?}\n{}", flat.trace(&facts, 1, &Records::default()).join("\n"));
        match known.map(|_| leaves(&flat, &words_of, &facts)) {
            None => assert_eq!(answer, LANE, "{}", words()),
            Some(Leaves::Yes) => assert_eq!(answer, LANE, "{}", words()),
            Some(Leaves::Perhaps) if answer == LANE => {}
            Some(Leaves::No | Leaves::Perhaps) => assert_eq!(answer, expected(&flat, &facts, &mut records), "{}", words()),
        }
        seen.left += u64::from(known.is_some() && answer == LANE);
        *seen.answers.entry(answer).or_insert(0) += 1;
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
    // What was left to the lane has been counted nowhere.
    assert_counts(fast, &flat, &records);
    assert_eq!(traffic_of(fast), traffic);
    true
}

#[test]
fn a_program_judges_and_counts_as_lanes_do() {
    if !may("a_program_judges_and_counts_as_lanes_do") {
        return;
    }
    let (mut seen, mut unfit, fast) = (Seen::default(), 0, fast());
    for seed in 0..ROUNDS {
        let mut random = Random::new(seed);
        let rules = rules(&mut random);
        unfit += u64::from(!compare(&fast, &mut random, rules, false, &mut seen));
    }
    println!("{ROUNDS} sets of {PACKETS} packets: {seen:?}, {unfit} sets unfit");
    assert!(unfit < ROUNDS / 4 && seen.left > ROUNDS * PACKETS / 20);
    assert!(seen.answers.len() == 3 && seen.answers.values().all(|count| *count > ROUNDS * PACKETS / 10));
}

/// Jumps go far there: a program has thousands of instructions.
#[test]
fn a_program_of_hundreds_of_different_rules_does_so_too() {
    if !may("a_program_of_hundreds_of_different_rules_does_so_too") {
        return;
    }
    let (mut seen, fast) = (Seen::default(), fast());
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let rules = many_rules(&mut random);
        println!("{} rules", rules.all().count());
        assert!(compare(&fast, &mut random, rules, true, &mut seen));
    }
    println!("{seen:?}");
    assert!(seen.answers.get(&SENT).is_some_and(|sent| *sent > 50));
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
