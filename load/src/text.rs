//! A run's report as text, for terminals and logs: plain ASCII, at most 80 columns wide.

pub mod figures;
pub(crate) mod layout;
#[cfg(test)]
mod tests;

use crate::report::{
    Flow, Generator, Lane, LaneFlow, Paired, Quantiles, Repeated, Report, Second, Server, Settings, Spread, TargetLane,
};
use figures::{UNKNOWN, bytes, count, number, percent, quantile, quantile_keys, rate, ratio, time, trimmed};
use layout::Page;
use std::collections::BTreeMap;

/// Most distributions beside each other in a table.
const ABREAST: usize = 4;

/// What a run came to.
pub fn summary(report: &Report) -> String {
    let mut page = Page::default();
    what_was_run(&mut page, report);
    page.gap();
    verdict(&mut page, report.believable, &report.doubts, &limit("", report));
    notes(&mut page, &report.notes);
    page.gap();
    match &report.flow {
        Some(flow) => flows(&mut page, report, flow),
        None => {
            rates(&mut page, report);
            page.gap();
            times(&mut page, report);
        }
    }
    page.gap();
    page.list("errors", &errors(report));
    page.gap();
    server(&mut page, report);
    generator(&mut page, &report.generator);
    page.gap();
    lanes(&mut page, &report.generator.lanes);
    target_lanes(&mut page, &report.target_lanes);
    if let Some(repeated) = &report.repeated {
        page.gap();
        spreads(&mut page, repeated);
    }
    page.finish()
}

/// What a comparison of two targets came to.
pub fn paired(paired: &Paired) -> String {
    let Paired { a, b, ratios, rounds, believable, .. } = paired;
    let mut page = Page::default();
    page.list("a", &[place(a)]);
    page.list("b", &[place(b)]);
    page.list("load", &settings(&a.settings));
    page.list("program", &program(a));
    page.gap();
    let of_side = |name: &str, doubts: &[String]| doubts.iter().map(|doubt| format!("{name}: {doubt}")).collect::<Vec<_>>();
    let doubts = [of_side("a", &a.doubts), of_side("b", &b.doubts)].concat();
    let limits = [limit("a: ", a), limit("b: ", b)].concat();
    verdict(&mut page, *believable, &doubts, &limits);
    notes(&mut page, &[of_side("a", &a.notes), of_side("b", &b.notes)].concat());
    page.gap();
    page.list("rounds", &[format!("{} of both, in alternating order", count(*rounds))]);
    if ratios.is_empty() {
        page.list("ratios", &["none: no figure was measured on both sides".to_owned()]);
    } else {
        page.gap();
        page.table(&ratio_rows(paired));
        let words = "a / b: median of the rounds' ratios; 90 %: its bootstrap interval; CPU is per request; latency begins at:";
        page.prose("", &format!("{words} {}", a.latency_from));
    }
    page.gap();
    page.list("errors of a", &errors(a));
    page.list("errors of b", &errors(b));
    page.finish()
}

fn place(report: &Report) -> String {
    format!("{} at {}", report.workload, report.target)
}

fn what_was_run(page: &mut Page, report: &Report) {
    page.list("run", &[place(report)]);
    page.list("load", &settings(&report.settings));
    page.list("program", &program(report));
}

fn program(report: &Report) -> Vec<String> {
    let settings = &report.settings;
    let lanes = several(settings.lanes, "lane");
    let started = figures::moment(report.started_unix_s).map(|moment| format!("started {moment}"));
    let parts = [report.program.clone(), format!("{lanes} on {}", settings.driver), format!("spin {} us", settings.spin_us)];
    parts.into_iter().chain(started).collect()
}

