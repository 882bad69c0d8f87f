//! The table of hostile heads before servers that nobody here wrote: each of them sees what was meant, or nothing.

use crate::table::{Meant, rows, taken};
use corelane::Lanes;
use corelane::lanes::Running;
use corelane_http::ENTRY;
use corelane_testkit::{is_installed, skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Sent beside the table: fields that must not change what another connection is told.
const MORE: [(&str, &str); 9] = [
    ("Connection names the length", "POST / HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello"),
    (
        "Connection names the coding",
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ),
    ("Connection names the host", "GET /h HTTP/1.1\r\nHost: a\r\nConnection: host, x-gone\r\nX-Gone: 1\r\n\r\n"),
    (
        "HTTP/2 with its settings",
        "GET /2 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    ),
    (
        "a change of protocol with content",
        "POST /w HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 37\r\n\r\nGET /inner HTTP/1.1\r\nHost: inner\r\n\r\n\r\n",
    ),
    (
        "content that is a request",
        "POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 37\r\n\r\nGET /inner HTTP/1.1\r\nHost: inner\r\n\r\n\r\n",
    ),
    (
        "a length by another spelling",
        "POST /u HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\nContent-Length: 0\r\n\r\nGET /n HTTP/1.1\r\nHost: b\r\n\r\n",
    ),
    ("a request behind one that is refused", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\nGET /inner HTTP/1.1\r\nHost: a\r\n\r\n"),
    (
        "a request behind chunks with trailers",
        "POST /t HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nHost: inner\r\n\r\nGET /n HTTP/1.1\r\nHost: b\r\n\r\n",
    ),
];

/// A server of somebody else's: how it is run, and what of the table it refuses itself, by name.
struct Foreign {
    name: &'static str,
    /// The program, the library of Python that must be there, and its arguments: DIR is a folder of its own, HERE that of its application.
    program: &'static str,
    library: Option<&'static str>,
    arguments: &'static [&'static str],
    refuses: &'static [&'static str],
}

const NGINX: Foreign = Foreign {
    name: "nginx",
    program: "nginx",
    library: None,
    arguments: &["-c", "DIR/nginx.conf"],
    refuses: &["OPTIONS *", "a method in lower case"],
};

const UVICORN: Foreign = Foreign {
    name: "uvicorn",
    program: "python3",
    library: Some("uvicorn"),
    arguments: &[
        "-m",
        "uvicorn",
        "asgi:application",
        "--app-dir",
        "HERE",
        "--uds",
        "DIR/socket",
        "--http",
        "h11",
        "--lifespan",
        "off",
        "--log-level",
        "critical",
        "--h11-max-incomplete-event-size",
        "65536",
    ],
    refuses: &[],
};

const GUNICORN: Foreign = Foreign {
    name: "gunicorn",
    program: "python3",
    library: Some("gunicorn"),
    arguments: &[
        "-m",
        "gunicorn",
        "wsgi:application",
        "--chdir",
        "HERE",
        "--bind",
        "unix:DIR/socket",
        "--worker-class",
        "gthread",
        "--threads",
        "4",
        "--keep-alive",
        "60",
        "--limit-request-line",
        "0",
        "--limit-request-field_size",
        "0",
        "--log-level",
        "critical",
    ],
    refuses: &["100 fields", "a method in lower case", "a value of 16,000 bytes"],
};

const NODE: Foreign = Foreign {
    name: "node",
    program: "node",
    library: None,
    arguments: &["HERE/node.js", "DIR/socket"],
    refuses: &["a method in lower case", "a method of its own"],
};

fn nginx_settings(folder: &Path) {
    let folder = folder.display();
    let temporary: String =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {folder}/{name};")).concat();
    let fields = ["Host", "Content-Length", "Transfer-Encoding", "X-Gone", "Upgrade"];
    let fields = fields.map(|name| format!("[\"{name}\",\"$http_{}\"]", name.to_lowercase().replace('-', "_"))).join(",");
    let text = format!(
        "daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors crit;
         events {{ worker_connections 100; }}
         http {{
             {temporary} access_log off;
             log_format seen escape=json
                 '{{\"method\":\"$request_method\",\"target\":\"$request_uri\",\"fields\":[{fields}],\"content\":\"$request_body\",\"status\":$status}}';
             client_body_in_single_buffer on; client_body_buffer_size 64k; large_client_header_buffers 4 64k;
             underscores_in_headers on;
             server {{ listen unix:{folder}/socket; access_log {folder}/seen seen; location / {{ proxy_pass http://unix:{folder}/inner; }} }}
             server {{ listen unix:{folder}/inner; return 200 ok; }}
         }}"
    );
    std::fs::write(format!("{folder}/nginx.conf"), text).unwrap();
}

/// It runs, and goes with the test.
struct Behind {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Behind {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Foreign {
    /// The interpreter of the tests' own libraries, where the program is Python.
    fn interpreter(&self) -> PathBuf {
        let program = std::env::current_exe().unwrap();
        // Two folders up from the one of this test: target/PROFILE/deps.
        let own = program.ancestors().nth(3).map(|target| target.join("python/bin/python"));
        own.filter(|own| self.library.is_some() && own.is_file()).unwrap_or_else(|| self.program.into())
    }

    fn is_here(&self, test: &str) -> bool {
        if !is_installed(self.program) {
            skip(test, &format!("there is no {}", self.program));
            return false;
        }
        let imports = |library: &&str| {
            let found = Command::new(self.interpreter()).args(["-c", &format!("import {library}")]).output();
            found.is_ok_and(|found| found.status.success())
        };
        let missing = self.library.filter(|library| !imports(library));
        missing.into_iter().for_each(|library| skip(test, &format!("Python's {library} is not installed")));
        missing.is_none()
    }

    fn start(&self) -> Behind {
        let folder = tempfile::tempdir().unwrap();
        nginx_settings(folder.path());
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/behind");
        let place = folder.path().display().to_string();
        let arguments = self.arguments.iter().map(|word| word.replace("DIR", &place).replace("HERE", here));
        let words = File::create(folder.path().join("words")).unwrap();
        let mut command = Command::new(self.interpreter());
        command.args(arguments).env("SEEN", folder.path().join("seen")).env("PYTHONDONTWRITEBYTECODE", "1");
        let child = command.stdout(words.try_clone().unwrap()).stderr(words).spawn().unwrap();
        let behind = Behind { child, folder };
        behind.until("it listens", || UnixStream::connect(behind.folder.path().join("socket")).is_ok());
        behind
    }
}

impl Behind {
    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            let words = || std::fs::read_to_string(self.folder.path().join("words"));
            assert!(Instant::now() < deadline, "waited in vain until {what}: {:?}", words());
            // reason: nothing wakes us when a file of somebody else's has grown.
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it has seen, cut at the requests for `/mark/N`.
    fn seen(&self, marks: usize) -> Vec<Vec<Value>> {
        let (file, last) = (self.folder.path().join("seen"), format!("\"/mark/{}\"", marks - 1));
        let text = || std::fs::read_to_string(&file).unwrap_or_default();
        self.until("the last request is written down", || text().ends_with('\n') && text().contains(&last));
        let (text, mut all) = (text(), vec![Vec::new()]);
        for line in text.lines() {
            let seen: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            match seen["target"].as_str().unwrap().strip_prefix("/mark/") {
                Some(mark) => {
                    assert_eq!(mark, (all.len() - 1).to_string(), "requests that mark rows come in their order");
                    all.push(Vec::new());
                }
                // One that it has refused, or whose content was not whole, it has acted upon in nothing.
                None if seen["status"].as_u64().is_some_and(|status| status != 200) => {}
                None => all.last_mut().unwrap().push(seen),
            }
        }
        all
    }
}

/// Says `bytes` and then its end; returns the statuses of the answers.
fn ask(running: &Running, bytes: &[u8]) -> Vec<String> {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may have been refused before all was said.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        heard.extend_from_slice(&piece[..read]);
    }
    let heard = String::from_utf8_lossy(&heard).into_owned();
    let statuses = heard.match_indices("HTTP/1.1 ").map(|(at, _)| heard[at + 9..].split(' ').next().unwrap().to_owned());
    statuses.filter(|status| status != "100").collect()
}

fn as_meant(seen: &Value) -> Meant {
    let text = |name: &str| seen[name].as_str().unwrap().to_owned();
    let of = |name: &str| {
        let fields = seen["fields"].as_array().unwrap().iter();
        let its = fields.filter(|field| field[0].as_str().unwrap().eq_ignore_ascii_case(name));
        its.map(|field| field[1].as_str().unwrap().to_owned()).filter(|value| !value.is_empty()).collect::<Vec<_>>()
    };
    assert!(of("content-length").len() + of("transfer-encoding").len() <= 1, "one framing at the most: {seen}");
    assert!(of("x-gone").is_empty() && of("http2-settings").is_empty(), "it was of one connection: {seen}");
    let host = of("host");
    assert_eq!(host.len(), 1, "one host: {seen}");
    let bytes = text("content").chars().map(|one| one as u8).collect();
    // Where the client names none, the proxy says so.
    Meant {
        method: text("method"),
        target: text("target"),
        host: host.into_iter().next().filter(|host| host != "localhost"),
        content: bytes,
    }
}

/// Each row is sent, and behind it a request of another client that marks its end.
fn send_all(foreign: &Foreign) {
    let behind = foreign.start();
    let place = format!("http://127.0.0.1:0?to=unix:{}/socket", behind.folder.path().display());
    let running = Lanes::per_core().lanes(1).serve_entry(&ENTRY, &place).unwrap().start().unwrap();
    let more = MORE.into_iter().map(|(what, sent)| (what.to_owned(), sent.as_bytes().to_vec()));
    let rows: Vec<_> = rows().into_iter().chain(more).collect();
    let mut answers = Vec::new();
    for (number, (what, sent)) in rows.iter().enumerate() {
        answers.push(ask(&running, sent));
        let mark = ask(&running, format!("GET /mark/{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes());
        assert_eq!(mark, ["200"], "{}: behind {what}", foreign.name);
    }
    let mut refused = BTreeMap::new();
    for (((what, sent), answers), seen) in rows.iter().zip(answers).zip(behind.seen(rows.len())) {
        let seen: Vec<_> = seen.iter().map(as_meant).collect();
        let (mut meant, all) = (taken(sent).into_iter(), taken(sent).len());
        for seen in &seen {
            assert!(meant.any(|meant| meant == *seen), "{}: {what}: {seen:?} was not meant: {:?}", foreign.name, taken(sent));
        }
        let told = answers.iter().filter(|status| *status == "200").count();
        assert_eq!(told, seen.len(), "{}: {what}: {answers:?}", foreign.name);
        if seen.len() < all {
            refused.insert(&what[..], all - seen.len());
        }
    }
    let names: Vec<_> = refused.keys().copied().collect();
    assert_eq!(names, foreign.refuses, "{} has refused {refused:?}", foreign.name);
}

fn sees_what_was_meant(test: &str, foreign: &Foreign) {
    if foreign.is_here(test) {
        send_all(foreign);
    }
}

#[test]
fn nginx_sees_what_was_meant() {
    sees_what_was_meant("smuggled::nginx_sees_what_was_meant", &NGINX);
}

#[test]
fn h11_sees_what_was_meant() {
    sees_what_was_meant("smuggled::h11_sees_what_was_meant", &UVICORN);
}

#[test]
fn gunicorn_sees_what_was_meant() {
    sees_what_was_meant("smuggled::gunicorn_sees_what_was_meant", &GUNICORN);
}

#[test]
fn node_sees_what_was_meant() {
    sees_what_was_meant("smuggled::node_sees_what_was_meant", &NODE);
}
