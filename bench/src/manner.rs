//! How long and how often to measure, and where the result goes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use super::load::Timing;
use super::rounds::Extent;

/// What every subject is told.
#[derive(Args, Debug)]
pub struct Manner {
    /// Length of one measurement in seconds, after 0.2 s that do not count.
    #[arg(long, value_name = "S", default_value_t = 0.8)]
    round_seconds: f64,
    /// Rounds of each cell. They are neither more nor fewer, whatever they show.
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: usize,
    /// Where the whole result goes; target/bench/SUBJECT.json if not given.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write all tables to bench/results/SUBJECT.txt too, and draw their plot: for a whole run.
    #[arg(long)]
    pub record: bool,
    /// Three short rounds, 1,000 idle connections and a short open loop: whether it runs, not what it shows.
    #[arg(long, conflicts_with_all = ["rounds", "round_seconds", "record"])]
    pub quick: bool,
}

/// Nothing of a measurement counts before this.
pub const WARM_UP: Duration = Duration::from_millis(200);

const QUICK: Extent = Extent { timing: Timing { warm_up: WARM_UP, window: Duration::from_millis(300) }, rounds: 3 };

impl Manner {
    /// How much is measured so.
    ///
    /// # Errors
    /// When no round is asked for, or rounds of a length that is refused.
    pub fn extent(&self) -> Result<Extent> {
        if self.quick {
            return Ok(QUICK);
        }
        ensure!(self.rounds > 0, "--rounds: expected at least 1");
        ensure!((0.1..=60.0).contains(&self.round_seconds), "--round-seconds: expected 0.1 to 60, got {}", self.round_seconds);
        let timing = Timing { warm_up: WARM_UP, window: Duration::from_secs_f64(self.round_seconds) };
        Ok(Extent { timing, rounds: self.rounds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rounds_are_as_many_as_were_asked_for() {
        let manner = |words: &[&str]| {
            #[derive(clap::Parser)]
            struct Words {
                #[command(flatten)]
                manner: Manner,
            }
            let words = [&["bench"][..], words].concat();
            clap::Parser::try_parse_from(words).map(|Words { manner }| manner)
        };
        let rounds = |words: &[&str]| manner(words).expect("known words").extent().map(|extent| extent.rounds);
        assert_eq!(rounds(&[]).expect("the default"), 15);
        assert_eq!(rounds(&["--rounds", "2", "--round-seconds", "0.2"]).expect("few"), 2);
        assert_eq!(rounds(&["--rounds", "60"]).expect("many"), 60);
        assert!(rounds(&["--rounds", "0"]).is_err());
        assert!(
            manner(&["--record"]).is_ok_and(|manner| manner.record) && manner(&["--quick"]).is_ok_and(|manner| !manner.record)
        );
        assert!(manner(&["--record", "--quick"]).is_err(), "a quick run is no record");
    }
}
