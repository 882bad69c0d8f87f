//! Exchanges carried out: content in, the application, parts of the answer out.

use crate::application::{Application, Flow, Goes, Minds, Produced};
use crate::content::{ContentPart, next_part};
use crate::counters::HttpCounter;
use crate::facts::{Facts, Framing};
use crate::log::{Ended, Sent, Trace};
use crate::outcome::{Answered, Given, Switched};
use crate::service::{Call, Http};
use crate::session::{Active, Look, Relaying, Running, Served, Session, Stage};
use crate::unsent::MayAnswer;
use crate::{Parts, Reply};
use corelane::service::{Chain, ConnectionId, Hold, Input, Order, Output, Refused};
use corelane::{Cx, Next};
use corelane_wire::http1::{Refusal, Status};

/// Why an exchange could not answer, as the log has it.
const WANT: &str = "no-memory";

/// How an exchange stands after a step.
enum After {
    /// It goes on at once.
    Again,
    /// It waits.
    Wait(Next),
    /// It is answered: written, held, or kept until there is memory.
    Over(Option<Answered>),
    /// The protocol has changed to that of this connection.
    Switched(ConnectionId),
    /// Its content is refused.
    Refused(Refusal),
    /// It was refused what it needs, and says so: its request is answered with this.
    Failed(Status),
    /// Its answer cannot be ended: the connection is broken off.
    Broken,
    /// Its client has left.
    Left,
}

impl<A: Application> Http<A> {
    /// Goes on with the exchange of `session`. `has_left`: all that was written has left.
    ///
    /// It stays with its session as long as anything may call it: a panic of a call ends the connection, and it is told of that as of any other end.
    pub(crate) fn run(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        session: &mut Session<A>,
        mut input: Option<&mut Input>,
        mut has_left: bool,
    ) -> Look {
        let is_last = session.is_last;
        loop {
            // reason: only its end takes it from there.
            let running = session.running().expect("an exchange goes on");
            // What is answered from now on says so, where it is the last that has come.
            if is_last && input.as_deref().is_some_and(Input::is_empty) {
                match &mut running.unsent {
                    Some(unsent) => unsent.say_last(),
                    None => running.facts.persists &= !running.has_not_answered(),
                }
            }
            let after = self.step(call, input.as_deref_mut(), running, std::mem::take(&mut has_left));
            match after {
                After::Again => {}
                After::Wait(Next::Wait) if running.listens() => match input.as_deref() {
                    Some(input) if input.is_empty() && input.is_finished() && running.exchange.minds() == Minds::Ends => {
                        return self.end_exchange(call, session, After::Left);
                    }
                    // What it says next waits with it, from then on.
                    Some(input) if input.is_empty() && !input.is_finished() => return Look::Over(Next::Continue),
                    _ => return Look::Over(Next::Wait),
                },
                After::Wait(next) => return Look::Over(next),
                ended => return self.end_exchange(call, session, ended),
            }
        }
    }

    fn step(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        mut input: Option<&mut Input>,
        running: &mut Running<A>,
        has_left: bool,
    ) -> After {
        if running.unsent.is_some() {
            return write_head(call.output, running);
        }
        if running.relaying != Relaying::No
            && let Err(after) = self.relay(call, input.as_deref_mut(), running)
        {
            return after;
        }
        match running.stage {
            Stage::Content | Stage::Pause => match input {
                Some(input) => self.take_content(call, input, running).unwrap_or_else(After::Refused),
                None => After::Wait(Next::Continue),
            },
            Stage::Application => self.go_on(call, running),
            Stage::Drained(framing) if has_left => {
                running.stage = Stage::Room(framing);
                After::Again
            }
            Stage::Room(framing) => self.produce(call, running, framing),
            Stage::Converse(framing) => self.converse(call, input, running, framing),
            Stage::Leaving if has_left => After::Over(None),
            Stage::Drained(_) | Stage::Leaving => {
                call.output.notify_drained();
                After::Wait(Next::Wait)
            }
        }
    }

