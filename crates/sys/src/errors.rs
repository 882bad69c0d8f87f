//! Why a driver could not be made, or a program not be attached.

use corelane_seam::{Fault, Reason};
use std::fmt;
use std::net::SocketAddr;

/// What can go wrong when a driver is made, or flows are steered.
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
    /// This process may not load programs (EPERM): it lacks CAP_BPF, or a filter forbids it.
    BpfForbidden {
        /// The command of bpf(2).
        call: &'static str,
    },
    /// The kernel lacks what a program needs (ENOSYS, EINVAL).
    BpfAbsent {
        /// The command of bpf(2).
        call: &'static str,
    },
    /// The kernel's verifier does not accept a program: an error of this crate, or of that kernel.
    BpfVerifier {
        /// Its error number.
        number: i32,
        /// Its words.
        log: Box<str>,
    },
    /// The caller named a lane that there is not.
    LaneRange {
        /// The lane.
        got: usize,
        /// The last one.
        most: usize,
    },
    /// The caller took a table of another size.
    BucketCount {
        /// Its buckets.
        got: usize,
        /// Those of the table so far.
        expected: usize,
    },
    /// The caller let a lane enter a group twice.
    LaneJoined {
        /// The lane.
        lane: usize,
    },
    /// The caller's table is too irregular for a classic program.
    ProgramLength {
        /// Instructions that it takes.
        got: usize,
        /// Instructions that the kernel takes.
        most: usize,
    },
    /// The caller's socket cannot enter a group: it does not listen, is not bound, does not share its port, or is in another group.
    SocketUnfit {
        /// What the system said.
        fault: Fault,
    },
    /// Another process of the same user has sockets at the address.
    GroupShared {
        /// The address.
        address: SocketAddr,
        /// The number of the user.
        user: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tuning { field, got, least, most } => {
                write!(f, "the setting {field} must be {least} to {most}, not {got}: change it")
            }
            Self::Refused { call, fault } => {
                let remedy = match fault.reason {
                    Reason::Permission | Reason::Unsupported => {
                        ": let the container's seccomp profile, or what else guards the process, allow it"
                    }
                    Reason::NoMemory => ": give the process, or its container, more memory",
                    _ => "",
                };
                write!(f, "the system refused {call}: {fault}{remedy}")
            }
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
            _ => self.write_steering(f),
        }
    }
}

impl Error {
    fn write_steering(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BpfForbidden { call } => write!(
                f,
                "{call} is forbidden: steer by the classic program, which needs no privilege, or give the process CAP_BPF and let \
                 the container's seccomp profile allow bpf"
            ),
            Self::BpfAbsent { call } => write!(
                f,
                "{call} lacks what the program needs: steer by the classic program, or use a kernel from 5.14 with CONFIG_BPF_SYSCALL"
            ),
            Self::BpfVerifier { number, log } => {
                write!(
                    f,
                    "the verifier refused a program (error {number}): report this with its words, and steer by the classic program:\n{log}"
                )
            }
            Self::LaneRange { got, most } => {
                write!(f, "there is no lane {got}, the last one is {most}: name one of those")
            }
            Self::BucketCount { got, expected } => {
                write!(f, "a table of {got} buckets cannot replace one of {expected}: make one of {expected}")
            }
            Self::LaneJoined { lane } => {
                write!(f, "lane {lane} has a socket in this group: close that one and let it leave first")
            }
            Self::ProgramLength { got, most } => {
                write!(f, "the classic program takes {got} instructions and the kernel {most}: use fewer buckets, or CAP_BPF")
            }
            Self::SocketUnfit { fault } => write!(
                f,
                "the socket cannot enter the group: {fault}: bind it with its port shared, let it listen, and enter one group only"
            ),
            Self::GroupShared { address, user } => {
                write!(f, "a process of user {user} shares {address}, so flows cannot be steered: end it, or use another port")
            }
            Self::Tuning { .. } | Self::Refused { .. } | Self::UringAbsent => Ok(()),
            Self::UringForbidden { .. } | Self::UringOld { .. } | Self::UringMemory { .. } => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
