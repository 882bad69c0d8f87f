//! PROXY headers before HTTP, in plain and before TLS: curl's and those of a proxy that Python plays.

use crate::common::*;
use crate::tls::certified;
use nix::sys::signal::Signal;
use std::fs;
use std::process::Command;

on_each_driver!(curl_says_whom_it_stands_for);

/// Files go through a PROXY header as they are, and are read before TLS.
#[test]
fn a_file_comes_whole_behind_a_header() {
    if !have("proxied::a_file_comes_whole_behind_a_header", &["curl", "openssl"]) {
        return;
    }
    let folder = Scratch::new();
    let (certificate, key) = certified(&folder);
    let content = pattern(3 << 20, 7);
    fs::write(folder.path().join("file"), &content).unwrap();
    let root = format!("root={}&proxy-from=127.0.0.1", folder.path().display());
    let places = [
        format!("http=http://127.0.0.1:0?{root}"),
        format!("http=https://127.0.0.1:0?{root}&certificate={certificate}&key={key}"),
    ];
    let mut server = Server::start(&["--lanes", "1", &places[0], &places[1]]);
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://localhost:{}/file", server.address(scheme).port());
        let fetch = ["-4", "-sS", "--haproxy-protocol", "--cacert", &certificate, &url];
        let done = output(Command::new("curl").args(fetch));
        assert!(done.status.success() && done.stdout == content, "{scheme}: {}", String::from_utf8_lossy(&done.stderr));
    }
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

/// Sends a header of version 2 in two pieces, then asks, behind TLS if there is a certificate; prints what it hears.
const PYTHON: &str = r#"
import socket, ssl, struct, sys
stream = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
ends = socket.inet_pton(socket.AF_INET6, "2001:db8::7") + socket.inet_pton(socket.AF_INET6, "2001:db8::1") + struct.pack(">HH", 5, 6)
header = b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x21, 0x21]) + struct.pack(">H", len(ends)) + ends
stream.sendall(header[:20])
stream.sendall(header[20:])
if len(sys.argv) > 2:
    stream = ssl.create_default_context(cafile=sys.argv[2]).wrap_socket(stream, server_hostname="localhost")
stream.sendall(b"GET /python HTTP/1.0\r\n\r\n")
heard = b""
while True:
    piece = stream.recv(4096)
    if not piece:
        break
    heard += piece
print(heard.decode())
"#;

fn curl_says_whom_it_stands_for(driver: Driver) {
    let test = "proxied::curl_says_whom_it_stands_for";
    if !have(&driver.case(test), &["curl", "python3", "openssl"]) {
        return;
    }
    let folder = Scratch::new();
    let log = folder.path().join("log");
    let (certificate, key) = certified(&folder);
    let of = |scheme: &str, more: &str| {
        format!("http={scheme}://127.0.0.1:0?reply=8&log={}&proxy-from=127.0.0.0/8,::1{more}", log.display())
    };
    let veiled = of("https", &format!("&certificate={certificate}&key={key}"));
    let Some(mut server) = driver.start(test, &["--lanes", "1", &of("http", ""), &veiled]) else { return };
    let port = |scheme: &str| server.address(scheme).port().to_string();
    for (scheme, more) in [("http", &[][..]), ("https", &["--cacert", &certificate])] {
        let url = format!("{scheme}://localhost:{}/curl", port(scheme));
        let done = output(Command::new("curl").args(["-4", "-sS", "--haproxy-protocol", &url]).args(more));
        assert!(done.status.success() && done.stdout.len() == 8, "{done:?}");
        let strange = output(Command::new("curl").args(["-4", "-sS", &url]).args(more));
        assert!(!strange.status.success(), "without a header: {strange:?}");
    }
    for arguments in [vec![port("http")], vec![port("https"), certificate.clone()]] {
        let done = output(Command::new("python3").args(["-c", PYTHON]).args(&arguments));
        assert!(done.status.success() && String::from_utf8_lossy(&done.stdout).contains("HTTP/1.1 200"), "{done:?}");
    }
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    let logged = fs::read_to_string(&log).unwrap();
    let starts = |with: &str, path: &str| logged.lines().filter(|line| line.starts_with(with) && line.contains(path)).count();
    assert_eq!((starts("127.0.0.1 ", "/curl"), starts("2001:db8::7 ", "/python"), logged.lines().count()), (2, 2, 4), "{logged}");
}

#[test]
fn who_is_not_named_is_refused() {
    let mut server = Server::start(&["--lanes", "1", "http=http://127.0.0.1:0?reply=8&proxy-from=192.0.2.0/24"]);
    let mut stream = connect(server.address("http"));
    let (heard, _) = read_to_end(&mut stream);
    assert!(heard.is_empty());
    until("it is said", || server.words().contains("only the proxies that were named are served here"));
    assert_eq!(server.count("transform_refusals"), 1);
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    let refused = output(Command::new(PROGRAM).args(["serve", "http=http://127.0.0.1:0?proxy-from=localhost"]));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("\"proxy-from\": \"localhost\" is none of ADDRESS, ADDRESS/PREFIX, unix"), "{said}");
}
