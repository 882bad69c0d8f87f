//! Connections: two ends, and a pipe each way between them.

use super::binding::Owner;
use super::errno::{BROKEN_PIPE, RESET};
use super::pipe::{Finish, Pipe};
use crate::check::Violation;
use corelane_seam::Fault;
use std::net::SocketAddr;

/// One end of a connection.
pub(crate) struct End {
    pub(crate) owner: Owner,
    /// A fault that its owner has not been told yet.
    pub(crate) fault: Option<Fault>,
    /// Whether a reset has ended it.
    pub(crate) dead: bool,
    /// Whether it has sent a reset.
    pub(crate) has_reset: bool,
}

impl End {
    pub(crate) fn new(owner: Owner) -> Self {
        Self { owner, fault: None, dead: false, has_reset: false }
    }
}

/// A connection. End 0 opened it; `pipes[side]` carries what end `side` sends.
pub(crate) struct Stream {
    pub(crate) ends: [End; 2],
    pub(crate) addresses: [SocketAddr; 2],
    pub(crate) pipes: [Pipe; 2],
}

/// What an end finds when it receives.
pub(crate) enum Incoming {
    Bytes(usize),
    Fault(Fault),
    End,
    Nothing,
}

impl Stream {
    /// What there is to receive for `side`. A fault is told once, then it reads as the end, as in Linux.
    pub(crate) fn incoming(&mut self, side: usize) -> Incoming {
        let (end, pipe) = (&mut self.ends[side], &self.pipes[1 - side]);
        match (pipe.readable(), end.fault.take()) {
            (0, Some(fault)) => Incoming::Fault(fault),
            (0, None) if end.dead || pipe.finish == Finish::Arrived => Incoming::End,
            (0, None) => Incoming::Nothing,
            (bytes, fault) => {
                end.fault = fault;
                Incoming::Bytes(bytes)
            }
        }
    }

    /// Why `side` was broken off; behind the other's end nothing was that `side` has not heard.
    pub(crate) fn broken(&mut self, side: usize, has_heard_end: bool) -> Option<Fault> {
        let has_finished = self.pipes[1 - side].finish == Finish::Arrived;
        if has_finished && !has_heard_end { None } else { self.ends[side].fault.take() }
    }

    /// Bytes that `side` may send now.
    pub(crate) fn outgoing(&mut self, side: usize) -> Result<usize, Fault> {
        let end = &mut self.ends[side];
        if let Some(fault) = end.fault.take() {
            return Err(fault);
        }
        if end.dead || self.pipes[side].finish != Finish::No { Err(BROKEN_PIPE) } else { Ok(self.room(side)) }
    }

    /// Bytes that `side` may send now, without telling it of a fault.
    pub(crate) fn room(&self, side: usize) -> usize {
        let is_open = !self.ends[side].dead && self.pipes[side].finish == Finish::No;
        if is_open { self.pipes[side].room() } else { 0 }
    }

    /// Whether receiving would not wait.
    pub(crate) fn is_readable(&self, side: usize) -> bool {
        let (end, pipe) = (&self.ends[side], &self.pipes[1 - side]);
        pipe.readable() > 0 || end.dead || pipe.finish == Finish::Arrived
    }

    /// Whether a sender that had to wait may go on.
    pub(crate) fn is_writable(&self, side: usize) -> bool {
        self.ends[side].dead || self.pipes[side].finish != Finish::No || self.pipes[side].is_writable()
    }

    pub(crate) fn break_end(&mut self, side: usize) {
        self.ends[side].dead = true;
        self.ends[side].fault = Some(RESET);
        self.pipes[side].discard_unarrived();
    }
}

/// Bytes of a connection that came from nowhere, went nowhere, or changed on the way.
pub(crate) fn imbalance(stream: &Stream) -> Option<Violation> {
    let found = stream.pipes.iter().find_map(Pipe::imbalance);
    found.map(|(expected, got)| Violation::BytesDiffer { lane: None, expected, got })
}
