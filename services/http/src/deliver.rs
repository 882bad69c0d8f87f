//! Where answers go, and what proves that they went.

use crate::desk::Desk;
use crate::facts::{Facts, Framing};
use crate::log::Sent;
use corelane::Output;
use corelane::service::{Chain, Refused, Segment};
use std::rc::Rc;

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

/// What became of a request.
#[derive(Debug)]
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

/// An answer has begun, whose content is still to come.
#[derive(Debug)]
pub struct Begun {
    pub(crate) framing: Framing,
    pub(crate) status: u16,
    /// There was no memory for its head: the desk has it, until it is kept with its exchange.
    pub(crate) is_kept: bool,
}

/// Into the connection's output, at once; where the lane has no memory for it, as soon as it has.
pub struct Now<'o> {
    pub(crate) output: &'o mut Output,
    pub(crate) desk: &'o Rc<Desk>,
    pub(crate) facts: Facts,
}

impl Deliver for Now<'_> {
    type Done = Answered;

    #[inline]
    fn deliver(self, bytes: &[u8], content: Behind, sent: Sent) -> Delivery<Answered> {
        let done = match self.output.write(bytes) {
            Ok(()) => {
                content.push_to(self.output);
                Done::Written(sent)
            }
            Err(refused @ Refused::TooLarge { .. }) => return Delivery { status: None, told: Err(refused) },
            Err(_) => self.desk.keep_answer(self.output, self.facts, (bytes, content, sent)),
        };
        let status = done.sent().map(|sent| sent.status);
        Delivery { status, told: Ok(Answered(done)) }
    }
}
