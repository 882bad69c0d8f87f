//! A lane that takes packets in by itself: the kernel's receiving (NAPI) runs in calls of the lane, and no interrupt and no thread of the kernel
//! takes its CPU from it meanwhile (`Documentation/networking/napi.rst`, busy polling and interrupt mitigation).
//!
//! ```text
//! few at once: the kernel receives, as ever -> frames came -> the lane handles them and sleeps
//! in numbers:  look: the kernel receives, on the lane's thread -> frames: handles them, again -> none: the lane sleeps, and looks again (`pressure`)
//!              nobody has looked for DEFERRED nanoseconds -> the kernel receives what has come
//! ```
//!
//! So a packet waits for half a millisecond where packets came in numbers, and nowhere else. A copying socket of AF_XDP does not know its NAPI (6.13 and
//! later), so busy polling by its own options does nothing; a ring of io_uring is told the number (6.13), and polls before each wait.

use crate::link::{Interface, name_of};
use crate::pressure::Pressure;
use corelane_os::errno;
use corelane_os::netlink::generic::{Family, ask, attributes};
use io_uring::types::{Fd, Napi, NapiTracking, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// How long the kernel leaves receiving to the lane after each look, in nanoseconds: longer than a lane keeps packets waiting for what else it does. Once the kernel has
/// begun under a flood, its thread goes on until the next look, and takes half of the CPU.
const DEFERRED: u64 = 20_000_000;
/// How often in a row it does so although there was nothing.
const DEFERRALS: u32 = 1;
/// The kernel's family of messages (`linux/netdev.h`), what it is asked and tells.
pub(crate) const FAMILY: &CStr = c"netdev";
pub(crate) const NAPI_GET: u8 = 11;
pub(crate) const NAPI_SET: u8 = 14;
pub(crate) const INTERFACE: u16 = 1;
pub(crate) const ID: u16 = 2;
const DEFER_HARD_IRQS: u16 = 5;
const GRO_FLUSH_TIMEOUT: u16 = 6;

/// Packets that the kernel takes in at once for a ring that polls (`BUSY_POLL_BUDGET`).
const AT_ONCE: u64 = 8;

/// Whether a look that has brought so many packets may have left some: one that has emptied the queue is not made again for each packet that comes meanwhile.
pub(crate) fn has_left_some(packets: u64) -> bool {
    packets >= AT_ONCE
}

/// What the kernel receives the packets of one queue by, and how it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    family: Family,
    id: u32,
    deferrals: u32,
    deferred: u64,
}

