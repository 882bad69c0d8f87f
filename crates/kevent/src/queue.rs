//! The queue of 2007: its calls, over the core's queue and a ring.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use corelane_event::{Change, Event, Filter, Intake, Queue, Refused, Wake};
use corelane_os::events::home::Home;
use corelane_os::events::number;
use corelane_os::events::polling::Bell;
use corelane_os::{clock, shared};

use crate::record::{Record, Returned};
use crate::ring::{Filling, Position, Ring, SLEEPING, WAITING};

/// The most records in one call.
pub const RECORDS_MAX: usize = 65_536;

const TOO_MANY: Refused =
    Refused { number: number::EINVAL, words: "more records than one call takes, or than are registered: the caller gives fewer" };
const NO_RING: Refused = Refused { number: number::EINVAL, words: "the queue has no ring: the caller makes one with a ring" };
const FULL: Refused = Refused { number: number::ENOSPC, words: "the ring is full: who shares it takes events first" };

/// How long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// So long; not at all with none of it.
    Within(Duration),
    /// Until the wall clock shows this time since 1970.
    Until(Duration),
    /// For ever.
    Never,
}

impl Timeout {
    /// What is left of it.
    fn left(self) -> Option<Duration> {
        match self {
            Self::Within(time) => Some(time),
            Self::Until(instant) => Some(instant.saturating_sub(Duration::from_nanos(clock::wall_clock()))),
            Self::Never => None,
        }
    }
}

/// Events told since the queue was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// By [`Kevents::get_events`].
    pub taken: u64,
    /// Put into the ring by who waited; what others put there is not counted.
    pub ringed: u64,
    /// Ready, or refused, as they were added.
    pub at_once: u64,
    /// All of these.
    pub total: u64,
}

#[derive(Debug, Default)]
struct Counts {
    taken: AtomicU64,
    ringed: AtomicU64,
    at_once: AtomicU64,
}

struct MappedRing {
    ring: Arc<Ring>,
    /// Rung by who puts events into the ring while threads sleep at the queue.
    bell: Bell,
}

/// A queue as kevent of 2007 has it; see the crate's documentation. Any thread may call it.
pub struct Kevents {
    queue: Arc<Queue>,
    shared: Option<MappedRing>,
    home: Home,
    counts: Counts,
}

impl Kevents {
    /// An empty queue, whose events can be put into `ring`.
    ///
    /// # Errors
    /// As [`Queue::new`].
    pub fn new(ring: Option<Arc<Ring>>) -> Result<Self, Refused> {
        let queue = Queue::new()?;
        let shared = ring.map(|ring| share(&queue, ring)).transpose().inspect_err(|_| queue.end())?;
        Ok(Self { queue, shared, home: Home::here(), counts: Counts::default() })
    }

    /// The core's queue behind it: its descriptor, which is readable while there may be something to tell, and where operations are posted.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Whether the calling process is the one that made it; a child shares its ring alone.
    pub fn is_of_this_process(&self) -> bool {
        self.home.is_this_process()
    }

    /// The ring, if there is one.
    pub fn ring(&self) -> Option<&Arc<Ring>> {
        self.shared.as_ref().map(|shared| &shared.ring)
    }

    /// Adds each record. What is ready at once, or is refused ([`Returned::BROKEN`], with the errno), is brought to the front of `records`; returns how many these are.
    ///
    /// # Errors
    /// EINVAL: more than [`RECORDS_MAX`]; EBADF: the queue is another process's.
    pub fn add(&self, records: &mut [Record]) -> Result<usize, Refused> {
        self.check_count(records.len(), RECORDS_MAX)?;
        let mut answers = 0;
        for index in 0..records.len() {
            if let Some(answer) = self.add_one(&records[index]) {
                records[answers] = answer;
                answers += 1;
            }
            assert!(answers <= index + 1, "no record is overwritten before it is read");
        }
        self.counts.at_once.fetch_add(answers as u64, Ordering::Relaxed);
        Ok(answers)
    }

