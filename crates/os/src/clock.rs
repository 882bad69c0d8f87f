//! The clocks: the monotonic one, with a wait on it, the wall clock, and the processor time of threads and processes.

use rustix::io::retry_on_intr;
use rustix::param::clock_ticks_per_second;
use rustix::thread::{clock_nanosleep_absolute, current_timer_slack, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::num::NonZeroU64;

/// Nanoseconds of CLOCK_MONOTONIC (clock_gettime(2)).
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    nanoseconds(time.tv_sec, time.tv_nsec)
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    assert!(seconds >= 0 && (0..1_000_000_000).contains(&nanoseconds));
    seconds as u64 * 1_000_000_000 + nanoseconds as u64
}

/// Nanoseconds since 1970 by the wall clock (CLOCK_REALTIME), for people to read.
pub fn wall_clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Waits until the monotonic clock shows `nanoseconds`; returns at once if that has passed (clock_nanosleep(2)).
///
/// For a thread that may wait, and not for a lane's, but where that leaves its CPU to others. It never returns early; late by the wake-up alone, because meanwhile the thread's timer
/// slack (prctl(2), `PR_SET_TIMERSLACK`; 50 us by default) is the least that there is. A signal does not end the wait.
pub fn sleep_until(nanoseconds: u64) {
    let until = timespec(nanoseconds);
    // reason: asking and setting cannot fail for the calling thread (prctl(2)).
    let slack = current_timer_slack().expect("a thread has a timer slack");
    set_timer_slack(NonZeroU64::MIN);
    let waited = retry_on_intr(|| clock_nanosleep_absolute(ClockId::Monotonic, &until));
    assert_eq!(waited, Ok(()), "the monotonic clock can be waited on");
    if let Some(slack) = NonZeroU64::new(slack) {
        set_timer_slack(slack);
    }
}

/// Lets the kernel delay the calling thread's timers by at most so many nanoseconds (prctl(2), `PR_SET_TIMERSLACK`).
pub(crate) fn set_timer_slack(nanoseconds: NonZeroU64) {
    // A refusal leaves timers as late as they were.
    let _ = set_current_timer_slack(Some(nanoseconds));
}

/// Processor time of a process in nanoseconds; none if no process has this number (a thread's number is none).
pub fn cpu_of_process(id: u32) -> Option<u64> {
    cpu_clock(id, 0)
}

/// Processor time of one of this process's threads in nanoseconds; none if there is no such thread.
pub fn cpu_of_thread(id: u32) -> Option<u64> {
    const PER_THREAD: i32 = 4;
    cpu_clock(id, PER_THREAD)
}

/// Processor time of the calling thread in nanoseconds (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID).
pub fn cpu_of_this_thread() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    nanoseconds(time.tv_sec, time.tv_nsec)
}

/// Asks a clock that is made of a number and what it counts: clock_getcpuclockid(3) gives the same, for processes only.
fn cpu_clock(id: u32, per_thread: i32) -> Option<u64> {
    const RUN_TIME: i32 = 2;
    // Zero would be the caller, and the number shares its word with three bits.
    let id = i32::try_from(id).ok().filter(|id| (1..1 << 28).contains(id))?;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // The library knows no clock of another process or thread.
    let clock = (!id << 3) | per_thread | RUN_TIME;
    assert!(clock < 0, "clocks of processes and threads have numbers below those of the system's");
    // SAFETY: `time` is a valid place for the answer.
    let answer = unsafe { libc::clock_gettime(clock, &mut time) };
    (answer == 0).then(|| nanoseconds(time.tv_sec, time.tv_nsec))
}

/// A length of time as the kernel wants it.
pub fn timespec(nanoseconds: u64) -> Timespec {
    Timespec { tv_sec: (nanoseconds / 1_000_000_000) as i64, tv_nsec: (nanoseconds % 1_000_000_000) as i64 }
}

/// Nanoseconds of so many clock ticks, the unit of times in /proc (sysconf(3), `_SC_CLK_TCK`).
pub fn nanoseconds_of_ticks(ticks: u64) -> u64 {
    let a_second = clock_ticks_per_second();
    assert!((1..=1_000_000_000).contains(&a_second), "clock ticks have a rate");
    ticks.saturating_mul(1_000_000_000 / a_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back() {
        let first = now();
        assert!(first > 0 && now() >= first);
    }

    #[test]
    fn a_wait_is_never_short_and_leaves_the_thread_as_it_was() {
        let slack = current_timer_slack();
        let until = now() + 3_000_000;
        sleep_until(until);
        assert!(now() >= until);
        assert_eq!(current_timer_slack(), slack);
        sleep_until(0);
    }

    #[test]
    fn processor_time_is_that_of_one_thread_or_of_all() {
        let this = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let start = cpu_of_thread(this).unwrap();
        while cpu_of_thread(this).unwrap() < start + 5_000_000 {}
        assert!(cpu_of_this_thread() >= start + 5_000_000 && cpu_of_this_thread() <= cpu_of_thread(this).unwrap());
        assert!(cpu_of_process(std::process::id()).unwrap() >= start + 5_000_000);
        for nobody in [0, 1 << 28, u32::MAX] {
            assert_eq!((cpu_of_thread(nobody), cpu_of_process(nobody)), (None, None));
        }
        assert_eq!(cpu_of_thread(1), None, "not a thread of this process");
    }

    #[test]
    fn lengths_are_split_at_the_second() {
        let time = timespec(3_000_000_007);
        assert_eq!((time.tv_sec, time.tv_nsec), (3, 7));
    }
}
