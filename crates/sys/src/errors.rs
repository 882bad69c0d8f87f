//! Why a driver could not be made.

use corelane_seam::Fault;
use std::fmt;

/// What can go wrong when a driver is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tuning { field, got, least, most } => {
                write!(f, "the setting {field} must be {least} to {most}, not {got}: change it")
            }
            Self::Refused { call, fault } => write!(f, "the system refused {call}: {fault}"),
        }
    }
}

impl std::error::Error for Error {}
