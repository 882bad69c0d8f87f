//! Rules and packets, drawn so that they often meet.

use corelane_rules::language::command;
use corelane_rules::{Direction, Facts, Interface, Limits, Part, Rules, Transport};
use corelane_seam::Random;
use std::net::IpAddr;

pub const PREFIXES: [&str; 12] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.0/24",
    "10.1.2.3",
    "10.1.2.4/31",
    "0.0.0.0/0",
    "192.0.2.0/24",
    "::/0",
    "2001:db8::/32",
    "2001:db8:1::/48",
    "2001:db8:1::1",
    "::/64",
];

const HOSTS: [&str; 12] = [
    "10.1.2.3",
    "10.1.2.4",
    "10.1.2.5",
    "10.1.9.9",
    "10.9.9.9",
    "192.0.2.1",
    "8.8.8.8",
    "2001:db8:1::1",
    "2001:db8:1::2",
    "2001:db8:2::1",
    "::1",
    "ffff::1",
];

fn of<'a>(random: &mut Random, choices: &[&'a str]) -> &'a str {
    choices[random.index(choices.len())]
}

fn chance(random: &mut Random, of_hundred: u64) -> bool {
    random.below(100) < of_hundred
}

fn maybe_not(random: &mut Random) -> &'static str {
    if chance(random, 15) { "not " } else { "" }
}

fn host(random: &mut Random) -> String {
    match random.below(10) {
        0 => "me".to_owned(),
        1 => "me6".to_owned(),
        2 => "table(t)".to_owned(),
        3 => format!("table(t,{})", random.below(3)),
        4 => format!("{},{}", of(random, &PREFIXES), of(random, &PREFIXES)),
        _ => of(random, &PREFIXES).to_owned(),
    }
}

fn hosts(random: &mut Random) -> String {
    match random.below(10) {
        0..6 => "any".to_owned(),
        6 => {
            let (not, one, other) = (maybe_not(random), host(random), host(random));
            format!("{{ {not}{one} or {other} }}")
        }
        _ => format!("{}{}", maybe_not(random), host(random)),
    }
}

fn ports(random: &mut Random) -> &'static str {
    if chance(random, 85) { "" } else { of(random, &["1-3", "2", "2,4-5", "0", "3-65535", "not 1-2", "{ 1 or not 1-4 }"]) }
}

fn option(random: &mut Random) -> String {
    let not = maybe_not(random);
    let what = of(
        random,
        &[
            "in",
            "out",
            "via e1",
            "via e2",
            "via e*",
            "via any",
            "recv e1",
            "recv e?",
            "xmit e2",
            "xmit any",
            "via table(l)",
            "recv table(l,1)",
            "tcpflags syn,!ack",
            "tcpflags !fin,!syn",
            "established",
            "setup",
            "frag",
            "icmptypes 0,8",
            "icmp6types 128-135",
            "iplen 0-99",
            "iplen 100,1500",
            "proto udp",
            "src-ip 10.0.0.0/8",
            "dst-ip me",
            "dst-port 2",
            "src-port 1-4",
            "proto ip6",
        ],
    );
    format!("{not}{what}")
}

fn options(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..[0, 0, 0, 0, 1, 1, 2, 3][random.index(8)] {
        let one = option(random);
        text += &if chance(random, 15) { format!(" {{ {one} or {} }}", option(random)) } else { format!(" {one}") };
    }
    match random.below(20) {
        0 => text + " keep-state",
        1 => text + " limit src-addr 2",
        2 => text + " limit dst-addr dst-port 1",
        _ => text,
    }
}

/// A rule as text, behind `add`.
pub fn rule(random: &mut Random) -> String {
    let number = 10 * (1 + random.below(100));
    let mut text = if chance(random, 60) { format!("{number} ") } else { String::new() };
    let has_number = !text.is_empty();
    if chance(random, 25) {
        text += &format!("set {} ", random.below(4));
    }
    let action = match random.below(20) {
        0..9 => "count".to_owned(),
        9..11 => "allow".to_owned(),
        11..13 => "deny".to_owned(),
        13 => of(random, &["reject", "unreach port", "unreach6 no-route", "reset"]).to_owned(),
        14..18 if has_number => format!("skipto {}", number + 10 * (1 + random.below(30))),
        18 => return text + "check-state",
        _ => "count".to_owned(),
    };
    text += &action;
    text += match random.below(10) {
        0 => " log",
        1 => " log logamount 2",
        _ => "",
    };
    let protocol =
        of(random, &["ip", "ip", "ip", "tcp", "tcp", "udp", "icmp", "icmp6", "ip4", "ip6", "not tcp", "{ tcp or udp }", "47"]);
    let (source, source_ports) = (hosts(random), ports(random));
    let (destination, destination_ports) = (hosts(random), ports(random));
    text + &format!(" {protocol} from {source} {source_ports} to {destination} {destination_ports}{}", options(random))
}

/// Rules with two tables and three interfaces.
pub fn rules(random: &mut Random, limits: Limits) -> Rules {
    let mut rules = Rules::new(chance(random, 50), limits);
    rules.name_interfaces(["e1", "e2", "f3"].map(str::to_owned).to_vec()).unwrap();
    let mut texts =
        vec!["table t add 10.1.0.0/16 1 10.1.2.0/24 2 2001:db8::/32 0".to_owned(), "table l add e1 1 f3 2".to_owned()];
    if chance(random, 10) {
        // More keys than are spelt out.
        let keys = (0..64).map(|net| format!(" 172.16.{net}.0/24 {}", net % 3));
        texts.push(keys.fold("table t add".to_owned(), |text, key| text + &key));
    }
    texts.extend((0..random.one_to(14)).map(|_| format!("add {}", rule(random))));
    for text in texts {
        let parsed = command(&text, 1).unwrap_or_else(|error| panic!("{text}: {error}"));
        rules.apply(parsed).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    rules
}

/// A packet.
pub fn facts(random: &mut Random) -> Facts {
    let source: IpAddr = of(random, &HOSTS).parse().unwrap();
    let same = |one: &IpAddr, other: &&str| other.parse::<IpAddr>().unwrap().is_ipv4() == one.is_ipv4();
    let fitting: Vec<&str> = HOSTS.iter().filter(|host| same(&source, host)).copied().collect();
    let destination: IpAddr = of(random, &fitting).parse().unwrap();
    let number = |random: &mut Random| random.below(5) as u16;
    let ports = (number(random), number(random));
    let (protocol, transport) = match random.below(10) {
        0..4 => (6, Transport::Tcp(ports.0, ports.1, random.bits() as u8 & 0x3f)),
        4..7 => (17, Transport::Ports(ports.0, ports.1)),
        7 if source.is_ipv4() => (1, Transport::Icmp([0, 8, 11][random.index(3)])),
        7 => (58, Transport::Icmp([1, 128, 135][random.index(3)])),
        8 => (6, Transport::None),
        _ => (47, Transport::None),
    };
    let is_out = chance(random, 50);
    Facts {
        direction: if is_out { Direction::Out } else { Direction::In },
        receive: Interface(number(random)),
        transmit: Interface(number(random)),
        source_is_ours: chance(random, 20),
        destination_is_ours: chance(random, 20),
        protocol,
        part: if transport == Transport::None && chance(random, 60) { Part::Later } else { Part::Whole },
        transport,
        length: [20, 99, 100, 101, 1500][random.index(5)],
        ..Facts::between(source, destination)
    }
}
