//! The cost of a lane over frames while nothing comes: processor time of its process, and of the thread that receives for it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::cells::{Echo, IDLE};
use super::servers::Echoing;
use crate::bars::Limit;
use crate::interrupt::Interrupt;
use crate::rounds::{Extent, Rounds, Verdict};
use crate::stage::Stage;
use crate::tables::{self, number};

/// The lane that somebody gets who asks for nothing else, one that polls, and one that polls and is held to nothing.
const RESTING: [Echo; 3] = [Echo::Packet, Echo::Polling, Echo::Ungoverned];
/// After the answer that it has given, before anything counts: a lane that polls looks on for a while.
const SETTLE: Duration = Duration::from_secs(1);
/// How long it is watched: it looks at the state of its interface once a second.
const WATCH: Duration = Duration::from_secs(2);
/// Milliseconds of a CPU in a second: none, as far as that can be measured.
const CPU_MS_PER_S: Limit = Limit::Under(1.0);

/// Milliseconds of a CPU in a second that nothing came.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Resting {
    /// Of its process.
    pub server_ms_per_s: f64,
    /// Of the thread that receives for it.
    pub receiver_ms_per_s: f64,
}

impl Resting {
    fn cpu_ms_per_s(&self) -> f64 {
        self.server_ms_per_s + self.receiver_ms_per_s
    }
}

/// All rounds.
pub type Idle = Rounds<Echo, Resting>;

/// Watches each, started anew for each round.
///
/// # Errors
/// When a wire or a server cannot be made, nobody answers, or a signal asks for the end.
pub fn run(stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<Idle> {
    Rounds::take(IDLE, RESTING.to_vec(), extent.rounds, interrupt, |place| {
        let echoing = Echoing::start(RESTING[place], &stage.corelane)?;
        thread::sleep(SETTLE);
        let (begun, before) = (Instant::now(), echoing.cpu_ns()?);
        thread::sleep(WATCH);
        let (after, took) = (echoing.cpu_ns()?, begun.elapsed().as_secs_f64());
        let [server_ms_per_s, receiver_ms_per_s] = [0, 1].map(|part: usize| (after[part] - before[part]) as f64 / 1e6 / took);
        Ok(Resting { server_ms_per_s, receiver_ms_per_s })
    })
}

/// The verdicts on the bar, for each.
pub fn judge(idle: &Idle) -> Vec<Verdict> {
    let one = |&echo: &Echo| {
        let values = idle.values(echo, Resting::cpu_ms_per_s)?;
        Verdict::of_rounds(IDLE, format!("{echo}: CPU ms/s while nothing comes"), &values, CPU_MS_PER_S)
    };
    idle.who.iter().filter_map(one).collect()
}

/// The medians over the rounds.
pub fn table(idle: &Idle) -> String {
    tables::of_rounds(idle, "echo", |_, echo| {
        let middle = |of: fn(&Resting) -> f64| number(idle.median(echo, of), 3);
        vec![
            ("CPU ms/s", middle(Resting::cpu_ms_per_s)),
            ("server", middle(|one| one.server_ms_per_s)),
            ("receiver", middle(|one| one.receiver_ms_per_s)),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;

    #[test]
    fn what_receives_for_a_lane_counts_as_the_lane_does() {
        let round = [[0.1, 0.0], [0.4, 0.5], [0.4, 0.7]];
        let round = round.map(|[server_ms_per_s, receiver_ms_per_s]| Resting { server_ms_per_s, receiver_ms_per_s }).to_vec();
        let verdicts = judge(&Rounds { rounds: vec![round; 5], ..Rounds::new(IDLE, RESTING.to_vec()) });
        assert_eq!(verdicts.iter().map(|one| one.word).collect::<Vec<_>>(), [Word::Met, Word::Met, Word::Missed]);
    }
}
