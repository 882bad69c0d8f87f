//! A program of lanes as the one who starts it and waits for it sees it: what has happened goes in, what is to be done comes out.
//!
//! It has neither threads nor a clock nor signals: a runner has them, and the simulator steps it.

use crate::control::Order;
use corelane_seam::Level;

/// How long the other lanes may drain when one has broken, in nanoseconds.
pub const DRAIN_AFTER_BREAK: u64 = 5_000_000_000;

/// How long they may take to stop after that, in nanoseconds. Who does not is left behind: its service does not return.
pub const STOP_AFTER_BREAK: u64 = 1_000_000_000;

/// How long lanes may take to stop when the program was told to end a second time, in nanoseconds. Who does not is left behind.
pub const STOP_AFTER_WORD: u64 = 5_000_000_000;

/// The points that all lanes pass together when they start: each has its driver (and with it its descriptor table), then each listens.
pub const GATES: usize = 2;

/// The words of a lane that ended by itself.
const UNTOLD: &str = "without a word: it ended though nobody had told it to";

/// What has happened. `E` is why a lane cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<E> {
    /// A lane has come to the next gate.
    Ready {
        /// The lane.
        lane: usize,
    },
    /// A lane that was to start cannot; if it has begun, its end comes as well.
    CannotStart {
        /// Why.
        error: E,
    },
    /// A lane that had begun has ended.
    Ended {
        /// The lane.
        lane: usize,
        /// In order, or by a panic of these words.
        how: Result<(), String>,
        /// The order in force when that is noticed.
        order: Order,
    },
    /// Somebody tells the program to end.
    Told,
    /// Another process serves in place of this one: it is to end in order, whether it was told to or not.
    TakenOver,
    /// Somebody asks for settings to be read again.
    HangUp,
    /// Time has passed.
    Late,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramStep {
    /// Let the lanes pass the gate at which they wait.
    Open,
    /// Tell the lanes at their gates, now and later, that the start is in vain.
    Abandon,
    /// Give this order to all lanes.
    Give(Order),
    /// Tell the operator, in the name of the program.
    Say(Level, &'static str),
}

/// How a program has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEnd<E> {
    /// Told to, and every lane has.
    InOrder,
    /// It could not start; no lane is left.
    CannotStart(E),
    /// A lane broke.
    Broken {
        /// The first one.
        lane: usize,
        /// Its words.
        words: String,
        /// Lanes that did not end when they were stopped.
        left_behind: usize,
    },
    /// Told to twice, and some lanes have not.
    Hangs {
        /// How many; one at least.
        left_behind: usize,
    },
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has not begun.
    None,
    /// It has begun, and passed or waits at so many gates.
    Gates(usize),
    Ended,
}

/// One program of lanes.
#[derive(Debug)]
pub struct Program<E> {
    lanes: Vec<Stage>,
    /// Gates that all have passed.
    passed: usize,
    cannot_start: Option<E>,
    broken: Option<(usize, String)>,
    /// What the lanes were told from here.
    told: Order,
    deadline: Option<u64>,
    left_behind: usize,
}

impl<E> Program<E> {
    /// For `lanes` lanes, none of which has begun. At least 1.
    pub fn new(lanes: usize) -> Self {
        assert!(lanes > 0, "a program has a lane");
        Self {
            lanes: vec![Stage::None; lanes],
            passed: 0,
            cannot_start: None,
            broken: None,
            told: Order::Serve,
            deadline: None,
            left_behind: 0,
        }
    }

    /// Lane `lane` begins: it will come to the gates, and end.
    ///
    /// # Panics
    /// If it has begun before, or if the start is in vain.
    pub fn begins(&mut self, lane: usize) {
        assert!(self.lanes[lane] == Stage::None && self.is_starting(), "lane {lane} begins once, while lanes start");
        self.lanes[lane] = Stage::Gates(0);
    }

    /// Whether the start goes on: no lane serves yet, and none has failed.
    pub fn is_starting(&self) -> bool {
        self.passed < GATES && !self.is_in_vain()
    }

    /// Whether every lane serves, or did.
    pub fn has_started(&self) -> bool {
        self.passed == GATES
    }

