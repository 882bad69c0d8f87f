//! What all services of a lane share: the connections, what is to be done with them this turn, and the bounds.

use crate::class;
use crate::connection::Connection;
use crate::flows::{Flow, Flows};
use crate::found::{Desk, Found};
use crate::limits::Limits;
use crate::memory::PeerKey;
use crate::messages::Message;
use crate::names::{ConnectionId, SocketId};
use crate::notices::Note;
use crate::outgoing::Outgoing;
use crate::places::{Listener, Place};
use crate::requests::Requests;
use crate::slab::Slab;
use crate::sockets::{FoundSocket, Sockets};
use crate::state::{ServiceState, half};
use crate::timers::Timers;
use crate::transform::Transform;
use corelane_lane::{Kit, Mesh};
use corelane_rss::{Protocol, Transport};
use corelane_seam::{Address, Arena, Fault, Handle, Op, Payer, Socket};
use corelane_watch::ServiceCounter;
use std::collections::VecDeque;

/// Everything of the lane's services but their code.
pub(crate) struct Table {
    pub(crate) connections: Slab<Connection>,
    pub(crate) desk: Desk,
    pub(crate) services: Vec<ServiceState>,
    pub(crate) listeners: Vec<Listener>,
    /// None where flows are not told apart.
    pub(crate) flows: Option<Flows>,
    /// None where ports of outgoing connections are the system's to choose.
    pub(crate) outgoing: Option<Outgoing>,
    pub(crate) sockets: Sockets,
    pub(crate) requests: Requests,
    /// A service was told in the call under way that there are as many as may be.
    pub(crate) offload_refused: bool,
    /// A service has counted requests in the call under way.
    pub(crate) requests_counted: bool,
    pub(crate) timers: Timers,
    pub(crate) notices: VecDeque<Note>,
    /// Who pays for all services together.
    pub(crate) payer: Payer,
    /// None where there are no other lanes.
    pub(crate) mesh: Option<Mesh<Message>>,
    pub(crate) connections_max: u32,
    /// Those of one peer to all services that have no bound of their own for it.
    pub(crate) connections_of_peer_max: u32,
    pub(crate) draining: bool,
    /// Sockets that are being closed without having been a connection.
    pub(crate) turned_away: usize,
    /// Why the connection that is ending failed.
    pub(crate) fault: Option<Fault>,
}

impl Table {
    pub(crate) fn new(connections_max: u32) -> Self {
        Self {
            connections: Slab::new(),
            desk: Desk::default(),
            services: Vec::new(),
            listeners: Vec::new(),
            flows: None,
            outgoing: None,
            sockets: Sockets::default(),
            requests: Requests::new(),
            offload_refused: false,
            requests_counted: false,
            timers: Timers::new(),
            notices: VecDeque::new(),
            payer: Payer::LANE,
            mesh: None,
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
        for _ in 0..self.requests.offload_room(kit) {
            let Some(id) = self.desk.offloading.pop_front() else { return };
            if let Some(mut found) = self.found(id) {
                found.connection.awaits_offload = false;
                found.mark_ready();
            }
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        let quiet = self.notices.is_empty() && !self.sockets.has_work() && !self.requests.has_unheld();
        self.desk.has_work() || !quiet
    }

    pub(crate) fn count(&self, service: u16, counter: ServiceCounter, by: usize) {
        self.services[service as usize].row.add(counter, by as u64);
    }

    pub(crate) fn limits(&self, service: u16) -> &Limits {
        &self.services[service as usize].limits
    }

    /// The flow from `peer` to `local`, if flows are told apart and these have one.
    pub(crate) fn flow(&self, peer: &Address, local: &Address, protocol: Protocol) -> Option<Flow> {
        self.flows.as_ref()?.flow(peer.inet()?, local.inet()?, protocol)
    }

    /// Whether a flow that came to lane `lane` belongs to another.
    pub(crate) fn is_stray(&self, flow: Option<Flow>, lane: usize) -> bool {
        self.flows.as_ref().is_some_and(|flows| flows.is_stray(flow, lane))
    }

    /// The datagram socket of that name, of which the caller knows that it is there.
    pub(crate) fn socket(&mut self, id: SocketId) -> FoundSocket<'_> {
        self.sockets.there(&self.services, id)
    }

    /// Where this lane is served and flows come, and the sockets there.
    pub(crate) fn open_places(&self) -> impl Iterator<Item = (Place, Socket)> {
        let place = |listener: &Listener| Place::of(Transport::Tcp, &listener.address);
        let listening = self.listeners.iter().filter_map(move |listener| Some((place(listener)?, listener.socket?)));
        listening.chain(self.sockets.open_places())
    }

    /// Whether one more connection of the service may be open.
    pub(crate) fn has_room(&self, service: u16) -> bool {
        let state = &self.services[service as usize];
        state.open < state.limits.connections_max && self.connections.len() < self.connections_max as usize
    }

    /// Whether one more connection of the service may be accepted: its handshakes under way are bounded, too.
    pub(crate) fn may_accept(&self, service: u16) -> bool {
        let state = &self.services[service as usize];
        state.handshakes.get() < state.limits.handshakes_max && self.has_room(service)
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
    pub(crate) fn peer_is_full(&self, service: u16, peer: &Address) -> bool {
        let (state, key) = (&self.services[service as usize], PeerKey::of(peer));
        match state.limits.connections_per_peer_max {
            0 => self.desk.memory.accepted(key) >= self.connections_of_peer_max,
            most => state.accepted.get(&key).copied().unwrap_or(0) >= most,
        }
    }

    /// Closes a socket that never became a connection.
    pub(crate) fn turn_away(&mut self, kit: &mut Kit, socket: Socket) {
        self.turned_away += 1;
        kit.submit(Handle::new(class::UNADMITTED, 0, 0), Op::Close { socket, reset: true });
    }
}
