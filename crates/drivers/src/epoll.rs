//! The driver on epoll(7).

use crate::bell::EventBell;
use crate::errors::Error;
use crate::probes::Probes;
use crate::readiness::ReadinessDriver;
use crate::readiness::source::{Copies, Pause, ReadinessSource};
use crate::tuning;
use corelane_os::clock;
use corelane_os::errno::{checked, fault, fault_of};
use corelane_os::sockets;
use corelane_seam::{Arena, Fault, Tuning};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Events that one look takes from the kernel at the most.
const EVENTS_MAX: usize = 256;

/// The longest wait in whole milliseconds (epoll_wait(2)); who waits for longer looks again.
const COARSE_NANOSECONDS_MAX: u64 = i32::MAX as u64 * 1_000_000;

/// The driver on epoll(7): runs on every Linux and in every container. Files are worked on by helper threads.
pub type EpollDriver = ReadinessDriver<Poller>;

impl EpollDriver {
    /// A driver that receives into `arena` and uses what `probes` allows and the kernel has, with a bell of its own.
    ///
    /// # Errors
    /// [`Error::Tuning`] for a setting out of range, [`Error::Refused`] if the system gives no descriptor.
    pub fn new(arena: Arena, tuning: Tuning, probes: Probes) -> Result<Self, Error> {
        Self::with_bell(arena, tuning, tried(probes), EventBell::shared()?)
    }

    /// The same with a bell that was made before: where the lane takes a descriptor table of its own first, this driver's
    /// descriptors are in no other table. Features in `found` are used without a try: [another driver](Self::probes) has tried them here.
    ///
    /// # Errors
    /// As for [`EpollDriver::new`].
    pub fn with_bell(arena: Arena, tuning: Tuning, found: Probes, bell: Arc<EventBell>) -> Result<Self, Error> {
        tuning::check(&tuning)?;
        let poller = Poller::new(found.epoll_pwait2).map_err(|fault| Error::Refused { call: "epoll_create1", fault })?;
        Self::on(poller, arena, tuning, found, bell)
    }
}

/// Tries what is allowed of this driver; returns what works.
pub(crate) fn tried(probes: Probes) -> Probes {
    let precise = || Poller::new(true)?.look(Pause::Nanoseconds(0), 1).map_err(fault);
    let epoll_pwait2 = probes.epoll_pwait2 && precise().is_ok();
    Probes { epoll_pwait2, uring_no_iowait: false, ..probes.with_common_tried() }
}

/// An epoll instance with the events of its last look.
pub struct Poller {
    descriptor: OwnedFd,
    events: Vec<Event>,
    /// Whether the kernel waits for nanoseconds (epoll_pwait2) or for whole milliseconds.
    precise: bool,
}

impl Poller {
    pub(crate) fn new(precise: bool) -> Result<Self, Fault> {
        let descriptor = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(fault_of)?;
        Ok(Self { descriptor, events: Vec::with_capacity(EVENTS_MAX), precise })
    }

    /// The library waits for nanoseconds only where it is built without the other call.
    fn wait_precise(&mut self, time: Option<Timespec>, most: usize) -> Result<usize, i32> {
        const { assert!(size_of::<Event>() == size_of::<libc::epoll_event>()) };
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: there is room for `most` events, which are the kernel's own; the time is readable or null; no signal mask is given.
        checked(unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.descriptor.as_raw_fd(),
                self.events.as_mut_ptr(),
                most,
                time,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            ) as isize
        })
    }
}

impl ReadinessSource for Poller {
    const NAME: &'static str = "epoll";

    fn watch(&mut self, descriptor: BorrowedFd, events: i32, data: u64) -> Result<(), Fault> {
        epoll::add(&self.descriptor, descriptor, EventData::new_u64(data), flags(events)).map_err(fault_of)
    }

    fn change(&mut self, descriptor: BorrowedFd, events: i32, data: u64) -> Result<(), Fault> {
        epoll::modify(&self.descriptor, descriptor, EventData::new_u64(data), flags(events)).map_err(fault_of)
    }

    /// The system keeps on watching, and cannot be told to watch once (EPOLLONESHOT) or to watch again.
    fn rest(&mut self, descriptor: BorrowedFd) -> u64 {
        let ended = epoll::delete(&self.descriptor, descriptor);
        assert!(ended.is_ok(), "what was reported is watched");
        1
    }

    /// Of a descriptor without copies watching ends by itself; with others it would only with the last of them.
    fn close(&mut self, _data: u64, descriptor: OwnedFd, copies: Copies) {
        if copies == Copies::None {
            return;
        }
        // It fails only if nothing was added, and then nothing is reported.
        let _ = epoll::delete(&self.descriptor, &descriptor);
        if copies == Copies::Lanes {
            sockets::wake_all(descriptor.as_fd());
        }
    }

    fn look(&mut self, pause: Pause, most: usize) -> Result<usize, i32> {
        let most = most.clamp(1, EVENTS_MAX);
        let time = match pause {
            Pause::Endless => None,
            Pause::Nanoseconds(nanoseconds) if self.precise => Some(clock::timespec(nanoseconds)),
            Pause::Nanoseconds(nanoseconds) => Some(clock::timespec(nanoseconds.min(COARSE_NANOSECONDS_MAX))),
        };
        self.events.clear();
        let found = match self.precise {
            true => self.wait_precise(time, most),
            false => {
                let place = &mut self.events.spare_capacity_mut()[..most];
                // Rounded up to milliseconds: waking late is what the caller must expect anyway, waking early would be a turn for nothing.
                epoll::wait(&self.descriptor, place, time.as_ref()).map(|(found, _)| found.len()).map_err(Errno::raw_os_error)
            }
        };
        let count = found?;
        assert!(count <= most);
        // SAFETY: the kernel has written `count` events, within the capacity.
        unsafe { self.events.set_len(count) };
        Ok(count)
    }

