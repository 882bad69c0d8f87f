//! Content: passed over, collected, or told apart for who takes it in pieces.

use crate::application::Application;
use crate::log::Trace;
use crate::service::{Call, Http};
use crate::session::{Active, Collected, Look, Session};
use crate::unsent::MayAnswer;
use corelane::service::{Input, Lease, Refused};
use corelane::{Cx, Next, Talk};
use corelane_wire::http1::{Body, Part, Refusal};

/// Framing that straddles leases is joined by so many bytes at a time.
const JOIN_BYTES: usize = 256;
/// The least that content is collected in.
const COLLECT_BYTES_MIN: usize = 4096;
/// How many times the bytes that have come their lease may hold, at most and where memory is short: what a client has lent to it by announcing a length.
const COLLECT_FACTOR: usize = 16;
const COLLECT_FACTOR_MIN: usize = 2;

/// What stands at the front of the input, within content.
pub(crate) enum ContentPart {
    /// So many bytes of content, which lie together.
    Data(usize),
    /// Its end; the next request begins behind.
    End,
    /// Nothing whole.
    More,
}

/// Finds the next bytes of content, and drops the framing before them.
pub(crate) fn next_part(input: &mut Input, body: &mut Body) -> Result<ContentPart, Refusal> {
    loop {
        if body.is_ended() {
            return Ok(ContentPart::End);
        }
        match body.next(input.first())? {
            Part::Data(range) => {
                input.skip(range.start);
                return Ok(ContentPart::Data(range.len()));
            }
            Part::Trailers(range) => input.skip(range.end),
            Part::End(drop) => {
                input.skip(drop);
                return Ok(ContentPart::End);
            }
            Part::More(drop) => {
                input.skip(drop);
                let (lies_together, there) = (input.first().len(), input.len());
                if lies_together == there || input.contiguous(there.min(lies_together + JOIN_BYTES)).is_none() {
                    return Ok(ContentPart::More);
                }
            }
        }
    }
}

impl<A: Application> Http<A> {
    /// Passes over content that nobody wants, `left` bytes of it at the most.
    pub(crate) fn pass_over(&mut self, session: &mut Session<A>, input: &mut Input, mut body: Body, mut left: u64) -> Look {
        loop {
            match next_part(input, &mut body) {
                Ok(ContentPart::Data(bytes)) if bytes as u64 <= left => {
                    left -= bytes as u64;
                    input.skip(bytes);
                }
                Ok(ContentPart::End) => return Look::Again,
                Ok(ContentPart::More) => {
                    session.active = Some(self.spare.boxed(Active::Unwanted { body, left }));
                    return Look::Over(Next::More);
                }
                // It was answered before: there is nothing more to be said.
                Ok(ContentPart::Data(_)) | Err(_) => return Look::Over(Next::Close),
            }
        }
    }

    /// Collects content, and serves its request when all is there.
    pub(crate) fn collect(
        &mut self,
        call: &mut Call<'_, '_, A::Talk>,
        session: &mut Session<A>,
        input: &mut Input,
        mut collected: Collected,
    ) -> Look {
        while collected.whole.is_none() {
            let found = match std::mem::take(&mut collected.untaken) {
                0 => next_part(input, &mut collected.body),
                bytes => Ok(ContentPart::Data(bytes)),
            };
            let next = match found {
                Ok(ContentPart::Data(bytes)) => match collected.take(call.cx, input, bytes) {
                    Ok(()) => continue,
                    Err(refused) => {
                        collected.untaken = bytes;
                        refused_content(refused)
                    }
                },
                Ok(ContentPart::End) => match collected.end(call.cx) {
                    Ok(()) => continue,
                    Err(_) => Next::Continue,
                },
                Ok(ContentPart::More) => Next::More,
                Err(refusal) => {
                    let served = self.refuse_content(call, refusal, Trace::Noted(&mut collected.note));
                    return session.follow(served, &mut self.spare);
                }
            };
            session.active = Some(self.spare.boxed(Active::Collected(collected)));
            return Look::Over(next);
        }
        let room = self.room(call);
        if room == MayAnswer::Later {
            session.active = Some(self.spare.boxed(Active::Collected(collected)));
            return Look::Over(Next::Continue);
        }
        let Collected { head, whole, mut note, .. } = collected;
        // reason: the loop above ends with it.
        let whole = whole.expect("all of it is there");
        let served = self.serve_collected(call, (room, session.is_last && input.is_empty()), &head, &whole, &mut note);
        session.follow(served, &mut self.spare)
    }
}

/// What is waited for after memory for content was refused.
fn refused_content(refused: Refused) -> Next {
    match refused {
        Refused::TooLarge { .. } => Next::Close,
        _ => Next::Continue,
    }
}

impl Collected {
    /// Takes `bytes` of content from the front of the input.
    fn take(&mut self, cx: &mut Cx<'_, impl Talk>, input: &mut Input, bytes: usize) -> Result<(), Refused> {
        // What lies together as it came is kept as it is.
        if self.content.is_none() && self.body.is_ended() {
            self.whole = Some(input.take_shared(bytes).ok_or(Refused::Memory)?);
            return Ok(());
        }
        let there = self.content.as_ref().map_or(0, |content| content.len());
        if self.content.as_ref().is_none_or(|content| content.room() < bytes) {
            self.grow(cx, there + bytes)?;
        }
        // reason: made just now if it was not there.
        let content = self.content.as_mut().expect("there is memory for it");
        content.append(&input.first()[..bytes]);
        input.skip(bytes);
        Ok(())
    }

    /// Memory for `needed` bytes, and for more of what was announced, the less the shorter memory is.
    fn grow(&mut self, cx: &mut Cx<'_, impl Talk>, needed: usize) -> Result<(), Refused> {
        let announced = usize::try_from(self.body.announced()).unwrap_or(usize::MAX);
        let most = |factor: usize| {
            let lent = needed.saturating_mul(factor).max(COLLECT_BYTES_MIN);
            lent.min(needed.saturating_add(announced)).max(needed)
        };
        let mut larger = cx.lease_upto(most(COLLECT_FACTOR), most(COLLECT_FACTOR_MIN).min(needed.max(COLLECT_BYTES_MIN)))?;
        if let Some(content) = self.content.take() {
            larger.append(&content);
        }
        self.content = Some(larger);
        Ok(())
    }

    /// All has come.
    fn end(&mut self, cx: &mut Cx<'_, impl Talk>) -> Result<(), Refused> {
        let content = self.content.take().map_or_else(|| cx.lease(0), Ok)?;
        self.whole = Some(Lease::share(content));
        Ok(())
    }
}
