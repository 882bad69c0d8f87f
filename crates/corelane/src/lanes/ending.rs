//! How lanes start and end, and who waits for it: what lanes tell of their lives, and the thread that hears it and does what
//! [`Program`] decides.

use crate::error::Error;
use crate::lanes::ended::Ends;
use crate::lanes::unbroken::unbroken;
use crate::lanes::wakes;
use corelane_lane::Control;
use corelane_lane::program::{Event, Program, ProgramEnd, ProgramStep};
use corelane_os::clock;
use corelane_os::report;
use corelane_os::runner::StartGate;
use corelane_os::signals::{Ringer, SIGHUP, SIGUSR1, Signals, Wake, wait};
use corelane_seam::{Level, Record};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The lanes' news of their lives. Made before their threads, which may have descriptor tables of their own.
#[derive(Clone)]
pub(crate) struct Lives {
    /// News that nobody has heard yet: of each lane its gates, its failure and its end at the most.
    told: Arc<Mutex<Vec<Event<Error>>>>,
    ringer: Ringer,
    gate: Arc<StartGate>,
    ends: Arc<Ends>,
}

impl Lives {
    fn new(lanes: usize) -> io::Result<Self> {
        Ok(Self { told: Arc::default(), ringer: Ringer::new()?, gate: Arc::default(), ends: Ends::new(lanes, wakes::start()?) })
    }

    fn tell(&self, event: Event<Error>) {
        // Nothing is changed in two steps.
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.ringer.ring();
    }

    fn take(&self) -> Vec<Event<Error>> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another process serves in place of this one.
    #[cfg(feature = "take-over")]
    pub(crate) fn taken_over(&self) {
        self.tell(Event::TakenOver);
    }

    /// Lives the life of a lane, and tells of its end, however that is.
    pub(crate) fn live(&self, lane: usize, control: &Control, life: impl FnOnce() -> Result<(), String>) {
        let how = unbroken(life).flatten();
        self.tell(Event::Ended { lane, how, order: control.order() });
        self.ends.lane_ended();
    }

    /// With what it has made a lane comes to a gate, waits there for all the others, and passes. None if the start is in vain.
    pub(crate) fn at_gate<T>(&self, lane: usize, number: usize, made: Result<T, Error>) -> Option<T> {
        match made {
            Ok(made) => {
                self.tell(Event::Ready { lane });
                self.gate.pass(number).then_some(made)
            }
            Err(error) => {
                self.tell(Event::CannotStart { error });
                None
            }
        }
    }
}

/// Starts the lanes of a program and waits for their end.
pub(crate) struct Waiter {
    program: Program<Error>,
    lives: Lives,
    control: Arc<Control>,
    /// Calls at SIGHUP, and at SIGUSR1 as well: log files are opened anew.
    at_hangup: Vec<Call>,
    at_rotation: Vec<Call>,
    /// Calls that are made once, before the lanes are told to end.
    at_end: Vec<Call>,
}

/// A call at a moment of the program's life, on the thread that waits for its end.
pub(crate) type Call = Box<dyn Fn() + Send>;

impl Waiter {
    /// For the lanes of `control`.
    ///
    /// # Errors
    /// What the system says of a doorbell, or of a thread.
    pub(crate) fn new(control: Arc<Control>) -> io::Result<Self> {
        let (program, lives) = (Program::new(control.lanes()), Lives::new(control.lanes())?);
        Ok(Self { program, lives, control, at_hangup: Vec::new(), at_rotation: Vec::new(), at_end: Vec::new() })
    }

    /// Has this done, too, at SIGHUP.
    pub(crate) fn at_hangup(&mut self, calls: Vec<Call>) {
        self.at_hangup.extend(calls);
    }

    /// Has this done, too, at SIGUSR1 and SIGHUP.
    pub(crate) fn at_rotation(&mut self, calls: Vec<Call>) {
        self.at_rotation.extend(calls);
    }

    /// Has this done, too, before the lanes are told to end.
    pub(crate) fn at_end(&mut self, call: Call) {
        self.at_end.push(call);
    }

    /// The news of the lanes, for others who have to tell of them.
    pub(crate) fn lives(&self) -> &Lives {
        &self.lives
    }

    /// Where it is said that no lane lives any more.
    pub(crate) fn ends(&self) -> &Arc<Ends> {
        &self.lives.ends
    }

