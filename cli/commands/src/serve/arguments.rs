//! The flags of `serve`, and its help.

use super::log::{LogFormat, LogLevel};
use super::sandbox::Sandbox;
use crate::exit::Exit;
use corelane::service::Limits;
use corelane::service::entry::Entry;
use corelane_load::amounts;
use corelane_services as services;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What `--take-over` means where it names no process.
pub const THE_ONE: &str = "the one";

/// Serves, one lane per core, until SIGTERM or SIGINT: the first drains, a second one ends at once
///
/// At the end it prints how many connections ended in order while it drained, how many were cut, and how many their peers broke off. At SIGHUP it opens its log files anew and reads its settings again: limits of time, --log-level, and to, sni, field and redirect of a place change at once, and it names the settings that count only from the next start on. Other files, such as certificates, are read again by themselves when they change.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Arguments {
    #[arg(value_name = "SERVICE=URL", help = places(), long_help = format!("{}. {MORE_PLACES}. {}", places(), unnamed()))]
    pub(super) services: Vec<String>,
    /// Read settings from a TOML file. Its keys are the long names of these flags, and services. A flag on the command line precedes the file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Start nothing: say whether all settings are right, and what stands in the way
    #[arg(long, conflicts_with = "plan")]
    pub(super) check: bool,
    /// How many lanes; by default one for each CPU that affinity and control group allow
    #[arg(long, value_name = "N")]
    pub(super) lanes: Option<usize>,
    /// The CPUs to use, such as 0-3,8
    #[arg(long, value_name = "LIST")]
    pub(super) cpus: Option<String>,
    /// How the lanes do their input and output: by uring, by epoll, or, with auto, by whichever is better here
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(super) driver: String,
    /// Report each turn of a lane that takes this long (10ms to 1h), once, while it lasts; or off
    ///
    /// The report says for which service and connection the turn is, and in which functions. This uses the signal SIGRTMIN+5.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = stall)]
    pub(super) stall: Stall,
    /// How long a lane goes on looking for work before it sleeps, such as 50us, up to 1s
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = amounts::time)]
    pub(super) spin: Duration,
    /// Serve UDP over the frames of an interface, at addresses that the kernel does not have, such as eth1,ip=10.0.0.2/24; may be repeated
    ///
    /// tap:tap0 takes a tap, whose near end is the kernel's. Behind the first address stand, as needed, more ,ip=ADDRESS/BITS, ,vlan=N or ,vlan=N.N in front of the addresses of a VLAN, ,forward (packets go on among these networks), ,via=ROUTER, ,tunnel=gre|ipip|6in4|vxlan@PEER (a tunnel to open, for that address or network), ,channels=PATH (a socket at which other processes take packets), ,fragments=N (fragments of one datagram that wait at the most, 2 to 512), ,frames=N (frames of 2 KiB of each lane, 256 to 65536), and ,poll (lanes take packets in by themselves, Linux 6.13).
    ///
    /// AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, packet sockets CAP_NET_RAW, a tap CAP_NET_ADMIN. docs/packet.md says more.
    #[arg(long, value_name = "PORT")]
    pub(super) packet: Vec<corelane::lanes::PacketPort>,
    /// Have the kernel receive what comes by this interface in threads that leave lanes their user fraction under a flood; may be repeated
    ///
    /// This is for services at the kernel's sockets. Needs CAP_NET_ADMIN and CAP_SYS_NICE, CAP_BPF for a veth, and Linux 6.8; docs/flood.md says more.
    #[arg(long, value_name = "INTERFACE")]
    pub(super) receive_threads: Vec<String>,
    /// Per cent of their CPUs that lanes keep beside these threads under a flood, 0 to 99
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u8).range(..=99))]
    pub(super) user_frac: u8,
    /// Serve as this user, by name or number, without any of root's rights once everything listens; only root can do this
    ///
    /// GROUP is its only group. Files, such as certificates, are opened as this user from the start on.
    #[arg(long, value_name = "NAME[:GROUP]")]
    pub(super) user: Option<String>,
    /// Confine every thread to the files that are named here and to the calls of serving
    ///
    /// auto does so as far as the kernel can, required refuses to serve without, off leaves it out.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Sandbox::Auto)]
    pub(super) sandbox: Sandbox,
    /// How lines on standard error are written: as text, or each as a JSON object with its code
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
    /// The lines that are written on standard error
    ///
    /// error has faults alone, warn also things to be looked at, info also things that happened in order.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    pub(super) log_level: LogLevel,
    /// Share ports with other processes of this user that allow it
    ///
    /// With --steering program all new connections come here from then on; otherwise both processes get some.
    #[arg(long)]
    pub(super) join: bool,
    /// Take over from the process of this user that serves now, or from the one named (--take-over=PID); no connection is refused meanwhile
    ///
    /// Its sockets, lanes, table, keys of tickets, and listeners of metrics go over. When all is served here, and that was said, the other process finishes what is open there and ends. If the start fails here, the other process serves on.
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true, default_missing_value = THE_ONE)]
    pub(super) take_over: Option<String>,
    /// Let [::] take IPv6 only
    #[arg(long)]
    pub(super) v6_only: bool,
    /// Give all lanes one descriptor table, so that the limit of descriptors counts for all together; by default each has its own
    #[arg(long)]
    pub(super) share_descriptors: bool,
    /// How the lane of each flow is chosen: program, classic, kernel, or the first of these that works: auto
    ///
    /// program is a BPF program and needs CAP_BPF, classic is a classic BPF program and needs no right, kernel is the kernel's own hash.
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(super) steering: String,
    /// The key of the flows' hash: default, random, or its 40 or 52 bytes as 6d:5a:...
    #[arg(long, value_name = "KEY", default_value = "default")]
    pub(super) key: String,
    /// The parts of a datagram that are hashed: 4, its addresses and ports, or 2, its addresses
    #[arg(long, value_enum, value_name = "N", default_value_t = UdpHash::Four)]
    pub(super) udp_hash: UdpHash,
    /// Buckets of the table that gives flows to lanes: a power of two up to 1024 [default: 128, or 256 for more lanes]
    ///
    /// There are at least as many as lanes.
    #[arg(long, value_name = "N")]
    pub(super) buckets: Option<usize>,
    /// Memory of each lane, such as 64MiB, 4MiB to 64GiB [default: 64MiB, or less in a small control group]
    ///
    /// By default all lanes together take at most half of what the control group allows.
    #[arg(long, value_name = "SIZE", value_parser = amounts::size)]
    pub(super) memory: Option<u64>,
    /// Huge pages of 2 MiB for the lanes' memory, of those that were set aside (vm.nr_hugepages)
    ///
    /// auto serves without where there are too few, and says so; required refuses to serve then.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Wish::Off)]
    pub(super) huge_pages: Wish,
    /// The lanes' memory is there from the start, and is never taken out (mlock(2))
    ///
    /// auto serves without where so much may not be locked, and says so; required refuses to serve then.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Wish::Off)]
    pub(super) locked_memory: Wish,
    /// Threads beside each lane for work that waits, such as reading files, 2 to 256 [default: 4]
    ///
    /// They are started when needed. With uring the kernel may have as many more for files.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=256))]
    pub(super) offload_threads: Option<u16>,
    /// Calls of services' own code that each lane may have with those threads at once, 1 to 1048576 [default: 64]
    ///
    /// At the bound no more is read from the connections that need one. Reads of files do not count, and no built-in service makes such calls.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(super) offload_max: Option<u32>,
    /// Directories that each lane watches at once, 0 to 1048576; the files of others are looked at again each second [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    pub(super) watches_max: Option<u32>,
    /// Pipes that each lane has bytes of proxies in at once, 0 to 65536; further bulk passes through the lane's memory [default: 64]
    ///
    /// Each takes two descriptors and up to 256 KiB of the system's memory. All processes of a user share what /proc/sys/fs/pipe-user-pages-soft allows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1 << 16))]
    pub(super) pipes_max: Option<u32>,
    /// Pairs of connections between which the kernel passes bytes at once, of each lane, 1 to 65536; for proxies with `in-kernel` [default: 4096]
    ///
    /// Further pairs pass through the lane. Each takes about 300 bytes of the system's memory from the start on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub(super) bridged_pairs_max: Option<u32>,
    /// Sends of at least this size leave without a copy where the kernel can, such as 64KiB, from 1 B [default: none do]
    ///
    /// Where the kernel copies them anyway, on loopback and between virtual interfaces, they are copied from then on, and tried again much later.
    #[arg(long, value_name = "SIZE", value_parser = amounts::size)]
    pub(super) zero_copy: Option<u64>,
    /// Tasks that each lane has at once for services written as an async fn, 1 to 16777216 [default: 65536]
    ///
    /// A connection for which there is no task is closed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(super) tasks_max: Option<u32>,
    /// Messages that wait on their way from one lane to another, 1 to 65536 [default: 1024]
    ///
    /// One more comes back to the service that sent it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub(super) channel_messages: Option<u32>,
    /// Set a limit, such as idle_limit=30s; may be repeated
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    pub(super) limits: Vec<String>,
    /// Serve metrics for Prometheus, and /livez and /readyz, at this address, such as 127.0.0.1:9100; whoever reaches it may read
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<SocketAddr>,
    /// Serve a live page for browsers at this address, such as 127.0.0.1:9101, or the one of --metrics; whoever reaches it may read
    #[arg(long, value_name = "ADDRESS")]
    pub(super) dashboard: Option<SocketAddr>,
    /// Names by which --metrics and --dashboard may be asked for, with commas between, such as metrics.example
    ///
    /// Addresses and names without a dot need not be named. A request by another name is refused, because a page of another site can have a browser make it.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(super) host_names: Vec<String>,
    /// Start nothing: print which lanes there would be, on which CPUs, with which queues of the network card, and what stands in the way
    #[arg(long)]
    pub(super) plan: bool,
    /// The plan as JSON
    #[arg(long, requires = "plan")]
    pub(super) json: bool,
}

