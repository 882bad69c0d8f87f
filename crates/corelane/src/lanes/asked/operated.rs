//! Services of running lanes are asked what an operator asks of them.

use corelane_lane::Tell;
use corelane_svc::{Command, Operate, Steer};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long all lanes together may take: who asks waits a little longer.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// One answer: by the service of this number, on this lane.
type Said = (u16, usize, Option<String>);

/// Asks each service on each lane, and returns what they answer, as a list in JSON.
pub(super) fn ask(tell: &Tell<Steer>, lanes: usize, services: &[String], words: &str) -> Result<String, String> {
    let words: Arc<str> = words.into();
    let (told, answers) = channel();
    for (lane, number) in (0..lanes).flat_map(|lane| (0..services.len()).map(move |number| (lane, number as u16))) {
        // A lane that has ended has nothing to say.
        let _ = tell.tell(lane, steer(lane, number, words.clone(), told.clone()));
    }
    drop(told);
    let mut said: Vec<Said> = Vec::new();
    loop {
        match answers.recv_timeout(PATIENCE) {
            Ok(answer) => said.push(answer),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let silent = (0..lanes).find(|lane| !said.iter().any(|(_, of, _)| of == lane)).unwrap_or_default();
                return Err(format!("lane {silent} does not answer: see `corelane stat` for what it does"));
            }
        }
    }
    said.sort_by_key(|(number, lane, _)| (*number, *lane));
    let rows: Vec<String> = said.into_iter().filter_map(|said| row(services, said)).collect();
    match rows.is_empty() {
        true => Err("no service of this process knows that".to_owned()),
        false => Ok(format!("[{}]", rows.join(","))),
    }
}

fn steer(lane: usize, service: u16, words: Arc<str>, told: Sender<Said>) -> Steer {
    // Nobody may wait for it any more.
    let answer = Box::new(move |said| drop(told.send((service, lane, said))));
    Steer { command: Command::Operate(Operate { service, words, answer }), reply: Box::new(drop) }
}

fn row(services: &[String], (number, lane, said): Said) -> Option<String> {
    // As Rust quotes it, which is JSON for all that stands in names.
    let name = &services[usize::from(number)];
    said.map(|answer| format!("{{\"service\":{name:?},\"number\":{number},\"lane\":{lane},\"answer\":{answer}}}"))
}
