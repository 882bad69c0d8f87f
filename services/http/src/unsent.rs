//! Answers that were given, and for which the lane had no memory: kept until it has some, for who has answered is not asked again.

use crate::application::Application;
use crate::backlog::Wanted;
use crate::counters::HttpCounter;
use crate::outcome::{Answered, Done};
use crate::service::{Call, Http};
use crate::session::{Active, Kept, Look, Served, Session};
use corelane::Next;
use corelane::service::Input;

impl<A: Application> Http<A> {
    /// Whether somebody may be called who answers: the output has room, a ticket is left, and nobody's answer is kept for want of memory that would be wanted again.
    #[inline]
    pub(crate) fn room(&self, call: &mut Call<'_, '_, A::Talk>) -> MayAnswer {
        match call.output.ask_limit() && call.output.ask_ticket() {
            false => MayAnswer::Later,
            true if self.desk.backlog().is_empty() => MayAnswer::Now,
            true => self.room_beside_kept(call),
        }
    }

    /// The same while answers are kept.
    #[cold]
    fn room_beside_kept(&self, call: &mut Call<'_, '_, A::Talk>) -> MayAnswer {
        let (bytes, is_at_bound) = match self.desk.backlog().wanted(call.output.peer_payer()) {
            Wanted::Memory(bytes) => (bytes, false),
            Wanted::MemoryAtBound(bytes) => (bytes, true),
            Wanted::Never => {
                call.cx.count(HttpCounter::AnswersKeptMaxHits, 1);
                return MayAnswer::Never;
            }
        };
        if lends(call, bytes) {
            return MayAnswer::Now;
        }
        call.cx.count(HttpCounter::AnswersKeptMaxHits, is_at_bound.into());
        MayAnswer::Later
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
        // Another process may serve since it was given.
        if session.is_last && input.len() == kept.taken {
            kept.unsent.say_last();
        }
        if kept.unsent.write(call.output).is_err() {
            session.active = Some(self.spare.boxed(Active::Kept(kept)));
            return Look::Over(Next::Continue);
        }
        let Kept { taken, then, .. } = *kept;
        input.skip(taken);
        call.cx.count_requests((taken > 0).into());
        session.follow(then, &mut self.spare)
    }
}

/// Whether somebody may be called who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayAnswer {
    Now,
    /// Not yet: the service is called again when that has changed.
    Later,
    /// Too much is kept, so the client is told 503 (Service Unavailable).
    Never,
}

/// Whether the lane would lend so many bytes, as an answer takes them.
fn lends(call: &mut Call<'_, '_, impl corelane::Talk>, bytes: usize) -> bool {
    call.output.ask_room() && call.cx.arena().ask_in_pieces(bytes)
}
