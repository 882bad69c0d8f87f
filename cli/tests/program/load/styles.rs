//! Twins of older programs: their options, their print, and that it is true.

use super::*;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};

/// `corelane load --style` with these words, run to its end.
fn styled(words: &[&str]) -> Output {
    ended(&[], &[&["--style"], words].concat())
}

/// What it prints, when it ends with `code` and says nothing else.
fn printed(words: &[&str], code: i32) -> String {
    let output = styled(words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.as_str()), (Some(code), ""), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A port of loopback where nobody is.
fn nobody() -> String {
    corelane_testkit::free().port().to_string()
}

/// The options of udp-clt for a place.
fn udp_clt<'a>(local: &'a str, to: &'a SocketAddr, port: &'a str, count: &'a str, size: &'a str) -> Vec<String> {
    let remote = to.ip().to_string();
    ["udp-clt", "-l", local, "-r", &remote, "-p", port, "-n", count, "-s", size].map(str::to_owned).to_vec()
}

fn words(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

/// The first number behind a label at the beginning of a line.
fn figure(text: &str, label: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(label)).unwrap_or_else(|| panic!("no {label:?} in {text:?}"));
    let number: String = line.trim_start().chars().filter(|&c| c != ',').take_while(char::is_ascii_digit).collect();
    number.parse().unwrap_or_else(|_| panic!("{label:?} has no number in {text:?}"))
}

