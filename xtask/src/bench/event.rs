//! `cargo xtask bench event`: what an event costs by kqueue(2) of this project, beside a plain epoll loop, libkqueue and polls by io_uring; and a
//! web server of one source on each system.

mod cells;
mod instructions;
mod programs;
mod rounds;
mod servers;

use anyhow::Result;
use clap::Args;

use super::idle;
use super::interrupt::Interrupt;
use super::report::Findings;
use super::rounds::Extent;
use super::stage::{Ours, Stage};
use super::{Manner, measure_cell};
use cells::CELLS;
use programs::Programs;

pub use instructions::Count;
pub use rounds::{CellRounds, table};
pub use servers::CELL as SERVER_CELL;

/// What to measure.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
    /// One cell alone; may be given again. The ratio over registered descriptors takes three of them.
    #[arg(long, value_name = "CELL", value_parser = cell_names())]
    only: Vec<String>,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When a program cannot be built or started, or tells what is not so. What is not installed is left out, by name.
    pub fn run(&self) -> Result<()> {
        self.manner
            .conduct("event", &Ours::ALONE, programs::build, |stage, extent, interrupt| self.measure(stage, extent, interrupt))
    }

    fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        idle::raise_file_limit(2 * cells::MOST)?;
        let programs = Programs::find(&stage.peers);
        let cells: Vec<_> = CELLS.iter().filter(|cell| self.wants(cell.name)).collect();
        let events = rounds::run(&cells, &programs, extent, interrupt)?;
        events.iter().for_each(|cell| println!("{}", table(cell)));
        let mut verdicts = rounds::judge(&events);
        let mut found = Findings { left_out: programs.left_out.clone(), events, ..Findings::default() };
        if self.wants(SERVER_CELL.name) {
            let lineup = SERVER_CELL.lineup(false, |entrant| programs.serves(entrant));
            let outcome = measure_cell(&SERVER_CELL, &lineup, stage, extent, interrupt)?;
            verdicts.extend(outcome.verdicts.iter().cloned());
            found.cells.push(outcome);
        }
        if self.wants(instructions::NAME) {
            self.count(&programs, &mut found, interrupt)?;
            verdicts.extend(instructions::judge(&found.instructions));
        }
        Ok(Findings { verdicts, ..found })
    }

    fn count(&self, programs: &Programs, found: &mut Findings, interrupt: &Interrupt) -> Result<()> {
        if let Some(why) = instructions::missing() {
            found.left_out.push(why);
            return Ok(());
        }
        found.instructions = instructions::run(programs, interrupt)?;
        println!("{}", instructions::table(&found.instructions));
        Ok(())
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

fn cell_names() -> clap::builder::PossibleValuesParser {
    CELLS.iter().map(|cell| cell.name).chain([SERVER_CELL.name, instructions::NAME]).into()
}
