//! Triggers from threads that may wait for nobody, not even for the queue's lock: lanes.

use corelane_os::events::home::Home;
use corelane_os::events::number;
use corelane_os::events::polling::Bell;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::ThreadId;

use crate::refused::Refused;

/// Triggers that wait for the queue to be entered.
const ROOM: usize = 4096;

/// A user event that was triggered, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trigger {
    user: u64,
    data: i64,
}

/// What both ends share.
struct Rope {
    bell: Bell,
    /// Which bell it is, in whatever descriptor table.
    mark: u64,
    home: Home,
    /// It rings, or is about to.
    is_rung: AtomicBool,
}

/// Triggers user events of a queue, from a thread that must not wait ([`Queue::poster`](crate::Queue::poster)). It takes no lock; each thread has a clone.
///
/// A thread with a descriptor table of its own, as lanes have, can use one that was made before its table.
pub struct Poster {
    rope: Arc<Rope>,
    triggers: SyncSender<Trigger>,
    /// The thread in which the bell was found, last.
    found_in: Option<ThreadId>,
}

impl Clone for Poster {
    fn clone(&self) -> Self {
        Self { rope: self.rope.clone(), triggers: self.triggers.clone(), found_in: None }
    }
}

impl Poster {
    /// Triggers the user event `user`, with `data` in its event. Where nobody has registered it, nothing comes of it; what was triggered twice before it was told is told once, as ever.
    ///
    /// # Errors
    /// EAGAIN: 4,096 wait, because nobody enters the queue; EBADF: the queue is gone, or this is another process or a descriptor table in which
    /// the poster is not known.
    pub fn trigger(&mut self, user: u64, data: i64) -> Result<(), Refused> {
        self.check_place()?;
        let sent = self.triggers.try_send(Trigger { user, data });
        sent.map_err(|error| match error {
            std::sync::mpsc::TrySendError::Full(_) => {
                Refused::new(number::EAGAIN, "4,096 triggers wait: have somebody enter the queue, or try again")
            }
            std::sync::mpsc::TrySendError::Disconnected(_) => {
                Refused::new(number::EBADF, "the queue is gone: the caller makes another")
            }
        })?;
        if !self.rope.is_rung.swap(true, Ordering::AcqRel) {
            self.rope.bell.ring();
        }
        Ok(())
    }

    /// The bell's number means the bell here: asked once a thread.
    fn check_place(&mut self) -> Result<(), Refused> {
        let rope = &self.rope;
        if !rope.home.is_this_process() {
            return Err(UNKNOWN);
        }
        let thread = std::thread::current().id();
        if self.found_in != Some(thread) {
            if rope.bell.mark() != Some(rope.mark) {
                return Err(UNKNOWN);
            }
            self.found_in = Some(thread);
        }
        Ok(())
    }
}

const UNKNOWN: Refused = Refused::new(
    number::EBADF,
    "the queue's bell is not known here: make the poster in the same process, and before the thread's own descriptor table",
);

/// The queue's end of its posters.
pub struct Posted {
    rope: Arc<Rope>,
    triggers: Receiver<Trigger>,
    sender: SyncSender<Trigger>,
}

impl Posted {
    pub fn new(home: Home) -> Result<Self, i32> {
        let bell = Bell::new()?;
        let mark = bell.mark().ok_or(number::ENOTSUP)?;
        let (sender, triggers) = sync_channel(ROOM);
        let rope = Arc::new(Rope { bell, mark, home, is_rung: AtomicBool::new(false) });
        Ok(Self { rope, triggers, sender })
    }

    pub fn number(&self) -> RawFd {
        self.rope.bell.number()
    }

    pub fn poster(&self) -> Poster {
        Poster { rope: self.rope.clone(), triggers: self.sender.clone(), found_in: None }
    }

    /// What was posted: user and value, in order. What comes meanwhile rings again.
    pub fn take(&self) -> Vec<(u64, i64)> {
        self.rope.bell.silence();
        // Who finds that it rings has posted before this, and is seen below.
        self.rope.is_rung.swap(false, Ordering::AcqRel);
        let posted = std::iter::from_fn(|| self.triggers.try_recv().ok()).take(ROOM);
        let posted: Vec<_> = posted.map(|trigger| (trigger.user, trigger.data)).collect();
        if posted.len() == ROOM && !self.rope.is_rung.swap(true, Ordering::AcqRel) {
            // There may be more.
            self.rope.bell.ring();
        }
        posted
    }
}