    /// Ends an exchange as it has ended.
    fn end_exchange(&mut self, call: &mut Call<'_, '_, A::Talk>, session: &mut Session<A>, ended: After) -> Look {
        let Some(Active::Running(mut running)) = session.active.take().map(|active| self.spare.unboxed(active)) else {
            // reason: it has just ended.
            unreachable!("an exchange that ends was there")
        };
        settle(call.output, &mut running);
        let served = match ended {
            After::Over(answered) => {
                self.exchanges -= 1;
                let then = self.leave_exchange(call, running);
                match answered {
                    Some(answered) => self.behind_answer(&answered, then),
                    None => then,
                }
            }
            After::Switched(to) => {
                self.exchanges -= 1;
                let persists = true;
                running.note.take().into_iter().for_each(|note| note.end(Ended::whole(persists)));
                call.cx.pair(call.cx.id(), to);
                call.cx.resume(to);
                Served::Active(Active::Tunnel(to))
            }
            After::Refused(refusal) => {
                self.tell_gone(call.cx, &mut running);
                self.refuse_content(call, refusal, Trace::Noted(&mut running.note))
            }
            After::Failed(status) => {
                self.tell_gone(call.cx, &mut running);
                self.answer_failed(call, running, status)
            }
            After::Broken => {
                call.cx.count(HttpCounter::AnswersCutShort, 1);
                self.tell_gone(call.cx, &mut running);
                return Look::Over(Next::Abort);
            }
            After::Left => {
                call.cx.count(HttpCounter::ForwardsAbandoned, 1);
                // Answers to requests before it may still be on their way.
                let next = if running.has_not_answered() { Next::Close } else { Next::Abort };
                self.tell_gone(call.cx, &mut running);
                return Look::Over(next);
            }
            After::Again | After::Wait(_) => unreachable!("an exchange that goes on has not ended"),
        };
        session.follow(served, &mut self.spare)
    }

    /// Tells an exchange, once, that it is gone.
    pub(crate) fn tell_gone(&mut self, cx: &mut Cx<'_, A::Talk>, running: &mut Running<A>) {
        assert!(self.exchanges > 0, "an exchange ends once");
        self.exchanges -= 1;
        running.exchange.gone(&mut self.application, cx);
    }

    /// Answers for an exchange that could not.
    fn answer_failed(&mut self, call: &mut Call<'_, '_, A::Talk>, mut running: Running<A>, status: Status) -> Served<A> {
        running.because(Some(WANT).filter(|_| status == Status::SERVICE_UNAVAILABLE));
        let reply = Reply::new(call.output, &self.desk, running.facts, Trace::Noted(&mut running.note));
        let Ok(answered) = reply.status::<Answered>(status) else { return Served::Close };
        note_answered(&mut running, &answered);
        let then = self.leave_exchange(call, running);
        self.behind_answer(&answered, then)
    }

    /// What comes behind an exchange that is answered.
    fn leave_exchange(&mut self, call: &mut Call<'_, '_, A::Talk>, running: Running<A>) -> Served<A> {
        let Running { facts, body, is_invited, stage, note, .. } = running;
        if let Some(note) = note {
            note.end(Ended::whole(facts.persists && stage != Stage::Room(Framing::UntilClose)));
        }
        match stage {
            Stage::Room(Framing::UntilClose) => Served::Close,
            _ => self.leave_unread(call, facts, body, is_invited),
        }
    }

    /// Hands content over as it lies.
    fn take_content(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        input: &mut Input,
        running: &mut Running<A>,
    ) -> Result<After, Refusal> {
        settle(call.output, running);
        loop {
            match next_part(input, &mut running.body)? {
                ContentPart::Data(bytes) => {
                    // reason: what lies together needs no memory to be taken.
                    let piece = input.take_shared(bytes).expect("it lies together");
                    if running.exchange.content(&mut self.application, call.cx, piece) == Flow::Wait {
                        running.stage = Stage::Pause;
                        return Ok(owe(call.output, running));
                    }
                }
                ContentPart::End => {
                    running.stage = Stage::Application;
                    return Ok(After::Again);
                }
                ContentPart::More => {
                    running.stage = Stage::Content;
                    return Ok(After::Wait(Next::More));
                }
            }
        }
    }

