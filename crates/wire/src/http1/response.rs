//! Heads of answers, told apart in a stream (RFC 9112 sections 4 to 6); for clients.

use super::facts::Facts;
use super::fields::{Fields, Scratch};
use super::lines::{Lines, SectionLimits};
use super::token::{decimal, is_value};
use super::{Framing, Limits, Method, Refusal, Status, Version};

/// The head of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The version.
    pub version: Version,
    /// The status.
    pub status: Status,
    /// All field lines.
    pub fields: Fields<'a>,
    framing: Option<Framing>,
    stays: bool,
}

impl Response<'_> {
    /// How the end of the content is found, for an answer to a request with `method` (RFC 9112 section 6.3). What follows an answer of 101, or of 2xx to
    /// CONNECT, is no HTTP.
    pub fn framing(&self, method: Method<'_>) -> Framing {
        let is_tunnel = method == Method::Connect && self.status.code() / 100 == 2;
        if method == Method::Head || is_tunnel || self.status.is_without_content() {
            return Framing::None;
        }
        self.framing.unwrap_or(Framing::UntilClose)
    }

    /// The length that the head tells, though no content may follow: for HEAD, that of what GET would be answered with (RFC 9110 section 8.6).
    pub fn announced(&self) -> Option<u64> {
        match self.framing {
            Some(Framing::Length(length)) => Some(length),
            _ => None,
        }
    }

    /// Whether the head tells of content, though none may follow: some servers send it all the same, to HEAD or behind a 204 or 304.
    pub fn tells_of_content(&self) -> bool {
        matches!(self.framing, Some(Framing::Chunked | Framing::Length(1..)))
    }

    /// Whether the server leaves the connection open (RFC 9112 section 9.3) after this answer to a request with `method`.
    pub fn persists(&self, method: Method<'_>) -> bool {
        self.stays && self.framing(method) != Framing::UntilClose
    }
}

/// What stands at the front of the bytes shown to a client.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// A head, in the first `bytes`: drop them, then read the content. Another head follows one that is interim ([`Status::is_interim`]).
    Response {
        /// The head.
        head: Response<'a>,
        /// Its bytes.
        bytes: usize,
    },
    /// No head is whole: drop nothing and show the same bytes again, with more.
    More,
}

/// Finds the heads of answers in a stream, in any pieces. It keeps no bytes.
#[derive(Clone, Copy, Debug)]
pub struct Responses {
    limits: Limits,
    lines: Lines,
    /// Where the status line ends, once it has; 0 before.
    line: usize,
}

impl Responses {
    /// Starts where a head begins. Of the limits, that of the target bounds the status line.
    pub fn new(limits: Limits) -> Self {
        let limits = Limits { fields: limits.fields.min(super::FIELDS_MAX), ..limits };
        Self { limits, lines: Lines::default(), line: 0 }
    }

    /// Looks at the front of `bytes`. After [`Answer::More`] they are shown again whole, with more behind.
    ///
    /// # Errors
    /// What the server did wrong: where its next answer begins is not known then. Show nothing more.
    #[inline]
    pub fn next<'a, 'b: 'a>(&mut self, bytes: &'b [u8], scratch: &'a mut Scratch<'b>) -> Result<Answer<'a>, Refusal> {
        if self.line == 0 {
            let most = self.limits.target_bytes;
            match self.lines.next(&bytes[..bytes.len().min(most)])? {
                Some(line) => self.line = line.end,
                None if bytes.len() > most => return Err(Refusal::HeadTooLong),
                None => return Ok(Answer::More),
            }
            status_line(&bytes[..self.line])?;
        }
        let limits = SectionLimits { end: self.limits.head_bytes, count: self.limits.fields };
        let Some(section) = self.lines.section(bytes, limits)? else { return Ok(Answer::More) };
        assert!(self.line + 2 < section.end, "fields stand behind the status line");
        let (version, status) = status_line(&bytes[..self.line])?;
        let fields = Fields::parse(&bytes[self.line + 2..section.end], section.count, scratch)?;
        *self = Self::new(self.limits);
        let facts = Facts::gather(fields)?;
        let (framing, stays) = (facts.framing(version)?, facts.persists(version));
        Ok(Answer::Response { head: Response { version, status, fields, framing, stays }, bytes: section.end })
    }
}

/// RFC 9112 section 4. The space before a phrase that is not there is often forgotten, and nothing hangs on it.
fn status_line(line: &[u8]) -> Result<(Version, Status), Refusal> {
    let (version, rest) = line.split_at_checked(8).ok_or(Refusal::StatusLine)?;
    let version = Version::of(version).ok_or(Refusal::StatusLine)?.map_err(|_| Refusal::Version)?;
    let (code, phrase) = match rest {
        [b' ', code @ ..] if code.len() >= 3 => code.split_at(3),
        _ => return Err(Refusal::StatusLine),
    };
    let status = decimal(code).and_then(|code| Status::new(code as u16));
    let is_phrase = phrase.is_empty() || phrase[0] == b' ' && phrase.iter().copied().all(is_value);
    status.filter(|_| is_phrase).map(|status| (version, status)).ok_or(Refusal::StatusLine)
}
