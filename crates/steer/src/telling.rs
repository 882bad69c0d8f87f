//! What lanes are told, and what they answer.

use crate::error::Error;
use corelane_lane::{Silence, Tell};
use corelane_svc::{Command, Steer};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long a lane may take to do what it is told. A turn takes far less, and a lane that leaves a quarter of a second.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked whether a lane has room for one word more, and how long is waited each time: as long as for its answer.
const LOOKS_MAX: u32 = 1_000;
const LOOK: Duration = Duration::from_millis(10);

/// Lets some time pass.
pub(crate) fn wait(time: Duration) {
    let (_silent, nothing) = channel::<()>();
    // Nobody speaks here, so to listen is to wait.
    let _ = nothing.recv_timeout(time);
}

/// The line to all lanes.
pub(crate) struct Telling(pub(crate) Tell<Steer>);

impl Telling {
    /// Tells lanes the same, and waits until all of them have done it.
    ///
    /// # Errors
    /// Those of [`Answer::heard`].
    pub(crate) fn all(&self, lanes: &[usize], command: impl Fn() -> Command) -> Result<(), Error> {
        assert!(!lanes.is_empty(), "somebody is told");
        // All are told before the first is waited for.
        let answers: Vec<_> = lanes.iter().map(|&lane| self.ask(lane, command())).collect();
        answers.into_iter().try_for_each(Answer::heard)
    }

    /// Tells a lane, and does not wait for its answer.
    pub(crate) fn ask(&self, lane: usize, command: Command) -> Answer<'_> {
        let (done, answer) = channel();
        // Who gave up waiting hears nothing.
        let reply = Box::new(move |result| drop(done.send(result)));
        let unsaid = self.try_to_say(lane, Steer { command, reply });
        Answer { telling: self, lane, unsaid, answer }
    }

    /// Tells a lane, and waits for nothing: lanes call this.
    pub(crate) fn say(&self, lane: usize, command: Command) {
        let _ = self.0.tell(lane, Steer { command, reply: Box::new(drop) });
    }

    /// Returns a word for which there is no room yet. One that nobody will hear is dropped, and with it who would answer.
    fn try_to_say(&self, lane: usize, word: Steer) -> Option<Steer> {
        let unheard = self.0.tell(lane, word).err()?;
        (unheard.why == Silence::Full).then_some(unheard.word)
    }
}

/// What a lane will answer.
pub(crate) struct Answer<'a> {
    telling: &'a Telling,
    lane: usize,
    /// The word for which there was no room.
    unsaid: Option<Steer>,
    answer: Receiver<Result<(), corelane_svc::Error>>,
}

impl Answer<'_> {
    /// Waits for it.
    ///
    /// # Errors
    /// [`Error::Lane`] if it could not do what it was told; [`Error::LaneSilent`], also if it takes no word; [`Error::LaneEnded`].
    pub(crate) fn heard(self) -> Result<(), Error> {
        let Self { telling, lane, mut unsaid, answer } = self;
        for _ in 0..LOOKS_MAX {
            let Some(word) = unsaid.take() else { break };
            // A word that is refused is counted, and a look is not.
            unsaid = if telling.0.has_room(lane) { telling.try_to_say(lane, word) } else { Some(word) };
            if unsaid.is_some() {
                wait(LOOK);
            }
        }
        if unsaid.is_some() {
            return Err(Error::LaneSilent { lane });
        }
        match answer.recv_timeout(PATIENCE) {
            Ok(done) => done.map_err(|error| Error::Lane { lane, error }),
            Err(RecvTimeoutError::Timeout) => Err(Error::LaneSilent { lane }),
            Err(RecvTimeoutError::Disconnected) => Err(Error::LaneEnded { lane }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_lane::{Control, Ear, WORDS_MAX};

    fn line() -> (Telling, Ear<Steer>) {
        let (tell, mut ears) = Control::new(1).words();
        (Telling(tell), ears.remove(0))
    }

    fn answer_all(ear: &mut Ear<Steer>) {
        ear.take().for_each(|word| (word.reply)(Ok(())));
    }

    #[test]
    fn an_order_for_which_there_is_no_room_is_given_when_there_is() {
        let (telling, mut ear) = line();
        (0..WORDS_MAX).for_each(|_| telling.say(0, Command::Refresh));
        let answer = telling.ask(0, Command::Refresh);
        assert!(answer.unsaid.is_some(), "it is not lost");
        answer_all(&mut ear);
        // The lane turns as long as somebody waits for it.
        std::thread::scope(|scope| {
            let told = scope.spawn(|| answer.heard());
            while !told.is_finished() {
                answer_all(&mut ear);
                std::thread::yield_now();
            }
            assert_eq!(told.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn a_lane_that_ends_before_it_hears_is_named() {
        let (telling, ear) = line();
        (0..WORDS_MAX).for_each(|_| telling.say(0, Command::Refresh));
        let answer = telling.ask(0, Command::Refresh);
        drop(ear);
        assert_eq!(answer.heard(), Err(Error::LaneEnded { lane: 0 }));
        assert_eq!(telling.all(&[0], || Command::Refresh), Err(Error::LaneEnded { lane: 0 }));
    }
}
