//! What /proc says about a server, this process and the host (proc(5)).

use std::fs;

use anyhow::{Context, Result};
use corelane_sys::machine::{Machine, stolen_time};
use corelane_sys::processes::{Process, thread_times};
use corelane_sys::runner::thread_id;
use serde::Serialize;

/// Processor time that all threads of process `pid` have used so far, in nanoseconds; those that have ended are counted.
///
/// A thread that runs at this moment is counted up to the last timer interrupt, some milliseconds at most.
pub fn cpu_ns(pid: i32) -> Result<u64> {
    Ok(find(pid)?.cpu_nanoseconds()?)
}

/// Processor time of the calling thread so far, in nanoseconds.
pub fn own_cpu_ns() -> Result<u64> {
    Ok(thread_times(thread_id())?.cpu_nanoseconds)
}

/// Memory of process `pid` that is resident, in bytes; exact where the process is this user's.
pub fn rss_bytes(pid: i32) -> Result<u64> {
    Ok(find(pid)?.footprint()?.resident_bytes)
}

/// Milliseconds that the host took from this machine's CPUs since it started ("steal").
pub fn stolen_ms() -> Result<u64> {
    Ok(stolen_time()?.nanoseconds / 1_000_000)
}

fn find(pid: i32) -> Result<Process> {
    let id = u32::try_from(pid).context("a process's number is positive")?;
    Ok(Process::find(id)?)
}

/// The machine that a run was taken on.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_this_process_shows_up() {
        let pid = i32::try_from(std::process::id()).expect("a pid");
        let before = own_cpu_ns().expect("its clock");
        let mut x = 1_u64;
        while own_cpu_ns().expect("its clock") < before + 20_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(cpu_ns(pid).expect("its clock") >= before + 20_000_000);
        assert!(rss_bytes(pid).expect("its memory") > 100_000);
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        for pid in [-1, i32::MAX] {
            cpu_ns(pid).expect_err("no such process");
            rss_bytes(pid).expect_err("no such process");
        }
    }
}
