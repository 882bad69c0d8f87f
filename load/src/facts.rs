//! What the operating system and the counter pages say of both sides at the ends of the window.

use crate::error::Error;
use crate::report::{Generator, Lane, Server};
use corelane::machine::{NetworkCounters, Process, ProcessTree, network_counters, stolen_time, thread_times};
use corelane::watch::{LaneCounter, PageFile, Reader, RunDirectory, ServiceCounter, Snapshot, list};
use corelane::{Running, monotonic_nanoseconds};
use std::collections::BTreeMap;

/// Whose cost is measured beside the generator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Nobody's.
    Nobody,
    /// A process with all its descendants.
    Tree(u32),
    /// A process of Corelane, by its counter page.
    Page(u32),
}

/// Reads the server's side, again and again.
pub(crate) struct ServerWatch {
    pid: u32,
    tree: ProcessTree,
    page: Option<Reader>,
    by_page: bool,
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
    pub(crate) fn open(watched: Watched) -> Result<Option<Self>, Error> {
        let (pid, by_page) = match watched {
            Watched::Nobody => return Ok(None),
            Watched::Tree(pid) => (pid, false),
            Watched::Page(pid) => (pid, true),
        };
        let page = page_of(pid);
        if by_page && page.is_none() {
            let why = "it has no counter page here: only `corelane serve` and programs built on Corelane have one".to_owned();
            return Err(Error::Server { pid, why });
        }
        let broken = |error: std::io::Error| Error::Server { pid, why: error.to_string() };
        let mut tree = ProcessTree::of(pid).map_err(broken)?;
        let resident_before = tree.footprint().map_err(broken)?.resident_bytes;
        Ok(Some(Self { pid, tree, page, by_page, resident_before }))
    }

    fn resident(&mut self) -> u64 {
        self.tree.footprint().map_or(0, |footprint| footprint.resident_bytes)
    }

    /// The server's side between two readings.
    pub(crate) fn report(&mut self, first: &Reading, last: &Reading, connections: u64) -> Server {
        let span = last.at.saturating_sub(first.at).max(1) as f64;
        let resident_bytes = self.resident();
        let grown = resident_bytes.saturating_sub(self.resident_before) as f64;
        Server {
            pid: self.pid,
            counted: if self.by_page { "counter page" } else { "process tree" }.to_owned(),
            cpus_used: self.cpu(first, last) / span,
            waiting_for_cpu: last.server_delay.saturating_sub(first.server_delay) as f64 / span,
            resident_bytes,
            bytes_per_connection: (connections > 0).then(|| grown / connections as f64),
            per_request: between(first.server_page.as_ref(), last.server_page.as_ref())
                .map(|page| per_request(&page))
                .unwrap_or_default(),
        }
    }

    /// Nanoseconds of CPU time between two readings.
    fn cpu(&self, first: &Reading, last: &Reading) -> f64 {
        let page = between(first.server_page.as_ref(), last.server_page.as_ref()).filter(|_| self.by_page);
        match page {
            Some(page) => page.lanes.iter().map(|lane| busy(&page, &lane.values)).sum::<f64>() * span_of(&page),
            None => last.server_cpu.saturating_sub(first.server_cpu) as f64,
        }
    }
}

impl Reading {
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
pub(crate) fn generator(running: &Running, first: &Reading, last: &Reading, requests: u64) -> Generator {
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
        retransmissions: network.tcp_retransmitted_segments.saturating_sub(first.network.tcp_retransmitted_segments),
        lanes: (0..last.lanes.len())
            .map(|lane| Lane {
                lane: lane as u64,
                cpu: running.cpus()[lane].map(|cpu| cpu as u64),
                cpu_used: last.lanes[lane].0.saturating_sub(first.lanes[lane].0) as f64 / span,
                busy: page.as_ref().map_or(0.0, |page| busy(page, &page.lanes[lane].values)),
                waiting_for_cpu: last.lanes[lane].1.saturating_sub(first.lanes[lane].1) as f64 / span,
                ..Lane::default()
            })
            .collect(),
    }
}

fn page_of(pid: u32) -> Option<Reader> {
    let directory = RunDirectory::choose().ok()?;
    let is_of = |page: &PageFile| page.process.pid == pid;
    list(&directory).ok()?.iter().find(|page| is_of(page)).and_then(|page| Reader::open(&page.path).ok())
}

fn between(first: Option<&Snapshot>, last: Option<&Snapshot>) -> Option<Snapshot> {
    last?.since(first?).ok()
}

fn span_of(page: &Snapshot) -> f64 {
    page.span_nanoseconds.unwrap_or(0) as f64
}

/// The share of the span in which a lane neither slept nor looked in vain.
fn busy(page: &Snapshot, lane: &corelane::watch::Values<LaneCounter>) -> f64 {
    let idle = lane.get(LaneCounter::SleepNanoseconds) + lane.get(LaneCounter::SpinNanoseconds);
    if span_of(page) > 0.0 { (1.0 - idle as f64 / span_of(page)).clamp(0.0, 1.0) } else { 0.0 }
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
