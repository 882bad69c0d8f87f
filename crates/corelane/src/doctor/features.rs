//! The features that lanes ask of the kernel, each tried by the crate that uses it.

use super::Found;
use crate::lanes::DriverKind;
use crate::lanes::driver::attempt;
use crate::lanes::frames::memory::{FRAME_BYTES, FRAMES_LEAST};
use corelane_drivers::{Probes, tried};
use corelane_machine::ethtool::Ethtool;
use corelane_machine::interfaces::{Interface, list};
use corelane_os::errno::refusal;
use corelane_os::rights;
use corelane_seam::FrameMemory;
use corelane_select::{Means, holders};
use corelane_steer::Topology;
use corelane_xdp::{afxdp, left_behind, left_deferring, packet, tap};

/// The oldest kernel that is tested.
const KERNEL: (u32, u32) = (6, 1);

pub(super) fn kernel() -> Found {
    let release = match corelane_machine::Machine::read() {
        Ok(machine) => machine.kernel_release,
        Err(error) => return Found::missing(error.to_string()),
    };
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    match numbers.next().zip(numbers.next()) {
        Some(version) if version >= KERNEL => Found::fine(release),
        _ => Found::missing(format!("{release} is older than {}.{}", KERNEL.0, KERNEL.1)),
    }
}

pub(super) fn epoll() -> Found {
    Found::tried("an epoll driver works", attempt(DriverKind::Epoll).map(drop))
}

pub(super) fn epoll_pwait2() -> Found {
    has(tried(Probes::default()).epoll_pwait2, "waits are of nanoseconds", "waits are rounded up to milliseconds")
}

/// The finding: the feature, or what is in its place.
fn has(is_there: bool, fine: &str, instead: &str) -> Found {
    if is_there { Found::fine(fine) } else { Found::degraded(instead) }
}

pub(super) fn uring() -> Found {
    let works = attempt(DriverKind::Uring).and_then(|_| corelane_drivers::probe_uring());
    Found::tried("a ring tells what is ready", works)
}

pub(super) fn uring_operations() -> Found {
    match corelane_drivers::refused_operations() {
        Ok(refused) if refused.is_empty() => Found::fine("all operations work"),
        Ok(refused) => {
            let words: Vec<String> = refused.iter().map(|(name, number)| format!("{name} fails with {number}")).collect();
            Found::missing(words.join(", "))
        }
        Err(why) => Found::missing(why.to_string()),
    }
}

pub(super) fn uring_no_iowait() -> Found {
    has(tried(Probes::default()).uring_no_iowait, "idle lanes show no iowait", "IORING_ENTER_NO_IOWAIT is refused (kernel 6.15)")
}

pub(super) fn openat2() -> Found {
    has(
        tried(Probes::default()).openat2,
        "names beneath a directory are resolved at once",
        "openat2 is refused: names beneath a directory are resolved component by component",
    )
}

pub(super) fn file_calls() -> Found {
    Found::tried("files can be opened, read, listed and sent", corelane_drivers::probe_file_calls())
}

pub(super) fn udp_gro() -> Found {
    has(tried(Probes::default()).udp_gro, "datagrams are received in trains", "UDP_GRO is refused")
}

pub(super) fn udp_segment() -> Found {
    let probes = tried(Probes::default());
    match (probes.udp_segment, probes.udp_segment_long) {
        (true, true) => Found::fine("trains of 128 datagrams are sent as one"),
        (true, false) => Found::degraded("trains are sent in pieces of 64 datagrams (128 from kernel 6.9)"),
        (false, _) => Found::degraded("UDP_SEGMENT is refused"),
    }
}

pub(super) fn steering_program() -> Found {
    Found::tried("a BPF program selects sockets", corelane_select::probe(Means::Program)).or_degraded()
}

pub(super) fn steering_classic() -> Found {
    Found::tried("a classic BPF program selects sockets", corelane_select::probe(Means::Classic))
}

pub(super) fn steering() -> Found {
    match [Means::Program, Means::Classic].map(|means| corelane_select::probe(means).is_ok()) {
        [true, _] => Found::fine("--steering auto is program"),
        [false, true] => Found::fine("--steering auto is classic"),
        [false, false] => Found::missing("--steering auto is kernel: the kernel's own hash chooses the lane"),
    }
}

