//! Files: what they are opened with, what is asked of them, and how it went.

use super::{Op, Outcome};
use crate::builders;
use crate::error::Fault;
use crate::handle::File;
use crate::lease::{Lease, Shared};
use std::cmp::Ordering;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

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
    /// It shall be a directory, for files to be opened beneath it. Goes with `read` alone.
    pub directory: bool,
    /// Follow no symbolic link, wherever in the path it stands: [`Reason::Outside`](crate::Reason::Outside).
    pub no_links: bool,
}

impl OpenOptions {
    /// None of them.
    pub const fn new() -> Self {
        Self { read: false, write: false, create: false, truncate: false, directory: false, no_links: false }
    }

    /// Whether a file can be opened so: with `read` or `write`, with `write` to make or empty it, a directory with `read` alone.
    pub const fn are_possible(&self) -> bool {
        let changes = self.create || self.truncate;
        match (self.read, self.write) {
            (_, true) => !self.directory,
            (true, false) => !changes,
            (false, false) => false,
        }
    }
}

builders!(OpenOptions { read: bool, write: bool, create: bool, truncate: bool, directory: bool, no_links: bool });

/// Most bytes of one [`FileOp::Warm`]: 4 MiB.
pub const WARM_BYTES_MAX: u64 = 4 << 20;

/// An operation on a file.
#[derive(Debug)]
pub enum FileOp {
    /// Open a file: [`FileOutcome::Opened`]. A thing that is no regular file, or no directory where one is asked for, is refused with
    /// [`Reason::NotAFile`](crate::Reason::NotAFile) or [`Reason::NotFound`](crate::Reason::NotFound), and waited for in no case.
    Open {
        /// A directory that the path starts from and never leaves: neither by `..`, nor as an absolute path, nor through a link
        /// (openat2(2), `RESOLVE_BENEATH`, `RESOLVE_NO_MAGICLINKS`); else [`Reason::Outside`](crate::Reason::Outside).
        /// [`Reason::Busy`](crate::Reason::Busy) if something was renamed meanwhile, so that it cannot be told: ask again.
        beneath: Option<File>,
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
    /// Bring bytes of a file where a send of them does not wait for the disk (the page cache): [`FileOutcome::Warm`]. It ends at once if they are there; else somebody else
    /// than the lane waits for the disk. Of a file that [is far](FileFacts::is_far) nothing is brought, for nothing of it stays: what it is by now is told.
    Warm {
        /// An open file.
        file: File,
        /// Where in the file, in bytes.
        offset: u64,
        /// How many bytes, at most [`WARM_BYTES_MAX`].
        length: u64,
    },
    /// List a directory: [`FileOutcome::Listed`].
    List {
        /// An open directory.
        directory: File,
        /// Most names to be told: the first in the order of [`FileName`].
        most: usize,
    },
    /// Watch a directory: [`FileOutcome::Watched`] once all that happens in it from then on will be told, with more to come, and [`FileOutcome::Changed`] as the end, when
    /// something has happened: a name in it came, went, or means another file; a file in it was written to by this system (but not through mapped memory), or has other
    /// rights; the directory itself was moved, removed, or has other rights. Another watch tells of more: so what changes all the time is told of once. All that lies
    /// in directories beneath it is not told of. Closing the directory does not end it; [`Op::Cancel`] does.
    ///
    /// It fails with [`Reason::Busy`](crate::Reason::Busy) where the lane watches [`Tuning::watches_max`](crate::Tuning::watches_max) or the system allows no more (ENOSPC:
    /// `fs.inotify.max_user_watches`), with [`Reason::NoDescriptor`](crate::Reason::NoDescriptor) (EMFILE: `fs.inotify.max_user_instances`), and with
    /// [`Reason::Unsupported`](crate::Reason::Unsupported) on a file system that others change as well (a network's), which tells of nothing that they do.
    Watch {
        /// An open directory.
        directory: File,
    },
    /// Close a file: [`FileOutcome::Done`].
    Close {
        /// An open file.
        file: File,
    },
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// Bytes at offsets.
    Regular,
    /// Names of files.
    Directory,
}

/// The facts of a file when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileFacts {
    /// Its kind.
    pub kind: FileKind,
    /// Bytes in it; 0 for a directory.
    pub length: u64,
    /// When its content last changed, as its owner says, who may set it: time since 1970 began, UTC; zero if it was earlier. In a simulation, what the clock showed.
    pub modified: Duration,
    /// Nanoseconds of [`FileFacts::changed`]: as a duration it would make each completion larger.
    changed: u64,
    /// Its number (inode(7)): no two that exist at once in one file system have the same. 0 unless it was told.
    pub number: u64,
    /// The number of its file system (`st_dev` of stat(2)). 0 unless it was told.
    pub device: u64,
    /// How many names it has there (`st_nlink`): through any of them it may change. 1 unless it was told.
    pub names: u32,
    /// Whether any call on it may wait for others than this system and its disks: for a program (FUSE) or another machine (NFS). False unless it was told.
    pub is_far: bool,
}

