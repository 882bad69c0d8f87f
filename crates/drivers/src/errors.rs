//! Why a driver could not be made.

use corelane_os::errno::refusal;
use corelane_seam::Fault;
use std::fmt;

/// What can go wrong when a driver is made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The caller gave a setting that no driver can work with.
    Tuning {
        /// The field of [`Tuning`](corelane_seam::Tuning).
        field: &'static str,
        /// Its value.
        got: usize,
        /// The least that it may be.
        least: usize,
        /// The most that it may be.
        most: usize,
    },
    /// The system refused something that a driver cannot do without.
    Refused {
        /// The system call.
        call: &'static str,
        /// Why.
        fault: Fault,
    },
    /// This program was built without the driver on io_uring.
    UringLeftOut,
    /// The kernel has no io_uring, or a filter says so (ENOSYS).
    UringAbsent,
    /// The system has io_uring and does not let this process use it (EPERM): an administrator's or a container's choice.
    UringForbidden {
        /// The system call.
        call: &'static str,
        /// The sysctl `kernel.io_uring_disabled`: 1 forbids it to all but one group, 2 to all; with 0 it was a filter
        /// (seccomp(2)), or another security module.
        switch: u8,
    },
    /// The kernel's io_uring is older than that of 6.1 (EINVAL).
    UringOld {
        /// The system call.
        call: &'static str,
    },
    /// The system has no memory for a ring (ENOMEM), or this process is at its limit.
    UringMemory {
        /// The system call.
        call: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tuning { field, got, least, most } => {
                write!(f, "the setting {field} must be {least} to {most}, not {got}: change it")
            }
            Self::Refused { call, fault } => f.write_str(&refusal(call, *fault)),
            Self::UringLeftOut => f.write_str(
                "this program was built without io_uring: use epoll, or build it with the feature \"uring\" of corelane",
            ),
            Self::UringAbsent => f.write_str(
                "no io_uring here: use epoll, or let the container's seccomp profile allow io_uring_setup, io_uring_enter and \
                 io_uring_register, on a kernel with CONFIG_IO_URING",
            ),
            Self::UringForbidden { call, switch: 0 } => {
                write!(
                    f,
                    "{call} is forbidden: use epoll, or let the container's seccomp profile allow io_uring_setup, io_uring_enter and io_uring_register"
                )
            }
            Self::UringForbidden { call, switch } => {
                write!(f, "{call} is forbidden by kernel.io_uring_disabled = {switch}: use epoll, or set it to 0 (sysctl)")
            }
            Self::UringOld { call } => write!(f, "{call} lacks what the driver needs: use epoll, or a kernel from 6.1"),
            Self::UringMemory { call } => {
                write!(
                    f,
                    "no memory for {call}: use epoll, or raise the limit of locked memory (ulimit -l) or of the container's memory"
                )
            }
        }
    }
}

impl std::error::Error for Error {}
