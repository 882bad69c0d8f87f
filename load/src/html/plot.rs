//! One plot as SVG, and the figure around it.
//!
//! A plot is drawn once, in units of which [`WIDTH`] make its width; the page scales it to what there is, and sets the
//! size of its letters by the width of the window. So the margins have room for the largest letters.

use super::axis::Axis;
use super::ink::Ink;
use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::prelude::SVGBackend as Svg; // tidy: allow(backend) the library's name for it
use plotters::prelude::*;

/// Width of every plot in its own units.
pub const WIDTH: u32 = 1120;

/// Left of a plot with labelled values: room for `100,000`.
const LEFT: u32 = 150;

/// Below a plot with labels: one line of letters.
const BELOW: u32 = 56;

/// Around the rest.
const MARGIN: u32 = 14;

/// Right of the plot: half of a label.
const RIGHT: u32 = 50;

/// Most points of a curve: about one for three units. Whoever makes a curve of more thins it out first.
pub const MOST_POINTS: usize = 360;

/// Up to so many points of a curve are marked one by one.
const FEW: usize = 40;

/// The ends of every axis.
const BOTTOM: f64 = f64::NEG_INFINITY;
const TOP: f64 = f64::INFINITY;

/// Points, in values of the axes.
pub type Points = Vec<(f64, f64)>;

/// What is drawn in a plot. What is not finite is left out; what lies outside is put at the edge.
pub enum Mark {
    /// A curve, interrupted where a value is not finite.
    Line(Ink, Points),
    /// Single points.
    Points(Ink, Points),
    /// Bars of this width from the bottom.
    Bars(Ink, f64, Points),
    /// The span between two values of x.
    Band(Ink, f64, f64),
    /// A line across at a value of y.
    Level(Ink, f64),
    /// A line upright at a value of x.
    Upright(Ink, f64),
}

/// One plot.
pub struct Plot {
    /// What it shows, in a sentence, for those who do not see it.
    pub says: String,
    /// Height in its own units.
    pub height: u32,
    /// From left to right.
    pub x: Axis,
    /// From the bottom to the top. Without labels it takes no room for them.
    pub y: Axis,
    /// In the order of drawing.
    pub marks: Vec<Mark>,
}

type Chart<'a> = ChartContext<'a, Svg<'a>, Cartesian2d<Axis, Axis>>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<Svg<'a> as DrawingBackend>::ErrorType>>; // tidy: allow(backend) the library's name for it

impl Plot {
    /// The plot as an image of the page.
    pub fn image(&self) -> Markup {
        let mut svg = String::new();
        let drawn = self.draw(Svg::with_string(&mut svg, (WIDTH, self.height)).into_drawing_area());
        let failure = drawn.err().map(|error| error.to_string());
        html! {
            @if let Some(failure) = failure {
                p { "This plot could not be drawn: " (failure) }
            } @else {
                div.plot role="img" aria-label=(self.says) { (PreEscaped(svg)) }
            }
        }
    }

    fn draw<'a>(&self, area: DrawingArea<Svg<'a>, Shift>) -> Drawn<'a> {
        let (left, below) = (if self.y.ticks.is_empty() { RIGHT } else { LEFT }, if self.x.ticks.is_empty() { 0 } else { BELOW });
        let mut chart = ChartBuilder::on(&area)
            .margin(MARGIN)
            .margin_right(RIGHT)
            .set_label_area_size(LabelAreaPosition::Left, left)
            .set_label_area_size(LabelAreaPosition::Bottom, below)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        for mark in self.marks.iter().filter(|mark| mark.lies_behind()) {
            self.mark(&mut chart, mark)?;
        }
        self.mesh(&mut chart)?;
        for mark in self.marks.iter().filter(|mark| !mark.lies_behind()) {
            self.mark(&mut chart, mark)?;
        }
        area.present()
    }

    fn mesh<'a>(&self, chart: &mut Chart<'a>) -> Drawn<'a> {
        let letters = ("sans-serif", 27).into_font().color(&Ink::Letters.rgb());
        chart
            .configure_mesh()
            .bold_line_style(Ink::Grid.rgb().stroke_width(2))
            .light_line_style(TRANSPARENT)
            .axis_style(Ink::Axis.rgb().stroke_width(2))
            .label_style(letters)
            .set_all_tick_mark_size(6)
            .draw()
    }

    fn mark<'a>(&self, chart: &mut Chart<'a>, mark: &Mark) -> Drawn<'a> {
        match mark {
            Mark::Line(ink, points) => curve(chart, *ink, points),
            Mark::Points(ink, points) => draw_points(chart, *ink, points),
            Mark::Bars(ink, width, points) => bars(chart, *ink, *width, points),
            Mark::Band(ink, from, to) => rectangle(chart, *ink, [(*from, TOP), (*to, BOTTOM)]),
            Mark::Level(ink, value) => line(chart, *ink, &[(BOTTOM, *value), (TOP, *value)]),
            Mark::Upright(ink, value) => line(chart, *ink, &[(*value, BOTTOM), (*value, TOP)]),
        }
    }
}

impl Mark {
    fn lies_behind(&self) -> bool {
        matches!(self, Self::Band(..))
    }
}

fn curve<'a>(chart: &mut Chart<'a>, ink: Ink, points: &[(f64, f64)]) -> Drawn<'a> {
    for part in points.split(|point| !is_finite(point)).filter(|part| !part.is_empty()) {
        line(chart, ink, part)?;
        if part.len() == 1 || points.len() <= FEW && ink != Ink::Faint {
            draw_points(chart, ink, part)?;
        }
    }
    Ok(())
}

