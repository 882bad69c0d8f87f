//! A lane's services as the work of that lane: sorts what the driver brings, and keeps the order of a turn.

use crate::error::Error;
use crate::exchange::Exchange;
use crate::limits::Limits;
use crate::memory::Payers;
use crate::port::{Port, Sessions, Sockets};
use crate::post::Post;
use crate::service::{DatagramService, StreamService};
use crate::steering::{Reply, Selection, Steer};
use crate::table::{Bound, Listener, Note, Notice, ServiceState, Table, class, half};
use crate::talk::Talk;
use corelane_lane::{Channels, Ear, Fenced, Kit, Work};
use corelane_seam::{Completion, Driver, Fault, Handle, OffloadResult, Outcome, Reason};
use corelane_watch::{LaneCounter, ServiceRow};
use std::any::TypeId;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// Connections of all services that a lane has at once, unless set otherwise.
pub const LANE_CONNECTIONS_MAX: u32 = 100_000;

/// All services of one lane, their connections and sockets.
pub struct Services {
    pub(crate) ports: Vec<Port>,
    pub(crate) table: Table,
    pub(crate) ready: Vec<u32>,
    pub(crate) dirty: Vec<u32>,
    pub(crate) drain_deadline: u64,
    /// Where sockets are registered as they open; none where the kernel chooses by itself.
    pub(crate) selection: Option<Box<dyn Selection>>,
    /// Where whoever steers is heard; none where nobody does.
    ear: Option<Ear<Steer>>,
    /// Where the services find themselves on other lanes, and the number of this one; none where there are no others.
    exchange: Option<(usize, Exchange)>,
    /// The services that talk, by number.
    pub(crate) talking: Vec<u16>,
    /// The lane is leaving; whom that is told.
    pub(crate) leaving: Option<Reply>,
    pub(crate) leaving_since: u64,
    /// A timer runs at whose end the counts of the selection are read.
    pub(crate) counts_are_due: bool,
    /// Strays when the counts were last read.
    pub(crate) strays_seen: u64,
    pub(crate) drain_is_over: bool,
    /// In a drain: no lane of the program has anything left to do.
    pub(crate) lanes_are_quiet: bool,
    /// Something has completed since they were served that may concern more than what is marked.
    has_news: bool,
    /// The services have been told that their lane turns.
    started: bool,
}

impl Services {
    /// No service yet; at most `connections_max` connections in all.
    pub fn new(connections_max: u32) -> Self {
        Self {
            ports: Vec::new(),
            table: Table::new(connections_max),
            ready: Vec::new(),
            dirty: Vec::new(),
            drain_deadline: u64::MAX,
            selection: None,
            ear: None,
            exchange: None,
            talking: Vec::new(),
            leaving: None,
            leaving_since: 0,
            counts_are_due: false,
            strays_seen: 0,
            drain_is_over: false,
            lanes_are_quiet: false,
            has_news: true,
            started: false,
        }
    }

    /// Tells the lane how many descriptors it can have open; until then they are as many as connections. One peer may have a half of the
    /// connections for which there is room, if no limit says otherwise
    /// ([`Limits::connections_per_peer_max`](crate::Limits::connections_per_peer_max)).
    pub fn descriptors(&mut self, descriptors: u64) {
        let most = u32::try_from(descriptors).unwrap_or(u32::MAX).min(self.table.connections_max);
        self.table.connections_of_peer_max = half(most);
    }

    /// Has the services that are added from now on find themselves on the other lanes: this is lane `lane`.
    pub fn set_exchange(&mut self, lane: usize, exchange: Exchange) {
        self.exchange = Some((lane, exchange));
    }

    /// Has the lane do what it is told by whoever steers.
    pub fn set_ear(&mut self, ear: Ear<Steer>) {
        self.ear = Some(ear);
    }

    /// Adds a service over connections; answers its number, for [`Services::listen`].
    pub fn add_stream<S: StreamService>(&mut self, service: S, limits: Limits, row: ServiceRow) -> u16 {
        let session = TypeId::of::<S::Session>();
        let post = self.post();
        self.add(Port::Stream(Box::new(Sessions::new(service, post))), limits, row, Some(session))
    }

    /// Adds a service over datagrams; answers its number, for [`Services::bind`].
    pub fn add_datagrams<S: DatagramService>(&mut self, service: S, limits: Limits, row: ServiceRow) -> u16 {
        let post = self.post();
        self.add(Port::Datagram(Box::new(Sockets::new(service, post))), limits, row, None)
    }

