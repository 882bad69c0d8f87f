//! Heads of requests, told apart in a stream (RFC 9112 sections 2 to 6).

use super::facts::Facts;
use super::fields::{FIELDS_MAX, Fields, Scratch};
use super::lines::{Lines, SectionLimits};
use super::method::METHOD_BYTES_MAX;
use super::token::is_token;
use super::{Authority, Framing, Method, Refusal, Target, Version};
use std::ops::Range;

/// Most empty lines before a request line (RFC 9112 section 2.2 asks for one to be passed over).
pub const EMPTY_LINES_MAX: u32 = 4;
/// Bytes of a version.
const VERSION_BYTES: usize = 8;
/// The first byte of a TLS handshake record (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// What a head may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, from its first line to its empty line; 16,384. At least what the target may have and 64 more is of use.
    pub head_bytes: usize,
    /// Bytes of a target; 8,192 (RFC 9112 section 3 recommends 8,000 for the line).
    pub target_bytes: usize,
    /// Field lines; [`FIELDS_MAX`], which is also the most.
    pub fields: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head_bytes: 16 << 10, target_bytes: 8 << 10, fields: FIELDS_MAX }
    }
}

/// The head of a request whose end is known.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method.
    pub method: Method<'a>,
    /// The target.
    pub target: Target<'a>,
    /// The version.
    pub version: Version,
    /// Whom the client means: the target's authority, or Host's. None where HTTP/1.0 says nothing, or where that is what the request was refused for.
    pub authority: Option<Authority<'a>>,
    /// How the end of the content is found. Not [`Framing::UntilClose`].
    pub framing: Framing,
    /// Whether the client wants the connection to stay (RFC 9112 section 9.3). One of HTTP/1.0 is told by `Connection: keep-alive` that it does, and is
    /// never sent chunks (section 6.1).
    pub persists: bool,
    /// Whether the client waits for 100 (Continue) before it sends content (RFC 9110 section 10.1.1). Without one, ending the exchange with another
    /// status closes the connection: nobody knows whether the content still comes.
    pub expects_continue: bool,
    /// Whether the client offers to change the protocol; to which is in the field Upgrade (RFC 9110 section 7.8).
    pub upgrades: bool,
    /// All field lines.
    pub fields: Fields<'a>,
}

/// What stands at the front of the bytes shown.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A head, in the first `bytes`: drop them, then read the content.
    Request {
        /// The head.
        head: Request<'a>,
        /// Its bytes.
        bytes: usize,
    },
    /// A head with a fault that leaves its end known: drop its `bytes`, answer with the refusal's status, pass the content over, go on.
    Refused {
        /// The head.
        head: Request<'a>,
        /// Its bytes.
        bytes: usize,
        /// What is wrong with it; it never closes.
        refusal: Refusal,
    },
    /// No head is whole: drop so many bytes (empty lines before it, nearly always none), and show the rest again with more.
    More(usize),
}

/// Finds the heads of requests in a stream, in any pieces. It keeps no bytes.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    limits: Limits,
    lines: Lines,
    empty: u32,
    /// Where the request line is, once it has ended; empty before.
    line: (usize, usize),
}

impl Requests {
    /// Starts where a head begins.
    pub fn new(limits: Limits) -> Self {
        let limits = Limits { fields: limits.fields.min(FIELDS_MAX), ..limits };
        Self { limits, lines: Lines::default(), empty: 0, line: (0, 0) }
    }

