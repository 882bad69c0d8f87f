//! Rules as questions about numbers: each is a field of the packet and the numbers that it may have there.
//!
//! A table of addresses is a field of its own, or the addresses that it has, where these are few.

use crate::facts::{Direction, Facts, Family, Interface, Part, Transport};
use crate::language::{Clause, Hosts, InTable, Link, Literal, Test};
use crate::matching::fits;
use crate::order::{Names, Order};
use crate::prefix::Ranges;
use crate::table::Table;
use std::collections::BTreeMap;
use std::sync::Arc;

const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const SYN: u8 = 0x02;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Keys of a table at the most whose addresses stand for it.
pub const SPELT_OUT_MAX: usize = 64;

/// What a table is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressOf {
    /// The source address.
    Source,
    /// The destination address.
    Destination,
}

/// A number that a packet has. A packet that has none has the one behind the last, or 0 for an interface. Yes is 1, no is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// 0 for in, 1 for out.
    Direction,
    /// 0 for IPv4, 1 for IPv6.
    Family,
    /// The interface that it leaves by, else the one that received it.
    Via,
    /// The interface that received it.
    Receive,
    /// The interface that it leaves by.
    Transmit,
    /// The protocol of the transport.
    Protocol,
    /// Whether the source is this machine's.
    SourceIsOurs,
    /// Whether the destination is this machine's.
    DestinationIsOurs,
    /// As [`Field::SourceIsOurs`], of IPv6 alone.
    SourceIsOurs6,
    /// As [`Field::DestinationIsOurs`], of IPv6 alone.
    DestinationIsOurs6,
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// The source port.
    SourcePort,
    /// The destination port.
    DestinationPort,
    /// Whether it is a fragment other than the first.
    Later,
    /// Whether TCP has the control bits of the first and none of the second.
    Flags(u8, u8),
    /// Whether TCP has RST or ACK.
    Established,
    /// ICMP's type.
    IcmpType,
    /// ICMPv6's type.
    Icmp6Type,
    /// Bytes from the IP header on.
    Length,
    /// The value that the table of this number has for an end, and 1; 0 if it has none.
    Table(u16, AddressOf),
}

const NO_PORT: u32 = 1 << 16;
const NO_TYPE: u32 = 1 << 8;

impl Field {
    /// The highest number that a packet may have there.
    pub const fn last(self) -> u128 {
        match self {
            Self::Direction
            | Self::Family
            | Self::SourceIsOurs
            | Self::DestinationIsOurs
            | Self::SourceIsOurs6
            | Self::DestinationIsOurs6
            | Self::Later
            | Self::Flags(..)
            | Self::Established => 1,
            Self::Via | Self::Receive | Self::Transmit | Self::Length => u16::MAX as u128,
            Self::Protocol => u8::MAX as u128,
            Self::Source | Self::Destination => u128::MAX,
            Self::SourcePort | Self::DestinationPort => NO_PORT as u128,
            Self::IcmpType | Self::Icmp6Type => NO_TYPE as u128,
            Self::Table(..) => 1 << 32,
        }
    }

    /// The packet's number.
    pub fn of(self, facts: &Facts, tables: &[Arc<Table>]) -> u128 {
        match self {
            Self::Direction => u128::from(facts.direction == Direction::Out),
            Self::Family => u128::from(facts.family == Family::V6),
            Self::Via => facts.via().0.into(),
            Self::Receive => facts.receive.0.into(),
            Self::Transmit if facts.direction == Direction::In => 0,
            Self::Transmit => facts.transmit.0.into(),
            Self::Protocol => facts.protocol.into(),
            Self::SourceIsOurs => facts.source_is_ours.into(),
            Self::DestinationIsOurs => facts.destination_is_ours.into(),
            Self::SourceIsOurs6 => u128::from(facts.source_is_ours && !facts.source.is_v4()),
            Self::DestinationIsOurs6 => u128::from(facts.destination_is_ours && !facts.destination.is_v4()),
            Self::Source => facts.source.number(),
            Self::Destination => facts.destination.number(),
            Self::SourcePort => ports(facts).map_or(NO_PORT, |ports| ports.0.into()).into(),
            Self::DestinationPort => ports(facts).map_or(NO_PORT, |ports| ports.1.into()).into(),
            Self::Later => u128::from(facts.part == Part::Later),
            Self::Flags(set, clear) => u128::from(flags(facts).is_some_and(|flags| flags & (set | clear) == set)),
            Self::Established => u128::from(flags(facts).is_some_and(|flags| flags & (RST | ACK) != 0)),
            Self::IcmpType => kind(facts, ICMP).into(),
            Self::Icmp6Type => kind(facts, ICMPV6).into(),
            Self::Length => facts.length.into(),
            Self::Table(table, end) => {
                let address = if end == AddressOf::Source { facts.source } else { facts.destination };
                tables[usize::from(table)].of_address(address).map_or(0, |value| u128::from(value) + 1)
            }
        }
    }
}

