//! `cargo xtask bench`: figures that are published whole and judged in pairs.

mod attack;
mod bars;
mod callgrind;
mod cells;
mod contention;
mod counts;
mod cpus;
mod doubts;
mod entrants;
mod event;
mod ganesha;
mod generator;
mod host;
mod http;
mod hyper;
mod idle;
mod instructions;
mod interrupt;
mod load;
mod open_loop;
mod operator;
mod packet;
mod report;
mod rounds;
mod rpc;
mod server;
mod softirq;
mod stage;
mod tls;
mod web;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

use crate::workspace::{Workspace, cargo};
use cells::{CELLS, Cell, GENERATOR_CELLS, IDLE, OPEN_LOOP, names};
use corelane_load::stats::median;
use cpus::GENERATOR_CPU;
use entrants::{Entrant, Peer};
use host::Host;
use interrupt::Interrupt;
use load::Timing;
use report::{Findings, Report};
use rounds::{CellResult, Extent};
use stage::{Ours, Stage};

/// What to measure.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand, Debug)]
enum Subject {
    /// The echo service against plain loops and other runtimes, under `corelane load`. Needs CPU 0 (server) and CPU 1
    /// (generator).
    Echo(EchoArguments),
    /// The load generator itself: whether it saturates the fastest servers, what a request costs it beside them, and whether
    /// it keeps its times. Needs CPU 0 (server) and CPU 1 (generator).
    Load(Manner),
    /// Calls of ONC RPC against libtirpc and nfs-ganesha, under `corelane load rpc`. Needs CPU 0 (server) and CPU 1
    /// (generator); and root for nfs-ganesha, which gets a network of its own.
    Rpc(rpc::Arguments),
    /// HTTP against nginx, h2o and lighttpd, under `corelane load http`. Needs CPU 0 (server) and CPU 1 (generator).
    Http(http::Arguments),
    /// Files behind TLS against nginx: on connections that stay, and with a full handshake for each.
    Tls(tls::Arguments),
    /// hyper's hello on lanes and on tokio, under `corelane load http`. Needs CPU 0 (server) and CPU 1 (generator).
    Hyper(hyper::Arguments),
    /// Event queues: kqueue(2) of this project against a plain epoll loop, libkqueue and io_uring, and a web server of one source on each system.
    /// Needs CPU 0 (what is measured) and CPU 1 (its peers).
    Event(event::Arguments),
    /// Echoes of datagrams on frames (AF_XDP) beside sockets, the kernel's own XDP_TX and DPDK, on veth; under a flood; and the packet path in
    /// nanoseconds. Needs CPU 0 (server), CPU 1 (generator), and root.
    Packet(packet::Arguments),
    /// Whether steering makes lanes wait for one another: waits for locks, counted by the kernel, with steering and without. Needs
    /// CPU 0 and CPU 1, perf, and root.
    Steer(Manner),
    /// Whether honest clients are answered while 3,900 connections from 64 addresses hold what memory they are lent, on both drivers. Needs
    /// CPU 0 (server) and CPU 1 (everybody else).
    Attack(Manner),
    /// Instructions that the server takes for a request outside of the kernel, of echoes and of calls of ONC RPC, by callgrind; with --beside against another
    /// build. Needs valgrind. Nothing is timed, so the machine may be busy.
    Instructions(instructions::Arguments),
    /// What an operator waits for: `serve` until it is ready, `stat` while a server is stopped, busy or dead and with 10,000 connections, what `top` takes, and how
    /// large the program is. Needs CPU 0 (server), and CPU 1 (tools).
    Operator(Manner),
    /// Becomes a program that is pinned to a CPU and ends with its starter.
    #[command(hide = true)]
    Start {
        #[arg(long)]
        cpu: usize,
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
}

/// What every subject is told.
#[derive(Args, Debug)]
struct Manner {
    /// Length of one measurement in seconds, after 0.2 s that do not count.
    #[arg(long, value_name = "S", default_value_t = 0.8)]
    round_seconds: f64,
    /// Rounds of each cell. They are neither more nor fewer, whatever they show.
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: usize,
    /// Where the whole result goes; target/bench/SUBJECT.json if not given.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Three short rounds, 1,000 idle connections and a short open loop: whether it runs, not what it shows.
    #[arg(long, conflicts_with_all = ["rounds", "round_seconds"])]
    quick: bool,
}

#[derive(Args, Debug)]
struct EchoArguments {
    #[command(flatten)]
    manner: Manner,
    /// One cell alone; may be given again.
    #[arg(long, value_name = "CELL", value_parser = PossibleValuesParser::new(names(CELLS).chain([IDLE.name])))]
    only: Vec<String>,
    #[command(flatten)]
    ours: Ours,
    /// Measure the peers alone; a plain loop is judged in corelane's place.
    #[arg(long, conflicts_with = "beside")]
    peers_only: bool,
}

/// Nothing of a measurement counts before this.
const WARM_UP: Duration = Duration::from_millis(200);

/// Idle connections of a quick run.
const QUICK_CONNECTIONS: usize = 1_000;

/// The open loop of a quick run.
const QUICK_OPEN: Timing = Timing { warm_up: WARM_UP, window: Duration::from_secs(1) };

const QUICK: Extent = Extent { timing: Timing { warm_up: WARM_UP, window: Duration::from_millis(300) }, rounds: 3 };

/// Runs the command.
///
/// # Errors
/// When a program cannot be built or started, or answers wrongly. A bar that is missed is a result, not an error.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.subject {
        Subject::Start { cpu, words } => server::become_program(*cpu, words)?,
        Subject::Echo(echo) => echo.run()?,
        Subject::Rpc(rpc) => rpc.run()?,
        Subject::Http(http) => http.run()?,
        Subject::Tls(tls) => tls.run()?,
        Subject::Hyper(hyper) => hyper.run()?,
        Subject::Instructions(instructions) => instructions.run()?,
        Subject::Event(event) => {
            event.manner.conduct("event", &Ours::ALONE, event::build, |stage, extent, interrupt| {
                measure_events(event, stage, extent, interrupt)
            })?;
        }
        Subject::Packet(packet) => {
            packet.manner.conduct(
                "packet",
                &Ours::ALONE,
                |_| Ok(()),
                |stage, extent, interrupt| measure_packets(packet, stage, extent, interrupt),
            )?;
        }
        Subject::Load(manner) => {
            manner.conduct("load", &Ours::ALONE, build_peers, |stage, extent, interrupt| {
                measure_generator(manner, stage, extent, interrupt)
            })?;
        }
        Subject::Steer(manner) => {
            manner.conduct("steer", &Ours::ALONE, |_| Ok(()), measure_contention)?;
        }
        Subject::Attack(manner) => {
            manner.conduct("attack", &Ours::ALONE, |_| Ok(()), measure_attack)?;
        }
        Subject::Operator(manner) => {
            manner.conduct("operator", &Ours::ALONE, |_| Ok(()), measure_operator)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Manner {
    /// Builds, with the peers by `build_peers` from their folder, and prepares; lets `measure` find out, and gives the results of `subject` out.
    fn conduct(
        &self,
        subject: &str,
        ours: &Ours,
        build_peers: impl FnOnce(&Path) -> Result<()>,
        measure: impl FnOnce(&mut Stage, Extent, &Interrupt) -> Result<Findings>,
    ) -> Result<()> {
        let extent = self.extent()?;
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
        println!("{}", report::summary(&report));
        let usual = workspace.target.join(format!("bench/{subject}.json"));
        report::write(&report, self.json.as_ref().unwrap_or(&usual))
    }

    fn extent(&self) -> Result<Extent> {
        if self.quick {
            return Ok(QUICK);
        }
        ensure!(self.rounds > 0, "--rounds: expected at least 1");
        ensure!((0.1..=60.0).contains(&self.round_seconds), "--round-seconds: expected 0.1 to 60, got {}", self.round_seconds);
        let timing = Timing { warm_up: WARM_UP, window: Duration::from_secs_f64(self.round_seconds) };
        Ok(Extent { timing, rounds: self.rounds })
    }
}

impl EchoArguments {
    fn run(&self) -> Result<()> {
        idle::raise_file_limit(self.idle_connections())?;
        self.manner.conduct("echo", &self.ours, build_peers, |stage, extent, interrupt| self.measure(stage, extent, interrupt))
    }

    fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        if !self.peers_only {
            stage.find_other_driver()?;
        }
        let mut cells = Vec::new();
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let lineup = self.lineup(cell, stage);
            cells.push(measure_cell(cell, &lineup, stage, extent, interrupt)?);
        }
        let idle = if wants(&self.only, IDLE.name) { self.measure_idle(stage, interrupt)? } else { Vec::new() };
        let verdicts = cells.iter().flat_map(|outcome| outcome.verdicts.iter().cloned());
        let verdicts = verdicts.chain(idle.first().into_iter().flat_map(|first| idle::judge(&IDLE, first)));
        Ok(Findings { verdicts: verdicts.collect(), cells, idle, ..Findings::default() })
    }

