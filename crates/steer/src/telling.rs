//! What lanes are told, and what they answer.

use crate::error::Error;
use corelane_lane::Tell;
use corelane_svc::{Command, Steer};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long a lane may take to do what it is told. A turn takes far less, and a lane that leaves a quarter of a second.
const PATIENCE: Duration = Duration::from_secs(10);

/// The line to all lanes.
pub(crate) struct Telling(pub(crate) Tell<Steer>);

impl Telling {
    /// Tells lanes the same, and waits until all of them have done it.
    ///
    /// # Errors
    /// Those of [`Answer::heard`].
    pub(crate) fn all(&self, lanes: &[usize], command: impl Fn() -> Command) -> Result<(), Error> {
        assert!(!lanes.is_empty(), "somebody is told");
        self.ask(lanes, command).into_iter().try_for_each(Answer::heard)
    }

    /// Tells lanes the same, before any of them is waited for.
    pub(crate) fn ask(&self, lanes: &[usize], command: impl Fn() -> Command) -> Vec<Answer> {
        let ask = |&lane: &usize| {
            let (done, answer) = channel();
            // Who gave up waiting hears nothing.
            let reply = Box::new(move |result| drop(done.send(result)));
            // A word that comes back is dropped, and with it who would answer: that is heard in the answer.
            let _ = self.0.tell(lane, Steer { command: command(), reply });
            Answer { lane, answer }
        };
        lanes.iter().map(ask).collect()
    }

    /// Tells a lane, and waits for nothing: lanes call this.
    pub(crate) fn say(&self, lane: usize, command: Command) {
        let _ = self.0.tell(lane, Steer { command, reply: Box::new(drop) });
    }
}

/// What a lane will answer.
pub(crate) struct Answer {
    lane: usize,
    answer: Receiver<Result<(), corelane_svc::Error>>,
}

impl Answer {
    /// Waits for it.
    ///
    /// # Errors
    /// [`Error::Lane`] if it could not do what it was told; [`Error::LaneSilent`]; [`Error::LaneEnded`].
    pub(crate) fn heard(self) -> Result<(), Error> {
        let lane = self.lane;
        match self.answer.recv_timeout(PATIENCE) {
            Ok(done) => done.map_err(|error| Error::Lane { lane, error }),
            Err(RecvTimeoutError::Timeout) => Err(Error::LaneSilent { lane }),
            Err(RecvTimeoutError::Disconnected) => Err(Error::LaneEnded { lane }),
        }
    }
}