fn draw_points<'a>(chart: &mut Chart<'a>, ink: Ink, points: &[(f64, f64)]) -> Drawn<'a> {
    let places = points.iter().copied().filter(is_finite);
    let filled = ink.rgb().filled();
    match ink {
        Ink::Second => chart.draw_series(places.map(|place| TriangleMarker::new(place, 9, filled)))?,
        Ink::Third => chart.draw_series(places.map(|place| Cross::new(place, 6, ink.rgb().stroke_width(3))))?,
        _ => chart.draw_series(places.map(|place| Circle::new(place, 6, filled)))?,
    };
    Ok(())
}

fn bars<'a>(chart: &mut Chart<'a>, ink: Ink, width: f64, points: &[(f64, f64)]) -> Drawn<'a> {
    for &(x, y) in points.iter().filter(|point| is_finite(point) && point.1 > 0.0) {
        rectangle(chart, ink, [(x - width / 2.0, y), (x + width / 2.0, BOTTOM)])?;
    }
    Ok(())
}

fn line<'a>(chart: &mut Chart<'a>, ink: Ink, points: &[(f64, f64)]) -> Drawn<'a> {
    let width = if matches!(ink, Ink::Faint | Ink::Axis) { 2 } else { 4 };
    chart.draw_series([PathElement::new(points.to_vec(), ink.rgb().stroke_width(width))])?;
    Ok(())
}

fn rectangle<'a>(chart: &mut Chart<'a>, ink: Ink, corners: [(f64, f64); 2]) -> Drawn<'a> {
    chart.draw_series([Rectangle::new(corners, ink.rgb().filled())])?;
    Ok(())
}

fn is_finite(&(x, y): &(f64, f64)) -> bool {
    x.is_finite() && y.is_finite()
}

/// How an entry of a legend is drawn.
#[derive(Clone, Copy)]
pub enum Key {
    /// As [`Mark::Line`].
    Line,
    /// As [`Mark::Points`].
    Point,
    /// As [`Mark::Bars`] and [`Mark::Band`].
    Area,
}

/// What the inks of a plot stand for.
pub fn legend(entries: &[(Key, Ink, &str)]) -> Markup {
    html! {
        ul.legend {
            @for (key, ink, name) in entries { li { (sample(*key, *ink)) (name) } }
        }
    }
}

fn sample(key: Key, ink: Ink) -> Markup {
    let colour = ink.attribute();
    html! {
        svg.sample viewBox="0 0 60 20" aria-hidden="true" {
            @match (key, ink) {
                (Key::Line, _) => line x1="0" y1="10" x2="60" y2="10" stroke-width="5" stroke=(colour) {},
                (Key::Point, Ink::Second) => polygon points="30,0 40,18 20,18" fill=(colour) {},
                (Key::Point, _) => circle cx="30" cy="10" r="8" fill=(colour) {},
                (Key::Area, _) => rect x="12" y="0" width="36" height="20" fill=(colour) {},
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(marks: Vec<Mark>) -> String {
        let (x, y) = (Axis::linear(0.0, 10.0), Axis::linear(0.0, 100.0));
        Plot { says: "a <plot> & \"more\"".into(), height: 400, x, y, marks }.image().into_string()
    }

    fn count(text: &str, what: &str) -> usize {
        text.matches(what).count()
    }

    #[test]
    fn a_plot_of_nothing_has_its_axes_and_says_what_it_is() {
        let text = plot(vec![Mark::Line(Ink::First, vec![]), Mark::Bars(Ink::Bad, 1.0, vec![])]);
        assert!(text.contains("aria-label=\"a &lt;plot&gt; &amp; &quot;more&quot;\""));
        assert!(count(&text, "<text") >= 10);
        assert_eq!(count(&text, &format!("stroke=\"{}\"", Ink::First.attribute())), 0);
    }

    #[test]
    fn gaps_interrupt_a_curve_and_single_points_are_seen() {
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, f64::INFINITY)];
        let text = plot(vec![Mark::Line(Ink::Faint, points)]);
        assert_eq!(count(&text, &format!("stroke=\"{}\"", Ink::Faint.attribute())), 2);
        assert_eq!(count(&text, "<circle"), 1);
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn inks_differ_in_their_points() {
        let points = || vec![(1.0, 1.0)];
        let text = plot([Ink::First, Ink::Second, Ink::Third].map(|ink| Mark::Points(ink, points())).into());
        assert_eq!((count(&text, "<circle"), count(&text, "<polygon")), (1, 1));
    }

    #[test]
    fn what_lies_outside_is_put_at_the_edge() {
        let text = plot(vec![Mark::Line(Ink::First, vec![(-1e300, -5.0), (1e300, 1e300)])]);
        let shapes: Vec<&str> = text.split("points=\"").skip(1).collect();
        let ends = shapes.iter().find_map(|shape| shape.split('"').next()).unwrap();
        for number in ends.split([',', ' ']).filter(|number| !number.is_empty()) {
            assert!((0..=i64::from(WIDTH)).contains(&number.parse().unwrap()), "{number}");
        }
    }

    #[test]
    fn legends_name_each_ink() {
        let text = legend(&[(Key::Line, Ink::First, "a < b"), (Key::Point, Ink::Second, "c"), (Key::Area, Ink::Bad, "d")]);
        let text = text.into_string();
        assert!(text.contains("a &lt; b"));
        assert_eq!(count(&text, "<li>"), 3);
    }
}
