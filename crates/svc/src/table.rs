//! What all services of a lane share: the connections, what is to be done with them this turn, and the bounds.

use crate::connection::Connection;
use crate::datagrams::DatagramSocket;
use crate::drops::Drops;
use crate::flows::{Flow, Flows};
use crate::found::{Desk, Found};
use crate::limits::Limits;
use crate::memory::{Payers, PeerKey};
use crate::outgoing::Outgoing;
use crate::service::{ConnectionId, Order, SocketId};
use crate::services::Sharing;
use crate::slab::Slab;
use crate::steering::Place;
use crate::timers::ServiceTimer;
use crate::transform::Transform;
use corelane_lane::{Bursts, Kit};
use corelane_rss::Protocol;
use corelane_seam::{Arena, Chain, Fault, Handle, Op, Payer, Socket, Unheld};
use corelane_watch::{ServiceCounter, ServiceRow};
use std::any::TypeId;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// The classes of handles that services use.
pub(crate) mod class {
    pub(crate) const CONNECTION: u8 = 0;
    pub(crate) const LISTENER: u8 = 1;
    pub(crate) const DATAGRAMS: u8 = 2;
    pub(crate) const REQUEST: u8 = 3;
    pub(crate) const DEADLINE: u8 = 4;
    pub(crate) const TIMER: u8 = 5;
    pub(crate) const ACCEPT_AGAIN: u8 = 6;
    pub(crate) const DRAIN: u8 = 7;
    /// Sockets that are closed without ever having been a connection.
    pub(crate) const UNADMITTED: u8 = 8;
    pub(crate) const LEAVE: u8 = 9;
    pub(crate) const COUNTS: u8 = 10;
    /// Sockets that are closed without ever having been served at. Nobody waits for that.
    pub(crate) const DISCARDED: u8 = 11;
    /// Sockets that are opened to see from which address a peer is reached.
    pub(crate) const ROUTE: u8 = 12;
    /// Files that are closed because nobody holds them any more.
    pub(crate) const FILE: u8 = 13;
    /// The timer of those who wait for memory.
    pub(crate) const MEMORY: u8 = 14;
    /// The timer at whose end the drops of datagram sockets are read.
    pub(crate) const DROPS: u8 = 15;
}

/// A place where this lane takes connections.
pub(crate) struct Listener {
    /// None while the lane is away.
    pub(crate) socket: Option<Socket>,
    pub(crate) service: u16,
    pub(crate) address: SocketAddr,
    pub(crate) sharing: Sharing,
    pub(crate) accepting: bool,
    /// Set when the system had no descriptor: accepting goes on when a connection ends or the timer comes.
    pub(crate) starved: bool,
    /// When the last connection was accepted during a drain.
    pub(crate) accepted_at: u64,
    /// Since when, in a drain, it could accept without a pause.
    pub(crate) free_since: u64,
    pub(crate) closing: bool,
}

impl Listener {
    /// From `now` on it is to find out whether anybody still waits.
    pub(crate) fn begin_to_settle(&mut self, now: u64) {
        (self.accepted_at, self.free_since, self.starved) = (now, now, false);
    }
}

/// A place where this lane takes datagrams.
pub(crate) struct Bound {
    /// None while the lane is away.
    pub(crate) socket: Option<SocketId>,
    pub(crate) service: u16,
    pub(crate) address: SocketAddr,
    pub(crate) sharing: Sharing,
}

