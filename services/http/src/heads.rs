//! Requests found in the input, and served.

use crate::application::{Application, First, Handled};
use crate::counters::HttpCounter;
use crate::facts::Facts;
use crate::log::{Asked, Note, Sent, Trace};
use crate::outcome::{Answered, Done, Given};
use crate::service::{Call, Http};
use crate::session::{Active, Collected, Look, Relaying, Running, Served, Session, Stage};
use crate::unsent::MayAnswer;
use crate::{Reply, Request};
use corelane::service::{Input, Output, Owes, Refused, Shared};
use corelane::{Next, Talk};
use corelane_wire::http1::{Body, Framing, Method, Refusal, Request as Head, Requests, Scratch, Status, Step};

/// A request that has arrived: its head, the bytes of that, and its content if that was collected.
#[derive(Clone, Copy)]
pub(crate) struct Arrived<'a> {
    pub head: &'a Head<'a>,
    pub bytes: &'a [u8],
    pub content: Option<&'a Shared>,
    pub facts: Facts,
}

/// How the serving of requests that lie together has ended.
struct Run<A: Application> {
    /// Bytes that were served.
    taken: usize,
    requests: usize,
    end: RunEnd<A>,
}

enum RunEnd<A: Application> {
    /// What is left is no whole head.
    Partial(Requests),
    Served(Served<A>),
}

impl<'a> Arrived<'a> {
    /// How much content is still to be read.
    fn framing(&self) -> Framing {
        if self.content.is_some() { Framing::None } else { self.head.framing }
    }

    /// As its line in the log shows it.
    fn asked(&self) -> Asked<'a> {
        Asked { bytes: self.bytes, head: Some(self.head) }
    }
}

/// Closes behind the answer to a request that its client has called its last (RFC 9112 section 9.6), and that was read whole: nothing more comes.
fn close_behind_last<A: Application>(output: &mut Output) -> Served<A> {
    output.peer_owes(Owes::Nothing);
    Served::Close
}

impl<A: Application> Http<A> {
    pub(crate) fn begin_head(&self) -> Requests {
        Requests::new(self.settings.head)
    }

    /// Serves the requests that lie together at the front of the input.
    pub(crate) fn look_at_heads(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        session: &mut Session<A>,
        input: &mut Input,
        begun: Requests,
    ) -> Look {
        let Run { taken, requests, end } =
            self.serve_run(call, session.is_last && input.first().len() == input.len(), input.first(), begun);
        input.skip(taken);
        call.cx.count_requests(requests);
        match end {
            RunEnd::Served(served) => session.follow(served, &mut self.spare),
            RunEnd::Partial(_) if input.is_empty() => Look::Over(Next::Continue),
            RunEnd::Partial(begun) => {
                session.active = Some(self.spare.boxed(Active::Head(begun)));
                match self.join_head(input) {
                    true => Look::Again,
                    // Not the rate but the time for a head says how long the rest of it may take.
                    false => Look::Over(Next::More),
                }
            }
        }
    }

    /// Joins what follows the beginning of a head to it; whether there was anything, and memory for it.
    fn join_head(&self, input: &mut Input) -> bool {
        let (lies_together, there) = (input.first().len(), input.len());
        let wanted = there.min(lies_together + self.settings.head.head_bytes);
        lies_together < there && input.contiguous(wanted).is_some()
    }

