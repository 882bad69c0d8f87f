//! The examples, each asked by a client of the standard library.

#[allow(dead_code)] // its main
#[path = "../../examples/async_echo.rs"]
pub mod async_echo;
#[allow(dead_code)] // its main
#[path = "../../examples/async_lines.rs"]
mod async_lines;
#[allow(dead_code)] // its main
#[path = "../../examples/async_proxy.rs"]
mod async_proxy;
#[allow(dead_code)] // its main
#[path = "../../examples/bell.rs"]
mod bell;
#[allow(dead_code)] // its main
#[path = "../../examples/chat.rs"]
mod chat;
#[allow(dead_code)] // its main
#[path = "../../examples/echo.rs"]
mod echo;
#[allow(dead_code)] // its main
#[path = "../../examples/embedded.rs"]
mod embedded;
#[allow(dead_code)] // its main
#[path = "../../examples/files.rs"]
mod files;
#[allow(dead_code)] // its main
#[path = "../../examples/held.rs"]
mod held;
#[allow(dead_code)] // its main
#[path = "../../examples/later.rs"]
mod later;
#[allow(dead_code)] // its main
#[path = "../../examples/proxy.rs"]
mod proxy;
#[allow(dead_code)] // its main
#[path = "../../examples/shop.rs"]
pub mod shop;
#[allow(dead_code)] // its main
#[path = "../../examples/store.rs"]
mod store;
#[allow(dead_code)] // its main
#[path = "../../examples/upper.rs"]
mod upper;
#[allow(dead_code)] // its main
#[path = "../../examples/whoami.rs"]
mod whoami;

/// The names by which examples of the crates below call what they show: they cannot depend on this one, and play it.
#[allow(unused_imports)] // each is looked up
mod named {
    use corelane::admin::reports::{Code, Level, Record};
    use corelane::admin::watch::LaneRow;
    use corelane::lanes::DriverSettings;
    use corelane::service::entry::choice::{size, time};
    use corelane::service::parts::Share;
    use corelane::service::{
        Declaration, Hold, Joined, Limits, Order, OwnCounter, Refused, Remote, Says, Silence, Unheard, did_you_mean,
    };
    use corelane::{Instant, Output, Talk, counters};
}

use corelane::aio::{self, Connection, Lane};
use corelane::lanes::Running;
use corelane::service::{Address, Limits, ServiceCounter};
use corelane::testing::{Failure, Faults, simulate};
use corelane::{Lanes, StreamService};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// After this a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn served<S: StreamService>(build: impl Fn(usize) -> S + Send + Sync + 'static) -> Running {
    Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", build).unwrap().start().unwrap()
}

