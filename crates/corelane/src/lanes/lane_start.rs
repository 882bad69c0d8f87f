//! One lane's start, on its own thread: its driver, its ports, its services, and its works.

use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::builder::Served;
use crate::lanes::claims::refused_at;
use crate::lanes::ending::Lives;
use crate::lanes::frames::{self, Homeward, LaneFrames, Packets};
use crate::lanes::pages::WantedPages;
use crate::lanes::place::Place;
use crate::lanes::unbroken::unbroken;
use corelane_drivers::{Crossing, EventBell, Probes};
use corelane_lane::{Control, Ear, Homing, Kit, Lane, LaneSettings, Report, Works};
use corelane_os::runner::own_descriptors;
use corelane_os::{passing, report, sockets};
use corelane_rss::Transport;
use corelane_seam::parcel::AbroadLimits;
use corelane_seam::{Address, Arena, Driver, Record, Tuning};
use corelane_steer::Steered;
use corelane_svc::{Exchange, Services, Sharing, Steer};
use corelane_watch::{ConnectionRows, LaneRow, PacketsRow, ServiceRow};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Everything that one lane's thread is given.
pub(super) struct LaneStart {
    pub(super) lane: usize,
    pub(super) cpu: Option<usize>,
    pub(super) control: Arc<Control>,
    pub(super) steered: Arc<Steered>,
    pub(super) exchange: Exchange,
    pub(super) ear: Ear<Steer>,
    pub(super) row: LaneRow,
    pub(super) rows: Vec<ServiceRow>,
    pub(super) packets: PacketsRow,
    pub(super) connections: ConnectionRows,
    pub(super) served: Vec<Served>,
    pub(super) places: Vec<Place>,
    pub(super) settings: LaneSettings,
    pub(super) tuning: Tuning,
    /// The features of the kernel that its driver uses.
    pub(super) found: Probes,
    pub(super) parcels: AbroadLimits,
    pub(super) pages: WantedPages,
    pub(super) connections_max: u32,
    /// Descriptors that the process may have open, in each table.
    pub(super) descriptors: u64,
    pub(super) sharing: Sharing,
    pub(super) own_descriptors: bool,
    pub(super) bell: Arc<EventBell>,
    pub(super) crossing: Arc<Crossing>,
    /// Its port, if lanes have the frames of an interface.
    pub(super) frames: Option<LaneFrames>,
    /// The sockets that another process has handed over, of all lanes, by their numbers in the process's table.
    pub(super) given: Vec<(usize, Address, i32)>,
    /// Its own of them.
    pub(super) own: Vec<(Address, OwnedFd)>,
    /// Listeners that are no lane's, by their numbers in the process's table.
    pub(super) foreign: Vec<i32>,
}

/// Makes a lane's driver on its thread, in its descriptor table.
pub(super) type MakeDriver<D> = fn(Arena, Tuning, Probes, Arc<EventBell>, Arc<Crossing>) -> Result<D, corelane_drivers::Error>;

impl LaneStart {
    /// The life of a lane's thread. The error is the panic that ended it.
    pub(super) fn run<D: Driver>(
        mut self,
        lives: &Lives,
        pinned: std::io::Result<()>,
        make: MakeDriver<D>,
    ) -> Result<(), String> {
        let number = self.lane;
        // Every lane has its descriptor table before any listens: a table is a copy of another.
        let Some((driver, arena)) = lives.at_gate(number, 1, self.make_driver(pinned, make)) else { return Ok(()) };
        match self.frames.take() {
            None => self.live(lives, |start| start.into_lane(driver, arena, None)),
            Some(frames) => self.live(lives, |start| {
                let (stack, packets, homeward) = frames.put_on(driver, &arena, start.tuning)?;
                start.into_lane(stack, arena, Some((packets, homeward)))
            }),
        }
    }

    /// The life of a lane from when it is built on.
    fn live<D: Driver>(self, lives: &Lives, build: impl FnOnce(Self) -> Result<Lane<D>, Error>) -> Result<(), String> {
        let number = self.lane;
        // The user's own code builds the services; its panic is the user's.
        let built = unbroken(|| build(self)).unwrap_or(Err(Error::Build { lane: number }));
        let Some(mut lane) = lives.at_gate(number, 2, built) else { return Ok(()) };
        let lived = unbroken(|| lane.run());
        // By itself: a panic while another unwinds would end the process without a word.
        let ended = unbroken(|| drop(lane));
        lived.and(ended)
    }

