//! A wire with a server's CPU at its far end and a generator's at its near end, both ends set up alike for all that are compared.
//!
//! Each end has an XDP program, and its packets are received by a kernel's thread of its own (threaded NAPI), pinned to the end's CPU: so what
//! receiving costs is charged to that thread, whoever is served. All of it is gone with this process: see `rig`.

use std::ffi::OsStr;
use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use corelane_os::processes::Process;
use corelane_select::bpf::{Program, XdpLink, XdpMode};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::unistd::Pid;

use crate::cpus::{GENERATOR_CPU, SERVER_CPU};
use crate::server;
use xtask::rig::{Rig, ip};

/// How long the kernel may take to show the threads of an interface.
const THREADS_WITHIN: Duration = Duration::from_secs(2);

/// The programs that wires are made with, and the packages that have them.
const PROGRAMS: [(&str, &str); 4] =
    [("ip", "iproute2"), ("ethtool", "ethtool"), ("nsenter", "util-linux"), ("chrt", "util-linux")];

/// Refuses to begin without one of the programs that wires are made with: without ethtool, checksums would be left out on the wire, and nobody
/// over frames would answer.
///
/// # Errors
/// Which are missing, and the packages that have them.
pub fn ensure_programs(is_installed: impl Fn(&str) -> bool) -> Result<()> {
    let lacking = PROGRAMS.into_iter().filter(|(program, _)| !is_installed(program));
    let lacking: Vec<String> = lacking.map(|(program, package)| format!("{program} (package {package})")).collect();
    ensure!(lacking.is_empty(), "wires are made with programs that are missing here: install {}", lacking.join(", "));
    Ok(())
}

/// An end of a wire; its number is that of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The generator's.
    Near = 0,
    /// The server's.
    Far = 1,
}

impl End {
    /// The interface there.
    pub fn interface(self) -> &'static str {
        match self {
            End::Near => "near",
            End::Far => "far",
        }
    }

    /// The kernel's address there.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 9, 0, 1 + self as u8)
    }

    fn cpu(self) -> usize {
        match self {
            End::Near => GENERATOR_CPU,
            End::Far => SERVER_CPU,
        }
    }
}

/// The address of a packet lane, which the kernel at the far end does not have.
pub const LANE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 3);

/// A wire, as long as this is there.
pub struct Wire {
    rig: Rig,
    programs: Vec<XdpLink>,
    /// The receiving threads of other interfaces.
    others: Vec<u32>,
}

impl Wire {
    /// A wire whose ends have no programs yet.
    ///
    /// # Errors
    /// What is missing: root, iproute2, util-linux, ethtool.
    pub fn new() -> Result<Self> {
        let others = [End::Near, End::Far].map(napi_threads).concat();
        Ok(Self { rig: apart(Rig::wire)?, programs: Vec::new(), others })
    }

    /// Gives an end its program.
    pub fn attach(&mut self, end: End, program: &Program) -> Result<()> {
        let link = self.inside(end, || {
            let index = nix::net::if_::if_nametoindex(end.interface()).context("the wire's end")?;
            let attached = XdpLink::attach(program, index, XdpMode::Native);
            attached.map_err(|fault| anyhow::anyhow!("a program for {}: {fault:?}", end.interface()))
        })?;
        self.programs.push(link);
        Ok(())
    }

    /// Runs `work` in the namespace of an end.
    pub fn inside<T: Send>(&self, end: End, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        apart(|| {
            self.rig.enter(end as usize)?;
            work()
        })
    }

    /// Lines for ip(8) at an end.
    pub fn ip(&self, end: End, lines: &[String]) -> Result<()> {
        self.inside(end, || ip(lines))
    }

    /// Changes what the interface of an end does by itself (ethtool(8), -K).
    pub fn ethtool(&self, end: End, words: &[&str]) -> Result<()> {
        self.inside(end, || {
            let output = Command::new("ethtool").args(["-K", end.interface()]).args(words).output().context("ethtool")?;
            ensure!(output.status.success(), "ethtool -K: {}", String::from_utf8_lossy(&output.stderr));
            Ok(())
        })
    }

    /// A program at an end, on that end's CPU.
    pub fn command(&self, end: End, program: impl AsRef<OsStr>) -> Result<Command> {
        self.command_on(&[end.cpu()], end, program)
    }