impl Receiver {
    /// Those of the interface's queues, in their order: so many at the least.
    ///
    /// # Errors
    /// `Unsupported` if the kernel does not tell them apart, what else it says.
    pub fn of_queues(interface: u32, queues: usize) -> io::Result<Vec<Self>> {
        let family = Family::find(FAMILY)?;
        let request = family.list(NAPI_GET).attribute(INTERFACE, &interface.to_ne_bytes());
        let mut found = Vec::new();
        for body in ask(request)? {
            let attributes = attributes(&body)?;
            let deferrals = attributes.number(DEFER_HARD_IRQS).unwrap_or_default();
            let deferred = attributes.get(GRO_FLUSH_TIMEOUT).map(long).unwrap_or_default();
            let (deferrals, deferred) = before_us(deferrals, deferred);
            found.extend(attributes.number(ID).map(|id| Self { family, id, deferrals, deferred }));
        }
        // They are numbered as they are made, queue by queue.
        found.sort_unstable_by_key(|receiver| receiver.id);
        if found.len() >= queues { Ok(found) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    /// Has the kernel leave receiving to whoever looks.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn defer(self) -> io::Result<()> {
        self.set(DEFERRALS, DEFERRED)
    }

    /// Has it receive as it did before it was told anything.
    fn restore(self) -> io::Result<()> {
        self.set(self.deferrals, self.deferred)
    }

    fn set(self, deferrals: u32, deferred: u64) -> io::Result<()> {
        let request = self
            .family
            .one(NAPI_SET)
            .attribute(ID, &self.id.to_ne_bytes())
            .attribute(DEFER_HARD_IRQS, &deferrals.to_ne_bytes())
            .attribute(GRO_FLUSH_TIMEOUT, &deferred.to_ne_bytes());
        ask(request).map(drop)
    }
}

/// How the kernel received before a lane polled. Where it is set just as we set it, a lane was there whose process was killed: then as the kernel begins,
/// at once.
fn before_us(deferrals: u32, deferred: u64) -> (u32, u64) {
    if (deferrals, deferred) == (DEFERRALS, DEFERRED) { (0, 0) } else { (deferrals, deferred) }
}

/// Interfaces of this network namespace whose receiving is left to a process that was killed: a packet waits there for up to 20 milliseconds. Each with the command that has the kernel
/// receive as it begins. One that runs a program (XDP) is served.
///
/// # Errors
/// What the kernel says: before Linux 6.13 it does not tell.
pub fn left_deferring() -> io::Result<Vec<(String, String)>> {
    let mut left: Vec<(String, String)> = Vec::new();
    for body in ask(Family::find(FAMILY)?.list(NAPI_GET))? {
        let attributes = attributes(&body)?;
        let set = (attributes.number(DEFER_HARD_IRQS), attributes.get(GRO_FLUSH_TIMEOUT).map(long));
        if set != (Some(DEFERRALS), Some(DEFERRED)) {
            continue;
        }
        let Some(name) = attributes.number(INTERFACE).and_then(name_of) else { continue };
        let is_served = Interface::find(&name).is_ok_and(|interface| interface.program.is_some());
        if !is_served && left.iter().all(|(known, _)| *known != name) {
            let folder = format!("/sys/class/net/{name}");
            left.push((name, format!("echo 0 > {folder}/napi_defer_hard_irqs; echo 0 > {folder}/gro_flush_timeout")));
        }
    }
    Ok(left)
}

/// A number of four bytes or eight.
fn long(bytes: &[u8]) -> u64 {
    let short = || bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes).into());
    bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)).or_else(short).unwrap_or_default()
}

/// Looks whether this process may poll here.
///
/// # Errors
/// What the system says.
pub fn probe() -> io::Result<()> {
    ring().map(drop)
}

/// A ring that polls what it is told of.
fn ring() -> io::Result<IoUring> {
    let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(2)?;
    let mut polls = Napi::new().set_prefer_busy_poll(true).set_tracking(NapiTracking::Static);
    ring.submitter().register_napi(&mut polls)?;
    Ok(ring)
}

/// Receiving for one socket, on the thread that made this.
pub struct Polling {
    ring: IoUring,
    receiver: Receiver,
    is_watching: bool,
    /// Whether packets come in numbers.
    pressure: Pressure,
    /// It would not be told otherwise, and is not asked again.
    is_fixed: bool,
}

impl Polling {
    /// Polls the receiver.
    ///
    /// # Errors
    /// The system's number.
    pub fn new(receiver: Receiver) -> Result<Self, i32> {
        let made = ring().and_then(|ring| ring.submitter().register_napi_add_id(receiver.id).map(|()| ring));
        let polling = |ring| Self { ring, receiver, is_watching: false, pressure: Pressure::new(), is_fixed: false };
        made.map(polling).map_err(|error| errno::of(&error))
    }

    /// Whether packets come in numbers.
    pub fn pressure(&mut self) -> &mut Pressure {
        &mut self.pressure
    }

    /// Whether there may be more than has come: a look is due.
    pub fn goes_on(&self) -> bool {
        self.pressure.goes_on()
    }

    /// When a lane that sleeps is to look, while the kernel leaves receiving to it.
    pub fn wakes_at(&self) -> Option<u64> {
        self.pressure.wakes_at()
    }

