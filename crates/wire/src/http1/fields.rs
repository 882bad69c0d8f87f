//! Field lines (RFC 9110 section 5, RFC 9112 section 5).

use super::Refusal;
use super::list::{elements, tags};
use httparse::{EMPTY_HEADER, Error, Header, Status, parse_headers};
use std::mem::MaybeUninit;

/// Most field lines in a head, and in trailers.
pub const FIELDS_MAX: usize = 100;

static EMPTY: [Header<'static>; FIELDS_MAX] = [EMPTY_HEADER; FIELDS_MAX];

/// Memory for the field lines of one head: 3,200 bytes, which are not cleared, so making it costs nothing.
pub struct Scratch<'b>([MaybeUninit<Header<'b>>; FIELDS_MAX]);

impl Scratch<'_> {
    /// Memory with nothing in it.
    #[inline]
    pub const fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; FIELDS_MAX])
    }
}

impl Default for Scratch<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Field lines in the order in which they came, [`FIELDS_MAX`] at most. Names are tokens; values have no control characters but tabs, and are trimmed.
#[derive(Clone, Copy)]
pub struct Fields<'a>(&'a [Header<'a>]);

impl<'a> Fields<'a> {
    /// Reads `count` field lines and the empty line behind them, which [`Lines`](super::lines::Lines) has found.
    #[inline]
    pub(super) fn parse<'b: 'a>(section: &'b [u8], count: usize, scratch: &'a mut Scratch<'b>) -> Result<Self, Refusal> {
        assert!(count <= FIELDS_MAX, "whoever counted has the limit");
        let lines = scratch.0[..count].write_copy_of_slice(&EMPTY[..count]);
        match parse_headers(section, lines) {
            Ok(Status::Complete((bytes, fields))) if bytes == section.len() && fields.len() == count => Ok(Self(fields)),
            Ok(_) => Err(Refusal::BareCr),
            Err(error) => Err(refusal(error, section)),
        }
    }

    /// The value of the first field line of this name, in any case.
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// The values of all field lines of this name.
    pub fn all<'n>(self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        // `eq_ignore_ascii_case` compares lengths first.
        self.0.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// The elements of a list field, which may have come in several lines (RFC 9110 section 5.3).
    pub fn list<'n>(self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.all(name).flat_map(elements)
    }

    /// The entity tags of a field that lists some (RFC 9110 section 8.8.3), as they stand there.
    pub fn tags<'n>(self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.all(name).flat_map(tags)
    }

    /// The value of a field that may come once: none where it is missing or came in several lines.
    pub fn once(self, name: &str) -> Option<&'a [u8]> {
        let mut all = self.all(name);
        all.next().filter(|_| all.next().is_none())
    }

    /// All field lines: names as they were sent, and values.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (&'a str, &'a [u8])> {
        self.0.iter().map(|field| (field.name, field.value))
    }

    /// How many there are.
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// The field lines of trailers, from the bytes of a [`Part::Trailers`](super::Part). They are apart from those of the head, and say nothing of its framing
/// (RFC 9110 section 6.5.1).
///
/// # Errors
/// What is wrong with them; it closes.
pub fn trailers<'a, 'b: 'a>(section: &'b [u8], scratch: &'a mut Scratch<'b>) -> Result<Fields<'a>, Refusal> {
    let lines = section.iter().filter(|byte| **byte == b'\n').count();
    let count = lines.checked_sub(1).filter(|count| *count <= FIELDS_MAX).ok_or(Refusal::TooManyFields)?;
    Fields::parse(section, count, scratch)
}

impl std::fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, value)| (name, value.escape_ascii().to_string()))).finish()
    }
}

#[cold]
fn refusal(error: Error, section: &[u8]) -> Refusal {
    match error {
        Error::NewLine => Refusal::BareCr,
        Error::HeaderName if has_space_before_colon(section) => Refusal::SpaceBeforeColon,
        Error::HeaderName => Refusal::FieldName,
        _ => Refusal::FieldValue,
    }
}

/// Whether a line has white space right before its colon: the likely fault where a name is none.
fn has_space_before_colon(section: &[u8]) -> bool {
    let before_colon = |line: &[u8]| line.iter().position(|byte| *byte == b':').and_then(|colon| line[..colon].last().copied());
    section.split(|byte| *byte == b'\n').any(|line| matches!(before_colon(line), Some(b' ' | b'\t')))
}