    /// Replaces each kevent that has a record's id and kind by what the record says; it is asked anew at once. Each record is marked as done, and as broken where
    /// nothing is registered (by then). Returns how many were found.
    ///
    /// # Errors
    /// EINVAL: more records than are registered; EBADF as for [`Kevents::add`].
    pub fn modify(&self, records: &mut [Record]) -> Result<usize, Refused> {
        self.each(records, |record| {
            let change = record.change()?;
            self.queue.modify(&change, record.manner() | corelane_event::Manner::QUEUED).map(|_| ())
        })
    }

    /// Removes the kevents that have the records' ids and kinds, with what there was to tell of them. As [`Kevents::modify`].
    ///
    /// # Errors
    /// As [`Kevents::modify`].
    pub fn remove(&self, records: &mut [Record]) -> Result<usize, Refused> {
        self.each(records, |record| {
            let (ident, filter) = record.name()?;
            self.queue.change(&Change::delete(ident, filter))
        })
    }

    /// Has each kevent that is named be told once, whatever is true of it, and says how many were found. With no records, wakes one thread that waits.
    ///
    /// # Errors
    /// As [`Kevents::add`].
    pub fn ready(&self, records: &[Record]) -> Result<usize, Refused> {
        self.check_count(records.len(), RECORDS_MAX)?;
        if records.is_empty() {
            return self.queue.wake(Wake::One).map(|()| 0);
        }
        let mark = |record: &&Record| record.name().and_then(|(ident, filter)| self.queue.mark(ident, filter)).is_ok();
        Ok(records.iter().filter(mark).count())
    }

    /// Waits until at least `at_least` events have come, at most the room in `records`, or the timeout is over, or the thread is woken; writes those that there are and
    /// says how many. What the ring has room for is put there too.
    ///
    /// # Errors
    /// As [`Queue::take`]; EIO: the ring was written over.
    pub fn get_events(&self, at_least: usize, records: &mut [Record], timeout: Timeout) -> Result<usize, Refused> {
        self.check_home()?;
        let mut count = 0;
        let (room, bell) = (records.len().min(RECORDS_MAX), self.bell());
        self.queue.take_each(room, at_least.min(room), timeout.left(), |event| {
            if !is_of(&event, bell) {
                assert!(count < room, "no more is told than there is room for");
                records[count] = Record::of(&event);
                count += 1;
            }
        })?;
        self.counts.taken.fetch_add(count as u64, Ordering::Relaxed);
        if let Some(ring) = self.ring() {
            copy_to(ring, &records[..count])?;
        }
        Ok(count)
    }

    /// Puts at most `at_most` events that have come into the ring and says how many these are. Where there are none it waits for one, unless there is something in the
    /// ring, or its index is another than `seen`; and until the timeout is over, or the thread is woken. In a process that shares the ring alone it waits for what others
    /// put there.
    ///
    /// # Errors
    /// EINVAL: no ring; the others as for [`Kevents::get_events`].
    pub fn wait(&self, at_most: usize, seen: u32, timeout: Timeout) -> Result<usize, Refused> {
        let shared = self.shared.as_ref().ok_or(NO_RING)?;
        if at_most == 0 || shared.ring.position().index != seen {
            return Ok(0);
        }
        if !self.home.is_this_process() {
            shared.ring.sleep(timeout.left());
            return Ok(0);
        }
        let mut mover = Mover { shared, filling: None, lying: HashSet::new(), moved: 0, fault: None };
        let waiting = shared.ring.word(WAITING);
        waiting.fetch_add(1, Ordering::SeqCst);
        // Either who puts an event into the ring sees that we wait, or we see the event.
        fence(Ordering::SeqCst);
        let lying = shared.ring.len();
        let timeout = if lying == 0 { timeout.left() } else { Some(Duration::ZERO) };
        // One at least, so that a full ring is found where it is filled.
        let room = (shared.ring.size() - lying).max(1) as usize;
        let answer = self.queue.take_into(&mut mover, at_most.min(room), timeout);
        waiting.fetch_sub(1, Ordering::SeqCst);
        assert!(mover.filling.is_none(), "what was opened is closed: its lock is free, and what was put is seen");
        assert!(mover.moved <= at_most, "no more is moved than was asked for");
        self.counts.ringed.fetch_add(mover.moved as u64, Ordering::Relaxed);
        match mover.fault {
            Some(fault) => Err(fault),
            None => answer.map(|_| mover.moved),
        }
    }

