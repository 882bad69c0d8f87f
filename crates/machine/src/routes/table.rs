//! What is known of a table, and what was told of it: their difference is what comes next.

use super::event::{Route, RouteEvent};
use super::message::Prefix;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

/// Routes of one prefix, at most: as many as a gateway takes. What a kernel has beyond is left out.
pub(super) const WAYS_MAX: usize = 16;
/// Sets of ways that are there before the first look for those that nobody uses any more.
const SETS_MIN: usize = 1024;

/// A router, and the name of its interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub router: IpAddr,
    pub interface: Arc<str>,
}

/// How a route comes among others of its prefix and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In front of them.
    First,
    /// Behind them.
    Last,
    /// In the place of the first.
    InsteadOfFirst,
    /// In the place of all: IPv6 has one.
    InsteadOfAll,
}

/// A route as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    metric: u32,
    ways: u32,
}

/// A prefix: the number of the ways that were told, and what the kernel has, in its order.
#[derive(Debug, Default)]
struct Entry {
    told: u32,
    first: Option<Candidate>,
    /// Rarely there.
    more: Box<[Candidate]>,
}

/// Sets of ways by their numbers; 0 is none at all. Few are in use, for many prefixes have the same.
#[derive(Debug)]
struct Sets {
    all: Vec<Arc<[Way]>>,
    numbers: BTreeMap<Arc<[Way]>, u32>,
    free: Vec<u32>,
    /// When it has so many, those that nobody uses are looked for.
    next: usize,
}

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    entries: BTreeMap<Prefix, Entry>,
    sets: Sets,
    routes_max: usize,
    /// Prefixes of which something may have changed since it was told.
    touched: BTreeSet<Prefix>,
    /// All may have: those behind this one are still to be looked at.
    sweep: Option<Bound<Prefix>>,
    /// Routes for which there was no room.
    pub refused: u64,
}

impl Entry {
    fn candidates(&self) -> Vec<Candidate> {
        self.first.into_iter().chain(self.more.iter().copied()).collect()
    }

    fn set(&mut self, candidates: Vec<Candidate>) {
        let mut all = candidates.into_iter();
        self.first = all.next();
        self.more = all.collect();
    }

    /// The ways that the kernel uses.
    fn used(&self) -> u32 {
        self.first.map_or(0, |first| first.ways)
    }
}

impl Sets {
    fn new() -> Self {
        Self { all: vec![Arc::from([])], numbers: BTreeMap::new(), free: Vec::new(), next: SETS_MIN }
    }

    fn number(&mut self, mut ways: Vec<Way>) -> u32 {
        ways.sort_unstable();
        ways.dedup();
        ways.truncate(WAYS_MAX);
        if ways.is_empty() {
            return 0;
        }
        let ways: Arc<[Way]> = ways.into();
        if let Some(number) = self.numbers.get(&ways) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Arc::from([]));
            self.all.len() as u32 - 1
        });
        self.all[number as usize] = ways.clone();
        self.numbers.insert(ways, number);
        number
    }

    fn ways(&self, number: u32) -> &Arc<[Way]> {
        &self.all[number as usize]
    }
}

impl Table {
    pub fn new(routes_max: usize) -> Self {
        let (entries, touched, sweep) = Default::default();
        Self { entries, sets: Sets::new(), routes_max, touched, sweep, refused: 0 }
    }

    /// Prefixes that are known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Sets of ways that are there.
    #[cfg(test)]
    pub fn sets(&self) -> usize {
        self.sets.all.len()
    }

