//! Why an operation fails, with the number that Linux gives (errno(3)).

use corelane_seam::{Fault, Reason};

const fn fault(reason: Reason, number: i32) -> Fault {
    Fault { reason, number }
}

/// No such socket (EBADF).
pub(crate) const NO_SOCKET: Fault = fault(Reason::Other, 9);
/// No frame will ever hold it (ENOBUFS).
pub(crate) const NO_FRAMES: Fault = fault(Reason::NoMemory, 105);
/// Its bytes do not lie in memory (EINVAL).
pub(crate) const NOT_IN_MEMORY: Fault = fault(Reason::Other, 22);
/// Longer than a datagram (EMSGSIZE).
pub(crate) const TOO_LARGE: Fault = fault(Reason::TooLarge, 90);
/// Not over the stack's addresses, or not yet (EOPNOTSUPP).
pub(crate) const UNSUPPORTED: Fault = fault(Reason::Unsupported, 95);
/// Both ends are not of one family (EAFNOSUPPORT).
pub(crate) const FAMILY: Fault = fault(Reason::AddressUnknown, 97);
/// Somebody has it (EADDRINUSE).
pub(crate) const IN_USE: Fault = fault(Reason::AddressInUse, 98);
/// Not an address of ours, or none that a datagram can be sent to (EADDRNOTAVAIL).
pub(crate) const NO_ADDRESS: Fault = fault(Reason::AddressUnknown, 99);
/// No network and no router leads there (ENETUNREACH).
pub(crate) const NO_WAY: Fault = fault(Reason::Unreachable, 101);
/// Nobody has the port (ECONNREFUSED).
pub(crate) const REFUSED: Fault = fault(Reason::Refused, 111);
/// Nobody is there (EHOSTUNREACH).
pub(crate) const UNREACHABLE: Fault = fault(Reason::Unreachable, 113);
/// The packet path has broken (ENETDOWN).
pub(crate) const BROKEN: Fault = fault(Reason::Down, 100);
