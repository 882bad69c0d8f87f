//! What several runs come to: the medians of repeated runs, and the ratios of paired rounds.
//!
//! A figure is named by its path in the JSON document: `requests_per_second`, `latency_us.99.9`, `generator.us_per_request`.

use crate::report::{Flow, Generator, Handshakes, Opened, Paired, Quantiles, Repeated, Report, SCHEMA, Server, Spread};
use crate::stats::Estimate;
use std::collections::BTreeMap;

/// One run's value of each figure, or of each figure one run's ratio.
type Figures = BTreeMap<String, f64>;

/// A figure where it stands in a report.
enum FigureMut<'a> {
    Float(&'a mut f64),
    Count(&'a mut u64),
}

/// The median, the extremes and the bootstrap 90 % interval of the median; `None` of nothing.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let Estimate { median, low, high } = Estimate::of(values)?;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Spread { median, least, greatest, low, high })
}

/// Runs with the same settings as one report.
///
/// * Each figure is the median over the runs that have it, counts rounded to whole ones; so figures of the report need not
///   agree with each other as those of one run do. `repeated` has the spread of each, and the runs.
/// * `errors` are summed. `believable` is whether all runs are. `doubts` and `notes` say which runs they are from.
/// * Everything else (`settings`, `limit`, `series`, the curves, `generator.lanes`) is that of the median run by
///   `requests_per_second`: of an even number of runs the slower one in the middle, of equal ones the earlier.
/// * `started_unix_s` is that of the first run.
///
/// Of no runs it is an empty report that cannot be believed.
pub fn repeated(mut runs: Vec<Report>) -> Report {
    let Some(middle) = median_run(&runs) else { return nothing() };
    let figures = spreads(gathered(runs.iter_mut().map(figures)));
    let mut whole = Report {
        started_unix_s: runs[0].started_unix_s,
        errors: summed(&runs),
        believable: runs.iter().all(|run| run.believable),
        doubts: merged(&runs, |run| &run.doubts),
        notes: merged(&runs, |run| &run.notes),
        ..runs[middle].clone()
    };
    for (path, place) in places(&mut whole) {
        if let Some(spread) = figures.get(&path) {
            place.set(spread.median);
        }
    }
    whole.repeated = Some(Repeated { figures, runs });
    whole
}

/// Rounds of two targets under the same load: in each a measurement of the first and one of the second.
///
/// A ratio is that of the first to the second within a round, so what the host does to both cancels out: 0.5 says that the first
/// has half of it, which is better of `latency_us.*`, `server_us_per_request` and `generator.us_per_request` and worse of
/// `requests_per_second`. A figure that is zero or missing on a side of any round has no ratio, for it would be judged on fewer
/// rounds than `rounds` says.
pub fn paired(mut rounds: Vec<(Report, Report)>) -> Paired {
    let mut ratios = gathered(rounds.iter_mut().map(|(a, b)| round_ratios(a, b)));
    ratios.retain(|_, values| values.len() == rounds.len());
    let count = rounds.len() as u64;
    let (a, b): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
    let (a, b) = (repeated(a), repeated(b));
    Paired { schema: SCHEMA, believable: a.believable && b.believable, a, b, ratios: spreads(ratios), rounds: count }
}

/// Whether the rounds so far leave open which side is better: the interval of the deciding ratio has 1 in it. That is the server's CPU
/// time per request where it is known of both, else the rate.
pub fn is_open(rounds: &[(Report, Report)]) -> bool {
    let cost = |(a, b): &(Report, Report)| Some(a.server_us_per_request? / b.server_us_per_request?);
    let rate = |(a, b): &(Report, Report)| a.requests_per_second / b.requests_per_second;
    let costs: Option<Vec<f64>> = rounds.iter().map(cost).collect();
    let ratios = costs.unwrap_or_else(|| rounds.iter().map(rate).collect());
    Estimate::of(&ratios).is_none_or(|estimate| estimate.straddles(1.0))
}

