//! A network of this program's own, so that servers with fixed ports disturb nobody, and nobody them.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Puts this thread, and every process that it starts from now on, into a network that has loopback only. `/run` is its own too:
/// a portmapper keeps its lock and its socket there, whatever its network.
///
/// # Errors
/// Without CAP_SYS_ADMIN, or without `ip` (package iproute2).
pub fn enter() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).context("unshare(2), which only root may")?;
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).context("making mounts private")?;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), nothing).context("mounting /run")?;
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).status().context("ip (package iproute2)")?;
    ensure!(status.success(), "ip link set lo up: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::*;

    #[test]
    fn ports_that_are_taken_outside_are_free_inside() {
        let outside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = outside.local_addr().expect("bound");
        // A thread of its own: the other tests stay where they are.
        let inside = thread::spawn(move || enter().map(|()| TcpListener::bind(address).is_ok()));
        match inside.join().expect("no panic") {
            Ok(is_free) => assert!(is_free && TcpListener::bind(address).is_err()),
            // Without the right, and nothing else but the program for it may be missing.
            Err(error) => assert!(format!("{error:#}").contains("EPERM") || error.to_string().contains("iproute2"), "{error:#}"),
        }
    }
}
