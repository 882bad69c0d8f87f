//! Why a port could not be opened.

use corelane_os::errno::{self, refusal};
use corelane_seam::{Fault, Reason};
use corelane_select::Error as Steering;
use std::fmt;
use std::net::IpAddr;

/// Bytes of an Ethernet header with a VLAN tag, which no MTU counts.
const HEAD_BYTES: usize = 14 + 4;

/// What can go wrong when a port is made.
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
    /// This process lacks a capability (EPERM).
    Forbidden {
        /// What it was going to do.
        what: &'static str,
        /// What it lacks.
        capability: &'static str,
    },
    /// The caller's name is none of an interface: it is empty, too long, or has other than plain characters.
    NameInvalid {
        /// The name.
        name: Box<str>,
    },
    /// There is no interface of this name in the network namespace.
    NoInterface {
        /// The name.
        name: Box<str>,
    },
    /// The interface has no such queue.
    NoQueue {
        /// The interface.
        name: Box<str>,
        /// The queue asked for.
        queue: u32,
        /// What gives it that one, if anything does.
        remedy: Option<Box<str>>,
    },
    /// The interface receives by more queues than have a lane: what comes to the others would be lost.
    QueuesUnserved {
        /// The interface.
        name: Box<str>,
        /// Queues that it receives by.
        have: u32,
        /// Queues with a port, one a lane.
        lanes: usize,
        /// What gives it as many queues as lanes.
        remedy: Box<str>,
    },
    /// The interface has fewer queues to send by than are asked for: what a port without one sends would be lost without a word.
    NoSendQueue {
        /// The interface.
        name: Box<str>,
        /// Queues to send by that it has.
        got: u32,
        /// Queues asked for.
        needed: usize,
        /// What gives it as many, if anything does.
        remedy: Option<Box<str>>,
    },
    /// The interface has a program for what comes (XDP): another would hear nothing.
    ProgramThere {
        /// The interface.
        name: Box<str>,
        /// The process that has it, where that is to be seen; a confined process does not see others.
        holder: Option<Box<str>>,
        /// How the program is run, as ip(8) names it to take it off.
        mode: &'static str,
    },
    /// Somebody else has the interface's queue (EBUSY).
    Busy {
        /// The interface.
        name: Box<str>,
        /// What is taken.
        what: &'static str,
    },
    /// The kernel has an address that the caller wants for itself: both would answer for it.
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// What takes it away from there.
        remedy: Box<str>,
    },
    /// Another process has an address at this interface, and would answer for it as well.
    AddressServed {
        /// The address.
        address: IpAddr,
        /// The interface.
        name: Box<str>,
    },
    /// Another process has all packets of this interface, and would answer them as well.
    InterfaceServed {
        /// The interface.
        name: Box<str>,
    },
    /// The kernel or the interface lacks what the port needs.
    Absent {
        /// What.
        what: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// The caller asked for a number out of range.
    Range {
        /// Of what.
        what: &'static str,
        /// Its value.
        got: usize,
        /// The most that it may be.
        most: usize,
    },
    /// The port's region does not fit into what the process may lock.
    LockedMemory {
        /// Bytes that were to be locked.
        bytes: usize,
        /// Bytes that the process may lock (RLIMIT_MEMLOCK).
        limit: u64,
    },
    /// A packet of the interface is longer than those frames of the caller's region that one may lie in.
    FrameShort {
        /// The interface.
        name: Box<str>,
        /// Bytes of its longest packet, with the link-layer header.
        needed: usize,
        /// Bytes that they have room for.
        got: usize,
    },
    /// The interface is down, so nothing receives at it.
    Down {
        /// The interface.
        name: Box<str>,
    },
    /// The kernel receives at the interface by nothing that could run in a thread (NAPI).
    NoNapi {
        /// The interface.
        name: Box<str>,
    },
    /// A veth's receiving needs a program that its driver runs, and the interface does not run one.
    PassRefused {
        /// The interface.
        name: Box<str>,
        /// What the kernel says of it, and what helps.
        obstacle: Box<str>,
    },
    /// The kernel's thread that receives is not to be seen in this process's PID namespace.
    ThreadHidden {
        /// The interface.
        name: Box<str>,
        /// The thread's number in the first namespace.
        thread: u32,
    },
    /// Another process has the receiving of the interface in its hands.
    Governed {
        /// The interface.
        name: Box<str>,
    },
    /// A program could not be made.
    Program(corelane_select::Error),
}

impl Error {
    /// The system's answer to `call`, which has to do with the interface `name`.
    pub(crate) fn of(call: &'static str, number: i32, name: &str) -> Self {
        match number {
            libc::EPERM | libc::EACCES => Self::Forbidden { what: call, capability: needed(call) },
            libc::EBUSY | libc::EEXIST => Self::Busy { name: name.into(), what: call },
            libc::ENODEV | libc::ENXIO => Self::NoInterface { name: name.into() },
            number => Self::Refused { call, fault: errno::fault(number) },
        }
    }