fn ports(facts: &Facts) -> Option<(u16, u16)> {
    match facts.transport {
        Transport::Ports(source, destination) | Transport::Tcp(source, destination, _) => Some((source, destination)),
        Transport::None | Transport::Icmp(_) => None,
    }
}

fn flags(facts: &Facts) -> Option<u8> {
    match facts.transport {
        Transport::Tcp(_, _, flags) => Some(flags),
        _ => None,
    }
}

fn kind(facts: &Facts, protocol: u8) -> u32 {
    match facts.transport {
        Transport::Icmp(kind) if facts.protocol == protocol => kind.into(),
        _ => NO_TYPE,
    }
}

/// A field and the numbers that are wanted there: neither none nor all.
pub type Wanted = (Field, Ranges);

/// A rule's questions: of each clause one is to be met, and of a rule all clauses.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    pub clauses: Vec<Vec<Wanted>>,
    /// Whether no packet can meet them.
    pub is_never: bool,
}

impl Questions {
    pub fn are_met(&self, facts: &Facts, tables: &[Arc<Table>]) -> bool {
        let is = |(field, ranges): &Wanted| ranges.contains(field.of(facts, tables));
        !self.is_never && self.clauses.iter().all(|clause| clause.iter().any(is))
    }
}

/// All rules of an order as questions.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// By index in the order.
    pub questions: Vec<Questions>,
    /// By the number in [`Field::Table`].
    pub tables: Vec<Arc<Table>>,
}

impl Lowered {
    /// Tables of at most so many keys are their addresses.
    pub fn new(order: &Order, spelt_out_max: usize) -> Self {
        let names: Vec<&String> = order.names.tables.keys().collect();
        let mut context = Context { names: &order.names, tables: &names, spelt_out_max, spelt_out: BTreeMap::new() };
        let questions = order.rules.iter().map(|numbered| context.rule(numbered.rule.body.clauses())).collect();
        Self { questions, tables: order.names.tables.values().cloned().collect() }
    }
}

struct Context<'a> {
    names: &'a Names,
    tables: &'a [&'a String],
    spelt_out_max: usize,
    /// By table and value: many rules ask the same.
    spelt_out: BTreeMap<(usize, Option<u32>), Ranges>,
}

