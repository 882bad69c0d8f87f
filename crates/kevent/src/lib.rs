//! kevent of 2007, finished: event queues whose events are taken from shared memory without a call. The C face (`crates/kqueue`) stands on this.
//! Any thread may call it; it starts no thread and installs no signal handler.
//!
//! # Place and flow
//!
//! ```text
//! origin -> crates/event: interest, in a Manner -> Queue::take_into -> Ring -> Ring::take    no call
//!                                               -> Queue::take_each -> get_events            (and into the ring)
//! another process, or a thread with something of its own -> put -> Ring
//! ```
//!
//! The core asks and waits as for kqueue(2); here stand the record of 2007 (`record`), its calls (`queue`), and the ring (`ring`), whose memory is the
//! system's (`os`: shared, sealed, with a lock that survives its holder).
//!
//! ```text
//! Ring::new(size) -> Arc<Ring>                       // any size from 2; shared with children of fork(2), at the same address
//! Kevents::new(Option<Arc<Ring>>)                    // kevent_init
//!     add, modify, remove, ready                     // kevent_ctl
//!     get_events(at_least, records, timeout)         // kevent_get_events: a true minimum
//!     wait(at_most, seen, timeout), commit(position) // kevent_wait, kevent_commit
//!     put(record)                                    // an event of the program's own, from any process that shares the ring
//! Ring::take(records)                                // what wait has put there, each event once, without a call
//! ```
//!
//! # Who fills, who waits
//!
//! The ring is filled by whoever enters [`Kevents::wait`]: what is true is found out then, and put there as far as there is room; the rest stays with its
//! queue, and nothing is lost. A queue belongs to one process; a child that shares its ring takes, commits, puts, and waits for what others put. What is told
//! for as long as it is so (no [`Request::ET`], no [`Request::ONESHOT`]) lies in the ring once.
//! [`Request::LAST_CHECK`] has it asked when it is handed out by a call: into the ring by `wait`, to the program by `get_events`. Who wants it as late as can
//! be uses the latter.
//!
//! Nobody waits while there is something to take, so nothing is missed between taking and waiting: a connection that was closed after its last event was read
//! is told by the next call, at once.
//!
//! A ring is never handed over to a process that is no child. The original's contract has no call for it: its ring is memory of the process that makes the queue, by its
//! address, and the queue's descriptor is what a child inherits. Memory sent to a stranger would also have that one hold the lock over what others fill.
//!
//! A process that dies while it fills, or takes, leaves the ring as it was before ([`Ring`]).
//!
//! # Differences from the original
//!
//! - `get_events` waits for its minimum; the original waited for one.
//! - A kevent is known by its kind and id; in the original one id meant one kevent.
//! - A position counts rounds ([`Position`]), so that a late commit is found out within a round, too.
//! - A wait does not sleep while there is something in the ring.
//! - Signals are blocked in the thread that adds them, and only told here.
#![forbid(unsafe_code)]

mod memory;
#[cfg(not(loom))]
mod queue;
mod record;
mod ring;

#[cfg(not(loom))]
pub use queue::{Kevents, RECORDS_MAX, Statistics, Timeout};
pub use record::{Kind, Record, Request, Returned, SIGNAL_NO_MASK, WORDS, events};
pub use ring::{HEADER_WORDS, Position, Ring, SIZES};
