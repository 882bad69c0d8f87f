//! A program of lanes as it is to be, before it is started.

use crate::error::Error;
use crate::lanes::beside::{Beside, OnceStarted};
use crate::lanes::choice::{Chosen, Use};
use crate::lanes::driver::DriverChoice;
use crate::lanes::frames::Wires;
#[cfg(feature = "packets")]
use crate::lanes::frames::{Gateway, PacketPort};
use crate::lanes::keepsake::Keepsake;
use crate::lanes::pages::WantedPages;
use crate::lanes::read_file::ReadFile;
use crate::lanes::receiving::Asked;
use crate::lanes::url::Url;
use corelane_lane::LaneSettings;
use corelane_os::handed::Handed;
#[cfg(feature = "packets")]
use corelane_rss::Key;
use corelane_rss::Transport;
use corelane_seam::parcel::AbroadLimits;
use corelane_seam::{Address, Record, Tuning as DriverSettings};
use corelane_steer::Settings;
use corelane_svc::{
    DatagramService, LANE_CONNECTIONS_MAX, Limits, MakeTransform, Peer, Services, Side, StreamService, Transform,
};
use corelane_watch::{Declaration, ServiceRow};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long the other process of a take-over may take from one word to the next: to start its lanes, and to tell whoever started it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Builds a service on its lane and adds it to the lane's services.
pub(crate) type Adder = Arc<dyn Fn(usize, &mut Services, Limits, ServiceRow) -> u16 + Send + Sync>;

/// A service, as its type describes it.
struct Nature {
    name: String,
    over_connections: bool,
    opens_sockets: bool,
    counters: &'static [Declaration],
}

impl Nature {
    fn of_stream<S: StreamService>() -> Self {
        Self { name: name_of::<S>(), over_connections: true, opens_sockets: false, counters: S::COUNTERS }
    }

    fn of_datagrams<S: DatagramService>() -> Self {
        Self { name: name_of::<S>(), over_connections: false, opens_sockets: S::OPENS_SOCKETS, counters: S::COUNTERS }
    }
}

/// One service, and where it is served.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) name: String,
    /// None for a client: it listens nowhere.
    pub(crate) url: Option<Url>,
    pub(crate) over_connections: bool,
    /// It opens datagram sockets for its clients, up to its limit of them.
    pub(crate) opens_sockets: bool,
    pub(crate) limits: Limits,
    /// The counters of its own.
    pub(crate) counters: &'static [Declaration],
    /// None for one that no entry has added.
    pub(crate) declared: Option<Declared>,
    pub(crate) add: Adder,
}

/// All that an entry has declared of a service that it has added.
#[derive(Clone)]
pub(crate) struct Declared {
    /// The entry's name.
    pub(crate) name: &'static str,
    /// The choices among its options.
    pub(crate) chosen: Chosen,
    /// The call that is to come once all lanes listen.
    pub(crate) once_started: Option<OnceStarted>,
}

/// A program of lanes, before it is started: one lane a CPU unless set otherwise.
///
/// ```no_run
/// # use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
/// # struct Echo;
/// # impl StreamService for Echo {
/// #     type Talk = Silent;
/// #     type Session = ();
/// #     fn open(&mut self, _: &mut Cx, _: &Peer) {}
/// #     fn receive(&mut self, _: &mut Cx, _: &mut (), input: &mut Input, output: &mut Output) -> Next {
/// #         output.forward(input.take_all());
/// #         Next::Continue
/// #     }
/// # }
/// Lanes::per_core().serve("tcp://[::1]:60007", |_lane| Echo)?.run()
/// # ; Ok::<(), corelane::Error>(())
/// ```
#[derive(Clone)]
pub struct Lanes {
    pub(crate) lanes: Option<usize>,
    pub(crate) cpus: Option<Vec<usize>>,
    pub(crate) driver: DriverChoice,
    pub(crate) driver_settings: DriverSettings,
    /// The ports by which lanes have frames.
    pub(crate) wires: Wires,
    /// The part of each CPU that was asked for beside the kernel's receiving.
    pub(crate) receiving: Asked,
    pub(crate) join: bool,
    pub(crate) handed: Vec<Handed>,
    /// Where the program itself listens.
    pub(crate) listens_also: Vec<SocketAddr>,
    pub(crate) v6_only: bool,
    pub(crate) own_descriptors: bool,
    pub(crate) steering: Settings,
    pub(crate) settings: LaneSettings,
    /// Somebody has said how much memory lanes are to have.
    pub(crate) memory_is_asked: bool,
    /// None if nobody watches for turns that take too long.
    pub(crate) stall: Option<Duration>,
    /// Others see no page of it.
    pub(crate) is_unlisted: bool,
    pub(crate) parcels: AbroadLimits,
    pub(crate) pages: WantedPages,
    /// None until somebody sets one.
    pub(crate) connections_max: Option<u32>,
    /// None until somebody sets some.
    pub(crate) limits: Option<Limits>,
    pub(crate) services: Vec<Served>,
    pub(crate) beside: Vec<Arc<dyn Fn() -> Beside + Send + Sync>>,
    /// The page of the process that is taken over from.
    pub(crate) take_over: Option<PathBuf>,
    /// How long a process that takes over from this one may take for a step. No user sets it.
    pub(crate) patience: Duration,
    pub(crate) keepsakes: Vec<Keepsake>,
    /// Files of which it was made, and of which it may be made again.
    pub(crate) files: Vec<ReadFile>,
    /// Remarks from when the settings were read.
    pub(crate) notes: Vec<Record>,
    /// Which processes had the ports that are to be served.
    pub(crate) holders: Vec<(Address, String)>,
}

