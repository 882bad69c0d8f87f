//! A run over time: rate, errors and latency on one axis, so that a stall is seen in all three.

use super::axis::Axis;
use super::ink::Ink;
use super::plot::{self, Key, MOST_POINTS, Mark, Plot, Points};
use crate::report::{Report, Second};
use crate::text::figures::{number, quantile};
use maud::{Markup, html};

/// The quantiles that are drawn, and how.
const QUANTILES: [(&str, Ink); 3] = [("50", Ink::First), ("99", Ink::Second), ("max", Ink::Third)];

/// Neighbouring seconds that make one point.
struct Span {
    from: f64,
    seconds: f64,
    /// Requests a second, and those of the slowest second in it.
    rate: f64,
    slowest: f64,
    /// Errors a second.
    errors: f64,
    /// The greatest of each of [`QUANTILES`].
    latency: [f64; 3],
}

impl Span {
    fn of(seconds: &[Second]) -> Self {
        let sum = |of: fn(&Second) -> f64| seconds.iter().map(of).filter(|value| value.is_finite()).sum::<f64>();
        let length = sum(|second| second.length_s);
        let greatest = |name| seconds.iter().filter_map(|second| second.latency_us.get(name)).copied().fold(f64::NAN, f64::max);
        Self {
            from: seconds.first().map_or(0.0, |second| second.at_s),
            seconds: length,
            rate: sum(|second| second.requests_per_second * second.length_s) / length,
            slowest: seconds.iter().map(|second| second.requests_per_second).fold(f64::INFINITY, f64::min),
            errors: sum(|second| second.errors.values().map(|count| *count as f64).sum()) / length,
            latency: QUANTILES.map(|(name, _)| greatest(name)),
        }
    }

    fn middle(&self) -> f64 {
        self.from + self.seconds / 2.0
    }
}

/// So many seconds that no curve has too many points; none of them lies in the warm-up and outside.
fn spans(series: &[Second]) -> Vec<Span> {
    let every = series.len().div_ceil(MOST_POINTS - 1).max(1);
    let (warm_up, measured) = series.split_at(series.partition_point(|second| second.at_s < 0.0));
    warm_up.chunks(every).chain(measured.chunks(every)).map(Span::of).collect()
}

/// What all panels share.
struct Panels<'a> {
    report: &'a Report,
    spans: Vec<Span>,
    x: Axis,
}

/// The figure; a sentence where no second was measured. Of several runs it is the median one that has seconds.
pub fn figure(report: &Report) -> Markup {
    html! {
        figure {
            h3 { "Over time" @if report.repeated.is_some() { ", in the median run" } }
            @if let Some(panels) = Panels::new(report) { (panels.markup()) } @else { p.none { "No second was measured." } }
        }
    }
}

impl<'a> Panels<'a> {
    fn new(report: &'a Report) -> Option<Self> {
        let spans = spans(&report.series);
        let all = || spans.iter().filter(|span| span.from.is_finite() && span.seconds.is_finite());
        let from = all().map(|span| span.from).reduce(f64::min)?;
        let to = all().map(|span| span.from + span.seconds).fold(from, f64::max);
        Some(Self { report, x: Axis::linear(from, to), spans })
    }

    fn markup(&self) -> Markup {
        let every = self.report.series.len().div_ceil(MOST_POINTS - 1);
        html! {
            (self.rate())
            (self.errors())
            (self.latency())
            p.axis.below { "seconds since measuring began" }
            @if every > 1 {
                p.remark { "Each point is " (every) " seconds: the mean of their rates, the greatest of their latencies." }
            }
        }
    }

    fn rate(&self) -> Markup {
        let asked = self.report.settings.rate.filter(|rate| self.report.settings.mode == "open" && rate.is_finite());
        let differs = self.spans.iter().any(|span| span.slowest < span.rate);
        let mut marks = vec![self.line(Ink::First, |span| span.rate)];
        marks.extend(differs.then(|| self.line(Ink::Third, |span| span.slowest)));
        marks.extend(asked.map(|rate| Mark::Level(Ink::Second, rate)));
        let mut keys = vec![(Key::Line, Ink::First, "answered")];
        keys.extend(differs.then_some((Key::Line, Ink::Third, "slowest second")));
        keys.extend(asked.map(|_| (Key::Line, Ink::Second, "asked for")));
        keys.extend(self.warms_up().then_some((Key::Area, Ink::Shade, "warm-up")));
        let says = format!("Requests answered per second over time: {}.", self.range(|span| span.rate));
        let rates = self.spans.iter().map(|span| span.rate).chain(asked);
        self.panel("requests per second", &keys, Axis::from_zero(rates), says, marks)
    }

    fn errors(&self) -> Markup {
        if !self.spans.iter().any(|span| span.errors > 0.0) {
            return html! { p.none { "No errors in any second." } };
        }
        let width = self.spans.iter().map(|span| span.seconds).fold(0.0, f64::max);
        let y = Axis::from_zero(self.spans.iter().map(|span| span.errors));
        let says = format!("Errors per second over time: {}.", self.range(|span| span.errors));
        let marks = vec![Mark::Bars(Ink::Bad, width, self.points(|span| span.errors))];
        self.panel("errors per second", &[(Key::Area, Ink::Bad, "errors of all kinds")], y, says, marks)
    }

