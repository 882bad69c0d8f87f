//! What a server owes to a message that it does not carry out.

use super::Reply;
use crate::Error;

/// Why a message is not carried out, and what is owed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why; for logs and counters.
    pub error: Error,
    /// What to do.
    pub owed: Owed,
}

/// What a server does about a message that it does not carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    /// Send this.
    Answer(Reply<'static>),
    /// Nothing: go on with the next message.
    Drop,
    /// Close the connection. Over datagrams: nothing.
    Close,
}

/// A record that breaks a limit, or a stream that is none of records.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { error, owed: Owed::Close }
    }
}
