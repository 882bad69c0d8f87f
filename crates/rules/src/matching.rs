//! Whether a packet is what a rule's words say: each question as it is written.

use crate::facts::{Address, Direction, Facts, Interface, Part, Transport};
use crate::language::{Body, Hosts, InTable, Link, Literal, Test};
use crate::order::Names;

/// TCP's control bits.
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Whether the packet meets all clauses.
pub fn matches(body: &Body, facts: &Facts, names: &Names) -> bool {
    body.clauses().all(|clause| clause.iter().any(|literal| holds(literal, facts, names)))
}

/// Whether one question is answered as the rule wants.
pub fn holds(literal: &Literal, facts: &Facts, names: &Names) -> bool {
    is(&literal.test, facts, names) != literal.not
}

fn is(test: &Test, facts: &Facts, names: &Names) -> bool {
    let tcp = match facts.transport {
        Transport::Tcp(_, _, flags) => Some(flags),
        _ => None,
    };
    match test {
        Test::Family(family) => facts.family == *family,
        Test::Protocol(protocol) => facts.protocol == *protocol,
        Test::Source(hosts) => is_host(hosts, facts.source, facts.source_is_ours, names),
        Test::Destination(hosts) => is_host(hosts, facts.destination, facts.destination_is_ours, names),
        Test::SourcePorts(list) => ports(facts).is_some_and(|(port, _)| is_in(list, port)),
        Test::DestinationPorts(list) => ports(facts).is_some_and(|(_, port)| is_in(list, port)),
        Test::Direction(direction) => facts.direction == *direction,
        Test::Via(link) => is_link(link, facts.via(), names),
        Test::Receive(link) => is_link(link, facts.receive, names),
        Test::Transmit(link) => facts.direction == Direction::Out && is_link(link, facts.transmit, names),
        Test::TcpFlags { set, clear } => tcp.is_some_and(|flags| flags & set == *set && flags & clear == 0),
        Test::Established => tcp.is_some_and(|flags| flags & (RST | ACK) != 0),
        Test::Setup => tcp.is_some_and(|flags| flags & (SYN | ACK) == SYN),
        Test::Fragment => facts.part == Part::Later,
        Test::IcmpTypes(list) => icmp(facts, ICMP).is_some_and(|kind| is_in(list, kind)),
        Test::Icmp6Types(list) => icmp(facts, ICMPV6).is_some_and(|kind| is_in(list, kind)),
        Test::Lengths(list) => is_in(list, facts.length),
    }
}

fn is_in(list: &[(u16, u16)], number: u16) -> bool {
    list.iter().any(|(first, last)| (*first..=*last).contains(&number))
}

fn ports(facts: &Facts) -> Option<(u16, u16)> {
    match facts.transport {
        Transport::Ports(source, destination) | Transport::Tcp(source, destination, _) => Some((source, destination)),
        Transport::None | Transport::Icmp(_) => None,
    }
}

fn icmp(facts: &Facts, protocol: u8) -> Option<u16> {
    match facts.transport {
        Transport::Icmp(kind) if facts.protocol == protocol => Some(kind.into()),
        _ => None,
    }
}

fn is_host(hosts: &Hosts, address: Address, is_ours: bool, names: &Names) -> bool {
    match hosts {
        Hosts::Prefixes(prefixes) => prefixes.iter().any(|prefix| prefix.contains(address)),
        Hosts::Me => is_ours,
        Hosts::Me6 => is_ours && !address.is_v4(),
        Hosts::Table(table) => has(table, names.tables.get(&table.name).and_then(|table| table.of_address(address))),
    }
}

fn has(table: &InTable, found: Option<u32>) -> bool {
    found.is_some_and(|found| table.value.is_none_or(|value| value == found))
}

fn is_link(link: &Link, interface: Interface, names: &Names) -> bool {
    let name = names.link(interface);
    match link {
        Link::Any => interface != Interface::NONE,
        Link::Name(pattern) => name.is_some_and(|name| fits(pattern.as_bytes(), name.as_bytes())),
        Link::Table(table) => {
            has(table, name.and_then(|name| names.tables.get(&table.name).and_then(|table| table.of_link(name))))
        }
    }
}

/// Whether a name is one that the pattern stands for. Both have 15 characters at the most.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| fits(rest, &name[skipped..])),
        ([b'?', pattern @ ..], [_, name @ ..]) => fits(pattern, name),
        ([one, pattern @ ..], [other, name @ ..]) => one == other && fits(pattern, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_names() {
        for (pattern, name, expected) in [
            ("vlan*", "vlan12", true),
            ("vlan*", "vlan", true),
            ("vlan?", "vlan12", false),
            ("*1?", "vlan12", true),
            ("em0", "em01", false),
            ("*", "", true),
            ("e*0", "em0", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
