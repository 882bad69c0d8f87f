//! Termination signals as something to wait for, instead of something that interrupts.

use crate::clock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::retry_on_intr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::Arc;

pub use libc::{SIGHUP, SIGUSR1};

/// The signals that end a program, or reload it; and the one that has log files opened anew, as programs that rotate logs send it (nginx has the same).
const ALL: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1];

/// What a program waits for while its lanes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// SIGTERM, SIGINT, SIGHUP or SIGUSR1 has come.
    Signal(i32),
    /// Somebody rang, once or more since this was last told.
    Rung,
    /// The time is over.
    Late,
}

/// From now until the clock shows `until`, in nanoseconds; nothing if that is over.
fn left(until: u64) -> Timespec {
    let left = until.saturating_sub(clock::now());
    let (seconds, nanoseconds) = (left / 1_000_000_000, left % 1_000_000_000);
    Timespec { tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX), tv_nsec: nanoseconds as i64 }
}

/// SIGTERM, SIGINT and SIGHUP, blocked in the calling thread and all that it starts later; SIGUSR1 too, unless the program handles it itself.
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
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Has [`wait`] return.
    pub fn ring(&self) {
        // The counter cannot overflow in practice; if it is full it is ringing.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes note of all rings so far; one that is not taken note of would end every later wait at once.
    fn hear(&self) {
        // Without a ring it fails, and there is nothing to hear.
        let _ = rustix::io::read(&self.0, &mut [0; size_of::<u64>()]);
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
        let (blocked, number) = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in ALL.into_iter().filter(|signal| *signal != SIGUSR1 || !is_handled(SIGUSR1)) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            (blocked, libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC))
        };
        assert!(blocked == 0, "valid signals can be blocked: one that is not would end the process");
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call that gave the number has just opened it for us alone.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }))
    }

    /// Has SIGUSR1 end this program at no time, also where there is no log to be opened anew and before [`Signals::block`]: whoever rotates logs may send
    /// it to any of them. What the program executes inherits that.
    pub fn spare() {
        // SAFETY: to ignore a signal runs nothing of this program's.
        let before = unsafe { libc::signal(SIGUSR1, libc::SIG_IGN) };
        assert!(before != libc::SIG_ERR, "SIGUSR1 can be ignored");
    }

    /// Waits for a signal that ends a program without logs to be opened anew: for any but SIGUSR1.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait_for_end(&self) -> io::Result<()> {
        while self.wait()? == SIGUSR1 {}
        Ok(())
    }

    /// Waits for a signal; returns which.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self) -> io::Result<i32> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        let bytes = retry_on_intr(|| rustix::io::read(&self.0, &mut info))?;
        assert_eq!(bytes, info.len(), "the kernel tells of whole signals");
        let [a, b, c, d, ..] = info;
        // The number is the first member (signalfd(2)).
        let signal = i32::from_ne_bytes([a, b, c, d]);
        assert!(ALL.contains(&signal), "signal {signal} was not asked for");
        Ok(signal)
    }
}

/// Whether the program has a handler of its own for a signal.
fn is_handled(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call changes nothing, and fills in what there is; a zeroed one is what it would be without a handler.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
        now.assume_init().sa_sigaction
    };
    action != libc::SIG_DFL && action != libc::SIG_IGN
}

/// Waits for a signal, if there are some to wait for, for the bell, or until the monotonic clock shows `until`, in this order.
///
/// # Errors
/// What the system says.
pub fn wait(signals: Option<&Signals>, ringer: &Ringer, until: Option<u64>) -> io::Result<Wake> {
    let poll_in = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let bell = ringer.0.as_fd();
    let mut fds = [poll_in(bell), poll_in(signals.map_or(bell, |signals| signals.0.as_fd()))];
    retry_on_intr(|| poll(&mut fds, until.map(left).as_ref()))?;
    let [rung, signalled] = fds.map(|fd| !fd.revents().is_empty());
    match signals.filter(|_| signalled) {
        Some(signals) => signals.wait().map(Wake::Signal),
        None if rung => {
            ringer.hear();
            Ok(Wake::Rung)
        }
        None => Ok(Wake::Late),
    }
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
            for signal in ALL {
                raise(signal);
                assert_eq!(wait(Some(&signals), &ringer, None).unwrap(), Wake::Signal(signal));
            }
            let other = ringer.clone();
            std::thread::spawn(move || other.ring());
            assert_eq!(wait(Some(&signals), &ringer, None).unwrap(), Wake::Rung);
            raise(libc::SIGTERM);
            assert_eq!(signals.wait().unwrap(), libc::SIGTERM);
            [SIGUSR1, libc::SIGINT].into_iter().for_each(raise);
            // Whichever of the two is told first.
            signals.wait_for_end().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn rings_are_told_once() {
        let ringer = Ringer::new().unwrap();
        let at_once = || wait(None, &ringer, Some(0)).unwrap();
        assert_eq!(at_once(), Wake::Late);
        (0..3).for_each(|_| ringer.ring());
        assert_eq!((at_once(), at_once()), (Wake::Rung, Wake::Late));
    }
}