    /// As [`Ring::commit`].
    ///
    /// # Errors
    /// EINVAL: no ring; and those of [`Ring::commit`].
    pub fn commit(&self, to: Position) -> Result<u32, Refused> {
        self.ring().ok_or(NO_RING)?.commit(to)
    }

    /// Puts an event of the program's own into the ring, from any process that shares it, and wakes one thread that waits.
    ///
    /// # Errors
    /// EINVAL: no ring; ENOSPC: it is full; EIO: it was written over.
    pub fn put(&self, record: &Record) -> Result<(), Refused> {
        let shared = self.shared.as_ref().ok_or(NO_RING)?;
        shared.ring.put(record)?;
        if shared.ring.word(WAITING).load(Ordering::SeqCst) > 0 {
            shared.bell.ring();
        }
        Ok(())
    }

    /// What was told so far.
    pub fn statistics(&self) -> Statistics {
        let counts = [&self.counts.taken, &self.counts.ringed, &self.counts.at_once];
        let [taken, ringed, at_once] = counts.map(|count| count.load(Ordering::Relaxed));
        Statistics { taken, ringed, at_once, total: taken + ringed + at_once }
    }

    /// What is to be told of a record that is added, at once.
    fn add_one(&self, record: &Record) -> Option<Record> {
        let added = record.change().and_then(|change| self.queue.register(&change, record.manner()));
        match added {
            Ok(event) => event.map(|event| Record::of(&event)),
            Err(refused) => Some(record.refused(refused.number)),
        }
    }

    fn each(&self, records: &mut [Record], act: impl Fn(&Record) -> Result<(), Refused>) -> Result<usize, Refused> {
        // What the program registers is counted, and not the bell.
        let own = usize::from(self.shared.is_some());
        self.check_count(records.len(), self.queue.registered().saturating_sub(own).min(RECORDS_MAX))?;
        let mut found = 0;
        for record in records {
            match act(record) {
                Ok(()) => {
                    record.returned = Returned::DONE;
                    found += 1;
                }
                Err(refused) => *record = record.refused(refused.number),
            }
        }
        Ok(found)
    }

    fn check_count(&self, count: usize, most: usize) -> Result<(), Refused> {
        self.check_home()?;
        if count > most { Err(TOO_MANY) } else { Ok(()) }
    }

    fn check_home(&self) -> Result<(), Refused> {
        if self.home.is_this_process() {
            return Ok(());
        }
        let words = "a child shares the ring alone: it waits, takes, commits and puts, and makes a queue of its own for the rest";
        Err(Refused { number: number::EBADF, words })
    }

    fn bell(&self) -> Option<u64> {
        self.shared.as_ref().map(MappedRing::ident)
    }
}

impl MappedRing {
    fn ident(&self) -> u64 {
        self.bell.number().unsigned_abs().into()
    }
}

/// A bell in `queue`, for who puts events into `ring`.
fn share(queue: &Queue, ring: Arc<Ring>) -> Result<MappedRing, Refused> {
    let words = "too many descriptors: the operator raises the process's limit (RLIMIT_NOFILE)";
    let bell = Bell::new().map_err(|number| Refused { number, words })?;
    let shared = MappedRing { ring, bell };
    queue.change(&Change::add(shared.ident(), Filter::Read).cleared())?;
    Ok(shared)
}

fn is_of(event: &Event, bell: Option<u64>) -> bool {
    event.filter == Filter::Read && bell == Some(event.ident)
}