    /// What a work is told that was to open the port.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Refused { fault, .. } => *fault,
            Self::Forbidden { .. } => Fault { reason: Reason::Permission, number: libc::EPERM },
            Self::NoInterface { .. } | Self::NoQueue { .. } | Self::NoSendQueue { .. } | Self::QueuesUnserved { .. } => {
                Fault { reason: Reason::NoInterface, number: libc::ENODEV }
            }
            Self::Busy { .. }
            | Self::ProgramThere { .. }
            | Self::AddressServed { .. }
            | Self::InterfaceServed { .. }
            | Self::Governed { .. } => Fault { reason: Reason::Busy, number: libc::EBUSY },
            Self::LockedMemory { .. } => Fault { reason: Reason::NoMemory, number: libc::ENOMEM },
            Self::Absent { .. } | Self::NoNapi { .. } => Fault::of(Reason::Unsupported),
            Self::Down { .. } => Fault { reason: Reason::Down, number: libc::ENETDOWN },
            Self::Program(Steering::BpfForbidden { .. }) => Fault { reason: Reason::Permission, number: libc::EPERM },
            _ => Fault::of(Reason::Other),
        }
    }
}

/// The call by which threads of the kernel get their policy and CPUs.
pub(crate) const SCHEDULING: &str = "scheduling the kernel's thread that receives";

/// What a call needs (capabilities(7)): packet(7) and AF_XDP sockets CAP_NET_RAW, maps of programs CAP_BPF, and what changes an interface CAP_NET_ADMIN.
fn needed(call: &str) -> &'static str {
    match call {
        "socket AF_XDP" | "socket AF_PACKET" => "CAP_NET_RAW",
        "BPF_MAP_UPDATE_ELEM" => "CAP_BPF",
        SCHEDULING => "CAP_SYS_NICE",
        _ => "CAP_NET_ADMIN",
    }
}

impl From<corelane_select::Error> for Error {
    fn from(error: corelane_select::Error) -> Self {
        Self::Program(error)
    }
}

impl fmt::Display for Error {
    #[expect(clippy::too_many_lines, reason = "each error has its words")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { call, fault } => f.write_str(&refusal(call, *fault)),
            Self::Forbidden { what, capability } if *what == SCHEDULING => {
                write!(f, "{what} is forbidden: give the process {capability} in the machine's first user namespace")
            }
            Self::Forbidden { what, capability } => {
                write!(f, "{what} is forbidden: give the process {capability}, or run it as root of its network namespace")
            }
            Self::NameInvalid { name } => {
                write!(f, "{name:?} cannot be an interface: name it with 1 to 15 letters, digits, '.', '-' or '_'")
            }
            Self::NoInterface { name } => {
                write!(f, "there is no interface {name} in this network namespace: name one of those that `ip link` shows")
            }
            Self::NoQueue { name, queue, remedy } => match remedy {
                Some(remedy) => {
                    write!(f, "{name} has no queue {queue}: give it more ({remedy}), or have as many lanes as it has queues")
                }
                None => {
                    write!(f, "{name} has no queue {queue}: have as many lanes as it has queues (ethtool -l {name} shows them)")
                }
            },
            Self::NoSendQueue { name, got, needed, remedy } => match remedy {
                Some(remedy) => write!(
                    f,
                    "{name} has {} to send by, and {needed} ports need one each: give it more ({remedy}), or have {}",
                    so_many(*got, "queue"),
                    so_many(*got, "lane")
                ),
                None => write!(
                    f,
                    "{name} has {} to send by, and {needed} ports need one each: make it with as many to send by as to receive \
                     (ip link add .. numtxqueues {needed} numrxqueues {needed}), or have {}",
                    so_many(*got, "queue"),
                    so_many(*got, "lane")
                ),
            },
            Self::QueuesUnserved { name, have, lanes, remedy } => write!(
                f,
                "{name} receives by {have} queues and {lanes} would have a lane, so packets for our addresses that come to the others would be \
                 lost: give it as many queues as lanes ({remedy}), or serve with {have} lanes (--lanes {have})"
            ),
            Self::Busy { name, what } => {
                write!(f, "{name}: {what}: another process has it: end that one, or use another queue or interface")
            }
            Self::ProgramThere { name, holder, mode } => there(f, name, holder.as_deref(), mode),
            Self::AddressTaken { address, remedy } => {
                write!(
                    f,
                    "the kernel has {address} as well, and both would answer for it: take it away ({remedy}), or give another"
                )
            }
            Self::AddressServed { address, name } => write!(
                f,
                "another process serves {address} at {name}, and both would answer: end that one (`corelane stat` shows it), or give another address"
            ),
            Self::InterfaceServed { name } => write!(
                f,
                "another process has all packets of {name}, and both would answer them: end that one (`corelane stat` shows it), or use another interface"
            ),
            Self::Absent { what, remedy } => write!(f, "there is no {what} here: {remedy}"),
            Self::Range { what, got, most } => write!(f, "{what} must be 1 to {most}, not {got}: change the setting"),
            Self::LockedMemory { bytes, limit } => write!(
                f,
                "{bytes} bytes of frames are more than may be locked ({limit} by this user, rings of io_uring among them): have fewer frames (,frames=N of --packet), \
                 or raise the limit (ulimit -l, LimitMEMLOCK=)"
            ),
            Self::FrameShort { name, needed, got } => write!(
                f,
                "packets of {name} have up to {needed} bytes, and the frames of one have room for {got}: use larger frames, or a smaller \
                 MTU (ip link set {name} mtu {})",
                got.saturating_sub(HEAD_BYTES)
            ),
            Self::Down { name } => write!(f, "{name} is down, so nothing receives at it: set it up (ip link set {name} up)"),
            Self::NoNapi { name } => write!(
                f,
                "nothing receives at {name} that could run in a thread (NAPI), as at loopback, bridges and VLANs: name the card, or the end of a \
                 wire (veth), by which its packets come"
            ),
            Self::PassRefused { name, obstacle } => write!(
                f,
                "{name} is an end of a wire (veth), whose receiving runs in no thread without an XDP program, and its driver does not run one: \
                 {obstacle}"
            ),
            Self::ThreadHidden { name, thread } => write!(
                f,
                "{name} is received by the kernel's thread {thread}, which this PID namespace does not show: run this in the machine's own \
                 (docker run --pid=host, hostPID)"
            ),
            Self::Governed { name } => write!(
                f,
                "another process has the receiving of {name} in its hands, and each would undo what the other sets: end that one (`corelane stat` \
                 shows it), or leave out --receive-threads here"
            ),
            Self::Program(error) => program(f, error),
        }
    }
}

