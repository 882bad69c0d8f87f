//! What can stop a run.

use crate::kinds::Kind;
use std::fmt;

/// Why a run could not be made, or came to nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The caller's settings cannot be met.
    Setting {
        /// Which one.
        name: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The lanes could not be started.
    Lanes(
        /// What stopped them.
        corelane::Error,
    ),
    /// The first connection could not be had.
    Unreachable {
        /// The target.
        url: String,
        /// Why.
        kind: Kind,
        /// The system's word.
        fault: String,
    },
    /// A lane ended without its report.
    LaneLost,
    /// The histogram log could not be written.
    Log(
        /// What the system says.
        String,
    ),
    /// No counter page says that its process serves the target.
    NoPage {
        /// The target.
        url: String,
    },
    /// The process whose cost was to be measured cannot be read.
    Server {
        /// Its number.
        pid: u32,
        /// What the system says.
        why: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { name, why } => write!(f, "{name}: {why}"),
            Self::Lanes(error) => error.fmt(f),
            Self::Unreachable { url, kind, fault } => {
                let remedy = match kind {
                    Kind::Refused => "is a server listening there?",
                    Kind::ClientTimeout | Kind::SocketTimeout => "nothing answered: check the address, or a firewall between",
                    Kind::NoDescriptor => "raise the limit of descriptors (ulimit -n), or use more lanes",
                    Kind::NoAddress => "name other source addresses, or fewer connections",
                    Kind::Tls if fault.starts_with("the server has refused") && fault.contains("shown") => {
                        "show it one with --certificate"
                    }
                    Kind::Tls if !fault.contains("certificate") => "is TLS spoken there, and the same versions and protocols?",
                    Kind::Tls => {
                        "name who signs its certificate with --ca; or, for measuring only, trust it with --trust-anybody"
                    }
                    _ => "check the address",
                };
                write!(f, "{url} cannot be reached: {fault} ({kind}); {remedy}")
            }
            Self::Log(why) => write!(f, "the histogram log cannot be written: {why}"),
            Self::LaneLost => write!(f, "a lane ended before its report: this is a fault of the generator"),
            Self::NoPage { url } => write!(
                f,
                "no counter page of this user says that its process serves {url}: is the server built on Corelane, and on this machine? (corelane stat)"
            ),
            Self::Server { pid, why } => write!(f, "the server's process {pid} cannot be read: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<corelane::Error> for Error {
    fn from(error: corelane::Error) -> Self {
        Self::Lanes(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_no_tls_needs_no_authority() {
        let said = |fault: &str| Error::Unreachable { url: "https://a".into(), kind: Kind::Tls, fault: fault.into() }.to_string();
        assert!(!said("the server speaks in plain, and TLS is spoken here").contains("--ca"));
        assert!(said("the server's certificate is signed by nobody who is trusted here").contains("--ca"));
    }
}
