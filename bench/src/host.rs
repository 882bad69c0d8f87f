//! The machine that a run is taken on, and what was taken from it.

use std::fs;

use anyhow::Result;
use corelane_machine::{Machine, stolen_time};
use serde::Serialize;

/// Milliseconds that the host took from this machine's CPUs since it started ("steal").
pub fn stolen_ms() -> Result<u64> {
    Ok(stolen_time()?.nanoseconds / 1_000_000)
}

/// The machine.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// Kernel release.
    pub kernel: String,
    /// Model of CPU 0.
    pub cpu: String,
    /// CPUs online.
    pub cpus: usize,
    /// Congestion control that TCP uses by default.
    pub congestion_control: String,
}

impl Host {
    /// Reads it; what cannot be read is shown as `-`, and as no CPUs.
    pub fn read() -> Self {
        let machine = Machine::read().ok();
        let known = |fact: Option<&String>| fact.cloned().unwrap_or_else(|| "-".to_owned());
        Self {
            kernel: known(machine.as_ref().map(|machine| &machine.kernel_release)),
            cpu: known(machine.as_ref().and_then(|machine| machine.cpu_model.as_ref())),
            cpus: machine.as_ref().map_or(0, |machine| machine.cpus_online.len()),
            congestion_control: read_or_dash("/proc/sys/net/ipv4/tcp_congestion_control"),
        }
    }
}

fn read_or_dash(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "-".to_owned(), |text| text.trim().to_owned())
}