    fn serve_run(&mut self, call: &mut Call<'_, '_, A::Talk>, is_last: bool, bytes: &[u8], mut begun: Requests) -> Run<A> {
        let (mut taken, mut requests) = (0, 0);
        while taken < bytes.len() {
            let mut scratch = Scratch::new();
            let (head, length, refusal) = match begun.next(&bytes[taken..], &mut scratch) {
                Ok(Step::Request { head, bytes }) => (head, bytes, not_ours(call, &head)),
                Ok(Step::Refused { head, bytes, refusal }) => (head, bytes, Some(refusal)),
                Ok(Step::More(drop)) => return Run { taken: taken + drop, requests, end: RunEnd::Partial(begun) },
                Err(refusal) => {
                    let asked = Asked { bytes: &bytes[taken..], head: None };
                    return Run { taken, requests, end: RunEnd::Served(self.refuse(call, refusal, Trace::Asked(asked))) };
                }
            };
            let same = &bytes[taken..taken + length];
            // One that repeats it byte for byte, as those of busy clients do, is the same.
            while bytes[taken..].starts_with(same) {
                let facts = self.facts(call, &head, is_last && taken + length == bytes.len());
                let arrived = Arrived { head: &head, bytes: same, content: None, facts };
                let mut served = match (self.room(call), refusal) {
                    (MayAnswer::Now, None) => self.serve(call, arrived, Trace::Asked(arrived.asked())),
                    (MayAnswer::Now, Some(refusal)) => self.serve_refusal(call, arrived, refusal),
                    (MayAnswer::Later, _) => Served::Refused,
                    (MayAnswer::Never, _) => self.answer_unavailable(call, arrived, Trace::Asked(arrived.asked())),
                };
                if let Served::Kept(kept) = &mut served {
                    kept.lies_in(length);
                }
                let done = usize::from(!matches!(served, Served::Refused | Served::Kept(_) | Served::Wanted(_)));
                (taken, requests) = (taken + done * length, requests + done);
                if !matches!(served, Served::Next) {
                    return Run { taken, requests, end: RunEnd::Served(served) };
                }
            }
        }
        Run { taken, requests, end: RunEnd::Served(Served::Next) }
    }

    #[inline]
    fn facts(&self, call: &mut Call<'_, '_, A::Talk>, head: &Head<'_>, is_last: bool) -> Facts {
        let whose = self.application.whose(call.cx, head.authority.map(|authority| authority.host));
        Facts { persists: head.persists && !is_last, fields: self.desk.matched(head, whose), whose, ..Facts::of(head) }
    }

    /// What an answer must know that is given before the content is read: it says that the connection closes where that is so (RFC 9112 section 9.6).
    #[inline]
    fn facts_unread(&self, arrived: &Arrived<'_>) -> Facts {
        let (facts, announced) = match arrived.framing() {
            Framing::Length(length) if length > 0 => (arrived.facts, length),
            // Its length shows as it comes.
            Framing::Chunked => (arrived.facts, 0),
            _ => return arrived.facts,
        };
        let goes_on = self.passes_over(announced, !arrived.head.expects_continue);
        Facts { persists: facts.persists && goes_on, ..facts }
    }

    /// Whether so much content that nobody wants is passed over. Where it was not invited nobody knows whether it still comes (RFC 9110 section 10.1.1).
    pub(crate) fn passes_over(&self, announced: u64, is_invited: bool) -> bool {
        is_invited && announced <= self.settings.unwanted_bytes
    }

    /// Serves one request.
    #[inline]
    pub(crate) fn serve(&mut self, call: &mut Call<'_, '_, A::Talk>, arrived: Arrived<'_>, mut trace: Trace<'_>) -> Served<A> {
        let facts = self.facts_unread(&arrived);
        self.desk.begin_request();
        let reply = Reply::new(call.output, &self.desk, facts, trace.again());
        let handled = match self.desk.location(arrived.head, facts.whose) {
            None => self.application.request(call.cx, &Request::new(arrived.head, arrived.content, facts.whose), reply),
            Some(location) => reply.answer(Status::PERMANENT_REDIRECT).field("Location", location).explained(),
        };
        match handled {
            Ok(Handled::Answered(answered)) if !matches!(answered.0, Done::Kept(_)) => {
                self.log_answer(trace, &answered, facts);
                self.after_answer(call, arrived)
            }
            handled => self.serve_on(call, arrived, handled, trace),
        }
    }

    /// Logs an answer that is given whole.
    #[inline]
    pub(crate) fn log_answer(&self, trace: Trace<'_>, answered: &Answered, facts: Facts) {
        if let (Some(sent), Some(log)) = (answered.0.sent(), self.desk.log()) {
            trace.answered(log, sent, facts.persists);
        }
    }

