//! A program of lanes at work: a thread for each lane, and one that waits for the end.

use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::asked::{self, ControlSocket};
use crate::lanes::beside::{Beside, Opened};
use crate::lanes::builder::{Declared, Lanes};
use crate::lanes::claims::claim_places;
use crate::lanes::drained::Drained;
use crate::lanes::driver::{DriverKind, choose};
use crate::lanes::ending::{Lives, Waiter};
use crate::lanes::frames::{self, LaneFrames, Placing};
use crate::lanes::handed;
use crate::lanes::lane_start::LaneStart;
use crate::lanes::live::LiveLimits;
use crate::lanes::live_gateway::{self, LiveGateway};
use crate::lanes::live_services::LiveServices;
use crate::lanes::moves::Moves;
use crate::lanes::needs;
use crate::lanes::others::{self, Others};
use crate::lanes::outside::Outside;
use crate::lanes::page::{LaneRows, make_page, rows_of, tell_of_table};
use crate::lanes::place::{Names, Place};
use crate::lanes::plan;
use crate::lanes::receiving::{self, UserFraction};
use crate::lanes::stalls::Stalls;
use crate::lanes::take_over::{Giver, Passage, Taken};
use crate::lanes::url::Url;
use corelane_drivers::{Crossing, EpollDriver, EventBell, Probes, UringDriver};
use corelane_lane::{Control, Ear, LaneSettings, Order, Tell};
use corelane_os::aside::Aside;
use corelane_os::claim::claim;
use corelane_os::report;
use corelane_os::runner::{LaneThread, raise_descriptor_limit, spawn};
use corelane_os::signals::Signals;
use corelane_seam::{Address, Reason, Record, Tuning, Unix};
use corelane_steer::{Server, Steered, Topology};
use corelane_svc::{Exchange, Sharing, Steer};
use corelane_watch::{Declaration, Page};
use std::any::Any;
use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Lanes that run. Dropping it ends them at once.
pub struct Running {
    places: Vec<Place>,
    planned: (Topology, corelane_steer::LanePlan),
    cpus: Vec<Option<usize>>,
    driver: DriverKind,
    steered: Arc<Steered>,
    notes: Vec<Record>,
    page: Page,
    control: Arc<Control>,
    exchange: Exchange,
    outside: Outside,
    limits: LiveLimits,
    services: LiveServices,
    moves: Moves,
    threads: Vec<LaneThread<()>>,
    /// The lanes' doorbells, kept so that they are closed in the descriptor table in which they were opened.
    bells: Vec<Arc<EventBell>>,
    /// By which connections go from one lane's table to another's, kept for the same reason.
    crossing: Arc<Crossing>,
    waiter: Waiter,
    socket: Option<ControlSocket>,
    /// The Unix sockets that lanes share; their names go with them.
    names: Names,
    /// By which lanes send their sockets to the process that takes over.
    passage: Arc<Passage>,
    /// The watch for turns that take too long.
    stalls: Option<Stalls>,
    /// How the kernel receives beside the lanes, if it is told.
    receiving: Option<UserFraction>,
    /// The gateway that lanes are, if they are one.
    gateway: Option<LiveGateway>,
    /// Its ports, in words.
    ports: Vec<String>,
    /// The parts of services outside of the lanes: dropped after these have ended.
    beside: Vec<Box<dyn Any + Send>>,
    /// The process that this one takes over from, until it is decided which of them serves; dropped before that, that one serves on.
    taken: Option<Taken>,
    /// The same behind that, kept to its end.
    taken_over: Option<Taken>,
    /// Listeners that were handed over and are no service's, until somebody takes them.
    listeners: Vec<(SocketAddr, OwnedFd)>,
    /// Listeners that are no service's.
    others: Others,
    /// The counters of services' own.
    counted: Vec<(String, &'static [Declaration])>,
}

/// Whether the URL's first address can be listened on now; false for a Unix socket's.
pub fn can_listen(url: &str) -> bool {
    let address = |url: &Url| url.resolve().ok()?.into_iter().find(|address| address.ip().is_some());
    let url: Option<Url> = url.parse().ok();
    url.as_ref()
        .and_then(|url| Some((url.transport(), address(url)?)))
        .is_some_and(|(transport, address)| claim(transport, &address, false, false).is_ok())
}

/// How often another port is asked for, where the system chooses it and somebody else has taken it before the lanes could.
const PORTS_TRIED: usize = 3;

impl Lanes {
    /// Starts the lanes, and returns when all of them listen. Reports of lanes go to standard error by way of a thread, and wait for nobody
    /// ([`start_into`](crate::admin::reports::start_into) has them go elsewhere);
    /// the words of a panic do not, unless [`set_panic_hook`](crate::admin::reports::set_panic_hook) was called.
    ///
    /// # Errors
    /// Whatever stops them from starting; nothing is left running then.
    pub fn start(self) -> Result<Running, Error> {
        if let Some(page) = &self.take_over {
            let taken = Taken::from(page)?;
            return begin(&taken.fit(&self)?, Some(taken));
        }
        for _ in 1..PORTS_TRIED {
            match begin(&self, None) {
                Err(Error::Listen { fault, .. }) if fault.reason == Reason::AddressInUse && leaves_a_port_open(&self) => {}
                begun => return begun,
            }
        }
        begin(&self, None)
    }

