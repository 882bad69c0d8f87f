//! `cargo xtask bench proxy`: bytes and requests that are passed on to a server behind, against proxies that others wrote.

mod cells;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::behind::{Behind, Way, missing};
use super::cells::wants;
use super::conduct::conduct;
use super::entrants::{Absence, Entrant, PROXIES, Peer};
use super::idle;
use super::interrupt::Interrupt;
use super::manner::Manner;
use super::measure::measure_cell;
use super::report::Findings;
use super::rounds::{Extent, Verdict};
use super::stage::{Ours, Stage};

pub use cells::CELLS;
use cells::{FILES, IDLE};

/// Idle pairs of a quick run.
const QUICK_PAIRS: usize = 500;

/// The cells to measure, and how.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    manner: Manner,
    /// One cell alone; may be given again.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = PossibleValuesParser::new(cells::names()))]
    only: Vec<String>,
    #[command(flatten)]
    ours: Ours,
}

impl Arguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When a program cannot be built or started, or answers wrongly. A proxy that is not installed is left out.
    pub fn run(&self) -> Result<()> {
        // A pair has two descriptors in the proxy.
        idle::raise_file_limit(2 * self.pairs())?;
        conduct("proxy", &self.manner, &self.ours, |_| Ok(()), |stage, extent, interrupt| self.measure(stage, extent, interrupt))
    }

    fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        let absences: Vec<_> = peers().filter_map(|peer| Some(Absence { peer, why: missing(peer)? })).collect();
        let mut findings = Findings::default();
        absences.iter().for_each(|absence| findings.leave_out(absence.to_string()));
        let places = [stage.free_address()?, stage.free_address()?];
        stage.behind = Some(Behind::start(&stage.corelane, places, &FILES)?);
        for (way, cell) in CELLS.iter().filter(|(_, cell)| wants(&self.only, cell.name)) {
            pass(stage, *way);
            let lineup = stage.lineup(cell, &absences);
            let extent = if cell.part.is_some() { shortened(extent) } else { extent };
            measure_cell(cell, &lineup, stage, extent, interrupt, &mut findings)?;
        }
        if wants(&self.only, IDLE.name) {
            pass(stage, Way::Bytes);
            self.measure_idle(stage, &absences, interrupt, &mut findings)?;
        }
        Ok(findings)
    }

    /// Memory and CPU time of pairs that rest.
    fn measure_idle(
        &self,
        stage: &mut Stage,
        absences: &[Absence],
        interrupt: &Interrupt,
        findings: &mut Findings,
    ) -> Result<()> {
        eprintln!("{} ...", IDLE.name);
        let peers = peers().filter(|&peer| absences.iter().all(|absence| absence.peer != peer));
        let entrants = std::iter::once(Entrant::Corelane).chain(peers.map(Entrant::Peer));
        let outcomes = entrants.map(|entrant| idle::run(entrant, self.pairs(), stage, interrupt)).collect::<Result<Vec<_>>>()?;
        let judged: Vec<Verdict> = outcomes.first().into_iter().flat_map(|first| idle::judge(&IDLE, first)).collect();
        findings.show(&idle::table(IDLE.name, &outcomes), &outcomes, judged)
    }

    fn pairs(&self) -> usize {
        if self.manner.quick { QUICK_PAIRS } else { IDLE.connections }
    }
}

/// Two thirds of the rounds: in a cell of an open loop the greatest rates are measured as well.
fn shortened(extent: Extent) -> Extent {
    Extent { rounds: (extent.rounds * 2).div_ceil(3), ..extent }
}

/// The proxies of others: those that are judged against, and beside them Envoy.
fn peers() -> impl Iterator<Item = Peer> {
    PROXIES.into_iter().chain([Peer::Envoy])
}

/// Has the proxies that are started from now on pass on so.
fn pass(stage: &mut Stage, way: Way) {
    if let Some(behind) = &mut stage.behind {
        behind.way = way;
    }
}
