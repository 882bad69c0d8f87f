//! What the operating system and the counter pages say of both sides at the ends of the window.

use crate::error::Error;
use crate::place::is_unix;
use crate::plan::Plan;
use crate::report::{Generator, Lane, Server};
use corelane::Address;
use corelane::admin::machine::{NetworkCounters, Process, ProcessTree, ThreadTimes, network_counters, stolen_time, thread_times};
use corelane::admin::watch::{LaneCounter, Liveness, Reader, RunDirectory, ServiceCounter, Snapshot, list};
use corelane::lanes::{Running, Transport, Url};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Whose cost is measured beside the generator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Nobody's.
    Nobody,
    /// A process with all its descendants.
    Tree(u32),
    /// The process of Corelane on this machine whose counter page says that it serves the target.
    Page,
}

/// Finds whose cost is to be measured, before a first run is made.
///
/// # Errors
/// [`Error::Server`], [`Error::NoPage`].
pub fn find_server(watched: Watched, plan: &Plan) -> Result<(), Error> {
    ServerWatch::open(watched, plan).map(drop)
}

/// Reads the server's side, again and again.
pub(crate) struct ServerWatch {
    pid: u32,
    tree: ProcessTree,
    page: Option<Reader>,
    /// The services of the page that serve the target.
    services: Vec<usize>,
    takes_datagrams: bool,
    /// Resident bytes before the connections were opened.
    resident_before: u64,
}

/// One reading of everything.
pub(crate) struct Reading {
    at: u64,
    server_cpu: u64,
    server_delay: u64,
    server_page: Option<Snapshot>,
    lanes: Vec<LaneReading>,
    own_page: Option<Snapshot>,
    stolen: u64,
    network: NetworkCounters,
}

/// What the system had counted of the thread of a lane.
#[derive(Clone, Copy)]
struct LaneReading {
    at: u64,
    times: ThreadTimes,
}

/// What became of a span of time, in nanoseconds, of a thread or of several.
#[derive(Clone, Copy)]
struct Spent {
    ran: u64,
    /// Ready to run, with the CPU given to something else.
    waited: u64,
}

impl Spent {
    /// Of the time in which it wanted a CPU, the share in which it had none.
    fn share_waited(self) -> f64 {
        self.waited as f64 / (self.ran + self.waited).max(1) as f64
    }

    /// The shares of `elapsed` in which one thread ran, and waited. The system counts a wait when it ends, also the part of it that was
    /// before the first reading: where ran and waited are more than elapsed, they are the time that was counted.
    fn shares_of(self, elapsed: u64) -> (f64, f64) {
        let counted = elapsed.max(self.ran + self.waited).max(1) as f64;
        (self.ran as f64 / counted, self.waited as f64 / counted)
    }
}

impl LaneReading {
    fn take(thread: u32) -> Self {
        let times = thread_times(thread).unwrap_or_default();
        Self { at: corelane::now().nanoseconds(), times }
    }

    fn since(self, earlier: Self) -> Spent {
        Spent {
            ran: self.times.cpu_nanoseconds.saturating_sub(earlier.times.cpu_nanoseconds),
            waited: self.times.run_delay_nanoseconds.saturating_sub(earlier.times.run_delay_nanoseconds),
        }
    }
}

impl ServerWatch {
    /// Finds the process.
    ///
    /// # Errors
    /// [`Error::Server`] if it, or the page that was asked for, is not to be had.
    pub(crate) fn open(watched: Watched, plan: &Plan) -> Result<Option<Self>, Error> {
        let (pid, page) = match watched {
            Watched::Nobody => return Ok(None),
            Watched::Tree(pid) => (pid, page_where(|page| page.description().process.pid == pid).map(|(_, page)| page)),
            Watched::Page => {
                let (_, page) = page_serving(plan.transport, &plan.target).ok_or(Error::NoPage { url: plan.url.clone() })?;
                (page.description().process.pid, Some(page))
            }
        };
        let broken = |error: std::io::Error| Error::Server { pid, why: error.to_string() };
        let mut tree = ProcessTree::of(pid).map_err(broken)?;
        let resident_before = tree.footprint().map_err(broken)?.resident_bytes;
        let services = page.iter().flat_map(|page| services_at(page, plan.transport, &plan.target)).collect();
        let takes_datagrams = plan.transport == Transport::Udp;
        Ok(Some(Self { pid, tree, page, services, takes_datagrams, resident_before }))
    }

