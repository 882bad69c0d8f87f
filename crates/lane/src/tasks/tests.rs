//! The executor, polled by hand.

use super::*;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, mpsc};
use std::task::Waker;

#[derive(Default)]
struct TestBell {
    rung: Mutex<usize>,
    changed: Condvar,
}

impl TestBell {
    fn wait(&self) {
        let rung = self.rung.lock().unwrap();
        *self.changed.wait_while(rung, |rung| *rung == 0).unwrap() = 0;
    }
}

impl Bell for TestBell {
    fn ring(&self) {
        *self.rung.lock().unwrap() += 1;
        self.changed.notify_one();
    }
}

fn executor(limit: usize) -> (Tasks, std::sync::Arc<TestBell>) {
    let bell = std::sync::Arc::new(TestBell::default());
    (Tasks::new(limit, bell.clone()), bell)
}

fn run(tasks: &mut Tasks, at_most: usize) -> usize {
    tasks.run(at_most, &mut |id| panic!("{id:?} panicked"))
}

/// A task that notes its polls and hands out its waker, until it is told to end.
#[derive(Default)]
struct Probe {
    polls: Cell<usize>,
    waker: RefCell<Option<Waker>>,
    end: Cell<bool>,
}

impl Probe {
    fn spawn(tasks: &mut Tasks) -> (Rc<Self>, TaskId) {
        let probe = Rc::new(Self::default());
        let seen = probe.clone();
        let future = poll_fn(move |cx| {
            seen.polls.set(seen.polls.get() + 1);
            *seen.waker.borrow_mut() = Some(cx.waker().clone());
            if seen.end.get() { Poll::Ready(()) } else { Poll::Pending }
        });
        (probe, tasks.spawn(future).unwrap())
    }

    fn waker(&self) -> Waker {
        self.waker.borrow().clone().unwrap()
    }
}

#[test]
fn a_task_is_polled_when_spawned_and_when_woken_and_not_otherwise() {
    let (mut tasks, _) = executor(1);
    let (probe, id) = Probe::spawn(&mut tasks);
    assert!(tasks.has_woken());
    assert_eq!([run(&mut tasks, 9), run(&mut tasks, 9)], [1, 0]);
    assert!(!tasks.has_woken());
    probe.end.set(true);
    probe.waker().wake();
    assert!(tasks.has_woken());
    assert_eq!(run(&mut tasks, 9), 1);
    assert_eq!((probe.polls.get(), tasks.len()), (2, 0));
    assert_eq!(Rc::strong_count(&probe), 1, "the future is dropped as it ends");
    assert!(!tasks.cancel(id));
}

#[test]
fn a_task_that_is_woken_twice_is_polled_once() {
    let (mut tasks, _) = executor(1);
    let (probe, _) = Probe::spawn(&mut tasks);
    run(&mut tasks, 9);
    let waker = probe.waker();
    waker.wake_by_ref();
    waker.wake();
    assert_eq!(run(&mut tasks, 9), 1);
    assert!(!tasks.has_woken());
}

#[test]
fn a_task_that_wakes_itself_runs_again_in_the_next_call() {
    let (mut tasks, _) = executor(1);
    let mut left = 3;
    let yielding = poll_fn(move |cx| {
        cx.waker().wake_by_ref();
        left -= 1;
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    });
    tasks.spawn(yielding).unwrap();
    assert_eq!([run(&mut tasks, 9), run(&mut tasks, 9)], [1, 1]);
    assert!(!tasks.before_sleep());
    assert_eq!(run(&mut tasks, 9), 1);
    assert_eq!(run(&mut tasks, 9), 0);
    assert_eq!(tasks.stale_wakes(), 1, "its last wake came as it ended");
}

