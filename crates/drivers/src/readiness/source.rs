//! What the drivers differ in: where they learn that a descriptor is ready, and who works on their files.

use crate::offload::{Ended, FileCall, Helpers};
use corelane_seam::Fault;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// How long a look for events may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// So many nanoseconds.
    Nanoseconds(u64),
    /// Until there is an event.
    Endless,
}

/// Whether other copies of a descriptor may stay open when it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// It is the only one.
    None,
    /// There may be others, of somebody else.
    Others,
    /// Other lanes have copies of this listener: what this one was told and did not use is told to them.
    Lanes,
}

/// What the bell's events carry; no key has this generation and index at once, since a table never gets so long.
pub const BELL: u64 = u64::MAX;

/// Among the events of a descriptor: it is not watched any more.
pub const UNWATCHED: i32 = libc::EPOLLONESHOT;

/// Where a driver learns that its descriptors are ready.
pub trait ReadinessSource {
    /// The driver's name.
    const NAME: &'static str;

    /// Reports `events` of the descriptor with `data`, as epoll_ctl(2) would: each edge with `EPOLLET`, else at least the
    /// first event. It may end by itself, with [`UNWATCHED`]; then it can be taken up again.
    ///
    /// With `EPOLLEXCLUSIVE` one event is reported, and if several wait for that of the same socket, to few of them, mostly to the one that
    /// has waited longest. Whoever was told calls [`ReadinessSource::rest`], and may watch again.
    ///
    /// # Errors
    /// Why the system does not watch it.
    fn watch(&mut self, descriptor: BorrowedFd, events: i32, data: u64) -> Result<(), Fault>;

    /// Reports other `events` of a descriptor that is watched; what is so already is reported again. It may come as
    /// [`UNWATCHED`], to be taken up again with those events.
    ///
    /// # Errors
    /// Why the system does not watch for them.
    fn change(&mut self, descriptor: BorrowedFd, events: i32, data: u64) -> Result<(), Fault>;

    /// Ends watching a descriptor with `EPOLLEXCLUSIVE` whose event was reported; returns the system calls used.
    fn rest(&mut self, _descriptor: BorrowedFd) -> u64 {
        0
    }

    /// Ends watching and closes the descriptor, with the next [`ReadinessSource::flush`] or, where the system takes longer, after it.
    fn close(&mut self, data: u64, descriptor: OwnedFd, copies: Copies);

    /// Whether a descriptor that was given to [`ReadinessSource::close`] is still open.
    fn is_closing(&self, _data: u64) -> bool {
        false
    }

    /// Looks for about `most` events; returns how many there are, for [`ReadinessSource::event`].
    ///
    /// # Errors
    /// `EINTR` if a signal ended the wait.
    fn look(&mut self, pause: Pause, most: usize) -> Result<usize, i32>;

    /// An event of the last look: the data of its descriptor, and what has happened.
    fn event(&self, index: usize) -> (u64, i32);

    /// Hands over what the kernel was not told yet; returns the system calls used.
    fn flush(&mut self) -> u64 {
        0
    }

    /// Begins a file operation, whose end comes with `token`. The memory that it names stays until then.
    ///
    /// # Errors
    /// Why it did not begin.
    fn begin_file(&mut self, token: u32, call: FileCall, helpers: &mut Helpers) -> Result<(), Fault> {
        helpers.file(token, call)
    }

    /// Adds the file operations that have ended, unless the helpers do.
    fn take_ended(&mut self, _ended: &mut Vec<Ended>) {}

    /// Ends whatever is under way, and waits until the kernel uses no memory any more, but no longer than `patience`: if
    /// it returns false, that memory must stay for ever.
    fn end(&mut self, _patience: Duration) -> bool {
        true
    }
}
