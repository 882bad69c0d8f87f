//! A gateway on a wire of its own, and its users at the other end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use corelane_os::processes::Process;
use nix::net::if_::if_nametoindex;
use serde::Serialize;

use super::cells::Means;
use super::contenders::{Asked, Gateway};
use super::linux;
use super::ours::{self, Folder};
use super::programs::{self, Sink};
use super::sockets::Sockets;
use crate::cpus::{GENERATOR_CPU, SERVER_CPU};
use crate::flood::spin;
use crate::packet::flood::{Emitted, Emitter};
use crate::packet::wire::{End, Wire};
use crate::server::Server;
use crate::softirq::Threads;

/// How long a gateway may take until it forwards all that it is offered.
const FORWARDS_WITHIN: Duration = Duration::from_secs(20);
/// Packets a second that are offered until then, and how long at once.
const TRIED_PER_S: f64 = 20e3;
const TRIED_FOR: Duration = Duration::from_millis(300);
/// How long the last packets may take to the far end and back.
const BACK_WITHIN: Duration = Duration::from_millis(100);

/// A gateway, and what its users need.
pub struct Running {
    // Order matters: programs end before the wire does.
    spinner: Option<Server>,
    server: Option<Server>,
    folder: Folder,
    /// The kernel's thread that receives for it.
    receiver: Process,
    /// The kernel's own thread of its CPU.
    softirq: Threads,
    sink: Sink,
    emitter: Emitter,
    wire: Wire,
}

/// Processor time of a gateway, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    server: u64,
    receiver: u64,
    softirq: u64,
    /// Of who computes beside it.
    spinner: u64,
}

impl Used {
    /// Microseconds since then: of the server, the receiver, ksoftirqd, and who computes beside.
    fn since(&self, then: &Self) -> [f64; 4] {
        let all = |used: &Self| [used.server, used.receiver, used.softirq, used.spinner];
        let (now, then) = (all(self), all(then));
        std::array::from_fn(|place| now[place].saturating_sub(then[place]) as f64 / 1e3)
    }
}

/// The fate of packets at both ends of the wire, so far or since then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Those for which the ring of the gateway's interface, or of its port, had no room.
    pub unreceived: u64,
    /// Those that it had sent, and for which the ring of its users' interface had no room.
    pub at_users: u64,
    /// How long the kernel's thread that receives for it waited for its CPU, in nanoseconds.
    pub waited_ns: u64,
}

impl Fate {
    /// The fate of packets since then.
    pub fn since(&self, then: &Self) -> Self {
        Self {
            unreceived: self.unreceived - then.unreceived,
            at_users: self.at_users - then.at_users,
            waited_ns: self.waited_ns - then.waited_ns,
        }
    }
}

/// Packets that an interface dropped on their way in and on their way out, as the kernel's list has it (`/proc/net/dev`, proc_pid_net(5)). A veth counts what its other end had no room for
/// among the latter.
fn dropped(devices: &str, interface: &str) -> Option<(u64, u64)> {
    const RECEIVED: usize = 3;
    const SENT: usize = 11;
    let line = devices.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    Some((words.get(RECEIVED)?.parse().ok()?, words.get(SENT)?.parse().ok()?))
}

/// How long a thread has waited for a CPU, in nanoseconds (sched-stats in the kernel's documentation).
fn waited_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// The figures of a window.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Passed {
    /// Packets a second that were put on the wire, those among them for which it had no room.
    pub offered_per_s: f64,
    /// Packets a second that came to the users they were for.
    pub forwarded_per_s: f64,
    /// Packets that came otherwise than they had to.
    pub wrong: u64,
    /// Processor time for each that was forwarded, in microseconds: of the gateway's process, of the kernel's thread that receives for it, and of ksoftirqd of its
    /// CPU, where that can be seen.
    pub server_us: f64,
    pub receiver_us: f64,
    pub softirq_us: f64,
    /// Processor time of who offers, for each packet that was offered: on the other CPU, and no part of the cost.
    pub emitter_us: f64,
    /// Per cent of the time that the gateway had its CPU, with who receives for it; and that a program beside had it.
    pub network: f64,
    pub beside: f64,
}

impl Passed {
    /// Processor time for each packet that was forwarded, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.server_us + self.receiver_us + self.softirq_us
    }
}

impl Running {
    /// Starts it on a new wire, and waits until it forwards.
    ///
    /// # Errors
    /// When the wire or the gateway cannot be made, or it does not forward all of a small offer.
    pub fn start(asked: Asked, corelane: &Path) -> Result<Self> {
        Self::start_on(&[SERVER_CPU], asked, corelane)
    }

    /// The same, but for what is beside its lane: that may use the other CPU as well, as control does on a machine of more.
    ///
    /// # Errors
    /// As for [`Running::start`].
    pub fn start_unpinned(asked: Asked, corelane: &Path) -> Result<Self> {
        Self::start_on(&[SERVER_CPU, GENERATOR_CPU], asked, corelane)
    }