/// What of a datagram its flow's hash is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum UdpHash {
    /// Addresses and ports
    #[value(name = "4")]
    Four,
    /// Addresses only
    #[value(name = "2")]
    Two,
}

/// Whether lanes are to have something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Wish {
    /// Where it is to be had.
    Auto,
    /// No.
    Off,
    /// Yes, or it does not serve.
    Required,
}

/// How long a turn may take; none if nobody watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall(pub Option<Duration>);

fn stall(text: &str) -> Result<Stall, String> {
    match text {
        "off" => Ok(Stall(None)),
        time => amounts::time(time).map(|limit| Stall(Some(limit))).map_err(|why| why + "; or off"),
    }
}

/// How a place is written, by the example of the first service.
fn places() -> String {
    let first = services::ALL[0];
    let examples: Vec<String> = first.default_urls("127.0.0.1").iter().map(|url| format!("{}={url}", first.name())).collect();
    format!("Services and their places, such as {}; options stand behind the URL as ?name=value", examples.join(" or "))
}

/// The parts of a place, in words.
const MORE_PLACES: &str = "HOST may be a name, and port 0 takes a free port. unix:PATH is a Unix socket for connections, unixgram:PATH one for \
    datagrams, @NAME in the place of PATH an abstract name; the option mode=0660 says who may use a path";

