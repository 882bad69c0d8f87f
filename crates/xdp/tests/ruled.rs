//! Rules as a program of the kernel give the verdicts and counters that they give on lanes.
#![allow(clippy::unwrap_used)] // all of this is tests

use corelane_rules::language::command;
use corelane_rules::{Count, Decision, Direction, Execution, Facts, Interface, Limits, Records, RuleSet, Rules, Transport};
use corelane_seam::Random;
use corelane_select::bpf::assembly::{Alu, Assembler, Register};
use corelane_select::bpf::{Program, ProgramKind, probe};
use corelane_xdp::ruled::{Exits, Look, RuleCounters, Tags, Unfit, write};
use std::net::IpAddr;

const ALLOW: u32 = 2;
const DENY: u32 = 1;
const LANE: u32 = 9;

/// A program that answers with what becomes of a packet.
fn program(set: &RuleSet, look: &Look, counters: &RuleCounters) -> Result<(Program, usize), Unfit> {
    let mut a = Assembler::new();
    let exits = Exits { allow: a.label(), deny: a.label(), lane: a.label() };
    write(&mut a, set, look, counters.map(), exits)?;
    for (label, answer) in [(exits.allow, ALLOW), (exits.deny, DENY), (exits.lane, LANE)] {
        a.place(label);
        a.alu(Alu::Move, Register::R0, answer as i32);
        a.exit();
    }
    let instructions = a.len();
    let loaded = Program::load(ProgramKind::Xdp, &a.finish(), "corelane_rules");
    Ok((loaded.unwrap_or_else(|error| panic!("{}\n{error}", set.list().join("\n"))), instructions))
}

fn may(test: &str) -> bool {
    let able = probe();
    if let Err(error) = &able {
        corelane_os::testing::skip(test, &error.to_string());
    }
    able.is_ok()
}

const OWN: [&str; 2] = ["10.1.2.3", "2001:db8:1::1"];

fn look(direction: Direction) -> Look {
    let links = [(Tags::None, 1), (Tags::One(7), 2), (Tags::Two(7, 9), 3), (Tags::One(4_095), 4)];
    Look {
        direction,
        links: links.map(|(tags, number)| (tags, Interface(number))).to_vec(),
        own: OWN.map(|own| own.parse().unwrap()).to_vec(),
    }
}

/// A packet as the rules see it, and as a frame.
fn packet(random: &mut Random, direction: Direction) -> (Facts, Vec<u8>) {
    const V4: [[u8; 4]; 5] = [[10, 1, 2, 3], [10, 1, 2, 4], [10, 1, 9, 9], [10, 9, 9, 9], [192, 0, 2, 1]];
    const V6: [&str; 4] = ["2001:db8:1::1", "2001:db8:1::2", "2001:db9::", "::1"];
    let is_v4 = random.below(2) == 0;
    let address = |random: &mut Random| -> IpAddr {
        if is_v4 { V4[random.index(V4.len())].into() } else { V6[random.index(V6.len())].parse().unwrap() }
    };
    let (source, destination) = (address(random), address(random));
    let ports = (random.below(5) as u16, random.below(5) as u16);
    let (protocol, transport) = match random.below(8) {
        0..3 => (6, Transport::Tcp(ports.0, ports.1, random.bits() as u8)),
        3..5 => (17, Transport::Ports(ports.0, ports.1)),
        5 if is_v4 => (1, Transport::Icmp([0, 8, 11][random.index(3)])),
        5 => (58, Transport::Icmp([1, 128, 135][random.index(3)])),
        6 => (if is_v4 { 58 } else { 1 }, Transport::None),
        _ => (47, Transport::None),
    };
    let link = 1 + random.below(4) as u16;
    let is_ours = |address: &IpAddr| OWN.iter().any(|own| own.parse() == Ok(*address));
    let payload = carried(transport, random);
    let options = if is_v4 { 4 * random.index(3) } else { 0 };
    let mut facts = Facts {
        direction,
        protocol,
        transport,
        source_is_ours: is_ours(&source),
        destination_is_ours: is_ours(&destination),
        length: (if is_v4 { 20 } else { 40 } + options + payload.len()) as u16,
        ..Facts::between(source, destination)
    };
    match direction {
        Direction::In => facts.receive = Interface(link),
        Direction::Out => facts.transmit = Interface(link),
    }
    let mut frame = head(link, is_v4);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend([0x45 + options as u8 / 4, 0]);
            frame.extend(facts.length.to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend(source.octets().into_iter().chain(destination.octets()));
            frame.extend(vec![1; options]);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x60, 0, 0, 0]);
            frame.extend((payload.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(source.octets().into_iter().chain(destination.octets()));
        }
        _ => unreachable!("both are of one family"),
    }
    frame.extend(payload);
    (facts, frame)
}

