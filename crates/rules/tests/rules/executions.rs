//! The three executions give the same verdicts, counters, lines and states, for rules and packets drawn from a seed.

use crate::drawn;
use crate::drawn::{facts, rule, rules};
use corelane_rules::language::{Command, command};
use corelane_rules::{Count, Execution, Facts, Field, Limits, Node, RecordLimits, Records, RuleId, RuleSet, Rules, Verdict};
use corelane_seam::Random;

const EXECUTIONS: [Execution; 3] = [Execution::Flat, Execution::Skipto, Execution::Tree];

/// An execution with what packets leave behind there.
struct Run {
    set: RuleSet,
    records: Records,
}

fn records() -> Records {
    let mut limits = RecordLimits::default();
    (limits.states, limits.states_by_source, limits.lines_by_rule, limits.lines_by_second) = (12, 3, 4, 6);
    Records::new(limits)
}

fn started(rules: &mut Rules) -> Vec<Run> {
    EXECUTIONS.iter().map(|execution| Run { set: rules.compile(*execution), records: records() }).collect()
}

/// Lets all of them judge a packet, and says what the first makes of it.
fn judge(runs: &mut [Run], facts: &Facts, now: u64) -> Verdict {
    let all: Vec<Verdict> = runs.iter_mut().map(|run| run.set.judge(facts, now, &mut run.records)).collect();
    if all.iter().any(|verdict| *verdict != all[0]) {
        let trace = runs[0].set.trace(facts, now, &runs[0].records).join("\n");
        panic!("{facts:?}\n{all:?}\n{}\n{trace}", runs[0].set.list().join("\n"));
    }
    all[0]
}

/// Compares what packets left behind.
fn compare(runs: &mut [Run]) {
    let counts = |run: &Run| -> Vec<(RuleId, Count)> { run.set.rules().map(|(id, ..)| (id, run.records.count(id))).collect() };
    let all: Vec<_> = runs.iter().map(counts).collect();
    assert!(all.iter().all(|counts| *counts == all[0]), "{}\n{all:?}", runs[0].set.list().join("\n"));
    let left = |run: &mut Run| {
        let lines: Vec<_> = std::iter::from_fn(|| run.records.take_line()).collect();
        (lines, run.records.lines_refused(), run.records.states(), run.records.states_refused())
    };
    let all: Vec<_> = runs.iter_mut().map(left).collect();
    assert!(all.iter().all(|left| *left == all[0]), "{}\n{all:?}", runs[0].set.list().join("\n"));
}

/// What has been seen, so that the test shows what it tries.
#[derive(Debug, Default)]
struct Seen {
    allowed: u32,
    ended: u32,
    lists: u32,
    states: usize,
    refused: u64,
    lines: u32,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.ended += other.ended;
        self.lists += other.lists;
        self.states += other.states;
        self.refused += other.refused;
        self.lines += other.lines;
    }
}

/// Changes the rules as an operator would.
fn change(random: &mut Random, rules: &mut Rules) {
    let numbers: Vec<u16> = rules.all().map(|(_, number, _)| number).filter(|number| *number < u16::MAX).collect();
    for _ in 0..random.one_to(3) {
        let number = numbers.get(random.index(numbers.len())).copied().unwrap_or(1);
        let text = match random.below(8) {
            0 | 1 => format!("delete {number}"),
            2 => format!("set disable {} enable {}", random.below(2), 2 + random.below(2)),
            3 => format!("set swap {} {}", random.below(4), random.below(4)),
            4 => format!("set move rule {number} to {}", random.below(4)),
            5 => format!("table t add {} {}", drawn::PREFIXES[random.index(drawn::PREFIXES.len())], random.below(3)),
            _ => format!("add {}", rule(random)),
        };
        // What has been deleted once cannot be again.
        let _ = rules.apply(command(&text, 1).unwrap());
    }
}

