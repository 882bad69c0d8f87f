//! What a lane keeps of answers for which it has no memory, within a bound; and what is said where nothing can be kept.

use crate::outcome::Behind;
use corelane::Output;
use corelane::service::parts::Payer;
use corelane::service::{Refused, Shares};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What is answered where no memory is lent for the answer that was meant.
pub(crate) const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
/// The same, and what is answered to a request that was held for longer than it might.
pub(crate) const UNAVAILABLE_AND_CLOSED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Bytes of heads and copied content that the answers of a lane keep, outside of its memory; of these each peer has its share. An answer that was given is kept all the same: how long it is shows behind the
/// call. So where an eighth is left, or nothing, for one of whom more than a little is kept nobody is called any more, and its requests are answered with 503 (Service Unavailable) instead
/// (`answers_kept_max_hits`, which counts, too, who waits for memory beyond its share).
pub(crate) const UNSENT_BYTES_MAX: usize = 4 << 20;

/// The most that is asked for before somebody is called while answers are kept: what a peer that holds nothing is lent however short memory is, so that who is answered little never waits for who is
/// answered much.
const ASKED_BYTES_MAX: usize = 32 << 10;

/// What the answers of a lane that are kept come to.
pub(crate) struct Backlog {
    bytes: RefCell<Shares<Payer>>,
    /// The longest since there was none.
    longest: Cell<usize>,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { bytes: RefCell::new(Shares::new(UNSENT_BYTES_MAX as u32)), longest: Cell::new(0) }
    }
}

impl Backlog {
    /// Whether no answer is kept.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.longest.get() == 0
    }

    /// What is asked before somebody answers a peer more.
    pub fn wanted(&self, peer: Payer) -> Wanted {
        let (all, bytes) = (self.bytes.borrow(), self.longest.get().min(ASKED_BYTES_MAX));
        let has_few = all.held(peer) <= all.share().small();
        match all.admits(peer) {
            true => Wanted::Memory(bytes),
            // What is left is for those of whom little is kept.
            false if has_few || all.share().admits_few() => Wanted::MemoryAtBound(bytes),
            false => Wanted::Never,
        }
    }
}

/// What is asked before somebody answers, while answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// That the lane would lend so many bytes: as many as the longest answer that is kept, within a bound.
    Memory(usize),
    /// The same of a peer that has its share of what is kept.
    MemoryAtBound(usize),
    /// Nobody answers it any more: too much is kept.
    Never,
}

/// The line that says that the connection closes, and the one that says that it stays, each with the end of the line before it.
const CLOSES: &[u8] = b"\r\nConnection: close\r\n";
const STAYS: &[u8] = b"\r\nConnection: keep-alive\r\n";

/// An answer that is kept.
pub(crate) struct Unsent {
    bytes: Vec<u8>,
    /// As many as it was counted with.
    count: u32,
    behind: Behind,
    peer: Payer,
    backlog: Rc<Backlog>,
}

impl Unsent {
    /// Keeps a head with `bytes`, and what is sent behind it, for a peer: it is there, and its author is not asked again.
    pub fn keep(bytes: &[u8], behind: Behind, peer: Payer, backlog: &Rc<Backlog>) -> Self {
        // reason: a longer one is refused before, as more than a lane ever lends.
        let count = u32::try_from(bytes.len()).expect("an answer is shorter than a lane's memory");
        backlog.bytes.borrow_mut().take_more(Some(peer), count);
        backlog.longest.set(backlog.longest.get().max(bytes.len()));
        Self { bytes: bytes.to_vec(), count, behind, peer, backlog: backlog.clone() }
    }

    /// Has its head say that it is the last of its connection (RFC 9112 section 9.6), which was not known as it was given.
    pub fn say_last(&mut self) {
        let place = |bytes: &[u8], line: &[u8]| bytes.windows(line.len()).position(|found| found == line);
        // reason: what is kept begins with a whole head.
        let end = place(&self.bytes, b"\r\n\r\n").expect("a head has an end");
        let head = &self.bytes[..end + 2];
        if place(head, CLOSES).is_some() {
            return;
        }
        // reason: a head has a status line.
        let line = place(head, b"\r\n").expect("a line has an end");
        let stays = place(head, STAYS).map_or(line..line + 2, |at| at..at + STAYS.len());
        self.bytes.splice(stays, CLOSES.iter().copied());
    }

    /// Writes it.
    ///
    /// # Errors
    /// What was refused; nothing was written then.
    pub fn write(&mut self, output: &mut Output) -> Result<(), Refused> {
        output.write(&self.bytes)?;
        std::mem::take(&mut self.behind).push_to(output);
        Ok(())
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        let Backlog { bytes, longest } = &*self.backlog;
        let mut all = bytes.borrow_mut();
        all.give_more_back(Some(self.peer), self.count);
        if all.share().used == 0 {
            longest.set(0);
        }
    }
}
