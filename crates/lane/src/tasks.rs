//! The tasks of one lane: a bounded slab of futures, polled when their wakers say so.
//!
//! A future stays on its lane, and its memory too. Wakers on other threads reach the task's cell, which outlives it with them.

mod cell;
mod spawner;

use crate::channel::Full;
use crate::fence::fenced;
use crate::sync::Arc;
use cell::{TaskCell, Woken};
use corelane_seam::slab::{Key, Slab};
use corelane_seam::{Arena, Bell, Payer};
use spawner::{Boxed, Nursery, Unborn};
use std::collections::VecDeque;
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

pub use spawner::Spawner;

/// Names one task of one [`Tasks`], also after it has ended: a stale name is recognised, until the same entry has been
/// used 2^32 times over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId(Key);

struct Task {
    future: Boxed,
    cell: Arc<TaskCell>,
    /// What it is polled with when it is called; one more count of the cell.
    waker: Waker,
    /// Among whose tasks it is counted, and those that it spawns.
    payer: Payer,
    /// It is in the list of those that were called.
    is_called: bool,
}

/// The executor of one lane: it polls the tasks that were woken, each at most once a run.
///
/// A task takes its future's memory, 64 bytes in the slab and a cell of about 48 bytes, all taken when it is spawned.
///
/// A task is woken by its waker, from any thread; or called by its own lane ([`Tasks::call`]), which costs no atomic operation.
/// Dropping `Tasks` drops all futures; wakers that are left do nothing any more.
pub struct Tasks {
    tasks: Slab<Task>,
    limit: usize,
    woken: Woken,
    /// Those that their own lane has called.
    called: VecDeque<u32>,
    nursery: Rc<Nursery>,
    panics: u64,
}

impl Tasks {
    /// Makes room for `limit` tasks at once (at most 2^32 - 1). `bell` wakes the lane when a task is woken from another
    /// thread while the lane sleeps.
    pub fn new(limit: usize, bell: std::sync::Arc<dyn Bell>) -> Self {
        Self::counted(limit, bell, None)
    }

    /// The same; whoever pays for memory in `accounts` has its share of the tasks, too ([`Arena::take_task`]).
    pub fn shared(limit: usize, bell: std::sync::Arc<dyn Bell>, accounts: Arena) -> Self {
        accounts.set_tasks_max(u32::try_from(limit).unwrap_or(u32::MAX));
        Self::counted(limit, bell, Some(accounts))
    }

    fn counted(limit: usize, bell: std::sync::Arc<dyn Bell>, accounts: Option<Arena>) -> Self {
        let limit = limit.min(Slab::<Task>::ENTRIES_MAX);
        let nursery = Rc::new(Nursery::new(limit, accounts));
        Self { tasks: Slab::new(), limit, woken: Woken::new(bell), called: VecDeque::new(), nursery, panics: 0 }
    }

    /// What the tasks may ask of their lane.
    pub fn spawner(&self) -> Spawner {
        Spawner::new(&self.nursery)
    }

    /// Tells the tasks the time, in nanoseconds of the lane's clock.
    pub(crate) fn tell_time(&self, now: u64) {
        self.nursery.tell_time(now);
    }

    /// The number of tasks that have not ended.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// How many wakes came for tasks that had ended, since the beginning.
    pub fn stale_wakes(&self) -> u64 {
        self.woken.stale()
    }

    /// How many tasks ended by a panic, in their poll or as they were dropped, since the beginning.
    pub fn panics(&self) -> u64 {
        self.panics
    }

    /// How many futures were refused at the bound of tasks, since the beginning.
    pub fn refused(&self) -> u64 {
        self.nursery.refused()
    }

