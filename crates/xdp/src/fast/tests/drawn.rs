//! Rules and packets that are drawn.

use super::{STATION, tags};
use corelane_rules::language::command;
use corelane_rules::{Facts, Interface, Limits, Rules, Transport};
use corelane_seam::Random;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Our own addresses.
pub const OWN: [&str; 2] = ["10.1.2.3", "2001:db8:1::1"];

/// An address: of few, or of as many as `many_rules` ask for.
fn address(random: &mut Random, is_v4: bool, is_wide: bool) -> IpAddr {
    const V4: [[u8; 4]; 5] = [[10, 1, 2, 3], [10, 1, 2, 4], [10, 1, 9, 9], [10, 9, 9, 9], [192, 0, 2, 1]];
    const V6: [&str; 4] = ["2001:db8:1::1", "2001:db8:1::2", "2001:db9::", "::1"];
    match (is_v4, is_wide) {
        (true, true) => [10, 20, random.below(256) as u8, 1].into(),
        (true, false) => V4[random.index(V4.len())].into(),
        (false, _) => V6[random.index(V6.len())].parse().unwrap(),
    }
}

/// A packet as the rules see it, and as a frame.
pub fn packet(random: &mut Random, is_wide: bool) -> (Facts, Vec<u8>) {
    let is_v4 = random.below(2) == 0;
    let (source, destination) = (address(random, is_v4, is_wide), address(random, is_v4, is_wide));
    let ports_of = if is_wide { 1_000 } else { 5 };
    let ports = (random.below(ports_of) as u16, random.below(ports_of) as u16);
    let (protocol, transport) = match random.below(8) {
        0..3 => (6, Transport::Tcp(ports.0, ports.1, random.bits() as u8)),
        3..5 => (17, Transport::Ports(ports.0, ports.1)),
        5 if is_v4 => (1, Transport::Icmp([0, 8, 11][random.index(3)])),
        5 => (58, Transport::Icmp([1, 128, 135][random.index(3)])),
        6 => (if is_v4 { 58 } else { 1 }, Transport::None),
        _ => (47, Transport::None),
    };
    let (receive, transmit) = (Interface(1 + random.below(4) as u16), Interface(1 + random.below(4) as u16));
    let is_ours = |address: &IpAddr| OWN.iter().any(|own| own.parse() == Ok(*address));
    let payload = carried(transport, random);
    let facts = Facts {
        receive,
        transmit,
        protocol,
        transport,
        source_is_ours: is_ours(&source),
        destination_is_ours: is_ours(&destination),
        length: (if is_v4 { 20 } else { 40 } + payload.len()) as u16,
        ..Facts::between(source, destination)
    };
    let hops = 2 + random.below(254) as u8;
    let mut frame = head(receive.0, is_v4);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = vec![0x45, 0];
            header.extend(facts.length.to_be_bytes());
            header.extend([random.bits() as u8, random.bits() as u8, 0x40, 0, hops, protocol, 0, 0]);
            header.extend(source.octets().into_iter().chain(destination.octets()));
            seal(&mut header);
            frame.extend(header);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x60, 0, 0, 0]);
            frame.extend((payload.len() as u16).to_be_bytes());
            frame.extend([protocol, hops]);
            frame.extend(source.octets().into_iter().chain(destination.octets()));
        }
        _ => unreachable!("both are of one family"),
    }
    frame.extend(payload);
    (facts, frame)
}

/// Writes the checksum of a header of IPv4.
pub fn seal(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum: u32 = header[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// The header of the link of a frame that comes by an interface.
pub fn head(interface: u16, is_v4: bool) -> Vec<u8> {
    let tags = tags(interface).into_iter().flatten().flat_map(|tag| [tag.protocol.to_be_bytes(), tag.control.to_be_bytes()]);
    let mut frame = [STATION, [4; 6]].concat();
    frame.extend(tags.flatten());
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

const HOSTS: [&str; 17] = [
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
    "table(small)",
    "table(small,2)",
    "not table(small,1)",
    "any",
    "table(large)",
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

fn rule(random: &mut Random) -> String {
    fn of<'a>(random: &mut Random, choices: &[&'a str]) -> &'a str {
        choices[random.index(choices.len())]
    }
    let number = 10 * (1 + random.below(60));
    let jump = format!("skipto {}", number + 10 * (1 + random.below(20)));
    let action = match random.below(60) {
        0 => return format!("add {number} check-state"),
        1 => "reject",
        2 => "unreach port",
        3 => "reset",
        _ => ["count", "count", "count", "allow", "deny", &jump][random.index(6)],
    };
    let log = if random.below(12) == 0 { "log" } else { "" };
    let keep = if random.below(40) == 0 { "keep-state" } else { "" };
    let protocol = of(random, &["ip", "ip", "tcp", "udp", "icmp", "ip6", "ip4", "icmp6", "not tcp"]);
    let (from, to) = (of(random, &HOSTS), of(random, &HOSTS));
    let options = [of(random, &OPTIONS), of(random, &OPTIONS), keep].join(" ");
    format!("add {number} {action} {log} {protocol} from {from} to {to} {options}")
}

pub fn rules(random: &mut Random) -> Rules {
    let mut rules = Rules::new(random.below(2) == 0, Limits::default());
    rules.name_interfaces(["e1", "e2", "e3", "f4"].map(str::to_owned).to_vec()).unwrap();
    apply(&mut rules, "table small add 10.1.0.0/16 1 10.1.2.0/24 2 2001:db8::/32 2");
    apply(&mut rules, &large_table("large", 65));
    for _ in 0..random.one_to(12) {
        apply(&mut rules, &rule(random));
    }
    rules
}

pub fn apply(rules: &mut Rules, text: &str) {
    let parsed = command(text, 1).unwrap_or_else(|error| panic!("{text}: {error}"));
    rules.apply(parsed).unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// A command for a table of so many keys.
pub fn large_table(name: &str, keys: u8) -> String {
    (0..keys).fold(format!("table {name} add"), |text, net| text + &format!(" 10.1.{net}.0/24 {}", net % 3))
}

/// From 330 to 930 rules of many kinds, of which each is another. One has lines.
pub fn many_rules(random: &mut Random) -> Rules {
    let mut rules = Rules::new(true, Limits::default());
    rules.name_interfaces(["e1", "e2", "e3", "f4"].map(str::to_owned).to_vec()).unwrap();
    apply(&mut rules, "add 1 count log ip from any to any in via f4");
    let (mut texts, count) = (BTreeSet::new(), 300 + random.index(601));
    while texts.len() < count {
        let (net, port) = (random.below(256), random.below(1_000));
        texts.insert(match random.below(8) {
            0 => format!("count ip from 10.20.{net}.0/24 to any in"),
            1 => format!("count ip from any to 10.20.{net}.0/24 out"),
            2..5 => format!("count ip from any to any dst-port {port}-{} in", port + random.below(3)),
            _ => format!("count ip from any to any src-port {port} out"),
        });
    }
    texts.iter().for_each(|text| apply(&mut rules, &format!("add {text}")));
    apply(&mut rules, "add deny ip from any to any iplen 40-60");
    rules
}
