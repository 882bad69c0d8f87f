//! Whether an interface sends what programs redirect to it. A veth does while its other end receives by NAPI: with GRO, or an XDP program of its own. Without, all of it is lost.
//!
//! ```text
//! lane:   tells a way that leaves there -> notes that it is to be looked at, and wakes the thread: both once a second
//! thread: sleeps -> more was lost, or it took nothing, or nobody knows what is lost -> asks the kernel -> ceased: no way holds any more
//! ```
//!
//! The kernel answers under its lock for all interfaces (rtnl), which others may hold for long: a lane does not wait for that.

use crate::errors::Error;
use crate::polling::{FAMILY, INTERFACE};
use corelane_os::errno;
use corelane_os::netlink::generic::{Family, ask, attributes};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle, park};

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
    /// When a lane asked for a look last, and whether that is still to be had.
    asked_at: AtomicU64,
    is_asked: AtomicBool,
    /// What was lost at it by the last look.
    lost: AtomicU64,
}

impl Taking {
    /// Of an interface by its index, which is looked at now.
    pub fn of(device: u32) -> Self {
        let takes = AtomicBool::new(takes(device));
        Self { device, takes, asked_at: AtomicU64::new(0), is_asked: AtomicBool::new(false), lost: AtomicU64::new(0) }
    }

    /// Whether it takes something, as was seen last.
    pub fn is_on(&self) -> bool {
        self.takes.load(Ordering::Relaxed)
    }

    /// Asks for a look, once a second at the most: whether the thread is to be woken for it.
    pub fn ask(&self, now: u64) -> bool {
        let before = self.asked_at.load(Ordering::Relaxed);
        let exchange = || self.asked_at.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed);
        // Of several lanes one asks.
        if now < before.saturating_add(APART) || exchange().is_err() {
            return false;
        }
        self.is_asked.store(true, Ordering::Release);
        true
    }

    /// Looks, if that was asked for and may show something else: where it took nothing, where more is lost by now, and where nobody knows what is. Says whether it has just ceased
    /// to take something.
    pub fn look(&self, lost: impl FnOnce() -> Option<u64>) -> bool {
        self.look_by(lost, takes)
    }

    fn look_by(&self, lost: impl FnOnce() -> Option<u64>, takes: impl FnOnce(u32) -> bool) -> bool {
        if !self.is_asked.swap(false, Ordering::Acquire) {
            return false;
        }
        let was = self.is_on();
        let is_as_before = lost().is_some_and(|lost| self.lost.swap(lost, Ordering::Relaxed) == lost);
        if was && is_as_before {
            return false;
        }
        let takes = takes(self.device);
        self.takes.store(takes, Ordering::Relaxed);
        was && !takes
    }
}

/// One that cannot be asked takes nothing.
fn takes(device: u32) -> bool {
    features(device).is_ok_and(|features| features & SENDS != 0)
}

fn features(device: u32) -> io::Result<u32> {
    let request = Family::find(FAMILY)?.one(DEVICE_GET).attribute(INTERFACE, &device.to_ne_bytes());
    for body in ask(request)? {
        // The low half, where a number has 64 bits.
        if let Some(features) = attributes(&body)?.number(FEATURES) {
            return Ok(features);
        }
    }
    Ok(0)
}

/// A thread that looks when it is woken, and sleeps else. It ends with this, and is in the network namespace of who made it.
#[derive(Debug)]
pub struct Looker {
    is_over: Arc<AtomicBool>,
    /// None once it has ended.
    thread: Option<JoinHandle<()>>,
}

impl Looker {
    /// One that does this.
    ///
    /// # Errors
    /// What the system says of another thread.
    pub fn begin(look: impl Fn() + Send + 'static) -> Result<Self, Error> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let looks = move || {
            while !ends.load(Ordering::Acquire) {
                look();
                // Who has woken it since it began to look has it look again.
                park();
            }
        };
        let thread = Builder::new().name("redirects".to_owned()).spawn(looks);
        let thread = thread.map_err(|error| Error::of("clone", errno::of(&error), ""))?;
        Ok(Self { is_over, thread: Some(thread) })
    }

    /// Has it look soon. It does not block.
    pub fn wake(&self) {
        self.thread.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.wake();
        // What it panicked of it has said.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn taking(takes: bool) -> Taking {
        let taking = Taking::of(u32::MAX);
        taking.takes.store(takes, Ordering::Relaxed);
        taking
    }

    #[test]
    fn it_is_asked_once_a_second_and_looks_where_something_may_have_changed() {
        let taking = taking(true);
        assert!(!taking.ask(APART - 1) && taking.ask(APART) && !taking.ask(2 * APART - 1));
        assert!(!taking.look_by(|| Some(0), |_| panic!("nothing more is lost")));
        assert!(!taking.look_by(|| Some(7), |_| panic!("nobody has asked")));
        assert!(taking.ask(2 * APART) && taking.look_by(|| Some(7), |_| false), "it has ceased to");
        assert!(!taking.is_on());
        assert!(taking.ask(3 * APART) && !taking.look_by(|| Some(7), |_| true), "it took nothing, and does again");
        assert!(taking.is_on());
    }

    #[test]
    fn where_nobody_knows_what_is_lost_it_is_looked_at_each_time() {
        let taking = taking(true);
        assert!(taking.ask(APART) && !taking.look_by(|| None, |_| true) && taking.is_on());
        assert!(taking.ask(2 * APART) && taking.look_by(|| None, |_| false) && !taking.is_on());
    }

    #[test]
    fn a_looker_looks_when_it_is_woken_and_ends_with_its_owner() {
        let (says, hears) = channel();
        let looker = Looker::begin(move || says.send(()).unwrap()).unwrap();
        hears.recv().unwrap();
        looker.wake();
        hears.recv().unwrap();
        drop(looker);
        while hears.try_recv().is_ok() {}
        assert_eq!(hears.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected), "its thread is gone");
    }
}