    /// Looks at the front of `bytes`.
    ///
    /// # Errors
    /// A refusal that closes: where the next request begins is not known then. Show nothing more.
    #[inline]
    pub fn next<'a, 'b: 'a>(&mut self, bytes: &'b [u8], scratch: &'a mut Scratch<'b>) -> Result<Step<'a>, Refusal> {
        let mut line = None;
        if self.line.1 == 0 {
            let Some(found) = self.find_line(bytes)? else { return Ok(Step::More(self.lines.drop_found())) };
            line = Some(RequestLine::parse(&bytes[found.clone()], self.limits)?);
            self.line = (found.start, found.end);
        }
        let limits = SectionLimits { end: self.line.0 + self.limits.head_bytes, count: self.limits.fields };
        let Some(section) = self.lines.section(bytes, limits)? else { return Ok(Step::More(0)) };
        let (begin, end) = self.line;
        assert!(begin < end && end + 2 < section.end, "fields stand behind a line that is not empty");
        let line = line.map_or_else(|| RequestLine::parse(&bytes[begin..end], self.limits), Ok)?;
        let fields = Fields::parse(&bytes[end + 2..section.end], section.count, scratch)?;
        *self = Self::new(self.limits);
        line.with(fields, section.end)
    }

    /// Where the request line is, if it is whole. Empty lines before it are passed over.
    fn find_line(&mut self, bytes: &[u8]) -> Result<Option<Range<usize>>, Refusal> {
        loop {
            let begin = self.lines.begin();
            check_first(&bytes[begin.min(bytes.len())..])?;
            let most = begin + METHOD_BYTES_MAX + 1 + self.limits.target_bytes + 1 + VERSION_BYTES + 2;
            match self.lines.next(&bytes[..bytes.len().min(most)])? {
                Some(line) if line.is_empty() => self.count_empty()?,
                Some(line) => return Ok(Some(line)),
                None if bytes.len() > most => return Err(too_long(&bytes[begin..most])),
                None => return Ok(None),
            }
        }
    }

    fn count_empty(&mut self) -> Result<(), Refusal> {
        self.empty += 1;
        if self.empty > EMPTY_LINES_MAX { Err(Refusal::EmptyLines) } else { Ok(()) }
    }
}

/// What another protocol than HTTP is recognised by, before a line has ended.
fn check_first(line: &[u8]) -> Result<(), Refusal> {
    match line.first() {
        Some(&TLS_HANDSHAKE) => Err(Refusal::Tls),
        Some(&byte) if !is_token(byte) && !matches!(byte, b'\r' | b'\n') => Err(Refusal::NotHttp),
        _ => Ok(()),
    }
}

#[cold]
fn too_long(line: &[u8]) -> Refusal {
    let is_method = line[..=METHOD_BYTES_MAX].contains(&b' ');
    if is_method { Refusal::TargetTooLong } else { Refusal::MethodTooLong }
}

/// A request line (RFC 9112 section 3), with one space between its parts as the grammar has it.
struct RequestLine<'a> {
    method: Method<'a>,
    target: Target<'a>,
    version: Version,
}

impl<'a> RequestLine<'a> {
    fn parse(line: &'a [u8], limits: Limits) -> Result<Self, Refusal> {
        let (method, rest) = at_space(line);
        if method.len() > METHOD_BYTES_MAX {
            return Err(Refusal::MethodTooLong);
        }
        let method = Method::of(method).ok_or(Refusal::RequestLine)?;
        let (target, version) = at_space(rest);
        if target.len() > limits.target_bytes {
            return Err(Refusal::TargetTooLong);
        }
        let version = match Version::of(version).ok_or(Refusal::RequestLine)? {
            Ok(version) => version,
            Err(2) if method == Method::Other("PRI") => return Err(Refusal::Http2),
            Err(_) => return Err(Refusal::Version),
        };
        Ok(Self { method, target: Target::parse(method, target)?, version })
    }

    fn with(self, fields: Fields<'a>, bytes: usize) -> Result<Step<'a>, Refusal> {
        let Self { method, target, version } = self;
        let facts = Facts::gather(fields)?;
        let framing = facts.framing(version)?.unwrap_or(Framing::None);
        let host = facts.authority(version);
        let authority = target.authority.or(host.ok().flatten());
        // HTTP/1.0 does not know expectations (RFC 9110 section 10.1.1), and nothing is to be waited for where nothing comes.
        let has_content = !matches!(framing, Framing::None | Framing::Length(0));
        let expects_continue = facts.expects_continue && version == Version::Http11 && has_content;
        let (persists, upgrades) = (facts.persists(version), facts.upgrades && version == Version::Http11);
        let head = Request { method, target, version, authority, framing, persists, expects_continue, upgrades, fields };
        let expectation = (facts.expects_other && version == Version::Http11).then_some(Refusal::Expectation);
        let Some(refusal) = host.err().or(expectation) else { return Ok(Step::Request { head, bytes }) };
        assert!(!refusal.closes(), "the end of this message is known");
        Ok(Step::Refused { head, bytes, refusal })
    }
}

/// What stands before the first space, and behind it.
fn at_space(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == b' ') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}