    /// The server that is judged, then the peers, to compare with.
    fn measure_idle(&self, stage: &mut Stage, interrupt: &Interrupt) -> Result<Vec<idle::IdleOutcome>> {
        eprintln!("{} ...", IDLE.name);
        let peers = [Peer::Epoll, Peer::Tokio, Peer::Compio, Peer::Monoio].map(Entrant::Peer);
        let corelane = (!self.peers_only).then_some(Entrant::Corelane);
        let outcomes = corelane
            .into_iter()
            .chain(peers)
            .map(|entrant| idle::run(entrant, self.idle_connections(), stage, interrupt))
            .collect::<Result<Vec<_>>>()?;
        println!("{}", report::idle_table(IDLE.name, &outcomes));
        Ok(outcomes)
    }

    fn idle_connections(&self) -> usize {
        if self.manner.quick { QUICK_CONNECTIONS } else { IDLE.connections }
    }

    fn lineup(&self, cell: &Cell, stage: &Stage) -> Vec<Entrant> {
        cell.lineup(stage.ours.beside.is_some(), |entrant| match entrant {
            Entrant::OtherDriver => stage.other.is_some(),
            entrant => !entrant.is_corelane() || !self.peers_only,
        })
    }
}

/// Whether this cell is to be measured: all are where none was named.
fn wants(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|only| only == name)
}

