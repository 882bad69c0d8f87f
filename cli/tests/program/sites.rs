//! The file of docs/sites.md, served whole; and what a SIGHUP changes of it without a cut.

use crate::common::*;
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;

/// The file as the page has it.
fn file_of_the_page() -> &'static str {
    let page = include_str!("../../../docs/sites.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    rest.split_once("```").unwrap().0
}

/// A certificate for this name, and its key.
fn certify(folder: &Path, name: &str) {
    let [certificate, key] = ["pem", "key"].map(|end| folder.join(format!("{name}.{end}")).to_str().unwrap().to_owned());
    let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    let [subject, names] = [format!("/CN={name}.example"), format!("subjectAltName=DNS:{name}.example,DNS:*.{name}.example")];
    let named = ["-subj", &subject, "-addext", &names, "-addext", "basicConstraints=CA:FALSE"];
    let made =
        output(Command::new("openssl").args(["req", "-x509", "-out", &certificate, "-keyout", &key]).args(kind).args(named));
    assert!(made.status.success(), "{made:?}");
}

/// The head of the answer that curl gets at this address for this host, whose certificate it checks.
fn asked(folder: &Path, name: &str, address: SocketAddr, path: &str, more: &[&str]) -> String {
    let place = format!("{name}.example:{}:{}", address.port(), address.ip());
    let trusted = folder.join(format!("{name}.pem"));
    let url = format!("https://{name}.example:{}{path}", address.port());
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-o", "/dev/null", "-D", "-", "--resolve", &place, "--cacert"]).arg(&trusted).arg(&url).args(more);
    let done = output(&mut curl);
    assert!(done.status.success(), "{url}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn has(head: &str, line: &str) -> bool {
    head.lines().any(|found| found == line)
}

/// Ends all of them, the first one first.
fn end_all(servers: impl IntoIterator<Item = Server>) {
    for mut server in servers {
        server.signal(Signal::SIGTERM);
        assert!(server.ended().success());
    }
}

#[test]
fn the_file_of_the_page_serves_two_sites() {
    let test = "sites::the_file_of_the_page_serves_two_sites";
    if !have(test, &["curl", "openssl"]) {
        return;
    }
    let text = file_of_the_page();
    assert!(text.lines().count() <= 20, "{text}");
    let folder = Scratch::new();
    ["shop", "docs"].iter().for_each(|name| certify(folder.path(), name));
    let behind = [8, 9].map(|bytes| Server::start(&["--lanes", "1", &format!("http=http://127.0.0.1:0?reply={bytes}")]));
    let [shop, docs] = behind.each_ref().map(|server| format!("\"{}\"", server.address("http")));
    let nobody = format!("\"{}*", corelane_testkit::free());
    let scratch = folder.path().to_str().unwrap();
    // With what stands around them: the port of another may begin with one of these.
    let text = [
        ("0.0.0.0:80", "127.0.0.1:0"),
        ("0.0.0.0:443", "127.0.0.1:0"),
        ("/etc/corelane", scratch),
        ("\"127.0.0.1:3000\"", &shop),
        ("\"127.0.0.1:3001*", &nobody),
        ("\"127.0.0.1:4000\"", &docs),
    ]
    .iter()
    .fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let file = folder.path().join("corelane.toml");
    fs::write(&file, text).unwrap();
    let server = Server::start(&["--lanes", "2", "--config", file.to_str().unwrap()]);
    let [plain, secured] = [0, 1].map(|at: usize| -> SocketAddr {
        let url = &server.urls[at];
        url.split_once("://").unwrap().1.parse().unwrap()
    });

    let head = asked(folder.path(), "shop", secured, "/api/x", &[]);
    assert!(head.starts_with("HTTP/1.1 200 ") && has(&head, "Access-Control-Allow-Origin: https://app.example"), "{head}");
    assert!(has(&head, "Strict-Transport-Security: max-age=63072000; includeSubDomains"), "{head}");
    assert!(has(&head, "Content-Security-Policy: default-src 'self'; img-src 'self' data:"), "{head}");
    assert!(has(&head, "Content-Length: 8"), "{head}");
    let head = asked(folder.path(), "shop", secured, "/assets/a.js", &[]);
    assert!(has(&head, "Cache-Control: max-age=31536000, immutable") && !head.contains("Access-Control"), "{head}");
    let head = asked(folder.path(), "shop", secured, "/old/a%20b?c=1", &[]);
    assert!(head.starts_with("HTTP/1.1 308 ") && has(&head, "Location: https://docs.example/archive/a%20b?c=1"), "{head}");
    assert!(head.contains("Strict-Transport-Security"), "{head}");

    let head = asked(folder.path(), "docs", secured, "/site.css", &[]);
    assert!(head.starts_with("HTTP/1.1 200 ") && has(&head, "Cache-Control: max-age=3600"), "{head}");
    assert!(has(&head, "Strict-Transport-Security: max-age=63072000") && has(&head, "Content-Length: 9"), "{head}");
    misdirected(folder.path(), secured);

    let mut stream = connect(plain);
    let head = exchange(&mut stream, "/a?b", "shop.example");
    assert!(head.starts_with("HTTP/1.1 308 ") && has(&head, "Location: https://shop.example/a?b"), "{head}");
    end_all([server].into_iter().chain(behind));
}

/// A client that asks for another name in TLS than in its request, or for one of no site.
fn misdirected(folder: &Path, secured: SocketAddr) {
    for host in ["Host: docs.example", "Host: other.example"] {
        let head = asked(folder, "shop", secured, "/old", &["-H", host]);
        assert!(head.starts_with("HTTP/1.1 421 ") && !head.contains("Cache-Control"), "{host}: {head}");
    }
    let head = asked(folder, "shop", secured, "/", &["-H", "Host: a.shop.example"]);
    assert!(head.starts_with("HTTP/1.1 200 "), "names of one site: {head}");
}

/// One request and its whole answer, on a connection that stays.
fn exchange(stream: &mut TcpStream, path: &str, host: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let length = |head: &str| head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
    loop {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "the connection was cut: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..read]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, content)) = text.split_once("\r\n\r\n") else { continue };
        if length(head).is_some_and(|length| content.len() >= length) {
            return text.into_owned();
        }
    }
}

#[test]
fn a_hangup_changes_rules_and_upstreams_and_cuts_nobody() {
    let behind = [8, 9].map(|bytes| Server::start(&["--lanes", "1", &format!("http=http://127.0.0.1:0?reply={bytes}")]));
    let [first, second] = behind.each_ref().map(|server| server.address("http").to_string());
    let folder = Scratch::new();
    let file = folder.path().join("corelane.toml");
    let write_beside = |to: &str, rules: &str, head: &str, others: &str| {
        let http = format!("http=http://127.0.0.1:0?to={to}{rules}&head-bytes={head}");
        put_whole(&file, &format!("services = [\"{http}\"{others}]\nsandbox = \"off\"\n"));
    };
    let write = |to: &str, rules: &str, head: &str| write_beside(to, rules, head, "");
    write(&first, "&field=/*=X-A: 1", "4KiB");
    let server = Server::start(&["--lanes", "2", "--config", file.to_str().unwrap()]);
    let mut stream = connect(server.address("http"));
    let answer = exchange(&mut stream, "/", "a.example");
    assert!(has(&answer, "X-A: 1") && has(&answer, "Content-Length: 8"), "{answer}");

    write(&second, "&field=/*=X-B: 2&redirect=/old=/new", "4KiB");
    server.signal(Signal::SIGHUP);
    until("it is said", || server.words().contains("SIGHUP: the options of \"http=http://127.0.0.1:0?to="));
    let answer = exchange(&mut stream, "/", "a.example");
    assert!(has(&answer, "X-B: 2") && !answer.contains("X-A") && has(&answer, "Content-Length: 9"), "{answer}");
    assert!(exchange(&mut stream, "/old/x", "a.example").contains("Location: /new/x"));

    write(&second, "&field=/*=Content-Length: 3", "4KiB");
    server.signal(Signal::SIGHUP);
    until("it is refused", || server.words().contains("this field is written by the server itself"));
    write(&second, "&field=/*=X-B: 2&redirect=/old=/new", "8KiB");
    server.signal(Signal::SIGHUP);
    until("what waits is named", || server.words().contains("head-bytes=8KiB\" counts from the next start on"));
    assert!(has(&exchange(&mut stream, "/", "a.example"), "X-B: 2"));
    // A change that could not be followed is followed once it can be.
    write_beside(&first, "&field=/*=X-C: 3", "4KiB", ", \"echo=tcp://127.0.0.1:0\"");
    server.signal(Signal::SIGHUP);
    until("what waits is named", || server.words().contains("echo=tcp://127.0.0.1:0\" counts from the next start on"));
    assert!(has(&exchange(&mut stream, "/", "a.example"), "X-B: 2"));
    write(&first, "&field=/*=X-C: 3", "4KiB");
    server.signal(Signal::SIGHUP);
    until("it is followed", || has(&exchange(&mut stream, "/", "a.example"), "X-C: 3"));
    end_all([server].into_iter().chain(behind));
}

#[test]
fn a_hangup_changes_one_site_of_several_and_cuts_nobody() {
    let behind = [8, 9].map(|bytes| Server::start(&["--lanes", "1", &format!("http=http://127.0.0.1:0?reply={bytes}")]));
    let [first, second] = behind.each_ref().map(|server| server.address("http").to_string());
    let folder = Scratch::new();
    let file = folder.path().join("corelane.toml");
    let write = |to: &str, field: &str, failures: u32| {
        let site = |host: &str, keys: &str| format!("[[site]]\nlisten = \"http://127.0.0.1:0\"\nhost = \"{host}\"\n{keys}\n");
        let a = site("a.example", &format!("to = \"{to}\"\nfield = \"{field}\"\nfailures = {failures}"));
        let text = format!("sandbox = \"off\"\n{a}{}", site("b.example", &format!("to = \"{first}\"")));
        put_whole(&file, &text);
    };
    write(&first, "/*=X-A: 1", 5);
    let server = Server::start(&["--lanes", "2", "--config", file.to_str().unwrap()]);
    let mut stream = connect(server.address("http"));
    let answer = exchange(&mut stream, "/", "a.example");
    assert!(has(&answer, "X-A: 1") && has(&answer, "Content-Length: 8"), "{answer}");

    write(&second, "/*=X-A: 2&3", 5);
    server.signal(Signal::SIGHUP);
    until("it is said", || server.words().contains("SIGHUP: the options of the sites at \"http://127.0.0.1:0\" are changed"));
    let answer = exchange(&mut stream, "/", "a.example");
    assert!(has(&answer, "X-A: 2&3") && has(&answer, "Content-Length: 9"), "{answer}");
    let answer = exchange(&mut stream, "/", "b.example");
    assert!(!answer.contains("X-A") && has(&answer, "Content-Length: 8"), "{answer}");
    both_answer_under_load(server.address("http"));

    write(&second, "/*=Content-Length: 3", 5);
    server.signal(Signal::SIGHUP);
    until("it is refused", || {
        server.words().contains("corelane.toml:6:9: field: \"Content-Length: 3\": this field is written by")
    });
    write(&second, "/*=X-A: 2&3", 7);
    server.signal(Signal::SIGHUP);
    until("what waits is named", || {
        server.words().contains("corelane.toml:7:12: failures \"7\" of a.example counts from the next")
    });
    assert!(has(&exchange(&mut stream, "/", "a.example"), "X-A: 2&3"));
    end_all([server].into_iter().chain(behind));
}

/// Clients of both sites at once, each of which goes from one to the other and back on the same connection.
fn both_answer_under_load(at: SocketAddr) {
    let ask = |first: usize| {
        let mut stream = connect(at);
        for number in first..first + 200 {
            let (host, length) = [("a.example", "Content-Length: 9"), ("b.example", "Content-Length: 8")][number % 2];
            let answer = exchange(&mut stream, "/", host);
            assert!(answer.starts_with("HTTP/1.1 200 ") && has(&answer, length), "{host}: {answer}");
            assert_eq!(answer.contains("X-A"), host == "a.example", "{host}: {answer}");
        }
    };
    std::thread::scope(|scope| {
        (0..8).for_each(|first| drop(scope.spawn(move || ask(first))));
    });
}

#[test]
fn what_is_wrong_with_a_table_is_told_with_its_place() {
    let folder = Scratch::new();
    let file = folder.path().join("f.toml");
    let site = "[[site]]\nlisten = \"http://127.0.0.1:0\"\nhost = \"a\"\nto = \"a:1\"\n";
    for (text, place, said) in [
        ("site = 1\n", "1:8", "write [[site]]"),
        ("[[site]]\nhost = \"a\"\n", "1:1", "listen is missing: write listen = \"https://0.0.0.0:8443\""),
        ("[[site]]\nlisten = \"http://h:1\"\nhots = \"a\"\n", "3:8", "there is no such key; there are listen, root"),
        ("[[site]]\nlisten = \"http://127.0.0.1:0\"\nhost = \"a\"\nto = [\"b:1\", \"b\"]\n", "4:6", "write HOST:PORT"),
        ("[[site]]\nlisten = \"http://127.0.0.1:0\"\nhost = \"a\"\nto = [1.5]\n", "4:7", "it cannot be float"),
        ("[[site]]\nlisten = \"http://127.0.0.1:0\"\nhost = \"a\"\n", "3:8", "nobody answers for a"),
        ("[[site]]\nlisten = \"ftp://127.0.0.1:0\"\nhost = \"a\"\nto = \"a:1\"", "1:1", "ftp://127.0.0.1:0"),
        (
            "[[site]]\nlisten = \"https://127.0.0.1:0\"\nto = \"a:1\"\n",
            "1:1",
            "write certificate = \"FILE\" and key = \"FILE\" in the table",
        ),
        (
            "[[site]]\nlisten = \"https://127.0.0.1:0?certificate=/a&key=/b\"\nto = \"a:1\"\n",
            "2:10",
            "options are keys of the table, and stand behind no URL here: write certificate = \"/a\"",
        ),
        ("[[site]]\nlisten = \"http://127.0.0.1:0\"\n", "1:1", "write root = \"DIR\" to serve"),
        (&format!("{site}{site}"), "7:8", "\"a\" is named twice"),
        (
            &format!("{site}head-bytes = 4096\n{}head-bytes = 8192\n", site.replace("\"a\"", "\"b\"")),
            "10:14",
            "f.toml:5:14 says something else",
        ),
        (&format!("{0}{0}", site.replace("host = \"a\"\n", "")), "4:1", "is for all other hosts of"),
        (
            &format!("{site}[[site]]\nlisten = \"http://127.0.0.1:0\"\nhost = \"b\"\nto = \"b:1\"\nroot = \"/\"\n"),
            "9:8",
            "all requests are sent on",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let done = output(Command::new(PROGRAM).args(["serve", "--check", "--config", file.to_str().unwrap()]));
        let words = String::from_utf8_lossy(&done.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("f.toml:{place}: ")) && words.contains(said), "{text}: {words}");
        assert_eq!(done.status.code(), Some(2), "{text}: {words}");
    }
}

#[test]
fn a_site_is_at_a_unix_socket_of_a_mode() {
    let folder = Scratch::new();
    let file = folder.path().join("f.toml");
    let socket = folder.path().join("s");
    fs::write(&file, format!("[[site]]\nlisten = \"unix:{}?mode=0600\"\nroot = \"/\"\n", socket.display())).unwrap();
    let done = output(Command::new(PROGRAM).args(["serve", "--check", "--config", file.to_str().unwrap()]));
    assert!(done.status.success(), "{done:?}");
}

/// An answer to a question for SRV records: one at this port of localhost, or that it is cut.
fn record(question: &[u8], port: u16, is_cut: bool) -> Vec<u8> {
    let flags = if is_cut { [0x83, 0x80] } else { [0x81, 0x80] };
    let counts = [0, 1, 0, u8::from(!is_cut), 0, 0, 0, 0];
    let [high, low] = port.to_be_bytes();
    let record = [&[0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 5, 0, 17, 0, 0, 0, 0, high, low, 9][..], b"localhost", &[0]].concat();
    let record = if is_cut { Vec::new() } else { record };
    [&question[..2], &flags, &counts, &question[12..], &record].concat()
}

/// A name server whose answers are cut, and whole by TCP.
fn name_server(port: u16) -> SocketAddr {
    let both = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Some((TcpListener::bind(socket.local_addr().unwrap()).ok()?, socket))
    };
    // Another may have the same number for TCP.
    let (listener, socket) = std::iter::repeat_with(both).take(100).flatten().next().unwrap();
    let at = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((read, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&record(&bytes[..read], port, true), from);
        }
    });
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut bytes = [0; 512];
            let mut read = 0;
            while read < 2 || read < 2 + usize::from(u16::from_be_bytes([bytes[0], bytes[1]])) {
                let Ok(length @ 1..) = stream.read(&mut bytes[read..]) else { break };
                read += length;
            }
            // A client that goes before its question is whole is given no answer.
            if read < 14 {
                continue;
            }
            let answer = record(&bytes[2..read], port, false);
            let _ = stream.write_all(&[&(answer.len() as u16).to_be_bytes()[..], &answer].concat());
        }
    });
    at
}

#[test]
fn sources_are_asked_from_within_the_sandbox() {
    let behind = [8, 9].map(|bytes| Server::start(&["--lanes", "1", &format!("http=http://127.0.0.1:0?reply={bytes}")]));
    let [first, second] = behind.each_ref().map(|server| server.address("http"));
    let folder = Scratch::new();
    let list = folder.path().join("list");
    let put = |text: String| {
        put_whole(&list, &text);
    };
    put(format!("{first}\nnonsense\n"));
    let (list_name, names) = (list.display().to_string(), name_server(second.port()));
    let file = folder.path().join("corelane.toml");
    let site = |host: &str, to: &str| format!("[[site]]\nlisten = \"http://127.0.0.1:0\"\nhost = \"{host}\"\nto = \"{to}\"\n");
    let sites = [site("a.example", &format!("file:{list_name}")), site("b.example", &format!("srv:_http._tcp.b.test@{names}"))];
    fs::write(&file, sites.concat()).unwrap();
    let file = file.to_str().unwrap();
    let checked = output(Command::new(PROGRAM).args(["serve", "--check", "--config", file]));
    let words = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{words}");
    let warning = format!("warning: {file}:4:6: upstream file:{list_name}: {list_name}:2:1: \"nonsense\": write HOST:PORT");
    // Lines are broken at spaces, and at hyphens of names.
    let whole = |text: &str| text.split_whitespace().collect::<String>();
    assert!(whole(&words).contains(&whole(&warning)) && !words.contains("srv:"), "{words}");

    put(format!("{first}\n"));
    let server = Server::start(&["--lanes", "1", "--config", file]);
    let mut stream = connect(server.address("http"));
    let mut length = |host: &str| {
        let answer = exchange(&mut stream, "/", host);
        answer.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().to_owned()
    };
    until("the file is read", || length("a.example") == "8");
    until("the records are there", || length("b.example") == "9");
    put(format!("{second}\n"));
    until("it is read again", || length("a.example") == "9");
    end_all([server].into_iter().chain(behind));
}
