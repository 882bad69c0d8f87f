//! The proxy between programs that nobody here wrote: HAProxy and nginx before it and behind it, by PROXY headers of both versions and by TLS both ways; curl, h2load, wrk and a client of WebSocket.

use crate::common::*;
use crate::load::others::Other;
use crate::tls::certified;
use corelane_testkit::free;
use nix::sys::signal::Signal;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// From where clients come, so that a name which came by a header is told from all others.
const CLIENT: &str = "127.0.0.77";

/// What a server behind says: who asks by a PROXY header, who by a field, and how much content came.
fn nginx_behind(folder: &Path, [named, plain]: [SocketAddr; 2]) -> Other {
    let server = format!(
        "server {{ listen {named} proxy_protocol; return 200 \"$proxy_protocol_addr\"; }}
         server {{
             listen {plain}; client_max_body_size 0;
             location /who {{ return 200 \"$http_x_forwarded_for $http_x_forwarded_proto\"; }}
             location /up {{ proxy_pass http://{plain}/taken; }}
             location /taken {{ return 200 $http_content_length; }}
             location / {{ root {}; }}
         }}",
        folder.display()
    );
    nginx(folder, "behind", &server, plain)
}

fn nginx(folder: &Path, name: &str, servers: &str, address: SocketAddr) -> Other {
    let place = folder.join(name);
    fs::create_dir(&place).unwrap();
    let (place, file) = (place.display(), place.join("nginx.conf"));
    let temporary: String =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {place}/{name};")).concat();
    let text = format!(
        "daemon off; user root; worker_processes 1; pid {place}/pid; error_log {place}/errors crit;
         events {{ worker_connections 1000; }}
         http {{ access_log off; {temporary} {servers} }}"
    );
    fs::write(&file, text).unwrap();
    Other::listening(&["nginx", "-c", file.to_str().unwrap()], address)
}

fn haproxy(folder: &Path, sections: &str, address: SocketAddr) -> Other {
    let file = folder.join(format!("haproxy-{}.cfg", address.port()));
    let text = format!(
        "global\n  maxconn 1000\ndefaults\n  timeout connect 30s\n  timeout client 60s\n  timeout server 60s\n{sections}"
    );
    fs::write(&file, text).unwrap();
    Other::listening(&["haproxy", "-db", "-f", file.to_str().unwrap()], address)
}

/// What curl hears, from another address than all other tests have.
fn curl(arguments: &[&str]) -> String {
    let done = output(
        Command::new("curl").args(["-sS", "--max-time", "60", "--interface", CLIENT]).args(arguments).env("no_proxy", "*"),
    );
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn ended(mut server: Server) {
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

/// A place of `proxy=` or `http=`, whose clients come from a proxy at 127.0.0.1.
fn behind_one(kind: &str, to: &str, more: &str) -> String {
    format!("{kind}://127.0.0.1:0?to={to}&proxy-from=127.0.0.1{more}")
}

#[test]
fn haproxy_before_names_clients_by_either_version_and_nginx_behind_is_told() {
    let test = "proxy_peers::haproxy_before_names_clients_by_either_version_and_nginx_behind_is_told";
    if !have(test, &["haproxy", "nginx", "curl"]) {
        return;
    }
    let (folder, [named, plain], fronts) = (Scratch::new(), [free(), free()], [(); 4].map(|()| free()));
    let _behind = nginx_behind(folder.path(), [named, plain]);
    let places = [
        behind_one("proxy=tcp", &named.to_string(), "&send-proxy=v2"),
        behind_one("proxy=tcp", &named.to_string(), "&send-proxy=v1"),
        behind_one("http=http", &plain.to_string(), ""),
    ];
    let server = Server::start(&["--lanes", "1", &places[0], &places[1], &places[2]]);
    let ours: Vec<&str> = server.urls.iter().map(|url| url.split_once("://").unwrap().1).collect();
    let to = [(ours[0], "send-proxy"), (ours[1], "send-proxy-v2"), (ours[2], "send-proxy"), (ours[2], "send-proxy-v2")];
    let section = |(front, (ours, how)): (&SocketAddr, (&str, &str))| {
        format!("listen l{}\n  mode tcp\n  bind {front}\n  server s {ours} {how}\n", front.port())
    };
    let sections: String = fronts.iter().zip(to).map(section).collect();
    let _before = haproxy(folder.path(), &sections, fronts[3]);
    for (front, said) in fronts.iter().zip([CLIENT, CLIENT, "127.0.0.77 http", "127.0.0.77 http"]) {
        assert_eq!(curl(&[&format!("http://{front}/who")]), said, "{front}");
    }
    ended(server);
}

/// HAProxy behind: says who asks and whether by TLS, behind a header; and in the last one, what the fields say.
fn haproxy_behind(folder: &Path, both: &Path, [plain, veiled, fields]: [SocketAddr; 3]) -> Other {
    let says =
        |words: &str| format!("  mode http\n  http-request return status 200 content-type text/plain lf-string \"{words}\"\n");
    let (ends, said) = (says("%ci %[ssl_fc]"), says("%[req.hdr(x-forwarded-for)] %[req.hdr(x-forwarded-proto)]"));
    let sections = format!(
        "frontend plain\n  bind {plain} accept-proxy\n{ends}frontend veiled\n  bind {veiled} accept-proxy ssl crt {}\n{ends}frontend fields\n  bind {fields}\n{said}",
        both.display()
    );
    haproxy(folder, &sections, fields)
}

#[test]
fn haproxy_behind_is_told_by_either_version_and_tls_goes_both_ways() {
    let test = "proxy_peers::haproxy_behind_is_told_by_either_version_and_tls_goes_both_ways";
    if !have(test, &["haproxy", "openssl", "curl"]) {
        return;
    }
    let (folder, ports) = (Scratch::new(), [free(), free(), free()]);
    let [plain, veiled, fields] = ports;
    let (certificate, key) = certified(&folder);
    let both = folder.path().join("both.pem");
    fs::write(&both, fs::read_to_string(&certificate).unwrap() + &fs::read_to_string(&key).unwrap()).unwrap();
    let _behind = haproxy_behind(folder.path(), &both, ports);
    let trusting = format!("to=tls://localhost:{}&upstream-ca={certificate}&check=1s", veiled.port());
    let own = format!("certificate={certificate}&key={key}");
    let places = [
        format!("proxy=tcp://127.0.0.1:0?to={plain}&send-proxy=v1"),
        format!("proxy=tcp://127.0.0.1:0?to={plain}&send-proxy=v2"),
        format!("proxy=tcp://127.0.0.1:0?{trusting}&send-proxy=v1"),
        format!("proxy=tcp://127.0.0.1:0?{trusting}&send-proxy=v2"),
        format!("proxy=tls://127.0.0.1:0?to={plain}&send-proxy=v2&{own}"),
        behind_one("http=https", &fields.to_string(), &format!("&{own}")),
    ];
    let arguments: Vec<&str> = ["--lanes", "1"].into_iter().chain(places.iter().map(String::as_str)).collect();
    let server = Server::start(&arguments);
    let at = |number: usize| server.urls[number].split_once("://").unwrap().1;
    for (number, said) in [(0, "0"), (1, "0"), (2, "1"), (3, "1")] {
        assert_eq!(curl(&[&format!("http://{}/", at(number))]), format!("{CLIENT} {said}"), "{}", places[number]);
    }
    let by_tls = |address: &str| {
        let url = format!("https://localhost:{}/", address.rsplit(':').next().unwrap());
        curl(&["-4", "--cacert", &certificate, &url])
    };
    assert_eq!(by_tls(at(4)), format!("{CLIENT} 0"), "TLS ends here, and the header goes on in plain");
    let before = free();
    let trusted = format!("ssl verify required ca-file {certificate} verifyhost localhost sni str(localhost) send-proxy-v2");
    let _before =
        haproxy(folder.path(), &format!("listen before\n  mode tcp\n  bind {before}\n  server s {} {trusted}\n", at(5)), before);
    assert_eq!(curl(&[&format!("http://{before}/")]), format!("{CLIENT} https"), "HAProxy speaks TLS behind its header");
    let words = server.words();
    assert!(!words.contains("turned away") && !words.contains("no TLS") && !words.contains(" is down"), "{words}");
    ended(server);
}

#[test]
fn nginx_before_and_behind_and_programs_that_measure_find_no_fault() {
    let test = "proxy_peers::nginx_before_and_behind_and_programs_that_measure_find_no_fault";
    if !have(test, &["nginx", "curl", "h2load", "wrk"]) {
        return;
    }
    let (folder, [named, plain, before]) = (Scratch::new(), [free(), free(), free()]);
    let content = pattern(3 << 20, 5);
    fs::write(folder.path().join("large"), &content).unwrap();
    fs::write(folder.path().join("small"), pattern(1_000, 6)).unwrap();
    let _behind = nginx_behind(folder.path(), [named, plain]);
    let server = Server::start(&["--lanes", "1", &format!("http=http://127.0.0.1:0?to={plain}")]);
    let ours = server.address("http");
    let passing = format!(
        "upstream ours {{ server {ours}; keepalive 8; }}
         server {{
             listen {before}; client_max_body_size 0;
             location / {{ proxy_pass http://ours; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_request_buffering off; }}
         }}"
    );
    let _before = nginx(folder.path(), "before", &passing, before);
    let (large, got) = (folder.path().join("large").display().to_string(), folder.path().join("got"));
    for front in [ours, before] {
        let url = |path: &str| format!("http://{front}/{path}");
        curl(&["-o", got.to_str().unwrap(), &url("large")]);
        assert!(fs::read(&got).unwrap() == content, "{front}");
        for how in ["Expect:", "Transfer-Encoding: chunked"] {
            assert_eq!(curl(&["-H", how, "-T", &large, &url("up")]), content.len().to_string(), "{front}: {how}");
        }
        assert!(curl(&["-I", &url("small")]).contains("Content-Length: 1000\r\n"), "{front}");
        assert!(curl(&["-w", "%{http_code}", &url("nothing")]).ends_with("404"), "{front}");
    }
    let h2load = output(Command::new("h2load").args(["--h1", "-n500", "-c8", &format!("http://{ours}/small")]));
    let said = String::from_utf8_lossy(&h2load.stdout).into_owned();
    assert!(said.contains("500 succeeded, 0 failed, 0 errored") && said.contains("500 2xx"), "{said}");
    let wrk = output(Command::new("wrk").args(["-t1", "-c4", "-d1", &format!("http://{ours}/small")]));
    let said = String::from_utf8_lossy(&wrk.stdout).into_owned();
    assert!(wrk.status.success() && !said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}");
    assert_eq!(["forwards_failed", "forwards_timed_out", "forwards_refused"].map(|counter| server.count(counter)), [0; 3]);
    ended(server);
}

/// As a server: echoes, and says its port. As a client: says pieces of many sizes, and wants them back.
const WEBSOCKETS: &str = r#"
import os, sys
if len(sys.argv) == 1:
    from websockets.sync.server import serve
    with serve(lambda link: [link.send(said) for said in link], "127.0.0.1", 0, max_size=None) as server:
        print(server.socket.getsockname()[1], flush=True)
        server.serve_forever()
from websockets.sync.client import connect
with connect("ws://" + sys.argv[1] + "/", max_size=None, proxy=None) as link:
    for size in (0, 1, 125, 126, 65535, 65536, 3000000):
        said = os.urandom(size)
        link.send(said)
        assert link.recv() == said, size
    link.send("a text")
    assert link.recv() == "a text"
    link.ping().wait()
print("all came back")
"#;

/// A program that goes with the test.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_websocket_passes_through_nginx_and_both_ways() {
    let test = "proxy_peers::a_websocket_passes_through_nginx_and_both_ways";
    let Some(python) = interpreter("websockets") else { return skip(test, "Python's websockets is not installed") };
    if !have(test, &["nginx"]) {
        return;
    }
    let (folder, before) = (Scratch::new(), free());
    let guest = Command::new(&python).args(["-u", "-c", WEBSOCKETS]).stdout(Stdio::piped()).spawn().unwrap();
    let mut guest = Guest(guest);
    let port = lines(guest.0.stdout.take().unwrap()).recv_timeout(PATIENCE).unwrap();
    let server = Server::start(&["--lanes", "1", &format!("http=http://127.0.0.1:0?to=127.0.0.1:{port}")]);
    let ours = server.address("http");
    let passing = format!(
        "server {{
             listen {before};
             location / {{ proxy_pass http://{ours}; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }}
         }}"
    );
    let _before = nginx(folder.path(), "before", &passing, before);
    for front in [ours, before] {
        let done = output(Command::new(&python).args(["-c", WEBSOCKETS, &front.to_string()]));
        assert!(done.status.success() && done.stdout == b"all came back\n", "{front}: {done:?}");
    }
    until("both tunnels have ended", || server.count("connections_open") == 0);
    ended(server);
}

/// The interpreter that `cargo xtask test` makes, or the system's, if it has this library.
fn interpreter(library: &str) -> Option<PathBuf> {
    let own = Path::new(PROGRAM).ancestors().nth(2).map(|target| target.join("python/bin/python"));
    let imports = |python: &PathBuf| {
        let found = Command::new(python).args(["-c", &format!("import {library}")]).output();
        found.is_ok_and(|found| found.status.success())
    };
    own.into_iter().chain(["python3".into()]).find(imports)
}
