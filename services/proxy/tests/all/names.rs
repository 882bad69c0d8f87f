//! Upstreams behind TLS, and clients told apart by the name that they ask for: OpenSSL's client and server, by both drivers.

use crate::bridged::until;
use corelane::Lanes;
use corelane::admin::watch::ServiceCounter;
use corelane::lanes::{DriverChoice, Running};
use corelane_proxy::ENTRY;
use corelane_testkit::{is_installed, skip};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const DRIVERS: [DriverChoice; 2] = [DriverChoice::Epoll, DriverChoice::Uring];

fn start(driver: DriverChoice, query: &str) -> Running {
    let place = format!("tcp://127.0.0.1:0?{query}");
    Lanes::per_core().lanes(1).driver(driver).serve_entry(&ENTRY, &place).unwrap().start().unwrap()
}

fn is_here(test: &str) -> bool {
    let is_here = is_installed("openssl");
    if !is_here {
        skip(test, "there is no openssl: apt-get install -y openssl");
    }
    is_here
}

/// A server of OpenSSL's that sends back each line, turned around; its certificate is for one name, and signs itself.
struct Reversing {
    child: Child,
    port: u16,
}

impl Reversing {
    fn start(folder: &Path, name: &str) -> Self {
        let (certificate, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=x", "-addext", &format!("subjectAltName=DNS:{name}")])
            .args(["-keyout".as_ref(), key.as_os_str(), "-out".as_ref(), certificate.as_os_str()])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-rev"])
            .args(["-key".as_ref(), key.as_os_str(), "-cert".as_ref(), certificate.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port =
            lines.by_ref().map(Result::unwrap).find_map(|line| line.strip_prefix("ACCEPT")?.rsplit_once(':')?.1.parse().ok());
        // Or it stops once its pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port: port.unwrap() }
    }
}

impl Drop for Reversing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What OpenSSL's client hears through the proxy, asking for this name and believing this certificate.
fn ask(running: &Running, name: &str, certificate: &Path) -> String {
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", &running.address().to_string(), "-quiet", "-verify_return_error", "-servername", name])
        .args(["-verify_hostname", name, "-CAfile"])
        .arg(certificate)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let _ = to.write_all(b"abc\n");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(to);
    let _ = child.kill();
    child.wait().unwrap();
    line
}

fn patient(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.address().inet().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

#[test]
fn clients_reach_the_server_of_the_name_that_they_ask_for() {
    if !is_here("clients_reach_the_server_of_the_name_that_they_ask_for") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (shop, rest) = (Reversing::start(folder.path(), "shop.example"), Reversing::start(folder.path(), "a.rest.example"));
    let of = |name: &str| folder.path().join(format!("{name}.pem"));
    for driver in DRIVERS {
        let sni = format!("sni=shop.example>127.0.0.1:{},*.rest.example>127.0.0.1:{}", shop.port, rest.port);
        let running = start(driver, &sni);
        assert_eq!(ask(&running, "shop.example", &of("shop.example")), "cba\n", "{driver:?}");
        assert_eq!(ask(&running, "a.rest.example", &of("a.rest.example")), "cba\n", "{driver:?}");
        assert_eq!(ask(&running, "nobody.example", &of("shop.example")), "", "{driver:?}");
        // All others get the default, if there is one; a header of a proxy may stand before.
        let running = start(driver, &format!("{sni}&to=127.0.0.1:{}&send-proxy=none", rest.port));
        assert_eq!(ask(&running, "a.rest.example", &of("a.rest.example")), "cba\n", "{driver:?}");
    }
}

#[test]
fn a_client_is_told_apart_behind_a_proxys_header_and_who_asks_for_nothing_is_broken_off() {
    // As a client writes it that asks for a.test, from RFC 8446 section 4.1.2 by hand.
    let name = b"a.test";
    let extension = [&[0, 0, 0, 11, 0, 9, 0, 0, 6][..], name].concat();
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0, 0, 15], &extension].concat();
    let message = [&[1, 0, 0, body.len() as u8][..], &body].concat();
    let hello = [&[22, 3, 1, 0, message.len() as u8][..], &message].concat();
    for driver in DRIVERS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let running = start(driver, &format!("sni=a.test>{to}&proxy-from=127.0.0.0/8"));
        let mut client = patient(&running);
        client.write_all(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n").unwrap();
        for piece in hello.chunks(9) {
            client.write_all(piece).unwrap();
        }
        let (mut server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut heard = vec![0; hello.len()];
        server.read_exact(&mut heard).unwrap();
        assert_eq!(heard, hello, "{driver:?}: nothing is changed or lost");
        let running = start(driver, &format!("sni=a.test>{to}"));
        let mut client = patient(&running);
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(client.read(&mut [0; 9]).is_err(), "{driver:?}: it is reset");
    }
}

#[test]
fn plain_clients_reach_servers_behind_tls_that_prove_their_name() {
    if !is_here("plain_clients_reach_servers_behind_tls_that_prove_their_name") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (known, other) = (Reversing::start(folder.path(), "localhost"), Reversing::start(folder.path(), "other.example"));
    let ca = folder.path().join("localhost.pem").display().to_string();
    for driver in DRIVERS {
        let running =
            start(driver, &format!("to=tls://localhost:{},tls://localhost:{}&upstream-ca={ca}", known.port, other.port));
        for _ in 0..4 {
            let mut client = patient(&running);
            client.write_all(b"abc\n").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut line = String::new();
            BufReader::new(client).read_line(&mut line).unwrap();
            assert_eq!(line, "cba\n", "{driver:?}");
        }
        let running = start(driver, &format!("to=tls://localhost:{}&upstream-ca={ca}", other.port));
        // The reset is heard once: by the connect or the write if it came before, by the read otherwise.
        let heard = TcpStream::connect(running.address().inet().unwrap()).and_then(|mut client| {
            client.set_read_timeout(Some(Duration::from_secs(60)))?;
            client.write_all(b"abc\n")?;
            client.read(&mut [0; 9])
        });
        let is_broken = |error: &Error| matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
        assert!(heard.as_ref().is_err_and(is_broken), "{driver:?}: who proves no name gets nothing, {heard:?}");
    }
}

/// One that takes its connections and says nothing is none of the client's business that has left meanwhile.
#[test]
fn a_client_that_leaves_during_a_handshake_blames_nobody() {
    let folder = tempfile::tempdir().unwrap();
    if !is_here("a_client_that_leaves_during_a_handshake_blames_nobody") {
        return;
    }
    let _known = Reversing::start(folder.path(), "localhost");
    let ca = folder.path().join("localhost.pem").display().to_string();
    let silent = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let to = silent.each_ref().map(|silent| format!("tls://{}", silent.local_addr().unwrap())).join(",");
    silent.iter().for_each(|silent| silent.set_nonblocking(true).unwrap());
    for driver in DRIVERS {
        let running = start(driver, &format!("to={to}&upstream-ca={ca}"));
        let reader = corelane::admin::watch::Reader::of(running.counters()).unwrap();
        let open = || reader.snapshot(0).services[0].values.get(ServiceCounter::ConnectionsOpen);
        for _ in 0..12 {
            let client = patient(&running);
            let taken = RefCell::new(None);
            until("it is passed on", || {
                *taken.borrow_mut() = silent.iter().find_map(|silent| silent.accept().ok());
                taken.borrow().is_some()
            });
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            drop(client);
            until("both have left", || open() == 0);
        }
        let counts = ["retries", "ejections", "clients_turned_away"].map(|counter| own(&running, counter));
        assert_eq!(counts, [0; 3], "{driver:?}");
    }
}

/// A counter of the service's own.
fn own(running: &Running, counter: &str) -> u64 {
    let reader = corelane::admin::watch::Reader::of(running.counters()).unwrap();
    reader.snapshot(0).services[0].values.own(counter).unwrap()
}

#[test]
fn checks_take_out_who_does_not_prove_its_name_and_whose_handshake_hangs() {
    if !is_here("checks_take_out_who_does_not_prove_its_name_and_whose_handshake_hangs") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (known, other) = (Reversing::start(folder.path(), "localhost"), Reversing::start(folder.path(), "other.example"));
    let ca = folder.path().join("localhost.pem").display().to_string();
    // The system takes its connections, and nobody says anything there.
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [known.port, other.port, hanging.local_addr().unwrap().port()];
    let to = ports.map(|port| format!("tls://127.0.0.1:{port}")).join(",");
    for driver in DRIVERS {
        let query = format!("to={to}&upstream-ca={ca}&upstream-name=localhost&check=50ms&check-within=2s");
        let running = start(driver, &query);
        until("checks have taken out two", || own(&running, "upstreams_in_rotation") == 1);
        assert_eq!((own(&running, "upstreams_in_rotation"), own(&running, "upstreams")), (1, 3), "{driver:?}");
        for _ in 0..3 {
            let mut client = patient(&running);
            client.write_all(b"abc\n").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut line = String::new();
            BufReader::new(client).read_line(&mut line).unwrap();
            assert_eq!(line, "cba\n", "{driver:?}: the one that is well is left");
        }
        assert_eq!((own(&running, "retries"), own(&running, "ejections")), (0, 0), "{driver:?}: no client has met the others");
    }
}