    /// A program at an end, on other CPUs.
    pub fn command_on(&self, cpus: &[usize], end: End, program: impl AsRef<OsStr>) -> Result<Command> {
        let start = server::on_cpus(cpus, program.as_ref())?;
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.rig.place(end as usize))).arg("--").arg(start.get_program());
        command.args(start.get_args());
        Ok(command)
    }

    /// Has a kernel's thread receive at each end, pinned to the end's CPU; returns the far end's. To be called when both ends have their programs:
    /// an end of veth without one has nothing that such a thread could run.
    pub fn pin(&self) -> Result<Process> {
        self.pin_one(End::Near)?;
        self.pin_one(End::Far)
    }

    fn pin_one(&self, end: End) -> Result<Process> {
        self.inside(end, || thread_receiving(end.interface()))?;
        let deadline = Instant::now() + THREADS_WITHIN;
        loop {
            let own: Vec<u32> = napi_threads(end).into_iter().filter(|id| !self.others.contains(id)).collect();
            if let [id] = own[..] {
                let mut cpus = CpuSet::new();
                cpus.set(end.cpu())?;
                sched_setaffinity(Pid::from_raw(id as i32), &cpus).context("pinning the thread that receives")?;
                return Process::find(id).context("the thread that receives");
            }
            ensure!(Instant::now() < deadline, "{} threads receive at {}, expected 1", own.len(), end.interface());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Has the kernel receive for an end on the end's CPU, in interrupts (RPS, `Documentation/networking/scaling.rst`), and not where packets were sent.
    pub fn steer(&self, end: End) -> Result<()> {
        self.pin_one(End::Near)?;
        self.inside(end, || {
            own_sys()?;
            let file = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", end.interface());
            fs::write(&file, format!("{:x}", 1 << end.cpu())).with_context(|| format!("{file}: this kernel steers nothing"))
        })
    }

    /// The link-layer address of an end.
    pub fn mac(&self, end: End) -> Result<[u8; 6]> {
        let found = self.inside(end, || link_address(end.interface()))?;
        Ok(found)
    }
}

/// The link-layer address of an interface of this thread's namespace.
fn link_address(interface: &str) -> Result<[u8; 6]> {
    let output = Command::new("ip")
        .args(["-o", "link", "show", "dev", interface])
        .stdin(Stdio::null())
        .output()
        .context("ip (package iproute2)")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split_whitespace().skip_while(|word| *word != "link/ether").skip(1);
    let bytes = words.next().with_context(|| format!("no address of {interface}: {text}"))?;
    let bytes = bytes.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<Vec<_>, _>>()?;
    <[u8; 6]>::try_from(bytes).ok().context("an address has 6 bytes")
}

/// Does it in a thread of its own, whose namespaces are nobody else's.
fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(done) => done,
        Err(_) => bail!("a thread panicked; its own message is above"),
    })
}

/// Has a kernel's thread receive at an interface.
fn thread_receiving(interface: &str) -> Result<()> {
    own_sys()?;
    let file = format!("/sys/class/net/{interface}/threaded");
    fs::write(&file, "1").with_context(|| format!("{file}: this kernel receives in no threads (Linux 5.12 does)"))
}

/// What /sys shows is the network of who mounted it, so this thread gets mounts of its own.
fn own_sys() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("unshare(2), which only root may")?;
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).context("making mounts private")?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), nothing).context("mounting /sys")
}

/// The kernel's threads that receive at interfaces of this name, in whatever network.
fn napi_threads(end: End) -> Vec<u32> {
    let prefix = format!("napi/{}-", end.interface());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.starts_with(&prefix));
    numbers.filter(is_one).collect()
}

#[cfg(test)]
pub mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;
    use crate::packet::cells::Echo;
    use crate::packet::programs::{self, Counting, PORT};
    use crate::packet::servers::Echoing;

    /// Held by a test that makes wires: the threads that receive are known by their interfaces' names, which all wires have.
    pub static WIRES: Mutex<()> = Mutex::new(());

    #[test]
    fn a_program_that_is_missing_is_named_at_once() {
        assert!(ensure_programs(|_| true).is_ok());
        let refused = ensure_programs(|program| program != "ethtool").unwrap_err().to_string();
        assert!(refused.ends_with("install ethtool (package ethtool)"), "{refused}");
    }

    /// Frames of a flood reach the far end, whose program sends them back; the near end's counts them. Then all is made anew, as for each round: the
    /// next wire's ends and threads have the names of those that have just gone.
    #[test]
    fn a_flood_is_echoed_and_counted_and_the_next_wire_answers() {
        const NAME: &str = "bench::packet::a_flood_is_echoed_and_counted_and_the_next_wire_answers";
        let _held = WIRES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut wire = match Wire::new() {
            Ok(wire) => wire,
            Err(why) => return corelane_os::testing::skip(NAME, &format!("{why:#}")),
        };
        let (Ok(counting), Ok(echo)) = (Counting::new(), programs::echo()) else {
            return corelane_os::testing::skip(NAME, "this process may load no programs");
        };
        wire.attach(End::Near, &counting.program).expect("veth runs programs");
        wire.attach(End::Far, &echo).expect("veth runs programs");
        let receiver = wire.pin().expect("each end has a thread that receives");
        let macs = [wire.mac(End::Near).expect("an address"), wire.mac(End::Far).expect("an address")];
        let frame = programs::frame(macs, [End::Near.address(), End::Far.address()], 64);
        let emitted = wire.inside(End::Near, || {
            let index = nix::net::if_::if_nametoindex(End::Near.interface())?;
            let flood = programs::Flood::new(index)?;
            flood.emit(&frame, 64)?;
            let all = flood.sent()?;
            // One each 1,000 s: the first is due at once.
            flood.begin(Some(1e-3))?;
            flood.emit(&frame, 64)?;
            Ok((all, flood.sent()?))
        });
        assert_eq!(emitted.expect("frames are emitted"), (64, 1));
        let deadline = Instant::now() + Duration::from_secs(10);
        while counting.answers().expect("a count") < 65 {
            assert!(Instant::now() < deadline, "{} of 65 to port {PORT} came back", counting.answers().expect("a count"));
        }
        assert_eq!(counting.answers().expect("a count"), 65);
        drop(wire);
        let next = Echoing::start(Echo::Program, Path::new("")).expect("it answers");
        assert_ne!(next.receiver.id(), receiver.id(), "another thread receives");
    }
}
