//! How a program tells all its lanes to end, first by draining, then at once; and how a lane learns that it was told something else.

use corelane_seam::Bell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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

/// The doorbell of a lane that may not have its driver yet. Rings before the bell is set are not lost, because a lane looks
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

/// Whether the works of a lane were told something, and how often nobody was there to be told.
#[derive(Default)]
struct Spoken {
    /// Read once a turn. Lanes that are told nothing share nothing that is written.
    waiting: AtomicBool,
    refused: AtomicU64,
}

/// Messages that a work, or all works of a lane, have sent and taken since they began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub(crate) sent: u64,
    pub(crate) taken: u64,
    /// A work has left the lane, and no count has what was sent to it since.
    pub(crate) has_gaps: bool,
}

impl Counts {
    pub(crate) fn and(self, other: Self) -> Self {
        let has_gaps = self.has_gaps || other.has_gaps;
        Self { sent: self.sent + other.sent, taken: self.taken + other.taken, has_gaps }
    }
}

/// Where a lane stands in a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has work of its own, or has not begun to drain.
    Busy,
    /// It has nothing left to do but what others ask of it. The counts are of that moment.
    Quiet(Counts),
    /// It has ended.
    Gone,
}

/// One program's order to all its lanes, written when the program is told to end, and whether words wait. Lanes look once a turn.
pub struct Control {
    order: AtomicU8,
    bells: Vec<Arc<LaneBell>>,
    spoken: Vec<Spoken>,
    /// How the lanes agree on the end of a drain. Touched in a drain only.
    standings: Mutex<Vec<Standing>>,
    all_are_quiet: AtomicBool,
}

impl Control {
    /// For `lanes` lanes, all told to serve.
    pub fn new(lanes: usize) -> Arc<Self> {
        let bells = (0..lanes).map(|_| Arc::default()).collect();
        let spoken = (0..lanes).map(|_| Spoken::default()).collect();
        let order = AtomicU8::new(Order::Serve as u8);
        let standings = Mutex::new(vec![Standing::Busy; lanes]);
        Arc::new(Self { order, bells, spoken, standings, all_are_quiet: AtomicBool::new(false) })
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
        assert!(self.order() >= order, "an order stands, or one of a higher degree");
    }

    /// A work of lane `lane` was told something: wakes the lane.
    pub(crate) fn speak(&self, lane: usize) {
        self.spoken[lane].waiting.swap(true, Ordering::AcqRel);
        self.bells[lane].ring();
    }

    /// A word to lane `lane` was not taken.
    pub(crate) fn refuse_word(&self, lane: usize) {
        self.spoken[lane].refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were not.
    pub(crate) fn words_refused(&self, lane: usize) -> u64 {
        self.spoken[lane].refused.load(Ordering::Relaxed)
    }

    /// Whether a work of lane `lane` was told something.
    pub(crate) fn has_words(&self, lane: usize) -> bool {
        self.spoken[lane].waiting.load(Ordering::Acquire)
    }

    /// Lane `lane` hears all that it was told until now.
    pub(crate) fn hear(&self, lane: usize) {
        self.spoken[lane].waiting.swap(false, Ordering::AcqRel);
    }

    /// Lane `lane` has ended: nobody waits for it in a drain.
    pub(crate) fn lane_ended(&self, lane: usize) {
        self.stand(lane, Standing::Gone);
    }

    /// In a drain, lane `lane` says whether it has nothing left of its own, before others can see what it sends in this turn. Returns
    /// whether no lane has anything left and no message is on its way: then all lanes are told. That stays so, unless a lane or work is
    /// gone: what it sent before may still come.
    pub(crate) fn report_quiet(&self, lane: usize, quiet: Option<Counts>) -> bool {
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
        assert!(standings[lane] != Standing::Gone || standing == Standing::Gone, "a lane that has ended says nothing more");
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

/// Whether no lane has anything to do and no message is on its way. A lane reports its standing before anybody can see what
/// it sent, so counts that agree are those of one moment, in which all were quiet. Messages to or from a lane or
/// work that is gone are in no count any more: then quiet lanes must be enough.
fn are_quiet(standings: &[Standing]) -> bool {
    let (mut sent, mut taken, mut gone) = (0, 0, false);
    for standing in standings {
        match standing {
            Standing::Busy => return false,
            Standing::Quiet(counts) => {
                (sent, taken, gone) = (sent + counts.sent, taken + counts.taken, gone || counts.has_gaps);
            }
            Standing::Gone => gone = true,
        }
    }
    gone || sent == taken
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn counts(sent: u64, taken: u64) -> Option<Counts> {
        Some(Counts { sent, taken, has_gaps: false })
    }

    #[test]
    fn lanes_are_quiet_together_when_nothing_is_on_its_way() {
        let control = Control::new(2);
        assert!(!control.report_quiet(0, counts(1, 0)));
        assert!(!control.report_quiet(1, counts(0, 0)), "a message is on its way");
        assert!(!control.report_quiet(1, None), "it was taken");
        assert!(!control.report_quiet(1, counts(1, 1)), "and answered");
        assert!(!control.report_quiet(0, None));
        assert!(control.report_quiet(0, counts(1, 1)) && control.all_are_quiet());
    }

    #[test]
    fn a_lane_that_is_gone_is_not_waited_for() {
        let control = Control::new(3);
        assert!(!control.report_quiet(0, counts(5, 0)));
        control.lane_ended(1);
        assert!(!control.report_quiet(2, None));
        assert!(control.report_quiet(2, counts(0, 0)));
        assert!(control.report_quiet(0, None), "what the lane that is gone had sent has come");
    }

    #[test]
    fn what_was_sent_to_a_work_that_is_gone_is_not_waited_for() {
        let control = Control::new(2);
        assert!(!control.report_quiet(0, counts(5, 0)));
        assert!(!control.report_quiet(1, counts(0, 4)));
        assert!(control.report_quiet(1, Some(Counts { sent: 0, taken: 4, has_gaps: true })));
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
