//! The access log: a line for each answer.
//!
//! ```text
//! Asked (the head's bytes) --answered at once--> LaneLog::answered --line--> journal::Lines --> a thread, the file
//!         | held, collected, or an exchange
//!         Note --its end--> a line; dropped before that: the answer was cut short, and the line says so
//! ```
//!
//! An answer's line says how much of its content was written for the peer: whether that has read it nobody knows. What went wrong with a line is counted:
//! `log_lines_dropped`. A request that ended in a panic, or that is to be offered again, has no line.

mod format;
mod kept;
mod lane;
mod note;
mod passed;

pub(crate) use format::{Asked, Ended};
pub use format::{LogFormat, Sent};
pub(crate) use lane::LaneLog;
pub(crate) use note::{Note, Trace};

use corelane::Lanes;
use corelane::admin::reports::{Level, Record};
use corelane::service::entry::Beside;
use corelane::service::journal::Journal;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where the answers of a program are logged. A clone is the same one.
///
/// ```no_run
/// use corelane::Lanes;
/// use corelane_http::{AccessLog, Fixed, Http, LogFormat};
///
/// let log = AccessLog::open("access.log", LogFormat::Combined)?;
/// let of_lanes = log.clone();
/// let lanes = Lanes::per_core().serve("tcp://[::]:8080", move |_lane| Http::new(Fixed::new(8)).log(&of_lanes))?;
/// log.beside(lanes).run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AccessLog {
    journal: Journal,
    format: LogFormat,
}

impl AccessLog {
    /// Adds to the file of this name ([`Journal::open`]).
    ///
    /// # Errors
    /// What the system says of opening it.
    pub fn open(path: impl Into<PathBuf>, format: LogFormat) -> io::Result<Self> {
        Ok(Self { journal: Journal::open(path)?, format })
    }

    /// Has a thread write it as long as the lanes run, and at their end all that they said; opens the file anew at SIGUSR1 and at SIGHUP.
    pub fn beside(self, lanes: Lanes) -> Lanes {
        lanes.beside(move || {
            let journal = self.journal.clone();
            match self.journal.write() {
                Ok(writing) => Beside::default().keep(writing).at_rotation(move || journal.reopen()),
                Err(error) => {
                    let words = format!("nothing is logged: the log, or a thread that writes it, could not be had: {error}");
                    Beside::default().note(Record::new(Level::Warn, words))
                }
            }
        })
    }

    /// What its lines are written with.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn lane(&self) -> LaneLog {
        LaneLog::new(self.journal.lines(), self.format)
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("format", &self.format).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
