//! All that can go wrong below the seam, and who is at fault.

use std::fmt;

/// A thing that a driver, or the memory it works on, could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for an arena of an impossible size.
    ArenaSize {
        /// Bytes asked for.
        got: usize,
        /// The most that an arena may have.
        most: usize,
    },
    /// The caller has made memory for an arena that none can lie in.
    ArenaRegion {
        /// How long it is.
        bytes: usize,
        /// Where it begins.
        address: usize,
    },
    /// The system did not give the memory.
    ArenaRefused {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The caller asked for frames of an impossible size.
    FrameSize {
        /// Bytes asked for.
        got: usize,
    },
    /// The caller asked for no frames, or for too many.
    FrameCount {
        /// Frames asked for.
        got: usize,
        /// The most that a region may have.
        most: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ArenaSize { got, most } => {
                write!(f, "a lane's memory must be 1 to {most} bytes, not {got}: change the memory setting")
            }
            Self::ArenaRegion { bytes, address } => {
                write!(
                    f,
                    "memory for a lane must be a multiple of 4 MiB, and begin at one of 2 MiB, not {bytes} bytes at {address:#x}: make it so"
                )
            }
            Self::ArenaRefused { bytes } => {
                write!(
                    f,
                    "the system refused {bytes} bytes for a lane: lower the memory setting, or raise the address-space limit (ulimit -v)"
                )
            }
            Self::FrameSize { got } => {
                write!(f, "a frame must have a power of two of bytes, 2048 to 65536, not {got}: change the frame size")
            }
            Self::FrameCount { got, most } => {
                write!(f, "a port must have 1 to {most} frames, not {got}: change their number")
            }
        }
    }
}

impl std::error::Error for Error {}

/// Why an operation ended without doing what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It was cancelled, or its socket is being closed.
    Cancelled,
    /// This process is at its limit of descriptors (EMFILE, ENFILE).
    NoDescriptor,
    /// The system, or the lane, has no memory for it (ENOMEM, ENOBUFS).
    NoMemory,
    /// The peer refused (ECONNREFUSED).
    Refused,
    /// The peer broke the connection off (ECONNRESET, EPIPE, ECONNABORTED).
    Reset,
    /// The peer did not answer in time (ETIMEDOUT).
    TimedOut,
    /// The address is taken (EADDRINUSE).
    AddressInUse,
    /// The address is not one of this machine's (EADDRNOTAVAIL).
    AddressUnknown,
    /// Not permitted (EACCES, EPERM).
    Permission,
    /// No route to the peer (ENETUNREACH, EHOSTUNREACH).
    Unreachable,
    /// The datagram is larger than the protocol or path allows (EMSGSIZE).
    TooLarge,
    /// The name is not there (ENOENT).
    NotFound,
    /// The thing to be opened as a file is none: a directory, a pipe, a device or a socket, which could make its reader wait.
    NotAFile,
    /// The path leaves the directory beneath which it was to be opened (EXDEV), or goes through a link that is not followed (ELOOP).
    Outside,
    /// The driver, or this kernel, has no such operation (ENOSYS, EOPNOTSUPP).
    Unsupported,
    /// The interface is down (ENETDOWN): it may come up again.
    Down,
    /// The interface is not there, or gone (ENODEV, ENXIO).
    NoInterface,
    /// The bound of the named queue was reached; ask again later.
    Busy,
    /// Something that was asked before is still under way (EINPROGRESS, EALREADY): ask again when that has ended.
    UnderWay,
    /// Anything else; see the number.
    Other,
}

/// An operation's failure: the reason to act on, and the system's number to report (errno(3), 0 if there is none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The reason, to act on.
    pub reason: Reason,
    /// The errno value.
    pub number: i32,
}

impl Fault {
    /// A fault that has no errno.
    pub const fn of(reason: Reason) -> Self {
        Self { reason, number: 0 }
    }

    /// The end of a cancelled operation.
    pub const CANCELLED: Self = Self::of(Reason::Cancelled);
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.reason {
            Reason::Cancelled => "cancelled",
            Reason::NoDescriptor => "no descriptor left (raise ulimit -n)",
            Reason::NoMemory => "no memory left",
            Reason::Refused => "connection refused",
            Reason::Reset => "connection reset by the peer",
            Reason::TimedOut => "timed out",
            Reason::AddressInUse => "address in use",
            Reason::AddressUnknown => "not an address of this machine",
            Reason::Permission => "permission denied",
            Reason::Unreachable => "no route to the peer",
            Reason::TooLarge => "datagram too large",
            Reason::NotFound => "not found",
            Reason::NotAFile => "not a file: a directory, a pipe, a device or a socket",
            Reason::Outside => "the path leaves its directory, or goes through a link that is not followed",
            Reason::Unsupported => "not supported by this driver or kernel",
            Reason::Down => "the interface is down (ip link set NAME up)",
            Reason::NoInterface => "no such interface",
            Reason::Busy => "queue full",
            Reason::UnderWay => "something is still under way",
            Reason::Other => "system error",
        };
        match self.number {
            0 => f.write_str(words),
            number => write!(f, "{words} (errno {number})"),
        }
    }
}

impl std::error::Error for Fault {}