    /// A receive ends ([`Pressure::came`]): the kernel is told by whom it receives from now on.
    pub fn came(&mut self, now: u64, seen: u64, frames: usize) {
        let Some(defers) = self.pressure.came(now, seen, frames).filter(|_| !self.is_fixed) else { return };
        let set = if defers { self.receiver.defer() } else { self.receiver.restore() };
        match set {
            Ok(()) => self.pressure.defers(defers),
            // Who is no longer allowed to leaves it as it is.
            Err(_) => self.is_fixed = true,
        }
    }

    /// Polls what receives the packets of the interface's queue from now on: an interface that comes up may have made that anew.
    ///
    /// # Errors
    /// What the kernel says; then it receives by itself.
    pub fn renew(&mut self, interface: u32, queue: usize) -> io::Result<()> {
        let receivers = Receiver::of_queues(interface, queue + 1)?;
        assert!(receivers.len() > queue, "as many as were asked for");
        let receiver = receivers[queue];
        if receiver.id == self.receiver.id {
            return Ok(());
        }
        receiver.defer()?;
        (self.pressure, self.is_fixed) = (Pressure::new(), false);
        self.ring.submitter().register_napi_add_id(receiver.id)?;
        // The other is gone.
        let _gone = self.ring.submitter().register_napi_del_id(self.receiver.id);
        self.receiver = receiver;
        Ok(())
    }

    /// Has the kernel receive for the socket, until something has come or there is nothing.
    pub fn look(&mut self, socket: BorrowedFd<'_>) {
        // What told of earlier frames ends the first call before it looks.
        for _ in 0..2 {
            self.watch(socket);
            let soon = Timespec::new().nsec(1);
            // What ends it early is that something has come, or that time is over; what else goes wrong leaves receiving to the kernel.
            let _ended = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&soon));
            let (mut news, mut watches) = (0, self.is_watching);
            for completion in self.ring.completion() {
                news += 1;
                watches = cqueue::more(completion.flags());
            }
            self.is_watching = watches;
            if news == 0 {
                break;
            }
        }
    }

    /// Has the ring hear of frames, which ends its wait.
    fn watch(&mut self, socket: BorrowedFd<'_>) {
        if !std::mem::replace(&mut self.is_watching, true) {
            let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), libc::POLLIN as u32).multi(true).build();
            // SAFETY: the entry names no memory, and the socket is open as long as the port that has both.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            assert!(pushed.is_ok(), "one entry at a time fits into the queue");
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        // One that is gone needs nothing.
        let _gone = self.receiver.restore();
    }
}

impl fmt::Debug for Polling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Polling({:?})", self.receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::napi::tests::{at_near, receive_as_a_card};

    #[test]
    fn a_card_that_a_killed_process_has_left_is_named_with_what_takes_it_back() {
        at_near("polling::tests::a_card_that_a_killed_process_has_left_is_named_with_what_takes_it_back", |near, show| {
            show();
            receive_as_a_card();
            let Ok(receivers) = Receiver::of_queues(near, 1) else { return };
            assert_eq!(left_deferring().unwrap(), []);
            if receivers[0].defer().is_err() {
                // Before Linux 6.13 the kernel has no such setting.
                return;
            }
            let left = left_deferring().unwrap();
            assert_eq!((left.len(), left[0].0.as_str()), (1, "near"));
            assert!(std::process::Command::new("sh").args(["-c", &left[0].1]).status().unwrap().success(), "{left:?}");
            assert_eq!(left_deferring().unwrap(), []);
            assert_eq!(Receiver::of_queues(near, 1).unwrap()[0], Receiver { deferrals: 0, deferred: 0, ..receivers[0] });
        });
    }

    #[test]
    fn what_a_killed_process_left_is_not_taken_for_the_machines_own() {
        assert_eq!(before_us(DEFERRALS, DEFERRED), (0, 0));
        assert_eq!((before_us(2, DEFERRED), before_us(0, 0)), ((2, DEFERRED), (0, 0)));
    }
}