impl std::error::Error for Error {}

/// A number of things, in words.
fn so_many(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn there(f: &mut fmt::Formatter<'_>, name: &str, holder: Option<&str>, mode: &str) -> fmt::Result {
    match holder {
        Some(holder) => {
            write!(f, "{name} has an XDP program already, of {holder}, which gets what comes: end it, or use another interface")
        }
        None => write!(
            f,
            "{name} has an XDP program already, which gets what comes: end the process that has it (`bpftool link` shows whose it is), or where none \
             has it take it off (ip link set dev {name} {mode} off, or where the kernel refuses that, because a pinned link has it, bpftool link detach id ID), \
             or use another interface"
        ),
    }
}

/// What stands in the way of a program here, where there is no other to steer by.
fn program(f: &mut fmt::Formatter<'_>, error: &Steering) -> fmt::Result {
    match error {
        Steering::BpfForbidden { call } => write!(
            f,
            "{call} is forbidden: give the process CAP_BPF and CAP_NET_ADMIN, and let the container's seccomp profile allow bpf"
        ),
        Steering::BpfAbsent { call } => {
            write!(f, "{call} lacks what the program needs: use a kernel from 5.9 with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS")
        }
        Steering::BpfVerifier { number, log } => {
            write!(f, "the verifier refused a program (error {number}): report this with its words:\n{log}")
        }
        error => write!(f, "{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_names_what_that_call_needs() {
        let words = |call| Error::of(call, libc::EPERM, "x").to_string();
        for (call, capability) in
            [("socket AF_XDP", "CAP_NET_RAW"), ("socket AF_PACKET", "CAP_NET_RAW"), ("TUNSETIFF", "CAP_NET_ADMIN")]
        {
            assert!(words(call).contains(&format!("give the process {capability},")), "{}", words(call));
        }
    }

    /// The kernel lets nobody take off by the interface what a link has put there (`BPF_LINK_DETACH` does it).
    #[test]
    fn a_program_that_nobody_has_is_taken_off_by_its_interface_or_its_link() {
        let there = Error::ProgramThere { name: "eth1".into(), holder: None, mode: "xdpdrv" }.to_string();
        for command in ["(ip link set dev eth1 xdpdrv off,", " bpftool link detach id ID)"] {
            assert!(there.contains(command), "{there}");
        }
    }

    #[test]
    fn what_a_work_is_told_follows_from_the_error() {
        let told = |error: &Error| error.fault().reason;
        assert_eq!(told(&Error::of("bind", libc::EPERM, "x")), Reason::Permission);
        assert_eq!(told(&Error::of("bind", libc::EBUSY, "x")), Reason::Busy);
        assert_eq!(told(&Error::of("bind", libc::ENODEV, "x")), Reason::NoInterface);
        assert_eq!(told(&Error::LockedMemory { bytes: 2, limit: 1 }), Reason::NoMemory);
    }
}
