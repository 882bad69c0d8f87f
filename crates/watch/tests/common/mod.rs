//! What the tests share.
#![allow(dead_code)] // each test file uses its part

use corelane_watch::{Description, LaneName, ProcessId, RunDirectory, ServiceName};
use std::ops::Deref;

/// A run directory of one test, removed when it ends.
pub struct Scratch(RunDirectory);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("corelane-watch-{}-{name}", std::process::id()));
        Self(RunDirectory::at(path).unwrap())
    }
}

impl Deref for Scratch {
    type Target = RunDirectory;

    fn deref(&self) -> &RunDirectory {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(self.0.path()).unwrap();
    }
}

pub fn description(lanes: u32, services: usize) -> Description {
    let lane = |cpu| LaneName { cpu: Some(cpu), driver: "epoll".into(), steering: "cbpf".into() };
    let service = |i| ServiceName { name: format!("service {i}"), url: format!("tcp://[::]:{i}"), counters: Vec::new() };
    Description {
        program: "test 1.0".into(),
        process: ProcessId::this().unwrap(),
        started_unix_nanoseconds: 17,
        services: (0..services).map(service).collect(),
        lanes: (0..lanes).map(lane).collect(),
        connections: 5,
    }
}
