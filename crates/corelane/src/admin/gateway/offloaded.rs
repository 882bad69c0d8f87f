//! The rules as the ports' programs carry them out (flow offload), beside the lanes.

use super::lanes::Beside;
use super::words::{self, InterfaceRow};
use corelane_rules::{Count, Interface, RuleId, RuleSet};
use corelane_xdp::{FastPath, FastTraffic};
use std::net::IpAddr;
use std::sync::Arc;

/// The fast path of a gateway's ports, and whether it has the rules.
pub(crate) struct Offloaded {
    fast: Arc<FastPath>,
    /// The gateway's own addresses.
    own: Vec<IpAddr>,
    /// The interfaces of the rules.
    interfaces: usize,
    why_not: Option<String>,
}

impl Offloaded {
    /// Of a gateway with these addresses and so many interfaces, without rules so far.
    pub(crate) fn new(fast: Arc<FastPath>, own: Vec<IpAddr>, interfaces: usize) -> Self {
        Self { fast, own, interfaces, why_not: None }
    }

    fn traffic(&self, interface: usize) -> FastTraffic {
        // As stacks number them for rules.
        self.fast.traffic(Interface(interface as u16 + 1)).unwrap_or_default()
    }
}

impl Beside for Offloaded {
    fn counts(&self, rules: &[RuleId]) -> Vec<Count> {
        self.fast.counts(rules).unwrap_or_default()
    }

    fn add_traffic(&self, interface: usize, row: &mut InterfaceRow) {
        let traffic = self.traffic(interface);
        row.packets_in += traffic.packets_in;
        row.bytes_in += traffic.bytes_in;
        row.packets_out += traffic.packets_out;
        row.bytes_out += traffic.bytes_out;
        row.losses.refused += traffic.denied;
        row.redirect_lost = row.device.and_then(|device| self.fast.drops(device).ok());
    }

    fn zero(&mut self, rules: &[RuleId]) {
        // What cannot be read cannot be set: both are the system's refusal of a map that it has given.
        let _refused = self.fast.zero(rules);
    }

    fn follow(&mut self, rules: &RuleSet) {
        self.why_not = self.fast.put(rules, &self.own).err().map(|why| why.to_string());
    }

    fn state(&self) -> words::FastPath {
        let (why_not, refusing) = (self.why_not.clone(), self.fast.refusing());
        let each = (0..self.interfaces).map(|interface| self.traffic(interface));
        let (forwarded, denied) = each.fold((0, 0), |(went, dropped), one| (went + one.packets_in, dropped + one.denied));
        words::FastPath { is_on: why_not.is_none(), why_not, forwarded, denied, lost: self.fast.lost().ok(), refusing }
    }
}
