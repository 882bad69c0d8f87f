//! A connection on its way from one lane to another: plain data, which says whose it is and what it was on the lane that it left.

use crate::connection::entry::Connection;
use crate::connection::found::Found;
use crate::connection::machine::{Machine, Phase};
use crate::words::names::Peer;
use crate::words::stays::Stays;
use crate::words::transform::Transform;
use corelane_lane::Fenced;
use corelane_seam::{Address, Arena, Bell, Detached, Socket};
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

/// What the next lane must know of a connection beside what users gave. As long as it is kept, the lane that the connection has left is not quiet.
pub(crate) struct Label {
    service: u16,
    peer: Peer,
    active_at: u64,
    /// Its service was told that another process serves in its place.
    handed_over: bool,
    /// The lane that it has left.
    from: usize,
    /// It was refused where it was to go, and comes back.
    returns: bool,
    journey: Journey,
}

impl Label {
    /// That of a connection which leaves lane `from`, with its two ends and since when nothing was asked of it.
    pub(crate) fn new(service: u16, (peer, active_at): (Peer, u64), handed_over: bool, from: usize, journey: Journey) -> Self {
        Self { service, peer, active_at, handed_over, from, returns: false, journey }
    }

    /// The number of its service.
    pub(crate) fn service(&self) -> u16 {
        self.service
    }

    /// Whether its service was told that another process serves in its place.
    pub(crate) fn was_handed_over(&self) -> bool {
        self.handed_over
    }

    /// It has arrived: from now on it is the lane where it is that is not quiet.
    pub(crate) fn end_journey(self) {
        drop(self.journey);
    }
}

/// An idle connection with its session and its transform, on its way to another lane. Dropping it closes the connection.
pub struct Packed {
    // In this order: its lane is told that it has arrived when nothing of it is left.
    detached: Detached,
    belongings: Belongings,
    label: Label,
}

impl Packed {
    pub(crate) fn new(detached: Detached, belongings: Belongings, label: Label) -> Self {
        Self { detached, belongings, label }
    }

    /// All that it is made of, for the lane that opens it.
    pub(crate) fn open(self) -> (Detached, Belongings, Label) {
        (self.detached, self.belongings, self.label)
    }

    /// The number of its service.
    pub(crate) fn service(&self) -> u16 {
        self.label.service()
    }

    /// Its two ends, as the lane that it has left names them.
    pub(crate) fn ends(&self) -> &Peer {
        &self.label.peer
    }

    /// Whether it comes back to the lane that it has left.
    pub(crate) fn returns(&self) -> bool {
        self.label.returns
    }

    /// It was refused where it was to go: it goes back to this lane. None if it was refused there.
    pub(crate) fn turn_back(&mut self) -> Option<usize> {
        (!std::mem::replace(&mut self.label.returns, true)).then_some(self.label.from)
    }

    /// Its entry on the lane where it arrives: without its socket, its session and its transform. That lane's own name of our end is found by `local`.
    pub(crate) fn entry(&self, local: impl FnOnce(Address) -> Arc<Address>) -> Connection {
        let Label { service, peer, active_at, .. } = &self.label;
        let peer = Peer { local: local((*peer.local).clone()), ..peer.clone() };
        Connection::arrived(peer, *service, self.belongings.transform.is_some(), *active_at)
    }
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
    fn arrived(peer: Peer, service: u16, is_veiled: bool, active_at: u64) -> Self {
        Self::new(peer, service, Machine::arrived(is_veiled), active_at)
    }

    /// Its socket on this lane, and its transform if it has one.
    pub(crate) fn settle(&mut self, socket: Socket, transform: Option<Box<dyn Transform>>) {
        assert!(self.socket.is_none() && self.transform.is_none(), "a connection arrives once");
        assert!(self.machine.serves_input(), "a connection arrives as it has left: open");
        assert!(!self.session.is_none(), "its session is here before its socket");
        (self.socket, self.transform) = (Some(socket), transform.map(Box::new));
    }

    /// What it was given back, because that could not be packed.
    pub(crate) fn keep_transform(&mut self, transform: Box<dyn Transform>) {
        assert!(self.transform.is_none(), "a transform comes back to who had it");
        debug_assert!(self.machine.serves_input(), "what keeps its transform has not ended");
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
        debug_assert!(self.is_connected(), "what is asked whether it leaves has its socket");
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
