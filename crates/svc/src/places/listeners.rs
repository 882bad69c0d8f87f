//! The listeners of a lane: where it takes connections, and when each of them may go.

use crate::limits::SECOND;
use crate::places::{Sharing, TransportAddress};
use crate::words::class;
use corelane_lane::Kit;
use corelane_rss::Transport;
use corelane_seam::{Address, Handle, Op, Socket, StreamOp};

/// How long a listener is kept after the last connection was accepted from it: handshakes under way end within.
const SETTLE: u64 = SECOND / 20;
/// After how long of accepting without a pause whoever comes must have come after the order: the system may not let us
/// refuse them (without CAP_NET_ADMIN it allows no filter on a listening socket).
const NEWCOMERS: u64 = SECOND / 5;

/// A place where this lane takes connections.
pub(crate) struct Listener {
    /// None while the lane is away.
    pub(crate) socket: Option<Socket>,
    pub(crate) service: u16,
    pub(crate) address: Address,
    pub(crate) sharing: Sharing,
    accepting: bool,
    /// Set when the system had no descriptor: accepting goes on when a connection ends or the timer comes.
    starved: bool,
    /// When the last connection was accepted during a drain.
    accepted_at: u64,
    /// Since when, in a drain, it could accept without a pause.
    free_since: u64,
    closing: bool,
}

/// All of them, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Listeners {
    all: Vec<Listener>,
    /// Some of them may accept nobody though they could: they are looked through until none is left.
    some_rest: bool,
}

impl Listeners {
    /// Adds a place, where no socket is yet; returns its index.
    pub(crate) fn add(&mut self, service: u16, address: Address, sharing: Sharing) -> usize {
        let (socket, accepting, starved, closing) = (None, false, false, false);
        let (accepted_at, free_since) = (0, 0);
        self.all.push(Listener { socket, service, address, sharing, accepting, starved, accepted_at, free_since, closing });
        self.all.len() - 1
    }

    /// Takes away the place that was added last, because it could not be opened.
    pub(crate) fn forget(&mut self, index: usize) {
        assert!(index + 1 == self.all.len() && self.all[index].socket.is_none(), "only what was added last, and is not open");
        self.all.pop();
    }

    pub(crate) fn at(&self, index: usize) -> &Listener {
        &self.all[index]
    }

    /// A place is open.
    pub(crate) fn open(&mut self, index: usize, socket: Socket) {
        let listener = &mut self.all[index];
        assert!(listener.socket.is_none() && !listener.accepting, "a place is opened that is closed");
        (listener.socket, listener.starved, listener.closing) = (Some(socket), false, false);
        self.some_rest = true;
    }

    /// Where it is: the system may have chosen the port.
    pub(crate) fn set_address(&mut self, index: usize, address: Address) {
        self.all[index].address = address;
    }

