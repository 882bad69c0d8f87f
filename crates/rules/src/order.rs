//! The rules that packets meet, in order, and the names that they use.

use crate::facts::Interface;
use crate::language::{Action, Rule};
use crate::table::Table;
use crate::verdict::RuleId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of the last rule.
pub const LAST: u16 = u16::MAX;

/// A rule with its number and who it is.
#[derive(Clone, Debug)]
pub struct Numbered {
    pub id: RuleId,
    pub number: u16,
    pub rule: Arc<Rule>,
}

/// Names that rules use: of interfaces, by their numbers less 1, and of tables.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub links: Arc<Vec<String>>,
    pub tables: BTreeMap<String, Arc<Table>>,
}

impl Names {
    /// The name of an interface; none for no interface, and for a number that has no name.
    pub fn link(&self, interface: Interface) -> Option<&str> {
        let at = usize::from(interface.0).checked_sub(1)?;
        self.links.get(at).map(String::as_str)
    }
}

/// The rules of all sets that are switched on, lowest number first, and those of one number as they came. The last one matches everything and ends.
#[derive(Clone, Debug)]
pub struct Order {
    pub rules: Vec<Numbered>,
    pub names: Names,
    /// Where each place's rule stands among them, or [`NOWHERE`].
    places: Vec<u32>,
    /// Which rule has each place, switched on or off.
    pub generations: Vec<u32>,
    /// Differs from those of all other orders of the same rules.
    pub version: u64,
}

const NOWHERE: u32 = u32::MAX;

impl Order {
    /// `generations` are those of all places, of rules that are switched off too.
    pub fn new(rules: Vec<Numbered>, names: Names, generations: Vec<u32>, version: u64) -> Self {
        let last = rules.last();
        assert!(last.is_some_and(|last| last.number == LAST && last.rule.body.clauses().next().is_none()), "the last rule ends");
        assert!(rules.is_sorted_by_key(|rule| rule.number), "rules are in order");
        let mut places = vec![NOWHERE; generations.len()];
        for (index, rule) in rules.iter().enumerate() {
            places[rule.id.place as usize] = index as u32;
        }
        Self { rules, names, places, generations, version }
    }

    /// Where a rule stands; none if it is gone, or switched off.
    pub fn index_of(&self, id: RuleId) -> Option<usize> {
        let index = *self.places.get(id.place as usize)? as usize;
        self.rules.get(index).filter(|rule| rule.id == id).map(|_| index)
    }

    /// The first rule with that number or a higher one.
    pub fn first_from(&self, number: u16) -> usize {
        self.rules.partition_point(|rule| rule.number < number)
    }

    /// Where a packet goes on that the rule at `index` has matched; none if that rule ends.
    pub fn after(&self, index: usize) -> Option<usize> {
        match self.rules[index].rule.action {
            Action::Count | Action::CheckState => Some(index + 1),
            Action::Skipto(number) => Some(self.first_from(number)),
            Action::Allow | Action::Deny | Action::Reject(_) => None,
        }
    }

    /// Whether a packet that comes to the rule at `index` is looked for among the states.
    pub fn asks_states(&self, index: usize) -> bool {
        let rule = &self.rules[index].rule;
        rule.keep.is_some() || rule.action == Action::CheckState
    }
}
