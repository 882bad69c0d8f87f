//! `corelane serve`: starts the built-in services, one lane per core.
#![expect(rustdoc::broken_intra_doc_links, reason = "these comments are the help text, where brackets are part of addresses")]

mod log;
mod plan;
mod reload;
mod sandbox;
mod settings;
mod supervisor;

use crate::exit::{Exit, Late};
use crate::print::print;
use anyhow::{Result, anyhow, bail};
use corelane::admin::rss::{Buckets, HashTypes, Key};
use corelane::admin::user::{Beginning, User};
use corelane::admin::watch::Reader;
use corelane::admin::{InForce, SteeringSettings};
use corelane::lanes::{DriverChoice, DriverSettings, Running, Signals};
use corelane::service::entry::find;
use corelane::service::{ARENA_BYTES_MAX, Limits};
use corelane::{Error, Lanes};
use corelane_load::amounts;
use corelane_metrics::{Listen, Server};
use corelane_services as services;
use log::{Log, LogFormat, LogLevel};
use reload::Reload;
use sandbox::{Sandbox, confine_calls, confine_files};
use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use supervisor::Supervisor;

/// Serves, one lane per core, until SIGTERM or SIGINT: the first drains, a second one ends at once
///
/// At the end it prints how many connections ended in order while it drained, and how many were cut. At SIGHUP it opens its log files anew and reads its settings again: limits of time change at once, and it names the settings that count only from the next start on. Other files, such as certificates, are read again by themselves when they change.
///
/// Without a SERVICE, all built-in ones are served on loopback at their default ports.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Arguments {
    #[arg(value_name = "SERVICE=URL", help = places())]
    services: Vec<String>,
    /// Read settings from a TOML file. Its keys are the long names of these flags, and services. A flag on the command line precedes the file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Start nothing: say whether all settings are right, and what stands in the way
    #[arg(long, conflicts_with = "plan")]
    check: bool,
    /// How many lanes; by default one for each CPU that affinity and control group allow
    #[arg(long, value_name = "N")]
    lanes: Option<usize>,
    /// The CPUs to use, such as 0-3,8
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// How the lanes do their input and output: by uring, by epoll, or, with auto, by whichever is better here
    #[arg(long, value_name = "NAME", default_value = "auto")]
    driver: String,
    /// Report each turn of a lane that takes this long (10ms to 1h), once, while it lasts: for which service and connection, and in which functions; or off. This uses the signal SIGRTMIN+5
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = stall)]
    stall: Stall,
    /// How long a lane goes on looking for work before it sleeps, such as 50us, up to 1s; a number alone is of microseconds
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = amounts::short_time)]
    spin: Duration,
    /// Take the frames of an interface, and serve UDP over them at the addresses that are given: eth1,ip=10.0.0.2/24 (tap:tap0 for a tap, whose near end is the kernel's); then, as needed, more ,ip=ADDRESS/BITS, ,via=ROUTER, ,tunnel=gre|ipip|6in4|vxlan (a tunnel to open), ,channels=PATH (a socket at which other processes take packets), ,frames=N (frames of 2 KiB of each lane, 256 to 65536), and ,poll (lanes take packets in by themselves, Linux 6.13). The kernel must not have these addresses. Needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF
    #[arg(long, value_name = "PORT")]
    packet: Option<corelane::lanes::PacketPort>,
    /// Serve as this user, with GROUP as its only group, and without any of root's rights once everything listens. Only root can do this. Files, such as certificates, are
    /// opened as this user from the start on
    #[arg(long, value_name = "NAME[:GROUP]")]
    user: Option<String>,
    /// Confine every thread to the files that are named here and the calls that serving takes: auto does so as far as the kernel can, required refuses to serve without, off leaves it out
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Sandbox::Auto)]
    sandbox: Sandbox,
    /// How lines on standard error are written: as text, or each as a JSON object with its code
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Which lines are written on standard error: error, what broke; warn, also what is to be looked at; info, also what happened in order
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// Share ports with other processes of this user that allow it. With --steering program all new connections come here from then on; otherwise both processes get some
    #[arg(long)]
    join: bool,
    /// Take over from the process of this user that serves now, or the one named (--take-over=PID): its sockets, lanes, table and keys of tickets. When all is served here, the other process finishes what is open there and ends. No connection is refused meanwhile. If the start fails here, the other process serves on
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true, default_missing_value = THE_ONE)]
    take_over: Option<String>,
    /// Let [::] take IPv6 only
    #[arg(long)]
    v6_only: bool,
    /// Give all lanes one descriptor table, so that the limit of descriptors counts for all together; by default each has its own
    #[arg(long)]
    share_descriptors: bool,
    /// What chooses the lane of each flow: program (a BPF program, needs CAP_BPF), classic (a classic BPF program, needs no right), kernel (the kernel's own hash), or the first of these that works: auto
    #[arg(long, value_name = "NAME", default_value = "auto")]
    steering: String,
    /// The key of the flows' hash: default, random, or its 40 or 52 bytes as 6d:5a:...
    #[arg(long, value_name = "KEY", default_value = "default")]
    key: String,
    /// What of a datagram is hashed: 4 parts, its addresses and ports, or 2, its addresses
    #[arg(long, value_enum, value_name = "N", default_value_t = UdpHash::Four)]
    udp_hash: UdpHash,
    /// Buckets of the table that gives flows to lanes: a power of two up to 1024, at least as many as lanes [default: 128, or 256 for more lanes]
    #[arg(long, value_name = "N")]
    buckets: Option<usize>,
    /// MiB of memory for each lane, 4 to 65536 [default: 64, or what fits for all lanes into a half of what the control group allows]
    #[arg(long, value_name = "MIB")]
    memory: Option<usize>,
    /// Threads beside each lane for work that waits, such as reading files, 2 to 256; they are started when needed. With uring the kernel may have as many more for files [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=256))]
    offload_threads: Option<u16>,
    /// Set a limit, such as idle_limit=30s; may be repeated
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    limits: Vec<String>,
    /// Serve metrics for Prometheus, and /livez and /readyz, at this address, such as 127.0.0.1:9100; whoever reaches it may read
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Serve a live page for browsers at this address, such as 127.0.0.1:9101, or the one of --metrics; whoever reaches it may read
    #[arg(long, value_name = "ADDRESS")]
    dashboard: Option<SocketAddr>,
    /// Start nothing: print which lanes there would be, on which CPUs, with which queues of the network card, and what stands in the way
    #[arg(long)]
    plan: bool,
    /// The plan as JSON
    #[arg(long, requires = "plan")]
    json: bool,
}

