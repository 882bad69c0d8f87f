//! The start of a program of lanes: a thread for each lane, what runs beside them, and one that waits for the end.

use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::asked;
use crate::lanes::beside::{Beside, Opened};
use crate::lanes::bridges;
use crate::lanes::builder::{Declared, Lanes};
use crate::lanes::driver::DriverKind;
use crate::lanes::ending::{Lives, Waiter};
use crate::lanes::equipped::{Equipped, Own};
use crate::lanes::frames::Placing;
use crate::lanes::lane_start::LaneStart;
use crate::lanes::live::LiveLimits;
use crate::lanes::live_gateway::LiveGateway;
use crate::lanes::live_services::LiveServices;
use crate::lanes::moves::Moves;
use crate::lanes::others::Others;
use crate::lanes::outside::Outside;
use crate::lanes::place::Place;
use crate::lanes::prepared::Prepared;
use crate::lanes::receiving;
use crate::lanes::run::Running;
use crate::lanes::stalls::Stalls;
use crate::lanes::take_over::{Giver, Passage, Taken};
use crate::lanes::uring;
use corelane_drivers::{EpollDriver, Probes};
use corelane_lane::{Control, LaneSettings};
use corelane_os::report;
use corelane_os::runner::spawn;
use corelane_os::signals::Signals;
use corelane_seam::{Address, Reason, Tuning};
use corelane_svc::{Exchange, Sharing};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// How often another port is asked for, where the system chooses it and somebody else has taken it, or shares it, before the lanes could.
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
                // Another program that shares its ports was given the same one before our lanes listened.
                Err(Error::Service(corelane_svc::Error::Steering { is_shared: true, .. })) if leaves_a_port_open(&self) => {}
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

/// Claims, plans and equips, and then starts the lanes and what runs beside them.
fn begin(lanes: &Lanes, mut taken: Option<Taken>) -> Result<Running, Error> {
    let mut prepared = Prepared::of(lanes, &mut taken)?;
    let (equipped, own) = Equipped::of(lanes, &mut prepared, &mut taken)?;
    let settings = (prepared.settings, bridges::settings(lanes), prepared.driver.found, prepared.descriptors);
    let (ruling, packets) = (equipped.ruling.clone(), equipped.packets.clone());
    let mut running = put_together(lanes, prepared, equipped)?;
    let given = taken.as_ref().map_or_else(Vec::new, Taken::numbers);
    let begun = running.start_lanes(lanes, own, given, settings);
    running.waiter.start(begun).inspect_err(|_| running.page.withdraw())?;
    running.watch_for_stalls(lanes)?;
    running.govern_receiving(lanes)?;
    running.gateway = LiveGateway::new(lanes, ruling, packets.as_ref(), running.aside());
    let mut running = running.with_socket(lanes, packets).with_beside(lanes);
    running.taken = taken;
    Ok(running)
}

/// Puts together what runs, of which no lane has started yet.
fn put_together(lanes: &Lanes, prepared: Prepared, equipped: Equipped) -> Result<Running, Error> {
    let Prepared { places, names, listeners, planned, cpus, driver, settings, notes, .. } = prepared;
    let Equipped { control, tell, steered, packets, page, bells, crossing, .. } = equipped;
    let waiter = waiter(&control)?;
    let passage = Passage::new().map_err(|error| Error::System { what: "joining the lanes' tables (socketpair)", error })?;
    let offers = packets.as_ref().map(|placing| placing.offer(&lanes.wires)).transpose()?;
    let exchange = Exchange::new(&control, settings.channel_messages, waiter.ends().wake().clone());
    let names_of_services = lanes.services.iter().map(|served| served.name.clone()).collect();
    Ok(Running {
        outside: Outside::new(&control, &exchange, waiter.ends(), &lanes.services),
        limits: LiveLimits::new(tell.clone(), cpus.len(), &lanes.services),
        moves: Moves::new(tell.clone()),
        services: LiveServices::new(tell, cpus.len(), names_of_services),
        places,
        planned,
        cpus,
        driver: driver.kind,
        steered,
        notes,
        page,
        control,
        exchange,
        threads: Vec::new(),
        bells,
        crossing,
        waiter,
        socket: None,
        names: Arc::new(Mutex::new(names)),
        passage,
        stalls: None,
        receiving: None,
        gateway: None,
        ports: lanes.wires.described(),
        beside: offers.flatten().into_iter().collect(),
        taken: None,
        taken_over: None,
        listeners,
        others: Others::default(),
        counted: lanes.services.iter().map(|served| (served.name.clone(), served.counters)).collect(),
    })
}

impl Running {
    /// Starts the lanes, each with what it has of its own, until one cannot be.
    fn start_lanes(
        &mut self,
        lanes: &Lanes,
        each: Vec<Own>,
        given: Vec<(usize, Address, i32)>,
        (settings, tuning, found, descriptors): (LaneSettings, Tuning, Probes, u64),
    ) -> Result<(), Error> {
        assert!(each.len() == self.cpus.len(), "each lane has its own");
        for (lane, Own { ear, rows: (row, rows, packets, connections), frames }) in each.into_iter().enumerate() {
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
                found,
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
            let body = move |pinned: io::Result<()>| {
                report::count_lost();
                lives.live(lane, &control, || match kind {
                    DriverKind::Epoll => plan.run(&lives, pinned, |arena, tuning, found, bell, crossing| {
                        Ok(EpollDriver::with_bell(arena, tuning, found, bell)?.joined(crossing))
                    }),
                    DriverKind::Uring => plan.run(&lives, pinned, uring::driver),
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
        let started = receiving::start(&lanes.receiving, &self.cpus, &self.threads(), &self.page, waits)?;
        let Some((fraction, notes)) = started else { return Ok(()) };
        self.receiving = Some(fraction);
        notes.into_iter().for_each(|note| self.note(note));
        Ok(())
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
}

/// The place, if a service of the entry of this name listens there.
fn opened<'a>(lanes: &'a Lanes, entry: &str, place: &'a Place) -> Option<Opened<'a>> {
    let Declared { name, chosen, .. } = lanes.services[place.served].declared.as_ref()?;
    (*name == entry).then_some(Opened { place, chosen })
}

/// The one that waits for the lanes, and the one that writes what they report: both from before their threads on.
fn waiter(control: &Arc<Control>) -> Result<Waiter, Error> {
    report::start().map_err(|error| Error::System { what: "starting the thread that writes reports", error })?;
    Waiter::new(control.clone()).map_err(|error| Error::System { what: "making a doorbell (eventfd2)", error })
}
