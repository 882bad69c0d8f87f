//! A lane's services as the work of that lane: sorts what the driver brings, and keeps the order of a turn.

mod accepting;
mod crowd;
mod datagrams;
mod drain;
mod fence;
mod handshakes;
mod life;
mod moving;
mod postal;
mod relief;
mod served;
mod steered;

use crate::datagrams::sockets::Bound;
use crate::limits::Limits;
use crate::places::Sharing;
use crate::places::steering::{Steer, Steering};
use crate::post::Post;
use crate::post::exchange::Exchange;
use crate::service::face::{DatagramSockets, Face, Sessions};
use crate::service::{DatagramService, StreamService};
use crate::services::served::Served;
use crate::state::ServiceState;
use crate::state::accounts::Payers;
use crate::state::shares::Shares;
use crate::words::class;
use crate::words::error::Error;
use crate::words::names::ConnectionId;
use crate::words::talk::Talk;
use crate::words::transform::MakeTransform;
use corelane_lane::{Bursts, Channels, Ear, Kit, Mesh, Work};
use corelane_seam::parcel::{AbroadLimits, Parcel, ParcelHome};
use corelane_seam::{Address, Arena, Completion, DatagramOutcome, Driver, Handle, Outcome, Reason, StreamOutcome};
use corelane_watch::{ConnectionRows, Declaration, LaneCounter, ServiceRow};
use std::any::TypeId;
use std::cell::{Cell, RefCell};

/// Connections of all services that a lane has at once, unless set otherwise.
pub const LANE_CONNECTIONS_MAX: u32 = 100_000;

/// All services of one lane, their connections and sockets.
pub struct Services {
    pub(crate) served: Served,
    pub(crate) drain_deadline: u64,
    pub(crate) steering: Steering,
    pub(crate) drain_is_over: bool,
    /// In a drain: no lane of the program has anything left to do.
    pub(crate) lanes_are_quiet: bool,
    /// Where the services find themselves on other lanes, and the number of this one; none where there are no others, and from the first
    /// turn on.
    exchange: Option<(usize, Exchange)>,
    /// One of them lends memory of the lane to others.
    lends: bool,
    /// Something completed since the services were served, and it may concern more than what is marked.
    has_news: bool,
    /// The services have been told that their lane turns.
    started: bool,
}

impl Services {
    /// No service yet; at most `connections_max` connections in all.
    pub fn new(connections_max: u32) -> Self {
        Self {
            served: Served::new(connections_max),
            drain_deadline: u64::MAX,
            steering: Steering::default(),
            drain_is_over: false,
            lanes_are_quiet: false,
            exchange: None,
            lends: false,
            has_news: true,
            started: false,
        }
    }

    /// Tells the lane how many descriptors it can have open; by default, one for each connection. One peer may have half of the
    /// connections for which there is room, the next one half of the rest, unless a limit says otherwise
    /// ([`Limits::connections_per_peer_max`](crate::Limits::connections_per_peer_max)).
    pub fn descriptors(&mut self, descriptors: u64) {
        self.served.table.connections.share_descriptors(descriptors);
    }

    /// The rows of the page in which the lane says of each connection since when it is there, and how it ends.
    pub fn set_connection_rows(&mut self, rows: ConnectionRows) {
        self.served.table.agenda.write_rows(rows);
    }

    /// Connects the services that are added from now on with themselves on the other lanes. This is lane `lane`.
    pub fn set_exchange(&mut self, lane: usize, exchange: Exchange) {
        self.exchange = Some((lane, exchange));
    }

    /// Opens the lane's memory to other lanes, within `limits`, if a service lends some of it ([`Talk::HAS_PARCELS`]); what it lends comes home to `home`.
    /// Returns the lane's ends of the channels for that, which a [`Homing`](corelane_lane::Homing) behind these services is to have. None, and nothing is opened, where no
    /// service lends. To be called when all services are added.
    ///
    /// # Panics
    /// If the arena is open already.
    pub fn open_abroad(&self, arena: &Arena, limits: AbroadLimits, home: &ParcelHome) -> Option<Mesh<Parcel>> {
        let (lane, exchange) = self.exchange.as_ref().filter(|_| self.lends)?;
        // reason: lanes are at most 1,024.
        arena.open_abroad(u16::try_from(*lane).expect("a lane's number fits"), limits, home);
        Some(exchange.homeward(*lane))
    }

    /// The lane carries out what whoever steers tells it by this ear.
    pub fn set_ear(&mut self, ear: Ear<Steer>) {
        self.steering.line = Some(ear.line());
        self.steering.ear = Some(ear);
    }

