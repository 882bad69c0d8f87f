//! Threads for lanes: named, pinned, with a descriptor table of their own where that is wanted.

use crate::{clock, cpus, limits};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
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
    let told = Arc::new(OnceLock::new());
    let tell = told.clone();
    let handle = Builder::new().name(format!("lane-{lane}")).spawn(move || {
        // Nobody else says it.
        let _ = tell.set(thread_id());
        // An alarm is to come when it was set for; the kernel's default lets it be 50 us late (prctl(2), PR_SET_TIMERSLACK).
        clock::set_timer_slack(NonZeroU64::MIN);
        body(cpu.map_or(Ok(()), cpus::pin))
    })?;
    let id = *told.wait();
    assert!(id != thread_id(), "the thread has a number of its own");
    Ok(LaneThread { handle, id })
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

/// Whether the calling thread has a descriptor table that is not the process's ([`own_descriptors`]): what it opens has no number there, nor what others open a number here. Where the system does
/// not tell, it has none.
pub fn has_own_descriptors() -> bool {
    // A pipe of this moment: at its number the process's table has another file, or none.
    let Ok((pipe, _)) = io::pipe() else { return false };
    let link = |whose: &str| std::fs::read_link(format!("/proc/{whose}/fd/{}", pipe.as_raw_fd()));
    link("thread-self")
        .is_ok_and(|own| link("self").map_or_else(|why| why.kind() == io::ErrorKind::NotFound, |other| other != own))
}

/// Raises this process's limit of descriptors as far as it may without privilege; returns the limit then in force.
pub fn raise_descriptor_limit() -> u64 {
    // There may be none, which the kernel writes as the largest number; and a filter may keep it for itself.
    let Ok((current, maximum)) = limits::in_force(libc::RLIMIT_NOFILE) else { return u64::MAX };
    let raised = Rlimit { current: Some(maximum), maximum: Some(maximum) };
    if setrlimit(Resource::Nofile, raised).is_ok() { maximum } else { current }
}

/// Points at which lanes wait, one behind the other, until whoever starts them opens the next.
#[derive(Default)]
pub struct StartGate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    open: usize,
    abandoned: bool,
}

impl StartGate {
    /// Waits until so many have been opened; false if the gate was abandoned, because nobody will open it.
    pub fn pass(&self, number: usize) -> bool {
        let waited = self.changed.wait_while(self.lock(), |state| state.open < number && !state.abandoned);
        !waited.unwrap_or_else(PoisonError::into_inner).abandoned
    }

    /// Opens the next.
    pub fn open(&self) {
        let mut state = self.lock();
        assert!(!state.abandoned, "nobody waits for a gate that was abandoned");
        state.open += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Lets everybody pass, now and later, and tells them that it is in vain.
    pub fn abandon(&self) {
        self.lock().abandoned = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        // Nothing is changed in two steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn who_waits_passes_when_it_is_opened_or_is_told_that_nobody_will() {
        let gate = Arc::new(StartGate::default());
        let waits_for = |number| {
            let gate = gate.clone();
            std::thread::spawn(move || gate.pass(number))
        };
        let [first, second] = [waits_for(1), waits_for(2)];
        gate.open();
        assert!(first.join().unwrap() && gate.pass(1));
        assert!(!second.is_finished(), "it waits for the next");
        gate.abandon();
        assert!(!second.join().unwrap());
        assert!(!gate.pass(1));
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
            assert!(!has_own_descriptors());
            own_descriptors().unwrap();
            assert!(std::fs::File::open("/dev/null").is_ok() && has_own_descriptors());
        })
        .join()
        .unwrap();
        assert!(raise_descriptor_limit() > 0);
    }
}
