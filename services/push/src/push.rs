//! The service over connections.

use crate::begin::{Begin, PushCx};
use crate::source::{OPENING, Source};
use corelane::service::{Ending, Level, Notes, Outcome};
use corelane::{Input, Next, Output, Peer, StreamService};
use std::path::PathBuf;

/// Bytes of a piece unless said otherwise.
pub const SIZE_DEFAULT: usize = 16 << 10;

/// Most bytes of a piece.
pub const SIZE_MAX: usize = 4 << 20;

/// What a connection is to the service.
#[derive(Debug)]
pub struct Session {
    /// Bytes of its stream that were handed over.
    position: u64,
    /// Bytes from there on that may be handed over: what is sent of a file must not wait for a disk.
    warm: u64,
    /// More was asked for.
    has_asked: bool,
    /// Nothing is on its way: the next piece leaves when something may.
    is_waiting: bool,
    /// Nothing more is handed over: its peer has finished.
    is_over: bool,
}

/// The push service of one lane.
pub struct Push {
    /// Bytes of a piece.
    size: usize,
    source: Source,
    is_draining: bool,
}

impl Push {
    /// Pushes pieces of `size` bytes out of the lane's memory.
    ///
    /// # Panics
    /// If a piece has no bytes, or more than [`SIZE_MAX`].
    pub fn memory(size: usize) -> Self {
        Self::of(size, Source::NotYet { sealed: false })
    }

    /// Pushes pieces of `size` bytes out of sealed memory of each lane's own: of long ones the receiver may be given the very pages. Where it cannot be had, that is told, and the lane's memory
    /// is used.
    ///
    /// # Panics
    /// As [`Push::memory`].
    pub fn sealed(size: usize) -> Self {
        Self::of(size, Source::NotYet { sealed: true })
    }

    /// Pushes pieces of `size` bytes out of a file, from its beginning to its end and again. Where it cannot be read, or is empty, that is told, and connections are
    /// closed.
    ///
    /// # Panics
    /// As [`Push::memory`].
    pub fn file(size: usize, path: PathBuf) -> Self {
        Self::of(size, Source::Opening { path, waiting: Vec::new() })
    }

    fn of(size: usize, source: Source) -> Self {
        assert!((1..=SIZE_MAX).contains(&size), "a piece has from 1 to {SIZE_MAX} bytes");
        Self { size, source, is_draining: false }
    }

    /// Hands the next piece over; it is cut short where the connection's output has no room for all of it.
    fn push(&mut self, cx: &mut PushCx<'_>, session: &mut Session, output: &mut Output) -> Next {
        if self.is_draining || session.is_over {
            return Next::Continue;
        }
        session.is_waiting = session.warm == 0;
        if session.is_waiting {
            self.ask(cx, session);
            return Next::Continue;
        }
        let before = session.position;
        let end = before + session.warm.min(self.size as u64);
        while session.position < end && (session.position == before || output.room() > 0) {
            let Some(segment) = self.source.segment(session.position, end - session.position) else { return Next::Close };
            session.position += segment.len() as u64;
            output.push(segment);
        }
        assert!(session.position > before && session.position <= end, "a piece has a byte at least, and no more than it should");
        session.warm -= session.position - before;
        if session.warm == 0 {
            self.ask(cx, session);
        }
        cx.count_requests(1);
        output.notify_drained();
        Next::Continue
    }

    /// Asks for what comes next of a file, while the last piece leaves.
    fn ask(&mut self, cx: &mut PushCx<'_>, session: &mut Session) {
        if !std::mem::replace(&mut session.has_asked, true) {
            self.source.warm(cx, session.position, self.size);
        }
    }
}

impl StreamService for Push {
    type Talk = Notes<Begin>;
    type Session = Session;

    /// Makes the lane's region, at the service's own cost, or sealed memory, or has its file opened.
    fn started(&mut self, cx: &mut PushCx<'_>) {
        self.source.begin(cx, self.size);
    }

    fn open(&mut self, cx: &mut PushCx<'_>, _peer: &Peer) -> Session {
        self.source.admit(cx);
        Session { position: 0, warm: 0, has_asked: true, is_waiting: true, is_over: false }
    }

    fn message(&mut self, cx: &mut PushCx<'_>, session: &mut Session, output: &mut Output, begin: Begin) -> Next {
        (session.warm, session.has_asked) = (begin.warm, false);
        match (self.is_draining, session.is_waiting) {
            (true, _) => Next::Close,
            (false, true) => self.push(cx, session, output),
            (false, false) => Next::Continue,
        }
    }

    fn drained(&mut self, cx: &mut PushCx<'_>, session: &mut Session, output: &mut Output) -> Next {
        self.push(cx, session, output)
    }

    fn receive(&mut self, _cx: &mut PushCx<'_>, session: &mut Session, input: &mut Input, _output: &mut Output) -> Next {
        input.skip(input.len());
        session.is_over |= input.is_finished();
        Next::Continue
    }

    fn closed(&mut self, cx: &mut PushCx<'_>, _session: Session, _ending: Ending) {
        self.source.forget(cx.id());
    }

    fn completed(&mut self, cx: &mut PushCx<'_>, token: u64, outcome: Outcome) {
        if token != OPENING {
            self.source.warmed(cx, token, &outcome);
        } else if let Some(why) = self.source.opened(cx, outcome) {
            cx.report(Level::Error, format_args!("{why}; every connection is closed"));
        }
    }

    fn draining(&mut self, _cx: &mut PushCx<'_>, _session: &mut Session, _output: &mut Output) {
        self.is_draining = true;
    }

    fn drain_began(&mut self, _cx: &mut PushCx<'_>) {
        self.is_draining = true;
    }
}
