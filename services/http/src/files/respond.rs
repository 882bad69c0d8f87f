//! Answers about a file: whole, in part, or not at all (RFC 9110 sections 13 and 14).

use super::asked::{FileRequest, METHODS};
use super::entity::{Content, Entity};
use super::listings::{Page, Rest};
use super::page;
use super::sending::Sending;
use super::state::Files;
use crate::Reply;
use crate::answer::Answer;
use crate::application::{Exchange, First, Handled};
use crate::outcome::{Answered, Begun};
use corelane::service::{Refused, Shared};
use corelane_wire::http1::{
    Condition, ContentRange, Method, Parts, Ranges, Span, Spans, Status, condition, range_applies, ranges,
};
use corelane_wire::xdr::Writer;
use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

/// How far an answer has come.
pub(super) enum Response {
    /// It is written.
    Answered(Answered),
    /// Its content is still to be sent.
    Begun(Begun, Box<dyn Exchange<Files>>),
}

impl From<Response> for Handled<Files> {
    fn from(response: Response) -> Self {
        match response {
            Response::Answered(answered) => answered.into(),
            Response::Begun(begun, sending) => Handled::Begin(sending, First::Produce(begun)),
        }
    }
}

impl Response {
    fn begun(begun: Begun, sending: impl Exchange<Files>) -> Self {
        Self::Begun(begun, Box::new(sending))
    }
}

impl From<Answered> for Response {
    fn from(answered: Answered) -> Self {
        Self::Answered(answered)
    }
}

/// Content of up to this many bytes is copied behind its head, which costs less than a segment of its own: instructions of the server for a request, by callgrind (eight requests at a time on one
/// connection, epoll, optimised):
///
/// | bytes | 512 | 1024 | 2048 | 3072 | 4096 | 8192 | 16384 |
/// | --- | --- | --- | --- | --- | --- | --- | --- |
/// | copied | 3033 | 3159 | 3512 | 3722 | 4058 | 13176 | 37169 |
/// | a segment | 4163 | 4194 | 4201 | 4191 | 4192 | 4189 | 4383 |
///
/// At 4 KiB both are the same but for 3 %, which the memory that is written once more takes back.
const COPIED_MAX: usize = 3 << 10;

/// What a request comes to, beside a file.
pub(super) enum ResponseKind {
    /// The whole file.
    Whole,
    /// A part of it.
    Part(Span),
    /// Several.
    Parts(Spans),
    /// The client's copy is good.
    NotModified,
    /// It is refused.
    Trouble(Trouble),
}

/// Why a request has nothing of a file, and the field line that belongs to that.
pub(super) struct Trouble {
    pub status: Status,
    field: Option<(&'static str, Cow<'static, [u8]>)>,
}

impl Trouble {
    pub fn of(status: Status) -> Self {
        let field: Option<(_, Cow<'static, [u8]>)> = match status {
            Status::SERVICE_UNAVAILABLE => Some(("Retry-After", b"1".into())),
            Status::METHOD_NOT_ALLOWED => Some(("Allow", METHODS.as_bytes().into())),
            _ => None,
        };
        Self { status, field }
    }
}

/// What a request for a file comes to (RFC 9110 sections 13 and 14). `now`: since 1970.
pub(super) fn plan(asked: &FileRequest<'_>, entity: &Entity, now: Duration) -> ResponseKind {
    if !asked.is_special {
        return ResponseKind::Whole;
    }
    let validators = entity.validators(now);
    match condition(asked.fields, asked.method, Some(&validators)) {
        Condition::Holds => {}
        Condition::NotModified => return ResponseKind::NotModified,
        Condition::Failed => return ResponseKind::Trouble(Trouble::of(Status::PRECONDITION_FAILED)),
    }
    if asked.method != Method::Get || !range_applies(asked.fields, &validators) {
        return ResponseKind::Whole;
    }
    match ranges(asked.fields, entity.length()) {
        Ranges::Whole => ResponseKind::Whole,
        Ranges::Unsatisfiable => {
            let range = ContentRange::new(None, entity.length()).as_bytes().to_vec();
            let field = Some(("Content-Range", range.into()));
            ResponseKind::Trouble(Trouble { status: Status::RANGE_NOT_SATISFIABLE, field })
        }
        Ranges::Some(spans) => match spans.as_slice() {
            [span] => ResponseKind::Part(*span),
            _ => ResponseKind::Parts(spans),
        },
    }
}