fn head(link: u16, is_v4: bool) -> Vec<u8> {
    let tags: &[u8] = match link {
        1 => &[],
        2 => &[0x81, 0, 0, 7],
        3 => &[0x88, 0xa8, 0xe0, 7, 0x81, 0, 0, 9],
        _ => &[0x81, 0, 0x0f, 0xff],
    };
    let mut frame = vec![2; 12];
    frame.extend(tags);
    frame.extend(if is_v4 { [8, 0] } else { [0x86, 0xdd] });
    frame
}

fn carried(transport: Transport, random: &mut Random) -> Vec<u8> {
    let data = random.index(100);
    let mut bytes = match transport {
        Transport::Tcp(source, destination, flags) => {
            let mut bytes = [source.to_be_bytes(), destination.to_be_bytes()].concat();
            bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
            bytes
        }
        Transport::Ports(source, destination) => {
            let mut bytes = [source.to_be_bytes(), destination.to_be_bytes()].concat();
            bytes.extend([0; 4]);
            bytes
        }
        Transport::Icmp(kind) => vec![kind, 0, 0, 0, 0, 0, 0, 0],
        Transport::None => Vec::new(),
    };
    bytes.extend(vec![0; data]);
    bytes
}

fn rule(random: &mut Random) -> String {
    fn of<'a>(random: &mut Random, choices: &[&'a str]) -> &'a str {
        choices[random.index(choices.len())]
    }
    const HOSTS: [&str; 12] = [
        "any",
        "any",
        "any",
        "10.1.0.0/16",
        "10.1.2.3",
        "10.0.0.0/8",
        "2001:db8::/32",
        "not 10.1.2.0/24",
        "me",
        "me6",
        "::/0",
        "{ 10.9.0.0/16 or 2001:db8:1::2 }",
    ];
    const OPTIONS: [&str; 21] = [
        "",
        "",
        "",
        "",
        "in",
        "out",
        "via e1",
        "recv e2",
        "xmit e3",
        "via e*",
        "established",
        "setup",
        "tcpflags fin,!psh",
        "tcpflags !fin,!syn",
        "frag",
        "icmptypes 8",
        "icmp6types 128-135",
        "iplen 0-99",
        "src-port 1-3",
        "dst-port 2",
        "not proto udp",
    ];
    let number = 10 * (1 + random.below(60));
    let jump = format!("skipto {}", number + 10 * (1 + random.below(20)));
    let action = ["count", "count", "count", "allow", "deny", &jump][random.index(6)];
    let protocol = of(random, &["ip", "ip", "tcp", "udp", "icmp", "ip6", "ip4", "icmp6", "not tcp"]);
    let (from, to) = (of(random, &HOSTS), of(random, &HOSTS));
    format!("add {number} {action} {protocol} from {from} to {to} {} {}", of(random, &OPTIONS), of(random, &OPTIONS))
}

fn rules(random: &mut Random) -> Rules {
    let mut rules = Rules::new(random.below(2) == 0, Limits::default());
    rules.name_interfaces(["e1", "e2", "e3", "f4"].map(str::to_owned).to_vec()).unwrap();
    for _ in 0..random.one_to(12) {
        rules.apply(command(&rule(random), 1).unwrap()).unwrap();
    }
    rules
}

