//! Axes: which values they hold, and which of them are labelled.

use super::number;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// From this ratio of the greatest to the least on, values stand on a logarithmic axis.
const LOGARITHMIC_FROM: f64 = 30.0;

/// About as many labels has an axis: so they do not touch on a narrow page.
const LABELS: f64 = 5.0;

/// Most nines of a percentile that are shown: nine are one request of a thousand million.
const NINES: f64 = 9.0;

/// Values above this lie at the end of the axis, so that sums of places stay finite.
const GREATEST: f64 = 1e300;

/// An axis. Values are laid out by their *place*: the value itself or its logarithm. What lies outside is put at the edge.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Place where it begins.
    low: f64,
    /// Place where it ends; above `low`.
    high: f64,
    /// Values with a label.
    pub ticks: Vec<(f64, String)>,
    scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Linear,
    Logarithmic,
    /// Of 1 / (1 - share): each step is one more nine.
    Nines,
}

impl Axis {
    /// From `low` to `high`; a span of nothing is widened.
    pub fn linear(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        let step = step((high - low) / LABELS);
        let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
        let ticks = (first..=last).map(|count| count as f64 * step).map(|value| (value, number::short(value)));
        Self { low, high, ticks: ticks.collect(), scale: Scale::Linear }
    }

    /// From nought to a little above the greatest of the values.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let greatest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        Self::linear(0.0, if greatest > 0.0 { greatest.min(GREATEST) * 1.06 } else { 1.0 })
    }

    /// Logarithmic where the values span that much, else from nought.
    pub fn fitting(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = values.iter().copied().fold(0.0, f64::max);
        if greatest > least * LOGARITHMIC_FROM { Self::logarithmic(least, greatest) } else { Self::from_zero(values.into_iter()) }
    }

    fn logarithmic(least: f64, greatest: f64) -> Self {
        let margin = 0.04 * (greatest / least).log10();
        let (low, high) = (least.log10() - margin, greatest.log10() + margin);
        let every = ((high - low) / LABELS).ceil() as i32;
        let steps: &[f64] = if high - low < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = (low.floor() as i32..=high.ceil() as i32).filter(|decade| decade % every == 0);
        let values = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        let ticks = values.filter(|value| (low..=high).contains(&value.log10())).map(|value| (value, number::short(value)));
        let ticks = ticks.collect();
        Self { low, high, ticks, scale: Scale::Logarithmic }
    }

    /// Percentiles up to the greatest of these below 100.
    pub fn percentiles(percents: impl Iterator<Item = f64>) -> Self {
        let nines = percents.filter(|percent| *percent < 100.0).map(nines).fold(1.0, f64::max);
        let high = nines.clamp(1.0, NINES) * 1.04;
        let half = (high < 5.0).then(|| (50.0, "50 %".to_owned()));
        let ticks = (0..=high as i32).map(|count| (100.0 - 10f64.powi(2 - count), percentile(count)));
        Self { low: 0.0, high, ticks: ticks.chain(half).collect(), scale: Scale::Nines }
    }

    /// Things that are counted from nought: each has a label where there is room.
    pub fn numbered(count: usize) -> Self {
        let every = count.div_ceil(12).max(1);
        let ticks = (0..count).step_by(every).map(|index| (index as f64, index.to_string())).collect();
        Self { low: -0.5, high: count.max(1) as f64 - 0.5, ticks, scale: Scale::Linear }
    }

    /// An axis from 0 to 1 that nobody reads values from.
    pub fn unmarked() -> Self {
        Self { low: 0.0, high: 1.0, ticks: Vec::new(), scale: Scale::Linear }
    }

    /// With all labels followed by this.
    pub fn with_unit(mut self, unit: &str) -> Self {
        self.ticks.iter_mut().for_each(|(_, label)| label.push_str(unit));
        self
    }

    /// Whether it is logarithmic, for the title.
    pub fn is_logarithmic(&self) -> bool {
        self.scale == Scale::Logarithmic
    }

    fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Nines => nines(value),
        };
        place.clamp(self.low, self.high)
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (self.place(*value) - self.low) / (self.high - self.low);
        from + (f64::from(to - from) * share).round() as i32
    }

    /// All labels, whatever was hinted at; they are few.
    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        let light = hint.weight().allow_light_points();
        if light { Vec::new() } else { self.ticks.iter().map(|tick| tick.0).collect() }
    }

    fn range(&self) -> Range<f64> {
        f64::NEG_INFINITY..f64::INFINITY
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let label = self.ticks.iter().find(|tick| tick.0 == *value).map(|(_, label)| label.clone());
        label.unwrap_or_default()
    }
}

/// The least of 1, 2, 5, 10, 20, ... times a power of ten that is not below `least`.
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least);
    factor.unwrap_or(10.0) * power
}

/// How many nines a percentile has: 1 for 90, 3 for 99.9.
fn nines(percent: f64) -> f64 {
    -(1.0 - percent / 100.0).max(1e-12).log10()
}

/// `0 %`, `90 %`, `99 %`, `99.9 %`, ...
fn percentile(nines: i32) -> String {
    match nines {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => format!("99.{}", "9".repeat(more as usize - 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn linear_axes_have_round_labels() {
        assert_eq!(labels(&Axis::from_zero([0.0, 97.0].into_iter())), ["0", "50", "100"]);
        assert_eq!(labels(&Axis::linear(-3.0, 10.0)), ["0", "5", "10"]);
        assert_eq!(labels(&Axis::linear(0.98, 1.03)), ["0.98", "1", "1.02"]);
    }

    #[test]
    fn axes_of_nothing_still_have_a_span() {
        let none = std::iter::empty::<f64>;
        for axis in [Axis::from_zero(none()), Axis::fitting(none()), Axis::percentiles(none()), Axis::numbered(0)] {
            assert!(axis.high > axis.low);
        }
        let one = Axis::linear(5.0, 5.0);
        assert!(one.high > one.low);
        assert!(Axis::fitting([f64::NAN, f64::INFINITY].into_iter()).high.is_finite());
    }

    #[test]
    fn a_wide_span_is_logarithmic() {
        assert!(!Axis::fitting([10.0, 200.0].into_iter()).is_logarithmic());
        let wide = Axis::fitting([10.0, 1000.0].into_iter());
        assert!(wide.is_logarithmic());
        assert_eq!(labels(&wide), ["10", "20", "50", "100", "200", "500", "1,000"]);
        assert_eq!(wide.place(100.0), 2.0);
    }

    #[test]
    fn labels_are_few_whatever_the_span() {
        for high in [1e-9, 1e-3, 1.0, 7.0, 1e5, 3.6e9, 1e18, 1e300] {
            assert!(Axis::from_zero([high].into_iter()).ticks.len() <= 8, "linear to {high}");
            assert!(Axis::fitting([high / 1e12, high].into_iter()).ticks.len() <= 9, "logarithmic to {high}");
        }
        assert!(Axis::numbered(1000).ticks.len() <= 12);
    }

    #[test]
    fn percentiles_go_on_by_nines() {
        let axis = Axis::percentiles([0.0, 50.0, 99.95, 100.0].into_iter());
        assert_eq!(labels(&axis), ["0 %", "90 %", "99 %", "99.9", "50 %"]);
        assert!((axis.place(99.0) - 2.0).abs() < 1e-9);
        assert_eq!(axis.place(100.0), axis.high);
        assert!(Axis::percentiles([99.999_999_999_99].into_iter()).high < 10.0);
    }
}
