//! Whether honest clients are answered while others hold all the memory that a lane lends them.
//!
//! 900 connections each begin a record of 1 MiB and stop, and 3,000 have what they send echoed and read nothing, from 64 addresses; whoever
//! is thrown out comes again at once. Meanwhile honest clients ask each service at a fixed rate, and their latency counts from when each request was to start.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use corelane_load::kinds::Kind;
use corelane_load::report::Report;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use serde::Serialize;

use super::bars::Limit;
use super::cpus::{GENERATOR_CPU, SERVER_CPU};
use super::idle;
use super::interrupt::Interrupt;
use super::load::words;
use super::rounds::Verdict;
use super::server::{self, Server};
use super::tables::{self, number};

/// The name of the cell.
pub const NAME: &str = "attack";

/// The most that 99 of 100 requests of honest clients may take, in microseconds.
const BAR: Limit = Limit::Under(100_000.0);

/// Connections of the attackers, and how many of a hundred of them begin records.
const ATTACKERS: usize = 3_900;
const RECORDS_PERCENT: usize = 23;
/// Addresses that they come from.
const ADDRESSES: usize = 64;
/// Bytes of the record that each begins.
const BEGUN: usize = 65_000;
/// How often they look whether they can do more harm.
const PASS: Duration = Duration::from_millis(50);
/// Requests a second to each service.
const RATE: &str = "200";

/// What honest clients of one service met.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// The server's driver.
    pub driver: &'static str,
    /// The service and how it was asked.
    pub service: &'static str,
    /// Requests answered.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Latency in microseconds.
    pub p50_us: f64,
    /// 99 % of them took less.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Attackers' connections that the server ended because they held the most, and that came again.
    pub thrown_out: u64,
}

/// Attacks a server on each driver for `window`.
///
/// # Errors
/// When the server or a generator does not start, or when a signal asks for the end.
pub fn run(corelane: &Path, window: Duration, interrupt: &Interrupt) -> Result<Vec<Sample>> {
    idle::raise_file_limit(ATTACKERS)?;
    let mut samples = Vec::new();
    for driver in ["epoll", "uring"] {
        interrupt.check()?;
        samples.extend(measure(corelane, driver, window).with_context(|| format!("{NAME}, {driver}"))?);
    }
    Ok(samples)
}

/// The verdict on the bar for one service.
pub fn judge(sample: &Sample) -> Verdict {
    let what = format!("{} on {}: latency of honest clients at 99 %, us", sample.service, sample.driver);
    let value = if sample.failed == 0 && sample.requests > 0 { sample.p99_us } else { f64::INFINITY };
    Verdict::of_one(NAME, what, value, BAR)
}

fn measure(corelane: &Path, driver: &'static str, window: Duration) -> Result<Vec<Sample>> {
    let mut port = None;
    let [echo, rpc] = [server::free_address(&mut port)?, server::free_address(&mut port)?];
    let mut command = server::on_cpus(&[SERVER_CPU], corelane)?;
    command.args(["serve", "--lanes", "1", "--cpus", &SERVER_CPU.to_string(), "--driver", driver]);
    // Small buffers in the kernel: what nobody reads is the lane's to hold.
    command.args(["--limit", "send_buffer=32768", "--limit", "receive_buffer=32768"]);
    command.args([format!("echo=tcp://{echo}"), format!("echo=udp://{echo}"), format!("rpc=tcp://{rpc}")]);
    let _server = Server::start(command)?;
    let attack = Attack::begin(echo, rpc)?;
    let asked = [
        ("echo", format!("tcp://{echo}"), "echo over TCP"),
        ("udp", format!("udp://{echo}"), "echo over UDP"),
        ("rpc", format!("tcp://{rpc}"), "RPC"),
    ];
    let generators = asked.map(|(workload, url, service)| Ok((service, honest(corelane, workload, &url, window)?)));
    let generators = generators.into_iter().collect::<Result<Vec<_>>>()?;
    let mut samples =
        generators.into_iter().map(|(service, child)| sample(driver, service, child)).collect::<Result<Vec<_>>>()?;
    let thrown_out = attack.end();
    samples.iter_mut().for_each(|sample| sample.thrown_out = thrown_out);
    Ok(samples)
}

/// Starts a generator that asks as honest clients do.
fn honest(corelane: &Path, workload: &str, url: &str, window: Duration) -> Result<Child> {
    let mut command = server::on_cpus(&[GENERATOR_CPU], corelane)?;
    command.args(["load", workload, url, "--lanes", "1", "--cpus", &GENERATOR_CPU.to_string(), "--json", "--quiet"]);
    command.args(["--connections", "4", "--rate", RATE, "--timeout", "10s", "--warmup", "1s"]);
    command.args(words(["--duration", &format!("{}us", window.as_micros())]));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("starting the generator")
}

fn sample(driver: &'static str, service: &'static str, generator: Child) -> Result<Sample> {
    let output = generator.wait_with_output().context("waiting for the generator")?;
    let report: Report = serde_json::from_slice(&output.stdout).with_context(|| format!("the generator: {}", output.status))?;
    let failed = Kind::ALL.iter().filter(|kind| kind.is_failure()).filter_map(|kind| report.errors.get(kind.name())).sum();
    let latency = |name: &str| report.latency_us.get(name).copied().unwrap_or(f64::NAN);
    let [p50_us, p99_us, max_us] = ["50", "99", "max"].map(latency);
    Ok(Sample { driver, service, requests: report.requests, failed, p50_us, p99_us, max_us, thrown_out: 0 })
}

