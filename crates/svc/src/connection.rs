//! A connection's entry in the lane's table, and the box that it has only while it has something to do.

use crate::input::Input;
use crate::memory::PeerKey;
use crate::output::Output;
use crate::service::{ConnectionId, Ending, Peer};
use crate::ticket::LostTickets;
use crate::timers::TimerList;
use crate::transform::Transform;
use corelane_lane::TimerId;
use corelane_seam::{Arena, Chain, Lease, Payer, Shared, Socket};
use std::any::Any;

/// Where a connection is in its life. Only forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Being opened from our side.
    Opening,
    /// Input goes to the service.
    Open,
    /// No more input to the service; held answers and output still leave.
    Closing,
    /// Our side has finished; what arrives is discarded until the peer has finished too.
    Lingering,
    /// The close was submitted; the entry is free once it has completed.
    Ended,
}

/// A lease that the service wants filled.
pub(crate) struct Fill {
    /// None while the driver has it.
    pub(crate) lease: Option<Lease>,
    pub(crate) until: usize,
}

impl Fill {
    /// Whether the lease is here and holds all that was wanted.
    pub(crate) fn is_full(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.len() >= self.until)
    }
}

/// What only a connection with something under way needs.
pub(crate) struct Busy {
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// Bytes from the socket that a transform has not taken yet.
    pub(crate) raw: Chain,
    /// What a transform has made of the output, or says itself.
    pub(crate) wire: Chain,
    pub(crate) fill: Option<Fill>,
    /// Bytes that the input must have before the service is called again.
    pub(crate) needed: usize,
    /// The service left input behind because the output was full or no ticket was left: it is called again without
    /// new bytes once that has changed.
    pub(crate) blocked: bool,
    /// It did so because as many calls are with the helper threads as may be.
    pub(crate) awaits_offload: bool,
    /// When the record at the front of the input began to arrive (nanoseconds), and how many bytes have since.
    pub(crate) record_since: u64,
    pub(crate) record_bytes: u64,
    /// When the rate was looked at last, and how many bytes of the record had come by then.
    pub(crate) rate_since: u64,
    pub(crate) rate_bytes: u64,
    /// When the peer last took some of the output.
    pub(crate) progress_at: u64,
    /// The service was told that all output has left, and has written nothing since.
    pub(crate) told_drained: bool,
    /// Bytes of memory in the chain that is being sent.
    pub(crate) sending_charged: usize,
    /// When it last moved a good part of what it holds (0 for not yet), and bytes that moved since.
    pub(crate) moved_at: u64,
    pub(crate) moved: usize,
}

/// Where a drain stands for one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draining {
    /// No drain.
    No,
    /// So many bytes were readable when the drain began, and are still to be served; none are left of them at 0.
    Bytes(usize),
    /// Accepted during the drain: its first request is served.
    First,
    /// Its first request was served, and now what else is readable is: until a receive finds nothing.
    Rest,
}

/// One connection. Small: ten thousand idle ones must not weigh.
pub(crate) struct Connection {
    pub(crate) socket: Option<Socket>,
    pub(crate) peer: Peer,
    pub(crate) busy: Option<Box<Busy>>,
    pub(crate) transform: Option<Box<dyn Transform>>,
    /// The session of a connection that is being opened, until its service can take it.
    pub(crate) session_to_be: Option<Box<dyn Any>>,
    pub(crate) timer: Option<TimerId>,
    /// Those that its service started.
    pub(crate) timers: TimerList,
    /// When the timer comes: it may be too early, never too late.
    pub(crate) timer_at: u64,
    /// When the last request was taken, or its answer had left; when the last bytes came, once no more requests are taken.
    pub(crate) active_at: u64,
    /// When our side finished.
    pub(crate) finished_at: u64,
    pub(crate) pair: Option<ConnectionId>,
    /// The session's place in its service's table; none before opening and after closing.
    pub(crate) session: Option<u32>,
    pub(crate) service: u16,
    pub(crate) phase: Phase,
    pub(crate) ending: Option<Ending>,
    pub(crate) draining: Draining,
    /// The receive under way began before the drain: its bytes are none of those that were readable then.
    pub(crate) received_before: bool,
    pub(crate) receiving: bool,
    pub(crate) sending: bool,
    pub(crate) peer_finished: bool,
    /// The service has seen the end of the stream.
    pub(crate) told_finished: bool,
    pub(crate) is_ready: bool,
    pub(crate) is_dirty: bool,
    /// Reading waits for room in the output (counted once for each episode).
    pub(crate) is_paused: bool,
    /// Our side has finished towards the peer.
    pub(crate) finished: bool,
    /// Opened from our side: a drain leaves its end to the service or the pair.
    pub(crate) outgoing: bool,
    /// Its service wants to be called again once the lane has memory.
    pub(crate) is_starved: bool,
    /// Its service waits in the list of those that want to offload a call.
    pub(crate) awaits_offload: bool,
    /// A request was taken whose answer may not have left.
    pub(crate) owes_answer: bool,
    /// Who pays for its memory.
    pub(crate) payer: Payer,
    /// Among whose connections it is counted.
    pub(crate) peer_key: PeerKey,
    /// More ports to be tried while it is being opened from one that was chosen here; 0 if the system, or its service, chose it.
    pub(crate) tries_left: u8,
}