    /// All is heard anew: nothing is known until it is, but for what was told.
    pub fn begin(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.set(Vec::new()));
        self.entries.retain(|_, entry| entry.told != 0);
        self.sweep = Some(Bound::Unbounded);
    }

    /// The kernel has a route.
    pub fn add(&mut self, prefix: Prefix, metric: u32, ways: Vec<Way>, place: Place) {
        if self.entries.len() >= self.routes_max && !self.entries.contains_key(&prefix) {
            self.refused += 1;
            return;
        }
        self.clean();
        let new = Candidate { metric, ways: self.sets.number(ways) };
        let entry = self.entries.entry(prefix).or_default();
        let mut all = entry.candidates();
        let of = |one: &Candidate| one.metric == metric;
        // Beside a way by a router IPv6 may have one to a link: that is not followed, and changes nothing.
        if place == Place::InsteadOfAll && new.ways == 0 && all.iter().any(of) {
            return;
        }
        if all.contains(&new) && place != Place::InsteadOfFirst {
            return;
        }
        match place {
            Place::InsteadOfAll => all.retain(|one| !of(one)),
            Place::InsteadOfFirst => {
                all.iter().position(of).map(|first| all.remove(first));
                all.retain(|one| *one != new);
            }
            Place::First | Place::Last => {}
        }
        let is_before = |one: &Candidate| one.metric < metric || (one.metric == metric && place == Place::Last);
        all.insert(all.partition_point(is_before), new);
        entry.set(all);
        self.touch(prefix);
    }

    /// The kernel has a route no longer, or, of IPv6, some of its ways. False if it is not known which: all is to be heard anew.
    pub fn delete(&mut self, prefix: Prefix, metric: u32, ways: Vec<Way>) -> bool {
        let number = self.sets.number(ways);
        let Some(entry) = self.entries.get_mut(&prefix) else { return true };
        let mut all = entry.candidates();
        let of: Vec<_> = (0..all.len()).filter(|place| all[*place].metric == metric).collect();
        let exact = of.iter().find(|place| all[**place].ways == number).copied();
        let is_v4 = prefix.address.is_ipv4();
        match (exact, &of[..]) {
            // It has gone already.
            (None, []) => return true,
            (Some(place), _) => drop(all.remove(place)),
            (None, [place]) if is_v4 => drop(all.remove(*place)),
            (None, [place]) => {
                let gone = self.sets.ways(number).clone();
                let kept: Vec<_> = self.sets.ways(all[*place].ways).iter().filter(|way| !gone.contains(way)).cloned().collect();
                if kept.len() == self.sets.ways(all[*place].ways).len() || kept.is_empty() {
                    return false;
                }
                all[*place].ways = self.sets.number(kept);
            }
            (None, _) => return false,
        }
        entry.set(all);
        self.touch(prefix);
        true
    }

    /// Something may have changed of a prefix.
    fn touch(&mut self, prefix: Prefix) {
        let is_to_come = match self.sweep {
            None => false,
            Some(Bound::Excluded(last)) => prefix > last,
            Some(_) => true,
        };
        if !is_to_come {
            self.touched.insert(prefix);
        }
    }

    /// What has changed, until there is so much of it; then again.
    pub fn take(&mut self, at_most: usize) -> Vec<RouteEvent> {
        let mut events = Vec::new();
        while events.len() < at_most {
            let Some(prefix) = self.next() else { break };
            self.tell(prefix, &mut events);
        }
        events
    }

    /// The next prefix of which something may have changed.
    fn next(&mut self) -> Option<Prefix> {
        if let Some(from) = self.sweep.take() {
            let next = self.entries.range((from, Bound::Unbounded)).next().map(|(prefix, _)| *prefix);
            self.sweep = next.map(Bound::Excluded);
            if next.is_some() {
                return next;
            }
        }
        self.touched.pop_first()
    }

    fn tell(&mut self, prefix: Prefix, events: &mut Vec<RouteEvent>) {
        let Some(entry) = self.entries.get_mut(&prefix) else { return };
        let used = entry.used();
        let told = std::mem::replace(&mut entry.told, used);
        if entry.first.is_none() {
            self.entries.remove(&prefix);
        }
        if told != used {
            difference(prefix, self.sets.ways(told), self.sets.ways(used), events);
        }
    }

    /// Forgets sets of ways that nobody uses, now and then.
    fn clean(&mut self) {
        if self.sets.numbers.len() < self.sets.next {
            return;
        }
        let mut used = BTreeSet::new();
        for entry in self.entries.values() {
            used.insert(entry.told);
            used.extend(entry.candidates().iter().map(|one| one.ways));
        }
        let Sets { all, numbers, free, next } = &mut self.sets;
        numbers.retain(|_, number| {
            let stays = used.contains(number);
            if !stays {
                all[*number as usize] = Arc::from([]);
                free.push(*number);
            }
            stays
        });
        *next = (numbers.len() * 2).max(SETS_MIN);
    }
}

/// What leads from one set of ways to another: new ones come before old ones go, as far as there is room. All ways by one router go together, so one whose interfaces change goes
/// first and comes again.
fn difference(prefix: Prefix, old: &[Way], new: &[Way], events: &mut Vec<RouteEvent>) {
    let Prefix { address: destination, bits } = prefix;
    let by = |ways: &[Way], router: IpAddr| ways.iter().filter(|way| way.router == router).cloned().collect::<Vec<_>>();
    let routers: BTreeSet<_> = old.iter().map(|way| way.router).collect();
    let delete = |router: &IpAddr| RouteEvent::Delete { destination, bits, router: *router };
    let changed: Vec<_> = routers.iter().filter(|router| by(old, **router) != by(new, **router)).collect();
    let is_gone = |router: &IpAddr| by(new, *router).is_empty();
    let stays = |way: &Way| routers.contains(&way.router) && !changed.contains(&&way.router);
    let come: Vec<_> = new.iter().filter(|way| !stays(way)).collect();
    let gone = changed.iter().copied().filter(|router| is_gone(router));
    let has_room = old.len() + come.len() <= WAYS_MAX;
    events.extend(changed.iter().copied().filter(|router| !is_gone(router) || !has_room).map(delete));
    events.extend(come.into_iter().map(|way| {
        let Way { router, interface } = way.clone();
        RouteEvent::Add(Route { destination, bits, router, interface })
    }));
    events.extend(gone.filter(|_| has_room).map(delete));
}
