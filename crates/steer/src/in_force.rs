//! What comes of the means that are asked for.

use corelane_select::Means;
use std::fmt;
use std::str::FromStr;

/// What chooses the lane of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InForce {
    /// Nothing: there is one lane, or nothing is served.
    Nothing,
    /// The table, by a program with maps.
    Program,
    /// The table, by a classic program.
    Classic,
    /// The table, by the lanes: all that is served is served over frames.
    Frames,
    /// The kernel's own hash.
    Kernel,
}

impl InForce {
    pub(crate) fn of(means: Means) -> Self {
        match means {
            Means::Program => Self::Program,
            Means::Classic => Self::Classic,
        }
    }
}

impl FromStr for InForce {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let all = [Self::Nothing, Self::Program, Self::Classic, Self::Frames, Self::Kernel];
        all.into_iter().find(|known| known.to_string() == text).ok_or(())
    }
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "none",
            Self::Program => "program",
            Self::Classic => "classic program",
            Self::Frames => "frames",
            Self::Kernel => "kernel hash",
        })
    }
}