/// `1 lane`, `2 lanes`.
fn several(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

/// What was asked for.
fn settings(settings: &Settings) -> Vec<String> {
    let mut parts = vec![match (&*settings.mode, settings.rate) {
        ("closed", _) => "closed loop".to_owned(),
        ("open", Some(wanted)) => format!("{} {}", rate(wanted), settings.arrivals.as_deref().unwrap_or_default()),
        ("connections", Some(wanted)) => {
            format!(
                "{} new connections, {} on each",
                rate(wanted),
                several(settings.requests_per_connection.unwrap_or(1), "request")
            )
        }
        (mode, _) => mode.to_owned(),
    }];
    parts.push(several(settings.connections, "connection"));
    parts.push(format!("depth {}", count(settings.depth)));
    if settings.mode == "closed" {
        parts.extend(settings.requests_per_connection.map(|each| format!("{} on each", several(each, "request"))));
    }
    parts.push(several(settings.size, "byte"));
    parts.extend(settings.call.clone());
    parts.extend(settings.tls.clone());
    parts.extend(settings.duration_s.map(|seconds| format!("{} s", trimmed(seconds))));
    parts.extend(settings.requests.map(|requests| several(requests, "request")));
    parts.push(format!("warm-up {} s", trimmed(settings.warm_up_s)));
    parts.push(format!("timeout {} s", trimmed(settings.timeout_s)));
    parts.push(format!("seed {}", settings.seed));
    parts.extend(settings.spread.as_ref().map(|spread| format!("spread {spread}")));
    parts
}

/// Whether the figures can be believed, why not, and what set the rate.
fn verdict(page: &mut Page, believable: bool, doubts: &[String], limits: &[String]) {
    let words = match (believable, doubts.is_empty()) {
        (true, true) => "believable",
        (true, false) => "believable, but:",
        (false, true) => "NOT TO BE BELIEVED",
        (false, false) => "NOT TO BE BELIEVED:",
    };
    page.prose("verdict", words);
    doubts.iter().for_each(|doubt| page.item(doubt));
    for (index, limit) in limits.iter().enumerate() {
        page.prose(if index == 0 { "limit" } else { "" }, limit);
    }
}

fn notes(page: &mut Page, notes: &[String]) {
    for (index, note) in notes.iter().enumerate() {
        page.prose(if index == 0 { "notes" } else { "" }, note);
    }
}

/// What set the rate, in words; none if nobody knows.
fn limit(side: &str, report: &Report) -> Vec<String> {
    let words = match &*report.limit {
        "" => return Vec::new(),
        "server" => "the server",
        "generator" => "the generator",
        "rate" => "the rate that was asked for",
        "neither" => "neither server nor generator, but latency or something between them",
        other => other,
    };
    vec![format!("{side}{words}")]
}

fn rates(page: &mut Page, report: &Report) {
    let offered = report.offered_per_second.map(|offered| format!("{} offered", rate(offered)));
    let achieved = Some(format!("{} achieved", rate(report.requests_per_second)));
    let unit = report.opened.is_some().then(|| "counted in requests".to_owned());
    let not_sent = report.not_sent.map(|requests| format!("{} not sent", count(requests)));
    page.list("rate", &[offered, achieved, not_sent, unit].into_iter().flatten().collect::<Vec<_>>());
    let sent = report.bytes_sent as f64;
    let received = report.bytes_received as f64;
    let each_second = |total: f64| bytes(if report.seconds > 0.0 { total / report.seconds } else { f64::NAN });
    let mut parts = vec![format!("{} answered in {} s", count(report.answered_in_window), number(report.seconds))];
    if report.requests != report.answered_in_window {
        parts.push(format!("{} answered of those that were to start then", count(report.requests)));
    }
    parts.push(format!("{} sent ({}/s)", bytes(sent), each_second(sent)));
    parts.push(format!("{} received ({}/s)", bytes(received), each_second(received)));
    page.list("requests", &parts);
    connections(page, report);
    counted(page, report);
}

/// What went one way: how fast, and at what cost.
fn flows(page: &mut Page, report: &Report, flow: &Flow) {
    let cost = |whose: &str, seconds: Option<f64>| seconds.map(|seconds| format!("{whose} CPU {} s/GiB", number(seconds)));
    let speed = Some(format!("{} Gb/s", number(flow.gigabits_per_second)));
    let parts = [speed, cost("server", flow.server_s_per_gib), cost("generator", flow.generator_s_per_gib)];
    page.list("flow", &parts.into_iter().flatten().collect::<Vec<_>>());
    let (sent, received) = (report.bytes_sent as f64, report.bytes_received as f64);
    let datagrams = (report.sent > 0).then(|| format!("{} datagrams", count(report.sent)));
    let parts = [format!("{} sent", bytes(sent)), format!("{} received in {} s", bytes(received), number(report.seconds))];
    page.list("bytes", &datagrams.into_iter().chain(parts).collect::<Vec<_>>());
    counted(page, report);
    if !report.series.is_empty() {
        page.gap();
        page.table(&seconds_rows(report));
    }
}

/// Most seconds of which a table tells.
const SECONDS_TOLD: usize = 60;

/// A line for each lane and second: the last ones, where there are many.
fn seconds_rows(report: &Report) -> Vec<Vec<String>> {
    let header = ["second", "lane", "connections", "opened", "closed", "sent", "received"].map(str::to_owned);
    let series = &report.series[report.series.len().saturating_sub(SECONDS_TOLD)..];
    let row = |second: &Second, lane: usize, flow: &LaneFlow| {
        let each_second = |total: u64| format!("{}/s", bytes(total as f64 / second.length_s.max(f64::MIN_POSITIVE)));
        let connections = [flow.connections, flow.opened, flow.closed].map(count);
        let begin = [trimmed(second.at_s), count(lane as u64)];
        begin.into_iter().chain(connections).chain([flow.bytes_sent, flow.bytes_received].map(each_second)).collect()
    };
    let rows = series.iter().flat_map(|second| {
        let told = move |(lane, flow)| row(second, lane, flow);
        second.flows.iter().enumerate().map(told)
    });
    std::iter::once(header.to_vec()).chain(rows).collect()
}

fn counted(page: &mut Page, report: &Report) {
    let met = report.counted.iter().filter(|(_, times)| **times > 0);
    let counted: Vec<String> = met.map(|(name, times)| format!("{} {}", name.replace('_', " "), count(*times))).collect();
    if !counted.is_empty() {
        page.list("counted", &counted);
    }
}

/// How connections followed one another, where they did.
fn connections(page: &mut Page, report: &Report) {
    let renewed = (report.renewed > 0).then(|| format!("{} followed one that had ended in order", count(report.renewed)));
    let again = (report.asked_again > 0).then(|| format!("{} sent again for that", several(report.asked_again, "request")));
    if let Some(shaken) = &report.handshakes {
        page.list(
            "handshakes",
            &[format!("{} full", count(shaken.full)), format!("{} resumed, in the whole run", count(shaken.resumed))],
        );
    }
    if renewed.is_some() {
        page.list("connections", &[renewed, again].into_iter().flatten().collect::<Vec<_>>());
    }
}

/// A distribution, what it is called, and where its times begin.
type Column<'a> = (&'a str, &'a str, &'a Quantiles);

