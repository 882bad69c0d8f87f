//! Where answers go, and what proves that they went.

use crate::desk::Desk;
use crate::log::Sent;
use crate::outcome::{Answered, Behind, Done, Given};
use corelane::Output;
use corelane::service::Refused;
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

/// Into the connection's output, at once; where the lane has no memory for it, as soon as it has.
pub struct Now<'o> {
    pub(crate) output: &'o mut Output,
    pub(crate) desk: &'o Rc<Desk>,
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
            Err(_) => self.desk.keep_answer(self.output, (bytes, content, sent)),
        };
        self.desk.give(Given::Whole(done));
        let status = done.sent().map(|sent| sent.status);
        Delivery { status, told: Ok(Answered(done)) }
    }
}