fn nothing() -> Report {
    Report { schema: SCHEMA, doubts: vec!["there was no run".to_owned()], ..Report::default() }
}

fn median_run(runs: &[Report]) -> Option<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by(|&a, &b| runs[a].requests_per_second.total_cmp(&runs[b].requests_per_second));
    order.get(runs.len().saturating_sub(1) / 2).copied()
}

fn summed(runs: &[Report]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (kind, count) in runs.iter().flat_map(|run| &run.errors) {
        let sum: &mut u64 = sums.entry(kind.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
    sums
}

/// The sentences of all runs, each once, in the order in which they first come, with the numbers of the runs from 1.
fn merged(runs: &[Report], sentences: impl Fn(&Report) -> &[String]) -> Vec<String> {
    let mut found: Vec<(&String, Vec<String>)> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        for sentence in sentences(run) {
            let number = (index + 1).to_string();
            match found.iter_mut().find(|(known, _)| *known == sentence) {
                Some((_, numbers)) if numbers.last() == Some(&number) => {}
                Some((_, numbers)) => numbers.push(number),
                None => found.push((sentence, vec![number])),
            }
        }
    }
    let sentence = |(sentence, numbers): (&String, Vec<String>)| match numbers.len() {
        all if all == runs.len() => format!("every run: {sentence}"),
        1 => format!("run {}: {sentence}", numbers[0]),
        _ => format!("runs {}: {sentence}", numbers.join(", ")),
    };
    found.into_iter().map(sentence).collect()
}

fn round_ratios(a: &mut Report, b: &mut Report) -> Figures {
    let (mut a, b) = (figures(a), figures(b));
    a.retain(|path, _| is_compared(path));
    let ratio = |(path, a): (String, f64)| {
        let ratio = a / b.get(&path)?;
        (ratio > 0.0 && ratio.is_finite()).then_some((path, ratio))
    };
    a.into_iter().filter_map(ratio).collect()
}

fn is_compared(path: &str) -> bool {
    ["requests_per_second", "server_us_per_request", "generator.us_per_request"].contains(&path)
        || path.starts_with("latency_us.")
        || path.starts_with("flow.")
}

fn gathered(runs: impl Iterator<Item = Figures>) -> BTreeMap<String, Vec<f64>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (path, value) in runs.flatten() {
        all.entry(path).or_default().push(value);
    }
    all
}

fn spreads(figures: BTreeMap<String, Vec<f64>>) -> BTreeMap<String, Spread> {
    figures.into_iter().filter_map(|(path, values)| Some((path, spread(&values)?))).collect()
}

/// The figures that a run has; what is not finite is none.
fn figures(run: &mut Report) -> Figures {
    let values = places(run).into_iter().map(|(path, place)| (path, place.get()));
    values.filter(|(_, value)| value.is_finite()).collect()
}

impl FigureMut<'_> {
    fn get(self) -> f64 {
        match self {
            Self::Float(value) => *value,
            Self::Count(count) => *count as f64,
        }
    }

    fn set(self, to: f64) {
        match self {
            Self::Float(value) => *value = to,
            Self::Count(count) => *count = to.round() as u64,
        }
    }
}

