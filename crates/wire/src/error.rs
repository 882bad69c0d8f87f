//! What bytes or values were refused for, and who is at fault.

use std::fmt;

/// Why bytes were not understood, or a value could not be written.
///
/// `what` names the item as its RFC does. Unless a variant says otherwise, the peer that sent the bytes is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end inside an item. In a stream this is no fault: more may come.
    Truncated {
        /// Bytes that the item needs from where it begins.
        expected: usize,
        /// Bytes that are there.
        got: usize,
    },
    /// Bytes are left after the last item.
    Trailing {
        /// How many.
        got: usize,
    },
    /// A length or count is over its bound.
    TooLong {
        /// The item.
        what: &'static str,
        /// The bound: bytes of opaque data and strings, else elements.
        limit: u32,
        /// What the peer said.
        got: u32,
    },
    /// A number stands where only certain numbers are legal, and is none of them.
    Unknown {
        /// The item.
        what: &'static str,
        /// The number.
        got: u32,
    },
    /// A string holds what is not ASCII.
    NotAscii {
        /// The item.
        what: &'static str,
        /// Index of the first byte that is none.
        at: usize,
    },
    /// A text is not of the form that its RFC demands.
    Malformed {
        /// The item.
        what: &'static str,
    },
    /// A message is a reply where a call is due, or a call where a reply is due.
    WrongDirection {
        /// The message type that is due (RFC 5531 section 9: 0 call, 1 reply).
        expected: u32,
        /// The message type that came.
        got: u32,
    },
    /// A call is of a version of RPC other than 2.
    RpcVersion {
        /// The version.
        got: u32,
    },
    /// A credential or verifier cannot be accepted.
    Authentication {
        /// Its flavour.
        flavour: u32,
        /// The `auth_stat` that says why.
        status: u32,
    },
    /// A call is for a program that is not served here.
    Program {
        /// The program that is.
        expected: u32,
        /// The program that was called.
        got: u32,
    },
    /// A call is for a version of the program that is not served.
    Version {
        /// The lowest version that is.
        low: u32,
        /// The highest version that is.
        high: u32,
        /// The version that was called.
        got: u32,
    },
    /// A call is for a procedure that the program does not have, or that this service does not offer.
    Procedure {
        /// The procedure.
        got: u32,
    },
    /// A record is longer than the service allows.
    RecordTooLong {
        /// The bound in bytes.
        limit: u32,
        /// Bytes that the record would have at least.
        got: u64,
    },
    /// A record has more fragments than the service allows.
    TooManyFragments {
        /// The bound.
        limit: u32,
    },
    /// The service could not carry out a call: the service, not the caller, is at fault.
    Service,
    /// A value does not fit into its type. The program that made it is at fault.
    Oversized {
        /// The bound: bytes of opaque data and strings, else elements.
        limit: u32,
        /// What was given.
        got: usize,
    },
    /// The memory given to a writer is used up. The program that gave it is at fault.
    NoRoom {
        /// Bytes that were to be written.
        expected: usize,
        /// Bytes that were left.
        got: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { .. } | Self::Trailing { .. } | Self::TooLong { .. } | Self::Unknown { .. } => self.write_item(f),
            Self::NotAscii { .. } | Self::Malformed { .. } => self.write_item(f),
            Self::RecordTooLong { .. } | Self::TooManyFragments { .. } => self.write_record(f),
            Self::Service | Self::Oversized { .. } | Self::NoRoom { .. } => self.write_own(f),
            _ => self.write_message(f),
        }
    }
}

impl Error {
    fn write_item(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { expected, got } => {
                write!(
                    f,
                    "the peer's bytes end too early: an item needs {expected} bytes, {got} are there; the peer must send it whole"
                )
            }
            Self::Trailing { got } => write!(f, "the peer sent {got} bytes after the last item; it must send none"),
            Self::TooLong { what, limit, got } => write!(f, "the peer's {what} is {got} long; it must be {limit} at most"),
            Self::Unknown { what, got } => write!(f, "the peer's {what} is {got}, which means nothing; it must send a legal one"),
            Self::NotAscii { what, at } => write!(f, "the peer's {what} is not ASCII at byte {at}; it must be"),
            Self::Malformed { what } => {
                write!(f, "the {what} is not of the form that its standard demands; whoever wrote it must mend it")
            }
            _ => Ok(()),
        }
    }

    fn write_message(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongDirection { expected, got } => {
                write!(f, "the peer sent message type {got} where {expected} is due (0 call, 1 reply); it must not")
            }
            Self::RpcVersion { got } => write!(f, "the caller speaks RPC version {got}; it must speak version 2"),
            Self::Authentication { flavour, status } => {
                write!(
                    f,
                    "the caller's authentication of flavour {flavour} is refused with auth_stat {status}; AUTH_NONE and AUTH_SYS are served"
                )
            }
            Self::Program { expected, got } => write!(f, "the caller wants program {got}; here is program {expected}"),
            Self::Version { low, high, got } => write!(f, "the caller wants version {got}; versions {low} to {high} are served"),
            Self::Procedure { got } => write!(f, "the caller wants procedure {got}, which is not offered"),
            _ => Ok(()),
        }
    }

    fn write_record(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecordTooLong { limit, got } => {
                write!(f, "the peer's record has {got} bytes or more; send at most {limit}, or raise the record limit")
            }
            Self::TooManyFragments { limit } => {
                write!(f, "the peer's record has more than {limit} fragments; send fewer, or raise the fragment limit")
            }
            _ => Ok(()),
        }
    }

    fn write_own(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service => f.write_str("the service could not carry out the call; its own log says why"),
            Self::Oversized { limit, got } => write!(f, "this program gave a value {got} long; its type holds {limit} at most"),
            Self::NoRoom { expected, got } => {
                write!(f, "this program gave too little memory: {expected} bytes are to be written, {got} are left; give more")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
