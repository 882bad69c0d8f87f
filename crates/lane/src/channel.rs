//! A channel: a bounded ring between two lanes, one that sends and one that receives, with a doorbell.
//!
//! Holds a marked cell: the values lie in slots that both lanes reach; the two indices say which lane may touch which.
//!
//! Neither lane ever writes a cache line that the other one writes. A [`Sender`] queues values where only it sees them,
//! and makes a batch of them visible with one store; a [`Receiver`] gives a batch of slots back with one store. Each
//! keeps a copy of the other's index and looks at the original only when the copy says full, or too little.
//!
//! The doorbell rings only for a receiver that sleeps. [`Receiver::before_sleep`] announces the sleep and then looks for
//! values once more; [`Sender::publish`] shows values and then looks whether a sleep is announced. A sequentially
//! consistent fence between the two steps on both sides makes sure that at least one of them sees the other. Each
//! sleep has its own number, so the sender rings once for it without writing to the receiver's line.
//!
//! Room is told of in the same way, and only to a sender that sleeps and waits for it: [`Sender::await_room`] announces that and looks
//! once more, and a batch that is given back looks whether it is announced.
#![allow(unsafe_code)]

use crate::sync::atomic::{AtomicBool, AtomicUsize, fence};
use crate::sync::{Arc, Ordering, UnsafeCell};
use corelane_seam::Bell;
use std::mem::MaybeUninit;
use std::{error, fmt};

/// The most slots that a channel gets.
pub const CAPACITY_MAX: usize = 1 << 20;

/// Makes a channel that holds up to `capacity` values, rounded up to a power of two, at least 1 and at most
/// [`CAPACITY_MAX`]. `bell` wakes the lane that receives, `room` the lane that sends.
pub fn channel<T: Send>(
    capacity: usize,
    bell: std::sync::Arc<dyn Bell>,
    room: std::sync::Arc<dyn Bell>,
) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.clamp(1, CAPACITY_MAX).next_power_of_two();
    let shared = Arc::new(ChannelState {
        sender: Line(SenderLine { tail: AtomicUsize::new(0), wait: AtomicUsize::new(0), gone: AtomicBool::new(false) }),
        receiver: Line(ReceiverLine { head: AtomicUsize::new(0), sleep: AtomicUsize::new(0), gone: AtomicBool::new(false) }),
        slots: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        bell,
        room,
    });
    let sender = Sender { shared: Arc::clone(&shared), tail: 0, published: 0, head_seen: 0, sleep_rung: 0, wait: 0 };
    let receiver = Receiver { shared, head: 0, tail_seen: 0, sleep: 0, wait_rung: 0, farewell_said: false };
    (sender, receiver)
}

/// Something bounded has no room: the caller sends faster than the other side takes. Keep the value and try again on a
/// later turn, push back on where it comes from, or raise the bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T> {
    /// What there was no room for.
    pub value: T,
    /// The bound that is reached.
    pub limit: usize,
}

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Full").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no room: all {0} of {0} are in use; try again on a later turn, or raise the bound", self.limit)
    }
}

impl<T> error::Error for Full<T> {}

/// What one lane writes, apart from what the other one writes: two 64-byte lines, as processors fetch them in pairs.
#[repr(align(128))]
struct Line<T>(T);

/// Written by the sender only. Indices count values since the beginning and wrap; a slot is an index modulo capacity.
struct SenderLine {
    /// Index after the last published value.
    tail: AtomicUsize,
    /// The number of the sender's wait for room: odd while it sleeps and waits.
    wait: AtomicUsize,
    gone: AtomicBool,
}

/// Written by the receiver only.
struct ReceiverLine {
    /// Index of the first value that is not taken.
    head: AtomicUsize,
    /// The number of the receiver's sleep: odd while it sleeps, even while it is awake.
    sleep: AtomicUsize,
    gone: AtomicBool,
}

fn asleep(number: usize) -> bool {
    number & 1 == 1
}

