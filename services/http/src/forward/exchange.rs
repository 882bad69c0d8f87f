//! A client's side of a request that is on its way.

use super::fault::{Fault, count, explain};
use super::hub::{Hub, HubRef};
use super::sending::again;
use super::up::Stage;
use crate::application::{Application, Exchange, Flow, Goes, Minds, Produced};
use crate::{Answered, Parts, Reply};
use corelane::service::{Chain, Refused, Shared};
use corelane::{Cx, Silent};
use corelane_wire::http1::{CHUNK_END, Status, write_chunk_begin};
use corelane_wire::xdr::Writer;

/// The end of content in chunks, without trailers (RFC 9112 section 7.1).
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A request that is on its way.
pub(super) struct Forwarded {
    hub: HubRef,
    /// Its number; none once nothing more is to come.
    way: Option<usize>,
}

impl Forwarded {
    pub fn new(hub: HubRef, way: usize) -> Self {
        Self { hub, way: Some(way) }
    }
}

impl<A: Application<Talk = Silent>> Exchange<A> for Forwarded {
    fn takes_content(&mut self, _application: &mut A, cx: &mut Cx<'_>) -> bool {
        let mut hub = self.hub.borrow_mut();
        let Some(up) = self.way.and_then(|way| hub.way(way).up) else { return false };
        let up = hub.up(up);
        if !matches!(up.stage, Stage::Head(_) | Stage::Content { .. }) {
            return false;
        }
        let Some(output) = up.id.and_then(|id| cx.connection(id)) else { return false };
        if output.room() > 0 && output.ask_room() {
            return true;
        }
        // Where nothing is to leave, it is memory that lacks, for which the client's connection waits.
        if output.room() == 0 {
            output.notify_drained();
        }
        false
    }

    fn content(&mut self, _application: &mut A, cx: &mut Cx<'_>, piece: Shared) -> Flow {
        let mut hub = self.hub.borrow_mut();
        let Some(way) = self.way else { return Flow::Wait };
        let way = hub.way(way);
        let (now, is_chunked) = (cx.now(), way.facts.is_chunked);
        (way.content_began, way.active_at) = (true, now);
        // reason: it was asked before whether content is taken.
        let number = way.up.expect("content is taken by a connection");
        let output = hub.up(number).id.and_then(|id| cx.connection(id));
        // reason: as above.
        let output = output.expect("content is taken by an open connection");
        output.note_active();
        if is_chunked {
            let mut line = [0; 20];
            let mut writer = Writer::new(&mut line);
            // reason: 64 bits are 16 digits.
            write_chunk_begin(&mut writer, piece.len() as u64).expect("there is room for the longest size");
            // Memory was asked for; where it is refused all the same, the request is not whole.
            if output.write(writer.written()).is_err() {
                let id = hub.up(number).id;
                hub.fail(cx, number, Fault::Memory);
                id.into_iter().for_each(|id| cx.abort(id));
                return Flow::Wait;
            }
        }
        let bytes = piece.len();
        output.push(piece);
        if is_chunked {
            output.push(CHUNK_END);
        }
        let upstream = hub.up(number).upstream;
        hub.tended.upstreams.note_bytes(upstream, bytes, 0);
        Flow::More
    }

    fn content_ended(&mut self, _application: &mut A, cx: &mut Cx<'_>) {
        let mut hub = self.hub.borrow_mut();
        let Some(way) = self.way else { return };
        let way = hub.way(way);
        (way.content_began, way.content_ended, way.active_at) = (true, true, cx.now());
        let (up, is_chunked) = (way.up, way.facts.is_chunked);
        if let Some(output) = up.filter(|_| is_chunked).and_then(|up| hub.up(up).id).and_then(|id| cx.connection(id)) {
            output.push(LAST_CHUNK);
        }
    }

    fn go_on(&mut self, _application: &mut A, cx: &mut Cx<'_>, mut reply: Reply<'_>) -> Result<Goes, Refused> {
        let shared = self.hub.clone();
        let mut hub = shared.borrow_mut();
        // reason: one that is over has answered, and is called no more.
        let number = self.way.expect("an exchange that goes on is on its way");
        if let Some(fault) = hub.way(number).fault.take() {
            let gone_on = again(&shared, &mut hub, cx, number, fault);
            reply.passed(hub.name_of(number), gone_on.err().map(Fault::word));
            return match gone_on {
                Ok(()) => Ok(Goes::Wait),
                Err(fault) => {
                    self.release(&mut hub, cx);
                    explain::<Answered>(cx, fault, reply).map(Goes::Answered)
                }
            };
        }
        reply.passed(hub.name_of(number), None);
        let way = hub.way(number);
        let hints = std::mem::take(&mut way.hints);
        if !hints.is_empty() {
            reply.hint(&hints);
        }
        if std::mem::take(&mut way.invites) {
            return Ok(Goes::Invite);
        }
        if way.switches {
            return self.switch(&mut hub, cx, reply);
        }
        match way.answer {
            Some(_) => self.answer(&mut hub, cx, reply),
            None => Ok(Goes::Wait),
        }
    }