    /// What was dropped at its sockets since a reading: up to now, because it counts that a second later.
    fn trains_dropped(&self, first: &Reading) -> Option<u64> {
        let now = self.page.as_ref()?.snapshot(corelane::now().nanoseconds());
        let since =
            between(first.server_page.as_ref(), Some(&now)).filter(|_| self.takes_datagrams && !self.services.is_empty())?;
        Some(sum(&since, &self.services, ServiceCounter::TrainsDropped))
    }

    fn resident(&mut self) -> u64 {
        self.tree.footprint().map_or(0, |footprint| footprint.resident_bytes)
    }

    /// The server's side between two readings; none if its process has ended.
    pub(crate) fn report(&mut self, (first, last): (&Reading, &Reading), requests: f64, connections: u64) -> Option<Server> {
        let span = last.since(first).max(1.0);
        let resident_bytes = self.resident();
        if resident_bytes == 0 {
            return None;
        }
        let grown = resident_bytes.saturating_sub(self.resident_before) as f64;
        let spent = Spent {
            ran: last.server_cpu.saturating_sub(first.server_cpu),
            waited: last.server_delay.saturating_sub(first.server_delay),
        };
        Some(Server {
            pid: self.pid,
            cpus_used: spent.ran as f64 / span,
            waiting_for_cpu: spent.share_waited(),
            resident_bytes,
            bytes_per_connection: (connections > 0).then(|| grown / connections as f64),
            trains_dropped: self.trains_dropped(first),
            per_request: between(first.server_page.as_ref(), last.server_page.as_ref())
                .map(|page| per_request(&page, &self.services, requests))
                .unwrap_or_default(),
        })
    }
}

impl Reading {
    /// The same, as if taken at `at`: for one that was taken before, when nobody did anything yet.
    pub(crate) fn not_before(self, at: u64) -> Self {
        Self { at: self.at.max(at), ..self }
    }

    /// Nanoseconds from an earlier reading to this one.
    pub(crate) fn since(&self, earlier: &Reading) -> f64 {
        self.at.saturating_sub(earlier.at) as f64
    }

    pub(crate) fn take(running: &Running, own: Option<&Reader>, server: Option<&mut ServerWatch>) -> Self {
        let (mut server_cpu, mut server_delay, mut server_page) = (0, 0, None);
        if let Some(server) = server {
            let times = server.tree.times().unwrap_or_default();
            (server_cpu, server_delay) = (times.cpu_nanoseconds, times.run_delay_nanoseconds);
            server_page = server.page.as_ref().map(|page| page.snapshot(corelane::now().nanoseconds()));
        }
        let at = corelane::now().nanoseconds();
        Self {
            at,
            server_cpu,
            server_delay,
            server_page,
            lanes: running.threads().into_iter().map(LaneReading::take).collect(),
            own_page: own.map(|page| page.snapshot(at)),
            stolen: stolen_time().map_or(0, |time| time.nanoseconds),
            network: network_counters().unwrap_or_default(),
        }
    }
}

/// The generator's own side between two readings; what the lanes counted themselves is added by the collector.
pub(crate) fn generator(
    running: &Running,
    own: Option<&Reader>,
    (first, last): (&Reading, &Reading),
    requests: f64,
) -> Generator {
    let page = between(first.own_page.as_ref(), last.own_page.as_ref());
    let cpu: u64 = last.lanes.iter().zip(&first.lanes).map(|(last, first)| last.since(*first).ran).sum();
    let machine_cpus = stolen_time().map_or(1, |time| time.cpus.len().max(1)) as f64;
    let spun = |lane: usize| page.as_ref().map(|page| page.lanes[lane].values.get(LaneCounter::SpinNanoseconds));
    Generator {
        us_per_request: if requests > 0.0 { cpu as f64 / 1e3 / requests } else { 0.0 },
        resident_bytes: Process::find(std::process::id())
            .and_then(|process| process.footprint())
            .map_or(0, |footprint| footprint.resident_bytes),
        stolen: last.stolen.saturating_sub(first.stolen) as f64 / last.since(first).max(1.0) / machine_cpus,
        socket_buffer_drops: drops(&last.network).saturating_sub(drops(&first.network)),
        datagrams_refused: datagrams_refused(own),
        retransmissions: last.network.tcp_retransmitted_segments.saturating_sub(first.network.tcp_retransmitted_segments),
        lanes: (0..last.lanes.len())
            .map(|lane| Lane {
                lane: lane as u64,
                cpu: running.cpus()[lane].map(|cpu| cpu as u64),
                ..usage(first.lanes[lane], last.lanes[lane], spun(lane))
            })
            .collect(),
    }
}

