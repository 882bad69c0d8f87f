//! The datagram sockets of a lane: a batch in, trains out, and what the lane is served at.

use crate::datagrams::drops::{Dropped, Drops};
use crate::datagrams::replies::{Gathered, Replies, is_strange};
use crate::places::{Sharing, TransportAddress};
use crate::state::ServiceState;
use crate::words::class;
use crate::words::flows::{Flow, Flows};
use crate::words::names::SocketId;
use corelane_lane::Kit;
use corelane_rss::{Protocol, Transport};
use corelane_seam::slab::HandleSlab;
use corelane_seam::{Address, Arrival, Bind, DatagramOp, Datagrams, Driver, Fault, Handle, Op, Reason, Socket, Trains};
use corelane_watch::ServiceCounter;
use std::net::SocketAddr;

/// One datagram socket of the lane.
pub(crate) struct DatagramSocket {
    /// None until it is open.
    socket: Option<Socket>,
    /// None until it is open.
    local: Option<Address>,
    peer: Option<Address>,
    /// The flow of its peer.
    flow: Option<Flow>,
    /// The service is served here: what arrives was selected for this lane.
    is_served: bool,
    service: u16,
    /// The storage for arrivals; away while a receive is under way.
    batch: Option<Datagrams>,
    /// What waits to be sent; away while it is an argument of a call into the service.
    replies: Option<Replies>,
    /// The storage of the trains that were sent; away while a send is under way.
    spare: Option<Trains>,
    drain_rounds: u32,
    draining: bool,
    /// In a drain: what was readable has been served. Answers may still leave.
    settled: bool,
    /// The last receive was stopped although there was something: the next one waits for memory.
    waits_for_memory: bool,
    /// It is to be closed once what waits has left; its service hears no more of it.
    closing: bool,
    /// Its close is under way.
    closed: bool,
    is_dirty: bool,
    dropped: Dropped,
}

/// Batches that a drain still takes from one socket: what was readable when it began fits in the kernel's buffer.
const DRAIN_ROUNDS: u32 = 64;

