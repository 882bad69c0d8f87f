//! What /proc says about a server, this process and the host (proc(5)).

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// The unit of the processor times in /proc/stat (`USER_HZ`, the same on every Linux of the supported machines).
const TICK_MS: u64 = 10;

/// Processor time that all threads of process `pid` have used so far, in nanoseconds.
///
/// The first number of schedstat, exact but for a thread that runs at this moment: its last few milliseconds, at most
/// one timer tick, are not in it yet. Threads that have ended are not counted.
pub fn cpu_ns(pid: i32) -> Result<u64> {
    let folder = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&folder).with_context(|| format!("{folder}: is the process gone?"))?;
    let mut total = 0;
    for task in tasks {
        let path = task?.path().join("schedstat");
        match fs::read_to_string(&path) {
            Ok(text) => total += run_time_ns(&text)?,
            // A thread may end between the listing and the reading.
            Err(error) if gone(&error) => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
    }
    Ok(total)
}

/// Processor time of the calling thread so far, in nanoseconds.
pub fn own_cpu_ns() -> Result<u64> {
    let path = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(path).context("this kernel counts no run time (CONFIG_SCHED_INFO)")?;
    run_time_ns(&text)
}

/// Memory of process `pid` that is resident, in bytes. smaps_rollup is exact where status lags by some pages.
pub fn rss_bytes(pid: i32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.with_context(|| format!("{path}: expected a line `Rss: N kB`"))? * 1024)
}

/// Milliseconds that the host took from this machine's CPUs since it started ("steal").
pub fn stolen_ms() -> Result<u64> {
    stolen_ms_in(&fs::read_to_string("/proc/stat").context("/proc/stat")?)
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
    /// Reads it; what cannot be read is shown as `-`.
    pub fn read() -> Self {
        let cpus = read_or_dash("/proc/cpuinfo");
        let model = cpus.lines().find(|line| line.starts_with("model name"));
        Self {
            kernel: read_or_dash("/proc/sys/kernel/osrelease"),
            cpu: model.and_then(|line| line.split(": ").nth(1)).unwrap_or("-").to_owned(),
            cpus: cpus.lines().filter(|line| line.starts_with("processor")).count(),
            congestion_control: read_or_dash("/proc/sys/net/ipv4/tcp_congestion_control"),
        }
    }
}

fn read_or_dash(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "-".to_owned(), |text| text.trim().to_owned())
}

fn gone(error: &std::io::Error) -> bool {
    // ESRCH is what reading the file of a thread that has just ended answers.
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
}

fn run_time_ns(schedstat: &str) -> Result<u64> {
    let first = schedstat.split_whitespace().next().and_then(|word| word.parse().ok());
    first.with_context(|| format!("schedstat: expected three numbers, got {schedstat:?}"))
}

fn stolen_ms_in(stat: &str) -> Result<u64> {
    let Some(line) = stat.lines().find(|line| line.starts_with("cpu ")) else {
        bail!("/proc/stat: expected a line that starts with `cpu `");
    };
    // cpu user nice system idle iowait irq softirq steal ...
    let ticks: Option<u64> = line.split_whitespace().nth(8).and_then(|word| word.parse().ok());
    Ok(ticks.with_context(|| format!("/proc/stat: no stolen time in {line:?}"))? * TICK_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_gives_its_first_number() {
        assert_eq!(run_time_ns("123456 78 9\n").expect("well formed"), 123_456);
        assert!(run_time_ns("").is_err());
        assert!(run_time_ns("abc 1 2").is_err());
    }

    #[test]
    fn stolen_time_is_the_eighth_column() {
        let stat = "cpu  1 2 3 4 5 6 7 42 9 10\ncpu0 1 2 3 4 5 6 7 21 9 10\n";
        assert_eq!(stolen_ms_in(stat).expect("well formed"), 420);
        assert!(stolen_ms_in("intr 1").is_err());
        assert!(stolen_ms_in("cpu  1 2").is_err());
    }

    #[test]
    fn work_of_this_process_shows_up() {
        let pid = i32::try_from(std::process::id()).expect("a pid");
        let before = own_cpu_ns().expect("schedstat");
        let mut x = 1_u64;
        while own_cpu_ns().expect("schedstat") < before + 20_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(cpu_ns(pid).expect("schedstat") >= before + 20_000_000);
        assert!(rss_bytes(pid).expect("smaps_rollup") > 100_000);
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        let error = cpu_ns(i32::MAX).expect_err("no such process");
        assert!(format!("{error:#}").contains("gone"));
    }
}
