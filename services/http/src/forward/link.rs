//! A link, which is a connection to an upstream: the answer's head and content, in the order in which they may come.

use super::dated::LastDate;
use super::fault::Fault;
use super::head::{is_switch, write_answer_lines};
use super::hub::{Hub, HubRef};
use super::up::{LIMITS, Stage};
use super::way::{AnswerHead, Way};
use crate::content::{ContentPart, next_part};
use crate::outgoing::{Outgoing, end_other};
use crate::tunnel;
use corelane::service::{Chain, Ending, Input, Output, Owes, Reason};
use corelane::{Cx, Next, Silent};
use corelane_upstreams::{Failure, failure_to_connect};
use corelane_wire::http1::{Answer, Body, Framing, Response, Scratch, Status};

/// Most interim answers to one request.
const INTERIM_MAX: u32 = 32;

/// A link as the service layer calls it.
pub(super) struct Link {
    hub: HubRef,
    up: usize,
}

impl Link {
    pub fn new(hub: HubRef, up: usize) -> Self {
        Self { hub, up }
    }
}

impl Outgoing<Silent> for Link {
    fn opened(&mut self, cx: &mut Cx<'_>, output: &mut Output) -> Next {
        let mut hub = self.hub.borrow_mut();
        if hub.up(self.up).way.is_none() {
            return Next::Abort;
        }
        hub.connected(self.up);
        // What it may owe is timed by the service, whose pauses are others.
        output.peer_owes(Owes::Nothing);
        send_head(&mut hub, self.up, cx, output)
    }

