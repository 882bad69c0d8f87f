//! Why a page could not be made or read, and who is at fault.

use crate::process_id::ProcessId;
use corelane_os::page::PageError;
use std::path::PathBuf;
use std::{fmt, io};

/// Why a page could not be made or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The environment or the file, as the memory's own error says.
    Memory(PageError),
    /// The environment: a run directory or a file in it cannot be read or removed.
    File {
        /// The directory or file.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The environment: /proc does not say who this process is.
    Process {
        /// What the kernel answered.
        source: io::Error,
    },
    /// The file: it does not begin as a page does, or is too short to be one.
    Magic {
        /// The first word of a page.
        expected: u64,
        /// The first word of the file.
        got: u64,
    },
    /// The file: its page is laid out in another way, by another version of Corelane.
    LayoutVersion {
        /// The version that this program reads.
        expected: u64,
        /// The version of the page.
        got: u64,
    },
    /// The file: its page has other counters, by another version of Corelane.
    Catalogue {
        /// The hash of this program's catalogue.
        expected: u64,
        /// The hash of the page's.
        got: u64,
        /// The name and version of the program that wrote it.
        program: String,
    },
    /// The file: it is shorter than its numbers of lanes and services say.
    Truncated {
        /// Words of such a page.
        expected: usize,
        /// Words of the file.
        got: usize,
    },
    /// The caller, or the file: a page of no lanes, or of too many lanes or services.
    Shape {
        /// `lanes`, `services`, `connections a lane`, or counters.
        what: &'static str,
        /// The most there may be.
        most: usize,
        /// How many there are.
        got: usize,
    },
    /// The caller: the page has no such row.
    Row {
        /// `lane` or `service`.
        what: &'static str,
        /// How many the page has.
        count: usize,
        /// Which was asked for, from 0.
        got: usize,
    },
    /// The caller: the two snapshots are not of one page, so their difference means nothing.
    OtherPage {
        /// The process of the later snapshot.
        expected: ProcessId,
        /// The process of the earlier one.
        got: ProcessId,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::File { path, source } => write!(f, "{}: {source}; see that it is yours", path.display()),
            Self::Process { source } => {
                write!(f, "/proc/self cannot be read: {source}; mount /proc, or keep the page on the heap")
            }
            Self::Magic { expected, got } => {
                write!(f, "no page: a page begins with {expected:#018x}, this file with {got:#018x}; remove it")
            }
            Self::LayoutVersion { expected, got } => write!(
                f,
                "the page has layout version {got}, this program reads version {expected}; use the `corelane` that belongs to the service"
            ),
            Self::Catalogue { expected, got, program } => write!(
                f,
                "the page of `{program}` has counters {got:#018x}, this program knows {expected:#018x}; use the `corelane` that \
                 belongs to the service"
            ),
            Self::Truncated { expected, got } => {
                write!(f, "the page should have {expected} words and has {got}; remove it, its process must write a new one")
            }
            Self::Shape { what, most, got } => {
                write!(
                    f,
                    "a page has room for {most} {what} and needs one lane, and this has {got}: take fewer, or at least one lane"
                )
            }
            Self::Row { what, count, got } => write!(f, "{what} {got} was asked for, and the page has {count}, counted from 0"),
            Self::OtherPage { expected, got } => write!(
                f,
                "the snapshots are of different pages (process {} and process {}); take both from one reader",
                expected.pid, got.pid
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Memory(error) => Some(error),
            Self::File { source, .. } | Self::Process { source } => Some(source),
            _ => None,
        }
    }
}

impl From<PageError> for Error {
    fn from(error: PageError) -> Self {
        Self::Memory(error)
    }
}
