//! Reasons that keep a server, or a client, from speaking TLS.

use rustls::pki_types::pem;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a server, or a client, cannot speak TLS with what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no certificate to show.
    NoCertificate,
    /// A file cannot be read, or holds nothing of what is needed.
    File {
        /// The file.
        path: PathBuf,
        /// Its fault, and the remedy.
        why: String,
    },
    /// A certificate and a key are no pair.
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
        /// Why, and the remedy.
        why: String,
    },
    /// There are no authorities whose signatures could be believed.
    Authorities {
        /// Why, and the remedy.
        why: String,
    },
    /// The text given as a server's name is none.
    Name {
        /// The text that was given.
        name: String,
        /// Its fault.
        why: String,
    },
    /// The provider of cryptography lacks something.
    Provider {
        /// What.
        what: String,
    },
}

impl Error {
    /// A file that does not hold `what` in PEM.
    pub(crate) fn pem(path: &Path, error: pem::Error, what: &str) -> Self {
        let why = match error {
            pem::Error::Io(error) => error.to_string(),
            pem::Error::NoItemsFound => format!("holds no {} in PEM", what.trim_start_matches("a ")),
            error => format!("holds what is no PEM of {what}: {error}"),
        };
        Self::File { path: path.to_owned(), why }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => {
                f.write_str("there is no certificate to show: name a file with certificates and one with their key")
            }
            Self::File { path, why } => write!(f, "{}: {why}", path.display()),
            Self::Pair { certificate, key, why } => {
                write!(f, "{} and {} are no pair: {why}", certificate.display(), key.display())
            }
            Self::Authorities { why } => write!(f, "no authorities to trust: {why}"),
            Self::Name { name, why } => write!(f, "{name} is no name of a server: {why}"),
            Self::Provider { what } => write!(f, "the provider of cryptography {what}"),
        }
    }
}

impl std::error::Error for Error {}
