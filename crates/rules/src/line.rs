//! What a rule with `log` says of a packet.

use crate::facts::{Direction, Facts, Interface, Part, Transport};
use crate::language::Action;
use crate::verdict::{Reject, RuleId};
use std::fmt::{self, Display};
use std::net::IpAddr;

/// The code of ICMP for a host that cannot be reached, which ipfw(8) calls `reject`.
const HOST: u8 = 1;

/// A packet that a rule with `log` matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The rule.
    pub rule: RuleId,
    /// Its number.
    pub number: u16,
    /// What it does.
    pub action: Action,
    /// The packet.
    pub facts: Facts,
    /// When, in nanoseconds of the caller's clock.
    pub at: u64,
}

impl Line {
    /// The line in ipfw's words, as `ipfw: 100 Deny TCP 10.0.0.1:5 10.0.0.2:80 in via vlan10`. `name` gives an interface's. Of a fragment it says that it is one, and of
    /// ICMP the type; neither place nor code are among what rules see.
    #[must_use]
    pub fn words<'a>(&self, name: impl Fn(Interface) -> &'a str) -> String {
        let Self { number, action, facts, .. } = self;
        let way = if facts.direction == Direction::In { "in" } else { "out" };
        let part = if facts.part == Part::Whole { "" } else { " (frag)" };
        let (verb, packet, via) = (Verb(*action), Packet(facts), name(facts.via()));
        format!("ipfw: {number} {verb} {packet} {way} via {via}{part}")
    }
}

/// What a rule does, as a log has it.
struct Verb(Action);

impl Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Action::Count => f.write_str("Count"),
            Action::Allow => f.write_str("Accept"),
            Action::Deny => f.write_str("Deny"),
            Action::CheckState => f.write_str("Check-state"),
            Action::Skipto(number) => write!(f, "SkipTo {number}"),
            Action::Reject(Reject::Reset) => f.write_str("Reset"),
            Action::Reject(Reject::Unreachable(HOST)) => f.write_str("Reject"),
            Action::Reject(Reject::Unreachable(code) | Reject::Unreachable6(code)) => write!(f, "Unreach {code}"),
        }
    }
}

/// What a packet is, from whom and to whom.
struct Packet<'a>(&'a Facts);

impl Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (self.0.source.into(), self.0.destination.into());
        match (self.0.protocol, self.0.transport) {
            (1, Transport::Icmp(kind)) => write!(f, "ICMP:{kind}")?,
            (58, Transport::Icmp(kind)) => write!(f, "ICMPv6:{kind}")?,
            (1, _) => f.write_str("ICMP")?,
            (6, _) => f.write_str("TCP")?,
            (17, _) => f.write_str("UDP")?,
            (58, _) => f.write_str("ICMPv6")?,
            (protocol, _) => write!(f, "P:{protocol}")?,
        }
        let (from, to) = match self.0.transport {
            Transport::Ports(from, to) | Transport::Tcp(from, to, _) => (Some(from), Some(to)),
            Transport::None | Transport::Icmp(_) => (None, None),
        };
        write!(f, " {} {}", WithPort(source, from), WithPort(destination, to))
    }
}

/// An address, and a port where there is one.
struct WithPort(IpAddr, Option<u16>);

impl Display for WithPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}")?,
            IpAddr::V6(address) => write!(f, "[{address}]")?,
        }
        self.1.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Execution, Limits, Records, Rules, language::command};

    fn lines(rule: &str, facts: &Facts) -> String {
        let mut rules = Rules::new(true, Limits::default());
        rules.apply(command(rule, 1).unwrap()).unwrap();
        let mut records = Records::default();
        rules.compile(Execution::Tree).judge(facts, 7, &mut records);
        let line = records.take_line().unwrap();
        assert_eq!((line.at, line.facts), (7, *facts));
        line.words(|interface| ["-", "vlan10", "eth1"][usize::from(interface.0)])
    }

    #[test]
    fn a_line_says_what_was_done_with_which_packet() {
        let v4 = Facts { receive: Interface(1), ..Facts::between([10, 0, 0, 1].into(), [10, 0, 0, 2].into()) };
        let tcp = Facts { protocol: 6, transport: Transport::Tcp(5, 80, 2), ..v4 };
        let udp =
            Facts { protocol: 17, transport: Transport::Ports(5, 53), direction: Direction::Out, transmit: Interface(2), ..v4 };
        let later = Facts { protocol: 17, part: Part::Later, ..v4 };
        let ping = Facts { protocol: 1, transport: Transport::Icmp(8), ..v4 };
        let v6 = Facts { receive: Interface(2), ..Facts::between("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()) };
        let v6 = Facts { protocol: 58, transport: Transport::Icmp(128), ..v6 };
        for (rule, facts, words) in [
            ("add 100 deny log tcp from any to any", tcp, "100 Deny TCP 10.0.0.1:5 10.0.0.2:80 in via vlan10"),
            ("add 200 allow log udp from any to any", udp, "200 Accept UDP 10.0.0.1:5 10.0.0.2:53 out via eth1"),
            ("add count log udp from any to any", later, "100 Count UDP 10.0.0.1 10.0.0.2 in via vlan10 (frag)"),
            ("add skipto 300 log icmp from any to any", ping, "100 SkipTo 300 ICMP:8 10.0.0.1 10.0.0.2 in via vlan10"),
            ("add unreach port log ip from any to any", ping, "100 Unreach 3 ICMP:8 10.0.0.1 10.0.0.2 in via vlan10"),
            (
                "add reject log ip from any to any",
                Facts { protocol: 47, ..v4 },
                "100 Reject P:47 10.0.0.1 10.0.0.2 in via vlan10",
            ),
            ("add reset log tcp from any to any", tcp, "100 Reset TCP 10.0.0.1:5 10.0.0.2:80 in via vlan10"),
            ("add unreach6 1 log ip6 from any to any", v6, "100 Unreach 1 ICMPv6:128 [fd00::1] [fd00::2] in via eth1"),
        ] {
            assert_eq!(lines(rule, &facts), format!("ipfw: {words}"));
        }
    }
}