/// Every figure of a run: the one list from which they are read and into which medians are written.
fn places(run: &mut Report) -> Vec<(String, FigureMut<'_>)> {
    use FigureMut::{Count, Float};
    let figures = [
        ("seconds", Some(Float(&mut run.seconds))),
        ("requests", Some(Count(&mut run.requests))),
        ("requests_per_second", Some(Float(&mut run.requests_per_second))),
        ("answered_in_window", Some(Count(&mut run.answered_in_window))),
        ("offered_per_second", run.offered_per_second.as_mut().map(Float)),
        ("not_sent", run.not_sent.as_mut().map(Count)),
        ("sent", Some(Count(&mut run.sent))),
        ("bytes_sent", Some(Count(&mut run.bytes_sent))),
        ("bytes_received", Some(Count(&mut run.bytes_received))),
        ("renewed", Some(Count(&mut run.renewed))),
        ("asked_again", Some(Count(&mut run.asked_again))),
        ("server_us_per_request", run.server_us_per_request.as_mut().map(Float)),
    ];
    let mut all = named(figures);
    all.extend(run.flow.as_mut().into_iter().flat_map(flow_places));
    all.extend(run.counted.iter_mut().map(|(name, count)| (format!("counted.{name}"), Count(count))));
    all.extend(under("latency_us", Some(&mut run.latency_us)));
    all.extend(under("service_us", run.service_us.as_mut()));
    all.extend(under("send_lag_us", run.send_lag_us.as_mut()));
    all.extend(under("connect_us", run.connect_us.as_mut()));
    all.extend(under("connection_us", run.connection_us.as_mut()));
    all.extend(under("response_us", run.response_us.as_mut()));
    all.extend(under("transfer_us", run.transfer_us.as_mut()));
    all.extend(under("handshake_us", run.handshake_us.as_mut()));
    all.extend(run.handshakes.as_mut().into_iter().flat_map(handshakes_places));
    all.extend(run.opened.as_mut().into_iter().flat_map(opened_places));
    all.extend(run.server.as_mut().into_iter().flat_map(server_places));
    all.extend(generator_places(&mut run.generator));
    all
}

fn flow_places(flow: &mut Flow) -> Vec<(String, FigureMut<'_>)> {
    use FigureMut::Float;
    named([
        ("flow.gigabits_per_second", Some(Float(&mut flow.gigabits_per_second))),
        ("flow.server_s_per_gib", flow.server_s_per_gib.as_mut().map(Float)),
        ("flow.generator_s_per_gib", flow.generator_s_per_gib.as_mut().map(Float)),
    ])
}

fn handshakes_places(handshakes: &mut Handshakes) -> Vec<(String, FigureMut<'_>)> {
    use FigureMut::Count;
    named([("handshakes.full", Some(Count(&mut handshakes.full))), ("handshakes.resumed", Some(Count(&mut handshakes.resumed)))])
}

fn opened_places(opened: &mut Opened) -> Vec<(String, FigureMut<'_>)> {
    use FigureMut::Count;
    named([
        ("opened.asked", Some(Count(&mut opened.asked))),
        ("opened.answered", Some(Count(&mut opened.answered))),
        ("opened.most_at_once", Some(Count(&mut opened.most_at_once))),
        ("opened.longest_burst", Some(Count(&mut opened.longest_burst))),
    ])
}

fn server_places(server: &mut Server) -> Vec<(String, FigureMut<'_>)> {
    use FigureMut::{Count, Float};
    let mut all = named([
        ("server.cpus_used", Some(Float(&mut server.cpus_used))),
        ("server.waiting_for_cpu", Some(Float(&mut server.waiting_for_cpu))),
        ("server.resident_bytes", Some(Count(&mut server.resident_bytes))),
        ("server.trains_dropped", server.trains_dropped.as_mut().map(Count)),
        ("server.bytes_per_connection", server.bytes_per_connection.as_mut().map(Float)),
    ]);
    all.extend(under("server.per_request", Some(&mut server.per_request)));
    all
}

fn generator_places(generator: &mut Generator) -> Vec<(String, FigureMut<'_>)> {
    use FigureMut::{Count, Float};
    named([
        ("generator.us_per_request", Some(Float(&mut generator.us_per_request))),
        ("generator.resident_bytes", Some(Count(&mut generator.resident_bytes))),
        ("generator.stolen", Some(Float(&mut generator.stolen))),
        ("generator.socket_buffer_drops", Some(Count(&mut generator.socket_buffer_drops))),
        ("generator.retransmissions", Some(Count(&mut generator.retransmissions))),
        ("generator.datagrams_refused", Some(Count(&mut generator.datagrams_refused))),
    ])
}

