//! A record's verdicts as a plot: where each figure, with its interval, lies by its bar.

use std::fmt::Write;

use super::bars::{Limit, Word};
use super::judged::Judged;

/// Width of a plot in its own units, and the ends of the part in which marks lie.
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 500.0;
const RIGHT: f64 = 780.0;

/// Height of a line, and what stands above and below all lines.
const LINE: f64 = 22.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 44.0;

/// Letters for which there is room left of the marks, and what makes a longer name fit.
const FULL: usize = 72;
const FIT: &str = " textLength=\"480\" lengthAdjust=\"spacingAndGlyphs\"";

/// The least part of a bar that is shown as what it is; what lies below is put at the edge.
const LEAST: f64 = 0.01;

/// Where the axis may have its numbers: parts of the bar.
const NUMBERS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 5.0, 10.0, 20.0];

/// Colours for light and for dark; the shape of a mark says the same as its colour.
const STYLE: &str = "text{font:13px sans-serif;fill:#1b222b}line{stroke:#6b7683}\
    .met{stroke:#0062a3;fill:#0062a3}.MISSED{stroke:#a81c3c;fill:#a81c3c}.open{stroke:#b84a00;fill:none}.bar{stroke-width:2}.number{stroke:#dfe3e8}\
    @media(prefers-color-scheme:dark){text{fill:#e5eaef}.met{stroke:#62b9f0;fill:#62b9f0}.MISSED{stroke:#ff869a;fill:#ff869a}\
    .open{stroke:#f5a83c}.number{stroke:#333b45}}";

/// From a part of the bar to a place across the plot, by its logarithm.
struct Axis {
    low: f64,
    high: f64,
}

/// The plot of a record, as SVG.
pub fn svg(name: &str, judged: &[Judged]) -> String {
    let axis = Axis::over(judged);
    let height = ABOVE + LINE * judged.len() as f64 + BELOW;
    let title = format!("{name}: each figure by its bar, with its 90 % interval");
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\">\n\
        <style>{STYLE}</style>\n<text x=\"12\" y=\"20\">{0}</text>\n",
        escaped(&title)
    );
    axis.draw(&mut svg, height - BELOW);
    for (index, judged) in judged.iter().enumerate() {
        mark(&mut svg, judged, &axis, ABOVE + LINE * (index as f64 + 0.5));
    }
    let (middle, bottom) = (f64::midpoint(LEFT, RIGHT), height - 8.0);
    svg + &format!(
        "<text x=\"{middle:.1}\" y=\"{bottom:.1}\" text-anchor=\"middle\">part of the bar; left of the thick line keeps it</text>\n</svg>\n"
    )
}

/// A verdict's line: its name, its mark and its words.
fn mark(svg: &mut String, judged: &Judged, axis: &Axis, y: f64) {
    let (class, baseline) = (judged.word.to_string(), y + 4.5);
    let (label, words) = (escaped(&format!("{}: {}", judged.cell, judged.figure)), escaped(&words(judged)));
    let [low, high] = ends(judged).map(|part| axis.place(part));
    let x = axis.place(part_of(judged.limit, judged.value));
    let shape = match judged.word {
        Word::Met => format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        Word::Open => format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" stroke-width=\"2\"/>"),
        Word::Missed => {
            format!("<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\"/>", x - 4.0, y - 4.0)
        }
    };
    let fit = if label.chars().count() > FULL { FIT } else { "" };
    // Writing to a string does not fail.
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{baseline:.1}\" text-anchor=\"end\"{fit}>{label}</text>\
        <line class=\"{class}\" x1=\"{low:.1}\" y1=\"{y:.1}\" x2=\"{high:.1}\" y2=\"{y:.1}\" stroke-width=\"2\"/>{shape}\
        <text x=\"{:.1}\" y=\"{baseline:.1}\">{words}</text>",
        LEFT - 10.0,
        RIGHT + 10.0,
    );
}

fn words(judged: &Judged) -> String {
    format!("{}, {}: {}", judged.value, judged.limit, judged.word)
}

/// Both ends of the interval as parts of the bar; of a figure without one, the figure.
fn ends(judged: &Judged) -> [f64; 2] {
    let ends = judged.interval.unwrap_or([judged.value; 2]).map(|value| part_of(judged.limit, value));
    [ends[0].min(ends[1]), ends[0].max(ends[1])]
}

/// What a value is of its bar: 1 at the bar, and less where it is kept.
fn part_of(limit: Limit, value: f64) -> f64 {
    let part = match limit {
        Limit::AtMost(bar) | Limit::Under(bar) => value / bar,
        Limit::AtLeast(bar) => bar / value,
    };
    if part.is_finite() { part } else { f64::MAX }
}

impl Axis {
    /// As far as the figures go, and around the bar in any case.
    fn over(judged: &[Judged]) -> Self {
        let all = || judged.iter().flat_map(ends);
        let (low, high) = (all().fold(0.7, f64::min), all().fold(1.4, f64::max));
        Self { low: (low / 1.1).max(LEAST), high: (high * 1.1).min(NUMBERS[NUMBERS.len() - 1]) }
    }

    fn place(&self, part: f64) -> f64 {
        let share = |part: f64| (part / self.low).ln() / (self.high / self.low).ln();
        LEFT + (RIGHT - LEFT) * share(part.clamp(self.low, self.high))
    }

    /// Numbers below `bottom`, each with a line up to the top, and the bar.
    fn draw(&self, svg: &mut String, bottom: f64) {
        let mut last = f64::NEG_INFINITY;
        for number in NUMBERS.into_iter().filter(|number| (self.low..=self.high).contains(number)) {
            let (x, class) = (self.place(number), if number == 1.0 { "bar" } else { "number" });
            let _ = writeln!(svg, "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{ABOVE}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>");
            if x - last > 30.0 {
                let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{number}</text>", bottom + 16.0);
                last = x;
            }
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(limit: Limit, value: f64, word: Word) -> Judged {
        Judged { cell: "a".to_owned(), figure: "b < c".to_owned(), value, interval: None, limit, word }
    }

    #[test]
    fn a_figure_lies_left_of_its_bar_where_it_keeps_it_on_either_side() {
        for (limit, kept, broken) in [(Limit::AtMost(2.0), 1.0, 3.0), (Limit::AtLeast(2.0), 3.0, 1.0)] {
            assert!(part_of(limit, kept) < 1.0 && part_of(limit, broken) > 1.0, "{limit}");
            assert_eq!(part_of(limit, 2.0), 1.0);
        }
        assert_eq!(part_of(Limit::AtLeast(2.0), 0.0), f64::MAX);
    }

    #[test]
    fn a_plot_has_a_mark_for_each_verdict_and_no_bare_sign() {
        let all = [Word::Met, Word::Missed, Word::Open].map(|word| judged(Limit::AtMost(1.0), 0.0, word));
        let svg = svg("x & y", &all);
        let count = |what: &str| svg.matches(what).count();
        assert_eq!((count("<circle"), count("<rect")), (2, 1));
        assert!(svg.contains("a: b &lt; c") && svg.contains("x &amp; y: ") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn places_stay_within_the_plot() {
        let axis = Axis::over(&[judged(Limit::AtMost(1.0), 1e9, Word::Missed), judged(Limit::AtMost(1.0), 0.0, Word::Met)]);
        assert_eq!([axis.place(0.0), axis.place(f64::MAX)], [LEFT, RIGHT]);
    }
}
