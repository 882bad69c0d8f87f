//! Why an asynchronous operation came to nothing.

use corelane_seam::Fault;
use corelane_svc::{Ending, Error as ServiceError, Lost};
use std::fmt;

/// The result of calls on asynchronous connections.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The connection has ended.
    Ended {
        /// How.
        ending: Ending,
        /// The socket's fault, if that was it.
        fault: Option<Fault>,
    },
    /// The caller has said before that it says no more ([`Connection::finish`](super::Connection::finish)).
    Finished,
    /// The caller waits for more bytes than a record may have.
    TooLong {
        /// The bound of the service (`record_max`).
        record_max: usize,
    },
    /// The system failed the operation: a connection could not be opened, or a file.
    Failed(Fault),
    /// The service is at a bound of its own.
    Refused(ServiceError),
    /// A question has no answer.
    Lost(Lost),
    /// The offloaded call panicked.
    Panicked,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { ending, fault: None } => write!(f, "the connection has ended: {ending}"),
            Self::Ended { ending, fault: Some(fault) } => write!(f, "the connection has ended: {ending}, {fault}"),
            Self::Finished => f.write_str("nothing is written after `finish`: write before it"),
            Self::TooLong { record_max } => {
                write!(
                    f,
                    "more bytes are waited for than a record may have, {record_max} (record_max): refuse the request, or raise it"
                )
            }
            Self::Failed(fault) => write!(f, "the system says: {fault}"),
            Self::Refused(error) => error.fmt(f),
            Self::Lost(lost) => write!(f, "there is no answer: {lost}"),
            Self::Panicked => f.write_str("the offloaded call panicked, or the lane ended before it was called"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}
