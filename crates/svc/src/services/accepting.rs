//! How connections come, accepted or opened, and make room for others when they are gone.

use crate::connection::entry::Connection;
use crate::connection::parking::PLACES;
use crate::limits::SECOND;
use crate::places::listeners::Listener;
use crate::places::{Sharing, TransportAddress};
use crate::services::Services;
use crate::state::AcceptedSocket;
use crate::state::accounts::PeerKey;
use crate::table::LaneTable;
use crate::words::class;
use crate::words::error::Error;
use crate::words::names::Peer;
use corelane_lane::Kit;
use corelane_rss::{Protocol, Transport};
use corelane_seam::{
    Address, Completion, DatagramOutcome, Driver, Fault, Handle, Level, Listen, Op, Outcome, RELEASE_LIMIT, Reason, Record,
    StreamOutcome,
};
use corelane_watch::{LaneCounter, ServiceCounter};

/// When accepting is tried again after the system had no descriptor, unless a connection ends before.
const ACCEPT_AGAIN: u64 = SECOND / 10;

impl Services {
    /// Makes the socket of a listener that has none.
    pub(crate) fn open_listener(&mut self, driver: &mut dyn Driver, index: usize) -> Result<Address, Error> {
        let Listener { address, service, sharing: Sharing { share_port, v6_only }, .. } = self.served.table.listeners.at(index);
        let (share_port, v6_only) = (*share_port, *v6_only);
        let limits = self.served.table.limits(*service);
        let begins = self.served.faces[*service as usize].stream().is_some_and(|face| face.peer_begins());
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
                self.steering.place_closed(at, self.served.table.is_served());
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
            self.served.table.agenda.parking().look_at_places(kit);
        }
        if stopped && at_lane_bound {
            kit.row.add(LaneCounter::ConnectionsCapHits, 1);
        } else if stopped {
            self.served.table.count(service, ServiceCounter::ConnectionsMaxHits, 1);
        }
    }

    /// Somebody may wait because others have all places among handshakes, or all connections.
    fn look_at_places(&mut self, kit: &mut Kit) {
        self.served.table.agenda.parking().timer_came();
        self.served.relieve_handshakes(kit);
        for service in 0..self.served.table.services.len() as u16 {
            self.served.relieve_connections(kit, service);
            if self.served.table.is_crowded_out(service) {
                self.served.table.agenda.parking().look_at_places(kit);
            }
        }
    }

    fn admit(&mut self, kit: &mut Kit, service: u16, arrived: AcceptedSocket) {
        let LaneTable { connections, services, agenda, .. } = &self.served.table;
        let peer = PeerKey::of(&arrived.peer);
        let is_full = connections.peer_is_full(&services[service as usize], agenda, peer);
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
        let in_drain = self.served.table.is_draining();
        let connection = Connection::accepted(arrived.socket, peer, service, in_drain, kit.now());
        let LaneTable { connections, services, agenda, .. } = &mut self.served.table;
        let index = connections.admit(services, agenda, connection, &kit.arena);
        self.served.table.there(index).mark_dirty();
        self.served.begin(kit, index);
    }

    /// It is known from which address a peer is reached, or that it is not: the connections that waited go on.
    pub(crate) fn route_completed(&mut self, kit: &mut Kit, completion: Completion) {
        let local = match completion.outcome {
            Outcome::Datagram(DatagramOutcome::Bound { socket, local }) => {
                kit.submit(Handle::new(class::DISCARDED, 0, 0), Op::Close { socket, reset: false });
                local.inet()
            }
            Outcome::Failed(_) => None,
            other => unreachable!("a bind ends as one: {other:?}"),
        };
        for id in self.served.table.route_found(completion.handle, local, kit.now()) {
            // reason: nothing else completes for it meanwhile, whether it was given up or not.
            let connection = self.served.table.find(id).expect("who waits for a route is there until it comes");
            if !connection.is_being_opened() {
                self.opening_failed(kit, id.index, Fault::CANCELLED);
                continue;
            }
            if local.is_none() {
                connection.set_tries(0);
            }
            self.served.table.go_on_connecting(kit, id.index);
        }
    }

    /// The socket is closed: the entry is free, and others may take its place.
    pub(crate) fn socket_closed(&mut self, kit: &mut Kit, index: u32) {
        let connection = self.served.table.there(index).connection;
        assert!(connection.machine().has_ended(), "a socket was closed that nobody had asked to close");
        let service = connection.service();
        if connection.machine().unreleased() > 0 {
            self.served.table.tell_of_withheld(kit, index);
        }
        let LaneTable { connections, services, agenda, .. } = &mut self.served.table;
        let transform = connections.dismiss(services, agenda, index, &kit.arena);
        self.served.table.discard(kit, service, transform);
        self.fill_place(kit, service);
    }

    /// One of the service's connections is gone: others may take its place.
    pub(crate) fn fill_place(&mut self, kit: &mut Kit, service: u16) {
        self.served.table.accept_again(kit);
        self.admit_waiting(kit, service);
        self.admit_others(kit, service);
    }

    /// Room under the lane's bound serves the other services too.
    fn admit_others(&mut self, kit: &mut Kit, service: u16) {
        for other in 0..self.served.table.services.len() as u16 {
            if other != service && !self.served.table.services[other as usize].waiting.is_empty() {
                self.admit_waiting(kit, other);
            }
        }
    }

    /// An outgoing connection could not be opened, or was given up before it was.
    pub(crate) fn opening_failed(&mut self, kit: &mut Kit, index: u32, fault: Fault) {
        assert!(self.served.table.connections.there(index).socket().is_none(), "what has a socket was opened");
        if self.served.table.try_another_port(kit, index, fault) {
            return;
        }
        self.served.table.there(index).count(ServiceCounter::ConnectsFailed, 1);
        self.served.end_by_fault(kit, index, fault);
        self.socket_closed(kit, index);
    }
}

impl LaneTable {
    /// A socket is closed, and the system still reads memory of what was sent on it: nobody gets that any more.
    fn tell_of_withheld(&mut self, kit: &mut Kit, index: u32) {
        let connection = self.connections.there(index);
        let lane = kit.lane();
        let words = format!(
            "lane {lane}: {} s after a connection with {} was closed, the system still reads memory that was sent on it: \
             nobody writes to that again (memory_withheld); remedy: look at the network card's driver, or send with copying",
            RELEASE_LIMIT.as_secs(),
            connection.ends().address
        );
        kit.report_kind("withheld memory", Record::new(Level::Warn, words).naming_lane(lane));
    }
}
