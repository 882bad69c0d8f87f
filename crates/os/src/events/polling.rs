//! A set of descriptors to wait at (epoll(7)), and a bell in it (eventfd(2)).

use rustix::event::epoll::{self, CreateFlags, EventData};
use rustix::event::{EventfdFlags, eventfd};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::borrowed;

/// What a descriptor is ready for, or is asked for.
pub use rustix::event::epoll::EventFlags as Readiness;

/// What a set reports: readiness, and the token of the registration.
pub type Report = epoll::Event;

/// Room for one report, which costs nothing until there is one.
pub type ReportRoom = MaybeUninit<Report>;

/// Room for reports.
pub const fn room<const PLACES: usize>() -> [ReportRoom; PLACES] {
    [const { ReportRoom::uninit() }; PLACES]
}

/// The token of a report.
pub fn token_of(report: &Report) -> u64 {
    report.data.u64()
}

/// What a report says.
pub fn readiness_of(report: &Report) -> Readiness {
    report.flags
}

/// A set of descriptors, each with what it is waited for and a token.
pub struct Set(OwnedFd);

impl Set {
    /// An empty one, closed by execve(2).
    ///
    /// # Errors
    /// The system's number: too many descriptors, too little memory.
    pub fn new() -> Result<Self, i32> {
        epoll::create(CreateFlags::CLOEXEC).map(Self).map_err(|error| error.raw_os_error())
    }

    /// One that takes nothing, as where the kernel's limit of watches is reached.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn refusing() -> Result<Self, i32> {
        // It is another kind of file.
        Bell::new().map(|bell| Self(bell.0))
    }

    /// Its descriptor, which is readable while anything in it is ready.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// The descriptor itself, without its set.
    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Waits for `number` from now on.
    ///
    /// # Errors
    /// The system's number (epoll_ctl(2)): EPERM for a file that is always ready, EEXIST for one that is in the set, EBADF, ELOOP.
    pub fn add(&self, number: RawFd, what: Readiness, token: u64) -> Result<(), i32> {
        let source = borrowed(number)?;
        epoll::add(&self.0, source, EventData::new_u64(token), what).map_err(|error| error.raw_os_error())
    }

    /// Waits for something else of `number`; tells at once what it is ready for.
    ///
    /// # Errors
    /// ENOENT if the file that has this number now is not in the set under it; EBADF if no file has it.
    pub fn modify(&self, number: RawFd, what: Readiness, token: u64) -> Result<(), i32> {
        let source = borrowed(number)?;
        epoll::modify(&self.0, source, EventData::new_u64(token), what).map_err(|error| error.raw_os_error())
    }

    /// Waits for `number` no more.
    ///
    /// # Errors
    /// As [`Set::modify`].
    pub fn remove(&self, number: RawFd) -> Result<(), i32> {
        epoll::delete(&self.0, borrowed(number)?).map_err(|error| error.raw_os_error())
    }

    /// Whether `number` means the file that is in the set under it (kcmp(2)); true where the system does not say.
    pub fn has(&self, number: RawFd) -> bool {
        const KCMP_EPOLL_TFD: libc::c_long = 7;
        let place = [self.number().cast_unsigned(), number.cast_unsigned(), 0_u32];
        let process = rustix::process::getpid().as_raw_nonzero().get();
        // SAFETY: the call reads three words at `place` (`struct kcmp_epoll_slot`).
        let answer = unsafe {
            libc::syscall(libc::SYS_kcmp, process, process, KCMP_EPOLL_TFD, libc::c_long::from(number), place.as_ptr())
        };
        match crate::errno::checked(answer as isize) {
            Ok(difference) => difference == 0,
            Err(error) => !matches!(error, libc::ENOENT | libc::EBADF),
        }
    }

    /// The set behind `set` waits for `inner` too, until that is closed.
    ///
    /// # Errors
    /// As [`Set::add`].
    pub fn add_in(set: &OwnedFd, inner: RawFd, token: u64) -> Result<(), i32> {
        let added = epoll::add(set, borrowed(inner)?, EventData::new_u64(token), Readiness::IN);
        added.map_err(|error| error.raw_os_error())
    }

    /// The set behind `set` waits for `inner` no more.
    pub fn remove_in(set: &OwnedFd, inner: RawFd) {
        // One that was closed meanwhile has left the set.
        let _ = borrowed(inner).map(|inner| epoll::delete(set, inner));
    }

    /// Whether the descriptor `set` is still a set that waits for `inner`, with this token.
    pub fn holds(set: &OwnedFd, inner: RawFd, token: u64) -> bool {
        // Only what is there can be changed, and it is changed to what it is.
        borrowed(inner).is_ok_and(|inner| epoll::modify(set, inner, EventData::new_u64(token), Readiness::IN).is_ok())
    }

    /// The reports that there are, as many as there is room for; waits for the first until `timeout` is over, for ever without.
    ///
    /// # Errors
    /// EINTR if a signal's handler ran.
    pub fn collect<'a>(&self, room: &'a mut [ReportRoom], timeout: Option<Duration>) -> Result<&'a [Report], i32> {
        assert!(!room.is_empty(), "somewhere to put a report");
        let timeout = timeout.map(|timeout| crate::clock::timespec(nanoseconds(timeout)));
        let (reports, _) = epoll::wait(&self.0, room, timeout.as_ref()).map_err(|error| error.raw_os_error())?;
        Ok(reports)
    }
}

impl Set {
    /// As [`Set::collect`], and asks after `first` for how long to wait on, and after that again.
    ///
    /// # Errors
    /// EBADF if nobody wants to know any more; EINTR.
    pub fn collect_while<'a>(
        &self,
        room: &'a mut [ReportRoom],
        timeout: Option<Duration>,
        first: Duration,
        mut wait_on: impl FnMut() -> Option<Duration>,
    ) -> Result<&'a [Report], i32> {
        let begun = Instant::now();
        let mut next = first;
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            let part = left.map_or(next, |left| left.min(next));
            let count = self.collect(&mut *room, Some(part))?.len();
            if count > 0 || left == Some(part) {
                // SAFETY: so many were written at the beginning by the call above.
                return Ok(unsafe { room[..count].assume_init_ref() });
            }
            next = wait_on().ok_or(libc::EBADF)?;
        }
    }
}

/// As the kernel can take it: 292 years for what is longer.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(i64::MAX as u64)
}

/// A descriptor that is readable while it rings.
pub struct Bell(OwnedFd);

impl Bell {
    /// One that is silent.
    ///
    /// # Errors
    /// The system's number: too many descriptors.
    pub fn new() -> Result<Self, i32> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        eventfd(0, flags).map(Self).map_err(|error| error.raw_os_error())
    }

    /// Its descriptor.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Which bell its number means in the calling thread's descriptor table (proc_pid_fdinfo(5)): no other has the same mark while it is open. None where /proc does not say, or
    /// where the number is no bell's.
    pub fn mark(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", self.number())).ok()?;
        text.lines().find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok())
    }

    /// From now on it rings.
    pub fn ring(&self) {
        // Only a counter that is full refuses, and then it rings.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// From now on it is silent.
    pub fn silence(&self) {
        // One that is silent refuses, and stays so.
        let _ = rustix::io::read(&self.0, &mut [0; size_of::<u64>()]);
    }
}