    /// Starts the lanes and serves until the program is told to end: SIGTERM or SIGINT drains, a second one ends at once, whatever threads the program had before. Panics are told as
    /// [`set_panic_hook`](crate::admin::reports::set_panic_hook) has it.
    ///
    /// # Errors
    /// As [`Lanes::start`] and [`Running::run_until_told`].
    pub fn run(self) -> Result<(), Error> {
        crate::admin::reports::set_panic_hook();
        // Before the first lane, which is to be interrupted by none.
        let signals = Signals::block().map_err(|error| Error::System { what: "waiting for signals", error })?;
        self.start()?.run_until_told(signals).map(drop)
    }
}

/// Whether the system is to choose a port.
fn leaves_a_port_open(lanes: &Lanes) -> bool {
    let mut urls = lanes.services.iter().filter_map(|service| service.url.as_ref());
    urls.any(|url| {
        url.resolve()
            .is_ok_and(|addresses| addresses.iter().any(|address| address.inet().is_some_and(|address| address.port() == 0)))
    })
}

// tidy: long because what a program is made of is made in one order
fn begin(lanes: &Lanes, mut taken: Option<Taken>) -> Result<Running, Error> {
    if lanes.services.is_empty() && lanes.wires.is_empty() {
        return Err(Error::Setting { name: "services", why: "there is none to run: add one".to_string() });
    }
    let descriptors = raise_descriptor_limit();
    needs::refuse(lanes)?;
    let tuning = lanes.driver_settings;
    let chosen = choose(lanes.driver)?;
    let mut listeners =
        others::of_manager(lanes).map_err(|error| Error::System { what: "taking what was handed over", error })?;
    listeners.extend(taken.as_mut().map(Taken::take_listeners).unwrap_or_default());
    frames::refuse_shared_addresses(&lanes.wires)?;
    let (places, names) = claim_places(lanes, &mut taken)?;
    let planned = planned(lanes, &places)?;
    let cpus: Vec<Option<usize>> = planned.1.lanes.iter().map(|lane| Some(lane.cpu.number)).collect();
    let mut settings = lanes.settings;
    let mut notes: Vec<Record> =
        chosen.note.into_iter().chain(plan::notes_of(&planned.1, lanes.memory_is_asked, &mut settings)).collect();
    plan::check_limits(lanes, settings.memory_bytes)?;
    notes.extend(needs::notes(lanes, cpus.len()));
    let control = Control::new(cpus.len());
    let (tell, ears) = control.words();
    let steered = steer(lanes, &server(lanes, &places, cpus.len()), &mut taken, tell.clone())?;
    notes.extend(steered.note().map(|note| Degraded::Steering.note(note)));
    notes.extend(handed::note(&places, cpus.len()).into_iter().chain(needs::note_of_loopback(&places)));
    let driver_and_part = (chosen.kind, lanes.receiving.user_fraction());
    let ruling = live_gateway::ruling(&lanes.wires)?;
    let ruled = || (&lanes.wires, ruling.as_ref().map(|ruling| ruling.set()));
    let open = || frames::open(ruled(), &control, &lanes.steering, settings.channel_messages, driver_and_part);
    let ports = (!lanes.wires.is_empty()).then(open).transpose()?;
    let (ports, packets, told) =
        ports.map_or_else(Default::default, |(ports, placing, told)| (ports, Some(Arc::new(placing)), told));
    notes.extend(told);
    let page = make_page(lanes, &cpus, (chosen.kind, &steered), &places, &mut notes)?;
    tell_of_table(&page, &steered);
    let rows: Vec<LaneRows> = (0..cpus.len()).map(|lane| rows_of(&page, lane, lanes.services.len())).collect::<Result<_, _>>()?;
    let bells = make_bells(cpus.len())?;
    let crossing = Crossing::shared().map_err(|error| Error::Driver(error.to_string()))?;
    let waiter = waiter(&control)?;
    let passage = Passage::new().map_err(|error| Error::System { what: "joining the lanes' tables (socketpair)", error })?;
    let (driver, threads, socket) = (chosen.kind, Vec::new(), None);
    let offers = packets.as_ref().map(|placing| placing.offer(&lanes.wires)).transpose()?;
    let beside = offers.flatten().into_iter().collect();
    let exchange = Exchange::new(&control, settings.channel_messages, waiter.ends().wake().clone());
    let moves = Moves::new(tell.clone());
    let limits = LiveLimits::new(tell.clone(), cpus.len(), &lanes.services);
    let names_of_services = lanes.services.iter().map(|served| served.name.clone()).collect();
    let services = LiveServices::new(tell, cpus.len(), names_of_services);
    let outside = Outside::new(&control, &exchange, waiter.ends(), &lanes.services);
    let mut running = Running {
        places,
        planned,
        cpus,
        driver,
        steered,
        notes,
        page,
        control,
        exchange,
        outside,
        limits,
        services,
        moves,
        threads,
        bells,
        crossing,
        waiter,
        socket,
        names: Arc::new(Mutex::new(names)),
        passage,
        stalls: None,
        receiving: None,
        gateway: None,
        ports: lanes.wires.described(),
        beside,
        taken: None,
        taken_over: None,
        listeners,
        others: Others::default(),
        counted: lanes.services.iter().map(|served| (served.name.clone(), served.counters)).collect(),
    };
    let each = each_of(running.cpus.len(), ears, rows, ports);
    let given = taken.as_ref().map_or_else(Vec::new, Taken::numbers);
    let begun = running.start_lanes(lanes, each, given, (settings, tuning, descriptors));
    running.waiter.start(begun).inspect_err(|_| running.page.withdraw())?;
    running.watch_for_stalls(lanes)?;
    running.govern_receiving(lanes)?;
    running.gateway = LiveGateway::new(lanes, ruling, packets.as_ref(), running.aside());
    let mut running = running.with_socket(lanes, packets).with_beside(lanes);
    running.taken = taken;
    Ok(running)
}

/// The start of each lane, lane by lane: all have a port, or none has.
fn each_of(
    lanes: usize,
    ears: Vec<Ear<Steer>>,
    rows: Vec<LaneRows>,
    ports: Vec<LaneFrames>,
) -> impl Iterator<Item = ((Ear<Steer>, LaneRows), Option<LaneFrames>)> {
    assert!(ears.len() == lanes && rows.len() == lanes, "each lane has an ear and its rows");
    assert!(ports.is_empty() || ports.len() == lanes, "a lane without a port among others would serve nobody");
    let ports = ports.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
    ears.into_iter().zip(rows).zip(ports)
}

/// Steers as another process does, or anew.
fn steer(lanes: &Lanes, server: &Server, taken: &mut Option<Taken>, tell: Tell<Steer>) -> Result<Arc<Steered>, Error> {
    match taken.as_mut().and_then(|taken| taken.take_steering()) {
        Some(handed) => Ok(Steered::inherit(handed, server, tell)?),
        None => Ok(Steered::new(&lanes.steering, server, tell)?),
    }
}

impl Running {
    /// Starts the lanes, each with its ear, its rows of the page and its port, until one cannot be.
    fn start_lanes(
        &mut self,
        lanes: &Lanes,
        each: impl Iterator<Item = ((Ear<Steer>, LaneRows), Option<LaneFrames>)>,
        given: Vec<(usize, Address, i32)>,
        (settings, tuning, descriptors): (LaneSettings, Tuning, u64),
    ) -> Result<(), Error> {
        for (lane, ((ear, (row, rows, packets, connections)), frames)) in each.enumerate() {
            self.start_lane(LaneStart {
                lane,
                cpu: self.cpus[lane],
                steered: self.steered.clone(),
                control: self.control.clone(),
                exchange: self.exchange.clone(),
                ear,
                row,
                rows,
                packets,
                connections,
                served: lanes.services.clone(),
                places: self.places.clone(),
                settings,
                tuning,
                parcels: lanes.parcels,
                pages: lanes.pages,
                connections_max: lanes.lane_connections_max(),
                descriptors,
                sharing: Sharing { share_port: self.cpus.len() > 1 || lanes.join, v6_only: lanes.v6_only },
                own_descriptors: lanes.own_descriptors,
                bell: self.bells[lane].clone(),
                crossing: self.crossing.clone(),
                frames,
                given: given.clone(),
                own: Vec::new(),
                foreign: self.listeners.iter().map(|(_, socket)| socket.as_raw_fd()).collect(),
            })?;
        }
        assert!(self.threads.len() == self.cpus.len(), "each lane has its thread");
        Ok(())
    }

