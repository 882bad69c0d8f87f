//! Signals as something to count (signalfd(2)).

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// One more than the highest signal.
pub const SIGNALS: usize = 65;

/// Signals read at once.
const AT_ONCE: usize = 16;

/// Signals that are read from a descriptor.
pub struct SignalFd {
    descriptor: OwnedFd,
    set: libc::sigset_t,
}

impl SignalFd {
    /// None yet.
    ///
    /// # Errors
    /// The system's number: too many descriptors.
    pub fn new() -> Result<Self, i32> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised by sigemptyset before it is used.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        Ok(Self { descriptor: open(&set)?, set })
    }

    /// Its descriptor, readable while one of its signals waits for the process or the calling thread.
    pub fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Blocks `signal` in the calling thread, and counts it from now on. Whether the thread did not block it before.
    ///
    /// # Errors
    /// EINVAL for what is no signal or cannot be blocked; too many descriptors, where the program has closed ours.
    pub fn add(&mut self, signal: i32) -> Result<bool, i32> {
        let newly = mask(libc::SIG_BLOCK, signal)?;
        // SAFETY: the set is initialised, and the number is a signal's: `mask` has found so.
        unsafe { libc::sigaddset(&mut self.set, signal) };
        if self.renew() {
            return Ok(newly);
        }
        let answer = self.replace();
        if answer.is_err() && newly {
            unblock(signal);
        }
        answer.map(|()| newly)
    }

    /// Counts `signal`, which was added, no more. What waits of it is no longer read.
    pub fn remove(&mut self, signal: i32) {
        // SAFETY: the set is initialised, and the number is a signal's, because it was added.
        unsafe { libc::sigdelset(&mut self.set, signal) };
        // Where the program has closed the descriptor, nothing is read in any case.
        self.renew();
    }

    /// Whether its number still is its descriptor's.
    pub fn is_open(&self) -> bool {
        self.renew()
    }

    /// Has the descriptor count what is in the set. Not where the program has closed it, which may have the number for a file of its own by now.
    fn renew(&self) -> bool {
        // SAFETY: the set is initialised.
        let number = unsafe { libc::signalfd(self.number(), &self.set, 0) };
        number == self.number()
    }

    /// Takes a new descriptor. The old number is the program's.
    fn replace(&mut self) -> Result<(), i32> {
        let fresh = open(&self.set)?;
        let _ = std::mem::replace(&mut self.descriptor, fresh).into_raw_fd();
        Ok(())
    }

    /// Calls `each` with every signal that waits.
    pub fn read(&self, mut each: impl FnMut(usize)) {
        let mut chunk = [0_u8; AT_ONCE * size_of::<libc::signalfd_siginfo>()];
        while let Ok(bytes @ 1..) = rustix::io::read(&self.descriptor, &mut chunk) {
            for record in chunk[..bytes].chunks(size_of::<libc::signalfd_siginfo>()) {
                // Its first word is the signal's number (signalfd(2)).
                let signal = record.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word)) as usize;
                // No signals, but a file that the program has opened where it has closed ours.
                if !(1..SIGNALS).contains(&signal) {
                    return;
                }
                each(signal);
            }
        }
    }
}

/// A descriptor that counts what is in `set`.
fn open(set: &libc::sigset_t) -> Result<OwnedFd, i32> {
    // SAFETY: a reference is to what is initialised.
    let number = unsafe { libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    let number = crate::errno::checked(number as isize)?;
    // SAFETY: the call has just made it, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number as RawFd) })
}

/// Lets `signal`, which was added, be delivered to the calling thread.
pub fn unblock(signal: i32) {
    let unblocked = mask(libc::SIG_UNBLOCK, signal);
    assert!(unblocked.is_ok(), "a signal that was blocked can be unblocked");
}

/// Blocks or unblocks `signal` in the calling thread. Whether the thread did not block it before.
fn mask(how: i32, signal: i32) -> Result<bool, i32> {
    if !(1..SIGNALS as i32).contains(&signal) || signal == libc::SIGKILL || signal == libc::SIGSTOP {
        return Err(libc::EINVAL);
    }
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: each set is initialised, by sigemptyset or by pthread_sigmask, before it is used.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let added = libc::sigaddset(set.as_mut_ptr(), signal);
        // The C library keeps two for itself.
        if added != 0 || libc::pthread_sigmask(how, set.as_ptr(), before.as_mut_ptr()) != 0 {
            return Err(libc::EINVAL);
        }
        Ok(libc::sigismember(before.as_ptr(), signal) == 0)
    }
}