    /// Takes a future on as a task, which counts as woken, and for which the lane pays.
    ///
    /// # Errors
    /// [`Full`] gives the future back when as many tasks as [`Tasks::new`] allows have not ended.
    pub fn spawn<F: Future<Output = ()> + 'static>(&mut self, future: F) -> Result<TaskId, Full<F>> {
        self.spawn_for(Payer::LANE, future)
    }

    /// The same; it is counted among the tasks of `payer`.
    ///
    /// # Errors
    /// As [`Tasks::spawn`], and when the peer of `payer` has its share of the tasks.
    pub fn spawn_for<F: Future<Output = ()> + 'static>(&mut self, payer: Payer, future: F) -> Result<TaskId, Full<F>> {
        if !self.nursery.take_room(payer) {
            return Err(Full { value: future, limit: self.limit });
        }
        Ok(self.admit(Unborn { future: Box::pin(future), payer }))
    }

    fn admit(&mut self, unborn: Unborn) -> TaskId {
        assert!(self.tasks.len() < self.limit, "no more tasks live than are allowed");
        let Unborn { future, payer } = unborn;
        let key = self.tasks.insert_with(|key| {
            let cell = self.woken.new_cell(key.index);
            Task { future, waker: cell::waker(cell.clone()), payer, cell, is_called: false }
        });
        self.note_room();
        TaskId(key)
    }

    /// Takes on what tasks have spawned.
    fn admit_spawned(&mut self) {
        while let Some(unborn) = self.nursery.take() {
            self.admit(unborn);
        }
    }

    fn note_room(&self) {
        self.nursery.set_room(self.limit - self.tasks.len());
    }

    /// Has a task polled in the next run, as its waker does; for a task of this lane without an atomic operation. What is called is polled before
    /// what was woken. The waker of anybody else is woken.
    pub fn call(&mut self, waker: &Waker) {
        let Some(cell) = self.woken.cell_behind(waker) else { return waker.wake_by_ref() };
        let index = cell.index();
        let Some(task) = self.tasks.find(index).filter(|task| ptr::eq(Arc::as_ptr(&task.cell), cell)) else {
            return cell.count_stale();
        };
        if !std::mem::replace(&mut task.is_called, true) {
            self.called.push_back(index);
        }
    }

    /// Polls at most `at_most` of the tasks that were called or woken before this call, in the order of their wakes, and of those that they
    /// spawn; returns how many it polled; wakes of ended tasks count towards the bound, too. A task that is woken meanwhile, by itself
    /// or another, waits for the next call: that is how it yields.
    ///
    /// A task that panics is dropped and reported to `on_panic`; so is one that panics as it is dropped.
    pub fn run(&mut self, at_most: usize, on_panic: &mut dyn FnMut(TaskId)) -> usize {
        self.admit_spawned();
        self.woken.gather();
        let mut polled = 0;
        for _ in 0..at_most {
            polled += usize::from(match self.called.pop_front() {
                Some(index) => self.poll_called(index, on_panic),
                // All that were woken have had their turn.
                None if !self.woken.has_gathered() => break,
                None => self.poll_woken(on_panic),
            });
            self.admit_spawned();
        }
        polled
    }

    /// Drops a task; false when it has ended already. A panic of the future's drop is counted in [`Tasks::panics`].
    pub fn cancel(&mut self, id: TaskId) -> bool {
        // It has ended by itself.
        let Some(task) = self.tasks.remove(id.0) else { return false };
        self.panics += u64::from(!self.bury(task));
        true
    }

    /// Drops all tasks; returns how many panicked as they were dropped.
    pub fn end(&mut self) -> u64 {
        self.nursery.close();
        let nursery = &self.nursery;
        let ended = self.tasks.drain().filter_map(|(_, task)| (!task.end(nursery)).then_some(()));
        let panicked = ended.count() as u64;
        assert!(self.tasks.is_empty(), "no task is left, and none came as others were dropped");
        self.called.clear();
        let unborn = std::iter::from_fn(|| self.nursery.take());
        let burst = unborn.filter_map(|Unborn { future, payer }| {
            self.nursery.give_room_back(payer);
            fenced(|| drop(future)).err()
        });
        let burst = burst.count() as u64;
        self.panics += panicked + burst;
        panicked + burst
    }

    /// Whether a call of [`Tasks::run`] would find something to do.
    pub fn has_woken(&self) -> bool {
        !self.called.is_empty() || self.woken.has_cells() || !self.nursery.is_empty()
    }

    /// Announces that the lane is about to sleep. True: no task is woken, and the bell will ring when one is; the lane
    /// may sleep, and calls [`Tasks::awake`] afterwards. False: there is something to run, and nothing was announced.
    #[inline]
    pub fn before_sleep(&mut self) -> bool {
        // Where no task is, none can be woken.
        if self.is_empty() && !self.has_woken() {
            return true;
        }
        self.announce_sleep()
    }

    fn announce_sleep(&mut self) -> bool {
        self.called.is_empty() && self.nursery.is_empty() && self.woken.announce_sleep()
    }

    /// The lane does not sleep any more: no bell until it announces the next sleep.
    pub fn awake(&mut self) {
        self.woken.end_sleep();
    }

    /// Polls the task of the oldest wake; false when it has ended.
    fn poll_woken(&mut self, on_panic: &mut dyn FnMut(TaskId)) -> bool {
        // reason: the caller has looked.
        let cell = self.woken.pop().expect("somebody was woken");
        let index = cell.index();
        let Some(task) = self.tasks.find(index).filter(|task| Arc::ptr_eq(&task.cell, &cell)) else {
            cell.count_stale();
            return false;
        };
        let outcome = task.poll(&self.nursery);
        self.polled(index, outcome, on_panic);
        true
    }

    /// Polls a task that was called; false when it has ended.
    fn poll_called(&mut self, index: u32, on_panic: &mut dyn FnMut(TaskId)) -> bool {
        // It may have ended, and another that was not called have its place.
        let Some(task) = self.tasks.find(index).filter(|task| task.is_called) else { return false };
        task.is_called = false;
        let outcome = task.poll(&self.nursery);
        self.polled(index, outcome, on_panic);
        true
    }

    fn polled(&mut self, index: u32, outcome: Result<Poll<()>, String>, on_panic: &mut dyn FnMut(TaskId)) {
        if matches!(outcome, Ok(Poll::Pending)) {
            return;
        }
        let id = TaskId(self.tasks.key_at(index));
        let task = self.tasks.remove_at(index);
        let dropped = self.bury(task);
        if outcome.is_err() || !dropped {
            self.panics += 1;
            on_panic(id);
        }
    }
}

