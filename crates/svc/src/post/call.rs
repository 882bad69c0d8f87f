//! The right and the duty to reply to one question, exactly once.

use crate::post::remote::AnswerDue;
use crate::words::talk::{Asking, Talk};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The one that asked.
pub(crate) enum Asker<T: Talk> {
    Lane(usize, Asking),
    Outside(AnswerDue<T::Answer>),
}

/// The answers that a service on one lane owes.
#[derive(Default)]
pub(crate) struct Duties {
    /// Calls that were given out and are still there.
    owed: Cell<usize>,
    /// Those that were dropped without a reply, until the lane looks. An asker from outside knows already.
    dropped: RefCell<Vec<Option<(usize, Asking)>>>,
}

impl Duties {
    pub(crate) fn owe_any(&self) -> bool {
        self.owed.get() > 0
    }

    pub(crate) fn has_dropped(&self) -> bool {
        !self.dropped.borrow().is_empty()
    }

    /// The next one that was dropped.
    pub(crate) fn take_dropped(&self) -> Option<Option<(usize, Asking)>> {
        self.dropped.borrow_mut().pop()
    }
}

/// The right and the duty to reply to a question ([`Cx::reply`](crate::Cx::reply)), on the lane that was asked. It may be kept for
/// later. If it is dropped instead, that is counted (`calls_dropped`), and the asker is told ([`Lost::Dropped`](crate::Lost::Dropped)).
#[must_use = "a call that is dropped leaves a question without its answer"]
pub struct Call<T: Talk> {
    /// None once it is replied to.
    asker: Option<Asker<T>>,
    duties: Rc<Duties>,
}

impl<T: Talk> Call<T> {
    pub(crate) fn new(asker: Asker<T>, duties: &Rc<Duties>) -> Self {
        duties.owed.set(duties.owed.get() + 1);
        Self { asker: Some(asker), duties: duties.clone() }
    }

    /// The one that asked; nothing is owed any more.
    pub(crate) fn settle(mut self) -> Asker<T> {
        // reason: only this takes it, and takes the call with it.
        self.asker.take().expect("a call is replied to once")
    }
}

impl<T: Talk> Drop for Call<T> {
    fn drop(&mut self) {
        let owed = self.duties.owed.get();
        assert!(owed > 0, "a call was owed until now");
        self.duties.owed.set(owed - 1);
        if let Some(asker) = &self.asker {
            self.duties.dropped.borrow_mut().push(match asker {
                Asker::Lane(lane, asking) => Some((*lane, *asking)),
                Asker::Outside(_) => None,
            });
        }
    }
}

impl<T: Talk> std::fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Call")
    }
}
