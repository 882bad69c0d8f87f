//! `corelane rss check`: sends flows whose lanes are known, and sees on which lanes they arrive.

use super::placing::Placing;
use super::table;
use crate::exit::{Exit, Late};
use crate::print::print;
use anyhow::{Context, Result, anyhow, bail};
use corelane::Address;
use corelane::admin::control::{Command, ask, ask_hasher};
use corelane::admin::machine::{connect_from, ports_to_choose, wall_clock};
use corelane::admin::rss::{Bucket, FlowHasher, HashTypes, Outgoing, Protocol, Table, Way};
use corelane::admin::verify::{Batch, Verdict, read_log};
use corelane::admin::watch::{Reader, ServiceCounter};
use corelane::lanes::{Transport, Url};
use corelane_load::{page_serving, services_at};
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sends flows to a running process, and reports those that arrive on another lane than its table says
///
/// It sends some new connections or datagrams to each bucket, and reads from the lanes' counters where they arrived. They are few, and no load for the
/// process; but if others use it meanwhile, that disturbs the counts.
#[derive(clap::Args)]
#[command(after_help = Exit::help_of(CODES))]
pub struct Arguments {
    /// A place that the process serves, with its port: tcp://127.0.0.1:60007 or udp://127.0.0.1:60007
    #[arg(required_unless_present = "log")]
    url: Option<String>,
    /// The process; by default the one of this user that serves the URL
    #[arg(long, value_parser = crate::stat::process_number, conflicts_with = "log")]
    pid: Option<u32>,
    /// Flows for each bucket
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    flows: u8,
    /// Send nothing, and judge a log: in each line a flow id and the lane, or queue of a card, where it arrived, as in 0x21f7db62 3
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "flows", "key"])]
    log: Option<PathBuf>,
    #[command(flatten)]
    placing: Placing,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What it ends with.
const CODES: &[(Exit, &str)] = &[
    (Exit::Done, "every flow arrived on the lane that its bucket names"),
    (Exit::Late, "buckets could not be judged, because others use the process; or the output cannot be written"),
    (Exit::Usage, "it could not be checked as asked: the arguments, or what stands in their way"),
    (Exit::Wrong, "flows were on other lanes, or did not arrive"),
];

/// How long the flows of one bucket may take to be counted.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long between two looks at the counters.
const LOOK: Duration = Duration::from_micros(200);
/// Buckets with losses after which no more is sent: the process does not take what it is sent.
const LOSSES_MAX: usize = 8;
/// How often a bucket is tried while others use the process.
const TRIES: usize = 8;
/// Ends that are kept for each bucket; some may be taken.
const ENDS_MAX: usize = 256;
/// Addresses of loopback that are tried where only addresses are hashed, and the ports that are tried of each.
const LOOPBACK_MAX: u32 = 4096;
const PORTS_EACH: usize = 8;
/// Lines about flows on wrong lanes.
const SHOWN_MAX: usize = 16;

/// Sends, counts and judges.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let (about, verdict) = match (&arguments.log, &arguments.url) {
        (Some(log), _) => of_log(log, &arguments.placing)?,
        (None, Some(url)) => of_process(arguments, url)?,
        (None, None) => bail!("there is nothing to check: name a URL that is served"),
    };
    match arguments.json {
        true => print(object(&about, &verdict))?,
        false => print(words(&about, &verdict)?.trim_end())?,
    }
    match (verdict.is_right(), verdict.disturbed.len()) {
        (false, _) => Ok(Exit::Wrong),
        (true, 0) => Ok(Exit::Done),
        (true, buckets) => {
            Err(Late::of("checking", format!("others use the process, so {buckets} buckets could not be judged: try again"))
                .into())
        }
    }
}

/// What was checked.
struct About {
    title: String,
    pid: Option<u32>,
    url: Option<String>,
    steering: Option<String>,
    buckets: usize,
    /// Buckets to which no flow could be made.
    unreached: usize,
    /// Buckets that were left out because nothing arrived before.
    untried: usize,
    /// Strays that the process itself has counted meanwhile.
    strays_counted: Option<u64>,
}

