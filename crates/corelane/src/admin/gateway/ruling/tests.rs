//! Requests carried out on lanes that are not there: each has the rules that it was told last, and what packets have left behind.

use super::*;
use crate::admin::gateway::lanes::{Counted, Found, Sighted};
use crate::admin::gateway::words::{FastPath, Page, RouteRow, RoutesChanged};
use corelane_rules::{Count, Facts, Limits};
use corelane_stack::RouteChange;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A lane of them.
struct Lane {
    set: Arc<RuleSet>,
    records: Records,
}

/// Lanes, and what the first of them was told of routes.
struct Double {
    lanes: RefCell<Vec<Lane>>,
    routes: RefCell<Vec<RouteChange>>,
    has_room: Cell<bool>,
    is_late: Cell<bool>,
    told: Cell<usize>,
}

impl Double {
    fn of(ruling: &Ruling, lanes: usize) -> Self {
        let lane = || Lane { set: ruling.set(), records: Records::default() };
        Self {
            lanes: RefCell::new((0..lanes).map(|_| lane()).collect()),
            routes: RefCell::default(),
            has_room: Cell::new(true),
            is_late: Cell::new(false),
            told: Cell::new(0),
        }
    }

    /// A packet on that lane.
    fn packet(&self, lane: usize, text: &str) {
        let facts = packet(text, &names()).unwrap();
        let Lane { set, records } = &mut self.lanes.borrow_mut()[lane];
        set.judge(&facts, 5_000_000_000, records);
    }
}

impl Lanes for Double {
    fn tell(&self, orders: &[Policy]) -> Result<InForce, String> {
        if !self.has_room.get() {
            return Err("lane 1 has no room".to_owned());
        }
        self.told.set(self.told.get() + orders.len());
        for order in orders {
            if let Policy::Routes(changes) = order {
                self.routes.borrow_mut().extend(changes.iter());
            }
            for Lane { set, records } in &mut *self.lanes.borrow_mut() {
                match order {
                    Policy::Rules(rules) => *set = rules.clone(),
                    Policy::ZeroRules(rules) => records.zero(rules),
                    Policy::ResetLog(rules) => records.reset_log(rules),
                    _ => {}
                }
            }
        }
        Ok(if self.is_late.get() { InForce::Soon } else { InForce::Now })
    }

    fn counts(&self, rules: &[RuleId]) -> Result<Counted, String> {
        let count = |rule: &RuleId| {
            let mut sum = Count::default();
            self.lanes.borrow().iter().for_each(|lane| sum += lane.records.count(*rule));
            sum
        };
        Ok(Counted { counts: rules.iter().map(count).collect(), now: 7_000_000_000 })
    }

    fn could_lead(&self, routes: &[Route]) -> Result<Vec<Result<bool, String>>, String> {
        let network = IpAddr::from([10, 0, 0, 0]);
        let said = |route: &Route| match route.router {
            // It is in a network of the second interface alone.
            IpAddr::V4(router) if router.octets() == [10, 0, 0, 77] && route.interface == Some(0) => {
                Err(format!("{router} is not beside vlan10"))
            }
            IpAddr::V6(router) if router.is_unicast_link_local() => Ok(true),
            IpAddr::V4(router) if router.octets()[0] == 10 => Ok(route.destination != network),
            router => Err(format!("{router} is in no network of ours")),
        };
        Ok(routes.iter().map(said).collect())
    }

    fn sight(&self, facts: &Facts) -> Result<Sighted, String> {
        let state = |(lane, one): (usize, &Lane)| one.records.state_of(facts, 6_000_000_000).map(|rule| (lane, rule));
        let state = self.lanes.borrow().iter().enumerate().find_map(state);
        Ok(Sighted { source_is_ours: false, destination_is_ours: facts.destination == IpAddr::from([10, 0, 0, 1]).into(), state })
    }

    fn way(&self, to: IpAddr) -> Result<(bool, Option<Found>), String> {
        let router = IpAddr::from([10, 0, 0, 2]);
        let known = Some(("stale", Some("02:00:00:00:00:01".to_owned())));
        Ok(match to {
            IpAddr::V6(_) => (false, None),
            to if to == router => (false, Some((1, to, known))),
            to => (to == IpAddr::from([10, 0, 0, 1]), Some((1, router, known))),
        })
    }

    fn totals(&self) -> Result<Seen, String> {
        let row = |number: u64| {
            let losses = Losses { refused: number, errors: 20, not_ours: 30, drops: 40 * number, unsent: 50 };
            let device = (number == 2).then_some(7);
            InterfaceRow { packets_in: number, losses, device, ..InterfaceRow::default() }
        };
        let lanes = self.lanes.borrow().len();
        Ok((vec![row(1), row(2)], Totals { lanes, ..Totals::default() }))
    }
}