#[test]
fn a_program_judges_and_counts_as_lanes_do() {
    if !may("a_program_judges_and_counts_as_lanes_do") {
        return;
    }
    const ROUNDS: u64 = 400;
    const PACKETS: u64 = 25;
    let (mut allowed, mut unfit, mut longest) = (0, 0, 0);
    for seed in 0..ROUNDS {
        let mut random = Random::new(seed);
        let direction = if random.below(2) == 0 { Direction::In } else { Direction::Out };
        let mut rules = rules(&mut random);
        let (flat, tree) = (rules.compile(Execution::Flat), rules.compile(Execution::Tree));
        let counters = RuleCounters::new().unwrap();
        let Ok((program, instructions)) = program(&tree, &look(direction), &counters) else {
            unfit += 1;
            continue;
        };
        longest = longest.max(instructions);
        let mut records = Records::default();
        for _ in 0..PACKETS {
            let (facts, frame) = packet(&mut random, direction);
            let verdict = flat.judge(&facts, 1, &mut records);
            let expected = if verdict.decision == Decision::Allow { ALLOW } else { DENY };
            let answer = program.answer(&frame).unwrap();
            assert_eq!(answer, expected, "{facts:?}\n{frame:02x?}\n{}", flat.trace(&facts, 1, &records).join("\n"));
            allowed += u64::from(verdict.is_allowed());
        }
        let counted = counters.read().unwrap();
        for (id, number, rule) in flat.rules() {
            let (Count { packets, bytes, .. }, [counted_packets, counted_bytes, last]) = (records.count(id), counted[id.place()]);
            assert_eq!((packets, bytes, packets > 0), (counted_packets, counted_bytes, last > 0), "{number} {rule}");
        }
    }
    println!("{ROUNDS} sets of {PACKETS} packets: {allowed} allowed, {unfit} sets unfit, {longest} instructions at the most");
    assert!(unfit < ROUNDS / 20 && allowed > ROUNDS * PACKETS / 5 && allowed < ROUNDS * PACKETS * 4 / 5);
}

#[test]
fn what_a_program_does_not_understand_is_the_lanes_and_not_counted() {
    if !may("what_a_program_does_not_understand_is_the_lanes_and_not_counted") {
        return;
    }
    let set = Rules::new(true, Limits::default()).compile(Execution::Tree);
    let counters = RuleCounters::new().unwrap();
    let (program, _) = program(&set, &look(Direction::In), &counters).unwrap();
    let mut random = Random::new(1);
    for _ in 0..300 {
        let (facts, frame) = packet(&mut random, Direction::In);
        assert_eq!(program.answer(&frame).unwrap(), ALLOW);
        // Cut short anywhere within what its headers say.
        let cut = 14 + random.index(frame.len() - 14);
        assert_eq!(program.answer(&frame[..cut]).unwrap(), LANE, "{facts:?} {cut}");
    }
    let counted = counters.read().unwrap()[0][0];
    let v4 = |at: usize, byte: u8| {
        let mut frame = head(1, true);
        frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 8, 0, 0]);
        frame[at] = byte;
        frame
    };
    let v6 = |at: usize, byte: u8| {
        let mut frame = head(1, false);
        frame.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
        frame.extend([1; 40]);
        frame[at] = byte;
        frame
    };
    assert_eq!((program.answer(&v4(0, 2)), program.answer(&v6(0, 2))), (Ok(ALLOW), Ok(ALLOW)));
    let tagged = |tags: &[u8]| [&[2; 12][..], tags, &v4(0, 2)[12..]].concat();
    let others = [
        ("version", v4(14, 0x55)),
        ("header too short", v4(14, 0x44)),
        ("header longer than the packet", v4(14, 0x4f)),
        ("header longer than the packet, in a frame that is padded", [v4(14, 0x4f), vec![0; 72]].concat()),
        ("more fragments", v4(20, 0x20)),
        ("later fragment", v4(21, 1)),
        ("longer than the frame", v4(17, 29)),
        ("no room for UDP", v4(17, 27)),
        ("ARP", v4(13, 6)),
        ("version of IPv6", v6(14, 0x40)),
        ("fragment of IPv6", v6(20, 44)),
        ("options of IPv6", v6(20, 0)),
        ("unknown VLAN", tagged(&[0x81, 0, 0, 8])),
        ("priority alone", tagged(&[0x81, 0, 0, 0])),
        ("three tags", tagged(&[0x81, 0, 0, 7, 0x81, 0, 0, 9, 0x81, 0, 0, 9])),
    ];
    for (what, frame) in others {
        assert_eq!(program.answer(&frame).unwrap(), LANE, "{what}");
    }
    assert_eq!(counters.read().unwrap()[0][0], counted + 2);
}

