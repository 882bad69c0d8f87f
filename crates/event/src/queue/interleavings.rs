//! Every order of the steps in which threads meet: adding, removing, closing and telling. A waiter has two steps, one outside of the
//! lock and one under it; every other call is one step, because it holds the lock from its beginning to its end.
#![allow(clippy::unwrap_used)] // all of this is tests

use super::*;
use crate::record::Flags;
use corelane_os::testing::replace;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// What one run works on.
struct World {
    queue: Arc<Queue>,
    ours: Option<UnixStream>,
    theirs: UnixStream,
    /// Keeps the old file alive when its number means another.
    copy: UnixStream,
    new: Option<(UnixStream, UnixStream)>,
    /// What each waiter has collected.
    collected: [Vec<Report>; 2],
    /// Everything told, and after how many steps.
    told: Vec<(usize, Event)>,
    step: usize,
}

impl World {
    fn new(change: impl Fn(Change) -> Change) -> Self {
        let queue = Queue::new().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let copy = ours.try_clone().unwrap();
        queue.change(&change(Change::readable(ours.as_fd()).cookie(1))).unwrap();
        queue.change(&Change::user(7).cookie(7)).unwrap();
        let new = Some(UnixStream::pair().unwrap());
        let collected = [Vec::new(), Vec::new()];
        Self { queue, ours: Some(ours), theirs, copy, new, collected, told: Vec::new(), step: 0 }
    }

    fn collect(&mut self, waiter: usize) {
        let mut places = room::<4>();
        self.collected[waiter] = self.queue.collect(&mut places, Some(Duration::ZERO)).unwrap().to_vec();
    }

    fn tell(&mut self, waiter: usize) {
        let reports = std::mem::take(&mut self.collected[waiter]);
        let mut events = Vec::new();
        let mut state = self.queue.state();
        state.begin();
        state.tell(&reports, &mut Sink { each: &mut |event| events.push(*event), room: 4, is_patient: false });
        state.finish();
        self.queue.follow(&mut state).unwrap();
        drop(state);
        self.told.extend(events.iter().map(|event| (self.step, *event)));
    }

    fn write(&mut self) {
        self.theirs.write_all(b"x").unwrap();
    }

    fn ident(&self) -> u64 {
        self.ours.as_ref().unwrap().as_raw_fd() as u64
    }

    fn delete(&mut self) {
        // One that was told once is gone already.
        let _ = self.queue.change(&Change::delete(self.ident(), Filter::Read));
    }

    /// The number comes to mean another file, which is readable.
    fn reopen(&mut self) {
        let (new, mut peer) = self.new.take().unwrap();
        peer.write_all(b"new").unwrap();
        let old = self.ours.take().unwrap();
        self.ours = Some(replace(old.into(), new.as_fd()).into());
        self.new = Some((new, peer));
    }

    fn reopen_told(&mut self) {
        crate::closed(self.ours.as_ref().unwrap().as_raw_fd());
        self.reopen();
    }

    fn add_new(&mut self) {
        self.queue.change(&Change::readable(self.ours.as_ref().unwrap().as_fd()).cookie(2)).unwrap();
    }

    fn trigger(&mut self) {
        self.queue.change(&Change::trigger(7).cookie(7)).unwrap();
    }

    fn cookies(&self) -> Vec<u64> {
        self.told.iter().map(|(_, event)| event.cookie).collect()
    }

