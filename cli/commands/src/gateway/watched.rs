//! What graphs keep of a gateway that runs, and which changes they note.

use corelane::admin::gateway::{InterfaceRow, Losses, RuleRow, Shown, Totals};
use corelane::admin::watch::{PacketCounter, ProcessFigures, Reader, Snapshot};
use corelane::lanes::LiveGateway;
use corelane_metrics::graphs::{Looked, Name, Reading, Source, Subject};
use std::collections::{BTreeMap, BTreeSet};

/// What is set of polling, as commands name it.
const KNOBS: [(&str, PacketCounter); 8] = [
    ("controller", PacketCounter::PollingController),
    ("hz", PacketCounter::PollingHz),
    ("user_frac", PacketCounter::PollingUserFrac),
    ("burst_max", PacketCounter::PollingBurstMax),
    ("each_burst", PacketCounter::PollingEachBurst),
    ("reg_frac", PacketCounter::PollingRegFrac),
    ("idle_poll", PacketCounter::PollingIdlePoll),
    ("other_programs", PacketCounter::PollingOtherPrograms),
];

/// Rules, and tables, that a note names one by one.
const NAMED_MAX: usize = 3;

/// A gateway that runs.
pub struct Watched {
    gateway: LiveGateway,
    reader: Reader,
    before: Option<Snapshot>,
    changes: Changes,
}

impl Watched {
    pub fn new(gateway: LiveGateway, reader: Reader) -> Self {
        Self { gateway, reader, before: None, changes: Changes::default() }
    }
}

impl Source for Watched {
    fn look(&mut self) -> Looked {
        let now = self.reader.snapshot(corelane::now().nanoseconds());
        let since = self.before.as_ref().and_then(|before| now.since(before).ok());
        let knobs = knobs(&now);
        let mut readings: Vec<_> = since.iter().flat_map(shares).collect();
        readings.extend(knobs.iter().map(|(name, value)| whole(&format!("knob {name}"), Reading::Gauge(*value as f64))));
        let shown = self.gateway.shown();
        readings.extend(shown.iter().flat_map(of_gateway));
        self.before = Some(now);
        Looked { readings, changes: self.changes.since(knobs, shown.as_ref()) }
    }
}

fn whole(what: &str, reading: Reading) -> (Name, Reading) {
    (Name::new(Subject::Whole, what), reading)
}

