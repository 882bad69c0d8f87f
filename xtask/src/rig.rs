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
mod shapes;

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, setns, unshare};

use shapes::Shape;

/// Queues of an interface at the most.
const QUEUES_MAX: u16 = 64;
/// Ends of a bridge at the most.
const ENDS_MAX: u8 = 32;

/// Options of `cargo xtask rig`.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to build
    #[arg(value_enum)]
    shape: Shape,
    /// Queues of each interface
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(QUEUES_MAX)))]
    queues: u16,
    /// A VLAN of this number on the wire, 10.9.1.0/24
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
    /// Ends of a bridge
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=i64::from(ENDS_MAX)))]
    ends: u8,
    /// The guest's kernel, of Debian's for clouds: the newest whose version begins so
    #[arg(long, default_value = "6.1", value_parser = guest::version)]
    kernel: String,
    /// What to run in the first namespace, a shell if nothing; in a guest, a program of this machine
    #[arg(last = true)]
    command: Vec<String>,
}

/// Builds it, runs the command in it, and takes it down.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    // Before the rig's namespaces, out of which nothing can be fetched.
    let kept = (arguments.shape == Shape::Guest).then(|| guest::Kept::prepare(&arguments.kernel)).transpose()?;
    let rig = Rig::build(arguments)?;
    if let Some(kept) = kept {
        return guest::run(&kept, &rig, arguments.queues, &arguments.command);
    }
    let mut command = rig.command(&arguments.command);
    let status = command.status().context("setpriv (package util-linux)")?;
    // As a shell tells of a signal.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Namespaces, as long as this is there.
pub struct Rig {
    /// Name and namespace; this thread is in the first.
    spaces: Vec<(String, File)>,
}

impl Rig {
    /// A wire with one queue at each end: `near` with 10.9.0.1 in namespace 0, `far` with 10.9.0.2 in namespace 1. This thread is in the first then.
    ///
    /// # Errors
    /// What is missing, and what ip(8) and the system say.
    pub fn wire() -> Result<Self> {
        let kernel = String::new();
        Self::build(&Arguments { shape: Shape::Wire, queues: 1, vlan: None, ends: 2, kernel, command: Vec::new() })
    }

    fn build(arguments: &Arguments) -> Result<Self> {
        let names = arguments.shape.spaces(arguments.ends);
        // The last that is made is the one in which this thread stays until all are there.
        let spaces = names.into_iter().map(|name| Ok((name, new_space()?))).collect::<Result<Vec<_>>>()?;
        let rig = Self { spaces };
        let first = rig.place(0);
        for (space, lines) in arguments.shape.lines(arguments, |index| rig.place(index)) {
            ensure!(space < rig.spaces.len(), "lines are for a namespace that there is");
            rig.enter(space).with_context(|| format!("entering {first}"))?;
            ip(&lines)?;
            shapes::interfaces(&lines).for_each(complete_checksums);
        }
        rig.enter(0)?;
        Ok(rig)
    }

    /// Puts this thread into a namespace.
    ///
    /// # Errors
    /// What the system says.
    pub fn enter(&self, index: usize) -> Result<()> {
        setns(&self.spaces[index].1, CloneFlags::CLONE_NEWNET).context("entering a namespace")
    }

    /// Where a namespace is, for ip(8) and nsenter(1).
    pub fn place(&self, index: usize) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.spaces[index].1.as_raw_fd())
    }

    fn command(&self, words: &[String]) -> Command {
        let shell = [std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())];
        let words = if words.is_empty() { &shell[..] } else { words };
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child=KILL", "--"]).args(words);
        for (index, (name, _)) in self.spaces.iter().enumerate() {
            let place = self.place(index);
            eprintln!("{name}: nsenter --net=${name} COMMAND ({place})");
            command.env(name, place);
        }
        command
    }
}

fn new_space() -> Result<File> {
    unshare(CloneFlags::CLONE_NEWNET).context("unshare(2), which only root may")?;
    File::open("/proc/thread-self/ns/net").context("opening the namespace")
}

/// Gives lines to ip(8), in this thread's namespace.
///
/// # Errors
/// What it says.
pub fn ip(lines: &[String]) -> Result<()> {
    let mut child = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().context("ip (package iproute2)")?;
    // reason: it was asked for.
    child.stdin.take().expect("a pipe").write_all(lines.join("\n").as_bytes())?;
    let status = child.wait()?;
    ensure!(status.success(), "ip -batch: {status}, for the lines\n{}", lines.join("\n"));
    Ok(())
}

/// Has an interface compute the checksums of what is sent there: what AF_XDP receives at the other end of a veth pair would be without. Where there is no
/// ethtool, it is said.
fn complete_checksums(interface: &str) {
    let done = Command::new("ethtool").args(["-K", interface, "tx", "off"]).output();
    if !done.is_ok_and(|output| output.status.success()) {
        eprintln!("{interface}: leaves checksums out, which AF_XDP at the other end cannot tell: install ethtool");
    }
}

#[cfg(test)]
mod tests;