#[test]
fn a_task_that_is_called_is_polled_once_and_before_those_that_were_woken() {
    let (mut tasks, bell) = executor(3);
    let order = Rc::new(RefCell::new(Vec::new()));
    let wakers: Vec<Waker> = (0..3)
        .map(|number| {
            let (order, waker) = (order.clone(), Rc::new(RefCell::new(None)));
            let seen = waker.clone();
            let future = poll_fn(move |cx| {
                order.borrow_mut().push(number);
                *seen.borrow_mut() = Some(cx.waker().clone());
                Poll::<()>::Pending
            });
            tasks.spawn(future).unwrap();
            run(&mut tasks, 1);
            waker.take().unwrap()
        })
        .collect();
    order.borrow_mut().clear();
    assert!(tasks.before_sleep());
    wakers[0].wake_by_ref();
    tasks.call(&wakers[2]);
    tasks.call(&wakers[2]);
    assert!(tasks.has_woken() && !tasks.before_sleep(), "who was called is polled before the lane sleeps");
    assert_eq!((run(&mut tasks, 9), order.take()), (2, vec![2, 0]));
    tasks.call(Waker::noop());
    assert!(!tasks.has_woken() && tasks.before_sleep());
    assert_eq!(*bell.rung.lock().unwrap(), 1, "no bell for a call");
}

#[test]
fn a_call_of_a_task_that_has_ended_or_is_another_lanes_reaches_nobody_here() {
    let ((mut tasks, _), (mut others, _)) = (executor(1), executor(1));
    let ((ended, id), (other, _)) = (Probe::spawn(&mut tasks), Probe::spawn(&mut others));
    assert_eq!((run(&mut tasks, 9), run(&mut others, 9)), (1, 1));
    let waker = ended.waker();
    tasks.call(&waker);
    assert!(tasks.cancel(id));
    let (next, _) = Probe::spawn(&mut tasks);
    assert_eq!((run(&mut tasks, 9), next.polls.get()), (1, 1), "its place is another's now, who is polled for itself");
    tasks.call(&waker);
    assert_eq!((run(&mut tasks, 9), tasks.stale_wakes()), (0, 1));
    tasks.call(&other.waker());
    assert_eq!((run(&mut tasks, 9), run(&mut others, 9), other.polls.get()), (0, 1, 2));
}

#[test]
fn what_tasks_spawn_is_polled_in_the_same_run_and_counts_for_the_limit() {
    let (mut tasks, _) = executor(2);
    let (spawner, ran) = (tasks.spawner(), Rc::new(Cell::new(0)));
    let count = ran.clone();
    let parent = async move {
        for number in 0..3 {
            let count = count.clone();
            let child = spawner.spawn(async move { count.set(count.get() + 1) });
            assert_eq!(child.is_ok(), number == 0, "two at once");
        }
    };
    tasks.spawn(parent).unwrap();
    assert_eq!((run(&mut tasks, 9), ran.get(), tasks.len()), (2, 1, 0));
    let spawner = tasks.spawner();
    spawner.spawn(async { drop(PanicsWhenDropped) }).unwrap();
    assert!(tasks.has_woken() && !tasks.before_sleep());
    let held = PanicsWhenDropped;
    spawner.spawn(async move { drop(held) }).unwrap();
    assert_eq!(tasks.end(), 1, "one that was never polled is dropped behind the fence, too");
    assert!(spawner.spawn(async {}).is_err() && !tasks.has_woken());
}

#[test]
fn tasks_run_in_the_order_of_their_wakes_as_far_as_the_bound_allows() {
    let (mut tasks, _) = executor(5);
    let probes: Vec<_> = (0..5).map(|_| Probe::spawn(&mut tasks).0).collect();
    let polls = || probes.iter().map(|probe| probe.polls.get()).collect::<Vec<_>>();
    assert_eq!(run(&mut tasks, 3), 3);
    assert_eq!(polls(), [1, 1, 1, 0, 0]);
    probes[1].waker().wake();
    probes[0].waker().wake();
    assert_eq!(run(&mut tasks, 3), 3);
    assert_eq!(polls(), [1, 2, 1, 1, 1]);
    assert_eq!(run(&mut tasks, 0), 0);
    assert_eq!(run(&mut tasks, 3), 1);
    assert_eq!(polls(), [2, 2, 1, 1, 1]);
}