    fn received(&mut self, cx: &mut Cx<'_>, input: &mut Input, output: &mut Output) -> Next {
        let mut hub = self.hub.borrow_mut();
        loop {
            let next = match &hub.up(self.up).stage {
                Stage::Opening => Some(send_head(&mut hub, self.up, cx, output)),
                Stage::Head(_) => read_head(&mut hub, self.up, cx, input, output),
                Stage::Content { .. } => Some(read_content(&mut hub, self.up, cx, input, output)),
                Stage::Switching => Some(Next::Wait),
                Stage::Tunnel(to) => {
                    tunnel::pass(cx, input, output, *to);
                    Some(Next::Continue)
                }
                Stage::Idle if input.is_empty() && !input.is_finished() => Some(Next::Continue),
                // It has closed in its time, or says what nobody has asked for.
                Stage::Idle => {
                    hub.leave_idle(self.up);
                    hub.up(self.up).stage = Stage::Over;
                    Some(if input.is_empty() { Next::Close } else { Next::Abort })
                }
                Stage::Over => Some(Next::Abort),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    fn drained(&mut self, cx: &mut Cx<'_>, _output: &mut Output) -> Next {
        // There is room for more of the request's content.
        if let Some((_, way)) = self.hub.borrow_mut().both(self.up) {
            cx.resume(way.client);
        }
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_>, ending: Ending) {
        let mut hub = self.hub.borrow_mut();
        if let Stage::Tunnel(client) = hub.up(self.up).stage {
            end_other(cx, ending, client);
        }
        let is_stale = hub.up(self.up).is_stale();
        let is_opening = hub.up(self.up).is_opening();
        let disagreed = if is_opening { hub.disagreed(cx, self.up, ending) } else { None };
        let fault = match &hub.up(self.up).stage {
            Stage::Opening if ending == Ending::Error => match failure_to_connect(cx.fault()) {
                Some(Failure::Timeout) => Fault::Unheard,
                Some(_) => Fault::Unreachable,
                None => Fault::Full,
            },
            Stage::Opening if disagreed == Some(Failure::Timeout) => Fault::Unheard,
            Stage::Opening if disagreed.is_some() => Fault::Untrusted,
            // It has taken nothing of the request for `send_limit`.
            _ if ending == Ending::Aborted && cx.fault().is_some_and(|fault| fault.reason == Reason::TimedOut) => Fault::Silent,
            // This side has ended it, for want of something: nothing is said of the upstream, which may be at work on the request.
            _ if matches!(ending, Ending::Closing | Ending::Aborted) => Fault::Cut,
            Stage::Head(_) if is_stale => Fault::Stale,
            _ => Fault::Lost,
        };
        hub.fail(cx, self.up, fault);
        hub.remove_up(self.up);
    }
}

/// Writes the head of the request.
fn send_head(hub: &mut Hub, number: usize, cx: &mut Cx<'_>, output: &mut Output) -> Next {
    let Some((up, way)) = hub.both(number) else { return Next::Abort };
    // What is lost on a link of its own is lost.
    // reason: it is kept until it was sent.
    let head = way.head.take().expect("what is sent has its head");
    let (upstream, bytes) = (up.upstream, head.len());
    output.push(head);
    let request = up.way.take();
    // reason: it carries one, as was seen.
    up.begin(output, request.expect("a request waits for its connection"), false);
    way.active_at = cx.now();
    if way.facts.has_content {
        cx.resume(way.client);
    }
    hub.tended.upstreams.note_bytes(upstream, bytes, 0);
    Next::Continue
}

/// What a head that has come means.
enum Meaning {
    /// Another one follows.
    Interim(Status),
    Switch,
    /// A change of the protocol that nobody has asked for, or that is told in no right way.
    WrongSwitch,
    Final {
        framing: Framing,
        persists: bool,
    },
}

/// Looks for the head of the answer; what is to be done next, if it does not go on.
fn read_head(hub: &mut Hub, number: usize, cx: &mut Cx<'_>, input: &mut Input, output: &mut Output) -> Option<Next> {
    let Some((up, way)) = hub.both(number) else { return Some(Next::Abort) };
    let Stage::Head(reader) = &mut up.stage else { unreachable!("a head is awaited") };
    let mut scratch = Scratch::new();
    let (meaning, bytes) = match reader.next(input.first(), &mut scratch) {
        Ok(Answer::Response { head, bytes }) => (note_head(way, &mut up.last_date, &head), bytes),
        Ok(Answer::More) => {
            let (first, all) = (input.first().len(), input.len());
            up.has_begun |= all > 0;
            if first < all {
                // Without memory for it to lie together it is looked at again.
                return input.contiguous(all.min(first + LIMITS.head_bytes)).is_none().then_some(Next::Continue);
            }
            if !input.is_finished() {
                return Some(Next::Continue);
            }
            let is_stale = hub.up(number).is_stale();
            return Some(give_up(hub, number, cx, if is_stale { Fault::Stale } else { Fault::Lost }));
        }
        Err(refusal) => return Some(give_up(hub, number, cx, Fault::of_answer(refusal))),
    };
    input.skip(bytes);
    way.active_at = cx.now();
    // What is answered is not sent again.
    way.head = None;
    output.note_active();
    let (upstream, took) = (up.upstream, way.active_at - way.began_at);
    if up.interim == 0 {
        hub.tended.upstreams.answered(upstream, cx.now(), took);
    }
    hub.tended.upstreams.note_bytes(upstream, 0, bytes);
    let Some((up, way)) = hub.both(number) else { return Some(Next::Abort) };
    match meaning {
        Meaning::Interim(status) if up.interim < INTERIM_MAX => {
            up.interim += 1;
            way.invites |= status == Status::CONTINUE && way.facts.expects_continue && !way.content_began;
            if way.invites || !way.hints.is_empty() {
                cx.resume(way.client);
            }
            None
        }
        Meaning::Switch => {
            (up.stage, way.switches) = (Stage::Switching, true);
            cx.resume(way.client);
            Some(Next::Wait)
        }
        Meaning::Interim(_) => Some(give_up(hub, number, cx, Fault::Oversized)),
        Meaning::WrongSwitch => Some(give_up(hub, number, cx, Fault::Malformed)),
        Meaning::Final { framing, persists } => {
            // reason: no content is longer than that.
            let body = Body::new(framing, u64::MAX).expect("no limit is passed");
            up.stage = Stage::Content { body, persists };
            None
        }
    }
}

/// Keeps what is passed on of a head.
fn note_head(way: &mut Way, last_date: &mut LastDate, head: &Response<'_>) -> Meaning {
    let status = head.status;
    if status == Status::EARLY_HINTS {
        way.hint(head.fields);
    }
    if status.is_interim() {
        return Meaning::Interim(status);
    }
    let switches = status == Status::SWITCHING_PROTOCOLS;
    if switches && !is_switch(head, &way.offers) {
        return Meaning::WrongSwitch;
    }
    // This one says what to ask for, and is none without it (RFC 9110 section 15.5.22).
    let names_protocols = status == Status::UPGRADE_REQUIRED && head.fields.list("upgrade").next().is_some();
    write_answer_lines(&mut way.lines, head.fields, switches || names_protocols);
    if switches {
        return Meaning::Switch;
    }
    if names_protocols {
        way.lines.extend_from_slice(b"Connection: upgrade\r\n");
    }
    let framing = head.framing(way.facts.method());
    let length = match framing {
        Framing::Length(length) => Some(length),
        Framing::None if way.facts.is_head => head.announced(),
        Framing::None => Some(0),
        Framing::Chunked | Framing::UntilClose => None,
    };
    let date = head.fields.once("date").and_then(|date| last_date.written(date));
    way.answer = Some(AnswerHead { status, date, length });
    // Content that must not come may be on its way: a request behind it would have that read for its answer.
    let is_dubious = way.facts.is_head || framing == Framing::None && head.tells_of_content();
    Meaning::Final { framing, persists: head.persists(way.facts.method()) && !is_dubious }
}

/// Takes content as far as the client is to be sent some.
fn read_content(hub: &mut Hub, number: usize, cx: &mut Cx<'_>, input: &mut Input, output: &mut Output) -> Next {
    let Some((up, way)) = hub.both(number) else { return Next::Abort };
    let Stage::Content { body, persists } = &mut up.stage else { unreachable!("content is awaited") };
    let (persists, before) = (*persists, input.len());
    way.active_at = cx.now();
    output.note_active();
    cx.resume(way.client);
    let found = loop {
        if !way.has_room() {
            up.waits = true;
            break Content::More(Next::Wait);
        }
        match next_part(input, body) {
            Ok(ContentPart::Data(bytes)) => {
                // reason: what lies together needs no memory to be taken.
                way.push(input.take_shared(bytes).expect("it lies together"));
            }
            Ok(ContentPart::End) => break Content::Ended { persists },
            Ok(ContentPart::More) if !input.is_finished() => break Content::More(Next::Continue),
            Ok(ContentPart::More) => match body.finish() {
                Ok(()) if !input.is_truncated() => break Content::Ended { persists: false },
                _ => break Content::Failed(Fault::Lost),
            },
            Err(refusal) => break Content::Failed(Fault::of_answer(refusal)),
        }
    };
    let upstream = up.upstream;
    hub.tended.upstreams.note_bytes(upstream, 0, before - input.len());
    match found {
        Content::More(next) => next,
        Content::Ended { persists } => end_answer(hub, number, (input, output), persists),
        Content::Failed(fault) => give_up(hub, number, cx, fault),
    }
}

/// How content stands.
enum Content {
    More(Next),
    Ended { persists: bool },
    Failed(Fault),
}

/// The answer is whole. Its connection is used again if nothing is unclear: both have said all that they were to say, and nothing more has come.
fn end_answer(hub: &mut Hub, number: usize, (input, output): (&Input, &mut Output), persists: bool) -> Next {
    let Some((up, way)) = hub.both(number) else { return Next::Abort };
    if let Some(ticket) = up.ticket.take() {
        let answered = output.answer(ticket, Chain::new());
        assert!(answered.is_ok(), "the ticket is of this connection");
    }
    way.ended = true;
    let is_clean = persists && way.content_ended && input.is_empty() && !input.is_finished();
    up.stage = if is_clean { Stage::Idle } else { Stage::Over };
    let was_whole = way.content_ended;
    hub.part(number);
    if is_clean && hub.keep(number) {
        return Next::Continue;
    }
    hub.up(number).stage = Stage::Over;
    // A request that is not whole is never to be taken for one.
    if was_whole { Next::Close } else { Next::Abort }
}

fn give_up(hub: &mut Hub, number: usize, cx: &mut Cx<'_>, fault: Fault) -> Next {
    hub.fail(cx, number, fault);
    Next::Abort
}
