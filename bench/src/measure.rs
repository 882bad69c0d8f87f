//! One cell of a subject, from its name to its table.

use anyhow::Result;

use super::cells::Cell;
use super::entrants::Entrant;
use super::interrupt::Interrupt;
use super::rounds::{self, CellResult, Extent};
use super::stage::Stage;
use super::tables::cell_table;

/// Measures one cell and prints its table.
///
/// # Errors
/// When a server does not start or answers wrongly, or when a signal asks for the end.
pub fn measure_cell(
    cell: &Cell,
    lineup: &[Entrant],
    stage: &mut Stage,
    extent: Extent,
    interrupt: &Interrupt,
) -> Result<CellResult> {
    eprintln!("{} ...", cell.name);
    let outcome = rounds::run(cell, lineup, stage, extent, interrupt)?;
    println!("{}", cell_table(&outcome));
    Ok(outcome)
}
