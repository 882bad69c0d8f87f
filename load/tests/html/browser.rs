//! The pages as a browser lays them out.
//!
//! One page of the test's own holds each sample in a frame of each width. Its script measures inside the frames, which
//! are of its own origin, and writes what it finds into its own text, which the browser prints.

use crate::html::text;
use corelane_load::html::page;
use corelane_load::report::Report;
use corelane_testkit::{is_installed, skip};
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A wide window and a phone.
const WIDTHS: [u32; 2] = [1400, 420];

/// Most seconds that the browser may take.
const PATIENCE_S: &str = "60";

/// What the script finds in one frame.
#[derive(Debug, Deserialize, PartialEq)]
struct Seen {
    name: String,
    width: u32,
    /// Elements that stick out of the page, or letters that stick out of their plot.
    outside: Vec<String>,
    /// What was loaded.
    loaded: Vec<String>,
    /// Plots, and those of them without a size or a name.
    plots: usize,
    flat: usize,
    /// Pixels of the smallest letters in a plot, and in the rest.
    letters: f64,
    text: f64,
    /// Whether a script of the page ran.
    executed: bool,
}

const SCRIPT: &str = include_str!("measure.js");

/// The text of a page after it was shown, and what the browser said.
fn show(folder: &Path, name: &str, page: &str) -> (String, String) {
    let file = |ending: &str| folder.join(format!("{name}.{ending}"));
    fs::write(file("html"), page).unwrap();
    let (printed, said) = (fs::File::create(file("out")).unwrap(), fs::File::create(file("err")).unwrap());
    let mut command = Command::new("timeout");
    command.args([PATIENCE_S, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--disable-background-networking", "--enable-logging=stderr", "--window-size=1400,1000"]);
    command.args(["--virtual-time-budget=10000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display())).arg(file("html"));
    let status = command.stdin(Stdio::null()).stdout(printed).stderr(said).status().expect("timeout starts");
    assert_ne!(status.code(), Some(124), "the browser took longer than {PATIENCE_S} s");
    (fs::read_to_string(file("out")).unwrap(), String::from_utf8_lossy(&fs::read(file("err")).unwrap()).into_owned())
}

/// Lines that pages wrote to the console, which are errors and warnings where no page has a script.
fn console(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.contains("CONSOLE")).collect()
}

/// Shows all pages in frames of all widths, and returns what was seen and what the console had.
fn look(folder: &Path, name: &str, pages: &[(&str, String)]) -> (Vec<Seen>, Vec<String>) {
    let frames = serde_json::to_string(&(pages, WIDTHS)).unwrap().replace('<', "\\u003c");
    let page = format!("<!doctype html><pre id=seen></pre><script>const [pages, widths] = {frames};\n{SCRIPT}</script>");
    let (printed, said) = show(folder, name, &page);
    let found = printed.split_once("<pre id=\"seen\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (found, _) = found.unwrap_or_else(|| panic!("the browser printed no findings but {printed:.300}, and said {said}"));
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let seen = serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found:.300}; {said}"));
    (seen, console(&said).into_iter().map(str::to_owned).collect())
}

#[test]
fn pages_fit_and_are_legible_on_wide_and_narrow_screens() {
    let name = "pages_fit_and_are_legible_on_wide_and_narrow_screens";
    if !is_installed("chromium") {
        return skip(name, "chromium is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = text::pages();
    let (seen, console) = look(folder.path(), "samples", &pages);
    assert_eq!(console, Vec::<String>::new());
    assert_eq!(seen.len(), pages.len() * WIDTHS.len());
    for seen in &seen {
        let Seen { name, width, .. } = seen;
        assert_eq!(seen.outside, Vec::<String>::new(), "{name} at {width}");
        assert_eq!(seen.loaded, Vec::<String>::new(), "{name} at {width}");
        assert_eq!(seen.flat, 0, "{name} at {width} has plots without size or name");
        assert!(seen.plots == 0 || seen.letters >= 9.0, "{name} at {width}: letters of {} pixels in a plot", seen.letters);
        assert!(seen.text >= 11.0, "{name} at {width}: letters of {} pixels", seen.text);
        assert!(!seen.executed, "{name} at {width} ran a script");
    }
    let plots = |name: &str| seen.iter().filter(|seen| seen.name == name).map(|seen| seen.plots).collect::<Vec<_>>();
    assert_eq!([plots("rich"), plots("empty"), plots("hostile")], [[6, 6], [0, 0], [6, 6]]);
    assert_eq!([plots("repeated"), plots("paired")], [[14, 14], [9, 9]]);
}

#[test]
fn planted_faults_are_seen_and_the_policy_holds() {
    let name = "planted_faults_are_seen_and_the_policy_holds";
    if !is_installed("chromium") {
        return skip(name, "chromium is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let faults = "<div id=wide style=width:1500px>.</div><img src=http://127.0.0.1:9/x.png>\
        <div class=plot><svg width=300 height=100><text y=20 x=280 font-size=8>sticks out</text></svg></div>\
        <div class=plot><svg width=0 height=0></svg></div><p style=font-size:5px>small</p>\
        <script>console.error('said'); executed = true</script>";
    let (seen, console) = look(folder.path(), "planted", &[("planted", format!("<!doctype html><body>{faults}"))]);
    assert!(console.iter().any(|line| line.contains("said")), "{console:?}");
    for seen in seen {
        assert!(seen.outside.iter().any(|element| element == "div#wide"), "{seen:?}");
        assert!(seen.outside.iter().any(|element| element == "text"), "{seen:?}");
        assert_eq!((seen.plots, seen.flat, seen.letters, seen.text), (2, 2, 8.0, 5.0));
        assert!(seen.loaded.iter().any(|address| address.ends_with("x.png")) && seen.executed, "{seen:?}");
    }
    let guarded = page(&Report::default()).replace("<footer>", &format!("{faults}<footer>"));
    let (seen, console) = look(folder.path(), "guarded", &[("guarded", guarded)]);
    assert!(console.iter().any(|line| line.contains("x.png")), "a refusal is said on the console: {console:?}");
    assert!(seen.iter().all(|seen| !seen.executed), "{seen:?}");
}
