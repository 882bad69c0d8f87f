//! What a series is called, and what is read of it.

use crate::layout::{NAME_BYTES, is_whole, seal, u64_of};

/// The longest text of a subject, in bytes; what is longer is cut.
pub const TEXT_BYTES_MAX: usize = 200;

/// The longest word for what is counted, in bytes; what is longer is cut.
pub const WHAT_BYTES_MAX: usize = 24;

/// Of whom something is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// All of it.
    Whole,
    /// An interface, such as a VLAN, by its name.
    Interface(String),
    /// A rule.
    Rule {
        /// Its number, which several may have.
        number: u16,
        /// Its words, with its comment.
        text: String,
    },
}

/// Whether what is read only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It grows; how much each second is kept.
    Counter = 1,
    /// It is what it is.
    Gauge = 2,
}

/// What is read of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// Since it began.
    Counter(u64),
    /// Now; not below 0.
    Gauge(f64),
}

impl Reading {
    /// Its kind.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Counter(_) => Kind::Counter,
            Self::Gauge(_) => Kind::Gauge,
        }
    }
}

/// The name of a series: of whom, and what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    subject: Subject,
    what: String,
}

impl Name {
    /// Of these, each cut to its bound.
    #[must_use]
    pub fn new(subject: Subject, what: &str) -> Self {
        let subject = match subject {
            Subject::Whole => Subject::Whole,
            Subject::Interface(text) => Subject::Interface(cut(&text, TEXT_BYTES_MAX)),
            Subject::Rule { number, text } => Subject::Rule { number, text: cut(&text, TEXT_BYTES_MAX) },
        };
        Self { subject, what: cut(what, WHAT_BYTES_MAX) }
    }

    /// Of whom.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// What is counted, in a word or two.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }
}

/// As much of a text as fits into so many bytes.
pub fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}

/// A series, as the file names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    pub name: Name,
    pub kind: Kind,
}

// Checksum 8, born 8, kind 1, subject 1, number 2, lengths 2, then the texts.
const TEXT_AT: usize = 24;
const _: () = assert!(TEXT_AT + TEXT_BYTES_MAX + WHAT_BYTES_MAX <= NAME_BYTES, "a name fits");

/// A series with the second in which it got its column, for this place of the file.
pub fn encode(series: &Series, born: u64, place: u64) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    let (tag, number, text) = match &series.name.subject {
        Subject::Whole => (0, 0, ""),
        Subject::Interface(name) => (1, 0, name.as_str()),
        Subject::Rule { number, text } => (2, *number, text.as_str()),
    };
    let what = series.name.what.as_str();
    bytes[8..16].copy_from_slice(&born.to_le_bytes());
    (bytes[16], bytes[17]) = (series.kind as u8, tag);
    bytes[18..20].copy_from_slice(&number.to_le_bytes());
    (bytes[20], bytes[21]) = (text.len() as u8, what.len() as u8);
    bytes[TEXT_AT..][..text.len()].copy_from_slice(text.as_bytes());
    bytes[TEXT_AT + text.len()..][..what.len()].copy_from_slice(what.as_bytes());
    seal(&mut bytes, place);
    bytes
}

/// The series at this place of the file, and when it was born; none if nothing whole is there.
pub fn decode(bytes: &[u8], place: u64) -> Option<(Series, u64)> {
    if !is_whole(bytes, place) {
        return None;
    }
    let kind = match bytes[16] {
        1 => Kind::Counter,
        2 => Kind::Gauge,
        _ => return None,
    };
    let (text, what) = (usize::from(bytes[20]), usize::from(bytes[21]));
    if text > TEXT_BYTES_MAX || what > WHAT_BYTES_MAX {
        return None;
    }
    let read = |at: usize, bytes_long: usize| std::str::from_utf8(&bytes[at..at + bytes_long]).ok().map(str::to_owned);
    let (text, what) = (read(TEXT_AT, text)?, read(TEXT_AT + text, what)?);
    let subject = match bytes[17] {
        0 => Subject::Whole,
        1 => Subject::Interface(text),
        2 => Subject::Rule { number: u16::from_le_bytes([bytes[18], bytes[19]]), text },
        _ => return None,
    };
    Some((Series { name: Name { subject, what }, kind }, u64_of(bytes, 8)))
}