    /// Afterwards: everything that there is to tell, by two more rounds.
    fn drain(&mut self) {
        for _ in 0..2 {
            self.collect(0);
            self.tell(0);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.queue.end();
    }
}

type Step = fn(&mut World);

const FIRST: [Step; 2] = [|world| world.collect(0), |world| world.tell(0)];
const SECOND: [Step; 2] = [|world| world.collect(1), |world| world.tell(1)];

/// Runs every order of the steps of `threads`, each in its own order, and lets `check` look at the world after it, and at which step each
/// thread's last was. Says how many orders there were.
fn every_order(
    change: impl Fn(Change) -> Change + Copy,
    threads: &[&[Step]],
    check: impl Fn(&mut World, &[usize]) + Copy,
) -> usize {
    let mut orders = vec![Vec::new()];
    let length: usize = threads.iter().map(|steps| steps.len()).sum();
    for _ in 0..length {
        orders = orders.into_iter().flat_map(|order| longer(&order, threads)).collect();
    }
    for order in &orders {
        run(change, threads, order, check);
    }
    orders.len()
}

/// An order with each of the steps that may come next.
fn longer(order: &[usize], threads: &[&[Step]]) -> Vec<Vec<usize>> {
    let done = |thread: usize| order.iter().filter(|other| **other == thread).count();
    let open = (0..threads.len()).filter(|&thread| done(thread) < threads[thread].len());
    open.map(|thread| [order, &[thread]].concat()).collect()
}

fn run(change: impl Fn(Change) -> Change, threads: &[&[Step]], order: &[usize], check: impl Fn(&mut World, &[usize])) {
    let mut world = World::new(change);
    let mut at = vec![0; threads.len()];
    let mut last = vec![0; threads.len()];
    for &thread in order {
        world.step += 1;
        threads[thread][at[thread]](&mut world);
        (at[thread], last[thread]) = (at[thread] + 1, world.step);
    }
    world.step += 1;
    world.drain();
    check(&mut world, &last);
}

#[test]
fn told_once_is_told_to_one() {
    let writer: &[Step] = &[World::write, World::trigger];
    let orders = every_order(Change::once, &[&FIRST, &SECOND, writer], |world, _| {
        let mut cookies = world.cookies();
        cookies.sort();
        assert_eq!((cookies.as_slice(), world.queue.registered()), ([1, 7].as_slice(), 1));
    });
    assert_eq!(orders, 90);
}

#[test]
fn dispatched_is_told_to_one_until_enabled() {
    let writer: &[Step] = &[World::write, World::write, World::write];
    let orders = every_order(Change::dispatched, &[&FIRST, &SECOND, writer], |world, _| {
        assert_eq!(world.cookies(), [1]);
    });
    assert_eq!(orders, 210);
}

#[test]
fn nothing_is_told_after_it_was_deleted() {
    let changer: &[Step] = &[World::write, World::delete];
    every_order(
        |change| change,
        &[&FIRST, &SECOND, changer],
        |world, last| {
            assert!(world.told.iter().all(|(step, _)| *step < last[2]), "deleted at {}: {:?}", last[2], world.told);
            assert_eq!(world.queue.registered(), 1);
        },
    );
}

#[test]
fn nothing_old_is_told_once_the_number_means_another_file() {
    for reopen in [World::reopen as Step, World::reopen_told] {
        for mode in [|change: Change| change, Change::cleared, |change| Change::from_bytes(change, 1), Change::dispatched] {
            let changer: &[Step] = &[World::write, reopen, World::add_new];
            every_order(mode, &[&FIRST, &SECOND, changer], |world, last| {
                let reopened = last[2];
                let is_old = |(step, event): &(usize, Event)| event.cookie == 1 && *step >= reopened;
                assert!(!world.told.iter().any(is_old), "told of the old file: {:?}", world.told);
                let newest = world.told.iter().rev().find(|(_, event)| event.cookie == 2);
                assert_eq!(newest.map(|(_, event)| event.data), Some(3), "{:?}", world.told);
                assert!(world.told.iter().all(|(_, event)| event.cookie != 1 || event.data == 1));
            });
        }
    }
}

#[test]
fn cleared_nothing_is_lost() {
    let writer: &[Step] = &[World::write, World::trigger, World::write];
    every_order(Change::cleared, &[&FIRST, &SECOND, writer], |world, last| {
        let bytes = world.told.iter().rev().find(|(_, event)| event.cookie == 1).map(|(_, event)| event.data);
        assert_eq!(bytes, Some(2), "{:?}", world.told);
        assert_eq!(world.cookies().iter().filter(|cookie| **cookie == 7).count(), 1);
        // What was told stays told.
        let before = world.told.len();
        world.drain();
        assert_eq!((world.told.len(), last.len()), (before, 3));
        assert!(world.told.iter().all(|(_, event)| event.flags == Flags::CLEAR));
    });
    let _ = |world: &World| world.copy.as_raw_fd();
}

#[test]
fn a_queue_that_is_gone_watches_nothing() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    // Far from what other cases open at the same time.
    let high: UnixStream = corelane_os::testing::duplicate_from(ours.as_fd(), 950).into();
    let queue = Queue::new().unwrap();
    queue.change(&Change::readable(high.as_fd())).unwrap();
    assert!(closing::is_watched(high.as_raw_fd()));
    queue.end();
    drop(queue);
    assert!(!closing::is_watched(high.as_raw_fd()));
}