fn times(page: &mut Page, report: &Report) {
    let latency: Option<Column> = Some(("latency", &report.latency_from, &report.latency_us));
    let columns = [
        latency,
        report.service_us.as_ref().map(|times| ("service time", "send", times)),
        report.send_lag_us.as_ref().map(|times| ("send lag", "when due", times)),
        report.connect_us.as_ref().map(|times| ("connecting", "asking", times)),
        report.connection_us.as_ref().map(|times| ("connection", "asking", times)),
        report.handshake_us.as_ref().map(|times| ("handshake", "asking", times)),
    ];
    let measured: Vec<Column> = columns.into_iter().flatten().filter(|(_, _, times)| !times.is_empty()).collect();
    if measured.is_empty() {
        let others = report.other_answers().map(|others| format!("no answer was right; {others}"));
        page.list("times", &[format!("none: {}", others.as_deref().unwrap_or("nothing was answered"))]);
    }
    for abreast in measured.chunks(ABREAST) {
        page.gap();
        page.table(&time_rows(abreast));
    }
}

/// Distributions beside each other, a row for each quantile that one of them has.
fn time_rows(columns: &[Column]) -> Vec<Vec<String>> {
    let row = |first: &str, cell: &dyn Fn(&Column) -> String| {
        std::iter::once(format!("{first:<10}")).chain(columns.iter().map(|column| format!("{:>14}", cell(column)))).collect()
    };
    let all: Vec<&Quantiles> = columns.iter().map(|(_, _, times)| *times).collect();
    let mut keys = quantile_keys(&all);
    if !keys.contains(&"max") {
        keys.push("max");
    }
    let mut rows: Vec<Vec<String>> = vec![row("times", &|(name, ..)| (*name).to_owned())];
    rows.push(row("begin at", &|(_, from, _)| (*from).to_owned()));
    for key in keys {
        rows.push(row(&quantile(key), &|(.., times)| times.get(key).map_or_else(|| UNKNOWN.to_owned(), |&us| time(us))));
    }
    rows
}