impl Lanes {
    /// One lane for each CPU that the process may use (its affinity, and what its control group pays for).
    pub fn per_core() -> Self {
        Self {
            lanes: None,
            cpus: None,
            driver: DriverChoice::Auto,
            driver_settings: DriverSettings::default(),
            wires: Wires::default(),
            receiving: Asked::default(),
            join: false,
            handed: Vec::new(),
            listens_also: Vec::new(),
            v6_only: false,
            own_descriptors: true,
            steering: Settings::default(),
            settings: LaneSettings::default(),
            memory_is_asked: false,
            stall: None,
            is_unlisted: false,
            parcels: AbroadLimits::default(),
            pages: WantedPages::default(),
            connections_max: None,
            limits: None,
            services: Vec::new(),
            beside: Vec::new(),
            take_over: None,
            patience: PATIENCE,
            keepsakes: Vec::new(),
            files: Vec::new(),
            notes: Vec::new(),
            holders: Vec::new(),
        }
    }

    /// So many lanes; more than there are CPUs is allowed, then none of them spins. 1 to 256, and to 1024 where nothing is served.
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// Only these CPUs, by number, lane by lane in this order; with fewer lanes than CPUs the first of them, with more from the first one on again. Unless
    /// [`Lanes::lanes`] says how many lanes, there is one for each of them, but no more than the control group pays for. An empty list, and a CPU that is not there or that
    /// the process may not use (its affinity), are refused at the start with [`Error::Setting`].
    pub fn cpus(mut self, cpus: Vec<usize>) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// The driver, through which lanes ask the operating system.
    pub fn driver(mut self, driver: DriverChoice) -> Self {
        self.driver = driver;
        self
    }

    /// How each lane's driver uses the lane's memory and its helper threads. A value out of range is refused at the start, with the range.
    pub fn driver_settings(mut self, settings: DriverSettings) -> Self {
        self.driver_settings = settings;
        self
    }

    /// Have the frames of an interface, a queue of it for each lane: services over datagrams at its addresses get theirs from there, by a stack of
    /// our own, and all else is the kernel's as ever. Needs CAP_NET_RAW, and for AF_XDP CAP_BPF and CAP_NET_ADMIN (capabilities(7)). The table that gives
    /// flows to lanes stays as it is at the start. May be called for several interfaces. With the feature `packets`.
    #[cfg(feature = "packets")]
    pub fn packet(mut self, port: PacketPort) -> Self {
        self.wires.add(port);
        self
    }

    /// Have lanes be a gateway: they have all frames of its ports, and send on what is for others, as its routes and rules say. No service is needed
    /// beside it; those over datagrams may be served at its addresses. Rights as of [`Lanes::packet`]. A second gateway is refused at the start. Flows are hashed by
    /// [`Key::SYMMETRIC`] unless another key than the default was set before: both directions of one come to the same lane, which has its state (`keep-state`). With the
    /// feature `packets`.
    #[cfg(feature = "packets")]
    pub fn gateway(mut self, gateway: Gateway) -> Self {
        if self.steering.key == Key::MICROSOFT {
            self.steering = self.steering.key(Key::SYMMETRIC);
        }
        self.wires.add_gateway(gateway);
        self
    }