    fn produce(&mut self, _application: &mut A, cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        let shared = self.hub.clone();
        let mut hub = shared.borrow_mut();
        // reason: what has ended is asked for nothing.
        let number = self.way.expect("an answer that goes on is on its way");
        let way = hub.way(number);
        if let Some(piece) = way.pieces.front() {
            if parts.push(piece.clone()).is_err() {
                return Produced::More;
            }
            way.pop();
        }
        let (up, is_over, has_more, has_room) = (way.up, way.ended, !way.pieces.is_empty(), way.has_room());
        if let Some(up) = up.filter(|_| has_room).map(|up| hub.up(up))
            && std::mem::take(&mut up.waits)
        {
            up.id.into_iter().for_each(|id| cx.resume(id));
        }
        if has_more {
            return Produced::More;
        }
        if is_over {
            self.release(&mut hub, cx);
            return Produced::End;
        }
        if let Some(fault) = hub.way(number).fault {
            count(cx, fault);
            parts.because(fault.word());
            return Produced::Broken;
        }
        Produced::Wait
    }

    /// The upstream is spared work for nobody.
    fn minds(&self) -> Minds {
        if self.hub.borrow().aborts_on_close { Minds::Ends } else { Minds::Resets }
    }

    fn gone(&mut self, _application: &mut A, cx: &mut Cx<'_>) {
        let shared = self.hub.clone();
        self.release(&mut shared.borrow_mut(), cx);
    }
}

impl Forwarded {
    /// Nothing more is to come: what is still under way to the upstream is broken off.
    fn release(&mut self, hub: &mut Hub, cx: &mut Cx<'_>) {
        if let Some(way) = self.way.take() {
            hub.release(cx, way);
        }
    }

    /// Changes the protocol.
    fn switch(&mut self, hub: &mut Hub, cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        // reason: asked by the caller.
        let number = self.way.expect("an exchange that goes on is on its way");
        let way = hub.way(number);
        // reason: its upstream has just said so, and has not failed.
        let up = way.up.expect("an upstream that changes the protocol is there");
        let (client, lines) = (way.client, std::mem::take(&mut way.lines));
        let to = hub.up(up).id.filter(|id| cx.connection(*id).is_some());
        // It ends just now, and is told so.
        let Some(to) = to else {
            hub.way(number).lines = lines;
            return Ok(Goes::Wait);
        };
        let switched = reply.switch(&lines, to)?;
        hub.part(up);
        hub.up(up).settle(cx);
        hub.up(up).stage = Stage::Tunnel(client);
        self.release(hub, cx);
        Ok(Goes::Switched(switched))
    }

    /// Answers: whole, if all is there.
    fn answer(&mut self, hub: &mut Hub, cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        // reason: asked by the caller.
        let number = self.way.expect("an exchange that goes on is on its way");
        let way = hub.way(number);
        // reason: asked by the caller.
        let head = way.answer.expect("an answer has come");
        let has_content = reply.facts.has_content(head.status);
        let is_head = reply.facts.is_head && !head.status.is_without_content();
        let answer = reply.passed_on(head.status, head.date.as_ref().map(|date| &date[..])).lines(&way.lines);
        if is_head && head.status != Status::RESET_CONTENT {
            return match head.length {
                Some(length) => {
                    let answered = answer.head_alone::<Answered>(length)?;
                    self.release(hub, cx);
                    Ok(answered.into())
                }
                None => answer.begin(None).map(|begun| {
                    self.release(hub, cx);
                    Goes::Produce(begun)
                }),
            };
        }
        if has_content && !way.ended {
            return answer.begin(head.length).map(|begun| {
                hub.way(number).forget_lines();
                Goes::Produce(begun)
            });
        }
        let mut content = Chain::new();
        while let Some(piece) = way.pop().filter(|_| has_content) {
            content.push(piece);
        }
        let answered = answer.chain::<Answered>(content)?;
        self.release(hub, cx);
        Ok(answered.into())
    }
}
