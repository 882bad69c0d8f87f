//! What the control plane refuses, who is at fault, and the remedy.

use crate::in_force::InForce;
use corelane_rss::MOST_LANES;
use std::fmt;

/// Why flows cannot be steered as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The caller named a means that there is not.
    Name {
        /// What was given, cut to 40 characters.
        got: String,
    },
    /// The caller asked for a table that cannot be.
    Table(
        /// What is wrong with it.
        corelane_rss::Error,
    ),
    /// The caller asked for more lanes than a table can name.
    Lanes {
        /// How many.
        got: usize,
    },
    /// The system does not let us, or the caller's table does not fit.
    Refused(
        /// What was refused, and the remedy.
        corelane_select::Error,
    ),
    /// The caller wants something that only a table in force can do.
    NotSteered {
        /// What is in force.
        in_force: InForce,
    },
    /// The caller has a lane leave or come back whose frames nobody else could have: all that is served is served over frames.
    OverFrames,
    /// The caller gives buckets to a lane that has left, or lets it leave again.
    LaneAway {
        /// The lane.
        lane: usize,
    },
    /// The caller lets a lane come that is there.
    LanePresent {
        /// The lane.
        lane: usize,
    },
    /// A lane does not answer: its service does not come back from a call, or connections that wait there find no room.
    LaneSilent {
        /// The lane.
        lane: usize,
    },
    /// A lane has ended: the program is on its way out.
    LaneEnded {
        /// The lane.
        lane: usize,
    },
    /// A lane could not do its part.
    Lane {
        /// The lane.
        lane: usize,
        /// Why, and the remedy.
        error: corelane_svc::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { got } => write!(f, "{got:?} is no way to steer: use auto, program, classic or kernel"),
            Self::Table(error) => error.fmt(f),
            Self::Lanes { got } => write!(f, "{got} lanes cannot be told apart by a table: take {MOST_LANES} at the most"),
            Self::Refused(error) => error.fmt(f),
            Self::NotSteered { in_force } => write!(
                f,
                "no table chooses the lanes here ({in_force} does): start with two lanes or more, steered by program or classic"
            ),
            Self::OverFrames => f.write_str(
                "a lane over frames stays, for the queue of the interface is its own: give its buckets to others instead (rss table --move)",
            ),
            Self::LaneAway { lane } => write!(f, "lane {lane} has left: let it come back first"),
            Self::LanePresent { lane } => write!(f, "lane {lane} is there already: nothing is to be done"),
            Self::LaneSilent { lane } => {
                write!(
                    f,
                    "lane {lane} does not answer: see with stat whether it turns and has room for what waits, then try again"
                )
            }
            Self::LaneEnded { lane } => {
                write!(f, "lane {lane} has ended, and the program is ending: ask again when it has been started anew")
            }
            Self::Lane { lane, error } => write!(f, "lane {lane}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<corelane_rss::Error> for Error {
    fn from(error: corelane_rss::Error) -> Self {
        Self::Table(error)
    }
}

impl From<corelane_select::Error> for Error {
    fn from(error: corelane_select::Error) -> Self {
        Self::Refused(error)
    }
}