    /// Hands over what has come of the content, with which the answer that has begun goes on.
    fn converse(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        input: Option<&mut Input>,
        running: &mut Running<A>,
        framing: Framing,
    ) -> After {
        let Some(input) = input else {
            // What has come meanwhile lies with the connection.
            call.cx.resume(call.cx.id());
            return After::Wait(Next::Continue);
        };
        let mut has_come = false;
        loop {
            match next_part(input, &mut running.body) {
                Ok(ContentPart::Data(bytes)) => {
                    // reason: what lies together needs no memory to be taken.
                    let piece = input.take_shared(bytes).expect("it lies together");
                    has_come = true;
                    if running.exchange.content(&mut self.application, call.cx, piece) == Flow::Wait {
                        break;
                    }
                }
                Ok(ContentPart::More) if !has_come => return After::Wait(Next::More),
                Ok(ContentPart::End | ContentPart::More) => break,
                // The answer has begun: nothing else can be said.
                Err(_) => {
                    call.cx.count(HttpCounter::ContentsRefused, 1);
                    return After::Broken;
                }
            }
        }
        running.stage = Stage::Room(framing);
        After::Again
    }

    /// Hands over what has come of the content, as far as it is taken, whether or not an answer has begun.
    fn relay(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        input: Option<&mut Input>,
        running: &mut Running<A>,
    ) -> Result<(), After> {
        let Some(input) = input else {
            // What has come meanwhile lies with the connection.
            call.cx.resume(call.cx.id());
            return Ok(());
        };
        loop {
            if !running.exchange.takes_content(&mut self.application, call.cx) {
                running.relaying = Relaying::Waits;
                return Ok(());
            }
            running.relaying = Relaying::Reads;
            match next_part(input, &mut running.body) {
                Ok(ContentPart::Data(bytes)) => {
                    // reason: what lies together needs no memory to be taken.
                    let piece = input.take_shared(bytes).expect("it lies together");
                    running.is_invited = true;
                    // Whether it takes more is asked before the next one.
                    let _ = running.exchange.content(&mut self.application, call.cx, piece);
                }
                Ok(ContentPart::More) => return Ok(()),
                Ok(ContentPart::End) => {
                    running.relaying = Relaying::No;
                    running.exchange.content_ended(&mut self.application, call.cx);
                    return Ok(());
                }
                Err(refusal) if running.has_not_answered() => {
                    settle(call.output, running);
                    return Err(After::Refused(refusal));
                }
                // The answer has begun: nothing else can be said.
                Err(_) => {
                    call.cx.count(HttpCounter::ContentsRefused, 1);
                    return Err(After::Broken);
                }
            }
        }
    }

    /// What an answer must know that may begin before the content has come: it says that the connection closes where more is to come than is passed over: who
    /// answers so early may not take it.
    fn facts_so_far(&self, running: &Running<A>) -> Facts {
        let facts = running.facts;
        let goes_on = running.relaying == Relaying::No || self.passes_over(running.body.announced(), running.is_invited);
        Facts { persists: facts.persists && goes_on, closes: facts.closes || !goes_on, ..facts }
    }

    fn go_on(&mut self, call: &mut Call<'_, '_, A::Talk>, running: &mut Running<A>) -> After {
        settle(call.output, running);
        match self.room(call) {
            MayAnswer::Now => {}
            // A drain waits for what it waits for, too.
            MayAnswer::Later => return owe(call.output, running),
            MayAnswer::Never => return After::Failed(Status::SERVICE_UNAVAILABLE),
        }
        self.desk.begin_request();
        let facts = self.facts_so_far(running);
        let reply = Reply::new(call.output, &self.desk, facts, Trace::Noted(&mut running.note));
        let gone_on = running.exchange.go_on(&mut self.application, call.cx, reply);
        let given = self.desk.take_given();
        if given.is_some() {
            running.facts = facts;
        }
        match (gone_on, given) {
            // It was answered once, whatever is said behind it.
            (Err(_) | Ok(Goes::Wait), Some(Given::Whole(done))) => {
                note_answered(running, &Answered(done));
                After::Over(Some(Answered(done)))
            }
            (Err(_) | Ok(Goes::Wait), Some(Given::Begun)) => After::Broken,
            (gone_on, _) => self.went_on(running, gone_on, call),
        }
    }

    fn went_on(&mut self, running: &mut Running<A>, gone_on: Result<Goes, Refused>, call: &mut Call<'_, '_, A::Talk>) -> After {
        match gone_on {
            Ok(Goes::Answered(answered)) => {
                note_answered(running, &answered);
                After::Over(Some(answered))
            }
            Ok(Goes::Wait) => owe(call.output, running),
            Ok(Goes::Invite) => {
                self.say_continue(call.output);
                running.is_invited = true;
                After::Again
            }
            Ok(Goes::Switched(Switched(to))) => {
                running.note_sent(Sent { status: Status::SWITCHING_PROTOCOLS.code(), bytes: 0 });
                After::Switched(to)
            }
            Ok(Goes::Produce(begun)) => {
                running.begin_answer(begun, &self.desk);
                After::Again
            }
            Err(Refused::TooLarge { .. }) => After::Failed(Status::INTERNAL_SERVER_ERROR),
            Err(_) => After::Failed(Status::SERVICE_UNAVAILABLE),
        }
    }