fn round(random: &mut Random, packets: u64, seen: &mut Seen) {
    let mut limits = Limits::default();
    limits.nodes = [3, 40, 160][random.index(3)];
    let mut rules = rules(random, limits);
    let mut runs = started(&mut rules);
    let mut now = 1;
    for packet in 0..packets {
        if packet == packets / 2 {
            compare(&mut runs);
            change(random, &mut rules);
            for (run, execution) in runs.iter_mut().zip(EXECUTIONS) {
                run.set = rules.compile(execution);
            }
        }
        now += random.below(2_000_000_000);
        let verdict = judge(&mut runs, &facts(random), now);
        seen.allowed += u32::from(verdict.is_allowed());
        seen.ended += u32::from(verdict.number < u16::MAX);
        seen.lines += u32::from(verdict.log);
    }
    seen.lists += u32::from(runs[2].set.report().is_some_and(|report| report.contains("list")));
    seen.states += runs[0].records.states();
    seen.refused += runs[0].records.states_refused();
    compare(&mut runs);
}

#[test]
fn executions_agree_on_a_million_pairs_of_rules_and_packets() {
    const ROUNDS: u64 = 20_000;
    const PACKETS: u64 = 50;
    const THREADS: u64 = 4;
    let part = |first: u64| {
        let mut seen = Seen::default();
        (first..ROUNDS).step_by(THREADS as usize).for_each(|seed| round(&mut Random::new(seed), PACKETS, &mut seen));
        seen
    };
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || part(first))).collect();
        parts.into_iter().for_each(|part| seen.add(&part.join().unwrap()));
    });
    println!("{seen:?}");
    let pairs = (ROUNDS * PACKETS) as u32;
    assert!(seen.allowed > pairs / 5 && seen.allowed < pairs * 4 / 5, "both verdicts occur");
    assert!(seen.ended > pairs / 5 && seen.lines > pairs / 100);
    assert!(seen.lists > 1_000 && seen.lists < ROUNDS as u32, "some trees end with lists, and others do not");
    assert!(seen.states > 1_000 && seen.refused > 1_000);
}

/// Programs of the kernel have no tables of ours, and carry such a tree out.
#[test]
fn a_small_table_is_spelt_out_in_a_tree_unless_that_is_too_much_for_it() {
    for (keys, nodes, is_spelt_out) in [(64, 1 << 16, true), (65, 1 << 16, false), (64, 40, false)] {
        let mut limits = Limits::default();
        limits.nodes = nodes;
        let mut rules = Rules::new(true, limits);
        for key in 0..keys {
            rules.apply(command(&format!("table t add 10.{key}.0.0/16 {}", key % 2), 1).unwrap()).unwrap();
        }
        rules.apply(command("add deny ip from table(t,1) to any", 1).unwrap()).unwrap();
        let set = rules.compile(Execution::Tree);
        let tree = set.tree().unwrap();
        let asks_table = tree.nodes.iter().any(|node| matches!(node, Node::Split { field: Field::Table(..), .. }));
        assert_eq!((asks_table, tree.reason), (!is_spelt_out, None), "{keys} keys, {nodes} nodes");
    }
}

