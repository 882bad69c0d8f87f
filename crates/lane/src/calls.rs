//! How long calls of services take, on a lane whose driver says which turns were too long.
//!
//! ```text
//! begin_call .. end_call (each call)  -> what each service has had of this turn
//! the driver: services overran        -> who had most of it, told to the work of that service
//! ```

use corelane_seam::{Clock, Code};

/// The code of docs/messages.md, where a test of the facade looks for it: of a turn that a service or tasks had for too long while packets waited.
pub const OVERRAN: Code = Code::new("CL-0043");

/// A service had most of a turn that took longer than its share at once while packets waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// The service's number.
    pub service: u16,
    /// For how long it had the lane, in all of its calls of that turn.
    pub nanoseconds: u64,
}

/// The clock, and who has had the turn for how long.
pub(crate) struct Calls {
    clock: Clock,
    /// Each that was called in this turn: as many as the lane has services, at the most.
    taken: Vec<Taken>,
    /// Nanoseconds that tasks had of it.
    tasks: u64,
    /// The place of the work whose service had most of the last turn, if that was too long.
    overrun: Option<(usize, Overrun)>,
}

struct Taken {
    work: usize,
    call: Overrun,
}

impl Calls {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, taken: Vec::new(), tasks: 0, overrun: None }
    }

    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// A call of a service of the work at that place has ended.
    pub(crate) fn end(&mut self, work: usize, service: u16, began: u64) {
        let nanoseconds = self.now().saturating_sub(began);
        match self.taken.iter_mut().find(|taken| taken.work == work && taken.call.service == service) {
            Some(taken) => taken.call.nanoseconds += nanoseconds,
            None => self.taken.push(Taken { work, call: Overrun { service, nanoseconds } }),
        }
    }

    /// Tasks have run.
    pub(crate) fn end_tasks(&mut self, began: u64) {
        self.tasks += self.now().saturating_sub(began);
    }

    /// A turn has ended that was too long, and took this, or one that was not. Returns for how long tasks had it, if that was most of it.
    ///
    /// Where nobody had most of it, nobody is named: then other programs had the CPU, or the lane itself.
    pub(crate) fn end_turn(&mut self, overran: Option<u64>) -> Option<u64> {
        let is_most = |nanoseconds: u64| overran.is_some_and(|all| nanoseconds >= all / 2);
        let tasks = std::mem::take(&mut self.tasks);
        let most = self.taken.drain(..).max_by_key(|taken| taken.call.nanoseconds);
        if let Some(Taken { work, call }) = most.filter(|most| most.call.nanoseconds >= tasks && is_most(most.call.nanoseconds)) {
            self.overrun = Some((work, call));
            return None;
        }
        Some(tasks).filter(|&tasks| is_most(tasks))
    }

    /// The overrun that the work at that place is to tell.
    pub(crate) fn take_overrun(&mut self, work: usize) -> Option<Overrun> {
        self.overrun.take_if(|(of, _)| *of == work).map(|(_, overrun)| overrun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    struct Turns(Rc<Cell<u64>>, Calls);

    impl Turns {
        fn new() -> Self {
            let now = Rc::new(Cell::new(5));
            let shown = now.clone();
            Self(now, Calls::new(Rc::new(move || shown.get())))
        }

        fn call(&mut self, work: usize, service: u16, nanoseconds: u64) {
            let began = self.1.now();
            self.0.set(began + nanoseconds);
            self.1.end(work, service, began);
        }

        fn tasks(&mut self, nanoseconds: u64) {
            let began = self.1.now();
            self.0.set(began + nanoseconds);
            self.1.end_tasks(began);
        }
    }

    #[test]
    fn who_had_most_of_a_turn_is_told_to_its_work_once() {
        let mut turns = Turns::new();
        // Service 3 of work 1 in two calls, and one of the same number of another work.
        for (work, service, nanoseconds) in [(1, 3, 400), (1, 2, 500), (1, 3, 300), (0, 3, 100)] {
            turns.call(work, service, nanoseconds);
        }
        assert_eq!(turns.1.end_turn(Some(1_400)), None);
        assert_eq!(turns.1.take_overrun(0), None);
        assert_eq!(turns.1.take_overrun(1), Some(Overrun { service: 3, nanoseconds: 700 }));
        assert_eq!(turns.1.take_overrun(1), None);
    }

    #[test]
    fn nobody_is_named_of_a_turn_that_was_not_too_long_or_was_somebody_elses() {
        let mut turns = Turns::new();
        turns.call(0, 1, 9_000);
        assert_eq!((turns.1.end_turn(None), turns.1.take_overrun(0)), (None, None));
        turns.call(0, 1, 400);
        turns.tasks(300);
        assert_eq!(
            (turns.1.end_turn(Some(9_000)), turns.1.take_overrun(0)),
            (None, None),
            "9,000 of the turn before do not count"
        );
    }

    #[test]
    fn tasks_are_named_where_they_had_most() {
        let mut turns = Turns::new();
        turns.call(0, 1, 400);
        turns.tasks(500);
        assert_eq!((turns.1.end_turn(Some(1_000)), turns.1.take_overrun(0)), (Some(500), None));
        turns.tasks(100);
        turns.call(0, 1, 800);
        assert_eq!((turns.1.end_turn(Some(1_000)), turns.1.take_overrun(0).is_some()), (None, true));
    }
}
