//! The table of upstreams of one lane.

use crate::choice::{Candidate, choose};
use crate::due::{Due, Found};
use crate::health::{Ejected, Health};
use crate::listed::{AT_ONCE, Groups, Listed};
use crate::listing::Listing;
use crate::one::{Failure, One, mark};
use crate::reach::{Reach, named};
use crate::settings::{Check, Settings};
use crate::shown::Row;
use crate::targets::{ADDRESSES_MAX, Place, Target, Targets};
use crate::tried::{Caller, Tried, Upstream};
use corelane::service::Random;
use corelane::{Address, Instant};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

/// The most upstreams at once, those that are leaving included: where a name has other addresses each time, more are not taken in.
const UPSTREAMS_MAX: usize = 4 * crate::targets::TARGETS_MAX * ADDRESSES_MAX;

/// Checks that are under way at once, on one lane.
const CHECKS_MAX: usize = 16;

/// Names that are asked for at once, so that one whose server hangs does not hold up the others. A lane has three helper threads for such calls by default: one table leaves one of them.
const RESOLUTIONS_MAX: usize = 2;

/// When a name is asked for again that was not resolved.
const RESOLVE_AGAIN: Duration = Duration::from_secs(5);

/// When names are asked for again that nobody could ask for.
const ASK_AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Entry {
    generation: NonZeroU16,
    one: Option<One>,
}

/// The upstreams of a service on one lane. Time comes from outside, and never goes back.
#[derive(Debug)]
pub struct Upstreams {
    settings: Settings,
    /// Uses of one upstream at once, where the settings say nothing.
    uses_share: u32,
    /// The site whose they are, where there are several.
    site: Option<Arc<str>>,
    lane: usize,
    /// Some were spoken to by TLS at the start, so it can be.
    speaks_tls: bool,
    listed: Vec<Listed>,
    entries: Vec<Entry>,
    /// Choices so far.
    turn: u64,
    /// Choices to be made in vain first, so that lanes do not all begin with the same one.
    ahead: usize,
    /// The targets whose names are being resolved.
    resolving: [Option<u16>; RESOLUTIONS_MAX],
    /// Nobody asks for a name before.
    rests_until: Instant,
    /// Words of an upstream for which there was no place, until the operator is told.
    unplaced: Option<(String, usize)>,
    /// Reused by each choice.
    candidates: Vec<Candidate>,
    /// With what checks of upstreams behind TLS begin.
    preface: Vec<u8>,
}

impl Upstreams {
    /// The table of lane number `lane`. Checks begin with [`Upstreams::start`].
    pub fn new(targets: &Targets, settings: Settings, lane: usize) -> Self {
        let listed = targets.all().iter().map(|target| Listed::new(target, None)).collect();
        let mut table = Self {
            settings,
            uses_share: u32::MAX,
            site: None,
            lane,
            speaks_tls: targets.speak_tls(),
            listed,
            entries: Vec::new(),
            turn: 0,
            ahead: lane,
            resolving: [None; RESOLUTIONS_MAX],
            rests_until: AT_ONCE,
            unplaced: None,
            candidates: Vec::new(),
            preface: Vec::new(),
        };
        for (number, target) in (0..).zip(targets.all()) {
            if let Place::At(address) = target.place() {
                table.listed[usize::from(number)].is_known = true;
                let has_place = table.admit(number, address.clone(), None);
                assert!(has_place, "a list has fewer upstreams than a table");
            }
        }
        table
    }

    /// They are of this site, beside others of the same service: they are shown as `SITE/UPSTREAM`, and that names them to operators as well.
    pub fn name_site(&mut self, site: &str) {
        self.site = Some(site.into());
    }

    /// Each of several upstreams takes so many uses at once, where the settings say nothing: a part of what a lane has, so that one that is silent leaves some to the others.
    pub fn bound_uses(&mut self, most: u32) {
        self.uses_share = most.max(1);
    }

    /// Uses that one takes at once. A lone one that is silent takes them from nobody.
    fn uses_max(&self) -> u32 {
        let is_alone = self.site.is_none() && self.all().nth(1).is_none();
        let share = if is_alone { u32::MAX } else { self.uses_share };
        self.settings.uses_max.map_or(share, NonZeroU32::get)
    }

