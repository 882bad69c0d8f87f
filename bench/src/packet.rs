//! `cargo xtask bench packet`: what a datagram's echo costs on a packet lane, beside sockets, the kernel's own echo and DPDK's; what is left of it
//! under a flood; what lanes cost while nothing comes; whether any flow is reordered; and what the packet path costs in nanoseconds.
//!
//! ```text
//! near, CPU 1                                          far, CPU 0
//! corelane load --socket--> veth: XDP pass  ========  veth: XDP pass, echo or the packet lane's --socket, AF_XDP--> server
//!               a thread that receives (NAPI)                a thread that receives (NAPI)
//! ```
//!
//! Each echo has a wire of its own, set up alike ([`wire`]), and both are made anew for each round. What it costs is the processor time of its threads and of the kernel's thread that
//! receives for it.

mod cells;
pub mod flood;
mod idle;
mod nanoseconds;
mod order;
pub mod programs;
mod rounds;
mod servers;
pub mod wire;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::cells::wants;
use super::conduct::conduct;
use super::interrupt::Interrupt;
use super::manner::Manner;
use super::report::Findings;
use super::rounds::Extent;
use super::server;
use super::stage::{Ours, Stage};
use cells::{CELLS, Echo, FLOOD, IDLE, NANOSECONDS, ORDER};
use xtask::workspace::Workspace;

/// What no column says.
const STARTS: &str =
    "echo: each is started anew for each round, so that an interval holds what one start differs by from another\n";

/// What to measure.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
    /// One cell alone; may be given again.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = cell_names())]
    only: Vec<String>,
    /// Another build of corelane, two servers more in the same rounds: what its lanes over frames cost, and what this one's cost of that.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When a program is missing that every wire is made with, or a wire or a server cannot be made. DPDK that is not installed is left out, by name.
    pub fn run(&self) -> Result<()> {
        let ours = Ours { beside: self.beside.clone(), ..Ours::ALONE };
        conduct("packet", &self.manner, &ours, |_| Ok(()), |stage, extent, interrupt| self.measure(stage, extent, interrupt))
    }

    fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        wire::ensure_programs(server::is_installed)?;
        let wanted = Echo::ALL.into_iter().filter(|echo| !echo.is_beside() || self.beside.is_some());
        let (echoes, missing): (Vec<_>, Vec<_>) = wanted.partition(|&echo| servers::lacking(echo).is_none());
        let mut findings = Findings::default();
        missing.into_iter().filter_map(servers::lacking).for_each(|why| findings.leave_out(why));
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let measured = rounds::run(cell, &echoes, stage, extent, interrupt)?;
            [STARTS, rounds::NOTE].into_iter().for_each(|note| findings.note(note));
            findings.show(&rounds::table(&measured), &measured, rounds::judge(cell, &measured))?;
        }
        if wants(&self.only, FLOOD) {
            let floods = flood::run(stage, extent, interrupt)?;
            findings.note(STARTS);
            findings.show(&flood::table(&floods), &floods, flood::judge(&floods))?;
        }
        if wants(&self.only, IDLE) {
            let idle = idle::run(stage, extent, interrupt)?;
            findings.note(STARTS);
            findings.show(&idle::table(&idle), &idle, idle::judge(&idle))?;
        }
        if wants(&self.only, ORDER) {
            let (lines, verdicts) = order::run(&Workspace::load()?.root)?;
            findings.show(&lines, &lines, verdicts)?;
        }
        if wants(&self.only, NANOSECONDS) {
            let lines = nanoseconds::run(&Workspace::load()?.root)?;
            findings.show(&lines, &lines, None)?;
        }
        Ok(findings)
    }
}

fn cell_names() -> clap::builder::PossibleValuesParser {
    CELLS.iter().map(|cell| cell.name).chain([FLOOD, IDLE, ORDER, NANOSECONDS]).into()
}
