//! How the tasks of a lane reach the service that spawned them: it is called once more before the turn is flushed.

use std::cell::Cell;
use std::rc::Rc;

/// Has [`StreamService::nudged`](crate::StreamService::nudged) called on this lane before the turn is flushed, from wherever on the lane: tasks, what
/// they drop, other calls. However often it is used, that is one call. Made by [`Cx::nudge`](crate::Cx::nudge); clones are the same.
#[derive(Clone, Debug)]
pub struct Nudge {
    own: Rc<Cell<bool>>,
    any: Rc<Cell<bool>>,
}

impl Nudge {
    /// The service has something to do.
    pub fn nudge(&self) {
        self.own.set(true);
        self.any.set(true);
    }
}

/// The services of a lane that can be nudged.
#[derive(Default)]
pub(crate) struct Nudges {
    any: Rc<Cell<bool>>,
    each: Vec<(u16, Rc<Cell<bool>>)>,
}

impl Nudges {
    /// What nudges this service.
    pub(crate) fn of(&mut self, service: u16) -> Nudge {
        let own = match self.each.iter().find(|(number, _)| *number == service) {
            Some((_, own)) => own.clone(),
            None => {
                let own = Rc::new(Cell::new(false));
                self.each.push((service, own.clone()));
                own
            }
        };
        Nudge { own, any: self.any.clone() }
    }

    /// Whether any was nudged.
    pub(crate) fn are_due(&self) -> bool {
        self.any.get()
    }

    /// Begins to call those that were nudged; returns how many could be. What is nudged from now on is for the next time.
    pub(crate) fn begin(&mut self) -> usize {
        self.any.set(false);
        self.each.len()
    }

    /// The service at a place, if it was nudged; it is called now.
    pub(crate) fn take(&mut self, place: usize) -> Option<u16> {
        let (service, own) = &self.each[place];
        own.replace(false).then_some(*service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_nudged_is_called_once() {
        let mut nudges = Nudges::default();
        let (one, same, other) = (nudges.of(3), nudges.of(3), nudges.of(5));
        assert!(!nudges.are_due());
        one.nudge();
        same.nudge();
        assert_eq!((nudges.are_due(), nudges.begin(), nudges.are_due()), (true, 2, false));
        assert_eq!([nudges.take(0), nudges.take(0), nudges.take(1)], [Some(3), None, None]);
        other.nudge();
        assert!(nudges.are_due(), "who is nudged meanwhile is called the next time");
        assert_eq!((nudges.begin(), nudges.take(0), nudges.take(1)), (2, None, Some(5)));
    }
}
