//! What a queue's state consists of, how it begins and ends, and how it moves to another set.

use corelane_os::events::alarm::Clock;
use corelane_os::events::home::Home;
use corelane_os::events::number;
use corelane_os::events::polling::{Bell, Readiness};
use corelane_seam::slab::{Key, Slab};
use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasherDefault;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::files::Files;
use super::operations::Operations;
use super::origin::Origin;
use super::processes::Processes;
use super::spread::{Map, Spread};
use super::timers::Timers;
use crate::interest::Interest;
use crate::names::Names;
use crate::poster::Posted;
use crate::ready::Ready;
use crate::record::Filter;
use crate::refused::Refused;
use crate::set::{Token, Watched};
use crate::spare;

/// All that a queue knows.
pub struct State {
    pub(super) set: Arc<Watched>,
    pub(super) bell: Arc<Bell>,
    pub(super) ringing: bool,
    /// Waiters that are to return at once.
    pub(super) wakes: usize,
    pub(super) interests: Slab<Interest>,
    /// Interests that have no descriptor's origin, by filter and ident.
    pub(super) keys: Map<(i16, u64), Key>,
    pub(super) origins: Slab<Origin>,
    /// Origins by the program's descriptors.
    pub(super) numbers: Map<RawFd, Key>,
    /// Our own descriptors, by process.
    pub(super) processes: Map<u32, Key>,
    /// While there are interests that need more than a process's descriptor.
    pub(super) heard_processes: Option<Processes>,
    pub(super) ready: Ready,
    /// How many are on it, for who does not have the lock.
    pub(super) pending: Arc<AtomicUsize>,
    /// What is reported, and told before what is on the list.
    pub(super) due: Vec<Key>,
    /// Told by the call that looks, and put back on the list after it.
    pub(super) put_back: Vec<Key>,
    /// Which call looks.
    pub(super) look: u64,
    /// Which batch of reports is told: what came in an earlier one need not be true any more.
    pub(super) batch: u64,
    /// What it has told, if it may wait for more.
    pub(super) fresh: Vec<Key>,
    pub(super) timers: [Timers; 2],
    pub(super) timer_count: usize,
    pub(super) files: Option<Files>,
    /// By the interests that ask for them.
    pub(super) names: Map<Key, Names>,
    pub(super) operations: Operations,
    /// From the first poster on.
    pub(super) posted: Option<Posted>,
    pub(super) signals: BTreeMap<usize, Key>,
    /// Rung by other queues when they have read signals; and the descriptor that signals are read from, once there is an interest.
    pub(super) called: Option<Arc<Bell>>,
    /// Origins that have ended while the set may still know their files.
    pub(super) lost: HashSet<Key, BuildHasherDefault<Spread>>,
    /// The set reports a file that cannot be taken out of it.
    pub(super) haunted: bool,
    /// Its own numbers were closed with it, and may be the program's files by now.
    pub(super) is_abandoned: bool,
    /// The program's own descriptor of the queue, which may not be watched by it.
    pub(super) own: RawFd,
    pub(super) home: Home,
}

impl State {
    /// Of a queue that the program knows as `own`.
    pub fn new(set: Arc<Watched>, own: RawFd, home: Home) -> Result<Self, Refused> {
        let bell = Arc::new(Bell::new().map_err(Refused::system)?);
        set.add(bell.number(), Readiness::IN, Token::Bell.word()).map_err(Refused::system)?;
        Ok(Self {
            set,
            bell,
            ringing: false,
            wakes: 0,
            interests: Slab::new(),
            keys: Map::default(),
            origins: Slab::new(),
            numbers: Map::default(),
            processes: Map::default(),
            heard_processes: None,
            ready: Ready::new(),
            pending: Arc::default(),
            due: Vec::new(),
            put_back: Vec::new(),
            look: 0,
            batch: 1,
            fresh: Vec::new(),
            timers: [Timers::new(Clock::Monotonic), Timers::new(Clock::Wall)],
            timer_count: 0,
            files: None,
            names: Map::default(),
            operations: Operations::new(),
            posted: None,
            signals: BTreeMap::new(),
            called: None,
            lost: HashSet::default(),
            haunted: false,
            is_abandoned: false,
            own,
            home,
        })
    }

    /// The key under which an ident and a filter are registered, whatever file the ident means by now.
    pub(super) fn known(&self, ident: u64, filter: Filter) -> Option<Key> {
        if !filter.of_descriptor() {
            return self.keys.get(&(filter.number(), ident)).copied();
        }
        let origin = self.numbers.get(&RawFd::try_from(ident).ok()?)?;
        self.origins[*origin].interests.get(filter)
    }

    /// Room for one interest more, wherever it may come to stand.
    ///
    /// ENOMEM.
    pub(super) fn make_room(&mut self) -> Result<(), Refused> {
        spare::check(spare::INTEREST)?;
        let most = self.interests.len() + 1;
        let tables = self.interests.try_reserve().and(self.origins.try_reserve()).and(self.ready.try_reserve(most));
        let maps = self.keys.try_reserve(1).and(self.numbers.try_reserve(1)).and(self.processes.try_reserve(1));
        let lists = [&mut self.due, &mut self.put_back, &mut self.fresh];
        let lists = lists.into_iter().try_for_each(|list| list.try_reserve(most.saturating_sub(list.len())));
        tables.and(maps).and(lists).map_err(|_| spare::NONE)
    }

