//! Threads that compute beside lanes: on CPUs that have no lane, and behind lanes.
//!
//! A thread that computes on a lane's CPU has it until the scheduler's next tick, 4 ms later where it ticks 250 times a second. Meanwhile neither the lane runs nor a thread of the
//! kernel that receives for it. Packets that come in that time have to find room in the interface's ring. That of a veth has 256 frames, and is full by then at 64,000 packets a second.

use crate::cpus;
use crate::runner::thread_id;
use crate::scheduling::{Scheduling, bind};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{Builder, scope};

/// Behind lanes of its CPU, with a tenth of their weight: what it does ends in a while also where they never sleep. A thread that wakes there has a shorter slice, so it need not wait for the next tick (Linux 6.12; before that the weight alone counts).
const BEHIND: Scheduling = Scheduling::nice(10).in_slices_of(100_000_000);

/// Where threads run that compute beside lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// The CPUs that this process may use and that have no lane. If there are none, such threads run on any.
    free: Arc<[usize]>,
}

impl Aside {
    /// Beside lanes on these CPUs, of those that the calling thread may use.
    pub fn of(lanes: impl IntoIterator<Item = usize>) -> Self {
        // Where the system does not say which may be used, none is known to be free.
        Self::among(&cpus::allowed().unwrap_or_default(), lanes)
    }

    fn among(allowed: &[usize], lanes: impl IntoIterator<Item = usize>) -> Self {
        let lanes: Vec<usize> = lanes.into_iter().collect();
        Self { free: allowed.iter().copied().filter(|cpu| !lanes.contains(cpu)).collect() }
    }

    /// Has the calling thread, and threads that it begins, run so from now on. Where the system refuses that, they run as before, which is slower for lanes and nothing worse.
    pub fn take(&self) {
        if !self.free.is_empty() {
            let _refused = bind(thread_id(), &self.free);
        }
        // A CPU without a lane of ours may have one of another process. By no number: so a process that has given up other threads' ranks may still do it.
        let _refused = BEHIND.give_to(0);
    }

    /// Does something on a thread of its own that runs so, and waits for it. Where the system has no thread more, the calling one does it.
    ///
    /// # Panics
    /// If `work` does.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let (mut work, mut done) = (Some(work), None);
        scope(|threads| {
            let body = || {
                self.take();
                done = work.take().map(|work| work());
            };
            let ended = Builder::new().name("aside".to_owned()).spawn_scoped(threads, body).map(|thread| thread.join());
            if let Ok(Err(panic)) = ended {
                resume_unwind(panic);
            }
        });
        // reason: a thread that began has done it.
        done.unwrap_or_else(|| work.take().expect("what no thread has done is there still")())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::cpus_of;
    use std::panic::catch_unwind;

    /// The CPUs and the rank of the calling thread.
    fn own() -> (Vec<usize>, Option<u32>) {
        (cpus_of(thread_id()).unwrap(), Scheduling::of(thread_id()).unwrap().weight())
    }

    #[test]
    fn cpus_with_a_lane_are_left_to_it() {
        let free = |allowed: &[usize], lanes: &[usize]| Aside::among(allowed, lanes.iter().copied()).free.to_vec();
        assert_eq!(free(&[0, 1, 2, 3], &[1, 3]), [0, 2]);
        assert_eq!(free(&[4, 6], &[0, 1]), [4, 6], "lanes of other CPUs take none of these");
        assert_eq!(free(&[0, 1], &[0, 1]), [0; 0]);
        assert_eq!(free(&[], &[0]), [0; 0]);
    }

    #[test]
    fn what_runs_aside_has_a_free_cpu_where_there_is_one_and_is_behind_lanes() {
        let (cpus, rank) = own();
        let beside = |lanes: &[usize]| Aside::among(&cpus, lanes.iter().copied()).run(own);
        assert_eq!(beside(&cpus[1..]), (cpus[..1].to_vec(), Some(110)), "the first has no lane");
        assert_eq!(beside(&cpus), (cpus.clone(), Some(110)), "each has a lane");
        assert_eq!(own(), (cpus, rank), "who has it done stays where he is");
    }

    #[test]
    fn threads_that_it_begins_run_so_too() {
        let cpus = cpus_of(thread_id()).unwrap();
        let aside = Aside::of(cpus.iter().copied());
        assert_eq!(aside.run(|| std::thread::spawn(own).join().unwrap()), (cpus, Some(110)));
    }

    #[test]
    fn a_panic_is_the_callers() {
        let aside = Aside::of([]);
        let panic = catch_unwind(|| aside.run(|| panic!("so it is"))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"so it is"));
    }
}