/// An accepted socket for which there is no room yet.
pub(crate) struct Arrived {
    pub(crate) socket: Socket,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// What the lane knows of a service besides its code.
pub(crate) struct ServiceState {
    pub(crate) limits: Limits,
    pub(crate) row: ServiceRow,
    pub(crate) open: u32,
    /// Datagram sockets.
    pub(crate) sockets: u32,
    pub(crate) waiting: VecDeque<Arrived>,
    pub(crate) session_type: Option<TypeId>,
    /// When the service wants to be called, in nanoseconds; `u64::MAX` if it does not.
    pub(crate) alarm: u64,
    /// Drops of values of this service that panicked where the lane did not see it.
    pub(crate) bursts: Bursts,
    /// The operator has been told that a held request was never answered.
    pub(crate) told_of_unanswered: bool,
    /// How many connections each peer has opened.
    pub(crate) accepted: BTreeMap<PeerKey, u32>,
    pub(crate) payers: Payers,
}

/// Something to be told to a connection after the call that is under way.
pub(crate) struct Note {
    pub(crate) to: ConnectionId,
    /// The service that says it.
    pub(crate) from: u16,
    pub(crate) notice: Notice,
}

/// What it is.
pub(crate) enum Notice {
    /// What it is lies in the post of the service that says it.
    Message,
    /// There is room again for what the service was refused.
    Resume,
    Answer {
        number: u32,
        order: Order,
        answer: Chain,
    },
    Timer(u64),
    Close,
    Abort,
}

/// An operation that a service started itself.
pub(crate) struct Request {
    pub(crate) service: u16,
    pub(crate) token: u64,
    pub(crate) is_offload: bool,
    /// It may never end by itself: a drain does not wait for it.
    pub(crate) is_poll: bool,
}

/// Everything of the lane's services but their code.
pub(crate) struct Table {
    pub(crate) connections: Slab<Connection>,
    pub(crate) desk: Desk,
    pub(crate) services: Vec<ServiceState>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) bound: Vec<Bound>,
    /// None where flows are not told apart.
    pub(crate) flows: Option<Flows>,
    /// None where ports of outgoing connections are the system's to choose.
    pub(crate) outgoing: Option<Outgoing>,
    pub(crate) datagrams: Slab<DatagramSocket>,
    /// Those to look at when this turn is flushed.
    pub(crate) datagrams_dirty: Vec<SocketId>,
    pub(crate) drops: Drops,
    pub(crate) requests: Slab<Request>,
    /// Those of them that end by themselves.
    pub(crate) requests_ending: usize,
    /// Calls that are with the helper threads.
    pub(crate) offloads: usize,
    /// A service was told in the call under way that there are as many as may be.
    pub(crate) offload_refused: bool,
    /// A service was refused to say something in the call under way for want of room.
    pub(crate) room_refused: bool,
    /// A service has counted requests in the call under way.
    pub(crate) requests_counted: bool,
    pub(crate) unheld: Unheld,
    pub(crate) files_closing: usize,
    pub(crate) timers: Slab<ServiceTimer>,
    pub(crate) notices: VecDeque<Note>,
    /// Who pays for all services together.
    pub(crate) payer: Payer,
    pub(crate) connections_max: u32,
    /// Those of one peer to all services that have no bound of their own for it.
    pub(crate) connections_of_peer_max: u32,
    pub(crate) draining: bool,
    /// Sockets that are being closed without having been a connection.
    pub(crate) turned_away: usize,
    /// Why the connection that is ending failed.
    pub(crate) fault: Option<Fault>,
}

/// What one peer may have of so many.
pub(crate) fn half(connections: u32) -> u32 {
    (connections / 2).max(1)
}

impl Table {
    pub(crate) fn new(connections_max: u32) -> Self {
        Self {
            connections: Slab::new(),
            desk: Desk::default(),
            services: Vec::new(),
            listeners: Vec::new(),
            bound: Vec::new(),
            flows: None,
            outgoing: None,
            datagrams: Slab::new(),
            datagrams_dirty: Vec::new(),
            drops: Drops::default(),
            requests: Slab::new(),
            requests_ending: 0,
            offloads: 0,
            offload_refused: false,
            room_refused: false,
            requests_counted: false,
            unheld: Unheld::default(),
            files_closing: 0,
            timers: Slab::new(),
            notices: VecDeque::new(),
            payer: Payer::LANE,
            connections_max,
            connections_of_peer_max: half(connections_max),
            draining: false,
            turned_away: 0,
            fault: None,
        }
    }

    pub(crate) fn id(&self, index: u32) -> ConnectionId {
        ConnectionId { index, generation: self.connections.generation(index) }
    }

    pub(crate) fn handle(&self, class: u8, index: u32) -> Handle {
        Handle::new(class, index, self.connections.generation(index))
    }

