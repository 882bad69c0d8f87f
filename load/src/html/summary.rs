//! What one needs to know first: what was run, whether to believe it, and the key figures.

use super::number::measured;
use super::tables::{self, Line, table};
use crate::kinds::is_failure;
use crate::report::{Generator, Quantiles, Report, Server, Settings};
use crate::text::figures::{self, UNKNOWN, bytes, count, moment, number, percent, quantile, rate, trimmed};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// What was run, in two lines.
pub fn what(report: &Report) -> Markup {
    html! {
        p { (setting(&report.settings)) }
        p.quiet { (report.program) ", " (moment(report.started_unix_s).unwrap_or_else(|| UNKNOWN.to_owned())) ", measured for " (trimmed(report.seconds)) " s" }
    }
}

fn setting(settings: &Settings) -> String {
    let asked = settings.rate.map(trimmed).unwrap_or_default();
    let mode = match settings.mode.as_str() {
        "closed" => format!("Closed loop, {} in flight", count(settings.connections.saturating_mul(settings.depth))),
        "open" => format!("Open loop, {asked} requests a second asked for"),
        "connections" => format!("{asked} connections a second asked for"),
        other => other.to_owned(),
    };
    let arrivals = settings.arrivals.as_ref().map(|arrivals| format!(", {arrivals} arrivals")).unwrap_or_default();
    format!(
        "{mode}{arrivals}; {} connections with at most {} in flight on each, {} bytes; {} lanes on {}; warm-up {} s.",
        count(settings.connections),
        count(settings.depth),
        count(settings.size),
        count(settings.lanes),
        settings.driver,
        trimmed(settings.warm_up_s),
    )
}

/// Whether the figures can be believed, why not, and what set the rate.
pub fn verdict(believable: bool, reports: &[(&str, &Report)]) -> Markup {
    let doubted = reports.iter().any(|(_, report)| !report.doubts.is_empty());
    html! {
        section.verdict.doubted[!believable] aria-labelledby="verdict" {
            h2 #verdict { @match (believable, doubted) {
                    (true, false) => "✓ Believable",
                    (true, true) => "✓ Believable, but",
                    (false, _) => "✗ Not to be believed",
                } }
            @for (side, report) in reports {
                p { @if !side.is_empty() { b { (side) ": " } } (limit(&report.limit)) }
                @if !report.doubts.is_empty() { ul.doubts { @for doubt in &report.doubts { li { (doubt) } } } }
                @if !report.notes.is_empty() { ul.notes { @for note in &report.notes { li { (note) } } } }
            }
        }
    }
}

fn limit(limit: &str) -> String {
    match limit {
        "server" => "The server set the rate.".to_owned(),
        "generator" => "The generator set the rate: the server may be able to do more.".to_owned(),
        "rate" => "The rate that was asked for set the rate: both sides had room.".to_owned(),
        "neither" => "Neither side's CPU set the rate: it was latency, or something between them.".to_owned(),
        "" => "What set the rate is not known.".to_owned(),
        other => format!("What set the rate: {other}."),
    }
}

/// A key figure: name, value with unit, remark.
struct Key {
    name: &'static str,
    value: String,
    remark: String,
}

/// The key figures.
pub fn key_figures(report: &Report) -> Markup {
    html! {
        dl.figures {
            @for key in keys(report) {
                div {
                    dt { (key.name) }
                    dd { b { (key.value) } @if !key.remark.is_empty() { span.quiet { (key.remark) } } }
                }
            }
        }
        (times(report))
    }
}

fn keys(report: &Report) -> Vec<Key> {
    let generator = &report.generator;
    let mut keys = vec![achieved(report), failed(&report.errors), server(report), load(generator)];
    keys.extend(report.send_lag_us.as_ref().map(lag));
    keys.extend([host(generator), lost(generator), payload(report)]);
    keys
}

fn achieved(report: &Report) -> Key {
    let answered = format!("{} requests in {} s", count(report.answered_in_window), trimmed(report.seconds));
    let remark = report.offered_per_second.map_or_else(
        || answered.clone(),
        |offered| {
            let share = percent(report.requests_per_second / offered);
            let not_sent = report.not_sent.map(|requests| format!("; {} not sent", count(requests))).unwrap_or_default();
            format!("{share} of {} offered{not_sent}; {answered}", rate(offered))
        },
    );
    Key { name: "Rate", value: rate(report.requests_per_second), remark }
}

fn failed(errors: &BTreeMap<String, u64>) -> Key {
    let met = figures::errors(errors);
    let failed = met.iter().filter(|(name, _)| is_failure(name)).fold(0u64, |sum, (_, times)| sum.saturating_add(*times));
    let remarks: Vec<_> = met.iter().map(|(name, times)| format!("{name} {}", count(*times))).collect();
    let value = if failed == 0 { "none".to_owned() } else { count(failed) };
    Key { name: "Errors", value, remark: remarks.join(", ") }
}

fn server(report: &Report) -> Key {
    let used = |server: &Server| {
        let waited = percent(server.waiting_for_cpu);
        let memory = bytes(server.resident_bytes as f64);
        format!("{} CPUs used, waited for {waited} of the time that it wanted one, {memory}", number(server.cpus_used))
    };
    let remark = report.server.as_ref().map_or_else(|| "the server's process is not known".to_owned(), used);
    Key { name: "Server CPU", value: per_request(report.server_us_per_request), remark }
}

