//! What a run's line says, from the run and those before it.

use corelane_load::buckets::{Bucket, quantile};
use corelane_load::report::Report;

/// Buckets of the original's histogram.
const ORIGINAL_BUCKETS: u64 = 8_388_608;

/// What a run has come to: all that its columns are computed from.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// When it began, in seconds since 1970.
    pub date: f64,
    /// Calls in flight of each thread.
    pub in_flight: u64,
    /// Calls answered.
    pub calls: u64,
    /// Bytes of calls and replies.
    pub bytes: u64,
    /// Thread by thread: seconds to the last reply, and the longest latency in nanoseconds.
    pub threads: Vec<(f64, u64)>,
    /// The latencies.
    pub buckets: Vec<Bucket>,
}

impl Run {
    pub fn new(report: &Report, buckets: Vec<Bucket>) -> Self {
        let thread = |lane: &corelane_load::report::Lane| (lane.seconds, (lane.longest_us * 1e3).round() as u64);
        Self {
            date: report.started_unix_s,
            in_flight: report.settings.depth,
            calls: report.requests,
            bytes: report.bytes_sent + report.bytes_received,
            threads: report.generator.lanes.iter().map(thread).collect(),
            buckets,
        }
    }

    /// Nanoseconds of one of the original's buckets, which decides how many decimals it printed and how long a latency it held.
    fn original_bucket_ns(&self) -> u64 {
        if self.threads.len() > 2 { 64 } else { 32 }
    }

    fn seconds(&self) -> impl Iterator<Item = f64> {
        self.threads.iter().map(|thread| thread.0)
    }

    /// The longest latencies, in milliseconds, of the threads whose longest the original's histogram does not hold.
    fn overflows_ms(&self) -> Vec<f64> {
        let most = ORIGINAL_BUCKETS * self.original_bucket_ns();
        self.threads.iter().filter(|thread| thread.1 >= most).map(|thread| thread.1 as f64 / 1e6).collect()
    }

    fn quantile_us(&self, percent: f64) -> f64 {
        quantile(&self.buckets, percent).map_or(0.0, |bucket| bucket.to_ns as f64 / 1e3)
    }
}

/// What all runs so far have come to.
#[derive(Default)]
pub struct History {
    /// Every thread's time, in seconds.
    seconds: Vec<f64>,
    /// Each run's median latency, in microseconds.
    medians_us: Vec<f64>,
}

impl History {
    pub fn add(&mut self, run: &Run) {
        self.seconds.extend(run.seconds());
        self.medians_us.push(run.quantile_us(50.0));
    }
}

/// The middle value; of an even number the mean of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count.is_multiple_of(2) => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
        count => sorted[count / 2],
    }
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn by(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

/// A run's figures; the help of the style says what they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    date: f64,
    threads: usize,
    in_flight: u64,
    per_second: f64,
    median_us: f64,
    megabits: f64,
    /// The least latency, the quantiles, the greatest.
    latencies_us: Vec<f64>,
    calls: u64,
    /// The least, the median and the greatest time of a thread.
    seconds: [f64; 3],
    overflows_ms: Vec<f64>,
    decimals: usize,
}

impl Columns {
    pub fn new(run: &Run, history: &History, quantiles: &[f64], by_average: bool) -> Self {
        let seconds: Vec<f64> = run.seconds().collect();
        let least = seconds.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let greatest = seconds.iter().copied().reduce(f64::max).unwrap_or(0.0);
        let all = if by_average { average(&history.seconds) } else { median(&history.seconds) };
        let ends = |bucket: Option<&Bucket>| bucket.map_or(0.0, |bucket| bucket.to_ns as f64 / 1e3);
        let inner = quantiles.iter().map(|&percent| run.quantile_us(percent));
        let latencies = [ends(run.buckets.first())].into_iter().chain(inner).chain([ends(run.buckets.last())]);
        Self {
            date: run.date,
            threads: run.threads.len(),
            in_flight: run.in_flight,
            per_second: by(run.calls as f64, all),
            median_us: median(&history.medians_us),
            megabits: by(run.bytes as f64 * 8.0 / 1e6, median(&seconds)),
            latencies_us: latencies.collect(),
            calls: run.calls,
            seconds: [least, median(&seconds), greatest],
            overflows_ms: run.overflows_ms(),
            decimals: decimals(run.original_bucket_ns()),
        }
    }

    /// The line, with its end.
    pub fn line(&self, is_extended: bool) -> String {
        let decimals = self.decimals;
        let mut line = format!("{:>10.0} {:>3} {:>4} {:>9.0}", self.date, self.threads, self.in_flight, self.per_second);
        line += &format!(" {:>9.decimals$} {:>8.1}", self.median_us, self.megabits);
        self.latencies_us.iter().for_each(|us| line += &format!(" {us:>9.decimals$}"));
        if is_extended {
            line += &format!(" {:>10}", self.calls);
            self.seconds.iter().for_each(|seconds| line += &format!(" {seconds:>9.6}"));
            self.seconds.iter().for_each(|&seconds| line += &format!(" {:>9.0}", by(self.calls as f64, seconds)));
        }
        if !self.overflows_ms.is_empty() {
            line += " *";
            self.overflows_ms.iter().for_each(|ms| line += &format!(" {ms:.1}"));
        }
        line + "\n"
    }
}