/// What a lane's thread did between two readings, of which it `spun` for so long; none says that nobody knows.
fn usage(first: LaneReading, last: LaneReading, spun: Option<u64>) -> Lane {
    let (elapsed, spent) = (last.at.saturating_sub(first.at), last.since(first));
    let (cpu_used, waiting_for_cpu) = spent.shares_of(elapsed);
    let busy = spun.map_or(0.0, |spun| {
        let worked = spent.ran.saturating_sub(spun);
        worked as f64 / spent.ran.max(1) as f64 * cpu_used
    });
    Lane { cpu_used, busy, waiting_for_cpu, ..Lane::default() }
}

/// What was dropped in this network namespace for full buffers of sockets.
fn drops(counters: &NetworkCounters) -> u64 {
    [&counters.udp4, &counters.udp6].iter().map(|udp| udp.receive_buffer_errors + udp.send_buffer_errors).sum()
}

/// Datagrams that the system has refused since the process began.
fn datagrams_refused(own: Option<&Reader>) -> u64 {
    let page = own.map(|page| page.snapshot(corelane::now().nanoseconds()));
    let services = page.iter().flat_map(|page| &page.services);
    services.map(|service| service.values.get(ServiceCounter::DatagramsRefused)).sum()
}

/// The counter page of the process of Corelane on this machine that serves `target`, and its file.
pub fn page_serving(transport: Transport, target: &Address) -> Option<(PathBuf, Reader)> {
    page_where(|page| services_at(page, transport, target).next().is_some())
}

/// The first page that `is_it`, in all places where there may be some.
fn page_where(is_it: impl Fn(&Reader) -> bool) -> Option<(PathBuf, Reader)> {
    let directories = RunDirectory::existing().into_iter().filter_map(Result::ok);
    let files = directories.filter_map(|directory| list(&directory).ok()).flatten().filter(|file| file.published);
    let pages: Vec<_> = files.filter_map(|file| Reader::open(&file.path).ok().map(|page| (file.path, page))).collect();
    pages.into_iter().find(|(_, page)| page.liveness() != Liveness::Dead && is_it(page))
}

/// The numbers of the services that the page's process serves at `target`, by its own word: at this address, or at all of this port.
pub fn services_at(page: &Reader, transport: Transport, target: &Address) -> impl Iterator<Item = usize> {
    let serves = move |url: &str| {
        let places = served_at(url, transport).and_then(|url| url.resolve().ok());
        places.is_some_and(|places| places.iter().any(|place| is_at(place, target)))
    };
    let services = page.description().services.iter().enumerate();
    services.filter(move |(_, service)| service.url.split(' ').any(serves)).map(|(number, _)| number)
}

/// The place of a page's URL, if it may be reached by `transport`. A page has URLs as services call them (`https://`): what a name stands for is known of
/// our own, and of others only that they have a host and a port.
fn served_at(url: &str, transport: Transport) -> Option<Url> {
    if is_unix(url) {
        return Url::parse(url, 0).ok().filter(|url| url.transport() == transport);
    }
    let (name, rest) = url.split_once("://")?;
    let fits = match name {
        "tcp" | "tls" | "http" | "https" => transport == Transport::Tcp,
        "udp" => transport == Transport::Udp,
        _ => true,
    };
    let carrier = if transport == Transport::Tcp { "tcp" } else { "udp" };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    Url::parse(&format!("{carrier}://{authority}"), 0).ok().filter(|_| fits)
}

/// Whether who is served at `place` is reached at `target`.
fn is_at(place: &Address, target: &Address) -> bool {
    let (Address::Ip(place), Address::Ip(target)) = (place, target) else { return place == target };
    let is_address = place.ip().is_unspecified() || place.ip().to_canonical() == target.ip().to_canonical();
    place.port() == target.port() && is_address
}

fn between(first: Option<&Snapshot>, last: Option<&Snapshot>) -> Option<Snapshot> {
    last?.since(first?).ok()
}

/// A counter of these services of a page.
fn sum(page: &Snapshot, services: &[usize], counter: ServiceCounter) -> u64 {
    services.iter().map(|&service| page.services[service].values.get(counter)).sum()
}