fn names() -> Vec<String> {
    vec!["vlan10".to_owned(), "vlan20".to_owned()]
}

fn gateway(allows: bool) -> (Ruling, Double) {
    let ruling = Ruling::new(Rules::new(allows, Limits::default()), Execution::Tree, names(), Vec::new()).unwrap();
    let lanes = Double::of(&ruling, 2);
    (ruling, lanes)
}

fn ask<T: DeserializeOwned>((ruling, lanes): &(Ruling, Double), request: &Request) -> Result<T, String> {
    let line = format!("{GATEWAY} {}", json(request).unwrap());
    let answer = ruling.lock().answer(&line, lanes)?;
    Ok(serde_json::from_str(&answer).unwrap())
}

fn change(gateway: &(Ruling, Double), commands: &[&str]) -> Result<Changed, String> {
    ask(gateway, &Request::Change { commands: commands.iter().map(ToString::to_string).collect() })
}

fn show(gateway: &(Ruling, Double)) -> Vec<(u16, u64, String)> {
    let page: Page<RuleRow> = ask(gateway, &Request::Rules { numbers: Vec::new(), from: 0 }).unwrap();
    page.rows.into_iter().map(|row| (row.number, row.packets, row.rule)).collect()
}

fn change_routes(gateway: &(Ruling, Double), changes: &[&str]) -> Result<RoutesChanged, String> {
    let changes = changes.iter().enumerate().map(|(at, text)| (at, text.to_string())).collect();
    ask(gateway, &Request::ChangeRoutes { changes })
}

fn routes(gateway: &(Ruling, Double), within: Option<&str>) -> Vec<String> {
    let request = Request::Routes { within: within.map(str::to_owned), from: 0 };
    let page: Page<RouteRow> = ask(gateway, &request).unwrap();
    let text = |row: RouteRow| format!("{} {} {}", row.prefix, row.router, row.interface.unwrap_or_default());
    page.rows.into_iter().map(|row| text(row).trim_end().to_owned()).collect()
}

const PACKET: &str = "in via vlan10 udp 10.0.10.5:4000 > 192.0.2.1:80";

#[test]
fn rules_are_in_force_on_all_lanes_and_count_there() {
    let gateway = gateway(true);
    let changed = change(&gateway, &["add 100 count ip from any to any in via vlan10", "add deny tcp from any to any"]).unwrap();
    let lines = vec!["00100 count ip from any to any in via vlan10".to_owned(), "00200 deny tcp from any to any".to_owned()];
    assert_eq!(changed, Changed { added: 2, lines, rules: 3, is_in_force: true });
    (0..3).for_each(|at| gateway.1.packet(at % 2, PACKET));
    let page: Page<RuleRow> = ask(&gateway, &Request::Rules { numbers: vec![(100, 100), (65_535, 65_535)], from: 0 }).unwrap();
    let rows: Vec<_> = page.rows.iter().map(|row| (row.number, row.packets, row.bytes, row.idle_nanoseconds)).collect();
    assert_eq!(rows, [(100, 3, 84, Some(2_000_000_000)), (65_535, 3, 84, Some(2_000_000_000))]);
    assert_eq!(page.next, None);
    // A rule that stays goes on counting, and one that is deleted is gone.
    change(&gateway, &["add 50 count ip from any to any", "delete 200"]).unwrap();
    gateway.1.packet(0, PACKET);
    let counts: Vec<(u16, u64)> = show(&gateway).iter().map(|(number, packets, _)| (*number, *packets)).collect();
    assert_eq!(counts, [(50, 1), (100, 4), (65_535, 4)]);
    let missing = ask::<Page<RuleRow>>(&gateway, &Request::Rules { numbers: vec![(200, 200)], from: 0 });
    assert!(missing.unwrap_err().contains("no rule has the number 200"));
    let changed = change(&gateway, &["zero 100"]).unwrap();
    assert_eq!((changed.added, changed.rules), (0, 3));
    let counts: Vec<u64> = show(&gateway).iter().map(|(_, packets, _)| *packets).collect();
    assert_eq!(counts, [1, 0, 4]);
}

