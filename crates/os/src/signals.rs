//! Termination signals as something to wait for, instead of something that interrupts.

use crate::clock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

pub use libc::{SIGHUP, SIGUSR1};

/// The signals that end a program, or reload it; and the one that has log files opened anew, as programs that rotate logs send it (nginx has the same).
const ALL: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1];

/// What a program waits for while its lanes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// SIGTERM, SIGINT, SIGHUP or SIGUSR1 has come, in any thread.
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

/// SIGTERM, SIGINT and SIGHUP of the process, and SIGUSR1 unless the program handles it itself, whichever thread the system gives them to. The calling thread, and all that it starts later, block them, so that
/// they interrupt none of these; a thread that was there before may not, and then a handler passes them on.
pub struct Signals {
    /// Tells of those that every thread blocks (signalfd(2)).
    blocked: OwnedFd,
    passed: &'static Passed,
}

/// Signals that a thread got which does not block them, a byte each (pipe(2)). There for as long as the process is: a handler may write at any time.
struct Passed {
    reader: OwnedFd,
    writer: OwnedFd,
}

static PASSED: OnceLock<Passed> = OnceLock::new();

impl Passed {
    fn open() -> io::Result<&'static Self> {
        if let Some(passed) = PASSED.get() {
            return Ok(passed);
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(PASSED.get_or_init(|| Self { reader, writer }))
    }

    /// The next one, if there is one.
    fn take(&self) -> io::Result<Option<i32>> {
        let mut signal = [0];
        match retry_on_intr(|| rustix::io::read(&self.reader, &mut signal)) {
            Ok(_) => Ok(Some(i32::from(signal[0]))),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The handler: what it calls may be called in one (signal-safety(7)).
extern "C" fn pass_on(signal: libc::c_int) {
    let Some(passed) = PASSED.get() else { return };
    let (number, signal) = (passed.writer.as_raw_fd(), signal as u8);
    // SAFETY: the pipe is never closed, and `signal` has the one byte; the thread that was interrupted finds errno as it was.
    unsafe {
        let place = libc::__errno_location();
        let errno = *place;
        // A full pipe tells of signals enough.
        libc::write(number, (&raw const signal).cast(), 1);
        *place = errno;
    }
}

/// Has [`pass_on`] called in whichever thread gets one of these signals, all of `set`.
fn handle(signals: impl Iterator<Item = i32>, set: libc::sigset_t) -> io::Result<()> {
    for signal in signals {
        // SAFETY: all zeros are an action, whose members are then set to what they may be; the handler lives as long as the program.
        let answer = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = pass_on as *const () as usize;
            (action.sa_flags, action.sa_mask) = (libc::SA_RESTART, set);
            libc::sigaction(signal, &raw const action, std::ptr::null_mut())
        };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

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
    /// Blocks the signals in this thread and makes all of the process readable, in place of what they do by default.
    ///
    /// # Errors
    /// What the system says.
    pub fn block() -> io::Result<Self> {
        let passed = Passed::open()?;
        let is_left = is_handled(SIGUSR1);
        let ours = ALL.into_iter().filter(move |signal| *signal != SIGUSR1 || !is_left);
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised by sigemptyset before it is used; the signal numbers are valid.
        let (set, blocked, number) = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in ours.clone() {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            (set.assume_init(), blocked, libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))
        };
        assert!(blocked == 0, "valid signals can be blocked: one that is not would end the process");
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call that gave the number has just opened it for us alone.
        let blocked = unsafe { OwnedFd::from_raw_fd(number) };
        handle(ours, set)?;
        Ok(Self { blocked, passed })
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
        loop {
            if let Some(signal) = self.take()? {
                return Ok(signal);
            }
            let mut fds = self.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            retry_on_intr(|| poll(&mut fds, None))?;
        }
    }

    /// Where signals can be read.
    fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.blocked.as_fd(), self.passed.reader.as_fd()]
    }

    /// The next one, if there is one.
    fn take(&self) -> io::Result<Option<i32>> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        let signal = match retry_on_intr(|| rustix::io::read(&self.blocked, &mut info)) {
            Ok(bytes) => {
                assert_eq!(bytes, info.len(), "the kernel tells of whole signals");
                let [a, b, c, d, ..] = info;
                // The number is the first member (signalfd(2)).
                Some(i32::from_ne_bytes([a, b, c, d]))
            }
            Err(Errno::AGAIN) => self.passed.take()?,
            Err(error) => return Err(error.into()),
        };
        assert!(signal.is_none_or(|signal| ALL.contains(&signal)), "{signal:?} was not asked for");
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
    ![libc::SIG_DFL, libc::SIG_IGN, pass_on as *const () as usize].contains(&action)
}

/// Waits for a signal, if there are some to wait for, for the bell, or until the monotonic clock shows `until`, in this order.
///
/// # Errors
/// What the system says.
pub fn wait(signals: Option<&Signals>, ringer: &Ringer, until: Option<u64>) -> io::Result<Wake> {
    let bell = ringer.0.as_fd();
    let [blocked, passed] = signals.map_or([bell, bell], Signals::descriptors);
    let mut fds = [bell, blocked, passed].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    retry_on_intr(|| poll(&mut fds, until.map(left).as_ref()))?;
    let rung = !fds[0].revents().is_empty();
    match signals.map_or(Ok(None), Signals::take)? {
        Some(signal) => Ok(Wake::Signal(signal)),
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
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// While it is held no other test waits for signals: a handler passes them on to whichever waits first.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A minute from now: what has not come then never comes.
    fn in_a_minute() -> Option<u64> {
        Some(clock::now() + 60_000_000_000)
    }

    /// Sends the calling thread a signal that it blocks.
    fn raise(signal: i32) {
        // SAFETY: the thread is this one, and the signal is blocked.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
    }

    #[test]
    fn signals_and_the_bell_are_waited_for() {
        let _alone = alone();
        std::thread::spawn(|| {
            let (signals, ringer) = (Signals::block().unwrap(), Ringer::new().unwrap());
            for signal in ALL {
                raise(signal);
                assert_eq!(wait(Some(&signals), &ringer, in_a_minute()).unwrap(), Wake::Signal(signal));
            }
            let other = ringer.clone();
            std::thread::spawn(move || other.ring());
            assert_eq!(wait(Some(&signals), &ringer, in_a_minute()).unwrap(), Wake::Rung);
            raise(libc::SIGTERM);
            assert_eq!(signals.wait().unwrap(), libc::SIGTERM);
            [SIGUSR1, libc::SIGINT].into_iter().for_each(raise);
            // Whichever of the two is told first.
            signals.wait_for_end().unwrap();
        })
        .join()
        .unwrap();
    }

    /// A thread that was there before, and blocks nothing, may be given any signal of the process.
    #[test]
    fn a_signal_that_another_thread_gets_is_told() {
        let _alone = alone();
        let (to, from) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || from.recv());
        std::thread::spawn(move || {
            let (signals, ringer) = (Signals::block().unwrap(), Ringer::new().unwrap());
            for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGTERM] {
                // SAFETY: the thread is there until its channel ends, and the signal has a handler.
                unsafe { libc::pthread_kill(other.as_pthread_t(), signal) };
                assert_eq!(wait(Some(&signals), &ringer, in_a_minute()).unwrap(), Wake::Signal(signal));
            }
            drop(to);
            assert!(other.join().unwrap().is_err());
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
