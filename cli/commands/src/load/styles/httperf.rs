//! `httperf`: connections at a rate, with some requests of HTTP on each, and a page of figures.

use super::measure::{checked, measure};
use super::style::{Style, exit_of, options, with_codes};
use crate::exit::{Exit, Late};
use crate::load::reach::{CONNECT, reached};
use crate::load::watch::Watcher;
use crate::print::print;
use anyhow::{Result, anyhow};
use clap::Parser;
use corelane_load::arrivals::Arrivals;
use corelane_load::plan::{Extent, Mode, Plan};
use corelane_load::report::{Opened, Quantiles, Report};
use corelane_load::workloads::Particulars;
use corelane_load::workloads::http::{self, Expect, HttpSettings, Wanted};
use std::time::Duration;

pub const STYLE: Style = Style { name: "httperf", about: "HTTP: connections at a rate, and a page of figures", run };

/// Most connections at once; those that are due meanwhile wait.
const AT_ONCE: u64 = 10_000;

/// Seconds of the window in which one sample of the reply rate is taken.
const SAMPLE_SECONDS: usize = 5;

/// Opens connections at a rate, makes calls on each, one after the other, and closes it
///
/// Understands some options of the httperf program, and prints its figures. A reply counts whatever its status and its content. One lane
/// works, and up to 10000 connections are open at once.
#[derive(Parser, Debug)]
#[command(name = "corelane load --style httperf", no_binary_name = true, max_term_width = 100, after_help = with_codes(AFTER_HELP))]
struct Options {
    /// The server
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    server: String,
    /// Its port
    #[arg(long, value_name = "PORT", default_value_t = 80)]
    port: u16,
    /// What it is called in the Host line [default: HOST]
    #[arg(long, value_name = "HOST")]
    server_name: Option<String>,
    /// What to ask for
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = path)]
    uri: String,
    /// How
    #[arg(long, value_name = "NAME", default_value = "GET", value_parser = method)]
    method: String,
    /// Header lines for each call, each ended by a backslash and an n, or by a line feed
    #[arg(long, value_name = "LINES", value_parser = headers, default_value = "", hide_default_value = true)]
    add_header: Headers,
    /// Connections a second, at equal distances; with 0 each follows the one before it
    #[arg(long, value_name = "R", default_value_t = 0.0)]
    rate: f64,
    /// Connections to make
    #[arg(long, value_name = "N", default_value_t = 1)]
    num_conns: u64,
    /// Calls on each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    num_calls: u32,
    /// Seconds that a connection, or an answer, is waited for
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    timeout: f64,
    /// Bytes of the socket's send buffer (SO_SNDBUF) [default: the kernel's]
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    send_buffer: u32,
    /// Bytes of its receive buffer (SO_RCVBUF) [default: the kernel's]
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    recv_buffer: u32,
}

/// Header lines by name and value.
type Headers = Vec<(String, String)>;

const AFTER_HELP: &str = "\
Times of connections begin when they were due. The CPU time is that of this process, in steps of 10 ms. A connection that the server ends by
its word (Connection: close) is followed by another one for the calls that are left. A server that ends one without a word, or within a reply,
counts as connreset; what is no HTTP counts as other.
";

fn path(text: &str) -> Result<String, String> {
    http::wanted(text).map(|wanted| wanted.path)
}

fn method(text: &str) -> Result<String, String> {
    http::check_method(text).map(|()| text.to_owned())
}

/// Reads `A: b\n` and several of them, in which `\n` may be a backslash and a letter.
fn headers(text: &str) -> Result<Headers, String> {
    let lines = text.replace("\\r", "\r").replace("\\n", "\n");
    lines.lines().filter(|line| !line.trim().is_empty()).map(http::header).collect()
}