pub(super) fn holders() -> Found {
    let found = holders::probe().map_err(|fault| refusal("NETLINK_SOCK_DIAG", fault));
    Found::tried("the kernel tells who has a port", found).or_degraded()
}

pub(super) fn afxdp() -> Found {
    let memory = match FrameMemory::new(FRAMES_LEAST, FRAME_BYTES) {
        Ok(memory) => memory,
        Err(error) => return Found::missing(error.to_string()),
    };
    Found::tried("a socket and its program can be made", afxdp::probe(&memory))
}

pub(super) fn packet_sockets() -> Found {
    let opened = match list() {
        Ok(links) => links.iter().find(|link| link.loopback).map(|link| packet::open(&link.name, 1).map(drop)),
        Err(error) => return Found::missing(error.to_string()),
    };
    match opened {
        Some(result) => Found::tried("a packet socket can be opened", result),
        None => Found::missing("there is no loopback interface to try it on"),
    }
}

pub(super) fn tap() -> Found {
    let name = format!("clprobe{}", std::process::id());
    Found::tried("a tap interface can be made", tap::open(&name, 1).map(drop))
}

/// Something is left of a process that was killed, at these interfaces, each with the command that undoes it.
fn undone_by(what: &str, left: &[(String, String)]) -> Found {
    let undone: Vec<String> = left.iter().map(|(name, command)| format!("{name}: {command}")).collect();
    Found::degraded(format!("{what}; this undoes it: {}", undone.join("; ")))
}

/// Whether the kernel receives by threads that a killed process has left.
pub(super) fn receive_threads() -> Found {
    match left_behind() {
        Ok(left) if left.is_empty() => Found::fine("none is left behind"),
        Ok(left) => {
            undone_by("the kernel receives by threads that are bound or weighed, and no process of Corelane governs them", &left)
        }
        Err(why) => Found::degraded(format!("--receive-threads is not to be had: {why}")),
    }
}

/// Whether the kernel leaves receiving to a lane that is gone.
pub(super) fn deferred_receiving() -> Found {
    match left_deferring() {
        Ok(left) if left.is_empty() => Found::fine("no interface is left to a lane that is gone"),
        Ok(left) => undone_by("the kernel leaves receiving to lanes, and there are none", &left),
        Err(why) => Found::fine(format!("the kernel does not tell: {why}")),
    }
}

pub(super) fn lane_thread() -> Found {
    let tried = rights::probe_lane_thread().map_err(|(call, fault)| refusal(call, fault));
    Found::tried("threads can be pinned, and have descriptors of their own", tried)
}

pub(super) fn landlock() -> Found {
    match rights::landlock_version() {
        Ok(version) => Found::fine(format!("version {version}")),
        Err(fault) => Found::degraded(refusal("landlock_create_ruleset", fault)),
    }
}

pub(super) fn run_directory() -> Found {
    let mut notes = Vec::new();
    match corelane_watch::RunDirectory::choose(&mut notes) {
        Ok(directory) => Found::fine([vec![directory.path().display().to_string()], notes].concat().join("; ")),
        Err(error) => Found::missing(error.to_string()),
    }
}

/// The interface that serves the world, if there is one.
pub(super) fn interface() -> Found {
    let links = match list() {
        Ok(links) => links,
        Err(error) => return Found::missing(error.to_string()),
    };
    let ethtool = Ethtool::find();
    let usable = links.iter().filter(|link| link.up && !link.loopback && !link.addresses.is_empty());
    let read: Vec<Interface> = usable.filter_map(|link| Interface::read(link, &ethtool).ok()).collect();
    let cpus = Topology::read(&[], None).map_or(1, |topology| topology.lanes_by_default());
    let few = |interface: &&Interface| interface.rx_queues() < cpus || (cpus > 1 && interface.rss.is_none());
    let words: Vec<String> = read.iter().map(queues).collect();
    match (read.is_empty(), read.iter().any(|interface| few(&interface))) {
        (true, _) => Found::fine("loopback only"),
        (false, false) => Found::fine(words.join("; ")),
        (false, true) => Found::degraded(format!("{} for {cpus} lanes", words.join("; "))),
    }
}

fn queues(interface: &Interface) -> String {
    let rss = if interface.rss.is_some() { "with receive side scaling" } else { "without receive side scaling" };
    let queues = interface.rx_queues();
    let plural = if queues == 1 { "" } else { "s" };
    format!("{} has {queues} receive queue{plural}, {rss}", interface.link.name)
}
