//! All figures of a report in tables.

use super::number::{self, bytes, figure, grouped, measured, percent};
use super::percentiles::by_percent;
use crate::report::{Lane, Quantiles, Report, Server, Settings};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// A row: its name and its cells.
pub type Row = (String, Vec<String>);

/// A table whose first column names the rows. Where it is too wide for the page, it scrolls by itself.
pub fn table(caption: &str, heads: &[&str], rows: impl IntoIterator<Item = Row>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody {
                    @for (name, cells) in rows {
                        tr {
                            th scope="row" { (name) }
                            @for cell in cells { td { (cell) } }
                        }
                    }
                }
            }
        }
    }
}

/// The tables of one report.
pub fn all(report: &Report) -> Markup {
    html! {
        div.tables {
            (quantiles(report))
            (settings(&report.settings))
            (errors(report))
            (counts(report))
            @if let Some(server) = &report.server { (of_server(server)) }
            @if !report.generator.lanes.is_empty() { (lanes(&report.generator.lanes)) }
        }
    }
}

/// The times that a report has, with their names.
pub fn times(report: &Report) -> Vec<(String, &Quantiles)> {
    let latency = Some((latency(report), &report.latency_us));
    let more = [
        ("service time, from send", &report.service_us),
        ("send lag", &report.send_lag_us),
        ("connecting", &report.connect_us),
        ("life of connections", &report.connection_us),
    ];
    let more = more.into_iter().map(|(name, quantiles)| Some((name.to_owned(), quantiles.as_ref()?)));
    [latency].into_iter().chain(more).flatten().collect()
}

/// The name of latency, with where it begins.
pub fn latency(report: &Report) -> String {
    if report.latency_from.is_empty() { "latency".to_owned() } else { format!("latency, from {}", report.latency_from) }
}

fn quantiles(report: &Report) -> Markup {
    let times = times(report);
    let names: BTreeSet<&str> = times.iter().flat_map(|(_, quantiles)| quantiles.keys()).map(String::as_str).collect();
    let all: Quantiles = names.iter().map(|name| ((*name).to_owned(), 0.0)).collect();
    let percents = by_percent(&all).into_iter().map(|(percent, _)| percent.to_string());
    let names = ["min".to_owned()].into_iter().chain(percents).chain(["max", "mean", "stddev"].map(str::to_owned));
    let row = |name: String| {
        let cells = times.iter().map(|(_, quantiles)| measured(quantiles.get(&name).copied())).collect();
        let is_percent = name.parse::<f64>().is_ok();
        (if is_percent { format!("{name} %") } else { name }, cells)
    };
    let heads: Vec<&str> = ["quantile"].into_iter().chain(times.iter().map(|(name, _)| name.as_str())).collect();
    table("Times in microseconds", &heads, names.map(row))
}

fn settings(settings: &Settings) -> Markup {
    let rows = [
        ("mode", Some(settings.mode.clone())),
        ("connections", Some(grouped(settings.connections))),
        ("requests in flight on each, at most", Some(grouped(settings.depth))),
        ("request", Some(format!("{} bytes", grouped(settings.size)))),
        ("rate asked for", settings.rate.map(|rate| format!("{} per second", figure(rate)))),
        ("arrivals", settings.arrivals.clone()),
        ("time to measure", settings.duration_s.map(seconds)),
        ("requests to make", settings.requests.map(grouped)),
        ("warm-up", Some(seconds(settings.warm_up_s))),
        ("waits for an answer", Some(seconds(settings.timeout_s))),
        ("lanes", Some(grouped(settings.lanes))),
        ("spins before sleeping", Some(format!("{} µs", grouped(settings.spin_us)))),
        ("driver", Some(settings.driver.clone())),
        ("seed", Some(settings.seed.to_string())),
    ];
    table("Settings", &["setting", "value"], named(rows))
}

fn seconds(seconds: f64) -> String {
    format!("{} s", figure(seconds))
}

/// Those rows that have a value.
fn named<const N: usize>(rows: [(&str, Option<String>); N]) -> impl Iterator<Item = Row> {
    rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), vec![value?])))
}

fn errors(report: &Report) -> Markup {
    table("Errors by kind", &["kind", "count"], report.errors.iter().map(|(kind, count)| (kind.clone(), vec![grouped(*count)])))
}

