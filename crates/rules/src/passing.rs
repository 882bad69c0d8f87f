//! One packet on its way through the rules: what each way of execution does alike.

use crate::facts::Facts;
use crate::language::Action;
use crate::order::Order;
use crate::records::Records;
use crate::verdict::{Decision, Verdict};

/// A packet, the rules, and what it leaves behind.
pub struct Passing<'a> {
    pub order: &'a Order,
    pub facts: &'a Facts,
    now: u64,
    records: &'a mut Records,
    log: bool,
    /// Rules or nodes that were looked at.
    pub visits: u32,
}

impl<'a> Passing<'a> {
    pub fn new(order: &'a Order, facts: &'a Facts, now: u64, records: &'a mut Records) -> Self {
        records.adopt(order);
        Self { order, facts, now, records, log: false, visits: 0 }
    }

    /// The rule at `index` has matched.
    pub fn hit(&mut self, index: usize) {
        self.log |= self.records.hit(&self.order.rules[index], self.facts, self.now);
    }

    /// The rule that made the packet's state.
    pub fn probe(&mut self) -> Option<usize> {
        let id = self.records.find(self.facts, self.now)?;
        self.order.index_of(id)
    }

    /// Makes the state that the rule at `index` wants; false if a bound is met.
    pub fn install(&mut self, index: usize) -> bool {
        self.records.install(&self.order.rules[index], self.facts, self.now)
    }

    /// What the rule at `index` says, which ends.
    pub fn end(&self, index: usize) -> Verdict {
        let decision = match self.order.rules[index].rule.action {
            Action::Allow => Decision::Allow,
            Action::Reject(kind) => Decision::Reject(kind),
            Action::Deny | Action::Count | Action::Skipto(_) | Action::CheckState => Decision::Deny,
        };
        self.verdict(index, decision)
    }

    /// The state of the rule at `index` could not be made: the packet is dropped.
    pub fn refused(&self, index: usize) -> Verdict {
        self.verdict(index, Decision::Deny)
    }

    fn verdict(&self, index: usize, decision: Decision) -> Verdict {
        let rule = &self.order.rules[index];
        Verdict { decision, rule: rule.id, number: rule.number, log: self.log }
    }
}
