//! The livelock curve as a plot: what is answered, and what others have, by what is offered.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::flooded::Flooded;
use super::seen::{Curve, Curves, Step};

/// The plot's own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 760.0;
/// The ends of the part in which lines lie, and the tops and bottoms of both panels.
const ACROSS: [f64; 2] = [70.0, 690.0];
const PANELS: [[f64; 2]; 2] = [[50.0, 350.0], [430.0, 690.0]];
const STYLE: &str = "text{font:13px sans-serif;fill:#1b222b}path{fill:none;stroke-width:2}.grid{stroke:#dfe3e8;stroke-width:1}\
    @media(prefers-color-scheme:dark){text{fill:#e5eaef}.grid{stroke:#333b45}}";
/// Datagrams a second at the numbered lines across.
const NUMBERS: [f64; 5] = [10e3, 100e3, 1e6, 10e6, 100e6];

/// Writes it beside the results.
///
/// # Errors
/// When the file cannot be written.
pub fn write(root: &Path, curves: &Curves) -> Result<()> {
    let file = root.join("bench/results/flood-curve.svg");
    std::fs::write(&file, svg(curves)).with_context(|| file.display().to_string())
}

/// A point of a line: what was offered, what was answered, and the share of who computes.
type Point = [f64; 3];

fn svg(curves: &Curves) -> String {
    let lines: Vec<(Flooded, Vec<Point>)> = curves.who.iter().map(|&who| (who, points(curves, who))).collect();
    let all = || lines.iter().flat_map(|(_, points)| points);
    let ends = [all().fold(f64::MAX, |least, point| least.min(point[0])), all().fold(1.0, |most, point| point[0].max(most))];
    let x = |offered: f64| ACROSS[0] + (ACROSS[1] - ACROSS[0]) * (offered / ends[0]).ln() / (ends[1] / ends[0]).ln().max(1e-9);
    let most = all().fold(1.0_f64, |most, point| most.max(point[1]));
    let label = "flood: what is answered, and the share of who computes, by what is offered";
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n<style>{STYLE}</style>\n"
    );
    let titles = [
        format!("answered, thousands a second (0 to {:.0})", most / 1e3),
        "CPU of who computes beside, per cent (0 to 100)".into(),
    ];
    let numbers: Vec<f64> = NUMBERS.into_iter().filter(|number| (ends[0]..=ends[1]).contains(number)).collect();
    PANELS.into_iter().zip(titles).for_each(|(panel, title)| grid(&mut svg, panel, &title, &numbers, &x));
    for (place, (who, points)) in lines.iter().enumerate() {
        let colour = format!("hsl({} 65% 45%)", place * 360 / lines.len());
        for (panel, most, figure) in [(PANELS[0], most, 1), (PANELS[1], 100.0, 2)] {
            line(&mut svg, &colour, points.iter().map(|point| (x(point[0]), height(panel, point[figure] / most))));
        }
        let y = PANELS[0][0] + 20.0 * place as f64;
        line(&mut svg, &colour, [(ACROSS[1] + 20.0, y), (ACROSS[1] + 44.0, y)].into_iter());
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{:.1}\">{who}</text>", ACROSS[1] + 52.0, y + 4.5);
    }
    svg + "</svg>\n"
}

/// The medians of one, offer by offer.
fn points(curves: &Curves, who: Flooded) -> Vec<Point> {
    let offers = curves.offers(who);
    let middle = |place: usize, of: fn(&Step) -> f64| {
        let step = |one: &Curve| if place == offers { Some(one.highest) } else { one.steps.get(place).copied() };
        curves.middle(who, |one| step(one).as_ref().map(of)).unwrap_or_default()
    };
    let point = |place| {
        let offered = middle(place, |step| step.offered_per_s).max(1.0);
        [offered, middle(place, |step| step.answered_per_s), middle(place, |step| step.computing)]
    };
    (0..=offers).map(point).collect()
}

fn height([top, bottom]: [f64; 2], part: f64) -> f64 {
    bottom - (bottom - top) * part
}

/// The lines behind a panel, and its words.
fn grid(svg: &mut String, panel: [f64; 2], title: &str, numbers: &[f64], x: &dyn Fn(f64) -> f64) {
    let [top, bottom] = panel;
    // Writing to a string does not fail.
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{title}</text>", ACROSS[0], top - 12.0);
    for part in 0..=4 {
        let y = height(panel, f64::from(part) / 4.0);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{} {y:.1}H{}\"/>", ACROSS[0], ACROSS[1]);
    }
    for &number in numbers {
        let (x, words) = (x(number), number / 1e3);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{x:.1} {top}V{bottom}\"/>");
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{words}k/s</text>", bottom + 18.0);
    }
}

fn line(svg: &mut String, colour: &str, points: impl Iterator<Item = (f64, f64)>) {
    let place = |(number, (x, y)): (usize, (f64, f64))| format!("{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" });
    let path: String = points.enumerate().map(place).collect();
    let _ = writeln!(svg, "<path d=\"{path}\" style=\"stroke:{colour}\"/>");
}

#[cfg(test)]
mod tests {
    use super::super::seen::CELL;
    use super::*;
    use crate::rounds::Rounds;

    #[test]
    fn each_has_a_line_in_both_panels_and_its_name() {
        let step = |offered_per_s, answered_per_s| Step { offered_per_s, answered_per_s, computing: 50.0, others: None };
        let (steps, highest) = (vec![step(10e3, 9e3)], step(1e6, 5e3));
        let curve = Curve { steps, highest, unanswered: step(1e6, 0.0), beside: None };
        let who = vec![Flooded::Sockets, Flooded::Polling(30)];
        let curves = Rounds { rounds: vec![vec![curve.clone(), curve]], ..Rounds::new(CELL, who) };
        let svg = svg(&curves);
        assert_eq!((svg.matches("style=\"stroke:").count(), svg.matches("NaN").count()), (6, 0), "{svg}");
        assert!(svg.contains(">sockets<") && svg.contains(">packet lane, polls, 30 %<") && svg.contains("100k/s"), "{svg}");
    }
}
