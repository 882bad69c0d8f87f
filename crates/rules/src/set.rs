//! A set of rules in force, and its executions.

use crate::facts::Facts;
use crate::flat;
use crate::language::{Hosts, Rule, Test};
use crate::limits::Limits;
use crate::listing;
use crate::lowered::SPELT_OUT_MAX;
use crate::order::Order;
use crate::passing::Passing;
use crate::records::{Count, Records};
use crate::skipto::Steps;
use crate::trace;
use crate::tree::{self, Tree};
use crate::verdict::{RuleId, Verdict};

/// How rules are carried out. Verdicts and counters are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Each rule in order, as it is written.
    Flat,
    /// Each rule in order, made ready beforehand; jumps know where they go.
    Skipto,
    /// One graph of decisions.
    #[default]
    Tree,
}

/// The rules that are switched on, made ready. It never changes: a lane has one or another, never half of one.
#[derive(Clone, Debug)]
pub struct RuleSet {
    order: Order,
    steps: Steps,
    tree: Tree,
    execution: Execution,
    asks_for_ours: bool,
}

impl RuleSet {
    pub(crate) fn new(order: Order, execution: Execution, limits: &Limits) -> Self {
        let (steps, tree) = made(&order, execution, limits);
        let asks_for_ours = order.rules.iter().any(|numbered| asks_for_ours(&numbered.rule));
        Self { order, steps, tree, execution, asks_for_ours }
    }

    /// What becomes of a packet. `now` is in nanoseconds of whatever clock the caller has, and never goes back.
    pub fn judge(&self, facts: &Facts, now: u64, records: &mut Records) -> Verdict {
        self.judge_and_tell(facts, now, records).0
    }

    /// As [`RuleSet::judge`], with how many rules or nodes were looked at.
    pub fn judge_and_tell(&self, facts: &Facts, now: u64, records: &mut Records) -> (Verdict, u32) {
        let mut passing = Passing::new(&self.order, facts, now, records);
        let verdict = match self.execution {
            Execution::Flat => flat::run(&mut passing),
            Execution::Skipto => self.steps.run(&mut passing),
            Execution::Tree => self.tree.run(&self.steps, &mut passing),
        };
        (verdict, passing.visits)
    }

    /// What the rules make of a packet and why, a line for each rule that it comes to. Nothing is counted or kept.
    #[must_use]
    pub fn trace(&self, facts: &Facts, now: u64, records: &Records) -> Vec<String> {
        self.trace_of(facts, records.state_of(facts, now))
    }

    /// The same where the records are not at hand: the state of its flow was made by that rule, if it has one ([`Records::state_of`]).
    #[must_use]
    pub fn trace_of(&self, facts: &Facts, state: Option<RuleId>) -> Vec<String> {
        trace::lines(&self.order, facts, state)
    }

    /// Whether a rule asks if an end is this machine's (`me`, `me6`). If none does, [`Facts::source_is_ours`] and [`Facts::destination_is_ours`] may be anything.
    #[must_use]
    pub const fn asks_for_ours(&self) -> bool {
        self.asks_for_ours
    }

    /// How they are carried out.
    #[must_use]
    pub const fn execution(&self) -> Execution {
        self.execution
    }

    /// What the tree is like, in words: how large, and where and why it gave way to lists. Another execution has none.
    #[must_use]
    pub fn report(&self) -> Option<String> {
        (self.execution == Execution::Tree).then(|| self.tree.to_string())
    }

    /// The tree, for those who carry it out elsewhere; another execution has none.
    #[must_use]
    pub fn tree(&self) -> Option<&Tree> {
        (self.execution == Execution::Tree).then_some(&self.tree)
    }

    /// The rules with their numbers and who they are, in order, which is how a tree names them; the last one is rule 65535.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = (RuleId, u16, &crate::language::Rule)> {
        self.order.rules.iter().map(|numbered| (numbered.id, numbered.number, &*numbered.rule))
    }

    /// The rules as `ipfw list` prints them.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        listing::list(&self.order.rules)
    }

    /// The rules with their counts as `ipfw show` prints them.
    #[must_use]
    pub fn show(&self, count: impl Fn(RuleId) -> Count) -> Vec<String> {
        listing::show(&self.order.rules, count)
    }
}

/// Small tables are spelt out in a tree, which then needs none of them, unless that is too much for it.
fn made(order: &Order, execution: Execution, limits: &Limits) -> (Steps, Tree) {
    let with = |spelt_out_max| {
        let steps = Steps::new(order, spelt_out_max);
        let tree = tree::build(order, &steps, limits);
        (steps, tree)
    };
    let asks_table = || order.rules.iter().any(|numbered| asks_hosts(&numbered.rule, |hosts| matches!(hosts, Hosts::Table(_))));
    match execution {
        Execution::Flat | Execution::Skipto => (Steps::new(order, 0), Tree::default()),
        Execution::Tree => match with(SPELT_OUT_MAX) {
            (_, tree) if tree.reason.is_some() && asks_table() => with(0),
            made => made,
        },
    }
}

fn asks_for_ours(rule: &Rule) -> bool {
    asks_hosts(rule, |hosts| matches!(hosts, Hosts::Me | Hosts::Me6))
}

/// Whether it asks if an end is one of such hosts.
fn asks_hosts(rule: &Rule, are: impl Fn(&Hosts) -> bool) -> bool {
    let mut tests = rule.body.clauses().flatten().map(|literal| &literal.test);
    tests.any(|test| matches!(test, Test::Source(hosts) | Test::Destination(hosts) if are(hosts)))
}
