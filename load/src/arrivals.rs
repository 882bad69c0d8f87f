//! When the requests of an open loop are to start: each has its own moment, none waits for a tick.

use corelane::service::Random;
use std::sync::Arc;
use std::time::Duration;

/// Longest run.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A second, in nanoseconds.
const SECOND: f64 = 1e9;

/// How requests follow one another at a given rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// At equal distances.
    Fixed,
    /// At random, as a Poisson process has it: exponential distances, drawn from the run's seed.
    Poisson,
    /// As recorded: nanoseconds from the first request on, ascending. The rate is theirs.
    Recorded(Arc<[u64]>),
    /// Each as soon as there is room for it: no rate says when.
    AsTheyCan,
}

impl Arrivals {
    /// The name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Poisson => "poisson",
            Self::Recorded(_) => "recorded",
            Self::AsTheyCan => "as they can",
        }
    }

    /// Reads a recording: one time in seconds a line, from any origin, ascending; empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// The number of the line and what is wrong with it.
    pub fn recorded(text: &str) -> Result<Self, String> {
        let mut times: Vec<u64> = Vec::new();
        let mut origin = None;
        for (number, line) in
            text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        {
            let at = line.parse().ok().filter(|at: &f64| at.is_finite() && *at >= 0.0);
            let at = at.ok_or_else(|| format!("line {}: {line:?} is not a time in seconds", number + 1))?;
            let since: f64 = at - *origin.get_or_insert(at);
            let since = (since * SECOND).round();
            if since < 0.0 || times.last().is_some_and(|&last| (since as u64) < last) {
                return Err(format!("line {}: {line} is before the line above it", number + 1));
            }
            if since > LONGEST.as_nanos() as f64 {
                return Err(format!("line {}: {line} is more than {LONGEST:?} after the first time", number + 1));
            }
            times.push(since as u64);
        }
        if times.is_empty() {
            return Err("there is no time in it: write one in seconds a line".to_owned());
        }
        Ok(Self::Recorded(times.into()))
    }
}

/// One lane's share of the arrivals, in order. All lanes together have exactly the arrivals of the whole run.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    start: u64,
    /// Requests a second of all lanes.
    rate: f64,
    lanes: u64,
    /// Among all arrivals, the number of the next one of this lane.
    next: u64,
    /// For [`Arrivals::Poisson`]: when the last one was, in nanoseconds after the start.
    at: f64,
    random: Random,
}

