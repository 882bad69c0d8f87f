//! The faults that sockets have, by the numbers that Linux gives them (errno(3)).

use corelane_seam::{Fault, Reason};

/// An address does not fit the socket (EINVAL).
pub(crate) const INVALID: Fault = Fault { reason: Reason::Other, number: 22 };
/// No such family here (EAFNOSUPPORT).
pub(super) const NO_FAMILY: Fault = Fault { reason: Reason::Unsupported, number: 97 };
pub(super) const IN_USE: Fault = Fault { reason: Reason::AddressInUse, number: 98 };
pub(super) const UNKNOWN: Fault = Fault { reason: Reason::AddressUnknown, number: 99 };
pub(crate) const TOO_LARGE: Fault = Fault { reason: Reason::TooLarge, number: 90 };
/// The system has no memory for it now (ENOBUFS).
pub(crate) const NO_BUFFERS: Fault = Fault { reason: Reason::NoMemory, number: 105 };
pub(crate) const UNREACHABLE: Fault = Fault { reason: Reason::Unreachable, number: 101 };
pub(super) const RESET: Fault = Fault { reason: Reason::Reset, number: 104 };
pub(super) const BROKEN_PIPE: Fault = Fault { reason: Reason::Reset, number: 32 };
pub(crate) const TIMED_OUT: Fault = Fault { reason: Reason::TimedOut, number: 110 };
pub(crate) const REFUSED: Fault = Fault { reason: Reason::Refused, number: 111 };
/// There is no such path (ENOENT).
pub(super) const NOT_FOUND: Fault = Fault { reason: Reason::NotFound, number: 2 };
/// A queue is full, and who has something for it is told (EAGAIN).
pub(crate) const FULL: Fault = Fault { reason: Reason::Busy, number: 11 };