    /// When [`Event::Late`] is to come, in nanoseconds, on the clock that [`Program::hear`] is told.
    pub fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    /// How it has ended, once it has; asked for once.
    pub fn end(&mut self) -> Option<ProgramEnd<E>> {
        let left = self.lanes.iter().filter(|standing| matches!(standing, Stage::Gates(_))).count();
        if left > self.left_behind || (self.is_starting() && left == 0) {
            return None;
        }
        Some(match (self.broken.take(), self.cannot_start.take()) {
            (Some((lane, words)), _) => ProgramEnd::Broken { lane, words, left_behind: left },
            (None, Some(error)) => ProgramEnd::CannotStart(error),
            (None, None) if left > 0 => ProgramEnd::Hangs { left_behind: left },
            (None, None) => ProgramEnd::InOrder,
        })
    }

    /// Takes note of what has happened at `now`, and returns what is to be done, in this order.
    ///
    /// # Panics
    /// If it cannot have happened.
    pub fn hear(&mut self, now: u64, event: Event<E>) -> Vec<ProgramStep> {
        match event {
            Event::Ready { lane } => self.ready(lane),
            Event::CannotStart { error } => self.fails(error),
            Event::Ended { lane, how, order } => self.ended(now, lane, how, order),
            Event::Told => self.told(now),
            Event::TakenOver if self.told == Order::Serve => self.told(now),
            Event::TakenOver => Vec::new(),
            Event::HangUp => {
                vec![ProgramStep::Say(
                    Level::Info,
                    "SIGHUP: log files are opened anew; files are read again by themselves when they change; serving goes on",
                )]
            }
            Event::Late => self.late(now),
        }
    }

    fn is_in_vain(&self) -> bool {
        self.passed < GATES && (self.cannot_start.is_some() || self.broken.is_some())
    }

    fn ready(&mut self, lane: usize) -> Vec<ProgramStep> {
        let Stage::Gates(gates) = self.lanes[lane] else { panic!("lane {lane} is at a gate and does not live") };
        assert!(gates < GATES, "lane {lane} has passed all gates");
        self.lanes[lane] = Stage::Gates(gates + 1);
        if self.is_in_vain() || !self.lanes.iter().all(|standing| *standing == Stage::Gates(self.passed + 1)) {
            return Vec::new();
        }
        self.passed += 1;
        assert!(self.passed <= GATES, "lanes pass each gate once, together");
        vec![ProgramStep::Open]
    }

    fn fails(&mut self, error: E) -> Vec<ProgramStep> {
        assert!(self.passed < GATES, "whoever serves has started");
        let is_first = !self.is_in_vain();
        self.cannot_start.get_or_insert(error);
        if is_first { self.give_up() } else { Vec::new() }
    }

    /// Nobody serves: those that have begun end at their gates.
    fn give_up(&mut self) -> Vec<ProgramStep> {
        assert!(self.is_in_vain(), "a start is given up for a reason");
        self.told = Order::Stop;
        vec![ProgramStep::Abandon, ProgramStep::Give(Order::Stop)]
    }

    fn ended(&mut self, now: u64, lane: usize, how: Result<(), String>, order: Order) -> Vec<ProgramStep> {
        assert!(matches!(self.lanes[lane], Stage::Gates(_)), "lane {lane} lived until now");
        self.lanes[lane] = Stage::Ended;
        let may_end = self.is_in_vain() || (self.has_started() && order > Order::Serve);
        let how = how.and_then(|()| if may_end { Ok(()) } else { Err(UNTOLD.to_owned()) });
        let Err(words) = how else { return Vec::new() };
        if self.broken.is_some() || self.is_in_vain() {
            return Vec::new();
        }
        let has_started = self.has_started();
        self.broken = Some((lane, words));
        if has_started { self.end_others(now) } else { self.give_up() }
    }

    /// A lane is broken: the others may finish what they have begun, for some time.
    fn end_others(&mut self, now: u64) -> Vec<ProgramStep> {
        if self.told == Order::Stop {
            self.deadline = Some(now.saturating_add(STOP_AFTER_BREAK));
            return Vec::new();
        }
        self.deadline = Some(now.saturating_add(DRAIN_AFTER_BREAK));
        self.give(Order::Drain)
    }

    fn told(&mut self, now: u64) -> Vec<ProgramStep> {
        match self.told {
            Order::Serve => self.give(Order::Drain),
            Order::Drain => self.stop(now),
            Order::Stop => Vec::new(),
        }
    }

