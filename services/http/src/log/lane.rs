//! One lane's part of the log: the lines that it puts together.

use super::format::{self, Asked, Ended, LogFormat, Sent};
use super::kept::KeptLine;
use crate::counters::HttpCounter;
use corelane::service::Address;
use corelane::service::journal::Lines;
use corelane::{Cx, Instant, Talk};
use corelane_wire::http1::Date;
use std::time::Duration;

/// Memory of notes that is kept for the next ones.
const SPARE_MAX: usize = 256;

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
    pub(super) line: Vec<u8>,
    // Boxed: what is kept moves between notes and this list as it is.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<KeptLine>>,
    counts: Counts,
}

/// Lines since they were counted last.
#[derive(Default)]
struct Counts {
    logged: usize,
    dropped: usize,
}

impl LaneLog {
    pub fn new(lines: Lines, format: LogFormat) -> Self {
        Self {
            lines,
            format,
            time: Vec::new(),
            now: Instant::from_nanoseconds(0),
            peer: Vec::new(),
            line: Vec::with_capacity(format::LINE_BYTES),
            spare: Vec::new(),
            counts: Counts::default(),
        }
    }

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
        format.write_request(line, asked);
        format.write_sent(line, sent);
        format.write_fields(line, asked.head);
        format.write_end(line, Duration::ZERO, ended);
        self.push();
    }

    /// Keeps of a request what its line will say.
    pub fn keep(&mut self, asked: Asked<'_>) -> Box<KeptLine> {
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.begin(self.now, &self.peer, |request, fields| {
            self.format.write_request(request, asked);
            self.format.write_fields(fields, asked.head);
        });
        kept
    }

    /// A request that was noted has ended.
    pub fn end(&mut self, kept: Box<KeptLine>, sent: Sent, ended: Ended) {
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
    pub fn ring(&mut self) {
        self.lines.ring();
    }
}
