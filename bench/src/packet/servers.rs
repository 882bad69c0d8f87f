//! Servers at the far end of a wire, each on a wire of its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use corelane_os::processes::Process;
use corelane_select::bpf::Program;

use super::cells::Echo;
use super::programs::{self, PORT};
use super::wire::{End, LANE_ADDRESS, Wire};
use crate::cpus::SERVER_CPU;
use crate::server::{self, Server};
use crate::softirq::Threads;

/// How long an echo may take until it answers.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// Somebody who echoes.
pub struct Echoing {
    /// Who.
    pub echo: Echo,
    /// Its process; none where the kernel does it.
    pub server: Option<Server>,
    /// The kernel's thread that receives for it.
    pub receiver: Process,
    /// The kernel's own thread of its CPU, which has nothing to receive.
    pub softirq: Threads,
    /// Its wire, which outlives it.
    pub wire: Wire,
}

/// What DPDK needs; none if it can take part.
pub fn lacking(echo: Echo) -> Option<String> {
    let is_lacking = echo == Echo::Testpmd && !server::is_installed("dpdk-testpmd");
    is_lacking.then(|| format!("{echo}: install dpdk-dev"))
}

impl Echoing {
    /// Starts it on a new wire whose near end leaves everything to the kernel.
    ///
    /// # Errors
    /// When the wire or the server cannot be made, or nobody answers.
    pub fn start(echo: Echo, corelane: &Path) -> Result<Self> {
        let echoing = Self::start_behind(echo, corelane, &programs::pass()?, &[])?;
        echoing.await_answer(|| Ok(false))?;
        Ok(echoing)
    }

    /// Starts it on a new wire whose near end has this program; `more` goes behind a corelane's arguments. Whether it answers is not known yet.
    ///
    /// # Errors
    /// When the wire or the server cannot be made.
    pub fn start_behind(echo: Echo, corelane: &Path, near: &Program, more: &[String]) -> Result<Self> {
        let mut wire = Wire::new()?;
        wire.attach(End::Near, near)?;
        match echo {
            // A packet lane brings its own.
            _ if echo.is_over_frames() => {}
            Echo::Program => wire.attach(End::Far, &programs::echo()?)?,
            _ => wire.attach(End::Far, &programs::pass()?)?,
        }
        if echo == Echo::Sockets {
            // A program switches it on, and trains would come of what was sent one by one.
            wire.ethtool(End::Far, &["gro", "off"])?;
        }
        let server = match echo {
            Echo::Program => None,
            Echo::Testpmd => Some(testpmd(&wire)?),
            _ => Some(lane(echo, corelane, &wire, more)?),
        };
        let receiver = wire.pin()?;
        Ok(Self { echo, server, receiver, softirq: Threads::of(&[SERVER_CPU]), wire })
    }

    /// Where it answers.
    pub fn address(&self) -> Ipv4Addr {
        if self.echo.is_over_frames() { LANE_ADDRESS } else { End::Far.address() }
    }

    /// Processor time of its process, and of the thread that receives for it, in nanoseconds.
    pub fn cpu_ns(&self) -> Result<[u64; 2]> {
        let receiver = self.receiver.cpu_nanoseconds().context("the thread that receives")?;
        Ok([self.server.as_ref().map_or(Ok(0), Server::cpu_ns)?, receiver])
    }

    /// Frames that have arrived at the generator's end so far.
    pub fn answers(&self) -> Result<u64> {
        self.wire.inside(End::Near, || {
            let text = fs::read_to_string("/proc/thread-self/net/dev").context("what interfaces have received")?;
            let line = text.lines().find_map(|line| line.trim_start().strip_prefix("near:"));
            let frames = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
            frames.context("what the wire's near end has received")
        })
    }

    /// Asks until somebody answers, or has answered as `is_answered` says.
    pub fn await_answer(&self, is_answered: impl Fn() -> Result<bool> + Send) -> Result<()> {
        let to = SocketAddrV4::new(self.address(), PORT);
        self.wire.inside(End::Near, move || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.set_read_timeout(Some(Duration::from_millis(50)))?;
            let deadline = Instant::now() + ANSWERS_WITHIN;
            while Instant::now() < deadline {
                socket.send_to(b"somebody?", to)?;
                if socket.recv(&mut [0; 64]).is_ok() || is_answered()? {
                    return Ok(());
                }
            }
            anyhow::bail!("nobody answers at {to} within {} s", ANSWERS_WITHIN.as_secs())
        })
    }
}

fn lane(echo: Echo, corelane: &Path, wire: &Wire, more: &[String]) -> Result<Server> {
    let mut command = wire.command(End::Far, corelane)?;
    command.args(["serve", "--lanes", "1", "--cpus", &SERVER_CPU.to_string()]);
    if echo.is_over_frames() {
        let polls = match echo {
            Echo::Ungoverned => ",poll,user_frac=0",
            _ if echo.polls() => ",poll",
            _ => "",
        };
        command.args(["--packet", &format!("{},ip={LANE_ADDRESS}/24{polls}", End::Far.interface())]);
        command.arg(format!("echo=udp://{LANE_ADDRESS}:{PORT}?reflect"));
    } else {
        command.arg(format!("echo=udp://{}:{PORT}?reflect", End::Far.address()));
    }
    command.args(more);
    Server::start(command)
}

/// testpmd, both of whose threads are on the server's CPU. It is given copies of what the kernel receives, so the kernel is to have no address
/// there: it would answer as well.
fn testpmd(wire: &Wire) -> Result<Server> {
    let [near, far] = [wire.mac(End::Near)?, wire.mac(End::Far)?];
    wire.ip(End::Far, &[format!("addr del {}/24 dev far", End::Far.address())])?;
    wire.ip(End::Near, &[format!("neigh replace {} lladdr {} dev near nud permanent", End::Far.address(), text(far))])?;
    ensure!(near != far, "each end has an address of its own");
    let mut command = wire.command(End::Far, "dpdk-testpmd")?;
    let cpus = format!("0@{SERVER_CPU},1@{SERVER_CPU}");
    command.args(["--lcores", &cpus, "--no-huge", "-m", "512", "--no-pci", "--no-shconf", "--no-telemetry"]);
    command.args(["--vdev=net_af_packet0,iface=far", "--"]);
    command.args(["--forward-mode=5tswap", "--total-num-mbufs=4096", "--stats-period=3600", "--rxq=1", "--txq=1"]);
    command.stderr(Stdio::null());
    Server::start_unheard(command)
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