fn named<'a, const N: usize>(figures: [(&str, Option<FigureMut<'a>>); N]) -> Vec<(String, FigureMut<'a>)> {
    figures.into_iter().filter_map(|(path, place)| Some((path.to_owned(), place?))).collect()
}

fn under<'a>(path: &'a str, map: Option<&'a mut Quantiles>) -> impl Iterator<Item = (String, FigureMut<'a>)> {
    map.into_iter().flatten().map(move |(key, value)| (format!("{path}.{key}"), FigureMut::Float(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Lane, Point, Second, Settings};
    use proptest::prelude::*;
    use serde_json::Value;

    /// A run with all that a run can have, at so many requests a second; latencies are shares of `us`.
    fn run(requests_per_second: f64, us: f64) -> Report {
        let times = |scale: f64| Some(Quantiles::from([("50".to_owned(), us * scale), ("99.9".to_owned(), us * scale * 10.0)]));
        Report {
            schema: SCHEMA,
            workload: "echo".to_owned(),
            settings: Settings { mode: "closed".to_owned(), connections: 64, ..Settings::default() },
            seconds: 1.0,
            requests: requests_per_second as u64,
            requests_per_second,
            offered_per_second: Some(1_000.0),
            not_sent: Some(4),
            bytes_sent: 64 * requests_per_second as u64,
            bytes_received: 64 * requests_per_second as u64,
            errors: BTreeMap::from([("lost".to_owned(), 2), ("other".to_owned(), 0)]),
            latency_us: times(1.0).unwrap_or_default(),
            service_us: times(0.9),
            send_lag_us: times(0.1),
            connect_us: times(2.0),
            connection_us: times(3.0),
            response_us: times(0.8),
            transfer_us: times(0.1),
            opened: Some(Opened { asked: 10, ..Opened::default() }),
            server_us_per_request: Some(us / 4.0),
            server: Some(Server {
                pid: 7,
                bytes_per_connection: Some(500.0),
                per_request: BTreeMap::from([("sends".to_owned(), 0.5)]),
                ..Server::default()
            }),
            generator: Generator { us_per_request: us / 2.0, lanes: vec![Lane::default()], ..Generator::default() },
            believable: true,
            handshakes: Some(Handshakes::default()),
            counted: [("answers".to_owned(), 7)].into(),
            series: vec![Second { requests_per_second, ..Second::default() }],
            distribution: vec![Point { percent: 100.0, us }],
            ..Report::default()
        }
    }

    fn runs() -> Vec<Report> {
        [(900.0, 12.0), (1_000.0, 8.0), (800.0, 9.0), (1_100.0, 10.0)].map(|(rate, us)| run(rate, us)).to_vec()
    }

    fn figure(report: &Report, path: &str) -> Spread {
        report.repeated.as_ref().expect("repeated").figures[path]
    }

    /// Paths of the numbers in a document.
    fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Number(_) => found.push(path.trim_start_matches('.').to_owned()),
            Value::Object(fields) => fields.iter().for_each(|(key, value)| numbers(value, &format!("{path}.{key}"), found)),
            _ => {}
        }
    }

    #[test]
    fn every_number_that_a_run_measures_is_a_figure_by_its_path() {
        let mut run = run(1_000.0, 10.0);
        let mut expected = Vec::new();
        numbers(&serde_json::to_value(&run).expect("a document"), "", &mut expected);
        let asked = ["schema", "started_unix_s", "server.pid"];
        expected.retain(|path| !asked.contains(&path.as_str()) && !path.starts_with("settings.") && !path.starts_with("errors."));
        expected.sort();
        let found: Vec<String> = figures(&mut run).into_keys().collect();
        assert_eq!(found, expected);
        assert!(found.contains(&"latency_us.99.9".to_owned()));
    }

    #[test]
    fn figures_are_medians_and_have_their_spread() {
        let whole = repeated(runs());
        assert_eq!((whole.requests_per_second, whole.requests), (950.0, 950));
        assert_eq!((whole.latency_us["50"], whole.latency_us["99.9"]), (9.5, 95.0));
        assert_eq!((whole.server_us_per_request, whole.generator.us_per_request), (Some(9.5 / 4.0), 9.5 / 2.0));
        let rate = figure(&whole, "requests_per_second");
        assert_eq!((rate.median, rate.least, rate.greatest), (950.0, 800.0, 1_100.0));
        assert!(rate.least <= rate.low && rate.low < rate.median && rate.median < rate.high && rate.high <= rate.greatest);
        assert_eq!(figure(&whole, "latency_us.50").median, 9.5);
        assert_eq!(whole.repeated.expect("repeated").runs, runs());
    }

    #[test]
    fn counts_of_an_even_number_of_runs_are_rounded() {
        let counts = [10, 13].map(|requests| Report { requests, ..Report::default() });
        assert_eq!(repeated(counts.to_vec()).requests, 12);
    }

    #[test]
    fn what_is_no_figure_is_from_the_median_run() {
        let whole = repeated(runs());
        // Of 800, 900, 1,000 and 1,100 a second the slower one in the middle.
        assert_eq!(whole.series, runs()[0].series);
        assert_eq!(whole.distribution, runs()[0].distribution);
        assert_eq!(whole.settings, runs()[0].settings);
        let odd = repeated(runs()[1..].to_vec());
        assert_eq!((odd.requests_per_second, &odd.series), (1_000.0, &runs()[1].series));
    }

    #[test]
    fn errors_are_summed_and_the_start_is_the_first() {
        let mut runs = runs();
        runs[0].started_unix_s = 100.0;
        runs[3].started_unix_s = 103.0;
        runs[3].errors.insert("reset".to_owned(), u64::MAX);
        runs[2].errors.insert("reset".to_owned(), 1);
        let whole = repeated(runs);
        assert_eq!(whole.started_unix_s, 100.0);
        assert_eq!(Vec::from_iter(whole.errors.into_values()), [8, 0, u64::MAX]);
    }

    #[test]
    fn one_doubtful_run_makes_all_doubtful_and_is_named() {
        let mut runs = runs();
        assert!(repeated(runs.clone()).believable);
        runs[1].believable = false;
        runs[1].doubts = vec!["late".to_owned(), "busy".to_owned(), "late".to_owned()];
        runs[3].doubts = vec!["busy".to_owned()];
        runs.iter_mut().for_each(|run| run.notes.push("no BPF".to_owned()));
        let whole = repeated(runs);
        assert!(!whole.believable);
        assert_eq!(whole.doubts, ["run 2: late", "runs 2, 4: busy"]);
        assert_eq!(whole.notes, ["every run: no BPF"]);
    }

    #[test]
    fn one_run_repeats_itself() {
        let mut whole = repeated(vec![run(1_000.0, 10.0)]);
        assert_eq!(figure(&whole, "latency_us.50"), Spread { median: 10.0, least: 10.0, greatest: 10.0, low: 10.0, high: 10.0 });
        whole.repeated = None;
        assert_eq!(whole, run(1_000.0, 10.0));
    }

    #[test]
    fn no_run_cannot_be_believed() {
        let whole = repeated(Vec::new());
        assert!(!whole.believable && whole.repeated.is_none());
        assert_eq!(whole.doubts, ["there was no run"]);
        let none = paired(Vec::new());
        assert!(!none.believable && none.ratios.is_empty() && none.rounds == 0);
    }

    #[test]
    fn a_figure_that_some_runs_lack_is_the_median_of_the_others() {
        let mut runs = runs();
        runs[1].server_us_per_request = None;
        runs[2].latency_us.clear();
        runs[3].generator.us_per_request = f64::NAN;
        let whole = repeated(runs);
        assert_eq!(whole.server_us_per_request, Some(2.5));
        assert_eq!(whole.latency_us["50"], 10.0);
        assert_eq!(whole.generator.us_per_request, 4.5);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The host halves its speed in the second round; the ratios do not notice.
        let round = |host: f64| (run(1_000.0 / host, 5.0 * host), run(500.0 / host, 20.0 * host));
        let pair = paired(vec![round(1.0), round(2.0), round(1.0)]);
        let of = |path: &str| (pair.ratios[path].median, pair.ratios[path].low, pair.ratios[path].high);
        assert_eq!(of("requests_per_second"), (2.0, 2.0, 2.0));
        for path in ["latency_us.50", "latency_us.99.9", "server_us_per_request", "generator.us_per_request"] {
            assert_eq!(of(path), (0.25, 0.25, 0.25), "{path}");
        }
        assert_eq!((pair.ratios.len(), pair.rounds, pair.believable), (5, 3, true));
        assert_eq!((pair.a.requests_per_second, pair.b.requests_per_second), (1_000.0, 500.0));
        assert_eq!(pair.b.repeated.expect("repeated").runs.len(), 3);
    }

    #[test]
    fn the_ratio_is_the_median_of_the_ratios_not_the_ratio_of_the_medians() {
        let rates = [(1.0, 10.0), (10.0, 20.0), (100.0, 30.0)];
        let pair = paired(rates.map(|(a, b)| (run(a, 1.0), run(b, 1.0))).to_vec());
        assert_eq!(pair.ratios["requests_per_second"].median, 0.5);
        let (least, greatest) = (pair.ratios["requests_per_second"].least, pair.ratios["requests_per_second"].greatest);
        assert_eq!((least, greatest), (0.1, 100.0 / 30.0));
    }

    #[test]
    fn what_is_zero_or_missing_in_a_round_has_no_ratio() {
        let mut rounds = vec![(run(1_000.0, 10.0), run(1_000.0, 10.0)); 3];
        rounds[0].0.requests_per_second = 0.0;
        rounds[1].1.generator.us_per_request = 0.0;
        rounds[2].1.server_us_per_request = None;
        rounds[2].0.latency_us.remove("99.9");
        rounds[2].1.believable = false;
        let pair = paired(rounds);
        assert_eq!(Vec::from_iter(pair.ratios.keys()), ["latency_us.50"]);
        assert!(!pair.believable);
    }

    proptest! {
        // Each case draws some 40,000 resamples.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn figures_do_not_depend_on_the_order_and_quantiles_rise(
            values in prop::collection::vec((0.0..1e6, 0.001..1e6), 1..12),
        ) {
            let runs: Vec<Report> = values.iter().map(|&(rate, us)| run(rate, us)).collect();
            let whole = repeated(runs.clone());
            let turned = repeated(runs.into_iter().rev().collect());
            let (figures, other) = (whole.repeated.expect("repeated").figures, turned.repeated.expect("repeated").figures);
            for (path, spread) in &figures {
                let same = (spread.median, spread.least, spread.greatest);
                prop_assert_eq!(same, (other[path].median, other[path].least, other[path].greatest), "{}", path);
                prop_assert!(spread.least <= spread.low && spread.low <= spread.median, "{}", path);
                prop_assert!(spread.median <= spread.high && spread.high <= spread.greatest, "{}", path);
            }
            prop_assert!(whole.latency_us["50"] <= whole.latency_us["99.9"]);
        }

        #[test]
        fn turning_a_pair_around_turns_its_ratios(
            rates in prop::collection::vec((1.0..1e6, 1.0..1e6), 1..8),
        ) {
            let rounds = rates.iter().map(|&(a, b)| (run(a, a), run(b, b)));
            let turned = paired(rounds.clone().map(|(a, b)| (b, a)).collect());
            let pair = paired(rounds.collect());
            for (path, spread) in &pair.ratios {
                prop_assert!((spread.least * turned.ratios[path].greatest - 1.0).abs() < 1e-9, "{}", path);
            }
            prop_assert_eq!(pair.ratios.len(), turned.ratios.len());
        }
    }
}
