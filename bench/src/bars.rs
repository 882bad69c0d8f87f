//! What is asked of a figure, and what came of it.

use std::fmt;

use corelane_load::stats::Estimate;
use serde::Serialize;

use super::entrants::Entrant;

/// What a ratio may be that is to show no difference. Two servers that cost the same measure up to so much apart, and a bar is met
/// only by a whole interval; at exactly 1 it would be met by chance alone.
pub const PARITY: f64 = 1.05;

/// A figure or a ratio, and what it may be.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// The figure.
    pub figure: Figure,
    /// Whose it is.
    pub of: Entrant,
    /// What it is divided by.
    pub by: Divisor,
    /// What the whole interval of the rounds may be.
    pub limit: Limit,
}

/// A build of Corelane costs no more than the one that it is put beside, wherever both take part.
pub const BESIDE: Bar = cpu(Divisor::One(Entrant::Beside), PARITY);

/// What a figure may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// This or less.
    AtMost(f64),
    /// Less than this.
    Under(f64),
    /// This or more.
    AtLeast(f64),
}

/// What came of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The whole interval keeps the limit.
    Met,
    /// None of it does.
    Missed,
    /// One end does and the other does not: these rounds do not decide it.
    Open,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Server CPU microseconds per request, with what the kernel's own thread of its CPU did meanwhile.
    Cpu,
    /// CPU microseconds of the whole machine per request: of all processes and threads of the kernel's, where a server has others do its work.
    Machine,
    /// Median latency.
    MedianLatency,
    /// The latency that 99 of 100 requests keep.
    TailLatency,
    /// Share of one CPU that the server's threads use.
    ServerLoad,
    /// CPU time per request of the generator's lane, divided by that of the server's threads.
    GeneratorCost,
    /// Calls that send, by request that the server counts; exact.
    SendsPerRequest,
    /// Answered requests per second.
    Rate,
}

/// What a figure is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// Nothing: it stands for itself.
    Nothing,
    /// The runtime with the lowest median CPU per request in this cell, whatever its buffers.
    BestFramework,
    /// The plain loop of datagrams with the lowest median CPU per request in this cell.
    BestLoop,
    /// The web server with the lowest median CPU per request in this cell.
    BestWebServer,
    /// The proxy with the lowest median CPU per request in this cell.
    BestProxy,
    /// One entrant.
    One(Entrant),
}

/// Corelane's server CPU per request, and what it may be of another's.
pub const fn cpu(by: Divisor, at_most: f64) -> Bar {
    Bar { figure: Figure::Cpu, of: Entrant::Corelane, by, limit: Limit::AtMost(at_most) }
}

impl Limit {
    /// What came of an exact figure.
    pub fn word_of_one(self, value: f64) -> Word {
        if self.is_kept(value) { Word::Met } else { Word::Missed }
    }

    /// What came of a figure with an interval.
    pub fn word(self, estimate: &Estimate) -> Word {
        match (self.is_kept(estimate.low), self.is_kept(estimate.high)) {
            (true, true) => Word::Met,
            (false, false) => Word::Missed,
            _ => Word::Open,
        }
    }

    fn is_kept(self, value: f64) -> bool {
        match self {
            Limit::AtMost(bar) => value <= bar,
            Limit::Under(bar) => value < bar,
            Limit::AtLeast(bar) => value >= bar,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::AtMost(bar) => write!(f, "at most {bar}"),
            Limit::Under(bar) => write!(f, "under {bar}"),
            Limit::AtLeast(bar) => write!(f, "at least {bar}"),
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Word::Met => "met",
            Word::Missed => "MISSED",
            Word::Open => "open",
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Figure::Cpu => "CPU per request",
            Figure::Machine => "CPU of the whole machine per request",
            Figure::MedianLatency => "p50 latency",
            Figure::TailLatency => "p99 latency",
            Figure::ServerLoad => "share of its CPU used",
            Figure::GeneratorCost => "generator's CPU per request / its own",
            Figure::SendsPerRequest => "sends per request",
            Figure::Rate => "requests per second",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept_on_its_side_only() {
        let words = |limit: Limit| [0.9, 1.0, 1.1].map(|value| limit.word_of_one(value));
        assert_eq!(words(Limit::AtMost(1.0)), [Word::Met, Word::Met, Word::Missed]);
        assert_eq!(words(Limit::Under(1.0)), [Word::Met, Word::Missed, Word::Missed]);
        assert_eq!(words(Limit::AtLeast(1.0)), [Word::Missed, Word::Met, Word::Met]);
        assert_eq!(Limit::AtMost(1.0).word_of_one(f64::NAN), Word::Missed, "what was not measured keeps nothing");
    }

    #[test]
    fn a_bar_is_met_or_missed_by_the_whole_interval_wherever_the_median_is() {
        let word = |limit: Limit, low, high| {
            let of = |median| limit.word(&Estimate { median, low, high });
            assert_eq!(of(low), of(high), "the median decides nothing");
            of(low)
        };
        for limit in [Limit::AtMost(1.0), Limit::Under(1.0)] {
            assert_eq!(word(limit, 0.8, 0.9), Word::Met, "{limit}");
            assert_eq!(word(limit, 0.9, 1.1), Word::Open, "{limit}");
            assert_eq!(word(limit, 1.1, 1.2), Word::Missed, "{limit}");
        }
        assert_eq!(word(Limit::AtMost(1.0), 0.9, 1.0), Word::Met, "at the bar is met");
        assert_eq!(word(Limit::AtMost(1.0), 1.0, 1.1), Word::Open);
        assert_eq!(word(Limit::Under(1.0), 0.9, 1.0), Word::Open);
        let at_least = [(0.8, 0.9), (0.9, 1.0), (1.0, 1.1)].map(|(low, high)| word(Limit::AtLeast(1.0), low, high));
        assert_eq!(at_least, [Word::Missed, Word::Open, Word::Met]);
    }
}