#[test]
fn counters_stay_with_their_rules_through_a_change() {
    let mut rules = Rules::new(true, Limits::default());
    let mut apply = |text: &str| rules.apply(command(text, 1).unwrap()).unwrap();
    apply("add 100 count ip from any to any");
    apply("add 200 set 1 count ip from any to any");
    apply("add 300 set 2 count ip from any to any");
    let mut records = Records::default();
    let facts = Facts { length: 100, ..Facts::between([10, 0, 0, 1].into(), [10, 0, 0, 2].into()) };
    let mut judge = |rules: &mut Rules, now: u64| {
        let set = rules.compile(Execution::Tree);
        set.judge(&facts, now, &mut records);
        set.show(|id| records.count(id))
    };
    assert_eq!(judge(&mut rules, 5)[1], "00200 1 100 set 1 count ip from any to any");
    rules
        .apply_all(
            ["set disable 1", "set swap 0 2", "delete 300", "add 300 count icmp from any to any"]
                .map(|text| command(text, 1).unwrap()),
        )
        .unwrap();
    let expected = [
        "00100 2 200 set 2 count ip from any to any",
        "00300 0   0 count icmp from any to any",
        "65535 2 200 allow ip from any to any",
    ];
    assert_eq!(judge(&mut rules, 6), expected);
    rules.apply(command("set enable 1", 1).unwrap()).unwrap();
    assert_eq!(
        judge(&mut rules, 7)[1],
        "00200 2 200 set 1 count ip from any to any",
        "it was switched off, and its counts were kept"
    );
    let failed = rules.apply_all(["delete 100", "delete 100"].map(|text| command(text, 1).unwrap()));
    assert_eq!(failed.unwrap_err().0, 1);
    assert_eq!(rules.all().count(), 4, "all of it or nothing");
}

