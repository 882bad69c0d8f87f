//! What there is to say about a run that goes on, in short pieces.

use super::flow::Field;
use corelane_load::report::{Progress, Second};
use corelane_load::text::figures::{count, errors, quantile, quantile_keys, rank, rate, span, time};
use ratatui::style::{Color, Modifier};

/// What stands where nothing was measured yet.
const NOTHING: &str = "nothing yet";

/// What the run is doing, which run it is, how long it has measured.
pub fn phase(progress: &Progress) -> Vec<Field> {
    let (run, runs) = progress.run;
    let mut fields = vec![Field::styled(&progress.phase, Modifier::BOLD)];
    if runs > 1 {
        fields.push(Field::plain(format!("run {} of {}", count(run), count(runs))));
    }
    if progress.elapsed_s >= 1.0 {
        fields.push(Field::plain(format!("{} measured", span(progress.elapsed_s))));
    }
    fields
}

/// How long it will take.
pub fn left(progress: &Progress) -> Option<String> {
    progress.left_s.map(|seconds| format!("{} left", span(seconds.max(0.0))))
}

/// The rate of the last second, on the average, and as asked for.
pub fn rates(progress: &Progress) -> Vec<Field> {
    let now = progress.series.last().map(|second| format!("{} now", rate(second.requests_per_second)));
    // Whole seconds only: the one that goes on is not told yet.
    let measured = || progress.series.iter().filter(|second| second.at_s >= 0.0);
    let length: f64 = measured().map(|second| second.length_s).sum();
    let requests: f64 = measured().map(|second| second.requests_per_second * second.length_s).sum();
    let mean = (length > 0.0).then(|| format!("{} mean", rate(requests / length)));
    let offered = progress.rate.map(|offered| format!("{} offered", rate(offered)));
    or_nothing([now, mean, offered].into_iter().flatten().map(Field::plain).collect())
}

/// How much was done, and with what.
pub fn state(progress: &Progress) -> Vec<Field> {
    let (open, wanted) = progress.connections;
    let texts = [
        Some(format!("{} answered", count(progress.requests))),
        Some(format!("{} of {} connections", count(open), count(wanted))),
        progress.lag_us.map(|us| format!("send lag {}", time(us))),
    ];
    texts.into_iter().flatten().map(Field::plain).collect()
}

/// The quantiles so far, and the greatest.
pub fn latency(progress: &Progress) -> Vec<Field> {
    let told = |key: &&str| rank(key).is_some() || *key == "max";
    let keys = quantile_keys(&[&progress.latency_us]).into_iter().filter(told);
    let text = |key: &str| format!("{} {}", quantile(key), progress.latency_us.get(key).map_or_else(String::new, |&us| time(us)));
    or_nothing(keys.map(|key| Field::plain(text(key))).collect())
}

/// The errors that were met.
pub fn failures(progress: &Progress) -> Vec<Field> {
    let met: Vec<Field> = errors(&progress.errors)
        .into_iter()
        .map(|(kind, times)| Field::styled(format!("{kind} {}", count(times)), Color::Red))
        .collect();
    if met.is_empty() { vec![Field::plain("none")] } else { met }
}

/// The quantile of each second that is plotted: the 99th percentile, or else the highest that there is.
pub fn tail(series: &[Second]) -> &str {
    let keys = quantile_keys(&series.iter().map(|second| &second.latency_us).collect::<Vec<_>>());
    let highest = || keys.iter().rfind(|key| rank(key).is_some()).copied().unwrap_or("max");
    if keys.contains(&"99") { "99" } else { highest() }
}

fn or_nothing(fields: Vec<Field>) -> Vec<Field> {
    if fields.is_empty() { vec![Field::plain(NOTHING)] } else { fields }
}
