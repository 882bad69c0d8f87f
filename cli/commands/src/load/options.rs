//! The options of `corelane load`, and the job that they ask for.

use super::own::Own;
use super::reach;
use anyhow::{Context, Result, anyhow, bail};
use corelane::Address;
use corelane::admin::control::{Command, ask, ask_hasher};
use corelane::admin::rss::{Buckets, FlowHasher, HashTypes, Key, Table};
use corelane::lanes::{PacketPort, Transport, Url};
use corelane::service::did_you_mean;
use corelane_load::aim::{self, Aim};
use corelane_load::amounts;
use corelane_load::arrivals::Arrivals;
use corelane_load::place::{Destination, Scheme, is_unix};
use corelane_load::plan::{Extent, Mode, Plan};
use corelane_load::secure::{Secure, Wishes};
use corelane_load::workloads::{self, WorkloadEntry};
use corelane_load::{Watched, curve, page_serving};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The options, as data.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// One of the workloads below; without one, the first workload below that takes such a URL
    #[arg(value_name = "WORKLOAD", default_value = workloads::ALL[0].name)]
    workload: String,
    #[arg(value_name = "URL", help = places("unix:PATH"), long_help = places(UNIX))]
    url: Option<String>,

    /// Connections, or sockets for datagrams [default: as the workload says below; 1000 at once with --connection-rate]
    ///
    /// With --connection-rate they are the most at once.
    #[arg(long, short = 'c', value_name = "N", help_heading = "Load")]
    connections: Option<u32>,
    /// Most requests in flight on each connection
    #[arg(long, short = 'd', value_name = "N", default_value_t = 1, help_heading = "Load")]
    depth: u32,
    /// Bytes of a request, or of its payload, such as 4096 or 64KiB [default: as the workload says below]
    #[arg(long, short = 's', value_name = "BYTES", value_parser = amounts::size, help_heading = "Load")]
    size: Option<u64>,
    /// Requests a second, such as 5000, 10k or 1.5M, each with its own time, whether answers come or not (an open loop)
    #[arg(long, short = 'r', value_name = "R", value_parser = amounts::rate, conflicts_with = "connection_rate", help_heading = "Load")]
    rate: Option<f64>,
    /// How they follow one another: fixed, poisson, or a file with one time in seconds a line
    #[arg(long, value_name = "HOW", help_heading = "Load")]
    arrivals: Option<String>,
    /// Connections a second, such as 500 or 1k, each with requests of its own, closed after the last one
    #[arg(long, value_name = "R", value_parser = amounts::rate, help_heading = "Load")]
    connection_rate: Option<f64>,
    /// Close each connection after so many requests [default: never; 1 with --connection-rate]
    ///
    /// With --connection-rate they go one after the other. In a closed loop up to --depth go at once, and then another connection follows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Load")]
    requests_per_connection: Option<u32>,
    /// Open connections no faster than so many a second, such as 500 or 1k, before measuring begins [default: as fast as they come]
    #[arg(long, value_name = "R", value_parser = amounts::rate, conflicts_with = "connection_rate", help_heading = "Load")]
    opening_rate: Option<f64>,
    #[command(flatten)]
    own: Own,
    /// Send datagrams one by one even where several go to the same peer
    #[arg(long, help_heading = "Load")]
    singles: bool,
    /// The seed of random arrivals
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    seed: u64,

    /// How long to measure, such as 500ms, 3s or 10m [default: as the workload says below]
    #[arg(long, value_name = "TIME", value_parser = amounts::time, conflicts_with = "requests", help_heading = "Extent")]
    duration: Option<Duration>,
    /// Measure so many requests (connections, with --connection-rate), however long they take
    #[arg(long, short = 'n', value_name = "N", help_heading = "Extent")]
    requests: Option<u64>,
    /// How long to load the server before measuring begins [default: 1s; none with --requests or a file of arrivals]
    #[arg(long, value_name = "TIME", value_parser = amounts::time, help_heading = "Extent")]
    warmup: Option<Duration>,
    /// How long to wait for an answer, or for a connection [default: 5s; 1s for datagrams]
    #[arg(long, value_name = "TIME", value_parser = amounts::time, help_heading = "Extent")]
    timeout: Option<Duration>,
    /// Make so many runs and report medians and spread; with --against so many rounds [default: 1; 15 to 40 rounds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Extent")]
    runs: Option<u32>,
    /// Load this target too, in paired rounds of alternating order, and report the ratios
    #[arg(long, value_name = "URL", help_heading = "Extent")]
    against: Option<String>,

    /// Lanes of the generator [default: one for each CPU that may be used]
    #[arg(long, value_name = "N", help_heading = "Generator")]
    lanes: Option<usize>,
    /// The CPUs of the lanes, such as 0-3,8
    #[arg(long, value_name = "LIST", help_heading = "Generator")]
    cpus: Option<String>,
    /// How the lanes do their input and output: by uring, by epoll, or, with auto, by whichever is better here
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "Generator")]
    driver: String,
    /// Send requests over UDP as frames of an interface, at an address that the kernel does not have: eth1,ip=10.0.0.1/24
    ///
    /// Answers are taken from there. All that `serve --packet` has may follow. Needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF.
    #[arg(long, value_name = "INTERFACE,ip=..", help_heading = "Generator")]
    packet: Option<PacketPort>,
    /// How long a lane goes on looking for work before it sleeps, such as 50us, up to 1s
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = amounts::time, help_heading = "Generator")]
    spin: Duration,
    /// Bytes that the system keeps for each connection until they are read (SO_RCVBUF), such as 16KiB [default: the system's]
    #[arg(long, value_name = "BYTES", value_parser = receive_buffer, help_heading = "Generator")]
    receive_buffer: Option<u32>,
    /// An address of this machine to connect from; may be repeated, they take turns
    #[arg(long = "source", value_name = "ADDRESS", help_heading = "Generator")]
    sources: Vec<IpAddr>,

    /// Spread connections over the target's lanes: even, one (lane 0), one:LANE, or weights by lane such as 3,1
    ///
    /// The target is asked for its table and its key, unless --spread-lanes says how many lanes it has.
    #[arg(long, value_name = "HOW", help_heading = "Spread")]
    spread: Option<String>,
    /// Do not ask the target for its table: assume 128 buckets, shared evenly among so many lanes, and the default key
    #[arg(long, value_name = "N", requires = "spread", help_heading = "Spread")]
    spread_lanes: Option<usize>,

    /// Over TLS, trust servers with a certificate of an authority in this PEM file [default: the system's authorities]
    #[arg(long, value_name = "FILE", conflicts_with = "trust_anybody", help_heading = "TLS")]
    ca: Option<PathBuf>,
    /// Over TLS, trust any server, whatever its certificate says: for measuring only
    #[arg(long, help_heading = "TLS")]
    trust_anybody: bool,
    /// Over TLS, make each handshake a full one
    #[arg(long, help_heading = "TLS")]
    no_resumption: bool,
    /// Over TLS, show the certificate in this PEM file to servers that ask for one
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    certificate: Option<PathBuf>,
    /// The private key of --certificate [default: in the same file]
    #[arg(long, value_name = "FILE", requires = "certificate", help_heading = "TLS")]
    key: Option<PathBuf>,

    /// Report the CPU time and memory of this process with its descendants: the server's
    #[arg(long, value_name = "PID", value_parser = crate::stat::process_number, conflicts_with = "server_page", help_heading = "Server")]
    server_pid: Option<u32>,
    /// Find the server by its counter page, and report what that says too: a server on Corelane on this machine
    #[arg(long, help_heading = "Server")]
    server_page: bool,
    /// As --server-pid, for the target of --against
    #[arg(long, value_name = "PID", value_parser = crate::stat::process_number, requires = "against", help_heading = "Server")]
    against_pid: Option<u32>,

    /// Quantiles to report, in percent
    #[arg(long, value_name = "LIST", default_value = "50,90,99,99.9", help_heading = "Report")]
    quantiles: String,
    /// Print the report as JSON
    #[arg(long, help_heading = "Report")]
    json: bool,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    report: Option<PathBuf>,
    /// Write the histograms, second by second, as an HDR histogram log
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    hdr: Option<PathBuf>,
    /// Show nothing while it runs
    #[arg(long, short = 'q', help_heading = "Report")]
    quiet: bool,
}

