//! `corelane load self-test`: shows what each way of counting makes of a server that stands still for a second.

use super::rounds;
use crate::exit::Exit;
use crate::print::print;
use anyhow::Result;

/// Shows what each way of counting makes of a server that stands still for a second (coordinated omission)
///
/// Starts a server of its own on loopback and loads it for two times three seconds. Ends with 0 if the counting from the intended start of
/// each request saw the stall as arithmetic says it must, with 1 if it did not.
#[derive(clap::Args)]
pub struct Arguments {}

/// Makes the runs, and prints the table.
pub fn run(_arguments: &Arguments) -> Result<Exit> {
    let outcome = corelane_load::self_test::run().map_err(rounds::failed)?;
    print(outcome.text())?;
    Ok(if outcome.saw_the_stall { Exit::Done } else { Exit::Late })
}
