//! The seats of a lane's works: what waits for each, and what each last said about itself.

use crate::control::Counts;
use crate::kit::Kit;
use crate::settings::Budget;
use crate::work::{Said, Seated};
use corelane_seam::{Completion, Handle};

/// The seat of one work.
pub(crate) struct Seat {
    /// None once the work has left.
    pub(crate) work: Option<Box<dyn Seated>>,
    /// Completions for it, in order.
    pub(crate) inbox: Vec<Completion>,
    /// Its timers that have come, in order.
    pub(crate) due: Vec<Handle>,
    pub(crate) said: Said,
    /// Whether there are lanes that it could hear from.
    pub(crate) talks: bool,
    /// Whether the lane lives for it.
    pub(crate) keeps_lane: bool,
}

impl Seat {
    pub(crate) fn new(mut work: Box<dyn Seated>, budget: Budget) -> Self {
        let (talks, keeps_lane) = (work.talks(), work.work().keeps_lane());
        let (inbox, due) = (Vec::with_capacity(budget.completions), Vec::with_capacity(budget.other));
        Self { work: Some(work), inbox, due, said: Said::default(), talks, keeps_lane }
    }
}

/// The seats of all works; a work's number in handles is its place here plus one.
pub(crate) struct Seats {
    pub(crate) seats: Vec<Seat>,
    /// Works that are still there.
    present: usize,
    /// Messages of those that have left.
    gone: Counts,
}

impl Seats {
    pub(crate) fn new(works: impl Iterator<Item = (Box<dyn Seated>, Budget)>) -> Self {
        let seats: Vec<Seat> = works.map(|(work, budget)| Seat::new(work, budget)).collect();
        assert!(seats.len() <= Handle::WORKS_MAX as usize, "a lane has at most {} works", Handle::WORKS_MAX);
        assert!(seats.iter().any(|seat| seat.keeps_lane), "a lane has a work that it lives for");
        Self { present: seats.len(), seats, gone: Counts::default() }
    }

    /// The places of those that are there; one may leave meanwhile.
    pub(crate) fn places(&self) -> std::ops::Range<usize> {
        0..self.seats.len()
    }

    /// The seat of the work that a handle names, if it is still there.
    fn of(&mut self, handle: Handle) -> Option<&mut Seat> {
        // Normal: a work that has left is not told what still came for it, and 0 is nobody's.
        let place = usize::from(handle.work()).checked_sub(1)?;
        self.seats.get_mut(place).filter(|seat| seat.work.is_some())
    }

    /// Whether more than one work shares the lane.
    pub(crate) fn are_shared(&self) -> bool {
        self.present > 1
    }

    /// Whether a work is there that the lane lives for.
    pub(crate) fn keep_lane(&self) -> bool {
        self.seats.iter().any(|seat| seat.keeps_lane && seat.work.is_some())
    }

    /// The place of the work that is alone on its lane; none if there are others, or none at all.
    pub(crate) fn sole(&self) -> Option<usize> {
        let there = self.seats.iter().filter(|seat| seat.work.is_some()).count();
        assert_eq!(there, self.present, "those who are there were counted");
        if self.present == 1 { self.seats.iter().position(|seat| seat.work.is_some()) } else { None }
    }

    /// Whether something waits that is over the budget of its work.
    pub(crate) fn have_waiting(&self) -> bool {
        // A work that was always alone gets everything at once.
        self.seats.len() > 1 && self.seats.iter().any(|seat| !(seat.inbox.is_empty() && seat.due.is_empty()))
    }

    /// How many completions may be collected now: with those that wait, as many as all budgets together.
    pub(crate) fn room(&self, kit: &Kit) -> usize {
        let there = self.seats.iter().enumerate().filter(|(_, seat)| seat.work.is_some());
        there.map(|(place, _)| kit.budget_of(place).completions).sum::<usize>().saturating_sub(self.waiting())
    }

    /// How many timers may come now, by the same rule.
    pub(crate) fn room_for_timers(&self, kit: &Kit) -> usize {
        let there = self.seats.iter().enumerate().filter(|(_, seat)| seat.work.is_some());
        let due: usize = self.seats.iter().map(|seat| seat.due.len()).sum();
        there.map(|(place, _)| kit.budget_of(place).other).sum::<usize>().saturating_sub(due)
    }

    fn waiting(&self) -> usize {
        self.seats.iter().map(|seat| seat.inbox.len()).sum()
    }

    /// Gives each completion to its work; `foreign` gets those whose work is not there.
    pub(crate) fn route(&mut self, completions: &mut Vec<Completion>, mut foreign: impl FnMut(Completion)) {
        let Some(work) = completions.first().map(|first| first.handle.work()) else { return };
        let is_of_one = completions.iter().all(|completion| completion.handle.work() == work);
        // A batch that is all one work's is not moved.
        if is_of_one
            && let Some(seat) = self.of(completions[0].handle)
            && seat.inbox.is_empty()
        {
            std::mem::swap(&mut seat.inbox, completions);
            assert!(completions.is_empty(), "each completion is handed to one work");
            return;
        }
        for completion in completions.drain(..) {
            match self.of(completion.handle) {
                Some(seat) => seat.inbox.push(completion),
                None => foreign(completion),
            }
        }
    }

