//! What metrics tell of a gateway, beside the counters of its lanes.

use corelane::admin::gateway::{InterfaceRow, Losses, RuleRow, Shown, Translated};
use corelane::admin::watch::Kind;
use corelane::lanes::LiveGateway;
use corelane_metrics::{Family, Labels, More};
use std::collections::BTreeMap;

/// Samples of a family.
type Samples = Vec<(Labels, u64)>;

/// Each family by its name, kind, unit and meaning, and what it has of a gateway.
type FamilyOf = (&'static str, Kind, &'static str, &'static str, fn(&Shown) -> Samples);

const FAMILIES: &[FamilyOf] = &[
    (
        "interface_packets",
        Kind::Counter,
        "packets",
        "Packets that were forwarded at an interface (labels `interface`; `direction`, in or out).",
        |shown| of_interfaces(shown, |row| (row.packets_in, row.packets_out)),
    ),
    ("interface", Kind::Counter, "bytes", "Bytes of these, without the link's headers.", |shown| {
        of_interfaces(shown, |row| (row.bytes_in, row.bytes_out))
    }),
    (
        "interface_drops",
        Kind::Counter,
        "packets",
        "Packets that went no further at an interface (labels `interface`; `reason`: `refused` by rules, `error` damaged, `not_ours` for nobody here, `unsent` that it was to leave by, `redirect` lost behind the fast path, `other`).",
        drops_of_interfaces,
    ),
    (
        "interface_neighbours",
        Kind::Gauge,
        "neighbours",
        "Neighbours that are known at an interface (label `interface`).",
        |shown| shown.interfaces.iter().map(|row| (labels(&[("interface", &row.name)]), row.neighbours as u64)).collect(),
    ),
    (
        "rule_packets",
        Kind::Counter,
        "packets",
        "Packets that rules of a number have matched (labels `rule`, its number, and `comment`, that of the first of them that has one).",
        |shown| of_rules(shown, |row| row.packets),
    ),
    ("rule", Kind::Counter, "bytes", "Bytes of these, from the IP header on.", |shown| of_rules(shown, |row| row.bytes)),
    ("rules", Kind::Gauge, "rules", "Rules, those that are switched off too.", |shown| one(shown.totals.rules)),
    ("routes", Kind::Gauge, "routes", "Routes, without the gateway's own networks.", |shown| one(shown.totals.routes)),
    ("states", Kind::Gauge, "states", "States of flows that rules keep.", |shown| one(shown.totals.states)),
    (
        "states_refused",
        Kind::Counter,
        "states",
        "States that were not made because a bound was met; each such packet was dropped.",
        |shown| vec![(Labels::new(), shown.totals.states_refused)],
    ),
    ("nat_sessions", Kind::Gauge, "sessions", "Sessions of the translation of addresses.", |shown| {
        of_translation(shown, |translated| translated.sessions as u64)
    }),
    ("nat_packets", Kind::Counter, "packets", "Packets that were translated.", |shown| {
        of_translation(shown, |translated| translated.packets)
    }),
    ("nat_packets_refused", Kind::Counter, "packets", "Packets that could not be translated.", |shown| {
        of_translation(shown, |translated| {
            translated.refused_unfit + translated.refused_sessions + translated.refused_source + translated.refused_ports
        })
    }),
];

fn family(told: &FamilyOf) -> Option<Family> {
    let (name, kind, unit, meaning, _) = told;
    Family::of("gateway", name, *kind, unit, meaning)
}

/// What it counts just now; nothing where there is no gateway, or it does not answer at once.
pub fn counted(gateway: Option<&LiveGateway>) -> More {
    gateway.and_then(LiveGateway::shown).map_or_else(More::new, |shown| of(&shown))
}

fn of(shown: &Shown) -> More {
    FAMILIES.iter().filter_map(|told| Some((family(told)?, (told.4)(shown)))).collect()
}

/// The names, with a title.
#[cfg(test)]
pub fn documented() -> (&'static str, Vec<Family>) {
    assert_eq!(corelane::admin::gateway::SHOWN_MAX, 1_000, "the title says how many are told");
    (
        "A gateway, all lanes together; of rules and interfaces the first 1,000 are told",
        FAMILIES.iter().filter_map(family).collect(),
    )
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect()
}

fn one(value: usize) -> Samples {
    vec![(Labels::new(), value as u64)]
}

fn of_interfaces(shown: &Shown, both: fn(&InterfaceRow) -> (u64, u64)) -> Samples {
    let of_row = |row: &InterfaceRow| {
        let (came, left) = both(row);
        [("in", came), ("out", left)].map(|(way, value)| (labels(&[("interface", &row.name), ("direction", way)]), value))
    };
    shown.interfaces.iter().flat_map(of_row).collect()
}

/// Each packet has one reason. What is lost behind the fast path is known of a port as a whole.
fn drops_of_interfaces(shown: &Shown) -> Samples {
    let of_row = |row: &InterfaceRow| {
        let Losses { refused, errors, not_ours, drops, unsent, .. } = row.losses;
        let reasons = [("refused", refused), ("error", errors), ("not_ours", not_ours), ("unsent", unsent), ("other", drops)];
        let lost = row.redirect_lost.map(|lost| ("redirect", lost));
        let sample = |(reason, value)| (labels(&[("interface", &row.name), ("reason", reason)]), value);
        reasons.into_iter().chain(lost).map(sample).collect::<Samples>()
    };
    shown.interfaces.iter().flat_map(of_row).collect()
}

/// Rules of one number are told together: several may have one, and what they say is no label.
fn of_rules(shown: &Shown, value: fn(&RuleRow) -> u64) -> Samples {
    let mut by_number: BTreeMap<u16, (&str, u64)> = BTreeMap::new();
    for row in &shown.rules {
        let (comment, sum) = by_number.entry(row.number).or_default();
        *sum = sum.saturating_add(value(row));
        if comment.is_empty() {
            *comment = row.rule.split_once(" // ").map_or("", |(_, comment)| comment);
        }
    }
    let sample =
        |(number, (comment, value)): (u16, (&str, u64))| (labels(&[("rule", &number.to_string()), ("comment", comment)]), value);
    by_number.into_iter().map(sample).collect()
}

fn of_translation(shown: &Shown, value: fn(&Translated) -> u64) -> Samples {
    shown.totals.translated.iter().map(|translated| (Labels::new(), value(translated))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn interfaces_have_two_ways_and_rules_of_a_number_one_sample() {
        let mut shown = Shown::default();
        let row = json!({
            "name": "vlan10", "packets_in": 1, "bytes_in": 2, "packets_out": 3, "bytes_out": 4, "neighbours": 5, "asked": 0,
            "refused": 6, "errors": 7, "not_ours": 8, "drops": 9, "unsent": 10, "redirect_lost": 11
        });
        shown.interfaces = vec![serde_json::from_value(row).unwrap()];
        let rule = |number: u16, packets: u64, rule: &str| {
            let row = json!({
                "number": number, "set": 0, "is_off": false, "packets": packets, "bytes": 0, "idle_nanoseconds": null, "rule": rule
            });
            serde_json::from_value(row).unwrap()
        };
        shown.rules = vec![rule(100, 5, "count ip"), rule(100, 6, "count ip // both // of them"), rule(65_535, 9, "allow ip")];
        shown.totals.rules = 3;
        let told = of(&shown);
        let of = |name: &str| told.iter().find(|(family, _)| family.prometheus() == name).unwrap().1.clone();
        let way = |way: &str, value| (labels(&[("interface", "vlan10"), ("direction", way)]), value);
        assert_eq!(of("corelane_gateway_interface_packets_total"), [way("in", 1), way("out", 3)]);
        assert_eq!(of("corelane_gateway_interface_bytes_total"), [way("in", 2), way("out", 4)]);
        let lost = |reason: &str, value| (labels(&[("interface", "vlan10"), ("reason", reason)]), value);
        let reasons = [("refused", 6), ("error", 7), ("not_ours", 8), ("unsent", 10), ("other", 9), ("redirect", 11)];
        assert_eq!(of("corelane_gateway_interface_drops_total"), reasons.map(|(reason, value)| lost(reason, value)));
        let rule = |number: &str, comment: &str, value| (labels(&[("rule", number), ("comment", comment)]), value);
        assert_eq!(of("corelane_gateway_rule_packets_total"), [rule("100", "both // of them", 11), rule("65535", "", 9)]);
        assert_eq!(of("corelane_gateway_rules"), [(Labels::new(), 3)]);
        assert!(of("corelane_gateway_nat_sessions").is_empty(), "nothing is translated");
        assert_eq!(told.len(), FAMILIES.len());
    }
}