/// Answers with a file, as planned. `now`: since 1970.
pub(super) fn entity(
    reply: Reply<'_>,
    asked: &FileRequest<'_>,
    entity: &Rc<Entity>,
    plan: &ResponseKind,
    now: Duration,
) -> Result<Response, Refused> {
    match plan {
        ResponseKind::Whole => whole(reply, asked, entity),
        ResponseKind::Part(span) => part(reply, entity, *span),
        ResponseKind::Parts(spans) => parts(reply, entity, spans.as_slice(), now),
        ResponseKind::NotModified => reply.answer(Status::NOT_MODIFIED).lines(entity.lines_of_304()).empty(),
        ResponseKind::Trouble(trouble) => self::trouble(reply, trouble, None),
    }
}

fn whole(reply: Reply<'_>, asked: &FileRequest<'_>, entity: &Rc<Entity>) -> Result<Response, Refused> {
    let answer = reply.answer(Status::OK).lines(entity.lines());
    match &entity.content {
        Content::File(..) if asked.method == Method::Head => answer.head_alone(entity.length()),
        Content::File(..) => {
            let begun = answer.begin(Some(entity.length()))?;
            Ok(Response::begun(begun, Sending::of(entity, Span { begin: 0, end: entity.length() })))
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
        Content::File(..) => Ok(Response::begun(answer.begin(Some(span.bytes()))?, Sending::of(entity, span))),
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
    Ok(Response::begun(begun, Sending::parts(entity, &parts, spans)))
}

/// Sends the client to the directory's own name. There is one slash in front, so no name is taken for a host.
pub(super) fn redirect(reply: Reply<'_>, name: &[u8], query: Option<&[u8]>) -> Result<Response, Refused> {
    let mut to = format!("/{}/", page::reference(name)).into_bytes();
    if let Some(query) = query {
        to.push(b'?');
        to.extend_from_slice(query);
    }
    page(reply.answer(Status::MOVED_PERMANENTLY).field("Location", to), Status::MOVED_PERMANENTLY)
}

/// Answers with what a directory holds.
pub(super) fn listing(reply: Reply<'_>, page: &Rc<Page>) -> Result<Response, Refused> {
    let begun = reply.answer(Status::OK).media(page::HTML).begin(Some(page.text().len() as u64))?;
    Ok(Response::begun(begun, Rest::of(page)))
}

/// Says of a list of names that it is there, to who asked for it only if it were not (`If-None-Match: *`).
pub(super) fn still_there(reply: Reply<'_>) -> Result<Response, Refused> {
    reply.answer(Status::NOT_MODIFIED).empty()
}

/// Answers with a status, and the operator's page for it, or ours.
pub(super) fn trouble(reply: Reply<'_>, trouble: &Trouble, page: Option<&Rc<Entity>>) -> Result<Response, Refused> {
    let answer = reply.answer(trouble.status);
    let answer = match &trouble.field {
        Some((name, value)) => answer.field(name, value),
        None => answer,
    };
    let Some(page) = page else { return self::page(answer, trouble.status) };
    let answer = answer.media(&page.media);
    match &page.content {
        Content::Memory(bytes) => from_memory(answer, bytes.clone()),
        Content::Empty => answer.empty(),
        Content::File(..) => {
            let begun = answer.begin(Some(page.length()))?;
            Ok(Response::begun(begun, Sending::of(page, Span { begin: 0, end: page.length() })))
        }
    }
}

fn page<H: From<Answered>>(answer: Answer<crate::Now<'_>>, status: Status) -> Result<H, Refused> {
    answer.media(page::HTML).bytes(page::of_status(status).as_bytes())
}