/// What of a datagram its flow's hash is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum UdpHash {
    /// Addresses and ports
    #[value(name = "4")]
    Four,
    /// Addresses only
    #[value(name = "2")]
    Two,
}

/// How long a turn may take; none if nobody watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stall(Option<Duration>);

fn stall(text: &str) -> Result<Stall, String> {
    match text {
        "off" => Ok(Stall(None)),
        time => amounts::time(time).map(|limit| Stall(Some(limit))).map_err(|_| "write a time such as 250ms, or off".to_owned()),
    }
}

/// How a place is written, by the example of the first service.
fn places() -> String {
    let first = services::ALL[0];
    let examples: Vec<String> = first.default_urls("127.0.0.1").iter().map(|url| format!("{}={url}", first.name())).collect();
    format!(
        "What to serve where, such as {}; HOST may be a name, port 0 takes a free port, and options stand behind the URL as ?name=value. \
         unix:PATH is a Unix socket for connections, unixgram:PATH one for datagrams, @NAME in the place of PATH an abstract name; the option \
         mode=0660 says who may use a path",
        examples.join(" or ")
    )
}

fn after_help() -> String {
    let services: String = services::ALL.iter().map(|entry| entry.describe()).collect();
    let limits = indented(&Limits::default().describe());
    let codes = Exit::help(&[Exit::Done, Exit::Late, Exit::Usage, Exit::Broken]);
    format!(
        "Services, and their options, which stand behind the URL as ?name=value&name=value:\n{services}\n\
         Limits and their defaults, for each service on each lane; a time takes a unit, and a number alone is of milliseconds, for keep_alive of \
         seconds:\n{limits}\n{RUN_DIRECTORY}\n\n{codes}"
    )
}

