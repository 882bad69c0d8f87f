//! What machine this is, and what its host took from it.

use corelane_os::clock::nanoseconds_of_ticks;
use corelane_os::cpus;
use corelane_os::kernel_files::{lacking, text};
use std::io;

const STAT: &str = "/proc/stat";
const CPUS_ONLINE: &str = "/sys/devices/system/cpu/online";

/// The machine, as a report of a measurement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name (gethostname(2)).
    pub host_name: String,
    /// The kernel's release (uname(2)).
    pub kernel_release: String,
    /// The model of the first CPU; none where /proc/cpuinfo names none, as on Arm.
    pub cpu_model: Option<String>,
    /// The CPUs that are switched on, lowest first; this process may be allowed fewer.
    pub cpus_online: Vec<usize>,
}

impl Machine {
    /// Reads it (proc_sys_kernel(5), proc_cpuinfo(5), the kernel's cputopology).
    ///
    /// # Errors
    /// The file that cannot be read, in words.
    pub fn read() -> io::Result<Self> {
        let line = |path| text(path).map(|text| text.trim().to_owned());
        let online = line(CPUS_ONLINE)?;
        Ok(Self {
            host_name: line("/proc/sys/kernel/hostname")?,
            kernel_release: line("/proc/sys/kernel/osrelease")?,
            cpu_model: cpu_model(&text("/proc/cpuinfo")?),
            cpus_online: cpus::parse_list(&online).map_err(|_| lacking(CPUS_ONLINE, "a list of CPUs such as 0-3,8"))?,
        })
    }
}

/// Whether this is a virtual machine that says so: the CPU's flag `hypervisor` (proc_cpuinfo(5)), or a host that has taken time.
///
/// # Errors
/// The file that cannot be read, in words.
pub fn is_virtual() -> io::Result<bool> {
    let shows = text("/proc/cpuinfo")?.lines().any(|line| {
        let flags = line.strip_prefix("flags").map(|rest| rest.split_whitespace());
        flags.is_some_and(|mut flags| flags.any(|flag| flag == "hypervisor"))
    });
    Ok(shows || stolen_time()?.nanoseconds > 0)
}

/// What the kernel reads the time from (the kernel's sysfs-devices-system-clocksource).
///
/// # Errors
/// The file that cannot be read, in words.
pub fn clock_source() -> io::Result<String> {
    text("/sys/devices/system/clocksource/clocksource0/current_clocksource").map(|name| name.trim().to_owned())
}

/// Time that a host gave to others while this machine's CPUs had work ("steal"), since the machine started.
///
/// Counted in steps of the kernel's clock ticks, 10 ms. All zero where the host does not tell, or there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StolenTime {
    /// Of all CPUs together.
    pub nanoseconds: u64,
    /// The number of each CPU online, and its nanoseconds.
    pub cpus: Vec<(usize, u64)>,
}

/// What has been stolen so far (/proc/stat, proc_stat(5)).
///
/// # Errors
/// The file cannot be read, or is no such file.
pub fn stolen_time() -> io::Result<StolenTime> {
    stolen(&text(STAT)?).ok_or_else(|| lacking(STAT, "lines `cpu` with at least eight numbers"))
}

fn stolen(stat: &str) -> Option<StolenTime> {
    let mut time = StolenTime::default();
    let mut lines = stat.lines().map_while(|line| line.strip_prefix("cpu"));
    time.nanoseconds = stolen_in(lines.next()?.strip_prefix(' ')?)?;
    for line in lines {
        let (cpu, numbers) = line.split_once(' ')?;
        time.cpus.push((cpu.parse().ok()?, stolen_in(numbers)?));
    }
    Some(time)
}

/// The eighth of: user nice system idle iowait irq softirq steal guest guest_nice.
fn stolen_in(numbers: &str) -> Option<u64> {
    numbers.split_whitespace().nth(7)?.parse().ok().map(nanoseconds_of_ticks)
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let (_, model) = cpuinfo.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
    Some(model.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_column_of_each_cpu() {
        let a_tick = nanoseconds_of_ticks(1);
        let stat = "cpu  1 2 3 4 5 6 7 42 9 10\ncpu0 1 2 3 4 5 6 7 21 9 10\ncpu3 0 0 0 0 0 0 0 20 0 0\nintr 5 cpu9\n";
        let expected = StolenTime { nanoseconds: 42 * a_tick, cpus: vec![(0, 21 * a_tick), (3, 20 * a_tick)] };
        assert_eq!(stolen(stat), Some(expected));
        for garbage in
            ["", "intr 1", "cpu  1 2", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3 4 5 6 7 x", "cpu  1 2 3 4 5 6 7 8\ncpux 1 2"]
        {
            assert_eq!(stolen(garbage), None, "{garbage:?}");
        }
        let most = stolen(&format!("cpu  0 0 0 0 0 0 0 {}", u64::MAX)).unwrap();
        assert_eq!(most.nanoseconds, u64::MAX, "a number out of range does not wrap");
    }

    #[test]
    fn the_first_cpu_names_the_model() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 2\nmodel name\t: Example 9: fast\nprocessor\t: 1\nmodel name\t: other\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Example 9: fast"));
        assert_eq!(cpu_model("processor : 0\nBogoMIPS : 50\n"), None);
        assert_eq!(cpu_model("model name"), None);
    }

    #[test]
    fn this_machine_agrees_with_itself() {
        let machine = Machine::read().unwrap();
        assert!(!machine.host_name.is_empty() && machine.kernel_release.starts_with(|first: char| first.is_ascii_digit()));
        assert!(cpus::allowed().unwrap().iter().all(|cpu| machine.cpus_online.contains(cpu)));
        let (first, then) = (stolen_time().unwrap(), stolen_time().unwrap());
        assert!(then.nanoseconds >= first.nanoseconds);
        let numbers: Vec<usize> = first.cpus.iter().map(|&(cpu, _)| cpu).collect();
        assert_eq!(numbers, machine.cpus_online);
    }
}
