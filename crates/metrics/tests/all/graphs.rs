//! Graphs of a gateway in a browser: from the server beside the dashboard, and from a file alone.

use crate::browser::{browse, seen, serve_pages};
use corelane::admin::watch::{Description, LaneName, Page, Reader};
use corelane_graphs::Store;
use corelane_metrics::graphs::{Name, Reading, Subject, document};
use corelane_metrics::{Listen, Metrics};
use corelane_testkit::{is_installed, skip};
use serde_json::Value;
use std::fs::File;
use std::path::Path;

/// Seconds since 1970, a little before now: the server asks its own clock.
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// A wave of its own for each number, from 0 to 2.
fn wave(number: u64, at: u64) -> f64 {
    1.0 + ((at as f64 / 86_400.0 + number as f64 / 40.0) * std::f64::consts::TAU).sin()
}

/// A day of a gateway with so many VLANs and rules, in readings every two minutes, with a gap, a rule that would be a script where it is believed, and changes.
fn gateway(path: &Path, vlans: u64, rules: u16, until: u64) {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    let mut store = Store::open(file).unwrap();
    let mut counts = vec![0_u64; (vlans * 6 + u64::from(rules)) as usize];
    for at in (until - 86_400..until).step_by(120) {
        let mut readings = Vec::new();
        for number in 0..vlans {
            let subject = || Subject::Interface(format!("vlan{}", number + 10));
            // One loses packets, and is a port's, which has a part behind the fast path.
            let is_port = number == 3;
            let whats = ["bytes in", "bytes out", "packets in", "drops", "errors", "redirect drops"];
            for (part, what) in whats.into_iter().enumerate().take(if is_port { 6 } else { 5 }) {
                let [drops, errors, lost] = if is_port { [12.0, 3.0, 40.0] } else { [0.0; 3] };
                let rate = [600_000.0, 2_500_000.0, 5000.0, drops, errors, lost][part] / (number + 1) as f64;
                let count = &mut counts[number as usize * 6 + part];
                *count += (rate * 120.0 * wave(number + part as u64 * 5, at)) as u64;
                readings.push((Name::new(subject(), what), Reading::Counter(*count)));
            }
        }
        for rule in 0..rules {
            let text = match rule {
                0 => "deny ip from any to any in // <img src=x onerror=executed=1>".to_owned(),
                rule => format!(
                    "count ip from 10.0.{rule}.0/24 to any via vlan{} // {} of house {rule}",
                    rule % 40 + 10,
                    "guests".repeat(usize::from(rule) % 3)
                ),
            };
            let count = &mut counts[vlans as usize * 6 + usize::from(rule)];
            *count += (60_000.0 * wave(rule.into(), at)) as u64 / u64::from(rule + 1);
            readings.push((Name::new(Subject::Rule { number: 100 * (rule + 1), text }, "packets"), Reading::Counter(*count)));
        }
        let knobs = [("knob hz", 1000.0), ("knob user_frac", if at < until - 40_000 { 50.0 } else { 20.0 })];
        let shares =
            [("network share", 0.3 * wave(0, at)), ("user share", 0.2 * wave(9, at)), ("burst", 60.0 * wave(0, at).round())];
        readings.extend(
            knobs.into_iter().chain(shares).map(|(what, value)| (Name::new(Subject::Whole, what), Reading::Gauge(value))),
        );
        // Nobody watched for two hours.
        if !(until - 30_000..until - 22_800).contains(&at) {
            store.record(at * 1000, &readings).unwrap();
        }
    }
    for (before, text) in [
        (70_000, "started"),
        (40_000, "user_frac 50 → 20"),
        (39_000, "rule 16000 added: <b>count</b> ip from any to any"),
        (9000, "1000 routes added"),
    ] {
        store.note(until - before, text).unwrap();
    }
}

