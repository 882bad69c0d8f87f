//! What a packet costs each gateway: rounds, their table, and what comes of the bars.

use anyhow::Result;

use super::cells::Cell;
use super::contenders::Gateway;
use super::running::{Passed, Running};
use crate::interrupt::Interrupt;
use crate::rounds::{Extent, Rounds};
use crate::stage::Stage;
use crate::tables::{self, number};
use corelane_load::stats::median;

/// All that one cell showed.
pub type CellRounds = Rounds<Gateway, Passed>;

/// Measures one cell: every gateway on a wire of its own, started anew for each round.
///
/// # Errors
/// When a gateway does not start or forward, or a signal asks for the end.
pub fn run(cell: &Cell, stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<CellRounds> {
    Rounds::take(cell.name, cell.who.to_vec(), extent.rounds, interrupt, |place| {
        let running = Running::start(cell.who[place], cell.is_tagged, &stage.corelane)?;
        running.saturated(cell.by, extent.timing.warm_up, extent.timing.window)
    })
}

/// What the columns do not say of themselves.
pub const NOTE: &str = "CPU us: the gateway's process, the kernel's thread that receives for it, and ksoftirqd of its CPU, by packet that came to its user; users: what a packet costs \
who offers it, on the other CPU, and no part of it\n";

/// The medians over the rounds of one cell.
pub fn table(found: &CellRounds) -> String {
    tables::of_rounds(found, "gateway", |_, who| {
        let middle = |of: fn(&Passed) -> f64, digits| number(found.median(who, of), digits);
        let ratios = found.ratios(who, Gateway::Flat, Passed::cpu_us);
        vec![
            ("CPU us", middle(Passed::cpu_us, 3)),
            ("process", middle(|one| one.server_us, 3)),
            ("receiver", middle(|one| one.receiver_us, 3)),
            ("ksoftirqd", middle(|one| one.softirq_us, 3)),
            ("of flat", number(ratios.and_then(|ratios| median(&ratios)), 3)),
            ("offered/s", middle(|one| one.offered_per_s, 0)),
            ("forwarded/s", middle(|one| one.forwarded_per_s, 0)),
            ("wrong", middle(|one| one.wrong as f64, 0)),
            ("users us", middle(|one| one.emitter_us, 3)),
        ]
    })
}