    /// The places at which the lane is not served now.
    pub(crate) fn without_socket(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|&index| self.all[index].socket.is_none()).collect()
    }

    /// The places at which it is and flows come, and the sockets there.
    pub(crate) fn open_places(&self) -> impl Iterator<Item = (TransportAddress, Socket)> {
        let place = |listener: &Listener| TransportAddress::of(Transport::Tcp, &listener.address);
        self.all.iter().filter_map(move |listener| Some((place(listener)?, listener.socket?)))
    }

    /// The sockets of all places that are open.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = Socket> {
        self.all.iter().filter_map(|listener| listener.socket)
    }

    /// Whether [`Listeners::start`] may find one that has not begun to accept.
    pub(crate) fn some_rest(&self) -> bool {
        debug_assert!(self.some_rest || !self.all.iter().any(Listener::rests), "whoever does not accept is looked for");
        self.some_rest
    }

    /// Starts accepting wherever it has not begun and there is room for a connection of that service.
    pub(crate) fn start(&mut self, kit: &mut Kit, has_room: impl Fn(u16) -> bool) {
        self.some_rest = false;
        for (index, listener) in self.all.iter_mut().enumerate() {
            let Some(socket) = listener.socket.filter(|_| listener.rests()) else { continue };
            listener.accepting = has_room(listener.service);
            if listener.accepting {
                kit.submit(Handle::new(class::LISTENER, index as u32, 0), StreamOp::Accept { listener: socket });
            }
            self.some_rest |= !listener.accepting;
        }
    }

    /// An accept says something, and whether it says more; returns for which service.
    pub(crate) fn heard(&mut self, index: usize, goes_on: bool) -> u16 {
        let listener = &mut self.all[index];
        listener.accepting &= goes_on;
        self.some_rest |= !goes_on;
        listener.service
    }

    /// A connection was accepted.
    pub(crate) fn accepted(&mut self, index: usize, now: u64) {
        let listener = &mut self.all[index];
        assert!(listener.socket.is_some(), "nobody is accepted at a closed place");
        listener.accepted_at = now;
    }

    /// The system had no descriptor.
    pub(crate) fn starve(&mut self, index: usize) {
        let listener = &mut self.all[index];
        assert!(!listener.accepting, "what found no descriptor accepts no more");
        listener.starved = true;
    }

    /// Those that found no descriptor may try again.
    pub(crate) fn revive(&mut self) {
        self.all.iter_mut().for_each(|listener| listener.starved = false);
        self.some_rest = true;
    }

    /// Stops accepting for a service; returns whether it did.
    pub(crate) fn stop(&mut self, kit: &mut Kit, service: u16) -> bool {
        let mut stopped = false;
        for listener in self.all.iter().filter(|listener| listener.service == service && listener.accepting) {
            // reason: its accept ends before its close has completed.
            let socket = listener.socket.expect("what accepts has a socket");
            kit.submit(Handle::new(class::LISTENER, 0, 0), StreamOp::StopAccept { listener: socket });
            stopped = true;
        }
        stopped
    }

    /// From now on each is to find out whether anybody still waits; returns their sockets.
    pub(crate) fn begin_to_settle(&mut self, now: u64) -> Vec<Socket> {
        for listener in &mut self.all {
            (listener.accepted_at, listener.free_since, listener.starved) = (now, now, false);
        }
        self.some_rest = true;
        self.all.iter().filter_map(|listener| listener.socket).collect()
    }

    /// Closes those for which nobody waits any more, or `all`.
    pub(crate) fn close_settled(&mut self, kit: &mut Kit, all: bool, has_room: impl Fn(u16) -> bool) {
        for (index, listener) in self.all.iter_mut().enumerate() {
            let is_settled = all || listener.settle(kit.now(), has_room(listener.service));
            if let Some(socket) = listener.socket.filter(|_| is_settled && !listener.closing) {
                listener.closing = true;
                kit.submit(Handle::new(class::LISTENER, index as u32, 0), Op::Close { socket, reset: false });
            }
        }
    }

    /// A listener is closed; returns where it was, if flows came there.
    pub(crate) fn closed(&mut self, index: usize) -> Option<TransportAddress> {
        let listener = &mut self.all[index];
        assert!(listener.closing && listener.socket.is_some(), "a listener was closed that nobody had asked to close");
        assert!(!listener.accepting, "an accept ends before the close of its listener");
        listener.socket = None;
        TransportAddress::of(Transport::Tcp, &listener.address)
    }

    /// Whether one is open that is not being closed.
    pub(crate) fn listen(&self) -> bool {
        self.all.iter().any(|listener| listener.socket.is_some() && !listener.closing)
    }

    /// Whether all are closed.
    pub(crate) fn are_closed(&self) -> bool {
        self.all.iter().all(|listener| listener.socket.is_none())
    }
}

impl Listener {
    /// Whether it could accept, and has not begun to.
    fn rests(&self) -> bool {
        self.socket.is_some() && !(self.accepting || self.starved || self.closing)
    }

    /// Notes whether it can accept now; returns whether nobody waits for it any more: it could accept, and for a while there was nobody.
    fn settle(&mut self, now: u64, has_room: bool) -> bool {
        if !has_room || self.starved || !self.accepting {
            (self.accepted_at, self.free_since) = (now, now);
        }
        let is_quiet = now >= self.accepted_at.saturating_add(SETTLE);
        is_quiet || now >= self.free_since.saturating_add(NEWCOMERS)
    }
}
