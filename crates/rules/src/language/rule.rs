//! A rule as its author wrote it, and as it is printed.

use crate::facts::{Direction, Family};
use crate::language::names;
use crate::prefix::Prefix;
use crate::verdict::Reject;
use std::fmt::{self, Display as _};

/// What a rule does with a packet that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Only counts; the next rule follows.
    Count,
    /// Lets it go on.
    Allow,
    /// Drops it.
    Deny,
    /// Drops it and tells its sender.
    Reject(Reject),
    /// Goes on with the first rule that has this number or a higher one.
    Skipto(u16),
    /// Does what the rule does that made the packet's state, if there is one.
    CheckState,
}

/// Whether a rule has lines written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Log {
    /// It has not.
    #[default]
    No,
    /// As many as the limits say.
    Yes,
    /// So many until `resetlog`; 0 is no bound.
    Amount(u32),
}

/// Whether a rule makes a state of the packets that it matches, so that later packets of the flow, both ways, are treated as these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// `keep-state`.
    State,
    /// `limit`: a state, and so many at most with the same parts.
    Limit(LimitBy, u16),
}

/// The parts of a flow that `limit` counts by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // their names say it
pub struct LimitBy {
    pub source: bool,
    pub source_port: bool,
    pub destination: bool,
    pub destination_port: bool,
}

/// One question about a packet, or its opposite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Whether the opposite is meant.
    pub not: bool,
    /// The question.
    pub test: Test,
}

/// Questions of which one is to be answered with yes. An empty clause is always met.
pub type Clause = Vec<Literal>;

/// A question about a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// The version of IP.
    Family(Family),
    /// The protocol of the transport.
    Protocol(u8),
    /// The source address.
    Source(Hosts),
    /// The destination address.
    Destination(Hosts),
    /// The source port: ranges, first and last. Without ports it is no.
    SourcePorts(Vec<(u16, u16)>),
    /// The destination port, likewise.
    DestinationPorts(Vec<(u16, u16)>),
    /// The direction.
    Direction(Direction),
    /// The interface that it leaves by, else the one that received it.
    Via(Link),
    /// The interface that received it.
    Receive(Link),
    /// The interface that it leaves by; no for what comes in.
    Transmit(Link),
    /// TCP's control bits: those that are set, those that are not.
    TcpFlags {
        /// Bits that are set.
        set: u8,
        /// Bits that are not.
        clear: u8,
    },
    /// TCP with RST or ACK.
    Established,
    /// TCP with SYN and without ACK.
    Setup,
    /// A fragment other than the first.
    Fragment,
    /// ICMP's type: ranges, first and last.
    IcmpTypes(Vec<(u16, u16)>),
    /// ICMPv6's type, likewise.
    Icmp6Types(Vec<(u16, u16)>),
    /// Bytes from the IP header on: ranges, first and last.
    Lengths(Vec<(u16, u16)>),
}

/// Addresses that a rule means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Those of one of these prefixes.
    Prefixes(Vec<Prefix>),
    /// This machine's.
    Me,
    /// This machine's, of IPv6.
    Me6,
    /// Those that a table has.
    Table(InTable),
}

/// A look-up in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTable {
    /// The table's name.
    pub name: String,
    /// The value that is to be found there; none for any.
    pub value: Option<u32>,
}

/// Interfaces that a rule means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Whichever, but one.
    Any,
    /// That of this name; `*` stands for any characters, `?` for one.
    Name(String),
    /// Those that a table has.
    Table(InTable),
}

/// What a packet must be for a rule to match it. All clauses are to be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The protocol, or the family.
    pub protocol: Clause,
    /// The source address.
    pub source: Clause,
    /// The source port.
    pub source_ports: Clause,
    /// The destination address.
    pub destination: Clause,
    /// The destination port.
    pub destination_ports: Clause,
    /// The rest.
    pub options: Vec<Clause>,
}

impl Body {
    /// All clauses that ask something.
    pub fn clauses(&self) -> impl Iterator<Item = &Clause> {
        let heads = [&self.protocol, &self.source, &self.source_ports, &self.destination, &self.destination_ports];
        heads.into_iter().chain(&self.options).filter(|clause| !clause.is_empty())
    }
}

/// A rule without its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The set that it is in, 0 to 31.
    pub set: u8,
    /// What it does.
    pub action: Action,
    /// Whether it has lines written.
    pub log: Log,
    /// What it matches.
    pub body: Body,
    /// Whether it makes states.
    pub keep: Option<Keep>,
    /// What its author says of it.
    pub comment: String,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.set != 0 {
            write!(f, "set {} ", self.set)?;
        }
        self.action.fmt(f)?;
        match self.log {
            Log::No => {}
            Log::Yes => f.write_str(" log")?,
            Log::Amount(amount) => write!(f, " log logamount {amount}")?,
        }
        if self.action != Action::CheckState {
            self.body.fmt(f)?;
        }
        match self.keep {
            None => {}
            Some(Keep::State) => f.write_str(" keep-state :default")?,
            Some(Keep::Limit(by, most)) => write!(f, " limit{by} {most} :default")?,
        }
        if !self.comment.is_empty() {
            write!(f, " // {}", self.comment)?;
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Count => f.write_str("count"),
            Self::Allow => f.write_str("allow"),
            Self::Deny => f.write_str("deny"),
            Self::Reject(Reject::Reset) => f.write_str("reset"),
            Self::Reject(Reject::Unreachable(1)) => f.write_str("reject"),
            Self::Reject(Reject::Unreachable(code)) => write!(f, "unreach {}", Named(names::UNREACH, code)),
            Self::Reject(Reject::Unreachable6(code)) => write!(f, "unreach6 {}", Named(names::UNREACH6, code)),
            Self::Skipto(number) => write!(f, "skipto {number}"),
            Self::CheckState => f.write_str("check-state :default"),
        }
    }
}

