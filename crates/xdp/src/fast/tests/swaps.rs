//! Sets of rules that follow each other, and those that stay with lanes.

use super::drawn::{apply, head, large_table, seal};
use super::{LANE, SENT, counted, fast, learn, may, program, way};
use crate::errors::Error;
use crate::fast::counters::{Counters, PLACES_MAX};
use crate::fast::{Carrier, FAST_PORTS_MAX, FastPart, FastPath, FastTraffic, Unfit};
use crate::link::Interface;
use corelane_os::errno::fault;
use corelane_rules::language::command;
use corelane_rules::{Execution, Limits, RuleId, Rules};
use corelane_seam::Fault;
use corelane_select::bpf::assembly::{Alu, Assembler, Register};
use corelane_select::bpf::{Program, ProgramKind, probe};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The post's rules: of each of 40 VLANs what comes and goes, of the campus and of others.
fn posts() -> Rules {
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces((1..=40).map(|vlan| format!("vlan{vlan}")).collect()).unwrap();
    for vlan in 1..=40 {
        for rest in ["any to 10.0.0.0/8 in", "any to not 10.0.0.0/8 in", "10.0.0.0/8 to any out", "not 10.0.0.0/8 to any out"] {
            rules.apply(command(&format!("add count ip from {rest} via vlan{vlan}"), 1).unwrap()).unwrap();
        }
    }
    rules
}

#[test]
fn the_posts_rules_are_one_program_and_a_swap_loses_no_count() {
    if !may("the_posts_rules_are_one_program_and_a_swap_loses_no_count") {
        return;
    }
    let (mut rules, fast) = (posts(), fast());
    let pair: (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [192, 0, 2, 2].into());
    learn(&fast, &way(pair, 2, 3));
    let mut frame = head(2, true);
    frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 47, 0, 0, 10, 0, 0, 1, 192, 0, 2, 2]);
    seal(&mut frame[18..]);
    let total = |rules: &mut Rules| {
        let set = rules.compile(Execution::Flat);
        set.rules().map(|(id, ..)| counted(&fast, id).packets).sum::<u64>()
    };
    let run = |rules: &mut Rules| {
        let program = program(&fast, &rules.compile(Execution::Tree), &[], false).unwrap();
        (1..=10).for_each(|_| assert_eq!(program.answer(&frame), Ok(SENT)));
    };
    run(&mut rules);
    assert_eq!(total(&mut rules), 40, "in by its VLAN, out by its VLAN, and by the last rule both times");
    rules.apply(command("add 50 count ip from any to any", 1).unwrap()).unwrap();
    run(&mut rules);
    assert_eq!(total(&mut rules), 40 + 60);
    // Another rule gets the place of one that is gone, and begins with 0.
    rules.apply(command("delete 50", 1).unwrap()).unwrap();
    rules.apply(command("add 60 count ip from any to any", 1).unwrap()).unwrap();
    run(&mut rules);
    assert_eq!(total(&mut rules), 40 + 60 - 20 + 40 + 20 - 20 + 20);
    for (round, number) in (4..9).zip(70..) {
        rules.apply(command(&format!("delete {}", if number == 70 { 60 } else { number - 1 }), 1).unwrap()).unwrap();
        rules.apply(command(&format!("add {number} count ip from any to any"), 1).unwrap()).unwrap();
        run(&mut rules);
        assert_eq!(total(&mut rules), 40 * round + 20, "round {round}");
    }
}

fn ids(rules: &mut Rules) -> Vec<RuleId> {
    rules.compile(Execution::Flat).rules().map(|(id, ..)| id).collect()
}

#[test]
fn a_place_is_given_away_only_after_it_was_left() {
    if !may("a_place_is_given_away_only_after_it_was_left") {
        return;
    }
    let mut counters = Counters::new().unwrap();
    let mut rules = Rules::new(true, Limits::default());
    let add = |rules: &mut Rules, count: usize| {
        (0..count).for_each(|_| drop(rules.apply(command("add 7 count ip from any to any", 1).unwrap()).unwrap()));
    };
    add(&mut rules, PLACES_MAX - 1);
    let first = ids(&mut rules);
    let places = counters.places_for(&first).unwrap();
    assert_eq!(counters.places_for(&first), Some(places.clone()), "a rule keeps its place");
    rules.apply(command("delete 7", 1).unwrap()).unwrap();
    add(&mut rules, 1);
    let second = ids(&mut rules);
    assert_eq!(counters.places_for(&second), None, "all are held");
    counters.leave_all_but(&second);
    assert_eq!(counters.places_for(&second), None, "a program may still count for those that are gone");
    counters.free_former().unwrap();
    assert!(counters.places_for(&second).unwrap().iter().all(|place| places.contains(place)));
    // Who cannot all have one leave what there is to others.
    add(&mut rules, PLACES_MAX - 1);
    assert_eq!(counters.places_for(&ids(&mut rules)), None, "one more than there are");
    rules.apply(command("delete 7", 1).unwrap()).unwrap();
    add(&mut rules, PLACES_MAX - 3);
    let mut others = ids(&mut rules);
    others.extend(second.iter().filter(|id| !others.contains(id)).copied().collect::<Vec<_>>());
    assert!(counters.places_for(&others).is_some());
    add(&mut rules, PLACES_MAX);
    assert_eq!(counters.places_for(&ids(&mut rules)), None, "more than there are");
}