impl Tasks {
    /// Ends a task that was taken from the others; false when that panicked.
    fn bury(&self, task: Task) -> bool {
        self.note_room();
        task.end(&self.nursery)
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.end();
    }
}

impl Task {
    /// Polls the future, fenced.
    fn poll(&mut self, nursery: &Nursery) -> Result<Poll<()>, String> {
        let Self { future, waker, payer, .. } = self;
        nursery.pay_as(*payer);
        let outcome = fenced(|| future.as_mut().poll(&mut Context::from_waker(waker)));
        nursery.pay_as(Payer::LANE);
        outcome
    }

    /// Drops the future; false when that panicked. Wakes are stale from here on, those by the drop itself included.
    fn end(self, nursery: &Nursery) -> bool {
        self.cell.end();
        // What the drop spawns is its own still.
        nursery.pay_as(self.payer);
        let dropped = fenced(|| drop(self.future)).is_ok();
        nursery.pay_as(Payer::LANE);
        nursery.give_room_back(self.payer);
        dropped
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::sync::atomic::AtomicBool;
    use crate::sync::model::ModelBell;
    use crate::sync::{Arc, Ordering};
    use loom::thread;
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Waker;

    fn executor(limit: usize) -> (Tasks, std::sync::Arc<ModelBell>) {
        let bell = std::sync::Arc::new(ModelBell::default());
        (Tasks::new(limit, bell.clone()), bell)
    }

    fn run(tasks: &mut Tasks) -> usize {
        tasks.run(4, &mut |id| panic!("{id:?} panicked"))
    }

    /// Runs as a lane does, sleeping whenever it may, until all tasks have ended.
    fn run_to_end(tasks: &mut Tasks, bell: &ModelBell) {
        loop {
            run(tasks);
            if tasks.is_empty() {
                return;
            }
            if tasks.before_sleep() {
                bell.wait();
                tasks.awake();
            }
        }
    }

    /// Spawns a task that ends when `ready` says so, polls it once, and returns its waker.
    fn spawn(tasks: &mut Tasks, ready: impl Fn() -> bool + 'static) -> (TaskId, Waker) {
        let waker = Rc::new(RefCell::new(None));
        let out = waker.clone();
        let future = poll_fn(move |cx| {
            out.borrow_mut().get_or_insert_with(|| cx.waker().clone());
            if ready() { Poll::Ready(()) } else { Poll::Pending }
        });
        let id = tasks.spawn(future).unwrap();
        run(tasks);
        let waker = waker.borrow_mut().take().unwrap();
        (id, waker)
    }

    /// The flags are relaxed: only the wake itself carries them to the poll, also the wake that finds the task queued.
    /// Three threads have more interleavings than can all be tried, hence the bound on involuntary switches.
    #[test]
    fn loom_no_wake_of_two_threads_is_lost_and_each_shows_what_came_before_it() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let (mut tasks, bell) = executor(1);
            let flags = [Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false))];
            let seen = flags.clone();
            let (_, waker) = spawn(&mut tasks, move || seen.iter().all(|flag| flag.load(Ordering::Relaxed)));
            let threads = flags.map(|flag| {
                let waker = waker.clone();
                thread::spawn(move || {
                    flag.store(true, Ordering::Relaxed);
                    waker.wake();
                })
            });
            drop(waker);
            run_to_end(&mut tasks, &bell);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn loom_a_wake_may_race_with_the_end_of_its_task() {
        loom::model(|| {
            let (mut tasks, bell) = executor(1);
            let polls = Cell::new(0);
            let (_, waker) = spawn(&mut tasks, move || polls.replace(polls.get() + 1) == 1);
            let other = waker.clone();
            let waking = thread::spawn(move || other.wake());
            waker.wake();
            run_to_end(&mut tasks, &bell);
            waking.join().unwrap();
            assert_eq!(run(&mut tasks), 0);
            assert!(tasks.stale_wakes() <= 1 && tasks.before_sleep());
        });
    }

    /// The entry's next task must not hear the wakes of the one before.
    #[test]
    fn loom_a_wake_may_race_with_cancelling_and_the_slot_serves_again() {
        loom::model(|| {
            let (mut tasks, _) = executor(1);
            let (old, waker) = spawn(&mut tasks, || false);
            let waking = thread::spawn(move || {
                waker.wake_by_ref();
                waker.wake();
            });
            assert!(tasks.cancel(old));
            let (new, _) = spawn(&mut tasks, || false);
            waking.join().unwrap();
            assert_eq!(run(&mut tasks), 0);
            assert!((1..=2).contains(&tasks.stale_wakes()), "one at least came after the end, or was queued at it");
            assert!(!tasks.cancel(old) && tasks.cancel(new));
        });
    }

    /// loom reports the cell, or the inbox, if it is not freed.
    #[test]
    fn loom_wakes_may_race_with_the_end_of_the_lane() {
        loom::model(|| {
            let (mut tasks, _) = executor(2);
            let wakers = [spawn(&mut tasks, || false).1, spawn(&mut tasks, || false).1];
            let [one, two] = wakers;
            let waking = thread::spawn(move || {
                let copy = one.clone();
                drop(one);
                copy.wake();
                two.wake();
            });
            drop(tasks);
            waking.join().unwrap();
        });
    }

    #[test]
    fn loom_a_wake_during_a_poll_is_a_poll_afterwards() {
        loom::model(|| {
            let (mut tasks, bell) = executor(1);
            let flag = Arc::new(AtomicBool::new(false));
            let seen = flag.clone();
            let (_, waker) = spawn(&mut tasks, move || seen.load(Ordering::Relaxed));
            waker.wake_by_ref();
            let waking = thread::spawn(move || {
                flag.store(true, Ordering::Relaxed);
                waker.wake();
            });
            run_to_end(&mut tasks, &bell);
            waking.join().unwrap();
        });
    }

    /// Two wakes of one task make one or two polls, depending on whether a poll began in between.
    #[test]
    fn loom_a_task_is_queued_once_however_often_it_is_woken() {
        loom::model(|| {
            let (mut tasks, _) = executor(1);
            let (_, waker) = spawn(&mut tasks, || false);
            let other = waker.clone();
            let waking = thread::spawn(move || other.wake());
            waker.wake();
            let polls = run(&mut tasks);
            waking.join().unwrap();
            let polls = polls + run(&mut tasks);
            assert!((1..=2).contains(&polls));
            assert_eq!((run(&mut tasks), tasks.stale_wakes()), (0, 0));
        });
    }

    /// A task that its own lane has called while another thread wakes it: what the waker showed is seen, whichever of the two polls comes first.
    #[test]
    fn loom_a_call_by_its_lane_may_race_with_a_wake_from_outside() {
        loom::model(|| {
            let (mut tasks, bell) = executor(1);
            let flag = Arc::new(AtomicBool::new(false));
            let seen = flag.clone();
            let (_, waker) = spawn(&mut tasks, move || seen.load(Ordering::Relaxed));
            let other = waker.clone();
            let waking = thread::spawn(move || {
                flag.store(true, Ordering::Relaxed);
                other.wake();
            });
            tasks.call(&waker);
            assert!(!tasks.before_sleep(), "who was called is polled before the lane sleeps");
            run_to_end(&mut tasks, &bell);
            waking.join().unwrap();
            // Its end makes the later of call and wake stale, and nobody is polled for it.
            tasks.call(&waker);
            assert_eq!((run(&mut tasks), tasks.before_sleep()), (0, true));
        });
    }

    /// The entry's next task must not be polled for a call, or a wake, of the one before.
    #[test]
    fn loom_a_call_and_a_wake_may_race_with_cancelling() {
        loom::model(|| {
            let (mut tasks, _) = executor(1);
            let (old, waker) = spawn(&mut tasks, || false);
            let other = waker.clone();
            let waking = thread::spawn(move || {
                other.wake_by_ref();
                drop(other);
            });
            tasks.call(&waker);
            assert!(tasks.cancel(old));
            tasks.call(&waker);
            drop(waker);
            let polls = Rc::new(Cell::new(0));
            let count = polls.clone();
            let (new, _) = spawn(&mut tasks, move || {
                count.set(count.get() + 1);
                false
            });
            waking.join().unwrap();
            run(&mut tasks);
            assert_eq!(polls.get(), 1, "it is polled as it is spawned, and for nobody else");
            assert!(tasks.cancel(new));
        });
    }

    /// A lane that calls a task of another one wakes it, as any thread does: the other, asleep, hears its bell.
    #[test]
    fn loom_a_call_from_another_lane_is_a_wake() {
        loom::model(|| {
            let (mut tasks, bell) = executor(1);
            let flag = Arc::new(AtomicBool::new(false));
            let seen = flag.clone();
            let (_, waker) = spawn(&mut tasks, move || seen.load(Ordering::Relaxed));
            let calling = thread::spawn(move || {
                let (mut others, _) = executor(1);
                flag.store(true, Ordering::Relaxed);
                others.call(&waker);
                assert!(others.before_sleep(), "it is none of its own");
            });
            run_to_end(&mut tasks, &bell);
            calling.join().unwrap();
        });
    }

    /// Where the lane ends, a task that was called and is being woken is freed with it; loom reports what is not.
    #[test]
    fn loom_a_task_that_was_called_and_is_woken_may_race_with_the_end_of_the_lane() {
        loom::model(|| {
            let (mut tasks, _) = executor(2);
            let (one, two) = (spawn(&mut tasks, || false).1, spawn(&mut tasks, || false).1);
            tasks.call(&one);
            tasks.call(&two);
            let waking = thread::spawn(move || {
                one.wake();
                two.wake_by_ref();
            });
            assert!(run(&mut tasks) >= 2, "both were called");
            drop(tasks);
            waking.join().unwrap();
        });
    }
}
