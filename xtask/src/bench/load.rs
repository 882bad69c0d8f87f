//! The load generator: closed loop, one thread, no allocation and no logging on a request's path.

mod tcp;
mod udp;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use super::proc;
use super::server::Server;

/// What a server is loaded with. Every request of `bytes` is answered by the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// How the requests travel.
    pub transport: Transport,
    /// Bytes of one request.
    pub bytes: usize,
    /// Connections, or sockets for datagrams.
    pub connections: usize,
    /// Requests in flight on each.
    pub depth: usize,
    /// Never sleep: then no answer waits for this side's CPU to wake.
    pub spin: bool,
}

/// How requests travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A stream; several requests may leave in one write.
    Tcp,
    /// Datagrams that the kernel sends one by one.
    UdpSingles,
    /// Datagrams in trains as long as the depth, each one send with `UDP_SEGMENT`.
    UdpTrains,
}

/// How long things go on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timing {
    /// Before the window; nothing of it counts.
    #[serde(serialize_with = "as_seconds")]
    pub warm_up: Duration,
    /// What is measured.
    #[serde(serialize_with = "as_seconds")]
    pub window: Duration,
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

/// How much longer a window becomes in which nothing was answered.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What one window showed.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Requests answered in the window.
    pub requests: u64,
    /// Datagrams given up after a timeout, in the window.
    pub lost: u64,
    /// Requests answered from first to last, warm-up and draining included: what the server's own counters saw.
    pub requests_in_all: u64,
    /// Length of the window.
    pub window_s: f64,
    /// Processor time of all the server's threads per answered request.
    pub cpu_us_per_request: f64,
    /// Answered requests per second.
    pub requests_per_s: f64,
    /// Share of one CPU that the server's threads used.
    pub server_load: f64,
    /// Share of one CPU that the generator used.
    pub generator_load: f64,
    /// Median time from sending a request to receiving its last byte.
    pub p50_us: f64,
    /// 99th percentile of it.
    pub p99_us: f64,
    /// 99.9th percentile of it.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// What a client counts.
struct Tally {
    requests: u64,
    lost: u64,
    latency_ns: Histogram<u64>,
}

impl Tally {
    fn new() -> Result<Self> {
        // 1 us to 10 s in three digits; what lies outside is counted at the edge.
        let latency_ns = Histogram::new_with_bounds(1_000, 10_000_000_000, 3).context("histogram")?;
        Ok(Self { requests: 0, lost: 0, latency_ns })
    }

    /// Counts `count` requests that were sent at `sent_ns` and answered at `now_ns`.
    fn answered(&mut self, sent_ns: u64, now_ns: u64, count: u64) {
        self.requests += count;
        self.latency_ns.saturating_record_n(now_ns.saturating_sub(sent_ns), count);
    }

    fn quantile_us(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 / 1_000.0
    }
}

/// One side of a closed loop.
trait Client {
    /// Keeps the load up until `until`.
    fn run(&mut self, until: Instant, tally: &mut Tally) -> Result<()>;

    /// Sends nothing more and takes what is still to come.
    fn drain(&mut self, tally: &mut Tally) -> Result<()>;
}

/// Puts `load` on `server`, which listens at `address`, and measures one window.
///
/// # Errors
/// When the server refuses, closes, stops answering or answers with wrong bytes.
pub fn measure(load: Load, server: &Server, address: SocketAddr, timing: Timing) -> Result<Sample> {
    let mut client: Box<dyn Client> = match load.transport {
        Transport::Tcp => Box::new(tcp::Streams::open(load, address)?),
        Transport::UdpSingles | Transport::UdpTrains => Box::new(udp::Datagrams::open(load, address)?),
    };
    let mut outside = Tally::new()?;
    let mut tally = Tally::new()?;
    client.run(Instant::now() + timing.warm_up, &mut outside)?;
    let start = Reading::take(server)?;
    client.run(start.at + timing.window, &mut tally)?;
    // A busy host may keep a server from its CPU for longer than a short window; that is not the server's fault.
    if tally.requests == 0 {
        client.run(start.at + timing.window + ANSWER_WITHIN, &mut tally)?;
    }
    let end = Reading::take(server)?;
    client.drain(&mut outside)?;
    ensure!(tally.requests > 0, "the server answered nothing within {:?}", timing.window + ANSWER_WITHIN);
    Ok(sample(&start, &end, &tally, &outside))
}