/// A set that has as many new rules as there are places is put all the same.
#[test]
fn a_set_of_other_rules_takes_the_places_of_all() {
    if !may("a_set_of_other_rules_takes_the_places_of_all") {
        return;
    }
    let (fast, mut rules) = (fast(), Rules::new(true, Limits::default()));
    for _ in 0..3 {
        for _ in 0..1_000 {
            rules.apply(command("add 7 count udp from any to any dst-port 7", 1).unwrap()).unwrap();
        }
        fast.put(&rules.compile(Execution::Tree), &[]).unwrap();
        rules.apply(command("delete 7", 1).unwrap()).unwrap();
    }
}

/// As long as there is room for two sets, the places of those before are free again in time: no packet has to go to lanes for it.
#[test]
fn sets_that_follow_each_other_need_no_lane_between() {
    if !may("sets_that_follow_each_other_need_no_lane_between") {
        return;
    }
    let (fast, mut rules) = (fast(), Rules::new(true, Limits::default()));
    let before = fast.generation.get();
    for _ in 0..5 {
        (0..600).for_each(|_| apply(&mut rules, "add 7 count udp from any to any dst-port 7"));
        fast.put(&rules.compile(Execution::Tree), &[]).unwrap();
        apply(&mut rules, "delete 7");
    }
    assert_eq!(fast.generation.get(), before, "no way was ended");
}

/// A rule with more questions than a tree takes apart.
fn many_flags() -> String {
    let all = ["fin", "syn", "rst", "psh", "ack", "urg"];
    let pairs = all.iter().enumerate().flat_map(|(at, one)| all[at + 1..].iter().map(move |other| (one, other)));
    let each =
        pairs.flat_map(|(one, other)| ["", "!"].map(|not| [format!("{one},{not}{other}"), format!("!{one},{not}{other}")]));
    let singles = all.iter().map(ToString::to_string).chain(all.iter().map(|one| format!("!{one}")));
    let tests: Vec<String> = each.flatten().chain(singles).map(|flags| format!("tcpflags {flags}")).collect();
    format!("add 7 count tcp from any to any {{ {} }}", tests.join(" or "))
}

