//! What an operator waits for: a server that starts, and tools that say what it does, also while it does nothing at all; what many connections cost them;
//! and how large the program is.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use corelane_os::processes::Process;
use nix::sys::signal::Signal;

use super::bars::Limit;
use super::cpus::SERVER_CPU;
use super::idle;
use super::interrupt::Interrupt;
use super::rounds::Verdict;
use super::server::{self, Server};

/// The name of the cell.
pub const NAME: &str = "operator";

const MIB: f64 = 1_048_576.0;
/// Connections that are told of.
const CONNECTIONS: usize = 10_000;
/// How long anything may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// For how long `top` is watched, in frames of a second; the first two seconds, in which it starts, do not count.
const FRAMES: Duration = Duration::from_secs(5);
const BEFORE_FRAMES: Duration = Duration::from_secs(2);

const READY_MS: Limit = Limit::Under(200.0);
const STAT_MS: Limit = Limit::Under(50.0);
const CONNECTIONS_MS: Limit = Limit::Under(1_000.0);
/// What the tool takes for each connection beside what it takes anyway: an address book, not a copy of the text.
const CONNECTIONS_MIB: Limit = Limit::Under(32.0);
const TOP_PERCENT: Limit = Limit::Under(2.0);
const PROGRAM_MB: Limit = Limit::Under(15.0);

/// Measures each of them `rounds` times, but for what does not vary.
///
/// # Errors
/// When a server or a tool does not start or does not say what it should, or when a signal asks for the end.
pub fn run(corelane: &Path, rounds: usize, interrupt: &Interrupt) -> Result<Vec<Verdict>> {
    idle::raise_file_limit(CONNECTIONS)?;
    let mut verdicts = vec![Verdict::of_one(NAME, "program, stripped, MB".to_owned(), stripped_mb(corelane)?, PROGRAM_MB)];
    let mut judge = |what: &str, bar, measure: &mut dyn FnMut() -> Result<f64>| -> Result<()> {
        eprintln!("{what} ...");
        let one = |_| interrupt.check().and_then(|()| measure().with_context(|| what.to_owned()));
        let values = (0..rounds).map(one).collect::<Result<Vec<_>>>()?;
        verdicts.extend(Verdict::of_rounds(NAME, what.to_owned(), &values, bar));
        Ok(())
    };
    judge("serve until it is ready, ms", READY_MS, &mut || Ok(Echo::start(corelane, &[])?.ready_ms))?;
    let echo = Echo::start(corelane, &["--spin", "1s"])?;
    judge("stat, a lane looks for work without end, ms", STAT_MS, &mut || {
        echo.ask()?;
        echo.stat_ms(&[])
    })?;
    echo.server.signal(Signal::SIGSTOP)?;
    judge("stat, the process stopped, ms", STAT_MS, &mut || echo.stat_ms(&[]))?;
    echo.server.signal(Signal::SIGKILL)?;
    judge("stat, the process killed, ms", STAT_MS, &mut || echo.stat_ms(&[]))?;
    let echo = Echo::start(corelane, &[])?;
    let _held = echo.hold(CONNECTIONS)?;
    for (form, arguments) in [("stat -R", &["-R"][..]), ("stat -R --json", &["-R", "--json"])] {
        judge(&format!("{form}, {CONNECTIONS} connections, ms"), CONNECTIONS_MS, &mut || echo.stat_ms(arguments))?;
        judge(&format!("{form}, {CONNECTIONS} connections, MiB"), CONNECTIONS_MIB, &mut || echo.stat_mib(arguments))?;
    }
    let top = echo.top_percent()?;
    verdicts.push(Verdict::of_one(NAME, "top, % of a CPU".to_owned(), top, TOP_PERCENT));
    Ok(verdicts)
}

/// The program without its symbols, in megabytes of a million bytes.
fn stripped_mb(corelane: &Path) -> Result<f64> {
    let stripped = corelane.with_extension("stripped");
    let done = Command::new("strip").arg("--strip-all").arg("-o").arg(&stripped).arg(corelane).status().context("strip")?;
    ensure!(done.success(), "strip: {done}");
    let bytes = fs::metadata(&stripped)?.len();
    fs::remove_file(&stripped)?;
    Ok(bytes as f64 / 1e6)
}