    /// A name as it is shown.
    fn shown(&self, name: &str) -> String {
        match &self.site {
            Some(site) => format!("{site}/{name}"),
            None => name.to_owned(),
        }
    }

    /// The lane has begun.
    pub fn start(&mut self, now: Instant) {
        self.check_first(now);
    }

    /// From now on there are these targets. Those that were there before, in the same [group](Target::group), keep their health, their counters and their connections. Others are taken
    /// by nobody once the new sources of their group have been read, and one of its new ones is known. A group without new ones waits for all other groups. They leave when the last use has ended. The next [due](Upstreams::due) thing may
    /// be another then. Returns whether it can be followed: no client of TLS is there where none was asked for at the start.
    pub fn retarget(&mut self, targets: &Targets, now: Instant) -> bool {
        if !self.can_retarget(targets) {
            return false;
        }
        self.follow(targets.all(), None, now);
        true
    }

    /// From now on a source, or the settings, name these.
    fn follow(&mut self, targets: &[Target], of: Option<u16>, now: Instant) {
        // One that went and comes back is a new one.
        let is_of = |listed: &Listed| !listed.is_gone && listed.of == of;
        let before: Vec<usize> = (0..self.listed.len()).filter(|&number| is_of(&self.listed[number])).collect();
        // Those of the first settings serve until newer ones are known: those in between were to take their place.
        let replaced = before.iter().map(|&number| &self.listed[number]).filter(|listed| listed.is_replaced);
        let pending: BTreeSet<u32> = replaced.map(|listed| listed.target.group()).collect();
        for &number in &before {
            let listed = &mut self.listed[number];
            match targets.iter().find(|target| target.is_same(&listed.target)) {
                None if of.is_none() && listed.is_replaced == pending.contains(&listed.target.group()) => {
                    listed.is_replaced = true
                }
                None => self.let_go(number as u16),
                Some(target) => {
                    self.listed[number].is_replaced = false;
                    (self.listed[number].target, self.listed[number].asked) = (target.clone(), target.tls().map(named));
                    let ones = self.entries.iter_mut().filter_map(|entry| entry.one.as_mut());
                    for one in ones.filter(|one| usize::from(one.target) == number) {
                        (one.weight, one.priority) = (target.weight(), target.priority());
                    }
                }
            }
        }
        for target in targets {
            if !before.iter().any(|&number| self.listed[number].target.is_same(target)) {
                let number = self.list(target, of, now);
                self.listed[number].replaces = of.is_none() && matches!(target.place(), Place::Source(_));
            }
        }
        self.let_go_replaced();
        self.check_first(now);
    }

    /// Lets those go that the settings name no more, once those in their place are known. So settings with a source that cannot be read leave nobody without an upstream.
    fn let_go_replaced(&mut self) {
        if !self.listed.iter().any(|listed| listed.is_replaced && !listed.is_gone) {
            return;
        }
        let groups = Groups::of(&self.listed);
        for number in 0..self.listed.len() {
            let listed = &self.listed[number];
            let is_replaced = !listed.is_gone && listed.of.is_none() && listed.is_replaced;
            // Nobody has anything of one that is not known.
            if is_replaced && (!listed.is_known || groups.have_others(listed.target.group())) {
                self.let_go(number as u16);
            }
        }
    }

    /// Whether some of the groups that the settings name have no upstream yet, or a source that is still to be read.
    pub fn awaits_groups(&self) -> bool {
        Groups::of(&self.listed).are_waiting()
    }

    /// Whether there is an upstream in this group, in rotation or not.
    pub fn knows(&self, group: u32) -> bool {
        self.all().any(|one| one.group == group && !one.is_leaving)
    }

    /// Whether that can be followed.
    pub fn can_retarget(&self, targets: &Targets) -> bool {
        self.speaks_tls || !targets.speak_tls()
    }