    /// Gives each timer to its work; returns how many belong to none.
    pub(crate) fn route_timers(&mut self, expired: &mut Vec<Handle>) -> usize {
        let mut foreign = 0;
        for handle in expired.drain(..) {
            match self.of(handle) {
                Some(seat) => seat.due.push(handle),
                None => foreign += 1,
            }
        }
        assert!(expired.is_empty(), "each timer is its work's, or nobody's");
        foreign
    }

    /// Those that could hear from other lanes.
    fn talking(&mut self) -> impl Iterator<Item = &mut Box<dyn Seated>> {
        self.seats.iter_mut().filter(|seat| seat.talks).filter_map(|seat| seat.work.as_mut())
    }

    /// Announces sleep to all lanes; true if no message is waiting.
    pub(crate) fn before_sleep(&mut self) -> bool {
        // All of them are told.
        self.talking().fold(true, |quiet, work| work.before_sleep() & quiet)
    }

    pub(crate) fn awake(&mut self) {
        self.talking().for_each(|work| work.awake());
    }

    /// Makes visible what was sent; returns how many bells were rung, and how many were not needed.
    pub(crate) fn publish(&mut self, all: bool) -> (u64, u64) {
        let sent = self.seats.iter_mut().filter(|seat| seat.said.sent || all && seat.talks);
        let published = sent.filter_map(|seat| {
            seat.said.sent = false;
            seat.work.as_mut().map(|work| work.publish())
        });
        published.fold((0, 0), |(rung, spared), (more, fewer)| (rung + more, spared + fewer))
    }

    /// Messages sent and taken by all works since the lane began.
    pub(crate) fn counts(&mut self) -> Counts {
        let gone = self.gone;
        self.talking().fold(gone, |counts, work| counts.and(work.counts()))
    }

    /// Takes a work from its seat; the seat stays empty.
    pub(crate) fn vacate(&mut self, place: usize) -> (Box<dyn Seated>, Vec<Completion>, Vec<Handle>) {
        let seat = &mut self.seats[place];
        // reason: callers have seen it there.
        let mut work = seat.work.take().expect("a work leaves once");
        let mut counts = work.counts();
        counts.has_gaps = seat.talks;
        self.gone = self.gone.and(counts);
        assert!(self.present > 0, "whoever leaves was counted as present");
        self.present -= 1;
        seat.said = Said::default();
        (work, std::mem::take(&mut seat.inbox), std::mem::take(&mut seat.due))
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::settings::LaneSettings;
    use crate::work::{Work, Works};
    use corelane_seam::{Arena, Driver, Outcome, Record};
    use corelane_watch::{Description, LaneName, Page};

    /// Does nothing.
    struct Idle;

    impl Work for Idle {
        fn name(&self) -> &'static str {
            "idle"
        }
        fn complete(&mut self, _: &mut Kit, _: Completion) {}
        fn serve(&mut self, _: &mut Kit) {}
        fn flush(&mut self, _: &mut Kit) {}
        fn has_work(&self) -> bool {
            false
        }
        fn has_ended(&self) -> bool {
            false
        }
        fn drain(&mut self, _: &mut Kit, _: &mut dyn Driver) {}
    }

    /// Two works on a lane, which may take so many completions and timers of a turn.
    fn seats(budgets: [(usize, usize); 2]) -> (Seats, Kit) {
        let lanes = vec![LaneName::default()];
        let page = Page::heap(&Description { program: "test".into(), lanes, ..Description::default() }).unwrap();
        let arena = Arena::new(1 << 20).unwrap();
        let row = page.lane(0).unwrap();
        let mut kit = Kit::new(0, &Control::new(1), arena, row, &LaneSettings::default(), Box::new(|_: Record| {}));
        let budgets = budgets.map(|(completions, other)| Budget { completions, other });
        budgets.into_iter().for_each(|budget| kit.add_work(budget));
        let works = Works::of(Idle).and(Idle).0.into_iter().zip(budgets).map(|((work, _), budget)| (work, budget));
        (Seats::new(works), kit)
    }

    fn handles(work: u8, count: u32) -> Vec<Handle> {
        (0..count).map(|index| Handle::new(0, index, 0).of(work)).collect()
    }

    fn completions(work: u8, count: u32) -> Vec<Completion> {
        handles(work, count).into_iter().map(|handle| Completion::last(handle, Outcome::Released)).collect()
    }

    #[test]
    fn what_waits_and_what_comes_is_within_all_budgets_together() {
        let (mut seats, kit) = seats([(8, 5), (4, 2)]);
        let room = |seats: &Seats| (seats.room(&kit), seats.room_for_timers(&kit));
        assert_eq!(room(&seats), (12, 7));
        seats.route(&mut completions(1, 3), |_| panic!("it is there"));
        assert_eq!(room(&seats), (9, 7));
        // One may take all the room, over its own budget.
        seats.route(&mut completions(2, 9), |_| panic!("it is there"));
        assert_eq!((seats.route_timers(&mut handles(2, 7)), room(&seats)), (0, (0, 0)));
        // With it goes its budget, and what waits for it; the other's is still there.
        seats.vacate(1);
        assert_eq!(room(&seats), (5, 5));
    }

    #[test]
    fn there_is_no_room_where_more_waits_than_the_budgets_of_those_that_are_left() {
        let (mut seats, kit) = seats([(2, 1), (8, 8)]);
        seats.route(&mut completions(1, 6), |_| panic!("it is there"));
        assert_eq!(seats.route_timers(&mut handles(1, 4)), 0);
        seats.vacate(1);
        assert_eq!((seats.room(&kit), seats.room_for_timers(&kit)), (0, 0));
    }
}
