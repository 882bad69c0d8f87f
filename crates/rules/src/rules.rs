//! Rules, sets and tables as they are changed, and made into what is in force.

use crate::error::Error;
use crate::language::{Action, Body, Command, Hosts, InTable, Key, Link, Log, Rule, SetChange, TableChange, Test};
use crate::limits::Limits;
use crate::order::{LAST, Names, Numbered, Order};
use crate::set::{Execution, RuleSet};
use crate::table::Table;
use crate::verdict::RuleId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a rule gets above the last one's number, if it comes without.
const STEP: u16 = 100;
/// The set that `flush` leaves, and that is never switched off.
const KEPT_SET: u8 = 31;

/// What a command did, beside changing the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing else.
    Changed,
    /// A rule has this number.
    Added(u16, RuleId),
    /// Counters of these rules are to begin again, on each lane ([`Records::zero`](crate::Records::zero)).
    Zero(Vec<RuleId>),
    /// Lines of these rules are to be counted again, on each lane ([`Records::reset_log`](crate::Records::reset_log)).
    ResetLog(Vec<RuleId>),
}

/// All rules, those of sets that are switched off too, with the tables and interfaces that they name.
#[derive(Clone, Debug)]
pub struct Rules {
    /// In order; the last one is rule 65535.
    rules: Vec<Numbered>,
    /// Which rule has each place in the counters; a place that is free has the next one's.
    generations: Vec<u32>,
    free: Vec<u32>,
    /// A bit for each set that is switched off.
    off: u32,
    names: Names,
    limits: Limits,
    version: u64,
}

impl Rules {
    /// No rules but the last, which lets everything go on, or drops it.
    #[must_use]
    pub fn new(allows: bool, limits: Limits) -> Self {
        let action = if allows { Action::Allow } else { Action::Deny };
        let rule = Rule { set: 0, action, log: Log::No, body: Body::default(), keep: None, comment: String::new() };
        let id = RuleId { place: 0, generation: 1 };
        let rules = vec![Numbered { id, number: LAST, rule: Arc::new(rule) }];
        Self { rules, generations: vec![1], free: Vec::new(), off: 0, names: Names::default(), limits, version: 0 }
    }

    /// Names the interfaces: the first is number 1 ([`Interface`](crate::Interface)). Rules may name others, too, which no packet goes by.
    ///
    /// # Errors
    /// [`Error::Full`].
    pub fn name_interfaces(&mut self, names: Vec<String>) -> Result<(), Error> {
        let most = self.limits.interfaces.min(usize::from(u16::MAX));
        if names.len() > most {
            return Err(Error::Full { what: "interfaces", most });
        }
        self.names.links = Arc::new(names);
        Ok(())
    }