    fn make_driver<D: Driver>(&mut self, pinned: std::io::Result<()>, make: MakeDriver<D>) -> Result<(D, Arena), Error> {
        pinned.map_err(|error| Error::System { what: "binding a lane to its CPU (sched_setaffinity)", error })?;
        if self.own_descriptors
            && let Err(error) = own_descriptors()
        {
            let lane = self.lane;
            let words = format_args!("no descriptor table of its own ({error}): it shares the limit with the others");
            report::line(Degraded::SharedDescriptors.note(words).of_lane(lane));
            self.own_descriptors = false;
        }
        self.take_given()?;
        if !self.own_descriptors {
            self.descriptors /= self.control.lanes() as u64;
        }
        let arena = self.pages.make(self.settings.memory_bytes, self.lane, &self.row)?;
        let made = make(arena.clone(), self.tuning, self.found, self.bell.clone(), self.crossing.clone());
        let driver = made.map_err(|error| Error::Driver(error.to_string()))?;
        Ok((driver, arena))
    }

    /// Takes its own of the sockets that were handed over; the copies of all in its own table go, so that a socket that it closes is closed.
    fn take_given(&mut self) -> Result<(), Error> {
        if self.own_descriptors {
            self.foreign.drain(..).for_each(passing::close_copy);
        }
        for (lane, address, number) in std::mem::take(&mut self.given) {
            assert!(lane < self.control.lanes(), "there are as many lanes as there were sockets for");
            if lane == self.lane {
                let own = sockets::duplicate(number);
                let own = own.map_err(|fault| Error::Listen { url: address.to_string(), fault, holder: None })?;
                self.own.push((address, own));
            }
            if self.own_descriptors {
                passing::close_copy(number);
            }
        }
        Ok(())
    }

    fn into_lane<D: Driver>(
        mut self,
        mut driver: D,
        arena: Arena,
        beside: Option<(Packets, Homeward)>,
    ) -> Result<Lane<D>, Error> {
        let mut services = Services::new(self.connections_max);
        services.descriptors(self.descriptors);
        services.set_exchange(self.lane, self.exchange);
        services.set_ear(self.ear);
        services.set_connection_rows(self.connections);
        self.steered.equip(&mut services, self.lane, self.cpu);
        assert!(self.served.len() == self.rows.len(), "each service has its row");
        for (served, row) in self.served.iter().zip(self.rows) {
            (served.add)(self.lane, &mut services, served.limits, row);
        }
        let number = self.lane;
        for (address, socket) in self.own.drain(..) {
            driver.give(&address, socket);
        }
        for place in self.places.iter().filter(|place| place.is_for(number)) {
            assert!(place.served < self.served.len(), "a place is a service's");
            let service = place.served as u16;
            if let Some(named) = place.named {
                driver.lend(&place.address, named, place.outlives);
            }
            let listened = match place.transport {
                Transport::Tcp => services.listen(&mut driver, service, place.address.clone(), self.sharing),
                Transport::Udp => services.bind(&mut driver, service, place.address.clone(), self.sharing),
            };
            listened.map_err(|error| match error {
                corelane_svc::Error::Listen { fault, .. } => refused_at(&[], &place.url, &place.address, fault),
                error => Error::Service(error),
            })?;
        }
        let works = works_of(services, beside, (&arena, self.parcels), self.packets);
        let kit = Kit::new(self.lane, &self.control, arena, self.row, &self.settings, Box::new(StandardError));
        Ok(Lane::new(driver, works, kit, self.control, self.settings))
    }
}

/// The works of a lane: its services, its packets if it has any, and behind both what brings home the memory that they lend to other lanes, if they do.
fn works_of(
    services: Services,
    packets: Option<(Packets, Homeward)>,
    (arena, parcels): (&Arena, AbroadLimits),
    row: PacketsRow,
) -> Works {
    let (packets, homeward) = packets.unzip();
    let (post, channels) = homeward.unzip();
    let post = post.unwrap_or_default();
    // Frames and other memory go home the same way.
    let own = services.open_abroad(arena, parcels, &post);
    let mut works = Works::of(services);
    if let Some(packets) = packets {
        works = frames::join(works, packets, row);
    }
    match channels.or(own) {
        Some(channels) => works.and(Homing::new(post, channels)),
        None => works,
    }
}

/// The lane's lines on standard error, which wait for nobody.
struct StandardError;

impl Report for StandardError {
    fn line(&mut self, record: Record) {
        report::line(record);
    }

    fn dropped(&self) -> Option<Arc<AtomicU64>> {
        report::lost()
    }
}