    /// A target is none any more.
    fn let_go(&mut self, number: u16) {
        let listed = &mut self.listed[usize::from(number)];
        (listed.is_gone, listed.is_known, listed.resolve_at) = (true, true, Instant::NEVER);
        for index in 0..self.entries.len() as u16 {
            if let Some(one) = self.entries[usize::from(index)].one.as_mut().filter(|one| one.target == number) {
                one.is_leaving = true;
                self.settle(index);
            }
        }
        let named = |listed: &Listed| !listed.is_gone && listed.of == Some(number);
        let of_source: Vec<usize> = (0..self.listed.len()).filter(|&number| named(&self.listed[number])).collect();
        of_source.into_iter().for_each(|number| self.let_go(number as u16));
    }

    /// There is one target more, in the place of one that has gone if there is one. Returns its number.
    fn list(&mut self, target: &Target, of: Option<u16>, now: Instant) -> usize {
        let is_used = |number: usize| {
            self.all().any(|one| usize::from(one.target) == number) || self.resolving.contains(&Some(number as u16))
        };
        let free = self.listed.iter().enumerate().position(|(number, listed)| listed.is_gone && !is_used(number));
        let number = free.unwrap_or(self.listed.len());
        // The operator has drained all that a source names, now and later; and what has this name, in whatever group.
        let is_same = |listed: &Listed| !listed.is_gone && listed.target.name() == target.name();
        let is_drained = of.is_some_and(|source| self.listed[usize::from(source)].is_drained)
            || self.listed.iter().any(|listed| listed.is_drained && is_same(listed));
        let new = Listed { is_drained, ..Listed::new(target, of) };
        match free {
            Some(free) => self.listed[free] = new,
            None => self.listed.push(new),
        }
        if let Place::At(_) = target.place() {
            self.listed[number].is_known = true;
            self.place(number as u16, now);
        }
        number
    }

    /// Takes in one that is written as an address, now or when there is a place for it. Returns whether there is one.
    fn place(&mut self, number: u16, now: Instant) -> bool {
        let Place::At(address) = self.listed[usize::from(number)].target.place().clone() else { return true };
        let has_place = self.admit(number, address, Some(now));
        let listed = &mut self.listed[usize::from(number)];
        if has_place {
            (listed.resolve_at, listed.fault) = (Instant::NEVER, None);
        } else {
            listed.resolve_at = now + RESOLVE_AGAIN;
            self.lacks_place(number);
        }
        has_place
    }

    /// There is no place for an upstream, or for all addresses of one: the operator is told once.
    fn lacks_place(&mut self, number: u16) {
        let words = format!(
            "there are {UPSTREAMS_MAX} upstreams at the most, those that are leaving included: it is taken in once there is a place"
        );
        let listed = &mut self.listed[usize::from(number)];
        if let Some(new) = listed.failed(&words) {
            let (words, count) = self.unplaced.take().unwrap_or_else(|| (format!("upstream {}: {new}", listed.target.name()), 0));
            self.unplaced = Some((words, count + 1));
        }
    }

    /// Words for the operator, if there was no place for an upstream since they were taken last.
    pub fn take_unplaced(&mut self) -> Option<String> {
        let (words, count) = self.unplaced.take()?;
        Some(if count > 1 { format!("{words}; so are {} more", count - 1) } else { words })
    }

    /// Has those checked that were not yet: not all at once, and not on all lanes at once.
    fn check_first(&mut self, now: Instant) {
        let Some(every) = self.settings.check.as_ref().map(|check| check.every) else { return };
        for one in self.entries.iter_mut().filter_map(|entry| entry.one.as_mut()).filter(|one| !one.is_known_to_checks) {
            let delay = Random::new(one.mark ^ (self.lane as u64) << 32).time_below(every);
            (one.check_at, one.is_known_to_checks) = (now + delay, true);
        }
    }

    /// Takes in an upstream; false where there is no place for it.
    fn admit(&mut self, target: u16, address: Address, rises_from: Option<Instant>) -> bool {
        let listed = &self.listed[usize::from(target)];
        let mark = mark(&address);
        let one = One {
            target,
            group: listed.target.group(),
            priority: listed.target.priority(),
            address,
            weight: listed.target.weight(),
            mark,
            health: Health::new(rises_from),
            is_drained: listed.is_drained,
            is_leaving: false,
            uses: 0,
            uses_of: BTreeMap::new(),
            connections: 0,
            standing: 0,
            taken_at: 0,
            check_at: Instant::NEVER,
            is_known_to_checks: false,
            is_checked: false,
            counts: Default::default(),
            times: Default::default(),
            client: None,
            shared_at: None,
        };
        let free = self.entries.iter().position(|entry| entry.one.is_none());
        match free {
            Some(free) => self.entries[free].one = Some(one),
            None if self.entries.len() < UPSTREAMS_MAX => {
                self.entries.push(Entry { generation: NonZeroU16::MIN, one: Some(one) })
            }
            None => return false,
        }
        true
    }

