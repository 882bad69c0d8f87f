//! A connection on its way from one lane to another: plain data, which says whose it is and what it was on the lane that it left.

use crate::connection::entry::Connection;
use crate::connection::found::Found;
use crate::connection::machine::{Machine, Phase};
use crate::words::names::Peer;
use crate::words::stays::Stays;
use crate::words::transform::Transform;
use corelane_lane::Fenced;
use corelane_seam::{Arena, Bell, Detached, Socket};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A session as data that may go to another lane. Wherever it is dropped, a panic of that ends there.
pub(crate) type PackedSession = Fenced<Box<dyn Any + Send>>;
/// The same of a transform.
pub(crate) type PackedTransform = Fenced<Box<dyn Transform + Send>>;

/// What users gave for a connection.
pub(crate) struct Belongings {
    pub(crate) session: PackedSession,
    pub(crate) transform: Option<PackedTransform>,
}

/// That a connection is on its way: the lane that it left is not quiet before this is dropped, and is rung then.
pub(crate) struct Journey {
    /// The lane counts the copies.
    under_way: Option<Arc<()>>,
    bell: Arc<dyn Bell>,
}

impl Journey {
    /// One more of those that `under_way` counts, of the lane with that bell.
    pub(crate) fn begin(under_way: &Arc<()>, bell: Arc<dyn Bell>) -> Self {
        Self { under_way: Some(under_way.clone()), bell }
    }
}

impl Drop for Journey {
    fn drop(&mut self) {
        // Before the bell, so that who is woken sees it.
        self.under_way = None;
        self.bell.ring();
    }
}

/// What the next lane must know of a connection beside what users gave.
pub(crate) struct Label {
    pub(crate) service: u16,
    pub(crate) peer: Peer,
    pub(crate) active_at: u64,
    /// Its service was told that another process serves in its place.
    pub(crate) handed_over: bool,
    /// The lane that it has left.
    pub(crate) from: usize,
    /// It was refused where it was to go, and comes back.
    pub(crate) returns: bool,
    pub(crate) journey: Journey,
}

/// An idle connection with its session and its transform, on its way to another lane. Dropping it closes the connection.
pub struct Packed {
    // In this order: its lane is told that it has arrived when nothing of it is left.
    pub(crate) detached: Detached,
    pub(crate) belongings: Belongings,
    pub(crate) label: Label,
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Label { service, peer, from, returns, .. } = &self.label;
        let mut shown = f.debug_struct("Packed");
        shown.field("service", service).field("peer", peer).field("from", from).field("returns", returns).finish_non_exhaustive()
    }
}

impl Connection {
    /// One that was on another lane, and has no socket here yet.
    pub(crate) fn arrived(peer: Peer, service: u16, is_veiled: bool, active_at: u64) -> Self {
        Self::new(peer, service, Machine::arrived(is_veiled), active_at)
    }

    /// Its socket on this lane, and its transform if it has one.
    pub(crate) fn settle(&mut self, socket: Socket, transform: Option<Box<dyn Transform>>) {
        assert!(self.socket.is_none() && self.transform.is_none(), "a connection arrives once");
        assert!(self.machine.serves_input(), "a connection arrives as it has left: open");
        (self.socket, self.transform) = (Some(socket), transform.map(Box::new));
    }

    /// What it was given back, because that could not be packed.
    pub(crate) fn keep_transform(&mut self, transform: Box<dyn Transform>) {
        assert!(self.transform.is_none(), "a transform comes back to who had it");
        self.transform = Some(Box::new(transform));
    }

    /// The place of its session, which leaves it.
    pub(crate) fn take_session(&mut self) -> Option<u32> {
        debug_assert!(self.machine.serves_input(), "a session leaves what is open");
        self.session.take()
    }

    /// Whether nothing of it is left on its lane but its entry.
    pub(crate) fn is_empty(&self) -> bool {
        let is_out = self.session.is_none() && self.transform.is_none() && self.busy.is_none();
        is_out && self.timers.is_empty() && !self.pair.is_some()
    }
}

impl Found<'_> {
    /// Whether nothing was written or noted for it.
    pub(crate) fn is_unmarked(&self) -> bool {
        let Connection { busy, timers, pair, is_ready, is_dirty, .. } = &*self.connection;
        !(*is_ready || *is_dirty || busy.is_some() || pair.is_some()) && timers.is_empty()
    }

    /// Why it cannot leave its lane now; none if it can, as far as the lane knows.
    pub(crate) fn stays(&self, arena: &Arena) -> Option<Stays> {
        let Connection { machine, busy, timers, pair, session, .. } = &*self.connection;
        let (is_marked, holds) = (self.connection.is_ready || self.connection.is_dirty, arena.held(self.connection.payer) > 0);
        Some(match machine.phase() {
            _ if machine.is_outgoing() => Stays::Outgoing,
            Phase::Opening | Phase::Handshake => Stays::Handshake,
            Phase::Open if session.is_none() => Stays::Ending,
            Phase::Open if machine.is_draining() => Stays::Draining,
            Phase::Open if pair.is_some() => Stays::Paired,
            Phase::Open if !timers.is_empty() => Stays::Timers,
            Phase::Open if self.connection.is_starved || self.connection.awaits_offload => Stays::Waiting,
            Phase::Open if machine.has_half() => Stays::Ending,
            Phase::Open if is_marked || holds || busy.is_some() || !machine.may_leave() => Stays::Busy,
            Phase::Open => return None,
            _ => Stays::Ending,
        })
    }
}
