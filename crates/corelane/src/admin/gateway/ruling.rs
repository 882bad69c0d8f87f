//! The owner of a gateway's rules and routes, on the side of control.
//!
//! ```text
//! request --words--> commands --a copy of the rules--> compiled --Policy--> all lanes, or none --> the copy takes the place of the rules --> answer
//! ```
//!
//! A change is made beside what is there, and lanes are told last. Where one has no room for more words, none is told, and nothing has changed. Once they are told, each
//! takes the change when its turn ends, however long that is; whoever asked hears if he was not waited for.

use super::lanes::{Beside, Counted, InForce, Lanes, Passed, Seen};
use super::routes::{self, Change, Routes, at_line};
use super::words::{
    Changed, InterfaceRow, KeyRow, Losses, ROWS_MAX, Request, RouteRow, RuleRow, SHOWN_MAX, Sets, Shown, ShownTable, TableRow,
    Totals, Way, json, page,
};
use crate::admin::control_client::GATEWAY;
use corelane_machine::routes::{self as followed, RouteEvent};
use corelane_rules::language::{Command, Rule, command, import, packet};
use corelane_rules::{Count, Error, Execution, Outcome, Records, RuleId, RuleSet, Rules, Table};
use corelane_stack::{Policy, Route, RouteChange, WAYS_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// Bytes of the lines that an answer has of rules that were added.
const LINES_BYTES: usize = 64 << 10;

/// Keys of a table at the most that is compared with what it was.
const COMPARED_KEYS_MAX: usize = 10_000;

/// All that a gateway's lanes have, as they were told it last. Requests are carried out one after the other.
pub(crate) struct Ruling {
    ruled: Mutex<Ruled>,
}

struct Ruled {
    rules: Rules,
    execution: Execution,
    /// The rules that all lanes have, or will have when their turn ends.
    set: Arc<RuleSet>,
    /// The rules that they had before: kept, so that no lane takes the time to free them.
    before: Option<Arc<RuleSet>>,
    /// How often the rules were changed.
    version: u64,
    /// The version at which each table changed last.
    tables: BTreeMap<String, u64>,
    interfaces: Vec<String>,
    routes: Routes,
    /// Those that follow a table of the kernel's.
    followed: Routes,
    /// The ports' programs.
    beside: Option<Box<dyn Beside>>,
}

impl Ruling {
    /// Of these rules, carried out so, and of these routes. Interfaces have their names in the order of their numbers, from 0.
    ///
    /// # Errors
    /// There are more interfaces than rules can tell apart.
    pub(crate) fn new(
        mut rules: Rules,
        execution: Execution,
        interfaces: Vec<String>,
        routes: Vec<Route>,
    ) -> Result<Self, Error> {
        rules.name_interfaces(interfaces.clone())?;
        let set = Arc::new(rules.compile(execution));
        let routes = Routes::of(routes);
        let (followed, beside) = (Routes::default(), None);
        let tables = BTreeMap::new();
        let ruled = Ruled { rules, execution, set, before: None, version: 1, tables, interfaces, routes, followed, beside };
        Ok(Self { ruled: Mutex::new(ruled) })
    }

    /// The rules that lanes begin with.
    pub(crate) fn set(&self) -> Arc<RuleSet> {
        self.lock().set.clone()
    }

    /// Has the ports' programs carry out the rules as well from now on; what they count is added to what lanes do.
    pub(crate) fn offload(&self, mut to: Box<dyn Beside>) {
        let mut ruled = self.lock();
        to.follow(&ruled.set);
        ruled.beside = Some(to);
    }

    /// Carries out a request of [`gateway`](crate::admin::gateway), which begins with that word; the answer is one line.
    ///
    /// # Errors
    /// What is wrong with it, and the remedy; then nothing has changed.
    pub(crate) fn answer(&self, request: &str, lanes: &impl Lanes) -> Result<String, String> {
        self.lock().answer(request, lanes)
    }

    /// Puts the rules and routes of a configuration in force that was read again; counters stay with the rules that stay.
    ///
    /// # Errors
    /// What is wrong; then nothing has changed.
    pub(crate) fn replace(&self, rules: Rules, routes: Vec<Route>, lanes: &impl Lanes) -> Result<InForce, String> {
        self.lock().replace(rules, routes, lanes)
    }

    /// Carries out what a table that is followed has told: routes with the names of the kernel's interfaces. Routes of the gateway's own stay. How many routes cannot be taken: their
    /// routers are in no network of the gateway's, or there is no room.
    ///
    /// # Errors
    /// Lanes cannot be told now; then nothing has changed.
    pub(crate) fn follow(&self, told: &[RouteEvent], lanes: &impl Lanes) -> Result<usize, String> {
        self.lock().follow(told, lanes)
    }

    /// The view for those who watch; `look` tells what these rules have counted. There is none while a change is under way.
    pub(crate) fn shown(&self, look: impl FnOnce(Vec<RuleId>) -> Option<(Counted, Seen)>) -> Option<Shown> {
        let (mut rules, ids) = self.ruled.try_lock().ok()?.first_rules();
        // Lanes are waited for without the rules.
        let (counted, totals) = look(ids)?;
        rules.iter_mut().zip(counted.counts).for_each(|(row, count)| {
            row.packets += count.packets;
            row.bytes += count.bytes;
        });
        let ruled = self.ruled.try_lock().ok()?;
        let (mut interfaces, totals) = ruled.with_names(totals);
        interfaces.truncate(SHOWN_MAX);
        Some(Shown { interfaces, rules, tables: ruled.shown_tables(), routes_version: ruled.routes_version(), totals })
    }

    fn lock(&self) -> MutexGuard<'_, Ruled> {
        // A change is made beside what is there, and takes its place whole.
        self.ruled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ruled {
    fn answer(&mut self, request: &str, lanes: &impl Lanes) -> Result<String, String> {
        let (_, text) = request.split_once(' ').unwrap_or_default();
        let other = |why| format!("this is no request of a {GATEWAY}, or one of another version of this program: {why}");
        match serde_json::from_str(text).map_err(other)? {
            Request::Change { commands } => {
                let commands = commands.iter().map(|text| command(text, 1).map(|one| (0, one)));
                self.change(commands.collect::<Result<_, _>>().map_err(words)?, false, lanes)
            }
            Request::Import { script, only_checks } => self.change(import(&script).map_err(words)?, only_checks, lanes),
            Request::Rules { numbers, from } => self.show(&numbers, from, lanes),
            Request::Sets {} => json(&sets(self.rules.sets_off())),
            Request::Tables { from } => page(
                self.version,
                from,
                self.rules.tables().skip(from).map(|(name, table)| {
                    let kind = if table.is_of_links() { "iface" } else { "addr" };
                    TableRow { name: name.to_owned(), kind: kind.to_owned(), keys: table.len() }
                }),
            ),
            Request::Keys { table, from } => self.keys(&table, from),
            Request::ChangeRoutes { changes } => self.change_routes(&changes, lanes),
            Request::Routes { within, from } => {
                let within = within.as_deref().map(routes::prefix).transpose()?;
                let followed = self.followed.within(within, &self.interfaces).map(|row| RouteRow { is_followed: true, ..row });
                page(self.routes_version(), from, self.routes.within(within, &self.interfaces).chain(followed).skip(from))
            }
            Request::Way { to } => self.way(to, lanes),
            Request::Trace { packet, from } => self.trace(&packet, from, lanes),
            Request::Interfaces { from } => {
                let (rows, _) = self.totals(lanes)?;
                page(1, from, rows.into_iter().skip(from))
            }
            Request::Totals {} => json(&self.totals(lanes)?.1),
        }
    }

    /// Carries out commands, each with its line, all of them or none; or only looks what would come of them.
    fn change(&mut self, commands: Vec<(usize, Command)>, only_checks: bool, lanes: &impl Lanes) -> Result<String, String> {
        let lines: Vec<usize> = commands.iter().map(|(line, _)| *line).collect();
        let mut rules = self.rules.clone();
        let outcomes = rules
            .apply_all(commands.into_iter().map(|(_, command)| command))
            .map_err(|(index, why)| at_line(lines.get(index).copied().unwrap_or_default(), why.to_string()))?;
        let (mut added, mut zero, mut reset, mut is_other) = (Vec::new(), Vec::new(), Vec::new(), false);
        for outcome in outcomes {
            match outcome {
                Outcome::Changed => is_other = true,
                Outcome::Added(_, rule) => added.push(rule),
                Outcome::Zero(all) => zero.extend(all),
                Outcome::ResetLog(all) => reset.extend(all),
            }
        }
        added.sort_unstable();
        let is_new = |(rule, _, _): &(RuleId, u16, _)| added.binary_search(rule).is_ok();
        let texts = rules.all().filter(is_new).map(|(_, number, rule)| format!("{number:05} {rule}"));
        let mut bytes = 0;
        let lines = texts.take_while(|line| {
            bytes += line.len();
            bytes <= LINES_BYTES
        });
        let mut changed = Changed { added: added.len(), lines: lines.collect(), rules: rules.all().len(), is_in_force: false };
        if only_checks {
            return json(&changed);
        }
        let set = (is_other || !added.is_empty()).then(|| Arc::new(rules.compile(self.execution)));
        changed.is_in_force = self.put(set.map(|set| (rules, set)), &zero, &reset, lanes)? == InForce::Now;
        json(&changed)
    }

    /// Has lanes go by other rules, if there are any, and begin counters again.
    fn put(
        &mut self,
        other: Option<(Rules, Arc<RuleSet>)>,
        zero: &[RuleId],
        reset: &[RuleId],
        lanes: &impl Lanes,
    ) -> Result<InForce, String> {
        let mut orders: Vec<Policy> = other.iter().map(|(_, set)| Policy::Rules(set.clone())).collect();
        orders.extend((!zero.is_empty()).then(|| Policy::ZeroRules(zero.into())));
        orders.extend((!reset.is_empty()).then(|| Policy::ResetLog(reset.into())));
        let in_force = self.tell(&orders, other.as_ref().map(|(_, set)| set), lanes)?;
        if let Some((rules, set)) = other {
            self.succeed(rules, set);
        }
        self.beside.iter_mut().filter(|_| !zero.is_empty()).for_each(|beside| beside.zero(zero));
        Ok(in_force)
    }

    /// Gives lanes orders, with the rules among them, if there are any. Ports' programs have these first: no lane that hangs keeps them waiting.
    fn tell(&mut self, orders: &[Policy], set: Option<&Arc<RuleSet>>, lanes: &impl Lanes) -> Result<InForce, String> {
        self.beside.iter_mut().zip(set).for_each(|(beside, set)| beside.follow(set));
        let told = lanes.tell(orders);
        if told.is_err() {
            self.beside.iter_mut().zip(set).for_each(|(beside, _)| beside.follow(&self.set));
        }
        told
    }

    fn replace(&mut self, others: Rules, routes: Vec<Route>, lanes: &impl Lanes) -> Result<InForce, String> {
        let mut rules = self.rules.clone();
        rules.succeed(others);
        rules.name_interfaces(self.interfaces.clone()).map_err(words)?;
        let (set, routes) = (Arc::new(rules.compile(self.execution)), Routes::of(routes));
        let changes = self.routes.changes_to(&routes, &self.followed);
        self.check_routes(
            changes.iter().filter_map(|change| match change {
                RouteChange::Add(route) => Some((0, *route)),
                RouteChange::Delete { .. } => None,
            }),
            lanes,
        )?;
        let mut orders = vec![Policy::Rules(set.clone())];
        let changes = Routes::beside(changes, &self.followed);
        orders.extend((!changes.is_empty()).then(|| Policy::Routes(changes.into())));
        let in_force = self.tell(&orders, Some(&set), lanes)?;
        self.succeed(rules, set);
        self.routes.succeed(routes);
        Ok(in_force)
    }

    /// Others take the place of the rules, with their tables.
    fn succeed(&mut self, rules: Rules, set: Arc<RuleSet>) {
        self.version += 1;
        let before: BTreeMap<&str, &Table> = self.rules.tables().collect();
        let versions = rules.tables().map(|(name, table)| {
            let is_same = before.get(name).is_some_and(|before| is_same(before, table));
            let known = self.tables.get(name).copied().unwrap_or_default();
            (name.to_owned(), if is_same { known } else { self.version })
        });
        self.tables = versions.collect();
        (self.rules, self.before) = (rules, Some(std::mem::replace(&mut self.set, set)));
    }

    fn shown_tables(&self) -> Vec<ShownTable> {
        let shown = |(name, table): (&str, &Table)| ShownTable {
            name: name.to_owned(),
            keys: table.len(),
            version: self.tables.get(name).copied().unwrap_or_default(),
        };
        self.rules.tables().map(shown).collect()
    }

    fn routes_version(&self) -> u64 {
        self.routes.version() + self.followed.version()
    }

    /// Rules from the one with that place among those that are meant, with their counts.
    fn show(&self, numbers: &[(u16, u16)], from: usize, lanes: &impl Lanes) -> Result<String, String> {
        for (first, last) in numbers {
            if !self.rules.all().any(|(_, number, _)| (*first..=*last).contains(&number)) {
                return Err(words(Error::NoRule { number: *first }));
            }
        }
        let is_meant = |number: u16| numbers.is_empty() || numbers.iter().any(|(first, last)| (*first..=*last).contains(&number));
        let meant = || self.rules.all().filter(|(_, number, _)| is_meant(*number)).skip(from);
        let asked: Vec<RuleId> = meant().take(ROWS_MAX).map(|(rule, _, _)| rule).collect();
        let counted = lanes.counts(&asked)?;
        let beside = self.counted_beside(&asked);
        let off = self.rules.sets_off();
        let rows = meant().enumerate().map(|(at, (_, number, rule))| {
            let mut count = counted.counts.get(at).copied().unwrap_or_default();
            count += beside.get(at).copied().unwrap_or_default();
            let idle_nanoseconds = (count.last > 0).then(|| counted.now.saturating_sub(count.last));
            RuleRow { idle_nanoseconds, ..row(number, rule, count, off) }
        });
        page(self.version, from, rows)
    }

    /// The counts of rules beside the lanes, in their order.
    fn counted_beside(&self, rules: &[RuleId]) -> Vec<Count> {
        self.beside.as_ref().map_or_else(Vec::new, |beside| beside.counts(rules))
    }

    /// As many rules as are shown to those who watch, without the counts of lanes; and who they are.
    fn first_rules(&self) -> (Vec<RuleRow>, Vec<RuleId>) {
        let off = self.rules.sets_off();
        let first = || self.rules.all().take(SHOWN_MAX);
        let ids: Vec<RuleId> = first().map(|(id, _, _)| id).collect();
        let beside = self.counted_beside(&ids);
        let count = |at: usize| beside.get(at).copied().unwrap_or_default();
        let rows = first().enumerate().map(|(at, (_, number, rule))| row(number, rule, count(at), off));
        (rows.collect(), ids)
    }

    fn keys(&self, name: &str, from: usize) -> Result<String, String> {
        let found = self.rules.tables().find(|(known, _)| *known == name);
        let (_, table) = found.ok_or_else(|| words(Error::NoTable { name: name.to_owned() }))?;
        page(self.version, from, table.entries().skip(from).map(|(key, value)| KeyRow { key: key.to_string(), value }))
    }

    fn change_routes(&mut self, changes: &[(usize, String)], lanes: &impl Lanes) -> Result<String, String> {
        let read = |(line, text): &(usize, String)| {
            Change::read(text, &self.interfaces).map(|change| (*line, change)).map_err(|why| at_line(*line, why))
        };
        let changes: Vec<(usize, Change)> = changes.iter().map(read).collect::<Result<_, _>>()?;
        let adds = changes.iter().filter_map(|(line, change)| match change {
            Change::Add(route) => Some((*line, *route)),
            Change::Delete { .. } => None,
        });
        self.check_routes(adds, lanes)?;
        let mut done = self.routes.change(&changes)?;
        if let Some((destination, bits)) = Routes::too_many(&done.orders, &self.routes, &self.followed) {
            self.routes.undo(done);
            return Err(format!("{destination}/{bits} has {WAYS_MAX} routes with those of the kernel's table: delete one there"));
        }
        let orders = Routes::beside(std::mem::take(&mut done.orders), &self.followed);
        let orders: Vec<Policy> = (!orders.is_empty()).then(|| Policy::Routes(orders.into())).into_iter().collect();
        match lanes.tell(&orders) {
            Ok(in_force) => {
                done.counted.is_in_force = in_force == InForce::Now;
                json(&done.counted)
            }
            Err(why) => {
                self.routes.undo(done);
                Err(why)
            }
        }
    }

    fn follow(&mut self, told: &[RouteEvent], lanes: &impl Lanes) -> Result<usize, String> {
        let (changes, strange) = self.placed(told, lanes)?;
        let (mut done, refused) = self.followed.follow(&changes, &self.routes);
        let orders = Routes::beside(std::mem::take(&mut done.orders), &self.routes);
        let orders: Vec<Policy> = (!orders.is_empty()).then(|| Policy::Routes(orders.into())).into_iter().collect();
        match lanes.tell(&orders) {
            Ok(_) => Ok(strange + refused),
            Err(why) => {
                self.followed.undo(done);
                Err(why)
            }
        }
    }

    /// The changes of a table that is followed by the gateway's interfaces: that of the kernel's name, or that whose network the router is in. Others are left out; how many.
    fn placed(&self, told: &[RouteEvent], lanes: &impl Lanes) -> Result<(Vec<RouteChange>, usize), String> {
        let number = |name: &str| self.interfaces.iter().position(|known| known == name);
        let route = |event: &RouteEvent, is_named: bool| match event {
            RouteEvent::Add(followed::Route { destination, bits, router, interface }) => {
                let interface = number(interface).filter(|_| is_named);
                Some(Route { destination: *destination, bits: *bits, router: *router, interface })
            }
            RouteEvent::Delete { .. } => None,
        };
        let tried = |is_named| -> Result<Vec<(Route, bool)>, String> {
            let routes: Vec<Route> = told.iter().filter_map(|event| route(event, is_named)).collect();
            let said = lanes.could_lead(&routes)?;
            Ok(routes.into_iter().zip(said.into_iter().map(|said| said == Ok(true))).collect())
        };
        // An address of the link says nothing of its interface.
        let is_of_link = |router: IpAddr| matches!(router, IpAddr::V6(router) if router.is_unicast_link_local());
        let (named, free) = (tried(true)?, tried(false)?);
        let mut both = named.into_iter().zip(free);
        let (mut changes, mut strange) = (Vec::with_capacity(told.len()), 0);
        for event in told {
            match event {
                RouteEvent::Delete { destination, bits, router } => {
                    changes.push(RouteChange::Delete { destination: *destination, bits: *bits, router: *router });
                }
                RouteEvent::Add(_) => match both.next() {
                    Some(((route, true), _)) if route.interface.is_some() || !is_of_link(route.router) => {
                        changes.push(RouteChange::Add(route));
                    }
                    Some((_, (route, true))) if !is_of_link(route.router) => changes.push(RouteChange::Add(route)),
                    _ => strange += 1,
                },
            }
        }
        Ok((changes, strange))
    }

    /// Whether lanes can have these routes, each with its line: what they would refuse is refused before one of them has it.
    fn check_routes(&self, routes: impl Iterator<Item = (usize, Route)>, lanes: &impl Lanes) -> Result<(), String> {
        let (lines, routes): (Vec<usize>, Vec<Route>) = routes.unzip();
        for ((line, route), said) in lines.into_iter().zip(&routes).zip(lanes.could_lead(&routes)?) {
            if !said.map_err(|why| at_line(line, why))? {
                let why = format!("{}/{} is a network of the gateway's own, which has no router", route.destination, route.bits);
                return Err(at_line(line, why));
            }
        }
        Ok(())
    }

    fn way(&self, to: IpAddr, lanes: &impl Lanes) -> Result<String, String> {
        let (is_own, found) = lanes.way(to)?;
        let name = |number: usize| self.interfaces.get(number).cloned();
        let at = found.as_ref().map(|(interface, hop, _)| (*interface, *hop));
        let known = found.and_then(|(_, _, known)| known).filter(|_| !is_own);
        let (neighbour, link_address) = known.map_or((None, None), |(state, mac)| (Some(state.to_owned()), mac));
        json(&Way {
            interface: at.and_then(|(interface, _)| name(interface)),
            router: at.map(|(_, hop)| hop).filter(|hop| *hop != to),
            is_own,
            neighbour,
            link_address,
        })
    }

    /// The rules' way with a packet, line by line: what the reader of rules sees, then how the execution in force would have come to it.
    fn trace(&self, text: &str, from: usize, lanes: &impl Lanes) -> Result<String, String> {
        let mut facts = packet(text, &self.interfaces).map_err(words)?;
        let sighted = lanes.sight(&facts)?;
        (facts.source_is_ours, facts.destination_is_ours) = (sighted.source_is_ours, sighted.destination_is_ours);
        let mut lines = self.set.trace_of(&facts, sighted.state.map(|(_, rule)| rule));
        match sighted.state {
            Some((lane, _)) => lines.push(format!("the state is lane {lane}'s")),
            None => {
                let visits = self.set.judge_and_tell(&facts, 1, &mut Records::default()).1;
                let (name, of) = named(self.execution);
                lines.push(format!("carried out by {name}: {visits} {of}"));
            }
        }
        page(self.version, from, lines.into_iter().skip(from))
    }

    fn totals(&self, lanes: &impl Lanes) -> Result<Seen, String> {
        lanes.totals().map(|seen| self.with_names(seen))
    }

    /// The view of lanes, with the names that they do not know.
    fn with_names(&self, (mut rows, totals): Seen) -> Seen {
        let mut passed = Passed::default();
        rows.resize_with(self.interfaces.len(), InterfaceRow::default);
        for (number, (row, name)) in rows.iter_mut().zip(&self.interfaces).enumerate() {
            row.name.clone_from(name);
            if let Some(beside) = &self.beside {
                let Passed { forwarded, denied } = beside.add_traffic(number, row);
                passed.forwarded += forwarded;
                passed.denied += denied;
            }
        }
        let mut losses = Losses::default();
        rows.iter().for_each(|row| losses += row.losses);
        let totals = Totals {
            losses,
            interfaces: self.interfaces.len(),
            rules: self.rules.all().len(),
            execution: named(self.execution).0.to_owned(),
            report: self.set.report(),
            tables: self.rules.tables().count(),
            keys: self.rules.tables().map(|(_, table)| table.len()).sum(),
            routes: self.routes.len() + self.followed.len(),
            fast_path: self.beside.as_ref().map(|beside| beside.state(passed)),
            ..totals
        };
        (rows, totals)
    }
}

/// A table is copied when it changes. One that was read again may be what it was; large ones are not compared.
fn is_same(before: &Table, now: &Table) -> bool {
    let is_short = now.len() <= COMPARED_KEYS_MAX && now.len() == before.len();
    std::ptr::eq(before, now) || is_short && before.entries().eq(now.entries())
}

/// A rule with its counts; `off` has a bit for each set that is switched off.
fn row(number: u16, rule: &Rule, count: Count, off: u32) -> RuleRow {
    RuleRow {
        number,
        set: rule.set,
        is_off: number != u16::MAX && off >> rule.set & 1 == 1,
        packets: count.packets,
        bytes: count.bytes,
        idle_nanoseconds: None,
        rule: rule.to_string(),
    }
}

/// The name of an execution, and what it visits.
const fn named(execution: Execution) -> (&'static str, &'static str) {
    match execution {
        Execution::Flat => ("flat", "rules visited"),
        Execution::Skipto => ("skipto", "rules visited"),
        Execution::Tree => ("tree", "nodes visited"),
    }
}

fn sets(off: u32) -> Sets {
    let (disabled, enabled) = (0..32_u8).partition(|set| off >> set & 1 == 1);
    Sets { disabled, enabled }
}

fn words(error: Error) -> String {
    error.to_string()
}
