//! `cargo xtask bench tls`: files behind TLS 1.3 (a certificate for P-256, X25519, AES of 128 bits), on connections that stay and with a full handshake for
//! each, against nginx with OpenSSL.

use anyhow::Result;
use clap::Args;

use super::bars::{Divisor, PARITY, cpu};
use super::cells::Cell;
use super::conduct::conduct;
use super::entrants::{Entrant, Peer};
use super::http;
use super::interrupt::Interrupt;
use super::load::{Asks, Carrier, Load, Page};
use super::manner::Manner;
use super::report::Findings;
use super::rounds::Extent;
use super::stage::{Ours, Stage};
use super::web;

const NGINX: Entrant = Entrant::Peer(Peer::Nginx);
const FEW: usize = 64;
const SMALL: usize = 4 << 10;

/// All cells.
pub const CELLS: &[Cell] = &[
    cell("tls-64-d1", get(Page::File, FEW)),
    Cell { bars: &[cpu(Divisor::One(NGINX), 0.8)], ..cell("tls-4096-d1", get(Page::File, SMALL)) },
    Cell { bars: &[cpu(Divisor::One(NGINX), PARITY)], ..cell("tls-64-new", get(Page::FileAnew, FEW)) },
];

/// What to measure.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
    #[command(flatten)]
    ours: Ours,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When a program cannot be built or started, or answers wrongly.
    pub fn run(&self) -> Result<()> {
        conduct("tls", &self.manner, &self.ours, |_| Ok(()), measure)
    }
}

fn measure(stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    let folder = web::Folder::with_files(&[FEW, SMALL])?;
    folder.certify()?;
    stage.web = Some(folder);
    http::measure(CELLS.iter(), stage, extent, interrupt)
}

const fn cell(name: &'static str, load: Load) -> Cell {
    Cell {
        name,
        load,
        entrants: &[Entrant::Corelane, NGINX],
        bars: &[],
        stand_in: Entrant::Corelane,
        idle_cpu: false,
        part: None,
    }
}

/// Files of so many bytes, 64 connections at a time.
const fn get(page: Page, bytes: usize) -> Load {
    Load { asks: Asks::Get(page), transport: Carrier::Tls, bytes, connections: 64, depth: 1, spin: false }
}
