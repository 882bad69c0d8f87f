//! What the whole machine used (/proc/stat, proc_stat(5)): where a server has the kernel's threads do its work, its own time says nothing.

use std::fs;
use std::time::Instant;

/// A tick of /proc/stat in nanoseconds: USER_HZ is 100 on every machine of this architecture.
const TICK_NS: f64 = 1e7;

/// Processor time of all CPUs that was not idle, up to a moment.
#[derive(Debug)]
pub struct Busy {
    ticks: u64,
    at: Instant,
}

impl Busy {
    /// Up to now; none where it is not told.
    pub fn now() -> Option<Self> {
        Some(Self { ticks: busy(&fs::read_to_string("/proc/stat").ok()?)?, at: Instant::now() })
    }

    /// Microseconds for each request since then, of which so many a second were answered. Where the load began and ended within that time it is a little less than it was under load: alike for all.
    pub fn us_per_request(&self, before: &Self, requests_per_s: f64) -> f64 {
        let seconds = (self.at - before.at).as_secs_f64();
        let used_us = self.ticks.saturating_sub(before.ticks) as f64 * TICK_NS / 1e3;
        used_us / (requests_per_s * seconds)
    }
}

/// Of the line of all CPUs: user, nice, system, idle, iowait, irq, softirq. Guests are in the first two, and stolen time is nobody's.
fn busy(text: &str) -> Option<u64> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _waiting, irq, softirq, ..] = ticks[..] else { return None };
    Some(user + nice + system + irq + softirq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn all_but_idle_and_stolen_time_counts() {
        assert_eq!(busy("cpu  10 1 20 1000 7 3 4 99 0 0\ncpu0 1 1 1"), Some(38));
        assert_eq!((busy("cpu0 1 2"), busy("cpu 1 2 3"), busy("")), (None, None, None));
        let before = Busy { ticks: 100, at: Instant::now() };
        let after = Busy { ticks: 300, at: before.at + Duration::from_secs(2) };
        assert!((after.us_per_request(&before, 10_000.0) - 100.0).abs() < 1e-9);
    }
}