fn errors(report: &Report) -> Vec<String> {
    let met: Vec<String> =
        figures::errors(&report.errors).iter().map(|(kind, times)| format!("{kind} {}", count(*times))).collect();
    if met.is_empty() { vec!["none".to_owned()] } else { met }
}

fn server(page: &mut Page, report: &Report) {
    let per_request = report.server_us_per_request.filter(|_| report.flow.is_none());
    let mut parts: Vec<String> = per_request.map(|us| format!("CPU {} per request", time(us))).into_iter().collect();
    if let Some(server) = &report.server {
        parts.extend(usage(server));
    }
    if parts.is_empty() {
        parts.push("not measured: its process is not known".to_owned());
    }
    page.list("server", &parts);
    let counted = report.server.iter().flat_map(|server| &server.per_request);
    let mut counted: Vec<String> =
        counted.map(|(name, value)| format!("{} {}", name.replace('_', " "), number(*value))).collect();
    if let Some(first) = counted.first_mut() {
        first.insert_str(0, "per request: ");
        page.list("", &counted);
    }
}

fn usage(server: &Server) -> Vec<String> {
    let mut parts = vec![
        format!("{} CPUs used", number(server.cpus_used)),
        format!("waited in {} of the time it wanted a CPU", percent(server.waiting_for_cpu)),
        format!("memory {}", bytes(server.resident_bytes as f64)),
    ];
    parts.extend(server.bytes_per_connection.map(|each| format!("{} more per connection", bytes(each))));
    parts.extend(server.trains_dropped.map(|trains| format!("{} trains dropped at its sockets", count(trains))));
    parts.push(format!("process {} with its children", server.pid));
    parts
}

fn generator(page: &mut Page, generator: &Generator) {
    let parts = [
        format!("CPU {} per request", time(generator.us_per_request)),
        format!("memory {}", bytes(generator.resident_bytes as f64)),
        format!("{} of the machine's CPU stolen", percent(generator.stolen)),
        format!("{} packets dropped for full buffers", count(generator.socket_buffer_drops)),
        format!("{} segments sent again", count(generator.retransmissions)),
    ];
    page.list("generator", &parts);
}

fn lanes(page: &mut Page, lanes: &[Lane]) {
    let all: f64 = lanes.iter().map(|lane| lane.requests as f64).sum();
    if lanes.is_empty() {
        return;
    }
    let header = ["lane", "CPU", "used", "busy", "waiting", "connections", "requests", "share", "errors"].map(str::to_owned);
    let rows = lanes.iter().map(|lane| {
        vec![
            count(lane.lane),
            lane.cpu.map_or_else(|| "any".to_owned(), count),
            percent(lane.cpu_used),
            percent(lane.busy),
            percent(lane.waiting_for_cpu),
            count(lane.connections),
            count(lane.requests),
            percent(lane.requests as f64 / all),
            count(lane.errors),
        ]
    });
    page.table(&std::iter::once(header.to_vec()).chain(rows).collect::<Vec<_>>());
    if lanes.len() > 1 {
        page.gap();
        page.list("balance", &[balance(lanes, all / lanes.len() as f64)]);
    }
}

