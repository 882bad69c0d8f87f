//! Servers under test: started on a CPU of their own, ended without fail.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use corelane_os::processes::Process;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, socket};
use nix::unistd::Pid;

use super::{cpus, interrupt};

/// How long a server may take to print `ready`.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// How long a server may take to end after SIGTERM before it gets SIGKILL.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Ports that servers are put on: under the range that outgoing connections draw from by default.
const PORTS: std::ops::Range<u16> = 21_000..32_000;

/// A running server. Dropping it ends the process: SIGTERM, then SIGKILL.
pub struct Server {
    child: Child,
}

impl Server {
    /// Starts `command` and waits until it prints a line that starts with `ready`.
    ///
    /// # Errors
    /// When it cannot be started, ends before it is ready or is not ready in time; it is ended then.
    pub fn start(mut command: Command) -> Result<Self> {
        let shown = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // A group of its own: Ctrl-C on the terminal is for this program, which ends the server in its own time.
        command.process_group(0);
        let child = command.spawn().with_context(|| format!("starting {shown}"))?;
        let mut server = Self { child };
        server.await_ready().with_context(|| format!("server {shown}"))?;
        Ok(server)
    }

    /// Starts `command`, whose words nobody reads, and waits until something accepts connections at `address`.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_at(command: Command, address: SocketAddr) -> Result<Self> {
        let shown = format!("{command:?}");
        let mut server = Self::start_unheard(command)?;
        server.await_accepting(address).with_context(|| format!("server {shown}"))?;
        Ok(server)
    }

    /// Starts `command`, whose words nobody reads; whether it serves is asked of it by other means.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_unheard(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        Ok(Self { child: command.spawn().with_context(|| format!("starting {command:?}"))? })
    }

    /// The number of its process.
    pub fn pid(&self) -> i32 {
        // reason: the kernel's pids are positive and fit i32 (PID_MAX_LIMIT is 2^22).
        i32::try_from(self.child.id()).expect("a pid fits i32")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.pid()), signal).with_context(|| format!("{signal} for the server"))
    }

    /// Processor time it has used so far, in nanoseconds.
    pub fn cpu_ns(&self) -> Result<u64> {
        let pid = self.child.id();
        let used = Process::find(pid).and_then(|process| process.cpu_nanoseconds());
        used.with_context(|| format!("the server's process {pid}"))
    }

    fn await_ready(&mut self) -> Result<()> {
        let out = self.child.stdout.take().context("its output is not piped")?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || read_until_end(out, &sender));
        match receiver.recv_timeout(READY_WITHIN) {
            Ok(()) => Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                bail!("not ready within {} s: it must print a line `ready`", READY_WITHIN.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().context("waiting for it")?;
                bail!("ended before it was ready: {status}; its own message is above")
            }
        }
    }

    /// Waits until something accepts connections at `address`, in the network of the calling thread.
    ///
    /// # Errors
    /// When it ends before that, or takes too long.
    pub fn await_accepting(&mut self, address: SocketAddr) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.child.try_wait().context("waiting for it")? {
                bail!("ended before it was ready: {status}");
            }
            if Instant::now() >= deadline {
                bail!("nothing accepts at {address} within {} s", READY_WITHIN.as_secs());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn ended_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        // The child was not waited for, so its number is still its own. Errors leave nothing better to do.
        let _ = self.signal(Signal::SIGTERM);
        let _ = self.signal(Signal::SIGCONT);
        if self.ended_within(END_WITHIN).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Takes the server's output to its end, so that it never meets a full or closed pipe, and tells of the line `ready`.
fn read_until_end(out: ChildStdout, ready: &mpsc::Sender<()>) {
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        if line.starts_with("ready") {
            // Nobody listens any more after the first time, or when it came too late.
            let _ = ready.send(());
        }
    }
}

/// A command that runs `program` on `cpus`, through this program's own mode `start`.
pub fn on_cpus(cpus: &[usize], program: impl Into<OsString>) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args(["start", "--cpus", &cpus::list(cpus), "--"]).arg(program.into());
    Ok(command)
}

/// The mode `start`: becomes `words`, pinned to `cpus`, with no signal blocked, ended when its starter ends.
///
/// # Errors
/// Returns only when it fails.
pub fn become_program(cpus: &[usize], words: &[OsString]) -> Result<()> {
    let Some((program, arguments)) = words.split_first() else {
        bail!("no program named");
    };
    pin(cpus)?;
    set_pdeathsig(Signal::SIGKILL).context("prctl(PR_SET_PDEATHSIG)")?;
    interrupt::unblock()?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| program.display().to_string())
}