fn connected(to: &Address) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All that comes after `text`, whose end is the end.
fn asked(to: &Address, text: &[u8]) -> Vec<u8> {
    let mut stream = connected(to);
    stream.write_all(text).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn an_async_echo_sends_back_what_it_gets() {
    let running = served(|_| aio::each(async_echo::echo));
    let text: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let (mut writing, mut reading) = (connected(running.address()), Vec::new());
    let mut stream = writing.try_clone().unwrap();
    let said = text.clone();
    let saying = std::thread::spawn(move || {
        writing.write_all(&said).unwrap();
        writing.shutdown(Shutdown::Write).unwrap();
    });
    stream.read_to_end(&mut reading).unwrap();
    saying.join().unwrap();
    assert!(reading == text, "{} bytes came back, not {}", reading.len(), text.len());
}

#[test]
fn lines_are_numbered_over_all_connections_of_a_lane() {
    let running = served(|_| async_lines::numbers());
    assert_eq!(asked(running.address(), b"one\ntwo\nhalf a line"), b"1\n2\n");
    assert_eq!(asked(running.address(), b"three\n"), b"3\n");
}

/// Faults that end no connection, as a network has them every day.
fn everyday(_seed: u64) -> Faults {
    Faults { short_read: 100, short_write: 100, late_completion: 100, ..Faults::none() }
}

/// When everybody else has said what they have to say.
const LATER: Duration = Duration::from_secs(10);

#[test]
fn a_bell_rings_for_those_who_wait_on_any_lane() -> Result<(), Failure> {
    simulate(20, everyday, |scene| {
        scene.lanes(2);
        scene.serve(7, |_lane| bell::Bell::new(1_000));
        for _ in 0..6 {
            scene.connect(7).say("after 20\nwait\nafter 0\n").hear("over\nrung\nover\n");
        }
        scene.connect(7).pause(LATER).say("after\nring\n").hear("no\nok\n");
    })?;
    Ok(())
}

#[test]
fn nobody_has_all_places_at_a_bell_and_those_who_leave_give_theirs_back() -> Result<(), Failure> {
    simulate(20, everyday, |scene| {
        scene.lanes(1);
        scene.serve(7, |_lane| bell::Bell::new(8));
        scene.serve(8, |_lane| bell::Bell::new(1));
        scene.connect(7).say("wait\nwait\nwait\nwait\nwait\nring\n").hear("rung\nrung\nrung\nrung\nbusy\nok\n");
        scene.connect(8).say("wait\n").pause(LATER / 2).reset();
        scene.connect(8).pause(LATER).say("wait\nring\n").hear("rung\nok\n");
    })?;
    Ok(())
}

#[test]
fn what_is_said_in_a_chat_goes_to_all_of_all_lanes() -> Result<(), Failure> {
    simulate(20, everyday, |scene| {
        scene.lanes(2);
        let all = Arc::new(AtomicUsize::new(0));
        scene.serve(7, move |_lane| chat::Chat::new(all.clone()));
        for _ in 0..6 {
            scene.connect(7).hear("hello\nbye\n");
        }
        scene.connect(7).pause(LATER).say("who\n").hear("7 here\n").say("hello\nbye\n").hear("hello\nbye\n");
    })?;
    Ok(())
}

#[test]
fn an_async_proxy_passes_lines_on_and_says_who_is_late() {
    let behind = served(|_| held::Squares::default());
    let silent = served(|_| aio::main(async |lane: Lane| std::mem::forget(lane.accept().await)));
    let [to, nobody] = [behind.address().clone(), silent.address().clone()];
    let proxy_to = |to: Address| {
        served(move |_| {
            let to = to.clone();
            aio::each(async move |lane: Lane, client: Connection| async_proxy::pass(lane, client, to.clone()).await)
        })
    };
    let healthy = proxy_to(to);
    // On a busy machine an answer may take longer than the proxy waits.
    let answer = (0..20).map(|_| asked(healthy.address(), b"2\n3\n")).find(|answer| !answer.ends_with(b"late\n"));
    assert_eq!(answer.as_deref(), Some(&b"4\n9\n"[..]));
    assert_eq!(asked(proxy_to(nobody).address(), b"2\n"), b"late\n");
    assert_eq!(asked(proxy_to(corelane_testkit::free().into()).address(), b"2\n"), b"nobody\n");
}

/// A server that resets after half an answer: its client sees that through the proxy, and no clean end.
#[test]
fn an_async_proxy_passes_a_reset_on() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = Address::from(server.local_addr().unwrap());
    let proxy = served(move |_| {
        let to = to.clone();
        aio::each(async move |lane: Lane, client: Connection| async_proxy::pass(lane, client, to.clone()).await)
    });
    let mut client = connected(proxy.address());
    client.write_all(b"2\n").unwrap();
    let (mut behind, _) = server.accept().unwrap();
    behind.read_exact(&mut [0; 1]).unwrap();
    behind.write_all(b"half of an answer").unwrap();
    // What was not read makes the close a reset.
    drop(behind);
    let mut answer = Vec::new();
    let error = client.read_to_end(&mut answer).expect_err("half an answer has no clean end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn held_answers_keep_their_order() {
    let running = served(|_| held::Squares::default());
    let numbers: Vec<u64> = (0..500).map(|number| number * 7_919).collect();
    let lines: String = numbers.iter().map(|number| format!("{number}\n")).collect();
    let squares: String = numbers.iter().map(|number| format!("{}\n", number * number)).collect();
    assert_eq!(String::from_utf8(asked(running.address(), lines.as_bytes())).unwrap(), squares);
}

#[test]
fn files_are_sent_as_they_are_and_nothing_else_is() {
    let directory = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(directory.path().join("numbers"), &content).unwrap();
    std::fs::write(directory.path().join("nothing"), []).unwrap();
    let path = directory.path().to_owned();
    let running = served(move |_| files::Files::new(&path));
    let answer = asked(running.address(), b"nothing\nnumbers\nnone\n../secret\n/etc/passwd\n.\n");
    let mut expected = b"0\n1200000\n".to_vec();
    expected.extend(&content);
    expected.extend(b"no\nno\nno\nno\n");
    assert!(answer == expected, "{} bytes, not {}", answer.len(), expected.len());
}

#[test]
fn no_name_leads_out_of_the_directory_of_the_files() {
    let around = tempfile::tempdir().unwrap();
    let served_alone = around.path().join("served");
    std::fs::create_dir_all(served_alone.join("below")).unwrap();
    std::fs::write(around.path().join("secret"), "secret").unwrap();
    std::fs::write(served_alone.join("below/known"), "known").unwrap();
    symlink("below/known", served_alone.join("inside")).unwrap();
    symlink("../secret", served_alone.join("leaves")).unwrap();
    symlink(around.path().join("secret"), served_alone.join("leaves-from-the-root")).unwrap();
    symlink("..", served_alone.join("below/up")).unwrap();
    let running = served(move |_| files::Files::new(&served_alone));
    let known = b"below/known\ninside\nbelow/../inside\nbelow/up/inside\n";
    assert_eq!(asked(running.address(), known), b"5\nknown5\nknown5\nknown5\nknown");
    let out = b"/../\n/../secret\n../secret\nbelow/../../secret\nbelow/up/../secret\nleaves\nleaves-from-the-root\n\n";
    assert_eq!(asked(running.address(), out), b"no\n".repeat(8));
}

#[test]
fn a_proxy_passes_everything_on_and_ends_where_nobody_is() {
    let behind = served(|_| held::Squares::default());
    let to = behind.address().clone();
    let running = served(move |_| proxy::Proxy::new(to.clone()));
    assert_eq!(asked(running.address(), b"2\n3\n"), b"4\n9\n");
    drop(behind);
    // A reset is told once: to the connect, to the write or to the read.
    let heard = match TcpStream::connect(running.address()) {
        Ok(mut stream) => {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let _ = stream.write_all(b"2\n");
            stream.read(&mut [0; 1])
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            Err(error)
        }
    };
    assert!(!matches!(heard, Ok(1..)), "nobody answers");
}

#[test]
fn datagrams_are_answered_when_they_were_to_be_and_before_a_drain_ends() {
    let lanes = Lanes::per_core().lanes(1).serve_datagrams("udp://127.0.0.1:0", |_| later::Later::default());
    let running = lanes.unwrap().start().unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(running.address()).unwrap();
    let answer = || {
        let mut bytes = [0; 16];
        let length = client.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    // So far apart that the order is that of the delays also where a datagram waits for its lane.
    for text in ["1500", "no number", "0", "700"] {
        client.send(text.as_bytes()).unwrap();
    }
    assert_eq!([answer(), answer(), answer()], ["0", "700", "1500"]);
    client.send(b"700").unwrap();
    // Whoever was answered at once came behind it.
    client.send(b"0").unwrap();
    assert_eq!(answer(), "0");
    running.drain();
    running.wait().unwrap();
    assert_eq!(answer(), "700", "a drain waits for what is owed");
}

#[test]
fn a_shop_counts_what_it_sells() {
    let running = served(|_| shop::Shop::new(3, 10));
    let mut stream = connected(running.address());
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    stream.write_all(b"4\n").unwrap();
    assert_eq!(answers.next().unwrap().unwrap(), "12");
    let reader = corelane::admin::watch::Reader::of(running.counters()).unwrap();
    assert_eq!(reader.snapshot(0).services[0].values.own("apples_sold"), Some(4));
}

/// The text that is answered to a request for `path`.
async fn got(at: SocketAddr, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn lanes_live_in_a_program_on_tokio_and_its_tasks_await_their_end() {
    let lanes = Lanes::per_core().lanes(2).serve("tcp://127.0.0.1:0", |_| embedded::Tally::default()).unwrap();
    let running = lanes.start().unwrap();
    for _ in 0..8 {
        assert_eq!(asked(running.address(), b"one\ntwo\n"), b"one\ntwo\n");
    }
    let outside = running.outside();
    let ended = outside.ended();
    let waiter = std::thread::spawn(move || ended.wait());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let clients = tokio::spawn(async move {
            assert_eq!(got(at, "/").await, "16\n");
            assert_eq!(got(at, "/drain").await, "drains\n");
        });
        embedded::answer_all(listener, outside.clone()).await.unwrap();
        clients.await.unwrap();
    });
    assert!(outside.ended().is_over());
    waiter.join().unwrap();
    running.wait().unwrap();
}

/// The lines of a session: what it sets, gets and what it is answered.
fn conversation(client: usize) -> (String, String) {
    let (mut lines, mut answers) = (String::new(), String::new());
    for key in 0..2_000 {
        let value = key * 31 + client;
        writeln!(lines, "get {client}-{key}\nset {client}-{key} a {value}\nget {client}-{key}").unwrap();
        writeln!(answers, "none\nok\n= a {value}").unwrap();
        if key % 100 == 0 {
            lines.push_str("mumble\nget\n");
            answers.push_str("error\nerror\n");
        }
    }
    (lines, answers)
}

#[test]
fn a_store_on_two_lanes_answers_in_order_whatever_the_home_of_a_key() {
    // Fewer than a connection asks at once: what was refused is offered again.
    let limits = Limits::default().asks_max(16);
    let lanes = Lanes::per_core().lanes(2).limits(limits).serve("tcp://127.0.0.1:0", |_| store::Store::default());
    let running = lanes.unwrap().start().unwrap();
    std::thread::scope(|scope| {
        for client in 0..4 {
            let to = running.address();
            scope.spawn(move || {
                let (lines, answers) = conversation(client);
                let got = asked(to, lines.as_bytes());
                assert!(got == answers.as_bytes(), "{}", String::from_utf8_lossy(&got));
            });
        }
    });
    let reader = corelane::admin::watch::Reader::of(running.counters()).unwrap();
    let values = &reader.snapshot(0).services[0].values;
    assert!(values.get(ServiceCounter::AsksMaxHits) > 0, "the bound was met");
    assert!(values.get(ServiceCounter::ParcelsSent) > 0, "values are lent, not copied");
}

#[test]
fn who_asks_at_a_unix_socket_is_told_who_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("whoami.sock");
    let running = whoami::lanes(path.to_str().unwrap()).unwrap().start().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"I?\nAnd now?\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let user = std::fs::metadata("/proc/self").unwrap().uid();
    assert_eq!(answer, format!("user {user}\n").repeat(2));
    running.drain();
    running.wait().unwrap();
    assert!(!path.exists(), "the name goes with the lanes");
}