/// An echo server, and what its operator asks.
struct Echo<'a> {
    corelane: &'a Path,
    server: Server,
    address: SocketAddr,
    ready_ms: f64,
}

impl<'a> Echo<'a> {
    fn start(corelane: &'a Path, more: &[&str]) -> Result<Self> {
        let address = server::free_address(&mut None)?;
        let mut command = server::on_cpus(&[SERVER_CPU], corelane)?;
        command
            .args(["serve", "--lanes", "1", "--cpus", &SERVER_CPU.to_string()])
            .args(more)
            .arg(format!("echo=tcp://{address}"));
        let began = Instant::now();
        let server = Server::start(command)?;
        Ok(Self { corelane, server, address, ready_ms: milliseconds(began) })
    }

    /// Has a byte echoed, so that the lane looks for work from then on.
    fn ask(&self) -> Result<()> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(b"?")?;
        stream.read_exact(&mut [0]).context("an echo")
    }

    fn stat(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.corelane);
        command.args(["stat", "--pid", &self.server.pid().to_string()]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    fn stat_ms(&self, arguments: &[&str]) -> Result<f64> {
        let began = Instant::now();
        let done = self.stat(arguments).output()?;
        let took = milliseconds(began);
        ensure!(done.status.success() && !done.stdout.is_empty(), "stat ended with {}", done.status);
        Ok(took)
    }

    /// The most memory that it has had by its last words.
    fn stat_mib(&self, arguments: &[&str]) -> Result<f64> {
        let mut child = self.stat(arguments).spawn()?;
        let mut out = child.stdout.take().context("its output is not piped")?;
        let (mut most, mut bytes) = (None, vec![0; 1 << 16]);
        while out.read(&mut bytes)? > 0 {
            most = resident_most_mib(child.id()).or(most);
        }
        ensure!(child.wait()?.success(), "stat failed");
        most.context("it ended before its memory was seen")
    }

    /// Opens connections, and waits until all of them are told of.
    fn hold(&self, count: usize) -> Result<Vec<TcpStream>> {
        let streams =
            (0..count).map(|_| TcpStream::connect(self.address)).collect::<Result<Vec<_>, _>>().context("connecting")?;
        let words = format!(": {count} TCP connections");
        let deadline = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&self.stat(&["-R"]).output()?.stdout).contains(&words) {
            ensure!(Instant::now() < deadline, "not all of {count} connections are there");
        }
        Ok(streams)
    }

    /// What `top` takes of a CPU, on a terminal of 80 by 24.
    fn top_percent(&self) -> Result<f64> {
        let number = std::env::temp_dir().join(format!("corelane-bench-top-{}", std::process::id()));
        let (program, pid) = (self.corelane.display(), self.server.pid());
        let words = format!("stty rows 24 cols 80; echo $$ > {}; exec '{program}' top --pid {pid}", number.display());
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--command", &words, "/dev/null"]).env("TERM", "xterm");
        let terminal = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().context("script, of util-linux")?;
        let terminal = Terminal(terminal);
        thread::sleep(BEFORE_FRAMES);
        let top = fs::read_to_string(&number).context("top has not begun")?;
        fs::remove_file(&number)?;
        let top = Process::find(top.trim().parse()?)?;
        let before = top.cpu_nanoseconds()?;
        thread::sleep(FRAMES);
        let used = top.cpu_nanoseconds().context("top has ended")? - before;
        drop(terminal);
        if used == 0 {
            bail!("top has drawn nothing");
        }
        Ok(used as f64 / FRAMES.as_nanos() as f64 * 100.0)
    }
}

/// A terminal of somebody's own, who ends with it.
struct Terminal(Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        // `q`, as a person would; what does not end by that ends with its terminal.
        let _ = self.0.stdin.take().map(|mut keys| keys.write_all(b"q"));
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline && matches!(self.0.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The most memory that a process has had (proc_pid_status(5), VmHWM).
fn resident_most_mib(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024.0 / MIB)
}
