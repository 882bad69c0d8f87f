//! Rpcbind, which tells callers where programs are.

use crate::common::*;
use std::process::{Child, Command, Output};

/// Rpcbind in a network of its own; it ends when dropped.
pub struct Rpcbind {
    child: Child,
}

impl Rpcbind {
    /// Starts it; none, and the test is skipped by name, where that cannot be.
    pub fn start(test: &str) -> Option<Self> {
        if !is_root(test) || !have(test, &["unshare", "nsenter", "ip", "mount", "rpcbind", "rpcinfo"]) {
            return None;
        }
        // Its socket and its lock are in /run, where another one of this machine may have its own.
        let script = "ip link set lo up && mount -t tmpfs none /run && exec rpcbind -f";
        let mut command = Command::new("unshare");
        let child = command.args(["--net", "--mount", "sh", "-c", script]).spawn().expect("unshare starts");
        let rpcbind = Self { child };
        until("rpcbind answers", || rpcbind.rpcinfo(&["-T", "tcp", "127.0.0.1", "100000", "4"]).status.success());
        Some(rpcbind)
    }

    /// What a command is run by, to be beside it.
    pub fn wrapper(&self) -> Vec<String> {
        ["nsenter", "--net", "--target", &self.child.id().to_string()].map(str::to_owned).to_vec()
    }

    pub fn rpcinfo(&self, arguments: &[&str]) -> Output {
        let wrapper = self.wrapper();
        let words: Vec<&str> = wrapper.iter().map(String::as_str).collect();
        output(wrapped(&words, "rpcinfo").args(arguments))
    }

    /// Programs, versions, transports and ports that it knows, but for its own.
    pub fn knows(&self) -> Vec<String> {
        let text = String::from_utf8(self.rpcinfo(&["-p", "127.0.0.1"]).stdout).unwrap();
        let words = text.lines().skip(1).map(|line| line.split_whitespace().take(4).collect::<Vec<_>>().join(" "));
        let mut entries: Vec<String> = words.filter(|entry| !entry.starts_with("100000 ")).collect();
        entries.sort();
        entries
    }
}

impl Drop for Rpcbind {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
