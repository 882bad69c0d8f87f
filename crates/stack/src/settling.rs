//! When a packet counts as handled for what waits for it: the next of its flow, where that gets another lane.
//!
//! Each lane sends by a queue of its own, and nobody keeps the order between two. So a datagram is handled when its answer has left, as far as a stack can know that:
//! its socket was handed it, its service had a turn, and what that sent is the port's. Without a change nobody waits for it.

use corelane_isr::dispatch::{Number, Placed};

/// Turns after which what a service has not taken, or the port, is waited for no longer: as many datagrams as a queue holds have come by then.
const TURNS_MAX: u32 = 4;

/// How many packets of one lane were handled here, by protocol and by that lane's generation.
pub(crate) type Owed = [[u32; Placed::GENERATIONS]; Number::COUNT];

/// Packets that were handled, and are not told of yet, by the lane that has placed them.
#[derive(Debug)]
pub(crate) struct Settling {
    lane: usize,
    /// Since the others were.
    fresh: Handled,
    /// Whose answers are waited for, and for how many turns.
    ripe: Handled,
    turns: u32,
}

#[derive(Debug)]
struct Handled {
    by: Vec<Owed>,
    is_some: bool,
    /// Another lane has placed some.
    has_others: bool,
}

impl Handled {
    fn new(lanes: usize) -> Self {
        Self { by: vec![Owed::default(); lanes], is_some: false, has_others: false }
    }
}

impl Settling {
    /// Of lane `lane` of so many.
    pub fn new(lane: usize, lanes: usize) -> Self {
        Self { lane, fresh: Handled::new(lanes), ripe: Handled::new(lanes), turns: 0 }
    }

    /// A packet was handled.
    pub fn add(&mut self, number: Number, placed: Placed) {
        self.fresh.by[placed.lane][usize::from(number.number()) - 1][usize::from(placed.generation)] += 1;
        self.fresh.is_some = true;
        self.fresh.has_others |= placed.lane != self.lane;
    }

    /// Whether turns are wanted although nothing comes: others wait to be told, or this lane does.
    pub fn wants_turns(&self, is_changing: bool) -> bool {
        let is_some = self.fresh.is_some || self.ripe.is_some;
        self.fresh.has_others || self.ripe.has_others || (is_changing && is_some)
    }

    /// A turn ends, in which nothing waited for sockets or for the port, or something did. Moves what counts as handled now into `owed`; whether that is something.
    pub fn end_turn(&mut self, is_quiet: bool, owed: &mut [Owed]) -> bool {
        self.turns += 1;
        let is_over = self.ripe.is_some && (is_quiet || self.turns >= TURNS_MAX);
        if is_over {
            for (owed, handled) in owed.iter_mut().zip(&mut self.ripe.by) {
                let pairs = owed.as_flattened_mut().iter_mut().zip(handled.as_flattened_mut());
                pairs.for_each(|(owed, handled)| *owed += std::mem::take(handled));
            }
            (self.ripe.is_some, self.ripe.has_others) = (false, false);
        }
        if !self.ripe.is_some && self.fresh.is_some {
            std::mem::swap(&mut self.fresh, &mut self.ripe);
            self.turns = 0;
        }
        is_over
    }

    /// Lane `from` has ended: nobody there hears of what was handled.
    pub fn parted(&mut self, from: usize) {
        self.fresh.by[from] = Owed::default();
        self.ripe.by[from] = Owed::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(owed: &[Owed]) -> Vec<u32> {
        owed.iter().map(|owed| owed.as_flattened().iter().sum()).collect()
    }

    #[test]
    fn what_was_handled_is_told_a_turn_later_or_a_few_where_something_waits() {
        let (mut settling, mut owed) = (Settling::new(0, 2), vec![Owed::default(); 2]);
        let placed = |lane| Placed { lane, generation: 0 };
        settling.add(Number::IP, placed(1));
        settling.add(Number::IP, placed(0));
        assert!(settling.wants_turns(false));
        assert!(!settling.end_turn(true, &mut owed) && settling.end_turn(true, &mut owed));
        assert_eq!(told(&owed), [1, 1]);
        // This lane's own packets hurry nobody without a change.
        settling.add(Number::IP6, placed(0));
        assert!(!settling.wants_turns(false) && settling.wants_turns(true));
        let turns = (0..20).take_while(|_| !settling.end_turn(false, &mut owed)).count();
        assert_eq!((turns, told(&owed)), (TURNS_MAX as usize, vec![2, 1]));
        assert!(!settling.wants_turns(true));
    }
}
