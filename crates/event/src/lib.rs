//! Event queues with the semantics of kqueue(2). Programs in Rust use this crate; programs in C use it through `crates/kqueue`.
//! Any thread may call it. It installs no signal handler, and starts no threads except for operations on files (see *Operations*).
//!
//! # Shape
//!
//! | word | meaning |
//! | --- | --- |
//! | *queue* | what a program waits at. Its descriptor is an epoll descriptor, so it can be polled and watched by another queue |
//! | *origin* | where activity comes from: an open descriptor, a file, a timer, a signal, a process, a number of the program's own |
//! | *interest* | one (ident, filter) of one queue: flags, notes, what was given, what has come since. kqueue's knote |
//! | *ready list* | interests that may be active, each once, in the order in which they became so |
//!
//! Activity on an origin touches that origin's interests alone (at most one a filter); nothing walks over all that is registered: adding,
//! removing and telling are O(1) in it (timers: O(log n) in the timers).
//!
//! # The way of an event
//!
//! 1. The kernel makes the queue's epoll descriptor readable. An epoll token names the origin by place and generation, so what was removed
//!    meanwhile is recognised.
//! 2. [`Queue::take`] collects tokens (one epoll_wait(2), outside of the queue's lock), and under the lock puts the origins' interests on
//!    the ready list; where that is empty, and nothing has to be heard first, an interest never gets there: it is asked when all reports of the batch are noted, so that memory which is not in the cache is fetched side by side.
//! 3. It goes over the ready list as long as it was at the start (a marker in other systems) and asks each origin how things stand *now*:
//!    bytes, space, connections, count. What is no longer true leaves the list in silence; what is true becomes an event.
//! 4. Told interests that are level-triggered stay on the list, at its tail. The kernel's own list serves for that where
//!    it can (*level* origins: all interests enabled, no low-water mark, none with CLEAR); else the origin is registered edge-triggered
//!    (EPOLLET) and stays on ours. A level origin that was reported with nothing to tell becomes an edge origin: nothing spins.
//! 5. While the ready list is not empty, a bell (eventfd(2)) in the epoll set keeps the queue's descriptor readable.
//!
//! Consequences: a queue may poll readable and then have nothing to tell (a low-water mark not reached, something read meanwhile). A
//! change on a descriptor arms its edge anew, so an interest with CLEAR on it may be told again for bytes that were told before, and so may all when the set is built again
//! (*Closing*): never lost, perhaps twice.
//!
//! # Origins
//!
//! | filter | heard by | asked at retrieval |
//! | --- | --- | --- |
//! | Read, Write | epoll | bytes FIONREAD, of several datagrams their memory (SO_MEMINFO); space SO_MEMINFO; listeners' backlog TCP_INFO (1 for others) |
//! | Read, Write of what never waits | nobody: it stays on the ready list | |
//! | Except | epoll | as reported |
//! | Read of a regular file | inotify(7) by /proc/thread-self/fd, so nothing holds the file open | size less offset |
//! | Empty | a timer while bytes are left: the kernel tells nobody that a buffer is drained | SIOCOUTQ |
//! | Vnode | inotify(7) | fstat(2) as the changes are read: names, size, permissions |
//! | Timer (4,096 a queue) | one timerfd(2) a clock over an ordered set | expirations since last told |
//! | Signal | one signalfd(2) for the process, counted for every queue | count since last told |
//! | Process, ProcessDescriptor | a pidfd; for forks and programs the process connector (netlink(7)) | waitid(2) without reaping; PIDFD_GET_INFO for processes that are not children |
//! | User | [`Queue::change`] | what was triggered |
//! | Aio, Lio | operations of the queue; [`Queue::post`] by who completes another | how they ended; what was posted |
//!
//! Forks and programs of a process, and its children (TRACK), are told where the kernel's process connector tells them: outside of containers, and by older kernels to the
//! superuser alone; elsewhere asking is refused (ENOTSUP). While somebody asks, every fork on the machine wakes the queue, which looks at its own processes. A watched queue tells how many interests are on its ready list, at
//! least 1: what only the kernel knows of is not counted.
//! A pipe that has less room than a low-water mark is asked again by a timer; a socket with a low-water mark for writing is heard of again only once
//! its buffer was full.
//!
//! *Errors of sockets* are never taken from the program: SO_ERROR would clear it, so an event's error number is inferred from what the
//! connection's state shows (ECONNREFUSED, ETIMEDOUT, ECONNRESET...), and the program finds the true one where it always was.
//!
//! # Closing
//!
//! An interest belongs to the open file that it was registered with. [`closed`] counts a close of a number (nothing but atomic operations where nobody
//! watches it, or in a child of fork(2) or vfork(2)), and ends its interests where no lock is held; each origin remembers the count of its registration, and one whose number was
//! closed since is dropped wherever it is met. A close that nobody told of is found by identity: an origin that is about to be told of is compared
//! with the file that was registered, and a change that finds another file begins anew. Where the old file lives on (a dup), epoll goes on reporting it
//! and refuses to remove it; then the set is built again. The program's descriptor is a set that holds that one, so it stays what it was, for who polls
//! it too; threads that wait at the old set are woken.
//!
//! A change on a descriptor that is in the set compares nothing: the set itself refuses a number that means another file, and what was registered has ended.
//! A waiter at a queue whose closes nobody tells looks once a second whether the queue is still open, if the process has other threads.
//!
//! Comparing costs a system call for each event. Where every close by the C library is told ([`closes_are_told`]), an origin is therefore compared only when
//! its answer does not fit its report, and when something is registered under its number; then a close past the
//! C library (a raw call, a ring's) is still found and never spins, but an event of the old file may be told once its number means another, as long as
//! both are ready.
//!
//! # Threads and processes
//!
//! One lock a queue, held while changes are made and while interests are asked, never while anybody sleeps. An interest is told to one
//! waiter of those that wait. A queue belongs to the process and the descriptor table that it was made in: in another it refuses (EBADF).
//!
//! # Operations
//!
//! [`Queue::submit`] begins an operation that is told of once, when it is over: receive, send, accept, connect, send a file (open, or by its path), read,
//! write and sync a file. An operation on a socket stands in the line of its origin, one line for what receives and one for what sends. It is carried on, without
//! waiting, by whoever submits it, and then by whoever enters the queue after the set has reported the socket, before the interests are asked; so it needs no thread.
//! What may wait for a disk (files, and the file's side of sending one) is done by at most four helper threads of the queue, because a ring of the
//! kernel's (io_uring(7)) is often forbidden, and would have helper threads of its own for the same work. A helper has a descriptor of its own of what it works with, blocks
//! all signals, and ends when it has had nothing to do for a second.
//!
//! ```text
//! submit -> enter -> begin_work -> stand_in_line -> go_on ... report -> carry_on -> go_on -> end_operation -> ready list -> told -> outcome
//!                             \-> give -> helper -> helped -> (have_been_sent -> line) or end_operation
//! ```
//!
//! An operation's end is registered as an interest that only switches touch; its memory is the operation's from its submission until its outcome is taken, and
//! what has ended and was not taken counts against the limit. 2007's network AIO: remaining bytes are [`Queue::progress`], BROKEN is an error or an end.
//!
//! # What kevent of 2007 has of it
//!
//! ```text
//! ctl(ADD, MODIFY)  register, modify: under one lock, in a Manner; what is ready by now is the answer, unless Manner::QUEUED
//! ctl(READY)        mark; with nothing to mark: wake(Wake::One)
//! one id, one mask  Filter::Ready (sockets, pipes), Filter::Poll: one interest for several bits
//! get_events(min)   take_each: at_least is a true minimum
//! ONESHOT, ET       Flags::ONESHOT, Flags::CLEAR
//! LAST_CHECK        as every interest of kqueue(2) is: asked at retrieval; without it Manner::UNCHECKED
//! WAKEUP_ALL        as every interest of kqueue(2) is; without it Manner::EXCLUSIVE
//! BROKEN            Manner::BROKEN: an origin's end is an event of its own
//! ring              take_into: who enters fills memory whose room is asked for when there are events (Intake)
//! ```
//!
//! # Faces
//!
//! ```text
//! impl Queue {                                            // Send + Sync; kept by the number of its descriptor until that is closed
//!     pub fn new() -> Result<Arc<Queue>, Refused>;        // CLOEXEC; EMFILE, ENFILE, ENOMEM
//!     pub fn of(number: RawFd) -> Option<Arc<Queue>>;     // the queue under that number, if it is still open
//!     pub fn descriptor(&self) -> RawFd;
//!     pub fn change(&self, change: &Change) -> Result<(), Refused>;
//!     pub fn take(&self, events: &mut [Event], at_least: usize, timeout: Option<Duration>) -> Result<usize, Refused>;
//!     pub fn take_each(&self, room: usize, at_least: usize, timeout: Option<Duration>, each: impl FnMut(Event)) -> Result<usize, Refused>;
//!     pub fn take_into(&self, intake: &mut dyn Intake, at_most: usize, timeout: Option<Duration>) -> Result<usize, Refused>;
//!     pub fn register(&self, change: &Change, manner: Manner) -> Result<Option<Event>, Refused>;  // EEXIST
//!     pub fn modify(&self, change: &Change, manner: Manner) -> Result<Option<Event>, Refused>;    // ENOENT
//!     pub fn mark(&self, ident: u64, filter: Filter) -> Result<(), Refused>;
//!     pub fn wake(&self, who: Wake) -> Result<(), Refused>;
//!     pub fn post(&self, ident: u64, filter: Filter, notes: u32, data: i64) -> Result<(), Refused>;
//!     pub fn submit(&self, submission: Submission) -> Result<(), Box<(Refused, Submission)>>;
//!     pub fn submit_list(&self, ident: u64, cookie: u64, list: Vec<Submission>) -> Result<(), (Refused, Vec<Submission>)>;
//!     pub fn cancel(&self, ident: u64) -> Result<(), Refused>;
//!     pub fn progress(&self, ident: u64) -> Option<Progress>;
//!     pub fn outcome(&self, ident: u64) -> Option<OperationResult>;
//!     pub fn hand_over_outcomes(&self);                   // outcomes go with their events
//!     pub fn names(&self, number: RawFd, room: usize) -> Result<(Vec<Named>, u64), Refused>;
//!     pub fn poster(&self) -> Result<Poster, Refused>;
//!     pub fn end(&self);                                  // closes the descriptor
//! }
//! pub fn closed(number: RawFd) -> bool;                   // before it is closed, or replaced by dup2(2)
//! ```
//!
//! [`Events`] is a queue with an owner, for Rust; [`Event::happening`] is an event to be matched on. A task of a lane waits at one by the lane's own operation for
//! descriptors (`Cx::poll`, `Lane::operation`), any other runtime's by its own means: [`Events::next`]. A lane triggers events of a queue by a [`Poster`], which takes no lock and
//! waits for nobody; made before the lane's descriptor table, it knows the queue's bell there.
//! A queue whose own descriptor is closed by the program (the C face: `close(kq)`) ends: [`closed`] takes it out of the list that [`Queue::of`] looks in,
//! and does not close the number again.
#![forbid(unsafe_code)]

