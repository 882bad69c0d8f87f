//! A process as something to wait for (pidfd_open(2)).

use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, waitid};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::borrowed;

/// A process; its descriptor is readable when it has ended.
pub struct PidFd(OwnedFd);

impl PidFd {
    /// The process of this id, also one that has ended and that its parent has not waited for.
    ///
    /// # Errors
    /// ESRCH if there is none; too many descriptors.
    pub fn open(id: u32) -> Result<Self, i32> {
        let id = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(libc::ESRCH)?;
        pidfd_open(id, PidfdFlags::NONBLOCK).map(Self).map_err(|error| match error.raw_os_error() {
            // The number of a thread that leads no process.
            libc::EINVAL | libc::ENOENT => libc::ESRCH,
            number => number,
        })
    }

    /// Its descriptor.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Whether `number` is a process's descriptor.
pub fn is_process(number: RawFd) -> bool {
    info(number).is_ok()
        || std::fs::read_link(format!("/proc/thread-self/fd/{number}"))
            .is_ok_and(|name| name.to_string_lossy().contains("[pidfd]"))
}

/// The wait status (wait(2)) of the process behind a descriptor, once it has ended: of a child without taking it from who waits for it, of
/// another once its parent has waited for it, where the kernel tells (PIDFD_GET_INFO, Linux 6.15); else none.
pub fn status(number: RawFd) -> Option<i64> {
    let descriptor = borrowed(number).ok()?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::PidFd(descriptor), options) {
        Ok(Some(status)) => Some(i64::from(wait_status(&status))),
        _ => info(number).ok().flatten().map(i64::from),
    }
}

fn wait_status(status: &WaitIdStatus) -> i32 {
    const DUMPED: i32 = 0x80;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code & 0xff) << 8,
        (None, Some(signal)) if status.dumped() => signal | DUMPED,
        (None, Some(signal)) => signal,
        (None, None) => 0,
    }
}

/// What the kernel tells of a process by its descriptor (include/uapi/linux/pidfd.h, `struct pidfd_info`, first version).
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    control_group: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// The wait status of a process that has ended, none while it lives.
fn info(number: RawFd) -> Result<Option<i32>, i32> {
    const EXIT: u64 = 1 << 3;
    // _IOWR(0xFF, 11, struct pidfd_info), of 64 bytes.
    const GET_INFO: libc::Ioctl = 0xc040_ff0b_u32 as libc::Ioctl;
    const { assert!(size_of::<Info>() == 64) };
    let mut info = Info { mask: EXIT, ..Info::default() };
    // SAFETY: the request reads and writes as many bytes as it says, and `info` has them.
    let answer = unsafe { libc::ioctl(number, GET_INFO, &raw mut info) };
    crate::errno::checked(answer as isize)?;
    Ok((info.mask & EXIT != 0).then_some(info.exit_code))
}