    fn all(&self) -> impl Iterator<Item = &One> {
        self.entries.iter().filter_map(|entry| entry.one.as_ref())
    }

    fn find(&self, upstream: Upstream) -> Option<&One> {
        let entry = self.entries.get(usize::from(upstream.index))?;
        entry.one.as_ref().filter(|_| entry.generation == upstream.generation)
    }

    fn there(&mut self, upstream: Upstream) -> &mut One {
        let entry = &mut self.entries[usize::from(upstream.index)];
        assert!(entry.generation == upstream.generation, "an upstream is named as long as it is held");
        // reason: as asserted.
        entry.one.as_mut().expect("an upstream that is held is there")
    }

    /// Lets one go that has left its name, once nobody holds it.
    fn settle(&mut self, index: u16) {
        let entry = &mut self.entries[usize::from(index)];
        if entry.one.as_ref().is_some_and(|one| one.is_leaving && !one.is_held()) {
            entry.one = None;
            entry.generation = entry.generation.checked_add(1).unwrap_or(NonZeroU16::MIN);
        }
    }

    /// Begins a use: the next upstream in rotation that was not tried. Where all others are ejected, one of those; where none serves, none. One that has as many uses as it may have at once, or
    /// its share of this client's, is passed over. [`Upstreams::end`] is owed for it.
    pub fn begin(&mut self, now: Instant, caller: Caller, tried: &Tried) -> Option<Upstream> {
        self.begin_in(0, now, caller, tried)
    }

    /// The same of those in this [group](Target::group).
    pub fn begin_in(&mut self, group: u32, now: Instant, caller: Caller, tried: &Tried) -> Option<Upstream> {
        let taken = self.choose(group, now, caller, tried)?;
        self.turn += 1;
        let entry = &mut self.entries[usize::from(taken)];
        // reason: candidates are those that are there.
        let one = entry.one.as_mut().expect("one that was chosen is there");
        one.taken_at = self.turn;
        one.begin_use(caller.client, now);
        Some(Upstream { index: taken, generation: entry.generation })
    }

    /// Whether one of these serves, and has no room for this client: more would be taken once what is under way there has ended.
    pub fn is_full(&self, group: u32, client: u64) -> bool {
        let most = self.uses_max();
        self.all().any(|one| one.group == group && one.serves() && !one.has_room(most, client))
    }

    fn choose(&mut self, group: u32, now: Instant, Caller { key, client }: Caller, tried: &Tried) -> Option<u16> {
        self.gather(tried, client, |one| one.group == group && one.is_in_rotation(now), now);
        if self.candidates.is_empty() {
            self.gather(tried, client, |one| one.group == group && one.serves() && !one.is_in_rotation(now), now);
        }
        let ahead = std::mem::take(&mut self.ahead) % self.candidates.len().max(1);
        let mut taken = None;
        for _ in 0..=ahead {
            taken = choose(self.settings.balance, &mut self.candidates, key);
        }
        for candidate in &self.candidates {
            let one = self.entries[usize::from(candidate.index)].one.as_mut();
            // reason: as above.
            one.expect("a candidate is there").standing = candidate.standing;
        }
        taken
    }

    fn gather(&mut self, tried: &Tried, client: u64, is_fit: impl Fn(&One) -> bool, now: Instant) {
        let most = self.uses_max();
        let Self { entries, candidates, settings, .. } = self;
        candidates.clear();
        let mut least = u16::MAX;
        for (index, Entry { generation, one }) in (0..).zip(entries) {
            let Some(one) = one.as_mut().filter(|one| is_fit(one)) else { continue };
            if tried.has(Upstream { index, generation: *generation }) {
                continue;
            }
            if !one.has_room(most, client) {
                one.counts.full += 1;
                continue;
            }
            // Others are for when none of these can be had (RFC 2782).
            match one.priority.cmp(&least) {
                Ordering::Less => candidates.clear(),
                Ordering::Equal => {}
                Ordering::Greater => continue,
            }
            least = one.priority;
            candidates.push(one.candidate(index, now, settings));
        }
    }

