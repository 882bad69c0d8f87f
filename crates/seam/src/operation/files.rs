//! Files: what they are opened with, what is asked of them, and how it went.

use super::{Op, Outcome};
use crate::builders;
use crate::error::Fault;
use crate::handle::File;
use crate::lease::{Lease, Shared};
use std::path::PathBuf;

/// How a file is opened (open(2)); always close-on-exec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Allow reading.
    pub read: bool,
    /// Allow writing.
    pub write: bool,
    /// Create it (mode 0600) if it is not there.
    pub create: bool,
    /// Empty it first.
    pub truncate: bool,
}

impl OpenOptions {
    /// None of them.
    pub const fn new() -> Self {
        Self { read: false, write: false, create: false, truncate: false }
    }
}

builders!(OpenOptions { read: bool, write: bool, create: bool, truncate: bool });

/// What is asked of files.
#[derive(Debug)]
pub enum FileOp {
    /// Open a file: [`FileOutcome::Opened`]. What is no regular file is refused with [`Reason::NotAFile`](crate::Reason::NotAFile),
    /// and waited for in no case.
    Open {
        /// Its path.
        path: PathBuf,
        /// How.
        options: OpenOptions,
    },
    /// Read at `offset`, behind the data of the lease, until it holds `until` bytes at the most: [`FileOutcome::Filled`]; nothing more at the end of the file.
    Read {
        /// An open file.
        file: File,
        /// Where in the file, in bytes.
        offset: u64,
        /// Where the bytes go; comes back in any case.
        lease: Lease,
        /// Most bytes that the lease shall hold then.
        until: usize,
    },
    /// Write at `offset`: [`FileOutcome::Written`].
    Write {
        /// An open file.
        file: File,
        /// Where in the file, in bytes.
        offset: u64,
        /// The bytes.
        bytes: Shared,
    },
    /// Bring what was written to the disk (fsync(2)): [`FileOutcome::Done`].
    Sync {
        /// An open file.
        file: File,
    },
    /// Close a file: [`FileOutcome::Done`].
    Close {
        /// An open file.
        file: File,
    },
}

/// How it went with a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileOutcome {
    /// The file is open.
    Opened {
        /// The file.
        file: File,
        /// Bytes in it at the time.
        length: u64,
    },
    /// A read ended; the lease holds what there was.
    Filled {
        /// The lease, with its new length.
        lease: Lease,
        /// Why nothing was added, if it was not the end of the file.
        fault: Option<Fault>,
    },
    /// Bytes were written to the file.
    Written {
        /// How many; fewer than asked only at a limit of the system.
        bytes: usize,
    },
    /// Done, and nothing to say.
    Done,
}

impl From<FileOp> for Op {
    fn from(op: FileOp) -> Self {
        Self::File(op)
    }
}

impl From<FileOutcome> for Outcome {
    fn from(outcome: FileOutcome) -> Self {
        Self::File(outcome)
    }
}