mod closing;
mod events;
mod happening;
mod helpers;
mod interest;
mod names;
mod operation;
mod pending;
mod per_process;
mod poster;
mod queue;
mod ready;
mod record;
mod refused;
mod registry;
mod set;
mod signals;
mod spare;
mod state;

pub use events::Events;
pub use happening::{DescriptorEnd, Happening};
pub use names::{Happened, Named};
pub use operation::{Lent, Memory, OperationResult, Progress, Sent, Submission, Work};
pub use per_process::PerProcess;
pub use poster::Poster;
pub use queue::{Intake, Queue, Wake};
pub use record::{Change, Event, Filter, Flags, Manner, notes};
pub use refused::Refused;

use std::os::fd::RawFd;

/// The descriptor `number` is about to be closed, or to be replaced (dup2(2)): its interests end, in every queue; if it is a queue's own, the
/// queue ends. Call it before the close, so that nothing of it is left behind.
///
/// For a number that nobody watches this is two reads of memory, and may be called in a signal handler. It takes no lock that it would have to wait for:
/// what is locked is looked through by who lets go of it. After fork(2) or vfork(2), in the child, it does nothing to the parent's queues.
///
/// Whether a queue has ended with it, whose owner lets go of what he keeps beside it; false also where somebody has a lock, and ends the queue later.
pub fn closed(number: RawFd) -> bool {
    closing::count(number) && registry::closed(number)
}

/// The caller interposes on the C library's calls that close descriptors, and tells of each by [`closed`], before it happens. Origins are then not compared
/// with their files for each event. There is no way back.
pub fn closes_are_told() {
    closing::promise();
}
