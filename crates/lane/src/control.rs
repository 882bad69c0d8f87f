//! How a program tells its lanes what to do: all of them to end, first by draining, then at once; or one of them anything else.

use corelane_seam::Bell;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What the lanes have been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Serve.
    Serve,
    /// Refuse new connections, answer what was asked, end.
    Drain,
    /// End at once.
    Stop,
}

/// The doorbell of a lane that may not have its driver yet: rings before it is set are not lost, because a lane looks
/// at its channels and its order before it first sleeps.
#[derive(Default)]
pub struct LaneBell(OnceLock<Arc<dyn Bell>>);

impl LaneBell {
    /// Connects the bell of the lane's driver; later calls change nothing.
    pub fn set(&self, bell: Arc<dyn Bell>) {
        let _ = self.0.set(bell);
    }
}

impl Bell for LaneBell {
    fn ring(&self) {
        if let Some(bell) = self.0.get() {
            bell.ring();
        }
    }
}

/// What one lane is told from outside of the lanes, as its work understands it.
pub type Word = Box<dyn Any + Send>;

/// What a lane was told and has not heard yet.
#[derive(Default)]
struct Words {
    /// Read once a turn; so lanes that are told nothing share nothing that is written.
    waiting: AtomicBool,
    words: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    words: Vec<Word>,
    /// The lane is gone and hears no more.
    is_over: bool,
}

impl Words {
    fn lock(&self) -> MutexGuard<'_, Told> {
        // What a panic left behind is whole: nothing is changed in two steps.
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Messages that one lane has sent and taken since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) taken: u64,
}

/// Where a lane stands in a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has work of its own, or has not begun to drain.
    Busy,
    /// It has nothing left to do but what others ask of it, and had exchanged so many messages then.
    Quiet(Counts),
    /// It is no more.
    Gone,
}

/// One program's order to all its lanes, written when the program is told to end, and words to single ones. Lanes look once a turn.
pub struct Control {
    order: AtomicU8,
    bells: Vec<Arc<LaneBell>>,
    words: Vec<Words>,
    /// How the lanes agree on the end of a drain. Touched in a drain only.
    standings: Mutex<Vec<Standing>>,
    all_are_quiet: AtomicBool,
}

impl Control {
    /// For `lanes` lanes, all told to serve.
    pub fn new(lanes: usize) -> Arc<Self> {
        let bells = (0..lanes).map(|_| Arc::default()).collect();
        let words = (0..lanes).map(|_| Words::default()).collect();
        let order = AtomicU8::new(Order::Serve as u8);
        let standings = Mutex::new(vec![Standing::Busy; lanes]);
        Arc::new(Self { order, bells, words, standings, all_are_quiet: AtomicBool::new(false) })
    }

    /// The order in force.
    pub fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            0 => Order::Serve,
            1 => Order::Drain,
            _ => Order::Stop,
        }
    }

    /// Gives an order and wakes all lanes; an earlier order of a higher degree stays in force.
    pub fn give(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
        self.bells.iter().for_each(|bell| bell.ring());
    }

    /// Tells lane `lane` something, which its work hears in its next turn ([`Work::told`](crate::Work::told)). A word to a lane
    /// that has ended is dropped; what waits for an answer must notice that.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn tell(&self, lane: usize, word: Word) {
        let words = &self.words[lane];
        let mut told = words.lock();
        if told.is_over {
            return;
        }
        told.words.push(word);
        drop(told);
        words.waiting.swap(true, Ordering::AcqRel);
        self.bells[lane].ring();
    }

    /// Whether lane `lane` was told something.
    pub(crate) fn has_words(&self, lane: usize) -> bool {
        self.words[lane].waiting.load(Ordering::Acquire)
    }

    /// All that lane `lane` was told, in order.
    pub(crate) fn take_words(&self, lane: usize) -> Vec<Word> {
        self.words[lane].waiting.swap(false, Ordering::AcqRel);
        std::mem::take(&mut self.words[lane].lock().words)
    }

    /// Lane `lane` has ended: what it was told is dropped, now and later, and nobody waits for it in a drain.
    pub(crate) fn lane_ended(&self, lane: usize) {
        let mut told = self.words[lane].lock();
        told.is_over = true;
        told.words.clear();
        drop(told);
        self.stand(lane, Standing::Gone);
    }

    /// In a drain, lane `lane` says whether it has nothing left of its own, before what it sends in this turn can be seen. Answers
    /// whether no lane has, and no message is on its way: then none will ever have again, and all are told.
    pub(crate) fn is_quiet(&self, lane: usize, quiet: Option<Counts>) -> bool {
        self.stand(lane, quiet.map_or(Standing::Busy, Standing::Quiet));
        self.all_are_quiet()
    }

    /// Whether the lanes have agreed that a drain is over.
    pub(crate) fn all_are_quiet(&self) -> bool {
        self.all_are_quiet.load(Ordering::Acquire)
    }

    fn stand(&self, lane: usize, standing: Standing) {
        // What a panic left behind is whole: nothing is changed in two steps.
        let mut standings = self.standings.lock().unwrap_or_else(PoisonError::into_inner);
        standings[lane] = standing;
        let over = are_quiet(&standings);
        drop(standings);
        if over && !self.all_are_quiet.swap(true, Ordering::AcqRel) {
            self.bells.iter().for_each(|bell| bell.ring());
        }
    }

    /// The doorbell of lane `lane`.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn bell(&self, lane: usize) -> &Arc<LaneBell> {
        &self.bells[lane]
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.bells.len()
    }
}

