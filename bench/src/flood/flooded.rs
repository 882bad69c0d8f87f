//! The servers that are flooded, each on a wire of its own, and a program or task that computes beside each.

use std::fmt;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::build::{BUILD, run_cargo};
use crate::cpus::SERVER_CPU;
use crate::packet::flood::{Emitter, ask_beside};
use crate::packet::programs::{self, Counting, PORT};
use crate::packet::wire::{End, LANE_ADDRESS, Wire};
use crate::server::Server;
use crate::stage::Stage;
use corelane_watch::{PacketCounter, Reader, RunDirectory, list};
use xtask::workspace::cargo;

/// Bytes of a datagram's payload.
pub const BYTES: usize = 64;
/// Where the service beside listens, and the requests a second that it is asked for: less than its share of the lane.
const BESIDE_PORT: u16 = PORT + 1;
const BESIDE_RATE: u32 = 500;
/// Where nobody listens.
const CLOSED_PORT: u16 = PORT + 2;
/// How long an echo may take until it answers.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// A server that is flooded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flooded {
    /// A lane's socket, for which the kernel receives in interrupts of the lane's CPU.
    Sockets,
    /// The same, for which it receives in a thread that leaves others such a share.
    Threads(u32),
    /// A lane over frames that the kernel receives in a thread of the same CPU.
    Packet,
    /// A lane over frames that polls, and leaves other programs such a share.
    Polling(u32),
    /// The same, with a task of its own that has the share.
    Computing(u32),
}

impl Flooded {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Sockets,
        Self::Threads(10),
        Self::Threads(30),
        Self::Threads(50),
        Self::Threads(90),
        Self::Packet,
        Self::Polling(10),
        Self::Polling(30),
        Self::Polling(50),
        Self::Polling(90),
        Self::Computing(10),
        Self::Computing(30),
        Self::Computing(50),
        Self::Computing(90),
    ];

    /// The share that others are to have, if they are.
    pub fn user_frac(self) -> Option<u32> {
        match self {
            Self::Sockets | Self::Packet => None,
            Self::Threads(share) | Self::Polling(share) | Self::Computing(share) => Some(share),
        }
    }

    fn is_over_frames(self) -> bool {
        !matches!(self, Self::Sockets | Self::Threads(_))
    }

    fn address(self) -> Ipv4Addr {
        if self.is_over_frames() { LANE_ADDRESS } else { End::Far.address() }
    }
}

impl fmt::Display for Flooded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sockets => f.pad("sockets"),
            Self::Threads(share) => f.pad(&format!("sockets, threads receive, {share} %")),
            Self::Packet => f.pad("packet lane"),
            Self::Polling(share) => f.pad(&format!("packet lane, polls, {share} %")),
            Self::Computing(share) => f.pad(&format!("packet lane, polls, {share} % for its task")),
        }
    }
}

/// Builds the lane that computes.
pub fn build() -> Result<()> {
    run_cargo(cargo().args(BUILD).args(["--package", "corelane", "--features", "packets", "--example", "computing"]))
}

/// Somebody who is flooded, and somebody who computes on the same CPU.
pub struct Target {
    who: Flooded,
    // Order matters: programs end before the wire does.
    server: Server,
    spinner: Option<Server>,
    /// The server's counter page; none where its lanes do not poll.
    page: Option<Reader>,
    counting: Counting,
    emitter: Emitter,
    /// To a port that nobody has.
    closed: Emitter,
    wire: Wire,
}

impl Target {
    /// Starts it on a new wire whose near end counts answers.
    ///
    /// # Errors
    /// When the wire or a program cannot be made, or nobody answers.
    pub fn new(who: Flooded, stage: &Stage) -> Result<Self> {
        let (mut wire, counting) = (Wire::new()?, Counting::new()?);
        wire.attach(End::Near, &counting.program)?;
        if who == Flooded::Sockets {
            wire.attach(End::Far, &programs::pass()?)?;
        }
        if !who.is_over_frames() {
            // A program switches it on, and trains would come of what was sent one by one.
            wire.ethtool(End::Far, &["gro", "off"])?;
        }
        let server = start(who, &stage.corelane, &wire)?;
        receive(who, &wire)?;
        let [emitter, closed] = [(); 2].map(|()| Emitter::new(&wire, who.address(), BYTES)?.helped(&wire));
        let (emitter, closed) = (emitter?, closed?.at_port(CLOSED_PORT));
        let target = Self { who, page: page_of(who, &server)?, server, spinner: None, counting, emitter, closed, wire };
        target.await_answer()?;
        let is_computing = matches!(who, Flooded::Computing(_));
        let spinner = (!is_computing).then(|| spin(&target.wire)).transpose()?;
        if is_computing {
            // The first that asks starts it.
            target.computed_ns()?;
        }
        Ok(Self { spinner, ..target })
    }

    /// Answers so far.
    pub fn answers(&self) -> Result<u64> {
        self.counting.answers()
    }

    /// Processor time of who computes beside, and of all that is not the network's, in nanoseconds: services, tasks and other programs. The latter is not known of a
    /// lane over frames that does not poll.
    pub fn user_ns(&self) -> Result<[Option<u64>; 2]> {
        let computed = match &self.spinner {
            Some(spinner) => spinner.cpu_ns()?,
            None => self.computed_ns()?,
        };
        let server = self.server.cpu_ns()?;
        let network = match self.who {
            Flooded::Sockets | Flooded::Threads(_) => Some(0),
            Flooded::Packet => None,
            Flooded::Polling(_) | Flooded::Computing(_) => Some(self.network_ns()?),
        };
        // A task of the lane is in the lane's time.
        let beside = if self.spinner.is_some() { computed } else { 0 };
        Ok([Some(computed), network.map(|network| server.saturating_sub(network) + beside)])
    }

