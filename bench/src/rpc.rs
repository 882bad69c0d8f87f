//! `cargo xtask bench rpc`: calls of the null procedure, which every server of a program has, against servers that others wrote.

mod cells;
mod libtirpc;
mod network;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::cells::{Cell, names, wants};
use super::conduct::conduct;
use super::entrants::{Absence, Peer};
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
        let mut findings = Findings::default();
        absences.iter().for_each(|absence| findings.leave_out(absence.to_string()));
        stage.find_other_driver()?;
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let lineup = stage.lineup(cell, &absences);
            measure_cell(cell, &lineup, stage, extent_of(cell, extent), interrupt, &mut findings)?;
        }
        Ok(findings)
    }
}

/// The peers that are not to be had here. From then on this program is in a network of its own, if it may be.
fn absences() -> Vec<Absence> {
    let own_network = network::enter().map_err(|error| format!("it needs a network of its own, and that is refused: {error:#}"));
    let ganesha = ganesha::missing().map_or(own_network, |why| Err(why.to_owned()));
    let whys = [(Peer::Libtirpc, libtirpc::missing().map(str::to_owned)), (Peer::Ganesha, ganesha.err())];
    whys.into_iter().filter_map(|(peer, why)| Some(Absence { peer, why: why? })).collect()
}

fn extent_of(cell: &Cell, extent: Extent) -> Extent {
    if cell.bars.is_empty() { Extent { rounds: extent.rounds.min(SHOWN_ROUNDS), ..extent } } else { extent }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::Timing;

    #[test]
    fn what_is_only_shown_takes_few_rounds() {
        let timing = Timing { warm_up: Duration::ZERO, window: Duration::ZERO };
        let rounds = |cell: &Cell, rounds| extent_of(cell, Extent { timing, rounds }).rounds;
        let shown = CELLS.iter().find(|cell| cell.bars.is_empty()).expect("there is one");
        assert_eq!((rounds(shown, 15), rounds(shown, 2), rounds(&CELLS[0], 15)), (SHOWN_ROUNDS, 2, 15));
    }
}