fn of_log(log: &Path, placing: &Placing) -> Result<(About, Verdict)> {
    let text = std::fs::read_to_string(log).with_context(|| format!("--log: {}", log.display()))?;
    let table = placing.table(128, "--lanes")?;
    let batches = read_log(&table, &text).with_context(|| format!("--log: {}", log.display()))?;
    if batches.is_empty() {
        bail!(
            "--log: {} has no line with a flow: write on each a flow id and the lane where it arrived, as in 0x21f7db62 3",
            log.display()
        );
    }
    let title = format!("{}, {} buckets, {} lanes", log.display(), table.buckets().count(), table.owners().count());
    let buckets = table.buckets().count();
    let about = About { title, pid: None, url: None, steering: None, buckets, unreached: 0, untried: 0, strays_counted: None };
    Ok((about, Verdict::of(&table, &batches)))
}

fn of_process(arguments: &Arguments, url: &str) -> Result<(About, Verdict)> {
    if arguments.placing.lanes.is_some() {
        bail!("--lanes is for --log: a process is asked for its table");
    }
    let checked = Checked::find(url, arguments.pid)?;
    let before = checked.strays();
    let mut ends = checked.ends()?;
    let unreached = ends.iter().filter(|ends| ends.is_empty()).count();
    let batches = checked.send_all(&mut ends, arguments.flows.into())?;
    let (pid, steering) = (checked.page.description().process.pid, checked.steering());
    let buckets = checked.table.buckets().count();
    let about = About {
        title: format!("{url} of process {pid}, steering {steering}, {buckets} buckets"),
        pid: Some(pid),
        url: Some(url.to_owned()),
        steering: Some(steering),
        buckets,
        unreached,
        untried: buckets - unreached - batches.len(),
        strays_counted: Some(checked.strays() - before),
    };
    Ok((about, Verdict::of(&checked.table, &batches)))
}

/// A process whose flows are checked, at one of its places.
struct Checked {
    page: Reader,
    /// The services at the place.
    services: Vec<usize>,
    transport: Transport,
    target: SocketAddr,
    table: Table,
    hasher: FlowHasher,
}

