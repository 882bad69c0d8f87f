//! A toy event queue: timers that are started again as they come, and descriptors that are polled. It ends by itself.

use crate::guard::Guard;
use corelane_lane::{Kit, TimerId, Work};
use corelane_seam::{Completion, Driver, Handle, Interest, Op, Outcome};
use corelane_sim::Random;
use std::cell::Cell;
use std::rc::Rc;

const TIMER: u8 = 3;
const POLL: u8 = 31;
/// Timers that run at once.
pub const TIMERS: usize = 12;
const DELAY_MAX: u64 = 4_000_000;

struct Timer {
    generation: u32,
    deadline: u64,
    id: TimerId,
}

pub struct Events {
    guard: Guard,
    random: Random,
    timers: Vec<Timer>,
    descriptor: i32,
    polls: u32,
    /// Events until the end.
    left: u64,
    seen: Rc<Cell<u64>>,
    is_over: bool,
    cancelled: bool,
}

impl Events {
    /// A queue that ends after so many events; `seen` counts them.
    pub fn new(guard: Guard, seed: u64, descriptor: i32, left: u64, seen: &Rc<Cell<u64>>) -> Self {
        let random = Random::new(seed);
        Self {
            guard,
            random,
            timers: Vec::new(),
            descriptor,
            polls: 0,
            left,
            seen: seen.clone(),
            is_over: false,
            cancelled: false,
        }
    }

    fn deadline(&mut self, kit: &Kit) -> u64 {
        // Many at the same time, so that there are more than a budget.
        kit.now() + 1_000_000 * self.random.below(DELAY_MAX / 1_000_000)
    }

    fn start(&mut self, kit: &mut Kit) {
        for index in 0..TIMERS {
            let deadline = self.deadline(kit);
            let id = kit.start_timer(deadline, Handle::new(TIMER, index as u32, 0));
            self.timers.push(Timer { generation: 0, deadline, id });
        }
        self.poll(kit);
    }

    fn restart(&mut self, kit: &mut Kit, index: usize) {
        let (deadline, generation) = (self.deadline(kit), Handle::next_generation(self.timers[index].generation));
        let id = kit.start_timer(deadline, Handle::new(TIMER, index as u32, generation));
        self.timers[index] = Timer { generation, deadline, id };
    }

    fn poll(&mut self, kit: &mut Kit) {
        let interest = Interest { read: true, write: false };
        kit.submit(Handle::new(POLL, 0, 0), Op::Poll { descriptor: self.descriptor, interest });
        self.polls += 1;
    }

    fn note(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.seen.set(self.seen.get() + 1);
    }

    /// Stops what is under way; the end comes with the last of it.
    fn wind_up(&mut self, kit: &mut Kit) {
        self.guard.rests(kit);
        self.timers.drain(..).for_each(|timer| kit.stop_timer(timer.id));
        if self.polls > 0 && !std::mem::replace(&mut self.cancelled, true) {
            kit.submit(Handle::new(POLL, 1, 0), Op::Cancel { target: Handle::new(POLL, 0, 0) });
        }
        self.is_over = true;
    }
}

impl Work for Events {
    fn name(&self) -> &'static str {
        "events"
    }

    fn complete(&mut self, kit: &mut Kit, completion: Completion) {
        self.guard.completed();
        assert_eq!((completion.handle.class(), completion.handle.index()), (POLL, 0));
        self.polls -= 1;
        match completion.outcome {
            Outcome::Ready { .. } => self.note(),
            Outcome::Failed(_) if self.is_over => {}
            outcome => panic!("a poll ends as {outcome:?}"),
        }
        if !self.is_over {
            self.poll(kit);
        }
    }

    fn serve(&mut self, kit: &mut Kit) {
        if !self.is_over {
            self.guard.serves(kit);
            if self.timers.is_empty() {
                self.start(kit);
            }
        }
    }

    fn expired(&mut self, kit: &mut Kit, handle: Handle) {
        self.guard.expired();
        let index = handle.index() as usize;
        assert_eq!(handle.class(), TIMER, "a timer of this work");
        // One that was stopped when it had come already.
        let Some(timer) = self.timers.get(index).filter(|timer| timer.generation == handle.generation()) else { return };
        assert!(timer.deadline <= kit.now(), "a timer comes too early");
        self.note();
        self.restart(kit, index);
        let other = self.random.below(TIMERS as u64) as usize;
        kit.stop_timer(self.timers[other].id);
        self.restart(kit, other);
    }

    fn flush(&mut self, kit: &mut Kit) {
        self.guard.flushes(kit);
        if self.left == 0 && !self.is_over {
            self.wind_up(kit);
        }
    }

    fn has_work(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        self.is_over && self.polls == 0
    }

    fn drain(&mut self, kit: &mut Kit, _driver: &mut dyn Driver) {
        if !self.is_over {
            self.wind_up(kit);
        }
    }
}