/// That all is legible, at both widths.
fn check(seen: &[Value], is_dark: bool, figures: u64) {
    assert_eq!(seen.len(), 2);
    for seen in seen {
        assert_eq!((&seen["outside"], &seen["executed"]), (&Value::Array(Vec::new()), &false.into()), "{seen}");
        for what in ["unnamed", "headless", "unreached", "unlabelled"] {
            assert_eq!(seen[what], Value::Array(Vec::new()), "{what}");
        }
        assert_eq!((&seen["language"], &seen["live"], &seen["headings"]), (&"en".into(), &1.into(), &5.into()), "{seen}");
        assert_eq!(seen["is_dark"], is_dark, "{seen}");
        assert!(seen["contrast"].as_f64().unwrap() >= 4.5 && seen["letters"].as_f64().unwrap() >= 11.0, "{}", seen["contrast"]);
        assert_eq!(seen["graphs"], figures);
        let labels: Vec<&str> = seen["labels"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(labels.iter().all(|label| label.contains("now ") && label.contains("Changes are marked: ")), "{labels:?}");
        let text = seen["text"].as_str().unwrap();
        for part in [
            "Knobs: hz 1000, user_frac 20.",
            "<b>count</b> ip from any to any",
            "1000 routes added",
            "CPU time of the lanes",
            "vlan13",
            "40 interfaces.",
            "160 rules.",
            "<img src=x",
            "in now ",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
}

#[test]
fn graphs_are_legible_on_wide_and_narrow_screens_by_day_and_by_night() {
    let name = "graphs_are_legible_on_wide_and_narrow_screens_by_day_and_by_night";
    if !is_installed("chromium") {
        return skip(name, "chromium is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("graphs");
    gateway(&store, 40, 160, now());
    let page = Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).unwrap();
    let listen = Listen { dashboard: Some("127.0.0.1:0".parse().unwrap()), graphs: Some(store.clone()), ..Listen::default() };
    let server = Metrics::start(Reader::of(&page).unwrap(), &listen).unwrap();
    let address = server.places().next().unwrap().1;
    let document = document(&store, now()).unwrap();
    if let Some(keep) = std::env::var_os("KEEP_GRAPHS") {
        std::fs::write(keep, &document).unwrap();
    }
    let served = serve_pages(move |path| match path {
        "/" => Some(crate::browser::get(address, "/gateway").1),
        path => Some(crate::browser::get(address, path).1),
    });
    let alone = serve_pages(move |path| (path == "/").then(|| document.clone()));
    for (night, pages) in
        [(&[][..], served), (&["--blink-settings=preferredColorScheme=0", "--force-prefers-reduced-motion"], alone)]
    {
        let (printed, console) = browse(folder.path(), &format!("http://{pages}/frames"), night);
        assert_eq!(console, Vec::<String>::new());
        // CPU, burst, bytes, packets; then interfaces and rules.
        check(&seen(&printed), !night.is_empty(), 4 + 40 + 160);
    }
}

/// Four steps of a day: one that is known, one in which nobody watched, and two more. Each line is read 60 seconds after the other.
fn four_steps(path: &Path) {
    const BEGIN: u64 = 1_700_049_600;
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    let mut store = Store::open(file).unwrap();
    let of = |vlan: &str, what: &str, count: u64| (Name::new(Subject::Interface(vlan.into()), what), Reading::Counter(count));
    let rule = |count| {
        (
            Name::new(Subject::Rule { number: 100, text: "count ip from any to any // guests".into() }, "packets"),
            Reading::Counter(count),
        )
    };
    let share = |value| (Name::new(Subject::Whole, "network share"), Reading::Gauge(value));
    let mut record = |second: u64, readings: &[_]| store.record((BEGIN + second) * 1000, readings).unwrap();
    record(0, &[of("vlan10", "bytes in", 0), of("vlan20", "bytes in", 0), of("vlan30", "bytes out", 0), share(0.5), rule(0)]);
    record(
        60,
        &[of("vlan10", "bytes in", 600), of("vlan20", "bytes in", 600), of("vlan30", "bytes out", 6), share(0.5), rule(60)],
    );
    record(600, &[of("vlan10", "bytes in", 600), of("vlan20", "bytes in", 600), share(0.05)]);
    record(660, &[of("vlan10", "bytes in", 1800), of("vlan20", "bytes in", 1200), share(0.05)]);
    record(720, &[of("vlan10", "bytes in", 4200), of("vlan20", "bytes in", 1800), share(0.05)]);
    record(900, &[of("vlan10", "bytes in", 4200), share(0.25)]);
    record(960, &[of("vlan10", "bytes in", 4200 + 60 * 20), share(0.25)]);
    for (second, text) in [(-43_200, "early"), (0, "one"), (600, "other")] {
        store.note(BEGIN.saturating_add_signed(second), text).unwrap();
    }
}

#[test]
fn curves_are_drawn_step_by_step_with_their_most_and_their_gaps() {
    let name = "curves_are_drawn_step_by_step_with_their_most_and_their_gaps";
    if !is_installed("chromium") {
        return skip(name, "chromium is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("graphs");
    four_steps(&store);
    let document = document(&store, now()).unwrap();
    let pages = serve_pages(move |path| (path == "/").then(|| document.clone()));
    let (printed, console) = browse(folder.path(), &format!("http://{pages}/frames"), &[]);
    assert_eq!(console, Vec::<String>::new());
    let seen = &seen(&printed)[1];
    let (labels, curves) = (seen["labels"].as_array().unwrap(), seen["curves"].as_array().unwrap());
    // Spaces that break no line as the browser prints them. Steps of 288 in 1000: from 986.1, 989.6, 993.1 and 996.5 on. Values from 98 at nothing to 4 at the most of all.
    let expected: [(&str, &[&str]); 6] = [
        (
            "CPU time of the lanes: packets now 25 %, on average 27 %, at most 50 %.",
            &["M986.1 98V51.0H989.6V98ZM993.1 98V93.3H996.5V74.5H1000.0V98Z", "M986.1 51.0H989.6M993.1 93.3H996.5V74.5H1000.0"],
        ),
        (
            "Bytes forwarded: now 20&nbsp;B/s, on average 27&nbsp;B/s, at most 50&nbsp;B/s.",
            &["M986.1 98V60.4H989.6V98ZM993.1 98V4.0H996.5V60.4H1000.0V98Z", "M986.1 60.4H989.6M993.1 22.8H996.5V60.4H1000.0"],
        ),
        (
            "vlan10: in now 20&nbsp;B/s, on average 20&nbsp;B/s, at most 40&nbsp;B/s.",
            &["M986.1 98V74.5H989.6V98ZM993.1 98V4.0H996.5V51.0H1000.0V98Z", "M986.1 74.5H989.6M993.1 27.5H996.5V51.0H1000.0"],
        ),
        (
            "vlan20: in now 10&nbsp;B/s, on average 10&nbsp;B/s, at most 10&nbsp;B/s.",
            &["M986.1 98V4.0H989.6V98ZM993.1 98V4.0H996.5V98Z", "M986.1 4.0H989.6M993.1 4.0H996.5"],
        ),
        (
            "vlan30: in: nothing is known; out now –, on average 0.1&nbsp;B/s, at most 0.1&nbsp;B/s.",
            &["", "", "M986.1 98V4.0H989.6V98Z", "M986.1 4.0H989.6"],
        ),
        (
            "100 guests, count ip from any to any: now –, on average 1&nbsp;packets/s, at most 1&nbsp;packets/s.",
            &["M986.1 98V4.0H989.6V98Z", "M986.1 4.0H989.6"],
        ),
    ];
    assert_eq!(labels.len(), expected.len(), "{labels:?}");
    for (((label, paths), found), drawn) in expected.iter().zip(labels).zip(curves) {
        assert_eq!(found, &format!("{label} Changes are marked: 1, 2–3."));
        assert_eq!(drawn, &serde_json::to_value(paths).unwrap(), "{label}");
    }
    // Half a day before the first step, and with it: the second of two that are close has the mark of the first.
    for marks in seen["changes"].as_array().unwrap() {
        assert_eq!(*marks, serde_json::json!(["M486.1 0V98", "M986.1 0V98"]));
    }
    let text = seen["text"].as_str().unwrap();
    assert!(text.contains("3 interfaces.") && text.contains("in steps of 5 minutes"), "{text}");
}

/// Who looks for losses finds the interface that has most of them first, each kind with its line and its words.
#[test]
fn drops_and_errors_of_an_interface_are_seen() {
    let name = "drops_and_errors_of_an_interface_are_seen";
    if !is_installed("chromium") {
        return skip(name, "chromium is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("graphs");
    gateway(&store, 40, 1, now());
    let chosen = "interfaces: { words: \"\", order: \"traffic\", show: \"bytes\" }";
    let document = document(&store, now()).unwrap();
    assert_eq!(document.matches(chosen).count(), 1);
    let document = document.replace(chosen, "interfaces: { words: \"\", order: \"lost\", show: \"lost\" }");
    if let Some(keep) = std::env::var_os("KEEP_LOSSES") {
        std::fs::write(keep, &document).unwrap();
    }
    let pages = serve_pages(move |path| (path == "/").then(|| document.clone()));
    let (printed, console) = browse(folder.path(), &format!("http://{pages}/frames"), &[]);
    assert_eq!(console, Vec::<String>::new());
    for seen in seen(&printed) {
        let labels: Vec<&str> = seen["labels"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let first = labels.iter().find(|label| label.starts_with("vlan")).unwrap();
        assert!(first.starts_with("vlan13: dropped now "), "{labels:?}");
        for words in ["; errors now ", "; at the redirect now ", "packets/s, at most "] {
            assert!(first.contains(words), "{first}");
        }
        let others: Vec<_> = labels.iter().filter(|label| label.starts_with("vlan")).skip(1).collect();
        assert_eq!(others.len(), 39);
        // Only a port as a whole has losses at the redirect.
        assert!(others.iter().all(|label| label.contains("errors now 0") && !label.contains("redirect")), "{others:?}");
        assert_eq!((&seen["outside"], seen["contrast"].as_f64().unwrap() >= 4.5), (&Value::Array(Vec::new()), true));
    }
}

#[test]
fn graphs_are_beside_the_dashboard_and_a_file_that_is_none_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("graphs");
    gateway(&store, 2, 1, now());
    let page = Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).unwrap();
    let server = |graphs| {
        let listen = Listen { dashboard: Some("127.0.0.1:0".parse().unwrap()), graphs, ..Listen::default() };
        Metrics::start(Reader::of(&page).unwrap(), &listen).unwrap()
    };
    let (with, without, wrong) = (server(Some(store)), server(None), server(Some(folder.path().join("none"))));
    let get = |server: &Metrics, path: &str| crate::browser::get(server.places().next().unwrap().1, path);
    let (head, body) = get(&with, "/gateway");
    assert!(
        head.contains("default-src 'none'") && head.contains("frame-ancestors 'none'") && body.contains("gateway/"),
        "{head}"
    );
    let outside = ["http://", "https://", "//cdn", "@import", "url("];
    assert!(outside.iter().all(|one| !body.replace("http://www.w3.org/2000/svg", "").contains(one)), "nothing from outside");
    for (span, rows) in [("day", 288), ("week", 336), ("year", 366)] {
        let (head, body) = get(&with, &format!("/gateway/{span}"));
        assert!(head.contains("application/json"), "{head}");
        let told: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&told["rows"], told["interfaces"].as_array().unwrap().len()), (&rows.into(), 2), "{span}");
    }
    assert!(get(&with, "/gateway/decade").0.starts_with("HTTP/1.0 404"));
    assert!(
        get(&without, "/gateway").0.starts_with("HTTP/1.0 404") && get(&without, "/gateway/day").0.starts_with("HTTP/1.0 404")
    );
    let (head, body) = get(&wrong, "/gateway/day");
    assert!(head.starts_with("HTTP/1.0 503") && body.contains("none: "), "{head} {body}");
}
