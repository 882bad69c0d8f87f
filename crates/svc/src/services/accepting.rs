//! How what a lane's listeners accept becomes a connection.

use crate::connection::connections::Connections;
use crate::connection::entry::{Connection, SessionAt};
use crate::connection::machine::Machine;
use crate::limits::SECOND;
use crate::places::listeners::Listener;
use crate::places::{Sharing, TransportAddress};
use crate::service::port::StreamPort;
use crate::services::Services;
use crate::services::handshakes::PLACES;
use crate::services::served::Served;
use crate::state::accounts::PeerKey;
use crate::state::{AcceptedSocket, ServiceState};
use crate::table::LaneTable;
use crate::words::class;
use crate::words::error::Error;
use crate::words::names::{Ending, Peer};
use corelane_lane::Kit;
use corelane_rss::{Protocol, Transport};
use corelane_seam::{Address, Completion, Driver, Handle, Listen, Outcome, Reason, StreamOutcome};
use corelane_watch::{LaneCounter, ServiceCounter};

/// When accepting is tried again after the system had no descriptor, unless a connection ends before.
const ACCEPT_AGAIN: u64 = SECOND / 10;

impl Services {
    /// Makes the socket of a listener that has none.
    pub(crate) fn open_listener(&mut self, driver: &mut dyn Driver, index: usize) -> Result<Address, Error> {
        let Listener { address, service, sharing: Sharing { share_port, v6_only }, .. } = self.served.table.listeners.at(index);
        let (share_port, v6_only) = (*share_port, *v6_only);
        let limits = self.served.table.limits(*service);
        let begins = self.served.ports[*service as usize].stream().is_some_and(|port| port.peer_begins());
        let stream = limits.stream.peer_begins(limits.stream.peer_begins || begins);
        let listen = Listen { address: address.clone(), backlog: limits.backlog, share_port, v6_only, stream };
        let at = TransportAddress::of(Transport::Tcp, address);
        let failed = |fault| Error::Listen { address: listen.address.clone(), fault };
        let socket = self.steering.open_socket(driver, at, |driver| driver.listen(&listen).map_err(failed))?;
        // What was asked for may have left the port to the system.
        let local = driver.local_address(socket).map_err(failed)?;
        self.served.table.listeners.open(index, socket);
        Ok(local)
    }

    pub(crate) fn listener_completed(&mut self, kit: &mut Kit, completion: Completion) {
        let index = completion.handle.index() as usize;
        let service = self.served.table.listeners.heard(index, completion.more);
        match completion.outcome {
            Outcome::Stream(StreamOutcome::Accepted { socket, peer, local }) => {
                self.served.table.listeners.accepted(index, kit.now());
                self.served.table.services[service as usize].waiting.push_back(AcceptedSocket { socket, peer, local });
                self.admit_waiting(kit, service);
            }
            Outcome::Closed => {
                let at = self.served.table.listeners.closed(index);
                self.place_closed(at);
            }
            // It was stopped, or is being closed.
            Outcome::Failed(fault) if fault.reason == Reason::Cancelled => {}
            Outcome::Failed(fault) => {
                if matches!(fault.reason, Reason::NoDescriptor | Reason::NoMemory) {
                    self.served.table.count(service, ServiceCounter::AcceptsNoDescriptor, 1);
                }
                self.served.table.listeners.starve(index);
                kit.start_timer(kit.now() + ACCEPT_AGAIN, Handle::new(class::ACCEPT_AGAIN, 0, 0));
            }
            other => unreachable!("no operation of a listener ends so: {other:?}"),
        }
    }

    /// The timer of listeners has come, or that of places among handshakes.
    pub(crate) fn accept_timer(&mut self, kit: &mut Kit, handle: Handle) {
        match handle.index() {
            PLACES => self.look_at_places(kit),
            _ => self.served.table.accept_again(kit),
        }
    }

