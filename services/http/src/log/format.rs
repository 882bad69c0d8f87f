//! What stands in a line, and how.

use corelane::service::Address;
use corelane::service::journal::LINE_BYTES_MAX;
use corelane_wire::http1::{DIGITS_MAX, Date, Request as Head, decimal};
use std::io::Write;
use std::time::Duration;

/// Most bytes that are shown of what a client has sent.
const REQUEST_BYTES_MAX: usize = 1536;
const REFERER_BYTES_MAX: usize = 768;
const AGENT_BYTES_MAX: usize = 512;
const HOST_BYTES_MAX: usize = 255;

/// Bytes of the longest way to write one of them: `\\xHH`.
const ESCAPE_BYTES_MAX: usize = 5;
/// What the longest line has beside them.
const REST_BYTES_MAX: usize = 512;

const _: () = assert!(
    (REQUEST_BYTES_MAX + REFERER_BYTES_MAX + AGENT_BYTES_MAX + HOST_BYTES_MAX) * ESCAPE_BYTES_MAX + REST_BYTES_MAX
        <= LINE_BYTES_MAX,
    "every line fits"
);

/// Memory for a line at first: most are shorter.
pub(super) const LINE_BYTES: usize = 1024;

/// What a line of an access log looks like.
///
/// Whatever a client has sent stands in quotes with each byte written as `\xHH` that is no printable ASCII, a quote or a backslash: so nobody can forge a
/// line, or tell a terminal anything. Of the request line 1,536 bytes are shown, of Referer 768, of User-Agent 512, of the host 255, and `...` behind them if
/// there were more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `PEER - - [TIME] "REQUEST" STATUS BYTES "REFERER" "USER AGENT" "HOST" SECONDS END`: the combined format, and three values more. BYTES are those of
    /// content that were written for the peer, which may have got fewer if the answer was cut short. SECONDS are from the request's head to the end of the answer, by the lane's turns: an answer
    /// that is given at once takes none. END is `+` if the connection goes on, `-` if it closes behind the answer, and `X` if the answer was cut short; one that
    /// had not begun by then has status 499.
    #[default]
    Combined,
    /// The same as an object of JSON a line (RFC 8259), whose texts are written as in the combined format.
    Json,
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

    /// The first line of a head, or of what was to be one.
    pub(super) fn write_request(self, line: &mut Vec<u8>, head: &[u8]) {
        let begin = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(head.len());
        let request = head[begin..].split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        self.write_text(line, "\"request\":", Some(request).filter(|request| !request.is_empty()), REQUEST_BYTES_MAX);
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
    pub(super) fn write_end(self, line: &mut Vec<u8>, took: Duration, ended: Ended) {
        let (seconds, micros) = (took.as_secs(), took.subsec_micros());
        match self {
            Self::Combined => put(line, format_args!(" {seconds}.{micros:06} {}\n", sign(ended))),
            Self::Json => put(line, format_args!(",\"seconds\":{seconds}.{micros:06},\"end\":\"{}\"}}\n", sign(ended))),
        }
    }

    /// What a client has sent, in quotes; `name` stands before it where texts have names.
    fn write_text(self, line: &mut Vec<u8>, name: &str, text: Option<&[u8]>, most: usize) {
        let (name, mark, none): (&str, &[u8], &[u8]) = match self {
            Self::Combined => ("", b"\\x", b"\"-\""),
            Self::Json => (name, b"\\\\x", b"null"),
        };
        line.extend_from_slice(name.as_bytes());
        let Some(text) = text else { return line.extend_from_slice(none) };
        line.push(b'"');
        escape(line, &text[..text.len().min(most)], mark);
        line.extend_from_slice(if text.len() > most { b"...\"" } else { b"\"" });
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

/// Writes printable ASCII as it is, and all else as `mark` and two digits.
fn escape(line: &mut Vec<u8>, text: &[u8], mark: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| !is_plain(byte)) {
        let byte = rest[at];
        line.extend_from_slice(&rest[..at]);
        line.extend_from_slice(mark);
        line.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    line.extend_from_slice(rest);
}

fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\'
}