/// Whether no lane has anything to do, and no message is on its way. A lane says anew how it stands before anybody can see what
/// it sent; so counts that agree are those of one moment, in which all were quiet. What went to, or came from, a lane that
/// is gone is in no count any more: then being quiet must do.
fn are_quiet(standings: &[Standing]) -> bool {
    let (mut sent, mut taken, mut gone) = (0, 0, false);
    for standing in standings {
        match standing {
            Standing::Busy => return false,
            Standing::Quiet(counts) => (sent, taken) = (sent + counts.sent, taken + counts.taken),
            Standing::Gone => gone = true,
        }
    }
    gone || sent == taken
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn counts(sent: u64, taken: u64) -> Option<Counts> {
        Some(Counts { sent, taken })
    }

    #[test]
    fn lanes_are_quiet_together_when_nothing_is_on_its_way() {
        let control = Control::new(2);
        assert!(!control.is_quiet(0, counts(1, 0)));
        assert!(!control.is_quiet(1, counts(0, 0)), "a message is on its way");
        assert!(!control.is_quiet(1, None), "it was taken");
        assert!(!control.is_quiet(1, counts(1, 1)), "and answered");
        assert!(!control.is_quiet(0, None));
        assert!(control.is_quiet(0, counts(1, 1)) && control.all_are_quiet());
    }

    #[test]
    fn a_lane_that_is_gone_is_not_waited_for() {
        let control = Control::new(3);
        assert!(!control.is_quiet(0, counts(5, 0)));
        control.lane_ended(1);
        assert!(!control.is_quiet(2, None));
        assert!(control.is_quiet(2, counts(0, 0)));
    }

    #[test]
    fn words_are_heard_in_order_until_the_lane_has_ended() {
        let control = Control::new(2);
        (0..3).for_each(|number: i32| control.tell(1, Box::new(number)));
        assert!(control.has_words(1) && !control.has_words(0));
        let heard: Vec<i32> = control.take_words(1).into_iter().map(|word| *word.downcast().unwrap()).collect();
        assert_eq!((heard, control.has_words(1)), (vec![0, 1, 2], false));
        let answer = Arc::new(());
        control.tell(0, Box::new(answer.clone()));
        control.lane_ended(0);
        control.tell(0, Box::new(answer.clone()));
        assert_eq!(Arc::strong_count(&answer), 1, "an ended lane keeps no word");
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_lane_that_there_is_not_is_told_nothing() {
        Control::new(2).tell(2, Box::new(7));
    }

    #[test]
    fn an_order_is_never_taken_back() {
        let control = Control::new(2);
        assert_eq!(control.order(), Order::Serve);
        control.give(Order::Stop);
        control.give(Order::Drain);
        assert_eq!(control.order(), Order::Stop);
    }
}