    /// Where an upstream is; none for a void name.
    pub fn address(&self, upstream: Upstream) -> Option<&Address> {
        self.find(upstream).map(|one| &one.address)
    }

    /// How an upstream is connected to; none for a void name.
    pub fn reach(&self, upstream: Upstream) -> Option<Reach> {
        let one = self.find(upstream)?;
        Some(Reach { address: one.address.clone(), name: self.listed[usize::from(one.target)].asked.clone() })
    }

    /// Has checks of upstreams behind TLS begin with these bytes, as for [`Reach::preface`].
    pub fn set_preface(&mut self, bytes: &[u8]) {
        self.preface = bytes.to_vec();
    }

    /// How an upstream is connected to for a check; none for a void name.
    pub(crate) fn reach_checking(&self, upstream: Upstream) -> Option<Reach> {
        self.reach(upstream).map(|reach| reach.preface(&self.preface))
    }

    /// How upstreams are checked, if they are.
    pub(crate) fn check(&self) -> Option<&Check> {
        self.settings.check.as_ref()
    }

    /// Its name as the operator wrote it; none for a void one.
    pub fn name(&self, upstream: Upstream) -> Option<&str> {
        self.find(upstream).map(|one| self.listed[usize::from(one.target)].target.name())
    }

    /// Its name as it is shown; none for a void one.
    pub fn shown_name(&self, upstream: Upstream) -> Option<String> {
        self.name(upstream).map(|name| self.shown(name))
    }

    /// Whether something new may go there, for who keeps connections: false for one that is drained, down or leaving, and for a void name.
    pub fn serves(&self, upstream: Upstream) -> bool {
        self.find(upstream).is_some_and(One::serves)
    }

    /// A connection to it is open, for this use. [`Upstreams::disconnected`] is owed for it, before the use ends or later.
    pub fn connected(&mut self, upstream: Upstream) {
        let one = self.there(upstream);
        (one.connections, one.counts.connects) = (one.connections + 1, one.counts.connects + 1);
    }

    /// A connection to it is closed.
    ///
    /// # Panics
    /// If none is open.
    pub fn disconnected(&mut self, upstream: Upstream) {
        let one = self.there(upstream);
        assert!(one.connections > 0, "a connection is closed once");
        one.connections -= 1;
        self.settle(upstream.index);
    }

    /// It has answered, so long after the use began: its first bytes have come. Ends its failures in a row.
    pub fn answered(&mut self, upstream: Upstream, now: Instant, took: Duration) {
        let one = self.there(upstream);
        one.times.note(took);
        one.health.answered(now);
    }

    /// A use has failed; it has still to be ended. `client` is whose bytes may have caused that, if the upstream had got some: where others use the upstream too, failures that go with one client alone
    /// eject nobody. Returns whether it was ejected for that.
    pub fn failed(&mut self, upstream: Upstream, now: Instant, failure: Failure, client: Option<u64>) -> Option<Ejected> {
        let group = self.there(upstream).group;
        let is_other = |one: &One| one.group == group && one.is_in_rotation(now);
        let others = (0..)
            .zip(&self.entries)
            .any(|(index, Entry { one, .. })| index != upstream.index && one.as_ref().is_some_and(is_other));
        let settings = self.settings.clone();
        let one = self.there(upstream);
        one.counts.note(failure);
        let client = client.filter(|_| one.is_shared(now));
        let ejected = one.health.failed(now, &settings, others, client);
        one.counts.ejections += u64::from(ejected.is_some());
        ejected
    }

    /// A use that failed there is tried anew elsewhere.
    pub fn retried(&mut self, upstream: Upstream) {
        self.there(upstream).counts.retries += 1;
    }

    /// Bytes that went to it and came from it. Nothing for a void name: bytes may pass behind the end of a use.
    pub fn note_bytes(&mut self, upstream: Upstream, to: usize, from: usize) {
        let entry = self.entries.get_mut(usize::from(upstream.index)).filter(|entry| entry.generation == upstream.generation);
        let Some(Entry { one: Some(One { counts, .. }), .. }) = entry else { return };
        counts.bytes_to += to as u64;
        counts.bytes_from += from as u64;
    }

