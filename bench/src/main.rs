//! `cargo xtask bench`: figures that are published whole and judged in pairs.
#![forbid(unsafe_code)]

mod attack;
mod bars;
mod behind;
mod build;
mod bulk;
mod callgrind;
mod cells;
mod conduct;
mod contention;
mod counts;
mod cpus;
mod doubts;
mod entrants;
mod event;
mod flood;
mod ganesha;
mod gateway;
mod generator;
mod host;
mod http;
mod hyper;
mod idle;
mod instructions;
mod interrupt;
mod judged;
mod load;
mod machine;
mod manner;
mod measure;
mod measured;
mod open_loop;
mod operator;
mod packet;
mod path;
mod plot;
mod proxy;
mod record;
mod report;
mod rounds;
mod rpc;
mod scale;
mod server;
mod softirq;
mod stage;
mod tables;
mod tls;
mod web;

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};

use build::build_peers;
use cells::{CELLS, Cell, GENERATOR_CELLS, IDLE, OPEN_LOOP, names, wants};
use conduct::conduct;
use entrants::{Entrant, Peer};
use interrupt::Interrupt;
use load::Timing;
use manner::{Manner, WARM_UP};
use measure::measure_cell;
use report::Findings;
use rounds::Extent;
use stage::{Ours, Stage};

use xtask::workspace::Workspace;

/// Measure services against peers, in paired rounds
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
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
    /// What a GiB costs its sender, from memory and from files, against plain loops and iperf3, and what small requests take beside it. Needs CPU 0 (sender), CPU 1
    /// (receiver), and root for a wire.
    Bulk(bulk::Arguments),
    /// Bytes and requests passed on to a server behind, against HAProxy, nginx and Envoy, and pairs of connections that rest. Needs CPU 0 (proxy), and CPU 1 (generator and
    /// the server behind).
    Proxy(proxy::Arguments),
    /// hyper's hello on lanes and on tokio, under `corelane load http`. Needs CPU 0 (server) and CPU 1 (generator).
    Hyper(hyper::Arguments),
    /// Event queues: kqueue(2) of this project against a plain epoll loop, libkqueue and io_uring, and a web server of one source on each system.
    /// Needs CPU 0 (what is measured) and CPU 1 (its peers).
    Event(event::Arguments),
    /// Echoes of datagrams on frames (AF_XDP) beside sockets, the kernel's own XDP_TX and DPDK, on veth; under a flood; and the packet path in
    /// nanoseconds. Needs CPU 0 (server), CPU 1 (generator), and root.
    Packet(packet::Arguments),
    /// What is answered, and what is left for others, as more and more is offered to one CPU: sockets, sockets with threads that receive, packet lanes, and
    /// those that poll. Needs CPU 0 (server), CPU 1 (generator), and root.
    Flood(flood::Arguments),
    /// A gateway between 40 networks, which counts what 160 rules say: lanes beside the kernel's forwarding with nftables, and a bare redirect. Needs CPU 0 (gateway),
    /// CPU 1 (its users), nftables, and root.
    Gateway(gateway::Arguments),
    /// Whether steering makes lanes wait for one another: waits for locks, counted by the kernel, with steering and without. Needs
    /// CPU 0 and CPU 1, perf, and root.
    Steer(Manner),
    /// Whether a request costs a lane among 2, 4 and 8 what it costs a lane alone, beside peers with as many threads. Needs 4 CPUs, and 16 for 8 lanes.
    Scale(scale::Arguments),
    /// Whether honest clients are answered while 3,900 connections from 64 addresses hold what memory they are lent, on both drivers. Needs
    /// CPU 0 (server) and CPU 1 (everybody else).
    Attack(Manner),
    /// Instructions that the server takes for a request outside of the kernel, of echoes and of calls of ONC RPC, by callgrind; with --beside against another
    /// build. Needs valgrind. Nothing is timed, so the machine may be busy.
    Instructions(instructions::Arguments),
    /// What an operator waits for: `serve` until it is ready, `stat` while a server is stopped, busy or dead and with 10,000 connections, what `top` takes, and how
    /// large the program is. Needs CPU 0 (server), and CPU 1 (tools).
    Operator(Manner),
    /// Draws the plots of all records in bench/results anew. Nothing is measured.
    Plot,
    /// Computes until it is ended.
    #[command(hide = true)]
    Spin,
    /// Becomes a program that is pinned to CPUs and ends with its starter.
    #[command(hide = true)]
    Start {
        #[arg(long, value_delimiter = ',', required = true)]
        cpus: Vec<usize>,
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
}