#[test]
fn what_cannot_be_done_whole_is_not_done() {
    let gateway = gateway(true);
    change(&gateway, &["add 100 count ip from any to any"]).unwrap();
    let (before, told) = (show(&gateway), gateway.1.told.get());
    let set = gateway.0.set();
    for (commands, words) in [
        (vec!["add 200 count ip from any to any", "delete 300"], "no rule has the number 300"),
        (vec!["add 200 count ip from any to any", "add 300 skipto 300 ip from any to any"], "line 1, column"),
        (vec!["list"], "\"list\" is no command"),
        (vec!["add 65535 deny ip from any to any"], "65535"),
    ] {
        let why = change(&gateway, &commands).unwrap_err();
        assert!(why.contains(words), "{commands:?}: {why}");
    }
    // A lane that has no room has none of them changed.
    gateway.1.has_room.set(false);
    assert_eq!(change(&gateway, &["add 200 deny ip from any to any", "zero"]).unwrap_err(), "lane 1 has no room");
    assert_eq!(change_routes(&gateway, &["add 10.1.0.0/16 via 10.0.0.2"]).unwrap_err(), "lane 1 has no room");
    gateway.1.has_room.set(true);
    assert_eq!((show(&gateway), gateway.1.told.get(), routes(&gateway, None).len()), (before, told, 0));
    assert!(Arc::ptr_eq(&set, &gateway.0.set()));
    // One that is late has it soon: whoever asks again sees it.
    gateway.1.is_late.set(true);
    assert!(!change(&gateway, &["add 200 count ip from any to any"]).unwrap().is_in_force);
    assert_eq!(show(&gateway).len(), 3);
}

#[test]
fn a_script_is_carried_out_or_only_looked_at() {
    let gateway = gateway(true);
    change(&gateway, &["add 700 count ip from any to me"]).unwrap();
    let script = "#!/bin/sh\nfwcmd='/sbin/ipfw -q'\n$fwcmd -f flush\n$fwcmd add 100 count ip from any to any via vlan10\n\
                  $fwcmd table 1 add 10.0.0.0/8 5\n";
    let import =
        |script: &str, only_checks| ask::<Changed>(&gateway, &Request::Import { script: script.to_owned(), only_checks });
    let checked = import(script, true).unwrap();
    assert_eq!((checked.added, checked.rules, checked.is_in_force), (1, 2, false));
    assert_eq!(show(&gateway)[0].0, 700, "nothing has changed");
    assert!(import(script, false).unwrap().is_in_force);
    assert_eq!(show(&gateway)[0], (100, 0, "count ip from any to any via vlan10".to_owned()));
    let syntax = import("ipfw flush\nipfw add 100 cuont ip from any to any\n", false).unwrap_err();
    assert!(syntax.starts_with("the text, line 2, column 14: \"cuont\" is nothing that a rule does"), "{syntax}");
    let later = import("ipfw flush\n\nipfw delete 100\n", false).unwrap_err();
    assert_eq!(later, "line 3: no rule has the number 100; `list` shows those that are there");
    assert_eq!(show(&gateway).len(), 2);
}

/// A view shows each change of a table and of routes, also one that leaves as many as there were.
#[test]
fn each_change_of_a_table_and_of_routes_has_a_version() {
    let gateway = gateway(true);
    let shown = || {
        let (ruling, lanes) = &gateway;
        let shown = ruling.shown(|rules| Some((lanes.counts(&rules).unwrap(), lanes.totals().unwrap()))).unwrap();
        let tables: Vec<_> = shown.tables.iter().map(|table| (table.name.clone(), table.keys, table.version)).collect();
        (tables, shown.routes_version)
    };
    change(&gateway, &["table 1 add 10.0.0.0/8 5", "table l create type iface"]).unwrap();
    let mut versions = Vec::new();
    let mut changes = |text: &str| {
        change(&gateway, &[text]).unwrap();
        let (tables, _) = shown();
        assert_eq!((&*tables[0].0, &*tables[1].0), ("1", "l"));
        versions.push((tables[0].1, tables[0].2, tables[1].2));
        versions.len()
    };
    for text in ["add 100 count ip from any to any", "table 1 add 10.0.0.0/8 6", "table 1 add 11.0.0.0/8", "table l add em0"] {
        changes(text);
    }
    let [of_rule, of_value, of_key, of_other] = versions[..] else { panic!("{versions:?}") };
    assert!(of_value.0 == 1 && of_value.1 > of_rule.1 && of_value.2 == of_rule.2, "{versions:?}");
    assert!(of_key.0 == 2 && of_key.1 > of_value.1, "{versions:?}");
    assert!(of_other.1 == of_key.1 && of_other.2 > of_key.2, "{versions:?}");
    change_routes(&gateway, &["add 10.1.0.0/16 via 10.0.0.2"]).unwrap();
    let before = shown().1;
    change_routes(&gateway, &["add 10.1.0.0/16 via 10.0.0.3", "delete 10.1.0.0/16 via 10.0.0.2"]).unwrap();
    assert!(shown().1 != before);
    // A text that is read again and is the same is no change.
    let (before, rules) = (shown().0, || {
        let mut rules = Rules::new(true, Limits::default());
        for text in ["table 1 add 10.0.0.0/8 6 11.0.0.0/8", "table l create type iface"] {
            rules.apply(command(text, 1).unwrap()).unwrap();
        }
        rules
    });
    gateway.0.replace(rules(), Vec::new(), &gateway.1).unwrap();
    let after = shown().0;
    assert_eq!(after[0], before[0]);
    assert!(after[1].2 > before[1].2, "em0 is gone: {after:?}");
}

