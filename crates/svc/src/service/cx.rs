//! The lane as a service sees it.

use crate::connection::entry::Connection;
use crate::connection::events::Met;
use crate::connection::found::Found;
use crate::connection::output::Output;
use crate::datagrams::replies::Replies;
use crate::datagrams::sockets::{DatagramSocket, datagram_socket};
use crate::limits::Limits;
use crate::pending::alarms::When;
use crate::pending::nudge::Nudge;
use crate::pending::requests::Watch;
use crate::pending::timers::Timer;
use crate::places::Sharing;
use crate::places::outgoing::{NOWHERE, destination};
use crate::post::Post;
use crate::table::LaneTable;
use crate::table::notices::{Note, Notice};
use crate::words::class;
use crate::words::error::{Error, Refused};
use crate::words::flows::Flow;
use crate::words::names::{ConnectionId, Learned, Peer, SocketId};
use crate::words::talk::{Silent, Talk};
use crate::words::ticket::Ticket;
use crate::words::writer::Writer;
use corelane_lane::tasks::Spawner;
use corelane_lane::{Fenced, Kit};
use corelane_seam::{
    Address, Arena, Arrival, Chain, DatagramOp, Fault, File, FileOp, Handle, Instant, Interest, Lease, Level, OffloadResult,
    OffloadWork, Op, OpenOptions, Record, Segment, Shared, WARM_BYTES_MAX, nanoseconds,
};
use corelane_watch::{Counted, LaneCounter, ServiceCounter};
use std::any::{Any, TypeId};
use std::fmt::Display;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// Where a call into a service happens, before its type is known.
pub(crate) struct Site<'a> {
    kit: &'a mut Kit,
    table: &'a mut LaneTable,
    service: u16,
    current: Option<ConnectionId>,
    socket: Option<SocketId>,
    pub(crate) met: Met,
}

/// The lane as a call into a service sees it: clock, timers, connections, files, tasks, counters, and whom the service may talk to,
/// here and on other lanes.
///
/// `Cx<'_>` alone is for a service that says nothing. Code for any service takes `&mut Cx<'_, impl Talk>`.
pub struct Cx<'a, T: Talk = Silent> {
    pub(crate) kit: &'a mut Kit,
    table: &'a mut LaneTable,
    pub(crate) post: &'a mut Post<T>,
    pub(crate) service: u16,
    pub(crate) current: Option<ConnectionId>,
    socket: Option<SocketId>,
    pub(crate) met: &'a mut Met,
}

impl<'a> Site<'a> {
    pub(crate) fn new(kit: &'a mut Kit, table: &'a mut LaneTable, service: u16, current: Option<ConnectionId>) -> Self {
        // One store: for who asks why a turn takes so long.
        let connection = current.map_or(0, |id| u64::from(id.index) + 1);
        kit.row.set(LaneCounter::Serving, (u64::from(service) + 1) << 32 | connection);
        Self { kit, table, service, current, socket: None, met: Met::default() }
    }

    /// The same, in a call for a datagram socket.
    pub(crate) fn for_socket(self, socket: SocketId) -> Self {
        Self { socket: Some(socket), ..self }
    }

    /// As the service sees it.
    pub(crate) fn with<'b, T: Talk>(&'b mut self, post: &'b mut Post<T>) -> Cx<'b, T> {
        let Self { kit, table, service, current, socket, met } = self;
        Cx { kit, table, post, service: *service, current: *current, socket: *socket, met }
    }
}

