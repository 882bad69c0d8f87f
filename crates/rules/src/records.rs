//! What packets leave behind on a lane: counters, lines, states. It outlives the set of rules that is in force.

use crate::facts::Facts;
use crate::language::{Keep, Log, Rule};
use crate::limits::RecordLimits;
use crate::line::Line;
use crate::order::{Numbered, Order};
use crate::states::States;
use crate::verdict::RuleId;
use std::collections::VecDeque;
use std::ops::AddAssign;

const SECOND: u64 = 1_000_000_000;

/// What a rule has matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of these, from the IP header on.
    pub bytes: u64,
    /// When it matched last, in nanoseconds of the caller's clock; 0 if never.
    pub last: u64,
}

/// The same rule's counts on another lane.
impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.packets = self.packets.wrapping_add(other.packets);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.last = self.last.max(other.last);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    generation: u32,
    lines: u32,
    count: Count,
}

/// What packets leave behind on a lane. A set of rules finds its counters here by who its rules are, whichever set was in force before.
#[derive(Clone, Debug)]
pub struct Records {
    places: Vec<Place>,
    version: u64,
    states: States,
    lines: VecDeque<Line>,
    lines_refused: u64,
    /// The second in which lines are counted, and how many there were.
    second: (u64, u32),
    limits: RecordLimits,
}

impl Default for Records {
    fn default() -> Self {
        Self::new(RecordLimits::default())
    }
}

impl Records {
    /// None yet.
    #[must_use]
    pub fn new(limits: RecordLimits) -> Self {
        let states = States::new(&limits);
        Self { places: Vec::new(), version: 0, states, lines: VecDeque::new(), lines_refused: 0, second: (0, 0), limits }
    }

    /// What a rule has matched here: nothing yet, if no set with it has been in force here.
    #[must_use]
    pub fn count(&self, rule: RuleId) -> Count {
        let place = self.places.get(rule.place as usize).filter(|place| place.generation == rule.generation);
        place.map(|place| place.count).unwrap_or_default()
    }

    /// Lets the counters of these rules begin with 0 again, and their lines.
    pub fn zero(&mut self, rules: &[RuleId]) {
        for rule in rules {
            if let Some(place) = self.place(*rule) {
                (place.count, place.lines) = (Count::default(), 0);
            }
        }
    }

    /// Lets the lines of these rules be counted from 0 again.
    pub fn reset_log(&mut self, rules: &[RuleId]) {
        for rule in rules {
            if let Some(place) = self.place(*rule) {
                place.lines = 0;
            }
        }
    }

    /// The oldest line that waits.
    pub fn take_line(&mut self) -> Option<Line> {
        self.lines.pop_front()
    }

    /// Lines that were not kept because there were too many in a second, or too many waited.
    #[must_use]
    pub fn lines_refused(&self) -> u64 {
        self.lines_refused
    }

    /// States of flows that are kept.
    #[must_use]
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// States of flows that were not made because a bound was met; each such packet was dropped.
    #[must_use]
    pub fn states_refused(&self) -> u64 {
        self.states.refused()
    }

    /// Gets ready for these rules, if others were in force before: counters stay with their rules, states go with theirs.
    pub(crate) fn adopt(&mut self, order: &Order) {
        if self.version == order.version {
            return;
        }
        self.version = order.version;
        self.places.resize(order.generations.len().max(self.places.len()), Place::default());
        for (place, generation) in self.places.iter_mut().zip(&order.generations) {
            if place.generation != *generation {
                *place = Place { generation: *generation, ..Place::default() };
            }
        }
        self.states.keep_those_of(|rule| order.index_of(rule).is_some());
    }

    /// Counts a packet for a rule. Says whether a line about it waits.
    pub(crate) fn hit(&mut self, rule: &Numbered, facts: &Facts, now: u64) -> bool {
        let place = &mut self.places[rule.id.place as usize];
        assert!(place.generation == rule.id.generation, "the rules in force have been adopted");
        place.count += Count { packets: 1, bytes: facts.length.into(), last: now };
        match most_lines(&rule.rule, &self.limits) {
            Some(most) if most == 0 || place.lines < most => self.line(rule, facts, now),
            _ => false,
        }
    }

    /// Whether a packet's state is made, or was there.
    pub(crate) fn install(&mut self, rule: &Numbered, facts: &Facts, now: u64) -> bool {
        match rule.rule.keep {
            None => true,
            Some(Keep::State) => self.states.install(facts, rule.id, None, now),
            Some(Keep::Limit(by, most)) => self.states.install(facts, rule.id, Some((by, most)), now),
        }
    }

    /// The rule that made the packet's state.
    pub(crate) fn find(&mut self, facts: &Facts, now: u64) -> Option<RuleId> {
        self.states.find(facts, now)
    }

    /// The rule that made the state of a packet's flow, if it has one. Nothing changes.
    #[must_use]
    pub fn state_of(&self, facts: &Facts, now: u64) -> Option<RuleId> {
        self.states.peek(facts, now)
    }

    fn place(&mut self, rule: RuleId) -> Option<&mut Place> {
        self.places.get_mut(rule.place as usize).filter(|place| place.generation == rule.generation)
    }

    fn line(&mut self, rule: &Numbered, facts: &Facts, now: u64) -> bool {
        if self.second.0 != now / SECOND {
            self.second = (now / SECOND, 0);
        }
        if self.second.1 >= self.limits.lines_by_second || self.lines.len() >= self.limits.lines_waiting {
            self.lines_refused += 1;
            return false;
        }
        self.second.1 += 1;
        self.places[rule.id.place as usize].lines += 1;
        self.lines.push_back(Line { rule: rule.id, number: rule.number, action: rule.rule.action, facts: *facts, at: now });
        true
    }
}

/// Lines that a rule may have; none if it writes none, 0 for no bound.
fn most_lines(rule: &Rule, limits: &RecordLimits) -> Option<u32> {
    match rule.log {
        Log::No => None,
        Log::Yes => Some(limits.lines_by_rule),
        Log::Amount(amount) => Some(amount),
    }
}
