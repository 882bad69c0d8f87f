//! What stands in a line, and how.

use super::passed::Passed;
use corelane::service::Address;
use corelane::service::journal::LINE_BYTES_MAX;
use corelane_wire::http1::{DIGITS_MAX, Date, Request as Head, Version, decimal};
use std::io::Write;
use std::time::Duration;

/// Most bytes that are shown of what a client has sent.
const REQUEST_BYTES_MAX: usize = 1536;
/// Those of a method that stands apart.
const METHOD_SHOWN_MAX: usize = 64;
const REFERER_BYTES_MAX: usize = 768;
const AGENT_BYTES_MAX: usize = 512;
const HOST_BYTES_MAX: usize = 255;
/// Those of an upstream as the operator wrote it.
const UPSTREAM_BYTES_MAX: usize = 128;

/// The most bytes of a line for each that is shown. Most need one; a text of JSON whose bytes need more is cut sooner (`\uHHHH` has six).
const ESCAPE_BYTES_MAX: usize = 5;
/// What the longest line has beside them.
const REST_BYTES_MAX: usize = 384;

const _: () = assert!(
    (REQUEST_BYTES_MAX + REFERER_BYTES_MAX + AGENT_BYTES_MAX + HOST_BYTES_MAX + UPSTREAM_BYTES_MAX) * ESCAPE_BYTES_MAX
        + REST_BYTES_MAX
        <= LINE_BYTES_MAX,
    "every line fits"
);

/// Memory for a line at first: most are shorter.
pub(super) const LINE_BYTES: usize = 1024;

/// What a line of an access log looks like.
///
/// Whatever a client has sent stands in quotes, and all of it as printable ASCII: so nobody can forge a line, or tell a terminal anything. Of the request line 1,536 bytes are shown, of Referer 768, of User-Agent 512, of the host 255, of an upstream 128, and `...` behind them if
/// there were more. Of a request that was sent on the line has the upstream behind that, in quotes as the operator wrote it, and why this server has answered in place of it, or has cut the answer short: a word of a fixed set. Of a request whose answer comes later these are kept in the lane's memory, as a part of what its client holds; where the lane lends none, `...` stands alone (`log_lines_cut`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `PEER - - [TIME] "REQUEST" STATUS BYTES "REFERER" "USER AGENT" "HOST" SECONDS END`: the combined format, and three values more, with ` "UPSTREAM" WHY` behind them where the request was sent on. BYTES are those of
    /// content that were written for the peer, which may have got fewer if the answer was cut short. SECONDS are from the request's head to the end of the answer, by the lane's turns: an answer
    /// that is given at once takes none. END is `+` if the connection goes on, `-` if it closes behind the answer, and `X` if the answer was cut short; one that
    /// had not begun by then has status 499. Of what a client has sent a byte is written as `\xHH` that is no printable ASCII, a quote or a backslash.
    #[default]
    Combined,
    /// The same as an object of JSON a line (RFC 8259), with `method`, `path`, `query` and `protocol` apart. Path and query are as the client has sent them:
    /// nothing in them is decoded; a request without a query has `null` there. What is no request has these as `null`, and behind them `request`, its first
    /// line. Texts are escaped as JSON has it and in no other way: who reads the object has what the client has sent, but for bytes that are no UTF-8, each
    /// of which is U+FFFD.
    Json,
}

/// A request as its line shows it.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The bytes of its head, or what came in place of one.
    pub bytes: &'a [u8],
    /// Its head, if it has one.
    pub head: Option<&'a Head<'a>>,
}

/// What was answered: a status, and so many bytes of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The status code.
    pub status: u16,
    /// Bytes of content.
    pub bytes: u64,
}

/// How an answer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The connection goes on.
    Kept,
    /// It closes behind the answer.
    Closed,
    /// The answer was cut short.
    Cut,
}

impl Ended {
    /// Whole, on a connection that goes on or not.
    pub fn whole(persists: bool) -> Self {
        if persists { Self::Kept } else { Self::Closed }
    }
}

/// The status of an answer that had not begun when its connection ended.
pub(super) const GONE: u16 = 499;

/// The peer as lines have it: an IP address, or what else it is.
pub(super) fn write_peer(line: &mut Vec<u8>, peer: Option<&Address>) {
    match peer.map(|peer| (peer, peer.ip())) {
        Some((_, Some(ip))) => put(line, format_args!("{}", ip.to_canonical())),
        Some((peer, None)) if peer.unix().is_some() => line.extend_from_slice(b"unix"),
        _ => line.extend_from_slice(b"-"),
    }
}