    fn latency(&self) -> Markup {
        let values = || self.spans.iter().flat_map(|span| span.latency);
        if !values().any(f64::is_finite) {
            return html! { p.none { "Nothing was answered rightly, so there are no latencies." } };
        }
        let y = Axis::fitting(values());
        let lines = QUANTILES.iter().enumerate();
        let marks = lines.map(|(index, (_, ink))| self.line(*ink, |span| span.latency[index])).collect();
        let names = QUANTILES.map(|(name, _)| quantile(name));
        let keys: Vec<_> = QUANTILES.iter().zip(&names).map(|((_, ink), name)| (Key::Line, *ink, name.as_str())).collect();
        let title = if y.is_logarithmic() { "latency in microseconds, logarithmic" } else { "latency in microseconds" };
        let says = format!("Latency over time; p99 {} µs.", self.range(|span| span.latency[1]));
        self.panel(title, &keys, y, says, marks)
    }

    fn panel(&self, title: &str, keys: &[(Key, Ink, &str)], y: Axis, says: String, mut marks: Vec<Mark>) -> Markup {
        if self.warms_up() {
            marks.insert(0, Mark::Band(Ink::Shade, f64::NEG_INFINITY, 0.0));
            marks.insert(1, Mark::Upright(Ink::Axis, 0.0));
        }
        let plot = Plot { says, height: 360, x: self.x.clone(), y, marks };
        html! {
            h4 { (title) }
            (plot::legend(keys))
            (plot.image())
        }
    }

    fn line(&self, ink: Ink, value: impl Fn(&Span) -> f64) -> Mark {
        Mark::Line(ink, self.points(value))
    }

    fn points(&self, value: impl Fn(&Span) -> f64) -> Points {
        self.spans.iter().map(|span| (span.middle(), value(span))).collect()
    }

    fn warms_up(&self) -> bool {
        self.spans.iter().any(|span| span.from < 0.0)
    }

    /// From the least to the greatest outside of the warm-up, in words.
    fn range(&self, value: fn(&Span) -> f64) -> String {
        let values = self.spans.iter().filter(|span| span.from >= 0.0).map(value);
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let Some(least) = values.iter().copied().reduce(f64::min) else { return "nothing".to_owned() };
        let greatest = values.iter().copied().fold(least, f64::max);
        format!("from {} to {}", number(least), number(greatest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at_s: f64, rate: f64) -> Second {
        let latency_us = [("50", rate), ("99", rate * 2.0)].map(|(name, us)| (name.to_owned(), us)).into();
        Second { at_s, length_s: 1.0, requests_per_second: rate, latency_us, ..Second::default() }
    }

    fn report(seconds: impl Iterator<Item = Second>) -> Report {
        Report { series: seconds.collect(), ..Report::default() }
    }

    #[test]
    fn an_hour_is_thinned_out_but_its_stall_is_kept() {
        let mut series: Vec<_> = (-20..3600).map(|at| second(f64::from(at), 100.0)).collect();
        series[1000] = second(980.0, 0.0);
        series[1000].latency_us.insert("99".to_owned(), 9e6);
        let spans = spans(&series);
        assert!(spans.len() <= MOST_POINTS);
        assert!(spans.iter().all(|span| span.from >= 0.0 || span.from + span.seconds <= 0.0));
        assert_eq!(spans.iter().map(|span| span.latency[1]).fold(0.0, f64::max), 9e6);
        assert_eq!(spans.iter().map(|span| span.slowest).fold(f64::INFINITY, f64::min), 0.0);
        let text = figure(&Report { series, ..Report::default() }).into_string();
        assert!(text.contains("Each point is 11 seconds") && text.contains("slowest second"));
    }

    #[test]
    fn one_second_is_a_figure_and_none_is_a_sentence() {
        assert!(figure(&Report::default()).into_string().contains("No second was measured"));
        let text = figure(&report([second(0.0, 5.0)].into_iter())).into_string();
        assert!(text.contains("<svg") && text.contains("No errors in any second"));
        assert!(!text.contains("warm-up") && !text.contains("Each point is"));
    }

    #[test]
    fn seconds_without_length_or_answer_are_gaps() {
        let empty = Second { at_s: 0.0, ..Second::default() };
        let text = figure(&report([empty, second(0.0, 5.0)].into_iter())).into_string();
        assert!(!text.contains("NaN") && !text.contains("inf"));
        let silent = Second { length_s: 1.0, ..Second::default() };
        assert!(figure(&report([silent].into_iter())).into_string().contains("no latencies"));
    }

    #[test]
    fn errors_are_bars_on_the_same_axis_and_the_warm_up_is_shaded() {
        let mut bad = second(1.0, 5.0);
        bad.errors.insert("reset".to_owned(), 7);
        let text = figure(&report([second(-1.0, 5.0), second(0.0, 5.0), bad].into_iter())).into_string();
        let rectangles = |ink: Ink| text.matches(&format!("fill=\"{}\" stroke=\"none\"", ink.attribute())).count();
        assert_eq!(rectangles(Ink::Shade), 3);
        assert!(rectangles(Ink::Bad) >= 1);
        assert!(text.contains("Errors per second over time: from 0 to 7.00."));
    }
}