#[test]
fn sets_and_tables_are_listed() {
    let gateway = gateway(true);
    change(
        &gateway,
        &[
            "add 100 set 3 count ip from any to any",
            "set disable 3",
            "table 1 add 10.0.0.0/8 5 192.0.2.1",
            "table l create type iface",
        ],
    )
    .unwrap();
    let sets: Sets = ask(&gateway, &Request::Sets {}).unwrap();
    assert_eq!((sets.disabled, sets.enabled.len()), (vec![3], 31));
    let page: Page<RuleRow> = ask(&gateway, &Request::Rules { numbers: Vec::new(), from: 0 }).unwrap();
    let off: Vec<(u8, bool)> = page.rows.iter().map(|row| (row.set, row.is_off)).collect();
    assert_eq!(off, [(3, true), (0, false)]);
    let tables: Page<TableRow> = ask(&gateway, &Request::Tables { from: 0 }).unwrap();
    let tables: Vec<(String, String, usize)> = tables.rows.into_iter().map(|row| (row.name, row.kind, row.keys)).collect();
    assert_eq!(tables, [("1".to_owned(), "addr".to_owned(), 2), ("l".to_owned(), "iface".to_owned(), 0)]);
    let keys: Page<KeyRow> = ask(&gateway, &Request::Keys { table: "1".to_owned(), from: 1 }).unwrap();
    assert_eq!(keys.rows, [KeyRow { key: "192.0.2.1".to_owned(), value: 0 }]);
    let none = ask::<Page<KeyRow>>(&gateway, &Request::Keys { table: "2".to_owned(), from: 0 }).unwrap_err();
    assert!(none.contains("no table has the name 2"));
}

#[test]
fn many_rules_are_one_change_and_come_in_pages() {
    let gateway = gateway(true);
    let commands: Vec<String> =
        (1..=2_500).map(|number| format!("add {number} count ip from 10.0.{}.{} to any", number / 256, number % 256)).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let changed = change(&gateway, &commands).unwrap();
    assert_eq!((changed.added, changed.rules), (2_500, 2_501));
    assert!(changed.lines.len() < 2_500 && changed.lines[0] == "00001 count ip from 10.0.0.1 to any", "{}", changed.lines.len());
    let (mut from, mut all) = (Some(0), Vec::new());
    while let Some(first) = from {
        let page: Page<RuleRow> = ask(&gateway, &Request::Rules { numbers: Vec::new(), from: first }).unwrap();
        assert!(page.version == 2 && page.rows.len() <= 1_000);
        all.extend(page.rows.iter().map(|row| row.number));
        from = page.next;
    }
    assert!(all.into_iter().eq((1..=2_500).chain([65_535])));
}