/// What each lane of the target gets of an aimed load.
fn target_lanes(page: &mut Page, lanes: &[TargetLane]) {
    if lanes.is_empty() {
        return;
    }
    let header = ["target's lane", "buckets", "connections", "share"].map(str::to_owned);
    let rows = lanes.iter().map(|lane| vec![count(lane.lane), count(lane.buckets), count(lane.connections), percent(lane.share)]);
    page.gap();
    page.table(&std::iter::once(header.to_vec()).chain(rows).collect::<Vec<_>>());
}

fn balance(lanes: &[Lane], mean: f64) -> String {
    let requests = || lanes.iter().map(|lane| lane.requests as f64 / mean);
    let (least, most) = (requests().fold(f64::INFINITY, f64::min), requests().fold(0.0, f64::max));
    if mean > 0.0 {
        format!("lanes answered {} to {} of their mean", ratio(least), ratio(most))
    } else {
        "no lane answered anything".to_owned()
    }
}

/// The figures of several runs that are told, in this order, and in which words; the document has more.
const TOLD: [(&str, &str); 11] = [
    ("requests_per_second", "achieved"),
    ("offered_per_second", "offered"),
    ("not_sent", "not sent"),
    ("latency_us", "latency"),
    ("service_us", "service"),
    ("send_lag_us", "send lag"),
    ("connect_us", "connect"),
    ("connection_us", "lifetime"),
    ("server_us_per_request", "server CPU"),
    ("server.bytes_per_connection", "server memory"),
    ("generator.us_per_request", "generator CPU"),
];

/// A figure's words, its path in the report, and its spread, in the order of [`TOLD`] and of quantiles.
fn told(figures: &BTreeMap<String, Spread>) -> Vec<(String, &str, &Spread)> {
    let mut rows = Vec::new();
    for (place, (path, words)) in TOLD.iter().enumerate() {
        for (name, spread) in figures {
            match name.strip_prefix(path) {
                Some("") => rows.push((place, 0.0, (*words).to_owned(), &**name, spread)),
                Some(rest) => rows.extend(
                    rest.strip_prefix('.')
                        .map(|key| (place, figures::place(key), format!("{words} {}", quantile(key)), &**name, spread)),
                ),
                None => {}
            }
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    rows.into_iter().map(|(_, _, words, name, spread)| (words, name, spread)).collect()
}

fn spreads(page: &mut Page, repeated: &Repeated) {
    let runs = format!("{} runs", count(repeated.runs.len() as u64));
    let header = [&runs, "median", "least", "greatest", "90 % from", "to"].map(str::to_owned);
    let rows = told(&repeated.figures).into_iter().map(|(words, name, spread)| {
        let Spread { median, least, greatest, low, high } = *spread;
        let cells = [median, least, greatest, low, high].map(|value| figure(name, value));
        std::iter::once(words).chain(cells).collect()
    });
    page.table(&std::iter::once(header.to_vec()).chain(rows).collect::<Vec<_>>());
    let words = "figures before this table are medians; 90 %: bootstrap interval of the median; CPU is per request, memory per connection";
    page.prose("", words);
}

fn ratio_rows(paired: &Paired) -> Vec<Vec<String>> {
    let median = |side: &Report, name: &str| {
        let spread = side.repeated.as_ref().and_then(|repeated| repeated.figures.get(name));
        spread.map_or_else(|| UNKNOWN.to_owned(), |spread| figure(name, spread.median))
    };
    let rows = told(&paired.ratios).into_iter().map(|(words, name, spread)| {
        let cells = [median(&paired.a, name), median(&paired.b, name)];
        let ratios = [spread.median, spread.low, spread.high].map(ratio);
        std::iter::once(words).chain(cells).chain(ratios).collect()
    });
    let header = ["medians", "a", "b", "a / b", "90 % from", "to"].map(str::to_owned);
    std::iter::once(header.to_vec()).chain(rows).collect()
}

/// A figure in the unit that its path in the report tells.
fn figure(name: &str, value: f64) -> String {
    match name {
        _ if name.ends_with("_per_second") => rate(value),
        _ if name.contains("bytes") => bytes(value),
        "not_sent" => number(value),
        _ => time(value),
    }
}