/// Clocks at one end of the window.
struct Reading {
    at: Instant,
    server_ns: u64,
    own_ns: u64,
}

impl Reading {
    fn take(server: &Server) -> Result<Self> {
        let server_ns = server.cpu_ns()?;
        Ok(Self { at: Instant::now(), server_ns, own_ns: proc::own_cpu_ns()? })
    }
}

fn sample(start: &Reading, end: &Reading, tally: &Tally, outside: &Tally) -> Sample {
    let window_s = (end.at - start.at).as_secs_f64();
    let server_us = (end.server_ns - start.server_ns) as f64 / 1e3;
    let own_us = (end.own_ns - start.own_ns) as f64 / 1e3;
    Sample {
        requests: tally.requests,
        lost: tally.lost,
        requests_in_all: tally.requests + outside.requests,
        window_s,
        cpu_us_per_request: server_us / tally.requests as f64,
        requests_per_s: tally.requests as f64 / window_s,
        server_load: server_us / 1e6 / window_s,
        generator_load: own_us / 1e6 / window_s,
        p50_us: tally.quantile_us(0.5),
        p99_us: tally.quantile_us(0.99),
        p999_us: tally.quantile_us(0.999),
        max_us: tally.latency_ns.max() as f64 / 1e3,
    }
}

/// Bytes that tell where they belong: a pseudo-random sequence whose period is a prime, so that no message size, no
/// buffer size and no power of two is a multiple of it, and bytes shifted by any of them do not match.
struct Pattern {
    bytes: Vec<u8>,
}

/// Length after which the pattern repeats, a prime.
const PERIOD: usize = 8_191;

impl Pattern {
    /// A pattern that gives up to `longest` bytes at once.
    fn new(longest: usize) -> Self {
        let mut state = 0x2545_f491_u32;
        let period: Vec<u8> = (0..PERIOD).map(|_| next_byte(&mut state)).collect();
        let bytes = period.iter().copied().cycle().take(PERIOD + longest).collect();
        Self { bytes }
    }

    /// The `length` bytes that stand at `position`; `length` is at most the longest asked for.
    fn at(&self, position: u64, length: usize) -> &[u8] {
        let start = (position % PERIOD as u64) as usize;
        &self.bytes[start..start + length]
    }

    /// Fails, naming the first wrong byte, when `got` is not what stands at `position`.
    fn check(&self, position: u64, got: &[u8]) -> Result<()> {
        let expected = self.at(position, got.len());
        if expected == got {
            return Ok(());
        }
        let wrong = expected.iter().zip(got).take_while(|(a, b)| a == b).count();
        anyhow::bail!(
            "the server's fault: byte {} of what came back is {:#04x}, expected {:#04x}",
            position + wrong as u64,
            got[wrong],
            expected[wrong],
        )
    }
}

/// One step of a xorshift generator (Marsaglia, "Xorshift RNGs", 2003).
fn next_byte(state: &mut u32) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    (*state >> 24) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_repeats_with_its_period_and_not_before() {
        let pattern = Pattern::new(64);
        let start = pattern.at(0, 64);
        assert_eq!(start, pattern.at(PERIOD as u64, 64));
        let earlier = (1..PERIOD as u64).find(|&position| pattern.at(position, 64) == start);
        assert_eq!(earlier, None);
    }

    #[test]
    fn a_wrong_byte_is_named_with_its_position() {
        let pattern = Pattern::new(64);
        let mut got = pattern.at(100, 64).to_vec();
        pattern.check(100, &got).expect("right bytes");
        pattern.check(101, &got).expect_err("shifted by one");
        got[10] ^= 1;
        let error = pattern.check(100, &got).expect_err("one bit flipped");
        assert!(error.to_string().contains("byte 110 "), "{error}");
    }

    #[test]
    fn a_tally_counts_all_of_a_batch() {
        let mut tally = Tally::new().expect("bounds");
        tally.answered(1_000, 51_000, 3);
        tally.answered(1_000, 101_000, 1);
        assert_eq!(tally.requests, 4);
        assert_eq!(tally.latency_ns.len(), 4);
        assert!((tally.quantile_us(0.5) - 50.0).abs() < 0.5);
        assert!((tally.quantile_us(1.0) - 100.0).abs() < 0.5);
    }
}
