//! Datagram sockets at work: opened, a batch in, trains out, what the network says of them, and closed.

use crate::cx::Site;
use crate::drops::Dropped;
use crate::error::Error;
use crate::fence::fenced;
use crate::flows::Flow;
use crate::listeners::datagram_socket;
use crate::port::{DatagramPort, Port};
use crate::replies::{Gathered, Replies};
use crate::service::SocketId;
use crate::services::Services;
use crate::steering::Place;
use crate::table::{Bound, Table, class};
use corelane_lane::Kit;
use corelane_rss::Protocol;
use corelane_seam::{Arrival, Completion, Datagrams, Driver, Fault, Handle, Op, Outcome, Reason, Socket, Trains};
use corelane_watch::{LaneCounter, ServiceCounter};
use std::net::SocketAddr;

/// One datagram socket of the lane.
pub(crate) struct DatagramSocket {
    /// None until it is open.
    socket: Option<Socket>,
    /// None until it is open.
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    /// The flow of its peer.
    flow: Option<Flow>,
    /// The service is served here: what arrives was selected for this lane.
    is_served: bool,
    pub(crate) service: u16,
    /// The storage for arrivals; away while a receive is under way.
    batch: Option<Datagrams>,
    /// What waits to be sent; away while it is an argument of a call into the service.
    pub(crate) replies: Option<Replies>,
    /// The storage of the trains that were sent; away while a send is under way.
    spare: Option<Trains>,
    drain_rounds: u32,
    draining: bool,
    /// In a drain: what was readable has been served. Answers may still leave.
    settled: bool,
    /// The last receive was stopped although there was something: the next one waits for memory.
    waits_for_memory: bool,
    /// It is to be closed once what waits has left; its service hears no more of it.
    pub(crate) closing: bool,
    /// Its close is under way.
    closed: bool,
    is_dirty: bool,
    pub(crate) dropped: Dropped,
}

/// Batches that a drain still takes from one socket: what was readable when it began fits in the kernel's buffer.
const DRAIN_ROUNDS: u32 = 64;

impl DatagramSocket {
    /// A socket of `service` that is being opened, with the only `peer` if it has one.
    pub(crate) fn new(service: u16, peer: Option<SocketAddr>, waiting_max: u32) -> Self {
        Self {
            socket: None,
            local: None,
            peer,
            flow: None,
            is_served: false,
            service,
            batch: Some(Datagrams::new()),
            replies: Some(Replies::new(peer, waiting_max as usize)),
            spare: Some(Trains::new()),
            drain_rounds: 0,
            draining: false,
            settled: false,
            waits_for_memory: false,
            closing: false,
            closed: false,
            is_dirty: false,
            dropped: Dropped::default(),
        }
    }

    fn is_waiting(&self) -> bool {
        self.replies.as_ref().is_some_and(|replies| !replies.trains.is_empty())
    }

    /// In a drain: whether all that was readable is served, and all that was to be sent has left.
    pub(crate) fn is_quiet(&self) -> bool {
        self.closing || self.settled && !self.is_waiting() && self.spare.is_some()
    }

    /// Whether nothing is to be done before something arrives: the usual case after a departure.
    fn is_at_rest(&self) -> bool {
        self.batch.is_none() && !(self.is_waiting() || self.closing || self.draining)
    }

    /// Whether a drain still takes what has arrived, and nothing that comes later.
    fn takes_what_is_there(&self) -> bool {
        self.draining && !self.settled
    }
}

/// Whether a fault says something of the network, rather than of how the operation ended.
fn is_news(fault: &Fault) -> bool {
    !matches!(fault.reason, Reason::Cancelled | Reason::NoMemory)
}

