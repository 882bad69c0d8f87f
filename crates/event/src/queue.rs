//! The queue: its lock, its descriptors, and how threads wait at it.

#[cfg(test)]
mod interleavings;

use corelane_os::events::home::Home;
use corelane_os::events::number;
use corelane_os::events::polling::{Readiness, Report, Set, blank};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::closing;
use crate::record::{Change, Event, Filter};
use crate::refused::Refused;
use crate::registry;
use crate::set::{Token, Watched};
use crate::slab::Key;
use crate::state::State;

/// Reports taken from the kernel at once.
const AT_ONCE: usize = 128;

/// Who is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// One of those that wait; if nobody waits, the next that would.
    One,
    /// All that wait now.
    All,
}

/// What a program waits for events at; see the crate's documentation. It lives until its descriptor is closed ([`closed`](crate::closed), which the
/// C library's interposed calls tell), or until its owner [`Queue::end`]s it.
pub struct Queue {
    /// The program's descriptor: a set that holds the other one, so that it stays the same when that is built again. None once it is the
    /// program's to close.
    outer: Mutex<Option<OwnedFd>>,
    /// Its number.
    number: RawFd,
    home: Home,
    /// What is waited at.
    set: RwLock<Arc<Watched>>,
    state: Mutex<State>,
    /// Threads that wait, or are about to.
    waiters: AtomicUsize,
}

impl Queue {
    /// An empty queue, whose descriptor is closed by execve(2).
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM: too many descriptors, too little memory.
    pub fn new() -> Result<Arc<Self>, Refused> {
        let home = Home::here();
        closing::begin();
        let set = Arc::new(Watched::new().map_err(Refused::system)?);
        let outer = Set::new().map_err(Refused::system)?;
        outer.add(set.number(), Readiness::IN, Token::Inner.word()).map_err(Refused::system)?;
        let outer = outer.into_descriptor();
        let number = outer.as_raw_fd();
        let queue = Arc::new(Self {
            outer: Mutex::new(Some(outer)),
            number,
            home,
            set: RwLock::new(set.clone()),
            state: Mutex::new(State::new(set, number)?),
            waiters: AtomicUsize::new(0),
        });
        registry::insert(number, &queue);
        Ok(queue)
    }

    /// The queue whose descriptor has this number; none if there is none, or if it is another process's: queues are not inherited by fork(2).
    pub fn of(number: RawFd) -> Option<Arc<Self>> {
        registry::find(number)
    }

    /// The number of its descriptor, which is readable while there may be something to tell.
    pub fn descriptor(&self) -> RawFd {
        self.number
    }

    /// Interests that are registered.
    pub fn registered(&self) -> usize {
        self.state().len()
    }

    /// Registers, updates, switches or removes an interest.
    ///
    /// # Errors
    /// EINVAL: flags, notes or data that exclude each other, or a filter that the file does not have; ENOENT: not registered; EBADF: not an open
    /// descriptor, or the queue is another process's or another descriptor table's; ESRCH: no such process; ENOMEM: too many timers, or what the
    /// system says; ENOTSUP: NOTE_FORK, NOTE_EXEC, NOTE_TRACK.
    pub fn change(&self, change: &Change) -> Result<(), Refused> {
        self.check_home()?;
        let mut state = self.state();
        state.change(change)?;
        self.follow(&mut state)
    }

    /// Waits until there are at least `at_least` events, writes those that there are to the beginning of `events`, and says how many; after
    /// `timeout` (never without one) also if there are fewer. With no room, or `at_least` 0, it does not wait. No interest is told twice in one call.
    ///
    /// A waiter that is woken ([`Queue::wake`]) returns at once with what it has.
    ///
    /// # Errors
    /// EINTR: a signal's handler ran, and there was nothing to tell by then; EBADF as for [`Queue::change`].
    pub fn take(&self, events: &mut [Event], at_least: usize, timeout: Option<Duration>) -> Result<usize, Refused> {
        self.check_home()?;
        if events.is_empty() {
            return Ok(0);
        }
        let at_least = at_least.min(events.len());
        let mut call = Call { told: 0, held: Vec::new(), deadline: None };
        let answer = self.fill(&mut call, events, at_least, timeout);
        if !call.held.is_empty() {
            self.state().let_go(&call.held);
        }
        match answer {
            Err(refused) if call.told == 0 => Err(refused),
            _ => Ok(call.told),
        }
    }