    fn start_on(cpus: &[usize], asked: Asked, corelane: &Path) -> Result<Self> {
        let Asked { gateway, is_tagged, beside } = asked;
        let mut wire = Wire::new()?;
        let [near, far] = [wire.mac(End::Near)?, wire.mac(End::Far)?];
        // Who only redirects leaves addresses as they are.
        let sink = Sink::new(if gateway == Gateway::Redirect { far } else { near }, gateway.hops())?;
        wire.attach(End::Near, &sink.program)?;
        let index = |end: End| wire.inside(end, || if_nametoindex(end.interface()).context("an end of the wire"));
        let [near_index, far_index] = [index(End::Near)?, index(End::Far)?];
        let folder = Folder::new(asked)?;
        let server = match gateway {
            Gateway::Redirect => {
                wire.attach(End::Far, &programs::redirecting(far_index)?)?;
                None
            }
            _ if gateway.is_ours() => Some(ours::start(&folder, cpus, corelane, &wire)?),
            _ => {
                kernel(gateway, &wire)?;
                None
            }
        };
        let receiver = wire.pin()?;
        let users = programs::users(near_index, [near, far], is_tagged)?;
        let emitter = Emitter::of(users, programs::frame([near, far], is_tagged));
        let mut running =
            Self { spinner: None, server, folder, receiver, softirq: Threads::of(&[SERVER_CPU]), sink, emitter, wire };
        running.await_forwarding()?;
        running.spinner = beside.map(|_| spin(&running.wire)).transpose()?;
        Ok(running)
    }

    /// The number of its process; none where the kernel is the gateway.
    pub fn pid(&self) -> Option<i32> {
        self.server.as_ref().map(Server::pid)
    }

    /// Writes a file beside its own.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        self.folder.write(name, text)
    }

    /// Packets that came to their users so far.
    pub fn came(&self) -> u64 {
        self.sink.right()
    }

    /// The fate of packets at both ends.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn fate(&self) -> Result<Fate> {
        let devices = self.wire.inside(End::Far, || fs::read_to_string("/proc/thread-self/net/dev").context("interfaces"))?;
        let (unreceived, at_users) = dropped(&devices, End::Far.interface()).context("the gateway's interface is listed")?;
        let schedstat =
            fs::read_to_string(format!("/proc/{}/schedstat", self.receiver.id())).context("the thread that receives")?;
        Ok(Fate { unreceived, at_users, waited_ns: waited_ns(&schedstat).context("this kernel counts waits for CPUs")? })
    }

    /// Offers so many packets a second while `work` is done; returns how many it were and what came of it, once the last of them had time to come.
    pub fn meanwhile<T: Send>(&self, rate: f64, work: impl FnOnce() -> Result<T> + Send) -> Result<(u64, T)> {
        let goes_on = AtomicBool::new(true);
        thread::scope(|scope| {
            let offering = scope.spawn(|| self.offer(Some(rate), &|| goes_on.load(Ordering::Relaxed)));
            let done = work();
            goes_on.store(false, Ordering::Relaxed);
            // reason: a thread that panicked has said so.
            let emitted = offering.join().expect("the users' thread")?;
            thread::sleep(BACK_WITHIN);
            Ok((emitted.frames, done?))
        })
    }

    fn used(&self) -> Result<Used> {
        let receiver = self.receiver.cpu_nanoseconds().context("the thread that receives")?;
        let server = self.server.as_ref().map_or(Ok(0), Server::cpu_ns)?;
        let spinner = self.spinner.as_ref().map_or(Ok(0), Server::cpu_ns)?;
        Ok(Used { server, receiver, softirq: self.softirq.cpu_ns().unwrap_or(0), spinner })
    }

    /// Offers frames of a program as long as `goes_on` says, so many a second or as many as can be.
    fn offer(&self, rate: Option<f64>, goes_on: &(dyn Fn() -> bool + Sync)) -> Result<Emitted> {
        self.emitter.emit(&self.wire, rate, goes_on)
    }

    /// Its figures with so many frames a second, or as many as can be.
    ///
    /// # Errors
    /// As for [`Running::measure`].
    pub fn offered(&self, rate: Option<f64>, warm_up: Duration, window: Duration) -> Result<Passed> {
        self.measure(|goes_on| self.offer(rate, goes_on), warm_up, window)
    }

    /// Its figures with as many packets as can be sent so.
    ///
    /// # Errors
    /// As for [`Running::measure`].
    pub fn saturated(&self, by: Means, warm_up: Duration, window: Duration) -> Result<Passed> {
        match by {
            Means::Frames => self.offered(None, warm_up, window),
            Means::Sockets => {
                let sockets = Sockets::new(&self.wire)?;
                self.measure(|goes_on| sockets.emit(&self.wire, goes_on), warm_up, window)
            }
        }
    }

    /// Offers little again and again, until all of it comes back: users have to be found first.
    fn await_forwarding(&self) -> Result<()> {
        let deadline = Instant::now() + FORWARDS_WITHIN;
        loop {
            let (before, began) = (self.sink.right(), Instant::now());
            let offered = self.offer(Some(TRIED_PER_S), &|| began.elapsed() < TRIED_FOR)?.frames;
            thread::sleep(BACK_WITHIN);
            let came = self.sink.right() - before;
            if offered > 0 && came == offered {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{came} of {offered} packets were forwarded as they had to, {} otherwise", self.sink.wrong());
            }
        }
    }

    /// Its figures with an offer, after a while that does not count.
    ///
    /// # Errors
    /// When the offer or a figure cannot be had.
    pub fn measure(
        &self,
        offer: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<Emitted> + Send,
        warm_up: Duration,
        window: Duration,
    ) -> Result<Passed> {
        let (goes_on, begun) = (AtomicBool::new(true), Instant::now());
        let seen = || Ok::<_, anyhow::Error>((Instant::now(), self.sink.right(), self.sink.wrong(), self.used()?));
        thread::scope(|scope| {
            let offering = scope.spawn(|| {
                let emitted = offer(&|| goes_on.load(Ordering::Relaxed))?;
                Ok::<_, anyhow::Error>((emitted, begun.elapsed()))
            });
            thread::sleep(warm_up);
            let first = seen();
            thread::sleep(window);
            let last = seen();
            goes_on.store(false, Ordering::Relaxed);
            // reason: a thread that panicked has said so.
            let (emitted, took) = offering.join().expect("the users' thread")?;
            let ((began, came, wrong, used), (ended, came_then, wrong_then, used_then)) = (first?, last?);
            let (packets, seconds) = (came_then - came, (ended - began).as_secs_f64());
            let [server, receiver, softirq, spinner] = used_then.since(&used);
            let [server_us, receiver_us, softirq_us] = [server, receiver, softirq].map(|us| us / packets.max(1) as f64);
            let [network, beside] = [server + receiver + softirq, spinner].map(|us| us / 1e4 / seconds);
            let emitter_us = emitted.cpu_ns as f64 / 1e3 / emitted.frames.max(1) as f64;
            let offered_per_s = emitted.frames as f64 / took.as_secs_f64();
            let (forwarded_per_s, wrong) = (packets as f64 / seconds, wrong_then - wrong);
            Ok(Passed { offered_per_s, forwarded_per_s, wrong, server_us, receiver_us, softirq_us, emitter_us, network, beside })
        })
    }
}

