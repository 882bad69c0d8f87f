//! News for an operator: a line, how grave it is, and what it is of, each as a type. Nobody has to read the words to know.

use std::fmt::{self, Display};

/// How grave it is what a line tells: the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// A break: a panic, a lane that ended by one.
    Error,
    /// A thing that somebody should look at: what the program does without, and what it refused.
    Warn,
    /// An event that is in order.
    Info,
}

/// The code of what a line tells, such as `CL-0001`: the same from release to release, whatever becomes of the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(&'static str);

impl Code {
    /// The longest one, in bytes.
    pub const BYTES_MAX: usize = 16;

    /// A code that is written so.
    ///
    /// # Panics
    /// It is empty, or longer than [`Code::BYTES_MAX`].
    #[must_use]
    pub const fn new(code: &'static str) -> Self {
        assert!(!code.is_empty() && code.len() <= Self::BYTES_MAX, "a code is short");
        Self(code)
    }

    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// A line for the operator. Shown, it is the line as standard error has it: who speaks, `[CODE]`, the words.
///
/// ```
/// # mod corelane { pub mod admin { pub mod reports { pub use corelane_seam::{Code, Level, Record}; } } }
/// use corelane::admin::reports::{Code, Level, Record};
///
/// let record = Record::new(Level::Warn, "no table of its own").with_code(Code::new("CL-0015")).of_lane(3);
/// assert_eq!(record.to_string(), "lane 3: [CL-0015] no table of its own");
/// assert_eq!((record.level, record.lane, &record.text[..]), (Level::Warn, Some(3), "no table of its own"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// How grave it is.
    pub level: Level,
    /// The code of what it tells, if that has one.
    pub code: Option<Code>,
    /// The lane that it is of, if it is of one.
    pub lane: Option<usize>,
    /// The words. They may be of several lines, as those of a panic with its backtrace are.
    pub text: String,
    speaker: Speaker,
}

/// The subject at a line's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    /// Nobody, or whom the words themselves name.
    Words,
    /// The program.
    Program,
    /// The lane.
    Lane,
}

impl Record {
    /// These words alone.
    #[must_use]
    pub fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, code: None, lane: None, text: text.into(), speaker: Speaker::Words }
    }

    /// With this code.
    #[must_use]
    pub fn with_code(self, code: Code) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The program as a whole says it: the line begins with its name.
    #[must_use]
    pub fn of_program(self) -> Self {
        Self { speaker: Speaker::Program, ..self }
    }

    /// A lane says it: the line begins with its number.
    #[must_use]
    pub fn of_lane(self, lane: usize) -> Self {
        Self { lane: Some(lane), speaker: Speaker::Lane, ..self }
    }

    /// As [`Record::of_lane`], but the words name the lane themselves, with more of it than its number.
    #[must_use]
    pub fn naming_lane(self, lane: usize) -> Self {
        Self { lane: Some(lane), speaker: Speaker::Words, ..self }
    }

    /// The bytes of the line, without its end.
    #[must_use]
    pub fn line_bytes(&self) -> usize {
        let mut bytes = Bytes(0);
        // It refuses nothing.
        let _ = fmt::write(&mut bytes, format_args!("{self}"));
        assert!(bytes.0 >= self.text.len(), "the words are in the line");
        bytes.0
    }
}

impl Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.speaker, self.lane) {
            (Speaker::Program, _) => f.write_str("corelane: ")?,
            (Speaker::Lane, Some(lane)) => write!(f, "lane {lane}: ")?,
            _ => {}
        }
        match self.code {
            Some(code) => write!(f, "[{code}] {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// Counts what is written.
struct Bytes(usize);

impl fmt::Write for Bytes {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_with_who_speaks_and_its_code() {
        let record = || Record::new(Level::Warn, "é");
        let code = Code::new("CL-0001");
        for (record, line) in [
            (record(), "é"),
            (record().with_code(code), "[CL-0001] é"),
            (record().of_program(), "corelane: é"),
            (record().of_lane(12), "lane 12: é"),
            (record().of_lane(3).with_code(code), "lane 3: [CL-0001] é"),
            (record().naming_lane(3), "é"),
        ] {
            assert_eq!(record.to_string(), line);
            assert_eq!((record.line_bytes(), &record.text[..]), (line.len(), "é"), "{line}");
        }
        assert_eq!((record().of_lane(3).lane, record().naming_lane(4).lane, record().lane), (Some(3), Some(4), None));
    }

    #[test]
    fn the_gravest_level_comes_first() {
        assert!(Level::Error < Level::Warn && Level::Warn < Level::Info);
    }
}