    /// Begins the life of lane `lane`, whose thread runs `begin` and tells of it; it has begun if that succeeds.
    pub(crate) fn begin<T>(&mut self, lane: usize, begin: impl FnOnce(Lives) -> Result<T, Error>) -> Result<T, Error> {
        let begun = begin(self.lives.clone())?;
        self.program.begins(lane);
        Ok(begun)
    }

    /// Waits until all lanes serve. `begun` says whether all have begun.
    ///
    /// # Errors
    /// Why they do not; all that had begun have ended then.
    pub(crate) fn start(&mut self, begun: Result<(), Error>) -> Result<(), Error> {
        if let Err(error) = begun {
            self.hear(Event::CannotStart { error }, &|| {});
        }
        while !self.program.has_started() {
            if let Some(end) = self.program.end() {
                return outcome(end);
            }
            if let Err(error) = self.turn(None, &|| {}) {
                self.hear(Event::CannotStart { error }, &|| {});
            }
        }
        Ok(())
    }

    /// Waits until all lanes have ended. Signals drain them, and then stop them; so does a lane that breaks, each with its bound. `note`
    /// is called before each order.
    ///
    /// # Errors
    /// [`Error::LanePanicked`], [`Error::LanesHang`], or what the system says of waiting.
    pub(crate) fn wait(&mut self, signals: Option<&Signals>, note: impl Fn()) -> Result<(), Error> {
        loop {
            if let Some(end) = self.program.end() {
                // Nobody waits for a lane that is left behind.
                self.lives.ends.give_up();
                return outcome(end);
            }
            self.turn(signals, &note)?;
        }
    }

    /// Waits for what happens next.
    fn turn(&mut self, signals: Option<&Signals>, note: &impl Fn()) -> Result<(), Error> {
        let wake = wait(signals, &self.lives.ringer, self.program.deadline());
        match wake.map_err(|error| Error::System { what: "waiting for signals", error })? {
            Wake::Signal(SIGUSR1) => {
                self.at_rotation.iter().for_each(|call| call());
                report::line(Record::new(Level::Info, "SIGUSR1: log files are opened anew; the lanes go on").of_program());
            }
            Wake::Signal(SIGHUP) => {
                self.at_rotation.iter().chain(&self.at_hangup).for_each(|call| call());
                self.hear(Event::HangUp, note);
            }
            Wake::Signal(_) => self.hear(Event::Told, note),
            Wake::Late => self.hear(Event::Late, note),
            Wake::Rung => self.lives.take().into_iter().for_each(|event| self.hear(event, note)),
        }
        Ok(())
    }

    fn hear(&mut self, event: Event<Error>, note: &impl Fn()) {
        for step in self.program.hear(clock::now(), event) {
            match step {
                ProgramStep::Open => self.lives.gate.open(),
                ProgramStep::Abandon => self.lives.gate.abandon(),
                ProgramStep::Say(level, words) => report::line(Record::new(level, words).of_program()),
                ProgramStep::Give(order) => {
                    self.at_end.drain(..).for_each(|call| call());
                    note();
                    self.control.give(order);
                }
            }
        }
    }
}

