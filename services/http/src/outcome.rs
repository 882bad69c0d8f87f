//! What came of a request, and what is sent behind the head of its answer.

use crate::facts::Framing;
use crate::log::Sent;
use corelane::Output;
use corelane::service::{Chain, ConnectionId, Segment};

/// What is sent behind a head, as it is.
#[derive(Debug, Default)]
#[doc(hidden)]
pub enum Behind {
    /// Nothing more.
    #[default]
    Nothing,
    /// One segment, for which no chain is made.
    One(Segment),
    /// A chain.
    All(Chain),
}

impl Behind {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(segment) => segment.len(),
            Self::All(chain) => chain.len(),
        }
    }

    /// Puts it behind what was written.
    #[inline]
    pub(crate) fn push_to(self, output: &mut Output) {
        match self {
            Self::Nothing => {}
            Self::One(segment) => output.push(segment),
            Self::All(mut chain) => {
                while let Some(segment) = chain.pop() {
                    output.push(segment);
                }
            }
        }
    }
}

/// A request is answered, or its answer's place is held.
#[derive(Debug)]
pub struct Answered(pub(crate) Done);

/// What an application has given in a call, though it may not say so.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given {
    /// An answer, or the promise of one.
    Whole(Done),
    /// The beginning of an answer.
    Begun,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Done {
    Written(Sent),
    /// There was no memory for the answer: the desk has it, until it is kept with its connection.
    Kept(Sent),
    Held,
}

impl Done {
    /// What was answered; none where that comes later.
    pub fn sent(&self) -> Option<Sent> {
        match self {
            Self::Written(sent) | Self::Kept(sent) => Some(*sent),
            Self::Held => None,
        }
    }
}

/// A client was told that the protocol changes.
#[derive(Debug)]
pub struct Switched(pub(crate) ConnectionId);

/// An answer has begun, whose content is still to come.
#[derive(Debug)]
pub struct Begun {
    pub(crate) framing: Framing,
    pub(crate) status: u16,
    /// There was no memory for its head: the desk has it, until it is kept with its exchange.
    pub(crate) is_kept: bool,
}
