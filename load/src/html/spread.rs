//! Figures over several runs: each run a point, the median and its interval marked. For two targets, their ratios.

use super::axis::Axis;
use super::ink::Ink;
use super::plot::{self, Key, Mark, Plot};
use super::tables::table;
use crate::report::{Paired, Repeated, Report, Spread};
use crate::text::figures::{count, number, ratio};
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeMap;

/// What is drawn, where it was measured; the table has all.
const DRAWN: [&str; 9] = [
    "requests_per_second",
    "server_us_per_request",
    "latency_us.50",
    "latency_us.99",
    "latency_us.99.9",
    "latency_us.max",
    "service_us.99",
    "connect_us.99",
    "generator.us_per_request",
];

/// Most runs that are drawn.
const MOST_RUNS: usize = 100;

/// The axis of a figure reaches at least so far from its median, so that noise is not magnified.
const LEAST_REACH: f64 = 0.02;

/// Figures over several runs.
struct Figures<'a> {
    spreads: &'a BTreeMap<String, Spread>,
    print: fn(f64) -> String,
    /// A value that all are compared with.
    level: Option<f64>,
}

/// The figures of several runs.
pub fn repeated(repeated: &Repeated) -> Markup {
    let runs = values(&repeated.runs);
    let value = |name: &str| runs.iter().map(|run| figure(run, name)).collect();
    html! {
        section {
            h2 { "Spread over " (repeated.runs.len()) " runs" }
            p.remark { "From the first run at the top to the last at the bottom of each row." }
            (legend("run"))
            (of_runs(repeated).rows(value))
        }
    }
}

/// All figures of several runs.
pub fn table_of_runs(repeated: &Repeated) -> Markup {
    of_runs(repeated).table("Figures over the runs")
}

fn of_runs(repeated: &Repeated) -> Figures<'_> {
    Figures { spreads: &repeated.figures, print: number, level: None }
}

/// The ratios of two targets, round by round.
pub fn ratios(paired: &Paired) -> Markup {
    let side = |report: &Report| values(report.repeated.as_ref().map_or(&[], |repeated| &repeated.runs));
    let (a, b) = (side(&paired.a), side(&paired.b));
    let of_round = |(a, b): (&Value, &Value), name: &str| Some(figure(a, name)? / figure(b, name)?);
    let value = |name: &str| a.iter().zip(&b).map(|round| of_round(round, name)).collect();
    let figures = Figures { spreads: &paired.ratios, print: ratio, level: Some(1.0) };
    html! {
        section {
            h2 { "Ratios A / B over " (count(paired.rounds)) " rounds" }
            p.remark { "1 means that both are equal. From the first round at the top to the last at the bottom of each row." }
            (legend("round"))
            (figures.rows(value))
            (figures.table("Ratios A / B"))
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

impl Figures<'_> {
    fn rows(&self, values: impl Fn(&str) -> Vec<Option<f64>>) -> Markup {
        let measured = |name: &&'static str| Some((*name, self.spreads.get(*name)?));
        let drawn = DRAWN.iter().filter_map(measured).filter(|(_, spread)| spread.median.is_finite());
        html! {
            @if self.spreads.is_empty() { p.none { "There are no figures to compare." } }
            ul.rows {
                @for (name, spread) in drawn {
                    li {
                        p.row {
                            b { (name) } " " ((self.print)(spread.median))
                            span.quiet { " (" (self.interval(spread)) ")" }
                        }
                        (self.row(name, spread, &values(name)).image())
                    }
                }
            }
        }
    }

    fn interval(&self, spread: &Spread) -> String {
        format!("{} to {}", (self.print)(spread.low), (self.print)(spread.high))
    }

    fn row(&self, name: &str, spread: &Spread, values: &[Option<f64>]) -> Plot {
        let [median, least, greatest] = [spread.median, spread.least, spread.greatest].map(self.print);
        let interval = self.interval(spread);
        Plot {
            says: format!("{name}: median {median}, interval {interval}, all from {least} to {greatest}."),
            height: 170,
            x: self.axis(spread, values),
            y: Axis::unmarked(),
            marks: self.marks(spread, values),
        }
    }

    fn axis(&self, spread: &Spread, values: &[Option<f64>]) -> Axis {
        let Spread { median, least, greatest, low, high } = *spread;
        let reach = median.abs() * LEAST_REACH;
        let ends = [least, greatest, low, high, median - reach, median + reach].into_iter().chain(self.level);
        let all = ends.chain(values.iter().copied().flatten()).filter(|value| value.is_finite());
        let (from, to) = all.fold((median, median), |(from, to), value| (from.min(value), to.max(value)));
        let margin = (to - from) * 0.05;
        Axis::linear(from - margin, to + margin)
    }

    fn marks(&self, spread: &Spread, values: &[Option<f64>]) -> Vec<Mark> {
        let height = |index: usize| 1.0 - (index as f64 + 0.5) / values.len() as f64;
        let points = values.iter().enumerate().filter_map(|(index, value)| Some(((*value)?, height(index)))).collect();
        let is_known = spread.low.is_finite() && spread.high.is_finite();
        let interval = is_known.then_some(Mark::Band(Ink::Shade, spread.low, spread.high));
        let level = self.level.map(|level| Mark::Upright(Ink::Axis, level));
        let median = [Mark::Upright(Ink::Second, spread.median), Mark::Points(Ink::First, points)];
        interval.into_iter().chain(level).chain(median).collect()
    }

    fn table(&self, caption: &str) -> Markup {
        let row = |(name, spread): (&String, &Spread)| {
            let [median, least, greatest] = [spread.median, spread.least, spread.greatest].map(self.print);
            (name.clone(), vec![median, self.interval(spread), least, greatest])
        };
        table(caption, &["figure", "median", "90 % interval", "least", "greatest"], self.spreads.iter().map(row))
    }
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
        let figures =
            [("a<b", odd), ("latency_us.50", odd), ("latency_us.99", spread(f64::NAN)), ("latency_us.max", spread(0.0))];
        let figures = figures.map(|(name, spread)| (name.to_owned(), spread)).into();
        let odd = Repeated { figures, runs: vec![run(f64::NAN, 0.0)] };
        let text = repeated(&odd).into_string() + &table_of_runs(&odd).into_string();
        assert!(!text.contains("NaN") && !text.contains(">inf") && !text.contains("a<b"));
        assert!(text.contains("a&lt;b"));
    }
}