/// A number by the first name that a list has for it, else as it is.
pub(super) struct Named(pub &'static [(&'static str, u8)], pub u8);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.iter().find(|(_, number)| *number == self.1) {
            Some((name, _)) => f.write_str(name),
            None => self.1.fmt(f),
        }
    }
}

impl fmt::Display for LimitBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.source, " src-addr"),
            (self.source_port, " src-port"),
            (self.destination, " dst-addr"),
            (self.destination_port, " dst-port"),
        ];
        parts.iter().filter(|(on, _)| *on).try_for_each(|(_, name)| f.write_str(name))
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(" ")?;
        head(f, &self.protocol, "ip")?;
        f.write_str(" from ")?;
        head(f, &self.source, "any")?;
        if !self.source_ports.is_empty() {
            f.write_str(" ")?;
            head(f, &self.source_ports, "")?;
        }
        f.write_str(" to ")?;
        head(f, &self.destination, "any")?;
        if !self.destination_ports.is_empty() {
            f.write_str(" ")?;
            clause(f, &self.destination_ports, option)?;
        }
        for one in &self.options {
            f.write_str(" ")?;
            clause(f, one, option)?;
        }
        Ok(())
    }
}

/// A clause where the language wants an operand: no word says what it is about.
fn head(f: &mut fmt::Formatter<'_>, one: &Clause, when_empty: &str) -> fmt::Result {
    if one.is_empty() { f.write_str(when_empty) } else { clause(f, one, operand) }
}

type Printer = fn(&mut fmt::Formatter<'_>, &Test) -> fmt::Result;

fn clause(f: &mut fmt::Formatter<'_>, one: &Clause, print: Printer) -> fmt::Result {
    if let [literal] = one.as_slice() {
        return literal_of(f, literal, print);
    }
    f.write_str("{ ")?;
    for (index, literal) in one.iter().enumerate() {
        f.write_str(if index > 0 { " or " } else { "" })?;
        literal_of(f, literal, print)?;
    }
    f.write_str(" }")
}

fn literal_of(f: &mut fmt::Formatter<'_>, literal: &Literal, print: Printer) -> fmt::Result {
    f.write_str(if literal.not { "not " } else { "" })?;
    print(f, &literal.test)
}

fn operand(f: &mut fmt::Formatter<'_>, test: &Test) -> fmt::Result {
    match test {
        Test::Family(Family::V4) => f.write_str("ip4"),
        Test::Family(Family::V6) => f.write_str("ip6"),
        Test::Protocol(number) => Named(names::PROTOCOLS, *number).fmt(f),
        Test::Source(hosts) | Test::Destination(hosts) => hosts.fmt(f),
        Test::SourcePorts(list) | Test::DestinationPorts(list) => ranges(f, list),
        _ => option(f, test),
    }
}

fn option(f: &mut fmt::Formatter<'_>, test: &Test) -> fmt::Result {
    let with = |f: &mut fmt::Formatter<'_>, word: &str, list: &[(u16, u16)]| {
        write!(f, "{word} ")?;
        ranges(f, list)
    };
    match test {
        Test::Family(_) | Test::Protocol(_) => {
            f.write_str("proto ")?;
            operand(f, test)
        }
        Test::Source(hosts) => write!(f, "src-ip {hosts}"),
        Test::Destination(hosts) => write!(f, "dst-ip {hosts}"),
        Test::SourcePorts(list) => with(f, "src-port", list),
        Test::DestinationPorts(list) => with(f, "dst-port", list),
        Test::Direction(Direction::In) => f.write_str("in"),
        Test::Direction(Direction::Out) => f.write_str("out"),
        Test::Via(link) => write!(f, "via {link}"),
        Test::Receive(link) => write!(f, "recv {link}"),
        Test::Transmit(link) => write!(f, "xmit {link}"),
        Test::TcpFlags { set, clear } => flags(f, *set, *clear),
        Test::Established => f.write_str("established"),
        Test::Setup => f.write_str("setup"),
        Test::Fragment => f.write_str("frag"),
        Test::IcmpTypes(list) => with(f, "icmptypes", list),
        Test::Icmp6Types(list) => with(f, "icmp6types", list),
        Test::Lengths(list) => with(f, "iplen", list),
    }
}

fn flags(f: &mut fmt::Formatter<'_>, set: u8, clear: u8) -> fmt::Result {
    let mut before = "tcpflags ";
    for (name, bit) in names::TCP_FLAGS {
        let mark = if set & bit != 0 {
            ""
        } else if clear & bit != 0 {
            "!"
        } else {
            continue;
        };
        write!(f, "{before}{mark}{name}")?;
        before = ",";
    }
    Ok(())
}

fn ranges(f: &mut fmt::Formatter<'_>, list: &[(u16, u16)]) -> fmt::Result {
    for (index, (first, last)) in list.iter().enumerate() {
        f.write_str(if index > 0 { "," } else { "" })?;
        if first == last { first.fmt(f)? } else { write!(f, "{first}-{last}")? }
    }
    Ok(())
}

/// As among the options.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        option(f, self)
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Me => f.write_str("me"),
            Self::Me6 => f.write_str("me6"),
            Self::Table(table) => table.fmt(f),
            Self::Prefixes(prefixes) => {
                for (index, prefix) in prefixes.iter().enumerate() {
                    write!(f, "{}{prefix}", if index > 0 { "," } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Name(name) => f.write_str(name),
            Self::Table(table) => table.fmt(f),
        }
    }
}

impl fmt::Display for InTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            None => write!(f, "table({})", self.name),
            Some(value) => write!(f, "table({},{value})", self.name),
        }
    }
}