fn outcome(end: ProgramEnd<Error>) -> Result<(), Error> {
    match end {
        ProgramEnd::InOrder => Ok(()),
        ProgramEnd::CannotStart(error) => Err(error),
        ProgramEnd::Broken { lane, words, left_behind } => Err(Error::LanePanicked { lane, words, left_behind }),
        ProgramEnd::Hangs { left_behind } => Err(Error::LanesHang { lanes: left_behind }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Ended;
    use corelane_lane::Order;
    use std::thread;

    /// A lane that ends when it is told `order`.
    fn until(control: &Control, order: Order) {
        while control.order() < order {
            thread::yield_now();
        }
    }

    type Life = Box<dyn FnOnce(&Control) + Send>;

    /// Lives these lives behind both gates, each on a thread.
    fn serving(lives: Vec<Life>) -> (Waiter, Arc<Control>) {
        let control = Control::new(lives.len());
        let mut waiter = Waiter::new(control.clone()).unwrap();
        for (lane, life) in lives.into_iter().enumerate() {
            let control = control.clone();
            let body = |told: Lives| {
                thread::spawn(move || {
                    told.live(lane, &control, || {
                        let passes = (1..=2).all(|gate| told.at_gate(lane, gate, Ok(())).is_some());
                        assert!(passes);
                        life(&control);
                        Ok(())
                    });
                });
                Ok(())
            };
            waiter.begin(lane, body).unwrap();
        }
        waiter.start(Ok(())).unwrap();
        (waiter, control)
    }

    fn ends_at(order: Order) -> Life {
        Box::new(move |control| until(control, order))
    }

    #[test]
    fn a_lane_that_breaks_ends_the_others_in_order() {
        let breaks: Life = Box::new(|_| panic!("in pieces"));
        let (mut waiter, control) = serving(vec![ends_at(Order::Drain), breaks, ends_at(Order::Drain)]);
        let Err(Error::LanePanicked { lane, words, left_behind }) = waiter.wait(None, || {}) else { panic!("nobody notices") };
        assert_eq!((lane, words.as_str(), left_behind), (1, "in pieces", 0));
        assert_eq!(control.order(), Order::Drain, "who drains is not stopped");
    }

    #[test]
    fn who_does_not_drain_is_stopped_and_who_does_not_stop_is_left_behind() {
        let (_keep, never) = std::sync::mpsc::channel::<()>();
        let stays: Life = Box::new(move |_| assert!(never.recv().is_err()));
        let (mut waiter, control) = serving(vec![ends_at(Order::Stop), stays, Box::new(|_| panic!("{}", "in pieces"))]);
        let ended = Ended::of(waiter.ends());
        let Err(Error::LanePanicked { lane: 2, left_behind: 1, .. }) = waiter.wait(None, || {}) else { panic!("nobody notices") };
        assert_eq!(control.order(), Order::Stop);
        assert!(ended.is_over(), "nobody waits for who is left behind");
    }

    #[test]
    fn a_second_word_ends_the_wait_though_a_lane_hangs() {
        let (_keep, never) = std::sync::mpsc::channel::<()>();
        let hangs: Life = Box::new(move |_| assert!(never.recv().is_err()));
        let (mut waiter, control) = serving(vec![ends_at(Order::Drain), hangs]);
        let ended = Ended::of(waiter.ends());
        (0..2).for_each(|_| waiter.hear(Event::Told, &|| {}));
        let Err(Error::LanesHang { lanes: 1 }) = waiter.wait(None, || {}) else { panic!("nobody notices") };
        assert_eq!(control.order(), Order::Stop);
        assert!(ended.is_over(), "nobody waits for who is left behind");
    }

    #[test]
    fn lanes_that_were_told_to_end_are_waited_for() {
        let (mut waiter, control) = serving(vec![ends_at(Order::Drain), ends_at(Order::Stop)]);
        control.give(Order::Drain);
        thread::spawn(move || control.give(Order::Stop));
        waiter.wait(None, || {}).unwrap();
    }

    #[test]
    fn a_lane_that_breaks_before_its_gate_ends_the_start() {
        let control = Control::new(2);
        let mut waiter = Waiter::new(control.clone()).unwrap();
        let lane = |lane: usize, breaks: bool| {
            let control = control.clone();
            move |told: Lives| {
                let thread = thread::spawn(move || {
                    told.live(lane, &control, || {
                        assert!(!breaks, "in pieces");
                        assert!(told.at_gate(lane, 1, Ok(())).is_none(), "it is in vain");
                        Ok(())
                    });
                });
                Ok(thread)
            }
        };
        let threads = [waiter.begin(0, lane(0, false)).unwrap(), waiter.begin(1, lane(1, true)).unwrap()];
        let Err(Error::LanePanicked { lane: 1, left_behind: 0, .. }) = waiter.start(Ok(())) else { panic!("nobody notices") };
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn a_thread_that_cannot_be_started_ends_those_that_were() {
        let mut waiter = Waiter::new(Control::new(2)).unwrap();
        let begin = |told: Lives| {
            let control = Control::new(1);
            let thread = thread::spawn(move || {
                told.live(0, &control, || {
                    assert!(told.at_gate(0, 1, Ok(())).is_none(), "it is in vain");
                    Ok(())
                });
            });
            Ok(thread)
        };
        let thread = waiter.begin(0, begin).unwrap();
        let refused = waiter.begin(1, |_| Err::<(), _>(Error::Build { lane: 1 })).map(drop);
        assert!(matches!(waiter.start(refused), Err(Error::Build { lane: 1 })));
        thread.join().unwrap();
    }
}