    /// Carries out one command, whole or not at all.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn apply(&mut self, command: Command) -> Result<Outcome, Error> {
        match command {
            Command::Add(number, rule) => self.add(number, rule),
            Command::Delete(ranges) => {
                self.check_numbers(&ranges)?;
                self.delete_where(|rule| is_in(&ranges, rule.number));
                Ok(Outcome::Changed)
            }
            Command::DeleteSet(set) => {
                self.delete_where(|rule| rule.rule.set == set);
                Ok(Outcome::Changed)
            }
            Command::Flush => {
                self.delete_where(|rule| rule.rule.set != KEPT_SET);
                Ok(Outcome::Changed)
            }
            Command::Zero(ranges) => self.named(&ranges).map(Outcome::Zero),
            Command::ResetLog(ranges) => self.named(&ranges).map(Outcome::ResetLog),
            Command::Set(change) => self.change_sets(&change).map(|()| Outcome::Changed),
            Command::Table(name, change) => self.change_table(name, change).map(|()| Outcome::Changed),
        }
    }

    /// Carries out many commands, all of them or none.
    ///
    /// # Errors
    /// Which of them fails first, by its index, and why.
    pub fn apply_all(&mut self, commands: impl IntoIterator<Item = Command>) -> Result<Vec<Outcome>, (usize, Error)> {
        let mut changed = self.clone();
        let done =
            commands.into_iter().enumerate().map(|(index, command)| changed.apply(command).map_err(|error| (index, error)));
        let outcomes = done.collect::<Result<Vec<_>, _>>()?;
        *self = changed;
        Ok(outcomes)
    }

    /// Other rules take the place of these. A rule that is in both, with its number and in all its words, stays who it is: its counters go on, and its states.
    pub fn succeed(&mut self, others: Self) {
        let Self { rules, off, names, limits, .. } = others;
        let mut known: BTreeMap<u16, Vec<Numbered>> = BTreeMap::new();
        for numbered in self.rules.drain(..) {
            known.entry(numbered.number).or_default().push(numbered);
        }
        let mut take_same = |wanted: &Numbered| {
            let same = known.get_mut(&wanted.number)?;
            let at = same.iter().position(|one| one.rule == wanted.rule)?;
            Some(same.remove(at).id)
        };
        let stays: Vec<Option<RuleId>> = rules.iter().map(&mut take_same).collect();
        known.into_values().flatten().for_each(|gone| self.free_place(gone.id));
        let rules = rules.into_iter().zip(stays);
        let rules = rules.map(|(one, id)| Numbered { id: id.unwrap_or_else(|| self.take_place()), ..one }).collect();
        (self.rules, self.off, self.names, self.limits) = (rules, off, names, limits);
    }

    /// What is in force from now on, wherever it is handed to.
    #[must_use]
    pub fn compile(&mut self, execution: Execution) -> RuleSet {
        self.version += 1;
        let is_on = |numbered: &&Numbered| numbered.number == LAST || self.off >> numbered.rule.set & 1 == 0;
        let rules = self.rules.iter().filter(is_on).cloned().collect();
        let order = Order::new(rules, self.names.clone(), self.generations.clone(), self.version);
        RuleSet::new(order, execution, &self.limits)
    }

    /// All rules with their numbers and who they are, in order.
    pub fn all(&self) -> impl ExactSizeIterator<Item = (RuleId, u16, &Rule)> {
        self.rules.iter().map(|numbered| (numbered.id, numbered.number, &*numbered.rule))
    }

    /// A bit for each set that is switched off.
    #[must_use]
    pub const fn sets_off(&self) -> u32 {
        self.off
    }

    /// The tables with their names.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.names.tables.iter().map(|(name, table)| (name.as_str(), &**table))
    }

    fn add(&mut self, number: Option<u16>, rule: Rule) -> Result<Outcome, Error> {
        if self.rules.len() > self.limits.rules {
            return Err(Error::Full { what: "rules", most: self.limits.rules });
        }
        let before = self.rules.iter().rev().map(|rule| rule.number).find(|number| *number != LAST).unwrap_or(0);
        let number = number.unwrap_or_else(|| if before < LAST - STEP { before + STEP } else { before });
        if number == LAST || number == 0 {
            return Err(Error::LastRule);
        }
        if rule.set > KEPT_SET {
            return Err(Error::NoSet { set: rule.set });
        }
        if let Action::Skipto(to) = rule.action
            && to <= number
        {
            return Err(Error::Backwards { from: number, to });
        }
        self.make_tables(&rule)?;
        let id = self.take_place();
        let at = self.rules.partition_point(|rule| rule.number <= number);
        self.rules.insert(at, Numbered { id, number, rule: Arc::new(rule) });
        Ok(Outcome::Added(number, id))
    }

    /// A place in the counters for a rule that was not there.
    fn take_place(&mut self) -> RuleId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.generations.push(1);
            (self.generations.len() - 1) as u32
        });
        RuleId { place, generation: self.generations[place as usize] }
    }

    /// A rule is gone, and another may have its place.
    fn free_place(&mut self, id: RuleId) {
        assert!(self.generations[id.place as usize] == id.generation, "a rule that is there has its place");
        self.generations[id.place as usize] += 1;
        self.free.push(id.place);
    }

    /// Makes the tables that a rule names and that are not there, as the original does.
    fn make_tables(&mut self, rule: &Rule) -> Result<(), Error> {
        for (table, of_links) in tables_of(rule) {
            match self.names.tables.get(&table.name) {
                Some(known) => check_kind(&table.name, known, of_links)?,
                None => self.make_table(&table.name, of_links)?,
            }
        }
        Ok(())
    }

    fn make_table(&mut self, name: &str, of_links: bool) -> Result<(), Error> {
        if self.names.tables.len() >= self.limits.tables {
            return Err(Error::Full { what: "tables", most: self.limits.tables });
        }
        self.names.tables.insert(name.to_owned(), Arc::new(Table::new(of_links)));
        Ok(())
    }

    /// Whether each single number is a rule's, and none the last one's.
    fn check_numbers(&self, ranges: &[(u16, u16)]) -> Result<(), Error> {
        for (first, last) in ranges {
            if *last == LAST {
                return Err(Error::LastRule);
            }
            if !self.rules.iter().any(|rule| (*first..=*last).contains(&rule.number)) {
                return Err(Error::NoRule { number: *first });
            }
        }
        Ok(())
    }

    fn delete_where(&mut self, is_meant: impl Fn(&Numbered) -> bool) {
        let goes = |numbered: &Numbered| numbered.number != LAST && is_meant(numbered);
        let (gone, left) = std::mem::take(&mut self.rules).into_iter().partition::<Vec<_>, _>(goes);
        gone.into_iter().for_each(|numbered| self.free_place(numbered.id));
        self.rules = left;
    }

    /// Who the rules of these numbers are, or all.
    fn named(&self, ranges: &[(u16, u16)]) -> Result<Vec<RuleId>, Error> {
        for (first, last) in ranges {
            if !self.rules.iter().any(|rule| (*first..=*last).contains(&rule.number)) {
                return Err(Error::NoRule { number: *first });
            }
        }
        let is_meant = |rule: &&Numbered| ranges.is_empty() || is_in(ranges, rule.number);
        Ok(self.rules.iter().filter(is_meant).map(|rule| rule.id).collect())
    }

    fn change_sets(&mut self, change: &SetChange) -> Result<(), Error> {
        match *change {
            SetChange::Switch { off, .. } if off >> KEPT_SET & 1 == 1 => return Err(Error::NoSet { set: KEPT_SET }),
            SetChange::Switch { off, on } => self.off = (self.off | off) & !on,
            SetChange::Swap(one, other) => self.renumber_sets(|_, set| match set {
                set if set == one => other,
                set if set == other => one,
                set => set,
            }),
            SetChange::Move(from, to) => self.renumber_sets(|_, set| if set == from { to } else { set }),
            SetChange::MoveRule(number, to) => {
                self.check_numbers(&[(number, number)])?;
                self.renumber_sets(|of, set| if of == number { to } else { set });
            }
        }
        Ok(())
    }

    /// Gives each rule but the last the set that is said for its number and set.
    fn renumber_sets(&mut self, set_of: impl Fn(u16, u8) -> u8) {
        for numbered in self.rules.iter_mut().filter(|numbered| numbered.number != LAST) {
            let set = set_of(numbered.number, numbered.rule.set);
            if set != numbered.rule.set {
                Arc::make_mut(&mut numbered.rule).set = set;
            }
        }
    }

    fn change_table(&mut self, name: String, change: TableChange) -> Result<(), Error> {
        match change {
            TableChange::Create { .. } if self.names.tables.contains_key(&name) => return Err(Error::TableExists { name }),
            TableChange::Create { of_links } => self.make_table(&name, of_links)?,
            TableChange::Destroy => {
                let names_it = |rule: &Rule| tables_of(rule).any(|(table, _)| table.name == name);
                if let Some(numbered) = self.rules.iter().find(|numbered| names_it(&numbered.rule)) {
                    return Err(Error::TableInUse { name, rule: numbered.number });
                }
                self.names.tables.remove(&name).ok_or(Error::NoTable { name })?;
            }
            TableChange::Flush => {
                let table = self.names.tables.get_mut(&name).ok_or(Error::NoTable { name })?;
                *table = Arc::new(Table::new(table.is_of_links()));
            }
            TableChange::Add(entries) => {
                let of_links = entries.iter().any(|(key, _)| matches!(key, Key::Link(_)));
                let most = self.limits.keys;
                let keys: usize = self.names.tables.values().map(|table| table.len()).sum();
                if keys + entries.len() > most {
                    return Err(Error::Full { what: "keys in tables", most });
                }
                match self.names.tables.get(&name) {
                    Some(table) => {
                        entries.iter().try_for_each(|(key, _)| check_kind(&name, table, matches!(key, Key::Link(_))))?
                    }
                    None if entries.iter().all(|(key, _)| matches!(key, Key::Link(_)) == of_links) => {
                        self.make_table(&name, of_links)?;
                    }
                    None => return Err(Error::OtherTable { name, holds: "names of interfaces" }),
                }
                self.edit(&name, |table| entries.into_iter().try_for_each(|(key, value)| table.put(&name, key, value)))?;
            }
            TableChange::Delete(keys) => {
                let table = self.names.tables.get(&name).ok_or_else(|| Error::NoTable { name: name.clone() })?;
                let mut seen = BTreeSet::new();
                let wrong = keys.iter().find(|key| !table.has(key) || !seen.insert(key.to_string()));
                if let Some(key) = wrong {
                    return Err(Error::NoKey { name, key: key.to_string() });
                }
                self.edit(&name, |table| keys.iter().try_for_each(|key| table.take(&name, key)))?;
            }
        }
        Ok(())
    }

    /// Changes a table, which was looked at: nothing is wrong. One that is in force, or may be again, stays as it is: a copy of it is changed, which takes memory for the parts that change.
    fn edit(&mut self, name: &str, change: impl FnOnce(&mut Table) -> Result<(), Error>) -> Result<(), Error> {
        match self.names.tables.get_mut(name) {
            Some(table) => change(Arc::make_mut(table)),
            None => Err(Error::NoTable { name: name.to_owned() }),
        }
    }
}

