//! Which process has a socket.

use crate::kernel_files::{numbers, text};
use std::fmt;
use std::path::Path;

/// A process, for an operator to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Its name (`comm`, proc_pid_comm(5)).
    pub name: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

/// A process that has the socket of this number open (proc_pid_fd(5)); none if there is none in this process's namespace, or it is another
/// user's, whose descriptors only root sees. Each thread is looked at, for it may have a descriptor table of its own.
pub fn of_socket(inode: u32) -> Option<Owner> {
    let wanted = format!("socket:[{inode}]");
    let mut processes = numbers("/proc").ok()?;
    processes.sort_unstable();
    let pid = processes.into_iter().find(|pid| has(*pid, &wanted))?;
    let name = text(&format!("/proc/{pid}/comm")).ok()?.trim().to_owned();
    Some(Owner { pid, name })
}

/// What ends meanwhile, or may not be looked at, has nothing.
fn has(pid: u32, wanted: &str) -> bool {
    let threads = numbers(&format!("/proc/{pid}/task")).unwrap_or_default();
    threads.into_iter().any(|thread| {
        let folder = format!("/proc/{pid}/task/{thread}/fd");
        let open = numbers(&folder).unwrap_or_default();
        open.into_iter()
            .any(|number| std::fs::read_link(format!("{folder}/{number}")).is_ok_and(|name| name == Path::new(wanted)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn an_own_socket_is_found_and_one_that_is_gone_is_not() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let name = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let name = name.to_str().unwrap();
        let inode: u32 = name.trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap();
        assert_eq!(of_socket(inode).map(|owner| owner.pid), Some(std::process::id()));
        assert_eq!(of_socket(0), None);
    }
}