    fn start_lane(&mut self, plan: LaneStart) -> Result<(), Error> {
        let (lane, cpu, kind, control) = (plan.lane, self.cpus[plan.lane], self.driver, self.control.clone());
        let begin = |lives: Lives| {
            let body = move |pinned: std::io::Result<()>| {
                report::count_lost();
                lives.live(lane, &control, || match kind {
                    DriverKind::Epoll => plan.run(&lives, pinned, |arena, tuning, bell, crossing| {
                        Ok(EpollDriver::with_bell(arena, tuning, Probes::default(), bell)?.joined(crossing))
                    }),
                    DriverKind::Uring => plan.run(&lives, pinned, |arena, tuning, bell, crossing| {
                        Ok(UringDriver::with_bell(arena, tuning, Probes::default(), bell)?.joined(crossing))
                    }),
                });
            };
            spawn(lane, cpu, body).map_err(|error| Error::System { what: "starting a lane's thread", error })
        };
        self.threads.push(self.waiter.begin(lane, begin)?);
        Ok(())
    }

    /// Has the process answer at its control socket; where nothing is served there is nothing to be told.
    fn with_socket(mut self, lanes: &Lanes, packets: Option<Arc<Placing>>) -> Self {
        let page = self.page.path().filter(|_| !self.places.is_empty() || packets.is_some());
        let told = (packets, self.gateway.clone());
        let services = self.services.clone();
        let opened = page
            .map(|page| asked::open(page, self.giver(lanes, page), self.steered.clone(), told, self.receiving.clone(), services));
        match opened.transpose() {
            Err(error) => {
                self.note(Degraded::NoControl.note(format_args!("nobody can change the table from outside: {error}")));
            }
            Ok(socket) => self.socket = socket.flatten(),
        }
        self
    }

