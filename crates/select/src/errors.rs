//! Why a program could not be made or attached, or a socket not be selected.

use corelane_os::errno::refusal;
use corelane_seam::Fault;
use std::fmt;
use std::net::SocketAddr;

/// What can go wrong when flows are steered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something that cannot be done without.
    Refused {
        /// The system call.
        call: &'static str,
        /// Why.
        fault: Fault,
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
            Self::Refused { call, fault } => f.write_str(&refusal(call, *fault)),
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
        }
    }
}

impl std::error::Error for Error {}