/// Where pages and control sockets are.
const RUN_DIRECTORY: &str = "\
Environment:
  CORELANE_CONFIG   The file of settings where --config names none.
  CORELANE_LANES    What --lanes is to say, and so for every flag: CORELANE_V6_ONLY=true, CORELANE_LIMIT=idle_limit=30s. CORELANE_SERVICES
                    and CORELANE_LIMIT take several, with spaces between. The command line precedes these, and they precede the file.
  CORELANE_RUN_DIR  The folder for the counter page and the control socket, made if it is not there; it must be yours alone, and in memory.
                    By default the first that works of $XDG_RUNTIME_DIR/corelane, /run/user/UID/corelane, for root /run/corelane if /run is in
                    memory, and /dev/shm/corelane-UID, or that name with a number if somebody else has taken it. stat and rss look there, too.";

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// Serves until told to end.
pub fn run(arguments: Arguments) -> Result<Exit> {
    let (arguments, settings) = settings::complete(arguments, settings::given())?;
    let (plan, json, check) = (arguments.plan, arguments.json, arguments.check);
    let listen = Listen { metrics: arguments.metrics, dashboard: arguments.dashboard };
    let user = arguments.user.as_deref().map(User::find).transpose().map_err(|why| anyhow!("--user: {why}"))?;
    // Before anything is opened, and before there are threads.
    let (serves, sandbox, config) = (!(check || plan), arguments.sandbox, settings::file(&arguments));
    let (format, level) = (arguments.log_format, arguments.log_level);
    // Before a descriptor of our own is under a number that was to be handed over.
    let handed = if serves { corelane::lanes::take_handed().map_err(|why| anyhow!(why))? } else { Vec::new() };
    let user = user.filter(|_| serves).map(User::begin).transpose().map_err(|why| anyhow!("--user: {why}"))?;
    let lanes = lanes(arguments).map_err(|error| settings::blame(&settings, error))?;
    if check {
        return print_checked(&lanes);
    }
    if plan {
        return print_plan(&lanes, json);
    }
    corelane::admin::reports::set_panic_hook();
    let signals = Signals::block()?;
    // Before the first thread: one that there is already would stay as free as it is.
    let confined = confine_files(sandbox, &lanes, config.as_deref())?;
    let log = Log::begin(format, level)?;
    let mut running = lanes.handed_over(handed).start()?;
    let shown = shown(&running, listen)?;
    user.map_or(Ok(()), Beginning::finish).map_err(|why| anyhow!("--user: {why}"))?;
    confined.into_iter().chain(confine_calls(sandbox)?).for_each(|note| running.note(note));
    // Nothing of the start can fail any more.
    running.release_other();
    print(announcement(&running, shown.as_ref()))?;
    log::tell_notes(format, running.notes());
    let reload = Reload::new(settings, running.limits(), log);
    let _supervisor = Supervisor::start(&mut running, move || reload.again())?;
    let drained = running.run_until_told(signals).map_err(ended)?;
    corelane::admin::reports::say(&format!("drained: {drained}"));
    corelane::admin::reports::flush(corelane::admin::reports::PATIENCE);
    Ok(Exit::Done)
}

/// Serves metrics and the dashboard, if they are asked for.
fn shown(running: &Running, listen: Listen) -> Result<Option<Server>> {
    if listen == Listen::default() {
        return Ok(None);
    }
    Ok(Some(Server::start(Reader::of(running.counters())?, &listen)?))
}

