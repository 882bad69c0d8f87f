//! Why a queue does not do what it was asked for.

use corelane_os::events::number;
use std::fmt;

/// Why a change or a wait was refused: the number that kqueue(2) gives in its place, and words with the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The error number (errno(3)); greater than 0.
    pub number: i32,
    /// Who is at fault, and the remedy.
    pub words: &'static str,
}

/// What was registered has ended: its number means another file.
pub(crate) const REPLACED: Refused =
    Refused::new(number::ENOENT, "the descriptor was closed and opened again while it was registered");

impl Refused {
    /// What stands for error `number`, in `words`.
    pub(crate) const fn new(number: i32, words: &'static str) -> Self {
        assert!(number > 0, "an error has a number");
        Self { number, words }
    }

    /// What the system refused.
    pub(crate) fn system(number: i32) -> Self {
        let words = match number {
            number::EBADF => "no open descriptor has this number: the caller gives one that is open",
            number::EMFILE => "the process has too many descriptors: raise its limit (RLIMIT_NOFILE), or close some",
            number::ENOMEM => "the kernel has no memory for this: give the process, or its container, more",
            number::EINTR => "a signal's handler ran: call again",
            number::ESRCH => "there is no such process: it has ended and was waited for, or never was",
            number::ELOOP => "queues would watch each other in a circle, or too deep: watch one of them alone",
            _ => "the system refused this",
        };
        Self::new(number, words)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (error {})", self.words, self.number)
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for std::io::Error {
    fn from(refused: Refused) -> Self {
        Self::from_raw_os_error(refused.number)
    }
}