impl LogFormat {
    /// The time of day.
    pub(super) fn write_time(self, line: &mut Vec<u8>, date: Date) {
        let text = date.text();
        // reason: the form of a date is fixed ASCII.
        let text = std::str::from_utf8(&text).expect("a date is ASCII");
        let (day, month, year, time) = (&text[5..7], &text[8..11], &text[12..16], &text[17..25]);
        match self {
            Self::Combined => put(line, format_args!("{day}/{month}/{year}:{time} +0000")),
            Self::Json => put(line, format_args!("{year}-{:02}-{day}T{time}Z", number_of(month))),
        }
    }

    /// The beginning of a line: who asked, and when it was answered.
    pub(super) fn write_begin(self, line: &mut Vec<u8>, peer: &[u8], time: &[u8]) {
        let parts: [&[u8]; 5] = match self {
            Self::Combined => [peer, b" - - [", time, b"] ", b""],
            Self::Json => [b"{\"time\":\"", time, b"\",\"peer\":\"", peer, b"\","],
        };
        parts.iter().for_each(|part| line.extend_from_slice(part));
    }

    /// What was asked for.
    pub(super) fn write_request(self, line: &mut Vec<u8>, asked: Asked<'_>) {
        match (self, asked.head) {
            (Self::Json, Some(head)) => self.write_parts(line, head),
            (Self::Json, None) => {
                line.extend_from_slice(b"\"method\":null,\"path\":null,\"query\":null,\"protocol\":null,");
                self.write_first_line(line, asked.bytes);
            }
            (Self::Combined, _) => self.write_first_line(line, asked.bytes),
        }
    }

    /// The parts of a request line, which together are shown as far as the line would be.
    fn write_parts(self, line: &mut Vec<u8>, head: &Head<'_>) {
        let method = head.method.name().as_bytes();
        let for_path = REQUEST_BYTES_MAX - method.len().min(METHOD_SHOWN_MAX);
        let for_query = for_path.saturating_sub(head.target.path.len());
        let protocol: &[u8] = match head.version {
            Version::Http10 => b"HTTP/1.0",
            Version::Http11 => b"HTTP/1.1",
        };
        // The target of CONNECT has no path (RFC 9112 section 3.2.3): its host stands at its own place.
        let path = Some(head.target.path).filter(|path| !path.is_empty());
        for (name, text, most) in [
            ("\"method\":", Some(method), METHOD_SHOWN_MAX),
            (",\"path\":", path, for_path),
            (",\"query\":", head.target.query, for_query),
            (",\"protocol\":", Some(protocol), protocol.len()),
        ] {
            self.write_text(line, name, text, most);
        }
    }

    /// The first line of a head, or of what was to be one.
    fn write_first_line(self, line: &mut Vec<u8>, head: &[u8]) {
        let begin = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(head.len());
        let request = head[begin..].split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        self.write_text(line, "\"request\":", Some(request).filter(|request| !request.is_empty()), REQUEST_BYTES_MAX);
    }

