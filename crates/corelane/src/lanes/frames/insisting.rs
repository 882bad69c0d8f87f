//! Orders that a packet lane has to take, sooner or later: a lane whose words are full is told when there is room.
//!
//! A lane hears all its words in each turn, so they are full only while a turn takes long. An order that was given up then would stay undone for good: a channel that
//! nobody has goes on being filled, or a lane goes by a table that is no more.

use corelane_lane::{Silence, Tell, Unheard};
use corelane_stack::Policy;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, sleep};
use std::time::Duration;

/// How long is waited until a lane that has no room is told again, at first and at the most.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Gives orders to lanes, and goes on until they are taken. Of one source: orders of two are in no order.
pub(crate) struct Insisting(Arc<Teller>);

struct Teller {
    tell: Tell<Policy>,
    owed: Mutex<Owed>,
}

struct Owed {
    /// Orders that each lane is still to be told, the oldest first.
    lanes: Vec<VecDeque<Policy>>,
    /// A thread is telling it.
    is_told: bool,
}

impl Insisting {
    /// For so many lanes.
    pub(crate) fn new(tell: Tell<Policy>, lanes: usize) -> Self {
        let owed = Owed { lanes: (0..lanes).map(|_| VecDeque::new()).collect(), is_told: false };
        Self(Arc::new(Teller { tell, owed: Mutex::new(owed) }))
    }

    /// Whether an order waits until a lane has room for it, which is looked at now.
    pub(crate) fn owes(&self, lane: usize) -> bool {
        let mut owed = self.0.lock();
        let _all = self.0.pay(&mut owed);
        !owed.lanes[lane].is_empty()
    }

    /// Gives a lane an order: now, or when it has room, behind those before. A table takes the place of one that is still to be told. An order to a lane without
    /// room is bounded by what gives it: tables are one, and a channel is closed once that the lane has opened.
    pub(crate) fn order(&self, lane: usize, policy: Policy) {
        let mut owed = self.0.lock();
        let waiting = &mut owed.lanes[lane];
        if matches!(policy, Policy::Table(_)) {
            waiting.retain(|earlier| !matches!(earlier, Policy::Table(_)));
        }
        waiting.push_back(policy);
        if !self.0.pay(&mut owed) && !owed.is_told {
            let shared = self.0.clone();
            // Where there is no thread to be had, the next order tries again.
            owed.is_told = Builder::new().name("orders".to_owned()).spawn(move || shared.pay_all()).is_ok();
        }
    }
}

impl Teller {
    fn lock(&self) -> MutexGuard<'_, Owed> {
        // A panic leaves nothing by halves: each order is in its list or told.
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pay_all(&self) {
        let mut pause = PAUSE;
        loop {
            sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
            let mut owed = self.lock();
            if self.pay(&mut owed) {
                owed.is_told = false;
                return;
            }
        }
    }

    /// Tells lanes what they have room for; whether nothing is left.
    fn pay(&self, owed: &mut Owed) -> bool {
        for (lane, waiting) in owed.lanes.iter_mut().enumerate() {
            while self.tell.has_room(lane)
                && let Some(policy) = waiting.pop_front()
            {
                match self.tell.tell(lane, policy) {
                    Ok(()) => {}
                    // A lane that has ended has no packets.
                    Err(Unheard { why: Silence::Gone, .. }) => waiting.clear(),
                    Err(Unheard { why: Silence::Full, word }) => {
                        waiting.push_front(word);
                        break;
                    }
                }
            }
        }
        owed.lanes.iter().all(VecDeque::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_lane::Control;
    use corelane_rss::{Buckets, Table};

    fn table(lane: usize) -> Policy {
        let mut table = Table::even(Buckets::DEFAULT, 2).unwrap();
        let first = table.buckets().all().next().unwrap();
        table.set(first, lane).unwrap();
        Policy::Table(table)
    }

    #[test]
    fn a_lane_without_room_is_told_in_order_when_it_has_some_and_of_tables_the_last() {
        let control = Control::new(1);
        let (tell, mut ears) = control.words::<Policy>();
        let insisting = Insisting::new(tell.clone(), 1);
        while tell.has_room(0) {
            tell.tell(0, Policy::CloseChannel(0)).unwrap();
        }
        insisting.order(0, table(0));
        insisting.order(0, Policy::CloseChannel(7));
        insisting.order(0, table(1));
        insisting.order(0, Policy::CloseChannel(8));
        // The words before, which filled it up.
        assert!(ears[0].take().all(|policy| matches!(policy, Policy::CloseChannel(0))));
        let mut heard = Vec::new();
        while heard.len() < 3 {
            heard.extend(ears[0].take());
            std::thread::yield_now();
        }
        assert!(matches!(&heard[..], [Policy::CloseChannel(7), Policy::Table(_), Policy::CloseChannel(8)]), "{heard:?}");
        let Policy::Table(told) = &heard[1] else { unreachable!() };
        assert!(matches!(table(1), Policy::Table(last) if last == *told));
        insisting.order(0, Policy::CloseChannel(9));
        assert!(matches!(ears[0].take().next(), Some(Policy::CloseChannel(9))), "at once where there is room");
    }

    #[test]
    fn a_lane_that_is_gone_is_owed_nothing() {
        let control = Control::new(1);
        let (tell, ears) = control.words::<Policy>();
        let insisting = Insisting::new(tell.clone(), 1);
        while tell.has_room(0) {
            tell.tell(0, Policy::CloseChannel(0)).unwrap();
        }
        insisting.order(0, Policy::CloseChannel(7));
        drop(ears);
        while !insisting.0.lock().lanes[0].is_empty() {
            std::thread::yield_now();
        }
    }
}