    /// Adds a service over connections; returns its number, for [`Services::listen`].
    ///
    /// # Panics
    /// If the page of `row` was not made for as many counters as the service declares.
    pub fn add_stream<S: StreamService>(&mut self, service: S, limits: Limits, row: ServiceRow) -> u16 {
        assert_declared::<S>(S::COUNTERS, &row);
        let session = TypeId::of::<S::Session>();
        let (post, bursts) = self.post();
        self.add(Face::Stream(Box::new(Sessions::new(service, post))), bursts, limits, row, Some(session))
    }

    /// Adds a function that makes the transforms of a service over connections, of accepted ones and of those it opens, from the next one on. Functions that
    /// were added before are asked first.
    ///
    /// # Panics
    /// If the number is not that of a service over connections of this lane.
    pub fn transform(&mut self, service: u16, make: MakeTransform) {
        let face = self.served.faces.get_mut(usize::from(service)).and_then(Face::stream);
        // reason: documented.
        face.expect("only a service over connections has transforms").add_transform(make);
    }

    /// Has what `wrap` makes of them, in place of the functions that were added before, make the transforms of a service over connections: for one that hands over
    /// to another.
    ///
    /// # Panics
    /// As [`Services::transform`].
    pub fn wrap_transforms(&mut self, service: u16, wrap: impl FnOnce(MakeTransform) -> MakeTransform + 'static) {
        let face = self.served.faces.get_mut(usize::from(service)).and_then(Face::stream);
        // reason: documented.
        face.expect("only a service over connections has transforms").wrap_transforms(Box::new(wrap));
    }

    /// Adds a service over datagrams; returns its number, for [`Services::bind`].
    ///
    /// # Panics
    /// As [`Services::add_stream`].
    pub fn add_datagrams<S: DatagramService>(&mut self, service: S, limits: Limits, row: ServiceRow) -> u16 {
        assert_declared::<S>(S::COUNTERS, &row);
        let (post, bursts) = self.post();
        self.add(Face::Datagram(Box::new(DatagramSockets::new(service, post))), bursts, limits, row, None)
    }

    /// The post of the service that is added next, and what counts the drops of its values that panic.
    fn post<T: Talk>(&mut self) -> (Post<T>, Bursts) {
        let service = self.served.faces.len() as u16;
        if T::HAS_CHANNELS {
            self.served.talking.push(service);
        }
        self.lends |= T::HAS_PARCELS;
        let bursts = Bursts::default();
        let post = match &self.exchange {
            Some((lane, exchange)) => exchange.post(service, *lane, bursts.clone()),
            None => Post::new(None, bursts.clone()),
        };
        (post, bursts)
    }

    fn add(&mut self, face: Face, bursts: Bursts, limits: Limits, row: ServiceRow, session_type: Option<TypeId>) -> u16 {
        assert_eq!(self.served.faces.len(), self.served.table.services.len(), "each service has its state");
        assert!(self.served.faces.len() < usize::from(u16::MAX), "a service has a number");
        self.served.faces.push(face);
        self.served.table.services.push(ServiceState {
            open: Shares::new(limits.connections_max),
            handshakes: RefCell::new(Shares::new(limits.handshakes_max)),
            limits,
            row,
            awaits_offload: false,
            counts_requests: Cell::new(false),
            sockets: 0,
            waiting: Default::default(),
            session_type,
            alarms: Default::default(),
            payers: Payers::NONE,
            local: None,
            bursts,
            told_of_unanswered: false,
        });
        self.served.faces.len() as u16 - 1
    }

    /// Listens for the service on `address`; returns the address with the port that the system chose.
    ///
    /// # Errors
    /// [`Error::Listen`] with the address and the reason.
    pub fn listen(
        &mut self,
        driver: &mut dyn Driver,
        service: u16,
        address: impl Into<Address>,
        sharing: Sharing,
    ) -> Result<Address, Error> {
        let index = self.served.table.listeners.add(service, address.into(), sharing);
        let local = self.open_listener(driver, index).inspect_err(|_| self.served.table.listeners.forget(index))?;
        self.served.table.listeners.set_address(index, local.clone());
        Ok(local)
    }

    /// Binds a datagram socket for the service; returns the address with the port that the system chose.
    ///
    /// # Errors
    /// [`Error::Listen`] with the address and the reason.
    pub fn bind(
        &mut self,
        driver: &mut dyn Driver,
        service: u16,
        address: impl Into<Address>,
        sharing: Sharing,
    ) -> Result<Address, Error> {
        let address = address.into();
        let bound = self.served.table.sockets.bound();
        let index = bound.len();
        assert!(usize::from(service) < self.served.faces.len(), "a place is bound for a service that is there");
        bound.push(Bound { socket: None, service, address, sharing });
        let local = self.open_bound(driver, index).inspect_err(|_| self.served.table.sockets.bound().truncate(index))?;
        self.served.table.sockets.bound()[index].address = local.clone();
        Ok(local)
    }

