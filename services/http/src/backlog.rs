//! What a lane keeps of answers for which it has no memory, within a bound; and what is said where nothing can be kept.

use crate::outcome::Behind;
use corelane::Output;
use corelane::service::Refused;
use std::cell::Cell;
use std::rc::Rc;

/// What is answered where no memory is lent for the answer that was meant.
pub(crate) const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
/// The same, and what is answered to a request that was held for longer than it might.
pub(crate) const UNAVAILABLE_AND_CLOSED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Bytes of heads and copied content that the answers of a lane keep at most, outside of its memory. Where that is not enough, the client is told 503 (Service
/// Unavailable) instead of the answer, and that is counted (`answers_lost`).
pub(crate) const UNSENT_BYTES_MAX: usize = 4 << 20;

/// The most that is asked for before somebody is called while answers are kept: what a peer that holds nothing is lent however short memory is, so that who is answered little never waits for who is
/// answered much.
const ASKED_BYTES_MAX: usize = 32 << 10;

/// What the answers of a lane that are kept come to.
#[derive(Default)]
pub(crate) struct Backlog {
    bytes: Cell<usize>,
    /// The longest since there was none.
    longest: Cell<usize>,
}

impl Backlog {
    /// Bytes of memory that a lane must lend to whom something more is answered: as many as the longest answer that is kept, within a bound. None where none is kept.
    #[inline]
    pub fn wanted(&self) -> Option<usize> {
        (self.bytes.get() > 0).then(|| self.longest.get().min(ASKED_BYTES_MAX))
    }
}

/// An answer that is kept.
pub(crate) struct Unsent {
    bytes: Vec<u8>,
    behind: Behind,
    backlog: Rc<Backlog>,
}

impl Unsent {
    /// Keeps a head with `bytes`, and what is sent behind it; what that is, if there is no room for it.
    pub fn keep(bytes: &[u8], behind: Behind, backlog: &Rc<Backlog>) -> Result<Self, Behind> {
        let all = backlog.bytes.get() + bytes.len();
        if all > UNSENT_BYTES_MAX {
            return Err(behind);
        }
        backlog.longest.set(backlog.longest.get().max(bytes.len()));
        backlog.bytes.set(all);
        Ok(Self { bytes: bytes.to_vec(), behind, backlog: backlog.clone() })
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
        assert!(bytes.get() >= self.bytes.len(), "what is kept was counted");
        bytes.set(bytes.get() - self.bytes.len());
        if bytes.get() == 0 {
            longest.set(0);
        }
    }
}
