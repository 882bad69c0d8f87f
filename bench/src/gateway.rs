//! `cargo xtask bench gateway`: what a packet between 40 houses costs a gateway of lanes, beside the kernel with nftables that count the same, and beside a bare
//! redirect; and the post's ramp.
//!
//! ```text
//! near, CPU 1: the users                                    far, CPU 0: the gateway, one port
//! frames of a program (live frames) ----------> veth: a thread receives (NAPI) --> forwards, counts
//!          counted, and seen by nobody <---------------------------------------------'
//! ```
//!
//! A user sends to a user of another house, so a packet leaves by where it came. The thread that receives for the gateway is the gateway's, whoever that is.

mod cells;
mod changes;
mod contenders;
mod houses;
mod linux;
mod ours;
mod post;
mod programs;
mod rounds;
mod running;
mod sockets;

use anyhow::{Result, ensure};
use clap::Args;

use super::cells::wants;
use super::conduct::conduct;
use super::interrupt::Interrupt;
use super::manner::Manner;
use super::packet::wire;
use super::report::Findings;
use super::rounds::Extent;
use super::server;
use super::stage::{Ours, Stage};
use cells::{CELLS, Cell};
use contenders::{Asked, Gateway};

/// The cells to measure, and how often.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
    /// One cell alone; may be given again.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = cell_names())]
    only: Vec<String>,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When a program is missing that gateways are made with, or a wire or a gateway cannot be made.
    pub fn run(&self) -> Result<()> {
        conduct(
            "gateway",
            &self.manner,
            &Ours::ALONE,
            |_| Ok(()),
            |stage, extent, interrupt| self.measure(stage, extent, interrupt),
        )
    }

    fn measure(&self, stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        wire::ensure_programs(server::is_installed)?;
        ensure!(server::is_installed("nft"), "the kernel counts by nftables, which is missing here: install nftables");
        let mut findings = Findings::default();
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let who = takes_part(cell, stage, &mut findings)?;
            let measured = rounds::run(cell, who, stage, extent, interrupt)?;
            findings.note(rounds::NOTE);
            findings.show(&rounds::table(&measured), &measured, rounds::judge(&measured))?;
        }
        if wants(&self.only, post::CELL) {
            let ramps = post::run(stage, extent, interrupt)?;
            findings.show(&post::table(&ramps), &ramps, post::judge(&ramps))?;
        }
        if wants(&self.only, changes::CELL) {
            let made = changes::run(stage, extent, interrupt)?;
            findings.show(&changes::table(&made), &made, changes::judge(&made))?;
        }
        Ok(findings)
    }
}

/// The contenders of a cell that take part: all whose file this corelane understands.
fn takes_part(cell: &Cell, stage: &Stage, findings: &mut Findings) -> Result<Vec<Gateway>> {
    let mut who = cell.who.to_vec();
    for &gateway in cell.who.iter().filter(|gateway| gateway.is_ours()) {
        let asked = Asked { gateway, is_tagged: cell.is_tagged, beside: None };
        if let Some(why) = ours::lacking(asked, &stage.corelane)? {
            who.retain(|&one| one != gateway);
            findings.leave_out(why);
        }
    }
    Ok(who)
}

fn cell_names() -> clap::builder::PossibleValuesParser {
    CELLS.iter().map(|cell| cell.name).chain([post::CELL, changes::CELL]).collect::<Vec<_>>().into()
}