    /// A use ends, which began for this [client](Caller::client).
    ///
    /// # Panics
    /// If none is under way.
    pub fn end(&mut self, upstream: Upstream, client: u64) {
        self.there(upstream).end_use(client);
        self.settle(upstream.index);
    }

    /// Takes upstreams out: nothing new goes there, and what is under way goes on. `name` is a target as it was written, a source with all that it names, or one address of a name, with `SITE/` before it if only those of one site are meant. Returns how many
    /// it names; 0 for an unknown one.
    pub fn drain(&mut self, name: &str) -> usize {
        self.set_drained(name, true, |_| {})
    }

    /// Takes them in again; they start slowly, if that is asked for.
    pub fn enable(&mut self, name: &str, now: Instant) -> usize {
        self.set_drained(name, false, |one| one.health.rise(now))
    }

    fn set_drained(&mut self, name: &str, is_drained: bool, changed: impl Fn(&mut One)) -> usize {
        let of_site = self.site.as_deref().and_then(|site| name.strip_prefix(site)?.strip_prefix('/'));
        let name = of_site.unwrap_or(name);
        // Several groups may have it, and a source stands for those that it names.
        let is_named = |listed: &Listed| !listed.is_gone && listed.target.name() == name;
        let named: Vec<usize> = (0..self.listed.len()).filter(|&number| is_named(&self.listed[number])).collect();
        let of_named = |listed: &Listed| !listed.is_gone && listed.of.is_some_and(|source| named.contains(&source.into()));
        let mut targets = Vec::new();
        for number in 0..self.listed.len() {
            if named.contains(&number) || of_named(&self.listed[number]) {
                self.listed[number].is_drained = is_drained;
                targets.push(number);
            }
        }
        let mut addresses = 0;
        for one in self.entries.iter_mut().filter_map(|entry| entry.one.as_mut()) {
            let is_named = match &targets[..] {
                [] => one.address.to_string() == name,
                targets => targets.contains(&usize::from(one.target)),
            };
            if is_named {
                // One that is leaving may come back.
                addresses += usize::from(!one.is_leaving);
                if one.is_drained != is_drained {
                    one.is_drained = is_drained;
                    changed(one);
                }
            }
        }
        targets.len().max(addresses)
    }

    /// The next thing to be done by now, if there is one; ask until there is none.
    pub fn due(&mut self, now: Instant) -> Option<Due> {
        self.due_name(now).or_else(|| self.due_check(now))
    }

    fn due_name(&mut self, now: Instant) -> Option<Due> {
        let asking = self.resolving.iter().position(Option::is_none).filter(|_| self.rests_until <= now)?;
        self.place_due(now);
        // The one that has been due for longest, so that none waits behind others for ever.
        let due = (0..).zip(&mut self.listed).filter(|(_, listed)| listed.resolve_at <= now);
        let (number, listed) = due.min_by_key(|(_, listed)| listed.resolve_at)?;
        let due = match listed.target.place().clone() {
            Place::Named { host, port } => Due::Resolve { asking, host, port },
            Place::Source(source) => Due::List { asking, source, stamp: listed.stamp, is_tls: listed.target.tls().is_some() },
            Place::At(_) => return None,
        };
        (listed.resolve_at, self.resolving[asking]) = (Instant::NEVER, Some(number));
        Some(due)
    }

    /// Takes in those that are due again to have a place, as far as there is one.
    fn place_due(&mut self, now: Instant) {
        let is_due = |listed: &Listed| listed.resolve_at <= now && matches!(listed.target.place(), Place::At(_));
        let due: Vec<usize> = (0..self.listed.len()).filter(|&number| is_due(&self.listed[number])).collect();
        let mut has_place = true;
        for &number in &due {
            if has_place {
                has_place = self.place(number as u16, now);
            } else {
                self.listed[number].resolve_at = now + RESOLVE_AGAIN;
            }
        }
        if !due.is_empty() {
            self.check_first(now);
        }
    }

