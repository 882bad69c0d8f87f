//! Figures over several runs: each run a point, the median and its interval marked. For two targets, their ratios.

use super::axis::Axis;
use super::ink::Ink;
use super::number;
use super::plot::{self, Key, Mark, Plot};
use super::tables::table;
use crate::report::{Paired, Repeated, Report, Spread};
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeMap;

/// What is drawn first.
const FOREMOST: [&str; 7] = [
    "requests_per_second",
    "server_us_per_request",
    "latency_us.50",
    "latency_us.99",
    "latency_us.99.9",
    "service_us.99",
    "generator.us_per_request",
];

/// Most figures that are drawn; the table has them all.
const MOST_FIGURES: usize = 10;

/// Most runs that are drawn.
const MOST_RUNS: usize = 100;

/// The axis of a figure reaches at least so far from its median, so that noise is not magnified.
const LEAST_REACH: f64 = 0.02;

/// The figures of several runs.
pub fn repeated(repeated: &Repeated) -> Markup {
    let runs = values(&repeated.runs);
    let value = |name: &str| runs.iter().map(|run| figure(run, name)).collect();
    html! {
        section {
            h2 { "Spread over " (repeated.runs.len()) " runs" }
            p.remark { "From the first run at the top to the last at the bottom of each row." }
            (legend("run"))
            (rows(&repeated.figures, value, None))
            (table_of("Figures over the runs", &repeated.figures))
        }
    }
}

/// The ratios of two targets, round by round.
pub fn ratios(paired: &Paired) -> Markup {
    let side = |report: &Report| values(report.repeated.as_ref().map_or(&[], |repeated| &repeated.runs));
    let (a, b) = (side(&paired.a), side(&paired.b));
    let ratio = |(a, b): (&Value, &Value), name: &str| Some(figure(a, name)? / figure(b, name)?);
    let value = |name: &str| a.iter().zip(&b).map(|pair| ratio(pair, name)).collect();
    html! {
        section {
            h2 { "Ratios A / B over " (paired.rounds) " rounds" }
            p.remark { "1 means that both are equal. From the first round at the top to the last at the bottom of each row." }
            (legend("round"))
            (rows(&paired.ratios, value, Some(1.0)))
            (table_of("Ratios A / B", &paired.ratios))
        }
    }
}

fn legend(one: &'static str) -> Markup {
    plot::legend(&[
        (Key::Point, Ink::First, one),
        (Key::Line, Ink::Second, "median"),
        (Key::Area, Ink::Shade, "90 % interval of the median"),
    ])
}

fn values(runs: &[Report]) -> Vec<Value> {
    // A report that cannot be told as JSON has no figures to draw.
    runs.iter().take(MOST_RUNS).map(|run| serde_json::to_value(run).unwrap_or_default()).collect()
}

/// The figure of this name in a run: names of objects inside each other, joined by dots, that may hold dots themselves.
fn figure(run: &Value, name: &str) -> Option<f64> {
    if let Some(value) = run.get(name) {
        return value.as_f64();
    }
    name.match_indices('.').find_map(|(dot, _)| figure(run.get(&name[..dot])?, &name[dot + 1..]))
}

/// The figures to draw, the most telling first.
fn chosen(figures: &BTreeMap<String, Spread>) -> Vec<(&str, &Spread)> {
    let rank = |name: &str| FOREMOST.iter().position(|foremost| *foremost == name).unwrap_or(FOREMOST.len());
    let mut chosen: Vec<_> = figures.iter().map(|(name, spread)| (name.as_str(), spread)).collect();
    chosen.retain(|(_, spread)| spread.median.is_finite());
    chosen.sort_by_key(|(name, _)| rank(name));
    chosen.truncate(MOST_FIGURES);
    chosen
}

fn rows(figures: &BTreeMap<String, Spread>, values: impl Fn(&str) -> Vec<Option<f64>>, level: Option<f64>) -> Markup {
    let chosen = chosen(figures);
    html! {
        @if chosen.is_empty() { p.none { "There are no figures to compare." } }
        ul.rows {
            @for (name, spread) in chosen {
                li {
                    p.row {
                        b { (name) } " " (number::figure(spread.median))
                        span.quiet { " (" (number::figure(spread.low)) " to " (number::figure(spread.high)) ")" }
                    }
                    (row(name, spread, &values(name), level).image())
                }
            }
        }
    }
}

