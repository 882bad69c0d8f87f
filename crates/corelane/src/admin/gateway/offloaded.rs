//! The rules as the ports' programs carry them out (flow offload), beside the lanes.

use super::lanes::{Beside, Passed};
use super::words::{self, InterfaceRow};
use crate::admin::messages::Degraded;
use corelane_os::report;
use corelane_rules::{Count, Interface, RuleId, RuleSet};
use corelane_xdp::FastPath;
use std::cell::RefCell;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

/// The fast path of a gateway's ports, and whether it has the rules.
pub(crate) struct Offloaded {
    fast: Arc<FastPath>,
    /// The gateway's own addresses.
    own: Vec<IpAddr>,
    why_not: Option<String>,
    of_rules: RefCell<Unread>,
    of_interfaces: RefCell<Unread>,
}

/// Why counts of the programs could not be read the last time.
#[derive(Debug, Default)]
struct Unread {
    why: Option<String>,
    /// The last fault that the operator was told, once as long as it is the same.
    told: Option<String>,
}

impl Unread {
    /// The value that was read; the default where it could not be, which is told.
    fn read<T: Default>(&mut self, what: &str, read: Result<T, impl Display>, tell: impl FnOnce(&str)) -> T {
        read.unwrap_or_else(|why| {
            let words = format!("what its programs have counted of {what} cannot be read, and is missing from all counts: {why}");
            if self.told.as_ref() != Some(&words) {
                tell(&words);
                self.told = Some(words.clone());
            }
            self.why = Some(words);
            T::default()
        })
    }
}

fn tell(words: &str) {
    report::line(Degraded::FastPathUnread.note(format_args!("gateway: {words}")));
}

impl Offloaded {
    /// Of a gateway with these addresses, without rules so far.
    pub(crate) fn new(fast: Arc<FastPath>, own: Vec<IpAddr>) -> Self {
        Self { fast, own, why_not: None, of_rules: RefCell::default(), of_interfaces: RefCell::default() }
    }
}

impl Beside for Offloaded {
    fn counts(&self, rules: &[RuleId]) -> Vec<Count> {
        let mut unread = self.of_rules.borrow_mut();
        unread.why = None;
        unread.read("rules", self.fast.counts(rules), tell)
    }

    fn add_traffic(&self, interface: usize, row: &mut InterfaceRow) -> Passed {
        // As stacks number them for rules.
        let traffic = self.fast.traffic(Interface(interface as u16 + 1));
        let traffic = self.of_interfaces.borrow_mut().read("interfaces", traffic, tell);
        row.packets_in += traffic.packets_in;
        row.bytes_in += traffic.bytes_in;
        row.packets_out += traffic.packets_out;
        row.bytes_out += traffic.bytes_out;
        row.losses.refused += traffic.denied;
        row.redirect_lost = row.device.and_then(|device| self.fast.drops(device).ok());
        Passed { forwarded: traffic.packets_in, denied: traffic.denied }
    }

    fn zero(&mut self, rules: &[RuleId]) {
        self.of_rules.get_mut().read("rules", self.fast.zero(rules), tell);
    }

    fn follow(&mut self, rules: &RuleSet) {
        self.why_not = self.fast.put(rules, &self.own).err().map(|why| why.to_string());
    }

    fn state(&self, passed: Passed) -> words::FastPath {
        let (why_not, refusing) = (self.why_not.clone(), self.fast.refusing());
        let Passed { forwarded, denied } = passed;
        let of_interfaces = self.of_interfaces.borrow_mut().why.take();
        let unread = of_interfaces.or_else(|| self.of_rules.borrow().why.clone());
        words::FastPath { is_on: why_not.is_none(), why_not, forwarded, denied, lost: self.fast.lost().ok(), refusing, unread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_told_once_and_known_until_it_can() {
        let (mut unread, mut told) = (Unread::default(), Vec::new());
        assert_eq!(unread.read("rules", Ok::<_, &str>(7), |_| unreachable!("all is read")), 7);
        assert_eq!(unread.why, None);
        for why in ["no", "no", "never", "never"] {
            unread.why = None;
            assert_eq!(unread.read("rules", Err::<u64, _>(why), |words| told.push(words.to_owned())), 0);
            assert!(unread.why.as_ref().is_some_and(|words| {
                words.ends_with(&format!("of rules cannot be read, and is missing from all counts: {why}"))
            }));
        }
        assert_eq!(told.len(), 2, "{told:?}");
    }
}
