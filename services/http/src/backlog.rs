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

/// Bytes of heads and copied content that the answers of a lane keep at most, outside of its memory; of these each peer has its share. Where that is not enough, the client is told 503 (Service
/// Unavailable) instead of the answer, and that is counted (`answers_lost`).
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
    /// Bytes of memory that a lane must lend to whom something more is answered: as many as the longest answer that is kept, within a bound. None where none is kept.
    #[inline]
    pub fn wanted(&self) -> Option<usize> {
        let longest = self.longest.get();
        (longest > 0).then(|| longest.min(ASKED_BYTES_MAX))
    }
}

/// An answer that is kept.
pub(crate) struct Unsent {
    bytes: Vec<u8>,
    behind: Behind,
    peer: Payer,
    backlog: Rc<Backlog>,
}

impl Unsent {
    /// Keeps a head with `bytes`, and what is sent behind it, for a peer; what that is, if there is no room for it.
    pub fn keep(bytes: &[u8], behind: Behind, peer: Payer, backlog: &Rc<Backlog>) -> Result<Self, Behind> {
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut all = backlog.bytes.borrow_mut();
        if !all.admits_more(peer, count) {
            return Err(behind);
        }
        all.take_more(Some(peer), count);
        backlog.longest.set(backlog.longest.get().max(bytes.len()));
        Ok(Self { bytes: bytes.to_vec(), behind, peer, backlog: backlog.clone() })
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
        all.give_more_back(Some(self.peer), self.bytes.len() as u32);
        if all.share().used == 0 {
            longest.set(0);
        }
    }
}