/// What a server on Corelane counted, for each of the load's `requests` in the same time: for the services at the target, if there are any by
/// the page's word, and for its lanes. What services call a request is their own matter: one that takes a stream as it comes counts a receive.
fn per_request(page: &Snapshot, services: &[usize], requests: f64) -> BTreeMap<String, f64> {
    if requests <= 0.0 {
        return BTreeMap::new();
    }
    let sum = |counter| sum(page, services, counter);
    let of_services = [
        ("receives", sum(ServiceCounter::Receives) + sum(ServiceCounter::DatagramReceives)),
        ("sends", sum(ServiceCounter::Sends) + sum(ServiceCounter::DatagramSends)),
        ("bytes_copied", sum(ServiceCounter::BytesCopied)),
    ];
    let of_lanes = [
        ("sleeps", page.total.get(LaneCounter::Sleeps)),
        ("turns_empty", page.total.get(LaneCounter::TurnsEmpty)),
        ("turns_productive", page.total.get(LaneCounter::TurnsProductive)),
    ];
    let counters = of_services.into_iter().filter(|_| !services.is_empty()).chain(of_lanes);
    counters.map(|(name, count)| (name.to_owned(), count as f64 / requests)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page, ServiceName};
    use std::net::SocketAddr;

    fn reading(at: u64, cpu_nanoseconds: u64, run_delay_nanoseconds: u64) -> LaneReading {
        LaneReading { at, times: ThreadTimes { cpu_nanoseconds, run_delay_nanoseconds } }
    }

    #[test]
    fn a_lane_runs_waits_and_sleeps_for_all_of_the_time() {
        let lane = usage(reading(1_000, 50, 70), reading(3_000, 550, 270), Some(100));
        assert_eq!((lane.cpu_used, lane.waiting_for_cpu), (0.25, 0.1));
        assert!((lane.busy - 0.2).abs() < 1e-12, "{}", lane.busy);
        assert_eq!(usage(reading(5, 5, 5), reading(5, 5, 5), None), Lane::default());
    }

    /// A wait that began before the first reading is counted with its end, after it.
    #[test]
    fn a_wait_that_began_before_is_no_more_than_all_of_the_time() {
        let lane = usage(reading(1_000, 0, 0), reading(2_000, 100, 1_130), Some(0));
        assert!(lane.waiting_for_cpu > 0.9 && lane.waiting_for_cpu + lane.cpu_used <= 1.0, "{lane:?}");
    }

    #[test]
    fn what_is_counted_for_a_request_is_of_the_service_that_is_loaded() {
        let service = |url: &str| ServiceName { name: "echo".into(), url: url.into(), counters: Vec::new() };
        let description = Description {
            services: vec![
                service("tcp://0.0.0.0:7"),
                service("udp://127.0.0.1:7"),
                service("tcp://127.0.0.1:9"),
                service("http://127.0.0.1:80 https://127.0.0.1:443"),
            ],
            lanes: vec![LaneName::default()],
            ..Description::default()
        };
        let page = Page::heap(&description).unwrap();
        for (number, receives) in [100, 7, 5_000, 60].into_iter().enumerate() {
            page.service(0, number).unwrap().add(ServiceCounter::Receives, receives);
            page.service(0, number).unwrap().add(ServiceCounter::Sends, 2 * receives);
        }
        page.lane(0).unwrap().add(LaneCounter::Sleeps, 30);
        let reader = Reader::of(&page).unwrap();
        let at = |transport, port: u16| {
            let services: Vec<usize> =
                services_at(&reader, transport, &SocketAddr::from(([127, 0, 0, 1], port)).into()).collect();
            per_request(&reader.snapshot(0), &services, 10.0)
        };
        let tcp = at(Transport::Tcp, 7);
        assert_eq!((tcp["receives"], tcp["sends"], tcp["sleeps"]), (10.0, 20.0, 3.0));
        assert_eq!(at(Transport::Udp, 7)["receives"], 0.7);
        assert_eq!(at(Transport::Tcp, 9)["receives"], 500.0);
        assert_eq!((at(Transport::Tcp, 80)["receives"], at(Transport::Tcp, 443)["receives"]), (6.0, 6.0));
        assert!(!at(Transport::Udp, 80).contains_key("receives"));
        let unknown = at(Transport::Tcp, 10);
        assert!(!unknown.contains_key("receives") && unknown["sleeps"] == 3.0, "{unknown:?}");
    }

    #[test]
    fn several_threads_wait_for_a_part_of_the_time_that_they_want() {
        let spent = Spent { ran: 1_000, waited: 7_190 };
        assert!((spent.share_waited() - 0.878).abs() < 1e-3, "{}", spent.share_waited());
        assert_eq!((Spent { ran: 0, waited: 0 }).share_waited(), 0.0);
    }
}
