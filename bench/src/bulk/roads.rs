//! The way from sender to receiver: a wire between two networks of this program's own; without root the loopback interface.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cpus::{GENERATOR_CPU, SERVER_CPU};
use crate::server;
use xtask::rig::Rig;

/// The port at which senders listen, in a network where nobody else does.
const PORT: u16 = 21_667;

/// Where the sender is, and where the receiver.
pub enum Road {
    /// A veth pair whose far end the sender has. This thread is at the near one.
    Wire(Rig),
    /// One network for both.
    Loopback,
}

impl Road {
    /// A wire where this user may make one.
    ///
    /// # Errors
    /// When a wire is made and cannot be set up.
    pub fn open() -> Result<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("without root there is no wire: over loopback");
            return Ok(Self::Loopback);
        }
        let road = Self::Wire(Rig::wire()?);
        // As an interface comes: the rig has checksums made in software, and with them goes all that joins segments.
        for (is_sender, interface) in [(false, "near"), (true, "far")] {
            let mut command = road.on(is_sender, "ethtool".as_ref())?;
            command.args(["-K", interface, "tx", "on", "sg", "on", "tso", "on", "gso", "on"]);
            let status = command.stdout(std::process::Stdio::null()).status().context("ethtool (package ethtool)")?;
            anyhow::ensure!(status.success(), "ethtool -K {interface}: {status}");
        }
        Ok(road)
    }

    /// A command at the sender's end, on the sender's CPU, or at the receiver's.
    ///
    /// # Errors
    /// When this program's own path is not known.
    pub fn on(&self, is_sender: bool, program: &Path) -> Result<Command> {
        let cpu = if is_sender { SERVER_CPU } else { GENERATOR_CPU };
        let start = server::on_cpus(&[cpu], program)?;
        let Self::Wire(rig) = self else { return Ok(start) };
        let mut command = Command::new("nsenter");
        let words: Vec<OsString> = start.get_args().map(OsString::from).collect();
        command.arg(format!("--net={}", rig.place(usize::from(is_sender)))).arg("--").arg(start.get_program()).args(words);
        Ok(command)
    }

    /// Where the sender listens; `last` is the port of the one before.
    ///
    /// # Errors
    /// When no port of loopback is free.
    pub fn address(&self, last: &mut Option<u16>) -> Result<SocketAddr> {
        match self {
            Self::Loopback => server::free_address(last),
            Self::Wire(_) => {
                // One after the other: what was just closed rests for a while.
                let port = last.map_or(PORT, |port| if port < PORT + 5_000 { port + 1 } else { PORT });
                *last = Some(port);
                Ok((IpAddr::from(Ipv4Addr::new(10, 9, 0, 2)), port).into())
            }
        }
    }

    /// The report of it.
    pub fn words(&self) -> String {
        let way = if matches!(self, Self::Wire(_)) { "a veth pair" } else { "loopback" };
        format!("senders on CPU {SERVER_CPU}, receivers on CPU {GENERATOR_CPU}, over {way}")
    }
}
