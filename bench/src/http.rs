//! `cargo xtask bench http`: files and a fixed reply, against web servers that others wrote.

mod cells;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::build::build_peers;
use super::cells::{Cell, names, wants};
use super::conduct::conduct;
use super::entrants::{Absence, WEB_SERVERS};
use super::interrupt::Interrupt;
use super::load::Timing;
use super::manner::Manner;
use super::measure::measure_cell;
use super::report::Findings;
use super::rounds::Extent;
use super::stage::{Ours, Stage};
use super::web;

pub use cells::CELLS;

/// The least that a round of the largest file takes: some hundred are answered meanwhile.
const HUGE_WINDOW: Duration = Duration::from_secs(2);

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
    /// When a program cannot be built or started, or answers wrongly. A server that is not installed is left out.
    pub fn run(&self) -> Result<()> {
        let build = |peers: &Path| if self.is_built_for() { build_peers(peers) } else { Ok(()) };
        conduct("http", &self.manner, &self.ours, build, |stage, extent, interrupt| self.measure(stage, extent, interrupt))
    }

    /// Whether a server takes part that has to be built.
    fn is_built_for(&self) -> bool {
        CELLS.iter().any(|cell| wants(&self.only, cell.name) && cell.entrants.contains(&cells::HYPER))
    }

    fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        stage.web = Some(web::Folder::with_files(&cells::FILES)?);
        measure(CELLS.iter().filter(|cell| wants(&self.only, cell.name)), stage, extent, interrupt)
    }
}

/// Measures these cells with the web servers that are installed.
///
/// # Errors
/// When a server cannot be started, or answers wrongly.
pub fn measure<'a>(
    cells: impl Iterator<Item = &'a Cell>,
    stage: &mut Stage,
    extent: Extent,
    interrupt: &Interrupt,
) -> Result<Findings> {
    let absent = |peer| Some(Absence { peer, why: web::missing(peer)? });
    let absences: Vec<_> = WEB_SERVERS.into_iter().filter_map(absent).collect();
    let mut findings = Findings::default();
    absences.iter().for_each(|absence| findings.leave_out(absence.to_string()));
    for cell in cells {
        let lineup = stage.lineup(cell, &absences);
        measure_cell(cell, &lineup, stage, extent_of(cell, extent), interrupt, &mut findings)?;
    }
    Ok(findings)
}

fn extent_of(cell: &Cell, extent: Extent) -> Extent {
    let Timing { warm_up, window } = extent.timing;
    let window = if cell.load.bytes == cells::HUGE { window.max(HUGE_WINDOW) } else { window };
    Extent { timing: Timing { warm_up, window }, ..extent }
}
