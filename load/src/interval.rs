//! What one lane measures in one second.

use crate::kinds::Errors;
use hdrhistogram::Histogram;

/// Longest time that a histogram holds, in nanoseconds: an hour. Longer ones are counted there.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// Significant decimal digits of the histograms.
pub const DIGITS: u8 = 3;

/// An empty histogram of nanoseconds. Allocates about 270 KiB, once.
pub fn histogram() -> Histogram<u64> {
    // reason: the bounds are constants that the library accepts, which a test shows.
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("constant bounds")
}

/// Most counts of a workload's own.
pub const COUNTS_MAX: usize = 16;

/// Times of one kind, in nanoseconds: made only where the mode of the run has that kind.
#[derive(Clone, Debug, Default)]
pub struct Times(pub Option<Box<Histogram<u64>>>);

impl Times {
    /// Ready to record, or never to be recorded.
    pub fn new(wanted: bool) -> Self {
        Self(wanted.then(|| Box::new(histogram())))
    }

    /// Records a time `count` times.
    pub fn record(&mut self, nanoseconds: u64, count: u64) {
        if let Some(histogram) = &mut self.0 {
            // The histogram itself keeps somewhat longer ones as they are, and has what is beyond those as an hour: shorter than they.
            histogram.saturating_record_n(nanoseconds.min(LONGEST_NS), count);
        }
    }

    /// Gives what was recorded, and begins anew. Where that is nothing, the histogram stays for what comes, and none goes out.
    fn take(&mut self) -> Self {
        match &self.0 {
            Some(times) if !times.is_empty() => std::mem::replace(self, Self::new(true)),
            _ => Self(None),
        }
    }

    /// Adds all that another holds.
    pub fn merge(&mut self, other: &Times) {
        match (&mut self.0, &other.0) {
            // reason: all histograms here have the same bounds.
            (Some(mine), Some(theirs)) => mine.add(&**theirs).expect("same bounds"),
            (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
            (_, None) => {}
        }
    }
}

/// Which kinds of times a run has: latency, service, lag, and of connections connect, connection, response, transfer.
pub type Kinds = [bool; 7];

/// What one lane measured in one second, or what several intervals came to.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// From the intended start of a request to its answer; what was given up is in it with the time waited.
    pub latency: Times,
    /// From sending to the answer; only where requests have an intended start of their own.
    pub service: Times,
    /// From the intended start, or from when there was room for one more request, to sending.
    pub lag: Times,
    /// From asking for a connection to having it; only where connections are what is measured.
    pub connect: Times,
    /// From asking for a connection to its end, of those on which something was answered.
    pub connection: Times,
    /// From sending to the first byte of the answer; only where connections are what is measured.
    pub response: Times,
    /// From the first byte of an answer to its last one.
    pub transfer: Times,
    /// Requests answered rightly.
    pub requests: u64,
    /// Of these, answered within the window: what the rate is counted from.
    pub in_window: u64,
    /// Requests whose intended start lies in the window, sent or not.
    pub offered: u64,
    /// Requests sent.
    pub sent: u64,
    /// Connections asked for; only where they are what is measured.
    pub asked: u64,
    /// Connections that followed one which had ended in order.
    pub renewed: u64,
    /// Requests sent a second time, because the peer had ended their connection in order before it came to them.
    pub asked_again: u64,
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that have ended.
    pub closed: u64,
    /// Connections open at its end: of one lane, in no sum.
    pub open: u64,
    /// What only the workload counts, each at its place.
    pub counted: [u64; COUNTS_MAX],
    /// What failed, and why.
    pub errors: Errors,
    /// Payload bytes handed over.
    pub bytes_sent: u64,
    /// Payload bytes that came back.
    pub bytes_received: u64,
}

impl Interval {
    /// One without anything, with histograms for these kinds.
    pub fn of(kinds: Kinds) -> Self {
        let mut interval = Self::default();
        interval.prepare(kinds);
        interval
    }

    /// Has a histogram, from now on if not before, for each of these kinds.
    pub fn prepare(&mut self, kinds: Kinds) {
        for (times, is_wanted) in self.times_mut().into_iter().zip(kinds) {
            if is_wanted && times.0.is_none() {
                *times = Times::new(true);
            }
        }
    }

    /// Its times, in the order of [`Kinds`].
    fn times_mut(&mut self) -> [&mut Times; 7] {
        let Self { latency, service, lag, connect, connection, response, transfer, .. } = self;
        [latency, service, lag, connect, connection, response, transfer]
    }

    /// Gives what was measured. Only those times have a histogram that were recorded; the others' stay here, ready for the next interval. A second in which
    /// nothing was answered costs no memory.
    pub fn take(&mut self) -> Self {
        let mut taken = Self::default();
        std::mem::swap(self, &mut taken);
        for (mine, times) in self.times_mut().into_iter().zip(taken.times_mut()) {
            *mine = std::mem::take(times);
            *times = mine.take();
        }
        taken
    }

    /// Adds all that another holds.
    pub fn merge(&mut self, other: &Interval) {
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
        self.connect.merge(&other.connect);
        self.connection.merge(&other.connection);
        self.response.merge(&other.response);
        self.transfer.merge(&other.transfer);
        self.errors.merge(&other.errors);
        for (mine, theirs) in [
            (&mut self.requests, other.requests),
            (&mut self.in_window, other.in_window),
            (&mut self.offered, other.offered),
            (&mut self.sent, other.sent),
            (&mut self.asked, other.asked),
            (&mut self.renewed, other.renewed),
            (&mut self.asked_again, other.asked_again),
            (&mut self.opened, other.opened),
            (&mut self.closed, other.closed),
            (&mut self.bytes_sent, other.bytes_sent),
            (&mut self.bytes_received, other.bytes_received),
        ] {
            *mine += theirs;
        }
        self.counted.iter_mut().zip(other.counted).for_each(|(mine, theirs)| *mine += theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_time_is_never_less_than_a_shorter_one() {
        for hours in [1.0, 1.1, 1.2, 1.3, 2.0, 1e6] {
            let mut times = Times::new(true);
            times.record((LONGEST_NS as f64 * hours) as u64, 1);
            let kept = times.0.unwrap();
            assert!(kept.equivalent(kept.max(), LONGEST_NS), "{hours} h: {} ns", kept.max());
        }
    }
}
