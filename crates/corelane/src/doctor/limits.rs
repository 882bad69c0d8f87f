//! Limits that the machine, its administrator and the process's surroundings set.

use super::Found;
use crate::lanes::LaneSettings;
use crate::lanes::frames::memory::{FRAME_BYTES, FRAMES};
use crate::service::Limits;
use corelane_os::kernel_files::text;
use corelane_os::{cpus, memory, rights};
use corelane_steer::Topology;

/// A number that an administrator sets (sysctl(8)); none where the kernel has no such switch.
fn sysctl(name: &str) -> Option<i64> {
    text(&format!("/proc/sys/{}", name.replace('.', "/"))).ok()?.trim().parse().ok()
}

/// A number of bytes, as people say it.
fn mebibytes(bytes: u64) -> String {
    match bytes {
        u64::MAX => "no limit".to_owned(),
        bytes if bytes < 1 << 20 => format!("{} KiB", bytes >> 10),
        bytes => format!("{} MiB", bytes >> 20),
    }
}

pub(super) fn seccomp() -> Found {
    match rights::seccomp_filters() {
        Ok(0) => Found::fine("no filter of calls is in force"),
        Ok(1) => Found::degraded("a filter of calls is in force: what it forbids is said at each feature"),
        Ok(count) => Found::degraded(format!("{count} filters of calls are in force: what they forbid is said at each feature")),
        Err(error) => Found::degraded(error.to_string()),
    }
}

pub(super) fn uring_switch() -> Found {
    match sysctl("kernel.io_uring_disabled") {
        None | Some(0) => Found::fine("kernel.io_uring_disabled is 0, or the kernel has no such switch"),
        Some(number) => Found::degraded(format!("kernel.io_uring_disabled is {number}")),
    }
}

pub(super) fn bpf_switch() -> Found {
    match sysctl("kernel.unprivileged_bpf_disabled") {
        None | Some(0) => Found::fine("kernel.unprivileged_bpf_disabled is 0"),
        Some(number) if lacks("CAP_BPF") => {
            Found::degraded(format!("kernel.unprivileged_bpf_disabled is {number}, without CAP_BPF"))
        }
        Some(number) => Found::fine(format!("kernel.unprivileged_bpf_disabled is {number}, with CAP_BPF")),
    }
}

fn lacks(capability: &str) -> bool {
    rights::lacking_capabilities().is_ok_and(|lacking| lacking.contains(&capability))
}

pub(super) fn backlog() -> Found {
    let wanted = i64::from(Limits::default().backlog);
    match sysctl("net.core.somaxconn") {
        Some(number) if number < wanted => Found::degraded(format!("net.core.somaxconn is {number}, and lanes ask for {wanted}")),
        Some(number) => Found::fine(format!("net.core.somaxconn is {number}")),
        None => Found::fine("the kernel does not tell of net.core.somaxconn"),
    }
}

/// The size that a socket's buffer should be allowed to have: some trains of datagrams.
const BUFFER_BYTES: i64 = 4 << 20;

pub(super) fn socket_buffers() -> Found {
    let (receive, send) = (sysctl("net.core.rmem_max"), sysctl("net.core.wmem_max"));
    let words = |number: Option<i64>| number.map_or_else(|| "not told".to_owned(), |number| number.to_string());
    let words = format!("net.core.rmem_max is {}, net.core.wmem_max is {}", words(receive), words(send));
    let is_small = |number: Option<i64>| number.is_some_and(|number| number < BUFFER_BYTES);
    if is_small(receive) || is_small(send) { Found::degraded(words) } else { Found::fine(words) }
}

pub(super) fn capabilities() -> Found {
    match rights::lacking_capabilities() {
        Ok(lacking) if lacking.is_empty() => Found::fine("all that anything here asks for"),
        Ok(lacking) => Found::degraded(format!("without {}", lacking.join(", "))),
        Err(error) => Found::degraded(error.to_string()),
    }
}

/// Bytes of locked memory that the frames of one lane take where all are to be had.
const LOCKED_BYTES: u64 = (FRAMES * FRAME_BYTES) as u64;

pub(super) fn locked_memory() -> Found {
    let (most, cpus) = (rights::locked_bytes_max(), cpus::allowed().map_or(1, |cpus| cpus.len() as u64));
    let words = format!("{} may be locked", mebibytes(most));
    let wanted = LOCKED_BYTES.saturating_mul(cpus);
    if most >= wanted {
        Found::fine(words)
    } else {
        Found::degraded(format!("{words}, and frames of {cpus} lanes take {}", mebibytes(wanted)))
    }
}

/// Descriptors with which a lane has its due.
const DESCRIPTORS: u64 = 65_536;

pub(super) fn descriptors() -> Found {
    let most = rights::descriptors_max();
    let words = format!("a process, or a lane with a table of its own, may have {most} descriptors");
    if most >= DESCRIPTORS { Found::fine(words) } else { Found::degraded(words) }
}

pub(super) fn affinity() -> Found {
    let topology = match (Topology::read(&[], None), corelane_machine::Machine::read()) {
        (Ok(topology), Ok(machine)) => (topology.cpus.len(), machine.cpus_online.len()),
        (Err(error), _) | (_, Err(error)) => return Found::degraded(error.to_string()),
    };
    match topology {
        (allowed, online) if allowed < online => Found::degraded(format!("{allowed} of {online} CPUs may be used")),
        (allowed, _) => Found::fine(format!("all {allowed} CPUs may be used")),
    }
}

pub(super) fn group_cpus() -> Found {
    let allowed = cpus::allowed().map_or(1, |cpus| cpus.len());
    match cpus::group_limit() {
        Some(paid) if paid < allowed => {
            Found::degraded(format!("the control group pays for {paid} of the {allowed} CPUs that may be used"))
        }
        Some(paid) => Found::fine(format!("the control group pays for {paid} CPUs")),
        None => Found::fine("the control group sets no limit"),
    }
}

pub(super) fn group_memory() -> Found {
    let lanes = Topology::read(&[], None).map_or(1, |topology| topology.lanes_by_default()) as u64;
    let wanted = (LaneSettings::default().memory_bytes as u64).saturating_mul(lanes);
    let available = rights::available_memory().unwrap_or(u64::MAX);
    // The other half is for the process itself and for the kernel's buffers.
    let limit = memory::group_limit().map(|limit| limit / 2);
    match limit {
        Some(half) if half < wanted => Found::degraded(format!(
            "half of the {} that the control group allows is less than the {} of {lanes} lanes",
            mebibytes(half * 2),
            mebibytes(wanted)
        )),
        _ if available < wanted => {
            Found::degraded(format!("{} are available, and {lanes} lanes take {}", mebibytes(available), mebibytes(wanted)))
        }
        _ => Found::fine(format!("{} are available, and {lanes} lanes take {}", mebibytes(available), mebibytes(wanted))),
    }
}

pub(super) fn virtual_machine() -> Found {
    match corelane_machine::is_virtual() {
        Ok(false) => Found::fine("no hypervisor shows"),
        Ok(true) => Found::degraded("this is a virtual machine"),
        Err(error) => Found::degraded(error.to_string()),
    }
}

/// Clocks that are read without entering the kernel.
const CLOCKS: [&str; 5] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen", "arch_sys_counter"];

pub(super) fn clock_source() -> Found {
    match corelane_machine::clock_source() {
        Ok(name) if CLOCKS.contains(&name.as_str()) => Found::fine(name),
        Ok(name) => Found::degraded(format!("{name}, which takes a system call or more to read")),
        Err(error) => Found::degraded(error.to_string()),
    }
}
