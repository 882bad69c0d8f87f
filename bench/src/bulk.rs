//! `cargo xtask bench bulk`: what a GiB costs its sender, from memory and from a file, in pieces of 64 bytes to 4 MiB, beside plain loops and iperf3; and what small
//! requests take on the lane that sends.
//!
//! ```text
//! sender, CPU 0, far end of a wire == veth == near end, CPU 1, receiver: `corelane load sink`, of iperf3 its own
//! ```
//!
//! From socket to socket bytes go through echo: what comes leaves again.

mod beside;
mod roads;
mod senders;
mod through;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::bars::{Limit, PARITY};
use super::build::build_peers;
use super::cells::wants;
use super::conduct::conduct;
use super::interrupt::Interrupt;
use super::manner::Manner;
use super::report::Findings;
use super::rounds::{Extent, Rounds, Verdict};
use super::stage::{Ours, Stage};
use super::tables::{self, number};
use roads::Road;
use senders::{Sample, Sender};

/// A size of pieces, and what the cell is called.
struct Cell {
    name: &'static str,
    bytes: usize,
}

const CELLS: [Cell; 6] = [
    Cell { name: "bulk-64", bytes: 64 },
    Cell { name: "bulk-4096", bytes: 4 << 10 },
    Cell { name: "bulk-16384", bytes: 16 << 10 },
    Cell { name: "bulk-65536", bytes: 64 << 10 },
    Cell { name: "bulk-1048576", bytes: 1 << 20 },
    Cell { name: "bulk-4194304", bytes: 4 << 20 },
];

/// From this size on a piece is bulk, and judged. Of smaller ones the turn of the lane for each weighs, since a piece is a send: they are shown.
const JUDGED_BYTES: usize = 64 << 10;

/// The pairs of senders of which the first is judged by the second, and how much it may cost of that.
const BARS: [(Sender, Sender, f64); 6] = [
    (Sender::Memory, Sender::Loop, PARITY),
    (Sender::Memory, Sender::Iperf, PARITY),
    (Sender::Sealed, Sender::Loop, PARITY),
    (Sender::Sealed, Sender::Iperf, PARITY),
    (Sender::File, Sender::Iperf, PARITY),
    (Sender::Asked, Sender::Memory, ASKED),
];

/// The cost of asking where the kernel copies anyway, once that is known.
const ASKED: f64 = 1.02;

/// The cells to be measured.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
    /// One cell alone; may be given again.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,
    #[command(flatten)]
    ours: Ours,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When a program cannot be built or started, or sends nothing. iperf3 that is not installed is left out, by name.
    pub fn run(&self) -> Result<()> {
        conduct("bulk", &self.manner, &self.ours, build_peers, |stage, extent, interrupt| self.measure(stage, extent, interrupt))
    }

    fn measure(&self, stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        let road = Road::open()?;
        let mut findings = Findings { sides: Some(road.words()), ..Findings::default() };
        let lineup = senders::lineup(&mut findings);
        let file = senders::Bulk::write()?;
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let who: Vec<Sender> = lineup.iter().copied().filter(|sender| sender.fits(cell.bytes)).collect();
            let rounds = Rounds::take(cell.name, who.clone(), extent.rounds, interrupt, |place| {
                who[place].measure(cell.bytes, stage, &road, &file, extent.timing)
            })?;
            findings.show(&table(&rounds), &rounds, judge(cell, &rounds))?;
        }
        for cell in through::CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let rounds = through::run(cell, stage, &road, extent, interrupt).context(cell.name)?;
            findings.show(&through::table(&rounds), &rounds, through::judge(cell, &rounds))?;
        }
        if wants(&self.only, beside::NAME) {
            let rounds = beside::run(stage, &road, extent, interrupt).context(beside::NAME)?;
            findings.show(&beside::table(&rounds), &rounds, beside::judge(&rounds))?;
        }
        Ok(findings)
    }
}

/// What `--only` may name.
fn names() -> impl Iterator<Item = &'static str> {
    CELLS.iter().map(|cell| cell.name).chain(through::CELLS.iter().map(|cell| cell.name)).chain([beside::NAME])
}

type BulkRounds = Rounds<Sender, Sample>;

fn judge(cell: &Cell, rounds: &BulkRounds) -> Vec<Verdict> {
    let is_judged = cell.bytes >= JUDGED_BYTES;
    let bars = BARS.iter().filter(|_| is_judged);
    let verdict = |&(of, by, most): &(Sender, Sender, f64)| {
        rounds.judge(of, by, "sender's CPU per GiB", |sample| sample.cpu_s_per_gib, Limit::AtMost(most))
    };
    bars.filter_map(verdict).collect()
}

fn table(rounds: &BulkRounds) -> String {
    tables::of_rounds(rounds, "sender", |_, who| {
        let median = |of: fn(&Sample) -> f64, digits| number(rounds.median(who, of), digits);
        vec![
            ("CPU s/GiB", median(|sample| sample.cpu_s_per_gib, 3)),
            ("Gb/s", median(|sample| sample.gigabits_per_s, 2)),
            ("CPU used", median(|sample| sample.sender_load, 2)),
            ("copied", median(|sample| sample.copied, 2)),
        ]
    })
}