#[test]
fn a_full_executor_gives_the_future_back_until_a_task_ends() {
    let (mut tasks, _) = executor(1);
    let (_, first) = Probe::spawn(&mut tasks);
    let kept = Rc::new(());
    let held = kept.clone();
    let full = tasks.spawn(async move { drop(held) }).unwrap_err();
    assert_eq!((full.limit, Rc::strong_count(&kept)), (1, 2));
    assert!(tasks.cancel(first));
    let second = tasks.spawn(full.value).unwrap();
    assert_ne!(first, second);
    assert!(!tasks.cancel(first), "a stale name must not hit the entry's new task");
    assert_eq!(run(&mut tasks, 9), 1, "the cancelled one is passed over");
    assert_eq!(Rc::strong_count(&kept), 1);
}

#[test]
fn wakes_of_a_cancelled_task_are_counted_and_do_nothing() {
    let (mut tasks, _) = executor(1);
    let (probe, id) = Probe::spawn(&mut tasks);
    run(&mut tasks, 9);
    let waker = probe.waker();
    waker.wake_by_ref();
    assert!(tasks.cancel(id));
    assert_eq!(Rc::strong_count(&probe), 1);
    assert_eq!(run(&mut tasks, 9), 0);
    assert_eq!(tasks.stale_wakes(), 1, "it was queued when it was cancelled");
    waker.wake();
    assert!(!tasks.has_woken());
    assert_eq!((tasks.stale_wakes(), probe.polls.get()), (2, 1));
}

struct PanicsWhenDropped;
impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("as it is dropped");
    }
}

#[test]
fn a_panic_ends_its_task_only() {
    let (mut tasks, _) = executor(9);
    let dies = tasks.spawn(async { panic!("in the poll") }).unwrap();
    let dies_late = tasks
        .spawn(async {
            let _held = PanicsWhenDropped;
        })
        .unwrap();
    let vicious = tasks.spawn(async { std::panic::panic_any(PanicsWhenDropped) }).unwrap();
    let (probe, _) = Probe::spawn(&mut tasks);
    let held = PanicsWhenDropped;
    let cancelled = tasks
        .spawn(async {
            let _held = held;
            std::future::pending::<()>().await;
        })
        .unwrap();
    let mut reported = Vec::new();
    assert_eq!(tasks.run(9, &mut |id| reported.push(id)), 5);
    assert_eq!(reported, [dies, dies_late, vicious]);
    assert_eq!((probe.polls.get(), tasks.len()), (1, 2));
    assert!(tasks.cancel(cancelled));
    assert_eq!((tasks.panics(), tasks.len()), (4, 1));
}

#[test]
fn dropping_the_executor_drops_every_future_and_leaves_wakers_harmless() {
    let (mut tasks, bell) = executor(9);
    let (probe, _) = Probe::spawn(&mut tasks);
    let (woken, _) = Probe::spawn(&mut tasks);
    let (unpolled, _) = Probe::spawn(&mut tasks);
    tasks.spawn(async move { drop(PanicsWhenDropped) }).unwrap();
    run(&mut tasks, 2);
    woken.waker().wake();
    let waker = probe.waker();
    drop(tasks);
    assert!([&probe, &woken, &unpolled].iter().all(|probe| Rc::strong_count(probe) == 1));
    waker.wake_by_ref();
    waker.wake();
    assert_eq!(*bell.rung.lock().unwrap(), 0);
}