/// The lanes that `serve` would start if it were given these words.
///
/// # Errors
/// What is wrong with them, and where.
pub fn lanes_of(words: Vec<OsString>) -> Result<Lanes> {
    let (arguments, settings) = settings::complete(settings::arguments(&words)?, words)?;
    lanes(arguments).map_err(|error| settings::blame(&settings, error))
}

fn ended(error: Error) -> Late {
    let exit = if matches!(error, Error::LanePanicked { .. }) { Exit::Broken } else { Exit::Late };
    Late { exit, ..Late::of("serving", error) }
}

fn print_checked(lanes: &Lanes) -> Result<Exit> {
    let (_, plan) = lanes.plan()?;
    print(plan::warnings(&plan) + "checked: the settings are right; nothing was started")?;
    Ok(Exit::Done)
}

fn print_plan(lanes: &Lanes, json: bool) -> Result<Exit> {
    let (topology, plan) = lanes.plan()?;
    let words = if json { plan::object(&topology, &plan).to_string() } else { plan::text(&topology, &plan) };
    print(words)?;
    Ok(Exit::Done)
}

fn lanes(arguments: Arguments) -> Result<Lanes> {
    let driver: DriverChoice = arguments.driver.parse()?;
    let mut lanes = Lanes::per_core()
        .driver(driver)
        .join(arguments.join)
        .v6_only(arguments.v6_only)
        .own_descriptors(!arguments.share_descriptors)
        .steering(steering(&arguments)?)
        .spin(arguments.spin);
    if let Some(limit) = arguments.stall.0 {
        lanes = lanes.stall(limit);
    }
    if let Some(count) = arguments.lanes {
        lanes = lanes.lanes(count);
    }
    if let Some(process) = &arguments.take_over {
        lanes = lanes.take_over(page_of(process)?);
    }
    if let Some(mib) = arguments.memory {
        lanes = lanes.memory_bytes(memory(mib)?);
    }
    if let Some(threads) = arguments.offload_threads {
        lanes = lanes.driver_settings(DriverSettings::new().offload_threads(threads.into()));
    }
    if let Some(list) = &arguments.cpus {
        lanes = lanes.cpus(corelane::lanes::parse_cpus(list).map_err(|why| anyhow!("--cpus: {why}"))?);
    }
    if let Some(port) = arguments.packet {
        lanes = lanes.packet(port);
    }
    let mut services = arguments.services;
    if services.is_empty() {
        services = defaults();
    }
    services.iter().try_fold(lanes, |lanes, text| add(lanes, text, &arguments.limits))
}

/// What `--take-over` means where it names no process.
const THE_ONE: &str = "the one";

/// The page of the process that is taken over from.
fn page_of(process: &str) -> Result<PathBuf> {
    let pid = match process {
        THE_ONE => None,
        pid => Some(pid.parse().map_err(|_| anyhow!("--take-over: {pid:?} is not the number of a process"))?),
    };
    let page = crate::rss::page(pid);
    Ok(page.map_err(|error| anyhow!("--take-over: {}", error.to_string().replace("--pid", "--take-over=PID")))?.path)
}

fn steering(arguments: &Arguments) -> Result<SteeringSettings> {
    let types = match arguments.udp_hash {
        UdpHash::Four => HashTypes::ALL,
        UdpHash::Two => HashTypes::DEFAULT,
    };
    let buckets = arguments.buckets.map(Buckets::new).transpose().map_err(|error| anyhow!("--buckets: {error}"))?;
    let settings = SteeringSettings::default().by(arguments.steering.parse()?).key(key(&arguments.key)?).types(types);
    Ok(buckets.map_or(settings, |buckets| settings.buckets(buckets)))
}

/// Bytes of a random key, as most devices have them.
const KEY_BYTES: usize = 40;