fn is_in(ranges: &[(u16, u16)], number: u16) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
}

fn check_kind(name: &str, table: &Table, of_links: bool) -> Result<(), Error> {
    if table.is_of_links() == of_links {
        return Ok(());
    }
    let holds = if of_links { "prefixes" } else { "names of interfaces" };
    Err(Error::OtherTable { name: name.to_owned(), holds })
}

/// The tables that a rule names, and whether it asks them for interfaces.
fn tables_of(rule: &Rule) -> impl Iterator<Item = (&InTable, bool)> {
    let tests = rule.body.clauses().flatten().map(|literal| &literal.test);
    tests.filter_map(|test| match test {
        Test::Source(Hosts::Table(table)) | Test::Destination(Hosts::Table(table)) => Some((table, false)),
        Test::Via(Link::Table(table)) | Test::Receive(Link::Table(table)) | Test::Transmit(Link::Table(table)) => {
            Some((table, true))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::language::command;
    use crate::records::Records;

    fn with(commands: &[&str]) -> Rules {
        let mut rules = Rules::new(true, Limits::default());
        rules.apply_all(commands.iter().map(|text| command(text, 1).unwrap())).unwrap();
        rules
    }

    fn counted(rules: &mut Rules, records: &mut Records) -> Vec<String> {
        let set = rules.compile(Execution::Flat);
        set.judge(&Facts::between([10, 1, 2, 3].into(), [192, 0, 2, 1].into()), 1, records);
        set.show(|rule| records.count(rule))
    }

    #[test]
    fn rules_that_stay_go_on_counting_when_others_take_their_place() {
        let mut records = Records::default();
        let same = ["add 200 count ip from any to any", "add 200 count ip from any to any"];
        let mut rules = with(&[&["add 100 count ip from any to any", "add 300 count ip from any to me"], &same[..]].concat());
        counted(&mut rules, &mut records);
        // One is new, one gone, one of two that are the same has gone, and one has another comment.
        rules.succeed(with(&[
            "add 50 count ip from any to any",
            same[0],
            "add 300 count ip from any to me // us",
            "set disable 3",
        ]));
        let expected = [
            "00050 1  28 count ip from any to any",
            "00200 2 28 count ip from any to any",
            "00300 0 0 count ip from any to me // us",
        ];
        let shown = counted(&mut rules, &mut records);
        let parts = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (line, expected) in shown.iter().zip(expected) {
            let (line, mut expected) = (parts(line), parts(expected));
            expected[2] = line[2].clone();
            assert_eq!(line, expected);
        }
        assert_eq!((parts(&shown[3])[1].as_str(), rules.sets_off()), ("2", 8), "the last rule is in both");
        // A place that was free is another's now, which begins with 0.
        rules.apply(command("add 400 count ip from any to any", 1).unwrap()).unwrap();
        assert_eq!(parts(&counted(&mut rules, &mut records)[3])[..2], ["00400", "1"]);
    }

    #[test]
    fn a_key_that_cannot_be_changed_leaves_the_table_as_it_was() {
        let mut rules = with(&["table 1 add 10.0.0.0/8 1 10.1.0.0/16 2"]);
        let tables = |rules: &Rules| -> Vec<(String, Vec<(String, u32)>)> {
            let keys = |table: &Table| table.entries().map(|(key, value)| (key.to_string(), value)).collect();
            rules.tables().map(|(name, table)| (name.to_owned(), keys(table))).collect()
        };
        let before = tables(&rules);
        for text in ["table 1 delete 10.2.0.0/16", "table 1 add em0 5", "table 1 delete 10.1.0.0/16 10.2.0.0/16"] {
            rules.apply(command(text, 1).unwrap()).unwrap_err();
            assert_eq!(tables(&rules), before, "{text}");
        }
        let set = rules.compile(Execution::Flat);
        rules.apply(command("table 1 delete 10.1.0.0/16", 1).unwrap()).unwrap();
        assert_eq!(rules.tables().next().unwrap().1.len(), 1);
        drop(set);
    }
}
