//! Answers that were given, and for which the lane had no memory: kept until it has some, for who has answered is not asked again.

use crate::application::Application;
use crate::deliver::{Answered, Behind, Done};
use crate::heads::Served;
use crate::service::{Call, Http};
use crate::session::{Active, Look, Session};
use corelane::Next;
use corelane::service::{Input, Output, Refused};
use std::cell::Cell;
use std::rc::Rc;

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

/// A request that was answered with what is kept.
pub(crate) struct Kept<A: Application> {
    unsent: Unsent,
    /// Bytes at the front of the input that it came in: they stay there, so that the lane knows of it.
    taken: usize,
    /// What comes behind the answer.
    then: Served<A>,
}

impl<A: Application> Kept<A> {
    /// The request lies in the first bytes of the input.
    pub fn lies_in(&mut self, bytes: usize) {
        self.taken = bytes;
    }
}

impl<A: Application> Http<A> {
    /// Whether somebody may be called who answers: the output has room, a ticket is left, and nobody's answer is kept for want of memory that would be wanted again. Where
    /// it is not so the service is called again when that has changed.
    #[inline]
    pub(crate) fn has_room(&self, call: &mut Call<'_, '_, A::Talk>) -> bool {
        let wanted = self.desk.backlog().wanted();
        call.output.ask_limit() && call.output.ask_ticket() && wanted.is_none_or(|bytes| lends(call, bytes))
    }

    /// What comes behind an answer, or its keeping before that.
    pub(crate) fn behind_answer(&self, answered: &Answered, then: Served<A>) -> Served<A> {
        match answered.0 {
            Done::Kept(_) => Served::Kept(Box::new(Kept { unsent: self.desk.take_unsent(), taken: 0, then })),
            Done::Written(_) | Done::Held => then,
        }
    }

    /// Writes an answer that was kept, and goes on behind it.
    pub(crate) fn write_kept(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        session: &mut Session<A>,
        input: &mut Input,
        mut kept: Box<Kept<A>>,
    ) -> Look {
        if kept.unsent.write(call.output).is_err() {
            session.active = Some(self.boxed(Active::Kept(kept)));
            return Look::Over(Next::Continue);
        }
        let Kept { taken, then, .. } = *kept;
        input.skip(taken);
        call.cx.count_requests((taken > 0).into());
        self.follow(session, then)
    }
}

/// Whether the lane would lend so many bytes, as an answer takes them.
#[cold]
fn lends(call: &mut Call<'_, '_, impl corelane::Talk>, bytes: usize) -> bool {
    call.output.ask_room() && call.cx.arena().ask_in_pieces(bytes)
}
