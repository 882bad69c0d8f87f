//! The kernel's own thread of a CPU, `ksoftirqd/N`: where the work of a server's packets goes when the kernel does not do it within
//! the server's calls. It is not charged to the server, so what it used while a server was measured is added to the server's.

use std::fs;
use std::path::Path;

use corelane_os::processes::Process;

/// The threads of some CPUs; none where one of them cannot be seen.
pub struct Threads(Option<Vec<Process>>);

impl Threads {
    /// Those of these CPUs.
    pub fn of(cpus: &[usize]) -> Self {
        Self(cpus.iter().map(|&cpu| thread_of(cpu)).collect())
    }

    /// Processor time of all of them, in nanoseconds; `None` where one cannot be seen.
    pub fn cpu_ns(&self) -> Option<u64> {
        self.0.as_ref()?.iter().map(|thread| thread.cpu_nanoseconds().ok()).sum()
    }
}

/// The thread of `cpu`; `None` where it cannot be seen, as in a container.
fn thread_of(cpu: usize) -> Option<Process> {
    let process = Process::find(find(Path::new("/proc"), &format!("ksoftirqd/{cpu}"))?).ok()?;
    // To be seen is not to be read.
    process.cpu_nanoseconds().ok().map(|_| process)
}

/// The number of the process that is called `name`, in a folder like /proc (comm, proc_pid_comm(5)).
fn find(proc: &Path, name: &str) -> Option<u32> {
    let is_it = |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name);
    let numbers = fs::read_dir(proc).ok()?.flatten().filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry)));
    numbers.filter(|(_, entry)| is_it(entry)).map(|(number, _)| number).min()
}

/// What of `softirq_ns`, used while the server's threads used `server_ns`, falls to a request that cost them `cpu_us`. The generator
/// measures within a window, and these from before it to after it; of both the same part lies in the window, as far as the load is
/// the same all the time.
pub fn us_per_request(cpu_us: f64, server_ns: u64, softirq_ns: u64) -> f64 {
    if server_ns == 0 { 0.0 } else { cpu_us * softirq_ns as f64 / server_ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_of_a_cpu_is_found_by_its_whole_name() {
        let folder = std::env::temp_dir().join(format!("corelane-softirq-{}", std::process::id()));
        for (number, name) in [("14", "ksoftirqd/0"), ("22", "ksoftirqd/1"), ("90", "ksoftirqd/10"), ("self", "ksoftirqd/3")] {
            fs::create_dir_all(folder.join(number)).expect("a folder");
            fs::write(folder.join(number).join("comm"), format!("{name}\n")).expect("a file");
        }
        let found = [0, 1, 10, 3, 4].map(|cpu| find(&folder, &format!("ksoftirqd/{cpu}")));
        fs::remove_dir_all(&folder).expect("clean up");
        assert_eq!(found, [Some(14), Some(22), Some(90), None, None]);
        assert_eq!(find(&folder, "ksoftirqd/0"), None);
    }

    #[test]
    fn a_thread_that_is_found_can_be_read() {
        assert!(thread_of(100_000).is_none(), "no such CPU");
        if let Some(thread) = thread_of(0) {
            thread.cpu_nanoseconds().expect("it never ends");
        }
    }

    #[test]
    fn what_it_used_is_shared_out_as_the_servers_own_time_is() {
        assert_eq!(us_per_request(2.0, 1_000, 250), 0.5);
        assert_eq!(us_per_request(2.0, 1_000, 0), 0.0);
        assert_eq!(us_per_request(2.0, 0, 250), 0.0);
    }
}
