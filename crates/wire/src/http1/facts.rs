//! What field lines say about a message's end, its connection and its host, gathered in one pass.

use super::list::elements;
use super::token::decimal;
use super::{Authority, Fields, Refusal, Version};

/// How the end of a message's content is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no content.
    None,
    /// So many bytes.
    Length(u64),
    /// The chunked transfer coding.
    Chunked,
    /// Until the stream ends; only answers.
    UntilClose,
}

/// What the fields of one head say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts<'a> {
    length: Option<u64>,
    /// Whether there is a Transfer-Encoding.
    is_coded: bool,
    last_is_chunked: bool,
    chunked: u32,
    others: u32,
    pub hosts: u32,
    pub host: &'a [u8],
    pub closes: bool,
    pub keeps_alive: bool,
    pub upgrades: bool,
    pub expects_continue: bool,
    pub expects_other: bool,
}

impl<'a> Facts<'a> {
    #[inline]
    pub fn gather(fields: Fields<'a>) -> Result<Self, Refusal> {
        let mut facts = Self::default();
        for (name, value) in fields.iter() {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            match name.len() {
                4 if is("host") => (facts.host, facts.hosts) = (value, facts.hosts + 1),
                6 if is("expect") => facts.expectations(value),
                10 if is("connection") => facts.connection(value),
                14 if is("content-length") => facts.content_length(value)?,
                17 if is("transfer-encoding") => facts.transfer_encoding(value),
                _ => {}
            }
        }
        Ok(facts)
    }

    /// RFC 9112 section 6.3, rule 5. Equal lengths repeated may be taken as one or refused; what sends them is broken, and is refused.
    fn content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.length.is_some() || elements(value).nth(1).is_some() {
            return Err(Refusal::RepeatedLength);
        }
        let length = decimal(value).ok_or(Refusal::InvalidLength)?;
        self.length = if length == u64::MAX { return Err(Refusal::LengthOverflow) } else { Some(length) };
        Ok(())
    }

    /// RFC 9112 section 6.1: the codings of all lines are one list. `chunked` has no parameters.
    fn transfer_encoding(&mut self, value: &[u8]) {
        (self.is_coded, self.last_is_chunked) = (true, false);
        // A line that names no coding is no list of codings: those who pass such a line over, and those who refuse it, end the message elsewhere.
        self.others += u32::from(elements(value).next().is_none());
        for coding in elements(value) {
            self.last_is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            *(if self.last_is_chunked { &mut self.chunked } else { &mut self.others }) += 1;
        }
        // Empty elements beside it may be passed over; those who do not see it then, between us and the client, end the message elsewhere.
        self.others += u32::from(self.last_is_chunked && value.len() != b"chunked".len());
    }

    /// RFC 9110 section 7.6.1.
    fn connection(&mut self, value: &[u8]) {
        for option in elements(value) {
            self.closes |= option.eq_ignore_ascii_case(b"close");
            self.keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            self.upgrades |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }

    /// RFC 9110 section 10.1.1.
    fn expectations(&mut self, value: &[u8]) {
        for expectation in elements(value) {
            let is_continue = expectation.eq_ignore_ascii_case(b"100-continue");
            self.expects_continue |= is_continue;
            self.expects_other |= !is_continue;
        }
    }

    /// RFC 9112 sections 6.1 and 6.3; nothing where neither length nor coding is given.
    pub fn framing(&self, version: Version) -> Result<Option<Framing>, Refusal> {
        if !self.is_coded {
            return Ok(self.length.map(Framing::Length));
        }
        let refusal = match () {
            () if self.length.is_some() => Refusal::LengthAndCoding,
            () if version == Version::Http10 => Refusal::CodingInHttp10,
            () if !self.last_is_chunked => Refusal::NotChunkedLast,
            () if self.chunked > 1 => Refusal::ChunkedTwice,
            () if self.others > 0 => Refusal::UnknownCoding,
            () => return Ok(Some(Framing::Chunked)),
        };
        Err(refusal)
    }

    /// Whether the connection outlives the message as far as its sender is concerned (RFC 9112 section 9.3).
    pub const fn persists(&self, version: Version) -> bool {
        match version {
            Version::Http11 => !self.closes,
            Version::Http10 => self.keeps_alive && !self.closes,
        }
    }

    /// Host (RFC 9112 section 3.2), which HTTP/1.0 did not have.
    pub fn authority(&self, version: Version) -> Result<Option<Authority<'a>>, Refusal> {
        match (self.hosts, version) {
            (0, Version::Http10) => Ok(None),
            (0, Version::Http11) => Err(Refusal::HostMissing),
            (1, _) => Authority::parse(self.host).map(Some).ok_or(Refusal::HostInvalid),
            _ => Err(Refusal::HostRepeated),
        }
    }
}
