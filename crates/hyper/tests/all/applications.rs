//! hyper's and axum's applications on real lanes, asked by clients that nobody here wrote, and by sockets that do what no client would.

#[path = "../../examples/axum.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod application;
#[path = "../../examples/axum_hello.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod axum_hello;
#[path = "../../examples/hyper_hello.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod hello;

use axum::Router;
use corelane::Lanes;
use corelane::admin::watch::{LaneCounter, Reader, ServiceCounter};
use corelane::lanes::Running;
use corelane::service::Limits;
use corelane_testkit::{free, skip};
use corelane_tls::{Pem, Server};
use hyper::service::service_fn;
use hyper_util::service::TowerToHyperService;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tower_http::services::ServeDir;

/// After this a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn started(lanes: corelane::Result<Lanes>) -> (Running, SocketAddr) {
    let running = lanes.unwrap().start().unwrap();
    let address = running.address().inet().unwrap();
    (running, address)
}

fn hello_at_some_port() -> (Running, SocketAddr) {
    let serve = |_lane| corelane_hyper::serve(|_here, _peer| service_fn(hello::hello));
    started(Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", serve))
}

/// The axum application, with its runtime.
fn application(upstream: SocketAddr) -> (tokio::runtime::Runtime, Running, SocketAddr) {
    // tidy: allow(worker) tokio's name
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lanes = application::lanes("tcp://127.0.0.1:0", upstream, runtime.handle().clone());
    let (running, address) = started(lanes.map(|lanes| lanes.lanes(1)));
    (runtime, running, address)
}

/// Whether a program is installed; if not, the test is skipped by name.
fn lacks(program: &str, test: &str) -> bool {
    if Command::new(program).arg("--version").output().is_ok() {
        return false;
    }
    skip(&format!("hyper: {test}"), &format!("{program} is not installed"));
    true
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What curl prints, over HTTP/1.1 or, with prior knowledge, HTTP/2.
fn curl(version: &str, address: SocketAddr, path: &str, more: &[&str]) -> String {
    let url = format!("http://{address}{path}");
    let mut arguments = vec!["--silent", "--show-error", "--max-time", "60", version, &url];
    arguments.extend(more);
    said("curl", &arguments)
}

const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

fn connected(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn told(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn curl_is_told_hello_in_both_versions() {
    if lacks("curl", "curl_is_told_hello_in_both_versions") {
        return;
    }
    let (_running, address) = hello_at_some_port();
    for (version, spoken) in VERSIONS.into_iter().zip(["1.1", "2"]) {
        let said = curl(version, address, "/", &["--write-out", " %{http_version}"]);
        assert_eq!(said, format!("Hello, World! {spoken}"));
    }
}

/// What the small axum application says on a connection of its own.
fn greeted(address: SocketAddr) -> String {
    let mut stream = connected(address);
    stream.write_all(b"GET /greet/lane HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    told(stream).split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn an_application_has_its_state_for_each_lane() {
    let (_running, address) = started(axum_hello::lanes("tcp://127.0.0.1:0").map(|lanes| lanes.lanes(1)));
    for time in 1..=3 {
        assert_eq!(greeted(address), format!("hello, lane: {time}\n"));
    }
}

#[test]
fn an_application_may_have_one_state_for_all_lanes() {
    let app = axum_hello::routes();
    let serve = move |_lane| {
        let app = app.clone();
        corelane_hyper::serve(move |_here, _peer| TowerToHyperService::new(app.clone()))
    };
    let (_running, address) = started(Lanes::per_core().lanes(2).serve("tcp://127.0.0.1:0", serve));
    for time in 1..=16 {
        assert_eq!(greeted(address), format!("hello, lane: {time}\n"));
    }
}

#[test]
fn extractors_times_and_spawned_tasks_work() {
    if lacks("curl", "extractors_times_and_spawned_tasks_work") {
        return;
    }
    let (_runtime, _running, address) = application(free());
    for version in VERSIONS {
        assert_eq!(curl(version, address, "/hello/lane", &[]), "hello, lane\n");
        let json = ["--json", r#"{"numbers":[1,2,39]}"#];
        assert_eq!(curl(version, address, "/sum", &json), r#"{"numbers":[1,2,39],"sum":42}"#);
        let waited = curl(version, address, "/wait?milliseconds=50", &["--write-out", " %{time_total}"]);
        let (said, seconds) = waited.split_once(' ').unwrap();
        assert!(said == "waited\n" && seconds.parse::<f64>().unwrap() >= 0.05, "{waited}");
        assert!(curl(version, address, "/spawn", &[]).starts_with("true "));
        assert_eq!(curl(version, address, "/nowhere", &["--write-out", "%{http_code}"]), "404");
    }
    assert_ne!(curl(VERSIONS[0], address, "/spawn", &[]), "true 0\n", "what was spawned has run");
}

#[test]
fn a_handler_asks_another_server_by_a_client_of_tokios() {
    if lacks("curl", "a_handler_asks_another_server_by_a_client_of_tokios") {
        return;
    }
    // An address that no other test uses, so that nobody is there when it is closed.
    let upstream = TcpListener::bind("127.0.0.15:0").unwrap();
    let (_runtime, _running, address) = application(upstream.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut asked, _) = upstream.accept().unwrap();
            let mut question = String::new();
            asked.read_to_string(&mut question).unwrap();
            asked.write_all(format!("{question}answered\n").as_bytes()).unwrap();
        }
    });
    for version in VERSIONS {
        assert_eq!(curl(version, address, "/ask", &[]), "question\nanswered\n");
    }
    answering.join().unwrap();
    assert_eq!(curl(VERSIONS[0], address, "/ask", &["--output", "/dev/null", "--write-out", "%{http_code}"]), "502");
}

/// Bodies of answers that are polled and dropped need the runtime as handlers do: timed ones, events that are kept alive, and what they leave to tokio as they go.
#[test]
fn bodies_use_tokio_as_they_are_polled_and_dropped() {
    if lacks("curl", "bodies_use_tokio_as_they_are_polled_and_dropped") {
        return;
    }
    let (_runtime, running, address) = application(free());
    for (version, ended) in VERSIONS.into_iter().zip(1..) {
        assert_eq!(curl(version, address, "/ticks/3", &[]), "tick\n".repeat(3));
        while curl(version, address, "/ended", &[]) != format!("{ended}\n") {}
    }
    let mut events = connected(address);
    events.write_all(b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n:\n\n\r\n3\r\n:\n\n\r\n") {
        let mut byte = [0];
        events.read_exact(&mut byte).unwrap();
        heard.push(byte[0]);
    }
    // One that goes within its answer.
    let mut gone = connected(address);
    gone.write_all(b"GET /ticks/1000 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    gone.read_exact(&mut [0; 40]).unwrap();
    drop((gone, events));
    while curl(VERSIONS[0], address, "/ended", &[]) != "3\n" {}
    let panics = Reader::of(running.counters()).unwrap().snapshot(0).services[0].values.get(ServiceCounter::Panics);
    assert_eq!(panics, 0);
}

/// A program with threads of its own, which were there before its lanes and block no signal. The test starts itself once more, for the signal is the whole process's.
#[test]
fn a_program_with_threads_of_its_own_drains_when_it_is_told_to_end() {
    const CHILD: &str = "CORELANE_HYPER_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        // tidy: allow(worker) tokio's name
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let place = std::env::var(CHILD).unwrap();
        application::lanes(&place, free(), runtime.handle().clone()).unwrap().lanes(1).run().unwrap();
        // A process that is killed prints nothing more.
        println!("has drained");
        return;
    }
    let name = "applications::a_program_with_threads_of_its_own_drains_when_it_is_told_to_end";
    let address = free();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args(["--exact", name, "--nocapture"]).env(CHILD, format!("tcp://{address}"));
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut busy = loop {
        if let Ok(stream) = TcpStream::connect(address) {
            break stream;
        }
        assert!(child.try_wait().unwrap().is_none(), "it serves until it is told to end");
        std::thread::yield_now();
    };
    busy.set_read_timeout(Some(PATIENCE)).unwrap();
    busy.write_all(b"GET /ticks/5 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    busy.read_exact(&mut [0; 40]).unwrap();
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert!(told(busy).ends_with("0\r\n\r\n"), "what was asked is answered to its end");
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && words.contains("has drained"), "{:?}: {words}", output.status);
}

/// axum's users serve files so: tokio's threads open and read them, and wake the lane.
fn files_at(root: &Path, tokio: &Handle, own_descriptors: bool) -> corelane::Result<Lanes> {
    let (root, tokio) = (root.to_owned(), tokio.clone());
    let serve = move |_lane| {
        corelane_hyper::enter(&tokio);
        let app = Router::new().fallback_service(ServeDir::new(&root));
        corelane_hyper::serve(move |_here, _peer| TowerToHyperService::new(app.clone()))
    };
    Lanes::per_core().lanes(1).own_descriptors(own_descriptors).serve("tcp://127.0.0.1:0", serve)
}

#[test]
fn tower_http_serves_files_whole_and_in_parts() {
    if lacks("curl", "tower_http_serves_files_whole_and_in_parts") {
        return;
    }
    // tidy: allow(worker) tokio's name
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (root, back) = (folder.path().join("site"), folder.path().join("back"));
    let bytes: Vec<u8> = (0..500_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("large.bin"), &bytes).unwrap();
    std::fs::write(root.join("index.html"), "<p>hello</p>").unwrap();
    let (running, address) = started(files_at(&root, runtime.handle(), false));
    let output = ["--output", back.to_str().unwrap()];
    for version in VERSIONS {
        assert_eq!(curl(version, address, "/", &[]), "<p>hello</p>");
        for _ in 0..20 {
            curl(version, address, "/large.bin", &output);
            assert!(std::fs::read(&back).unwrap() == bytes, "{version}: what came back differs");
        }
        curl(version, address, "/large.bin", &[&output[..], &["--range", "1000000-1000099"]].concat());
        assert!(std::fs::read(&back).unwrap() == bytes[1_000_000..1_000_100], "{version}: another part came back");
        let code = ["--write-out", "%{http_code}", "--output", "/dev/null"];
        assert_eq!(curl(version, address, "/none", &code), "404");
        assert_eq!(curl(version, address, "/../applications.rs", &[&code[..], &["--path-as-is"]].concat()), "404");
        let tomorrow = ["--header", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"];
        assert_eq!(curl(version, address, "/large.bin", &[&code[..], &tomorrow].concat()), "304");
    }
    // Who goes in the middle leaves no file open, and closes nobody else's.
    for _ in 0..20 {
        let mut stream = connected(address);
        stream.write_all(b"GET /large.bin HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
    }
    assert_eq!(curl(VERSIONS[0], address, "/", &[]), "<p>hello</p>");
    let is_open = |entry: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_link(entry.unwrap().path()).is_ok_and(|path| path == root.join("large.bin"))
    };
    let deadline = Instant::now() + PATIENCE;
    while std::fs::read_dir("/proc/self/fd").unwrap().any(is_open) {
        assert!(Instant::now() < deadline, "a file stays open");
        std::thread::yield_now();
    }
    running.drain();
    running.wait().unwrap();
}

/// A lane with descriptors of its own would close, by their numbers, what are others' there.
#[test]
fn a_runtime_is_refused_where_its_files_have_no_numbers() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let refused = files_at(Path::new("/"), runtime.handle(), true).unwrap().start();
    assert!(refused.is_err());
}

#[test]
fn bodies_stream_both_ways() {
    if lacks("curl", "bodies_stream_both_ways") {
        return;
    }
    let (_runtime, _running, address) = application(free());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("content");
    let bytes: Vec<u8> = (0..1_250_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&path, &bytes).unwrap();
    let (data, back) = (format!("@{}", path.display()), path.with_extension("back"));
    for version in VERSIONS {
        let more = ["--data-binary", &data, "--output", back.to_str().unwrap()];
        curl(version, address, "/echo", &more);
        assert!(std::fs::read(&back).unwrap() == bytes, "{version}: what came back differs");
        let count = curl(version, address, "/count", &["--data-binary", &data, "--header", "Transfer-Encoding: chunked"]);
        assert_eq!(count, "5000000\n");
    }
}

#[test]
fn h2load_has_all_of_its_streams_answered() {
    if lacks("h2load", "h2load_has_all_of_its_streams_answered") {
        return;
    }
    let (running, address) = hello_at_some_port();
    let url = format!("http://{address}/");
    for more in [&["--h1"][..], &["-m", "32"]] {
        let arguments = [&["-n", "20000", "-c", "8"], more, &[&url]].concat();
        let said = said("h2load", &arguments);
        assert!(said.contains("20000 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}");
    }
    running.drain();
    running.wait().unwrap();
}

#[test]
fn h2load_sends_bodies_in_many_streams_at_once() {
    if lacks("h2load", "h2load_sends_bodies_in_many_streams_at_once") {
        return;
    }
    let (_runtime, _running, address) = application(free());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("content");
    std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
    let url = format!("http://{address}/echo");
    let arguments = ["-n", "400", "-c", "4", "-m", "10", "-d", path.to_str().unwrap(), &url];
    let said = said("h2load", &arguments);
    assert!(said.contains("400 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}");
    assert!(said.contains("40000000) data"), "{said}");
}

#[test]
fn requests_in_one_segment_are_answered_in_order_and_bad_ones_refused() {
    let (_runtime, _running, address) = application(free());
    let mut stream = connected(address);
    let one = |name: &str, last: &str| format!("GET /hello/{name} HTTP/1.1\r\nhost: x\r\n{last}\r\n");
    stream.write_all([one("a", ""), one("b", ""), one("c", "connection: close\r\n")].concat().as_bytes()).unwrap();
    let said = told(stream);
    let places = ["hello, a", "hello, b", "hello, c"].map(|text| said.find(text).unwrap());
    assert!(places.is_sorted() && said.matches("200 OK").count() == 3, "{said}");
    let mut stream = connected(address);
    stream.write_all(b"no http at all\r\n\r\n").unwrap();
    assert!(told(stream).starts_with("HTTP/1.1 400 "));
    // It begins as HTTP/2 does, byte by byte, and is none.
    let mut stream = connected(address);
    stream.set_nodelay(true).unwrap();
    b"PRI * HTTP/1.1\r\nconnection: close\r\n\r\n".iter().for_each(|byte| stream.write_all(&[*byte]).unwrap());
    let said = told(stream);
    assert!(said.starts_with("HTTP/1.1 4"), "{said}");
}

#[test]
fn a_peer_that_does_not_read_is_waited_for_in_bounded_memory() {
    let (_runtime, running, address) = application(free());
    let mut stream = connected(address);
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    stream.write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 67108864\r\n\r\n").unwrap();
    let mut said = 0;
    // Until nothing is taken any more: the answer is not read, so the question waits as well.
    while let Ok(bytes) = stream.write(&[7; 64 << 10]) {
        said += bytes;
        assert!(said < 64 << 20, "all was taken of who reads nothing");
    }
    let used = Reader::of(running.counters()).unwrap().snapshot(0).total.get(LaneCounter::MemoryUsed);
    assert!(used < 2 << 20, "{used} bytes of the lane's memory are held");
    // It goes on where it stood.
    let mut other = connected(address);
    other.write_all(b"GET /hello/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    assert!(told(other).ends_with("hello, x\n"));
}

#[test]
fn a_client_that_vanishes_takes_its_request_with_it() {
    let (_runtime, running, address) = application(free());
    for _ in 0..50 {
        let mut stream = connected(address);
        stream.write_all(b"GET /wait?milliseconds=10000 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        drop(stream);
    }
    let mut stream = connected(address);
    stream.write_all(b"GET /hello/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    assert!(told(stream).ends_with("hello, x\n"));
    running.drain();
    // Nobody waits ten seconds for who is gone.
    running.wait().unwrap();
}

#[test]
fn a_drain_answers_what_was_asked_and_lets_idle_clients_go() {
    let (_runtime, running, address) = application(free());
    let mut idle = connected(address);
    idle.write_all(b"GET /hello/idle HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = [0; 64];
    assert!(idle.read(&mut answer).unwrap() > 0);
    let mut busy = connected(address);
    busy.write_all(b"GET /wait?milliseconds=300 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    // It was asked later, and is answered: so the lane has the first.
    let mut witness = connected(address);
    witness.write_all(b"GET /wait?milliseconds=100 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    assert!(told(witness).ends_with("waited\n"));
    running.drain();
    assert!(told(busy).ends_with("waited\n"), "what was asked before the drain is answered");
    told(idle);
    running.wait().unwrap();
}

#[test]
fn a_head_that_does_not_come_to_its_end_is_given_up() {
    let limits = Limits::new().idle_limit(Duration::from_secs(1));
    let serve = |_lane| corelane_hyper::serve(|_here, _peer| service_fn(hello::hello));
    let (_running, address) = started(Lanes::per_core().lanes(1).limits(limits).serve("tcp://127.0.0.1:0", serve));
    let mut stream = connected(address);
    stream.write_all(b"GET / HTTP/1.1\r\nhost").unwrap();
    assert_eq!(told(stream), "");
}

/// hyper's hello behind TLS, for clients that are shown this certificate; its folder is one test's own.
struct Behind {
    folder: TempDir,
    running: Running,
    url: String,
}

impl Behind {
    fn tls(lanes: corelane::Result<Lanes>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key) = (folder.path().join("certificate"), folder.path().join("key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let server = Server::new([Pem::new(certificate, key)]).protocols(&[b"h2", b"http/1.1"]);
        let (running, address) = started(server.before(lanes.unwrap()));
        Self { folder, running, url: format!("https://localhost:{}", address.port()) }
    }

    fn hello() -> Self {
        let serve = |_lane| corelane_hyper::serve(|_here, _peer| service_fn(hello::hello));
        Self::tls(Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", serve))
    }

    fn curl(&self, version: &str, path: &str, more: &[&str]) -> String {
        let (url, trusted) = (format!("{}{path}", self.url), self.folder.path().join("certificate"));
        let arguments = ["--silent", "--show-error", "--max-time", "60", "--cacert", trusted.to_str().unwrap(), version, &url];
        said("curl", &[&arguments, more].concat())
    }
}

#[test]
fn behind_tls_the_client_and_hyper_speak_what_they_have_agreed_on() {
    if lacks("curl", "behind_tls_the_client_and_hyper_speak_what_they_have_agreed_on") {
        return;
    }
    let behind = Behind::hello();
    for (version, spoken) in [("--http2", "2"), ("--http1.1", "1.1"), ("--no-alpn", "1.1")] {
        let said = behind.curl(version, "/", &["--write-out", " %{http_version}"]);
        assert_eq!(said, format!("Hello, World! {spoken}"), "{version}");
    }
}

#[test]
fn h2load_has_all_of_its_streams_answered_behind_tls() {
    if lacks("h2load", "h2load_has_all_of_its_streams_answered_behind_tls") {
        return;
    }
    let behind = Behind::hello();
    for (more, protocol) in [(&["-m", "32"][..], "h2"), (&["--h1"], "http/1.1")] {
        let url = format!("{}/", behind.url);
        let said = said("h2load", &[&["-n", "5000", "-c", "8"], more, &[&url]].concat());
        assert!(said.contains("5000 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}");
        assert!(said.contains(&format!("Application protocol: {protocol}")), "{said}");
    }
    behind.running.drain();
}

#[test]
fn bodies_stream_both_ways_behind_tls() {
    if lacks("curl", "bodies_stream_both_ways_behind_tls") {
        return;
    }
    // tidy: allow(worker) tokio's name
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lanes = application::lanes("tcp://127.0.0.1:0", free(), runtime.handle().clone());
    let behind = Behind::tls(lanes.map(|lanes| lanes.lanes(1)));
    let (from, back) = (behind.folder.path().join("body"), behind.folder.path().join("back"));
    let bytes: Vec<u8> = (0..750_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&from, &bytes).unwrap();
    for version in ["--http2", "--http1.1"] {
        let data = format!("@{}", from.display());
        behind.curl(version, "/echo", &["--data-binary", &data, "--output", back.to_str().unwrap()]);
        assert!(std::fs::read(&back).unwrap() == bytes, "{version}: what came back differs");
    }
}