    // Apart, for what is served at once.
    #[inline(never)]
    fn serve_on(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        arrived: Arrived<'_>,
        handled: Result<Handled<A>, Refused>,
        trace: Trace<'_>,
    ) -> Served<A> {
        let handled = match (handled, self.desk.take_given()) {
            // It was answered once, whatever else is said: a second answer would be that of the next request.
            (Err(_) | Ok(Handled::Collect(_)), Some(Given::Whole(done))) => Ok(Handled::Answered(Answered(done))),
            // Half an answer has no end.
            (Err(_) | Ok(Handled::Collect(_)), Some(Given::Begun)) => {
                call.cx.count(HttpCounter::AnswersCutShort, 1);
                return Served::Broken;
            }
            (Ok(Handled::Begin(mut exchange, _)), Some(Given::Whole(done))) => {
                exchange.gone(&mut self.application, call.cx);
                Ok(Handled::Answered(Answered(done)))
            }
            (handled, _) => handled,
        };
        match handled {
            Ok(Handled::Answered(answered)) => {
                self.log_answer(trace, &answered, self.facts_unread(&arrived));
                let then = self.after_answer(call, arrived);
                self.behind_answer(&answered, then)
            }
            Ok(Handled::Collect(most)) if arrived.content.is_none() => self.begin_to_collect(call, arrived, most, trace),
            Ok(Handled::Begin(exchange, first)) => self.begin_exchange(call, arrived, (exchange, first), trace),
            // What can never be had, or was had already: the application is at fault.
            Ok(Handled::Collect(_)) | Err(Refused::TooLarge { .. }) => {
                self.answer_at_once(call, arrived, Status::INTERNAL_SERVER_ERROR, trace)
            }
            // Nobody is asked twice: what it was refused, it was refused for good.
            Err(_) => self.answer_at_once(call, arrived, Status::SERVICE_UNAVAILABLE, trace),
        }
    }

    fn begin_exchange(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        arrived: Arrived<'_>,
        (mut exchange, first): (Box<dyn crate::Exchange<A>>, First),
        trace: Trace<'_>,
    ) -> Served<A> {
        let most = if let First::Receive(most) | First::Converse(most) = first { most } else { u64::MAX };
        let body = match Body::new(arrived.framing(), most) {
            Ok(body) => body,
            Err(refusal) => {
                exchange.gone(&mut self.application, call.cx);
                return self.refuse_content(call, refusal, trace);
            }
        };
        let stage = if matches!(first, First::Receive(_)) && !body.is_ended() { Stage::Content } else { Stage::Application };
        let is_wanted = matches!(first, First::Receive(_) | First::Converse(_)) && !body.is_ended();
        if is_wanted {
            self.invite(call, arrived.head);
        }
        let is_invited = is_wanted || !arrived.head.expects_continue;
        let relays = matches!(first, First::Relay) && !body.is_ended();
        let relaying = if relays { Relaying::Waits } else { Relaying::No };
        let facts = if is_wanted || relays { arrived.facts } else { self.facts_unread(&arrived) };
        let (note, nothing) = (trace.into_note(self.desk.log()), Sent { status: 0, bytes: 0 });
        let mut running =
            Running { exchange, facts, body, is_invited, stage, relaying, unsent: None, owed: None, sent: nothing, note };
        if let First::Produce(begun) = first {
            running.begin_answer(begun, &self.desk);
        }
        self.exchanges += 1;
        Served::Active(Active::Running(running))
    }

    fn begin_to_collect(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        arrived: Arrived<'_>,
        most: u64,
        trace: Trace<'_>,
    ) -> Served<A> {
        let most = most.min(call.cx.arena().lend_max() as u64);
        let body = match Body::new(arrived.head.framing, most) {
            Ok(body) => body,
            Err(refusal) => return self.refuse_content(call, refusal, trace),
        };
        let Ok(mut head) = call.cx.lease(arrived.bytes.len()) else { return Served::Wanted(most) };
        head.append(arrived.bytes);
        self.invite(call, arrived.head);
        let note = trace.into_note(self.desk.log());
        Served::Active(Active::Collected(Collected { head: head.share(), body, content: None, untaken: 0, whole: None, note }))
    }

