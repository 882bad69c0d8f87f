//! `cargo xtask bench rpc`: calls of the null procedure, which every server of a program has, against servers that others wrote.

mod cells;
mod libtirpc;
mod network;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::cells::{Cell, names, wants};
use super::conduct::conduct;
use super::entrants::{Entrant, Peer};
use super::ganesha;
use super::interrupt::Interrupt;
use super::manner::Manner;
use super::measure::measure_cell;
use super::report::Findings;
use super::rounds::Extent;
use super::stage::{Ours, Stage};

pub use cells::CELLS;

/// Rounds of a cell without a bar, which is shown and not judged.
const SHOWN_ROUNDS: usize = 3;

/// What to measure.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
    /// One cell alone; may be given again.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = PossibleValuesParser::new(names(CELLS)))]
    only: Vec<String>,
    #[command(flatten)]
    ours: Ours,
}

/// A peer that cannot take part, and why.
struct Absence {
    peer: Peer,
    why: String,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When a program cannot be built or started, or answers wrongly. A peer that is not installed is left out.
    pub fn run(&self) -> Result<()> {
        conduct("rpc", &self.manner, &self.ours, libtirpc::build, |stage, extent, interrupt| {
            self.measure(stage, extent, interrupt)
        })
    }

    fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        let absences = absences();
        absences.iter().for_each(|absence| eprintln!("left out: {absence}"));
        stage.find_other_driver()?;
        let mut cells = Vec::new();
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let lineup = lineup(cell, &absences, stage);
            cells.push(measure_cell(cell, &lineup, stage, extent_of(cell, extent), interrupt)?);
        }
        let verdicts = cells.iter().flat_map(|outcome| outcome.verdicts.iter().cloned()).collect();
        let left_out = absences.iter().map(Absence::to_string).collect();
        Ok(Findings { cells, verdicts, left_out, ..Findings::default() })
    }
}

/// The peers that are not to be had here. From then on this program is in a network of its own, if it may be.
fn absences() -> Vec<Absence> {
    let own_network = network::enter().map_err(|error| format!("it needs a network of its own, and that is refused: {error:#}"));
    let ganesha = ganesha::missing().map_or(own_network, |why| Err(why.to_owned()));
    let whys = [(Peer::Libtirpc, libtirpc::missing().map(str::to_owned)), (Peer::Ganesha, ganesha.err())];
    whys.into_iter().filter_map(|(peer, why)| Some(Absence { peer, why: why? })).collect()
}

fn lineup(cell: &Cell, absences: &[Absence], stage: &Stage) -> Vec<Entrant> {
    cell.lineup(stage.ours.beside.is_some(), |entrant| match entrant.peer() {
        Some(peer) => absences.iter().all(|absence| absence.peer != peer),
        None => entrant != Entrant::OtherDriver || stage.other.is_some(),
    })
}

fn extent_of(cell: &Cell, extent: Extent) -> Extent {
    if cell.bars.is_empty() { Extent { rounds: extent.rounds.min(SHOWN_ROUNDS), ..extent } } else { extent }
}

impl std::fmt::Display for Absence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", Entrant::Peer(self.peer), self.why)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::Timing;
    use crate::stage::Driver;

    #[test]
    fn who_is_absent_does_not_stand_in_the_line() {
        let absences = [Absence { peer: Peer::Libtirpc, why: "not installed".to_owned() }];
        let mut stage = Stage::new("".into(), "".into(), Ours::ALONE);
        let expected = [Entrant::Corelane, Entrant::Peer(Peer::Ganesha)];
        assert_eq!(lineup(&CELLS[0], &absences, &stage), expected);
        stage.other = Some(Driver::Epoll);
        assert_eq!(lineup(&CELLS[0], &[], &stage), CELLS[0].entrants);
        stage.ours.beside = Some("old/corelane".into());
        assert_eq!(lineup(&CELLS[0], &[], &stage)[..2], [Entrant::Corelane, Entrant::Beside]);
        assert_eq!(absences[0].to_string(), "libtirpc: not installed");
    }

    #[test]
    fn what_is_only_shown_takes_few_rounds() {
        let timing = Timing { warm_up: Duration::ZERO, window: Duration::ZERO };
        let rounds = |cell: &Cell, rounds| extent_of(cell, Extent { timing, rounds }).rounds;
        let shown = CELLS.iter().find(|cell| cell.bars.is_empty()).expect("there is one");
        assert_eq!((rounds(shown, 15), rounds(shown, 2), rounds(&CELLS[0], 15)), (SHOWN_ROUNDS, 2, 15));
    }
}
