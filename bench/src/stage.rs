//! Who is started how, and what is running.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::behind::{Behind, ONE_ADDRESS};
use super::cells::Cell;
use super::counts::{self, Counts};
use super::cpus::{Sides, list};
use super::entrants::{Absence, Entrant, Peer};
use super::ganesha;
use super::load::{Asks, Carrier, HELLO_BYTES, Page, REPLY_BYTES};
use super::server::{self, Server};
use super::softirq::Threads;
use super::web::{self, Folder};

/// What Corelane is told to ask the operating system through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// Its own choice.
    Auto,
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
}

/// Corelane as a server.
#[derive(Args, Clone, Debug)]
pub struct Ours {
    /// The driver that corelane is to use as a server; the generator's is always epoll.
    #[arg(long, value_enum, default_value_t = Driver::Auto)]
    pub driver: Driver,
    /// Another build of corelane, a server more in the same rounds: what it costs, and what this one costs of that.
    #[arg(long, value_name = "PROGRAM")]
    pub beside: Option<PathBuf>,
}

impl Ours {
    /// As it comes, and alone.
    pub const ALONE: Self = Self { driver: Driver::Auto, beside: None };
}

/// Starts servers.
pub struct Stage {
    /// The program under test.
    pub corelane: PathBuf,
    /// The folder of the peers, their sources and what is built from them.
    pub peers: PathBuf,
    /// What was asked for of Corelane.
    pub ours: Ours,
    /// The driver to compare that one with; `None` unless the one asked for is `auto`.
    pub other: Option<Driver>,
    /// The files that web servers serve.
    pub web: Option<Folder>,
    /// The servers behind proxies; with them, each server that is started is a proxy.
    pub behind: Option<Behind>,
    /// The CPUs of servers that are started, and of what loads them.
    sides: Sides,
    last_port: Option<u16>,
}

/// A server in its cell.
pub struct Running {
    /// Who it is.
    pub entrant: Entrant,
    /// What it asks the operating system through.
    pub driver: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// For what.
    asks: Asks,
    transport: Carrier,
    /// Its CPUs, and those of what loads it.
    pub sides: Sides,
    /// The kernel's own threads of its CPUs.
    pub softirq: Threads,
    /// Its process.
    pub server: Server,
    /// The program that can read its counters.
    stat: Option<PathBuf>,
    /// What must outlive it.
    _surroundings: Option<ganesha::Surroundings>,
}

/// What a transport is called in a server's address, for what is asked there.
fn scheme(asks: Asks, transport: Carrier) -> &'static str {
    match (asks, transport) {
        (Asks::Get(_), Carrier::Tls) => "https",
        (Asks::Get(_), _) => "http",
        _ => transport.protocol(),
    }
}

impl Stage {
    /// A stage on which only peers appear, until [`Stage::find_other_driver`] is called.
    pub fn new(corelane: PathBuf, peers: PathBuf, ours: Ours) -> Self {
        Self { corelane, peers, ours, other: None, web: None, behind: None, sides: Sides::of_one(), last_port: None }
    }

    /// From now on servers are started on these CPUs, with a lane or a thread on each.
    pub fn take(&mut self, sides: Sides) {
        self.sides = sides;
    }

    /// Starts Corelane once to see which driver `auto` is, so that the other one is known.
    pub fn find_other_driver(&mut self) -> Result<()> {
        if self.ours.driver == Driver::Auto {
            let chosen = self.start(Entrant::Corelane, Asks::Echo, Carrier::Tcp)?.driver;
            self.other = Some(if chosen == "epoll" { Driver::Uring } else { Driver::Epoll });
        }
        Ok(())
    }

    /// Who of a cell takes part here, and Corelane's other build behind it if there is one.
    pub fn lineup(&self, cell: &Cell, absences: &[Absence]) -> Vec<Entrant> {
        let takes_part = |entrant: &Entrant| match entrant.peer() {
            Some(peer) => absences.iter().all(|absence| absence.peer != peer),
            None => *entrant != Entrant::OtherDriver || self.other.is_some(),
        };
        let mut lineup: Vec<_> = cell.entrants.iter().copied().filter(takes_part).collect();
        if let (Some(_), Some(place)) = (&self.ours.beside, lineup.iter().position(|&entrant| entrant == Entrant::Corelane)) {
            lineup.insert(place + 1, Entrant::Beside);
        }
        lineup
    }

