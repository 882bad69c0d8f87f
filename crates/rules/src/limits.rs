//! How much there may be of everything.

/// Bounds of rules, tables and records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Rules, the last one not counted: 16,384.
    pub rules: usize,
    /// Tables: 128.
    pub tables: usize,
    /// Keys in all tables together: 1,048,576.
    pub keys: usize,
    /// Names of interfaces: 8,192.
    pub interfaces: usize,
    /// Nodes of a compiled tree: 65,536. Where they do not suffice, the rest of the rules is read one after the other.
    pub nodes: usize,
    /// Rules and bounds of their questions that are looked at while a tree is made, each as often as it is: 2,000,000.
    pub looks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rules: 16_384, tables: 128, keys: 1 << 20, interfaces: 8_192, nodes: 1 << 16, looks: 2_000_000 }
    }
}

/// Bounds of what packets leave behind on a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordLimits {
    /// States of flows: 16,384.
    pub states: usize,
    /// States of flows that one source began, an IPv4 address or a /64 of IPv6: 1,024.
    pub states_by_source: usize,
    /// Lines that a rule with `log` and no amount has written until `resetlog`: 100.
    pub lines_by_rule: u32,
    /// Lines that all rules have written in a second: 100.
    pub lines_by_second: u32,
    /// Lines that wait to be taken: 256.
    pub lines_waiting: usize,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self { states: 16_384, states_by_source: 1_024, lines_by_rule: 100, lines_by_second: 100, lines_waiting: 256 }
    }
}