    fn late(&mut self, now: u64) -> Vec<ProgramStep> {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        if self.told != Order::Stop {
            return self.stop(now);
        }
        self.deadline = None;
        self.left_behind = self.lanes.len();
        Vec::new()
    }

    fn stop(&mut self, now: u64) -> Vec<ProgramStep> {
        let limit = if self.broken.is_some() { STOP_AFTER_BREAK } else { STOP_AFTER_WORD };
        self.deadline = Some(now.saturating_add(limit));
        self.give(Order::Stop)
    }

    fn give(&mut self, order: Order) -> Vec<ProgramStep> {
        if self.told >= order {
            return Vec::new();
        }
        assert!(order > Order::Serve, "lanes serve without being told");
        self.told = order;
        vec![ProgramStep::Give(order)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose lanes all serve.
    fn serving(lanes: usize) -> Program<&'static str> {
        let mut program = Program::new(lanes);
        (0..lanes).for_each(|lane| program.begins(lane));
        for _ in 0..GATES {
            for lane in 0..lanes {
                assert!(program.is_starting() && !program.has_started());
                let opens: &[ProgramStep] = if lane + 1 == lanes { &[ProgramStep::Open] } else { &[] };
                assert_eq!(program.hear(0, Event::Ready { lane }), opens);
            }
        }
        assert!(program.has_started() && !program.is_starting() && program.end().is_none());
        program
    }

    fn ends(lane: usize, order: Order) -> Event<&'static str> {
        Event::Ended { lane, how: Ok(()), order }
    }

