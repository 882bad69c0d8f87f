//! What operations of files go by.

use super::place::Where;

/// The tokens of one who serves files, which nobody beside it on the lane uses.
pub(super) struct Tokens {
    /// That of the root; behind it that of the pages of errors, and all others.
    first: u64,
    last: u64,
}

impl Tokens {
    pub fn starting_at(first: u64) -> Self {
        Self { first, last: first + 1 }
    }

    /// What opening a root goes by.
    pub fn of_root(&self, at: Where) -> u64 {
        self.first + u64::from(at == Where::Errors)
    }

    /// One that was never used.
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}
