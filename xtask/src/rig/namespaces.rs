//! Namespaces that nobody else has, and the network in them.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, setns, unshare};

use super::shapes::{self, Network, Shape};

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
        Self::build(&Network { shape: Shape::Wire, queues: 1, vlan: None, ends: 2 })
    }

    /// The namespaces of a network with all that is in them. This thread is in the first then.
    pub(super) fn build(network: &Network) -> Result<Self> {
        let names = network.spaces();
        // The last that is made is the one in which this thread stays until all are there.
        let spaces = names.into_iter().map(|name| Ok((name, new_space()?))).collect::<Result<Vec<_>>>()?;
        let rig = Self { spaces };
        let first = rig.place(0);
        for (space, lines) in network.lines(|index| rig.place(index)) {
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

    /// What runs these words in the first namespace, a shell if there are none; it ends with this process. Says how to get into the namespaces.
    pub(super) fn command(&self, words: &[String]) -> Command {
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