struct ChannelState<T> {
    sender: Line<SenderLine>,
    receiver: Line<ReceiverLine>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    bell: std::sync::Arc<dyn Bell>,
    room: std::sync::Arc<dyn Bell>,
}

// SAFETY: values move from one thread to the other, hence `T: Send`; never do both hold a reference to one, as a slot
// belongs to the sender outside `head..tail` and to the receiver inside.
unsafe impl<T: Send> Sync for ChannelState<T> {}

impl<T> ChannelState<T> {
    fn slot(&self, index: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[index & (self.slots.len() - 1)]
    }
}

impl<T> Drop for ChannelState<T> {
    fn drop(&mut self) {
        let tail = self.sender.0.tail.load(Ordering::Relaxed);
        let mut head = self.receiver.0.head.load(Ordering::Relaxed);
        while head != tail {
            // SAFETY: both sides are gone, the sender has published all, so exactly `head..tail` is initialised, and
            // each index is dropped once.
            self.slot(head).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// The sending end; it lives on one lane.
///
/// Dropping it publishes what it has queued and tells the receiver.
pub struct Sender<T: Send> {
    shared: Arc<ChannelState<T>>,
    /// Index after the last queued value.
    tail: usize,
    /// The tail that the receiver can see.
    published: usize,
    /// The head as last read from the receiver.
    head_seen: usize,
    /// The sleep for which the bell was last rung.
    sleep_rung: usize,
    /// The number that stands in the shared `wait`.
    wait: usize,
}

impl<T: Send> Sender<T> {
    /// Queues a value, which the receiver sees after the next [`Sender::publish`].
    ///
    /// # Errors
    /// [`Full`] gives the value back when the channel holds its capacity, counting what is queued and not published.
    /// The caller looks again on a later turn ([`Sender::find_room`]), and before it sleeps has itself told ([`Sender::await_room`]).
    /// Once the receiver is gone ([`Sender::is_closed`]), room never comes.
    pub fn send(&mut self, value: T) -> Result<(), Full<T>> {
        if !self.find_room() {
            return Err(Full { value, limit: self.shared.slots.len() });
        }
        // SAFETY: the slot is not in `head..tail`, so only this side touches it; what it held has been moved out.
        self.shared.slot(self.tail).with_mut(|slot| unsafe { (*slot).write(value) });
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Whether a value can be queued now; looks at how far the receiver is if it seems not.
    pub fn find_room(&mut self) -> bool {
        let limit = self.shared.slots.len();
        if self.tail.wrapping_sub(self.head_seen) == limit {
            // Acquire: the receiver is done with the slots before this head.
            self.head_seen = self.shared.receiver.0.head.load(Ordering::Acquire);
        }
        let used = self.tail.wrapping_sub(self.head_seen);
        assert!(used <= limit, "the receiver takes what was sent, and the sender waits for room");
        used < limit
    }

    /// Announces that the lane is about to sleep and waits for room. True: there is none, and the bell will ring when there is, or when
    /// the receiver has gone; the lane may sleep, and calls [`Sender::awake`] afterwards. False: there is room, or no receiver, and the
    /// announcement is withdrawn.
    pub fn await_room(&mut self) -> bool {
        // A number of its own even when `awake` was forgotten.
        self.number_wait(self.wait.wrapping_add(1) | 1);
        assert!(asleep(self.wait), "a wait that is announced has an odd number");
        // Pairs with the fence in `ring_back`.
        fence(Ordering::SeqCst);
        if !(self.find_room() || self.is_closed()) {
            return true;
        }
        self.awake();
        false
    }

    /// Says that the lane does not sleep any more. Does nothing when no wait is announced.
    pub fn awake(&mut self) {
        if asleep(self.wait) {
            self.number_wait(self.wait.wrapping_add(1));
        }
    }

    fn number_wait(&mut self, number: usize) {
        self.wait = number;
        self.shared.sender.0.wait.store(number, Ordering::Relaxed);
    }

    /// Makes all queued values visible. Returns whether the bell was rung, which it is at most once for each sleep of
    /// the receiver.
    pub fn publish(&mut self) -> bool {
        if self.published == self.tail {
            return false;
        }
        self.published = self.tail;
        // Release: the values are in their slots before the receiver sees this tail.
        self.shared.sender.0.tail.store(self.tail, Ordering::Release);
        self.ring()
    }

    /// Whether the receiver is gone: what is sent now will only be dropped.
    pub fn is_closed(&self) -> bool {
        self.shared.receiver.0.gone.load(Ordering::Acquire)
    }

    /// Wakes the receiver if it sleeps, after something was made visible to it.
    fn ring(&mut self) -> bool {
        // Pairs with the fence in `before_sleep`: either this side sees the sleep, or that side what was stored.
        fence(Ordering::SeqCst);
        let sleep = self.shared.receiver.0.sleep.load(Ordering::Relaxed);
        let ring = asleep(sleep) && sleep != self.sleep_rung;
        if ring {
            self.sleep_rung = sleep;
            self.shared.bell.ring();
        }
        ring
    }
}

impl<T: Send> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.sender.0.tail.store(self.tail, Ordering::Release);
        // Release: who sees this sees the last tail.
        self.shared.sender.0.gone.store(true, Ordering::Release);
        self.ring();
    }
}

/// The receiving end; it lives on the lane that the bell wakes.
///
/// Values that are never taken are dropped with the later of the two ends.
pub struct Receiver<T: Send> {
    shared: Arc<ChannelState<T>>,
    /// Index of the next value to take.
    head: usize,
    /// The tail as last read from the sender.
    tail_seen: usize,
    /// The number that stands in the shared `sleep`.
    sleep: usize,
    /// The wait for room for which the bell was last rung.
    wait_rung: usize,
    /// Whether `before_sleep` has reported that the sender is gone.
    farewell_said: bool,
}

impl<T: Send> Receiver<T> {
    /// Hands at most `at_most` values to `each`, oldest first, and returns how many. Their slots go back to the sender
    /// together, at the end.
    pub fn take(&mut self, at_most: usize, mut each: impl FnMut(T)) -> usize {
        if self.tail_seen.wrapping_sub(self.head) < at_most {
            self.see_tail();
        }
        let count = self.tail_seen.wrapping_sub(self.head).min(at_most);
        if count == 0 {
            return 0;
        }
        let batch = GiveBack(self);
        for _ in 0..count {
            each(batch.0.take_one());
        }
        count
    }

    /// Whether the sender is gone and everything it sent has been taken.
    pub fn is_closed(&self) -> bool {
        // Acquire: the tail that is read next is the last one.
        self.shared.sender.0.gone.load(Ordering::Acquire) && self.shared.sender.0.tail.load(Ordering::Acquire) == self.head
    }

    /// Announces that the lane is about to sleep. True: nothing is there to take, and the bell will ring when that
    /// changes; the lane may sleep, and calls [`Receiver::awake`] afterwards. False: there is something to do, and the
    /// announcement is withdrawn; once after the sender has gone, the something is that.
    pub fn before_sleep(&mut self) -> bool {
        // A number of its own even when `awake` was forgotten, else this sleep's bell would count as rung already.
        self.number_sleep(self.sleep.wrapping_add(1) | 1);
        assert!(asleep(self.sleep), "a sleep that is announced has an odd number");
        // Pairs with the fence in `ring`.
        fence(Ordering::SeqCst);
        self.see_tail();
        let farewell = !self.farewell_said && self.shared.sender.0.gone.load(Ordering::Acquire);
        if self.tail_seen == self.head && !farewell {
            return true;
        }
        self.farewell_said |= farewell;
        self.awake();
        false
    }

    /// Says that the lane does not sleep any more: no bell until it announces the next sleep. Does nothing when none
    /// is announced.
    pub fn awake(&mut self) {
        if asleep(self.sleep) {
            self.number_sleep(self.sleep.wrapping_add(1));
        }
    }

    fn number_sleep(&mut self, number: usize) {
        self.sleep = number;
        self.shared.receiver.0.sleep.store(number, Ordering::Relaxed);
    }

    fn see_tail(&mut self) {
        // Acquire: the values before this tail are in their slots.
        self.tail_seen = self.shared.sender.0.tail.load(Ordering::Acquire);
        let there = self.tail_seen.wrapping_sub(self.head);
        assert!(there <= self.shared.slots.len(), "the receiver takes what was sent, and the sender waits for room");
    }

    /// Wakes the sender if it sleeps and waits for room, after slots were given back or this end has gone.
    fn ring_back(&mut self) {
        // Pairs with the fence in `await_room`: either this side sees the wait, or that side the room.
        fence(Ordering::SeqCst);
        let wait = self.shared.sender.0.wait.load(Ordering::Relaxed);
        if asleep(wait) && wait != self.wait_rung {
            self.wait_rung = wait;
            self.shared.room.ring();
        }
    }

    /// Moves the next value out; the caller knows that there is one.
    fn take_one(&mut self) -> T {
        assert!(self.head != self.tail_seen, "no more is taken than was published");
        // SAFETY: `head` is in `head..tail`, so the sender has written the slot and leaves it alone until `head` is
        // stored in the shared line; the private `head` moves past it here, so it is read once.
        let value = self.shared.slot(self.head).with(|slot| unsafe { (*slot).assume_init_read() });
        self.head = self.head.wrapping_add(1);
        value
    }
}

impl<T: Send> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receiver.0.gone.store(true, Ordering::Release);
        self.ring_back();
    }
}