fn row(name: &str, spread: &Spread, values: &[Option<f64>], level: Option<f64>) -> Plot {
    let finite = |value: &f64| value.is_finite();
    let reach = spread.median.abs() * LEAST_REACH;
    let ends = [spread.least, spread.greatest, spread.low, spread.high, spread.median - reach, spread.median + reach];
    let all: Vec<f64> = ends.into_iter().chain(level).chain(values.iter().copied().flatten()).filter(finite).collect();
    let (least, greatest) =
        (all.iter().copied().fold(spread.median, f64::min), all.iter().copied().fold(spread.median, f64::max));
    let margin = (greatest - least) * 0.05;
    let height = |index: usize| 1.0 - (index as f64 + 0.5) / values.len() as f64;
    let points = values.iter().enumerate().filter_map(|(index, value)| Some(((*value)?, height(index)))).collect();
    let mut marks = Vec::new();
    if spread.low.is_finite() && spread.high.is_finite() {
        marks.push(Mark::Band(Ink::Shade, spread.low, spread.high));
    }
    marks.extend(level.map(|level| Mark::Upright(Ink::Axis, level)));
    marks.extend([Mark::Upright(Ink::Second, spread.median), Mark::Points(Ink::First, points)]);
    let [median, low, high, least_text, greatest_text] =
        [spread.median, spread.low, spread.high, spread.least, spread.greatest].map(number::figure);
    Plot {
        says: format!("{name}: median {median}, interval {low} to {high}, all from {least_text} to {greatest_text}."),
        height: 170,
        x: Axis::linear(least - margin, greatest + margin),
        y: Axis::unmarked(),
        marks,
    }
}

fn table_of(caption: &str, figures: &BTreeMap<String, Spread>) -> Markup {
    let row = |(name, spread): (&String, &Spread)| {
        let interval = format!("{} to {}", number::figure(spread.low), number::figure(spread.high));
        let [median, least, greatest] = [spread.median, spread.least, spread.greatest].map(number::figure);
        (name.clone(), vec![median, interval, least, greatest])
    };
    table(caption, &["figure", "median", "90 % interval", "least", "greatest"], figures.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64) -> Spread {
        Spread { median, least: median * 0.9, greatest: median * 1.1, low: median * 0.95, high: median * 1.05 }
    }

    fn run(rate: f64, us: f64) -> Report {
        let latency_us = [("99.9".to_owned(), us)].into();
        Report { requests_per_second: rate, latency_us, ..Report::default() }
    }

    fn points(text: &str) -> usize {
        text.matches("<circle").count() - text.matches("class=\"sample\"").count().min(1)
    }

    #[test]
    fn figures_are_found_by_name_with_dots_in_it() {
        let value = serde_json::to_value(run(5.0, 7.0)).unwrap();
        assert_eq!(figure(&value, "requests_per_second"), Some(5.0));
        assert_eq!(figure(&value, "latency_us.99.9"), Some(7.0));
        assert_eq!(figure(&value, "generator.us_per_request"), Some(0.0));
        for name in ["latency_us.99", "no", "no.such.figure", ".", "", "target"] {
            assert_eq!(figure(&value, name), None, "{name}");
        }
    }

    #[test]
    fn each_run_is_a_point_of_each_figure() {
        let figures = [("requests_per_second", 5.0), ("latency_us.99.9", 7.0)].map(|(name, m)| (name.to_owned(), spread(m)));
        let text = repeated(&Repeated { figures: figures.into(), runs: vec![run(5.0, 7.0), run(5.1, 7.2), run(4.9, 6.9)] });
        let text = text.into_string();
        assert!(text.contains("Spread over 3 runs"));
        assert_eq!(points(&text), 6);
        assert!(text.find("requests_per_second") < text.find("latency_us.99.9"));
    }

    #[test]
    fn ratios_are_points_too_and_one_is_marked() {
        let side = |rate| {
            let repeated = Repeated { runs: vec![run(rate, 1.0), run(rate, 0.0)], ..Repeated::default() };
            Report { repeated: Some(repeated), ..Report::default() }
        };
        let ratios_of: BTreeMap<_, _> = [("requests_per_second".to_owned(), spread(0.5))].into();
        let paired = Paired { a: side(1.0), b: side(2.0), ratios: ratios_of, rounds: 2, ..Paired::default() };
        let text = ratios(&paired).into_string();
        assert_eq!(points(&text), 2);
        assert!(text.contains("over 2 rounds") && text.contains(">\n1\n</text>"));
    }

    #[test]
    fn nothing_and_nonsense_are_fine() {
        assert!(repeated(&Repeated::default()).into_string().contains("no figures to compare"));
        let odd = Spread { median: 1.0, least: f64::NAN, greatest: f64::INFINITY, low: f64::NAN, high: 0.0 };
        let figures = [("a<b".to_owned(), odd), ("c".to_owned(), spread(f64::NAN)), ("d".to_owned(), spread(0.0))].into();
        let text = repeated(&Repeated { figures, runs: vec![run(f64::NAN, 0.0)] }).into_string();
        assert!(!text.contains("NaN") && !text.contains(">inf") && !text.contains("a<b"));
        assert!(text.contains("a&lt;b"));
    }
}