/// Decimals of a microsecond that buckets of so many nanoseconds are worth.
fn decimals(bucket_ns: u64) -> usize {
    match bucket_ns {
        ..10 => 2,
        10..100 => 1,
        _ => 0,
    }
}

/// The line of headings, with its end.
pub fn headings(quantiles: &[f64], by_average: bool, is_extended: bool) -> String {
    let rate = if by_average { "AvgRPC" } else { "MedRPC" };
    let mut line = format!("{:>10} {:>3} {:>4} {rate:>9} {:>9} {:>8}", "Date", "TD", "INF", "MedLat", "Mbps");
    let inner = quantiles.iter().map(|percent| format!("{percent}%"));
    let latencies = ["MinLat".to_owned()].into_iter().chain(inner).chain(["MaxLat".to_owned()]);
    latencies.for_each(|heading| line += &format!(" {heading:>9}"));
    if is_extended {
        line += &format!(" {:>10}", "TotalRPC");
        let more = ["MinTime", "MedTime", "MaxTime", "MinRPC", "MedRPC", "MaxRPC"];
        more.into_iter().for_each(|heading| line += &format!(" {heading:>9}"));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(from_ns: u64, to_ns: u64, count: u64) -> Bucket {
        Bucket { from_ns, to_ns, count }
    }

    fn run(threads: &[(f64, u64)]) -> Run {
        Run {
            date: 1_700_000_000.0,
            in_flight: 8,
            calls: 2_000_000,
            bytes: 144_000_000,
            threads: threads.to_vec(),
            buckets: vec![bucket(1_000, 1_000, 10), bucket(2_000, 2_009, 80), bucket(9_000, 9_999, 10)],
        }
    }

    #[test]
    fn each_column_is_as_it_is_defined() {
        let (first, second) = (run(&[(1.0, 5), (3.0, 6)]), run(&[(4.0, 7), (9.0, 8)]));
        let mut history = History::default();
        history.add(&first);
        let columns = Columns::new(&first, &history, &[10.0, 10.1, 90.0, 90.1], false);
        // 2,000,000 by the median of 1 and 3 s; 144 MB in 2 s.
        assert_eq!((columns.per_second, columns.median_us, columns.megabits), (1_000_000.0, 2.009, 576.0));
        assert_eq!(columns.latencies_us, [1.0, 1.0, 2.009, 2.009, 9.999, 9.999]);
        assert_eq!(columns.seconds, [1.0, 2.0, 3.0]);
        history.add(&second);
        let columns = Columns::new(&second, &history, &[], false);
        // All threads so far took 1, 3, 4, 9 s.
        assert_eq!(columns.per_second, 2_000_000.0 / 3.5);
        assert_eq!(Columns::new(&second, &history, &[], true).per_second, 2_000_000.0 / 4.25);
        assert_eq!(
            columns.line(true).split_whitespace().collect::<Vec<_>>()[8..],
            ["2000000", "4.000000", "6.500000", "9.000000", "500000", "307692", "222222"]
        );
    }

    #[test]
    fn what_the_original_does_not_hold_is_listed_for_each_thread() {
        let overflows = |run: Run| {
            let line = Columns::new(&run, &History::default(), &[], false).line(false);
            line.split_once(" * ").map(|(_, list)| list.trim().to_owned())
        };
        assert_eq!(overflows(run(&[(1.0, 268_435_455), (1.0, 5)])), None);
        assert_eq!(overflows(run(&[(1.0, 268_435_456), (1.0, 900_000_000)])).as_deref(), Some("268.4 900.0"));
        let more = [(1.0, 268_435_456), (1.0, 536_870_912), (1.0, 0)];
        assert_eq!(overflows(run(&more)).as_deref(), Some("536.9"), "buckets are twice as wide with more than two threads");
    }

    #[test]
    fn headings_stand_over_their_columns() {
        let run = run(&[(1.0, 5)]);
        for is_extended in [false, true] {
            let quantiles = [0.3, 50.0, 99.7];
            let line = Columns::new(&run, &History::default(), &quantiles, false).line(is_extended);
            let headings = headings(&quantiles, false, is_extended);
            assert_eq!(line.split_whitespace().count(), headings.split_whitespace().count());
            assert_eq!(line.len(), headings.len());
        }
    }

    #[test]
    fn decimals_follow_the_bucket() {
        assert_eq!([1, 9, 10, 32, 64, 99, 100].map(decimals), [2, 2, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn a_run_without_an_answer_has_a_line() {
        let empty = Run { calls: 0, bytes: 0, threads: Vec::new(), buckets: Vec::new(), ..run(&[]) };
        let mut history = History::default();
        history.add(&empty);
        let line = Columns::new(&empty, &history, &[50.0], false).line(true);
        assert!(!line.contains("NaN") && !line.contains("inf"), "{line}");
    }
}
