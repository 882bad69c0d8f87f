//! Requests of which the rest does not come: answered with 408 (Request Timeout, RFC 9110 section 15.5.9) where nothing of the answer was sent;
//! with 503 (Service Unavailable, section 15.6.4) where it was the lane that had no memory for them.

use crate::Reply;
use crate::application::Application;
use crate::backlog::UNAVAILABLE_AND_CLOSED;
use crate::counters::HttpCounter;
use crate::facts::Facts;
use crate::log::{Asked, Sent, Trace};
use crate::outcome::{Answered, Done};
use crate::service::{Call, Http};
use crate::session::{Active, Relaying, Running, Session, Stage};
use corelane::Next;
use corelane::service::Input;
use corelane_wire::http1::Status;

const HEAD: &str = "408 Request Timeout\nthe head of the request did not come whole in time\n";
const CONTENT: &str = "408 Request Timeout\nthe content of the request did not come whole in time\n";

const UNINVITED: &str =
    "504 Gateway Timeout\nthe server behind this one has neither answered nor asked for the content in time\n";

/// Whether its client owes the rest of the content.
fn awaits_content<A: Application>(running: &Running<A>) -> bool {
    running.stage == Stage::Content || running.relaying == Relaying::Reads
}

impl<A: Application> Http<A> {
    /// Gives up a request that does not come whole.
    pub(crate) fn give_up(&mut self, call: &mut Call<'_, '_, A::Talk>, session: &mut Session<A>, input: &Input) -> Next {
        match session.active.take().map(|active| self.spare.unboxed(active)) {
            Some(Active::Head(_)) => {
                let asked = Asked { bytes: input.first(), head: None };
                self.answer_overdue(call, HEAD, Trace::Asked(asked))
            }
            Some(Active::Wanted(_)) => {
                let asked = Asked { bytes: input.first(), head: None };
                self.answer_overdue(call, CONTENT, Trace::Asked(asked))
            }
            Some(Active::Collected(mut collected)) => self.answer_overdue(call, CONTENT, Trace::Noted(&mut collected.note)),
            Some(Active::Running(mut running)) if awaits_content(&running) && running.sent.status == 0 => {
                self.tell_gone(call.cx, &mut running);
                // It waits to be told to go on, as it may, and it is another server that has not said so.
                if running.relaying == Relaying::Reads && !running.is_invited {
                    call.cx.count(HttpCounter::ForwardsTimedOut, 1);
                    running.because(Some("uninvited"));
                    return self.answer(call, (Status::GATEWAY_TIMEOUT, UNINVITED), Trace::Noted(&mut running.note));
                }
                self.answer_overdue(call, CONTENT, Trace::Noted(&mut running.note))
            }
            // It was answered: the answer may still be on its way.
            Some(Active::Unwanted { .. }) => Next::Close,
            // Nothing is asked, or it is answered already; the end of the connection is told as any other.
            other => {
                session.active = other.map(|active| self.spare.boxed(active));
                Next::Abort
            }
        }
    }

    fn answer_overdue(&mut self, call: &mut Call<'_, '_, A::Talk>, words: &str, trace: Trace<'_>) -> Next {
        self.answer(call, (Status::REQUEST_TIMEOUT, words), trace)
    }

    fn answer(&mut self, call: &mut Call<'_, '_, A::Talk>, (status, words): (Status, &str), mut trace: Trace<'_>) -> Next {
        if call.cx.waits_for_memory(call.cx.id()) {
            return self.answer_without_memory(call, trace);
        }
        let reply = Reply::new(call.output, &self.desk, Facts::LAST, trace.again());
        let answer = reply.answer(status).media("text/plain; charset=utf-8");
        match answer.bytes::<Answered>(words.as_bytes()) {
            Ok(answered @ Answered(Done::Written(_))) => {
                self.log_answer(trace, &answered, Facts::LAST);
                Next::Close
            }
            Ok(_) => {
                // There is no time left to keep it.
                drop(self.desk.take_unsent());
                self.answer_without_memory(call, trace)
            }
            Err(_) => self.answer_without_memory(call, trace),
        }
    }

    /// Answers with what takes no memory.
    fn answer_without_memory(&mut self, call: &mut Call<'_, '_, A::Talk>, trace: Trace<'_>) -> Next {
        let sent = Sent { status: Status::SERVICE_UNAVAILABLE.code(), bytes: 0 };
        call.output.push(UNAVAILABLE_AND_CLOSED);
        self.desk.count_answer(sent.status);
        self.log_answer(trace, &Answered(Done::Written(sent)), Facts::LAST);
        Next::Close
    }
}
