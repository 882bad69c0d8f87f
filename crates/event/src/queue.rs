//! The queue: its lock, its descriptors, and how threads wait at it.

#[cfg(test)]
mod interleavings;
mod submitting;

use corelane_os::events::home::{self, Home};
use corelane_os::events::number;
use corelane_os::events::polling::{Readiness, Report, ReportRoom, Set, room};
use corelane_seam::slab::Key;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::closing;
use crate::pending::Pending;
use crate::record::{Change, Event, Filter, Manner};
use crate::refused::Refused;
use crate::set::{Token, Watched};
use crate::spare;
use crate::state::{Sink, State};

/// Reports taken from the kernel at once. Many: what is told for as long as it is so is reported again behind what was not, so a batch that holds all takes one call,
/// and hears of nothing twice.
const AT_ONCE: usize = 1024;

/// How often a thread that waits looks whether another has closed the queue, where closes are not told.
const LOOK: Duration = Duration::from_secs(1);

/// A wait that is longer than this is as long as this.
const LONGEST: Duration = Duration::from_secs(1 << 32);

/// Who is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// One of those that wait; if nobody waits, the next that would.
    One,
    /// All that wait now.
    All,
}

const CLOSED: Refused = Refused::new(number::EBADF, "the queue's descriptor was closed: the caller makes another queue");

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
    /// Interests on its ready list, for who watches it.
    pending: Pending,
    /// Threads that wait, or are about to.
    waiters: AtomicUsize,
    /// A descriptor was closed while somebody had the lock, who looks for it when he lets go.
    missed: AtomicBool,
    /// The program has its number, and may close it while others wait.
    is_known: AtomicBool,
    /// Its own descriptor was closed by the program. Who has a lock hears of it when he lets go.
    given_up: AtomicBool,
}

/// Where events go whose room is known only when there are some: memory that others fill and empty meanwhile. Called under the queue's lock, which it leaves
/// alone, as it leaves the queue.
pub trait Intake {
    /// Events are about to come; for how many is there room?
    fn open(&mut self) -> usize;
    /// An event, within the room.
    fn put(&mut self, event: Event);
    /// These were all.
    fn close(&mut self);
}

impl Queue {
    /// An empty queue that nobody finds by its number.
    pub(crate) fn unknown() -> Result<Arc<Self>, Refused> {
        spare::check(spare::QUEUE)?;
        let home = Home::here();
        closing::begin();
        let set = Arc::new(Watched::new().map_err(Refused::system)?);
        let outer = Set::new().map_err(Refused::system)?;
        outer.add(set.number(), Readiness::IN, Token::Inner.word()).map_err(Refused::system)?;
        let outer = outer.into_descriptor();
        let number = outer.as_raw_fd();
        let state = State::new(set.clone(), number, home)?;
        let queue = Arc::new(Self {
            outer: Mutex::new(Some(outer)),
            number,
            home,
            set: RwLock::new(set),
            pending: state.pending(),
            state: Mutex::new(state),
            waiters: AtomicUsize::new(0),
            missed: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
        });
        queue.hear_of_helpers();
        Ok(queue)
    }

    /// From now on the program finds it by its number.
    pub(crate) fn become_known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// The number of its descriptor, which is readable while there may be something to tell.
    pub fn descriptor(&self) -> RawFd {
        self.number
    }

    /// Interests that are registered; none of them is in a child of fork(2), to which no queue is passed on.
    pub fn registered(&self) -> usize {
        // What a child has of its parent's lock may be held by a thread that is not there.
        if !self.home.is_this_process() {
            return 0;
        }
        let mut state = self.state();
        // A close that came while another thread had a lock is that one's to tell, in a moment.
        if self.home.is_here() {
            state.closed_meanwhile();
        }
        state.len()
    }

