//! What all services of a lane share: the connections, what is to be done with them this turn, and the bounds.

mod connecting;
pub(crate) mod notices;
mod timers;

use crate::connection::connections::Connections;
use crate::connection::entry::Connection;
use crate::connection::found::Found;
use crate::connection::found::{Agenda, Offloading};
use crate::datagrams::sockets::{FoundSocket, Sockets};
use crate::limits::Limits;
use crate::pending::nudge::Nudges;
use crate::pending::requests::Requests;
use crate::pending::timers::Timers;
use crate::places::TransportAddress;
use crate::places::listeners::Listeners;
use crate::places::outgoing::Outgoing;
use crate::state::ServiceState;
use crate::state::accounts::Payers;
use crate::state::crowd::Crowd;
use crate::table::notices::Notices;
use crate::words::flows::{Flow, Flows};
use crate::words::names::{ConnectionId, SocketId};
use corelane_lane::Kit;
use corelane_rss::Protocol;
use corelane_seam::{Address, Arena, Driver, Fault, Payer, Role, Socket};
use corelane_watch::ServiceCounter;

/// Everything of the lane's services but their code.
pub(crate) struct LaneTable {
    pub(crate) connections: Connections,
    pub(crate) agenda: Agenda,
    /// When it was looked who has most, and who stands still.
    pub(crate) crowd: Crowd,
    pub(crate) services: Vec<ServiceState>,
    pub(crate) listeners: Listeners,
    /// None where flows are not told apart.
    pub(crate) flows: Option<Flows>,
    /// None where ports of outgoing connections are the system's to choose.
    outgoing: Option<Outgoing>,
    pub(crate) sockets: Sockets,
    pub(crate) requests: Requests,
    timers: Timers,
    pub(crate) notices: Notices,
    pub(crate) nudges: Nudges,
    draining: bool,
    /// Another process serves at the lane's addresses.
    handed_over: bool,
    /// Why the connection that is ending failed.
    fault: Option<Fault>,
}

impl LaneTable {
    pub(crate) fn new(connections_max: u32) -> Self {
        Self {
            connections: Connections::new(connections_max),
            agenda: Agenda::default(),
            crowd: Crowd::default(),
            services: Vec::new(),
            listeners: Listeners::default(),
            flows: None,
            outgoing: None,
            sockets: Sockets::default(),
            requests: Requests::new(),
            timers: Timers::new(),
            notices: Notices::default(),
            nudges: Nudges::default(),
            draining: false,
            handed_over: false,
            fault: None,
        }
    }