#[test]
fn zero_and_resetlog_name_the_rules() {
    let mut rules = Rules::new(false, Limits::default());
    rules.apply(command("add 100 count log logamount 1 ip from any to any", 1).unwrap()).unwrap();
    let (mut records, facts) = (Records::default(), Facts::default());
    let set = rules.compile(Execution::Tree);
    let logged: Vec<bool> = (0..3).map(|now| set.judge(&facts, now, &mut records).log).collect();
    assert_eq!(logged, [true, false, false]);
    let named = |rules: &mut Rules, text: &str| match rules.apply(command(text, 1).unwrap()).unwrap() {
        corelane_rules::Outcome::Zero(ids) | corelane_rules::Outcome::ResetLog(ids) => ids,
        other => panic!("{other:?}"),
    };
    let (id, ..) = set.rules().next().unwrap();
    records.reset_log(&named(&mut rules, "resetlog 100"));
    assert!(set.judge(&facts, 3, &mut records).log);
    assert_eq!((records.count(id).packets, records.count(id).last), (4, 3));
    records.zero(&named(&mut rules, "zero"));
    assert_eq!(records.count(id), Count::default());
    let line = records.take_line().unwrap();
    assert_eq!((line.number, line.rule, line.at), (100, id, 0));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut rules = Rules::new(true, Limits::default());
    let mut apply = |text: &str| rules.apply(command(text, 1).unwrap()).map_err(|error| error.to_string());
    apply("add 500 count ip from table(a) to any").unwrap();
    for (text, words) in [
        ("add skipto 600 ip from any to any", "is not behind it"),
        ("delete 700", "no rule has the number 700"),
        ("delete 65535", "rule 65535"),
        ("set disable 31", "set 31"),
        ("set move rule 7 to 2", "no rule has the number 7"),
        ("table b flush", "no table has the name b"),
        ("table a create", "table a exists"),
        ("table a destroy", "rule 500 names table a"),
        ("table a add em0", "table a holds prefixes"),
        ("table a delete 10.0.0.0/8", "does not have 10.0.0.0/8"),
        ("add count ip from any to any via table(a)", "table a holds prefixes"),
        ("zero 7", "no rule has the number 7"),
    ] {
        let error = apply(text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
    assert_eq!(rules.all().count(), 2);
}

#[test]
fn numbers_follow_the_last_by_a_hundred_and_repeat_in_order() {
    let mut rules = Rules::new(false, Limits::default());
    for text in [
        "add count ip from any to any",
        "add 150 count tcp from any to any",
        "add 150 count udp from any to any",
        "add count icmp from any to any",
        "add 65500 count ip from any to any",
        "add deny ip from any to any",
    ] {
        rules.apply(command(text, 1).unwrap()).unwrap();
    }
    let numbers: Vec<u16> = rules.all().map(|(_, number, _)| number).collect();
    assert_eq!(numbers, [100, 150, 150, 250, 65_500, 65_500, 65_535]);
    let listed = rules.compile(Execution::Flat).list();
    assert_eq!(listed[1..3], ["00150 count tcp from any to any", "00150 count udp from any to any"]);
    assert_eq!(listed[6], "65535 deny ip from any to any");
    rules.apply(Command::Flush).unwrap();
    assert_eq!(rules.all().count(), 1);
}

#[test]
fn bounds_are_met_with_words() {
    let mut limits = Limits::default();
    (limits.rules, limits.tables, limits.keys, limits.interfaces) = (2, 1, 2, 3);
    let mut rules = Rules::new(false, limits);
    let mut apply = |text: &str| rules.apply(command(text, 1).unwrap()).map_err(|error| error.to_string());
    apply("table a add 10.0.0.0/8 10.1.0.0/16").unwrap();
    assert!(apply("table a add 10.2.0.0/16").unwrap_err().contains("room for 2 keys"));
    assert!(apply("table b create").unwrap_err().contains("room for 1 tables"));
    apply("add count ip from any to any").unwrap();
    apply("add count ip from any to any").unwrap();
    assert!(apply("add count ip from any to any").unwrap_err().contains("room for 2 rules"));
    assert!(rules.name_interfaces(vec![String::new(); 4]).is_err());
}

#[test]
fn a_trace_says_why() {
    let mut rules = Rules::new(false, Limits::default());
    rules.name_interfaces(vec!["vlan1".to_owned(), "vlan2".to_owned()]).unwrap();
    for text in [
        "add skipto 300 ip from any to any via vlan1",
        "add 200 deny ip from any to any",
        "add 300 count ip from 10.0.0.0/8 to any",
        "add allow ip from any to any not via vlan1",
        "add check-state",
        "add allow icmp from any to any keep-state",
    ] {
        rules.apply(command(text, 1).unwrap()).unwrap();
    }
    let set = rules.compile(Execution::Tree);
    let mut facts = Facts {
        receive: corelane_rules::Interface(1),
        protocol: 1,
        ..Facts::between([192, 0, 2, 1].into(), [10, 0, 0, 1].into())
    };
    facts.transport = corelane_rules::Transport::Icmp(8);
    let mut records = Records::default();
    let expected = [
        "00100 skipto 300 ip from any to any via vlan1: matches",
        "00300 count ip from 10.0.0.0/8 to any: no, it is not src-ip 10.0.0.0/8: it comes from 192.0.2.1",
        "00400 allow ip from any to any not via vlan1: no, it is not not via vlan1: it goes via vlan1",
        "00500 check-state :default: the flow has no state; goes on",
        "00600 allow icmp from any to any keep-state :default: matches",
        "verdict: allow by rule 600",
    ];
    assert_eq!(set.trace(&facts, 1, &records), expected);
    assert_eq!((records.states(), records.count(set.rules().next().unwrap().0).packets), (0, 0), "nothing is kept");
    set.judge(&facts, 1, &mut records);
    let trace = set.trace(&facts, 2, &records);
    assert_eq!(trace[3], "00500 check-state :default: the flow has a state, which rule 600 made");
}

#[test]
fn a_flow_goes_on_behind_the_rule_that_made_its_state_wherever_it_is_asked() {
    let texts = [
        "add 100 skipto 300 ip from any to any out",
        "add 200 count udp from any to any keep-state",
        "add 250 count ip from any to any",
        "add 300 check-state",
        "add 400 allow udp from any to any",
    ];
    for (execution, nodes) in [(Execution::Flat, 0), (Execution::Skipto, 0), (Execution::Tree, 1), (Execution::Tree, 1_000)] {
        let mut limits = Limits::default();
        limits.nodes = nodes;
        let mut rules = Rules::new(false, limits);
        texts.iter().for_each(|text| drop(rules.apply(command(text, 1).unwrap()).unwrap()));
        let mut records = Records::default();
        let there = Facts { protocol: 17, length: 1, ..Facts::between([10, 0, 0, 1].into(), [10, 0, 0, 2].into()) };
        let (source, destination) = (there.destination, there.source);
        let back = Facts { direction: corelane_rules::Direction::Out, source, destination, ..there };
        let set = rules.compile(execution);
        assert!(set.judge(&there, 1, &mut records).is_allowed() && set.judge(&back, 2, &mut records).is_allowed());
        let shown = set.show(|id| records.count(id));
        let counts: Vec<&str> = shown.iter().map(|line| &line[6..7]).collect();
        assert_eq!(counts, ["1", "2", "2", "0", "2", "0"], "{execution:?} {nodes}: {shown:?}");
        assert_eq!(records.states(), 1);
        rules.apply(command("delete 200", 1).unwrap()).unwrap();
        rules.compile(execution).judge(&back, 3, &mut records);
        assert_eq!(records.states(), 0, "a state goes with its rule");
    }
}

/// How often each rule has counted a packet from there, in the rules' order.
fn counted(rules: &mut Rules, execution: Execution, source: [u8; 4]) -> String {
    let (set, mut records) = (rules.compile(execution), Records::default());
    set.judge(&Facts::between(source.into(), [192, 0, 2, 1].into()), 1, &mut records);
    set.show(|id| records.count(id)).iter().map(|line| &line[6..7]).collect()
}

fn applied(rules: &mut Rules, texts: &[&str]) {
    texts.iter().for_each(|text| drop(rules.apply(command(text, 1).unwrap()).unwrap()));
}

/// A jump to a number that no rule has goes on at the next rule behind it, be that the last; it leads elsewhere when rules come and go.
#[test]
fn a_jump_to_where_no_rule_is_goes_on_behind_it() {
    for execution in EXECUTIONS {
        let mut rules = Rules::new(true, Limits::default());
        applied(
            &mut rules,
            &[
                "add 100 skipto 350 ip from 10.0.0.0/8 to any",
                "add 200 deny ip from any to any",
                "add 300 deny ip from any to any",
                "add 400 count ip from any to any",
                "add 500 skipto 65000 ip from any to any",
                "add 600 deny ip from any to any",
            ],
        );
        for (change, counts) in [
            ("set enable 1", "1001101"),
            ("delete 400", "100101"),
            ("delete 500", "10010"),
            ("add 350 skipto 65535 ip from any to any", "100101"),
            ("delete 600", "10011"),
        ] {
            applied(&mut rules, &[change]);
            assert_eq!(counted(&mut rules, execution, [10, 0, 0, 1]), counts, "{execution:?}: {change}");
        }
    }
}

/// Each table is asked by itself, and answers by its longest prefix alone: no value of a shorter one counts beside it.
#[test]
fn tables_that_overlap_answer_each_by_its_longest_prefix() {
    for execution in EXECUTIONS {
        let mut rules = Rules::new(true, Limits::default());
        applied(
            &mut rules,
            &[
                "table a add 10.0.0.0/8 1 10.1.0.0/16 2",
                "table b add 10.0.0.0/8 9 10.1.2.0/24 1 10.1.2.0/24 1",
                "add 100 count ip from table(a,1) to any",
                "add 200 count ip from table(a,2) to any",
                "add 300 count ip from table(b,1) to any",
                "add 400 count ip from not table(b,9) to any",
            ],
        );
        for (source, counts) in
            [([10, 9, 9, 9], "10001"), ([10, 1, 9, 9], "01001"), ([10, 1, 2, 3], "01111"), ([11, 0, 0, 1], "00011")]
        {
            assert_eq!(counted(&mut rules, execution, source), counts, "{execution:?}: {source:?}");
        }
        applied(&mut rules, &["table a delete 10.1.0.0/16", "table b delete 10.1.2.0/24"]);
        assert_eq!(counted(&mut rules, execution, [10, 1, 2, 3]), "10001", "{execution:?}: what was behind it");
    }
}