    /// Registers, updates, switches or removes an interest.
    ///
    /// # Errors
    /// EINVAL: flags, notes or data that exclude each other, or a filter that the file does not have; ENOENT: not registered; EBADF: not an open
    /// descriptor, or the queue is another process's or another descriptor table's; ESRCH: no such process; ENOMEM: too many timers, or what the
    /// system says; ENOTSUP: NOTE_FORK, NOTE_EXEC or NOTE_TRACK where the kernel does not tell of them; EBUSY: the end of an operation cannot be deleted.
    pub fn change(&self, change: &Change) -> Result<(), Refused> {
        self.check_home()?;
        let mut state = self.state();
        state.change(change)?;
        // What was asked for is done; a set that cannot be built again now is built again later.
        let _ = self.follow(&mut state);
        Ok(())
    }

    /// Registers what is not registered yet, in a manner of its own. What is ready by now is told in the answer, unless `manner` has [`Manner::QUEUED`].
    /// Of `change`'s flags those count that say how an interest behaves.
    ///
    /// # Errors
    /// EEXIST: it is registered; the others as for [`Queue::change`].
    pub fn register(&self, change: &Change, manner: Manner) -> Result<Option<Event>, Refused> {
        self.check_home()?;
        self.state().introduce(change, manner)
    }

    /// Puts another interest in place of the one that is registered under the same ident and filter, whose events that were not told are forgotten. As
    /// [`Queue::register`] otherwise.
    ///
    /// # Errors
    /// ENOENT: nothing is registered; after any other error (as for [`Queue::change`]) nothing is registered either.
    pub fn modify(&self, change: &Change, manner: Manner) -> Result<Option<Event>, Refused> {
        self.check_home()?;
        self.state().modify(change, manner)
    }

    /// Has what is registered be told once, whatever its origin says; with no notes and no data where that has nothing to say.
    ///
    /// # Errors
    /// ENOENT: nothing is registered under this ident and filter; EBADF as for [`Queue::change`].
    pub fn mark(&self, ident: u64, filter: Filter) -> Result<(), Refused> {
        self.check_home()?;
        self.state().mark(ident, filter)
    }

    /// As [`Queue::take_each`] for at least one event and at most `at_most`, into memory whose room is asked for after the wait. Returns, with how many were
    /// put there, also when there is no room, and when it was woken.
    ///
    /// # Errors
    /// As [`Queue::take`].
    pub fn take_into(&self, intake: &mut dyn Intake, at_most: usize, timeout: Option<Duration>) -> Result<usize, Refused> {
        self.check_home()?;
        if at_most == 0 {
            return Ok(0);
        }
        // What is reported and finds no room is asked again in the next call, by a system call for each.
        let at_once = AT_ONCE.min(at_most);
        let deadline = timeout.filter(|timeout| !timeout.is_zero()).map(|timeout| Instant::now() + timeout.min(LONGEST));
        let call = Call { told: 0, held: Vec::new(), deadline };
        let mut places = room::<AT_ONCE>();
        let mut wait = timeout;
        loop {
            let reports = self.collect(&mut places[..at_once], wait)?;
            let is_all = reports.len() < at_once;
            let (told, is_over) = self.pour(reports, at_once, intake, at_most)?;
            if told > 0 || is_over || wait == Some(Duration::ZERO) && is_all {
                return if told == 0 && !self.check_open() { Err(CLOSED) } else { Ok(told) };
            }
            wait = timeout.map(|_| call.left());
        }
    }

    /// Puts what `reports` speak of into `intake`, `at_most` so much; says how much that was, and whether the wait is over all the same.
    fn pour(
        &self,
        reports: &[Report],
        at_once: usize,
        intake: &mut dyn Intake,
        at_most: usize,
    ) -> Result<(usize, bool), Refused> {
        let mut state = self.state();
        let room = intake.open().min(at_most);
        let mut sink = Sink { each: &mut |event| intake.put(*event), room, is_patient: false };
        self.tell(&mut state, reports, at_once, &mut sink);
        let told = room - sink.room;
        intake.close();
        let woken = state.take_wake();
        self.follow(&mut state)?;
        state.settle_bell();
        Ok((told, woken || room == 0))
    }