/// A flow that was sent: kept open until it is counted.
enum Sent {
    Connection(#[expect(dead_code, reason = "kept open")] TcpStream),
    Datagram(#[expect(dead_code, reason = "kept open")] UdpSocket),
    /// Nothing was answered.
    Lost,
}

/// The addresses that a URL stands for; those of its own machine for all of them.
fn targets(text: &str, url: &Url) -> Result<Vec<SocketAddr>> {
    let inet = |address: Address| address.inet().ok_or_else(|| anyhow!("{text}: only IP has flows that can be checked"));
    let mut targets = url.resolve()?.into_iter().map(inet).collect::<Result<Vec<_>>>()?;
    for target in &mut targets {
        if target.port() == 0 {
            bail!("{text} names no port: write it as in {text}:60007");
        }
        if target.ip().is_unspecified() {
            target.set_ip(if target.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
        }
    }
    Ok(targets)
}

/// The counter page of this process, and its file, if it serves this address.
fn page_of(pid: u32, transport: Transport, target: &SocketAddr) -> Result<Option<(PathBuf, Reader)>> {
    let path = table::page(Some(pid))?.path;
    let page = Reader::open(&path)?;
    let serves = services_at(&page, transport, &(*target).into()).next().is_some();
    Ok(serves.then_some((path, page)))
}

impl Checked {
    fn find(url: &str, pid: Option<u32>) -> Result<Self> {
        let places = Url::parse(url, 0)?;
        let transport = places.transport();
        let targets = targets(url, &places)?;
        let serving = |target: &SocketAddr| match pid {
            Some(pid) => page_of(pid, transport, target),
            None => Ok(page_serving(transport, &(*target).into())),
        };
        // A name may stand for several addresses, of which one is served.
        let mut found = None;
        for target in targets {
            found = serving(&target)?.map(|(path, page)| (target, path, page));
            if found.is_some() {
                break;
            }
        }
        let (target, path, page) = found.ok_or_else(|| match pid {
            Some(pid) => anyhow!("process {pid} does not serve {url}: `corelane stat` shows what it serves"),
            None => anyhow!("no corelane process of this user here serves {url}: `corelane stat` shows those that run"),
        })?;
        let services: Vec<usize> = services_at(&page, transport, &target.into()).collect();
        let pid = page.description().process.pid;
        let table = ask(&path, Command::Table).map_err(|error| anyhow!("process {pid}: {error}"))?;
        let hasher = ask_hasher(&path).map_err(|error| anyhow!("process {pid}: {error}"))?;
        Ok(Self { page, services, transport, target, table, hasher })
    }

    fn steering(&self) -> String {
        self.page.description().lanes.first().map(|lane| lane.steering.clone()).unwrap_or_default()
    }

    /// A counter of the services at the place, by lane.
    fn counts(&self, counter: ServiceCounter) -> Vec<u64> {
        let lanes = self.page.snapshot(corelane::now().nanoseconds()).lanes;
        lanes.iter().map(|lane| self.services.iter().map(|&service| lane.services[service].get(counter)).sum()).collect()
    }

    fn strays(&self) -> u64 {
        self.counts(ServiceCounter::Strays).iter().sum()
    }

    /// What counts an arrival.
    fn arrivals(&self) -> Vec<u64> {
        self.counts(match self.transport {
            Transport::Tcp => ServiceCounter::Accepts,
            Transport::Udp => ServiceCounter::DatagramsIn,
        })
    }

    /// By bucket, the ends from which flows lead there.
    fn ends(&self) -> Result<Vec<Vec<SocketAddr>>> {
        let mut ends = vec![Vec::new(); self.table.buckets().count()];
        let protocol = Protocol::from(self.transport);
        let ports = ports_to_choose().map_err(|error| Late::of("reading the ports to choose from", error))?;
        let sources = self.sources()?;
        let ports_each = if sources.len() > 1 { PORTS_EACH } else { usize::MAX };
        for local in sources {
            let flow = Outgoing { local, peer: self.target, protocol, way: Way::There };
            for range in &ports {
                for (port, flow) in flow.ports(&self.hasher, range.clone(), |_| true)?.take(ports_each) {
                    ends[self.table.buckets().of(flow).index()].push(SocketAddr::new(local, port));
                }
            }
        }
        for ends in ends.iter_mut().filter(|ends| !ends.is_empty()) {
            // The last check's ports may not be free again.
            let first = wall_clock() / 1_000 % ends.len() as u64;
            ends.rotate_left(first as usize);
            ends.truncate(ENDS_MAX);
        }
        Ok(ends)
    }

    /// The addresses to send from: one, unless only addresses are hashed.
    fn sources(&self) -> Result<Vec<IpAddr>> {
        let any = if self.target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let local = UdpSocket::bind(any).and_then(|socket| socket.connect(self.target).and_then(|()| socket.local_addr()));
        let local = local.with_context(|| format!("{} is reached from no address", self.target))?.ip();
        let with_ports = self.transport == Transport::Tcp || self.hasher.types() == HashTypes::ALL;
        match local {
            IpAddr::V4(address) if address.is_loopback() && !with_ports => {
                let first = u32::from(address);
                Ok((0..LOOPBACK_MAX).map(|host| Ipv4Addr::from(first + host).into()).collect())
            }
            local => Ok(vec![local]),
        }
    }

    fn send_all(&self, ends: &mut [Vec<SocketAddr>], flows: usize) -> Result<Vec<Batch>> {
        let (mut batches, mut losses): (Vec<Batch>, usize) = (Vec::new(), 0);
        for (bucket, ends) in self.table.buckets().all().zip(ends) {
            if ends.is_empty() || losses == LOSSES_MAX {
                continue;
            }
            let batch = self.send_until_quiet(bucket, ends, flows)?;
            losses += usize::from(batch.arrived.iter().sum::<u64>() < batch.sent);
            batches.push(batch);
        }
        Ok(batches)
    }

    /// Sends again while others are counted, too: too many arrive, or one on another lane though the process itself saw no stray.
    fn send_until_quiet(&self, bucket: Bucket, ends: &mut Vec<SocketAddr>, flows: usize) -> Result<Batch> {
        let (lane, strays) = (self.table.lane(bucket), self.strays());
        let mut batch = self.send(bucket, ends, flows)?;
        for _ in 1..TRIES {
            let arrived: u64 = batch.arrived.iter().sum();
            let elsewhere = arrived - batch.arrived.get(lane).copied().unwrap_or(0);
            if arrived <= batch.sent && (elsewhere == 0 || self.strays() > strays) {
                break;
            }
            batch = self.send(bucket, ends, flows)?;
        }
        Ok(batch)
    }

    fn send(&self, bucket: Bucket, ends: &mut Vec<SocketAddr>, flows: usize) -> Result<Batch> {
        let before = self.arrivals();
        let mut open = Vec::new();
        while open.len() < flows
            && let Some(end) = ends.pop()
        {
            open.extend(self.flow(end)?);
        }
        let sent = open.len() as u64;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let arrived: Vec<u64> = self.arrivals().iter().zip(&before).map(|(now, before)| now - before).collect();
            if arrived.iter().sum::<u64>() >= sent || Instant::now() > deadline {
                return Ok(Batch { bucket, sent, arrived });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Sends one flow; none if its end is taken.
    fn flow(&self, from: SocketAddr) -> Result<Option<Sent>> {
        let sent = match self.transport {
            Transport::Tcp => connect_from(from, self.target, PATIENCE).map(Sent::Connection),
            Transport::Udp => UdpSocket::bind(from)
                .and_then(|socket| socket.send_to(b"corelane rss check", self.target).map(|_| Sent::Datagram(socket))),
        };
        match sent.map_err(|error| (error.kind(), error)) {
            Ok(sent) => Ok(Some(sent)),
            Err((ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable, _)) => Ok(None),
            Err((ErrorKind::TimedOut, _)) => Ok(Some(Sent::Lost)),
            Err((_, error)) => Err(Late::of("sending", format!("{from} to {}: {error}", self.target)).into()),
        }
    }
}

fn object(about: &About, verdict: &Verdict) -> Value {
    let lanes = verdict.lanes.iter().enumerate();
    let lanes: Vec<Value> = lanes
        .map(|(lane, sum)| json!({ "lane": lane, "sent": sum.sent, "arrived": sum.arrived, "strays": sum.strays }))
        .collect();
    let misplaced = verdict.misplaced.iter().map(
        |one| json!({ "bucket": one.bucket.index(), "lane": one.belongs_to, "arrived_on": one.arrived_on, "flows": one.flows }),
    );
    let disturbed: Vec<usize> = verdict.disturbed.iter().map(|bucket| bucket.index()).collect();
    json!({
        "pid": about.pid, "url": about.url, "steering": about.steering, "buckets": about.buckets,
        "right": verdict.is_right(), "sent": verdict.sent, "arrived": verdict.arrived, "lost": verdict.lost, "strays": verdict.strays,
        "strays_counted": about.strays_counted, "lanes": lanes, "misplaced": misplaced.collect::<Vec<_>>(),
        "disturbed": disturbed, "unreached": about.unreached, "untried": about.untried,
    })
}

fn words(about: &About, verdict: &Verdict) -> Result<String> {
    let mut words = format!("{}\n", about.title);
    writeln!(words, "lane    sent  arrived  strays")?;
    for (lane, sum) in verdict.lanes.iter().enumerate() {
        writeln!(words, "{lane:>4}  {:>6}  {:>7}  {:>6}", sum.sent, sum.arrived, sum.strays)?;
    }
    let Verdict { sent, arrived, lost, strays, .. } = verdict;
    writeln!(words, "{sent} sent, {arrived} arrived, {lost} lost, {strays} strays")?;
    for one in verdict.misplaced.iter().take(SHOWN_MAX) {
        writeln!(words, "bucket {}: {} for lane {} arrived on lane {}", one.bucket, one.flows, one.belongs_to, one.arrived_on)?;
    }
    if verdict.misplaced.len() > SHOWN_MAX {
        writeln!(words, "and {} more buckets", verdict.misplaced.len() - SHOWN_MAX)?;
    }
    if let Some(counted) = about.strays_counted.filter(|counted| *counted != *strays) {
        writeln!(words, "the process itself has counted {counted} strays meanwhile: others use it, or its table was changed")?;
    }
    if *lost > 0 {
        writeln!(words, "what is lost was not taken by this process: does another one serve there, too (--join)?")?;
    }
    if !verdict.disturbed.is_empty() {
        writeln!(words, "{} buckets could not be judged, because others use the process", verdict.disturbed.len())?;
    }
    if about.untried > 0 {
        writeln!(words, "{} more buckets were not tried after so many losses", about.untried)?;
    }
    if about.unreached > 0 {
        writeln!(words, "{} buckets are reached from no address here, and were not checked", about.unreached)?;
    }
    Ok(words)
}