/// What is to be done.
pub struct Job {
    pub entry: &'static WorkloadEntry,
    pub plan: Plan,
    pub watched: Watched,
    /// The other target of paired rounds.
    pub against: Option<(Plan, Watched)>,
    /// Runs or rounds; none leaves it to the rule.
    pub runs: Option<u32>,
    pub json: bool,
    pub report: Option<PathBuf>,
    pub hdr: Option<PathBuf>,
    pub quiet: bool,
}

impl Options {
    /// Checks the whole.
    pub fn job(&self) -> Result<Job> {
        let (entry, url) = self.what()?;
        let plan = self.plan(entry, url)?;
        let against = self.against.as_deref().map(|url| self.plan(entry, Some(url))).transpose()?;
        let watched = match (self.server_pid, self.server_page) {
            (Some(pid), _) => Watched::Tree(pid),
            (_, true) => Watched::Page,
            _ => Watched::Nobody,
        };
        if self.hdr.is_some() && self.hdr == self.report {
            bail!("--hdr and --report: each needs a file of its own");
        }
        if self.hdr.is_some() && (against.is_some() || self.runs.is_some_and(|runs| runs > 1)) {
            bail!("--hdr writes the log of one run: leave out --runs and --against");
        }
        Ok(Job {
            entry,
            plan,
            watched,
            against: against.map(|plan| {
                (plan, self.against_pid.map_or(if self.server_page { Watched::Page } else { Watched::Nobody }, Watched::Tree))
            }),
            runs: self.runs,
            json: self.json,
            report: self.report.clone(),
            hdr: self.hdr.clone(),
            quiet: self.quiet,
        })
    }

