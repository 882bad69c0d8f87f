//! Files of the library under other people's clients.

pub mod measuring;
mod table;

use corelane::Lanes;
use corelane::lanes::Running;
use corelane_http::{AccessLog, Files, Http, LogFormat};
use std::net::SocketAddr;
use std::path::Path;

/// A server of files, and the log of what it answers.
struct Server {
    running: Running,
    log: AccessLog,
}

impl Server {
    fn start(root: &Path, log: &Path) -> Self {
        let log = AccessLog::open(log, LogFormat::Combined).unwrap();
        let (root, of_lanes) = (root.to_owned(), log.clone());
        let files = move |_lane| Http::new(Files::new(&root).listing(true)).log(&of_lanes);
        let running = Lanes::per_core().lanes(2).serve("tcp://127.0.0.1:0", files).unwrap().start().unwrap();
        Self { running, log }
    }

    fn address(&self) -> SocketAddr {
        self.running.address().inet().unwrap()
    }

    /// Has all that was answered written to the log.
    fn write_log(&self) {
        self.log.journal().flush();
    }

    fn end(self) {
        self.running.drain();
        self.running.wait().unwrap();
    }
}
