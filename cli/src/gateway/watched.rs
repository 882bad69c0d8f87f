//! What graphs keep of a gateway that runs, and which changes they note.

use corelane::admin::gateway::{InterfaceRow, Losses, RuleRow, Shown, Totals};
use corelane::admin::watch::{PacketCounter, Reader, Snapshot};
use corelane::lanes::LiveGateway;
use corelane_metrics::graphs::{Looked, Name, Reading, Source, Subject};
use std::collections::BTreeSet;

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

/// Rules that a note names one by one.
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

/// How lanes spent their time, on average: on packets and on all else where they poll, or on both. And the greatest burst.
fn shares(since: &Snapshot) -> Vec<(Name, Reading)> {
    let lanes = || since.lanes.iter().filter_map(|lane| Some((lane, since.shares(lane)?.productive)));
    let polling: Vec<(f64, f64)> = lanes().filter_map(|(lane, worked)| Some((since.network_share(lane)?, worked))).collect();
    let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| Reading::Gauge(values.sum::<f64>() / count.max(1) as f64);
    if polling.is_empty() {
        let worked: Vec<f64> = lanes().map(|(_, worked)| worked).collect();
        return vec![whole("worked share", mean(&mut worked.iter().copied(), worked.len()))];
    }
    let burst = greatest(since, PacketCounter::PollingBurst);
    vec![
        whole("network share", mean(&mut polling.iter().map(|(network, _)| *network), polling.len())),
        whole("user share", mean(&mut polling.iter().map(|(network, worked)| (worked - network).max(0.0)), polling.len())),
        whole("burst", Reading::Gauge(burst as f64)),
    ]
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

/// A rule by its number and its words.
type Rules = BTreeSet<(u16, String)>;

/// What was there when it was looked at last.
#[derive(Debug, Default)]
struct Changes {
    knobs: Option<Vec<(&'static str, u64)>>,
    rules: Option<(Rules, usize)>,
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
        let Some(shown) = shown else { return words };
        let rules: Rules = shown.rules.iter().map(|row| (row.number, row.rule.clone())).collect();
        let routes = shown.totals.routes;
        if let Some((before, routes_before)) = self.rules.replace((rules.clone(), routes)) {
            words.extend(named("deleted", &before.difference(&rules).collect::<Vec<_>>()));
            words.extend(named("added", &rules.difference(&before).collect::<Vec<_>>()));
            if routes != routes_before {
                let what = if routes > routes_before { "added" } else { "deleted" };
                words.push(format!("routes {what}: {} (now {routes})", routes.abs_diff(routes_before)));
            }
        }
        words
    }
}

/// Few rules one by one, many by their numbers.
fn named(what: &str, rules: &[&(u16, String)]) -> Vec<String> {
    match rules {
        [(first, _), .., (last, _)] if rules.len() > NAMED_MAX => {
            vec![format!("{} rules {what}, from {first} to {last}", rules.len())]
        }
        few => few.iter().map(|(number, text)| format!("rule {number} {what}: {text}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        shown.totals.routes = routes;
        shown
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
