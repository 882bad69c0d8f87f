//! What a program of lanes is to be: services, places, CPUs, driver, bounds.

use crate::driver::DriverChoice;
use crate::driver_settings::DriverSettings;
use crate::entry::Entry;
use crate::entry::choice::Chosen;
use crate::error::Error;
use crate::run::{Running, start};
use crate::url::Url;
use corelane_lane::LaneSettings;
use corelane_os::claim::Transport;
use corelane_os::signals::Signals;
use corelane_steer::Settings;
use corelane_svc::{DatagramService, LANE_CONNECTIONS_MAX, Limits, Services, StreamService};
use corelane_watch::{Declaration, ServiceRow};
use std::sync::Arc;

/// Builds a service on its lane and adds it to the lane's services.
pub(crate) type Adder = Arc<dyn Fn(usize, &mut Services, Limits, ServiceRow) -> u16 + Send + Sync>;

/// One service, and where it is served.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) name: String,
    /// None for a client: it listens nowhere.
    pub(crate) url: Option<Url>,
    pub(crate) limits: Limits,
    /// What it counts of its own.
    pub(crate) counters: &'static [Declaration],
    /// What it was declared as, and what was chosen of its options.
    pub(crate) entry: Option<(&'static Entry, Chosen)>,
    pub(crate) add: Adder,
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
    pub(crate) join: bool,
    pub(crate) v6_only: bool,
    pub(crate) own_descriptors: bool,
    pub(crate) steering: Settings,
    pub(crate) settings: LaneSettings,
    /// Somebody has said how much memory lanes are to have.
    pub(crate) memory_is_asked: bool,
    pub(crate) connections_max: u32,
    /// None until somebody sets some.
    pub(crate) limits: Option<Limits>,
    pub(crate) services: Vec<Served>,
}

impl Lanes {
    /// One lane for each CPU that the process may use (its affinity, and what its control group pays for).
    pub fn per_core() -> Self {
        Self {
            lanes: None,
            cpus: None,
            driver: DriverChoice::Auto,
            driver_settings: DriverSettings::default(),
            join: false,
            v6_only: false,
            own_descriptors: true,
            steering: Settings::default(),
            settings: LaneSettings::default(),
            memory_is_asked: false,
            connections_max: LANE_CONNECTIONS_MAX,
            limits: None,
            services: Vec::new(),
        }
    }

    /// So many lanes; more than there are CPUs is allowed, then none of them spins. 1 to 256, and to 1024 where nothing is served.
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// Only these CPUs, lane by lane in this order.
    pub fn cpus(mut self, cpus: Vec<usize>) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// What the lanes ask the operating system through.
    pub fn driver(mut self, driver: DriverChoice) -> Self {
        self.driver = driver;
        self
    }

    /// How each lane's driver uses the lane's memory and its helper threads.
    pub fn driver_settings(mut self, settings: DriverSettings) -> Self {
        self.driver_settings = settings;
        self
    }

    /// Share ports with other processes of this user whose sockets allow it, as those of a server with several lanes do;
    /// otherwise a port that is served already is refused.
    pub fn join(mut self, join: bool) -> Self {
        self.join = join;
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

    /// Microseconds that a lane goes on looking for work before it sleeps, up to a second. 0, the default, costs no idle CPU.
    pub fn spin_microseconds(mut self, microseconds: u64) -> Self {
        self.settings.spin_nanoseconds = microseconds.saturating_mul(1000);
        self
    }

    /// Bytes of each lane's memory; reserved, and committed as it is used. By default 64 MiB, or what fits for all lanes into a half of what
    /// the control group allows, but at least 4 MiB.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.settings.memory_bytes = bytes;
        self.memory_is_asked = true;
        self
    }

    /// Budgets, memory, spin time and bounds of each lane, all at once: what was set singly before is replaced.
    pub fn lane_settings(mut self, settings: LaneSettings) -> Self {
        self.settings = settings;
        self.memory_is_asked = true;
        self
    }

    /// Connections of all services that one lane has at once; by default [`LANE_CONNECTIONS_MAX`](crate::LANE_CONNECTIONS_MAX).
    pub fn connections_max(mut self, connections: u32) -> Self {
        self.connections_max = connections;
        self
    }