    /// The post of the service that is added next.
    fn post<T: Talk>(&mut self) -> Post<T> {
        let service = self.ports.len() as u16;
        if T::HAS_CHANNELS {
            self.talking.push(service);
        }
        match &self.exchange {
            Some((lane, exchange)) => exchange.post(service, *lane),
            None => Post::new(None),
        }
    }

    fn add(&mut self, port: Port, limits: Limits, row: ServiceRow, session_type: Option<TypeId>) -> u16 {
        self.ports.push(port);
        self.table.services.push(ServiceState {
            limits,
            row,
            open: 0,
            sockets: 0,
            waiting: Default::default(),
            session_type,
            alarm: u64::MAX,
            accepted: Default::default(),
            payers: Payers::NONE,
            bursts: Default::default(),
            told_of_unanswered: false,
        });
        self.ports.len() as u16 - 1
    }

    /// Listens for the service on `address`; answers the address with the port that the system chose.
    ///
    /// # Errors
    /// [`Error::Listen`] with the address and the reason.
    pub fn listen(
        &mut self,
        driver: &mut dyn Driver,
        service: u16,
        address: SocketAddr,
        sharing: Sharing,
    ) -> Result<SocketAddr, Error> {
        let index = self.table.listeners.len();
        self.table.listeners.push(Listener {
            socket: None,
            service,
            address,
            sharing,
            accepting: false,
            starved: false,
            accepted_at: 0,
            free_since: 0,
            closing: false,
        });
        self.open_listener(driver, index).inspect_err(|_| self.table.listeners.truncate(index))?;
        let listener = &mut self.table.listeners[index];
        // What was asked for may have left the port to the system.
        let local = listener.socket.and_then(|socket| driver.local_address(socket).ok());
        listener.address = local.unwrap_or(address);
        Ok(listener.address)
    }

    /// Binds a datagram socket for the service; answers the address with the port that the system chose.
    ///
    /// # Errors
    /// [`Error::Listen`] with the address and the reason.
    pub fn bind(
        &mut self,
        driver: &mut dyn Driver,
        service: u16,
        address: SocketAddr,
        sharing: Sharing,
    ) -> Result<SocketAddr, Error> {
        let index = self.table.bound.len();
        self.table.bound.push(Bound { socket: None, service, address, sharing });
        let local = self.open_bound(driver, index).inspect_err(|_| self.table.bound.truncate(index))?;
        self.table.bound[index].address = local;
        Ok(local)
    }

    /// Connections that are open, or being opened or closed.
    pub fn connections(&self) -> usize {
        self.table.connections.len()
    }

    fn request_completed(&mut self, kit: &mut Kit, handle: Handle, completion: Completion) {
        if !completion.more && matches!(completion.outcome, Outcome::Released) {
            return;
        }
        let Some(request) = self.table.requests.get_mut(handle.index(), handle.generation()) else {
            kit.row.add(LaneCounter::CompletionsStale, 1);
            return;
        };
        let (service, token) = (request.service, request.token);
        self.table.requests_ending -= usize::from(!request.is_poll);
        self.table.offloads -= usize::from(request.is_offload);
        let is_refused = matches!(completion.outcome, Outcome::Failed(Fault { reason: Reason::Busy, .. }));
        kit.row.add(LaneCounter::OffloadsRefused, (request.is_offload && is_refused).into());
        self.table.requests.remove(handle.index());
        self.tell_bursts(kit, service);
        let outcome = match completion.outcome {
            Outcome::Opened { file, length } => Outcome::Opened { file: file.held(&self.table.unheld), length },
            outcome => unfence(outcome),
        };
        self.service_call(kit, service, |port, cx| port.completed(cx, token, outcome));
    }

    /// Counts and reports what burst where the lane did not see it.
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
            exchange.close(lane);
        }
        self.table.open_payers(&kit.arena, kit.payer());
        for service in 0..self.ports.len() as u16 {
            self.service_call(kit, service, |port, cx| port.started(cx));
        }
    }

    /// Calls the services whose alarm has come, and tells the lane when the next one comes.
    fn ring_alarms(&mut self, kit: &mut Kit) {
        if kit.now() >= kit.alarm {
            for service in 0..self.ports.len() as u16 {
                self.ring_alarm(kit, service);
            }
        }
        kit.alarm = self.table.services.iter().map(|state| state.alarm).min().unwrap_or(u64::MAX);
    }

    fn ring_alarm(&mut self, kit: &mut Kit, service: u16) {
        let alarm = &mut self.table.services[service as usize].alarm;
        if kit.now() < *alarm {
            return;
        }
        *alarm = u64::MAX;
        self.service_call(kit, service, |port, cx| port.alarm(cx));
    }

    fn timer_expired(&mut self, handle: Handle) {
        if let Some(timer) = self.table.timer_came(handle) {
            let Some(from) = self.table.find(timer.connection).map(|connection| connection.service) else { return };
            self.table.notices.push_back(Note { to: timer.connection, from, notice: Notice::Timer(timer.token) });
        }
    }
}