    /// The time that packets took, as the lane's page says.
    fn network_ns(&self) -> Result<u64> {
        let page = self.page.as_ref().context("the lane has no page")?;
        Ok(page.snapshot(corelane_os::clock::now()).packets_sum(PacketCounter::NetworkNanoseconds))
    }

    fn computed_ns(&self) -> Result<u64> {
        self.wire.inside(End::Far, || {
            let mut text = String::new();
            let mut stream = TcpStream::connect((End::Far.address(), BESIDE_PORT)).context("the lane that computes")?;
            std::io::Write::write_all(&mut stream, b"?")?;
            stream.read_to_string(&mut text).context("what the lane has computed")?;
            text.trim().parse().with_context(|| format!("what the lane has computed: {text:?}"))
        })
    }

    /// Puts frames on the wire as long as is said, for the echo or for a port that nobody has; returns how many.
    pub fn emit(&self, to_echo: bool, offer: Option<f64>, goes_on: &(dyn Fn() -> bool + Sync)) -> Result<u64> {
        Ok(if to_echo { &self.emitter } else { &self.closed }.emit(&self.wire, offer, goes_on)?.frames)
    }

    /// Asks the service on the same lane while so much is offered: its 99th percentile in milliseconds, and requests without an answer. Where none has an answer, the
    /// percentile is the whole window.
    pub fn beside(&self, corelane: &Path, offer: f64, window: Duration) -> Result<Option<[f64; 2]>> {
        if matches!(self.who, Flooded::Computing(_)) {
            return Ok(None);
        }
        let url = format!("tcp://{}:{BESIDE_PORT}", End::Far.address());
        let window = window.max(Duration::from_secs(1));
        let report =
            ask_beside(&self.wire, corelane, &url, BESIDE_RATE, window, |runs| self.emit(true, Some(offer), runs).map(drop))?;
        let p99_ms = report.latency_us.get("99").map_or(window.as_secs_f64() * 1e3, |us| us / 1e3);
        Ok(Some([p99_ms, report.errors.values().sum::<u64>() as f64]))
    }

    fn await_answer(&self) -> Result<()> {
        let to = SocketAddrV4::new(self.who.address(), PORT);
        self.wire.inside(End::Near, move || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            let deadline = Instant::now() + ANSWERS_WITHIN;
            while self.answers()? == 0 {
                ensure!(Instant::now() < deadline, "nobody answers at {to} within {} s", ANSWERS_WITHIN.as_secs());
                socket.send_to(b"somebody?", to)?;
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        })
    }
}

fn start(who: Flooded, corelane: &Path, wire: &Wire) -> Result<Server> {
    let far = End::Far.interface();
    let port = |more: String| format!("{far},ip={LANE_ADDRESS}/24{more}");
    let beside = format!("tcp://{}:{BESIDE_PORT}", End::Far.address());
    if let Flooded::Computing(share) = who {
        let mut command = wire.command(End::Far, corelane.with_file_name("examples").join("computing"))?;
        command.args([port(format!(",poll,user_frac={share}")), format!("udp://{LANE_ADDRESS}:{PORT}"), beside]);
        let mut server = Server::start_unheard(command)?;
        wire.inside(End::Far, || server.await_accepting((End::Far.address(), BESIDE_PORT).into()))?;
        return Ok(server);
    }
    let mut command = wire.command(End::Far, corelane)?;
    command.args(["serve", "--lanes", "1", "--cpus", &SERVER_CPU.to_string()]);
    match who {
        Flooded::Threads(share) => {
            command.args(["--receive-threads", far, "--user-frac", &share.to_string()]);
        }
        Flooded::Packet => {
            command.args(["--packet", &port(String::new())]);
        }
        Flooded::Polling(share) => {
            command.args(["--packet", &port(format!(",poll,user_frac={share},other_programs=1"))]);
        }
        Flooded::Sockets | Flooded::Computing(_) => {}
    }
    command.arg(format!("echo=udp://{}:{PORT}?reflect", who.address())).arg(format!("echo={beside}"));
    Server::start(command)
}

/// The counter page of a server whose lanes poll.
fn page_of(who: Flooded, server: &Server) -> Result<Option<Reader>> {
    if !matches!(who, Flooded::Polling(_) | Flooded::Computing(_)) {
        return Ok(None);
    }
    let pages = RunDirectory::existing().into_iter().filter_map(|directory| list(&directory.ok()?).ok());
    let page = pages.flatten().find(|page| page.process.pid as i32 == server.pid()).context("the server has no page")?;
    Ok(Some(Reader::open(&page.path)?))
}

/// Has the kernel receive on the server's CPU.
fn receive(who: Flooded, wire: &Wire) -> Result<()> {
    match who {
        Flooded::Sockets => wire.steer(End::Far),
        // The server does it itself.
        Flooded::Threads(_) => Ok(()),
        _ => wire.pin().map(drop),
    }
}

/// A program that computes without end, on the server's CPU.
pub fn spin(wire: &Wire) -> Result<Server> {
    let own = std::env::current_exe().context("this program")?;
    let mut command = wire.command(End::Far, own)?;
    command.arg("spin");
    Server::start_unheard(command)
}
