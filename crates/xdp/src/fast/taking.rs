//! Whether an interface sends what programs redirect to it. A veth does while its other end receives by NAPI: with GRO, or an XDP program of its own. Without, all of it is lost.

use crate::polling::{FAMILY, INTERFACE};
use corelane_os::netlink::generic::{Family, ask, attributes};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// `NETDEV_CMD_DEV_GET`, `NETDEV_A_DEV_XDP_FEATURES` and `NETDEV_XDP_ACT_NDO_XMIT` (`Documentation/netlink/specs/netdev.yaml`, Linux 6.3).
const DEVICE_GET: u8 = 1;
const FEATURES: u16 = 3;
const SENDS: u32 = 1 << 2;

/// Nanoseconds between two looks at an interface.
const APART: u64 = 1_000_000_000;

/// What was seen of an interface last.
#[derive(Debug)]
pub struct Taking {
    device: u32,
    takes: AtomicBool,
    /// When it was looked at, and what was lost at it by then.
    looked_at: AtomicU64,
    lost: AtomicU64,
}

impl Taking {
    /// Of an interface by its index, which is looked at now.
    pub fn of(device: u32) -> Self {
        let takes = AtomicBool::new(takes(device).unwrap_or(false));
        Self { device, takes, looked_at: AtomicU64::new(0), lost: AtomicU64::new(0) }
    }

    /// Whether it takes something, as was seen last.
    pub fn is_on(&self) -> bool {
        self.takes.load(Ordering::Relaxed)
    }

    /// Whether it takes something at this time. It is looked at once a second at the most: where it took nothing, and where more was lost at it since then. Says also whether
    /// it has just ceased to.
    pub fn look(&self, now: u64, lost: impl FnOnce() -> u64) -> (bool, bool) {
        let was = self.is_on();
        if now < self.looked_at.load(Ordering::Relaxed) + APART {
            return (was, false);
        }
        self.looked_at.store(now, Ordering::Relaxed);
        let lost = lost();
        if self.lost.swap(lost, Ordering::Relaxed) == lost && was {
            return (true, false);
        }
        let takes = takes(self.device).unwrap_or(false);
        self.takes.store(takes, Ordering::Relaxed);
        (takes, was && !takes)
    }
}

fn takes(device: u32) -> io::Result<bool> {
    let request = Family::find(FAMILY)?.one(DEVICE_GET).attribute(INTERFACE, &device.to_ne_bytes());
    for body in ask(request)? {
        if let Some(features) = attributes(&body)?.number(FEATURES) {
            // The low half, where a number has 64 bits.
            return Ok(features & SENDS != 0);
        }
    }
    Ok(false)
}