/// Gives the slots of a batch back when it ends, be it by a panic of the one who takes the values.
struct GiveBack<'a, T: Send>(&'a mut Receiver<T>);

impl<T: Send> Drop for GiveBack<'_, T> {
    fn drop(&mut self) {
        // Release: the values are moved out before the sender sees this head.
        self.0.shared.receiver.0.head.store(self.0.head, Ordering::Release);
        self.0.ring_back();
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicU64;
    use std::sync::{Condvar, Mutex};

    #[derive(Default)]
    struct TestBell {
        rung: Mutex<bool>,
        changed: Condvar,
        count: AtomicU64,
    }

    impl TestBell {
        fn wait(&self) {
            let rung = self.rung.lock().unwrap();
            *self.changed.wait_while(rung, |rung| !*rung).unwrap() = false;
        }
    }

    impl Bell for TestBell {
        fn ring(&self) {
            self.count.fetch_add(1, Ordering::Relaxed);
            *self.rung.lock().unwrap() = true;
            self.changed.notify_one();
        }
    }

    fn small<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>, std::sync::Arc<TestBell>) {
        let bell = std::sync::Arc::new(TestBell::default());
        let (sender, receiver) = channel(capacity, bell.clone(), std::sync::Arc::new(TestBell::default()));
        (sender, receiver, bell)
    }

    fn take<T: Send>(receiver: &mut Receiver<T>, at_most: usize) -> Vec<T> {
        let mut values = Vec::new();
        assert_eq!(receiver.take(at_most, |value| values.push(value)), values.len());
        values
    }

    #[test]
    fn the_lines_of_the_two_lanes_are_apart() {
        let (sender, _receiver, _) = small::<u8>(1);
        let one = &raw const sender.shared.sender as usize;
        let other = &raw const sender.shared.receiver as usize;
        let slots = sender.shared.slots.as_ptr() as usize;
        let counts = std::sync::Arc::as_ptr(&sender.shared) as usize - 16;
        for (a, b) in [(one, other), (one, counts), (other, counts), (one, slots), (other, slots)] {
            assert_ne!(a / 128, b / 128);
        }
    }

    #[test]
    fn values_are_seen_when_published_and_come_in_order() {
        let (mut sender, mut receiver, _) = small(4);
        for value in 0..3 {
            sender.send(value).unwrap();
        }
        assert_eq!(take(&mut receiver, 9), []);
        assert!(!sender.publish(), "nobody sleeps");
        assert_eq!(take(&mut receiver, 2), [0, 1]);
        assert_eq!(take(&mut receiver, 2), [2]);
    }

    #[test]
    fn a_full_channel_gives_the_value_back_until_something_is_taken() {
        for (asked, given) in [(0, 1), (1, 1), (3, 4), (4, 4)] {
            let (mut sender, mut receiver, _) = small(asked);
            for value in 0..given {
                sender.send(value).unwrap();
            }
            let full = sender.send(99).unwrap_err();
            assert_eq!((full.value, full.limit), (99, given));
            assert!(full.to_string().contains(&format!("all {given} of {given}")));
            sender.publish();
            assert_eq!(take(&mut receiver, 1), [0]);
            sender.send(99).unwrap();
            assert!(sender.send(100).is_err());
        }
    }

    #[test]
    fn the_bell_rings_once_a_sleep_and_never_for_one_who_is_awake() {
        let (mut sender, mut receiver, bell) = small(8);
        let mut send = || {
            sender.send(1).unwrap();
            sender.publish()
        };
        assert!(!send(), "awake");
        assert!(!receiver.before_sleep(), "there is a value");
        assert!(!send(), "the announcement was withdrawn");
        assert_eq!(take(&mut receiver, 9).len(), 2);
        assert!(receiver.before_sleep() && receiver.before_sleep());
        assert!(send());
        assert!(!send(), "one ring wakes it");
        receiver.awake();
        assert!(!send());
        assert_eq!(take(&mut receiver, 9).len(), 3);
        assert!(receiver.before_sleep());
        assert!(send(), "the next sleep has its own ring");
        assert_eq!(take(&mut receiver, 9).len(), 1);
        assert!(receiver.before_sleep(), "as after a wake-up that forgot to call awake");
        assert!(send(), "this one, too");
        assert_eq!(bell.count.load(Ordering::Relaxed), 3);
        assert!(!sender.publish(), "nothing new");
    }

    #[test]
    fn the_bell_for_room_rings_once_a_wait_and_never_for_one_who_is_awake() {
        let (room, bell) = (std::sync::Arc::new(TestBell::default()), std::sync::Arc::new(TestBell::default()));
        let (mut sender, mut receiver) = channel(2, bell, room.clone());
        let rung = || room.count.load(Ordering::Relaxed);
        assert!(!sender.await_room(), "there is room");
        (0..2).for_each(|value| sender.send(value).unwrap());
        sender.publish();
        assert_eq!((take(&mut receiver, 1), rung()), (vec![0], 0), "nobody waits");
        sender.send(2).unwrap();
        sender.publish();
        assert!(sender.await_room() && sender.await_room());
        assert_eq!((take(&mut receiver, 1), rung()), (vec![1], 1));
        assert_eq!((take(&mut receiver, 1), rung()), (vec![2], 1), "one ring wakes it");
        sender.awake();
        assert!(sender.find_room());
        (3..5).for_each(|value| sender.send(value).unwrap());
        assert!(!sender.find_room() && sender.await_room());
        drop(receiver);
        assert_eq!((rung(), sender.await_room()), (2, false), "who has gone gives no room, and is not waited for");
    }

    #[test]
    fn the_receiver_learns_once_that_the_sender_has_gone() {
        let (mut sender, mut receiver, bell) = small(8);
        assert!(receiver.before_sleep());
        sender.send(7).unwrap();
        assert!(!receiver.is_closed());
        drop(sender);
        assert_eq!(bell.count.load(Ordering::Relaxed), 1);
        assert!(!receiver.is_closed(), "there is a value to take first");
        assert_eq!(take(&mut receiver, 9), [7], "what was queued is published");
        assert!(receiver.is_closed());
        assert!(!receiver.before_sleep());
        assert!(receiver.before_sleep(), "an end that is known keeps nobody awake");
    }

    #[test]
    fn the_sender_learns_that_the_receiver_has_gone() {
        let (sender, receiver, _) = small::<u8>(8);
        assert!(!sender.is_closed());
        drop(receiver);
        assert!(sender.is_closed());
    }

    #[test]
    fn what_nobody_took_is_dropped_once() {
        let value = std::sync::Arc::new(());
        for sender_first in [true, false] {
            let (mut sender, mut receiver, _) = small(4);
            for round in 0..3 {
                sender.send(value.clone()).unwrap();
                sender.send(value.clone()).unwrap();
                sender.publish();
                assert_eq!(receiver.take(2, drop), 2, "round {round}");
            }
            for _ in 0..4 {
                sender.send(value.clone()).unwrap();
            }
            drop(sender.send(value.clone()));
            match sender_first {
                true => drop((sender, receiver)),
                false => drop((receiver, sender)),
            }
            assert_eq!(std::sync::Arc::strong_count(&value), 1);
        }
    }

    #[test]
    fn a_panic_while_taking_loses_only_the_value_in_hand() {
        let (mut sender, mut receiver, _) = small(4);
        let values: Vec<_> = (0..4).map(std::sync::Arc::new).collect();
        for value in &values {
            sender.send(value.clone()).unwrap();
        }
        sender.publish();
        let taken = catch_unwind(AssertUnwindSafe(|| receiver.take(9, |value| assert!(*value == 0, "second"))));
        assert!(taken.is_err());
        assert_eq!(take(&mut receiver, 9), values[2..]);
        assert!((0..4).all(|value| sender.send(std::sync::Arc::new(value)).is_ok()), "all slots came back");
        drop((sender, receiver));
        assert!(values.iter().all(|value| std::sync::Arc::strong_count(value) == 1));
    }

    /// Two threads, batches of changing length, a receiver that sleeps whenever it may.
    #[test]
    fn a_million_values_arrive_in_order_across_threads() {
        const COUNT: u64 = 1_000_000;
        let (mut sender, mut receiver, bell) = small(64);
        let sending = std::thread::spawn(move || {
            let mut rung = 0;
            for value in 0..COUNT {
                let mut refused = sender.send(value);
                while let Err(full) = refused {
                    rung += u64::from(sender.publish());
                    std::thread::yield_now();
                    refused = sender.send(full.value);
                }
                if value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59 == 0 {
                    rung += u64::from(sender.publish());
                }
            }
            rung + u64::from(sender.publish())
        });
        let mut expected = 0;
        while expected < COUNT {
            receiver.take(1 + expected as usize % 40, |value| {
                assert_eq!(value, expected);
                expected += 1;
            });
            if expected < COUNT && receiver.before_sleep() {
                bell.wait();
                receiver.awake();
            }
        }
        let rung = sending.join().unwrap();
        let counted = bell.count.load(Ordering::Relaxed);
        assert!(counted == rung || counted == rung + 1, "{counted} rings, {rung} reported; one more as the sender left");
        assert!(receiver.is_closed());
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::sync::model::ModelBell;
    use loom::thread;

    fn ends<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>, std::sync::Arc<ModelBell>) {
        let bell = std::sync::Arc::new(ModelBell::default());
        let (sender, receiver) = channel(capacity, bell.clone(), std::sync::Arc::new(ModelBell::default()));
        (sender, receiver, bell)
    }

    /// Takes as a lane does, sleeping whenever it may, until `count` values have come.
    fn take_all(receiver: &mut Receiver<Arc<usize>>, bell: &ModelBell, count: usize) {
        let mut expected = 0;
        loop {
            receiver.take(2, |value| {
                assert_eq!(*value, expected);
                expected += 1;
            });
            if expected == count {
                return;
            }
            if receiver.before_sleep() {
                bell.wait();
                receiver.awake();
            }
        }
    }

    #[test]
    fn loom_no_value_and_no_doorbell_is_lost() {
        loom::model(|| {
            let (mut sender, mut receiver, bell) = ends(2);
            let sending = thread::spawn(move || {
                for value in 0..2 {
                    sender.send(Arc::new(value)).unwrap();
                    sender.publish();
                }
                sender
            });
            take_all(&mut receiver, &bell, 2);
            drop(sending.join().unwrap());
        });
    }

    #[test]
    fn loom_a_full_channel_is_filled_again_once_slots_come_back() {
        loom::model(|| {
            let (mut sender, mut receiver, _) = ends(1);
            let sending = thread::spawn(move || {
                let mut accepted = Vec::new();
                for value in 0..3 {
                    accepted.extend(sender.send(Arc::new(value)).is_ok().then_some(value));
                    sender.publish();
                }
                (sender, accepted)
            });
            let mut taken = Vec::new();
            receiver.take(1, |value| taken.push(*value));
            receiver.take(2, |value| taken.push(*value));
            let (sender, accepted) = sending.join().unwrap();
            receiver.take(2, |value| taken.push(*value));
            assert_eq!(taken, accepted);
            drop(sender);
        });
    }

    #[test]
    fn loom_no_bell_for_room_is_lost() {
        loom::model(|| {
            let room = std::sync::Arc::new(ModelBell::default());
            let (mut sender, mut receiver) = channel(1, std::sync::Arc::new(ModelBell::default()), room.clone());
            sender.send(Arc::new(0)).unwrap();
            sender.publish();
            let taking = thread::spawn(move || (receiver.take(1, drop), receiver));
            while !sender.find_room() {
                if sender.await_room() {
                    room.wait();
                    sender.awake();
                }
            }
            sender.send(Arc::new(1)).unwrap();
            drop(taking.join().unwrap());
        });
    }

    #[test]
    fn loom_who_waits_for_room_learns_that_the_receiver_has_gone() {
        loom::model(|| {
            let room = std::sync::Arc::new(ModelBell::default());
            let (mut sender, receiver) = channel(1, std::sync::Arc::new(ModelBell::default()), room.clone());
            sender.send(Arc::new(0)).unwrap();
            let leaving = thread::spawn(move || drop(receiver));
            while !sender.is_closed() {
                if sender.await_room() {
                    room.wait();
                    sender.awake();
                }
            }
            leaving.join().unwrap();
        });
    }

    /// loom's `Arc` counts: a value dropped twice or never fails the model.
    #[test]
    fn loom_values_are_dropped_once_whoever_leaves_first() {
        loom::model(|| {
            let (mut sender, mut receiver, _) = ends(2);
            let value = Arc::new(0_usize);
            let copies = [value.clone(), value.clone(), value.clone()];
            let sending = thread::spawn(move || {
                let [one, two, three] = copies;
                sender.send(one).unwrap();
                sender.publish();
                sender.send(two).unwrap();
                drop(sender.send(three));
            });
            receiver.take(1, |value| assert_eq!(*value, 0));
            drop(receiver);
            sending.join().unwrap();
            assert_eq!(Arc::strong_count(&value), 1);
        });
    }

    #[test]
    fn loom_a_sleeping_receiver_learns_that_the_sender_has_gone() {
        loom::model(|| {
            let (mut sender, mut receiver, bell) = ends(2);
            let sending = thread::spawn(move || sender.send(Arc::new(0)).unwrap());
            let mut taken = 0;
            while !receiver.is_closed() {
                taken += receiver.take(2, drop);
                if !receiver.is_closed() && receiver.before_sleep() {
                    bell.wait();
                    receiver.awake();
                }
            }
            assert_eq!(taken, 1, "what was queued came before the end");
            sending.join().unwrap();
        });
    }

    #[test]
    fn loom_the_sender_learns_that_the_receiver_has_gone() {
        loom::model(|| {
            let (sender, receiver, _) = ends::<u8>(1);
            let receiving = thread::spawn(move || drop(receiver));
            while !sender.is_closed() {
                thread::yield_now();
            }
            receiving.join().unwrap();
        });
    }
}