    /// Where it is said how many interests are on the ready list.
    pub fn pending(&self) -> Arc<AtomicUsize> {
        self.pending.clone()
    }

    /// Interests registered.
    pub fn len(&self) -> usize {
        self.interests.len()
    }

    /// Has `waiters` return at once, each once.
    pub fn wake(&mut self, waiters: usize) {
        self.wakes = self.wakes.saturating_add(waiters);
        self.settle_bell();
    }

    /// Takes one wake-up, if there is one.
    pub fn take_wake(&mut self) -> bool {
        let woken = self.wakes > 0;
        self.wakes -= usize::from(woken);
        woken
    }

    /// The bell rings while somebody has something to do that the set does not know of.
    pub fn settle_bell(&mut self) {
        self.pending.store(self.ready.len(), Ordering::Relaxed);
        let ringing = !self.ready.is_empty() || self.wakes > 0;
        if ringing == self.ringing {
            return;
        }
        self.ringing = ringing;
        if ringing { self.bell.ring() } else { self.bell.silence() }
    }

    /// Whether the set is to be given up for a new one.
    pub fn is_worn(&self) -> bool {
        self.haunted || self.lost.len() > self.origins.len().max(Self::LOST)
    }

    /// Whether the set reports, again and again, what is no more.
    pub fn is_haunted(&self) -> bool {
        self.haunted
    }

    /// A new set that waits for all that the present one is to wait for. Nothing has changed until [`State::move_to`].
    pub fn renewed(&self) -> Result<Arc<Watched>, i32> {
        let set = Arc::new(Watched::new()?);
        self.register_all(&set)?;
        Ok(set)
    }

    /// From now on `set` is the set.
    pub fn move_to(&mut self, set: Arc<Watched>) {
        assert!(self.is_worn(), "a set is given up for a reason");
        self.set = set;
        self.haunted = false;
        self.lost.clear();
    }

    /// Ended origins beyond which the set is built again, however few others there are.
    const LOST: usize = 1024;

    /// Whether the queue's own numbers are still its descriptors'. A program that closes all numbers closes these, too, and may have files of its own under them.
    pub fn has_its_descriptors(&self) -> bool {
        let answer = self.set.modify(self.bell.number(), Readiness::IN, Token::Bell.word());
        // A program that has registered our numbers with the queue has taken the bell out of the set, and closed nothing.
        matches!(answer, Ok(()) | Err(number::ENOENT))
    }

    /// The queue's own numbers are the program's by now: who would ring a bell of ours rings none, and nothing of ours is closed.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
        std::mem::forget(self.called.take().and_then(Arc::into_inner));
    }

    /// Whether its own numbers were found to be the program's.
    pub fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    /// Lets go of numbers that are the program's by now, without closing them.
    fn forget_descriptors(&mut self) {
        let timers = self.timers.each_mut().map(Timers::take_alarm);
        let of_processes = std::mem::replace(&mut self.origins, Slab::new());
        let heard = (self.files.take(), self.heard_processes.take(), self.posted.take());
        std::mem::forget((self.set.clone(), self.bell.clone(), timers, of_processes, heard));
    }

    fn register_all(&self, set: &Watched) -> Result<(), i32> {
        set.add(self.bell.number(), Readiness::IN, Token::Bell.word())?;
        for timers in &self.timers {
            timers.register(set)?;
        }
        if let Some(files) = &self.files {
            set.add(files.number(), Readiness::IN, Token::Files.word())?;
        }
        if let Some(processes) = &self.heard_processes {
            set.add(processes.number(), Readiness::IN, Token::Processes.word())?;
        }
        if let Some(posted) = &self.posted {
            set.add(posted.number(), Readiness::IN, Token::Posted.word())?;
        }
        if let Some(called) = &self.called {
            set.add(called.number(), Readiness::IN, Token::Called.word())?;
            set.add(crate::signals::number(), Readiness::IN, Token::Signals.word())?;
        }
        for key in self.origins.keys() {
            let origin = &self.origins[key];
            // One whose file is gone is found when it is next looked at: what has its number now is not what was registered.
            if let Some(what) = origin.registered.filter(|_| origin.is_process() || origin.is_same(set)) {
                let _ = set.add(origin.number, what, key.bits());
            }
        }
        Ok(())
    }
}

impl Drop for State {
    /// What the process does for this queue ends with it: it counts signals and closes.
    fn drop(&mut self) {
        // A child of fork(2) has begun anew with both.
        if !self.home.is_this_process() {
            return;
        }
        self.signals.keys().for_each(|&signal| crate::signals::leave(signal));
        self.numbers.keys().for_each(|&number| crate::closing::unwatch(number));
        if !self.is_abandoned && !self.has_its_descriptors() {
            self.abandon();
        }
        if self.is_abandoned {
            self.forget_descriptors();
        }
    }
}
