//! Signals as something to count (signalfd(2)).

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// One more than the highest signal.
pub const SIGNALS: usize = 65;

/// Signals read at once.
const AT_ONCE: usize = 16;

/// Signals that are read from a descriptor.
pub struct Signals {
    descriptor: OwnedFd,
    set: libc::sigset_t,
}

impl Signals {
    /// None yet.
    ///
    /// # Errors
    /// The system's number: too many descriptors.
    pub fn new() -> Result<Self, i32> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised by sigemptyset before it is used.
        let (number, set) = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            let number = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            (number, set.assume_init())
        };
        let number = crate::errno::checked(number as isize)?;
        // SAFETY: the call has just made it, and nobody else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number as RawFd) };
        Ok(Self { descriptor, set })
    }

    /// Its descriptor, readable while one of its signals waits for the process or the calling thread.
    pub fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Blocks `signal` in the calling thread, and counts it from now on; EINVAL for what is no signal or cannot be blocked.
    ///
    /// # Errors
    /// EINVAL.
    pub fn add(&mut self, signal: i32) -> Result<(), i32> {
        block(signal)?;
        // SAFETY: the set is initialised, and the number is a signal's: `block` has found so.
        let number = unsafe {
            libc::sigaddset(&mut self.set, signal);
            libc::signalfd(self.number(), &self.set, 0)
        };
        assert!(number == self.number(), "more signals can be asked of the same descriptor");
        Ok(())
    }

    /// Calls `each` with every signal that waits.
    pub fn read(&self, mut each: impl FnMut(usize)) {
        let mut chunk = [0_u8; AT_ONCE * size_of::<libc::signalfd_siginfo>()];
        while let Ok(bytes) = rustix::io::read(&self.descriptor, &mut chunk) {
            assert!(bytes % size_of::<libc::signalfd_siginfo>() == 0, "signals are read whole (signalfd(2))");
            for record in chunk[..bytes].chunks(size_of::<libc::signalfd_siginfo>()) {
                // Its first word is the signal's number (signalfd(2)).
                let signal = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]) as usize;
                assert!((1..SIGNALS).contains(&signal), "a signal has a number");
                each(signal);
            }
        }
    }
}

/// Blocks `signal` in the calling thread.
fn block(signal: i32) -> Result<(), i32> {
    if !(1..SIGNALS as i32).contains(&signal) || signal == libc::SIGKILL || signal == libc::SIGSTOP {
        return Err(libc::EINVAL);
    }
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by sigemptyset before it is used.
    let (added, blocked) = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let added = libc::sigaddset(set.as_mut_ptr(), signal);
        (added, libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()))
    };
    // The C library keeps two for itself.
    if added == 0 && blocked == 0 { Ok(()) } else { Err(libc::EINVAL) }
}