fn run(words: &[String]) -> Result<Exit> {
    let options: Options = options(words);
    let plan = options.plan()?;
    let watcher = Watcher::open(true)?;
    let before = cpu_times()?;
    let report = measure(&http::ENTRY, plan, &watcher)?;
    let after = cpu_times()?;
    print(page(&report, (after.0 - before.0, after.1 - before.1)))?;
    Ok(exit_of(Faults::of(&report).total() > 0))
}

impl Options {
    fn plan(&self) -> Result<Plan> {
        let with_port = format!("http://{}:{}{}", self.server, self.port, self.uri);
        let place = reached(http::ENTRY.place(Some(&with_port))?, &[], CONNECT)?;
        let timeout = Duration::try_from_secs_f64(self.timeout)
            .map_err(|error| anyhow!("--timeout: {} is no number of seconds: {error}", self.timeout))?;
        let (arrivals, at_once) = match self.rate {
            0.0 => (Arrivals::AsTheyCan, 1),
            _ => (Arrivals::Fixed, AT_ONCE),
        };
        let plan = Plan {
            mode: Mode::Connections { rate: self.rate, arrivals, requests: self.num_calls },
            connections: self.num_conns.clamp(1, at_once) as u32,
            // A server that is not there has its page, too: that of what was refused.
            gives_up: false,
            buffers: (self.send_buffer, self.recv_buffer),
            size: 0,
            particulars: Particulars::of(self.settings()),
            extent: Extent::Requests(self.num_conns),
            timeout,
            ..Plan::new(http::ENTRY.name, &place.url, place.address)
        };
        checked(&http::ENTRY, plan)
    }

    /// What is asked for: any reply will do, and no request says that its connection ends.
    fn settings(&self) -> HttpSettings {
        HttpSettings {
            wanted: vec![Wanted::new(&self.uri)],
            host: self.server_name.clone().unwrap_or_else(|| self.server.clone()),
            method: Some(self.method.clone()),
            headers: self.add_header.clone(),
            expect: Expect::Any,
            any_status: true,
            says_close: false,
            ..HttpSettings::default()
        }
    }
}

/// Seconds of CPU time of this process so far: user, system (utime and stime of proc_pid_stat(5)).
fn cpu_times() -> Result<(f64, f64)> {
    /// Units of these times in a second (USER_HZ), on every machine that Linux presents to programs.
    const TICKS: f64 = 100.0;
    let broken = |why: String| Late::of("reading /proc/self/stat", why);
    let stat = std::fs::read_to_string("/proc/self/stat").map_err(|error| broken(error.to_string()))?;
    // The second field, the name, may have anything in it, but ends with the last parenthesis.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let seconds = |index: usize| -> Option<f64> { Some(fields.get(index)?.parse::<f64>().ok()? / TICKS) };
    seconds(11).zip(seconds(12)).ok_or_else(|| broken(format!("{stat:?} has no times")).into())
}

/// The whole page.
fn page(report: &Report, cpu: (f64, f64)) -> String {
    let opened = report.opened.clone().unwrap_or_default();
    [
        format!("Maximum connect burst length: {}\n", opened.longest_burst),
        totals(report, &opened),
        connections(report, &opened),
        requests(report),
        replies(report),
        resources(report, cpu),
        Faults::of(report).text(),
    ]
    .join("\n")
}

fn totals(report: &Report, opened: &Opened) -> String {
    let (connections, requests, replies, seconds) = (opened.asked, report.sent, report.requests, report.seconds);
    format!("Total: connections {connections} requests {requests} replies {replies} test-duration {seconds:.3} s\n")
}

fn connections(report: &Report, opened: &Opened) -> String {
    let (rate, each) = rate(opened.asked, report.seconds);
    let at_once = opened.most_at_once;
    let times = report.connection_us.as_ref();
    let of = |key: &str| milliseconds(times, key);
    let replies = quotient(report.requests as f64, opened.answered as f64);
    format!("Connection rate: {rate:.1} conn/s ({each:.1} ms/conn, <={at_once} concurrent connections)\n")
        + &format!("Connection time [ms]: min {:.1} avg {:.1} max {:.1} ", of("min"), of("mean"), of("max"))
        + &format!("median {:.1} stddev {:.1}\n", of("50"), of("stddev"))
        + &format!("Connection time [ms]: connect {:.1}\n", milliseconds(report.connect_us.as_ref(), "mean"))
        + &format!("Connection length [replies/conn]: {replies:.3}\n")
}