    fn watch_for_stalls(&mut self, lanes: &Lanes) -> Result<(), Error> {
        let Some(limit) = lanes.stall else { return Ok(()) };
        let names = lanes.services.iter().map(|served| served.name.clone()).collect();
        self.stalls = Some(Stalls::watch(&self.page, self.threads(), names, limit)?);
        Ok(())
    }

    /// Has the kernel's receiving keep to what the user fraction leaves it.
    fn govern_receiving(&mut self, lanes: &Lanes) -> Result<(), Error> {
        // The process that is taken over from has the interfaces until it ends.
        let waits = lanes.take_over.is_some();
        let started = receiving::start(&lanes.receiving, &self.cpus, &self.threads(), waits)?;
        let Some((fraction, notes)) = started else { return Ok(()) };
        self.receiving = Some(fraction);
        notes.into_iter().for_each(|note| self.note(note));
        Ok(())
    }

    /// The user fraction beside the kernel's receiving, for those who show or change it; none where no interface is received so.
    #[cfg(feature = "packets")]
    pub fn user_fraction(&self) -> Option<UserFraction> {
        self.receiving.clone()
    }

    /// Where to compute beside these lanes, such as what is read anew while they serve: it takes none of them its time where there is a CPU without a lane, and little where there
    /// is none.
    #[must_use]
    pub fn aside(&self) -> Aside {
        Aside::of(self.cpus.iter().copied().flatten())
    }

