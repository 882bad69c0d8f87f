//! Everything that reads HTTP/1.1, with what must hold for any bytes.

#[path = "exchange.rs"]
pub mod exchange;

use corelane_wire::http1::{
    Authority, Coding, Condition, Date, Fields, Limits, Method, Ranges, Refusal, Request, Requests, Scratch, Step, Tag, Target,
    Validators, Version, coding, condition, path, percent, range_applies, ranges, write_request,
};
use corelane_wire::xdr::Writer;
use exchange::{Event, Listener};

/// What `listener` understands of `stream` in pieces of `bytes` bytes.
fn heard(mut listener: Listener, stream: &[u8], bytes: usize) -> Vec<Event> {
    stream.chunks(bytes.max(1)).for_each(|piece| listener.feed(piece));
    listener.finish()
}

/// The stream of a client: it means the same in any pieces, and what was understood can be written and means the same again.
pub fn http1_request(bytes: &[u8]) {
    let whole = heard(Listener::server(), bytes, bytes.len());
    let pieces = 1 + bytes.len() % 13;
    assert_eq!(heard(Listener::server(), bytes, pieces), whole);
    let mut scratch = Scratch::new();
    let Ok(Step::Request { head, .. }) = Requests::new(Limits::default()).next(bytes, &mut scratch) else { return };
    if head.target.path.starts_with(b"/") {
        below_the_root(head.target.path);
    }
    if head.version == Version::Http11 {
        there_and_back(&head);
    }
}

/// What was read can be written, and reads as the same.
fn there_and_back(head: &Request<'_>) {
    let mut memory = vec![0; 64 << 10];
    let mut writer = Writer::new(&mut memory);
    let target = target_text(&head.target);
    let written = write_request(&mut writer, head.method.name(), &target, |to| {
        head.fields.iter().try_for_each(|(name, value)| to.field(name, value))
    });
    written.expect("what was read can be written");
    let mut scratch = Scratch::new();
    let Ok(Step::Request { head: again, .. }) = Requests::new(Limits::default()).next(writer.written(), &mut scratch) else {
        panic!("what was written can be read")
    };
    assert_eq!(
        (again.method, again.target.path, again.target.query, again.framing),
        (head.method, head.target.path, head.target.query, head.framing)
    );
    assert!(again.fields.iter().eq(head.fields.iter()));
}

/// A target as text, in origin-form where it had an absolute one.
fn target_text(target: &Target<'_>) -> Vec<u8> {
    let authority = |named: Authority<'_>| [named.host, format!(":{}", named.port.unwrap_or(0)).as_bytes()].concat();
    let path = if target.path.is_empty() { target.authority.map(authority).unwrap_or_default() } else { target.path.to_vec() };
    let query = target.query.map(|query| [b"?", query].concat());
    [path, query.unwrap_or_default()].concat()
}

/// The stream of a server: the first byte says to which method it answers.
pub fn http1_response(bytes: &[u8]) {
    let Some((first, stream)) = bytes.split_first() else { return };
    let method = [Method::Get, Method::Head, Method::Connect][usize::from(*first) % 3];
    let whole = heard(Listener::client(method), stream, stream.len());
    let pieces = 1 + stream.len() % 13;
    assert_eq!(heard(Listener::client(method), stream, pieces), whole);
}

/// Field lines without CR LF at their end, one a line: conditions, ranges, codings.
pub fn http1_fields(bytes: &[u8]) {
    let text =
        [b"GET / HTTP/1.0\r\n", &bytes.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..])[..], b"\r\n\r\n"]
            .concat();
    let mut scratch = Scratch::new();
    let head = match Requests::new(Limits::default()).next(&text, &mut scratch) {
        Ok(Step::Request { head, .. } | Step::Refused { head, .. }) => head,
        _ => return,
    };
    for length in [0, 1, 10, 10_000, u64::MAX] {
        ranges_are_parts(head.fields, length);
    }
    let tag = Tag::parse(b"\"a\"");
    let current =
        Validators { tag, modified: Date::parse(b"Sun, 06 Nov 1994 08:49:37 GMT"), changed: None, is_modified_strong: true };
    let read = condition(head.fields, Method::Get, Some(&current));
    let written = condition(head.fields, Method::Put, Some(&current));
    assert!(written != Condition::NotModified, "only what is read can be as it was");
    assert!(read != Condition::Failed || written == Condition::Failed, "reading fails where writing does");
    let _ = (condition(head.fields, Method::Put, None), range_applies(head.fields, &current));
    let available = [Coding::Brotli, Coding::Gzip];
    if let Some(chosen) = coding(head.fields, &available) {
        assert!(available.contains(&chosen) || chosen == Coding::Identity);
    }
}

fn ranges_are_parts(fields: Fields<'_>, length: u64) {
    let Ranges::Some(spans) = ranges(fields, length) else { return };
    let mut sorted = spans.as_slice().to_vec();
    sorted.sort();
    assert!(!sorted.is_empty() && sorted.iter().all(|span| span.begin < span.end && span.end <= length));
    assert!(sorted.windows(2).all(|pair| pair[0].end < pair[1].begin), "no byte twice: {sorted:?}");
}

/// Names: paths, hosts, dates, tags, pairs of forms.
pub fn http1_names(bytes: &[u8]) {
    below_the_root(&[b"/", bytes].concat());
    let mut memory = vec![0; bytes.len()];
    for (name, value) in percent::pairs(bytes) {
        assert!(name.len() + value.len() < memory.len() + 1);
        let _ = percent::decode_form(name, &mut memory).map(<[u8]>::len);
    }
    if let Some(date) = Date::parse(bytes) {
        assert_eq!(Date::parse(&date.text()), Some(date));
    }
    if let Some(tag) = Tag::parse(bytes) {
        assert!(tag.is_weakly(tag) && tag.is_strongly(tag) != tag.is_weak);
    }
    if let Some(Authority { host, port }) = Authority::parse(bytes) {
        let again = [host, port.map(|port| format!(":{port}")).unwrap_or_default().as_bytes()].concat();
        assert_eq!(Authority::parse(&again), Some(Authority { host, port }));
    }
}

/// No path leads out of the root, or has two names.
fn below_the_root(raw: &[u8]) {
    let mut memory = vec![0; raw.len()];
    match path::normal(raw, &mut memory) {
        Ok(found) => {
            assert!(found.starts_with(b"/") && found.len() <= raw.len() && !found.contains(&0));
            let mut segments: Vec<_> = found[1..].split(|byte| *byte == b'/').collect();
            segments.pop_if(|last| last.is_empty());
            assert!(!segments.iter().any(|segment| matches!(*segment, b"" | b"." | b"..")), "{}", found.escape_ascii());
            let mut encoded = vec![0; 3 * found.len()];
            let mut writer = Writer::new(&mut encoded);
            percent::write_path(&mut writer, found).expect("three bytes for one are enough");
            assert_eq!(path::normal(writer.written(), &mut vec![0; writer.len()]), Ok(found));
        }
        Err(refusal) => assert!(!refusal.closes() && refusal != Refusal::PathTooLong, "{refusal:?}"),
    }
}