    /// Begins to collect the content of the request at the front of the input, as its application has said.
    pub(crate) fn collect_now(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        session: &mut Session<A>,
        input: &mut Input,
        most: u64,
    ) -> Look {
        let mut scratch = Scratch::new();
        let (served, bytes) = match self.begin_head().next(input.first(), &mut scratch) {
            Ok(Step::Request { head, bytes }) => {
                let facts = self.facts(call, &head, session.is_last && input.first().len() == input.len());
                let arrived = Arrived { head: &head, bytes: &input.first()[..bytes], content: None, facts };
                (self.begin_to_collect(call, arrived, most, Trace::Asked(arrived.asked())), bytes)
            }
            // reason: it was parsed before, and has stayed where it was.
            _ => panic!("a head that was one is none"),
        };
        let taken = if matches!(served, Served::Wanted(_)) { 0 } else { bytes };
        input.skip(taken);
        call.cx.count_requests((taken > 0).into());
        session.follow(served, &mut self.spare)
    }

    /// Says 100 (Continue) to a client that waits for it (RFC 9110 section 10.1.1).
    fn invite(&self, call: &mut Call<'_, '_, A::Talk>, head: &Head<'_>) {
        if head.expects_continue {
            self.say_continue(call.output);
        }
    }

    pub(crate) fn say_continue(&self, output: &mut Output) {
        output.push(&b"HTTP/1.1 100 Continue\r\n\r\n"[..]);
        self.desk.count_answer(Status::CONTINUE.code());
    }

    /// What comes behind an answer: content that nobody has read, or the end.
    #[inline]
    fn after_answer(&mut self, call: &mut Call<'_, '_, A::Talk>, arrived: Arrived<'_>) -> Served<A> {
        match arrived.framing() {
            Framing::None | Framing::Length(0) if !arrived.facts.closes => Served::Next,
            Framing::None | Framing::Length(0) => close_behind_last(call.output),
            framing => {
                // reason: no content is longer than that.
                let body = Body::new(framing, u64::MAX).expect("no limit is passed");
                self.leave_unread(call, arrived.facts, body, !arrived.head.expects_continue)
            }
        }
    }

    /// Deals with content that nobody has read, and that the client was invited to send, or not.
    pub(crate) fn leave_unread(
        &mut self,
        call: &mut Call<'_, '_, impl Talk>,
        facts: Facts,
        body: Body,
        is_invited: bool,
    ) -> Served<A> {
        if body.is_ended() {
            return if facts.closes { close_behind_last(call.output) } else { Served::Next };
        }
        call.cx.count(HttpCounter::ContentsUnwanted, 1);
        match !facts.closes && self.passes_over(body.announced(), is_invited) {
            true => Served::Active(Active::Unwanted { body, left: self.settings.unwanted_bytes }),
            false => Served::Close,
        }
    }

    /// Answers with a status, without the application.
    fn answer_at_once(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        arrived: Arrived<'_>,
        status: Status,
        mut trace: Trace<'_>,
    ) -> Served<A> {
        let facts = self.facts_unread(&arrived);
        match Reply::new(call.output, &self.desk, facts, trace.again()).status::<Answered>(status) {
            Ok(answered) => {
                self.log_answer(trace, &answered, facts);
                let then = self.after_answer(call, arrived);
                self.behind_answer(&answered, then)
            }
            // More than a lane ever lends: it has no memory for any answer.
            Err(_) => Served::Close,
        }
    }

    /// Answers with 503 (Service Unavailable) though nobody was called.
    #[cold]
    fn answer_unavailable(&mut self, call: &mut Call<'_, '_, A::Talk>, arrived: Arrived<'_>, trace: Trace<'_>) -> Served<A> {
        let facts = self.facts_unread(&arrived);
        let answered = self.desk.answer_unavailable(call.output, facts);
        self.log_answer(trace, &answered, facts);
        self.after_answer(call, arrived)
    }