    /// Whether the lane drains.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining
    }

    /// The lane drains from now on.
    pub(crate) fn begin_drain(&mut self) {
        assert!(!self.draining, "a drain begins once");
        self.draining = true;
    }

    /// Whether another process serves at the lane's addresses.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over
    }

    /// Another process serves there from now on.
    pub(crate) fn hand_over(&mut self) {
        self.handed_over = true;
    }

    /// Why the connection that is ending failed, if it did.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// A connection ends by a fault from now on, or has ended.
    pub(crate) fn set_fault(&mut self, fault: Option<Fault>) {
        assert!(self.fault.is_none() || fault.is_none(), "one connection at a time ends by a fault");
        self.fault = fault;
    }

    /// Ports of outgoing connections are chosen among these from now on.
    pub(crate) fn choose_ports(&mut self, outgoing: Outgoing) {
        self.outgoing = Some(outgoing);
    }

    /// The connection of that name, if it is still there.
    pub(crate) fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.find(id)
    }

    /// The connection at an index, with what it needs of its lane.
    pub(crate) fn at(&mut self, index: u32) -> Option<Found<'_>> {
        let LaneTable { connections, services, agenda, .. } = self;
        Found::at(connections, services, agenda, index)
    }

    /// The connection of that name, with what it needs of its lane, if it is still there.
    pub(crate) fn found(&mut self, id: ConnectionId) -> Option<Found<'_>> {
        let LaneTable { connections, services, agenda, .. } = self;
        Found::named(connections, services, agenda, id)
    }

    /// The connection at an index of which the caller knows that it is there.
    pub(crate) fn there(&mut self, index: u32) -> Found<'_> {
        // reason: an entry lives from its admission until its socket is closed; who calls this has seen that it does.
        self.at(index).expect("a connection is there until its socket is closed")
    }

    /// Has a connection looked at when this turn is flushed, if it is still there.
    pub(crate) fn touch(&mut self, id: ConnectionId) {
        if let Some(mut found) = self.found(id) {
            found.mark_dirty();
        }
    }

    /// Has as many called again, in turn, as there is room for calls.
    pub(crate) fn revive_offloading(&mut self, kit: &Kit) {
        for _ in 0..self.requests.offload_room(kit) {
            // Seldom does anybody wait.
            let Some(waiter) = self.agenda.next_offloading() else { return };
            match waiter {
                Offloading::Connection(id) => self.revive_connection(id),
                Offloading::Service(service) => self.revive_service(service),
            }
        }
    }

    fn revive_connection(&mut self, id: ConnectionId) {
        // It may have gone while it waited.
        if let Some(mut found) = self.found(id) {
            found.take_helper();
        }
    }

    fn revive_service(&mut self, service: u16) {
        let awaited = std::mem::take(&mut self.services[service as usize].awaits_offload);
        assert!(awaited, "who is called again has waited");
        self.nudges.of(service).nudge();
    }

    /// Has a service called again once there is a place with the helper threads.
    pub(crate) fn await_offload(&mut self, service: u16) {
        if !std::mem::replace(&mut self.services[service as usize].awaits_offload, true) {
            self.agenda.await_offload(service);
        }
    }

    /// Asks the system what it keeps of those whose time it is.
    pub(crate) fn ask_of_deliveries(&mut self, driver: &dyn Driver) {
        self.connections.ask_of_deliveries(&mut self.agenda, driver);
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
    pub(crate) fn open_places(&self) -> impl Iterator<Item = (TransportAddress, Socket)> {
        self.listeners.open_places().chain(self.sockets.open_places())
    }

    /// The sockets of all places where this lane is served.
    pub(crate) fn served_sockets(&self) -> Vec<Socket> {
        self.listeners.sockets().chain(self.sockets.served_sockets()).collect()
    }

    /// Whether the lane is served anywhere: Unix sockets, to which no flows come, count as well.
    pub(crate) fn is_served(&self) -> bool {
        self.listeners.sockets().next().is_some() || self.sockets.served_sockets().next().is_some()
    }

    /// Whether one more connection of the service may be open.
    pub(crate) fn has_room(&self, service: u16) -> bool {
        self.connections.has_room(&self.services[service as usize])
    }

    /// Opens the accounts of all services, under that of the work that they are.
    pub(crate) fn open_payers(&mut self, arena: &Arena, work: Payer) {
        assert!(self.connections.len() == 0, "accounts are opened before anybody pays");
        self.agenda.memory_mut().accounts.belong_to(work);
        for state in &mut self.services {
            let service = arena.open_payer(work, Role::Sum);
            state.payers = Payers { service, own: arena.open_payer(service, Role::Keeper) };
        }
    }

    /// Starts accepting on every listener that has room and is not accepting.
    pub(crate) fn start_listening(&mut self, kit: &mut Kit) {
        let LaneTable { listeners, connections, services, .. } = self;
        listeners.start(kit, |service| accepts(connections, &services[service as usize]));
    }

    /// Lets listeners that found no descriptor try again.
    pub(crate) fn accept_again(&mut self, kit: &mut Kit) {
        self.listeners.revive();
        self.start_listening(kit);
    }
}

/// Whether what is accepted for a service becomes a connection at once.
pub(crate) fn accepts(connections: &Connections, state: &ServiceState) -> bool {
    state.waiting.is_empty() && connections.has_room(state)
}