    /// Each port of a gateway in words, with what it has there; nothing where lanes are none.
    pub fn ports(&self) -> &[String] {
        &self.ports
    }

    /// The gateway that lanes are, for those who have its file read again; none where they are none.
    #[cfg(feature = "packets")]
    pub fn gateway(&self) -> Option<LiveGateway> {
        self.gateway.clone()
    }

    fn giver(&self, lanes: &Lanes, page: &Path) -> Giver {
        Giver::new(
            self.steered.clone(),
            self.places.clone(),
            (self.names.clone(), self.others.clone()),
            lanes.keepsakes.clone(),
            self.passage.clone(),
            self.waiter.lives().clone(),
            (page, lanes.patience),
        )
    }

    /// Says by `announce` that this process serves, where it says so (a line on standard output, a word to a service manager), and has the process that is
    /// taken over, if there is one, stop accepting behind that. Call this once no other step of the start can fail any more; giving up rights is such a step.
    /// [`Running::run_until_told`] and [`Running::wait`] call it, with nothing to say, if you have not.
    ///
    /// The other process waits at most 60 seconds for `announce`. If that fails, takes longer, or never comes back, the other process serves on.
    ///
    /// # Errors
    /// What `announce` says, and [`Error::Setting`] where the other process serves on: then drop this, which leaves everything to the other.
    pub fn announce<E: From<Error>>(&mut self, announce: impl FnOnce(&Self) -> Result<(), E>) -> Result<(), E> {
        // Those that nobody has taken would keep who connects waiting for ever.
        self.listeners.clear();
        let Some(mut taken) = self.taken.take() else { return announce(self) };
        self.page.note(&format!("taken over from process {}", taken.process()));
        if let Err(error) = taken.decide(|| announce(self)) {
            self.taken = Some(taken);
            return Err(error);
        }
        let names: Vec<Unix> = self.places.iter().filter_map(|place| place.address.unix().cloned()).collect();
        taken.own(&self.names, &names);
        self.taken_over = Some(taken);
        Ok(())
    }

    /// The listeners for `at` that were handed over, by a service manager or by the process that is taken over, and are no service's. Each is given once. They
    /// do not block. [`Lanes::listens_also`] has named the address before.
    pub fn listeners(&mut self, at: SocketAddr) -> Vec<TcpListener> {
        let is_for = |(handed, _): &mut (SocketAddr, OwnedFd)| others::covers(at, *handed);
        self.listeners.extract_if(.., is_for).map(|(_, socket)| socket.into()).collect()
    }

    /// Has this listener go to the process that takes over; it is no service's. `left` is called then: accept nobody from it any more, and close it. At most 64.
    ///
    /// # Errors
    /// What the system says; too many.
    pub fn hand_over_listener(&self, listener: &TcpListener, left: impl Fn() + Send + 'static) -> io::Result<()> {
        self.others.add(listener, Box::new(left))
    }