#[test]
fn a_future_may_wake_itself_and_others_as_it_is_dropped() {
    struct WakesWhenDropped(Rc<Probe>);
    impl Drop for WakesWhenDropped {
        fn drop(&mut self) {
            self.0.waker().wake();
        }
    }
    let (mut tasks, _) = executor(9);
    let (probe, id) = Probe::spawn(&mut tasks);
    let (other, _) = Probe::spawn(&mut tasks);
    run(&mut tasks, 9);
    let guards = [&probe, &other].map(|probe| WakesWhenDropped(probe.clone()));
    tasks
        .spawn(async move {
            let _guards = guards;
            std::future::pending::<()>().await;
        })
        .unwrap();
    run(&mut tasks, 9);
    assert!(tasks.cancel(id));
    drop(tasks);
    assert_eq!((probe.polls.get(), other.polls.get()), (1, 1));
}

#[test]
fn the_bell_rings_once_a_sleep_and_never_for_a_lane_that_is_awake() {
    let (mut tasks, bell) = executor(9);
    let probes = [Probe::spawn(&mut tasks).0, Probe::spawn(&mut tasks).0];
    let rings = || *bell.rung.lock().unwrap();
    assert!(!tasks.before_sleep(), "a new task counts as woken");
    run(&mut tasks, 9);
    assert!(tasks.before_sleep() && tasks.before_sleep());
    tasks.awake();
    probes[0].waker().wake();
    assert_eq!(rings(), 0);
    assert!(!tasks.before_sleep());
    run(&mut tasks, 9);
    assert!(tasks.before_sleep());
    probes[0].waker().wake();
    probes[1].waker().wake();
    assert_eq!(rings(), 1);
    tasks.awake();
    assert_eq!(run(&mut tasks, 9), 2);
    assert!(tasks.before_sleep());
    probes[1].waker().wake();
    assert_eq!(rings(), 2);
}

/// Every task needs a number of wakes, each shown by a flag that only the wake makes visible; the lane sleeps
/// whenever it may, so one lost wake would hang this test.
#[test]
fn wakers_work_on_other_threads_and_no_wake_is_lost() {
    const TASKS: usize = 50;
    const WAKES: usize = 400;
    let (mut tasks, bell) = executor(TASKS);
    let (sender, receiver) = mpsc::channel::<(Waker, std::sync::Arc<AtomicBool>)>();
    let receiver = std::sync::Arc::new(Mutex::new(receiver));
    let wakers: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn({
                let receiver = receiver.clone();
                move || serve(&receiver)
            })
        })
        .collect();
    let finished = Rc::new(Cell::new(0));
    for _ in 0..TASKS {
        let (sender, finished) = (sender.clone(), finished.clone());
        let mut left = WAKES;
        let flag = std::sync::Arc::new(AtomicBool::new(true));
        let future = poll_fn(move |cx| {
            if !flag.swap(false, Ordering::Relaxed) {
                return Poll::Pending;
            }
            if left == 0 {
                finished.set(finished.get() + 1);
                return Poll::Ready(());
            }
            left -= 1;
            sender.send((cx.waker().clone(), flag.clone())).unwrap();
            Poll::Pending
        });
        tasks.spawn(future).unwrap();
    }
    drop(sender);
    while !tasks.is_empty() {
        run(&mut tasks, 16);
        if !tasks.is_empty() && tasks.before_sleep() {
            bell.wait();
            tasks.awake();
        }
    }
    let served: usize = wakers.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!((finished.get(), served, tasks.stale_wakes()), (TASKS, TASKS * WAKES, 0));
}

/// Shows the flag and wakes, half of the time with the waker that was sent and half with a clone.
fn serve(receiver: &Mutex<mpsc::Receiver<(Waker, std::sync::Arc<AtomicBool>)>>) -> usize {
    let mut served = 0;
    loop {
        let next = receiver.lock().unwrap().recv();
        let Ok((waker, flag)) = next else { return served };
        flag.store(true, Ordering::Relaxed);
        match served % 2 {
            0 => waker.wake(),
            _ => waker.clone().wake_by_ref(),
        }
        served += 1;
    }
}
