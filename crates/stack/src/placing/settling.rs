//! When a packet counts as handled for what waits for it: the next of its flow, where that gets another lane.
//!
//! Each lane sends by a queue of its own, and nobody keeps the order between two. So a datagram is handled when its answer has left, as far as a stack can know that:
//! its socket was handed it, its service had a turn, and what that sent was sent by the port. Without a change nobody waits for it.

use corelane_isr::dispatch::{Number, Placed};

/// Turns after which what a service has not taken, or the port, is waited for no longer: as many datagrams as a queue holds have come by then.
const TURNS_MAX: u32 = 16;

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
    /// All of the ripe were handed to their services before a turn of these: what they send is given to the ports at its end.
    are_taken: bool,
    /// The send that the last of their answers is in.
    mark: Option<u64>,
}

/// What waits as a turn of services begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quiet {
    /// No datagram waits for its socket to receive.
    pub sockets: bool,
    /// The number of the send that was given last to a port; none while something waits to be given.
    pub given: Option<u64>,
    /// The number of the last send that has left, with all before it.
    pub left: u64,
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
        Self { lane, fresh: Handled::new(lanes), ripe: Handled::new(lanes), turns: 0, are_taken: false, mark: None }
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

    /// A turn ends, in which that was quiet when services had theirs. Moves what counts as handled now into `owed`; whether that is something.
    ///
    /// A datagram that waited for its socket in one turn is handed over in the next, and its answer is given to a port at that one's end: so the send to be waited for is known
    /// in the turn behind one in which no socket had any.
    pub fn end_turn(&mut self, quiet: Quiet, owed: &mut [Owed]) -> bool {
        self.turns += 1;
        if self.are_taken && self.mark.is_none() {
            self.mark = quiet.given;
        }
        let have_left = self.mark.is_some_and(|mark| quiet.left >= mark);
        let is_over = self.ripe.is_some && (have_left || self.turns >= TURNS_MAX);
        self.are_taken |= quiet.sockets;
        if is_over {
            for (owed, handled) in owed.iter_mut().zip(&mut self.ripe.by) {
                let pairs = owed.as_flattened_mut().iter_mut().zip(handled.as_flattened_mut());
                pairs.for_each(|(owed, handled)| *owed += std::mem::take(handled));
            }
            (self.ripe.is_some, self.ripe.has_others) = (false, false);
        }
        if !self.ripe.is_some && self.fresh.is_some {
            std::mem::swap(&mut self.fresh, &mut self.ripe);
            (self.turns, self.are_taken, self.mark) = (0, quiet.sockets, None);
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

    const QUIET: Quiet = Quiet { sockets: true, given: Some(7), left: 7 };

    #[test]
    fn what_was_handled_is_told_a_turn_later_or_a_few_where_something_waits() {
        let (mut settling, mut owed) = (Settling::new(0, 2), vec![Owed::default(); 2]);
        let placed = |lane| Placed { lane, generation: 0 };
        settling.add(Number::IP, placed(1));
        settling.add(Number::IP, placed(0));
        assert!(settling.wants_turns(false));
        assert!(!settling.end_turn(QUIET, &mut owed) && settling.end_turn(QUIET, &mut owed));
        assert_eq!(told(&owed), [1, 1]);
        // This lane's own packets hurry nobody without a change.
        settling.add(Number::IP6, placed(0));
        assert!(!settling.wants_turns(false) && settling.wants_turns(true));
        let turns = (0..20).take_while(|_| !settling.end_turn(Quiet::default(), &mut owed)).count();
        assert_eq!((turns, told(&owed)), (TURNS_MAX as usize, vec![2, 1]));
        assert!(!settling.wants_turns(true));
    }

    #[test]
    fn what_waited_for_its_socket_is_told_when_its_answer_has_left() {
        let (mut settling, mut owed) = (Settling::new(0, 2), vec![Owed::default(); 2]);
        settling.add(Number::IP, Placed { lane: 1, generation: 0 });
        // It came when its socket had no receive; it is handed over in the next turn, and a port is given its answer at that one's end, or later.
        for (sockets, given, left, is_told) in [
            (false, Some(3), 3, false),
            (true, Some(3), 3, false),
            (true, None, 3, false),
            (false, Some(5), 4, false),
            (false, Some(6), 4, false),
            (false, Some(7), 5, true),
        ] {
            assert_eq!(settling.end_turn(Quiet { sockets, given, left }, &mut owed), is_told, "{sockets} {given:?} {left}");
        }
        assert_eq!(told(&owed), [0, 1]);
    }
}
