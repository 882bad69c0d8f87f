//! Answers about a file: whole, in part, or not at all (RFC 9110 sections 13 and 14).

use super::asked::Asked;
use super::entity::{Content, Entity};
use super::lookup::Found;
use super::sending::Sending;
use super::{METHODS, page};
use crate::Reply;
use crate::answer::Answer;
use crate::deliver::{Answered, Begun};
use corelane::service::{Refused, Shared};
use corelane_wire::http1::{Condition, ContentRange, Method, Parts, Ranges, Span, Status, condition, range_applies, ranges};
use corelane_wire::xdr::Writer;
use std::rc::Rc;
use std::time::Duration;

/// How far an answer has come.
pub(super) enum Response {
    /// It is written.
    Answered(Answered),
    /// Its content is still to be sent.
    Begun(Begun, Sending),
}

impl From<Answered> for Response {
    fn from(answered: Answered) -> Self {
        Self::Answered(answered)
    }
}

/// Content of up to this many bytes is copied behind its head, which costs less than a segment of its own.
const COPIED_MAX: usize = 2 << 10;

/// Answers with a file. `now`: since 1970.
pub(super) fn entity(reply: Reply<'_>, asked: &Asked<'_>, entity: &Rc<Entity>, now: Duration) -> Result<Response, Refused> {
    if !asked.is_special {
        return whole(reply, asked, entity);
    }
    let validators = entity.validators(now);
    match condition(asked.fields, asked.method, Some(&validators)) {
        Condition::Holds => {}
        Condition::NotModified => return reply.answer(Status::NOT_MODIFIED).lines(entity.lines_of_304()).empty(),
        Condition::Failed => return status(reply, Status::PRECONDITION_FAILED),
    }
    if asked.method != Method::Get || !range_applies(asked.fields, &validators) {
        return whole(reply, asked, entity);
    }
    match ranges(asked.fields, entity.length()) {
        Ranges::Whole => whole(reply, asked, entity),
        Ranges::Unsatisfiable => {
            let range = ContentRange::new(None, entity.length());
            page(
                reply.answer(Status::RANGE_NOT_SATISFIABLE).field("Content-Range", range.as_bytes()),
                Status::RANGE_NOT_SATISFIABLE,
            )
        }
        Ranges::Some(spans) => match spans.as_slice() {
            [span] => part(reply, entity, *span),
            spans => parts(reply, entity, spans, now),
        },
    }
}

fn whole(reply: Reply<'_>, asked: &Asked<'_>, entity: &Rc<Entity>) -> Result<Response, Refused> {
    let answer = reply.answer(Status::OK).lines(entity.lines());
    match &entity.content {
        Content::File(_) if asked.method == Method::Head => answer.head_alone(entity.length()),
        Content::File(_) => {
            let begun = answer.begin(Some(entity.length()))?;
            Ok(Response::Begun(begun, Sending::of(entity, Span { begin: 0, end: entity.length() })))
        }
        Content::Memory(bytes) => from_memory(answer, bytes.clone()),
        Content::Empty => answer.empty(),
    }
}

fn from_memory(answer: Answer<crate::Now<'_>>, bytes: Shared) -> Result<Response, Refused> {
    if bytes.len() <= COPIED_MAX { answer.bytes(&bytes) } else { answer.segment(bytes) }
}

fn part(reply: Reply<'_>, entity: &Rc<Entity>, span: Span) -> Result<Response, Refused> {
    let range = ContentRange::new(Some(span), entity.length());
    let answer = reply.answer(Status::PARTIAL_CONTENT).field("Content-Range", range.as_bytes()).lines(entity.lines());
    match &entity.content {
        Content::Memory(bytes) => from_memory(answer, bytes.slice(span.begin as usize..span.end as usize)),
        Content::File(_) => Ok(Response::Begun(answer.begin(Some(span.bytes()))?, Sending::of(entity, span))),
        Content::Empty => unreachable!("nothing has no parts"),
    }
}

fn parts(reply: Reply<'_>, entity: &Rc<Entity>, spans: &[Span], now: Duration) -> Result<Response, Refused> {
    let random = corelane::service::Random::new(now.as_nanos() as u64 ^ entity.facts.number).bits();
    // reason: the table of media types has none with control characters.
    let parts = Parts::new(random, entity.media.as_bytes(), entity.length()).expect("a media type is text");
    let mut memory = [0; 128];
    let mut media = Writer::new(&mut memory);
    // reason: a boundary is short.
    parts.write_content_type(&mut media).expect("there is room for the type");
    let answer = reply.answer(Status::PARTIAL_CONTENT).lines(entity.lines_without_type()).field("Content-Type", media.written());
    let begun = answer.begin(Some(parts.content_length(spans)))?;
    Ok(Response::Begun(begun, Sending::parts(entity, &parts, spans)))
}

/// Answers with what was found, or was not, at `name`.
pub(super) fn found(
    reply: Reply<'_>,
    asked: &Asked<'_>,
    found: &Found,
    name: &[u8],
    query: Option<&[u8]>,
    now: Duration,
) -> Result<Response, Refused> {
    match found {
        Found::File(file) => entity(reply, asked, file, now),
        Found::Directory => redirect(reply, name, query),
        Found::Listing(page) => reply.answer(Status::OK).media(page::HTML).bytes(page.as_bytes()),
        Found::Not(code) => status(reply, *code),
    }
}

/// Sends the client to the directory's own name. There is one slash in front, so no name is taken for a host.
fn redirect(reply: Reply<'_>, name: &[u8], query: Option<&[u8]>) -> Result<Response, Refused> {
    let mut to = format!("/{}/", page::reference(name)).into_bytes();
    if let Some(query) = query {
        to.push(b'?');
        to.extend_from_slice(query);
    }
    page(reply.answer(Status::MOVED_PERMANENTLY).field("Location", to), Status::MOVED_PERMANENTLY)
}

/// Answers with a status and its page.
pub(super) fn status<H: From<Answered>>(reply: Reply<'_>, status: Status) -> Result<H, Refused> {
    let answer = reply.answer(status);
    page(if status == Status::SERVICE_UNAVAILABLE { answer.number("Retry-After", 1) } else { answer }, status)
}

/// Answers that a method is not for files.
pub(super) fn not_allowed<H: From<Answered>>(reply: Reply<'_>) -> Result<H, Refused> {
    page(reply.answer(Status::METHOD_NOT_ALLOWED).field("Allow", METHODS), Status::METHOD_NOT_ALLOWED)
}

fn page<H: From<Answered>>(answer: Answer<crate::Now<'_>>, status: Status) -> Result<H, Refused> {
    answer.media(page::HTML).bytes(page::of_status(status).as_bytes())
}