    /// The connection of that name, if it is still there.
    pub(crate) fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(id.index, id.generation)
    }

    /// The connection at an index, with what it needs of its lane.
    pub(crate) fn at(&mut self, index: u32) -> Option<Found<'_>> {
        let generation = self.connections.generation(index);
        self.found(ConnectionId { index, generation })
    }

    /// The connection of that name, with what it needs of its lane, if it is still there.
    pub(crate) fn found(&mut self, id: ConnectionId) -> Option<Found<'_>> {
        let Table { connections, services, desk, .. } = self;
        let connection = connections.get_mut(id.index, id.generation)?;
        let state = &services[connection.service as usize];
        Some(Found { id, connection, state, desk })
    }

    /// The connection at an index of which the caller knows that it is there.
    pub(crate) fn there(&mut self, index: u32) -> Found<'_> {
        // reason: an entry lives from its admission until its socket is closed; who calls this has seen that it does.
        self.at(index).expect("a connection is there until its socket is closed")
    }

    /// Has as many called again, in turn, as there is room for calls.
    pub(crate) fn revive_offloading(&mut self, kit: &Kit) {
        for _ in self.offloads..kit.offload_max() {
            let Some(id) = self.desk.offloading.pop_front() else { return };
            if let Some(mut found) = self.found(id) {
                found.connection.awaits_offload = false;
                found.mark_ready();
            }
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        let quiet = self.notices.is_empty() && self.datagrams_dirty.is_empty() && self.unheld.is_empty();
        self.desk.has_work() || !quiet
    }

    pub(crate) fn count(&self, service: u16, counter: ServiceCounter, by: usize) {
        self.services[service as usize].row.add(counter, by as u64);
    }

    pub(crate) fn limits(&self, service: u16) -> &Limits {
        &self.services[service as usize].limits
    }

    /// The flow from `peer` to `local`, if flows are told apart.
    pub(crate) fn flow(&self, peer: SocketAddr, local: SocketAddr, protocol: Protocol) -> Option<Flow> {
        self.flows.as_ref()?.flow(peer, local, protocol)
    }

    /// Whether a flow that came to lane `lane` belongs to another.
    pub(crate) fn is_stray(&self, flow: Option<Flow>, lane: usize) -> bool {
        self.flows.as_ref().zip(flow).is_some_and(|(flows, flow)| flows.lane(flow) != lane)
    }

    /// Where this lane is served, and the sockets there.
    pub(crate) fn open_places(&self) -> impl Iterator<Item = (Place, Socket)> {
        let listeners = self.listeners.iter();
        let listeners = listeners.filter_map(|listener| Some((listener.address, Protocol::TCP, listener.socket?)));
        let bound = self.bound.iter().filter_map(|bound| Some((bound.address, Protocol::UDP, self.socket_of(bound.socket?)?)));
        listeners.chain(bound).map(|(address, protocol, socket)| (Place { protocol, address }, socket))
    }

    /// Whether one more connection of the service may be open.
    pub(crate) fn has_room(&self, service: u16) -> bool {
        let state = &self.services[service as usize];
        state.open < state.limits.connections_max && self.connections.len() < self.connections_max as usize
    }

    /// Adds a connection to the table and to the counts.
    pub(crate) fn admit(&mut self, connection: Connection, arena: &Arena) -> u32 {
        let service = connection.service;
        let (index, _) = self.connections.insert(connection);
        let state = &mut self.services[service as usize];
        state.open += 1;
        state.row.set(ServiceCounter::ConnectionsOpen, u64::from(state.open));
        self.open_account(index, arena);
        index
    }

    /// Removes a connection whose socket is closed; returns what its user gave for it.
    pub(crate) fn dismiss(&mut self, index: u32, arena: &Arena) -> Option<Box<dyn Transform>> {
        let mut connection = self.connections.remove(index)?;
        assert!(connection.session.is_none() && connection.session_to_be.is_none(), "a session outlives its connection");
        assert!(connection.timers.is_empty(), "a timer outlives its connection");
        let transform = connection.transform.take();
        let state = &mut self.services[connection.service as usize];
        state.open -= 1;
        state.row.set(ServiceCounter::ConnectionsOpen, u64::from(state.open));
        if let Some(busy) = connection.busy.take() {
            self.desk.recycle(busy);
        }
        self.close_account(&connection, arena);
        transform
    }

    /// Whether the peer is at its bound.
    pub(crate) fn peer_is_full(&self, service: u16, peer: IpAddr) -> bool {
        let (state, key) = (&self.services[service as usize], PeerKey::of(peer));
        match state.limits.connections_per_peer_max {
            0 => self.desk.memory.accepted(key) >= self.connections_of_peer_max,
            most => state.accepted.get(&key).copied().unwrap_or(0) >= most,
        }
    }

    /// Closes the files that nobody holds any more.
    pub(crate) fn close_unheld(&mut self, kit: &mut Kit) {
        if self.unheld.is_empty() {
            return;
        }
        for file in self.unheld.take() {
            self.files_closing += 1;
            kit.submit(Handle::new(class::FILE, 0, 0), Op::CloseFile { file });
        }
    }

    /// Whether operations of the service are under way that end by themselves.
    pub(crate) fn has_requests(&self, service: u16) -> bool {
        self.requests.values().any(|request| request.service == service && !request.is_poll)
    }

    /// Closes a socket that never became a connection.
    pub(crate) fn turn_away(&mut self, kit: &mut Kit, socket: Socket) {
        self.turned_away += 1;
        kit.submit(Handle::new(class::UNADMITTED, 0, 0), Op::Close { socket, reset: true });
    }
}
