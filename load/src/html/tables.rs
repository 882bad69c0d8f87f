//! All figures of a report in tables.

use super::number::measured;
use crate::report::{Lane, Quantiles, Report, Server, Settings};
use crate::text::figures::{UNKNOWN, bytes, count, number, percent, quantile, quantile_keys, trimmed};
use maud::{Markup, html};

/// A row: its name and its cells.
pub type Line = (String, Vec<String>);

/// A table whose first column names the rows. Where it is too wide for the page, it scrolls by itself.
pub fn table(caption: &str, heads: &[&str], rows: impl IntoIterator<Item = Line>) -> Markup {
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
            @if !report.counted.is_empty() { (counted(report)) }
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
        ("connecting, TLS included", &report.handshake_us),
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
    let sides: Vec<&Quantiles> = times.iter().map(|(_, quantiles)| *quantiles).collect();
    let row = |key: &str| (quantile(key), sides.iter().map(|quantiles| measured(quantiles.get(key).copied())).collect());
    let heads: Vec<&str> = ["quantile"].into_iter().chain(times.iter().map(|(name, _)| name.as_str())).collect();
    table("Times in microseconds", &heads, quantile_keys(&sides).into_iter().map(row))
}

fn settings(settings: &Settings) -> Markup {
    let rows = [
        ("mode", Some(settings.mode.clone())),
        ("connections", Some(count(settings.connections))),
        ("requests in flight on each, at most", Some(count(settings.depth))),
        ("request", Some(format!("{} bytes", count(settings.size)))),
        ("rate asked for", settings.rate.map(|rate| format!("{} per second", trimmed(rate)))),
        ("arrivals", settings.arrivals.clone()),
        ("time to measure", settings.duration_s.map(seconds)),
        ("requests to make", settings.requests.map(count)),
        ("warm-up", Some(seconds(settings.warm_up_s))),
        ("waits for an answer", Some(seconds(settings.timeout_s))),
        ("lanes", Some(count(settings.lanes))),
        ("spins before sleeping", Some(format!("{} µs", count(settings.spin_us)))),
        ("driver", Some(settings.driver.clone())),
        ("seed", Some(settings.seed.to_string())),
    ];
    table("Settings", &["setting", "value"], named(rows))
}

fn seconds(seconds: f64) -> String {
    format!("{} s", trimmed(seconds))
}

/// Those rows that have a value.
fn named<const N: usize>(rows: [(&str, Option<String>); N]) -> impl Iterator<Item = Line> {
    rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), vec![value?])))
}

fn errors(report: &Report) -> Markup {
    table("Errors by kind", &["kind", "count"], report.errors.iter().map(|(kind, times)| (kind.clone(), vec![count(*times)])))
}

fn counted(report: &Report) -> Markup {
    let rows = report.counted.iter().map(|(name, times)| (name.replace('_', " "), vec![count(*times)]));
    table("Counted of answers", &["what", "count"], rows)
}

fn counts(report: &Report) -> Markup {
    let generator = &report.generator;
    let rows = [
        ("requests answered", Some(count(report.requests))),
        ("answered in the window", Some(count(report.answered_in_window))),
        ("window", Some(seconds(report.seconds))),
        ("requests per second", Some(number(report.requests_per_second))),
        ("offered per second", report.offered_per_second.map(number)),
        ("not sent", report.not_sent.map(count)),
        ("connections that followed another", Some(report.renewed).filter(|&renewed| renewed > 0).map(count)),
        ("full handshakes of TLS", report.handshakes.as_ref().map(|shaken| count(shaken.full))),
        ("resumed handshakes of TLS", report.handshakes.as_ref().map(|shaken| count(shaken.resumed))),
        ("requests sent again for that", Some(report.asked_again).filter(|&again| again > 0).map(count)),
        ("payload sent", Some(format!("{} bytes", count(report.bytes_sent)))),
        ("payload received", Some(format!("{} bytes", count(report.bytes_received)))),
        ("CPU of the generator", Some(format!("{} µs per request", number(generator.us_per_request)))),
        ("memory of the generator", Some(bytes(generator.resident_bytes as f64))),
        ("CPU time stolen by the host", Some(percent(generator.stolen))),
        ("packets dropped, buffer full", Some(count(generator.socket_buffer_drops))),
        ("segments sent again", Some(count(generator.retransmissions))),
    ];
    table("Counts", &["what", "value"], named(rows))
}

fn of_server(server: &Server) -> Markup {
    let fixed = [
        ("process, with its descendants", Some(server.pid.to_string())),
        ("CPUs used", Some(number(server.cpus_used))),
        ("waited, of the time that it wanted a CPU", Some(percent(server.waiting_for_cpu))),
        ("memory at the end", Some(bytes(server.resident_bytes as f64))),
        ("trains dropped at its sockets", server.trains_dropped.map(count)),
        ("memory per connection", server.bytes_per_connection.map(bytes)),
    ];
    let counters = server.per_request.iter().map(|(name, value)| (format!("{name} per request"), vec![number(*value)]));
    table("Server", &["what", "value"], named(fixed).chain(counters))
}

fn lanes(lanes: &[Lane]) -> Markup {
    let heads = ["lane", "requests", "errors", "CPU", "CPU used", "used for work", "waited for CPU", "connections"];
    let row = |lane: &Lane| {
        let cpu = lane.cpu.map_or_else(|| UNKNOWN.to_owned(), |cpu| cpu.to_string());
        let [requests, errors, connections] = [lane.requests, lane.errors, lane.connections].map(count);
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
        let names = ["p9", "p50", "p99", "p99.9", "max"];
        let places: Vec<_> = names.iter().map(|name| text.find(&format!(">{name}<")).unwrap()).collect();
        assert!(places.is_sorted());
        assert!(text.contains("<td>12,345</td><td>-</td>"));
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