    /// What stands in place of a request, and of fields, for which there was no memory while the answer was awaited.
    pub(super) fn not_kept(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Combined => (b"\"...\"", b"\"...\" \"...\" \"...\""),
            Self::Json => (
                b"\"method\":null,\"path\":null,\"query\":null,\"protocol\":null,\"request\":\"...\"",
                b"\"referer\":\"...\",\"agent\":\"...\",\"host\":\"...\"",
            ),
        }
    }

    /// What was answered.
    pub(super) fn write_sent(self, line: &mut Vec<u8>, Sent { status, bytes }: Sent) {
        let [before, between, behind]: [&[u8]; 3] = match self {
            Self::Combined => [b" ", b" ", b" "],
            Self::Json => [b",\"status\":", b",\"bytes\":", b","],
        };
        line.extend_from_slice(before);
        line.extend_from_slice(decimal(status.into(), &mut [0; DIGITS_MAX]));
        line.extend_from_slice(between);
        line.extend_from_slice(decimal(bytes, &mut [0; DIGITS_MAX]));
        line.extend_from_slice(behind);
    }

    /// What field lines say.
    pub(super) fn write_fields(self, line: &mut Vec<u8>, head: Option<&Head<'_>>) {
        let between: &[u8] = if self == Self::Json { b"," } else { b" " };
        let field = |name| head.and_then(|head| head.fields.get(name));
        let host = head.and_then(|head| head.authority).map(|authority| authority.host);
        self.write_text(line, "\"referer\":", field("Referer"), REFERER_BYTES_MAX);
        line.extend_from_slice(between);
        self.write_text(line, "\"agent\":", field("User-Agent"), AGENT_BYTES_MAX);
        line.extend_from_slice(between);
        self.write_text(line, "\"host\":", host, HOST_BYTES_MAX);
    }

    /// The end of a line.
    pub(super) fn write_end(self, line: &mut Vec<u8>, took: Duration, ended: Ended, passed: &Passed) {
        let (seconds, micros) = (took.as_secs(), took.subsec_micros());
        match self {
            Self::Combined => put(line, format_args!(" {seconds}.{micros:06} {}", sign(ended))),
            Self::Json => put(line, format_args!(",\"seconds\":{seconds}.{micros:06},\"end\":\"{}\"", sign(ended))),
        }
        if let Some((upstream, why)) = passed.shown() {
            self.write_passed(line, upstream, why);
        }
        line.extend_from_slice(if self == Self::Json { b"}\n" } else { b"\n" });
    }

    /// To whom a request was sent on, and why this server has answered all the same.
    fn write_passed(self, line: &mut Vec<u8>, upstream: Option<&[u8]>, why: Option<&'static str>) {
        line.push(if self == Self::Json { b',' } else { b' ' });
        self.write_text(line, "\"upstream\":", upstream, UPSTREAM_BYTES_MAX);
        match (self, why) {
            (Self::Combined, why) => put(line, format_args!(" {}", why.unwrap_or("-"))),
            (Self::Json, Some(why)) => put(line, format_args!(",\"why\":\"{why}\"")),
            (Self::Json, None) => line.extend_from_slice(b",\"why\":null"),
        }
    }

    /// What a client has sent, in quotes; `name` stands before it where texts have names.
    fn write_text(self, line: &mut Vec<u8>, name: &str, text: Option<&[u8]>, most: usize) {
        if self == Self::Json {
            line.extend_from_slice(name.as_bytes());
        }
        let Some(text) = text else { return line.extend_from_slice(if self == Self::Json { b"null" } else { b"\"-\"" }) };
        line.push(b'"');
        let shown = &text[..text.len().min(most)];
        let is_whole = match self {
            Self::Combined => escape(line, shown),
            Self::Json => escape_json(line, shown, most * ESCAPE_BYTES_MAX),
        };
        line.extend_from_slice(if is_whole && text.len() <= most { b"\"" } else { b"...\"" });
    }
}

fn put(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let written = line.write_fmt(text);
    assert!(written.is_ok(), "memory can be written");
}

fn sign(ended: Ended) -> char {
    match ended {
        Ended::Kept => '+',
        Ended::Closed => '-',
        Ended::Cut => 'X',
    }
}

/// January is 1.
fn number_of(month: &str) -> usize {
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // reason: a date has one of these (RFC 9110 section 5.6.7).
    months.iter().position(|known| *known == month).expect("a date has a month") + 1
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Writes printable ASCII as it is, and all else as `\xHH`. All of it always.
fn escape(line: &mut Vec<u8>, text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| !is_plain(byte)) {
        let byte = rest[at];
        line.extend_from_slice(&rest[..at]);
        line.extend_from_slice(&[b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    line.extend_from_slice(rest);
    true
}

/// Writes printable ASCII as it is, and all else as JSON escapes it (RFC 8259 section 7), in at most so many bytes; whether that was all.
fn escape_json(line: &mut Vec<u8>, text: &[u8], bytes_max: usize) -> bool {
    if text.iter().copied().all(is_plain) {
        line.extend_from_slice(text);
        return true;
    }
    let end = line.len() + bytes_max;
    for chunk in text.utf8_chunks() {
        let broken = chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER);
        for letter in chunk.valid().chars().chain(broken) {
            // A letter beyond the first plane needs two units.
            if line.len() + 2 * UNIT_BYTES > end {
                return false;
            }
            put_letter(line, letter);
        }
    }
    true
}

/// Bytes of `\uHHHH`.
const UNIT_BYTES: usize = 6;

fn put_letter(line: &mut Vec<u8>, letter: char) {
    match u8::try_from(letter) {
        Ok(byte) if is_plain(byte) => line.push(byte),
        Ok(byte @ (b'"' | b'\\')) => line.extend_from_slice(&[b'\\', byte]),
        _ => {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let digit = |shift: u32| DIGITS[usize::from(*unit >> shift & 15)];
                line.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
            }
        }
    }
}

fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\'
}
