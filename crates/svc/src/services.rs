//! A lane's services as the work of that lane: sorts what the driver brings, and keeps the order of a turn.

use crate::accounts::Payers;
use crate::class;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::limits::Limits;
use crate::notices::{Note, Notice};
use crate::places::Sharing;
use crate::port::{DatagramSockets, Port, Sessions};
use crate::post::Post;
use crate::requests::{Ended, Submitter};
use crate::service::{DatagramService, StreamService};
use crate::sockets::Bound;
use crate::state::ServiceState;
use crate::steering::{Steer, Steering};
use crate::table::LaneTable;
use crate::talk::Talk;
use crate::timers::Timer;
use crate::transform::MakeTransform;
use corelane_lane::{Channels, Ear, Fenced, Kit, Mesh, Work};
use corelane_seam::parcel::{AbroadLimits, Parcel, Post as Home};
use corelane_seam::{Address, Arena, Completion, DatagramOutcome, Driver, Handle, OffloadResult, Outcome, StreamOutcome};
use corelane_watch::{ConnectionRows, Declaration, LaneCounter, ServiceRow};
use std::any::TypeId;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// Connections of all services that a lane has at once, unless set otherwise.
pub const LANE_CONNECTIONS_MAX: u32 = 100_000;

/// All services of one lane, their connections and sockets.
pub struct Services {
    pub(crate) ports: Vec<Port>,
    pub(crate) table: LaneTable,
    /// Handshake steps that this turn has taken or put off.
    pub(crate) handshake_steps: u32,
    pub(crate) drain_deadline: u64,
    pub(crate) steering: Steering,
    pub(crate) drain_is_over: bool,
    /// In a drain: no lane of the program has anything left to do.
    pub(crate) lanes_are_quiet: bool,
    /// Where the services find themselves on other lanes, and the number of this one; none where there are no others, and from the first
    /// turn on.
    exchange: Option<(usize, Exchange)>,
    /// The services that talk, by number.
    pub(crate) talking: Vec<u16>,
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
            ports: Vec::new(),
            table: LaneTable::new(connections_max),
            handshake_steps: 0,
            drain_deadline: u64::MAX,
            steering: Steering::default(),
            drain_is_over: false,
            lanes_are_quiet: false,
            exchange: None,
            talking: Vec::new(),
            lends: false,
            has_news: true,
            started: false,
        }
    }

    /// Tells the lane how many descriptors it can have open; by default, one for each connection. One peer may have half of the
    /// connections for which there is room, unless a limit says otherwise
    /// ([`Limits::connections_per_peer_max`](crate::Limits::connections_per_peer_max)).
    pub fn descriptors(&mut self, descriptors: u64) {
        self.table.connections.share_descriptors(descriptors);
    }

    /// The rows of the page in which the lane says of each connection since when it is there, and how it ends.
    pub fn set_connection_rows(&mut self, rows: ConnectionRows) {
        self.table.desk.rows = Some(rows);
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
    pub fn open_abroad(&self, arena: &Arena, limits: AbroadLimits, home: &Home) -> Option<Mesh<Parcel>> {
        let (lane, exchange) = self.exchange.as_ref().filter(|_| self.lends)?;
        // reason: lanes are at most 1,024.
        arena.open_abroad(u16::try_from(*lane).expect("a lane's number fits"), limits, home);
        Some(exchange.homeward(*lane))
    }

    /// The lane carries out what whoever steers tells it by this ear.
    pub fn set_ear(&mut self, ear: Ear<Steer>) {
        self.steering.ear = Some(ear);
    }

    /// Adds a service over connections; returns its number, for [`Services::listen`].
    ///
    /// # Panics
    /// If the page of `row` was not made for as many counters as the service declares.
    pub fn add_stream<S: StreamService>(&mut self, service: S, limits: Limits, row: ServiceRow) -> u16 {
        assert_declared::<S>(S::COUNTERS, &row);
        let session = TypeId::of::<S::Session>();
        let post = self.post();
        self.add(Port::Stream(Box::new(Sessions::new(service, post))), limits, row, Some(session))
    }

    /// Adds a function that makes the transforms of a service over connections, of accepted ones and of those it opens, from the next one on. Functions that
    /// were added before are asked first.
    ///
    /// # Panics
    /// If the number is not that of a service over connections of this lane.
    pub fn transform(&mut self, service: u16, make: MakeTransform) {
        let port = self.ports.get_mut(usize::from(service)).and_then(Port::stream);
        // reason: documented.
        port.expect("only a service over connections has transforms").add_transform(make);
    }

    /// Has what `wrap` makes of them, in place of the functions that were added before, make the transforms of a service over connections: for one that hands over
    /// to another.
    ///
    /// # Panics
    /// As [`Services::transform`].
    pub fn wrap_transforms(&mut self, service: u16, wrap: impl FnOnce(MakeTransform) -> MakeTransform + 'static) {
        let port = self.ports.get_mut(usize::from(service)).and_then(Port::stream);
        // reason: documented.
        port.expect("only a service over connections has transforms").wrap_transforms(Box::new(wrap));
    }

    /// Adds a service over datagrams; returns its number, for [`Services::bind`].
    ///
    /// # Panics
    /// As [`Services::add_stream`].
    pub fn add_datagrams<S: DatagramService>(&mut self, service: S, limits: Limits, row: ServiceRow) -> u16 {
        assert_declared::<S>(S::COUNTERS, &row);
        let post = self.post();
        self.add(Port::Datagram(Box::new(DatagramSockets::new(service, post))), limits, row, None)
    }

    /// The post of the service that is added next.
    fn post<T: Talk>(&mut self) -> Post<T> {
        let service = self.ports.len() as u16;
        if T::HAS_CHANNELS {
            self.talking.push(service);
        }
        self.lends |= T::HAS_PARCELS;
        match &self.exchange {
            Some((lane, exchange)) => exchange.post(service, *lane),
            None => Post::new(None),
        }
    }

    fn add(&mut self, port: Port, limits: Limits, row: ServiceRow, session_type: Option<TypeId>) -> u16 {
        assert_eq!(self.ports.len(), self.table.services.len(), "each service has its state");
        assert!(self.ports.len() < usize::from(u16::MAX), "a service has a number");
        self.ports.push(port);
        self.table.services.push(ServiceState {
            limits,
            row,
            open: 0,
            awaits_offload: false,
            handshakes: Cell::new(0),
            sockets: 0,
            waiting: Default::default(),
            session_type,
            alarms: Default::default(),
            accepted: Default::default(),
            payers: Payers::NONE,
            local: None,
            bursts: Default::default(),
            told_of_unanswered: false,
        });
        self.ports.len() as u16 - 1
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
        let index = self.table.listeners.add(service, address.into(), sharing);
        let local = self.open_listener(driver, index).inspect_err(|_| self.table.listeners.forget(index))?;
        self.table.listeners.set_address(index, local.clone());
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
        let bound = self.table.sockets.bound();
        let index = bound.len();
        assert!(usize::from(service) < self.ports.len(), "a place is bound for a service that is there");
        bound.push(Bound { socket: None, service, address, sharing });
        let local = self.open_bound(driver, index).inspect_err(|_| self.table.sockets.bound().truncate(index))?;
        self.table.sockets.bound()[index].address = local.clone();
        Ok(local)
    }

    /// Connections that are open, or being opened or closed.
    pub fn connections(&self) -> usize {
        self.table.connections.len()
    }

    /// How often a connection or a datagram socket was looked up in its table. Only in builds with debug assertions, for the test that a
    /// request looks its entry up at most four times.
    #[cfg(debug_assertions)]
    pub fn look_ups(&self) -> u64 {
        self.table.connections.look_ups() + self.table.sockets.look_ups()
    }

    fn request_completed(&mut self, kit: &mut Kit, handle: Handle, completion: Completion) {
        if !completion.more && matches!(completion.outcome, Outcome::Released) {
            return;
        }
        let requests = &mut self.table.requests;
        let told = match completion.more {
            true => requests.told(handle, completion.outcome),
            false => requests.end(kit, handle, completion.outcome),
        };
        let Some(Ended { service, asker, outcome }) = told else {
            return kit.row.add(LaneCounter::CompletionsStale, 1);
        };
        let token = match asker {
            Submitter::Service(token) => token,
            Submitter::Output(id) => return self.fetched(kit, id, outcome),
        };
        self.tell_bursts(kit, service);
        let outcome = unfence(outcome);
        self.service_call(kit, service, |port, cx| port.completed(cx, token, outcome));
    }

    /// Counts and reports the panics that the lane did not see.
    fn tell_bursts(&mut self, kit: &mut Kit, service: u16) {
        let bursts = &self.table.services[service as usize].bursts;
        if bursts.load(Ordering::Relaxed) == 0 {
            return;
        }
        for _ in 0..bursts.swap(0, Ordering::Relaxed) {
            self.report_panic(kit, service, None, "an offloaded call panicked as it was dropped");
        }
    }

    /// In the lane's first turn: tells the services.
    fn start(&mut self, kit: &mut Kit) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        if let Some((lane, exchange)) = self.exchange.take() {
            assert_eq!(lane, kit.lane(), "services turn on the lane that they were made for");
            exchange.close(lane);
        }
        self.table.open_payers(&kit.arena, kit.payer());
        for service in 0..self.ports.len() as u16 {
            self.service_call(kit, service, |port, cx| port.started(cx));
        }
    }

    /// Calls the services whose alarms have come, and tells the lane when the next one comes.
    fn ring_alarms(&mut self, kit: &mut Kit) {
        if kit.now() >= kit.alarm {
            for service in 0..self.ports.len() as u16 {
                self.ring_alarms_of(kit, service);
            }
        }
        kit.alarm = self.table.services.iter().map(|state| state.alarms.first()).min().unwrap_or(u64::MAX);
    }

    fn ring_alarms_of(&mut self, kit: &mut Kit, service: u16) {
        self.table.services[service as usize].alarms.come(kit.now());
        while let Some(token) = self.table.services[service as usize].alarms.next_due() {
            self.service_call(kit, service, |port, cx| port.alarm(cx, token));
        }
    }

    fn timer_expired(&mut self, handle: Handle) {
        let timer = Timer::of(handle);
        let LaneTable { connections, timers, notices, .. } = &mut self.table;
        // It may have been stopped since it came.
        let Some(to) = timers.owner(timer) else { return };
        // reason: its timers end with it.
        let connection = connections.find(to).expect("a connection takes its timers with it");
        let token = timers.come(timer, &mut connection.timers);
        notices.push_back(Note { to, from: connection.service(), notice: Notice::Timer(token) });
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

/// An offloaded call's value leaves the fence that [`Cx::offload`](crate::Cx::offload) put around it.
fn unfence(outcome: Outcome) -> Outcome {
    let Outcome::Offloaded(OffloadResult(value)) = outcome else { return outcome };
    // reason: no other call is offloaded by this layer.
    Outcome::Offloaded(value.downcast::<Fenced<OffloadResult>>().expect("an offloaded value comes fenced").into_inner())
}

impl Work for Services {
    fn name(&self) -> &'static str {
        "services"
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        for &service in &self.talking {
            if let Some(channels) = self.ports[service as usize].any_mut().mail_mut().channels() {
                each(channels);
            }
        }
    }

    fn complete(&mut self, kit: &mut Kit, completion: Completion) {
        let handle = completion.handle;
        // Of what has left, nothing follows but for connections and sockets that are marked.
        self.has_news |= !matches!(
            completion.outcome,
            Outcome::Stream(StreamOutcome::Sent { .. }) | Outcome::Datagram(DatagramOutcome::Departed { .. })
        );
        match handle.class() {
            class::CONNECTION => self.connection_completed(kit, completion),
            class::LISTENER => self.listener_completed(kit, completion),
            class::DATAGRAMS => self.datagrams_completed(kit, completion),
            class::REQUEST => self.request_completed(kit, handle, completion),
            class::ROUTE => self.route_completed(kit, completion),
            class::FILE => self.table.requests.file_closed(),
            class::UNADMITTED if matches!(completion.outcome, Outcome::Closed) => self.table.connections.turned_away(),
            _ => {}
        }
    }

    fn serve(&mut self, kit: &mut Kit) {
        self.has_news = false;
        self.start(kit);
        self.start_listening(kit);
        self.table.revive_starved(&kit.arena, kit.now());
        self.handshake_steps = 0;
        self.serve_ready(kit);
        self.settle_lost_tickets(kit);
        self.serve_notices(kit);
        self.admit_after_handshakes(kit);
        self.ring_alarms(kit);
    }

    fn expired(&mut self, kit: &mut Kit, handle: Handle) {
        match handle.class() {
            class::DEADLINE => self.deadline_came(kit, handle),
            class::TIMER => self.timer_expired(handle),
            class::ACCEPT_AGAIN => self.accept_timer(kit, handle),
            class::DRAIN => self.drain_timer(kit),
            class::LEAVE => self.leave_timer(kit),
            class::COUNTS => self.steering.read_counts(kit, &self.table.services),
            class::MEMORY => self.memory_timer(),
            class::DROPS => self.table.sockets.drops_are_due(),
            other => unreachable!("no timer has the class {other}"),
        }
    }

    fn take_messages(&mut self, kit: &mut Kit, at_most: usize) -> usize {
        self.serve_post(kit, at_most)
    }

    fn hear(&mut self, kit: &mut Kit, driver: &mut dyn Driver) {
        self.talking.iter().for_each(|&service| self.ports[service as usize].any_mut().mail_mut().listen());
        let Some(mut ear) = self.steering.ear.take() else { return };
        ear.take().for_each(|word| self.steer(kit, driver, word));
        self.steering.ear = Some(ear);
    }

    fn flush(&mut self, kit: &mut Kit) {
        // Before the calls for whole services, so that who is called because there is a place finds it.
        self.table.revive_offloading(kit);
        if self.table.nudges.are_due() {
            self.serve_nudges(kit);
        }
        self.serve_notices(kit);
        self.flush_dirty(kit);
        self.table.sockets.flush(&self.table.services, kit);
        self.table.requests.close_unheld(kit);
        self.table.revive_starved(&kit.arena, kit.now());
        self.relieve(kit);
    }

    fn look(&mut self, driver: &dyn Driver) {
        self.table.sockets.count_drops(&self.table.services, driver);
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.table.has_work() || self.post_has_work()
    }

    fn has_news(&self) -> bool {
        // Who waits for memory may have it now.
        self.has_news || self.has_work() || self.table.desk.memory.waits()
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
        assert!(self.table.draining && !self.lanes_are_quiet, "lanes agree once, in a drain");
        self.lanes_are_quiet = true;
        self.table.sockets.close_all(&self.table.services);
        self.table.requests.end_watches(kit);
    }

    fn end(&mut self, kit: &mut Kit) {
        self.end_post(kit);
        self.discard_all(kit);
    }
}