    fn due_check(&mut self, now: Instant) -> Option<Due> {
        if self.all().filter(|one| one.is_checked).count() >= CHECKS_MAX {
            return None;
        }
        (0..).zip(&mut self.entries).find_map(|(index, Entry { generation, one })| {
            let one = one.as_mut().filter(|one| one.check_at <= now && !one.is_leaving)?;
            (one.check_at, one.is_checked) = (Instant::NEVER, true);
            let upstream = Upstream { index, generation: *generation };
            Some(Due::Check { upstream, address: one.address.clone() })
        })
    }

    /// When [`Upstreams::due`] has something next, as far as is known now; never, until something that is under way has ended.
    pub fn next_due(&self) -> Instant {
        let may_ask = self.resolving.iter().any(Option::is_none);
        let names = self.listed.iter().filter(|_| may_ask).map(|listed| listed.resolve_at.max(self.rests_until)).min();
        let has_room = self.all().filter(|one| one.is_checked).count() < CHECKS_MAX;
        let checks = self.all().filter(|one| has_room && !one.is_leaving).map(|one| one.check_at).min();
        names.into_iter().chain(checks).min().unwrap_or(Instant::NEVER)
    }

    /// A check has ended: well, or not, or without a word about the upstream. Returns whether the upstream is up from now on, if that has changed.
    pub fn checked(&mut self, upstream: Upstream, now: Instant, is_well: Option<bool>) -> Option<bool> {
        let check = self.settings.check.clone();
        let one = self.there(upstream);
        assert!(one.is_checked, "a check ends once");
        one.is_checked = false;
        one.counts.checks_failed += u64::from(is_well == Some(false));
        let changed = check.and_then(|check| {
            one.check_at = now + check.every;
            one.health.checked(now, &check, is_well?)
        });
        self.settle(upstream.index);
        changed
    }

    /// The addresses of the name that was asked for have come, or what a source says, or why there is none. Without any, those that are known stay: a name server that is gone takes no
    /// upstream with it, and a file that is broken none either. Returns words for the operator, if there is something new to say.
    ///
    /// # Panics
    /// If this one is not under way.
    pub fn resolved(&mut self, asking: usize, now: Instant, found: impl Into<Found>) -> Option<String> {
        // reason: documented.
        let target = self.resolving[asking].take().expect("a resolution ends once");
        if self.listed[usize::from(target)].is_gone {
            return None;
        }
        match found.into() {
            Found::Addresses(found) => self.have_addresses(target, now, found),
            Found::Listing(listing) => self.have_listing(target, now, listing),
        }
    }

    /// Nobody could ask for the name that was [due](Upstreams::due): it is due again in a moment, and no name before. That says nothing of the name.
    ///
    /// # Panics
    /// If this one is not under way.
    pub fn put_off(&mut self, asking: usize, now: Instant) {
        // reason: documented.
        let target = self.resolving[asking].take().expect("a resolution ends once");
        self.rests_until = now + ASK_AGAIN;
        let listed = &mut self.listed[usize::from(target)];
        if !listed.is_gone {
            // It stays before those that become due later.
            listed.resolve_at = now;
        }
    }

    fn have_listing(&mut self, number: u16, now: Instant, Listing { targets, stamp, again }: Listing) -> Option<String> {
        let every = again.unwrap_or(self.settings.resolve_every);
        let listed = &mut self.listed[usize::from(number)];
        (listed.resolve_at, listed.stamp) = (now + every, stamp);
        match targets {
            Ok(None) => None,
            Ok(Some(targets)) => {
                (listed.is_known, listed.fault) = (true, None);
                let group = listed.target.group();
                let targets: Vec<Target> = targets.into_iter().map(|target| target.of_group(group)).collect();
                self.follow(&targets, Some(number), now);
                self.let_go_replaced();
                None
            }
            Err(why) => {
                listed.resolve_at = now + RESOLVE_AGAIN.min(every);
                listed.failed(&why)
            }
        }
    }

