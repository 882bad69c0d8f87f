//! Threads for what waits for a disk.

use std::mem::MaybeUninit;
use std::thread::Builder;

/// Starts a thread that runs `body`. All signals are blocked in it: what is sent to the process is for the program's own threads, and for who reads them.
///
/// # Errors
/// The system's number: EAGAIN where there are too many threads.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), i32> {
    let before = block_all();
    let started = Builder::new().name(name.to_owned()).spawn(body);
    // SAFETY: it is the mask that the calling thread had.
    let restored = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    assert!(restored == 0, "a mask that was in force can be again");
    started.map(drop).map_err(|error| crate::errno::of(&error))
}

/// Blocks all signals in the calling thread: a new thread begins with its maker's mask.
fn block_all() -> libc::sigset_t {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: each set is initialised, by sigfillset or by pthread_sigmask, before it is used.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        assert!(blocked == 0, "signals can be blocked");
        before.assume_init()
    }
}
