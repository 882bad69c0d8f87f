//! Clients over datagrams that follow a script: what they ask, again and again until they hear what is due.

use crate::script::shown;
use corelane_sim::{DatagramPeer, World};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// After how long a question is asked again.
const AGAIN: Duration = Duration::from_millis(20);
/// How often before the client gives up: far more than faults can cost.
const TIMES_MAX: u32 = 1_000;

/// The questions of a client over datagrams, one after the other; each is asked again every 20 ms at the latest, until its answer has come. Any other datagram is a
/// failure, except one that was due before: networks repeat datagrams.
#[derive(Clone, Default)]
pub struct Questions(VecDeque<(Vec<u8>, Vec<u8>)>);

impl Questions {
    /// Sends `question` until `answer` has come.
    pub fn ask(&mut self, question: impl AsRef<[u8]>, answer: impl AsRef<[u8]>) -> &mut Self {
        self.0.push_back((question.as_ref().to_vec(), answer.as_ref().to_vec()));
        self
    }
}

/// A client at work.
pub(crate) struct Asker {
    pub(crate) peer: DatagramPeer,
    to: SocketAddr,
    questions: VecDeque<(Vec<u8>, Vec<u8>)>,
    answered: Vec<Vec<u8>>,
    times: u32,
}

impl Asker {
    /// A client that asks at once.
    pub(crate) fn new(world: &World, peer: DatagramPeer, to: SocketAddr, questions: Questions) -> Self {
        let asker = Self { peer, to, questions: questions.0, answered: Vec::new(), times: 0 };
        world.alarm(world.now(), asker.token());
        asker
    }

    /// The token of its alarms.
    pub(crate) fn token(&self) -> u64 {
        self.peer.id() as u64
    }

    pub(crate) fn is_over(&self) -> bool {
        self.questions.is_empty()
    }

    /// Its wait, in words.
    pub(crate) fn wait(&self) -> String {
        let answer = self.questions.front().map_or(String::new(), |(_, answer)| shown(answer, 0));
        format!("waits to hear {answer}")
    }

    /// Hears what has come, and goes on with the next question; says what is wrong, if something is.
    pub(crate) fn hear(&mut self) -> Result<(), String> {
        while let Some((_, datagram)) = self.peer.receive() {
            match self.questions.front() {
                Some((_, answer)) if *answer == datagram => self.go_on()?,
                _ if self.answered.contains(&datagram) => {}
                Some((_, answer)) => {
                    return Err(format!("heard {} where {} was due", shown(&datagram, 0), shown(answer, 0)));
                }
                None => return Err(format!("heard {}, which was never due", shown(&datagram, 0))),
            }
        }
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), String> {
        let answered = self.questions.pop_front();
        self.answered.extend(answered.map(|(_, answer)| answer));
        self.times = 0;
        self.ask()
    }

    /// Asks again what has been out for too long.
    pub(crate) fn remind(&mut self, world: &World) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        world.alarm(world.now() + AGAIN, self.token());
        self.ask()
    }

    fn ask(&mut self) -> Result<(), String> {
        let Some((question, _)) = self.questions.front() else { return Ok(()) };
        if self.times == TIMES_MAX {
            return Err(format!("asked {} {TIMES_MAX} times, and nothing came", shown(question, 0)));
        }
        self.times += 1;
        self.peer.send(self.to, question).map_err(|fault| format!("cannot send {}: {:?}", shown(question, 0), fault.reason))
    }
}
