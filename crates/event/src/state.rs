//! All that a queue knows, under its lock: interests, origins, the ready list, and what wakes it.

mod asking;
mod changing;
mod files;
mod interests;
mod operations;
mod origins;
mod processes;
mod telling;
mod timers;

use corelane_os::events::alarm::Clock;
use corelane_os::events::descriptor::{Identity, Kind};
use corelane_os::events::home::Home;
use corelane_os::events::number;
use corelane_os::events::polling::{Bell, Readiness};
use corelane_os::events::process::PidFd;
use corelane_seam::slab::{Key, Slab};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::closing::Watch;
use crate::interest::Interest;
use crate::names::Names;
use crate::poster::Posted;
use crate::ready::Ready;
use crate::refused::Refused;
use crate::set::{Token, Watched};
use files::Files;
use interests::Interests;
use operations::Operations;
use processes::Processes;
pub use telling::Sink;
use timers::Timers;

/// Spreads numbers that a program chose: multiplication, and the upper bits brought down.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_i16(&mut self, word: i16) {
        self.write_u64(word as u64);
    }

    fn write_i32(&mut self, word: i32) {
        self.write_u64(word as u64);
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// What activity with a descriptor comes from.
struct Origin {
    /// The descriptor: the program's, or our own of a process.
    number: RawFd,
    kind: Kind,
    /// Which file it was.
    identity: Identity,
    /// Whether the number was closed since.
    watch: Watch,
    /// What the set waits for; none while it is not in the set.
    registered: Option<Readiness>,
    /// When it was read last it was a socket that takes connections.
    listens: Cell<bool>,
    /// Interests by filter.
    interests: Interests,
    /// What few have.
    rest: Option<Box<Rest>>,
    /// What the set has reported, and in which batch of reports.
    reported: (u64, Readiness),
    /// The set reports it though there is nothing to tell: it is to tell of changes alone.
    dozing: bool,
}

impl Origin {
    /// One in which nobody is interested yet, and whose number nobody watches.
    fn new(number: RawFd, kind: Kind, identity: Identity) -> Self {
        Self {
            number,
            kind,
            identity,
            watch: Watch::NONE,
            registered: None,
            listens: Cell::new(false),
            interests: Interests::default(),
            rest: None,
            reported: (0, Readiness::empty()),
            dozing: false,
        }
    }
}

/// What few origins have: a process, a file, operations. It is apart because an event looks at the others' origins alone, of which there are many.
#[derive(Default)]
struct Rest {
    /// Our own descriptor, of the process with this id.
    process: Option<(u32, PidFd)>,
    /// The watch on the file, if there is one.
    watch: Option<i32>,
    /// A file's size and links when last looked at.
    seen: (i64, u64),
    /// Operations that wait for it to be readable, and writable, each line in order.
    lines: [VecDeque<Key>; 2],
}

impl Origin {
    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// Whether its descriptor is our own, of a process.
    fn is_process(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.process.is_some())
    }

    /// Whether it is read by offset, and is not in the set.
    fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    fn is_empty(&self) -> bool {
        self.interests.is_empty() && self.lines_are_empty()
    }

    /// Whether its interests may be told before anything else was heard: what a process has done is known before its end, operations carry on before anybody
    /// is told, and a queue is asked last.
    fn is_told_at_once(&self) -> bool {
        let is_plain = |rest: &Rest| rest.process.is_none() && rest.lines_are_empty();
        self.kind != Kind::Nameless && self.rest.as_deref().is_none_or(is_plain)
    }

    fn lines_are_empty(&self) -> bool {
        self.rest.as_ref().is_none_or(|rest| rest.lines_are_empty())
    }
}

impl Rest {
    fn lines_are_empty(&self) -> bool {
        self.lines.iter().all(VecDeque::is_empty)
    }
}

/// See the module.
pub struct State {
    set: Arc<Watched>,
    bell: Arc<Bell>,
    ringing: bool,
    /// Waiters that are to return at once.
    wakes: usize,
    interests: Slab<Interest>,
    /// Interests that have no descriptor's origin, by filter and ident.
    keys: Map<(i16, u64), Key>,
    origins: Slab<Origin>,
    /// Origins by the program's descriptors.
    numbers: Map<RawFd, Key>,
    /// Our own descriptors, by process.
    processes: Map<u32, Key>,
    /// While there are interests that need more than a process's descriptor.
    heard_processes: Option<Processes>,
    ready: Ready,
    /// How many are on it, for who does not have the lock.
    pending: Arc<AtomicUsize>,
    /// What is reported, and told before what is on the list.
    due: Vec<Key>,
    /// Told by the call that looks, and put back on the list after it.
    put_back: Vec<Key>,
    /// Which call looks.
    look: u64,
    /// Which batch of reports is told: what came in an earlier one need not be true any more.
    batch: u64,
    /// What it has told, if it may wait for more.
    fresh: Vec<Key>,
    timers: [Timers; 2],
    timer_count: usize,
    files: Option<Files>,
    /// By the interests that ask for them.
    names: Map<Key, Names>,
    operations: Operations,
    /// From the first poster on.
    posted: Option<Posted>,
    signals: BTreeMap<usize, Key>,
    /// Rung by other queues when they have read signals; and the descriptor that signals are read from, once there is an interest.
    called: Option<Arc<Bell>>,
    /// Origins that have ended while the set may still know their files.
    lost: HashSet<Key, BuildHasherDefault<Spread>>,
    /// The set reports a file that cannot be taken out of it.
    haunted: bool,
    /// Its own numbers were closed with it, and may be the program's files by now.
    is_abandoned: bool,
    /// The program's own descriptor of the queue, which may not be watched by it.
    own: RawFd,
    home: Home,
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
            if let Some(what) = origin.registered {
                // One whose file is gone is found when it is next looked at.
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