    /// Waits until there are at least `at_least` events, writes those that there are to the beginning of `events`, and says how many; after
    /// `timeout` (never without one) also if there are fewer. With no room, or `at_least` 0, it does not wait. No interest is told twice in one call.
    ///
    /// A waiter that is woken ([`Queue::wake`]) returns at once with what it has.
    ///
    /// # Errors
    /// EINTR: a signal's handler ran, and there was nothing to tell by then; EBADF as for [`Queue::change`].
    pub fn take(&self, events: &mut [Event], at_least: usize, timeout: Option<Duration>) -> Result<usize, Refused> {
        let mut place = 0;
        self.take_each(events.len(), at_least, timeout, |event| {
            events[place] = event;
            place += 1;
        })
    }

    /// As [`Queue::take`], with each of at most `room` events given to `each` as it is told, so that memory of any form can be filled. Nothing is
    /// allocated for it, unless `at_least` is more than 1. `each` is called under the queue's lock, and leaves the queue alone.
    ///
    /// # Errors
    /// As [`Queue::take`].
    pub fn take_each(
        &self,
        room: usize,
        at_least: usize,
        timeout: Option<Duration>,
        mut each: impl FnMut(Event),
    ) -> Result<usize, Refused> {
        self.check_home()?;
        if room == 0 {
            return Ok(0);
        }
        let at_least = at_least.min(room);
        let deadline = timeout.filter(|timeout| !timeout.is_zero()).map(|timeout| Instant::now() + timeout.min(LONGEST));
        let mut call = Call { told: 0, held: Vec::new(), deadline };
        let sink = Sink { each: &mut |event| each(*event), room, is_patient: at_least > 1 };
        let answer = self.fill(&mut call, sink, at_least, timeout);
        if !call.held.is_empty() {
            self.state().let_go(&call.held);
        }
        match answer {
            Err(refused) if call.told == 0 => Err(refused),
            // A close that nobody told of is found where there is time.
            Ok(()) if call.told == 0 && !self.check_open() => Err(CLOSED),
            _ => Ok(call.told),
        }
    }

    /// Has waiters return from [`Queue::take`] at once.
    ///
    /// # Errors
    /// EBADF as for [`Queue::change`].
    pub fn wake(&self, who: Wake) -> Result<(), Refused> {
        self.check_home()?;
        let waiters = match who {
            Wake::One => 1,
            Wake::All => self.waiters.load(Ordering::SeqCst),
        };
        self.state().wake(waiters);
        Ok(())
    }

    /// Tells that what `ident` stands for (an asynchronous operation, for [`Filter::Aio`] and [`Filter::Lio`]) has come to its end.
    ///
    /// # Errors
    /// ENOENT: nobody is interested; EINVAL: events of this filter come from the system; EBADF as for [`Queue::change`].
    pub fn post(&self, ident: u64, filter: Filter, notes: u32, data: i64) -> Result<(), Refused> {
        self.check_home()?;
        self.state().post(ident, filter, notes, data)
    }

    /// The queue is closed: nothing of its operations goes on.
    fn cancel_all(&self) {
        // After a panic under the lock nothing goes on anyway.
        if let Ok(mut state) = self.state.lock() {
            state.cancel_all();
        }
    }

    /// Helpers tell what became of their work, for as long as there is a queue.
    fn hear_of_helpers(self: &Arc<Self>) {
        let queue = Arc::downgrade(self);
        let tell = move |operation, helped| {
            if let Some(queue) = queue.upgrade() {
                queue.state().helped(operation, helped);
            }
        };
        self.state().have_helpers_tell(Arc::new(tell));
    }

    /// Closes the queue's descriptor, if it is ours to close.
    pub(crate) fn close(&self) {
        // A child's copy of it is the child's: it stays open there where a thread of the parent held the lock.
        let outer = if self.home.is_this_process() {
            self.cancel_all();
            Some(self.outer.lock().unwrap_or_else(PoisonError::into_inner))
        } else {
            self.outer.try_lock().ok()
        };
        drop(outer.and_then(|mut outer| outer.take()));
    }

