//! `cargo xtask bench packet`: what a datagram's echo costs on a packet lane, beside sockets, the kernel's own echo and DPDK's; what is left of it
//! under a flood; whether any flow is reordered; and what the packet path costs in nanoseconds.
//!
//! ```text
//! near, CPU 1                                          far, CPU 0
//! corelane load --socket--> veth: XDP pass  ========  veth: XDP pass, echo or the packet lane's --socket, AF_XDP--> server
//!               a thread that receives (NAPI)                a thread that receives (NAPI)
//! ```
//!
//! Each echo has a wire of its own, set up alike ([`wire`]). What it costs is the processor time of its threads and of the kernel's thread that
//! receives for it.

mod cells;
mod flood;
mod nanoseconds;
mod order;
mod programs;
mod rounds;
mod servers;
mod wire;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::cells::wants;
use super::interrupt::Interrupt;
use super::manner::Manner;
use super::rounds::{Extent, Verdict};
use super::server;
use super::stage::{Ours, Stage};
use cells::{CELLS, Echo, FLOOD, NANOSECONDS, ORDER};
use xtask::workspace::Workspace;

pub use flood::{Floods, table as flood_table};
pub use rounds::{CellRounds, table};

/// What to measure.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    pub(super) manner: Manner,
    /// One cell alone; may be given again.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = cell_names())]
    only: Vec<String>,
    /// Another build of corelane, two servers more in the same rounds: what its lanes over frames cost, and what this one's cost of that.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
}

/// All that was found out.
pub struct Found {
    /// The cells of echoes.
    pub packets: Vec<CellRounds>,
    /// The flood, if it was asked for.
    pub flood: Option<Floods>,
    /// Lines about the order of packets, if they were asked for.
    pub order: Vec<String>,
    /// Lines of the programs that count nanoseconds, if they were asked for.
    pub nanoseconds: Vec<String>,
    /// Who did not take part, and why.
    pub left_out: Vec<String>,
    /// What came of all bars.
    pub verdicts: Vec<Verdict>,
}

impl Arguments {
    /// Corelane as it comes, and what is put beside it.
    pub(super) fn ours(&self) -> Ours {
        Ours { beside: self.beside.clone(), ..Ours::ALONE }
    }

    /// Measures what was asked for.
    ///
    /// # Errors
    /// When a program is missing that every wire is made with, or a wire or a server cannot be made. DPDK that is not installed is left out, by name.
    pub fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Found> {
        wire::ensure_programs(server::is_installed)?;
        let wanted = Echo::ALL.into_iter().filter(|echo| !echo.is_beside() || self.beside.is_some());
        let (echoes, missing): (Vec<_>, Vec<_>) = wanted.partition(|&echo| servers::lacking(echo).is_none());
        let left_out = missing.into_iter().filter_map(servers::lacking).collect();
        let mut found = Found {
            packets: Vec::new(),
            flood: None,
            order: Vec::new(),
            nanoseconds: Vec::new(),
            left_out,
            verdicts: Vec::new(),
        };
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let measured = rounds::run(cell, &echoes, stage, extent, interrupt)?;
            println!("{}", rounds::table(&measured));
            found.verdicts.extend(rounds::judge(cell, &measured));
            found.packets.push(measured);
        }
        if wants(&self.only, FLOOD) {
            let floods = flood::run(stage, extent, interrupt)?;
            println!("{}", flood::table(&floods));
            found.verdicts.extend(flood::judge(&floods));
            found.flood = Some(floods);
        }
        if wants(&self.only, ORDER) {
            let (lines, verdicts) = order::run(Workspace::load()?.root.as_path())?;
            println!("{}\n", lines.join("\n"));
            found.verdicts.extend(verdicts);
            found.order = lines;
        }
        if wants(&self.only, NANOSECONDS) {
            found.nanoseconds = nanoseconds::run(Workspace::load()?.root.as_path())?;
            println!("{}\n", found.nanoseconds.join("\n"));
        }
        Ok(found)
    }
}

fn cell_names() -> clap::builder::PossibleValuesParser {
    CELLS.iter().map(|cell| cell.name).chain([FLOOD, ORDER, NANOSECONDS]).into()
}
