//! What must hold of the text of every page.

use crate::html::samples;
use corelane_load::html::{page, paired_page};
use corelane_load::report::{Paired, Report};

/// Name and page of each sample.
pub fn pages() -> Vec<(&'static str, String)> {
    vec![
        ("rich", page(&samples::rich())),
        ("closed", page(&samples::closed())),
        ("empty", page(&samples::empty())),
        ("hour", page(&samples::hour())),
        ("hostile", page(&samples::hostile())),
        ("repeated", page(&samples::repeated())),
        ("paired", paired_page(&samples::paired())),
        ("default", page(&Report::default())),
        ("paired default", paired_page(&Paired::default())),
    ]
}

/// The page without its JSON and its style.
fn visible(page: &str) -> String {
    let (head, rest) = page.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (body, rest) = rest.split_once("<script id=\"report\"").unwrap();
    let (_, tail) = rest.split_once("</script>").unwrap();
    [head, body, tail].concat()
}

#[test]
fn no_page_shows_what_is_no_number() {
    for (name, page) in pages() {
        let text = visible(&page);
        let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphabetic()).collect();
        for word in ["NaN", "inf", "Infinity", "null", "None", "Some"] {
            assert!(!words.contains(&word), "{name} says {word}");
        }
    }
}

#[test]
fn no_page_loads_or_executes_anything() {
    for (name, page) in pages() {
        let text = visible(&page);
        assert!(!text.contains("<script"), "{name}");
        for loading in [" src=", "url(", "@import", "<iframe", "<object", " onload=\""] {
            assert!(!text.contains(loading), "{name}: {loading}");
        }
        let links: Vec<&str> = text.match_indices("href=\"").map(|(at, _)| &text[at..at + 12]).collect();
        assert_eq!(links, ["href=\"data:,"], "{name}");
        assert!(page.contains("default-src 'none'"), "{name}");
    }
}

#[test]
fn the_json_inside_is_the_report() {
    let inside = |page: &str| {
        let (_, rest) = page.split_once("<script id=\"report\" type=\"application/json\">").unwrap();
        rest.split_once("</script>").unwrap().0.to_owned()
    };
    let (hour, paired) = (samples::hour(), samples::paired());
    assert_eq!(inside(&page(&hour)), serde_json::to_string(&hour).unwrap());
    assert_eq!(inside(&paired_page(&paired)), serde_json::to_string(&paired).unwrap());
    assert!(!inside(&page(&samples::hostile())).contains('<'));
}

#[test]
fn an_hour_makes_no_larger_plots_than_a_minute() {
    let size = |report: &Report| visible(&page(report)).len();
    assert!(size(&samples::hour()) < 2 * size(&samples::rich()));
    let points =
        |page: &str| page.split("points=\"").skip(1).map(|rest| rest.split('"').next().unwrap().split(' ').count()).max();
    assert!(points(&page(&samples::hour())) <= Some(361));
}

#[test]
fn text_from_elsewhere_is_escaped_everywhere() {
    let text = visible(&page(&samples::hostile()));
    assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(!text.contains("<svg onload"));
}

#[test]
fn key_figures_stand_before_the_curves_and_the_tables_after() {
    let text = visible(&page(&samples::rich()));
    let order =
        ["echo against tcp://[2001:db8::10]:60007", "Not to be believed", "The server set the rate", "19,534/s", "<h2>Curves"];
    let places: Vec<_> = order.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("no {part}"))).collect();
    assert!(places.is_sorted());
    let rest = &text[places[4]..];
    for part in ["Times by percentile", "Over time", "errors per second", "Balance over", "Settings", "receives per request"] {
        assert!(rest.contains(part), "{part}");
    }
    for part in ["client_timeout 360", "598,412", "intended start", "service time", "97.7 % of 20,004/s offered", "1.2 %"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn a_run_without_answers_says_so() {
    let text = visible(&page(&samples::empty()));
    for part in
        ["No request was answered.", "Nothing was answered", "No second was measured", "No lane was measured", "not measured"]
    {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn a_pair_names_both_sides() {
    let text = visible(&paired_page(&samples::paired()));
    for part in [
        "tcp://[2001:db8::10]:60007",
        "tcp://127.0.0.1:11211",
        "B: ",
        "over 15 rounds",
        "Latency by percentile",
        "Service time by percentile",
    ] {
        assert!(text.contains(part), "{part}");
    }
}