    /// Has the exchange write as long as there is room.
    fn produce(&mut self, call: &mut Call<'_, '_, A::Talk>, running: &mut Running<A>, mut framing: Framing) -> After {
        settle(call.output, running);
        loop {
            if framing == Framing::Length(0) {
                return leave(call.output, running);
            }
            if !call.output.ask_room() {
                running.stage = Stage::Room(framing);
                return After::Wait(Next::Wait);
            }
            let mut sent = running.sent;
            let mut parts = Parts::new(call.output, &mut framing, &mut sent.bytes, running.body.is_ended());
            let produced = running.exchange.produce(&mut self.application, call.cx, &mut parts);
            let why = parts.why();
            running.note_sent(sent);
            running.because(why);
            running.stage = Stage::Room(framing);
            match produced {
                _ if framing == Framing::Length(0) => return leave(call.output, running),
                Produced::More => {}
                Produced::Drained if call.output.is_empty() => {}
                Produced::Drained => {
                    running.stage = Stage::Drained(framing);
                    call.output.notify_drained();
                    return After::Wait(Next::Wait);
                }
                Produced::Wait => return owe(call.output, running),
                Produced::Content => {
                    assert!(!running.body.is_ended(), "no more content comes: Parts::has_all_content says so");
                    running.stage = Stage::Converse(framing);
                    return After::Again;
                }
                Produced::End => return end_content(call.output, running, framing),
                Produced::Broken => return After::Broken,
            }
        }
    }
}

/// Notes what was answered, where that does not come later.
fn note_answered<A: Application>(running: &mut Running<A>, answered: &Answered) {
    if let Some(sent) = answered.0.sent() {
        running.note_sent(sent);
    }
}

/// Writes the head of the answer, for which there was no memory when it began.
fn write_head<A: Application>(output: &mut Output, running: &mut Running<A>) -> After {
    settle(output, running);
    // reason: asked by the caller.
    let unsent = running.unsent.as_mut().expect("a head that is to be written is kept");
    if unsent.write(output).is_err() {
        return owe(output, running);
    }
    running.unsent = None;
    After::Again
}

/// Ends content that was announced as `framing` says.
fn end_content<A: Application>(output: &mut Output, running: &mut Running<A>, framing: Framing) -> After {
    match framing {
        Framing::UntilClose => After::Over(None),
        Framing::Length(_) => After::Broken,
        Framing::Chunked => {
            output.push(LAST_CHUNK);
            leave(output, running)
        }
    }
}

/// The whole answer is written: when it has left, the exchange is over.
fn leave<A: Application>(output: &mut Output, running: &mut Running<A>) -> After {
    if output.is_empty() {
        return After::Over(None);
    }
    running.stage = Stage::Leaving;
    output.notify_drained();
    After::Wait(Next::Wait)
}

/// The end of content in chunks, without trailers (RFC 9112 section 7.1).
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The application owes something from now on.
fn owe<A: Application>(output: &mut Output, running: &mut Running<A>) -> After {
    assert!(running.owed.is_none(), "one thing is owed at a time");
    if running.relaying == Relaying::Reads {
        return After::Wait(Next::More);
    }
    // At the bound of tickets earlier requests are owed, for which a drain waits as well.
    running.owed = output.hold(Hold::new(Order::Any)).ok();
    After::Wait(Next::Wait)
}

/// It owes nothing more, for now.
fn settle<A: Application>(output: &mut Output, running: &mut Running<A>) {
    if let Some(ticket) = running.owed.take() {
        let answered = output.answer(ticket, Chain::new());
        assert!(answered.is_ok(), "the ticket is of this connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_wire::http1::write_last_chunk;

    #[test]
    fn the_last_chunk_is_what_the_format_says() {
        let mut memory = [0; 8];
        let mut writer = corelane_wire::xdr::Writer::new(&mut memory);
        write_last_chunk(&mut writer, |_| Ok(())).unwrap();
        assert_eq!(writer.written(), LAST_CHUNK);
    }
}