impl<K: Talk> Cx<'_, K> {
    /// The time of this turn. It does not change during a call.
    pub fn now(&self) -> Instant {
        Instant::from_nanoseconds(self.kit.now())
    }

    /// The time of day at this turn, since 1970, UTC. If somebody sets the system's clock, even backwards, this follows within a second.
    pub fn time_of_day(&self) -> Duration {
        Duration::from_nanos(self.kit.time_of_day())
    }

    /// The number of this lane, from 0.
    pub fn lane(&self) -> usize {
        self.kit.lane()
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.kit.lanes()
    }

    /// The connection that this call is for.
    ///
    /// # Panics
    /// In calls that are for the service as a whole: `started`, `alarm`, `completed`, `lane_message`, `asked`, `replied`, `room`, `drain_began`,
    /// `ending`, and all of a datagram service.
    pub fn id(&self) -> ConnectionId {
        // reason: documented; a call either has a connection or it has not, by its name.
        self.current.expect("this call is for the service, not for a connection")
    }

    /// The datagram socket that this call is for.
    ///
    /// # Panics
    /// In calls that are for no socket: only `receive`, `opened`, `sent` and `fault` of a datagram service are.
    pub fn socket(&self) -> SocketId {
        // reason: documented; a call either has a socket or it has not, by its name.
        self.socket.expect("this call is for no datagram socket")
    }

    /// The two ends of a connection.
    pub fn peer(&mut self, id: ConnectionId) -> Option<Peer> {
        self.table.find(id).map(|connection| connection.ends().clone())
    }

    /// Whether something has come on a connection of which its service was not told yet: bytes, or the end. It came before whatever the service writes in this call, so it is no answer to that.
    pub fn has_news(&mut self, id: ConnectionId) -> bool {
        self.table.connections.has_news(id)
    }

    /// Whether a connection waits until the lane lends it memory that it was refused: for what its peer has sent, or for what its service
    /// asked for. Then it is not the peer that something is awaited of.
    pub fn waits_for_memory(&mut self, id: ConnectionId) -> bool {
        self.table.find(id).is_some_and(|connection| connection.waits_for_memory())
    }

    /// The other end of a connection, as [`Peer::address`] has it, without a copy. None once the connection has ended, but in the call that tells of that.
    pub fn peer_address(&mut self, id: ConnectionId) -> Option<&Address> {
        let is_own = self.current == Some(id);
        let found = self.table.find(id).filter(|connection| is_own || !connection.machine().has_ended());
        found.map(|connection| &connection.ends().address)
    }

    /// The flow of an arrival in this call's batch. Costs a few nanoseconds; nothing for a socket with a peer.
    ///
    /// # Panics
    /// As for [`Cx::socket`].
    pub fn flow(&mut self, arrival: &Arrival) -> Option<Flow> {
        let id = self.socket();
        self.table.sockets.arrival_flow(self.table.flows.as_ref(), id, arrival)
    }

    /// The lane's memory, for leases of the service's own.
    pub fn arena(&self) -> &Arena {
        &self.kit.arena
    }

    /// An empty lease of at least `capacity` bytes. Its memory is charged to the connection that this call is for, else to the service.
    ///
    /// # Errors
    /// [`Refused::Memory`] if the lane does not lend so much now: leave the request in the input, and the service is called again when the lane
    /// does. [`Refused::TooLarge`] if it never will: refuse the request.
    pub fn lease(&mut self, capacity: usize) -> Result<Lease, Refused> {
        let most = self.kit.arena.lend_max();
        self.kit.arena.lease(capacity).ok_or(if capacity > most { Refused::TooLarge { most } } else { Refused::Memory })
    }

    /// [`Cx::lease`] of `most` bytes, or of fewer, but at least `least`, if the lane does not lend so much now.
    ///
    /// # Errors
    /// As for [`Cx::lease`], about `least` bytes.
    pub fn lease_upto(&mut self, most: usize, least: usize) -> Result<Lease, Refused> {
        let most_ever = self.kit.arena.lend_max();
        let lease = self.kit.arena.lease_upto(most.min(most_ever.max(least)), least);
        lease.ok_or(if least > most_ever { Refused::TooLarge { most: most_ever } } else { Refused::Memory })
    }

    /// Opens a connection to `to` for this service with `session`; [`StreamService::connected`](crate::StreamService::connected)
    /// is called when it is open, [`closed`](crate::StreamService::closed) with `Error` if it cannot be.
    ///
    /// Where flows are steered to lanes, the connection gets a port with which the answers belong to this lane. If there is no such port, the
    /// system chooses one. Both are counted (`connects_home`, `connects_stray`).
    ///
    /// # Errors
    /// [`Error::SessionType`] if the session is not of this service's type; [`Error::Full`] at the bound of connections.
    pub fn connect<T: 'static>(&mut self, to: impl Into<Address>, session: T) -> Result<ConnectionId, Error> {
        self.connect_from(None, to, session)
    }

    /// [`Cx::connect`] to a server that is known by a name, [`Learned::server_name`]. A transform asks the server for that name, and has it prove that it bears it; it finds the name in [`Peer::learned`], and so does the service.
    ///
    /// # Errors
    /// As for [`Cx::connect`].
    pub fn connect_named<T: 'static>(
        &mut self,
        to: impl Into<Address>,
        name: Arc<Learned>,
        session: T,
    ) -> Result<ConnectionId, Error> {
        let ends = Peer { address: to.into(), local: Arc::new(NOWHERE), flow: None, learned: Some(name) };
        self.open(ends, session)
    }

    /// [`Cx::connect`] from one of this machine's addresses; port 0 is chosen in the same way. One address has as many ports for
    /// one peer as `net.ipv4.ip_local_port_range` says (28,232 by default), so more connections need more addresses.
    ///
    /// # Errors
    /// As for [`Cx::connect`].
    pub fn connect_from<T: 'static>(
        &mut self,
        from: Option<Address>,
        to: impl Into<Address>,
        session: T,
    ) -> Result<ConnectionId, Error> {
        let local = Arc::new(from.unwrap_or(NOWHERE));
        self.open(Peer { address: to.into(), local, flow: None, learned: None }, session)
    }

    fn open<T: 'static>(&mut self, ends: Peer, session: T) -> Result<ConnectionId, Error> {
        let state = &self.table.services[self.service as usize];
        if state.session_type != Some(TypeId::of::<T>()) {
            return Err(Error::SessionType { got: std::any::type_name::<T>() });
        }
        if !self.table.has_room(self.service) {
            return Err(Error::Full { connections: self.table.limits(self.service).connections_max });
        }
        let connection = Connection::opening(ends, self.service, self.kit.now());
        let LaneTable { connections, services, agenda, .. } = &mut *self.table;
        let index = connections.admit(services, agenda, connection, &self.kit.arena);
        connections.keep_session(index, Box::new(session));
        self.table.there(index).time_opening(self.kit);
        self.table.begin_connect(self.kit, index);
        Ok(self.table.there(index).id)
    }

    /// How many connections this service may have at once on this lane: its bound (`connections_max`), or the lane's where that is less.
    pub fn connections_max(&self) -> u32 {
        self.table.limits(self.service).connections_max.min(self.table.connections.share().limit)
    }

    /// Has the peer of `payer` pay for what `outgoing` holds from now on, which this service has opened: for one that is opened, or used again, for that peer's sake. So bytes that come on it count for
    /// whoever they are for, and not for the server that many peers share. Memory that it holds already stays with the peer before. Does nothing if one of both has ended, if `outgoing` was accepted, and in
    /// a call for `outgoing` itself.
    pub fn charge_to(&mut self, outgoing: ConnectionId, payer: ConnectionId) {
        if !(self.check_own(outgoing) && self.check_own(payer)) {
            return;
        }
        let LaneTable { connections, services, agenda, .. } = &mut *self.table;
        if [outgoing, payer].iter().all(|one| !connections.there(one.index).machine().has_ended()) {
            connections.charge_to(services, agenda, (outgoing.index, payer.index), &self.kit.arena);
        }
    }

    /// The output of another connection of this service. None once that connection was closed and all of its output has left. None as well
    /// for the connection that this call is for: its output is an argument of the call.
    pub fn connection(&mut self, id: ConnectionId) -> Option<&mut Output> {
        let LaneTable { connections, services, agenda, .. } = &mut *self.table;
        let found = Found::named(connections, services, agenda, id)?;
        if found.connection.service() != self.service {
            services[self.service as usize].row.add(ServiceCounter::NoticesRefused, 1);
            return None;
        }
        if self.current == Some(id) || !found.connection.machine().takes_notices() {
            return None;
        }
        Some(found.offer_output(self.kit))
    }

    /// Opens a datagram socket for this service, at `local` (port 0 lets the system choose). With a `peer`, the socket receives only from it
    /// and sends only to it, and the network's reports come to [`DatagramService::fault`](crate::DatagramService::fault).
    /// [`DatagramService::opened`](crate::DatagramService::opened) is called in the next turn; what is sent before that waits.
    ///
    /// # Errors
    /// [`Error::SocketsFull`] at the bound of sockets, [`Error::NotOverDatagrams`], [`Error::Draining`].
    pub fn open_datagrams(&mut self, local: impl Into<Address>, peer: Option<Address>) -> Result<SocketId, Error> {
        let state = &self.table.services[self.service as usize];
        if state.session_type.is_some() {
            return Err(Error::NotOverDatagrams);
        }
        if self.table.is_draining() {
            return Err(Error::Draining);
        }
        let (sockets, waiting_max) = (state.limits.datagram_sockets_max, state.limits.datagrams_waiting_max);
        if state.sockets >= sockets {
            self.table.count(self.service, ServiceCounter::DatagramSocketsMaxHits, 1);
            return Err(Error::SocketsFull { sockets });
        }
        let peer = peer.map(destination);
        let bind = datagram_socket(local.into(), peer.clone(), Sharing { share_port: false, v6_only: false });
        let socket = self.table.sockets.admit(&mut self.table.services, DatagramSocket::new(self.service, peer, waiting_max));
        self.kit.submit(Handle::new(class::DATAGRAMS, socket.index, socket.generation), DatagramOp::Bind(bind));
        Ok(socket)
    }

    /// The output of a datagram socket of this service, whether it is open yet or not. None for the socket whose output is
    /// an argument of this call (`receive`, `sent`), and for one that is closed or void.
    pub fn datagrams(&mut self, socket: SocketId) -> Option<&mut Replies> {
        self.table.sockets.replies(&self.table.services, socket, self.service)
    }

    /// Closes a datagram socket of this service once everything that waits there has left. No more calls come for it.
    pub fn close_datagrams(&mut self, socket: SocketId) {
        if let Some(mut found) = self.table.sockets.own(&self.table.services, socket, self.service) {
            found.close_behind();
        }
    }

    /// Checks that a connection is there and of this service; one of another is counted.
    fn check_own(&mut self, id: ConnectionId) -> bool {
        let Some(service) = self.table.find(id).map(|connection| connection.service()) else { return false };
        self.table.count(self.service, ServiceCounter::NoticesRefused, (service != self.service).into());
        service == self.service
    }

    /// Couples two connections of this service: each is read only while the other's output has room, and the end of one's
    /// stream is passed on to the other. When one ends for another reason, the other is closed. A connection that one of them was coupled with before goes on
    /// alone. Does nothing if one has ended already.
    pub fn pair(&mut self, a: ConnectionId, b: ConnectionId) {
        self.couple(a, b, false);
    }

    /// [`Cx::pair`] of two whose bytes the service only [forwards](crate::Output::forward), all that one receives to the other: it may ask how many there are ([`Input::len`](crate::Input::len)). Then bulk passes
    /// through pipes of the system's, and not through the lane's memory, where both are over TCP and have no transform. Nobody sees such bytes:
    /// [`Input::first`](crate::Input::first) shows none, and [`Input::contiguous`](crate::Input::contiguous) panics. A [`Next::Fill`](crate::Next::Fill) ends such a connection as aborted.
    pub fn pair_unseen(&mut self, a: ConnectionId, b: ConnectionId) {
        self.couple(a, b, true);
    }

    /// Has the system itself pass on what each of two connections receives to the other, which are a pair by [`Cx::pair_unseen`] (a sockmap): as long as it keeps up, no byte comes to the lane. It begins as soon
    /// as neither has a send under way. From then on all that one receives must be sent to the other, and nothing else. Nothing happens where that is not possible: over Unix sockets, with a
    /// transform, where the driver has no bridge, or no room on it. A service may ask again.
    ///
    /// What was passed on is told by [`Input::unseen`](crate::Input::unseen), in calls of [`StreamService::receive`](crate::StreamService::receive) that may come without a byte: now and then, and in front of an end.
    /// Back-pressure, order and ends are those of a pair.
    pub fn bridge(&mut self, a: ConnectionId, b: ConnectionId) {
        if self.check_own(a) && self.check_own(b) && self.table.connections.there(a.index).pair() == Some(b) {
            [a, b].into_iter().for_each(|one| self.table.connections.there(one.index).wish_bridge());
        }
    }

    fn couple(&mut self, a: ConnectionId, b: ConnectionId, are_unseen: bool) {
        if a == b || !(self.check_own(a) && self.check_own(b)) {
            return;
        }
        if [a, b].iter().any(|one| self.table.connections.there(one.index).machine().has_ended()) {
            return;
        }
        for one in [a, b] {
            self.uncouple(one);
        }
        for (one, other) in [(a, b), (b, a)] {
            self.table.connections.there(one.index).couple(other, are_unseen);
        }
    }

    fn uncouple(&mut self, one: ConnectionId) {
        // Most are coupled with none.
        let Some(other) = self.table.connections.there(one.index).uncouple() else { return };
        // It may have ended just now, with its service being told.
        if let Some(connection) = self.table.find(other).filter(|connection| connection.pair() == Some(one)) {
            connection.uncouple();
            // The reason for its wait may be gone.
            self.table.there(other.index).mark_dirty();
        }
    }

    /// Closes a connection of this service on this lane once its output has left. For a connection of another service, this and each
    /// of the calls below does nothing and is counted (`notices_refused`).
    pub fn close(&mut self, id: ConnectionId) {
        self.tell(id, Notice::Close);
    }

    /// Our side of a connection of this service says no more: it finishes when all output has left, which the peer sees as the end of the stream. The peer's bytes go
    /// to the service as before, until the peer finishes too or the connection is closed. Bytes that are written or answered later never leave, and are counted
    /// (`answers_late`). One that is still being opened finishes so once it is open.
    pub fn finish(&mut self, id: ConnectionId) {
        self.tell(id, Notice::Finish);
    }

    /// Breaks off a connection of this service, as [`Next::Abort`](crate::Next::Abort) does: what has not left is lost.
    pub fn abort(&mut self, id: ConnectionId) {
        self.tell(id, Notice::Abort);
    }

    /// Has [`StreamService::receive`](crate::StreamService::receive) called for a connection of this service on this lane once this call has returned,
    /// though nothing has come: for one whose service said [`Next::Wait`](crate::Next::Wait), or wants to ask for memory in a call for it. Nothing if it has ended.
    pub fn resume(&mut self, id: ConnectionId) {
        self.tell(id, Notice::Resume);
    }

    /// Has all lanes of the program drain and end: they refuse new connections and answer what was asked.
    pub fn drain_program(&mut self) {
        self.kit.drain_program();
    }

    /// Answers a ticket of any connection of this lane. If the connection has ended, that is counted (`answers_late`).
    pub fn answer(&mut self, ticket: Ticket, answer: impl Into<Segment>) {
        let mut chain = Chain::new();
        chain.push(answer);
        self.answer_chain(ticket, chain);
    }

    /// [`Cx::answer`] with a copy of `bytes`, in the memory that the ticket keeps if it is enough.
    ///
    /// # Errors
    /// The ticket, and why there is no memory for the answer ([`Refused`]). Never for an answer that fits into the kept memory ([`Hold::reserve`](crate::Hold::reserve)).
    pub fn answer_bytes(&mut self, mut ticket: Ticket, bytes: &[u8]) -> Result<(), (Ticket, Refused)> {
        let mut writer = self.answer_writer(&mut ticket);
        match writer.put(bytes).and_then(|()| writer.finish()) {
            Ok(answer) => self.answer_chain(ticket, answer),
            Err(refused) => return Err((ticket, refused)),
        }
        Ok(())
    }

    /// Writes the answer to a ticket piece by piece, first into the memory that the ticket keeps. [`Writer::finish`] returns what [`Cx::answer_chain`]
    /// takes.
    pub fn answer_writer(&self, ticket: &mut Ticket) -> Writer {
        Writer::new(self.kit.arena.clone(), ticket.take_reserved())
    }

    /// Writes something else piece by piece, to be pushed or sent.
    pub fn writer(&self) -> Writer {
        Writer::new(self.kit.arena.clone(), None)
    }

    /// [`Cx::answer`] with an answer of several segments.
    pub fn answer_chain(&mut self, ticket: Ticket, answer: Chain) {
        let id = ticket.connection();
        self.tell(id, Notice::Answer { ticket: ticket.spend(), answer });
    }

    pub(crate) fn tell(&mut self, to: ConnectionId, notice: Notice) {
        self.table.notices.add(Note { to, from: self.service, notice });
    }

    /// Has [`StreamService::timer`](crate::StreamService::timer) called for this connection `after` this time, or up to a
    /// millisecond later. A timer ends with its connection.
    ///
    /// # Errors
    /// [`Error::TimersFull`] at the connection's bound of timers (`timers_per_connection_max`, counted in `timers_max_hits`).
    ///
    /// # Panics
    /// As for [`Cx::id`].
    pub fn start_timer(&mut self, after: Duration, token: u64) -> Result<Timer, Error> {
        let (id, deadline) = (self.id(), self.kit.now().saturating_add(nanoseconds(after)));
        self.table.start_timer(self.kit, id, deadline, token)
    }

    /// Stops a timer of this service. Does nothing to one that has come.
    pub fn stop_timer(&mut self, timer: Timer) {
        self.table.stop_timer(self.kit, timer, self.service);
    }

    /// Has [`alarm`](crate::StreamService::alarm) called with `token` in the first turn that begins at or after the given [`Instant`], or this
    /// [`Duration`] from now. It is as exact as the lane's clock, where timers have a millisecond. An alarm is the service's, not a
    /// connection's. It replaces one with the same token, and the call of `alarm` ends it.
    ///
    /// # Errors
    /// [`Error::AlarmsFull`] at the service's bound of alarms (`alarms_max`, counted in `timers_max_hits`), which is at least one.
    pub fn start_alarm(&mut self, when: impl Into<When>, token: u64) -> Result<(), Error> {
        let at = when.into().from(self.now()).nanoseconds();
        let state = &mut self.table.services[self.service as usize];
        let alarms = state.limits.alarms_max;
        if !state.alarms.start(token, at, alarms) {
            state.row.add(ServiceCounter::TimersMaxHits, 1);
            return Err(Error::AlarmsFull { alarms });
        }
        self.kit.alarm = self.kit.alarm.min(at);
        Ok(())
    }

    /// Ends an alarm of this service, if it is set.
    pub fn stop_alarm(&mut self, token: u64) {
        self.table.services[self.service as usize].alarms.stop(token);
    }

    /// In [`closed`](crate::StreamService::closed): why the connection failed, by the word of its socket;
    /// `Cancelled` if it could not be opened in time (`connect_limit`), and `TimedOut` of one that was broken off because its peer has taken nothing for
    /// `send_limit`. None for other endings, and in other calls.
    pub fn fault(&self) -> Option<Fault> {
        self.table.fault()
    }

    /// Runs a future on this lane until it is done. Its panic is counted (`tasks_panicked`); the lane lives on. In a call for a connection it is
    /// one of the connection's tasks, as those are that it spawns itself.
    ///
    /// # Errors
    /// [`Error::TasksFull`] at the bound of tasks, or if the connection's peer has its share of them.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) -> Result<(), Error> {
        let payer = self.kit.arena.payer();
        self.kit.tasks.spawn_for(payer, future).map(drop).map_err(|_| Error::TasksFull)
    }

    /// The part of this lane that tasks may have: to spawn others, and the time.
    pub fn spawner(&self) -> Spawner {
        self.kit.tasks.spawner()
    }

    /// Has the service called once more in this turn, from wherever on this lane ([`nudged`](crate::StreamService::nudged)).
    pub fn nudge(&mut self) -> Nudge {
        self.table.nudges.of(self.service)
    }

    /// Wakes a task. A task of this lane is woken without an atomic operation, and is polled in this turn as far as the turn's bound on tasks allows. Any
    /// other task is woken as its waker does it.
    pub fn wake(&mut self, waker: &Waker) {
        self.kit.tasks.call(waker);
    }

    /// Counts `requests` answered or taken (`requests`): only the service knows what a request is.
    pub fn count_requests(&mut self, requests: usize) {
        self.met.requests |= requests > 0;
        self.kit.note_requests(requests);
        self.table.count(self.service, ServiceCounter::Requests, requests);
    }

    /// Counts `by` more in a counter that the service declares ([`StreamService::COUNTERS`](crate::StreamService::COUNTERS)), or in one that all
    /// services have, if the service itself meets what that counts.
    ///
    /// # Panics
    /// If the service does not declare the counter.
    pub fn count(&mut self, counter: impl Counted, by: usize) {
        counter.add(&self.table.services[self.service as usize].row, by as u64);
    }

    /// Sets a gauge that the service declares.
    ///
    /// # Panics
    /// As [`Cx::count`].
    pub fn set_gauge(&mut self, gauge: impl Counted, value: u64) {
        gauge.set(&self.table.services[self.service as usize].row, value);
    }

    /// Tells the operator something, as one line with the lane and the service before the words. It waits for nobody: a line that finds no room is
    /// lost, and counted (`report_lines_dropped`). A line that others can cause as often as they like is for [`Cx::report_kind`].
    pub fn report(&mut self, level: Level, words: impl Display) {
        let record = self.record(level, words);
        self.kit.report(record);
    }

    /// As [`Cx::report`], but of each kind the lane tells at most one line a second, and how many were left out. There are few kinds, each with a name in
    /// the source.
    pub fn report_kind(&mut self, kind: &'static str, level: Level, words: impl Display) {
        let record = self.record(level, words);
        self.kit.report_kind(kind, record);
    }

    fn record(&self, level: Level, words: impl Display) -> Record {
        let (lane, service) = (self.lane(), self.service);
        Record::new(level, format!("lane {lane}, service {service}: {words}")).naming_lane(lane)
    }

    /// The bounds of this service, for services that find the ends of their records themselves and refuse early what is over a bound.
    pub fn limits(&self) -> &Limits {
        self.table.limits(self.service)
    }

    /// Descriptors that the lane can have open, connections and files together: for services that bound how many files they keep open. With a table that lanes share, all of them
    /// have so many together.
    pub fn descriptors_max(&self) -> u64 {
        self.table.connections.descriptors()
    }

    /// Opens a file, or a directory where `options` say so. [`completed`](crate::StreamService::completed) is called with `token` and either `FileOutcome::Opened`, which gives the
    /// file's length and the time of its last change, or `Failed`. The file closes when its last clone is dropped, wherever that is: in the service, a session, a message,
    /// an operation, or an output.
    pub fn open_file(&mut self, path: PathBuf, options: OpenOptions, token: u64) {
        self.request(FileOp::Open { beneath: None, path, options }, token);
    }

    /// [`Cx::open_file`] beneath a directory that was opened with [`OpenOptions::directory`]: for paths that come from
    /// a peer. Nothing in such a path leads out of the directory: no `..`, no link, no path from the root, and no rename meanwhile. A path that would
    /// ends as `Failed` with `Outside`, or with `Busy` if the system could not tell: then ask again.
    pub fn open_beneath(&mut self, directory: &File, path: PathBuf, options: OpenOptions, token: u64) {
        self.request(FileOp::Open { beneath: Some(directory.clone()), path, options }, token);
    }

    /// Has bytes of a file brought where a send of them ([`FilePart`](corelane_seam::FilePart)) does not wait for the disk: `FileOutcome::Warm`. At once if they are there, else a
    /// helper thread waits. At most 4 MiB at a time, to which more is cut; what is warm stays so for a while, not for ever. `Failed` with what the system says.
    pub fn warm_file(&mut self, file: &File, offset: u64, length: u64, token: u64) {
        self.request(FileOp::Warm { file: file.clone(), offset, length: length.min(WARM_BYTES_MAX) }, token);
    }

    /// Lists a directory that was opened with [`OpenOptions::directory`], `most` names at the most, the first by name, hidden ones last: `FileOutcome::Listed`, which says whether
    /// these are all. `Failed` with what the system says (readdir(3)), as for a file that is no directory. A helper thread reads all names, and keeps no more than `most`: that
    /// is the only bound of their memory, which is not the lane's, so choose it by what the names are for.
    pub fn list_directory(&mut self, directory: &File, most: usize, token: u64) {
        self.request(FileOp::List { directory: directory.clone(), most }, token);
    }

    /// Watches a directory that was opened with [`OpenOptions::directory`]. `FileOutcome::Watched` comes once what happens there will be told, and `FileOutcome::Changed` when
    /// something has: a name in it came, went or means another file, a file in it was written to (but not through mapped memory) or has other rights, or it was itself moved, removed
    /// or closed to others. That is told once: watch again to hear of more. Changes in directories beneath it are not told. When what is returned is dropped before, the
    /// watch ends as `Failed` with `Cancelled`.
    ///
    /// `Failed` with `Busy`: the lane or the user watches as many as may be; with `Unsupported`: others change that file system, who are not heard. Then look at
    /// what lies there from time to time.
    pub fn watch_directory(&mut self, directory: &File, token: u64) -> Watch {
        self.table.requests.watch(self.kit, self.service, directory.clone(), token)
    }

    /// Reads a file from `offset`, and appends to `lease` until that holds `until` bytes, or all that it has room for, or the file ends: `FileOutcome::Filled`, which brings
    /// the lease back in any case, and where nothing was read the fault for that (read(2)); without one the file ends there.
    ///
    /// # Panics
    /// If the lease holds `until` bytes already, or has no room.
    pub fn read_file(&mut self, file: &File, offset: u64, lease: Lease, until: usize, token: u64) {
        let until = until.min(lease.capacity());
        // reason: documented; the driver would take the lane down for it, and not the connection alone.
        assert!(until > lease.len(), "a read until {until} bytes of a lease that holds {}", lease.len());
        self.request(FileOp::Read { file: file.clone(), offset, lease, until }, token);
    }

    /// Writes to a file at `offset`: `FileOutcome::Written` with how many bytes, fewer than all only at a limit of the system (write(2)); or `Failed`, as
    /// where the disk is full. Writes that are under way at once are done in no order.
    pub fn write_file(&mut self, file: &File, offset: u64, bytes: Shared, token: u64) {
        self.request(FileOp::Write { file: file.clone(), offset, bytes }, token);
    }

    /// Brings what was written, and whose outcome has come, to the disk (fsync(2)): `FileOutcome::Done`, or `Failed`: then what was written since the last sync may
    /// be lost, also if another one succeeds.
    pub fn sync_file(&mut self, file: &File, token: u64) {
        self.request(FileOp::Sync { file: file.clone() }, token);
    }

    /// Asks for a place with the lane's helper threads, before [`Cx::offload`]: false if they have as many calls as they may. Then leave the request in
    /// the input; the connection's service is called again when there is a place, whoever's call has ended. In a call that is for no connection keep
    /// what is to be done: [`nudged`](crate::StreamService::nudged) is called then.
    pub fn ask_offload(&mut self) -> bool {
        let has_place = self.table.requests.offload_room(self.kit) > 0;
        match self.current {
            Some(_) => self.met.full_offload |= !has_place,
            None if !has_place => self.table.await_offload(self.service),
            None => {}
        }
        has_place
    }

    /// Runs a call on a helper thread: `Outcome::Offloaded`, or `Failed` with `Busy` where [`Cx::ask_offload`] is false.
    pub fn offload<T: Any + Send>(&mut self, work: impl FnOnce() -> T + Send + 'static, token: u64) {
        // The driver, or one of its helpers, that drops the call or its value unseen is not to end by that.
        let work = Fenced::counted(work, &self.table.services[self.service as usize].bursts);
        let call = move || -> Box<dyn Any + Send> { Box::new(Fenced::new(OffloadResult(Box::new(work.into_inner()())))) };
        self.request(Op::Offload(OffloadWork(Box::new(call))), token);
    }

    /// Waits for a descriptor that the service owns to be ready (poll(2)): `Outcome::Ready` with what it is ready for, once; poll again to hear of more. A descriptor that is always
    /// ready, such as a file, is so at once; one whose other end is gone is ready for whatever was asked. `Failed` for a number that names nothing.
    ///
    /// The number is one of the lane's own table of descriptors (unless `Lanes::own_descriptors` is off): open what is polled on the lane, in a call of the service. The
    /// driver waits with a copy: so the service may close its own meanwhile, and the wait goes on until that is ready. It cannot be taken back; a drain does not wait for it, and with the lane
    /// it ends untold.
    ///
    /// # Panics
    /// If nothing is waited for: neither `read` nor `write`.
    pub fn poll(&mut self, descriptor: i32, interest: Interest, token: u64) {
        // reason: documented; the driver would take the lane down for it, and not the connection alone.
        assert!(interest.read || interest.write, "a poll that waits for nothing");
        self.request(Op::Poll { descriptor, interest }, token);
    }

    fn request(&mut self, op: impl Into<Op>, token: u64) {
        let op = op.into();
        self.table.requests.begin(self.kit, self.service, op, token);
    }
}
