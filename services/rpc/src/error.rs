//! Why a program has not answered a call.

use corelane_wire::rpc::Refusal;
use std::fmt;

/// Why a call is left without the program's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unanswered {
    /// It is refused: the caller is at fault, or the program could not carry it out. What is owed is sent.
    Refused(Refusal),
}

impl From<Refusal> for Unanswered {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "the call is refused: {}", refusal.error),
        }
    }
}

impl std::error::Error for Unanswered {}