/// The kernel as a gateway. A thread receives for it where generic receive offload is on.
fn kernel(gateway: Gateway, wire: &Wire) -> Result<()> {
    wire.ethtool(End::Far, &["gro", "on"])?;
    linux::forward(wire)?;
    match gateway {
        Gateway::Flat => linux::rules(wire, &linux::flat()),
        Gateway::ByMap => linux::rules(wire, &linux::by_map()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::packet::wire::tests::WIRES;
    use crate::server;

    /// The packets that nftables at the far end has counted, over all rules.
    fn counted(running: &Running) -> u64 {
        let listed = running.wire.inside(End::Far, || Command::new("nft").args(["list", "ruleset"]).output().context("nft"));
        let text = String::from_utf8(listed.expect("nft lists").stdout).expect("words");
        let counts = text.split("packets ").skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        counts.sum()
    }

    #[test]
    fn what_the_kernel_lists_is_read() {
        let devices = "Inter-|   Receive                                                |  Transmit\n \
                       face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n   \
                       lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  \
                       far: 2840690 6678 0 590 0 0 0 0 2755172 6925 0 47 0 0 0 0\n";
        assert_eq!((dropped(devices, "far"), dropped(devices, "fa")), (Some((590, 47)), None));
        assert_eq!((waited_ns("51 7 2\n"), waited_ns("")), (Some(7), None));
        let (then, now) = (Fate { unreceived: 1, at_users: 2, waited_ns: 3 }, Fate { unreceived: 5, at_users: 7, waited_ns: 9 });
        assert_eq!(now.since(&then), Fate { unreceived: 4, at_users: 5, waited_ns: 6 });
    }

    /// Packets of all houses come to their users with right sums, for the kernel forwards no others; and nothing that was counted is lost.
    #[test]
    fn the_kernel_forwards_between_houses_and_counts_each_packet_twice() {
        const NAME: &str = "bench::gateway::the_kernel_forwards_between_houses_and_counts_each_packet_twice";
        let _held = WIRES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Err(why) = Wire::new() {
            return corelane_os::testing::skip(NAME, &format!("{why:#}"));
        }
        if corelane_select::bpf::probe().is_err() || !server::is_installed("nft") {
            return corelane_os::testing::skip(NAME, "programs of the kernel and nftables are needed");
        }
        for gateway in [Gateway::Redirect, Gateway::Flat, Gateway::ByMap] {
            let running = Running::start(Asked { gateway, is_tagged: false, beside: None }, Path::new("")).expect("it forwards");
            assert_eq!(running.sink.wrong(), 0, "{gateway}");
            if gateway != Gateway::Redirect {
                let (counted, right) = (counted(&running), running.sink.right());
                // On a busy machine the users' ring may have had no room for some.
                let without_room = running.fate().expect("the kernel tells it").at_users;
                assert!(
                    (2 * right..=2 * (right + without_room)).contains(&counted),
                    "{gateway}: {counted}, {right}, {without_room}"
                );
            }
        }
    }
}
