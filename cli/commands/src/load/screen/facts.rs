//! What there is to say about a run that goes on, in short pieces.

use super::flow::Field;
use corelane_load::report::{Progress, Second};
use corelane_load::text::figures::{count, errors, quantile, quantile_keys, rank, rate, span, time};
use ratatui::style::{Color, Modifier};

/// What stands where nothing was measured yet.
pub const NOTHING: &str = "nothing yet";

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
    let mean = mean(&progress.series).map(|mean| format!("{} mean", rate(mean)));
    let offered = progress.rate.map(|offered| format!("{} offered", rate(offered)));
    or_nothing([now, mean, offered].into_iter().flatten().map(Field::plain).collect())
}

/// The mean rate of the measured seconds, which begin at 0: answers of a second that has not ended are not counted yet.
fn mean(series: &[Second]) -> Option<f64> {
    let measured = || series.iter().filter(|second| second.at_s >= 0.0);
    let seconds: f64 = measured().map(|second| second.length_s).sum();
    let answered: f64 = measured().map(|second| second.requests_per_second * second.length_s).sum();
    (seconds > 0.0).then(|| answered / seconds)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_measured_seconds() {
        let second = |at_s: f64, length_s: f64, requests_per_second: f64| Second {
            at_s,
            length_s,
            requests_per_second,
            ..Second::default()
        };
        let series = [second(-1.0, 1.0, 7_000.0), second(0.0, 1.0, 1_000.0), second(1.0, 0.5, 400.0)];
        assert_eq!(mean(&series), Some(800.0));
        assert_eq!(mean(&series[..1]), None);
    }
}
