//! The proxy as a program: curl's requests through it, upstreams shown, taken out and in again, and what is wrong with a place.

use crate::common::*;
use crate::drain::stop;
use crate::faults::reset_on_drop;
use crate::metrics::get;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::thread::spawn;

on_each_driver!(
    requests_go_through_and_upstreams_are_taken_out_and_in,
    bulk_passes_byte_by_byte_and_what_is_broken_off_is_so,
    what_came_before_a_request_left_is_no_answer_to_it,
    a_reset_is_heard_while_the_other_side_takes_nothing,
);

/// `corelane proxy` of this server.
fn proxy(server: &Server, arguments: &[&str]) -> Output {
    let pid = server.pid().to_string();
    let mut command = Command::new(PROGRAM);
    command.args(["proxy"]).args(arguments).args(["--pid", &pid]).env("CORELANE_RUN_DIR", server.run.path());
    output(&mut command)
}

/// The upstreams as it shows them.
fn upstreams(server: &Server) -> Vec<Value> {
    let shown = proxy(server, &["show", "--json"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    serde_json::from_slice(&shown.stdout).unwrap()
}

fn requests_go_through_and_upstreams_are_taken_out_and_in(driver: Driver) {
    let test = "proxy::requests_go_through_and_upstreams_are_taken_out_and_in";
    if !have(&driver.case(test), &["curl"]) {
        return;
    }
    let folder = Scratch::new();
    fs::write(folder.path().join("file"), pattern(1 << 20, 3)).unwrap();
    let log = folder.path().join("log");
    let site = format!("http=http://127.0.0.1:0?root={}&log={}&proxy-from=127.0.0.1", folder.path().display(), log.display());
    let servers = [Server::start(&["--lanes", "1", &site]), Server::start(&["--lanes", "1", &site])];
    let names = servers.each_ref().map(|server| server.address("http").to_string());
    let place = format!("proxy=tcp://127.0.0.1:0?to={}&send-proxy=v2", names.join(","));
    let Some(mut server) = driver.start(test, &["--lanes", "2", &place]) else { return };
    let url = format!("http://{}/file", server.tcp());
    let fetch = |times: usize| {
        for _ in 0..times {
            // From another address than all other tests have, by which the log shows that the header came.
            let done = output(Command::new("curl").args(["-sS", "--interface", "127.0.0.77", &url]));
            assert!(done.status.success() && done.stdout == pattern(1 << 20, 3), "{}", String::from_utf8_lossy(&done.stderr));
        }
    };
    fetch(8);
    let uses = |rows: &[Value]| rows.iter().map(|row| row["uses"].as_u64().unwrap()).collect::<Vec<_>>();
    let before = upstreams(&server);
    assert_eq!(uses(&before).iter().sum::<u64>(), 8, "{before:?}");
    assert!(before.iter().all(|row| row["state"] == "up" && row["bytes_from"].as_u64() > Some(1 << 20)), "{before:?}");

    assert!(proxy(&server, &["drain", &names[0]]).status.success());
    fetch(6);
    let drained = upstreams(&server);
    assert_eq!((drained[0]["state"].as_str(), uses(&drained)[0]), (Some("drained"), uses(&before)[0]));
    assert_eq!(server.count("upstreams_in_rotation"), 2, "one on each of two lanes");
    assert!(proxy(&server, &["enable", &names[0]]).status.success());
    fetch(6);
    assert!(uses(&upstreams(&server))[0] > uses(&before)[0]);
    let unknown = proxy(&server, &["drain", "127.0.0.1:1"]);
    assert!(
        !unknown.status.success() && String::from_utf8_lossy(&unknown.stderr).contains("no upstream is named"),
        "{unknown:?}"
    );
    let text = String::from_utf8(proxy(&server, &["show"]).stdout).unwrap();
    assert!(text.starts_with("upstream") && text.lines().count() == 3 && text.contains(&names[1]), "{text}");

    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    drop(servers);
    let logged = fs::read_to_string(&log).unwrap();
    assert_eq!(logged.lines().filter(|line| line.starts_with("127.0.0.77 ")).count(), 20, "{logged}");
}

/// Where nobody listens: a port that is handed out to no test (tcpmux).
const NOBODY: &str = "127.0.0.1:1";

/// Bytes of bulk, each way.
const BULK: usize = 100_000_000;

/// How many bytes of a stream are looked at together.
const PIECE: usize = 1 << 12;

/// After how many bytes of a stream those of a block come again.
const PERIOD: usize = 251;

/// The bytes of a stream of this way from a place on, up to the next multiple of [`PIECE`]: each is the place's rest by [`PERIOD`], with the number of the block
/// of 64 KiB and the way in it. All that there are are made once: tests are not optimised, and one by one they would take most of the time.
fn bytes_at(place: usize, way: u8) -> &'static [u8] {
    static ALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let one = |mask: u8| (0..PIECE + PERIOD).map(move |rest| (rest % PERIOD) as u8 ^ mask);
        (0..=u8::MAX).flat_map(one).collect()
    });
    let of_mask = usize::from((place >> 16) as u8 ^ way) * (PIECE + PERIOD);
    &ALL[of_mask + place % PERIOD..][..PIECE - place % PIECE]
}