#[derive(Args, Debug)]
struct EchoArguments {
    #[command(flatten)]
    manner: Manner,
    /// One cell alone; may be given again.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = PossibleValuesParser::new(names(CELLS).chain([IDLE.name])))]
    only: Vec<String>,
    #[command(flatten)]
    ours: Ours,
    /// Measure the peers alone; a plain loop is judged in corelane's place.
    #[arg(long, conflicts_with_all = ["beside", "record"])]
    peers_only: bool,
}

/// Idle connections of a quick run.
const QUICK_CONNECTIONS: usize = 1_000;

/// The open loop of a quick run.
const QUICK_OPEN: Timing = Timing { warm_up: WARM_UP, window: Duration::from_secs(1) };

/// Fails when a program cannot be built or started, or answers wrongly. A bar that is missed is a result, not an error.
fn main() -> Result<()> {
    match &Arguments::parse().subject {
        Subject::Start { cpus, words } => server::become_program(cpus, words)?,
        Subject::Spin => loop {
            std::hint::spin_loop();
        },
        Subject::Flood(flood) => flood.run()?,
        Subject::Gateway(gateway) => gateway.run()?,
        Subject::Plot => record::draw_all(&Workspace::load()?.root)?,
        Subject::Echo(echo) => echo.run()?,
        Subject::Rpc(rpc) => rpc.run()?,
        Subject::Http(http) => http.run()?,
        Subject::Tls(tls) => tls.run()?,
        Subject::Bulk(bulk) => bulk.run()?,
        Subject::Proxy(proxy) => proxy.run()?,
        Subject::Hyper(hyper) => hyper.run()?,
        Subject::Instructions(instructions) => instructions.run()?,
        Subject::Event(event) => event.run()?,
        Subject::Packet(packet) => packet.run()?,
        Subject::Scale(scale) => scale.run()?,
        Subject::Load(manner) => {
            conduct("load", manner, &Ours::ALONE, build_peers, |stage, extent, interrupt| {
                measure_generator(manner, stage, extent, interrupt)
            })?;
        }
        Subject::Steer(manner) => {
            conduct("steer", manner, &Ours::ALONE, |_| Ok(()), measure_contention)?;
        }
        Subject::Attack(manner) => {
            conduct("attack", manner, &Ours::ALONE, |_| Ok(()), measure_attack)?;
        }
        Subject::Operator(manner) => {
            conduct("operator", manner, &Ours::ALONE, |_| Ok(()), measure_operator)?;
        }
    }
    Ok(())
}

impl EchoArguments {
    fn run(&self) -> Result<()> {
        idle::raise_file_limit(self.idle_connections())?;
        conduct("echo", &self.manner, &self.ours, build_peers, |stage, extent, interrupt| self.measure(stage, extent, interrupt))
    }