    fn have_addresses(&mut self, target: u16, now: Instant, found: Result<Vec<Address>, String>) -> Option<String> {
        let listed = &mut self.listed[usize::from(target)];
        let found = found.and_then(|found| if found.is_empty() { Err("it has no address".to_owned()) } else { Ok(found) });
        let mut found = match found {
            Ok(found) => found,
            Err(why) => {
                // A source says all anew, though it may not have changed.
                listed.stamp = None;
                listed.resolve_at = now + RESOLVE_AGAIN.min(self.settings.resolve_every);
                return listed.failed(&why);
            }
        };
        listed.resolve_at = now + self.settings.resolve_every;
        let rises_from = std::mem::replace(&mut listed.is_known, true).then_some(now);
        // Name servers turn their lists around: the same ones are taken of many.
        found.sort_by_key(ToString::to_string);
        found.dedup();
        found.truncate(ADDRESSES_MAX);
        for index in 0..self.entries.len() as u16 {
            let Some(one) = self.entries[usize::from(index)].one.as_mut().filter(|one| one.target == target) else { continue };
            let at = found.iter().position(|address| *address == one.address);
            one.is_leaving = at.is_none();
            at.map(|at| found.remove(at));
            self.settle(index);
        }
        // Where one has none, no other has.
        let has_place = found.into_iter().all(|address| self.admit(target, address, rises_from));
        self.check_first(now);
        let listed = &mut self.listed[usize::from(target)];
        if has_place {
            listed.fault = None;
        } else {
            listed.resolve_at = now + RESOLVE_AGAIN.min(self.settings.resolve_every);
            self.lacks_place(target);
        }
        self.let_go_replaced();
        None
    }

    /// Whether a name of this [group](Target::group) was never asked for to the end: its addresses may be on their way, and those who find nobody may wait for them.
    pub fn awaits_names(&self, group: u32) -> bool {
        self.listed.iter().any(|listed| listed.target.group() == group && listed.is_awaited())
    }

    /// The first of such names, as the operator wrote it; none while a source is awaited, which has no name of its own.
    pub fn awaited_name(&self) -> Option<&str> {
        let mut awaited = self.listed.iter().filter(|listed| listed.is_awaited());
        awaited.next().filter(|listed| !matches!(listed.target.place(), Place::Source(_))).map(|listed| listed.target.name())
    }

    /// How many upstreams are in rotation, and how many there are: a name without an address is one.
    pub fn in_rotation(&self, now: Instant) -> (usize, usize) {
        let mut has_none: Vec<bool> = self.listed.iter().map(|listed| !listed.is_gone).collect();
        self.all().for_each(|one| has_none[usize::from(one.target)] = false);
        // A source counts for those that it names.
        let sources = self.listed.iter().filter(|listed| !listed.is_gone).filter_map(|listed| listed.of);
        sources.for_each(|source| has_none[usize::from(source)] = false);
        let without = has_none.into_iter().filter(|has_none| *has_none).count();
        (self.all().filter(|one| one.is_in_rotation(now)).count(), self.all().count() + without)
    }

    /// Each upstream as it is now, and each name that has no address.
    pub fn rows(&self, now: Instant) -> Vec<Row> {
        self.rows_from(0, now).collect()
    }

    /// How many rows there are.
    pub(crate) fn row_count(&self) -> usize {
        self.places().count()
    }

    /// The rows from this number on.
    pub(crate) fn rows_from(&self, from: usize, now: Instant) -> impl Iterator<Item = Row> {
        self.places().skip(from).map(move |(number, one)| {
            let Listed { target, fault, .. } = &self.listed[number];
            let name = self.shown(target.name());
            match one {
                None => Row { name, ..Row::unknown(target, fault.clone()) },
                Some(one) => Row::of(one, name, fault.clone(), (&self.settings, now)),
            }
        })
    }

    /// Each target with each of its upstreams, or with none where it has no address yet.
    fn places(&self) -> impl Iterator<Item = (usize, Option<&One>)> {
        self.listed.iter().enumerate().flat_map(|(number, listed)| {
            let of_target = move |one: &&One| usize::from(one.target) == number;
            let is_named = |other: &Listed| !other.is_gone && other.of == Some(number as u16);
            let names_some = || listed.fault.is_none() && self.listed.iter().any(is_named);
            let is_without = !listed.is_gone && !self.all().any(|one| of_target(&one)) && !names_some();
            self.all().filter(of_target).map(move |one| (number, Some(one))).chain(is_without.then_some((number, None)))
        })
    }
}