impl Services {
    /// Makes the socket of a place that has none; answers its address.
    pub(crate) fn open_bound(&mut self, driver: &mut dyn Driver, index: usize) -> Result<SocketAddr, Error> {
        let Bound { address, service, sharing, .. } = self.table.bound[index];
        let bind = datagram_socket(address, None, sharing);
        let at = Place { protocol: Protocol::UDP, address };
        let failed = |fault| Error::Listen { address, fault };
        let socket = self.open_socket(driver, at, |driver| driver.bind(&bind).map_err(failed))?;
        let local = driver.local_address(socket).map_err(failed)?;
        let mut entry = DatagramSocket::new(service, None, self.table.limits(service).datagrams_waiting_max);
        (entry.socket, entry.local, entry.is_served) = (Some(socket), Some(local), true);
        self.table.bound[index].socket = Some(self.table.admit_socket(entry));
        Ok(local)
    }

    pub(crate) fn datagrams_completed(&mut self, kit: &mut Kit, completion: Completion) {
        let id = SocketId { index: completion.handle.index(), generation: completion.handle.generation() };
        if self.table.find_socket(id).is_none() {
            return kit.row.add(LaneCounter::CompletionsStale, 1);
        }
        match completion.outcome {
            Outcome::Arrived { batch, fault } => self.arrived(kit, id, batch, fault),
            Outcome::Departed { trains, datagrams, refused, calls, fault } => {
                self.table.count_departure(id, datagrams, refused, calls);
                self.departed(kit, id, trains, fault);
                if self.table.find_socket(id).is_some_and(|entry| !entry.is_at_rest()) {
                    self.table.mark_socket(id);
                }
                return;
            }
            Outcome::Bound { socket, local } => self.socket_opened(kit, id, Ok((socket, local))),
            Outcome::Failed(fault) => self.socket_opened(kit, id, Err(fault)),
            Outcome::Closed => {
                self.table.dismiss_socket(id);
                if let Some(at) = self.table.unbind(id) {
                    self.place_closed(at);
                }
            }
            _ => {}
        }
        self.table.mark_socket(id);
    }

    /// Tells the service, unless it has closed the socket meanwhile.
    fn socket_opened(&mut self, kit: &mut Kit, id: SocketId, outcome: Result<(Socket, SocketAddr), Fault>) {
        let draining = self.table.draining;
        let flow = self.table.peer_flow(id, outcome.ok().map(|(_, local)| local));
        let Some(entry) = self.table.find_socket(id) else { return };
        (entry.socket, entry.local) = outcome.ok().unzip();
        (entry.flow, entry.draining) = (flow, draining);
        if !entry.closing {
            let outcome = outcome.map(|(_, local)| local);
            self.socket_call(kit, id, |port, cx| port.opened(cx, id, outcome));
        }
        if outcome.is_err() {
            self.table.dismiss_socket(id);
        }
    }

    fn arrived(&mut self, kit: &mut Kit, id: SocketId, mut batch: Datagrams, fault: Option<Fault>) {
        let Some(entry) = self.table.find_socket(id) else { return };
        let is_empty = batch.is_empty();
        entry.waits_for_memory = fault.is_some_and(|fault| fault.reason == Reason::NoMemory);
        entry.drain_rounds += u32::from(entry.draining);
        let found_nothing = is_empty && fault == Some(Fault::CANCELLED);
        let over = entry.takes_what_is_there() && (found_nothing || entry.drain_rounds > DRAIN_ROUNDS);
        if !is_empty && !entry.closing {
            self.serve_datagrams(kit, id, &batch);
        }
        self.tell_fault(kit, id, fault);
        batch.clear();
        if let Some(entry) = self.table.find_socket(id) {
            entry.batch = Some(batch);
            entry.settled |= over;
        }
    }

    /// Hands a batch to the service, once, all of it together.
    fn serve_datagrams(&mut self, kit: &mut Kit, id: SocketId, batch: &Datagrams) {
        if self.table.count_arrivals(id, batch, kit.lane()) {
            self.note_selection(kit);
        }
        self.heard(kit, id);
        self.call_with_replies(kit, id, |port, cx, replies| port.receive(cx, batch, replies));
        // While it is served a batch is still the lane's: its block is as large as what a service may hold of the reserve, and larger,
        // and nothing would be left of that for answers. What the service keeps of it is the service's own.
        if let Some(entry) = self.table.find_socket(id) {
            let service = entry.service;
            batch.charge(self.table.services[service as usize].payers.own);
        }
    }

