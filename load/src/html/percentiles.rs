//! Times by percentile: the curve that shows what the quantiles leave out.

use super::axis::Axis;
use super::ink::Ink;
use super::plot::{self, Key, MOST_POINTS, Mark, Plot};
use crate::report::{Point, Quantiles, Report};
use crate::text::figures::{number, rank};
use maud::{Markup, html};

/// A named curve.
pub struct Curve<'a> {
    /// What it is a distribution of.
    pub name: String,
    /// What it is drawn in.
    pub ink: Ink,
    /// Percent and microseconds.
    pub points: plot::Points,
    /// The same of each run, where there are many.
    pub runs: Vec<&'a Report>,
}

/// Most runs whose curves are drawn.
const MOST_RUNS: usize = 20;

impl<'a> Curve<'a> {
    /// Latency of a report.
    pub fn latency(report: &'a Report, name: String, ink: Ink) -> Self {
        let runs = report.repeated.iter().flat_map(|repeated| &repeated.runs).take(MOST_RUNS).collect();
        Self { name, ink, points: points(&report.distribution, &report.latency_us), runs }
    }

    /// Service time of a report, if it has one.
    pub fn service(report: &Report, name: &str, ink: Ink) -> Option<Self> {
        let points = points(&report.service_distribution, report.service_us.as_ref()?);
        Some(Self { name: name.to_owned(), ink, points, runs: Vec::new() })
    }

    fn faint(&self) -> impl Iterator<Item = plot::Points> {
        self.runs.iter().map(|run| points(&run.distribution, &run.latency_us))
    }
}

/// The curves in one figure; a sentence where nothing was answered rightly.
pub fn figure(title: &str, curves: &[Curve]) -> Markup {
    let all: Vec<_> = curves.iter().flat_map(|curve| curve.faint().chain([curve.points.clone()])).flatten().collect();
    let is_repeated = curves.iter().any(|curve| !curve.runs.is_empty());
    let mut keys: Vec<_> = curves.iter().map(|curve| (Key::Line, curve.ink, curve.name.as_str())).collect();
    keys.extend(is_repeated.then_some((Key::Line, Ink::Faint, "each run")));
    let y = Axis::fitting(all.iter().map(|point| point.1));
    html! {
        figure {
            h3 { (title) }
            @if all.is_empty() { p.none { "Nothing was answered rightly, so there are no times." } } @else {
                (plot::legend(&keys))
                p.axis { "microseconds" @if y.is_logarithmic() { ", logarithmic" } }
                (drawn(curves, &all, y).image())
                p.axis.below { "share of the requests that took at most this long; each nine as wide as the one before" }
            }
        }
    }
}

fn drawn(curves: &[Curve], all: &[(f64, f64)], y: Axis) -> Plot {
    let faint = curves.iter().flat_map(Curve::faint).map(|points| Mark::Line(Ink::Faint, points));
    let lines = curves.iter().map(|curve| Mark::Line(curve.ink, curve.points.clone()));
    let names: Vec<_> = curves.iter().map(|curve| format!("{}: {}", curve.name, in_words(&curve.points))).collect();
    Plot {
        says: format!("Curves of time by percentile. {}.", names.join(". ")),
        height: 660,
        x: Axis::percentiles(all.iter().map(|point| point.0)),
        y,
        marks: faint.chain(lines).collect(),
    }
}

/// The curve at a few percentiles, for those who do not see it.
fn in_words(points: &[(f64, f64)]) -> String {
    let at = |percent: f64| points.iter().find(|point| point.0 >= percent).map(|point| (percent, point.1));
    let words = [50.0, 99.0, 99.9].into_iter().filter_map(at);
    let words: Vec<_> = words.map(|(percent, us)| format!("{percent} % within {} µs", number(us))).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

/// A curve's points, thinned out; those of the quantiles where there is no curve.
fn points(distribution: &[Point], quantiles: &Quantiles) -> plot::Points {
    if distribution.is_empty() {
        return of_quantiles(quantiles);
    }
    let every = distribution.len().div_ceil(MOST_POINTS - 1);
    let chosen = distribution.iter().step_by(every).chain(distribution.last());
    let mut points: plot::Points = chosen.map(|point| (point.percent, point.us)).collect();
    points.dedup();
    points
}

fn of_quantiles(quantiles: &Quantiles) -> plot::Points {
    let ends = [("min", 0.0), ("max", 100.0)].map(|(name, percent)| Some((percent, *quantiles.get(name)?)));
    let mut points = by_percent(quantiles);
    points.extend(ends.into_iter().flatten());
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// The quantiles that have a percentile for a name, in its order.
fn by_percent(quantiles: &Quantiles) -> plot::Points {
    let parsed = |(name, us): (&String, &f64)| Some((rank(name)?, *us));
    let mut points: plot::Points = quantiles.iter().filter_map(parsed).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(points: usize) -> Vec<Point> {
        let at = |index: usize| Point { percent: 100.0 * index as f64 / points as f64, us: index as f64 };
        (1..=points).map(at).collect()
    }

    fn quantiles(pairs: &[(&str, f64)]) -> Quantiles {
        pairs.iter().map(|(name, us)| ((*name).to_owned(), *us)).collect()
    }

    #[test]
    fn long_curves_are_thinned_out_and_keep_their_ends() {
        for length in [1, 2, MOST_POINTS, 100_000] {
            let whole = distribution(length);
            let points = points(&whole, &Quantiles::new());
            assert!(points.len() <= MOST_POINTS && points.len() >= length.min(MOST_POINTS / 2), "{length}: {}", points.len());
            assert_eq!(points[0].1, whole[0].us);
            assert_eq!(points[points.len() - 1].1, whole[length - 1].us);
        }
    }

    #[test]
    fn without_a_curve_the_quantiles_make_one() {
        let quantiles =
            quantiles(&[("99.9", 4.0), ("50", 2.0), ("9", 1.5), ("min", 1.0), ("max", 5.0), ("mean", 2.5), ("NaN", 7.0)]);
        assert_eq!(points(&[], &quantiles), [(0.0, 1.0), (9.0, 1.5), (50.0, 2.0), (99.9, 4.0), (100.0, 5.0)]);
    }

    #[test]
    fn nothing_answered_is_said() {
        let report = Report::default();
        let text = figure("Times", &[Curve::latency(&report, "latency".into(), Ink::First)]).into_string();
        assert!(text.contains("Nothing was answered rightly"));
        assert!(!text.contains("<svg"));
    }

    #[test]
    fn a_curve_is_told_in_words() {
        assert_eq!(in_words(&[(10.0, 1.0), (50.0, 2.0), (99.5, 1234.6)]), "50 % within 2.00 µs, 99 % within 1,235 µs");
        assert_eq!(in_words(&[]), "nothing");
    }
}