impl DatagramSocket {
    /// A socket of `service` that is being opened, with the only `peer` if it has one.
    pub(crate) fn new(service: u16, peer: Option<Address>, waiting_max: u32) -> Self {
        Self {
            socket: None,
            local: None,
            peer: peer.clone(),
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

    /// One that is open already, where its service is served: many may ask there at once.
    pub(crate) fn served(service: u16, socket: Socket, local: Address, waiting_max: u32) -> Self {
        let mut new = Self::new(service, None, waiting_max);
        new.spare = Some(Trains::for_batch());
        Self { socket: Some(socket), local: Some(local), is_served: true, ..new }
    }

    fn is_waiting(&self) -> bool {
        self.replies.as_ref().is_some_and(|replies| !replies.trains.is_empty())
    }

    /// Whether nothing may be answered before memory is released.
    fn is_held(&self) -> bool {
        self.replies.as_ref().is_some_and(Replies::is_held)
    }

    /// In a drain: whether all that was readable is served, and all that was to be sent has left.
    fn is_quiet(&self) -> bool {
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

    /// The flow that an arrival here came with.
    fn arrival_flow(&self, flows: Option<&Flows>, arrival: &Arrival) -> Option<Flow> {
        if self.flow.is_some() {
            return self.flow;
        }
        let local = self.local.as_ref()?.inet()?;
        let asked = SocketAddr::new(arrival.asked.unwrap_or(local.ip()), local.port());
        flows?.flow(arrival.peer.inet()?, asked, Protocol::UDP)
    }
}

/// Whether a fault says something of the network, rather than of how the operation ended.
fn is_news(fault: &Fault) -> bool {
    !matches!(fault.reason, Reason::Cancelled | Reason::NoMemory)
}

/// What a datagram socket is to be.
pub(crate) fn datagram_socket(address: Address, peer: Option<Address>, sharing: Sharing) -> Bind {
    let Sharing { share_port, v6_only } = sharing;
    // Bursts of large datagrams do not fit in the default of 208 KiB.
    let buffer = 4 << 20;
    Bind { address, peer, share_port, v6_only, receive_buffer_bytes: buffer, send_buffer_bytes: buffer }
}

/// A place where this lane takes datagrams.
pub(crate) struct Bound {
    /// None while the lane is away.
    pub(crate) socket: Option<SocketId>,
    pub(crate) service: u16,
    pub(crate) address: Address,
    pub(crate) sharing: Sharing,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Sockets {
    open: HandleSlab<DatagramSocket>,
    /// Those to be looked at when this turn is flushed.
    dirty: Vec<SocketId>,
    bound: Vec<Bound>,
    drops: Drops,
}

/// One that was looked up, with what it needs of its lane: handed on through all that one event, call or flush does to it.
pub(crate) struct FoundSocket<'a> {
    id: SocketId,
    entry: &'a mut DatagramSocket,
    state: &'a ServiceState,
    dirty: &'a mut Vec<SocketId>,
    drops: &'a mut Drops,
}

impl Sockets {
    /// How often one was looked up.
    #[cfg(debug_assertions)]
    pub(crate) fn look_ups(&self) -> u64 {
        self.open.look_ups()
    }

    /// The socket of that name, if it is still there.
    pub(crate) fn found<'a>(&'a mut self, states: &'a [ServiceState], id: SocketId) -> Option<FoundSocket<'a>> {
        let Sockets { open, dirty, drops, .. } = self;
        let entry = open.get_mut(id.into())?;
        let state = &states[entry.service as usize];
        Some(FoundSocket { id, entry, state, dirty, drops })
    }

    /// The socket of that name, of which the caller knows that it is there.
    pub(crate) fn there<'a>(&'a mut self, states: &'a [ServiceState], id: SocketId) -> FoundSocket<'a> {
        // reason: a socket is there from when it is asked for until its close has completed; nothing else takes it away.
        self.found(states, id).expect("a datagram socket is there until it is closed")
    }

    /// The socket of that name, if it is there, of that service, and not closed by it.
    pub(crate) fn own<'a>(&'a mut self, states: &'a [ServiceState], id: SocketId, service: u16) -> Option<FoundSocket<'a>> {
        self.found(states, id).filter(|found| found.entry.service == service && !found.entry.closing)
    }

    /// What is sent from such a socket, looked at when this turn is flushed; None while it is an argument of a call.
    pub(crate) fn replies(&mut self, states: &[ServiceState], id: SocketId, service: u16) -> Option<&mut Replies> {
        self.own(states, id, service)?.mark();
        self.open.get_mut(id.into())?.replies.as_mut()
    }

    /// Adds a socket to the table and to the counts.
    pub(crate) fn admit(&mut self, states: &mut [ServiceState], entry: DatagramSocket) -> SocketId {
        let state = &mut states[entry.service as usize];
        state.sockets += 1;
        state.row.set(ServiceCounter::DatagramSocketsOpen, u64::from(state.sockets));
        let id = SocketId::from(self.open.insert(entry));
        self.drops.admit(self.open.len());
        self.there(states, id).mark();
        id
    }

    /// Removes a socket that is closed, or could not be opened. What still waits was never sent.
    pub(crate) fn dismiss(&mut self, states: &mut [ServiceState], id: SocketId) {
        // reason: asked for by its last completion.
        let entry = self.open.remove(id.into()).expect("a datagram socket is there until it is closed");
        assert!(entry.closed || entry.socket.is_none(), "a socket goes behind its close, or was never open");
        let unsent = entry.replies.map_or(0, |replies| replies.trains.trains().iter().map(|train| train.datagrams()).sum());
        let state = &mut states[entry.service as usize];
        state.row.add(ServiceCounter::DatagramsRefused, unsent as u64);
        assert!(state.sockets > 0, "a socket is counted from when it is asked for");
        state.sockets -= 1;
        state.row.set(ServiceCounter::DatagramSocketsOpen, u64::from(state.sockets));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether one of them is to be looked at without another completion.
    pub(crate) fn has_work(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The flow that an arrival at a socket came with.
    pub(crate) fn arrival_flow(&self, flows: Option<&Flows>, id: SocketId, arrival: &Arrival) -> Option<Flow> {
        self.open.get(id.into())?.arrival_flow(flows, arrival)
    }

    /// Sends what the services left at their sockets, and receives again wherever that has left.
    pub(crate) fn flush(&mut self, states: &[ServiceState], kit: &mut Kit) {
        let due = self.dirty.len();
        for at in 0..due {
            // It may have gone since it was marked.
            if let Some(mut found) = self.found(states, self.dirty[at]) {
                found.flush(kit);
            }
        }
        assert_eq!(self.dirty.len(), due, "a flush marks no socket");
        self.dirty.clear();
    }

    fn ids(&self) -> Vec<SocketId> {
        self.open.keys().map(SocketId::from).collect()
    }

    /// From now on each receive takes only what is there; with the first that finds nothing, all that was readable is served.
    pub(crate) fn drain(&mut self, states: &[ServiceState], kit: &mut Kit) {
        for id in self.ids() {
            self.there(states, id).drain(kit);
        }
    }

    /// The same, only for what the services are served at.
    pub(crate) fn drain_served(&mut self, states: &[ServiceState], kit: &mut Kit) {
        for (_, id) in self.served() {
            self.there(states, id).drain(kit);
        }
    }

    /// Whether all sockets of a drain are quiet.
    pub(crate) fn are_quiet(&self) -> bool {
        self.open.values().all(DatagramSocket::is_quiet)
    }

    /// Nothing is owed to anybody: all sockets close.
    pub(crate) fn close_all(&mut self, states: &[ServiceState]) {
        for id in self.ids() {
            self.there(states, id).close_behind();
        }
    }

    /// Closes a socket at which the lane was served, if it is quiet.
    pub(crate) fn close_quiet(&mut self, states: &[ServiceState], id: SocketId) {
        let mut found = self.there(states, id);
        if found.entry.is_quiet() {
            found.close_behind();
        }
    }

    /// The time is up: nothing more leaves.
    pub(crate) fn abandon(&mut self, states: &[ServiceState], kit: &mut Kit) {
        for id in self.ids() {
            let mut found = self.there(states, id);
            if !found.entry.closed {
                found.entry.closing = true;
                found.count(ServiceCounter::DrainDeadlineHits, 1);
                found.close(kit);
            }
        }
    }

    /// The places where services over datagrams are served, in the order in which they were added.
    pub(crate) fn bound(&mut self) -> &mut Vec<Bound> {
        &mut self.bound
    }

    /// The sockets there, each with its service.
    pub(crate) fn served(&self) -> Vec<(u16, SocketId)> {
        self.bound.iter().filter_map(|bound| Some((bound.service, bound.socket?))).collect()
    }

    /// Where the lane is served and flows come, and the sockets there.
    pub(crate) fn open_places(&self) -> impl Iterator<Item = (TransportAddress, Socket)> {
        self.bound.iter().filter_map(|bound| {
            let id = bound.socket?;
            let socket = self.open.get(id.into())?.socket?;
            Some((TransportAddress::of(Transport::Udp, &bound.address)?, socket))
        })
    }

    /// The sockets of all places where services are served.
    pub(crate) fn served_sockets(&self) -> impl Iterator<Item = Socket> {
        self.bound.iter().filter_map(|bound| self.open.get(bound.socket?.into())?.socket)
    }

    /// Takes a closed socket away from the place that it was bound at, if it was one of those; returns where.
    pub(crate) fn unbind(&mut self, id: SocketId) -> Option<Address> {
        let bound = self.bound.iter_mut().find(|bound| bound.socket == Some(id))?;
        bound.socket = None;
        Some(bound.address.clone())
    }

    /// Those at which something came are to be asked what was dropped there.
    pub(crate) fn drops_are_due(&mut self) {
        self.drops.ask_heard();
    }

    /// Asks those that are to be asked.
    pub(crate) fn count_drops(&mut self, states: &[ServiceState], driver: &dyn Driver) {
        while let Some(id) = self.drops.next() {
            // It may have closed since.
            let Some(found) = self.found(states, id) else { continue };
            let packets = found.entry.socket.and_then(|socket| driver.dropped(socket));
            let more = found.entry.dropped.asked(packets);
            found.count(ServiceCounter::TrainsDropped, more as usize);
        }
    }
}

impl FoundSocket<'_> {
    pub(crate) fn service(&self) -> u16 {
        self.entry.service
    }

    /// Whether the service is served here: what arrives was selected for this lane.
    pub(crate) fn is_served(&self) -> bool {
        self.entry.is_served
    }

    pub(crate) fn count(&self, counter: ServiceCounter, by: usize) {
        self.state.row.add(counter, by as u64);
    }

    /// Has it looked at when this turn is flushed.
    pub(crate) fn mark(&mut self) {
        if !std::mem::replace(&mut self.entry.is_dirty, true) {
            self.dirty.push(self.id);
        }
    }

    /// It is open, or could not be opened; returns whether its service is to hear of that.
    pub(crate) fn opened(&mut self, opened: Option<(Socket, Address)>, flows: Option<&Flows>, draining: bool) -> bool {
        let entry = &mut *self.entry;
        assert!(entry.socket.is_none(), "a socket opens once");
        (entry.socket, entry.local) = opened.unzip();
        let ends = entry.peer.as_ref().and_then(Address::inet).zip(entry.local.as_ref().and_then(Address::inet));
        entry.flow = ends.and_then(|(peer, local)| flows?.flow(peer, local, Protocol::UDP));
        entry.draining = draining;
        !entry.closing
    }

    /// Takes out what is not of its only peer, if it has one.
    pub(crate) fn take_out_strange(&self, batch: &mut Datagrams) {
        if let Some(only) = &self.entry.peer {
            batch.retain(|arrival| !is_strange(only, &arrival.peer));
        }
    }

    /// A receive has ended. Returns what the service may answer with, if the batch is for it.
    pub(crate) fn arrived(
        &mut self,
        kit: &mut Kit,
        flows: Option<&Flows>,
        batch: &Datagrams,
        fault: Option<Fault>,
    ) -> Option<Replies> {
        let entry = &mut *self.entry;
        assert!(entry.batch.is_none(), "a receive ends that was begun");
        entry.waits_for_memory = fault.is_some_and(|fault| fault.reason == Reason::NoMemory);
        entry.drain_rounds += u32::from(entry.draining);
        let found_nothing = batch.is_empty() && fault == Some(Fault::CANCELLED);
        entry.settled |= entry.takes_what_is_there() && (found_nothing || entry.drain_rounds > DRAIN_ROUNDS);
        if batch.is_empty() || entry.closing {
            return None;
        }
        self.count_arrivals(flows, batch, kit.lane());
        self.drops.hear(kit, self.id, &mut self.entry.dropped);
        Some(self.take_replies())
    }

    fn count_arrivals(&self, flows: Option<&Flows>, batch: &Datagrams, lane: usize) {
        let (mut datagrams, mut trains, mut bytes, mut strays) = (0, 0, 0, 0);
        for arrival in batch.arrivals() {
            let is_stray = |flows: &Flows| flows.is_stray(self.entry.arrival_flow(Some(flows), arrival), lane);
            if self.entry.is_served && flows.is_some_and(is_stray) {
                strays += arrival.datagrams();
            }
            datagrams += arrival.datagrams();
            trains += 1;
            bytes += arrival.bytes();
        }
        // The strays first: who sees the arrivals in the page sees how many of them were strays.
        self.count(ServiceCounter::Strays, strays);
        self.count(ServiceCounter::DatagramReceives, 1);
        self.count(ServiceCounter::DatagramsIn, datagrams);
        self.count(ServiceCounter::TrainsIn, trains);
        self.count(ServiceCounter::BytesIn, bytes);
    }

    /// The service has had a batch. While it is served that is still the lane's: its block is as large as what a service may hold of the
    /// reserve, and larger, and nothing would be left of that for answers. What the service keeps of it is the service's own.
    pub(crate) fn served(&mut self, batch: &Datagrams, replies: Replies) {
        batch.charge(self.state.payers.own);
        self.put_back(replies);
    }

    /// The storage of a receive is back, and empty.
    pub(crate) fn keep_batch(&mut self, batch: Datagrams) {
        assert!(batch.is_empty() && self.entry.batch.is_none(), "one batch for arrivals, and none in it");
        self.entry.batch = Some(batch);
        self.mark();
    }

    /// A send has ended; what is not released counts for what may wait until it is.
    pub(crate) fn departed(&mut self, trains: Trains, datagrams: u32, refused: u32, calls: u32, is_released: bool) {
        assert!(self.entry.spare.is_none(), "a send ends that was begun");
        assert!(trains.is_empty(), "the storage of a send comes back empty");
        self.entry.spare = Some(trains);
        if !is_released {
            self.gathered().hold(datagrams as usize);
        }
        self.count(ServiceCounter::DatagramsOut, datagrams as usize);
        self.count(ServiceCounter::DatagramSends, calls as usize);
        if refused > 0 {
            self.count(ServiceCounter::DatagramsRefused, refused as usize);
        }
    }

    /// The memory of the oldest send that was not released is. Returns whether there is room where there was none, or too little.
    pub(crate) fn released(&mut self) -> bool {
        self.gathered().release()
    }

    fn gathered(&mut self) -> &mut Replies {
        // reason: away only during a call into its service, and the driver brings nothing within one.
        self.entry.replies.as_mut().expect("what was sent is told between calls")
    }

    /// What the network said, if the service is to hear of it.
    pub(crate) fn news(&self, fault: Option<Fault>) -> Option<Fault> {
        let fault = fault.filter(is_news).filter(|_| !self.entry.closing)?;
        self.count(ServiceCounter::DatagramFaults, 1);
        Some(fault)
    }

    /// Takes what is sent from it for a call into its service, which goes on sending, if all has left.
    pub(crate) fn take_if_all_left(&mut self) -> Option<Replies> {
        let entry = &*self.entry;
        (!(entry.is_waiting() || entry.is_held() || entry.draining || entry.closing)).then(|| self.take_replies())
    }

    fn take_replies(&mut self) -> Replies {
        // reason: away only during a call into its service, and no call comes within another.
        self.entry.replies.take().expect("what waits to be sent is here between calls")
    }

    /// The call is over.
    pub(crate) fn put_back(&mut self, replies: Replies) {
        assert!(self.entry.replies.is_none(), "what was taken for a call is put back");
        self.entry.replies = Some(replies);
    }

    /// After a departure: unless nothing is to be done before something arrives, it is looked at again.
    pub(crate) fn mark_unless_at_rest(&mut self) {
        if !self.entry.is_at_rest() {
            self.mark();
        }
    }

    /// Sends what its service left there, and receives again if that has left.
    fn flush(&mut self, kit: &mut Kit) {
        assert!(self.entry.is_dirty, "who is flushed was marked");
        self.entry.is_dirty = false;
        self.send(kit);
        self.receive(kit);
    }

    fn send(&mut self, kit: &mut Kit) {
        let handle = self.handle();
        // reason: away only during a call into its service, and nothing is flushed within one.
        let replies = self.entry.replies.as_mut().expect("what waits to be sent is here between calls");
        let (refused, bound_hits) = (std::mem::take(&mut replies.refused), std::mem::take(&mut replies.bound_hits));
        if let Some(socket) = self.entry.socket.filter(|_| !self.entry.closed && !replies.trains.is_empty())
            && let Some(spare) = self.entry.spare.take()
        {
            let Gathered { trains, bytes, forwarded } = replies.take(spare);
            self.count(ServiceCounter::TrainsOut, trains.trains().len());
            self.count(ServiceCounter::BytesOut, bytes);
            self.count(ServiceCounter::BytesForwarded, forwarded);
            kit.submit(handle, DatagramOp::Send { socket, trains });
        }
        assert!(refused > 0 || bound_hits == 0, "a bound that is hit refuses something");
        if refused > 0 {
            self.count(ServiceCounter::DatagramsRefused, refused);
            self.count(ServiceCounter::DatagramsWaitingMaxHits, bound_hits);
        }
    }

    /// Receives unless answers still wait for an earlier send, or could not be gathered: so a slow path pushes back, and answers stay bounded.
    fn receive(&mut self, kit: &mut Kit) {
        let handle = self.handle();
        let entry = &mut *self.entry;
        // One that is being opened begins when it is open, one with answers goes on when they have left.
        let Some(socket) = entry.socket.filter(|_| !entry.is_waiting()) else { return };
        if entry.closing {
            // The storage of a send comes back when it has ended.
            if entry.spare.is_some() {
                self.close(kit);
            }
            return;
        }
        // The service's own peers may have the answer to what it is asked; who asks it anew comes too late.
        let takes = !(entry.settled && entry.is_served || entry.is_held());
        if let Some(into) = entry.batch.take_if(|_| takes) {
            kit.submit(handle, DatagramOp::Receive { socket, into });
            if entry.takes_what_is_there() && !entry.waits_for_memory {
                kit.submit(handle, Op::StopReceive { socket });
            }
        }
    }

    /// Closes it whatever is under way on it.
    fn close(&mut self, kit: &mut Kit) {
        if let Some(socket) = self.entry.socket.filter(|_| !self.entry.closed) {
            self.entry.closed = true;
            self.drops.ask_at_last(self.id);
            kit.submit(self.handle(), Op::Close { socket, reset: false });
        }
    }

    /// Has it closed once what waits there has left; its service hears no more of it.
    pub(crate) fn close_behind(&mut self) {
        assert!(self.entry.closing || !self.entry.closed, "nothing closes that was not to be closed");
        self.entry.closing = true;
        self.mark();
    }

    fn drain(&mut self, kit: &mut Kit) {
        assert!(self.entry.closing || !self.entry.closed, "nothing closes that was not to be closed");
        self.entry.draining = true;
        // One whose close is under way receives no more.
        if let Some(socket) = self.entry.socket.filter(|_| self.entry.batch.is_none() && !self.entry.closed) {
            kit.submit(self.handle(), Op::StopReceive { socket });
        }
        self.mark();
    }

    fn handle(&self) -> Handle {
        Handle::new(class::DATAGRAMS, self.id.index, self.id.generation)
    }
}