    /// The workload and the URL. A URL alone is loaded with the first workload that travels so.
    fn what(&self) -> Result<(&'static WorkloadEntry, Option<&str>)> {
        let (first, second) = (self.workload.as_str(), self.url.as_deref());
        let found = match second {
            None if is_url(first) => {
                return of_url(first).map(|entry| (entry, Some(first)));
            }
            _ => workloads::find(first).map(|entry| (entry, second)),
        };
        let names: Vec<&str> = workloads::ALL.iter().map(|entry| entry.name).collect();
        found.ok_or_else(|| {
            anyhow!(
                "there is no workload {first:?}{}: use one of {}",
                did_you_mean(first, names.iter().copied()),
                names.join(", ")
            )
        })
    }

    fn plan(&self, entry: &WorkloadEntry, url: Option<&str>) -> Result<Plan> {
        let place = self.place(entry, url)?;
        let chosen = self.own.chosen(entry)?;
        if entry.rate.is_some() && (self.rate.is_some() || self.connection_rate.is_some() || self.depth != 1) {
            bail!(
                "{} has times of its own, and one request at a time on each connection: leave out --rate, --connection-rate and --depth",
                entry.name
            );
        }
        let default = Plan::new(entry.name, &place.url, place.address.clone());
        if self.singles && default.transport != Transport::Udp {
            bail!("--singles is for datagrams: {} has connections", place.url);
        }
        let connections = self.connections.unwrap_or(self.default_connections(entry));
        let mode = match entry.mode {
            Some(mode) => self.own_mode(entry, mode)?,
            None => self.mode(entry.rate.map(|rate| rate(&chosen, connections)).or(self.rate))?,
        };
        if is_recording(&mode) && self.warmup.is_some() {
            bail!("--arrivals with a file is played once, and measured as a whole: leave out --warmup");
        }
        let aim = self.aim(default.transport, &place.url, &default.target)?;
        let plan = Plan {
            connections,
            opening_rate: self.opening_rate,
            buffers: (0, self.receive_buffer.unwrap_or(0)),
            depth: self.depth,
            requests_each: self.requests_per_connection.filter(|_| self.connection_rate.is_none()),
            size: self.size.map_or(entry.default_size, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            extent: self.extent(&mode, entry),
            warm_up: self.warm_up(&mode),
            timeout: self.patience(default.transport),
            lanes: self.lanes()?,
            cpus: self.cpus.as_deref().map(corelane::lanes::parse_cpus).transpose().map_err(|why| anyhow!("--cpus: {why}"))?,
            driver: self.driver.parse()?,
            packet: self.packet(&default)?,
            spin: self.spin,
            sources: if aim.is_some() { self.named_sources(&default.target)? } else { self.sources.clone() },
            aim,
            secure: self.secure(&place)?,
            seed: self.seed,
            quantiles: curve::parse_quantiles(&self.quantiles).map_err(|why| anyhow!("--quantiles: {why}"))?,
            trains: !self.singles,
            particulars: (entry.particulars)(&chosen, &place)?,
            mode,
            ..default
        };
        let settled = plan.settled();
        settled.and_then(|plan| (entry.check)(&plan).map(|()| plan)).map_err(|error| anyhow!("{error}"))
    }

    /// Where it goes: over frames, which the kernel does not see, to the first address.
    fn place(&self, entry: &WorkloadEntry, url: Option<&str>) -> Result<Destination> {
        let place = entry.place(url)?;
        if self.packet.is_some() {
            return Ok(place);
        }
        let patience = self.patience(place.transport);
        reach::reached(place, &self.sources, patience)
    }

    /// How long an answer is waited for.
    fn patience(&self, transport: Transport) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(if transport == Transport::Udp { 1 } else { 5 }))
    }

    /// The interface by whose frames requests travel, where that can be: else they would go by the kernel's sockets, and nobody would notice.
    fn packet(&self, plan: &Plan) -> Result<Option<PacketPort>> {
        let Some(port) = &self.packet else { return Ok(None) };
        let (url, interface) = (&plan.url, port.interface());
        match plan.target.ip() {
            Some(_) if plan.transport != Transport::Udp => {
                bail!(
                    "--packet: {url}: over the frames of {interface} there is UDP so far: load it without --packet, or name a udp:// URL"
                )
            }
            None => bail!("--packet: {url}: a Unix socket has no frames: leave out --packet"),
            Some(ip) if port.has(ip) => bail!("--packet: {url} is the generator's own address: give it another with ip="),
            Some(ip) if !port.reaches(ip) => {
                bail!(
                    "--packet: {url} is in no network of {interface}: give an address beside it with ip=, or a router with via="
                )
            }
            Some(_) => Ok(Some(port.clone())),
        }
    }

    /// How TLS is to be spoken, where it is.
    fn secure(&self, place: &Destination) -> Result<Option<Secure>> {
        let shown = |chain: &PathBuf| (chain.clone(), self.key.as_ref().unwrap_or(chain).clone());
        let wishes = Wishes {
            authorities: self.ca.clone(),
            trusts_anybody: self.trust_anybody,
            resumes_never: self.no_resumption,
            certificate: self.certificate.as_ref().map(shown),
        };
        match place.secure {
            Some(protocols) => Ok(Some(Secure::new(&wishes, &place.host, protocols)?)),
            None if wishes == Wishes::default() => Ok(None),
            None => {
                bail!(
                    "--ca, --trust-anybody, --no-resumption and --certificate are for TLS: {} has none; write {}",
                    place.url,
                    schemes(Scheme::is_secure).join(" or ")
                )
            }
        }
    }

    /// Which lanes the connections are to lead to.
    fn aim(&self, transport: Transport, url: &str, target: &Address) -> Result<Option<Aim>> {
        let Some(text) = &self.spread else { return Ok(None) };
        let spread = aim::spread(text).map_err(|why| anyhow!("--spread: {why}"))?;
        let Some(lanes) = self.spread_lanes else {
            let Some((page, _)) = page_serving(transport, target) else {
                bail!(
                    "--spread: no corelane process of this user here serves {url}: say how many lanes it has with --spread-lanes"
                );
            };
            let asked = ask(&page, Command::Table).and_then(|table| Ok((table, Arc::new(ask_hasher(&page)?))));
            let (table, hasher) = asked.map_err(|error| anyhow!("--spread: {error}"))?;
            return Ok(Some(Aim { spread, table, hasher }));
        };
        let table = Table::even(Buckets::DEFAULT, lanes).context("--spread-lanes")?;
        let hasher = Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        Ok(Some(Aim { spread, table, hasher }))
    }

    /// The addresses to connect from; the one that the system would take, where that must be known and none is named.
    fn named_sources(&self, target: &Address) -> Result<Vec<IpAddr>> {
        if !self.sources.is_empty() || target.ip().is_none_or(|ip| ip.is_loopback()) {
            return Ok(self.sources.clone());
        }
        let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let local = UdpSocket::bind(any).and_then(|socket| socket.connect(target).and_then(|()| socket.local_addr()));
        Ok(vec![local.with_context(|| format!("--spread: {target} is reached from no address"))?.ip()])
    }

    fn warm_up(&self, mode: &Mode) -> Duration {
        let default = if self.requests.is_some() || is_recording(mode) { Duration::ZERO } else { Duration::from_secs(1) };
        self.warmup.unwrap_or(default)
    }

    /// As many as the workload has unless it is said otherwise; where these have a rate, as many as a patient server may need.
    fn default_connections(&self, entry: &WorkloadEntry) -> u32 {
        if self.connection_rate.is_some() { 1_000 } else { entry.default_connections }
    }

    fn lanes(&self) -> Result<usize> {
        match self.lanes {
            Some(0) => bail!("--lanes: there must be one at least"),
            Some(lanes) => Ok(lanes),
            None => Ok(match &self.cpus {
                Some(list) => corelane::lanes::parse_cpus(list).map_err(|why| anyhow!("--cpus: {why}"))?.len(),
                None => corelane::lanes::lanes_for_this_machine()?,
            }),
        }
    }

    /// The mode that only this workload has.
    fn own_mode(&self, entry: &WorkloadEntry, mode: fn() -> Mode) -> Result<Mode> {
        let is_timed = self.rate.is_some() || self.connection_rate.is_some() || self.arrivals.is_some();
        if is_timed || self.requests_per_connection.is_some() {
            bail!(
                "{} makes no requests that could have a time: leave out --rate, --connection-rate, --arrivals and --requests-per-connection",
                entry.name
            );
        }
        Ok(mode())
    }

    fn mode(&self, rate: Option<f64>) -> Result<Mode> {
        let arrivals = match self.arrivals.as_deref() {
            None | Some("fixed") => Arrivals::Fixed,
            Some("poisson") => Arrivals::Poisson,
            Some(path) => recorded(path)?,
        };
        let is_recorded = matches!(arrivals, Arrivals::Recorded(_));
        Ok(match (rate, self.connection_rate) {
            (Some(_), _) | (_, Some(_)) if is_recorded => bail!("--arrivals with a file has its own rate: leave out --rate"),
            (_, Some(rate)) => Mode::Connections { rate, arrivals, requests: self.requests_per_connection.unwrap_or(1) },
            (Some(rate), _) => Mode::Open { rate, arrivals },
            _ if is_recorded => Mode::Open { rate: 0.0, arrivals },
            _ if self.arrivals.is_some() => bail!("--arrivals needs a --rate: without one a request follows an answer"),
            _ => Mode::Closed,
        })
    }

    fn extent(&self, mode: &Mode, entry: &WorkloadEntry) -> Extent {
        let recording = match mode {
            Mode::Open { arrivals: Arrivals::Recorded(times), .. } => times.last().map(|&last| Duration::from_nanos(last + 1)),
            _ => None,
        };
        match (self.requests, self.duration) {
            (Some(requests), _) => Extent::Requests(requests),
            (_, Some(duration)) => Extent::For(duration),
            _ => Extent::For(recording.unwrap_or(entry.default_duration)),
        }
    }
}

