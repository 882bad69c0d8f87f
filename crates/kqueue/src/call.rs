//! What one call of kevent(2) does: all changes in order, then events.

use std::time::Duration;

use corelane_event::{Event, Queue};

use crate::record::{Kevent, number};

/// The caller's memory. The two lists may be one array: a change is read before anything is stored at its index or above.
pub(crate) trait Lists {
    /// How many changes there are.
    fn changes(&self) -> usize;
    /// The change at `index`, which is less than [`Lists::changes`].
    fn change(&self, index: usize) -> Kevent;
    /// How many events there is room for.
    fn room(&self) -> usize;
    /// Stores `event` at `index`, which is less than [`Lists::room`].
    fn store(&mut self, index: usize, event: Kevent);
}

/// How long a call may wait.
pub(crate) type Timeout = Result<Option<Duration>, i32>;

/// Applies the changes, then waits. How many records were stored, or an errno. `timeout` is looked at only where the call waits.
pub(crate) fn kevent(queue: &Queue, lists: &mut impl Lists, timeout: impl FnOnce() -> Timeout) -> Result<usize, i32> {
    let answers = change_all(queue, lists)?;
    // An answer is news already: a call that has one does not wait.
    if answers > 0 || lists.room() == 0 {
        return Ok(answers);
    }
    take(queue, lists, timeout()?)
}

/// How many answers were stored. An errno where one could not be: what stands behind that change is not applied.
fn change_all(queue: &Queue, lists: &mut impl Lists) -> Result<usize, i32> {
    let mut answers = 0;
    for index in 0..lists.changes() {
        let change = lists.change(index);
        let outcome = apply(queue, &change);
        if outcome != 0 || change.wants_receipt() {
            if answers < lists.room() {
                lists.store(answers, change.answer(outcome));
                answers += 1;
            } else if outcome != 0 {
                return Err(outcome);
            }
        }
        assert!(answers <= index + 1, "no change is overwritten before it is read");
    }
    Ok(answers)
}

/// The errno of `change`, 0 where it went well. As in FreeBSD, one without a filter asks for nothing.
fn apply(queue: &Queue, change: &Kevent) -> i32 {
    if change.filter == 0 {
        return 0;
    }
    let applied = change.change().and_then(|change| queue.change(&change).map_err(number));
    applied.err().unwrap_or(0)
}

fn take(queue: &Queue, lists: &mut impl Lists, timeout: Option<Duration>) -> Result<usize, i32> {
    let room = lists.room();
    let mut stored = 0;
    let store = |event: Event| {
        lists.store(stored, (&event).into());
        stored += 1;
    };
    queue.take_each(room, 1, timeout, store).map_err(number)
}