    /// An address where nothing listens.
    ///
    /// # Errors
    /// When there is none left.
    pub fn free_address(&mut self) -> Result<SocketAddr> {
        server::free_address(&mut self.last_port)
    }

    /// Starts one server and waits until it listens.
    pub fn start(&mut self, entrant: Entrant, asks: Asks, transport: Carrier) -> Result<Running> {
        let address = self.free_address()?;
        let started = self.started(entrant, asks, transport, address);
        let (server, _surroundings) = started.with_context(|| remedy(entrant))?;
        let serves = entrant.is_corelane() && entrant != Entrant::Hyper;
        let stat = serves.then(|| self.program(entrant).to_owned());
        let driver = entrant.peer().map_or_else(|| self.driver(entrant), |peer| peer.driver().to_owned());
        let mut running = Running {
            entrant,
            driver,
            address,
            asks,
            transport,
            softirq: Threads::of(&self.sides.server),
            sides: self.sides.clone(),
            server,
            stat,
            _surroundings,
        };
        if let Some(driver) = running.stat().as_ref().and_then(counts::driver) {
            running.driver = driver;
        }
        Ok(running)
    }

    fn started(
        &self,
        entrant: Entrant,
        asks: Asks,
        transport: Carrier,
        address: SocketAddr,
    ) -> Result<(Server, Option<ganesha::Surroundings>)> {
        let server = match entrant {
            Entrant::Peer(peer) if let Some(behind) = &self.behind => {
                behind.start_peer(peer, asks, address, &self.sides.server)?
            }
            Entrant::Peer(Peer::Ganesha) => {
                let (server, surroundings) = ganesha::start(address)?;
                return Ok((server, Some(surroundings)));
            }
            Entrant::Peer(Peer::Evserver(system)) => {
                let mut command = server::on_cpus(&self.sides.server, built(&self.peers, Peer::Evserver(system)))?;
                command.args([system.name(), &address.port().to_string()]);
                Server::start_at(command, address)?
            }
            Entrant::Peer(peer) if entrant.is_web_server() => {
                web::start(peer, address, self.web.as_ref().context("no files to serve")?, transport, &self.sides.server)?
            }
            Entrant::Hyper => {
                let mut command =
                    server::on_cpus(&self.sides.server, self.corelane.with_file_name("examples").join("hyper_hello"))?;
                command.arg(format!("tcp://{address}"));
                Server::start_at(command, address)?
            }
            Entrant::Peer(peer) | Entrant::WithOurBlock(peer) => {
                Server::start(self.peer(entrant, peer, asks, transport, address)?)?
            }
            _ => Server::start(self.corelane(entrant, asks, transport, address)?)?,
        };
        Ok((server, None))
    }

    /// What Corelane is to answer, behind its address.
    fn place_options(&self, asks: Asks, transport: Carrier) -> String {
        let secure = match &self.web {
            Some(folder) if transport == Carrier::Tls => {
                format!("&certificate={}&key={}", folder.certificate().display(), folder.key().display())
            }
            _ => String::new(),
        };
        match (asks, &self.web) {
            (Asks::Get(Page::Reply), _) => format!("?reply={REPLY_BYTES}{secure}"),
            (Asks::Get(_), Some(folder)) => format!("?root={}{secure}", folder.files().display()),
            _ => String::new(),
        }
    }

    fn peer(&self, entrant: Entrant, peer: Peer, asks: Asks, transport: Carrier, address: SocketAddr) -> Result<Command> {
        let mut command = server::on_cpus(&self.sides.server, built(&self.peers, peer))?;
        command.arg(transport.protocol()).arg(address.to_string());
        let content = (peer == Peer::Hyper).then(|| if asks == Asks::Get(Page::Reply) { REPLY_BYTES } else { HELLO_BYTES });
        command.args(entrant.buffer_bytes(transport).or(content).map(|bytes| bytes.to_string()));
        Ok(command)
    }

    /// Which build of Corelane stands for `entrant`.
    fn program(&self, entrant: Entrant) -> &Path {
        self.build(entrant == Entrant::Beside)
    }