    /// Have the kernel receive what comes by this interface in threads of its own beside the lanes, whose weight leaves these their user fraction
    /// ([`Lanes::user_fraction`]): so no flood takes a lane's CPU, for services at the kernel's sockets. May be called for several. At the end all is as it was.
    /// Needs CAP_NET_ADMIN and CAP_SYS_NICE, for a veth CAP_BPF, and Linux 6.8. With the feature `packets`.
    #[cfg(feature = "packets")]
    pub fn receive_threads(mut self, interface: &str) -> Self {
        self.receiving.interface(interface);
        self
    }

    /// The part of each lane's CPU that it keeps beside the receiving of these interfaces under a flood, 0 to 99 per cent; by default 50. A part that one does not use,
    /// the other has. With the feature `packets`.
    #[cfg(feature = "packets")]
    pub fn user_fraction(mut self, per_cent: u8) -> Self {
        self.receiving.user_fraction = per_cent;
        self
    }

    /// The files by which these interfaces are set while lanes run, on kernels that have no other way (before Linux 6.17). With the feature `packets`.
    #[cfg(feature = "packets")]
    pub fn receive_settings(&self) -> Vec<PathBuf> {
        self.receiving.files()
    }

    /// Share ports with other processes of this user whose sockets allow it, as those of a server with several lanes do;
    /// otherwise a port that is served already is refused.
    pub fn join(mut self, join: bool) -> Self {
        self.join = join;
        self
    }

    /// Serve with these sockets where a service is to be served at their addresses: those that a service manager hands over. The lanes accept from one in
    /// turn, and lane 0 takes its datagrams, so no table gives their flows to lanes. A client that comes when the lanes end waits in it for the next process.
    ///
    /// [`take_handed`](crate::lanes::take_handed) gives them.
    pub fn sockets(mut self, sockets: Vec<Handed>) -> Self {
        self.handed = sockets;
        self
    }

    /// The program listens for connections at these addresses itself, beside its services. Sockets that were handed over for them are for
    /// [`Running::listeners`](crate::lanes::Running::listeners), and are not refused as nobody's.
    pub fn listens_also(mut self, at: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.listens_also.extend(at);
        self
    }

    /// Have `[::]` take IPv6 only. By default it takes IPv4 as well.
    pub fn v6_only(mut self, v6_only: bool) -> Self {
        self.v6_only = v6_only;
        self
    }

    /// Whether each lane has a descriptor table of its own, the default: the limit of descriptors then counts for each lane,
    /// and the kernel takes no shared count for each call. Descriptors that other threads open after the start mean
    /// nothing to a lane then.
    pub fn own_descriptors(mut self, own: bool) -> Self {
        self.own_descriptors = own;
        self
    }

    /// How flows find their lanes: by which means, key, hash types, and how many buckets.
    pub fn steering(mut self, steering: Settings) -> Self {
        self.steering = steering;
        self
    }

    /// Has no counter page that other processes see: for lanes beside those of a program, which has one.
    pub fn unlisted(mut self) -> Self {
        self.is_unlisted = true;
        self
    }