/// What there is room for is put into the ring as well.
fn copy_to(ring: &Ring, records: &[Record]) -> Result<(), Refused> {
    let mut filling = ring.fill()?;
    let count = records.len().min(filling.room() as usize);
    records[..count].iter().for_each(|record| filling.put(record));
    drop(filling);
    ring.rouse(count);
    Ok(())
}

/// Moves events from the queue into the ring.
struct Mover<'a> {
    shared: &'a MappedRing,
    filling: Option<Filling<'a>>,
    /// What lies in the ring, of that which is told for as long as it is so: it is not put there twice.
    lying: HashSet<(u32, u64)>,
    moved: usize,
    /// Why there was no room.
    fault: Option<Refused>,
}

impl Intake for Mover<'_> {
    fn open(&mut self) -> usize {
        assert!(self.filling.is_none(), "a ring is filled once at a time");
        let filling = match self.shared.ring.fill() {
            Ok(filling) => filling,
            Err(refused) => {
                self.fault = Some(refused);
                return 0;
            }
        };
        let left = self.shared.ring.left().into_iter().filter(Record::is_level);
        self.lying = left.map(|record| (record.kind, record.id)).collect();
        let room = filling.room() as usize;
        self.filling = Some(filling);
        room
    }

    fn put(&mut self, event: Event) {
        if is_of(&event, Some(self.shared.ident())) {
            return;
        }
        let record = Record::of(&event);
        if record.is_level() && self.lying.contains(&(record.kind, record.id)) {
            return;
        }
        // reason: events are put between the opening and the close.
        self.filling.as_mut().expect("an open ring").put(&record);
    }

    fn close(&mut self) {
        let Some(filling) = self.filling.take() else { return };
        let filled = filling.filled() as usize;
        drop(filling);
        self.moved += filled;
        self.shared.ring.rouse(filled);
    }
}

impl Ring {
    /// Puts one event there, and wakes one thread that sleeps here.
    ///
    /// # Errors
    /// ENOSPC: it is full; EIO: it was written over.
    pub(crate) fn put(&self, record: &Record) -> Result<(), Refused> {
        let mut filling = self.fill()?;
        if filling.room() == 0 {
            return Err(FULL);
        }
        filling.put(record);
        drop(filling);
        self.rouse(1);
        Ok(())
    }

    /// Wakes threads that sleep here, one for each of `events` that were put.
    fn rouse(&self, events: usize) {
        // Either who is about to sleep sees the event, or we see that he sleeps.
        fence(Ordering::SeqCst);
        if events > 0 && self.word(SLEEPING).load(Ordering::SeqCst) > 0 {
            shared::wake(self.produced(), u32::try_from(events).unwrap_or(u32::MAX));
        }
    }

    /// Sleeps until there is something to take, or the timeout is over, or a signal has come.
    fn sleep(&self, timeout: Option<Duration>) {
        let sleeping = self.word(SLEEPING);
        sleeping.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let seen = self.produced().load(Ordering::SeqCst) as u32;
        if self.is_empty() {
            shared::sleep(self.produced(), seen, timeout);
        }
        sleeping.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Kevents {
    /// Ends the queue, unless the program has closed its descriptor; the ring stays with those that share it.
    fn drop(&mut self) {
        if !self.home.is_this_process() {
            return;
        }
        // One whose number is the program's by now is not closed.
        if self.queue.is_abandoned() {
            self.shared.take().into_iter().for_each(|shared| std::mem::forget(shared.bell));
            return;
        }
        if let Some(shared) = &self.shared {
            corelane_event::closed(shared.bell.number());
        }
        // The number may be another queue's by now.
        if Queue::of(self.queue.descriptor()).is_some_and(|queue| Arc::ptr_eq(&queue, &self.queue)) {
            self.queue.end();
        }
    }
}

impl std::fmt::Debug for Kevents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kevents")
            .field("descriptor", &self.queue.descriptor())
            .field("ring", &self.ring())
            .finish_non_exhaustive()
    }
}
