//! Termination signals as something to wait for, instead of something that interrupts.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// What a program waits for while its lanes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// SIGTERM or SIGINT has come.
    Signal(i32),
    /// Somebody rang.
    Rung,
}

/// SIGTERM and SIGINT, blocked in the calling thread and all that it starts later, and a bell beside them.
pub struct Signals {
    signals: OwnedFd,
    bell: Arc<OwnedFd>,
}

/// Rings the bell of a [`Signals`]; may be used from any thread.
#[derive(Clone)]
pub struct Ringer(Arc<OwnedFd>);

impl Ringer {
    /// Has [`Signals::wait`] return.
    pub fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes are readable at `one`. The counter cannot overflow in practice; if it is full it is ringing.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }
}

impl Signals {
    /// Blocks the signals and makes them readable (signalfd(2)). Call it before the first thread is started.
    ///
    /// # Errors
    /// What the system says.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised by sigemptyset before it is used; both signal numbers are valid.
        let number = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC)
        };
        Ok(Self { signals: owned(number)?, bell: Arc::new(event()?) })
    }

    /// What others ring.
    pub fn ringer(&self) -> Ringer {
        Ringer(self.bell.clone())
    }

    /// Waits for a signal or the bell.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self) -> io::Result<Wake> {
        loop {
            let poll = |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let mut fds = [poll(&self.signals), poll(&self.bell)];
            // SAFETY: the array is valid for the two entries named.
            if unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) } < 0 {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                }
            }
            if fds[0].revents != 0 {
                return self.read_signal();
            }
            return Ok(Wake::Rung);
        }
    }

    fn read_signal(&self) -> io::Result<Wake> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `size` bytes are writable at `info`.
        let got = unsafe { libc::read(self.signals.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if got != size as isize {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel wrote the whole structure, as the length says.
        Ok(Wake::Signal(unsafe { info.assume_init() }.ssi_signo as i32))
    }
}

fn event() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
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

    #[test]
    fn a_signal_and_the_bell_are_both_waited_for() {
        std::thread::spawn(|| {
            let signals = Signals::block().unwrap();
            // SAFETY: sends a signal that this thread blocks to this very thread.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
            assert_eq!(signals.wait().unwrap(), Wake::Signal(libc::SIGTERM));
            let ringer = signals.ringer();
            std::thread::spawn(move || ringer.ring());
            assert_eq!(signals.wait().unwrap(), Wake::Rung);
        })
        .join()
        .unwrap();
    }
}