    /// How long a lane goes on looking for work before it sleeps, up to a second. Zero, the default, costs no idle CPU.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.settings.spin = spin;
        self
    }

    /// Bytes of each lane's memory; reserved, and committed as it is used. By default 64 MiB, or what fits for all lanes into a half of what
    /// the control group allows, but at least 4 MiB.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.settings.memory_bytes = bytes;
        self.memory_is_asked = true;
        self
    }

    /// Whether each lane's memory has huge pages of 2 MiB, of those that were set aside (`vm.nr_hugepages`); else the kernel is asked for transparent ones, and a line says so. By default it has
    /// ordinary ones.
    pub fn huge_pages(mut self, huge: bool) -> Self {
        self.pages.wished.huge = huge;
        self.pages.required.huge &= huge;
        self
    }

    /// Asks for huge pages as [`Lanes::huge_pages`] does, and has the start refused where there are too few for all lanes ([`Error::Setting`]).
    pub fn require_huge_pages(mut self, required: bool) -> Self {
        self.pages.wished.huge |= required;
        self.pages.required.huge = required;
        self
    }

    /// Whether each lane's memory is there from the beginning and is never taken out (mlock(2)); where the limit of locked memory forbids it, a line says so. By default it is committed as it is
    /// used.
    pub fn locked_memory(mut self, locked: bool) -> Self {
        self.pages.wished.locked = locked;
        self.pages.required.locked &= locked;
        self
    }

    /// Asks for locked memory as [`Lanes::locked_memory`] does, and has the start refused where it may not be locked ([`Error::Setting`]).
    pub fn require_locked_memory(mut self, required: bool) -> Self {
        self.pages.wished.locked |= required;
        self.pages.required.locked = required;
        self
    }

    /// Tasks that each lane has at once, at least 1; one more is refused and counted (`tasks_max_hits`). By default 65,536.
    pub fn tasks_max(mut self, tasks: usize) -> Self {
        self.settings.tasks_max = tasks;
        self
    }

    /// Messages that wait in each channel, of which there is one from every lane to every other, at least 1; one more comes back to the service and is
    /// counted (`messages_refused`). Their memory is taken at the start. By default 1,024.
    pub fn channel_messages(mut self, messages: usize) -> Self {
        self.settings.channel_messages = messages;
        self
    }

    /// Budgets, memory, spin time and bounds of each lane, all at once: what was set singly before is replaced.
    pub fn lane_settings(mut self, settings: LaneSettings) -> Self {
        self.settings = settings;
        self.memory_is_asked = true;
        self
    }

    /// How many parcels of each lane's memory other lanes may have at once, and for how long one may be away ([`AbroadLimits`]); an eighth of that memory in any case. It
    /// counts where a service lends ([`Cx::lend`](crate::Cx::lend)), and costs each lane 50 bytes a parcel that may be away there. A value out of range is refused at the start, with the range.
    pub fn parcels(mut self, limits: AbroadLimits) -> Self {
        self.parcels = limits;
        self
    }

    /// Connections of all services that one lane has at once, accepted and opened; by default [`LANE_CONNECTIONS_MAX`], 100,000, or the most that one of the services may have, if
    /// that is more. Any number will do; how many there can be is up to the descriptors that the lane may have (`ulimit -n`), too. At the bound the lane accepts no more until one has ended: who comes waits in the listeners' queues (`connections_cap_hits`); and a
    /// connection that a service would open is refused to it ([`ServiceError::Full`](crate::service::ServiceError::Full)). Each service has a bound of its own below it
    /// ([`Limits::connections_max`]).
    pub fn connections_max(mut self, connections: u32) -> Self {
        self.connections_max = Some(connections);
        self
    }

    /// The bound of a lane over all services: a service that was given more connections than a lane has by default can have them.
    pub(crate) fn lane_connections_max(&self) -> u32 {
        let most = self.services.iter().map(|service| service.limits.connections_max).max();
        self.connections_max.unwrap_or_else(|| LANE_CONNECTIONS_MAX.max(most.unwrap_or(0)))
    }

    /// The bounds of the services that are added after this call.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Serves connections at `tcp://HOST:PORT` or `unix:PATH` ([`Url`]); `build` makes the service on each lane, given the lane's number.
    ///
    /// # Errors
    /// [`Error::Url`], [`Error::Transport`].
    pub fn serve<S: StreamService>(self, url: &str, build: impl Fn(usize) -> S + Send + Sync + 'static) -> Result<Self, Error> {
        self.add(
            url,
            Nature::of_stream::<S>(),
            Arc::new(move |lane, services, limits, row| services.add_stream(build(lane), limits, row)),
        )
    }

    /// Serves datagrams at `udp://HOST:PORT` or `unixgram:PATH` ([`Url`]); `build` makes the service on each lane, given the lane's number. A Unix socket's
    /// datagrams all come to lane 0: so those of one peer keep their order.
    ///
    /// # Errors
    /// [`Error::Url`], [`Error::Transport`].
    pub fn serve_datagrams<S: DatagramService>(
        self,
        url: &str,
        build: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        self.add(
            url,
            Nature::of_datagrams::<S>(),
            Arc::new(move |lane, services, limits, row| services.add_datagrams(build(lane), limits, row)),
        )
    }

    fn add(self, url: &str, nature: Nature, add: Adder) -> Result<Self, Error> {
        let url: Url = url.parse()?;
        if (url.transport() == Transport::Tcp) != nature.over_connections {
            let expected = if nature.over_connections { "tcp:// or unix:" } else { "udp:// or unixgram:" };
            return Err(Error::Transport { url: url.to_string(), expected: expected.to_owned() });
        }
        Ok(self.push(Some(url), nature, add))
    }

    fn push(mut self, url: Option<Url>, nature: Nature, add: Adder) -> Self {
        let (limits, Nature { name, over_connections, opens_sockets, counters }) = (self.limits.unwrap_or_default(), nature);
        self.services.push(Served { name, url, over_connections, opens_sockets, limits, counters, declared: None, add });
        self
    }

    /// Runs a service that listens nowhere and opens its connections itself, from [`StreamService::started`] on: a client. `build` makes it on
    /// each lane, given the lane's number.
    pub fn client<S: StreamService>(self, build: impl Fn(usize) -> S + Send + Sync + 'static) -> Self {
        let add: Adder = Arc::new(move |lane, services, limits, row| services.add_stream(build(lane), limits, row));
        self.push(None, Nature::of_stream::<S>(), add)
    }

    /// Runs a service over datagrams that is served nowhere and opens its sockets itself, from [`DatagramService::started`] on
    /// ([`Cx::open_datagrams`](crate::Cx::open_datagrams)): a client. `build` makes it on each lane, given the lane's number.
    pub fn client_datagrams<S: DatagramService>(self, build: impl Fn(usize) -> S + Send + Sync + 'static) -> Self {
        let add: Adder = Arc::new(move |lane, services, limits, row| services.add_datagrams(build(lane), limits, row));
        self.push(None, Nature::of_datagrams::<S>(), add)
    }

    /// Puts a transform (TLS, a PROXY header) before the connections of the service that was added last, those that it accepts and those that it
    /// opens; the service knows nothing of it but what the [`Peer`] tells. `make` is called once on each lane, given the lane's number, and what it returns
    /// for each connection: so keys and certificates can be the lane's own. Called twice, the first is asked first, and the second only where that makes none: so
    /// one can be for connections that are accepted, another for those that are opened.
    ///
    /// # Errors
    /// [`Error::Setting`] if no service was added, or the last one is over datagrams.
    ///
    /// ```no_run
    /// # use corelane::Lanes;
    /// # use corelane::service::{Cx, Input, Next, Output, Peer, Side, Silent, StreamService, Transform};
    /// # struct Echo;
    /// # impl StreamService for Echo {
    /// #     type Talk = Silent;
    /// #     type Session = ();
    /// #     fn open(&mut self, _: &mut Cx, _: &Peer) {}
    /// #     fn receive(&mut self, _: &mut Cx, _: &mut (), _: &mut Input, _: &mut Output) -> Next { Next::Continue }
    /// # }
    /// # fn cipher(_: Side) -> Box<dyn Transform> { unimplemented!() }
    /// Lanes::per_core()
    ///     .serve("tcp://[::1]:60008", |_lane| Echo)?
    ///     .transform(|_lane| |side, _peer: &Peer| Some(cipher(side)))?
    ///     .run()
    /// # ; Ok::<(), corelane::Error>(())
    /// ```
    pub fn transform<M>(self, make: impl Fn(usize) -> M + Send + Sync + 'static) -> Result<Self, Error>
    where
        M: FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + 'static,
    {
        self.equip(move |lane, services, service| services.transform(service, Box::new(make(lane))))
    }

    /// Puts a transform before those that the service added last has by now: one that hands over to another, as that of a PROXY header does to TLS. `make` is
    /// called once on each lane, given the lane's number and what makes the others.
    ///
    /// # Errors
    /// As [`Lanes::transform`].
    pub fn wrap_transforms<M>(self, make: impl Fn(usize, MakeTransform) -> M + Send + Sync + 'static) -> Result<Self, Error>
    where
        M: FnMut(Side, &Peer) -> Option<Box<dyn Transform>> + 'static,
    {
        let make = Arc::new(make);
        self.equip(move |lane, services, service| {
            let make = make.clone();
            services.wrap_transforms(service, move |inner| Box::new(make(lane, inner)));
        })
    }

    /// Does something more when the service that was added last is built on its lane.
    fn equip(mut self, equip: impl Fn(usize, &mut Services, u16) + Send + Sync + 'static) -> Result<Self, Error> {
        let Some(served) = self.services.last_mut().filter(|served| served.over_connections) else {
            let why = "only a service over connections has transforms: call it after serve(), or client()";
            return Err(Error::Setting { name: "transform", why: why.into() });
        };
        let add = served.add.clone();
        served.add = Arc::new(move |lane, services, limits, row| {
            let service = add(lane, services, limits, row);
            equip(lane, services, service);
            service
        });
        Ok(self)
    }

    /// Calls this once, outside of the lanes, when all of them listen; what it returns is kept as long as they run.
    pub fn beside(mut self, make: impl Fn() -> Beside + Send + Sync + 'static) -> Self {
        self.beside.push(Arc::new(make));
        self
    }

    /// Has something small (at most 4 KiB) go over to the process that takes over, where both have the feature `take-over`. `give` is called there and returns its name and its bytes. `take` hears, before
    /// the lanes begin, the name and bytes of each that the process before has given, and returns whether this one is its own: it then gets no other. A name says
    /// all that must be the same in both processes for the bytes to be of use. The bytes heard may come from another version, so `take` passes over what it cannot read.
    pub fn keepsake(
        mut self,
        give: impl Fn() -> (String, Vec<u8>) + Send + Sync + 'static,
        take: impl Fn(&str, &[u8]) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.keepsakes.push(Keepsake { give: Arc::new(give), take: Arc::new(take) });
        self
    }

    /// Names the service that was added last, for the counters and messages; by default its type's name.
    pub fn named(mut self, name: &str) -> Self {
        if let Some(served) = self.services.last_mut() {
            served.name = name.to_string();
        }
        self
    }

    /// Whether a service answers datagrams of Unix sockets, whose names may be abstract ones of other programs.
    pub fn answers_unix_datagrams(&self) -> bool {
        let is_such = |url: &Url| url.transport() == Transport::Udp && url.is_unix();
        self.services.iter().filter_map(|served| served.url.as_ref()).any(is_such)
    }

    /// The files and directories that the services use: those that they name in their options, or are served at; those of which places were read; where packets are offered; and where a gateway has its graphs.
    pub fn uses(&self) -> Vec<Use> {
        let named = self.services.iter().filter_map(|served| {
            let is_over_datagrams = served.url.as_ref().is_some_and(|url| url.transport() == Transport::Udp);
            let uses = served.declared.as_ref()?.chosen.uses().iter().cloned();
            Some(uses.filter_map(move |used| if is_over_datagrams { over_datagrams(used) } else { Some(used) }))
        });
        let named = named.flatten();
        let sockets = self.services.iter().filter_map(|served| served.url.as_ref()?.path());
        let offers = self.wires.channels().into_iter().chain(self.wires.graphs());
        let read = self.files.iter().map(|file| Use::Read(file.path().to_owned()));
        named.chain(read).chain(sockets.chain(offers).map(|path| Use::Written(path.to_owned()))).collect()
    }
}

/// What a service over datagrams uses, of what its options name: it connects to no port of TCP.
fn over_datagrams(used: Use) -> Option<Use> {
    match used {
        Use::Connected(_) => None,
        Use::Upstream(name) => Some(Use::Named(name)),
        used => Some(used),
    }
}

/// The last part of a type's name, in lower case.
fn name_of<S>() -> String {
    let name = std::any::type_name::<S>();
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "packets")]
    #[test]
    fn both_directions_of_a_gateways_flow_have_one_lane() {
        let gateway = || Gateway::of(vec![crate::lanes::gateway::Port::of("eth1")]);
        assert_eq!(Lanes::per_core().gateway(gateway()).steering.key, Key::SYMMETRIC);
        let own: Key = "01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f:10:11:12:13:14:15:16:17:18:19:1a:1b:1c:1d:1e:1f:20:21:22:23:24:25:26:27:28"
            .parse()
            .unwrap();
        let steering = Settings::default().key(own);
        assert_eq!(Lanes::per_core().steering(steering).gateway(gateway()).steering.key, own, "who names a key has it");
    }

    #[test]
    fn a_service_is_named_after_its_type() {
        assert_eq!(name_of::<Vec<std::string::String>>(), "vec");
        assert_eq!(name_of::<Lanes>(), "lanes");
    }
}
