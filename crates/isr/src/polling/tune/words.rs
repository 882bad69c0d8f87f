//! Why something is tried, and why it ends.

use std::fmt;

/// Why settings are to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// What was measured of them says too little.
    Again,
    /// One dimension differs from the best settings.
    Change {
        /// Which.
        name: &'static str,
        /// What the best settings have.
        from: u32,
        /// What is tried.
        to: u32,
    },
    /// They are the best so far, and what runs may have changed.
    Best,
    /// They keep for programs what was asked for, and those that were set do not.
    Share,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again => f.write_str("measured again: what was measured says too little"),
            Self::Change { name, from, to } => write!(f, "{name} {from} -> {to}"),
            Self::Best => f.write_str("the best so far: is it still what it was?"),
            Self::Share => f.write_str("programs keep the share that was asked for"),
        }
    }
}

/// Why nothing more is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyDone {
    /// No packet came.
    NothingCame,
    /// Each packet that came was carried: no settings can do better.
    NothingLost,
    /// Each change was tried.
    NothingHelps,
    /// As much was measured as was allowed.
    Measured,
}

impl fmt::Display for WhyDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingCame => "no packet came, so nothing can be compared: tune under load",
            Self::NothingLost => "nothing is lost, so no settings carry more",
            Self::NothingHelps => "no other change helps",
            Self::Measured => "all measurements that were allowed are taken",
        })
    }
}