    /// Makes connections of accepted sockets as long as there is room; stops accepting when there is none.
    pub(crate) fn admit_waiting(&mut self, kit: &mut Kit, service: u16) {
        while self.served.table.has_room(service) {
            let Some(arrived) = self.served.table.services[service as usize].waiting.pop_front() else { return };
            self.admit(kit, service, arrived);
            self.served.relieve_connections(kit, service);
        }
        let at_lane_bound = self.served.table.services[service as usize].open.share().left() > 0;
        let stopped = self.served.table.listeners.stop(kit, service);
        if stopped && self.served.table.is_crowded_out(service) {
            self.served.table.desk.look_at_places(kit);
        }
        if stopped && at_lane_bound {
            kit.row.add(LaneCounter::ConnectionsCapHits, 1);
        } else if stopped {
            self.served.table.count(service, ServiceCounter::ConnectionsMaxHits, 1);
        }
    }

    /// Somebody may wait because others have all places among handshakes, or all connections.
    fn look_at_places(&mut self, kit: &mut Kit) {
        assert!(self.served.table.desk.places_timed, "a timer comes that was started");
        self.served.table.desk.places_timed = false;
        self.served.relieve_handshakes(kit);
        for service in 0..self.served.table.services.len() as u16 {
            self.served.relieve_connections(kit, service);
            if self.served.table.is_crowded_out(service) {
                self.served.table.desk.look_at_places(kit);
            }
        }
    }

    fn admit(&mut self, kit: &mut Kit, service: u16, arrived: AcceptedSocket) {
        let LaneTable { connections, services, desk, .. } = &self.served.table;
        let peer = PeerKey::of(&arrived.peer);
        let is_full = connections.peer_is_full(&services[service as usize], &desk.memory.accounts, peer);
        if is_full && !self.served.make_way(kit, service, peer) {
            self.served.table.count(service, ServiceCounter::ConnectionsPerPeerMaxHits, 1);
            self.served.table.count(service, ServiceCounter::AcceptsRefused, 1);
            self.served.table.connections.turn_away(kit, arrived.socket);
            return;
        }
        let flow = self.served.table.flow(&arrived.peer, &arrived.local, Protocol::TCP);
        let local = self.served.table.services[service as usize].local(arrived.local);
        let peer = Peer { address: arrived.peer, local, flow, learned: None };
        // In this order: a reader who sees the arrival in the page also sees whether it was a stray.
        self.served.table.count(service, ServiceCounter::Strays, self.served.table.is_stray(flow, kit.lane()).into());
        self.served.table.count(service, ServiceCounter::Accepts, 1);
        self.steering.note_selection(kit);
        let machine = Machine::accepted(self.served.table.draining);
        let connection = Connection::new(Some(arrived.socket), peer, service, machine, kit.now());
        let LaneTable { connections, services, desk, .. } = &mut self.served.table;
        let index = connections.admit(services, desk, connection, &kit.arena);
        self.served.table.there(index).mark_dirty();
        self.served.begin(kit, index);
    }
}

impl Served {
    pub(crate) fn open_session(&mut self, kit: &mut Kit, index: u32) {
        let mut found = self.table.there(index);
        let (about, peer) = (found.begin_about(), found.connection.peer.clone());
        let session = self.fenced_call(kit, &about, |port: &mut dyn StreamPort, cx| port.open(cx, &peer)).0;
        self.begin_session(kit, index, session);
        if self.table.handed_over {
            self.tell_handed_over(kit, index);
        }
    }

    /// Gives a connection its session; without one, or after a panic, it ends.
    pub(crate) fn begin_session(&mut self, kit: &mut Kit, index: u32, session: Option<u32>) {
        let before = std::mem::replace(&mut self.table.there(index).connection.session, SessionAt::of(session));
        assert!(before.is_none(), "a connection has one session");
        if session.is_none() {
            self.end(kit, index, Ending::Aborted);
        }
    }
}

impl LaneTable {
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