fn counts(report: &Report) -> Markup {
    let generator = &report.generator;
    let rows = [
        ("requests answered", Some(grouped(report.requests))),
        ("window", Some(seconds(report.seconds))),
        ("requests per second", Some(figure(report.requests_per_second))),
        ("offered per second", report.offered_per_second.map(figure)),
        ("not sent", report.not_sent.map(grouped)),
        ("payload sent", Some(format!("{} bytes", grouped(report.bytes_sent)))),
        ("payload received", Some(format!("{} bytes", grouped(report.bytes_received)))),
        ("CPU of the generator", Some(format!("{} µs per request", figure(generator.us_per_request)))),
        ("memory of the generator", Some(bytes(generator.resident_bytes as f64))),
        ("CPU time stolen by the host", Some(percent(generator.stolen))),
        ("datagrams dropped, buffer full", Some(grouped(generator.socket_buffer_drops))),
        ("segments sent again", Some(grouped(generator.retransmissions))),
    ];
    table("Counts", &["what", "value"], named(rows))
}

fn of_server(server: &Server) -> Markup {
    let fixed = [
        ("process", Some(server.pid.to_string())),
        ("CPUs used", Some(figure(server.cpus_used))),
        ("seconds waited for a CPU, per second", Some(figure(server.waiting_for_cpu))),
        ("memory at the end", Some(bytes(server.resident_bytes as f64))),
        ("memory per connection", server.bytes_per_connection.map(bytes)),
    ];
    let counters = server.per_request.iter().map(|(name, value)| (format!("{name} per request"), vec![figure(*value)]));
    table("Server", &["what", "value"], named(fixed).chain(counters))
}

fn lanes(lanes: &[Lane]) -> Markup {
    let heads = ["lane", "requests", "errors", "CPU", "CPU used", "had work", "waited for CPU", "connections"];
    let row = |lane: &Lane| {
        let cpu = lane.cpu.map_or_else(|| number::ABSENT.to_owned(), |cpu| cpu.to_string());
        let [requests, errors, connections] = [lane.requests, lane.errors, lane.connections].map(grouped);
        let [used, busy, waited] = [lane.cpu_used, lane.busy, lane.waiting_for_cpu].map(percent);
        (lane.lane.to_string(), vec![requests, errors, cpu, used, busy, waited, connections])
    };
    table("Lanes of the generator", &heads, lanes.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_their_order_and_absent_ones_are_dashes() {
        let of = |pairs: &[(&str, f64)]| pairs.iter().map(|(name, us)| ((*name).to_owned(), *us)).collect::<Quantiles>();
        let latency_us = of(&[("99.9", 3.0), ("9", 1.0), ("99", 2.5), ("max", 12_345.0)]);
        let report =
            Report { latency_us, service_us: Some(of(&[("50", 1.5)])), latency_from: "send".into(), ..Report::default() };
        let text = quantiles(&report).into_string();
        let names = ["min", "9 %", "50 %", "99 %", "99.9 %", "max", "mean", "stddev"];
        let places: Vec<_> = names.iter().map(|name| text.find(&format!(">{name}<")).unwrap()).collect();
        assert!(places.is_sorted());
        assert!(text.contains("<td>12,345</td><td>–</td>"));
        assert!(text.contains("latency, from send"));
    }

    #[test]
    fn only_settings_that_were_made_are_listed() {
        let closed = settings(&Settings::default()).into_string();
        assert!(!closed.contains("rate asked for") && !closed.contains("arrivals"));
        let open = settings(&Settings { rate: Some(20_000.0), ..Settings::default() }).into_string();
        assert!(open.contains("20,000 per second"));
    }

    #[test]
    fn text_from_elsewhere_is_escaped() {
        let mut report = Report::default();
        report.errors.insert("<b>".into(), 1);
        report.settings.driver = "a & b".into();
        report.server = Some(Server { per_request: [("<i>".to_owned(), f64::NAN)].into(), ..Server::default() });
        let text = all(&report).into_string();
        for wanted in ["&lt;b&gt;", "a &amp; b", "&lt;i&gt; per request"] {
            assert!(text.contains(wanted), "{wanted}");
        }
        assert!(!text.contains("<b>") && !text.contains("<i>") && !text.contains("NaN"));
    }
}