/// A name in a directory. Names stand in the order of their bytes, those that begin with a dot behind all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// The name, without its directory.
    pub name: OsString,
    /// The kind of what it names; none for anything else, a link among them.
    pub kind: Option<FileKind>,
}

impl Ord for FileName {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |of: &Self| (of.name.as_encoded_bytes().starts_with(b"."), of.kind);
        let ((is_hidden, kind), (other_hidden, other_kind)) = (key(self), key(other));
        is_hidden.cmp(&other_hidden).then_with(|| self.name.cmp(&other.name)).then(kind.cmp(&other_kind))
    }
}

impl PartialOrd for FileName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FileFacts {
    /// Those of a regular file.
    pub const fn of_file(length: u64, modified: Duration) -> Self {
        Self {
            kind: FileKind::Regular,
            length,
            modified,
            changed: nanoseconds_of(modified),
            number: 0,
            device: 0,
            names: 1,
            is_far: false,
        }
    }

    /// When its content, its names, its rights or [`modified`](Self::modified) last changed, as the system says (`ctime` of inode(7)): time since 1970 began, UTC; zero if it
    /// was earlier. As `modified` unless it was told.
    pub const fn changed(&self) -> Duration {
        Duration::from_nanos(self.changed)
    }

    /// Those of a directory.
    pub const fn of_directory(modified: Duration) -> Self {
        Self { kind: FileKind::Directory, ..Self::of_file(0, modified) }
    }

    /// The same, with its number and that of its file system.
    pub const fn numbered(self, device: u64, number: u64) -> Self {
        Self { device, number, ..self }
    }

    /// The same, with the system's time of change.
    pub const fn changed_at(self, changed: Duration) -> Self {
        Self { changed: nanoseconds_of(changed), ..self }
    }

    /// The same, with how many names it has.
    pub const fn named(self, names: u32) -> Self {
        Self { names, ..self }
    }

    /// The same, on a file system that others serve or not.
    pub const fn far(self, is_far: bool) -> Self {
        Self { is_far, ..self }
    }

    /// Whether these are of the same file or directory, in whatever state.
    pub fn are_of(&self, other: &Self) -> bool {
        (self.kind, self.device, self.number) == (other.kind, other.device, other.number)
    }
}

/// A file system may say any time: those after the year 2554 are the same here.
const fn nanoseconds_of(time: Duration) -> u64 {
    let nanoseconds = time.as_nanos();
    if nanoseconds > u64::MAX as u128 { u64::MAX } else { nanoseconds as u64 }
}

/// How it went with a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileOutcome {
    /// The file is open.
    Opened {
        /// The file.
        file: File,
        /// The facts of the file at the time.
        facts: FileFacts,
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
    /// Bytes of a file lie where a send of them does not wait.
    Warm {
        /// How many, from the offset on; fewer than asked if the file ends there.
        bytes: u64,
        /// Whether the disk was waited for. False for a file that [is far](FileFacts::is_far): of that nothing is read before it is sent.
        was_cold: bool,
        /// Bytes that the file had by then.
        length: u64,
        /// When its content had last changed by then, as [`FileFacts::modified`] says.
        modified: Duration,
    },
    /// The names in a directory, in the order of [`FileName`], without itself and the one above it.
    Listed {
        /// The names.
        names: Vec<FileName>,
        /// Whether these are all.
        is_whole: bool,
    },
    /// From now on it will be told what happens in the directory. More follows.
    Watched,
    /// Something has happened in a directory that was watched, or may have: it is watched no more.
    Changed,
    /// Done, and nothing to say.
    Done,
}

impl FileOp {
    /// [`Op::check`] of this kind.
    #[inline]
    pub(super) fn check(&self) {
        match self {
            Self::Read { lease, until, .. } => {
                assert!(*until > lease.len() && *until <= lease.capacity(), "a read needs room, within the lease");
            }
            Self::Warm { length, .. } => {
                assert!(*length <= WARM_BYTES_MAX, "a helper works for one asker that long and no longer");
            }
            _ => {}
        }
    }
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