    /// Has waiters return from [`Queue::take`] at once.
    pub fn wake(&self, who: Wake) {
        let waiters = match who {
            Wake::One => 1,
            Wake::All => self.waiters.load(Ordering::SeqCst),
        };
        self.state().wake(waiters);
    }

    /// Tells that what `ident` stands for (an asynchronous operation, for [`Filter::Aio`] and [`Filter::Lio`]) has come to its end.
    ///
    /// # Errors
    /// ENOENT: nobody is interested; EINVAL: events of this filter come from the system.
    pub fn post(&self, ident: u64, filter: Filter, notes: u32, data: i64) -> Result<(), Refused> {
        self.state().post(ident, filter, notes, data)
    }

    /// Closes the queue's descriptor. Who waits goes on waiting until his timeout, or is woken before; changes and waits that come later are
    /// refused to those who look for the queue by number.
    pub fn end(&self) {
        registry::remove(self.number);
        drop(self.outer.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The program closes the descriptor itself, or has done so.
    pub(crate) fn give_up(&self) {
        let outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(outer) = outer {
            let _ = outer.into_raw_fd();
        }
        self.wake(Wake::All);
    }

    /// Whether it is this process's: a fork has a copy of its memory.
    pub(crate) fn is_ours(&self) -> bool {
        self.home.is_this_process()
    }

    /// A descriptor of the program is about to be closed, if nobody has the lock: if somebody has, it is found out at retrieval.
    pub(crate) fn try_closed(&self, number: RawFd) {
        if let Ok(mut state) = self.state.try_lock() {
            state.closed(number);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic inside is a broken invariant of ours, and who comes next would believe what is not true.
        self.state.lock().unwrap_or_else(|_| panic!("a queue is whole: a thread has panicked while it held its lock"))
    }

    fn set(&self) -> Arc<Watched> {
        self.set.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn check_home(&self) -> Result<(), Refused> {
        if self.home.is_here() {
            return Ok(());
        }
        Err(Refused::new(
            number::EBADF,
            "a queue is used in the process and the descriptor table that it was made in: make one here",
        ))
    }

    /// Waits at the new set, if the old one was given up.
    fn follow(&self, state: &mut State) -> Result<(), Refused> {
        let Some(new) = state.rebuilt()? else { return Ok(()) };
        let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *set, new);
        let outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outer) = outer.as_ref() {
            Set::replace_in(outer, old.number(), set.number(), Token::Inner.word()).map_err(Refused::system)?;
        }
        Ok(())
    }

    /// Fills `events` until the call may return.
    fn fill(&self, call: &mut Call, events: &mut [Event], at_least: usize, timeout: Option<Duration>) -> Result<(), Refused> {
        let mut reports = [blank(); AT_ONCE];
        let mut wait = if at_least == 0 { Some(Duration::ZERO) } else { timeout };
        loop {
            let room = AT_ONCE.min(events.len() - call.told);
            let reported = self.collect(&mut reports[..room], wait)?;
            let mut state = self.state();
            let told = state.tell(&reports[..reported], &mut events[call.told..]);
            let fresh = call.told..call.told + told;
            call.told += told;
            let woken = state.take_wake();
            self.follow(&mut state)?;
            state.settle_bell();
            let is_over = reported == 0 && wait == Some(Duration::ZERO);
            if call.told >= at_least || woken || is_over {
                return Ok(());
            }
            state.hold(&events[fresh], &mut call.held);
            drop(state);
            wait = call.left(timeout);
        }
    }

    /// Waits for reports; nothing if the time is over.
    fn collect(&self, reports: &mut [Report], wait: Option<Duration>) -> Result<usize, Refused> {
        let set = self.set();
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let collected = set.collect(reports, wait);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        collected.map_err(Refused::system)
    }
}

/// One call of [`Queue::take`].
struct Call {
    told: usize,
    /// Interests that it has told, and that are to be told no more until it returns.
    held: Vec<Key>,
    /// When it is over, once it has had to wait on.
    deadline: Option<Instant>,
}

impl Call {
    /// How long it may still wait. The first wait lasted the whole time or has brought something.
    fn left(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let timeout = timeout?;
        let now = Instant::now();
        let deadline = *self.deadline.get_or_insert(now + timeout);
        Some(deadline.saturating_duration_since(now))
    }
}
