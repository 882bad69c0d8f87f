//! `cargo xtask rig`: a network to try things in by hand, gone when the command in it ends.
//!
//! ```text
//! this process, in a namespace of its own           holds the others open by descriptors: /proc/PID/fd/N names them for ip(8) and nsenter(1)
//!   setpriv --pdeathsig KILL unshare --pid --kill-child COMMAND    ends with this process, and all that it started with it
//! ```
//!
//! No namespace has a name, no interface is in a namespace that was there before, and nothing is written anywhere. So when this process ends,
//! however it does, the kernel ends the command, and with the last process and descriptor the namespaces and all that is in them.

mod archive;
mod guest;
mod kept;
mod namespaces;
mod shapes;

use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

use anyhow::{Context, Result};

use shapes::{Network, Shape};

pub use namespaces::{Rig, ip};

/// The kernel of a guest unless another is asked for: one whose virtio card is read and written without copies, by AF_XDP as well.
const KERNEL: &str = "6.18";

/// Takes what a guest is made of out of packages, unless it is there.
///
/// # Errors
/// What apt(8) and dpkg-deb(1) say.
pub fn prepare_guest() -> Result<()> {
    kept::Kept::prepare(KERNEL).map(drop)
}

/// Options of `cargo xtask rig`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    network: Network,
    /// The guest's kernel, of Debian's for clouds: the newest whose version begins so
    #[arg(long, default_value = KERNEL, value_parser = kept::version)]
    kernel: String,
    /// What to run in the first namespace, a shell if nothing; in a guest, a program of this machine
    #[arg(last = true)]
    command: Vec<String>,
}

/// Builds it, runs the command in it, and takes it down.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    // Before the rig's namespaces, out of which nothing can be fetched.
    let kept = (arguments.network.shape == Shape::Guest).then(|| kept::Kept::prepare(&arguments.kernel)).transpose()?;
    let rig = Rig::build(&arguments.network)?;
    if let Some(kept) = kept {
        return guest::run(&kept, &rig, arguments.network.queues, &arguments.command);
    }
    let mut command = rig.command(&arguments.command);
    let status = command.status().context("setpriv (package util-linux)")?;
    // As a shell tells of a signal.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

#[cfg(test)]
mod tests;
