//! Termination signals as something to wait for, instead of something that interrupts.

use crate::errno::uninterrupted;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use libc::SIGHUP;

/// What a program waits for while its lanes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// SIGTERM, SIGINT or SIGHUP has come.
    Signal(i32),
    /// Somebody rang, once or more since this was last told.
    Rung,
    /// The time is over.
    Late,
}

/// When a wait is over at the latest.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// So long after now.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }
}

/// SIGTERM, SIGINT and SIGHUP, blocked in the calling thread and all that it starts later.
pub struct Signals(OwnedFd);

/// A bell that any thread rings. A thread with a descriptor table of its own must have taken it after this was made.
#[derive(Clone)]
pub struct Ringer(Arc<OwnedFd>);

impl Ringer {
    /// Nobody has rung (eventfd(2)).
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(|bell| Self(Arc::new(bell)))
    }

    /// Has [`wait`] return.
    pub fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes are readable at `one`. The counter cannot overflow in practice; if it is full it is ringing.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Takes note of all rings so far; one that is not taken note of would end every later wait at once.
    fn hear(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes are writable at `count`. Without a ring it fails, and there is nothing to hear.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    }
}

impl Signals {
    /// Blocks the signals and makes them readable (signalfd(2)). Call it before the first thread is started.
    ///
    /// # Errors
    /// What the system says.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised by sigemptyset before it is used; the signal numbers are valid.
        let number = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC)
        };
        owned(number).map(Self)
    }

    /// Waits for a signal; answers which.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self) -> io::Result<i32> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `size` bytes are writable at `info`.
        let got = uninterrupted(|| unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) });
        if got != Ok(size) {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel wrote the whole structure, as the length says.
        Ok(unsafe { info.assume_init() }.ssi_signo as i32)
    }
}

/// Waits for a signal, if there are some to wait for, for the bell, or for the end of the time, in this order.
///
/// # Errors
/// What the system says.
pub fn wait(signals: Option<&Signals>, ringer: &Ringer, deadline: Option<Deadline>) -> io::Result<Wake> {
    // A negative descriptor is passed over.
    let poll = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = [poll(signals.map_or(-1, |signals| signals.0.as_raw_fd())), poll(ringer.0.as_raw_fd())];
    let ready = uninterrupted(|| {
        let left = deadline.map(|deadline| deadline.0.saturating_duration_since(Instant::now()));
        // SAFETY: the array is valid for the two entries named.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, left.map_or(-1, milliseconds)) as isize }
    });
    ready.map_err(io::Error::from_raw_os_error)?;
    match signals.filter(|_| fds[0].revents != 0) {
        Some(signals) => signals.wait().map(Wake::Signal),
        None if fds[1].revents != 0 => {
            ringer.hear();
            Ok(Wake::Rung)
        }
        None => Ok(Wake::Late),
    }
}

/// Rounded up: waking early would only wait again.
fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

fn owned(number: i32) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call that gave the number has just opened it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends the calling thread a signal that it blocks.
    fn raise(signal: i32) {
        // SAFETY: the thread is this one, and the signal is blocked.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
    }

    #[test]
    fn signals_and_the_bell_are_waited_for() {
        std::thread::spawn(|| {
            let (signals, ringer) = (Signals::block().unwrap(), Ringer::new().unwrap());
            for signal in [libc::SIGTERM, libc::SIGINT, SIGHUP] {
                raise(signal);
                assert_eq!(wait(Some(&signals), &ringer, None).unwrap(), Wake::Signal(signal));
            }
            let other = ringer.clone();
            std::thread::spawn(move || other.ring());
            assert_eq!(wait(Some(&signals), &ringer, None).unwrap(), Wake::Rung);
            raise(libc::SIGTERM);
            assert_eq!(signals.wait().unwrap(), libc::SIGTERM);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn rings_are_told_once() {
        let ringer = Ringer::new().unwrap();
        let at_once = || wait(None, &ringer, Some(Deadline::after(Duration::ZERO))).unwrap();
        assert_eq!(at_once(), Wake::Late);
        (0..3).for_each(|_| ringer.ring());
        assert_eq!((at_once(), at_once()), (Wake::Rung, Wake::Late));
    }
}
