//! One lane's part of the log: the lines that it puts together.

use super::format::{self, Asked, Ended, LogFormat, Sent};
use super::kept::KeptLine;
use super::passed::Passed;
use crate::counters::HttpCounter;
use corelane::service::journal::Lines;
use corelane::service::{Address, Arena};
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
    /// To whom the request that has just come was sent on, if it was.
    pub passed: Passed,
    // Boxed: what is kept moves between notes and this list as it is.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<KeptLine>>,
    /// Where the texts of requests lie that are noted; none before the lane turns.
    arena: Option<Arena>,
    counts: LineCounts,
}

/// Lines since they were counted last.
#[derive(Default)]
struct LineCounts {
    logged: usize,
    dropped: usize,
    /// Those for whose texts there was no memory.
    cut: usize,
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
            passed: Passed::default(),
            spare: Vec::new(),
            arena: None,
            counts: LineCounts::default(),
        }
    }

    /// The lane turns, and has this memory.
    pub fn started(&mut self, arena: &Arena) {
        self.arena = Some(arena.clone());
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
        self.passed.clear();
        self.peer.clear();
        format::write_peer(&mut self.peer, peer);
    }

    /// A request was answered at once.
    pub fn answered(&mut self, asked: Asked<'_>, sent: Sent, ended: Ended) {
        let Self { format, time, peer, line, passed, .. } = self;
        line.clear();
        format.write_begin(line, peer, time);
        format.write_request(line, asked);
        format.write_sent(line, sent);
        format.write_fields(line, asked.head);
        format.write_end(line, Duration::ZERO, ended, passed);
        passed.clear();
        self.push();
    }

    /// Keeps of a request what its line will say, in the memory of the connection that the present call is for.
    pub fn keep(&mut self, asked: Asked<'_>) -> Box<KeptLine> {
        let mut kept = self.spare.pop().unwrap_or_default();
        let Self { format, now, peer, line, arena, counts, passed, .. } = self;
        kept.begin(*now, peer);
        // The note gets this request's, and leaves its memory for the next one.
        std::mem::swap(&mut kept.passed, passed);
        line.clear();
        format.write_request(line, asked);
        let request_bytes = line.len();
        format.write_fields(line, asked.head);
        let is_kept = arena.as_ref().is_some_and(|arena| kept.keep_texts(arena, line, request_bytes));
        counts.cut += usize::from(!is_kept);
        kept
    }

    /// A request that was noted has ended.
    pub fn end(&mut self, mut kept: Box<KeptLine>, sent: Sent, ended: Ended) {
        let Self { format, time, line, now, .. } = self;
        let took = Duration::from_nanos(now.nanoseconds().saturating_sub(kept.began.nanoseconds()));
        line.clear();
        format.write_begin(line, &kept.peer, time);
        let (request, fields) = kept.texts().unwrap_or_else(|| format.not_kept());
        line.extend_from_slice(request);
        format.write_sent(line, sent);
        line.extend_from_slice(fields);
        format.write_end(line, took, ended, &kept.passed);
        kept.let_go();
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
        if self.counts.cut > 0 {
            cx.count(HttpCounter::LogLinesCut, std::mem::take(&mut self.counts.cut));
        }
        if self.counts.logged == 0 {
            return;
        }
        self.lines.ring();
        let LineCounts { logged, dropped, .. } = std::mem::take(&mut self.counts);
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
