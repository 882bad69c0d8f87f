//! Answers that were given, and for which the lane had no memory: kept until it has some, for who has answered is not asked again.

use crate::application::Application;
use crate::outcome::{Answered, Done};
use crate::service::{Call, Http};
use crate::session::{Active, Kept, Look, Served, Session};
use corelane::Next;
use corelane::service::Input;

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