/// Measures the generator in closed loops, and then in an open one at half the rate that came of the first of them.
fn measure_generator(manner: &Manner, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    let measured = GENERATOR_CELLS.iter().map(|cell| measure_cell(cell, cell.entrants, stage, extent, interrupt));
    let cells = measured.collect::<Result<Vec<_>>>()?;
    let rates: Vec<f64> = cells[0].rounds.iter().map(|round| round[0].sample.requests_per_s).collect();
    let saturation = median(&rates).context("no round was measured")?;
    let timing = if manner.quick { QUICK_OPEN } else { open_loop::TIMING };
    eprintln!("{} ...", OPEN_LOOP.name);
    let outcome = open_loop::run(&OPEN_LOOP, saturation, timing, stage, interrupt)?;
    println!("{}", report::open_table(OPEN_LOOP.name, &outcome));
    let verdicts = cells.iter().flat_map(|cell| cell.verdicts.iter().cloned());
    let verdicts = verdicts.chain(open_loop::judge(&OPEN_LOOP, &outcome)).collect();
    Ok(Findings { cells, open_loop: Some(outcome), verdicts, ..Findings::default() })
}

/// Counts what lanes wait for one another.
fn measure_contention(stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    eprintln!("{} ...", contention::NAME);
    let (rounds, verdict) = contention::run(extent, stage, interrupt)?;
    println!("{}", contention::table(&rounds));
    Ok(Findings { contentions: rounds, verdicts: vec![verdict], ..Findings::default() })
}

/// Measures event queues, and the web server of one source on each system of events.
fn measure_events(event: &event::Arguments, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    let event::Found { events, servers, instructions, left_out, verdicts } = event.measure(stage, extent, interrupt)?;
    Ok(Findings { events, cells: servers.into_iter().collect(), instructions, left_out, verdicts, ..Findings::default() })
}