    /// A head with a fault that is known at its end, and may leave that of the message known.
    fn serve_refusal(&mut self, call: &mut Call<'_, '_, A::Talk>, arrived: Arrived<'_>, refusal: Refusal) -> Served<A> {
        let trace = Trace::Asked(arrived.asked());
        if refusal.closes() {
            return self.refuse(call, refusal, trace);
        }
        let facts = self.facts_unread(&arrived);
        match self.answer_refusal(call, facts, (refusal, HttpCounter::HeadsRefused), trace) {
            Some(answered) => {
                let then = self.after_answer(call, arrived);
                self.behind_answer(&answered, then)
            }
            None => Served::Close,
        }
    }

    /// Refuses a head behind which nothing can be read.
    fn refuse(&mut self, call: &mut Call<'_, '_, A::Talk>, refusal: Refusal, trace: Trace<'_>) -> Served<A> {
        self.refuse_and_close(call, (refusal, HttpCounter::HeadsRefused), trace)
    }

    /// Refuses content; nothing can be read behind it.
    pub(crate) fn refuse_content(&mut self, call: &mut Call<'_, '_, A::Talk>, refusal: Refusal, trace: Trace<'_>) -> Served<A> {
        self.refuse_and_close(call, (refusal, HttpCounter::ContentsRefused), trace)
    }

    fn refuse_and_close(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        refused: (Refusal, HttpCounter),
        trace: Trace<'_>,
    ) -> Served<A> {
        match self.answer_refusal(call, Facts::LAST, refused, trace) {
            Some(answered) => self.behind_answer(&answered, Served::Close),
            None => Served::Close,
        }
    }

    /// Tells the client what is wrong; none if a lane never has memory for it.
    fn answer_refusal(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        facts: Facts,
        (refusal, counter): (Refusal, HttpCounter),
        mut trace: Trace<'_>,
    ) -> Option<Answered> {
        let status = refusal.status();
        let answer = Reply::new(call.output, &self.desk, facts, trace.again()).answer(status).media("text/plain; charset=utf-8");
        let text = format!("{} {}\n{refusal}\n", status.code(), status.phrase());
        let answered = answer.bytes::<Answered>(text.as_bytes()).ok()?;
        self.log_answer(trace, &answered, facts);
        call.cx.count(counter, 1);
        Some(answered)
    }

    /// Serves a request whose content is all there, where there is room for its answer.
    pub(crate) fn serve_collected(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        (room, is_last): (MayAnswer, bool),
        head: &Shared,
        content: &Shared,
        note: &mut Option<Note>,
    ) -> Served<A> {
        let mut scratch = Scratch::new();
        let parsed = match self.begin_head().next(head, &mut scratch) {
            Ok(Step::Request { head, .. }) => head,
            // reason: it was parsed before, and its bytes are the same.
            _ => panic!("a head that was one is none"),
        };
        let facts = self.facts(call, &parsed, is_last);
        let arrived = Arrived { head: &parsed, bytes: head, content: Some(content), facts };
        match room {
            MayAnswer::Never => self.answer_unavailable(call, arrived, Trace::Noted(note)),
            MayAnswer::Now | MayAnswer::Later => self.serve(call, arrived, Trace::Noted(note)),
        }
    }
}

/// What no application is asked for: a tunnel, behind which the connection would be no HTTP any more, and what is to be had over TLS alone where there is none.
#[inline]
fn not_ours(call: &mut Call<'_, '_, impl Talk>, head: &Head<'_>) -> Option<Refusal> {
    let mut is_secured = || call.cx.peer(call.cx.id()).is_some_and(|peer| peer.learned.is_some());
    match head.method {
        Method::Connect => Some(Refusal::Connect),
        _ if head.target.is_https && !is_secured() => Some(Refusal::Unsecured),
        _ => None,
    }
}
