//! A descriptor that becomes readable at an instant (timerfd_create(2)).

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::clock::timespec;

/// Which clock an instant is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Since the machine was started; only goes forward.
    Monotonic,
    /// Since 1970; may be set, and then an alarm goes by what was set.
    Wall,
}

impl Clock {
    /// What it shows, in nanoseconds.
    pub fn now(self) -> u64 {
        match self {
            Self::Monotonic => crate::clock::now(),
            Self::Wall => crate::clock::wall_clock(),
        }
    }
}

/// An alarm on one clock.
pub struct Alarm(OwnedFd);

impl Alarm {
    /// One that is not set.
    ///
    /// # Errors
    /// The system's number: too many descriptors.
    pub fn new(clock: Clock) -> Result<Self, i32> {
        let clock = match clock {
            Clock::Monotonic => TimerfdClockId::Monotonic,
            Clock::Wall => TimerfdClockId::Realtime,
        };
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        timerfd_create(clock, flags).map(Self).map_err(|error| error.raw_os_error())
    }

    /// Its descriptor.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Readable from the instant `due` on, in nanoseconds of its clock, and until then not; never without one.
    pub fn set(&self, due: Option<u64>) {
        // Zero would mean never; what has passed goes off at once.
        let due = due.map_or(0, |due| due.clamp(1, i64::MAX as u64));
        let setting = Itimerspec { it_interval: timespec(0), it_value: timespec(due) };
        // It can be set to any instant of its clock, unless the program has closed it: nothing goes off then.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &setting);
    }
}
