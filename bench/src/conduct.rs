//! What a subject's measurement needs around it: programs, processors, and a report.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::build::{become_optimised, build_package};
use super::cpus::GENERATOR_CPU;
use super::host::{self, Host};
use super::interrupt::Interrupt;
use super::manner::Manner;
use super::report::{self, Findings, Report};
use super::rounds::Extent;
use super::stage::{Ours, Stage};
use super::{generator, record, server};
use xtask::workspace::Workspace;

/// Builds, with the peers by `build_peers` from their folder, and prepares; lets `measure` find out, and gives the results of `subject` out.
///
/// # Errors
/// When what is asked for is refused (rounds, a program that is not there), or something cannot be built, measured or written.
pub fn conduct(
    subject: &str,
    manner: &Manner,
    ours: &Ours,
    build_peers: impl FnOnce(&Path) -> Result<()>,
    measure: impl FnOnce(&mut Stage, Extent, &Interrupt) -> Result<Findings>,
) -> Result<()> {
    let extent = manner.extent()?;
    if let Some(program) = &ours.beside {
        ensure!(program.is_file(), "--beside {}: expected a program", program.display());
    }
    let workspace = Workspace::load()?;
    if cfg!(debug_assertions) {
        return become_optimised(&workspace);
    }
    let peers = workspace.root.join("bench/peers");
    build_peers(&peers)?;
    build_package(&workspace, "corelane-cli")?;
    let mut stage = Stage::new(workspace.target.join("release/corelane"), peers, ours.clone());
    // From here on no signal ends this process before its servers.
    let interrupt = Interrupt::block()?;
    server::pin(&[GENERATOR_CPU])?;
    let (started, stolen_ms) = (Instant::now(), host::stolen_ms()?);
    let findings = measure(&mut stage, extent, &interrupt)?;
    let report = Report {
        host: Host::read(),
        stolen_ms: host::stolen_ms()? - stolen_ms,
        took_s: started.elapsed().as_secs_f64(),
        driver: ours.driver,
        beside: ours.beside.clone(),
        generator_driver: generator::DRIVER,
        extent,
        findings,
    };
    let summary = report::summary(&report);
    println!("{summary}");
    if manner.record {
        record::write(&workspace.root, subject, &format!("{}{summary}", report.findings.tables))?;
    }
    let usual = workspace.target.join(format!("bench/{subject}.json"));
    report::write(&report, manner.json.as_ref().unwrap_or(&usual))
}