#[test]
fn what_needs_a_lane_stays_there_with_words() {
    if !may("what_needs_a_lane_stays_there_with_words") {
        return;
    }
    let fast = fast();
    let unfit = |texts: &[&str], own: usize| {
        let mut rules = Rules::new(true, Limits::default());
        texts.iter().for_each(|text| drop(rules.apply(command(text, 1).unwrap()).unwrap()));
        let own = vec![[10, 0, 0, 1].into(); own];
        fast.put(&rules.compile(Execution::Tree), &own).map_err(|unfit| unfit.to_string())
    };
    assert_eq!(unfit(&["add count ip from any to me"], 64), Ok(()));
    let (large, flags) = (large_table("t", 65), many_flags());
    for (texts, words) in [
        (&["add 7 count log ip from any to any"][..], "rule 7 has lines written"),
        (&["add 7 allow ip from any to any keep-state"], "rule 7 has to do with states"),
        (&["add 7 check-state"], "rule 7 has to do with states"),
        (&["add 7 count ip from table(t) to any", &large], "a rule asks a large table"),
        (&["add 7 reject ip from any to any"], "rule 7 tells senders"),
        (&["add 6 count ip from any to any", &flags], "a rule has more than 64 questions"),
    ] {
        assert!(unfit(texts, 0).unwrap_err().contains(words), "{texts:?}");
    }
    // One packet that no such rule decides is enough.
    for texts in [
        &["add 7 count log tcp from any to any"][..],
        &["add 5 allow udp from any to any", "add 7 allow ip from any to any keep-state"],
        &["add 7 check-state", "add 5 deny udp from any to any"],
        &["add 7 count ip from table(t) to any dst-port 7", &large],
        &["add 7 count ip from table(t) to any", &large_table("t", 64)],
        &["add 7 reject ip from any to any", "add 5 deny ip from any to any out", "add 6 skipto 8 ip from any to any iplen 20"],
    ] {
        assert_eq!(unfit(texts, 0), Ok(()), "{texts:?}");
    }
    assert!(unfit(&[], 65).unwrap_err().contains("65 addresses"));
    let many: Vec<String> = (0..1_400).map(|_| "add count ip from any to any".to_owned()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(unfit(&many, 0).unwrap_err().contains(&format!("1401 rules, and a program counts for {PLACES_MAX}")));
    let flat = Rules::new(true, Limits::default()).compile(Execution::Flat);
    assert!(fast.put(&flat, &[]).unwrap_err().to_string().contains("not compiled into a tree"));
    assert!(probe().is_ok());
}

/// Each rule is a question and a count, in both directions.
#[test]
fn a_program_has_so_many_instructions_that_its_jumps_reach() {
    if !may("a_program_has_so_many_instructions_that_its_jumps_reach") {
        return;
    }
    let of = |sources: u16| {
        let mut rules = Rules::new(true, Limits::default());
        (0..sources).for_each(|net| apply(&mut rules, &format!("add count ip from 10.{}.{}.0/24 to any", net / 256, net % 256)));
        program(&fast(), &rules.compile(Execution::Tree), &[], false).map(drop)
    };
    assert_eq!(of(700), Ok(()));
    let many = of(1_300).unwrap_err();
    assert!(matches!(many, Unfit::Instructions(count) if count > 32_000), "{many}");
    assert!(many.to_string().contains("instructions, and jumps reach over 32000"), "{many}");
}

/// A port at the loopback interface, of whose programs the system says this.
#[derive(Debug)]
struct Loopback {
    interface: Interface,
    is_there: bool,
    loads: bool,
    puts: Option<i32>,
    /// How often it was told to run the program that it began with.
    plains: AtomicUsize,
}

fn loopback(is_there: bool, loads: bool, puts: Option<i32>) -> Loopback {
    Loopback { interface: Interface::find("lo").unwrap(), is_there, loads, puts, plains: AtomicUsize::new(0) }
}

impl Carrier for Loopback {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn leaves_sums(&self) -> bool {
        false
    }

    fn is_there(&self) -> bool {
        self.is_there
    }

    fn load(&self, _fast: &FastPart<'_>) -> Result<Program, Unfit> {
        if !self.loads {
            return Err(Unfit::Refused(Error::of("BPF_PROG_LOAD", libc::EINVAL, "")));
        }
        let mut a = Assembler::new();
        a.alu(Alu::Move, Register::R0, LANE as i32);
        a.exit();
        Ok(Program::load(ProgramKind::Xdp, &a.finish(), "corelane_pass").unwrap())
    }

    fn put(&self, _program: &Program) -> Result<(), Fault> {
        self.puts.map_or(Ok(()), |number| Err(fault(number)))
    }

    fn put_plain(&self) -> Result<(), Fault> {
        self.plains.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A port that keeps the rules before has no ways of theirs; one that has no program any more keeps nobody from the others.
#[test]
fn a_program_that_is_not_put_in_leaves_all_to_lanes() {
    if !may("a_program_that_is_not_put_in_leaves_all_to_lanes") {
        return;
    }
    let set = Rules::new(true, Limits::default()).compile(Execution::Tree);
    let each = [
        (true, true, None, true),
        (false, true, Some(libc::ENOLINK), true),
        (false, false, None, true),
        (true, false, None, false),
        (true, true, Some(libc::ENOMEM), false),
    ];
    for (is_there, loads, puts, is_put) in each {
        let fast = FastPath::new().unwrap();
        let port = Arc::new(loopback(is_there, loads, puts));
        fast.join(&port).unwrap();
        let before = fast.generation.get();
        let put = fast.put(&set, &[]);
        assert_eq!(put.is_ok(), is_put, "{port:?}: {put:?}");
        let is_on = fast.is_on.load(Ordering::Acquire);
        assert_eq!((is_on, fast.generation.get() == before), (is_put, is_put), "{port:?}");
        assert_eq!(port.plains.load(Ordering::Relaxed), usize::from(!is_put), "{port:?}: no program stays that nobody needs");
    }
}

#[test]
fn the_last_interface_of_rules_has_traffic() {
    if !may("the_last_interface_of_rules_has_traffic") {
        return;
    }
    let fast = FastPath::new().unwrap();
    assert_eq!(fast.traffic(corelane_rules::Interface(4096)), Ok(FastTraffic::default()));
    assert!(fast.traffic(corelane_rules::Interface(4097)).is_err());
}

/// Places are numbers in maps of programs: one more port than there are places is refused, and those that there are stay.
#[test]
fn a_fast_path_has_so_many_ports() {
    if !may("a_fast_path_has_so_many_ports") {
        return;
    }
    let fast = FastPath::new().unwrap();
    let ports: Vec<_> = (0..=FAST_PORTS_MAX).map(|_| Arc::new(loopback(true, true, None))).collect();
    let (last, others) = ports.split_last().unwrap();
    for (place, port) in others.iter().enumerate() {
        assert_eq!(fast.join(port), Ok(place as u16));
    }
    let refused = fast.join(last);
    assert!(matches!(refused, Err(Error::Range { got, most: FAST_PORTS_MAX, .. }) if got == FAST_PORTS_MAX + 1), "{refused:?}");
    assert_eq!(fast.put(&Rules::new(true, Limits::default()).compile(Execution::Tree), &[]), Ok(()));
}