    /// Whether the program has closed the queue with all that is the queue's own, so that numbers of descriptors that belong to it may be the program's by now.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.is_of_this_process() && self.state().is_abandoned()
    }

    /// Whether the calling process is the one that made it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.home.is_this_process()
    }

    /// Another descriptor of the same file.
    pub(crate) fn duplicate(&self) -> std::io::Result<OwnedFd> {
        let outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner);
        // reason: asked by who has just made the queue, and has not ended it.
        outer.as_ref().expect("a queue begins with its descriptor").try_clone()
    }

    /// The program closes the descriptor itself, or has done so. Waits for nobody: it may do so in a signal handler, above a call that has the lock.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
        self.closed_meanwhile();
    }

    /// Ends what is left of a queue that was given up.
    fn part(&self, outer: &mut Option<OwnedFd>, state: &mut State) {
        if let Some(outer) = outer.take() {
            let _ = outer.into_raw_fd();
        }
        state.cancel_all();
        if !state.has_its_descriptors() {
            state.abandon();
        }
        // One who closes it from another descriptor table wakes nobody: what rings there has other numbers.
        if self.home.is_here() && !state.is_abandoned() {
            state.wake(self.waiters.load(Ordering::SeqCst));
        }
    }

    /// Looks whether its number is still its descriptor's, and hears what it has missed: a close that nobody told of leaves the number to others.
    pub(crate) fn check_open(&self) -> bool {
        let outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked for under the outer one's lock: who goes over to a new set changes both under it.
        let set = self.set();
        let is_open = outer.as_ref().is_some_and(|outer| Set::holds(outer, set.number(), Token::Inner.word()));
        drop(outer);
        self.hear_missed();
        is_open
    }

    /// How many interests were on its ready list when it was last looked at or changed: what the kernel has to report is not among them.
    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    /// A descriptor of the program is about to be closed. If somebody has the lock, he finds it when he lets go.
    pub(crate) fn try_closed(&self, number: RawFd) {
        match self.state.try_lock() {
            Ok(mut state) => {
                state.closed(number);
                drop(state);
                self.hear_missed();
            }
            Err(_) => self.closed_meanwhile(),
        }
    }

    /// Descriptors were closed, and nobody could be told.
    pub(crate) fn closed_meanwhile(&self) {
        self.missed.store(true, Ordering::SeqCst);
        self.hear_missed();
    }

    /// Looks for closes that came while a lock was held. Whoever holds one now does this after us.
    fn hear_missed(&self) {
        fence(Ordering::SeqCst);
        while self.missed.load(Ordering::SeqCst) {
            let Ok(mut state) = self.state.try_lock() else { return };
            let Ok(mut outer) = self.outer.try_lock() else { return };
            self.missed.store(false, Ordering::SeqCst);
            state.closed_meanwhile();
            if self.given_up.swap(false, Ordering::SeqCst) {
                self.part(&mut outer, &mut state);
            }
            drop((outer, state));
            fence(Ordering::SeqCst);
        }
    }

    fn state(&self) -> Held<'_> {
        // A panic inside is a broken invariant of ours, and who comes next would believe what is not true.
        let state =
            self.state.lock().unwrap_or_else(|_| panic!("a queue is whole: a thread has panicked while it held its lock"));
        Held { queue: self, state: Some(state) }
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

    /// Goes over to a new set, if the present one is worn: all of it, or nothing where the system refuses. Only a set that would
    /// make the queue spin is a reason to complain.
    fn follow(&self, state: &mut State) -> Result<(), Refused> {
        if !state.is_worn() {
            return Ok(());
        }
        match self.go_over(state) {
            Err(error) if state.is_haunted() => Err(Refused::system(error)),
            _ => Ok(()),
        }
    }

    fn go_over(&self, state: &mut State) -> Result<(), i32> {
        let new = state.renewed()?;
        let old = self.set();
        let outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outer) = outer.as_ref() {
            // It leaves the outer one with its last owner, should anything fail from here on.
            Set::add_in(outer, new.number(), Token::Inner.word())?;
        }
        old.retire()?;
        if let Some(outer) = outer.as_ref() {
            Set::remove_in(outer, old.number());
        }
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = new.clone();
        state.move_to(new);
        Ok(())
    }

    /// Fills `sink` until the call may return.
    fn fill(&self, call: &mut Call, mut sink: Sink, at_least: usize, timeout: Option<Duration>) -> Result<(), Refused> {
        let mut places = room::<AT_ONCE>();
        let mut wait = if at_least == 0 { Some(Duration::ZERO) } else { timeout };
        loop {
            let at_once = AT_ONCE.min(sink.room);
            let reports = self.collect(&mut places[..at_once], wait)?;
            let mut state = self.state();
            let room = sink.room;
            let is_all = self.tell(&mut state, reports, at_once, &mut sink);
            call.told += room - sink.room;
            let woken = state.take_wake();
            self.follow(&mut state)?;
            state.settle_bell();
            let is_over = is_all && wait == Some(Duration::ZERO);
            if call.told >= at_least || woken || is_over {
                return Ok(());
            }
            state.hold(&mut call.held);
            drop(state);
            wait = timeout.map(|_| call.left());
        }
    }

    /// Tells what `reports` speak of, of `at_once` that could have come, and then what others do, for as long as there is room and all that could come comes, and is
    /// told. Whether that was all.
    fn tell(&self, state: &mut State, reports: &[Report], at_once: usize, sink: &mut Sink) -> bool {
        state.begin();
        let (mut came, mut asked) = (reports.len(), at_once);
        let mut told = state.tell(reports, sink);
        // As many as were asked for may have left others behind. The set reports in turn: where not all of a batch was told, it has begun anew.
        while came == asked && told >= came && sink.room > 0 {
            let mut places = room::<AT_ONCE>();
            asked = AT_ONCE.min(sink.room);
            // It is not waited for under the lock, so nothing interrupts it.
            let others = self.set().collect(&mut places[..asked], Some(Duration::ZERO)).unwrap_or_default();
            came = others.len();
            told = state.tell(others, sink);
        }
        state.finish();
        came < asked
    }

    /// Waits for reports; nothing if the time is over.
    fn collect<'a>(&self, places: &'a mut [ReportRoom], wait: Option<Duration>) -> Result<&'a [Report], Refused> {
        let set = self.set();
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let is_long = wait.is_none_or(|wait| wait > LOOK);
        let collected = if is_long && self.is_known.load(Ordering::Relaxed) && !closing::are_told() {
            // Nobody closes a queue under the only thread.
            let wait_on = || if home::is_alone() { Some(LONGEST) } else { self.check_open().then_some(LOOK) };
            set.collect_while(places, wait, LOOK, wait_on)
        } else {
            set.collect(places, wait)
        };
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        // The set's number means a file that is no set: the program has closed all that was the queue's.
        collected.map_err(|error| if matches!(error, number::EINVAL | number::EBADF) { CLOSED } else { Refused::system(error) })
    }
}

/// A queue's state under its lock. Who lets go of it looks for what others could not tell him meanwhile.
struct Held<'a> {
    queue: &'a Queue,
    state: Option<MutexGuard<'a, State>>,
}

impl Deref for Held<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        // reason: it is taken by the drop alone.
        self.state.as_ref().expect("held until dropped")
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut State {
        // reason: as above.
        self.state.as_mut().expect("held until dropped")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        drop(self.state.take());
        if !std::thread::panicking() {
            self.queue.hear_missed();
        }
    }
}

/// One call of [`Queue::take`].
struct Call {
    told: usize,
    /// Interests that it has told, and that are to be told no more until it returns.
    held: Vec<Key>,
    /// When it is over; none where it does not wait, or for ever.
    deadline: Option<Instant>,
}

impl Call {
    /// How long it may still wait.
    fn left(&self) -> Duration {
        self.deadline.map_or(Duration::ZERO, |deadline| deadline.saturating_duration_since(Instant::now()))
    }
}
