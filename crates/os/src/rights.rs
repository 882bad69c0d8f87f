//! What this process may do: capabilities, filters of calls, limits, Landlock; and whether calls that only some systems allow work.

use crate::errno::{checked, fault, of};
use crate::{kernel_files, limits};
use corelane_seam::Fault;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The capabilities that something of ours asks for (capabilities(7)), with their names.
const CAPABILITIES: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
    (CapabilitySet::BPF, "CAP_BPF"),
];

/// The names of those capabilities that the calling thread lacks of the four that something of ours asks for: CAP_NET_BIND_SERVICE,
/// CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF (capget(2)).
///
/// # Errors
/// What the system says.
pub fn lacking_capabilities() -> io::Result<Vec<&'static str>> {
    let effective = capabilities(None)?.effective;
    Ok(CAPABILITIES.iter().filter(|(one, _)| !effective.contains(*one)).map(|(_, name)| *name).collect())
}

/// Filters of calls that are in force for the calling thread (`Seccomp_filters` of proc_pid_status(5)); 1 where the kernel tells of one
/// but does not count them.
///
/// # Errors
/// The file that cannot be read, in words.
pub fn seccomp_filters() -> io::Result<u32> {
    let status = kernel_files::text("/proc/thread-self/status")?;
    let number = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u32>().ok());
    Ok(match number("Seccomp:") {
        Some(2) => number("Seccomp_filters:").unwrap_or(1),
        _ => 0,
    })
}

/// The version of Landlock's interface (landlock_create_ruleset(2)), from 1.
///
/// # Errors
/// `Unsupported` where the kernel has none, or it is switched off.
pub fn landlock_version() -> Result<u32, Fault> {
    const VERSION: u32 = 1 << 0;
    // SAFETY: with this flag the call takes no memory.
    let asked = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION) };
    checked(asked as isize).map(|version| version as u32).map_err(fault)
}

/// Descriptors that the process may have, once it has raised its limit as far as it may (`RLIMIT_NOFILE`, getrlimit(2)).
pub fn descriptors_max() -> u64 {
    limits::in_force(libc::RLIMIT_NOFILE).unwrap_or(limits::NONE).1
}

/// Bytes that the calling thread may have the kernel lock: `RLIMIT_MEMLOCK` (getrlimit(2)); as many as it likes, which is `u64::MAX`, with CAP_IPC_LOCK.
pub fn locked_bytes_max() -> u64 {
    if passes_lock_limit() { u64::MAX } else { limits::in_force(libc::RLIMIT_MEMLOCK).unwrap_or(limits::NONE).0 }
}

/// Whether the calling thread has CAP_IPC_LOCK, and that of the machine's own user namespace: the kernel looks at no other where it counts pages.
fn passes_lock_limit() -> bool {
    /// The first user namespace's number (`PROC_USER_INIT_INO`).
    const FIRST: u64 = 0xefff_fffd;
    let has_it = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    has_it && std::fs::metadata("/proc/thread-self/ns/user").is_ok_and(|namespace| namespace.ino() == FIRST)
}

/// Binds a thread of its own to a CPU that it may use, and gives another a descriptor table of its own: what each lane does as it starts.
///
/// # Errors
/// The call that failed, and why.
pub fn probe_lane_thread() -> Result<(), (&'static str, Fault)> {
    std::thread::scope(|scope| {
        let apart = std::thread::Builder::new().name("corelane-probe".into()).spawn_scoped(scope, || {
            let cpu = crate::cpus::allowed().map_err(|error| ("sched_getaffinity", fault(of(&error))))?[0];
            crate::cpus::pin(cpu).map_err(|error| ("sched_setaffinity", fault(of(&error))))?;
            crate::runner::own_descriptors().map_err(|error| ("unshare", fault(of(&error))))
        });
        let thread = apart.map_err(|error| ("clone", fault(of(&error))))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Bytes of memory that could be used without swapping (`MemAvailable` of proc_meminfo(5)).
///
/// # Errors
/// The file that cannot be read or has no such line, in words.
pub fn available_memory() -> io::Result<u64> {
    const FILE: &str = "/proc/meminfo";
    let text = kernel_files::text(FILE)?;
    let kibibytes =
        text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.map(|number| number << 10).ok_or_else(|| kernel_files::lacking(FILE, "a line MemAvailable"))
}

/// Why a path cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// It is a directory that this user may not list, or not go into.
    Directory,
    /// This user may not read it, or not go where it lies.
    File,
    /// It is not there, or the system says so much of it.
    Gone(io::Error),
}

/// Whether the calling thread's effective user may read a file, or list a directory and go into it (faccessat2(2)). Rules of Landlock are not looked at: what a
/// confined program may open is less. Where the system does not tell, it is so.
///
/// # Errors
/// What is in the way.
pub fn may_read(path: &Path) -> Result<(), Unreadable> {
    let is_directory = match std::fs::metadata(path) {
        Ok(facts) => facts.is_dir(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(Unreadable::File),
        Err(error) => return Err(Unreadable::Gone(error)),
    };
    let (wanted, refused) = match is_directory {
        true => (Access::READ_OK | Access::EXEC_OK, Unreadable::Directory),
        false => (Access::READ_OK, Unreadable::File),
    };
    // Other errors are of the call: an old filter knows no faccessat2.
    if accessat(CWD, path, wanted, AtFlags::EACCESS) == Err(Errno::ACCESS) { Err(refused) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_with_no_filter_has_none() {
        assert_eq!(seccomp_filters().unwrap(), 0);
    }

    #[test]
    fn a_lane_s_thread_can_be_made_here_and_memory_is_there() {
        assert_eq!(probe_lane_thread(), Ok(()));
        assert!(available_memory().unwrap() > 1 << 20);
        assert!(descriptors_max() >= 3);
    }
}