impl Connection {
    pub(crate) fn new(socket: Option<Socket>, peer: Peer, service: u16, phase: Phase, now: u64) -> Self {
        Self {
            socket,
            peer,
            busy: None,
            transform: None,
            session_to_be: None,
            timer: None,
            timers: TimerList::EMPTY,
            timer_at: u64::MAX,
            active_at: now,
            finished_at: now,
            pair: None,
            session: None,
            service,
            phase,
            ending: None,
            draining: Draining::No,
            received_before: false,
            receiving: false,
            sending: false,
            peer_finished: false,
            told_finished: false,
            is_ready: false,
            is_dirty: false,
            is_paused: false,
            finished: false,
            outgoing: phase == Phase::Opening,
            is_starved: false,
            awaits_offload: false,
            owes_answer: false,
            payer: Payer::LANE,
            peer_key: PeerKey::of(peer.address.ip()),
            tries_left: 0,
        }
    }

    /// Whether anything waits to be sent, or is being sent.
    pub(crate) fn has_output(&self) -> bool {
        self.sending || self.busy.as_ref().is_some_and(|busy| !busy.wire.is_empty() || !busy.output.chain.is_empty())
    }

    /// Whether a record has begun to arrive and is not complete.
    pub(crate) fn in_record(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.in_record())
    }
}

impl Busy {
    pub(crate) fn new(arena: &Arena, lost: &LostTickets) -> Self {
        Self {
            input: Input::new(arena.clone()),
            output: Output::new(arena.clone(), lost.clone()),
            raw: Chain::new(),
            wire: Chain::new(),
            fill: None,
            needed: 0,
            blocked: false,
            awaits_offload: false,
            record_since: 0,
            record_bytes: 0,
            rate_since: 0,
            rate_bytes: 0,
            progress_at: 0,
            told_drained: false,
            sending_charged: 0,
            moved_at: 0,
            moved: 0,
        }
    }

    /// Whether a record has begun to arrive and is not complete; or is, and the service keeps it until there is room.
    pub(crate) fn in_record(&self) -> bool {
        !self.input.chain.is_empty() || !self.raw.is_empty() || self.fill.is_some() || self.blocked
    }

    /// Whether the box can go back to the pool as it is.
    pub(crate) fn is_idle(&self) -> bool {
        let quiet = self.sending_charged == 0 && self.output.is_idle() && self.wire.is_empty();
        quiet && !self.in_record() && self.input.filled.is_none()
    }

    /// Empties the box for another connection.
    pub(crate) fn reset(&mut self) {
        self.input.chain.clear();
        (self.input.filled, self.input.finished) = (None, false);
        self.output.clear();
        self.output.wants_drained = false;
        self.raw.clear();
        self.wire.clear();
        self.fill = None;
        self.input.is_too_long = false;
        (self.needed, self.record_since, self.record_bytes, self.sending_charged) = (0, 0, 0, 0);
        (self.blocked, self.awaits_offload) = (false, false);
        (self.moved_at, self.moved, self.told_drained) = (0, 0, false);
    }

    /// Moves what arrived into the input, through the fill if one is wanted: its bytes are copied then.
    pub(crate) fn take_in(&mut self, shared: Shared) {
        self.input.chain.push(shared);
        self.feed_fill();
    }

    /// Copies what has arrived into the lease that is to be filled.
    pub(crate) fn feed_fill(&mut self) {
        let Some((until, lease)) = self.fill.as_mut().and_then(|fill| Some((fill.until, fill.lease.as_mut()?))) else { return };
        let wanted = until.saturating_sub(lease.len()).min(self.input.chain.len());
        let copied = self.input.chain.copy_to(&mut lease.spare()[..wanted]);
        lease.advance(copied);
        self.input.chain.skip(copied);
        self.input.copied += copied;
    }
}