    fn breaks(lane: usize, order: Order) -> Event<&'static str> {
        Event::Ended { lane, how: Err(format!("words of {lane}")), order }
    }

    fn broken(lane: usize, left_behind: usize) -> Option<ProgramEnd<&'static str>> {
        Some(ProgramEnd::Broken { lane, words: format!("words of {lane}"), left_behind })
    }

    const DRAIN: [ProgramStep; 1] = [ProgramStep::Give(Order::Drain)];
    const STOP: [ProgramStep; 1] = [ProgramStep::Give(Order::Stop)];
    const GIVE_UP: [ProgramStep; 2] = [ProgramStep::Abandon, ProgramStep::Give(Order::Stop)];

    #[test]
    fn the_first_word_drains_the_second_stops_and_all_are_waited_for() {
        let mut program = serving(2);
        assert!(
            matches!(program.hear(1, Event::HangUp)[..], [ProgramStep::Say(Level::Info, words)] if words.starts_with("SIGHUP: "))
        );
        assert_eq!(program.hear(1, Event::Told), DRAIN);
        assert_eq!(program.hear(2, ends(1, Order::Drain)), []);
        assert_eq!((program.end(), program.deadline()), (None, None));
        assert_eq!(program.hear(3, Event::Told), STOP);
        assert_eq!(program.hear(4, Event::Told), [], "there is nothing more to say");
        program.hear(5, ends(0, Order::Stop));
        assert_eq!(program.end(), Some(ProgramEnd::InOrder));
    }

    #[test]
    fn a_lane_that_hangs_is_left_behind_after_the_second_word_and_not_before() {
        let mut program = serving(2);
        program.hear(1, Event::Told);
        assert_eq!(program.deadline(), None, "a drain has the lanes' own limit");
        program.hear(3, Event::Told);
        let leave_at = 3 + STOP_AFTER_WORD;
        assert_eq!(program.deadline(), Some(leave_at));
        program.hear(4, ends(1, Order::Stop));
        assert_eq!((program.hear(leave_at - 1, Event::Late), program.end()), (vec![], None), "not yet");
        assert_eq!((program.hear(leave_at, Event::Late), program.deadline()), (vec![], None));
        assert_eq!(program.end(), Some(ProgramEnd::Hangs { left_behind: 1 }));
    }

    #[test]
    fn a_broken_lane_drains_the_others_then_stops_them_then_leaves_them_behind() {
        let mut program = serving(3);
        assert_eq!(program.hear(10, breaks(1, Order::Serve)), DRAIN);
        let stop_at = 10 + DRAIN_AFTER_BREAK;
        assert_eq!(program.deadline(), Some(stop_at));
        assert_eq!(program.hear(stop_at - 1, Event::Late), [], "not yet");
        assert_eq!(program.hear(stop_at, Event::Late), STOP);
        program.hear(stop_at, breaks(0, Order::Stop));
        let leave_at = stop_at + STOP_AFTER_BREAK;
        assert_eq!((program.deadline(), program.end()), (Some(leave_at), None), "a second break changes nothing");
        assert_eq!(program.hear(leave_at, Event::Late), []);
        assert_eq!(program.end(), broken(1, 1), "the first is named, and the third is left");
    }

    #[test]
    fn a_lane_that_breaks_in_a_drain_lets_the_others_finish() {
        let mut program = serving(2);
        program.hear(10, Event::Told);
        assert_eq!(program.hear(20, breaks(0, Order::Drain)), [], "they drain already");
        assert_eq!(program.deadline(), Some(20 + DRAIN_AFTER_BREAK));
        program.hear(30, ends(1, Order::Drain));
        assert_eq!(program.end(), broken(0, 0));
    }

    #[test]
    fn after_a_break_a_word_stops_and_what_is_stopped_has_its_bound() {
        let mut program = serving(2);
        program.hear(10, breaks(0, Order::Serve));
        assert_eq!(program.hear(20, Event::Told), STOP);
        assert_eq!(program.deadline(), Some(20 + STOP_AFTER_BREAK));
        let mut program = serving(2);
        (0..2).for_each(|_| drop(program.hear(10, Event::Told)));
        assert_eq!(program.hear(20, breaks(0, Order::Stop)), []);
        assert_eq!(program.deadline(), Some(20 + STOP_AFTER_BREAK));
        program.hear(20 + STOP_AFTER_BREAK, Event::Late);
        assert_eq!(program.end(), broken(0, 1));
    }

    #[test]
    fn a_lane_that_ends_by_itself_is_broken_unless_all_were_told_to() {
        let mut program = serving(2);
        assert_eq!(program.hear(1, ends(0, Order::Serve)), DRAIN);
        program.hear(2, ends(1, Order::Drain));
        assert_eq!(program.end(), Some(ProgramEnd::Broken { lane: 0, words: UNTOLD.to_owned(), left_behind: 0 }));
        // Somebody else gave the order.
        let mut program = serving(1);
        assert_eq!(program.hear(1, ends(0, Order::Drain)), []);
        assert_eq!(program.end(), Some(ProgramEnd::InOrder));
    }

    #[test]
    fn a_start_that_fails_ends_those_that_have_begun_and_no_other() {
        let mut program = Program::new(3);
        program.begins(0);
        assert_eq!(program.end(), None);
        program.hear(0, Event::Ready { lane: 0 });
        assert_eq!(program.hear(1, Event::CannotStart { error: "no thread" }), GIVE_UP);
        assert!(!program.is_starting() && !program.has_started());
        assert_eq!(program.end(), None, "lane 0 lives");
        assert_eq!(program.hear(2, Event::CannotStart { error: "another" }), [], "told once");
        assert_eq!(program.hear(2, breaks(0, Order::Stop)), []);
        assert_eq!(program.end(), Some(ProgramEnd::CannotStart("no thread")), "why it failed first");
    }

    #[test]
    fn a_lane_that_ends_before_it_serves_ends_the_start() {
        for (how, order) in [(Err("words of 1".to_owned()), Order::Serve), (Ok(()), Order::Serve), (Ok(()), Order::Drain)] {
            let mut program = Program::<&str>::new(2);
            (0..2).for_each(|lane| program.begins(lane));
            program.hear(0, Event::Ready { lane: 0 });
            let words = how.clone().err().unwrap_or(UNTOLD.to_owned());
            assert_eq!(program.hear(1, Event::Ended { lane: 1, how, order }), GIVE_UP);
            program.hear(2, ends(0, Order::Stop));
            assert_eq!(program.end(), Some(ProgramEnd::Broken { lane: 1, words, left_behind: 0 }));
        }
    }

    #[test]
    fn no_gate_opens_when_the_start_is_in_vain() {
        let mut program = Program::new(2);
        (0..2).for_each(|lane| program.begins(lane));
        program.hear(0, Event::Ready { lane: 0 });
        program.hear(0, Event::CannotStart { error: "a thing" });
        assert_eq!(program.hear(0, Event::Ready { lane: 1 }), []);
    }

    #[test]
    #[should_panic(expected = "lived until now")]
    fn a_lane_ends_once() {
        let mut program = serving(1);
        (0..2).for_each(|_| drop(program.hear(1, ends(0, Order::Drain))));
    }
}