    /// The build of Corelane that was asked for beside this one, or this one, also where there is no other.
    pub fn build(&self, is_beside: bool) -> &Path {
        self.ours.beside.as_deref().filter(|_| is_beside).unwrap_or(&self.corelane)
    }

    /// What it is told to ask the operating system through.
    fn driver(&self, entrant: Entrant) -> String {
        let driver = self.other.filter(|_| entrant == Entrant::OtherDriver).unwrap_or(self.ours.driver);
        // reason: no variant of this enum is hidden from the command line.
        driver.to_possible_value().expect("every driver has a name").get_name().to_owned()
    }

    /// What Corelane is told to ask the operating system through, by name.
    pub fn driver_word(&self) -> String {
        self.driver(Entrant::Corelane)
    }

    fn corelane(&self, entrant: Entrant, asks: Asks, transport: Carrier, address: SocketAddr) -> Result<Command> {
        let options = if entrant == Entrant::Async { "?async".to_owned() } else { self.place_options(asks, transport) };
        let own = || format!("{}={}://{address}{options}", asks.service(), scheme(asks, transport));
        let place = self.behind.as_ref().map_or_else(own, |behind| behind.place(asks, address));
        let mut command = server::on_cpus(&self.sides.server, self.program(entrant))?;
        let [lanes, cpus] = [self.sides.server.len().to_string(), list(&self.sides.server)];
        command.args(["serve", &place, "--lanes", &lanes, "--cpus", &cpus, "--driver", &self.driver(entrant)]);
        if self.behind.is_some() {
            command.args(ONE_ADDRESS);
        }
        if let Entrant::Spinning(us) = entrant {
            command.args(["--spin", &format!("{us}us")]);
        }
        Ok(command)
    }
}

impl Running {
    /// Where it is asked.
    pub fn url(&self) -> String {
        format!("{}://{}", scheme(self.asks, self.transport), self.address)
    }

    /// Its own counters; `None` for peers and when reading them does not work.
    pub fn counts(&self) -> Option<Counts> {
        Some(Counts::of(&self.stat()?, self.transport))
    }

    fn stat(&self) -> Option<serde_json::Value> {
        counts::stat(self.stat.as_ref()?, self.server.pid())
    }
}

/// Where a peer of the folder `peers` is built.
pub fn built(peers: &Path, peer: Peer) -> PathBuf {
    peers.join("target/release").join(peer.program())
}

fn remedy(entrant: Entrant) -> String {
    if entrant == Entrant::Beside {
        format!("{entrant} did not start: --beside takes a `corelane` that serves with --lanes, --cpus and --driver")
    } else if entrant.is_corelane() {
        format!("{entrant} did not start; `bench echo` measures the peers alone with --peers-only")
    } else {
        format!("peer {entrant} did not start")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::CELLS;
    use crate::rpc::CELLS as RPC_CELLS;

    #[test]
    fn who_is_absent_does_not_stand_in_the_line() {
        let absences = [Absence { peer: Peer::Libtirpc, why: "not installed".to_owned() }];
        let mut stage = Stage::new("".into(), "".into(), Ours::ALONE);
        assert_eq!(stage.lineup(&RPC_CELLS[0], &absences), [Entrant::Corelane, Entrant::Peer(Peer::Ganesha)]);
        stage.other = Some(Driver::Epoll);
        assert_eq!(stage.lineup(&RPC_CELLS[0], &[]), RPC_CELLS[0].entrants);
        assert_eq!(absences[0].to_string(), "libtirpc: not installed");
    }

    #[test]
    fn another_build_stands_beside_corelane_where_corelane_does() {
        let mut stage = Stage::new("".into(), "".into(), Ours { beside: Some("old/corelane".into()), ..Ours::ALONE });
        stage.other = Some(Driver::Epoll);
        let (first, spinning) = (&CELLS[0], CELLS.last().expect("there are cells"));
        assert_eq!(stage.lineup(first, &[])[..3], [Entrant::Corelane, Entrant::Beside, Entrant::OtherDriver]);
        assert_eq!(stage.lineup(spinning, &[]), spinning.entrants);
        stage.ours = Ours::ALONE;
        assert_eq!(stage.lineup(first, &[]), first.entrants);
    }
}
