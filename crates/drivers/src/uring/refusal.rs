//! Why a system refuses io_uring(7), from the number that a call failed with.

use crate::errors::Error;
use corelane_os::errno;

/// Where the administrator's switch is read (sysctl `kernel.io_uring_disabled`, kernel 6.6).
const SWITCH: &str = "/proc/sys/kernel/io_uring_disabled";

/// What the failure of `call` means.
pub(super) fn of(call: &'static str, number: i32) -> Error {
    match number {
        libc::ENOSYS => Error::UringAbsent,
        libc::EPERM | libc::EACCES => Error::UringForbidden { call, switch: switch() },
        libc::EINVAL => Error::UringOld { call },
        libc::ENOMEM => Error::UringMemory { call },
        _ => Error::Refused { call, fault: errno::fault(number) },
    }
}

/// 0 allows io_uring, 1 only to one group, 2 to nobody; 0 too if it cannot be read, as before kernel 6.6.
fn switch() -> u8 {
    let text = std::fs::read_to_string(SWITCH).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}