/// What is served where no service is named.
fn unnamed() -> String {
    let served = by_default().map(|entry| format!("{} at {}", entry.name(), entry.default_urls("127.0.0.1").join(" and ")));
    format!(
        "Without a SERVICE there are {}, and the same at [::1]; all else is served only where it is named",
        served.collect::<Vec<_>>().join(", ")
    )
}

/// The services of which some are served where none is named.
fn by_default() -> impl Iterator<Item = &'static &'static Entry> {
    services::ALL.iter().filter(|entry| !entry.default_urls("127.0.0.1").is_empty())
}

fn after_help() -> String {
    let services: String = services::ALL.iter().map(|entry| entry.describe()).collect();
    let limits = indented(&Limits::default().describe());
    let codes = Exit::help_of(CODES);
    format!(
        "Services, and their options, which stand behind the URL as ?name=value&name=value:\n{services}\n\
         Limits and their defaults, for each service on each lane; docs/limits.md says what each means, and what 0 does. A time takes a unit, \
         such as 500ms, 30s or 10m; a size is of bytes, or has a unit, such as 64KiB or 10k:\n{limits}\n{RUN_DIRECTORY}\n\n{codes}"
    )
}

/// What it ends with.
const CODES: &[(Exit, &str)] = &[
    (Exit::Done, "it was told to end, and did; --check: all settings are right; --plan: the plan is printed"),
    (Exit::Late, "it failed after it had started, or a lane did not end when it was told to twice"),
    (Exit::Usage, "it could not start as asked: standard error says what and where, and, where there is one, the remedy"),
    (Exit::Broken, "a lane broke, which is an error of this program: the message says which lane, what and where"),
];