/// Says the stream of this way, so many bytes, and finishes; or until nobody takes more. Returns whether all was taken.
fn say(mut stream: TcpStream, way: u8, bytes: usize) -> bool {
    let mut block = Vec::new();
    for start in (0..bytes).step_by(1 << 16) {
        block.clear();
        (0..1 << 16).step_by(PIECE).for_each(|place| block.extend_from_slice(bytes_at(start + place, way)));
        block.truncate(bytes - start);
        if stream.write_all(&block).is_err() {
            return false;
        }
    }
    stream.shutdown(Shutdown::Write).is_ok()
}

/// Hears a stream of this way, up to so many bytes or its end, and looks at each byte; returns how many came.
fn hear(stream: &mut TcpStream, way: u8, most: usize) -> usize {
    let (mut bytes, mut block) = (0, vec![0; 1 << 16]);
    while bytes < most {
        let read = stream.read(&mut block).unwrap();
        let mut left = &block[..read];
        while !left.is_empty() {
            let said = bytes_at(bytes, way);
            let (piece, behind) = left.split_at(said.len().min(left.len()));
            assert!(said.starts_with(piece), "other bytes came behind {bytes}");
            (bytes, left) = (bytes + piece.len(), behind);
        }
        if read == 0 {
            break;
        }
    }
    bytes
}