    /// Each service's own counters, by the service's name.
    pub fn counted(&self) -> &[(String, &'static [Declaration])] {
        &self.counted
    }

    /// Calls what the entries have to be called once all lanes listen.
    fn with_beside(mut self, lanes: &Lanes) -> Self {
        let mut called = Vec::new();
        for Declared { name, once_started, .. } in lanes.services.iter().filter_map(|served| served.declared.as_ref()) {
            let is_first = !called.contains(name);
            called.push(*name);
            let Some(call) = once_started.filter(|_| is_first) else { continue };
            let opened: Vec<Opened<'_>> = self.places.iter().filter_map(|place| opened(lanes, name, place)).collect();
            self.keep(call(&opened));
        }
        lanes.beside.iter().for_each(|make| self.keep(make()));
        self
    }

    fn keep(&mut self, Beside { notes, kept, at_rotation }: Beside) {
        self.waiter.at_rotation(at_rotation);
        notes.iter().for_each(|note| self.page.note(&note.to_string()));
        self.notes.extend(notes);
        self.beside.extend(kept);
    }

    /// Notes what else the program has to do without, for [`Running::notes`] and its page.
    pub fn note(&mut self, note: Record) {
        self.page.note(&note.to_string());
        self.notes.push(note);
    }

    /// Has this called at each SIGHUP, by [`Running::run_until_told`], after log files were told to open anew. It must return soon: nothing else of the
    /// program's end is heard meanwhile.
    pub fn at_hangup(&mut self, call: impl Fn() + Send + 'static) {
        self.waiter.at_hangup(vec![Box::new(call)]);
    }

    /// Has this called once, before the lanes are told to end: by a signal, or because one has broken. As soon as of [`Running::at_hangup`].
    pub fn at_end(&mut self, call: impl Fn() + Send + 'static) {
        self.waiter.at_end(Box::new(call));
    }

    /// Where the services listen.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The address of the first place.
    ///
    /// # Panics
    /// If nothing listens: there are only clients.
    pub fn address(&self) -> &Address {
        &self.places[0].address
    }

    /// The CPU of each lane; none for a lane that is not bound.
    pub fn cpus(&self) -> &[Option<usize>] {
        &self.cpus
    }

    /// The machine as it was found, and the lanes on it.
    pub fn plan(&self) -> (&Topology, &corelane_steer::LanePlan) {
        (&self.planned.0, &self.planned.1)
    }

    /// The thread of each lane, by the number that the system knows it by while it runs (gettid(2)).
    pub fn threads(&self) -> Vec<u32> {
        self.threads.iter().map(|thread| thread.id).collect()
    }

    /// The driver in use.
    pub fn driver(&self) -> DriverKind {
        self.driver
    }

    /// The steering of flows to the lanes: the table, and lanes that leave and come back. It outlives this, for other threads.
    pub fn steered(&self) -> &Arc<Steered> {
        &self.steered
    }

    /// All that the program has to do without, why, and the remedy.
    pub fn notes(&self) -> &[Record] {
        &self.notes
    }

    /// The file of the counter page, unless it could not be made.
    pub fn page(&self) -> Option<&Path> {
        self.page.path()
    }

    /// The counter page itself.
    pub fn counters(&self) -> &Page {
        &self.page
    }

    /// Speaks to the lanes and their services from other threads.
    pub fn outside(&self) -> Outside {
        self.outside.clone()
    }

    /// Changes limits of the services from other threads.
    pub fn limits(&self) -> LiveLimits {
        self.limits.clone()
    }

    /// Asks services what an operator asks of them, from other threads.
    pub fn services(&self) -> LiveServices {
        self.services.clone()
    }

    /// Moves idle connections from lane to lane, from other threads.
    pub fn moves(&self) -> Moves {
        self.moves.clone()
    }

    /// Has the lanes refuse new connections, answer what was asked, and end.
    pub fn drain(&self) {
        self.control.give(Order::Drain);
    }

    /// Has the lanes end at once.
    pub fn stop(&self) {
        self.control.give(Order::Stop);
    }

    /// Waits until all lanes have ended. If one breaks, the others are drained and stopped within seconds.
    ///
    /// # Errors
    /// [`Error::LanePanicked`], or what the system says of waiting.
    pub fn wait(mut self) -> Result<(), Error> {
        self.end(None, |_| {})
    }

    /// Serves until a signal: the first SIGTERM or SIGINT drains, the second ends at once. At SIGHUP log files are opened anew; a line says so, and that
    /// other files are read again by themselves when they change, and serving goes on. If a lane breaks, the others are drained and stopped within seconds. Returns how connections ended
    /// from the first signal on.
    ///
    /// # Errors
    /// As [`Running::wait`], and [`Error::LanesHang`] if lanes have not ended 5 seconds after the second signal.
    pub fn run_until_told(mut self, signals: Signals) -> Result<Drained, Error> {
        let before = Cell::new(None);
        self.end(Some(&signals), |page| before.set(before.get().or_else(|| Some(Drained::counts(page)))))?;
        Ok(before.get().map_or(Drained::default(), |before| Drained::between(before, Drained::counts(&self.page))))
    }

    /// Waits for the end of the lanes, and has what they said last come out. `note` is called before each order.
    fn end(&mut self, signals: Option<&Signals>, note: impl Fn(&Page)) -> Result<(), Error> {
        self.announce(|_| Ok::<_, Error>(()))?;
        let ended = self.waiter.wait(signals, || note(&self.page));
        match ended {
            // They may never end.
            Err(Error::LanePanicked { left_behind: 1.., .. } | Error::LanesHang { .. }) => self.threads.clear(),
            _ => self.join(),
        }
        report::flush(report::PATIENCE);
        ended
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // It has told of its end itself.
            let _ = thread.handle.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match self.taken.is_some() {
            // These sockets are still the other process's, which serves on: to refuse here would be to refuse there.
            true if self.steered.hand_over().is_ok() => self.drain(),
            _ => self.stop(),
        }
        self.stalls = None;
        self.join();
        // Up to their end it was for them.
        if let Some(receiving) = self.receiving.take() {
            receiving.end();
        }
        // Only now nobody accepts any more.
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The place, if a service of the entry of this name listens there.
fn opened<'a>(lanes: &'a Lanes, entry: &str, place: &'a Place) -> Option<Opened<'a>> {
    let Declared { name, chosen, .. } = lanes.services[place.served].declared.as_ref()?;
    (*name == entry).then_some(Opened { place, chosen })
}

/// The lanes' doorbells, before any lane takes a descriptor table of its own: the others ring them by number.
fn make_bells(lanes: usize) -> Result<Vec<Arc<EventBell>>, Error> {
    (0..lanes).map(|_| EventBell::shared().map_err(|error| Error::Driver(error.to_string()))).collect()
}

fn planned(lanes: &Lanes, places: &[Place]) -> Result<(Topology, corelane_steer::LanePlan), Error> {
    let served_at: Vec<_> = places.iter().map(|place| (place.transport, place.address.clone())).collect();
    plan::of(lanes, &served_at)
}

/// The one that waits for the lanes, and the one that writes what they report: both from before their threads on.
fn waiter(control: &Arc<Control>) -> Result<Waiter, Error> {
    report::start().map_err(|error| Error::System { what: "starting the thread that writes reports", error })?;
    Waiter::new(control.clone()).map_err(|error| Error::System { what: "making a doorbell (eventfd2)", error })
}

/// The sockets that are to be steered.
fn server(lanes: &Lanes, places: &[Place], count: usize) -> Server {
    // A flow that comes as frames finds its lane by the card, and by the lanes themselves.
    let is_steered = |place: &&Place| {
        let is_ours = |ip| lanes.wires.device_of(ip).is_some();
        !place.address.ip().is_some_and(is_ours)
    };
    let flows_to =
        |place: &Place| Some(corelane_svc::TransportAddress { transport: place.transport, address: place.address.inet()? });
    // One socket of all lanes has no lane.
    let places = places.iter().filter(|place| place.named.is_none()).filter(is_steered).filter_map(flows_to);
    let over_frames = !lanes.wires.is_empty();
    Server { places: places.collect(), lanes: count, over_frames, joins: lanes.join }
}