/// What went no further, of all or of an interface: what came or was to leave, and what was damaged.
fn lost(losses: &Losses) -> [(&'static str, u64); 2] {
    [("drops", losses.drops.wrapping_add(losses.unsent)), ("errors", losses.errors)]
}

/// How lanes spent their time, on average: on packets and on all other work where they poll, or on both. And the greatest burst.
fn shares(since: &Snapshot) -> Vec<(Name, Reading)> {
    let ProcessFigures { worked_share, network_share, user_share, burst_frames, .. } = ProcessFigures::of(since);
    let gauge = |what, value: Option<f64>| whole(what, Reading::Gauge(value.unwrap_or(0.0)));
    if network_share.is_none() {
        return vec![gauge("worked share", worked_share)];
    }
    let burst = burst_frames.map(|frames| frames as f64);
    vec![gauge("network share", network_share), gauge("user share", user_share), gauge("burst", burst)]
}

fn greatest(now: &Snapshot, counter: PacketCounter) -> u64 {
    now.lanes.iter().filter_map(|lane| Some(lane.packets.as_ref()?.values.get(counter))).max().unwrap_or_default()
}

/// What is set of polling; nothing where no lane polls. All lanes are told the same.
fn knobs(now: &Snapshot) -> Vec<(&'static str, u64)> {
    match greatest(now, PacketCounter::PollingController) {
        0 => Vec::new(),
        _ => KNOBS.iter().map(|(name, counter)| (*name, greatest(now, *counter))).collect(),
    }
}

/// What packets meet at it.
fn of_gateway(shown: &Shown) -> Vec<(Name, Reading)> {
    let interface = |row: &InterfaceRow| {
        let counts = [
            ("packets in", row.packets_in),
            ("bytes in", row.bytes_in),
            ("packets out", row.packets_out),
            ("bytes out", row.bytes_out),
        ];
        let (name, redirect) = (row.name.clone(), row.redirect_lost.map(|lost| ("redirect drops", lost)));
        let counts = counts.into_iter().chain(lost(&row.losses)).chain(redirect);
        counts.map(move |(what, count)| (Name::new(Subject::Interface(name.clone()), what), Reading::Counter(count)))
    };
    let rule = |row: &RuleRow| {
        let subject = || Subject::Rule { number: row.number, text: row.rule.clone() };
        [("packets", row.packets), ("bytes", row.bytes)]
            .map(|(what, count)| (Name::new(subject(), what), Reading::Counter(count)))
    };
    let sessions = shown.totals.translated.iter().map(|one| whole("sessions", Reading::Gauge(one.sessions as f64)));
    let interfaces = shown.interfaces.iter().flat_map(interface);
    let states = [whole("states", Reading::Gauge(shown.totals.states as f64))];
    let Totals { losses, fast_path, .. } = &shown.totals;
    let redirect = fast_path.as_ref().and_then(|fast| fast.lost).map(|lost| ("redirect drops", lost));
    let counts = lost(losses).into_iter().chain(redirect).chain([("refused", losses.refused)]);
    let counts = counts.map(|(what, count)| whole(what, Reading::Counter(count)));
    interfaces.chain(shown.rules.iter().flat_map(rule)).chain(counts).chain(states).chain(sessions).collect()
}

/// A rule by its number and its words, and which one of those that are alike.
type Rules = BTreeSet<(u16, String, usize)>;

/// What was there when it was looked at last.
#[derive(Debug, Default)]
struct Changes {
    knobs: Option<Vec<(&'static str, u64)>>,
    gateway: Option<Had>,
}

/// What a gateway had. Of many rules the first are shown.
#[derive(Debug)]
struct Had {
    rules: Rules,
    /// All of them, those that are not shown too.
    rules_count: usize,
    /// By set: whether it is switched off.
    sets: BTreeMap<u8, bool>,
    /// By name: keys and version.
    tables: BTreeMap<String, (usize, u64)>,
    routes: usize,
    routes_version: u64,
}

impl Changes {
    /// What has changed, in words.
    fn since(&mut self, knobs: Vec<(&'static str, u64)>, shown: Option<&Shown>) -> Vec<String> {
        let mut words = Vec::new();
        match self.knobs.replace(knobs.clone()) {
            None => words.push("the gateway has started".to_owned()),
            Some(before) => {
                let set = knobs.iter().zip(&before).filter(|(now, before)| now.1 != before.1);
                let set: Vec<String> = set.map(|((name, now), (_, before))| format!("{name} {before} → {now}")).collect();
                words.extend((!set.is_empty()).then(|| set.join(", ")));
            }
        }
        let Some(now) = shown.map(Had::of) else { return words };
        if let Some(before) = &self.gateway {
            words.extend(now.rules_since(before).into_iter().chain(now.sets_since(before)));
            words.extend(now.tables_since(before).into_iter().chain(now.routes_since(before)));
        }
        self.gateway = Some(now);
        words
    }
}

impl Had {
    fn of(shown: &Shown) -> Self {
        let (mut rules, mut sets) = (Rules::new(), BTreeMap::new());
        for row in &shown.rules {
            let alike = rules.range((row.number, row.rule.clone(), 0)..=(row.number, row.rule.clone(), usize::MAX)).count();
            rules.insert((row.number, row.rule.clone(), alike));
            // Rule 65535 is in no set.
            sets.extend((row.number != u16::MAX).then_some((row.set, row.is_off)));
        }
        let tables = shown.tables.iter().map(|table| (table.name.clone(), (table.keys, table.version))).collect();
        let Totals { rules: rules_count, routes, .. } = shown.totals;
        Self { rules, rules_count, sets, tables, routes, routes_version: shown.routes_version }
    }

    /// The last number that is shown, where not all rules are.
    fn seen_to(&self) -> u16 {
        let last = self.rules.last().map_or(u16::MAX, |(number, ..)| *number);
        if self.rules.len() < self.rules_count { last } else { u16::MAX }
    }

    fn rules_since(&self, before: &Self) -> Vec<String> {
        // A rule behind those that both show has come into sight or gone out of it.
        let to = self.seen_to().min(before.seen_to());
        let is_seen = |rule: &&(u16, String, usize)| rule.0 < to || to == u16::MAX;
        let gone: Vec<_> = before.rules.difference(&self.rules).filter(is_seen).collect();
        let new: Vec<_> = self.rules.difference(&before.rules).filter(is_seen).collect();
        let unseen = self.rules_count as i64 - before.rules_count as i64 + gone.len() as i64 - new.len() as i64;
        let mut words = named("deleted", &gone);
        words.extend(named("added", &new));
        if unseen != 0 && to != u16::MAX {
            let what = if unseen > 0 { "added" } else { "deleted" };
            words.push(format!("rules {what}: {} from {to} on (now {})", unseen.unsigned_abs(), self.rules_count));
        }
        words
    }

    fn sets_since(&self, before: &Self) -> Vec<String> {
        let switched = |is_off: bool| {
            let is = |(set, off): &(&u8, &bool)| **off == is_off && before.sets.get(*set) == Some(&!is_off);
            let sets: Vec<String> = self.sets.iter().filter(is).map(|(set, _)| set.to_string()).collect();
            let what = if is_off { "disabled" } else { "enabled" };
            (!sets.is_empty()).then(|| format!("sets {what}: {}", sets.join(" ")))
        };
        [true, false].into_iter().filter_map(switched).collect()
    }

    fn tables_since(&self, before: &Self) -> Vec<String> {
        let gone =
            before.tables.keys().filter(|name| !self.tables.contains_key(*name)).map(|name| format!("table {name} destroyed"));
        let changed = self.tables.iter().filter_map(|(name, now)| match before.tables.get(name) {
            None => Some(format!("table {name} created, keys: {}", now.0)),
            Some(before) => (now != before).then(|| format!("table {name} changed, keys: {} → {}", before.0, now.0)),
        });
        few(gone.chain(changed).collect(), "tables changed")
    }

    fn routes_since(&self, before: &Self) -> Option<String> {
        let (now, what) = (self.routes, if self.routes > before.routes { "added" } else { "deleted" });
        match now.abs_diff(before.routes) {
            0 if self.routes_version == before.routes_version => None,
            0 => Some(format!("routes exchanged (still {now})")),
            more => Some(format!("routes {what}: {more} (now {now})")),
        }
    }
}

/// Few rules one by one, many by their numbers.
fn named(what: &str, rules: &[&(u16, String, usize)]) -> Vec<String> {
    match rules {
        [(first, ..), .., (last, ..)] if rules.len() > NAMED_MAX => {
            vec![format!("{} rules {what}, from {first} to {last}", rules.len())]
        }
        few => few.iter().map(|(number, text, _)| format!("rule {number} {what}: {text}")).collect(),
    }
}

/// Few one by one, many by how many they are.
fn few(words: Vec<String>, many: &str) -> Vec<String> {
    if words.len() > NAMED_MAX { vec![format!("{} {many}", words.len())] } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::gateway::ShownTable;
    use serde_json::json;

    fn shown(rules: &[(u16, &str)], routes: usize) -> Shown {
        let mut shown = Shown::default();
        let row = |(number, rule): &(u16, &str)| {
            let row = json!({
                "number": number, "set": 0, "is_off": false, "packets": 7, "bytes": 70, "idle_nanoseconds": null, "rule": rule
            });
            serde_json::from_value(row).unwrap()
        };
        shown.rules = rules.iter().map(row).collect();
        (shown.totals.routes, shown.totals.rules) = (routes, rules.len());
        shown
    }

    /// With a table of so many keys, and routes, of these versions.
    fn with(mut shown: Shown, (keys, table_version): (usize, u64), routes_version: u64) -> Shown {
        let mut table = ShownTable::default();
        (table.name, table.keys, table.version) = ("t".to_owned(), keys, table_version);
        (shown.tables, shown.routes_version) = (vec![table], routes_version);
        shown
    }

    #[test]
    fn a_change_that_leaves_as_many_as_there_were_is_noted() {
        let rules =
            [(100, "count ip from any to any"), (100, "count ip from any to any"), (200, "set 3 deny ip from any to any")];
        let mut changes = Changes::default();
        let mut since = |shown: &Shown| changes.since(Vec::new(), Some(shown));
        assert_eq!(since(&with(shown(&rules[1..], 3), (2, 7), 1)), ["the gateway has started"]);
        let one_more = with(shown(&rules, 3), (2, 7), 1);
        assert_eq!(since(&one_more), ["rule 100 added: count ip from any to any"], "one that is like another");
        let mut off = one_more.clone();
        (off.rules[2].set, off.rules[2].is_off) = (3, true);
        let mut on = off.clone();
        on.rules[2].is_off = false;
        since(&on);
        assert_eq!((since(&off), since(&off)), (vec!["sets disabled: 3".to_owned()], vec![]));
        assert_eq!(since(&on), ["sets enabled: 3"]);
        let rules = || shown(&rules, 3);
        since(&with(rules(), (2, 7), 1));
        assert_eq!(since(&with(rules(), (2, 8), 1)), ["table t changed, keys: 2 → 2"], "one key in the place of another");
        assert_eq!(since(&with(rules(), (1, 9), 2)), ["table t changed, keys: 2 → 1", "routes exchanged (still 3)"]);
        assert_eq!(since(&rules()), ["table t destroyed", "routes exchanged (still 3)"]);
        assert_eq!(since(&with(rules(), (4, 1), 0)), ["table t created, keys: 4"]);
    }

    /// A rule that comes in front moves another out of sight, which is there still.
    #[test]
    fn of_more_rules_than_are_shown_those_in_sight_are_noted() {
        let of = |numbers: &[u16], count: usize| {
            let rows: Vec<(u16, &str)> = numbers.iter().map(|number| (*number, "count ip from any to any")).collect();
            let mut shown = shown(&rows, 0);
            shown.totals.rules = count;
            shown
        };
        let mut changes = Changes::default();
        let mut since = |shown: &Shown| changes.since(Vec::new(), Some(shown));
        since(&of(&[100, 200, 300], 9));
        assert_eq!(since(&of(&[100, 150, 200], 10)), ["rule 150 added: count ip from any to any"]);
        assert_eq!(since(&of(&[100, 150, 200], 12)), ["rules added: 2 from 200 on (now 12)"]);
        assert_eq!(since(&of(&[100, 200, 300], 11)), ["rule 150 deleted: count ip from any to any"]);
        assert_eq!(since(&of(&[100, 200, 300], 4)), ["rules deleted: 7 from 300 on (now 4)"]);
    }

    #[test]
    fn changes_are_noted_once_and_many_together() {
        let mut changes = Changes::default();
        let knobs = |user_frac| vec![("hz", 1000), ("user_frac", user_frac)];
        let few = shown(&[(100, "allow ip from any to any")], 3);
        assert_eq!(changes.since(knobs(50), Some(&few)), ["the gateway has started"]);
        assert!(changes.since(knobs(50), Some(&few)).is_empty());
        assert_eq!(changes.since(knobs(20), None), ["user_frac 50 → 20"]);
        let other = shown(&[(100, "deny ip from any to any // no")], 1);
        let words = [
            "rule 100 deleted: allow ip from any to any",
            "rule 100 added: deny ip from any to any // no",
            "routes deleted: 2 (now 1)",
        ];
        assert_eq!(changes.since(knobs(20), Some(&other)), words);
        let many: Vec<(u16, &str)> = [(100, "deny ip from any to any // no")]
            .into_iter()
            .chain((1..=5).map(|n| (200 * n, "count ip from any to any")))
            .collect();
        assert_eq!(changes.since(knobs(20), Some(&shown(&many, 1))), ["5 rules added, from 200 to 1000"]);
    }

    #[test]
    fn each_interface_and_rule_has_its_series() {
        let mut shown = shown(&[(100, "count ip from any to any")], 0);
        let row = json!({
            "name": "vlan10", "packets_in": 1, "bytes_in": 2, "packets_out": 3, "bytes_out": 4, "neighbours": 5, "asked": 0,
            "refused": 9, "errors": 5, "not_ours": 9, "drops": 6, "unsent": 7
        });
        let mut port = row.clone();
        (port["name"], port["redirect_lost"]) = (json!("eth1"), json!(8));
        shown.interfaces = [row, port].map(|row| serde_json::from_value(row).unwrap()).into();
        shown.totals.losses = shown.interfaces[0].losses;
        shown.totals.fast_path = Some(
            serde_json::from_value(
                json!({ "is_on": true, "why_not": null, "lost": 8, "forwarded": 0, "denied": 0, "refusing": [] }),
            )
            .unwrap(),
        );
        let told = of_gateway(&shown).into_iter().map(|(name, reading)| match reading {
            Reading::Counter(count) => format!("{} {count}", name.what()),
            Reading::Gauge(value) => format!("{} {value}", name.what()),
        });
        let of_each = ["packets in 1", "bytes in 2", "packets out 3", "bytes out 4", "drops 13", "errors 5"];
        let of_port = ["redirect drops 8", "packets 7", "bytes 70"];
        let of_all = ["drops 13", "errors 5", "redirect drops 8", "refused 9", "states 0"];
        let wanted: Vec<_> = of_each.into_iter().chain(of_each).chain(of_port).chain(of_all).collect();
        assert_eq!(told.collect::<Vec<_>>(), wanted);
    }
}