    /// Connections that are open, or being opened or closed.
    pub fn connections(&self) -> usize {
        self.served.table.connections.len()
    }

    /// How often a connection or a datagram socket was looked up in its table. Only in builds with debug assertions, for the test that a
    /// request looks its entry up at most four times.
    #[cfg(debug_assertions)]
    pub fn look_ups(&self) -> u64 {
        self.served.table.connections.look_ups() + self.served.table.sockets.look_ups()
    }

    fn connection_completed(&mut self, kit: &mut Kit, completion: Completion) {
        let id = ConnectionId { index: completion.handle.index(), generation: completion.handle.generation() };
        let Some(mut found) = self.served.table.found(id) else {
            return kit.row.add(LaneCounter::CompletionsStale, 1);
        };
        match completion.outcome {
            Outcome::Stream(StreamOutcome::Received(shared)) => found.received(kit, shared),
            Outcome::Stream(StreamOutcome::ReceivedPiped(piped)) => found.received_piped(kit, piped),
            Outcome::Stream(StreamOutcome::Unseen { bytes }) => found.passed_on(kit, bytes),
            Outcome::Stream(StreamOutcome::EndOfStream) => found.peer_finished(),
            Outcome::Stream(StreamOutcome::Filled { lease, fault }) => {
                found.fill_received(kit, lease, fault);
                if let Some(fault) = fault.filter(|_| found.connection.machine().serves_input()) {
                    self.served.receive_failed(kit, id.index, fault);
                }
            }
            Outcome::Stream(StreamOutcome::Sent { bytes, rest, fault }) => {
                found.sent(kit, bytes, rest, completion.released);
                match fault {
                    Some(fault) if fault.reason != Reason::Cancelled => self.served.end_by_fault(kit, id.index, fault),
                    _ => {
                        if let Some(waits) = found.output_left() {
                            self.served.table.touch(waits);
                        }
                    }
                }
            }
            Outcome::Failed(fault) if found.connection.socket().is_none() => self.opening_failed(kit, id.index, fault),
            Outcome::Failed(fault) => {
                found.receive_failed(fault);
                self.served.receive_failed(kit, id.index, fault);
            }
            Outcome::Stream(StreamOutcome::Connected { socket, peer, local }) => {
                self.served.opened(kit, id.index, socket, peer, local)
            }
            Outcome::Closed => self.socket_closed(kit, id.index),
            Outcome::Released => {
                if let Some(waits) = found.released(kit) {
                    self.served.table.touch(waits);
                }
            }
            other => unreachable!("no operation of a connection ends so: {other:?}"),
        }
    }

    /// In the lane's first turn: tells the services.
    fn start(&mut self, kit: &mut Kit) {
        assert!(!std::mem::replace(&mut self.started, true), "services are told once");
        if let Some((lane, exchange)) = self.exchange.take() {
            assert_eq!(lane, kit.lane(), "services turn on the lane that they were made for");
            exchange.close(lane);
        }
        self.served.table.open_payers(&kit.arena, kit.payer());
        for service in 0..self.served.faces.len() as u16 {
            self.served.service_call(kit, service, |face, cx| face.started(cx));
        }
    }
}

/// A page is made from the services' declarations, before the services are. A page made for another service has no counter, or another's, for what this one counts.
fn assert_declared<S>(declared: &[Declaration], row: &ServiceRow) {
    let (service, has) = (std::any::type_name::<S>(), row.own_counters());
    assert!(
        declared.len() == has,
        "{service} declares {} counters, and the page that it is to count in has {has}",
        declared.len()
    );
    let in_order = declared.iter().enumerate().all(|(place, one)| one.place == place);
    assert!(in_order, "{service} declares counters that stand behind another's: remedy: join both (Joined)");
}