impl Schedule {
    /// The arrivals of lane `lane` of `lanes`, which begin at `start` (nanoseconds) with `rate` a second over all lanes.
    pub fn new(arrivals: Arrivals, rate: f64, start: u64, lane: usize, lanes: usize, seed: u64) -> Self {
        let random = Random::new(seed ^ (lane as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { arrivals, start, rate, lanes: lanes as u64, next: lane as u64, at: 0.0, random }
    }
}

/// Random arrivals that are counted one by one; more of them come to what is to be expected, within a few in ten thousand.
const COUNTED: u64 = 1_000_000;

impl Schedule {
    /// How many of the arrivals still to come lie in `from..until`.
    pub fn count_within(mut self, from: u64, until: u64) -> u64 {
        match &self.arrivals {
            Arrivals::Fixed => self.numbers_before(until).saturating_sub(self.numbers_before(from)),
            // None of them has a time to be counted by.
            Arrivals::AsTheyCan => 0,
            Arrivals::Recorded(_) => self.skip_while(|&at| at < from).take_while(|&at| at < until).count() as u64,
            Arrivals::Poisson => {
                let (mut counted, mut at) = (0, self.start);
                for _ in 0..COUNTED {
                    at = self.next().unwrap_or(u64::MAX);
                    if at >= until {
                        return counted;
                    }
                    counted += u64::from(at >= from);
                }
                let rest = until.saturating_sub(at.max(from)) as f64 / SECOND;
                counted + (rest * self.rate / self.lanes as f64) as u64
            }
        }
    }

    /// At equal distances: how many of this lane's are before `at`, which may lie between two of them.
    fn numbers_before(&self, at: u64) -> u64 {
        let all = (at.saturating_sub(self.start) as f64 / SECOND * self.rate).ceil() as u64;
        all.saturating_sub(self.next).div_ceil(self.lanes)
    }
}

impl Iterator for Schedule {
    type Item = u64;

    /// The moment of the next one, in nanoseconds of the clock that `start` was given in; none after the end of a recording.
    fn next(&mut self) -> Option<u64> {
        let number = self.next;
        self.next += self.lanes;
        let since = match &self.arrivals {
            Arrivals::Fixed => (number as f64 / self.rate * SECOND) as u64,
            Arrivals::AsTheyCan => 0,
            Arrivals::Poisson => {
                let rate = self.rate / self.lanes as f64;
                self.at += -(1.0 - self.random.unit()).ln() / rate * SECOND;
                self.at as u64
            }
            Arrivals::Recorded(times) => *times.get(usize::try_from(number).ok()?)?,
        };
        Some(self.start.saturating_add(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(arrivals: &Arrivals, rate: f64, lanes: usize, until: u64) -> Vec<u64> {
        let lane = |lane| Schedule::new(arrivals.clone(), rate, 0, lane, lanes, 7).take_while(|&at| at < until);
        let mut all: Vec<u64> = (0..lanes).flat_map(lane).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn fixed_arrivals_are_the_same_over_any_number_of_lanes() {
        let one = merged(&Arrivals::Fixed, 3_000.0, 1, 1_000_000_000);
        assert_eq!(one.len(), 3_000);
        assert_eq!(one[..3], [0, 333_333, 666_666]);
        assert_eq!(one, merged(&Arrivals::Fixed, 3_000.0, 7, 1_000_000_000));
    }

    #[test]
    fn what_is_left_is_counted_without_being_played() {
        let recorded = Arrivals::recorded("0\n1\n1.5\n2\n").unwrap();
        for (arrivals, rate) in [(Arrivals::Fixed, 999.0), (Arrivals::Poisson, 1_000.0), (recorded, 0.0)] {
            for (lanes, taken) in [(1, 0), (3, 0), (2, 500)] {
                for lane in 0..lanes {
                    let mut schedule = Schedule::new(arrivals.clone(), rate, 7_000, lane, lanes, 7);
                    schedule.by_ref().take(taken).for_each(|_| ());
                    for (from, until) in [(0, 7_001), (1_000_000_000, 2_000_007_000), (0, 1_234_567_890), (5, 5)] {
                        let played = schedule.clone().take_while(|&at| at < until).filter(|&at| at >= from).count() as u64;
                        assert_eq!(schedule.clone().count_within(from, until), played, "{arrivals:?} {lane} {from} {until}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_day_of_the_highest_rate_is_counted_at_once() {
        let day = 86_400_000_000_000;
        for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
            let count = Schedule::new(arrivals, 1e9, 0, 0, 1, 7).count_within(0, day);
            assert!((count as f64 / day as f64 - 1.0).abs() < 1e-6, "{count}");
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_their_kind() {
        for lanes in [1, 4] {
            let all = merged(&Arrivals::Poisson, 10_000.0, lanes, 10_000_000_000);
            // The count's standard deviation is the root of its mean; so is the gap's to its mean.
            assert!((all.len() as f64 - 100_000.0).abs() < 4.0 * 316.0, "{}", all.len());
            let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
            assert!((deviation / mean - 1.0).abs() < 0.02, "{}", deviation / mean);
        }
    }

    #[test]
    fn a_recording_is_played_once_from_its_first_time_on() {
        let recorded = Arrivals::recorded("# seconds\n100.5\n\n100.5\n101\n102.25\n").unwrap();
        for lanes in [1, 3] {
            assert_eq!(merged(&recorded, 0.0, lanes, u64::MAX), [0, 0, 500_000_000, 1_750_000_000]);
        }
    }

    #[test]
    fn a_bad_recording_is_refused_with_its_line() {
        for (text, word) in [
            ("1\n0.5", "line 2"),
            ("1\nx", "line 2"),
            ("nan", "line 1"),
            ("-1", "line 1"),
            ("# none", "no time"),
            ("0\n1e300", "more than 86400s"),
            ("0\n86401", "line 2"),
        ] {
            let error = Arrivals::recorded(text).unwrap_err();
            assert!(error.contains(word), "{text:?}: {error}");
        }
    }
}
