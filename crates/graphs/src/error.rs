//! What can be wrong with a file of graphs.

use std::{fmt, io};

/// What is wrong, whose fault it is, and what helps.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file holds something else. Nothing was written to it.
    NotOurs,
    /// Another version of this program has made it. Nothing was written to it.
    Version {
        /// Which.
        found: u32,
        /// The one that this program knows.
        known: u32,
    },
    /// It is of this version, but of other lengths: it is damaged. Nothing was written to it.
    Shape,
    /// The system did not do what it was asked for.
    Disk(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOurs => write!(f, "it is no file of graphs: name another one, which is made where there is none"),
            Self::Version { found, known } => write!(
                f,
                "it is of version {found}, and this program knows version {known}: use the program that made it, or name another file"
            ),
            Self::Shape => write!(f, "its head is damaged: move it away, and a new one is made"),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Disk(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}
