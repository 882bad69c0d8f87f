//! Rpcbind, which tells callers where programs are.

use crate::common::*;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

/// Rpcbind in a network of its own; it ends when dropped.
pub struct Rpcbind {
    /// Holds the network, whose rpcbind may end and be started anew.
    network: Child,
    rpcbind: Child,
}

impl Rpcbind {
    /// Starts it; none, and the test is skipped by name, where that cannot be.
    pub fn start(test: &str) -> Option<Self> {
        if !is_root(test) || !have(test, &["unshare", "nsenter", "ip", "mount", "rpcbind", "rpcinfo"]) {
            return None;
        }
        // Its socket and its lock are in /run, where another one of this machine may have its own.
        let script = "ip link set lo up && mount -t tmpfs none /run && echo ready && exec sleep infinity";
        let mut command = Command::new("unshare");
        let mut network =
            command.args(["--net", "--mount", "sh", "-c", script]).stdout(Stdio::piped()).spawn().expect("unshare starts");
        let mut line = String::new();
        BufReader::new(network.stdout.take().expect("it is a pipe")).read_line(&mut line).expect("it says something");
        assert_eq!(line, "ready\n");
        let rpcbind = spawn(&network);
        let rpcbind = Self { network, rpcbind };
        rpcbind.await_answer();
        Some(rpcbind)
    }

    /// Ends it; who is beside it stays where he is.
    pub fn end(&mut self) {
        let _ = self.rpcbind.kill();
        let _ = self.rpcbind.wait();
    }

    /// Starts another, which knows nothing, in its place.
    pub fn start_anew(&mut self) {
        self.end();
        self.rpcbind = spawn(&self.network);
        self.await_answer();
    }

    fn await_answer(&self) {
        until("rpcbind answers", || self.rpcinfo(&["-T", "tcp", "127.0.0.1", "100000", "4"]).status.success());
    }

    /// What a command is run by, to be beside it.
    pub fn wrapper(&self) -> Vec<String> {
        ["nsenter", "--net", "--target", &self.network.id().to_string()].map(str::to_owned).to_vec()
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

/// An rpcbind within this network.
fn spawn(network: &Child) -> Child {
    let mut command = Command::new("nsenter");
    command.args(["--net", "--mount", "--target", &network.id().to_string(), "rpcbind", "-f"]);
    command.spawn().expect("nsenter starts")
}

impl Drop for Rpcbind {
    fn drop(&mut self) {
        self.end();
        let _ = self.network.kill();
        let _ = self.network.wait();
    }
}
