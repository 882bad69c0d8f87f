//! `cargo xtask bench hyper`: hyper's hello on lanes, against the same on tokio.

use std::path::Path;

use anyhow::Result;
use clap::Args;

use super::bars::{Bar, Divisor, PARITY, cpu};
use super::build::{BUILD, build_peers, run_cargo};
use super::cells::Cell;
use super::conduct::conduct;
use super::entrants::{Entrant, Peer};
use super::load::{Asks, Carrier, HELLO_BYTES, Load, Page};
use super::manner::Manner;
use super::measure::measure_cell;
use super::report::Findings;
use super::stage::Ours;
use xtask::workspace::cargo;

const ON_TOKIO: Entrant = Entrant::Peer(Peer::Hyper);

/// All cells; the goal is 0.9.
const CELLS: &[Cell] = &[cell("hyper-d1", 1), cell("hyper-d16", 16)];

const BARS: &[Bar] = &[Bar { of: Entrant::Hyper, ..cpu(Divisor::One(ON_TOKIO), PARITY) }];

/// What to measure.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When a program cannot be built or started, or answers wrongly.
    pub fn run(&self) -> Result<()> {
        conduct("hyper", &self.manner, &Ours::ALONE, build, |stage, extent, interrupt| {
            let mut findings = Findings::default();
            for cell in CELLS {
                measure_cell(cell, cell.entrants, stage, extent, interrupt, &mut findings)?;
            }
            Ok(findings)
        })
    }
}

/// Builds both sides.
fn build(peers: &Path) -> Result<()> {
    build_peers(peers)?;
    run_cargo(cargo().args(BUILD).args(["--package", "corelane-hyper", "--example", "hyper_hello"]))
}

const fn cell(name: &'static str, depth: usize) -> Cell {
    let asks = Asks::Get(Page::Hello);
    let load = Load { asks, transport: Carrier::Tcp, bytes: HELLO_BYTES, connections: 64, depth, spin: false };
    Cell { name, load, entrants: &[Entrant::Hyper, ON_TOKIO], bars: BARS, stand_in: Entrant::Hyper, idle_cpu: false, part: None }
}
