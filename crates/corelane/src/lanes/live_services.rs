//! Services of running lanes are asked what an operator asks of them.

use corelane_lane::Tell;
use corelane_svc::{Command, Operate, Steer};
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Asks services on each lane, from any thread ([`StreamService::operate`](crate::StreamService::operate)). Clones ask the same.
#[derive(Clone)]
pub struct LiveServices {
    tell: Tell<Steer>,
    lanes: usize,
    /// Their names, by their numbers.
    services: Arc<[String]>,
    /// The answers to the last glance, while some have not come.
    awaited: Arc<Mutex<Option<Receiver<Said>>>>,
}

/// What a service has answered on a lane; none where it does not know the words.
type Said = (u16, usize, Option<String>);

/// The answer of a service on one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The service's name.
    pub service: String,
    /// Its number, by which it stands in the counter page: several may have one name.
    pub number: usize,
    /// The lane.
    pub lane: usize,
    /// What it says.
    pub answer: String,
}

impl LiveServices {
    pub(crate) fn new(tell: Tell<Steer>, lanes: usize, services: Arc<[String]>) -> Self {
        Self { tell, lanes, services, awaited: Arc::default() }
    }

    /// Asks each service on each lane, and returns what those answer that know the words. Lanes that have ended have nothing to say.
    ///
    /// # Errors
    /// The first lane that has not answered within `patience`.
    pub fn ask(&self, words: &str, patience: Duration) -> Result<Vec<Answered>, usize> {
        self.gather(&self.begin(0..self.services.len(), words), patience)
    }

    /// The same of one service, by its number.
    ///
    /// # Errors
    /// As of [`LiveServices::ask`].
    pub fn ask_one(&self, number: usize, words: &str, patience: Duration) -> Result<Vec<Answered>, usize> {
        self.gather(&self.begin(number..number + 1, words), patience)
    }

    /// The names of the services, by their numbers.
    pub fn names(&self) -> &[String] {
        &self.services
    }

    /// The same for those who look again and again: none where a lane does not answer within `patience`, and until it has, for it is asked no more meanwhile.
    pub fn glance(&self, words: &str, patience: Duration) -> Option<Vec<Answered>> {
        self.glance_at(0..self.services.len(), words, patience)
    }

    /// The same of one service, by its number. Where there is none, nobody answers.
    pub fn glance_one(&self, number: usize, words: &str, patience: Duration) -> Option<Vec<Answered>> {
        self.glance_at(number..number.saturating_add(1).min(self.services.len()), words, patience)
    }

    fn glance_at(&self, numbers: Range<usize>, words: &str, patience: Duration) -> Option<Vec<Answered>> {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        // What has come meanwhile is too late.
        let is_under_way = |answers: &Receiver<Said>| {
            std::iter::repeat_with(|| answers.try_recv()).find_map(Result::err) == Some(TryRecvError::Empty)
        };
        if awaited.as_ref().is_some_and(is_under_way) {
            return None;
        }
        let answers = self.begin(numbers, words);
        let said = self.gather(&answers, patience).ok();
        *awaited = Some(answers).filter(|_| said.is_none());
        said
    }

    fn begin(&self, numbers: Range<usize>, words: &str) -> Receiver<Said> {
        let words: Arc<str> = words.into();
        let (told, answers) = channel();
        let each = (0..self.lanes).flat_map(|lane| numbers.clone().map(move |number| (lane, number as u16)));
        for (lane, number) in each {
            // One that has ended has nothing to say.
            let _ = self.tell.tell(lane, steer(lane, number, words.clone(), told.clone()));
        }
        answers
    }

    fn gather(&self, answers: &Receiver<Said>, patience: Duration) -> Result<Vec<Answered>, usize> {
        let due = crate::now() + patience;
        let (mut heard, mut said) = (vec![false; self.lanes], Vec::new());
        loop {
            match answers.recv_timeout(due - crate::now()) {
                Ok((number, lane, answer)) => {
                    heard[lane] = true;
                    said.extend(answer.map(|answer| (number, lane, answer)));
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(heard.iter().position(|heard| !heard).unwrap_or_default()),
            }
        }
        said.sort_by_key(|(number, lane, _)| (*number, *lane));
        let answered = |(number, lane, answer)| {
            let number = usize::from(number);
            Answered { service: self.services[number].clone(), number, lane, answer }
        };
        Ok(said.into_iter().map(answered).collect())
    }
}

fn steer(lane: usize, service: u16, words: Arc<str>, told: Sender<Said>) -> Steer {
    // Nobody may wait for it any more.
    let answer = Box::new(move |said| drop(told.send((service, lane, said))));
    Steer { command: Command::Operate(Operate { service, words, answer }), reply: Box::new(drop) }
}
