//! How lanes end: told to, or broken; and who waits for it.

use crate::error::Error;
use corelane_lane::Order;
use corelane_os::report::{self, last_panic, panic_words};
use corelane_os::signals::{Deadline, Ringer, SIGHUP, Signals, Wake, wait};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the other lanes may drain when one has broken.
const DRAIN_AFTER_BREAK: Duration = Duration::from_secs(5);

/// How long they may take to stop after that. Who does not is left behind: its service does not return.
const STOP_AFTER_BREAK: Duration = Duration::from_secs(1);

/// What lanes tell of their ends. Made before their threads, which may have descriptor tables of their own.
#[derive(Clone)]
pub(crate) struct Ends {
    state: Arc<Mutex<State>>,
    ringer: Ringer,
}

#[derive(Default)]
struct State {
    ended: usize,
    /// The first lane that broke, and its panic.
    broken: Option<(usize, String)>,
}

impl Ends {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { state: Arc::default(), ringer: Ringer::new()? })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is changed in two steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lives the life of a lane, and tells of its end, however that is.
    pub(crate) fn live(&self, lane: usize, life: impl FnOnce() -> Result<(), String>) {
        let lived = unbroken(life).flatten();
        let mut state = self.lock();
        state.ended += 1;
        if let Err(words) = lived {
            state.broken.get_or_insert((lane, words));
        }
        drop(state);
        self.ringer.ring();
    }

    /// Waits until `lanes` lanes have ended. Signals drain them, and then stop them, by `give`; so does a lane that breaks, each with its bound.
    ///
    /// # Errors
    /// [`Error::LanePanicked`], or what the system says of waiting.
    pub(crate) fn wait(&self, lanes: usize, mut give: impl FnMut(Order), signals: Option<&Signals>) -> Result<(), Error> {
        let mut next = Order::Drain;
        let mut deadline = None;
        let mut advance = || give(std::mem::replace(&mut next, Order::Stop));
        while self.lock().ended < lanes {
            if deadline.is_none() && self.lock().broken.is_some() {
                deadline = Some((Deadline::after(DRAIN_AFTER_BREAK), Order::Drain));
                advance();
            }
            let until = deadline.map(|(until, _)| until);
            match wait(signals, &self.ringer, until).map_err(|error| Error::System { what: "waiting for signals", error })? {
                Wake::Signal(SIGHUP) => report::line("corelane: SIGHUP: there is nothing to read again; serving goes on"),
                Wake::Signal(_) => advance(),
                Wake::Late if deadline.is_some_and(|(_, order)| order == Order::Stop) => break,
                Wake::Late => {
                    deadline = Some((Deadline::after(STOP_AFTER_BREAK), Order::Stop));
                    advance();
                }
                Wake::Rung => {}
            }
        }
        self.outcome(lanes)
    }

    fn outcome(&self, lanes: usize) -> Result<(), Error> {
        let state = self.lock();
        match &state.broken {
            None => Ok(()),
            Some((lane, words)) => {
                Err(Error::LanePanicked { lane: *lane, words: words.clone(), left_behind: lanes - state.ended })
            }
        }
    }
}

/// Calls a part of a lane's life. The error is a panic's place and words.
pub(crate) fn unbroken<R>(part: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(part)).map_err(|payload| {
        let words = last_panic().unwrap_or_else(|| panic_words(payload.as_ref()).to_owned());
        // It is a value of whoever panicked, and may panic as it is dropped.
        std::mem::forget(payload);
        words
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_lane::Control;
    use std::thread;

    /// A lane that ends when it is told `order`.
    fn until(control: &Control, order: Order) {
        while control.order() < order {
            thread::yield_now();
        }
    }

    /// Lives these lives, each on a thread.
    fn lives(ends: &Ends, lives: Vec<Box<dyn FnOnce() + Send>>) {
        for (lane, life) in lives.into_iter().enumerate() {
            let ends = ends.clone();
            let life = || {
                life();
                Ok(())
            };
            thread::spawn(move || ends.live(lane, life));
        }
    }

    #[test]
    fn a_lane_that_breaks_ends_the_others_in_order() {
        let (ends, control) = (Ends::new().unwrap(), Control::new(3));
        let [first, second] = [(); 2].map(|()| {
            let control = control.clone();
            Box::new(move || until(&control, Order::Drain)) as Box<dyn FnOnce() + Send>
        });
        lives(&ends, vec![first, Box::new(|| panic!("in pieces")), second]);
        let Err(Error::LanePanicked { lane, words, left_behind }) = ends.wait(3, |order| control.give(order), None) else {
            panic!("nobody notices")
        };
        assert_eq!((lane, words.as_str(), left_behind), (1, "in pieces", 0));
        assert_eq!(control.order(), Order::Drain, "who drains is not stopped");
    }

    #[test]
    fn who_does_not_drain_is_stopped_and_who_does_not_stop_is_left_behind() {
        let (ends, control) = (Ends::new().unwrap(), Control::new(3));
        let stops = control.clone();
        let (_keep, never) = std::sync::mpsc::channel::<()>();
        lives(
            &ends,
            vec![
                Box::new(move || until(&stops, Order::Stop)),
                Box::new(move || assert!(never.recv().is_err())),
                Box::new(|| panic!("{}", "in pieces")),
            ],
        );
        let Err(Error::LanePanicked { lane: 2, left_behind: 1, .. }) = ends.wait(3, |order| control.give(order), None) else {
            panic!("nobody notices")
        };
        assert_eq!(control.order(), Order::Stop);
    }

    #[test]
    fn lanes_that_were_told_to_end_are_waited_for() {
        let (ends, control) = (Ends::new().unwrap(), Control::new(2));
        let others = control.clone();
        lives(&ends, vec![Box::new(|| {}), Box::new(move || until(&others, Order::Stop))]);
        let ender = control.clone();
        thread::spawn(move || ender.give(Order::Stop));
        ends.wait(2, |order| control.give(order), None).unwrap();
    }
}