impl Context<'_> {
    fn rule<'b>(&mut self, clauses: impl Iterator<Item = &'b Clause>) -> Questions {
        let mut questions = Questions::default();
        let mut single: Vec<Wanted> = Vec::new();
        for clause in clauses {
            let Some(wanted) = self.clause(clause) else { continue };
            match wanted.as_slice() {
                // What several clauses want of one field is wanted at once.
                [(field, ranges)] => match single.iter_mut().find(|(known, _)| known == field) {
                    Some((_, known)) => *known = known.and(ranges),
                    None => single.push((*field, ranges.clone())),
                },
                [] => questions.is_never = true,
                _ => questions.clauses.push(wanted),
            }
        }
        questions.is_never |= single.iter().any(|(_, ranges)| ranges.pairs().is_empty());
        questions.clauses.splice(0..0, single.into_iter().map(|wanted| vec![wanted]));
        questions
    }

    /// What a clause wants of each of its fields; none if every packet meets it.
    fn clause(&mut self, clause: &Clause) -> Option<Vec<Wanted>> {
        let mut wanted: Vec<Wanted> = Vec::new();
        for literal in clause {
            let (field, ranges) = self.literal(literal);
            match wanted.iter_mut().find(|(known, _)| *known == field) {
                Some((_, known)) => *known = known.or(&ranges),
                None => wanted.push((field, ranges)),
            }
        }
        wanted.retain(|(_, ranges)| !ranges.pairs().is_empty());
        let meets_all = |(field, ranges): &Wanted| ranges.all_or_none(0, field.last()) == Some(true);
        (!wanted.iter().any(meets_all)).then_some(wanted)
    }

    fn literal(&mut self, literal: &Literal) -> Wanted {
        let (field, ranges) = self.test(&literal.test);
        let all = Ranges::of([(0, field.last())]);
        (field, if literal.not { ranges.complement().and(&all) } else { ranges })
    }

    fn test(&mut self, test: &Test) -> Wanted {
        let yes = || Ranges::of([(1, 1)]);
        let list = |list: &[(u16, u16)]| Ranges::of(list.iter().map(|(first, last)| ((*first).into(), (*last).into())));
        match test {
            Test::Family(family) => (Field::Family, of_number(u128::from(*family == Family::V6))),
            Test::Protocol(protocol) => (Field::Protocol, of_number((*protocol).into())),
            Test::Source(hosts) => self.hosts(hosts, AddressOf::Source),
            Test::Destination(hosts) => self.hosts(hosts, AddressOf::Destination),
            Test::SourcePorts(ports) => (Field::SourcePort, list(ports)),
            Test::DestinationPorts(ports) => (Field::DestinationPort, list(ports)),
            Test::Direction(direction) => (Field::Direction, of_number(u128::from(*direction == Direction::Out))),
            Test::Via(link) => (Field::Via, self.links(link)),
            Test::Receive(link) => (Field::Receive, self.links(link)),
            Test::Transmit(link) => (Field::Transmit, self.links(link)),
            Test::TcpFlags { set, clear } => (Field::Flags(*set, *clear), yes()),
            Test::Established => (Field::Established, yes()),
            Test::Setup => (Field::Flags(SYN, ACK), yes()),
            Test::Fragment => (Field::Later, yes()),
            Test::IcmpTypes(kinds) => (Field::IcmpType, list(kinds)),
            Test::Icmp6Types(kinds) => (Field::Icmp6Type, list(kinds)),
            Test::Lengths(lengths) => (Field::Length, list(lengths)),
        }
    }

    fn hosts(&mut self, hosts: &Hosts, end: AddressOf) -> Wanted {
        let (address, is_ours, is_ours6) = match end {
            AddressOf::Source => (Field::Source, Field::SourceIsOurs, Field::SourceIsOurs6),
            AddressOf::Destination => (Field::Destination, Field::DestinationIsOurs, Field::DestinationIsOurs6),
        };
        match hosts {
            Hosts::Prefixes(prefixes) => (address, Ranges::of(prefixes.iter().flat_map(|one| one.ranges().pairs().to_vec()))),
            Hosts::Me => (is_ours, of_number(1)),
            Hosts::Me6 => (is_ours6, of_number(1)),
            Hosts::Table(table) => match self.tables.iter().position(|name| **name == table.name) {
                Some(at) => match self.spelt_out(at, table) {
                    Some(ranges) => (address, ranges),
                    None => (Field::Table(at as u16, end), value(table)),
                },
                None => (address, Ranges::default()),
            },
        }
    }

    /// The addresses that a table has, if it is small.
    fn spelt_out(&mut self, at: usize, asked: &InTable) -> Option<Ranges> {
        let table = self.names.tables.get(&asked.name).filter(|table| table.len() <= self.spelt_out_max)?;
        Some(self.spelt_out.entry((at, asked.value)).or_insert_with(|| table.ranges(asked.value)).clone())
    }

    /// The numbers of the interfaces that are meant.
    fn links(&self, link: &Link) -> Ranges {
        let is = |name: &str| match link {
            Link::Any => true,
            Link::Name(pattern) => fits(pattern.as_bytes(), name.as_bytes()),
            Link::Table(asked) => {
                let found = self.names.tables.get(&asked.name).and_then(|table| table.of_link(name));
                found.is_some_and(|found| asked.value.is_none_or(|value| value == found))
            }
        };
        if *link == Link::Any {
            return Ranges::of([(1, u16::MAX.into())]);
        }
        let numbers = (1..=self.names.links.len()).filter_map(|number| u16::try_from(number).ok());
        let meant = numbers.filter(|number| self.names.link(Interface(*number)).is_some_and(is));
        Ranges::of(meant.map(|number| (number.into(), number.into())))
    }
}

fn of_number(number: u128) -> Ranges {
    Ranges::of([(number, number)])
}

fn value(table: &InTable) -> Ranges {
    table.value.map_or(Ranges::of([(1, 1 << 32)]), |value| of_number(u128::from(value) + 1))
}