fn key(text: &str) -> Result<Key> {
    let key = match text {
        "default" => Ok(Key::MICROSOFT),
        "random" => {
            let mut words = [0; 1 << 10];
            let read = std::fs::File::open("/dev/urandom").and_then(|mut entropy| entropy.read_exact(&mut words));
            read.map_err(|error| anyhow!("--key: /dev/urandom: {error}"))?;
            let mut words = words.chunks_exact(size_of::<u64>());
            // More than all draws take; a key of zeros would be refused.
            Key::random(KEY_BYTES, || words.next().and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes))
        }
        bytes => bytes.parse(),
    };
    key.map_err(|error| anyhow!("--key: {error}"))
}

/// The least memory that a lane can work with.
const MEMORY_MIB_MIN: usize = 4;

fn memory(mib: usize) -> Result<usize> {
    match mib.checked_mul(1 << 20) {
        Some(bytes) if mib >= MEMORY_MIB_MIN && bytes <= ARENA_BYTES_MAX => Ok(bytes),
        _ => bail!("--memory: a lane cannot work with {mib} MiB: use {MEMORY_MIB_MIN} to {}", ARENA_BYTES_MAX >> 20),
    }
}

/// The services that are served by default on loopback; IPv6 only where the machine has it.
fn defaults() -> Vec<String> {
    let hosts = ["127.0.0.1", "[::1]"];
    let usable = |host: &&str| corelane::lanes::can_listen(&format!("udp://{host}:0"));
    let places = |host: &'static str| {
        services::ALL
            .iter()
            .flat_map(move |entry| entry.default_urls(host).into_iter().map(|url| format!("{}={url}", entry.name())))
    };
    hosts.into_iter().filter(usable).flat_map(places).collect()
}

/// Adds what `SERVICE=URL` asks for.
fn add(lanes: Lanes, text: &str, limits: &[String]) -> Result<Lanes> {
    let (entry, place) = find(services::ALL, text)?;
    let mut set = entry.default_limits();
    for limit in limits {
        set.set(limit).map_err(|why| anyhow!("--limit: {why}"))?;
    }
    Ok(lanes.limits(set).serve_entry(entry, place)?)
}

/// Says what listens where, on what, and then that it is ready.
fn announcement(running: &Running, shown: Option<&Server>) -> String {
    let mut lines = Vec::new();
    for place in running.places() {
        lines.push(format!("{} {}", place.service, place.url));
    }
    let cpus: Vec<String> = running.cpus().iter().flatten().map(usize::to_string).collect();
    let lanes = running.cpus().len();
    let lanes = if lanes == 1 { "1 lane".to_owned() } else { format!("{lanes} lanes") };
    lines.push(format!("driver {}, {lanes} on CPU {}", running.driver(), cpus.join(",")));
    lines.push(match running.steered().in_force() {
        InForce::Nothing => "steering none, one lane has all flows".to_owned(),
        in_force => format!("steering {in_force}, {} buckets", running.steered().table().buckets().count()),
    });
    lines.extend(shown.iter().flat_map(|shown| shown.places()).map(|(what, address)| format!("{what} http://{address}")));
    let (topology, plan) = running.plan();
    if topology.interface.is_some() {
        lines.push(format!("interface {}", plan::interface(topology, plan)));
    }
    for note in running.notes() {
        lines.push(format!("note: {note}"));
    }
    lines.push("ready".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::service::Declaration;
    use std::path::Path;

    #[test]
    fn the_page_has_the_name_of_every_metric() {
        let own: Vec<(&str, Vec<Declaration>)> = services::ALL.iter().map(|entry| (entry.name(), entry.counters())).collect();
        let own: Vec<(&str, &[Declaration])> = own.iter().map(|(name, declared)| (*name, declared.as_slice())).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
        let written = std::fs::read_to_string(&path).unwrap();
        let (words, _) = written.split_once("-->\n").unwrap();
        let made = format!("{words}-->\n{}", corelane_metrics::documentation(&own));
        if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
            std::fs::write(&path, &made).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap() == made,
            "metrics.md is not what is declared: run this test with UPDATE_DOCS=1"
        );
    }
}