    fn departed(&mut self, kit: &mut Kit, id: SocketId, trains: Trains, fault: Option<Fault>) {
        if let Some(entry) = self.table.find_socket(id) {
            entry.spare = Some(trains);
        }
        self.tell_fault(kit, id, fault);
        let goes_on = |entry: &&mut DatagramSocket| !entry.is_waiting() && !entry.draining && !entry.closing;
        if self.table.find_socket(id).filter(goes_on).is_some() {
            self.call_with_replies(kit, id, |port, cx, replies| port.sent(cx, id, replies));
        }
    }

    fn tell_fault(&mut self, kit: &mut Kit, id: SocketId, fault: Option<Fault>) {
        let Some(fault) = fault.filter(is_news) else { return };
        let Some(entry) = self.table.find_socket(id).filter(|entry| !entry.closing) else { return };
        let service = entry.service;
        self.table.count(service, ServiceCounter::DatagramFaults, 1);
        self.socket_call(kit, id, |port, cx| port.fault(cx, id, fault));
    }

    /// Calls into the socket's service with what it sends, fenced.
    fn call_with_replies(
        &mut self,
        kit: &mut Kit,
        id: SocketId,
        call: impl FnOnce(&mut dyn DatagramPort, &mut Site<'_>, &mut Replies),
    ) {
        let Some(mut replies) = self.table.find_socket(id).and_then(|entry| entry.replies.take()) else { return };
        self.socket_call(kit, id, |port, cx| call(port, cx, &mut replies));
        if let Some(entry) = self.table.find_socket(id) {
            entry.replies = Some(replies);
        }
    }

    fn socket_call(&mut self, kit: &mut Kit, id: SocketId, call: impl FnOnce(&mut dyn DatagramPort, &mut Site<'_>)) {
        let Some(entry) = self.table.find_socket(id) else { return };
        let service = entry.service;
        let Port::Datagram(port) = &mut self.ports[service as usize] else { return };
        let before = kit.arena.pay_as(self.table.services[service as usize].payers.own);
        let mut cx = Site::new(kit, &mut self.table, service, None).for_socket(id);
        let called = fenced(|| call(port.as_mut(), &mut cx));
        kit.arena.pay_as(before);
        if let Err(words) = called {
            self.report_panic(kit, service, None, &words);
        }
    }
}

impl Table {
    pub(crate) fn find_socket(&mut self, id: SocketId) -> Option<&mut DatagramSocket> {
        self.datagrams.get_mut(id.index, id.generation)
    }

    /// Has the socket looked at when this turn is flushed.
    pub(crate) fn mark_socket(&mut self, id: SocketId) {
        if let Some(entry) = self.datagrams.get_mut(id.index, id.generation).filter(|entry| !entry.is_dirty) {
            entry.is_dirty = true;
            self.datagrams_dirty.push(id);
        }
    }

    /// Adds a socket to the table and to the counts.
    pub(crate) fn admit_socket(&mut self, entry: DatagramSocket) -> SocketId {
        let state = &mut self.services[entry.service as usize];
        state.sockets += 1;
        state.row.set(ServiceCounter::DatagramSocketsOpen, u64::from(state.sockets));
        let (index, generation) = self.datagrams.insert(entry);
        self.drops.admit(self.datagrams.len());
        let id = SocketId { index, generation };
        self.mark_socket(id);
        id
    }

    /// Removes a socket that is closed, or could not be opened. What still waits was never sent.
    fn dismiss_socket(&mut self, id: SocketId) {
        let Some(entry) = self.find_socket(id) else { return };
        let (service, replies) = (entry.service, entry.replies.take());
        let unsent = replies.map_or(0, |replies| replies.trains.trains().iter().map(|train| train.datagrams()).sum());
        self.count(service, ServiceCounter::DatagramsRefused, unsent);
        self.datagrams.remove(id.index);
        let state = &mut self.services[service as usize];
        state.sockets -= 1;
        state.row.set(ServiceCounter::DatagramSocketsOpen, u64::from(state.sockets));
    }

    /// Counts a batch; answers whether it was selected for this lane.
    fn count_arrivals(&mut self, id: SocketId, batch: &Datagrams, lane: usize) -> bool {
        let Some(entry) = self.find_socket(id) else { return false };
        let (service, is_served) = (entry.service, entry.is_served);
        let (mut datagrams, mut trains, mut bytes, mut strays) = (0, 0, 0, 0);
        for arrival in batch.arrivals() {
            if is_served && self.is_stray(self.arrival_flow(id, arrival), lane) {
                strays += arrival.datagrams();
            }
            datagrams += arrival.datagrams();
            trains += 1;
            bytes += arrival.bytes();
        }
        // The strays first: who sees the arrivals in the page sees how many of them were strays.
        self.count(service, ServiceCounter::Strays, strays);
        self.count(service, ServiceCounter::DatagramReceives, 1);
        self.count(service, ServiceCounter::DatagramsIn, datagrams);
        self.count(service, ServiceCounter::TrainsIn, trains);
        self.count(service, ServiceCounter::BytesIn, bytes);
        is_served
    }

    /// The flow that an arrival at this socket came with.
    pub(crate) fn arrival_flow(&self, id: SocketId, arrival: &Arrival) -> Option<Flow> {
        let entry = self.datagrams.get(id.index, id.generation)?;
        if entry.flow.is_some() {
            return entry.flow;
        }
        let local = entry.local?;
        let asked = SocketAddr::new(arrival.asked.unwrap_or(local.ip()), local.port());
        self.flow(arrival.peer, asked, Protocol::UDP)
    }

    /// The flow of a socket's only peer.
    fn peer_flow(&self, id: SocketId, local: Option<SocketAddr>) -> Option<Flow> {
        let peer = self.datagrams.get(id.index, id.generation)?.peer?;
        self.flow(peer, local?, Protocol::UDP)
    }

    pub(crate) fn socket_of(&self, id: SocketId) -> Option<Socket> {
        self.datagrams.get(id.index, id.generation)?.socket
    }

    /// Takes a closed socket away from the place that it was bound at, if it was one of those.
    fn unbind(&mut self, id: SocketId) -> Option<Place> {
        let bound = self.bound.iter_mut().find(|bound| bound.socket == Some(id))?;
        bound.socket = None;
        Some(Place { protocol: Protocol::UDP, address: bound.address })
    }

    fn count_departure(&mut self, id: SocketId, datagrams: u32, refused: u32, calls: u32) {
        let Some(entry) = self.find_socket(id) else { return };
        let service = entry.service;
        self.count(service, ServiceCounter::DatagramsOut, datagrams as usize);
        self.count(service, ServiceCounter::DatagramSends, calls as usize);
        if refused > 0 {
            self.count(service, ServiceCounter::DatagramsRefused, refused as usize);
        }
    }

    /// Sends what the services left at their sockets, and receives again wherever that has left.
    pub(crate) fn flush_datagrams(&mut self, kit: &mut Kit) {
        let mut dirty = std::mem::take(&mut self.datagrams_dirty);
        for id in dirty.drain(..) {
            if let Some(entry) = self.find_socket(id) {
                entry.is_dirty = false;
                self.send_datagrams(kit, id);
                self.receive_datagrams(kit, id);
            }
        }
        self.datagrams_dirty = dirty;
    }

    fn send_datagrams(&mut self, kit: &mut Kit, id: SocketId) {
        let Some(entry) = self.find_socket(id) else { return };
        let service = entry.service;
        let Some(replies) = entry.replies.as_mut() else { return };
        let (refused, bound_hits) = (std::mem::take(&mut replies.refused), std::mem::take(&mut replies.bound_hits));
        if let Some(socket) = entry.socket.filter(|_| !entry.closed && !replies.trains.is_empty())
            && let Some(spare) = entry.spare.take()
        {
            let Gathered { trains, bytes, forwarded } = replies.take(spare);
            self.count(service, ServiceCounter::TrainsOut, trains.trains().len());
            self.count(service, ServiceCounter::BytesOut, bytes);
            self.count(service, ServiceCounter::BytesForwarded, forwarded);
            kit.submit(handle(id), Op::SendDatagrams { socket, trains });
        }
        if refused > 0 {
            self.count(service, ServiceCounter::DatagramsRefused, refused);
            self.count(service, ServiceCounter::DatagramsWaitingMaxHits, bound_hits);
        }
    }

    /// Receives unless answers still wait for an earlier send: so a slow path pushes back, and answers stay bounded.
    fn receive_datagrams(&mut self, kit: &mut Kit, id: SocketId) {
        let Some(entry) = self.find_socket(id) else { return };
        let Some(socket) = entry.socket.filter(|_| !entry.is_waiting()) else { return };
        if entry.closing {
            // The storage of a send comes back when it has ended.
            if entry.spare.is_some() {
                self.close_socket(kit, id);
            }
            return;
        }
        // The service's own peers may have the answer to what it is asked; who asks it anew comes too late.
        let takes = !(entry.settled && entry.is_served);
        if let Some(into) = entry.batch.take_if(|_| takes) {
            kit.submit(handle(id), Op::ReceiveDatagrams { socket, into });
            if entry.takes_what_is_there() && !entry.waits_for_memory {
                kit.submit(handle(id), Op::StopReceive { socket });
            }
        }
    }

    /// Closes a socket whatever is under way on it.
    fn close_socket(&mut self, kit: &mut Kit, id: SocketId) {
        if let Some(entry) = self.find_socket(id).filter(|entry| !entry.closed)
            && let Some(socket) = entry.socket
        {
            entry.closed = true;
            self.ask_at_last(id);
            kit.submit(handle(id), Op::Close { socket, reset: false });
        }
    }

    fn sockets(&self) -> Vec<SocketId> {
        let id = |index| SocketId { index, generation: self.datagrams.generation(index) };
        self.datagrams.indices().map(id).collect()
    }

    /// From now on each receive takes only what is there; with the first that finds nothing, all that was readable is served.
    pub(crate) fn drain_datagrams(&mut self, kit: &mut Kit) {
        for id in self.sockets() {
            self.drain_socket(kit, id);
        }
    }

    /// Whether all sockets of a drain are quiet.
    pub(crate) fn datagrams_are_quiet(&mut self) -> bool {
        self.sockets().into_iter().all(|id| self.find_socket(id).is_none_or(|entry| entry.is_quiet()))
    }

    /// Nothing is owed to anybody: all sockets close.
    pub(crate) fn close_all_datagrams(&mut self) {
        for id in self.sockets() {
            if let Some(entry) = self.find_socket(id) {
                entry.closing = true;
            }
            self.mark_socket(id);
        }
    }

    /// Closes a socket at which the lane was served, if it is quiet.
    pub(crate) fn close_quiet(&mut self, id: SocketId) {
        if let Some(entry) = self.find_socket(id).filter(|entry| entry.is_quiet()) {
            entry.closing = true;
            self.mark_socket(id);
        }
    }

    /// The same, only for what the services are served at.
    pub(crate) fn drain_served_datagrams(&mut self, kit: &mut Kit) {
        for id in self.bound.iter().filter_map(|bound| bound.socket).collect::<Vec<_>>() {
            self.drain_socket(kit, id);
        }
    }

    fn drain_socket(&mut self, kit: &mut Kit, id: SocketId) {
        if let Some(entry) = self.find_socket(id) {
            entry.draining = true;
            if let Some(socket) = entry.socket.filter(|_| entry.batch.is_none()) {
                kit.submit(handle(id), Op::StopReceive { socket });
            }
            self.mark_socket(id);
        }
    }

    /// The time is up: nothing more leaves.
    pub(crate) fn abandon_datagrams(&mut self, kit: &mut Kit) {
        for id in self.sockets() {
            let Some(entry) = self.find_socket(id).filter(|entry| !entry.closed) else { continue };
            let service = entry.service;
            entry.closing = true;
            self.count(service, ServiceCounter::DrainDeadlineHits, 1);
            self.close_socket(kit, id);
        }
    }
}

fn handle(id: SocketId) -> Handle {
    Handle::new(class::DATAGRAMS, id.index, id.generation)
}