/// An offloaded call's value leaves the fence that [`Cx::offload`](crate::Cx::offload) put around it.
fn unfence(outcome: Outcome) -> Outcome {
    let Outcome::Offloaded(OffloadResult(value)) = outcome else { return outcome };
    // reason: no other call is offloaded by this layer.
    Outcome::Offloaded(value.downcast::<Fenced<OffloadResult>>().expect("an offloaded value comes fenced").into_inner())
}

/// Who else may have a listening or bound port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Other sockets may have the same port: needed with more lanes than one, or to join another process.
    pub share_port: bool,
    /// `[::]` takes IPv6 only.
    pub v6_only: bool,
}

impl Work for Services {
    fn name(&self) -> &'static str {
        "services"
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        for &service in &self.talking {
            if let Some(channels) = self.ports[service as usize].any().mail().channels() {
                each(channels);
            }
        }
    }

    fn complete(&mut self, kit: &mut Kit, completion: Completion) {
        let handle = completion.handle;
        // Of what has left, nothing follows but for connections and sockets that are marked.
        self.has_news |= !matches!(completion.outcome, Outcome::Sent { .. } | Outcome::Departed { .. });
        match handle.class() {
            class::CONNECTION => self.connection_completed(kit, completion),
            class::LISTENER => self.listener_completed(kit, completion),
            class::DATAGRAMS => self.datagrams_completed(kit, completion),
            class::REQUEST => self.request_completed(kit, handle, completion),
            class::ROUTE => self.route_completed(kit, completion),
            class::FILE => self.table.files_closing -= 1,
            class::UNADMITTED => self.table.turned_away -= usize::from(matches!(completion.outcome, Outcome::Closed)),
            _ => {}
        }
    }

    fn serve(&mut self, kit: &mut Kit) {
        self.has_news = false;
        self.start(kit);
        self.start_listening(kit);
        self.table.revive_starved(&kit.arena, kit.now());
        self.serve_ready(kit);
        self.settle_lost_tickets(kit);
        self.serve_notices(kit);
        self.ring_alarms(kit);
    }

    fn expired(&mut self, kit: &mut Kit, handle: Handle) {
        match handle.class() {
            class::DEADLINE => self.deadline_came(kit, handle),
            class::TIMER => self.timer_expired(handle),
            class::ACCEPT_AGAIN => self.accept_again(kit),
            class::DRAIN => self.drain_timer(kit),
            class::LEAVE => self.leave_timer(kit),
            class::COUNTS => self.read_counts(kit),
            class::MEMORY => self.memory_timer(),
            class::DROPS => self.drops_are_due(),
            _ => {}
        }
    }

    fn take_messages(&mut self, kit: &mut Kit, at_most: usize) -> usize {
        self.serve_post(kit, at_most)
    }

    fn hear(&mut self, kit: &mut Kit, driver: &mut dyn Driver) {
        self.talking.iter().for_each(|&service| self.ports[service as usize].any().mail().listen());
        let Some(mut ear) = self.ear.take() else { return };
        ear.take().for_each(|word| self.steer(kit, driver, word));
        self.ear = Some(ear);
    }

    fn flush(&mut self, kit: &mut Kit) {
        self.serve_notices(kit);
        self.flush_dirty(kit);
        self.table.flush_datagrams(kit);
        self.table.close_unheld(kit);
        self.table.revive_offloading(kit);
        self.table.revive_starved(&kit.arena, kit.now());
        self.relieve(kit);
    }

    fn look(&mut self, driver: &dyn Driver) {
        self.table.count_drops(driver);
    }

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

    fn is_quiet(&mut self, kit: &mut Kit) -> bool {
        self.is_at_rest(kit)
    }

    fn all_are_quiet(&mut self, _kit: &mut Kit) {
        self.lanes_are_quiet = true;
        self.table.close_all_datagrams();
    }

    fn end(&mut self, kit: &mut Kit) {
        self.end_post(kit);
        self.discard_all(kit);
    }
}