fn requests(report: &Report) -> String {
    let (rate, each) = rate(report.sent, report.seconds);
    let size = quotient(report.bytes_sent as f64, report.sent as f64);
    format!("Request rate: {rate:.1} req/s ({each:.1} ms/req)\nRequest size [B]: {size:.1}\n")
}

fn replies(report: &Report) -> String {
    let Samples { min, mean, max, deviation, count } = Samples::of(&reply_rates(report));
    let response = milliseconds(report.response_us.as_ref(), "mean");
    let transfer = milliseconds(report.transfer_us.as_ref(), "mean");
    let counted = |name: &str| report.counted.get(name).copied().unwrap_or(0);
    let [head, content, footer] =
        ["head_bytes", "content_bytes", "trailer_bytes"].map(|name| quotient(counted(name) as f64, report.requests as f64));
    let whole = head + content + footer;
    let classes: Vec<String> = (1..=5).map(|class| format!("{class}xx={}", counted(&format!("status_{class}xx")))).collect();
    format!("Reply rate [replies/s]: min {min:.1} avg {mean:.1} max {max:.1} stddev {deviation:.1} ({count} samples)\n")
        + &format!("Reply time [ms]: response {response:.1} transfer {transfer:.1}\n")
        + &format!("Reply size [B]: header {head:.1} content {content:.1} footer {footer:.1} (total {whole:.1})\n")
        + &format!("Reply status: {}\n", classes.join(" "))
}

fn resources(report: &Report, (user, system): (f64, f64)) -> String {
    let percent = |seconds: f64| quotient(seconds * 100.0, report.seconds);
    let bytes = quotient((report.bytes_sent + report.bytes_received) as f64, report.seconds);
    format!("CPU time [s]: user {user:.2} system {system:.2} ")
        + &format!("(user {:.1}% system {:.1}% total {:.1}%)\n", percent(user), percent(system), percent(user + system))
        + &format!("Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n", bytes / 1024.0, bytes * 8.0 / 1e6)
}

/// How many a second, and how many milliseconds for each.
fn rate(count: u64, seconds: f64) -> (f64, f64) {
    (quotient(count as f64, seconds), quotient(seconds * 1e3, count as f64))
}

fn quotient(whole: f64, parts: f64) -> f64 {
    if parts > 0.0 { whole / parts } else { 0.0 }
}

fn milliseconds(times: Option<&Quantiles>, key: &str) -> f64 {
    times.and_then(|times| times.get(key)).map_or(0.0, |us| us / 1e3)
}

/// The rate of each five seconds; what is left of them is no sample.
fn reply_rates(report: &Report) -> Vec<f64> {
    let whole: Vec<f64> = report
        .series
        .iter()
        .filter(|second| second.at_s >= 0.0 && second.length_s > 0.999)
        .map(|second| second.requests_per_second)
        .collect();
    whole.chunks_exact(SAMPLE_SECONDS).map(|rates| rates.iter().sum::<f64>() / SAMPLE_SECONDS as f64).collect()
}

#[derive(Default)]
struct Samples {
    min: f64,
    mean: f64,
    max: f64,
    deviation: f64,
    count: usize,
}

impl Samples {
    /// The deviation is that of a sample: by one less than there are.
    fn of(rates: &[f64]) -> Self {
        let count = rates.len();
        if count == 0 {
            return Self::default();
        }
        let mean = rates.iter().sum::<f64>() / count as f64;
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        let min = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let max = rates.iter().copied().fold(0.0, f64::max);
        Self { min, mean, max, deviation: quotient(squares, count as f64 - 1.0).sqrt(), count }
    }
}

