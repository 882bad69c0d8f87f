//! What the operating system and the counter pages say of both sides at the ends of the window.

use crate::error::Error;
use crate::plan::Plan;
use crate::report::{Generator, Lane, Server};
use corelane::machine::{NetworkCounters, Process, ProcessTree, network_counters, stolen_time, thread_times};
use corelane::watch::{LaneCounter, Liveness, Reader, RunDirectory, ServiceCounter, Snapshot, list};
use corelane::{Running, Transport, Url, monotonic_nanoseconds};
use std::collections::BTreeMap;
use std::net::SocketAddr;
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
    /// Resident bytes before the connections were opened.
    resident_before: u64,
}

/// One reading of everything.
pub(crate) struct Reading {
    at: u64,
    server_cpu: u64,
    server_delay: u64,
    server_page: Option<Snapshot>,
    lanes: Vec<(u64, u64)>,
    own_page: Option<Snapshot>,
    stolen: u64,
    network: NetworkCounters,
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
                let (_, page) = page_serving(plan.transport, plan.target).ok_or(Error::NoPage { url: plan.url.clone() })?;
                (page.description().process.pid, Some(page))
            }
        };
        let broken = |error: std::io::Error| Error::Server { pid, why: error.to_string() };
        let mut tree = ProcessTree::of(pid).map_err(broken)?;
        let resident_before = tree.footprint().map_err(broken)?.resident_bytes;
        Ok(Some(Self { pid, tree, page, resident_before }))
    }

    fn resident(&mut self) -> u64 {
        self.tree.footprint().map_or(0, |footprint| footprint.resident_bytes)
    }

    /// The server's side between two readings; none if its process has ended.
    pub(crate) fn report(&mut self, first: &Reading, last: &Reading, connections: u64) -> Option<Server> {
        let span = last.at.saturating_sub(first.at).max(1) as f64;
        let resident_bytes = self.resident();
        if resident_bytes == 0 {
            return None;
        }
        let grown = resident_bytes.saturating_sub(self.resident_before) as f64;
        Some(Server {
            pid: self.pid,
            cpus_used: last.server_cpu.saturating_sub(first.server_cpu) as f64 / span,
            waiting_for_cpu: last.server_delay.saturating_sub(first.server_delay) as f64 / span,
            resident_bytes,
            bytes_per_connection: (connections > 0).then(|| grown / connections as f64),
            per_request: between(first.server_page.as_ref(), last.server_page.as_ref())
                .map(|page| per_request(&page))
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
            server_page = server.page.as_ref().map(|page| page.snapshot(monotonic_nanoseconds()));
        }
        let at = monotonic_nanoseconds();
        let times = running.threads().into_iter().map(|thread| thread_times(thread).unwrap_or_default());
        Self {
            at,
            server_cpu,
            server_delay,
            server_page,
            lanes: times.map(|times| (times.cpu_nanoseconds, times.run_delay_nanoseconds)).collect(),
            own_page: own.map(|page| page.snapshot(at)),
            stolen: stolen_time().map_or(0, |time| time.nanoseconds),
            network: network_counters().unwrap_or_default(),
        }
    }
}

