//! What becomes of a packet.

use std::fmt;

/// How a sender is told that its packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reject {
    /// ICMP destination unreachable with this code (RFC 792); for IPv4 alone.
    Unreachable(u8),
    /// ICMPv6 destination unreachable with this code (RFC 4443, section 3.1); for IPv6 alone.
    Unreachable6(u8),
    /// A TCP reset, for TCP alone.
    Reset,
}

/// What is done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// It goes on.
    Allow,
    /// It is dropped, and nobody is told.
    Deny,
    /// It is dropped, and its sender is told, at a bounded rate, where the kind fits the packet.
    Reject(Reject),
}

/// Which rule it is: a place in the counters, and which of the rules that had this place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId {
    pub(crate) place: u32,
    pub(crate) generation: u32,
}

impl RuleId {
    /// The rule's place in the counters. Another rule may have it once this one is deleted.
    #[must_use]
    pub const fn place(self) -> usize {
        self.place as usize
    }
}

/// What is to be done with a packet, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What is done with it.
    pub decision: Decision,
    /// The rule that decided.
    pub rule: RuleId,
    /// The number of that rule.
    pub number: u16,
    /// Whether a line about this packet waits among the records, because a rule with `log` matched.
    pub log: bool,
}

impl Verdict {
    /// Whether the packet goes on.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.decision, Decision::Allow)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Reject(_) => "reject",
        })
    }
}