fn bulk_passes_byte_by_byte_and_what_is_broken_off_is_so(driver: Driver) {
    let test = "proxy::bulk_passes_byte_by_byte_and_what_is_broken_off_is_so";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("proxy=tcp://127.0.0.1:0?to={}", listener.local_addr().unwrap());
    let Some(mut server) = driver.start(test, &["--lanes", "1", &place]) else { return };
    // Both ways at once, and each half ends by itself.
    let mut client = server.connect();
    let (mut upstream, _) = listener.accept().unwrap();
    let (up, down) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    let saying = [spawn(move || say(up, 1, BULK)), spawn(move || say(down, 2, BULK))];
    let hearing = spawn(move || hear(&mut upstream, 1, usize::MAX));
    assert_eq!(hear(&mut client, 2, usize::MAX), BULK);
    assert_eq!(hearing.join().unwrap(), BULK);
    assert!(saying.into_iter().all(|saying| saying.join().unwrap()));
    let all = 2 * BULK as u64;
    server.comes_to("bytes_in", all);
    server.comes_to("bytes_out", all);
    until("most bytes were piped", || server.lane_count("bytes_piped") > all / 2);
    let piped = server.lane_count("bytes_piped");
    assert!(piped < all, "{piped} of {all} bytes were piped");
    // A client breaks off amid bulk, and so does an upstream.
    for is_client in [true, false] {
        let client = server.connect();
        let (upstream, _) = listener.accept().unwrap();
        let (mut hearer, sayer) = if is_client { (client, upstream) } else { (upstream, client) };
        let told = sayer.try_clone().unwrap();
        let saying = spawn(move || say(told, 3, usize::MAX));
        assert!(hear(&mut hearer, 3, BULK / 10) >= BULK / 10);
        // It closes with bytes that it has not read: that is a reset.
        drop(hearer);
        assert!(!saying.join().unwrap(), "nobody takes the rest");
        let error = (&sayer).read(&mut [0; 1]).err().map(|error| error.kind());
        assert!(matches!(error, None | Some(ErrorKind::ConnectionReset)), "{error:?}");
    }
    until("both pairs have ended, and no pipe is held", || {
        server.count("connections_open") == 0 && server.lane_count("pipes_held") == 0
    });
    assert_eq!(server.count("endings_end_of_stream"), 2);
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

/// A client is not read from while its upstream takes nothing. That it is broken off is heard all the same, and not at `send_limit` alone.
fn a_reset_is_heard_while_the_other_side_takes_nothing(driver: Driver) {
    let test = "proxy::a_reset_is_heard_while_the_other_side_takes_nothing";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("proxy=tcp://127.0.0.1:0?to={}", listener.local_addr().unwrap());
    let Some(mut server) = driver.start(test, &["--lanes", "1", "--limit", "send_limit=10m", &place]) else { return };
    let piece = pattern(1 << 16, 3);
    let mut client = server.connect();
    let (_deaf, _) = listener.accept().unwrap();
    client.set_nonblocking(true).unwrap();
    let mut before = 0;
    until("nothing more is taken", || {
        while client.write(&piece).is_ok() {}
        let taken = server.count("bytes_in");
        std::mem::replace(&mut before, taken) == taken && taken > 0 && server.count("output_high_hits") > 0
    });
    reset_on_drop(&client);
    drop(client);
    until("both ends of the pair have ended, and no pipe is held", || {
        server.count("connections_open") == 0 && server.lane_count("pipes_held") == 0
    });
    let endings = ["endings_error", "endings_aborted", "send_limit_hits"].map(|counter| server.count(counter));
    assert_eq!(endings, [1, 1, 0]);
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

/// The status of the answer to a request for `/`.
fn status(server: &Server) -> String {
    get(server.address("http"), "/").split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn upstreams_of_http_are_seen_everywhere_and_taken_out_and_in() {
    let mut behind = Server::start(&["--lanes", "1", "http=http://127.0.0.1:0?reply=8"]);
    let name = behind.address("http").to_string();
    let place = format!("http=http://127.0.0.1:0?to={name},no-such-name.invalid:80");
    let mut server = Server::start(&["--lanes", "2", "--metrics", "127.0.0.1:0", "--dashboard", "127.0.0.1:0", &place]);
    for _ in 0..5 {
        assert_eq!(status(&server), "200");
    }
    let rows = upstreams(&server);
    let of = |rows: &[Value], what: &str| rows.iter().map(|row| row[what].clone()).collect::<Vec<_>>();
    assert_eq!(of(&rows, "name"), [name.as_str(), "no-such-name.invalid:80"]);
    assert_eq!((of(&rows, "uses"), of(&rows, "state")), (vec![5.into(), 0.into()], vec!["up".into(), "unresolved".into()]));
    let page = server.page();
    assert_eq!(of(page["upstreams"].as_array().unwrap(), "uses"), of(&rows, "uses"), "stat and proxy say the same");
    let glance = String::from_utf8(server.stat(&[]).stdout).unwrap();
    assert!(glance.contains("\nUPSTREAM ") && glance.contains(&format!("\n{name} ")), "{glance}");
    let all = String::from_utf8(server.stat(&["--all"]).stdout).unwrap();
    assert!(all.contains(&format!("upstream {name} of http at {name}: up, weight 1")), "{all}");

    let at = |number: usize| server.urls[number].trim_start_matches("http://").parse().unwrap();
    let of_name = |metric: &str, more: &str| {
        let text = get(at(1), "/metrics");
        let is_it =
            |line: &&str| line.starts_with(metric) && line.contains(&format!("upstream=\"{name}\"")) && line.contains(more);
        text.lines().find(is_it).and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
    };
    let expected = [
        ("corelane_upstream_uses_total{", "", "5"),
        ("corelane_upstream_state{", "", "0"),
        ("corelane_upstream_failures_total{", "reason=\"connect\"", "0"),
        ("corelane_upstream_first_byte_seconds_count{", "", "5"),
        ("corelane_upstream_first_byte_seconds_bucket{", "le=\"+Inf\"", "5"),
    ];
    for (metric, more, value) in expected {
        // Whoever asks again within a tenth of a second is told the same.
        until(metric, || of_name(metric, more).as_deref() == Some(value));
    }
    let look = || -> Value {
        let answer = get(at(2), "/look");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    until("the page tells it", || look()["upstreams"][0]["name"] == name.as_str() && look()["upstreams_in_all"] == 2);

    assert!(proxy(&server, &["drain", &name]).status.success());
    assert_eq!((status(&server).as_str(), upstreams(&server)[0]["state"].as_str()), ("503", Some("drained")));
    assert!(proxy(&server, &["enable", &name]).status.success());
    assert_eq!(status(&server), "200");
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    behind.signal(Signal::SIGTERM);
    assert!(behind.ended().success());
}

/// Hears a request for this from this stream, up to this end, and says the path for it.
fn answer(stream: &mut TcpStream, method: &str, path: &str, end: &str) {
    let mut heard = Vec::new();
    while !heard.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        heard.extend(byte);
    }
    let begin = format!("{method} /{path} HTTP/1.1\r\n");
    assert!(heard.starts_with(begin.as_bytes()), "{}", String::from_utf8_lossy(&heard));
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()).unwrap();
}

/// All that is heard up to this end.
fn heard_to(stream: &mut TcpStream, end: &str) -> String {
    let mut heard = String::new();
    while !heard.ends_with(end) {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        heard += std::str::from_utf8(&bytes[..read]).unwrap();
        assert!(read > 0 && !heard.contains("stray"), "{heard}");
    }
    heard
}

/// The next connection of the proxy's.
fn asked_anew(listener: &TcpListener) -> TcpStream {
    let mut anew = None;
    listener.set_nonblocking(true).unwrap();
    until("it is asked by another connection", || {
        anew = listener.accept().ok();
        anew.is_some()
    });
    let (anew, _) = anew.unwrap();
    anew.set_nonblocking(false).unwrap();
    anew
}

/// Both are there when the lane looks again: a request, and behind it what its upstream has said before it was asked, or the end of its link.
fn what_came_before_a_request_left_is_no_answer_to_it(driver: Driver) {
    let test = "proxy::what_came_before_a_request_left_is_no_answer_to_it";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http=http://127.0.0.1:0?to={}", listener.local_addr().unwrap());
    let Some(mut server) = driver.start(test, &["--lanes", "1", &place]) else { return };
    let mut client = connect(server.address("http"));
    write!(client, "GET /one HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (mut kept, _) = listener.accept().unwrap();
    answer(&mut kept, "GET", "one", "\r\n\r\n");
    assert!(heard_to(&mut client, "one").starts_with("HTTP/1.1 200 OK\r\n"));
    stop(&server);
    write!(client, "GET /two HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    write!(kept, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray").unwrap();
    server.signal(Signal::SIGCONT);
    let mut anew = asked_anew(&listener);
    answer(&mut anew, "GET", "two", "\r\n\r\n");
    assert!(heard_to(&mut client, "two").starts_with("HTTP/1.1 200 OK\r\n"));
    // What is not idempotent, and has its content with it, must not be lost on a link that has ended.
    stop(&server);
    write!(client, "POST /three HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\ncontent").unwrap();
    // A child that another test begins just now may hold the descriptor for a moment.
    anew.shutdown(Shutdown::Both).unwrap();
    drop(anew);
    server.signal(Signal::SIGCONT);
    answer(&mut asked_anew(&listener), "POST", "three", "content");
    assert!(heard_to(&mut client, "three").starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!((server.count("forwards_retried"), server.count("forwards_failed")), (0, 0), "they went by other links at once");
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

#[test]
fn a_pair_goes_on_through_a_drain_and_nobody_new_comes() {
    let mut behind = Server::start(&["--lanes", "1", TCP]);
    let place = format!("proxy=tcp://127.0.0.1:0?to={}", behind.tcp());
    let mut server = Server::start(&["--lanes", "1", &place]);
    let mut stream = server.connect();
    echo(&mut stream, b"before");
    server.signal(Signal::SIGTERM);
    until("it drains", || std::net::TcpStream::connect(server.tcp()).is_err());
    echo(&mut stream, b"while it drains");
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    assert!(server.ended().success());
    behind.signal(Signal::SIGTERM);
    assert!(behind.ended().success());
}

/// The first message of a client of TLS that asks for this name (RFC 8446 section 4.1.2).
fn hello(name: &str) -> Vec<u8> {
    let length = name.len() as u8;
    let extension = [&[0, 0, 0, length + 5, 0, length + 3, 0, 0, length][..], name.as_bytes()].concat();
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0, 0, length + 9], &extension].concat();
    let message = [&[1, 0, 0, body.len() as u8][..], &body].concat();
    [&[22, 3, 1, 0, message.len() as u8][..], &message].concat()
}

/// A client that asks for this name, and the connection on which this server hears it.
fn reaches(server: &Server, name: &str, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let (mut client, said) = (server.connect(), hello(name));
    client.write_all(&said).unwrap();
    let mut upstream = asked_anew(listener);
    let mut heard = vec![0; said.len()];
    upstream.read_exact(&mut heard).unwrap();
    assert_eq!(heard, said);
    (client, upstream)
}

/// A pair that was there before a change.
fn goes_on((mut client, mut upstream): (TcpStream, TcpStream)) {
    upstream.write_all(b"go on").unwrap();
    let mut heard = [0; 5];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"go on");
}

#[test]
fn a_hangup_names_other_upstreams_for_new_clients_and_names_keep_theirs() {
    let [named, before, after] = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let at = |listener: &TcpListener| listener.local_addr().unwrap();
    let folder = Scratch::new();
    for names in [String::new(), format!("sni=a.test>{}&", at(&named))] {
        let file = folder.path().join("corelane.toml");
        let write = |to: &TcpListener| {
            put_whole(&file, &format!("services = [\"proxy=tcp://127.0.0.1:0?{names}to={}\"]\n", at(to)));
        };
        write(&before);
        let mut server = Server::start(&["--lanes", "1", "--sandbox", "off", "--config", file.to_str().unwrap()]);
        let pair = reaches(&server, "b.test", &before);
        if !names.is_empty() {
            reaches(&server, "a.test", &named);
        }
        write(&after);
        server.signal(Signal::SIGHUP);
        until("it is said", || server.words().contains("SIGHUP: the options of \"proxy=tcp://127.0.0.1:0?"));
        reaches(&server, "b.test", &after);
        if !names.is_empty() {
            reaches(&server, "a.test", &named);
        }
        goes_on(pair);
        server.signal(Signal::SIGTERM);
        assert!(server.ended().success());
    }
}

#[test]
fn a_hangup_changes_which_names_have_which_upstreams() {
    let [first, second] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let at = |listener: &TcpListener| listener.local_addr().unwrap();
    let folder = Scratch::new();
    let file = folder.path().join("corelane.toml");
    let write = |options: &str| {
        put_whole(&file, &format!("services = [\"proxy=tcp://127.0.0.1:0?{options}\"]\n"));
    };
    write(&format!("to={}", at(&first)));
    let mut server = Server::start(&["--lanes", "1", "--sandbox", "off", "--config", file.to_str().unwrap()]);
    let mut hangups = 0;
    let mut change = |server: &mut Server, options: &str| {
        write(options);
        server.signal(Signal::SIGHUP);
        hangups += 1;
        until("it is said", || server.words().matches("SIGHUP: the options of").count() == hangups);
    };
    // Nobody is asked for a name yet.
    let pair = reaches(&server, "a.test", &first);
    change(&mut server, &format!("sni=a.test>{}", at(&second)));
    reaches(&server, "a.test", &second);
    let is_refused = |server: &Server, name: &str| {
        let mut client = server.connect();
        client.write_all(&hello(name)).unwrap();
        read_to_end(&mut client).1.is_err()
    };
    assert!(is_refused(&server, "b.test"), "there is nobody for others any more");
    // One that is half heard is judged by what is in force when it has said all.
    let (mut half, said) = (server.connect(), hello("b.test"));
    half.write_all(&said[..20]).unwrap();
    change(&mut server, &format!("sni=*.b.test>{0},b.test>{0},a.test>{1}", at(&first), at(&second)));
    half.write_all(&said[20..]).unwrap();
    drop(asked_anew(&first));
    reaches(&server, "x.b.test", &first);
    let mut late = server.connect();
    late.write_all(&said[..20]).unwrap();
    // Accepted behind it.
    reaches(&server, "a.test", &second);
    // Names keep what they had as long as what is new has no address.
    change(&mut server, "sni=a.test>no-such-name.invalid:443,x.b.test>no-such-name.invalid:80");
    reaches(&server, "a.test", &second);
    reaches(&server, "x.b.test", &first);
    assert!(is_refused(&server, "y.b.test"), "that name is gone");
    change(&mut server, &format!("to={}", at(&second)));
    // Nobody is to speak TLS any more, whenever it came.
    late.write_all(b"hello").unwrap();
    let mut heard = [0; 25];
    asked_anew(&second).read_exact(&mut heard).unwrap();
    assert_eq!(heard[..], [&said[..20], b"hello"].concat());
    reaches(&server, "b.test", &second);
    change(&mut server, "sni=c.test>no-such-name.invalid:443");
    reaches(&server, "c.test", &second);
    goes_on(pair);
    drop((half, late));
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

#[test]
fn a_client_that_nobody_takes_is_told_of() {
    let mut server = Server::start(&["--lanes", "1", &format!("proxy=tcp://127.0.0.1:0?to={NOBODY},no-such-name.invalid:80")]);
    // A reset is told once, to the connect or to one of those behind it.
    let (heard, end) = match TcpStream::connect_timeout(&server.tcp(), PATIENCE) {
        Ok(mut stream) => {
            patient(&stream);
            let said = stream.write_all(b"hello").map_err(|error| error.kind());
            let (heard, end) = read_to_end(&mut stream);
            (heard, said.and(end))
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            (Vec::new(), Err(error.kind()))
        }
    };
    assert!(heard.is_empty() && end.is_err(), "an end in order would look like an answer: {end:?}");
    until("it is said", || server.words().contains("no upstream took a client's connection"));
    assert_eq!(server.count("clients_turned_away"), 1);
    let rows = upstreams(&server);
    assert_eq!(rows.iter().map(|row| row["state"].as_str().unwrap()).collect::<Vec<_>>(), ["up", "unresolved"]);
    assert_eq!(server.count("upstreams"), 2, "a name without an address is one");
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

#[test]
fn a_check_warns_of_upstreams_that_nobody_reaches() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let well = listener.local_addr().unwrap();
    let folder = Scratch::new();
    let file = folder.path().join("corelane.toml");
    let services = format!(
        "services = [\n  \"http=http://127.0.0.1:0?to={well}\",\n  \"proxy=tcp://127.0.0.1:0?to={NOBODY},nosuchname.invalid:80\",\n]\n"
    );
    fs::write(&file, services).unwrap();
    let checked = output(Command::new(PROGRAM).args(["serve", "--check", "--config"]).arg(&file));
    let said = String::from_utf8(checked.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(checked.status.success(), "it is no fault of the settings: {said}");
    for expected in [
        format!("warning: {}:3:3: upstream {NOBODY}: at {NOBODY}, it takes no connection: Connection refused", file.display()),
        format!("warning: {}:3:3: upstream nosuchname.invalid:80: its name is not resolved: ", file.display()),
    ] {
        assert!(said.contains(&expected), "{said}");
    }
    assert!(!said.contains(&format!("upstream {well}")) && said.ends_with("nothing was started"), "{said}");
}

#[test]
fn a_process_without_upstreams_says_so() {
    let mut server = Server::start(&["--lanes", "1", TCP]);
    for words in [&["show"][..], &["drain", "127.0.0.1:1"]] {
        let asked = proxy(&server, words);
        let said = String::from_utf8_lossy(&asked.stderr);
        assert!(!asked.status.success() && said.contains("no service of this process passes on to upstreams"), "{asked:?}");
    }
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}