    fn event(&self, index: usize) -> (u64, i32) {
        let Event { flags, data } = self.events[index];
        (data.u64(), flags.bits().cast_signed())
    }
}

fn flags(events: i32) -> EventFlags {
    assert!(events != 0, "watched for something");
    EventFlags::from_bits_retain(events.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::testing::network::alone;
    use corelane_seam::{Address, Bell, Completion, Driver, Handle, Listen, Op, Outcome, Wait};
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn each_ring_is_an_event_though_nobody_reads() {
        for precise in [true, false] {
            let mut poller = Poller::new(precise).unwrap();
            let bell = EventBell::new().unwrap();
            poller.watch(bell.as_fd(), libc::EPOLLIN | libc::EPOLLET, 77).unwrap();
            for _ in 0..3 {
                assert!(bell.before_sleep());
                bell.ring();
                assert_eq!(poller.look(Pause::Endless, 8), Ok(1));
                assert_eq!(poller.event(0), (77, libc::EPOLLIN));
                assert!(bell.awake());
                assert_eq!(poller.look(Pause::Nanoseconds(0), 8), Ok(0));
            }
        }
    }

    #[test]
    fn a_pause_is_never_shorter_than_asked() {
        for precise in [true, false] {
            let mut poller = Poller::new(precise).unwrap();
            let begin = clock::now();
            assert_eq!(poller.look(Pause::Nanoseconds(1_100_000), 8), Ok(0));
            assert!(clock::now() - begin >= 1_100_000);
        }
    }

    /// A source whose descriptors stay open for some flushes after their close, as on a ring whose kernel is busy.
    struct Slow {
        poller: Poller,
        flushes: Rc<Cell<usize>>,
        closing: Vec<(u64, OwnedFd, usize)>,
    }

    impl ReadinessSource for Slow {
        const NAME: &'static str = "slow";

        fn watch(&mut self, descriptor: BorrowedFd, events: i32, data: u64) -> Result<(), Fault> {
            self.poller.watch(descriptor, events, data)
        }

        fn change(&mut self, descriptor: BorrowedFd, events: i32, data: u64) -> Result<(), Fault> {
            self.poller.change(descriptor, events, data)
        }

        fn close(&mut self, data: u64, descriptor: OwnedFd, _copies: Copies) {
            self.closing.push((data, descriptor, self.flushes.get() + 10));
        }

        fn is_closing(&self, data: u64) -> bool {
            self.closing.iter().any(|entry| entry.0 == data)
        }

        fn look(&mut self, _pause: Pause, most: usize) -> Result<usize, i32> {
            // What would end the wait is not there, so it does not wait.
            self.poller.look(Pause::Nanoseconds(0), most)
        }

        fn event(&self, index: usize) -> (u64, i32) {
            self.poller.event(index)
        }

        fn flush(&mut self) -> u64 {
            self.flushes.set(self.flushes.get() + 1);
            self.closing.retain(|entry| entry.2 > self.flushes.get());
            0
        }
    }

    /// Whoever hears of a close may count on it that the system knows nothing of the socket any more.
    #[test]
    fn a_close_is_told_once_the_descriptor_is_closed_and_not_before() {
        // No child of this process has a copy of what is closed here.
        let _alone = alone();
        let flushes = Rc::new(Cell::new(0));
        let slow = Slow { poller: Poller::new(true).unwrap(), flushes: flushes.clone(), closing: Vec::new() };
        let (arena, bell) = (Arena::new(1).unwrap(), EventBell::shared().unwrap());
        let mut driver = ReadinessDriver::on(slow, arena, Tuning::default(), Probes::default(), bell).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let listen = Listen { address, backlog: 8, share_port: false, v6_only: false, stream: Default::default() };
        let sockets = [(); 2].map(|()| driver.listen(&listen).unwrap());
        let places = sockets.map(|socket| driver.local_address(socket).unwrap());
        let is_free = |place: &Address| sockets::listen(&Listen { address: place.clone(), ..listen.clone() }).is_ok();
        let handle = |index| Handle::new(1, index, 0);
        let (mut told, mut rounds) = (Vec::new(), 0);
        driver.push(handle(0), Op::Close { socket: sockets[0], reset: false });
        while told.len() < 2 {
            let mut completions = Vec::new();
            driver.collect(Wait::Until(0), 64, &mut completions);
            for Completion { handle, outcome, .. } in completions {
                assert!(matches!(outcome, Outcome::Closed), "{outcome:?}");
                assert!(is_free(&places[handle.index() as usize]), "closed, but there is a listener");
                told.push(handle);
            }
            rounds += 1;
            if rounds == 1 {
                assert!(told.is_empty() && !is_free(&places[0]), "the case is there");
                driver.push(handle(1), Op::Close { socket: sockets[1], reset: false });
            }
        }
        assert_eq!(told, [handle(0), handle(1)]);
        let mut more = Vec::new();
        driver.collect(Wait::No, 64, &mut more);
        assert!(more.is_empty(), "told once");
    }
}
