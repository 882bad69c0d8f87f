//! Who is started how, and what is running.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use super::cells::{Entrant, Peer};
use super::counts::{self, Counts};
use super::load::{Asks, Transport};
use super::rpc::ganesha;
use super::server::{self, Server};

/// The CPU that servers run on; the generator has [`GENERATOR_CPU`] to itself.
pub const SERVER_CPU: usize = 0;

/// The CPU of the generator.
pub const GENERATOR_CPU: usize = 1;

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

/// Starts servers.
pub struct Stage {
    /// The program under test.
    pub corelane: PathBuf,
    /// The folder of the peers, their sources and what is built from them.
    pub peers: PathBuf,
    /// The driver that was asked for.
    pub driver: Driver,
    /// The one to compare it with; `None` unless the one asked for is `auto`.
    pub other: Option<Driver>,
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
    transport: Transport,
    /// Its process.
    pub server: Server,
    /// The program that can read its counters.
    stat: Option<PathBuf>,
    /// What must outlive it.
    _surroundings: Option<ganesha::Surroundings>,
}

impl Stage {
    /// A stage on which only peers appear, until [`Stage::find_other_driver`] is called.
    pub fn new(corelane: PathBuf, peers: PathBuf, driver: Driver) -> Self {
        Self { corelane, peers, driver, other: None, last_port: None }
    }

    /// Starts Corelane once to see which driver `auto` is, so that the other one is known.
    pub fn find_other_driver(&mut self) -> Result<()> {
        if self.driver == Driver::Auto {
            let chosen = self.start(Entrant::Corelane, Asks::Echo, Transport::Tcp)?.driver;
            self.other = Some(if chosen == "epoll" { Driver::Uring } else { Driver::Epoll });
        }
        Ok(())
    }

    /// Starts one server and waits until it listens.
    pub fn start(&mut self, entrant: Entrant, asks: Asks, transport: Transport) -> Result<Running> {
        let address = server::free_address(&mut self.last_port)?;
        let place = format!("{}://{address}", transport.protocol());
        if entrant == Entrant::Peer(Peer::Ganesha) {
            return Self::ganesha(entrant, transport, address).with_context(|| remedy(entrant));
        }
        let (command, driver) = match entrant {
            Entrant::Peer(peer) => (self.peer(peer, transport, address)?, peer.driver().to_owned()),
            _ => self.corelane(entrant, asks, &place)?,
        };
        let server = Server::start(command).with_context(|| remedy(entrant))?;
        let stat = entrant.is_corelane().then(|| self.corelane.clone());
        let mut running = Running { entrant, driver, address, transport, server, stat, _surroundings: None };
        if let Some(driver) = running.stat().as_ref().and_then(counts::driver) {
            running.driver = driver;
        }
        Ok(running)
    }

    fn ganesha(entrant: Entrant, transport: Transport, address: SocketAddr) -> Result<Running> {
        let (server, surroundings) = ganesha::start(address)?;
        let driver = Peer::Ganesha.driver().to_owned();
        Ok(Running { entrant, driver, address, transport, server, stat: None, _surroundings: Some(surroundings) })
    }

    fn peer(&self, peer: Peer, transport: Transport, address: SocketAddr) -> Result<Command> {
        let mut command = server::on_cpu(SERVER_CPU, built(&self.peers, peer))?;
        command.arg(transport.protocol()).arg(address.to_string());
        Ok(command)
    }

    fn corelane(&self, entrant: Entrant, asks: Asks, place: &str) -> Result<(Command, String)> {
        let driver = match entrant {
            Entrant::OtherDriver => self.other.context("no other driver to compare with")?,
            _ => self.driver,
        };
        // reason: no variant of this enum is hidden from the command line.
        let driver = driver.to_possible_value().expect("every driver has a name").get_name().to_owned();
        let mut command = server::on_cpu(SERVER_CPU, &self.corelane)?;
        command.args(["serve", &format!("{}={place}", asks.service())]);
        command.args(["--lanes", "1", "--cpus", &SERVER_CPU.to_string(), "--driver", &driver]);
        if let Entrant::Spinning(us) = entrant {
            command.args(["--spin", &us.to_string()]);
        }
        Ok((command, driver))
    }
}

impl Running {
    /// Where it is asked.
    pub fn url(&self) -> String {
        let protocol = self.transport.protocol();
        format!("{protocol}://{}", self.address)
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
    if entrant.is_corelane() {
        format!("{entrant} did not start; `bench echo` measures the peers alone with --peers-only")
    } else {
        format!("peer {entrant} did not start")
    }
}