/// Measures echoes over frames.
fn measure_packets(packet: &packet::Arguments, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    let packet::Found { packets, flood, nanoseconds, left_out, verdicts } = packet.measure(stage, extent, interrupt)?;
    Ok(Findings { packets, flood, nanoseconds, left_out, verdicts, ..Findings::default() })
}

/// Attacks for as long as all rounds together.
fn measure_attack(stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    eprintln!("{} ...", attack::NAME);
    let window = extent.timing.window * u32::try_from(extent.rounds).unwrap_or(u32::MAX);
    let (attacks, verdicts) = attack::run(&stage.corelane, window, interrupt)?;
    println!("{}", attack::table(&attacks));
    Ok(Findings { attacks, verdicts, ..Findings::default() })
}

fn measure_operator(stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    Ok(Findings { verdicts: operator::run(&stage.corelane, extent.rounds, interrupt)?, ..Findings::default() })
}

/// Measures one cell and prints its table.
fn measure_cell(cell: &Cell, lineup: &[Entrant], stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<CellResult> {
    eprintln!("{} ...", cell.name);
    let outcome = rounds::run(cell, lineup, stage, extent, interrupt)?;
    println!("{}", report::cell_table(&outcome));
    Ok(outcome)
}

/// Builds the peers that are written in Rust.
fn build_peers(peers: &Path) -> Result<()> {
    let mut command = cargo();
    command.args(BUILD).arg("--manifest-path").arg(peers.join("Cargo.toml")).arg("--target-dir").arg(peers.join("target"));
    run_cargo(&mut command)
}

/// With optimisation, which everything that takes part in a measurement needs.
const BUILD: [&str; 3] = ["build", "--release", "--quiet"];

/// Builds this program as [`BUILD`] says, and becomes it.
fn become_optimised(workspace: &Workspace) -> Result<()> {
    build_package(workspace, "xtask")?;
    let program = workspace.target.join("release/xtask");
    let error = Command::new(&program).args(std::env::args_os().skip(1)).exec();
    Err(error).with_context(|| program.display().to_string())
}

fn build_package(workspace: &Workspace, name: &str) -> Result<()> {
    run_cargo(cargo().args(BUILD).args(["--package", name]).current_dir(&workspace.root))
}

fn run_cargo(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}; its own message is above");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `[profile.release]` of a manifest, from the root; without what only packages have that serve nobody.
    fn release_profile(manifest: &str) -> toml::Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(manifest);
        let manifest: toml::Table = std::fs::read_to_string(path).expect("a manifest").parse().expect("TOML");
        let mut profile = manifest["profile"]["release"].clone();
        let apart = profile.as_table_mut().and_then(|table| table.remove("package"));
        for name in apart.iter().filter_map(toml::Value::as_table).flat_map(toml::Table::keys) {
            assert!(SERVE_NOBODY.contains(&name.as_str()), "{name} is built otherwise than the peers are");
        }
        profile
    }

    /// They read the command line, draw, and write what was asked for of a page.
    const SERVE_NOBODY: &[&str] =
        &["clap", "clap_builder", "crossterm", "plotters", "plotters-svg", "ratatui-core", "ratatui-widgets", "serde_json"];

    #[test]
    fn peers_are_built_as_the_project_is() {
        let ours = release_profile("Cargo.toml");
        assert!(ours.get("lto").is_some() && ours.get("codegen-units").is_some(), "{ours:?}");
        assert_eq!(release_profile("bench/peers/Cargo.toml"), ours);
    }

    #[test]
    fn the_rounds_are_as_many_as_were_asked_for() {
        let manner = |words: &[&str]| {
            #[derive(clap::Parser)]
            struct Words {
                #[command(flatten)]
                manner: Manner,
            }
            let words = [&["bench"][..], words].concat();
            clap::Parser::try_parse_from(words).map(|Words { manner }| manner)
        };
        let rounds = |words: &[&str]| manner(words).expect("known words").extent().map(|extent| extent.rounds);
        assert_eq!(rounds(&[]).expect("the default"), 15);
        assert_eq!(rounds(&["--rounds", "2", "--round-seconds", "0.2"]).expect("few"), 2);
        assert_eq!(rounds(&["--rounds", "60"]).expect("many"), 60);
        assert!(rounds(&["--rounds", "0"]).is_err());
    }
}
