//! The rig of the driver on epoll, with features of the kernel forced off.

use crate::rig::{Rig, Side};
use corelane_seam::{Arena, Driver, Tuning};
use corelane_sys::{EpollDriver, Probes};
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

pub const NO_GRO: u8 = 1;
pub const NO_SEGMENT: u8 = 2;
pub const NO_PWAIT2: u8 = 4;

/// `OFF` is a set of the features above.
pub struct EpollRig<const OFF: u8> {
    drivers: [EpollDriver; 2],
    arenas: [Arena; 2],
    directory: PathBuf,
}

impl<const OFF: u8> Rig for EpollRig<OFF> {
    const CANNOT: &'static [(&'static str, &'static str)] = &[];

    fn new(tuning: Tuning, memory: usize) -> Self {
        let arenas = [(); 2].map(|()| Arena::new(memory).unwrap());
        let probes =
            Probes { udp_gro: OFF & NO_GRO == 0, udp_segment: OFF & NO_SEGMENT == 0, epoll_pwait2: OFF & NO_PWAIT2 == 0 };
        let drivers = arenas.clone().map(|arena| EpollDriver::new(arena, tuning, probes).unwrap());
        assert!(drivers.iter().all(|driver| driver.probes() == probes), "this machine lacks a feature");
        Self { drivers, arenas, directory: directory() }
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

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl<const OFF: u8> Drop for EpollRig<OFF> {
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