fn load(generator: &Generator) -> Key {
    let busiest = generator.lanes.iter().map(|lane| lane.busy).filter(|share| share.is_finite()).reduce(f64::max);
    let remark = busiest.map(|share| format!("busiest lane: {} of a CPU for work", percent(share))).unwrap_or_default();
    Key { name: "Generator CPU", value: per_request(Some(generator.us_per_request)), remark }
}

fn per_request(us: Option<f64>) -> String {
    us.map_or_else(|| "not measured".to_owned(), |us| format!("{} µs/request", number(us)))
}

fn lag(lag: &Quantiles) -> Key {
    let [median, most, greatest] = ["50", "99", "max"].map(|quantile| measured(lag.get(quantile).copied()));
    Key { name: "Send lag", value: format!("{median} µs"), remark: format!("median; p99 {most} µs, max {greatest} µs") }
}

fn host(generator: &Generator) -> Key {
    Key { name: "Stolen by the host", value: percent(generator.stolen), remark: "of all CPU time".to_owned() }
}

fn lost(generator: &Generator) -> Key {
    let again = format!("packets, socket buffer full; {} segments sent again", count(generator.retransmissions));
    Key { name: "Drops", value: count(generator.socket_buffer_drops), remark: again }
}

fn payload(report: &Report) -> Key {
    let per_second = |sum: u64| bytes(if report.seconds > 0.0 { sum as f64 / report.seconds } else { 0.0 });
    let value = format!("{}/s sent", per_second(report.bytes_sent));
    Key { name: "Payload", value, remark: format!("{}/s received", per_second(report.bytes_received)) }
}

fn times(report: &Report) -> Markup {
    let shown = ["50", "90", "99", "99.9", "max"];
    let row = |(name, quantiles): (String, &Quantiles)| -> Line {
        (name, shown.iter().map(|quantile| measured(quantiles.get(*quantile).copied())).collect())
    };
    let names = shown.map(quantile);
    let heads: Vec<&str> = ["time in µs"].into_iter().chain(names.iter().map(String::as_str)).collect();
    table("Quantiles in microseconds", &heads, tables::times(report).into_iter().map(row))
}

/// The key figures of two reports side by side.
pub fn beside(a: &Report, b: &Report) -> Markup {
    let rows = keys(a).into_iter().zip(keys_like(a, b)).map(|(a, b)| (a.name.to_owned(), vec![a.value, b]));
    let quantiles = ["50", "99", "99.9", "max"].map(|key| {
        let cell = |report: &Report| measured(report.latency_us.get(key).copied());
        (format!("Latency {}, µs", quantile(key)), vec![cell(a), cell(b)])
    });
    table("Both sides", &["figure", "A", "B"], rows.chain(quantiles))
}

/// The values of `b` for the key figures that `a` has.
fn keys_like(a: &Report, b: &Report) -> Vec<String> {
    let mut values: BTreeMap<&str, String> = keys(b).into_iter().map(|key| (key.name, key.value)).collect();
    keys(a).into_iter().map(|key| values.remove(key.name).unwrap_or_else(|| measured(None))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_gives_each_doubt_and_who_was_the_limit() {
        let report =
            Report { limit: "generator".into(), doubts: vec!["a < b".into()], notes: vec!["note".into()], ..Report::default() };
        let text = verdict(false, &[("", &report)]).into_string();
        for wanted in ["Not to be believed", "a &lt; b", "note", "The generator set the rate"] {
            assert!(text.contains(wanted), "{wanted}");
        }
        let good = verdict(true, &[("A", &Report::default())]).into_string();
        assert!(good.contains("✓ Believable<") && !good.contains("doubted") && good.contains("not known"));
        assert!(verdict(true, &[("", &report)]).into_string().contains("✓ Believable, but"));
    }

    #[test]
    fn duplicates_are_shown_but_are_no_failures() {
        let key = |pairs: &[(&str, u64)]| failed(&pairs.iter().map(|(name, times)| ((*name).to_owned(), *times)).collect());
        assert_eq!(key(&[("lost", 0)]).value, "none");
        let duplicates = key(&[("duplicate", 3), ("reset", 0)]);
        assert_eq!((duplicates.value.as_str(), duplicates.remark.as_str()), ("none", "duplicate 3"));
        assert_eq!(key(&[("lost", 1200), ("reset", 34), ("duplicate", 1)]).value, "1,234");
        assert_eq!(key(&[("lost", u64::MAX), ("reset", u64::MAX)]).value, count(u64::MAX));
    }

    #[test]
    fn the_rate_stands_beside_what_was_offered() {
        let report =
            Report { requests_per_second: 9_500.0, offered_per_second: Some(10_000.0), not_sent: Some(12), ..Report::default() };
        let key = achieved(&report);
        assert_eq!(key.value, "9,500/s");
        assert!(key.remark.starts_with("95.0 % of 10,000/s offered; 12 not sent"));
        assert!(!achieved(&Report::default()).remark.contains("offered"));
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let text = key_figures(&Report::default()).into_string();
        assert!(text.contains("not measured") && text.contains("not known"));
        assert!(!text.contains("NaN") && !text.contains("Send lag"));
    }

    #[test]
    fn modes_are_told_in_words() {
        let of = |mode: &str| {
            setting(&Settings { mode: mode.into(), rate: Some(1e4), connections: 8, depth: 2, ..Settings::default() })
        };
        assert!(of("closed").starts_with("Closed loop, 16 in flight"));
        assert!(of("open").starts_with("Open loop, 10,000 requests a second"));
        assert!(of("connections").starts_with("10,000 connections a second"));
        assert!(of("another").starts_with("another;"));
    }
}