#[test]
fn routes_are_changed_whole_and_listed_by_their_networks() {
    let gateway = gateway(true);
    let changes = [
        "add 10.1.0.0/16 via 10.0.0.2",
        "add 10.1.2.0/24 via 10.0.0.3 interface vlan20",
        "add 10.1.2.0/24 via 10.0.0.2",
        "add default via 10.0.0.2",
        "add 10.2.0.0/16 via 10.0.0.2",
    ];
    let changed = change_routes(&gateway, &changes).unwrap();
    assert_eq!(changed, RoutesChanged { added: 5, known: 0, deleted: 0, routes: 5, is_in_force: true });
    let all = [
        "0.0.0.0/0 10.0.0.2",
        "10.1.0.0/16 10.0.0.2",
        "10.1.2.0/24 10.0.0.2",
        "10.1.2.0/24 10.0.0.3 vlan20",
        "10.2.0.0/16 10.0.0.2",
    ];
    assert_eq!(routes(&gateway, None), all);
    assert_eq!(routes(&gateway, Some("10.1.0.0/16")), all[1..4]);
    assert_eq!(routes(&gateway, Some("2001:db8::/32")), [""; 0]);
    let before = gateway.1.routes.borrow().len();
    for (changes, words) in [
        (vec!["delete 10.2.0.0/16", "delete 10.2.0.0/16"], "line 1: there is no route 10.2.0.0/16: "),
        (vec!["", "add 10.3.0.0/16 via 10.0.0.2 interface vlan9"], "\"\" is no route: write PREFIX via ROUTER"),
        (
            vec!["delete 0.0.0.0/0", "add 10.3.0.0/16 via 10.0.0.2 interface vlan9"],
            "line 1: the gateway has no interface \"vlan9\"",
        ),
        (
            vec!["add 10.3.0.0/16 via 10.0.0.2", "add 10.3.0.1/16 via 10.0.0.2"],
            "line 1: 10.3.0.1/16 has bits set behind its prefix: write 10.3.0.0/16",
        ),
        (vec!["delete 10.1.0.0/16", "add 10.3.0.0/16 via 192.0.2.1"], "line 1: 192.0.2.1 is in no network of ours"),
        (vec!["delete 10.1.0.0/16", "add 10.0.0.0/8 via 10.0.0.2"], "line 1: 10.0.0.0/8 is a network of the gateway's own"),
        (vec!["delete 10.1.2.0/24 via 10.0.0.9"], "there is no route 10.1.2.0/24 via 10.0.0.9"),
        (vec!["add 10.0.0.0/33 via 10.0.0.2"], "10.0.0.0/33: the family of this address has 32 bits"),
        (vec!["add ten via 10.0.0.2"], "\"ten\" is no network"),
        (vec!["add 10.0.0.0/8 via router"], "\"router\" is no router"),
        (vec!["add 10.0.0.0/8 dev vlan10"], "\"10.0.0.0/8 dev vlan10\" is no route"),
    ] {
        let why = change_routes(&gateway, &changes).unwrap_err();
        assert!(why.starts_with(words), "{changes:?}: {why}");
        assert_eq!((routes(&gateway, None).len(), gateway.1.routes.borrow().len()), (5, before), "{changes:?}");
    }
    let changed =
        change_routes(&gateway, &["add 10.1.0.0/16 via 10.0.0.2", "delete 10.1.2.0/24", "add 10.4.0.0/16 via 10.0.0.2"]).unwrap();
    assert_eq!((changed.added, changed.known, changed.deleted, changed.routes), (1, 1, 2, 4));
    let told: Vec<RouteChange> = gateway.1.routes.borrow()[before..].to_vec();
    let delete = |last| RouteChange::Delete { destination: [10, 1, 2, 0].into(), bits: 24, router: [10, 0, 0, last].into() };
    let add =
        RouteChange::Add(Route { destination: [10, 4, 0, 0].into(), bits: 16, router: [10, 0, 0, 2].into(), interface: None });
    assert_eq!(told, [delete(2), delete(3), add]);
}

