//! The report as one page of HTML: nothing is loaded, nothing is executed, and the figures are inside as JSON.
//!
//! For engineers who decide whether to believe a run. Readable from 360 pixels on, in light and dark, and on paper.

mod axis;
mod ink;
mod lanes;
mod number;
mod percentiles;
mod plot;
mod seconds;
mod spread;
mod summary;
mod tables;

use crate::report::{Paired, Report};
use ink::Ink;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use percentiles::Curve;
use serde::Serialize;

const STYLE: &str = include_str!("html/style.css");

/// Forbids all but the page's own style: the browser enforces that nothing is loaded or executed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The page of one report, or of several runs if it holds them.
///
/// Curves are thinned out, so that plots stay small however long the run was; the JSON is whole. Text from elsewhere
/// (targets, names) is escaped. Figures that are not finite are shown as dashes.
pub fn page(report: &Report) -> String {
    let title = format!("{} against {}", report.workload, report.target);
    let body = html! {
        header { h1 { (title) } (summary::what(report)) }
        (summary::verdict(report.believable, &[("", report)]))
        section { h2 { "Key figures" @if report.repeated.is_some() { ": medians of the runs, errors of all" } } (summary::key_figures(report)) }
        @if let Some(repeated) = &report.repeated { (spread::repeated(repeated)) }
        section { h2 { "Curves" } (curves(report)) }
        section {
            h2 { "All figures" }
            (tables::all(report))
            @if let Some(repeated) = &report.repeated { (spread::table_of_runs(repeated)) }
        }
    };
    document(&title, &body, report)
}

/// The page of two targets under the same load.
///
/// As [`page`], with the ratios first and what each side was at the end.
pub fn paired_page(paired: &Paired) -> String {
    let (a, b) = (&paired.a, &paired.b);
    let title = format!("{}: {} beside {}", a.workload, a.target, b.target);
    let sides = [("A", a, Ink::First), ("B", b, Ink::Second)];
    let latencies = sides.map(|(side, report, ink)| Curve::latency(report, side.to_owned(), ink));
    let services: Vec<Curve> = sides.iter().filter_map(|(side, report, ink)| Curve::service(report, side, *ink)).collect();
    let body = html! {
        header {
            h1 { (a.workload) ": A beside B" }
            p.sides { b { "A " } (a.target) br; b { "B " } (b.target) }
            (summary::what(a))
        }
        (summary::verdict(paired.believable, &[("A", a), ("B", b)]))
        (spread::ratios(paired))
        section { h2 { "Key figures" } (summary::beside(a, b)) }
        section {
            h2 { "Curves" }
            div.curves {
                (percentiles::figure("Latency by percentile", &latencies))
                @if !services.is_empty() { (percentiles::figure("Service time by percentile", &services)) }
            }
        }
        @for (side, report, _) in sides {
            section {
                h2 { (side) ": " (report.target) }
                (summary::key_figures(report))
                (tables::all(report))
            }
        }
    };
    document(&title, &body, paired)
}

fn curves(report: &Report) -> Markup {
    let median = if report.repeated.is_some() { ", median run" } else { "" };
    let latency = Curve::latency(report, format!("{}{median}", tables::latency(report)), Ink::First);
    let service = Curve::service(report, "service time, from send", Ink::Second);
    let percentiles: Vec<Curve> = [latency].into_iter().chain(service).collect();
    html! {
        div.curves {
            div { (percentiles::figure("Times by percentile", &percentiles)) (lanes::figure(report)) }
            (seconds::figure(report))
        }
    }
}

fn document(title: &str, body: &Markup, data: &impl Serialize) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(ink::style())) (PreEscaped(STYLE)) }
            }
            body {
                main { (body) }
                footer { p.quiet { "The whole report is in this page as JSON, in the element with the id “report”." } }
                script #report type="application/json" { (PreEscaped(json(data))) }
            }
        }
    };
    page.into_string()
}

/// JSON that nothing inside can end or turn into a comment: there is no `<` in it, which may stand only in strings.
fn json(data: &impl Serialize) -> String {
    // What cannot be told as JSON has been shown in the page all the same.
    serde_json::to_string(data).unwrap_or_default().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_comes_back_as_it_was() {
        let report = Report { target: "</script><!-- \u{2028} <script>".into(), requests: 7, ..Report::default() };
        let text = json(&report);
        assert!(!text.contains('<'));
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
