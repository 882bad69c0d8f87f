//! What comes to the card.

use corelane_seam::Random;

/// Flows of TCP that want more than they get. Together they send faster as long as nothing is lost, by a packet a round trip and flow, and each loss halves the
/// flow that it hits: so they settle where losses a second are 2 (flows / round trip)^2 / rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Frames a second that they want together.
    pub most: u32,
    /// How many they are.
    pub flows: u32,
    /// Microseconds of a round trip.
    pub round_trip_us: u32,
    /// Frames that come back to back, on average.
    pub train: u32,
    /// Microseconds of each period in which nothing comes.
    pub rest_us: u64,
    /// Microseconds of a period; 0 for traffic that never rests.
    pub period_us: u64,
}

/// Frames a second at first.
const RATE_FIRST: f64 = 1_000.0;
/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// When frames come, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    traffic: Traffic,
    wire_ns: u64,
    random: Random,
    /// Frames a second.
    rate: f64,
    at: u64,
    /// Frames of this train.
    left: u32,
}

impl Arrivals {
    pub(super) const fn new(traffic: Traffic, wire_ns: u64, seed: u64) -> Self {
        let wire_ns = if wire_ns == 0 { 1 } else { wire_ns };
        Self { traffic, wire_ns, random: Random::new(seed), rate: RATE_FIRST, at: 0, left: 1 }
    }

    /// The next frame by `until`.
    pub(super) fn next(&mut self, until: u64) -> Option<u64> {
        let at = self.at;
        if at > until {
            return None;
        }
        self.at = at.saturating_add(self.wire_ns);
        self.left -= 1;
        if self.left == 0 {
            self.begin_train();
        }
        self.grow((self.at - at) as f64 / SECOND);
        Some(at)
    }

    /// A frame was lost: its flow halves.
    pub(super) fn lost(&mut self) {
        self.rate -= self.rate / (2.0 * f64::from(self.traffic.flows.max(1)));
    }

    fn begin_train(&mut self) {
        let mean = f64::from(self.traffic.train.max(1));
        self.left = (self.exponential() * mean).ceil().max(1.0) as u32;
        let frames = 1.0 / (1.0 - (-1.0 / mean).exp()); // the mean of what was rounded up
        let gap = frames * (SECOND / self.rate.max(1.0) - self.wire_ns as f64);
        self.at = self.at.saturating_add((self.exponential() * gap.max(0.0)) as u64);
        let [rest, period] = [self.traffic.rest_us, self.traffic.period_us].map(|us| us.saturating_mul(1_000));
        if period > 0 && self.at % period < rest {
            self.at = self.at.saturating_add(rest - self.at % period);
        }
    }

    /// The flows send faster after some seconds; a rest counts as a round trip.
    fn grow(&mut self, seconds: f64) {
        let round_trip = f64::from(self.traffic.round_trip_us.max(1)) / 1e6;
        let each = f64::from(self.traffic.flows) / (round_trip * round_trip);
        self.rate = (self.rate + each * seconds.min(round_trip)).min(f64::from(self.traffic.most));
    }

    /// A draw from the exponential distribution with mean 1.
    fn exponential(&mut self) -> f64 {
        -(1.0 - self.random.unit()).ln()
    }
}