#[test]
fn a_network_has_a_bounded_number_of_routes() {
    let gateway = gateway(true);
    let many: Vec<String> = (1..=17).map(|last| format!("add 10.1.0.0/16 via 10.0.0.{last}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(change_routes(&gateway, &many).unwrap_err(), "line 16: 10.1.0.0/16 has 16 routes already: delete one first");
    assert_eq!(change_routes(&gateway, &many[..16]).unwrap().routes, 16);
    assert_eq!(change_routes(&gateway, &["delete 10.1.0.0/16 via 10.0.0.1", many[16]]).unwrap().routes, 16);
}

#[test]
fn a_way_is_told_with_its_neighbour() {
    let gateway = gateway(true);
    let way = |to: &str| ask::<Way>(&gateway, &Request::Way { to: to.parse().unwrap() }).unwrap();
    let far = way("192.0.2.7");
    assert_eq!((far.interface.as_deref(), far.router, far.is_own), (Some("vlan20"), Some([10, 0, 0, 2].into()), false));
    assert_eq!((far.neighbour.as_deref(), far.link_address.as_deref()), (Some("stale"), Some("02:00:00:00:00:01")));
    assert_eq!(way("10.0.0.2").router, None, "it is the neighbour");
    let own = way("10.0.0.1");
    assert!(own.is_own && own.neighbour.is_none());
    let none = way("2001:db8::1");
    assert_eq!((none.interface, none.router, none.neighbour), (None, None, None));
}

#[test]
fn a_trace_counts_nothing_and_knows_states() {
    let gateway = gateway(false);
    let commands =
        ["add 100 count ip from any to me", "add 200 check-state", "add 300 allow udp from 10.0.10.0/24 to any keep-state"];
    change(&gateway, &commands).unwrap();
    let trace = |text: &str| -> Result<Vec<String>, String> {
        ask(&gateway, &Request::Trace { packet: text.to_owned(), from: 0 }).map(|page: Page<String>| page.rows)
    };
    let lines = trace(PACKET).unwrap();
    assert_eq!(lines[2], "00300 allow udp from 10.0.10.0/24 to any keep-state :default: matches");
    assert_eq!(lines[3], "verdict: allow by rule 300");
    assert!(lines[4].starts_with("carried out by tree: ") && lines.len() == 5, "{lines:?}");
    assert!(trace("udp 10.0.10.5:1 > 10.0.0.1:2").unwrap()[0].ends_with("count ip from any to me: matches"));
    assert!(show(&gateway).iter().all(|(_, packets, _)| *packets == 0));
    gateway.1.packet(1, PACKET);
    let back = trace("out via vlan10 udp 192.0.2.1:80 > 10.0.10.5:4000").unwrap();
    assert!(back[1].ends_with("the flow has a state, which rule 300 made"), "{back:?}");
    assert_eq!(back.last().unwrap(), "the state is lane 1's");
    assert!(trace("in via vlan30 udp").unwrap_err().contains("there is no interface \"vlan30\""));
}

/// A program of a port that counts as well.
#[derive(Default)]
struct Program(Arc<Mutex<(u64, usize)>>, Arc<AtomicUsize>);

impl Beside for Program {
    fn counts(&self, rules: &[RuleId]) -> Vec<Count> {
        vec![Count { packets: self.0.lock().unwrap().0, bytes: 100, last: 6_000_000_000 }; rules.len()]
    }

    fn add_traffic(&self, interface: usize, row: &mut InterfaceRow) -> Passed {
        self.1.fetch_add(1, Ordering::Relaxed);
        let (forwarded, denied) = (10 * (interface as u64 + 1), 100);
        row.packets_in += forwarded;
        row.losses.refused += denied;
        row.redirect_lost = row.device.map(u64::from);
        Passed { forwarded, denied }
    }

    fn state(&self, Passed { forwarded, denied }: Passed) -> FastPath {
        FastPath { is_on: true, lost: Some(3), forwarded, denied, ..FastPath::default() }
    }

    fn zero(&mut self, _: &[RuleId]) {
        self.0.lock().unwrap().0 = 0;
    }

    fn follow(&mut self, set: &RuleSet) {
        self.0.lock().unwrap().1 = set.rules().len();
    }
}

#[test]
fn another_source_counts_as_well() {
    let gateway = gateway(true);
    let shared = Arc::new(Mutex::new((7, 0)));
    let read = Arc::new(AtomicUsize::new(0));
    gateway.0.offload(Box::new(Program(shared.clone(), read.clone())));
    assert_eq!(*shared.lock().unwrap(), (7, 1), "it has the rules that there are");
    gateway.1.packet(0, PACKET);
    let page: Page<RuleRow> = ask(&gateway, &Request::Rules { numbers: Vec::new(), from: 0 }).unwrap();
    let row = &page.rows[0];
    assert_eq!((row.packets, row.bytes, row.idle_nanoseconds), (8, 128, Some(1_000_000_000)));
    change(&gateway, &["add count ip from any to any"]).unwrap();
    assert_eq!(*shared.lock().unwrap(), (7, 2));
    change(&gateway, &["zero"]).unwrap();
    assert_eq!(*shared.lock().unwrap(), (0, 2));
    let page: Page<InterfaceRow> = ask(&gateway, &Request::Interfaces { from: 0 }).unwrap();
    let rows: Vec<_> = page.rows.into_iter().map(|row| (row.packets_in, row.losses.refused, row.redirect_lost)).collect();
    assert_eq!(rows, [(11, 101, None), (22, 102, Some(7))], "lanes and programs together");
    let totals: Totals = ask(&gateway, &Request::Totals {}).unwrap();
    assert_eq!(
        totals.fast_path,
        Some(FastPath { is_on: true, lost: Some(3), forwarded: 30, denied: 200, ..FastPath::default() })
    );
    assert_eq!(read.load(Ordering::Relaxed), 4, "each interface is read once for each answer");
    assert_eq!(totals.losses.refused, 203);
}

#[test]
fn a_configuration_that_is_read_again_takes_the_place_of_what_there_is() {
    let gateway = gateway(true);
    change(&gateway, &["add 100 count ip from any to any", "add 200 count ip from any to any"]).unwrap();
    change_routes(
        &gateway,
        &["add 10.1.0.0/16 via 10.0.0.2", "add 10.2.0.0/16 via 10.0.0.2", "add 10.3.0.0/16 via 10.0.0.2 interface vlan10"],
    )
    .unwrap();
    gateway.1.packet(0, PACKET);
    gateway.1.routes.borrow_mut().clear();
    let mut rules = Rules::new(true, Limits::default());
    rules.apply(command("add 100 count ip from any to any", 1).unwrap()).unwrap();
    rules.apply(command("add 300 count ip from any to any in via vlan10", 1).unwrap()).unwrap();
    let route = |second, last, interface| Route {
        destination: [10, second, 0, 0].into(),
        bits: 16,
        router: [10, 0, 0, last].into(),
        interface,
    };
    let routes_now = vec![route(1, 2, None), route(2, 3, None), route(3, 2, Some(1))];
    let refused =
        gateway.0.lock().replace(rules.clone(), vec![Route { router: [192, 0, 2, 1].into(), ..route(1, 2, None) }], &gateway.1);
    assert!(refused.unwrap_err().contains("no network of ours"));
    assert_eq!((show(&gateway).len(), routes(&gateway, None).len()), (3, 3));
    gateway.0.lock().replace(rules, routes_now, &gateway.1).unwrap();
    let delete =
        |second, last| RouteChange::Delete { destination: [10, second, 0, 0].into(), bits: 16, router: [10, 0, 0, last].into() };
    let told = [delete(3, 2), RouteChange::Add(route(2, 3, None)), RouteChange::Add(route(3, 2, Some(1))), delete(2, 2)];
    assert_eq!(*gateway.1.routes.borrow(), told, "a network has a way all the time, but where its router's interface changes");
    assert_eq!(routes(&gateway, None), ["10.1.0.0/16 10.0.0.2", "10.2.0.0/16 10.0.0.3", "10.3.0.0/16 10.0.0.2 vlan20"]);
    gateway.1.packet(1, PACKET);
    let counts: Vec<(u16, u64)> = show(&gateway).iter().map(|(number, packets, _)| (*number, *packets)).collect();
    assert_eq!(counts, [(100, 2), (300, 1), (65_535, 2)]);
}

#[test]
fn what_there_is_is_told() {
    let gateway = gateway(true);
    change(&gateway, &["add count ip from any to any", "table 1 add 10.0.0.0/8 192.0.2.1", "table 2 add 10.1.0.0/16"]).unwrap();
    change_routes(&gateway, &["add 10.1.0.0/16 via 10.0.0.2"]).unwrap();
    let totals: Totals = ask(&gateway, &Request::Totals {}).unwrap();
    assert_eq!((totals.lanes, totals.interfaces, totals.rules, totals.tables, totals.keys, totals.routes), (2, 2, 2, 2, 3, 1));
    assert!(totals.execution == "tree" && totals.report.is_some());
    let page: Page<InterfaceRow> = ask(&gateway, &Request::Interfaces { from: 0 }).unwrap();
    let rows: Vec<(String, u64)> = page.rows.into_iter().map(|row| (row.name, row.packets_in)).collect();
    assert_eq!(rows, [("vlan10".to_owned(), 1), ("vlan20".to_owned(), 2)]);
    assert_eq!(totals.losses, Losses { refused: 3, errors: 40, not_ours: 60, drops: 120, unsent: 100 });
}

#[test]
fn what_is_no_request_is_refused() {
    let (ruling, lanes) = gateway(true);
    for bad in ["gateway", "gateway ", "gateway {}", "gateway list", "gateway {\"flush\":{}}", "gateway {\"sets\":{}} "] {
        let said = ruling.lock().answer(bad, &lanes);
        assert_eq!(said.is_ok(), bad.ends_with("} "), "{bad}: {said:?}");
    }
}

/// A table that is followed: ways of the network 10.1.0.0/16, or of another.
fn come(router: &str, interface: &str) -> RouteEvent {
    let (destination, bits): (IpAddr, u8) = match router.contains(':') {
        true => ("fd00:1::".parse().unwrap(), 32),
        false => ([10, 1, 0, 0].into(), 16),
    };
    RouteEvent::Add(followed::Route { destination, bits, router: router.parse().unwrap(), interface: interface.into() })
}

fn gone(router: &str) -> RouteEvent {
    let RouteEvent::Add(followed::Route { destination, bits, router, .. }) = come(router, "") else { unreachable!() };
    RouteEvent::Delete { destination, bits, router }
}

fn follow(gateway: &(Ruling, Double), told: &[RouteEvent]) -> Result<usize, String> {
    gateway.0.lock().follow(told, &gateway.1)
}

/// Lanes as they carry out what they are told: the ways of each network.
fn of_lanes(gateway: &(Ruling, Double)) -> Vec<String> {
    let mut ways: Vec<Route> = Vec::new();
    for change in gateway.1.routes.borrow().iter() {
        match *change {
            RouteChange::Add(route) if !ways.contains(&route) => ways.push(route),
            RouteChange::Add(_) => {}
            RouteChange::Delete { destination, bits, router } => {
                ways.retain(|way| (way.destination, way.bits, way.router) != (destination, bits, router));
            }
        }
    }
    let text = |way: Route| {
        let interface = way.interface.map_or("", |number| ["vlan10", "vlan20"][number]);
        format!("{}/{} {} {interface}", way.destination, way.bits, way.router)
    };
    let mut texts: Vec<_> = ways.into_iter().map(text).collect();
    texts.sort();
    texts
}

#[test]
fn a_table_that_is_followed_stands_beside_the_routes_of_the_gateways_own() {
    let gateway = gateway(true);
    change_routes(&gateway, &["add 10.1.0.0/16 via 10.0.0.2", "add 10.2.0.0/16 via 10.0.0.2"]).unwrap();
    assert_eq!(follow(&gateway, &[come("10.0.0.3", "eth7"), come("10.0.0.2", "eth7"), come("10.0.0.4", "vlan20")]), Ok(0));
    let (own, other) =
        (["10.1.0.0/16 10.0.0.2 ", "10.2.0.0/16 10.0.0.2 "], ["10.1.0.0/16 10.0.0.3 ", "10.1.0.0/16 10.0.0.4 vlan20"]);
    let of = |parts: &[&[&str]]| {
        let mut all: Vec<_> = parts.concat().into_iter().map(str::to_owned).collect();
        all.sort();
        all
    };
    assert_eq!(of_lanes(&gateway), of(&[&own, &other]));
    let shown: Vec<_> = of(&[&own]).into_iter().chain(of(&[&own[..1], &other])).map(|row| row.trim_end().to_owned()).collect();
    assert_eq!(routes(&gateway, None), shown, "its own first");
    // A route that both have by a router stays as long as one has it.
    assert_eq!(follow(&gateway, &[gone("10.0.0.2"), gone("10.0.0.9")]), Ok(0));
    assert_eq!(of_lanes(&gateway), of(&[&own, &other]));
    assert_eq!(follow(&gateway, &[come("10.0.0.2", "eth7")]), Ok(0));
    change_routes(&gateway, &["delete 10.1.0.0/16"]).unwrap();
    assert_eq!(of_lanes(&gateway), of(&[&own, &other]), "it is of the table, too");
    assert_eq!(
        change_routes(&gateway, &["delete 10.1.0.0/16"]).unwrap_err().split(':').next(),
        Some("there is no route 10.1.0.0/16")
    );
    assert_eq!(follow(&gateway, &[gone("10.0.0.2"), gone("10.0.0.3"), gone("10.0.0.4")]), Ok(0));
    assert_eq!(of_lanes(&gateway), of(&[&own[1..]]));
    // A file that is read again changes nothing of what is followed.
    assert_eq!(follow(&gateway, &[come("10.0.0.2", "eth7"), come("10.0.0.3", "eth7")]), Ok(0));
    let route = Route { destination: [10, 1, 0, 0].into(), bits: 16, router: [10, 0, 0, 2].into(), interface: None };
    for routes in [vec![route], Vec::new()] {
        gateway.0.lock().replace(Rules::new(true, Limits::default()), routes, &gateway.1).unwrap();
        assert_eq!(of_lanes(&gateway), of(&[&own[..1], &other[..1]]));
    }
}

#[test]
fn a_route_that_is_followed_goes_by_the_interface_of_its_name_or_its_router() {
    let gateway = gateway(true);
    let told = [come("10.0.0.2", "vlan10"), come("10.0.0.77", "vlan10"), come("10.0.0.3", "eth7"), come("fe80::9", "vlan20")];
    assert_eq!(follow(&gateway, &told), Ok(0));
    let named = ["10.1.0.0/16 10.0.0.2 vlan10", "10.1.0.0/16 10.0.0.3 ", "10.1.0.0/16 10.0.0.77 ", "fd00:1::/32 fe80::9 vlan20"];
    assert_eq!(of_lanes(&gateway), named);
    // An address of the link says nothing without its interface, and a router elsewhere is none.
    assert_eq!(follow(&gateway, &[come("fe80::8", "eth7"), come("192.0.2.1", "vlan10"), come("fd00:9::1", "vlan10")]), Ok(3));
    assert_eq!(follow(&gateway, &[gone("192.0.2.1"), gone("fe80::8")]), Ok(0), "what was left out goes in silence");
    assert_eq!(of_lanes(&gateway), named);
}

#[test]
fn what_is_followed_is_bounded_and_told_whole_or_not_at_all() {
    let gateway = gateway(true);
    let own: Vec<_> = (1..=10).map(|last| format!("add 10.1.0.0/16 via 10.0.0.{last}")).collect();
    change_routes(&gateway, &own.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let more: Vec<_> = (11..=20).map(|last| come(&format!("10.0.0.{last}"), "eth7")).collect();
    gateway.1.has_room.set(false);
    assert_eq!(follow(&gateway, &more).unwrap_err(), "lane 1 has no room");
    assert_eq!((of_lanes(&gateway).len(), routes(&gateway, None).len()), (10, 10));
    gateway.1.has_room.set(true);
    assert_eq!(follow(&gateway, &more), Ok(4), "there may be 16 ways to a network");
    assert_eq!((of_lanes(&gateway).len(), routes(&gateway, None).len()), (16, 16));
    let why = change_routes(&gateway, &["add 10.1.0.0/16 via 10.0.0.99"]).unwrap_err();
    assert!(why.starts_with("10.1.0.0/16 has 16 routes with those of the kernel's table"), "{why}");
    assert_eq!((of_lanes(&gateway).len(), routes(&gateway, None).len()), (16, 16));
}