/// The errors by that program's kinds.
#[derive(Debug, Default, PartialEq)]
struct Faults {
    client_timeout: u64,
    socket_timeout: u64,
    refused: u64,
    reset: u64,
    no_descriptor: u64,
    no_address: u64,
    table_full: u64,
    other: u64,
}

impl Faults {
    fn of(report: &Report) -> Self {
        let mut faults = Self::default();
        for (kind, &count) in &report.errors {
            let field = match kind.as_str() {
                "client_timeout" => &mut faults.client_timeout,
                "socket_timeout" => &mut faults.socket_timeout,
                "refused" => &mut faults.refused,
                // That program makes no difference between a server that closes too early and one that resets.
                "reset" | "closed" | "http_cut" => &mut faults.reset,
                "no_descriptor" => &mut faults.no_descriptor,
                "no_address" => &mut faults.no_address,
                "table_full" => &mut faults.table_full,
                _ => &mut faults.other,
            };
            *field += count;
        }
        faults
    }

    fn total(&self) -> u64 {
        let Self { client_timeout, socket_timeout, refused, reset, no_descriptor, no_address, table_full, other } = self;
        client_timeout + socket_timeout + refused + reset + no_descriptor + no_address + table_full + other
    }

    fn text(&self) -> String {
        let Self { client_timeout, socket_timeout, refused, reset, no_descriptor, no_address, table_full, other } = self;
        let total = self.total();
        format!(
            "Errors: total {total} client-timo {client_timeout} socket-timo {socket_timeout} connrefused {refused} connreset {reset}\n"
        ) + &format!("Errors: fd-unavail {no_descriptor} addrunavail {no_address} ftab-full {table_full} other {other}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_load::report::Second;

    fn times(pairs: &[(&str, f64)]) -> Option<Quantiles> {
        Some(pairs.iter().map(|&(key, us)| (key.to_owned(), us)).collect())
    }

    fn second(at_s: f64, requests_per_second: f64) -> Second {
        Second { at_s, length_s: 1.0, requests_per_second, ..Second::default() }
    }

    /// A run of 10 s with 1,000 connections a second, of which some were reset.
    fn report() -> Report {
        let rates = [970.0, 970.0, 970.0, 970.0, 970.0, 980.0, 980.0, 980.0, 980.0, 983.0];
        Report {
            seconds: 10.0,
            sent: 10_000,
            requests: 9_733,
            bytes_sent: 640_000,
            bytes_received: 9_733 * 4_129,
            counted: [("head_bytes", 9_733 * 198), ("content_bytes", 9_733 * 3_931), ("status_4xx", 9_733)]
                .map(|(name, count)| (name.to_owned(), count))
                .into(),
            opened: Some(Opened { asked: 10_000, answered: 9_733, most_at_once: 64, longest_burst: 62 }),
            connect_us: times(&[("mean", 151.0)]),
            connection_us: times(&[("min", 100.0), ("mean", 1_000.0), ("max", 15_700.0), ("50", 500.0), ("stddev", 900.0)]),
            response_us: times(&[("mean", 420.0)]),
            transfer_us: times(&[("mean", 380.0)]),
            errors: [("reset".to_owned(), 260), ("closed".to_owned(), 4), ("http_malformed".to_owned(), 3)].into(),
            series: (0..).zip(rates).map(|(at, rate)| second(f64::from(at), rate)).collect(),
            ..Report::default()
        }
    }

    #[test]
    fn the_page_has_every_figure_in_its_place() {
        let expected = "\
Maximum connect burst length: 62

Total: connections 10000 requests 10000 replies 9733 test-duration 10.000 s

Connection rate: 1000.0 conn/s (1.0 ms/conn, <=64 concurrent connections)
Connection time [ms]: min 0.1 avg 1.0 max 15.7 median 0.5 stddev 0.9
Connection time [ms]: connect 0.2
Connection length [replies/conn]: 1.000

Request rate: 1000.0 req/s (1.0 ms/req)
Request size [B]: 64.0

Reply rate [replies/s]: min 970.0 avg 975.3 max 980.6 stddev 7.5 (2 samples)
Reply time [ms]: response 0.4 transfer 0.4
Reply size [B]: header 198.0 content 3931.0 footer 0.0 (total 4129.0)
Reply status: 1xx=0 2xx=0 3xx=0 4xx=9733 5xx=0

CPU time [s]: user 2.46 system 7.16 (user 24.6% system 71.6% total 96.2%)
Net I/O: 3987.1 KB/s (32.7*10^6 bps)

Errors: total 267 client-timo 0 socket-timo 0 connrefused 0 connreset 264
Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 3
";
        assert_eq!(page(&report(), (2.46, 7.16)), expected);
    }

    #[test]
    fn of_nothing_everything_is_zero() {
        let text = page(&Report::default(), (0.0, 0.0));
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(text.contains("stddev 0.0 (0 samples)") && text.contains("Errors: total 0 "), "{text}");
    }

    #[test]
    fn only_five_whole_seconds_are_a_sample() {
        let mut report = report();
        report.series.insert(0, second(-1.0, 5_000.0));
        assert_eq!(reply_rates(&report).len(), 2);
        report.series.pop();
        assert_eq!(reply_rates(&report), [970.0]);
        report.series.push(Second { length_s: 0.5, ..second(9.0, 10.0) });
        assert_eq!(reply_rates(&report), [970.0]);
    }

    #[test]
    fn each_kind_of_error_has_its_field() {
        let kinds =
            ["client_timeout", "socket_timeout", "refused", "reset", "no_descriptor", "no_address", "table_full", "unreachable"];
        let errors = (1..).zip(kinds).map(|(count, kind)| (kind.to_owned(), count)).collect();
        let faults = Faults::of(&Report { errors, ..Report::default() });
        let expected = "Errors: total 36 client-timo 1 socket-timo 2 connrefused 3 connreset 4\n\
                        Errors: fd-unavail 5 addrunavail 6 ftab-full 7 other 8\n";
        assert_eq!(faults.text(), expected);
    }

    #[test]
    fn the_options_make_the_plan() {
        let words =
            "--server=127.0.0.1 --port 7 --rate=2500.5 --num-conns 20000 --num-calls=3 --timeout 0.25 --uri /a --method HEAD";
        let plan = Options::try_parse_from(words.split_whitespace()).unwrap().plan().unwrap();
        assert_eq!(plan.mode, Mode::Connections { rate: 2_500.5, arrivals: Arrivals::Fixed, requests: 3 });
        assert_eq!((plan.extent, plan.connections, plan.size), (Extent::Requests(20_000), 10_000, 0));
        assert_eq!((plan.timeout, plan.target), (Duration::from_millis(250), "127.0.0.1:7".parse().unwrap()));
        for words in ["--rate fast", "--send-buffer big", "--rate 5 --num-calls 0", "--rate 5 --port 65536"] {
            assert!(Options::try_parse_from(words.split_whitespace()).is_err(), "{words}");
        }
        let words = "--uri=/ --num-calls=1 --send-buffer=4096 --recv-buffer=16384 --timeout=1 --num-conns=10000";
        let unpaced = Options::try_parse_from(words.split_whitespace()).unwrap().plan().unwrap();
        assert_eq!(unpaced.mode, Mode::Connections { rate: 0.0, arrivals: Arrivals::AsTheyCan, requests: 1 });
        assert_eq!((unpaced.connections, unpaced.buffers, unpaced.rate()), (1, (4_096, 16_384), None));
        for (words, why) in [("--rate 5 --timeout=-1", "--timeout"), ("--rate 5 --timeout 0", "timeout"), ("--rate=-1", "rate")] {
            let error = Options::try_parse_from(words.split_whitespace()).unwrap().plan().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn this_process_has_times() {
        let (user, system) = cpu_times().unwrap();
        assert!(user >= 0.0 && system >= 0.0);
    }
}
