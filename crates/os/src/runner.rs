//! Threads for lanes: named, pinned, with a descriptor table of their own where that is wanted.

use crate::{clock, cpus};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};
use std::io;
use std::num::NonZeroU64;
use std::sync::{Condvar, Mutex, mpsc};
use std::thread::{Builder, JoinHandle};

/// A lane's thread.
pub struct LaneThread<R> {
    /// Waits for its end.
    pub handle: JoinHandle<R>,
    /// The number by which the system knows it while it runs (gettid(2)).
    pub id: u32,
}

/// The number by which the system knows the calling thread while it runs (gettid(2)).
pub fn thread_id() -> u32 {
    gettid().as_raw_nonzero().get().cast_unsigned()
}

/// Starts a thread for a lane, bound to `cpu` if there is one; returns when it runs.
///
/// # Errors
/// What the system says. That the CPU cannot be used is found by the thread, and passed to `body`.
pub fn spawn<R: Send + 'static>(
    lane: usize,
    cpu: Option<usize>,
    body: impl FnOnce(io::Result<()>) -> R + Send + 'static,
) -> io::Result<LaneThread<R>> {
    let (tell, told) = mpsc::sync_channel(1);
    let handle = Builder::new().name(format!("lane-{lane}")).spawn(move || {
        // It cannot fail: there is room for one, and the other end waits.
        let _ = tell.send(thread_id());
        // An alarm is to come when it was set for; the kernel's default lets it be 50 us late (prctl(2), PR_SET_TIMERSLACK).
        clock::set_timer_slack(NonZeroU64::MIN);
        body(cpu.map_or(Ok(()), cpus::pin))
    })?;
    Ok(LaneThread { handle, id: told.recv().map_err(io::Error::other)? })
}

/// Gives the calling thread a descriptor table of its own, a copy of the shared one (unshare(2) with CLONE_FILES): so its
/// limit (RLIMIT_NOFILE) counts for it alone, and opening and closing takes no lock of others. What other threads open
/// afterwards has no meaning here, so make doorbells before. What this thread opened before stays open in the other table when
/// it is closed here, so make drivers afterwards.
///
/// # Errors
/// What the system says.
pub fn own_descriptors() -> io::Result<()> {
    // SAFETY: the table is a copy: what this thread has open stays open under its number, and nothing else changes.
    Ok(unsafe { unshare_unsafe(UnshareFlags::FILES) }?)
}

/// Raises this process's limit of descriptors as far as it may without privilege; answers the limit then in force.
pub fn raise_descriptor_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let in_force = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current,
    };
    // There may be none, which the kernel writes as the largest number.
    in_force.unwrap_or(u64::MAX)
}

/// A point that all lanes, and whoever starts them, pass together.
pub struct Gate {
    parties: usize,
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    waiting: usize,
    passed: usize,
    abandoned: bool,
}

impl Gate {
    /// For `parties` threads.
    pub fn new(parties: usize) -> Self {
        Self { parties, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits for all others; false if the gate was abandoned, because somebody will never come.
    pub fn pass(&self) -> bool {
        // reason: nothing under this lock can panic.
        let mut state = self.state.lock().expect("no panic under this lock");
        state.waiting += 1;
        if state.waiting == self.parties {
            (state.waiting, state.passed) = (0, state.passed + 1);
            self.changed.notify_all();
            return !state.abandoned;
        }
        let turn = state.passed;
        let waited = self.changed.wait_while(state, |state| state.passed == turn && !state.abandoned);
        // reason: as above.
        !waited.expect("no panic under this lock").abandoned
    }

    /// Lets everybody pass, now and later, and tells them that it is in vain.
    pub fn abandon(&self) {
        // reason: as above.
        self.state.lock().expect("no panic under this lock").abandoned = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn all_pass_together_or_are_told_that_nobody_comes() {
        let gate = Arc::new(Gate::new(3));
        let threads = |count| {
            (0..count)
                .map(|_| {
                    std::thread::spawn({
                        let gate = gate.clone();
                        move || gate.pass()
                    })
                })
                .collect::<Vec<_>>()
        };
        let two = threads(2);
        assert!(gate.pass());
        two.into_iter().for_each(|thread| assert!(thread.join().unwrap()));
        let one = threads(1);
        gate.abandon();
        one.into_iter().for_each(|thread| assert!(!thread.join().unwrap()));
        assert!(!gate.pass());
    }

    #[test]
    fn a_thread_is_known_by_its_number() {
        let (end, ended) = mpsc::channel::<()>();
        let thread = spawn(7, None, move |_| (thread_id(), ended.recv().is_err())).unwrap();
        let name = std::fs::read_to_string(format!("/proc/self/task/{}/comm", thread.id)).unwrap();
        assert_eq!(name, "lane-7\n");
        assert_ne!(thread.id, thread_id());
        drop(end);
        assert_eq!(thread.handle.join().unwrap(), (thread.id, true));
    }

    #[test]
    fn a_thread_can_have_descriptors_of_its_own() {
        std::thread::spawn(|| {
            own_descriptors().unwrap();
            assert!(std::fs::File::open("/dev/null").is_ok());
        })
        .join()
        .unwrap();
        assert!(raise_descriptor_limit() > 0);
    }
}
