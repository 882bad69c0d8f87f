//! The lanes of a rig as they are to be, and what each of them runs.

use crate::family::Family;
use corelane_lane::LaneSettings;
use corelane_seam::parcel::AbroadLimits;
use corelane_seam::{Address, Tuning};
use corelane_sim::{Host, SimDriver};
use corelane_svc::{DatagramService, LANE_CONNECTIONS_MAX, Limits, Peer, Services, Sharing, Side, StreamService, Transform};
use corelane_watch::{CounterName, Declaration, Page, ServiceName, ServiceRow};
use std::fmt::Display;

/// How the lanes of a rig are made.
#[derive(Clone)]
#[non_exhaustive]
pub struct RigPlan {
    /// How many.
    pub lanes: usize,
    /// The settings of each, its memory among them.
    pub settings: LaneSettings,
    /// The settings of its driver.
    pub tuning: Tuning,
    /// How much of each lane's memory others may have, and for how long.
    pub parcels: AbroadLimits,
    /// The cap of a lane over all its services.
    pub connections_max: u32,
    /// The machine that they are on; none: the first of the world, which has 10.0.0.1.
    pub host: Option<Host>,
    /// The addresses that it is played at.
    pub family: Family,
}

impl RigPlan {
    /// So many lanes with 16 MiB each.
    pub fn lanes(lanes: usize) -> Self {
        let settings = LaneSettings::new().memory_bytes(16 << 20);
        Self {
            lanes,
            settings,
            tuning: Tuning::default(),
            parcels: AbroadLimits::default(),
            connections_max: LANE_CONNECTIONS_MAX,
            host: None,
            family: Family::Inet,
        }
    }

    /// With so many bytes of memory for each lane. Default 16 MiB.
    #[must_use]
    pub fn memory(self, memory_bytes: usize) -> Self {
        Self { settings: self.settings.memory_bytes(memory_bytes), ..self }
    }

    /// With each lane set so, its memory included.
    #[must_use]
    pub fn settings(self, settings: LaneSettings) -> Self {
        Self { settings, ..self }
    }

    /// With each lane's driver set so.
    #[must_use]
    pub fn tuning(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// With at most so many connections of a lane, over all its services. Default [`LANE_CONNECTIONS_MAX`].
    #[must_use]
    pub fn connections_max(self, connections: u32) -> Self {
        Self { connections_max: connections, ..self }
    }

    /// On another machine of the world.
    #[must_use]
    pub fn host(self, host: Host) -> Self {
        Self { host: Some(host), ..self }
    }

    /// At the addresses of a family. Default [`Family::Inet`].
    #[must_use]
    pub fn family(self, family: Family) -> Self {
        Self { family, ..self }
    }
}

/// Adds a service to its lane, and listens.
type Add = Box<dyn FnOnce(&mut Services, &mut SimDriver, ServiceRow)>;

/// Sets something on the services of a lane.
type Tune = Box<dyn FnOnce(&mut Services)>;

/// The services of one lane, in the order of their rows on the page.
pub struct Roster {
    lane: usize,
    sharing: Sharing,
    services: Vec<(&'static [Declaration], Add)>,
    tune: Vec<Tune>,
}

impl Roster {
    pub(crate) fn new(lane: usize, lanes: usize) -> Self {
        let sharing = Sharing { share_port: lanes > 1, v6_only: false };
        Self { lane, sharing, services: Vec::new(), tune: Vec::new() }
    }

    /// The lane's number.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// A service over connections that listens there.
    ///
    /// # Panics
    /// When the lanes are made, if somebody else has the address.
    pub fn serve<S: StreamService>(&mut self, at: impl Into<Address>, limits: Limits, service: S) {
        let (at, sharing) = (at.into(), self.sharing);
        self.add(S::COUNTERS, move |services, driver, row| {
            let service = services.add_stream(service, limits, row);
            sure("listening", services.listen(driver, service, at, sharing));
        });
    }

    /// A service over connections that listens there; `transform` makes what stands before each connection.
    ///
    /// # Panics
    /// As for [`Roster::serve`].
    pub fn serve_behind<S: StreamService>(
        &mut self,
        at: impl Into<Address>,
        limits: Limits,
        service: S,
        transform: impl FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + 'static,
    ) {
        let (at, sharing) = (at.into(), self.sharing);
        self.add(S::COUNTERS, move |services, driver, row| {
            let service = services.add_stream(service, limits, row);
            services.transform(service, Box::new(transform));
            sure("listening", services.listen(driver, service, at, sharing));
        });
    }

    /// A service over datagrams at a socket that is bound there.
    ///
    /// # Panics
    /// As for [`Roster::serve`].
    pub fn serve_datagrams<S: DatagramService>(&mut self, at: impl Into<Address>, limits: Limits, service: S) {
        let (at, sharing) = (at.into(), self.sharing);
        self.add(S::COUNTERS, move |services, driver, row| {
            let service = services.add_datagrams(service, limits, row);
            sure("binding", services.bind(driver, service, at, sharing));
        });
    }

    /// A service that listens nowhere: it opens connections.
    pub fn client<S: StreamService>(&mut self, limits: Limits, service: S) {
        self.add(S::COUNTERS, move |services, _, row| {
            services.add_stream(service, limits, row);
        });
    }

    /// [`Roster::client`]; `transform` makes what stands before each connection.
    pub fn client_behind<S: StreamService>(
        &mut self,
        limits: Limits,
        service: S,
        transform: impl FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + 'static,
    ) {
        self.add(S::COUNTERS, move |services, _, row| {
            let service = services.add_stream(service, limits, row);
            services.transform(service, Box::new(transform));
        });
    }

    /// A service that is bound nowhere: it opens datagram sockets.
    pub fn client_datagrams<S: DatagramService>(&mut self, limits: Limits, service: S) {
        self.add(S::COUNTERS, move |services, _, row| {
            services.add_datagrams(service, limits, row);
        });
    }

    /// A call on all services of the lane before there are any: for the service layer's own tests.
    #[doc(hidden)]
    pub fn tune(&mut self, tune: impl FnOnce(&mut Services) + 'static) {
        self.tune.push(Box::new(tune));
    }

    fn add(&mut self, counters: &'static [Declaration], add: impl FnOnce(&mut Services, &mut SimDriver, ServiceRow) + 'static) {
        self.services.push((counters, Box::new(add)));
    }

    /// The names of its services, for the page.
    pub(crate) fn names(&self) -> Vec<ServiceName> {
        let named = |(number, (counters, _)): (usize, &(&'static [Declaration], Add))| ServiceName {
            name: number.to_string(),
            url: String::new(),
            counters: CounterName::all(counters),
        };
        self.services.iter().enumerate().map(named).collect()
    }

    /// Puts them on their lane.
    pub(crate) fn seat(self, services: &mut Services, driver: &mut SimDriver, page: &Page) {
        self.tune.into_iter().for_each(|tune| tune(services));
        for (number, (_, add)) in self.services.into_iter().enumerate() {
            add(services, driver, sure("the page", page.service(self.lane, number)));
        }
    }
}

/// A value that a test cannot do without.
pub(crate) fn sure<T, E: Display>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error}"))
}