/// Where pages and control sockets are. Each entry is one line: help is as wide as the terminal.
const RUN_DIRECTORY: &str = "\
Environment:
  CORELANE_CONFIG   The file of settings where --config names none.
  CORELANE_LANES    What --lanes is to say, and so for every flag that says how to serve: CORELANE_V6_ONLY=true, \
                    CORELANE_LIMIT=idle_limit=30s. CORELANE_SERVICES and CORELANE_LIMIT take several, with spaces between. The command line \
                    precedes these, and they precede the file.
  CORELANE_RUN_DIR  The folder for the counter page and the control socket, made if it is not there; it must be yours alone, and should be in \
                    memory. By default the first that works of $XDG_RUNTIME_DIR/corelane, /run/user/UID/corelane, for root /run/corelane if \
                    /run is in memory, and /dev/shm/corelane-UID, or that name with a number if somebody else has taken it. stat and rss \
                    look there, too.";

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;
    use corelane::admin::watch::{Counter, LaneCounter, ServiceCounter};
    use corelane::lanes::{DriverSettings, LaneSettings};

    /// The cells of each row of docs/limits.md: those about limits of a service, and those about bounds of a lane, which have flags.
    fn tables() -> (Vec<Vec<&'static str>>, Vec<Vec<&'static str>>) {
        let rows = include_str!("../../../../docs/limits.md").lines().filter_map(|line| line.strip_prefix("| `"));
        let cells = rows.map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect());
        // Shorter ones say whose each bound is.
        cells.filter(|row: &Vec<&str>| row.len() > 4).partition(|row: &Vec<&str>| !row[0].starts_with("--"))
    }

    fn rows() -> Vec<Vec<&'static str>> {
        tables().0
    }

    #[test]
    fn the_page_has_every_bound_of_a_lane_with_its_default_and_its_flag() {
        let (driver, lane) = (DriverSettings::new(), LaneSettings::new());
        let bounds = [
            ("offload-threads", driver.offload_threads),
            ("offload-max", driver.offload_max),
            ("watches-max", driver.watches_max),
            ("pipes-max", driver.pipes_max),
            ("bridged-pairs-max", DriverSettings::BRIDGED_PAIRS),
            ("tasks-max", lane.tasks_max),
            ("channel-messages", lane.channel_messages),
        ];
        let command = Arguments::augment_args(clap::Command::new("serve"));
        let shown = |row: &Vec<&str>| format!("{} {}", row[0], row[1].split(' ').next().unwrap_or_default());
        assert_eq!(tables().1.iter().map(shown).collect::<Vec<_>>(), bounds.map(|(flag, default)| format!("--{flag} {default}")));
        for (flag, default) in bounds {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag)).expect(flag);
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.ends_with(&format!("[default: {default}]")), "--{flag}: {help}");
        }
    }

    #[test]
    fn the_page_has_every_limit_with_its_default_and_no_other() {
        let written = |row: &Vec<&str>| format!("{}={}", name(row), row[1]);
        let told: Vec<String> = rows().iter().map(written).collect();
        assert_eq!(told, Limits::default().describe().lines().collect::<Vec<_>>());
    }

    #[test]
    fn the_page_marks_the_limits_that_change_while_lanes_serve() {
        let marked: Vec<&str> = rows().iter().filter(|row| row[0].ends_with('*')).map(|row| name(row)).collect();
        assert_eq!(marked, Limits::LIVE);
    }

    #[test]
    fn the_page_names_counters_that_there_are() {
        let (limits, bounds) = tables();
        for row in limits.iter().chain(&bounds) {
            let is_there = ServiceCounter::DECLARED.iter().chain(LaneCounter::DECLARED).any(|one| one.name == row[4]);
            assert!(row[4].is_empty() || is_there, "{row:?}");
        }
    }

    #[test]
    fn help_and_the_packaged_settings_say_what_is_served_without_a_name() {
        let names: Vec<&str> = by_default().map(|entry| entry.name()).collect();
        assert!(names.iter().all(|name| unnamed().contains(&format!("{name} at "))), "{}", unnamed());
        let packaged = include_str!("../../../../packaging/corelane.toml");
        let said = format!("# Without services there are {}, on loopback", names.join(" and "));
        assert!(packaged.contains(&said), "packaging/corelane.toml does not say {said:?}");
    }

    /// The limit of a row: what stands between the first two quotes.
    fn name<'a>(row: &[&'a str]) -> &'a str {
        row[0].split_once('`').map_or(row[0], |(name, _)| name)
    }
}
