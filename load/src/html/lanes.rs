//! How evenly the lanes of the generator shared the work.

use super::axis::Axis;
use super::ink::Ink;
use super::plot::{self, Key, Mark, Plot, Points};
use crate::report::{Lane, Report};
use crate::text::figures::{number, percent};
use maud::{Markup, html};

/// Most lanes that are drawn; the table has them all.
const MOST_LANES: usize = 512;

/// The figure; a sentence where no lane is known.
pub fn figure(report: &Report) -> Markup {
    let all = &report.generator.lanes;
    let lanes = &all[..all.len().min(MOST_LANES)];
    html! {
        figure {
            h3 { "Balance over the generator's lanes" }
            @if lanes.is_empty() { p.none { "No lane was measured." } } @else {
                (requests(lanes))
                (time(lanes))
                p.axis.below { "lane" @if lanes.len() < all.len() { ", the first " (lanes.len()) } }
            }
        }
    }
}

fn requests(lanes: &[Lane]) -> Markup {
    let counts = || lanes.iter().map(|lane| lane.requests as f64);
    let mean = counts().sum::<f64>() / lanes.len() as f64;
    let (least, greatest) = (counts().fold(f64::INFINITY, f64::min), counts().fold(0.0, f64::max));
    let figures = [least, greatest, mean].map(number);
    let plot = Plot {
        says: format!("Requests of each lane: from {} to {}, {} on average.", figures[0], figures[1], figures[2]),
        height: 300,
        x: Axis::numbered(lanes.len()),
        y: Axis::from_zero(counts()),
        marks: vec![Mark::Bars(Ink::First, 0.5, values(lanes, 0.0, |lane| lane.requests as f64)), Mark::Level(Ink::Second, mean)],
    };
    html! {
        h4 { "requests answered by each lane" }
        (plot::legend(&[(Key::Area, Ink::First, "answered"), (Key::Line, Ink::Second, "an even share")]))
        (plot.image())
    }
}

fn time(lanes: &[Lane]) -> Markup {
    let greatest = |of: fn(&Lane) -> f64| lanes.iter().map(of).filter(|share| share.is_finite()).fold(0.0, f64::max);
    let of_a_hundred = |aside, of: fn(&Lane) -> f64| values(lanes, aside, |lane| of(lane) * 100.0);
    let marks = vec![
        Mark::Bars(Ink::First, 0.3, of_a_hundred(-0.17, |lane| lane.cpu_used)),
        Mark::Bars(Ink::Second, 0.3, of_a_hundred(0.17, |lane| lane.busy)),
    ];
    let (used, busy) = (percent(greatest(|lane| lane.cpu_used)), percent(greatest(|lane| lane.busy)));
    let plot = Plot {
        says: format!("CPU used by each lane, at most {used}, and what it used for work, at most {busy}."),
        height: 300,
        x: Axis::numbered(lanes.len()),
        y: Axis::linear(0.0, (greatest(|lane| lane.cpu_used.max(lane.busy)) * 103.0).clamp(103.0, 1e6)).with_unit(" %"),
        marks,
    };
    html! {
        h4 { "CPU of each lane" }
        (plot::legend(&[(Key::Area, Ink::First, "left: used"), (Key::Area, Ink::Second, "right: used for work")]))
        (plot.image())
    }
}

/// A value of each lane, so far beside its place on the axis.
fn values(lanes: &[Lane], aside: f64, of: impl Fn(&Lane) -> f64) -> Points {
    lanes.iter().enumerate().map(|(index, lane)| (index as f64 + aside, of(lane))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lanes: Vec<Lane>) -> String {
        let mut report = Report::default();
        report.generator.lanes = lanes;
        figure(&report).into_string()
    }

    fn bars(text: &str) -> usize {
        let of = |ink: Ink| text.matches(&format!("fill=\"{}\" stroke=\"none\"", ink.attribute())).count();
        of(Ink::First) + of(Ink::Second)
    }

    #[test]
    fn each_lane_has_three_bars() {
        let lane = |lane, requests| Lane { lane, requests, cpu_used: 0.5, busy: 0.4, ..Lane::default() };
        let text = text(vec![lane(0, 100), lane(1, 300)]);
        assert_eq!(bars(&text), 6);
        assert!(text.contains("from 100 to 300, 200 on average"));
        assert!(text.contains("at most 50.0 %") && text.contains("at most 40.0 %"));
    }

    #[test]
    fn no_lanes_idle_lanes_and_too_many_lanes_are_fine() {
        assert!(text(vec![]).contains("No lane was measured"));
        let odd = Lane { cpu_used: f64::NAN, busy: f64::INFINITY, ..Lane::default() };
        let text_of_odd = text(vec![odd]);
        assert!(!text_of_odd.contains("NaN") && !text_of_odd.contains("inf"));
        let many = text(vec![Lane { requests: 1, cpu_used: 0.5, busy: 0.5, ..Lane::default() }; 3000]);
        assert_eq!(bars(&many), 3 * MOST_LANES);
        assert!(many.contains("the first 512"));
    }
}
