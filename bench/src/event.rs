//! `cargo xtask bench event`: what an event costs by kqueue(2) of this project, beside a plain epoll loop, libkqueue and polls by io_uring; and a
//! web server of one source on each system.

mod cells;
mod instructions;
mod programs;
mod rounds;
mod servers;

use anyhow::Result;
use clap::Args;

use super::cells::wants;
use super::idle;
use super::interrupt::Interrupt;
use super::manner::Manner;
use super::measure::measure_cell;
use super::rounds::{CellResult, Extent, Verdict};
use super::stage::Stage;
use cells::CELLS;
use programs::Programs;

pub use instructions::{Count, table as instructions_table};
pub use programs::build;
pub use rounds::{CellRounds, table};
pub use servers::CELL as SERVER_CELL;

/// What to measure.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    pub(super) manner: Manner,
    /// One cell alone; may be given again. The ratio over registered descriptors takes three of them.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = cell_names())]
    only: Vec<String>,
}

/// All that was found out.
pub struct Found {
    /// The cells of events.
    pub events: Vec<CellRounds>,
    /// evserver's, if it was asked for.
    pub servers: Option<CellResult>,
    /// Exact counts.
    pub instructions: Vec<Count>,
    /// Who did not take part, and why.
    pub left_out: Vec<String>,
    /// What came of all bars.
    pub verdicts: Vec<Verdict>,
}

impl Arguments {
    /// Measures what was asked for.
    ///
    /// # Errors
    /// When a program cannot be started, or tells what is not so. What is not installed is left out, by name.
    pub fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Found> {
        idle::raise_file_limit(2 * cells::MOST)?;
        let programs = Programs::find(&stage.peers);
        let cells: Vec<_> = CELLS.iter().filter(|cell| wants(&self.only, cell.name)).collect();
        let events = rounds::run(&cells, &programs, extent, interrupt)?;
        events.iter().for_each(|cell| println!("{}", table(cell)));
        let servers = if wants(&self.only, SERVER_CELL.name) {
            let lineup = SERVER_CELL.lineup(false, |entrant| programs.serves(entrant));
            Some(measure_cell(&SERVER_CELL, &lineup, stage, extent, interrupt)?)
        } else {
            None
        };
        let mut left_out = programs.left_out.clone();
        let instructions = self.count(&programs, &mut left_out, interrupt)?;
        let of_servers = servers.iter().flat_map(|cell| cell.verdicts.iter().cloned());
        let verdicts = rounds::judge(&events).into_iter().chain(of_servers).chain(instructions::judge(&instructions)).collect();
        Ok(Found { events, servers, instructions, left_out, verdicts })
    }

    fn count(&self, programs: &Programs, left_out: &mut Vec<String>, interrupt: &Interrupt) -> Result<Vec<Count>> {
        if !wants(&self.only, instructions::NAME) {
            return Ok(Vec::new());
        }
        if let Some(why) = instructions::missing() {
            left_out.push(why);
            return Ok(Vec::new());
        }
        let counts = instructions::run(programs, interrupt)?;
        println!("{}", instructions::table(&counts));
        Ok(counts)
    }
}

fn cell_names() -> clap::builder::PossibleValuesParser {
    CELLS.iter().map(|cell| cell.name).chain([SERVER_CELL.name, instructions::NAME]).into()
}
