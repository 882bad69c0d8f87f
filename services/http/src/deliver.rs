//! Where answers go, and what proves that they went.

use crate::facts::Framing;
use crate::log::Sent;
use corelane::Output;
use corelane::service::{Chain, Refused, Segment};

/// Where an answer goes: now into the connection ([`Now`](crate::Now)), or later into the place that was held for it ([`Later`](crate::Later)).
pub trait Deliver: Sized {
    /// What having answered is proved by.
    type Done;

    /// Writes a head with what is sent right behind it, and then `content`, which is `sent` in all: all, or nothing.
    #[doc(hidden)]
    fn deliver(self, bytes: &[u8], content: Behind, sent: Sent) -> Delivery<Self::Done>;
}

/// What came of delivering an answer.
#[derive(Debug)]
#[doc(hidden)]
pub struct Delivery<D> {
    /// The status that the client was sent, which need not be that of the answer; none if it was sent nothing.
    pub status: Option<u16>,
    /// What the answer's author is told.
    pub told: Result<D, Refused>,
}

/// What is sent behind a head, as it is.
#[derive(Debug)]
#[doc(hidden)]
pub enum Behind {
    /// Nothing more.
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
}

/// An answer was written, or its place is held.
#[derive(Debug)]
pub struct Answered(pub(crate) Done);

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Done {
    Written(Sent),
    Held,
}

/// The head of an answer was written, whose content is still to come.
#[derive(Debug)]
pub struct Begun {
    pub(crate) framing: Framing,
    pub(crate) status: u16,
}

/// Into the connection's output, at once.
pub struct Now<'o>(pub(crate) &'o mut Output);

impl Deliver for Now<'_> {
    type Done = Answered;

    #[inline]
    fn deliver(self, bytes: &[u8], content: Behind, sent: Sent) -> Delivery<Answered> {
        if let Err(refused) = self.0.write(bytes) {
            return Delivery { status: None, told: Err(refused) };
        }
        match content {
            Behind::Nothing => {}
            Behind::One(segment) => self.0.push(segment),
            Behind::All(mut chain) => {
                while let Some(segment) = chain.pop() {
                    self.0.push(segment);
                }
            }
        }
        Delivery { status: Some(sent.status), told: Ok(Answered(Done::Written(sent))) }
    }
}