/// The generator's own side between two readings; what the lanes counted themselves is added by the collector.
pub(crate) fn generator(running: &Running, own: Option<&Reader>, first: &Reading, last: &Reading, requests: u64) -> Generator {
    let span = last.at.saturating_sub(first.at).max(1) as f64;
    let page = between(first.own_page.as_ref(), last.own_page.as_ref());
    let cpu: u64 = last.lanes.iter().zip(&first.lanes).map(|(last, first)| last.0.saturating_sub(first.0)).sum();
    let machine_cpus = stolen_time().map_or(1, |time| time.cpus.len().max(1)) as f64;
    let network = &last.network;
    let drops = |counters: &NetworkCounters| {
        [&counters.udp4, &counters.udp6].iter().map(|udp| udp.receive_buffer_errors + udp.send_buffer_errors).sum::<u64>()
    };
    Generator {
        us_per_request: if requests > 0 { cpu as f64 / 1e3 / requests as f64 } else { 0.0 },
        resident_bytes: Process::find(std::process::id())
            .and_then(|process| process.footprint())
            .map_or(0, |footprint| footprint.resident_bytes),
        stolen: last.stolen.saturating_sub(first.stolen) as f64 / span / machine_cpus,
        socket_buffer_drops: drops(network).saturating_sub(drops(&first.network)),
        datagrams_refused: datagrams_refused(own),
        retransmissions: network.tcp_retransmitted_segments.saturating_sub(first.network.tcp_retransmitted_segments),
        lanes: (0..last.lanes.len())
            .map(|lane| Lane {
                lane: lane as u64,
                cpu: running.cpus()[lane].map(|cpu| cpu as u64),
                cpu_used: last.lanes[lane].0.saturating_sub(first.lanes[lane].0) as f64 / span,
                busy: page.as_ref().map_or(0.0, |page| {
                    let spun = page.lanes[lane].values.get(LaneCounter::SpinNanoseconds);
                    (last.lanes[lane].0.saturating_sub(first.lanes[lane].0).saturating_sub(spun)) as f64 / span
                }),
                waiting_for_cpu: last.lanes[lane].1.saturating_sub(first.lanes[lane].1) as f64 / span,
                ..Lane::default()
            })
            .collect(),
    }
}

/// Datagrams that the system has refused since the process began.
fn datagrams_refused(own: Option<&Reader>) -> u64 {
    let page = own.map(|page| page.snapshot(monotonic_nanoseconds()));
    let services = page.iter().flat_map(|page| &page.services);
    services.map(|service| service.values.get(ServiceCounter::DatagramsRefused)).sum()
}

/// The counter page of the process of Corelane on this machine that serves `target`, and its file.
pub fn page_serving(transport: Transport, target: SocketAddr) -> Option<(PathBuf, Reader)> {
    page_where(|page| services_at(page, transport, target).next().is_some())
}

/// The first page here that `is_it`.
fn page_where(is_it: impl Fn(&Reader) -> bool) -> Option<(PathBuf, Reader)> {
    let pages = list(&RunDirectory::choose(&mut Vec::new()).ok()?).ok()?;
    let pages = pages.into_iter().filter_map(|file| Reader::open(&file.path).ok().map(|page| (file.path, page)));
    pages.into_iter().find(|(_, page)| page.liveness() == Liveness::Alive && is_it(page))
}

/// The numbers of the services that the page's process serves at `target`, by its own word: at this address, or at all of this port.
pub fn services_at(page: &Reader, transport: Transport, target: SocketAddr) -> impl Iterator<Item = usize> {
    let is_there = move |place: SocketAddr| {
        let is_address = place.ip().is_unspecified() || place.ip().to_canonical() == target.ip().to_canonical();
        place.port() == target.port() && is_address
    };
    let serves = move |url: &str| {
        let url = Url::parse(url, 0).ok().filter(|url| url.transport() == transport);
        url.and_then(|url| url.resolve().ok()).is_some_and(|places| places.into_iter().any(is_there))
    };
    let services = page.description().services.iter().enumerate();
    services.filter(move |(_, service)| service.url.split(' ').any(serves)).map(|(number, _)| number)
}

fn between(first: Option<&Snapshot>, last: Option<&Snapshot>) -> Option<Snapshot> {
    last?.since(first?).ok()
}

/// What a server on Corelane counts, per request that it counted.
fn per_request(page: &Snapshot) -> BTreeMap<String, f64> {
    let sum = |counter: ServiceCounter| page.services.iter().map(|service| service.values.get(counter)).sum::<u64>();
    let requests = sum(ServiceCounter::Requests) as f64;
    if requests == 0.0 {
        return BTreeMap::new();
    }
    let counters = [
        ("receives", sum(ServiceCounter::Receives) + sum(ServiceCounter::DatagramReceives)),
        ("sends", sum(ServiceCounter::Sends) + sum(ServiceCounter::DatagramSends)),
        ("bytes_copied", sum(ServiceCounter::BytesCopied)),
        ("sleeps", page.total.get(LaneCounter::Sleeps)),
        ("turns_empty", page.total.get(LaneCounter::TurnsEmpty)),
        ("turns_productive", page.total.get(LaneCounter::TurnsProductive)),
    ];
    counters.into_iter().map(|(name, count)| (name.to_owned(), count as f64 / requests)).collect()
}