    fn measure(&self, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
        if !self.peers_only {
            stage.find_other_driver()?;
        }
        let mut findings = Findings::default();
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let mut lineup = stage.lineup(cell, &[]);
            lineup.retain(|entrant| !entrant.is_corelane() || !self.peers_only);
            measure_cell(cell, &lineup, stage, extent, interrupt, &mut findings)?;
        }
        if wants(&self.only, IDLE.name) {
            let idle = self.measure_idle(stage, interrupt)?;
            let judged = idle.first().into_iter().flat_map(|first| idle::judge(&IDLE, first));
            findings.show(&idle::table(IDLE.name, &idle), &idle, judged)?;
        }
        Ok(findings)
    }

    /// The server that is judged, then the peers, to compare with.
    fn measure_idle(&self, stage: &mut Stage, interrupt: &Interrupt) -> Result<Vec<idle::IdleOutcome>> {
        eprintln!("{} ...", IDLE.name);
        let peers = [Peer::Epoll, Peer::Tokio, Peer::Compio, Peer::Monoio].map(Entrant::Peer);
        let corelane = (!self.peers_only).then_some(Entrant::Corelane);
        let entrants = corelane.into_iter().chain(peers);
        entrants.map(|entrant| idle::run(entrant, self.idle_connections(), stage, interrupt)).collect()
    }

    fn idle_connections(&self) -> usize {
        if self.manner.quick { QUICK_CONNECTIONS } else { IDLE.connections }
    }
}

/// Measures the generator in closed loops, and then in an open one at half the rate that came of the first of them.
fn measure_generator(manner: &Manner, stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut closed = |cell: &Cell| measure_cell(cell, cell.entrants, stage, extent, interrupt, &mut findings);
    let cells = GENERATOR_CELLS.iter().map(&mut closed).collect::<Result<Vec<_>>>()?;
    let first = &cells[0].rounds;
    let saturation = first.median(first.who[0], |part| part.sample.requests_per_s).context("no round was measured")?;
    let timing = if manner.quick { QUICK_OPEN } else { open_loop::TIMING };
    eprintln!("{} ...", OPEN_LOOP.name);
    let outcome = open_loop::run(&OPEN_LOOP, saturation, timing, stage, interrupt)?;
    findings.show(&open_loop::table(OPEN_LOOP.name, &outcome), &outcome, open_loop::judge(&OPEN_LOOP, &outcome))?;
    Ok(findings)
}

/// Counts what lanes wait for one another.
fn measure_contention(stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    let rounds = contention::run(extent, stage, interrupt)?;
    let mut findings = Findings::default();
    findings.show(&contention::table(&rounds), &rounds, contention::judge(&rounds))?;
    Ok(findings)
}

/// Attacks for as long as all rounds together.
fn measure_attack(stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    eprintln!("{} ...", attack::NAME);
    let window = extent.timing.window * u32::try_from(extent.rounds).unwrap_or(u32::MAX);
    let attacks = attack::run(&stage.corelane, window, interrupt)?;
    let mut findings = Findings::default();
    findings.show(&attack::table(&attacks), &attacks, attacks.iter().map(attack::judge))?;
    Ok(findings)
}

fn measure_operator(stage: &mut Stage, extent: Extent, interrupt: &Interrupt) -> Result<Findings> {
    Ok(Findings { verdicts: operator::run(&stage.corelane, extent.rounds, interrupt)?, ..Findings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_started_by_words_that_this_program_knows() {
        let command = server::on_cpus(&[1, 3], "true").expect("this program has a path");
        let words = std::iter::once("corelane-bench".as_ref()).chain(command.get_args());
        let subject = Arguments::try_parse_from(words).expect("known words").subject;
        assert!(matches!(&subject, Subject::Start { cpus, words } if *cpus == [1, 3] && *words == ["true"]), "{subject:?}");
    }

    #[test]
    fn a_build_beside_is_taken_only_where_it_is_measured() {
        let is_taken = |subject| Arguments::try_parse_from(["corelane-bench", subject, "--beside", "old/corelane"]).is_ok();
        assert_eq!(["echo", "rpc", "http", "tls", "packet", "instructions"].map(is_taken), [true; 6]);
        assert_eq!(["hyper", "load", "event", "steer", "attack", "operator"].map(is_taken), [false; 6]);
    }
}