#[test]
fn udp_clt_sends_what_it_says_from_where_it_is_told() {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = sink.local_addr().unwrap();
    // So few that they all wait in the sink's buffer.
    let text = printed(&words(&udp_clt("127.0.0.2", &to, &to.port().to_string(), "100", "300")), GOOD);
    assert!(text.starts_with("local         127.0.0.2\nremote        127.0.0.1\nport          "), "{text}");
    assert!(text.contains("datagrams     300 bytes, 100 times\n"), "{text}");
    assert_eq!([figure(&text, "sent "), figure(&text, "refused "), figure(&text, "received back ")], [100, 0, 0]);
    sink.set_nonblocking(true).unwrap();
    let mut bytes = [0; 400];
    for _ in 0..100 {
        let (length, from) = sink.recv_from(&mut bytes).unwrap();
        assert_eq!((length, from.ip().to_string().as_str()), (300, "127.0.0.2"));
        assert!(bytes[..length].iter().enumerate().all(|(i, &byte)| usize::from(byte) == i % 256));
    }
    assert_eq!(sink.recv_from(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock, "one more than was said");
}

#[test]
fn udp_clt_counts_what_comes_back_over_either_ip_version() {
    for (place, local) in [("echo=udp://127.0.0.1:0", "127.0.0.1"), ("echo=udp://[::1]:0", "::1")] {
        let server = Server::start(&[place]);
        let to = server.udp();
        let (mut runs, mut text) = (0, String::new());
        // It waits a fifth of a second for what comes back, and a busy machine may take longer.
        until("all of a run came back", || {
            runs += 1;
            text = printed(&words(&udp_clt(local, &to, &to.port().to_string(), "64", "100")), GOOD);
            assert_eq!([figure(&text, "sent "), figure(&text, "refused ")], [64, 0], "{text}");
            figure(&text, "received back ") == 64
        });
        assert!(text.contains("received back 64, 100.0 %: ") && text.contains("\nCPU  "), "{text}");
        server.comes_to("datagrams_in", 64 * runs);
    }
}

#[test]
fn udp_clt_sends_the_longest_datagrams_without_end_until_their_time() {
    let server = Server::start(&[UDP]);
    let to = server.udp();
    let mut options = udp_clt("127.0.0.1", &to, "0", "0", "65507");
    options[6] = to.port().to_string();
    options.extend(["--duration".to_owned(), "300ms".to_owned()]);
    let text = printed(&words(&options), GOOD);
    assert!(text.contains("datagrams     65507 bytes, for 300ms\n"), "{text}");
    assert!(figure(&text, "sent ") > 0 && !text.contains("changed"), "{text}");
}

#[test]
fn udp_clt_ends_with_its_figures_when_told_to() {
    let server = Server::start(&[UDP]);
    let to = server.udp();
    let port = to.port().to_string();
    let mut flood = Killed::start(&words(&udp_clt("127.0.0.1", &to, &port, "10000000000", "64")));
    server.wait_for("datagrams_in", |count| count > 10_000);
    let output = flood.interrupt();
    assert_eq!(output.status.code(), Some(GOOD), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("10000000000 times"), "a count has 64 bits: {text}");
    let (sent, back) = (figure(&text, "sent "), figure(&text, "received back "));
    assert!(sent > 10_000 && sent < 10_000_000_000 && back > 0 && back <= sent, "{text}");
    let taken = server.count("datagrams_in");
    assert!(taken <= sent && back <= taken, "{taken} of them were taken: {text}");
}

/// A run under way, killed when dropped.
struct Killed {
    child: Option<Child>,
    _folder: Scratch,
}

impl Killed {
    fn start(words: &[&str]) -> Self {
        let folder = Scratch::new();
        let mut command = load_command(&[], &folder, &[&["--style"], words].concat());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child: Some(child), _folder: folder }
    }

    /// Ends it as Ctrl-C does, and waits for it.
    fn interrupt(&mut self) -> Output {
        let mut child = self.child.take().unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::Signal::SIGINT).unwrap();
        until("it has ended", || child.try_wait().unwrap().is_some());
        child.wait_with_output().unwrap()
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One printed line of echotest.
struct Line {
    messages: u64,
    elapsed_us: f64,
    per_second: f64,
    latency_us: f64,
    megabits: f64,
    cpu_us: f64,
}

fn line(text: &str) -> Line {
    let cells: Vec<f64> = text.split_whitespace().map(|cell| cell.parse().unwrap()).collect();
    let [messages, elapsed_us, per_second, latency_us, megabits, cpu_us] = cells[..] else { panic!("{text:?}") };
    Line { messages: messages as u64, elapsed_us, per_second, latency_us, megabits, cpu_us }
}

/// As far apart as rounding in print allows.
fn is_near(got: f64, expected: f64, step: f64) -> bool {
    (got - expected).abs() <= step + expected * 1e-3
}

#[test]
fn echotest_prints_a_line_for_each_run() {
    let server = Server::start(&[TCP, UDP]);
    for (address, more) in [
        (server.tcp(), &["-a", "4", "-j", "3"][..]),
        (server.tcp(), &["-a", "0", "-j", "5"]), // in step, with more threads than some machines have CPUs
        (server.udp(), &["-u", "-a", "8", "-j", "2"]),
    ] {
        let place = format!("nobody@{address}");
        let text = printed(&[&["echotest", "-c", "1k", "-l", "10", "-i", "2"], more, &[&place]].concat(), GOOD);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(
            lines[0].split_whitespace().collect::<Vec<_>>(),
            ["totmsgs", "totusecs", "msgs/sec", "avglat", "Mbps", "cpu/msg"]
        );
        let threads: u64 = more.last().unwrap().parse().unwrap();
        for line in lines[1..].iter().map(|text| line(text)) {
            assert_eq!(line.messages, threads * 1024, "{text}");
            assert!(is_near(line.per_second, line.messages as f64 / line.elapsed_us * 1e6, 1.0), "{text}");
            assert!(is_near(line.megabits, line.per_second * 80.0 / 1e6, 0.01), "{text}");
            assert!(line.latency_us > 0.0 && line.latency_us <= line.elapsed_us * 1.5 && line.cpu_us > 0.0, "{text}");
        }
    }
    // Two runs of 3 and 5 threads, with 10 bytes a message.
    server.comes_to("bytes_in", 2 * (3 + 5 + 2) * 1024 * 10);
}

#[test]
fn echotest_sends_single_bytes_by_default_over_udp_too() {
    let server = Server::start(&[TCP, UDP]);
    for (address, more) in [(server.tcp(), &[][..]), (server.udp(), &["-u"])] {
        let place = address.to_string();
        let text = printed(&[&["echotest", "-H", "-i", "1", "-c", "700"], more, &[&place]].concat(), GOOD);
        assert_eq!((text.lines().count(), line(&text).messages), (1, 700), "{text}");
    }
    server.comes_to("bytes_in", 1_400);
}

#[test]
fn echotest_ends_with_the_line_of_its_run_when_told_to() {
    let server = Server::start(&[TCP]);
    let place = server.tcp().to_string();
    let mut runs = Killed::start(&["echotest", "-H", "-c", "1T", &place]);
    server.wait_for("bytes_in", |count| count > 1_000);
    let output = runs.interrupt();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(GOOD), ""));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    let line = line(&text);
    assert!(line.messages >= 1_000 && line.messages <= server.count("bytes_in"), "{text}");
    assert!(is_near(line.per_second, line.messages as f64 / line.elapsed_us * 1e6, 1.0), "{text}");
}

