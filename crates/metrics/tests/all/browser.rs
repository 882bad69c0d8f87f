//! Pages as a browser sees them, in frames of two widths.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a test waits for anything.
pub const LONG: Duration = Duration::from_secs(60);

pub fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    stream
}

/// The head and the body of an answer.
pub fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut answer = String::new();
    ask(address, path).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Serves `/frames`, which shows `/` in two widths, and what is given for other paths: without their policy, which allows no frame. None is refused.
pub fn serve_pages(page: impl Fn(&str) -> Option<String> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let body = if path == "/frames" { Some(include_str!("../dashboard/frames.html").to_owned()) } else { page(&path) };
            let status = if body.is_some() { "200 OK" } else { "503 Service Unavailable" };
            let body = body.unwrap_or_default();
            let what = match (path.as_str(), body.starts_with('<')) {
                ("/events", _) => "text/event-stream",
                (_, true) => "text/html",
                (_, false) => "application/json",
            };
            let head =
                format!("HTTP/1.0 {status}\r\nContent-Type: {what}; charset=utf-8\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = write!(stream, "{head}{body}");
        }
    });
    address
}

/// What the browser printed of the page, and its console.
pub fn browse(folder: &Path, url: &str, more: &[&str]) -> (String, Vec<String>) {
    let mut command = Command::new("timeout");
    command.args(["100", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--disable-background-networking", "--enable-logging=stderr", "--window-size=1800,1400"]);
    command.args(["--virtual-time-budget=10000", "--dump-dom"]).args(more);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display())).arg(url);
    let output = command.stdin(Stdio::null()).output().expect("timeout starts");
    assert_ne!(output.status.code(), Some(124), "the browser took too long");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let console = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}

/// What was seen in the frames, the narrow one first.
pub fn seen(printed: &str) -> Vec<Value> {
    let found = printed.split_once("<pre id=\"seen\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (found, _) = found.unwrap_or_else(|| panic!("the browser printed {printed:.600}"));
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found:.300}"))
}