/// Pins the calling thread to `cpus`.
pub fn pin(cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    let all = cpus.iter().try_for_each(|&cpu| set.set(cpu));
    all.and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).map_err(|error| match error {
        Errno::EINVAL => {
            anyhow::anyhow!("CPUs {cpus:?} are not all ours: the benchmark needs all that it names")
        }
        other => anyhow::Error::new(other).context("sched_setaffinity"),
    })
}

/// A loopback address that no socket, of streams or of datagrams, is or was just bound to. Each call goes on after the last one.
pub fn free_address(last: &mut Option<u16>) -> Result<SocketAddr> {
    let first = last.map_or(PORTS.start, |port| port + 1);
    let free = (first..PORTS.end).find(|&port| is_free(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)));
    *last = free;
    let port = free.with_context(|| format!("no free port in {PORTS:?}"))?;
    Ok((Ipv4Addr::LOCALHOST, port).into())
}

/// Whether any server can be bound to it. Not all of them share a port with connections that a server before them has closed (SO_REUSEADDR, socket(7)),
/// so these sockets do not either.
fn is_free(address: SocketAddrV4) -> bool {
    [SockType::Stream, SockType::Datagram].into_iter().all(|kind| {
        let made = socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC, None);
        made.is_ok_and(|made| bind(made.as_raw_fd(), &SockaddrIn::from(address)).is_ok())
    })
}

/// Whether a folder of `PATH` has this program.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::path::Path;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn exists(pid: i32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn a_server_is_gone_after_its_guard() {
        let server = Server::start(shell("echo ready; exec sleep 600")).expect("starts");
        let pid = server.pid();
        assert!(exists(pid));
        server.cpu_ns().expect("it runs");
        drop(server);
        assert!(!exists(pid));
    }

    #[test]
    fn a_server_that_ignores_sigterm_is_killed() {
        let script = "trap '' TERM; echo ready; exec sleep 600";
        let server = Server::start(shell(script)).expect("starts");
        let pid = server.pid();
        drop(server);
        assert!(!exists(pid));
    }

    #[test]
    fn other_lines_before_ready_are_skipped() {
        Server::start(shell("echo warming up; echo ready; exec sleep 600")).expect("starts");
    }

    #[test]
    fn a_server_that_ends_early_is_an_error_with_its_status() {
        let error = Server::start(shell("exit 3")).err().expect("it ended");
        let text = format!("{error:#}");
        assert!(text.contains("ended before it was ready") && text.contains('3'), "{text}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        let error = Server::start(Command::new("/nonexistent/server")).err().expect("no such program");
        assert!(format!("{error:#}").contains("/nonexistent/server"));
    }

    #[test]
    fn a_server_that_does_not_speak_is_ready_when_it_accepts() {
        // An address of its own: nobody else is given its port.
        let listener = TcpListener::bind((Ipv4Addr::new(127, 77, 2, 1), 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        Server::start_at(shell("exec sleep 600"), address).expect("something accepts");
        drop(listener);
        // A process that another test has just begun has the listener, too, until it is the program that it becomes.
        let deadline = Instant::now() + READY_WITHIN;
        while TcpStream::connect(address).is_ok() {
            assert!(Instant::now() < deadline, "nobody accepts any more");
            thread::yield_now();
        }
        let error = Server::start_at(shell("exit 3"), address).err().expect("it ended");
        assert!(format!("{error:#}").contains("ended before it was ready"), "{error:#}");
    }

    #[test]
    fn pinning_reaches_only_cpus_there_are() {
        let error = pin(&[1_000]).expect_err("no such CPU");
        assert!(error.to_string().contains("CPUs [1000]"), "{error}");
    }

    #[test]
    fn each_free_address_is_another_one() {
        let mut last = None;
        let first = free_address(&mut last).expect("a free port");
        let second = free_address(&mut last).expect("another one");
        assert!(second.port() > first.port());
    }

    #[test]
    fn a_port_is_free_when_connections_that_a_server_closed_are_gone() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let SocketAddr::V4(address) = listener.local_addr().expect("bound") else { panic!("of IPv4") };
        let mut client = TcpStream::connect(address).expect("it listens");
        drop(listener.accept().expect("a connection"));
        assert_eq!(client.read(&mut [0]).expect("the server closes first"), 0);
        drop((client, listener));
        // A process that another test has just begun has the listener, too, until it is the program that it becomes.
        let deadline = Instant::now() + READY_WITHIN;
        while TcpListener::bind(address).is_err() {
            assert!(Instant::now() < deadline, "free for those who share it");
            thread::yield_now();
        }
        assert!(!is_free(address), "and not for the others");
    }

    #[test]
    fn programs_are_looked_for_by_name() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-such-program-here"));
    }
}