#[test]
fn echotest_says_what_failed() {
    let post = hosts::Post::start(|number, datagram| if number.is_multiple_of(10) { vec![] } else { vec![datagram.to_vec()] });
    let place = post.url().replace("udp://", "");
    let output = styled(&["echotest", "-u", "-c", "20", "-a", "20", "-i", "1", &place]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.as_str()), (Some(FAILURES), "run 1: messages failed: lost 2\n"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(line(text.lines().last().unwrap()).messages, 18, "{text}");
}

/// The words of a page without its figures.
fn labels(page: &str) -> String {
    let is_label = |word: &&str| !word.trim_matches(|c| "(<=)%".contains(c)).chars().next().is_some_and(|c| c.is_ascii_digit());
    page.lines().map(|line| line.split(' ').filter(is_label).collect::<Vec<_>>().join(" ") + "\n").collect()
}

const PAGE: &str = "\
Maximum connect burst length:

Total: connections requests replies test-duration s

Connection rate: conn/s ms/conn, concurrent connections)
Connection time [ms]: min avg max median stddev
Connection time [ms]: connect
Connection length [replies/conn]:

Request rate: req/s ms/req)
Request size [B]:

Reply rate [replies/s]: min avg max stddev samples)
Reply time [ms]: response transfer
Reply size [B]: header content footer (total
Reply status: 1xx=0 2xx=0 3xx=0 4xx=0 5xx=0

CPU time [s]: user system (user system total
Net I/O: KB/s bps)

Errors: total client-timo socket-timo connrefused connreset
Errors: fd-unavail addrunavail ftab-full other
";

const ANSWER: &str =
    "HTTP/1.1 404 Not Found\r\nServer: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n";

#[test]
fn httperf_prints_its_page() {
    let host = hosts::Host::start(hosts::answering(ANSWER));
    let port = host.address.port().to_string();
    let at = ["httperf", "--server=127.0.0.1", "--port", &port, "--server-name", "h", "--uri", "/a"];
    let text = printed(
        &[&at[..], &["--rate=400", "--num-conns", "60", "--num-calls=3", "--timeout", "30", "--add-header", "B: c\\n"]].concat(),
        GOOD,
    );
    // The status words begin with digits, but are labels.
    let plain = |text: &str| labels(&text.replace("xx=", "")).replace("status:", "");
    assert_eq!(plain(&text.replace("4xx=180", "4xx=0")), plain(PAGE));
    let agent = concat!("corelane/", env!("CARGO_PKG_VERSION"));
    let request = format!("GET /a HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\nB: c\r\n\r\n").len();
    for part in [
        "Total: connections 60 requests 180 replies 180 test-duration ",
        "\nConnection length [replies/conn]: 3.000\n",
        &format!("\nRequest size [B]: {request}.0\n"),
        "\nReply size [B]: header 68.0 content 5.0 footer 8.0 (total 81.0)\n",
        "\nReply status: 1xx=0 2xx=0 3xx=0 4xx=180 5xx=0\n",
        "\nErrors: total 0 client-timo 0 socket-timo 0 connrefused 0 connreset 0\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(host.accepted(), 60);
}

/// The figures of a page whose values do not hang on time, as the program itself prints them.
#[test]
fn httperf_agrees_with_the_program_it_is_named_after() {
    if !have("load::styles::httperf_agrees_with_the_program_it_is_named_after", &["httperf"]) {
        return;
    }
    for answer in [
        ANSWER,
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
    ] {
        let host = hosts::Host::start(hosts::answering(answer));
        let port = host.address.port().to_string();
        let words = ["--server=127.0.0.1", "--port", &port, "--rate=200", "--num-conns", "40", "--num-calls=2"];
        let theirs = output(Command::new("httperf").args(words));
        let theirs = String::from_utf8(theirs.stdout).unwrap();
        let ours = printed(&[&["httperf"], &words[..]].concat(), GOOD);
        let fixed = |page: &str| -> Vec<String> {
            let page = page.split_once("Maximum connect").map_or("", |(_, page)| page);
            let is_fixed = |line: &&str| {
                ["Connection length", "Reply size", "Reply status", "Errors:"].iter().any(|word| line.starts_with(word))
            };
            let total =
                page.lines().find(|line| line.starts_with("Total")).map(|line| line.split(" test-duration").next().unwrap());
            total.into_iter().chain(page.lines().filter(is_fixed)).map(str::to_owned).collect()
        };
        assert_eq!(fixed(&ours), fixed(&theirs), "{ours} {theirs}");
        assert_eq!(
            labels(&ours).lines().count(),
            labels(&theirs).split_once("Maximum").map_or(0, |(_, page)| page.lines().count())
        );
    }
}

#[test]
fn httperf_sorts_what_failed() {
    let run = |treat: fn(std::net::TcpStream), timeout: &str| {
        let host = hosts::Host::start(treat);
        let port = host.address.port().to_string();
        printed(
            &["httperf", "--server=127.0.0.1", "--port", &port, "--rate=200", "--num-conns", "10", "--timeout", timeout],
            FAILURES,
        )
    };
    let text = run(drop, "20");
    assert!(figure(&text, "Errors: total") == 10 && text.contains(" connreset 10\n"), "{text}");
    assert!(text.contains(" requests ") && text.contains(" replies 0 ") && text.contains("[replies/conn]: 0.000"), "{text}");
    let text = run(hosts::swallow, "0.5");
    assert!(figure(&text, "Errors: total") == 10 && text.contains(" client-timo 10 "), "{text}");
    let text = run(|stream| hosts::answering("no answer at all\r\n\r\n")(stream), "20");
    assert!(figure(&text, "Errors: total") == 10 && text.contains(" other 10\n"), "{text}");
}

/// What httperf prints with these words, run by `wrapper`, when there were failures.
fn failed_under(wrapper: &[&str], words: &[&str]) -> String {
    let output = ended(wrapper, &[&["--style", "httperf"], words].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.as_str()), (Some(FAILURES), ""), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The number behind a word of the lines of errors.
fn errors(text: &str, kind: &str) -> u64 {
    let lines = text.split_once("\nErrors:").map_or("", |(_, lines)| lines);
    let behind = lines.split_once(&format!(" {kind} ")).unwrap_or_else(|| panic!("no {kind} in {text}")).1;
    behind.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn httperf_counts_what_is_refused() {
    let port = nobody();
    for rate in [&["--rate=500"][..], &[]] {
        let words = [&["--server=127.0.0.1", "--port", &port, "--num-conns=20", "--num-calls=5"][..], rate].concat();
        let text = failed_under(&[], &words);
        assert_eq!([errors(&text, "total"), errors(&text, "connrefused")], [20, 20], "{text}");
        assert!(text.contains("Total: connections 20 requests 0 replies 0 ") && labels(&text) == labels(PAGE), "{text}");
    }
}

#[test]
fn httperf_counts_connections_for_which_there_is_no_descriptor() {
    if !have("load::styles::httperf_counts_connections_for_which_there_is_no_descriptor", &["prlimit"]) {
        return;
    }
    let host = hosts::Host::start(hosts::swallow);
    let port = host.address.port().to_string();
    let words = ["--server=127.0.0.1", "--port", &port, "--rate=2000", "--num-conns=100", "--timeout=3"];
    let text = failed_under(&["prlimit", "--nofile=64"], &words);
    let [none, waited, all] = ["fd-unavail", "client-timo", "total"].map(|kind| errors(&text, kind));
    assert!(none >= 36 && waited > 0 && none + waited == all && all == 100, "{text}");
}

#[test]
fn httperf_counts_connections_for_which_there_is_no_address() {
    let test = "load::styles::httperf_counts_connections_for_which_there_is_no_address";
    if !is_root(test) || !have(test, &["unshare", "nsenter", "ip"]) {
        return;
    }
    // Ports rest for a minute: the kernel gives those of loopback again after a second otherwise.
    let script = "ip link set lo up && cd /proc/sys/net/ipv4 && echo 50000 50019 > ip_local_port_range && \
                  { [ ! -e tcp_tw_reuse ] || echo 0 > tcp_tw_reuse; } && exec \"$0\" \"$@\"";
    let server = Server::start_under(&["unshare", "--net", "sh", "-c", script], &["http=http://127.0.0.1:7?reply=8"]);
    let network = format!("--net=/proc/{}/ns/net", server.pid());
    // Not so fast that other addresses of loopback would be used, too.
    let words = ["--server=127.0.0.1", "--port=7", "--rate=150", "--num-conns=60", "--timeout=5"];
    let text = failed_under(&["nsenter", &network], &words);
    let [none, all] = ["addrunavail", "total"].map(|kind| errors(&text, kind));
    assert!(none >= 40 && none == all, "{text}");
}

#[test]
fn httperf_tells_who_gave_up_waiting() {
    let test = "load::styles::httperf_tells_who_gave_up_waiting";
    if !is_root(test) || !have(test, &["unshare", "ip"]) {
        return;
    }
    // The system asks twice and gives up after about three seconds.
    let script = "ip link set lo up && ip link add here type veth peer name there && ip address add 192.0.2.1/24 dev here && \
                  ip link set here up && ip link set there up && ip neighbour add 192.0.2.7 lladdr 02:00:00:00:00:07 dev here && \
                  cd /proc/sys/net/ipv4 && echo 1 > tcp_syn_retries && { [ ! -e tcp_syn_linear_timeouts ] || echo 0 > tcp_syn_linear_timeouts; } && \
                  exec \"$0\" \"$@\"";
    for (timeout, kind) in [("--timeout=0.2", "client-timo"), ("--timeout=50", "socket-timo")] {
        let words = ["--server=192.0.2.7", "--port=7", "--rate=100", "--num-conns=5", timeout];
        let text = failed_under(&["unshare", "--net", "sh", "-c", script], &words);
        assert_eq!([errors(&text, kind), errors(&text, "total")], [5, 5], "{text}");
    }
}

/// The command line of the measurements that httperf is known from, and what it does: one connection behind the other.
#[test]
fn httperf_goes_one_by_one_without_a_rate_with_the_buffers_that_it_is_told() {
    let host = hosts::Host::start(hosts::answering(ANSWER));
    let port = host.address.port().to_string();
    let words = ["httperf", "--server=127.0.0.1", "--port", &port, "--uri=/", "--num-calls=1", "--send-buffer=4096"];
    let text = printed(&[&words[..], &["--recv-buffer=16384", "--timeout=30", "--num-conns=50"]].concat(), GOOD);
    assert!(text.contains("Maximum connect burst length: 1\n") && text.contains("<=1 concurrent connections"), "{text}");
    assert!(text.contains("Total: connections 50 requests 50 replies 50 "), "{text}");
    assert_eq!(host.accepted(), 50);
}

#[test]
fn who_is_not_there_is_said_in_a_line() {
    let port = nobody();
    let cases: &[&[&str]] = &[
        &["udp-clt", "-l", "127.0.0.1", "-r", "127.0.0.1", "-p", &port, "-n", "1000000", "-s", "10"],
        &["echotest", "-u", "-p", &port, "127.0.0.1"],
        &["echotest", "-p", &port, "127.0.0.1"],
    ];
    for words in cases {
        let output = styled(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(NOT_MADE), "{words:?}: {said}");
        assert!(said.starts_with("corelane: load: ") && said.lines().count() == 1, "{words:?}: {said}");
        assert!(said.contains(&port) && said.contains("refused") && said.contains("is a server listening there?"), "{said}");
    }
}

#[test]
fn what_cannot_be_met_is_refused() {
    let clt = ["udp-clt", "-l", "127.0.0.1", "-r", "127.0.0.1", "-p", "9", "-n", "1", "-s"];
    let cases: &[(&[&str], &str)] = &[
        (&["nonsense", "-x"], "use one of echotest, httperf, iapp-clt, iapp-udp-clt, rpctest, udp-clt"),
        (&[&clt[..], &["0"]].concat(), "from 1 to 65507"),
        (&[&clt[..], &["1", "--duration", "1s"]].concat(), "-n 0"),
        (&["echotest", "-l", "0", "127.0.0.1"], "size"),
        (&["echotest", "-u", "-a", "200", "127.0.0.1"], "told apart"),
        (&["echotest", "-i", "1", "-c", "5000", "-j", "5000", "127.0.0.1"], "take at most 1024"),
        (&["echotest", "no-such-host.invalid"], "no-such-host.invalid"),
        (&["httperf", "--rate", "nan"], "rate"),
        (&["httperf", "--rate", "5", "--num-conns", "0"], "requests"),
    ];
    for (words, why) in cases {
        says_in_a_line(styled(words), words, REFUSED, &[why]);
    }
    // These are refused by the parser of the command line, in its form.
    for words in [&["echotest"][..], &["httperf", "--rate"], &["udp-clt", "-l", "x"], &["udp-clt", "--nonsense"]] {
        let output = styled(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(REFUSED), "{words:?}: {said}");
        assert!(said.starts_with("error: ") && output.stdout.is_empty(), "{words:?}: {said}");
    }
    let before = ended(&[], &["--depth", "2", "--style", "udp-clt"]);
    assert_eq!(before.status.code(), Some(REFUSED), "options before the style mean nothing to it: {before:?}");
}

#[test]
fn each_style_has_its_own_help() {
    for style in ["udp-clt", "echotest", "httperf"] {
        let text = printed(&[style, "--help"], GOOD);
        assert!(text.contains(&format!("Usage: corelane load --style {style} ")), "{text}");
        let all = String::from_utf8(ended(&[], &["--help"]).stdout).unwrap();
        assert!(all.contains(&format!("\n  {style:8} ")), "{all}");
    }
}

#[test]
fn the_self_test_sees_what_it_must() {
    let output = ended(&[], &["self-test"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(GOOD), "{text}");
    assert!(output.stderr.is_empty(), "{:?}", String::from_utf8_lossy(&output.stderr));
    for way in ["\nclosed loop ", "\nopen, from sending ", "\nopen, from intended ", "\nclosed, corrected "] {
        assert!(text.contains(way), "{way:?} is not in {text}");
    }
    assert!(text.contains("\nverdict      good: ") && text.lines().all(|line| line.len() <= 80), "{text}");
    let both = ended(&[], &["self-test", "--depth", "2"]);
    assert_eq!(both.status.code(), Some(REFUSED), "it takes no options of a load: {both:?}");
}