/// Bytes of a buffer of the system's: what it can be asked for (socket(7)).
fn receive_buffer(text: &str) -> Result<u32, String> {
    let fits = |bytes: u64| u32::try_from(bytes).ok().filter(|bytes| (1..=1 << 30).contains(bytes));
    amounts::size(text).and_then(|bytes| fits(bytes).ok_or_else(|| format!("{text:?} is not from 1 byte to 1GiB")))
}

/// The longest recording of arrivals, in bytes: some millions of requests.
const RECORDING_MAX: u64 = 64 << 20;

fn is_recording(mode: &Mode) -> bool {
    matches!(mode, Mode::Open { arrivals: Arrivals::Recorded(_), .. })
}

/// Reads a recording of arrivals.
fn recorded(path: &str) -> Result<Arrivals> {
    let mut text = String::new();
    // One byte more than may be: a device or a pipe has no length to be asked for.
    let length = File::open(path)
        .and_then(|file| file.take(RECORDING_MAX + 1).read_to_string(&mut text))
        .map_err(|error| anyhow!("--arrivals: {path:?} is neither fixed nor poisson nor a file that can be read: {error}"))?;
    if length as u64 > RECORDING_MAX {
        bail!("--arrivals: {path} has more than {RECORDING_MAX} bytes: play a part of it");
    }
    Arrivals::recorded(&text).map_err(|why| anyhow!("--arrivals: {path}: {why}"))
}

