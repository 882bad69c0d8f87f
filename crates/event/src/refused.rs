//! Why a queue does not do what it was asked for.

use std::fmt;

/// Why a change or a wait was refused: the number that kqueue(2) gives in its place, and words with the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The error number (errno(3)); greater than 0.
    pub number: i32,
    /// Who is at fault, and the remedy.
    pub words: &'static str,
}

impl Refused {
    /// What stands for error `number`, in `words`.
    pub(crate) const fn new(number: i32, words: &'static str) -> Self {
        assert!(number > 0, "an error has a number");
        Self { number, words }
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
