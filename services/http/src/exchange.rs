//! Exchanges carried out: content in, the application, parts of the answer out.

use crate::application::{Application, Flow, Goes, Produced};
use crate::content::{ContentPart, next_part};
use crate::counters::HttpCounter;
use crate::deliver::{Answered, Begun, Done};
use crate::facts::Framing;
use crate::heads::Served;
use crate::log::{Ended, Sent, Trace};
use crate::service::{Call, Http};
use crate::session::{Active, Look, Running, Session, Stage};
use crate::{Parts, Reply};
use corelane::Next;
use corelane::service::{Chain, Hold, Input, Order, Output, Refused};
use corelane_wire::http1::Status;

/// How an exchange stands after a step.
enum After {
    /// It goes on at once.
    Again,
    /// It waits.
    Wait(Next),
    /// Its answer is written, or held.
    Over,
    /// Its answer cannot be ended: the connection is broken off.
    Broken,
}

impl<A: Application> Http<A> {
    /// Goes on with an exchange. `has_left`: all that was written has left.
    pub(crate) fn run(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        session: &mut Session<A>,
        input: Option<&mut Input>,
        mut running: Running<A>,
        mut has_left: bool,
    ) -> Look {
        let mut input = input;
        loop {
            let after = match running.stage {
                Stage::Content | Stage::Pause => match &mut input {
                    Some(input) => match self.take_content(call, input, &mut running) {
                        Ok(after) => after,
                        Err(refusal) => {
                            running.exchange.gone(&mut self.application, call.cx);
                            return match self.refuse_content(call, refusal, Trace::Noted(&mut running.note)) {
                                // It is answered with nothing rather than twice.
                                Served::Refused => Look::Over(Next::Abort),
                                _ => Look::Over(Next::Close),
                            };
                        }
                    },
                    None => After::Wait(Next::Continue),
                },
                Stage::Application => self.go_on(call, &mut running),
                Stage::Drained(framing) if has_left => {
                    running.stage = Stage::Room(framing);
                    After::Again
                }
                Stage::Drained(_) => {
                    call.output.notify_drained();
                    After::Wait(Next::Wait)
                }
                Stage::Room(framing) => self.produce(call, &mut running, framing),
                Stage::Converse(framing) => self.converse(call, input.as_deref_mut(), &mut running, framing),
                Stage::Leaving if has_left => After::Over,
                Stage::Leaving => {
                    call.output.notify_drained();
                    After::Wait(Next::Wait)
                }
            };
            has_left = false;
            match after {
                After::Again => {}
                After::Wait(next) => {
                    session.active = Some(self.boxed(Active::Running(running)));
                    return Look::Over(next);
                }
                After::Over => return self.end_exchange(call, session, running),
                After::Broken => {
                    call.cx.count(HttpCounter::AnswersCutShort, 1);
                    return Look::Over(Next::Abort);
                }
            }
        }
    }

    fn end_exchange(&mut self, call: &mut Call<'_, '_, A::Talk>, session: &mut Session<A>, mut running: Running<A>) -> Look {
        settle(call.output, &mut running);
        let Running { facts, body, is_invited, stage, note, .. } = running;
        if let Some(note) = note {
            note.end(Ended::whole(facts.persists && stage != Stage::Room(Framing::UntilClose)));
        }
        if stage == Stage::Room(Framing::UntilClose) {
            return Look::Over(Next::Close);
        }
        match self.leave_unread(call, facts, body, is_invited) {
            Served::Active(active) => {
                session.active = Some(self.boxed(active));
                Look::Again
            }
            Served::Next => Look::Again,
            Served::Close | Served::Refused => Look::Over(Next::Close),
        }
    }

    /// Hands content over as it lies.
    fn take_content(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        input: &mut Input,
        running: &mut Running<A>,
    ) -> Result<After, corelane_wire::http1::Refusal> {
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
                    running.exchange.gone(&mut self.application, call.cx);
                    return After::Broken;
                }
            }
        }
        running.stage = Stage::Room(framing);
        After::Again
    }

    fn go_on(&mut self, call: &mut Call<'_, '_, A::Talk>, running: &mut Running<A>) -> After {
        settle(call.output, running);
        let reply = Reply::new(call.output, &self.desk, running.facts, Trace::Noted(&mut running.note));
        match running.exchange.go_on(&mut self.application, call.cx, reply) {
            Ok(Goes::Answered(answered)) => end_answered(running, &answered),
            Ok(Goes::Wait) => owe(call.output, running),
            Ok(Goes::Produce(Begun { framing, status })) => {
                running.note_sent(Sent { status, bytes: 0 });
                running.stage = Stage::Room(framing);
                After::Again
            }
            Err(Refused::TooLarge { .. }) => {
                let reply = Reply::new(call.output, &self.desk, running.facts, Trace::Noted(&mut running.note));
                match reply.status::<Answered>(Status::INTERNAL_SERVER_ERROR) {
                    Ok(answered) => end_answered(running, &answered),
                    Err(_) => After::Wait(Next::Wait),
                }
            }
            // A drain waits for what was refused, too.
            Err(_) => owe(call.output, running),
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
            running.note_sent(sent);
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
            }
        }
    }
}

/// Ends the exchange, which has answered, or taken what was kept for the answer along: notes the bytes that were written for it.
fn end_answered<A: Application>(running: &mut Running<A>, answered: &Answered) -> After {
    if let Done::Written(sent) = answered.0 {
        running.note_sent(sent);
    }
    After::Over
}

/// Ends content that was announced as `framing` says.
fn end_content<A: Application>(output: &mut Output, running: &mut Running<A>, framing: Framing) -> After {
    match framing {
        Framing::UntilClose => After::Over,
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
        return After::Over;
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