#[test]
fn the_posts_rules_are_one_program_and_a_swap_loses_no_count() {
    const NAME: &str = "the_posts_rules_are_one_program_and_a_swap_loses_no_count";
    if !may(NAME) {
        return;
    }
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces((1..=40).map(|vlan| format!("vlan{vlan}")).collect()).unwrap();
    for vlan in 1..=40 {
        for rest in ["any to 10.0.0.0/8 in", "any to not 10.0.0.0/8 in", "10.0.0.0/8 to any out", "not 10.0.0.0/8 to any out"] {
            rules.apply(command(&format!("add count ip from {rest} via vlan{vlan}"), 1).unwrap()).unwrap();
        }
    }
    let links = (1..=40).map(|vlan| (Tags::One(vlan), Interface(vlan))).collect();
    let look = Look { direction: Direction::In, links, own: Vec::new() };
    let counters = RuleCounters::new().unwrap();
    let frame = |vlan: u8| {
        let mut frame = [&[2; 12][..], &[0x81, 0, 0, vlan, 8, 0]].concat();
        frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 47, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame
    };
    let counted = |rules: &mut Rules| {
        let set = rules.compile(Execution::Tree);
        let (program, instructions) = program(&set, &look, &counters).unwrap();
        println!("{}: {instructions} instructions", set.report().unwrap());
        (1..=40).for_each(|vlan| assert_eq!(program.answer(&frame(vlan)).unwrap(), ALLOW));
        let counts = counters.read().unwrap();
        set.rules().map(|(id, ..)| counts[id.place()][0]).sum::<u64>()
    };
    assert_eq!(counted(&mut rules), 80, "each is counted for its VLAN, and by the last rule");
    rules.apply(command("add 50 count ip from any to any", 1).unwrap()).unwrap();
    assert_eq!(counted(&mut rules), 80 + 120);
}

#[test]
fn what_needs_a_lane_stays_there_with_words() {
    let unfit = |texts: &[&str], own: usize| {
        let mut rules = Rules::new(true, Limits::default());
        texts.iter().for_each(|text| drop(rules.apply(command(text, 1).unwrap()).unwrap()));
        let look = Look { own: vec![[10, 0, 0, 1].into(); own], ..look(Direction::In) };
        let mut a = Assembler::new();
        let exits = Exits { allow: a.label(), deny: a.label(), lane: a.label() };
        let file = std::fs::File::open("/dev/null").unwrap();
        let descriptor = std::os::fd::AsFd::as_fd(&file);
        write(&mut a, &rules.compile(Execution::Tree), &look, descriptor, exits).map_err(|unfit| unfit.to_string())
    };
    assert_eq!(unfit(&["add count ip from any to me"], 3), Ok(()));
    for (text, words) in [
        ("add 7 count log ip from any to any", "rule 7 has lines written"),
        ("add 7 allow ip from any to any keep-state", "rule 7 has to do with states"),
        ("add 7 check-state", "rule 7 has to do with states"),
        ("add 7 count ip from table(t) to any", "a rule asks a table"),
        ("add 7 reject ip from any to any", "rule 7 tells senders"),
    ] {
        assert!(unfit(&[text], 0).unwrap_err().contains(words), "{text}");
    }
    assert!(unfit(&[], 65).unwrap_err().contains("65 addresses"));
    let many: Vec<String> = (0..1_400).map(|_| "add count ip from any to any".to_owned()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(unfit(&many, 0).unwrap_err().contains("a program has 1363"));
}