    /// The bounds of the services that are added after this call.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Serves connections at `tcp://HOST:PORT`; `build` makes the service on each lane, given the lane's number.
    ///
    /// # Errors
    /// [`Error::Url`], [`Error::Transport`].
    pub fn serve<S: StreamService>(self, url: &str, build: impl Fn(usize) -> S + Send + Sync + 'static) -> Result<Self, Error> {
        self.add(
            url,
            "tcp",
            (name_of::<S>(), S::COUNTERS),
            Arc::new(move |lane, services, limits, row| services.add_stream(build(lane), limits, row)),
        )
    }

    /// Serves datagrams at `udp://HOST:PORT`; `build` makes the service on each lane, given the lane's number.
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
            "udp",
            (name_of::<S>(), S::COUNTERS),
            Arc::new(move |lane, services, limits, row| services.add_datagrams(build(lane), limits, row)),
        )
    }

    fn add(
        mut self,
        url: &str,
        expected: &'static str,
        (name, counters): (String, &'static [Declaration]),
        add: Adder,
    ) -> Result<Self, Error> {
        let url: Url = url.parse()?;
        let scheme = if url.transport() == Transport::Tcp { "tcp" } else { "udp" };
        if scheme != expected {
            return Err(Error::Transport { url: url.to_string(), expected: format!("{expected}://") });
        }
        self.services.push(Served { name, url: Some(url), limits: self.limits.unwrap_or_default(), counters, entry: None, add });
        Ok(self)
    }

    /// Runs a service that listens nowhere and opens its connections itself, from [`StreamService::started`] on: a client. `build` makes it on
    /// each lane, given the lane's number.
    pub fn client<S: StreamService>(self, build: impl Fn(usize) -> S + Send + Sync + 'static) -> Self {
        let add: Adder = Arc::new(move |lane, services, limits, row| services.add_stream(build(lane), limits, row));
        self.add_client(name_of::<S>(), S::COUNTERS, add)
    }

    /// Runs a service over datagrams that is served nowhere and opens its sockets itself, from [`DatagramService::started`] on
    /// ([`Cx::open_datagrams`](crate::Cx::open_datagrams)): a client. `build` makes it on each lane, given the lane's number.
    pub fn client_datagrams<S: DatagramService>(self, build: impl Fn(usize) -> S + Send + Sync + 'static) -> Self {
        let add: Adder = Arc::new(move |lane, services, limits, row| services.add_datagrams(build(lane), limits, row));
        self.add_client(name_of::<S>(), S::COUNTERS, add)
    }

    fn add_client(mut self, name: String, counters: &'static [Declaration], add: Adder) -> Self {
        let limits = self.limits.unwrap_or_default();
        self.services.push(Served { name, url: None, limits, counters, entry: None, add });
        self
    }

    /// Names the service that was added last, for the counters and messages; by default its type's name.
    pub fn named(mut self, name: &str) -> Self {
        if let Some(served) = self.services.last_mut() {
            served.name = name.to_string();
        }
        self
    }

    /// Starts the lanes, and returns when all of them listen. What lanes report goes to standard error by way of a thread, and waits for nobody;
    /// the words of a panic do not, unless [`report_panics`](crate::report_panics) was called.
    ///
    /// # Errors
    /// Whatever stops them from starting; nothing is left running then.
    pub fn start(self) -> Result<Running, Error> {
        start(self)
    }

    /// Starts the lanes and serves until the program is told to end: SIGTERM or SIGINT drains, a second one ends at once. Panics are told as
    /// [`report_panics`](crate::report_panics) has it.
    ///
    /// # Errors
    /// As [`Lanes::start`] and [`Running::run_until_told`].
    pub fn run(self) -> Result<(), Error> {
        crate::report_panics();
        // The signals must be blocked before the first thread is there.
        let signals = Signals::block().map_err(|error| Error::System { what: "waiting for signals", error })?;
        self.start()?.run_until_told(signals).map(drop)
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

    #[test]
    fn a_service_is_named_after_its_type() {
        assert_eq!(name_of::<Vec<std::string::String>>(), "vec");
        assert_eq!(name_of::<Lanes>(), "lanes");
    }
}
