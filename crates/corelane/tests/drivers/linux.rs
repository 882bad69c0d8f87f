//! The rigs of the drivers on Linux, with features of the kernel forced off.

use crate::rig::{Rig, Side};
use corelane_drivers::{Crossing, EpollDriver, Probes, UringDriver, tried};
use corelane_os::named::NamedSocket;
use corelane_os::testing::network;
use corelane_rss::Transport;
use corelane_seam::{Arena, Driver, FrameMemory, Port, Tuning, Unix};
use corelane_xdp::tap;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::fs::Permissions;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const NO_GRO: u8 = 1;
pub const NO_SEGMENT: u8 = 2;
pub const NO_PWAIT2: u8 = 4;
pub const NO_NO_IOWAIT: u8 = 8;
pub const NO_LONG_TRAINS: u8 = 16;
pub const NO_OPENAT2: u8 = 32;

/// A kind of driver, which uses the probed features that it has a use for.
pub trait Kind: Driver + Sized {
    /// What is of no use to it, as a set of the features above.
    const USELESS: u8;

    fn new(arena: Arena, tuning: Tuning, probes: Probes, crossing: Arc<Crossing>) -> Self;

    fn probes(&self) -> Probes;
}

impl Kind for EpollDriver {
    const USELESS: u8 = NO_NO_IOWAIT;

    fn new(arena: Arena, tuning: Tuning, probes: Probes, crossing: Arc<Crossing>) -> Self {
        EpollDriver::new(arena, tuning, probes).unwrap().joined(crossing)
    }

    fn probes(&self) -> Probes {
        self.probes()
    }
}

impl Kind for UringDriver {
    const USELESS: u8 = NO_PWAIT2;

    fn new(arena: Arena, tuning: Tuning, probes: Probes, crossing: Arc<Crossing>) -> Self {
        UringDriver::new(arena, tuning, probes).unwrap().joined(crossing)
    }

    fn probes(&self) -> Probes {
        self.probes()
    }
}

fn probes(off: u8) -> Probes {
    Probes {
        udp_gro: off & NO_GRO == 0,
        udp_segment: off & NO_SEGMENT == 0,
        udp_segment_long: off & NO_LONG_TRAINS == 0,
        epoll_pwait2: off & NO_PWAIT2 == 0,
        uring_no_iowait: off & NO_NO_IOWAIT == 0,
        openat2: off & NO_OPENAT2 == 0,
    }
}

/// `OFF` is a set of the features above.
pub struct LinuxRig<D, const OFF: u8> {
    drivers: [D; 2],
    arenas: [Arena; 2],
    /// Taken for the drivers, which use duplicates.
    names: Vec<NamedSocket>,
    directory: PathBuf,
}

impl<D: Kind, const OFF: u8> Rig for LinuxRig<D, OFF> {
    const CANNOT: &'static [(&'static str, &'static str)] =
        &[("a_disk_that_fails_ends_a_file", "its disks do not fail when they are told to")];
    const TELLS_OF_DATAGRAMS: bool = true;

    fn new(tuning: Tuning, memory: usize) -> Self {
        let arenas = [(); 2].map(|()| Arena::new(memory).unwrap());
        let crossing = Crossing::shared().unwrap();
        let drivers = arenas.clone().map(|arena| D::new(arena, tuning, probes(OFF), crossing.clone()));
        // What is off stays off, and what this kernel lacks is not used.
        let used = tried(probes(OFF | D::USELESS));
        assert!(drivers.iter().all(|driver| driver.probes() == used), "{used:?}");
        Self { drivers, arenas, names: Vec::new(), directory: directory() }
    }

    fn driver(&mut self, side: Side) -> &mut dyn Driver {
        &mut self.drivers[side as usize]
    }

    fn arena(&self, side: Side) -> &Arena {
        &self.arenas[side as usize]
    }

    fn address(&self, _side: Side) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    fn address_v6(&self, _side: Side) -> SocketAddr {
        SocketAddr::from((Ipv6Addr::LOCALHOST, 0))
    }

    fn other_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 2], 0))
    }

    /// Ports of 127.0.0.1 are given to others as soon as they are closed.
    fn lonely(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 3], 0))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn make_directory(&self, name: &str) {
        std::fs::create_dir(self.path(name)).unwrap();
    }

    fn make_link(&self, name: &str, to: &Path) {
        std::os::unix::fs::symlink(to, self.path(name)).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn make_forbidden(&mut self, name: &str) {
        std::fs::write(self.path(name), "secret").unwrap();
        std::fs::set_permissions(self.path(name), Permissions::from_mode(0o000)).unwrap();
        // With these root opens it all the same.
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
    }

    fn break_disk(&mut self, _is_broken: bool) {
        unreachable!("no case of it does that");
    }

    fn magic_link(&self) -> (PathBuf, &'static str) {
        ("/proc/self".into(), "exe")
    }

    fn user(&self) -> u32 {
        rustix::process::getuid().as_raw()
    }

    fn take(&mut self, side: Side, name: &Unix) {
        let taken = NamedSocket::new(Transport::Tcp, name, None, 8).unwrap();
        self.drivers[side as usize].lend(&name.clone().into(), taken.number(), false);
        self.names.push(taken);
    }

    /// Two taps on a bridge, in a namespace of this thread.
    fn ports(&mut self, memory: [FrameMemory; 2], mtu: usize) -> Result<[Box<dyn Port>; 2], String> {
        if !rustix::process::geteuid().is_root() {
            return Err("it needs root".to_owned());
        }
        let _alone = network::alone();
        network::unshared_and_quiet()?;
        let queues = ["server", "client"].map(|name| tap::open(name, 1).map_err(|error| error.to_string()));
        let on_bridge = |name| format!("link set {name} mtu {mtu} master wire up");
        network::ip(&["link add wire up type bridge mcast_snooping 0".to_owned(), on_bridge("server"), on_bridge("client")])?;
        let mut ports = queues.into_iter().zip(memory).map(|(queue, memory)| {
            let mut queues = queue?;
            queues.remove(0).port(memory).map(|port| Box::new(port) as Box<dyn Port>).map_err(|error| error.to_string())
        });
        match [ports.next(), ports.next()] {
            [Some(server), Some(client)] => Ok([server?, client?]),
            _ => unreachable!("each side has one"),
        }
    }

    fn remove(&mut self, name: &Unix) {
        if let Some(path) = name.as_path() {
            std::fs::remove_file(path).unwrap();
        }
    }
}

impl<D, const OFF: u8> Drop for LinuxRig<D, OFF> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A new directory, of this rig alone.
pub fn directory() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("corelane-drivers-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir(&directory).unwrap();
    directory
}