/// The first workload whose URLs begin so unless said otherwise, or else the first that may be asked for so.
fn of_url(url: &str) -> Result<&'static WorkloadEntry> {
    let unix = is_unix(url).then(|| Url::parse(url, 0)).transpose()?;
    let fits = |scheme: &Scheme| match &unix {
        Some(unix) => scheme.transport == unix.transport(),
        None => url.split_once("://").is_some_and(|(name, _)| scheme.name == name),
    };
    let at_first = workloads::ALL.iter().find(|entry| fits(&entry.schemes[0]));
    let found = at_first.or_else(|| workloads::ALL.iter().find(|entry| entry.schemes.iter().any(fits)));
    let known = || schemes(|_| true).join(", ");
    found.ok_or_else(|| anyhow!("{url}: no workload is asked for so: use {}, unix: or unixgram:", known()))
}

/// How URLs of the workloads begin: those that `which` wants, each once.
fn schemes(which: impl Fn(&Scheme) -> bool) -> Vec<String> {
    let wanted = workloads::ALL.iter().flat_map(|entry| entry.schemes).filter(|scheme| which(scheme));
    wanted.map(|scheme| format!("{}://", scheme.name)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Unix sockets, with what each is for.
const UNIX: &str = "a Unix socket: unix:PATH for connections, unixgram:PATH for datagrams, @NAME for an abstract name";

/// How a place is written.
fn places(unix: &str) -> String {
    let parts = |which: fn(&Scheme) -> bool, rest: &str| {
        schemes(which).iter().map(|begin| format!("{begin}{rest}")).collect::<Vec<_>>().join(", ")
    };
    format!(
        "Where: {}, {}, behind TLS {}, or {unix} [default: on 127.0.0.1]",
        parts(|scheme| !scheme.is_secure() && !scheme.has_path, "HOST:PORT"),
        parts(|scheme| !scheme.is_secure() && scheme.has_path, "HOST:PORT/PATH"),
        parts(Scheme::is_secure, "")
    )
}

/// Whether a word is a URL, and no workload's name.
fn is_url(word: &str) -> bool {
    word.contains("://") || is_unix(word)
}
