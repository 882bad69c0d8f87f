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
use super::conduct::conduct;
use super::interrupt::Interrupt;
use super::manner::Manner;
use super::measure::measure_cell;
use super::report::Findings;
use super::rounds::Extent;
use super::stage::{Ours, Stage};
use super::{callgrind, idle};
use cells::CELLS;
use programs::Programs;

pub use servers::CELL as SERVER_CELL;

/// What to measure.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
    /// One cell alone; may be given again. The ratio over registered descriptors takes three of them.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = cell_names())]
    only: Vec<String>,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When a program cannot be built or started, or tells what is not so. A program that is not installed is left out, by name.
    pub fn run(&self) -> Result<()> {
        conduct("event", &self.manner, &Ours::ALONE, programs::build, |stage, extent, interrupt| {
            self.measure(stage, extent, interrupt)
        })
    }

    fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        idle::raise_file_limit(2 * cells::MOST)?;
        let mut findings = Findings::default();
        let programs = Programs::find(&stage.peers, &mut findings);
        let cells: Vec<_> = CELLS.iter().filter(|cell| wants(&self.only, cell.name)).collect();
        let events = rounds::run(&cells, &programs, extent, interrupt)?;
        events.iter().try_for_each(|cell| findings.show(&rounds::table(cell), cell, None))?;
        findings.verdicts.extend(rounds::judge(&events));
        if wants(&self.only, SERVER_CELL.name) {
            let lineup: Vec<_> = SERVER_CELL.entrants.iter().copied().filter(|&entrant| programs.serves(entrant)).collect();
            measure_cell(&SERVER_CELL, &lineup, stage, extent, interrupt, &mut findings)?;
        }
        if wants(&self.only, instructions::NAME) {
            match callgrind::missing() {
                Some(why) => findings.leave_out(format!("{}: {why}", instructions::NAME)),
                None => {
                    let counts = instructions::run(&programs, interrupt)?;
                    findings.show(&instructions::table(&counts), &counts, instructions::judge(&counts))?;
                }
            }
        }
        Ok(findings)
    }
}

fn cell_names() -> clap::builder::PossibleValuesParser {
    CELLS.iter().map(|cell| cell.name).chain([SERVER_CELL.name, instructions::NAME]).into()
}