impl Work for Services {
    fn name(&self) -> &'static str {
        "services"
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        for &service in &self.served.talking {
            if let Some(channels) = self.served.faces[service as usize].any_mut().mail_mut().channels() {
                each(channels);
            }
        }
    }

    fn complete(&mut self, kit: &mut Kit, completion: Completion) {
        let handle = completion.handle;
        // Of what has left, or is released, nothing follows but for connections and sockets that are marked.
        self.has_news |= !matches!(
            completion.outcome,
            Outcome::Stream(StreamOutcome::Sent { .. }) | Outcome::Datagram(DatagramOutcome::Departed { .. }) | Outcome::Released
        );
        match handle.class() {
            class::CONNECTION => self.connection_completed(kit, completion),
            class::LISTENER => self.listener_completed(kit, completion),
            class::DATAGRAMS => self.datagrams_completed(kit, completion),
            class::REQUEST => self.served.request_completed(kit, handle, completion),
            class::ROUTE => self.route_completed(kit, completion),
            class::FILE => self.served.table.requests.file_closed(&completion.outcome),
            class::UNADMITTED => self.served.table.connections.turned_away(&completion.outcome),
            class::DISCARDED => assert!(matches!(completion.outcome, Outcome::Closed), "a close ends so: {completion:?}"),
            other => unreachable!("no operation has the class {other}: {completion:?}"),
        }
    }

    fn serve(&mut self, kit: &mut Kit) {
        self.has_news = false;
        if let Some(overrun) = kit.take_overrun() {
            self.served.table.tell_overrun(kit, overrun);
        }
        if !self.started {
            self.start(kit);
        }
        if self.served.table.listeners.some_rest() {
            self.served.table.start_listening(kit);
        }
        self.served.table.revive_starved(&kit.arena, kit.now());
        self.served.table.agenda.begin_turn();
        self.served.judge_deliveries(kit);
        self.served.end_broken(kit);
        self.served.serve_ready(kit);
        self.served.settle_lost_tickets(kit);
        self.served.serve_notices(kit);
        self.served.place_after_handshakes(kit.now());
        self.served.ring_alarms(kit);
    }

    fn expired(&mut self, kit: &mut Kit, handle: Handle) {
        match handle.class() {
            class::DEADLINE => self.served.deadline_came(kit, handle),
            class::TIMER => self.served.table.timer_expired(handle),
            class::ACCEPT_AGAIN => self.accept_timer(kit, handle),
            class::DRAIN => self.drain_timer(kit),
            class::LEAVE => self.leave_timer(kit),
            class::COUNTS => self.steering.read_counts(kit, &self.served.table.services),
            class::MEMORY => self.served.table.agenda.memory_mut().timer_came(),
            class::DROPS => self.served.table.sockets.drops_are_due(),
            other => unreachable!("no timer has the class {other}"),
        }
    }

    fn take_messages(&mut self, kit: &mut Kit, at_most: usize) -> usize {
        self.served.serve_post(kit, at_most)
    }

    fn hear(&mut self, kit: &mut Kit, driver: &mut dyn Driver) {
        self.served.talking.iter().for_each(|&service| self.served.faces[service as usize].any_mut().mail_mut().listen());
        let Some(mut ear) = self.steering.ear.take() else { return };
        for word in ear.take() {
            // It may be the first that the lane hears of anything: a connection that arrives calls its service.
            if !self.started {
                self.start(kit);
            }
            self.steer(kit, driver, word);
        }
        self.steering.ear = Some(ear);
    }

    fn flush(&mut self, kit: &mut Kit) {
        // Before the calls for whole services, so that who is called because there is a place finds it.
        self.served.table.revive_offloading(kit);
        if self.served.table.nudges.are_due() {
            self.served.serve_nudges(kit);
        }
        self.served.serve_notices(kit);
        self.served.flush_dirty(kit);
        self.served.table.sockets.flush(&self.served.table.services, kit);
        self.served.table.requests.close_unheld(kit);
        self.served.table.revive_starved(&kit.arena, kit.now());
        self.served.relieve(kit);
        self.served.relieve_tasks(kit);
    }

    fn look(&mut self, driver: &dyn Driver) {
        self.served.table.sockets.count_drops(&self.served.table.services, driver);
        self.served.table.ask_of_deliveries(driver);
    }

    #[inline]
    fn has_work(&self) -> bool {
        let table = &self.served.table;
        table.agenda.has_work()
            || !table.notices.is_empty()
            || table.nudges.are_due()
            || table.sockets.has_work()
            || table.requests.has_unheld()
            || self.served.post_has_work()
    }

    fn has_news(&self) -> bool {
        // Who waits for memory may have it now.
        self.has_news || self.has_work() || self.served.table.agenda.memory().waits()
    }

    fn drain(&mut self, kit: &mut Kit, driver: &mut dyn Driver) {
        self.begin_drain(kit, driver);
    }

    fn has_ended(&self) -> bool {
        self.drain_is_done()
    }

    fn is_quiet(&self, kit: &mut Kit) -> bool {
        self.is_at_rest(kit)
    }

    fn all_are_quiet(&mut self, kit: &mut Kit) {
        assert!(self.served.table.is_draining() && !self.lanes_are_quiet, "lanes agree once, in a drain");
        self.lanes_are_quiet = true;
        self.served.table.sockets.close_all(&self.served.table.services);
        self.served.table.requests.end_watches(kit);
    }

    fn end(&mut self, kit: &mut Kit) {
        self.served.end_post(kit);
        self.served.discard_all(kit);
    }
}