/// Attackers at work, until they are told to end.
struct Attack {
    over: Arc<AtomicBool>,
    thrown_out: Arc<AtomicU64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Attack {
    /// Returns when all have had their first say.
    fn begin(echo: SocketAddr, rpc: SocketAddr) -> Result<Self> {
        let mut attackers = (0..ATTACKERS).map(|number| Attacker::new(number, echo, rpc)).collect::<Result<Vec<_>>>()?;
        let (over, thrown_out) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, count) = (over.clone(), thrown_out.clone());
        for attacker in &mut attackers {
            attacker.harm();
        }
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for attacker in &mut attackers {
                    count.fetch_add(u64::from(!attacker.harm()), Ordering::Relaxed);
                }
                // reason: an attacker that spun would take the honest clients' CPU, which is not what is measured.
                thread::sleep(PASS);
            }
        });
        Ok(Self { over, thrown_out, thread: Some(thread) })
    }

    fn end(mut self) -> u64 {
        self.stop();
        self.thrown_out.load(Ordering::Relaxed)
    }

    fn stop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Attacker {
    from: Ipv4Addr,
    to: SocketAddr,
    /// Bytes that it still wants to send; it never reads.
    left: usize,
    is_record: bool,
    stream: TcpStream,
}

impl Attacker {
    fn new(number: usize, echo: SocketAddr, rpc: SocketAddr) -> Result<Self> {
        let from = Ipv4Addr::new(127, 0, 2, 1 + (number % ADDRESSES) as u8);
        let is_record = number % 100 < RECORDS_PERCENT;
        let to = if is_record { rpc } else { echo };
        Ok(Self { from, to, left: Self::wish(is_record), is_record, stream: connected(from, to)? })
    }

    fn wish(is_record: bool) -> usize {
        if is_record { BEGUN } else { usize::MAX }
    }

    /// Sends what the socket takes; false if it was thrown out, and comes again.
    fn harm(&mut self) -> bool {
        static BYTES: [u8; 64 << 10] = [0x80; 64 << 10];
        while self.left > 0 {
            // The mark of a record of 1 MiB, whose bytes may be any.
            let mark = 0x8010_0000_u32.to_be_bytes();
            let begins = self.is_record && self.left == BEGUN;
            let bytes = if begins { &mark[..] } else { &BYTES[..self.left.min(BYTES.len())] };
            match self.stream.write(bytes) {
                Ok(sent) => self.left -= sent.min(self.left),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return true,
                Err(_) => return !self.come_again(),
            }
        }
        true
    }

    fn come_again(&mut self) -> bool {
        if let Ok(stream) = connected(self.from, self.to) {
            (self.stream, self.left) = (stream, Self::wish(self.is_record));
        }
        true
    }
}

/// A connection from `from` that is begun, and does not block.
fn connected(from: Ipv4Addr, to: SocketAddr) -> Result<TcpStream> {
    let SocketAddr::V4(to) = to else { anyhow::bail!("{to}: expected an IPv4 address") };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let made = socket(AddressFamily::Inet, SockType::Stream, flags, None).context("socket")?;
    bind(made.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0))).context("bind")?;
    match connect(made.as_raw_fd(), &SockaddrIn::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(made)),
        Err(error) => Err(error).context("connect"),
    }
}

/// What honest clients met, a line each.
pub fn table(samples: &[Sample]) -> String {
    let row = |sample: &Sample| {
        vec![
            ("service", sample.service.to_owned()),
            ("driver", sample.driver.to_owned()),
            ("answered", sample.requests.to_string()),
            ("failed", sample.failed.to_string()),
            ("p50 us", number(sample.p50_us, 0)),
            ("p99 us", number(sample.p99_us, 0)),
            ("max us", number(sample.max_us, 0)),
            ("thrown out", sample.thrown_out.to_string()),
        ]
    };
    let rows: Vec<_> = samples.iter().map(row).collect();
    format!("{NAME}: {ATTACKERS} connections from {ADDRESSES} addresses\n{}", tables::table(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;

    #[test]
    fn a_request_that_failed_misses_the_bar_whatever_the_others_took_and_so_does_no_answer() {
        let sample = |failed, p99_us| Sample {
            driver: "epoll",
            service: "RPC",
            requests: 100,
            failed,
            p50_us: 1.0,
            p99_us,
            max_us: 1.0,
            thrown_out: 0,
        };
        assert_eq!(judge(&sample(0, 99_999.0)).word, Word::Met);
        assert_eq!(judge(&sample(0, 100_000.0)).word, Word::Missed);
        assert_eq!(judge(&sample(1, 5.0)).word, Word::Missed);
        let silent = judge(&Sample { requests: 0, ..sample(0, f64::NAN) });
        assert_eq!((silent.value, silent.word), (f64::INFINITY, Word::Missed));
        assert!(table(&[Sample { requests: 0, ..sample(0, f64::NAN) }]).contains('-'), "no answer has no latency");
    }

    #[test]
    fn attackers_come_from_as_many_addresses_as_are_said_and_do_what_is_said() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let at = listener.local_addr().expect("bound");
        let attackers: Vec<Attacker> = (0..200).map(|number| Attacker::new(number, at, at).expect("connects")).collect();
        let addresses: std::collections::BTreeSet<Ipv4Addr> = attackers.iter().map(|attacker| attacker.from).collect();
        let records = attackers.iter().filter(|attacker| attacker.is_record).count();
        assert_eq!((addresses.len(), records), (ADDRESSES, 2 * RECORDS_PERCENT));
    }
}
