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
mod note;

pub(crate) use format::Ended;
pub(crate) use note::{Asked, Note, Trace};

use crate::counters::HttpCounter;
use corelane::service::Address;
use corelane::service::entry::Beside;
use corelane::service::journal::{Journal, Lines};
use corelane::{Cx, Instant, Lanes, Talk};
use corelane_wire::http1::Date;
use note::Kept;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Memory of notes that is kept for the next ones.
const SPARE_MAX: usize = 256;

/// What a line of an access log looks like.
///
/// Whatever a client has sent stands in quotes with each byte written as `\xHH` that is no printable ASCII, a quote or a backslash: so nobody can forge a
/// line, or tell a terminal anything. Of the request line 1,536 bytes are shown, of Referer 768, of User-Agent 512, of the host 255, and `...` behind them if
/// there were more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `PEER - - [TIME] "REQUEST" STATUS BYTES "REFERER" "USER AGENT" "HOST" SECONDS END`: the combined format, and three values more. BYTES are those of
    /// content that were written for the peer, which may have got fewer of them if the answer was cut short. SECONDS are from the request's head to the end of the answer, by the lane's turns: an answer
    /// that is given at once takes none. END is `+` if the connection goes on, `-` if it closes behind the answer, and `X` if the answer was cut short; one that
    /// had not begun by then has status 499.
    #[default]
    Combined,
    /// The same as an object of JSON a line (RFC 8259), whose texts are written as in the combined format.
    Json,
}

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

    /// Has a thread write it as long as the lanes run, and at their end all that they said; opens the file anew at SIGHUP.
    pub fn beside(self, lanes: Lanes) -> Lanes {
        lanes.beside(move || {
            let journal = self.journal.clone();
            match self.journal.write() {
                Ok(writing) => Beside::default().keep(writing).at_hangup(move || journal.reopen()),
                Err(error) => Beside::default().note(format!("nothing is logged: a thread could not be had: {error}")),
            }
        })
    }

    /// What its lines are written with.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn lane(&self) -> LaneLog {
        let (lines, format) = (self.journal.lines(), self.format);
        let line = Vec::with_capacity(format::LINE_BYTES);
        let counts = Counts::default();
        LaneLog {
            lines,
            format,
            time: Vec::new(),
            now: Instant::from_nanoseconds(0),
            peer: Vec::new(),
            line,
            spare: Vec::new(),
            counts,
        }
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("format", &self.format).finish_non_exhaustive()
    }
}

/// What was answered: a status, and so many bytes of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The status code.
    pub status: u16,
    /// Bytes of content.
    pub bytes: u64,
}

/// One lane's part of the log.
pub(crate) struct LaneLog {
    lines: Lines,
    format: LogFormat,
    /// The time of day as lines have it.
    time: Vec<u8>,
    /// This turn's time.
    now: Instant,
    /// Whose connection the present call is for.
    peer: Vec<u8>,
    /// The line that is put together.
    line: Vec<u8>,
    // Boxed: what is kept moves between notes and this list as it is.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Kept>>,
    counts: Counts,
}

/// Lines since they were counted last.
#[derive(Default)]
struct Counts {
    logged: usize,
    dropped: usize,
}

impl LaneLog {
    /// Another second has begun.
    pub fn look(&mut self, date: Date) {
        self.time.clear();
        self.format.write_time(&mut self.time, date);
    }

    /// A turn's time.
    pub fn turn(&mut self, now: Instant) {
        self.now = now;
    }

    /// A call for a connection begins.
    pub fn begin_call(&mut self, peer: Option<&Address>) {
        self.peer.clear();
        format::write_peer(&mut self.peer, peer);
    }

    /// A request was answered at once.
    pub fn answered(&mut self, asked: Asked<'_>, sent: Sent, ended: Ended) {
        let Self { format, time, peer, line, .. } = self;
        line.clear();
        format.write_begin(line, peer, time);
        format.write_request(line, asked.bytes);
        format.write_sent(line, sent);
        format.write_fields(line, asked.head);
        format.write_end(line, Duration::ZERO, ended);
        self.push();
    }

    /// Keeps of a request what its line will say.
    fn keep(&mut self, asked: Asked<'_>) -> Box<Kept> {
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.begin(self.now, &self.peer, |request, fields| {
            self.format.write_request(request, asked.bytes);
            self.format.write_fields(fields, asked.head);
        });
        kept
    }

    /// A request that was noted has ended.
    fn end(&mut self, kept: Box<Kept>, sent: Sent, ended: Ended) {
        let Self { format, time, line, now, .. } = self;
        let took = Duration::from_nanos(now.nanoseconds().saturating_sub(kept.began.nanoseconds()));
        line.clear();
        format.write_begin(line, &kept.peer, time);
        line.extend_from_slice(&kept.request);
        format.write_sent(line, sent);
        line.extend_from_slice(&kept.fields);
        format.write_end(line, took, ended);
        self.push();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(kept);
        }
    }

    fn push(&mut self) {
        let is_taken = self.lines.push(&self.line);
        self.counts.logged += 1;
        self.counts.dropped += usize::from(!is_taken);
    }

    /// Has the lines written that a call has brought, and counts them.
    pub fn end_call(&mut self, cx: &mut Cx<'_, impl Talk>) {
        if self.counts.logged == 0 {
            return;
        }
        self.lines.ring();
        let Counts { logged, dropped } = std::mem::take(&mut self.counts);
        cx.count(HttpCounter::LogLines, logged);
        let lost = usize::try_from(self.lines.take_lost()).unwrap_or(usize::MAX);
        if dropped + lost > 0 {
            cx.count(HttpCounter::LogLinesDropped, dropped + lost);
        }
    }

    /// As [`LaneLog::end_call`] where nobody counts; they are counted with the next ones.
    fn ring(&mut self) {
        self.lines.ring();
    }
}

#[cfg(test)]
mod tests;
