//! TLS before a service, asked by Python with a certificate of OpenSSL's making.

use crate::common::*;
use nix::sys::signal::Signal;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

on_each_driver!(a_foreign_client_gets_its_bytes_back, a_client_of_a_pair_that_has_taken_leave_hears_its_end);

/// Says a line behind TLS, wants it back, and takes leave.
const PYTHON: &str = r#"
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
stream = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60), server_hostname="localhost")
stream.sendall(b"said")
assert stream.recv(4) == b"said"
bare = stream.unwrap()
assert bare.recv(1) == b""
"#;

/// Makes `c.pem` and `k.pem` there.
pub fn certified(folder: &Scratch) -> (String, String) {
    let [certificate, key] = ["c.pem", "k.pem"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    let name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=CA:FALSE"];
    let made =
        output(Command::new("openssl").args(["req", "-x509", "-out", &certificate, "-keyout", &key]).args(kind).args(name));
    assert!(made.status.success(), "{made:?}");
    (certificate, key)
}

fn a_foreign_client_gets_its_bytes_back(driver: Driver) {
    let test = "tls::a_foreign_client_gets_its_bytes_back";
    if !have(&driver.case(test), &["openssl", "python3"]) {
        return;
    }
    let folder = Scratch::new();
    let (certificate, key) = certified(&folder);
    let place = format!("echo=tls://127.0.0.1:0?certificate={certificate}&key={key}");
    let Some(mut server) = driver.start(test, &["--lanes", "2", &place]) else { return };
    let port = server.address("tls").port().to_string();
    for _ in 0..4 {
        let done = output(Command::new("python3").args(["-c", PYTHON, &port, &certificate]));
        assert!(done.status.success(), "{done:?}");
    }
    assert_eq!((server.count("handshakes"), server.count("transform_refusals")), (4, 0));
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

/// The client has said all in TLS, and its connection is open: it hears the end of that when the server behind has ended, without any wait.
fn a_client_of_a_pair_that_has_taken_leave_hears_its_end(driver: Driver) {
    let test = "tls::a_client_of_a_pair_that_has_taken_leave_hears_its_end";
    if !have(&driver.case(test), &["openssl", "python3"]) {
        return;
    }
    let folder = Scratch::new();
    let (certificate, key) = certified(&folder);
    let mut behind = Server::start(&["--lanes", "1", TCP]);
    let place = format!("proxy=tls://127.0.0.1:0?certificate={certificate}&key={key}&to={}", behind.tcp());
    let Some(mut server) = driver.start(test, &["--lanes", "1", "--limit", "linger_limit=10m", &place]) else { return };
    let port = server.address("tls").port().to_string();
    let done = output(Command::new("python3").args(["-c", PYTHON, &port, &certificate]));
    assert!(done.status.success(), "{done:?}");
    for server in [&mut server, &mut behind] {
        server.signal(Signal::SIGTERM);
        assert!(server.ended().success());
    }
}

/// Calls procedure 0 of NFS version 3 behind TLS, and wants the answer that all is well (RFC 5531, section 9).
const NULL_CALL: &str = r#"
import socket, ssl, struct, sys
context = ssl.create_default_context(cafile=sys.argv[2])
stream = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60), server_hostname="localhost")
stream.sendall(struct.pack(">11I", 0x80000000 | 40, 7, 0, 2, 100003, 3, 0, 0, 0, 0, 0))
answer = b""
while len(answer) < 28:
    answer += stream.recv(100)
assert struct.unpack(">7I", answer) == (0x80000000 | 24, 7, 1, 0, 0, 0, 0), answer
stream.unwrap()
"#;

#[test]
fn a_procedure_is_called_behind_tls() {
    let test = "tls::a_procedure_is_called_behind_tls";
    if !have(test, &["openssl", "python3"]) {
        return;
    }
    let folder = Scratch::new();
    let (certificate, key) = certified(&folder);
    let place = format!("rpc=tls://127.0.0.1:0?certificate={certificate}&key={key}");
    let mut server = Server::start(&["--lanes", "1", &place]);
    let done = output(Command::new("python3").args(["-c", NULL_CALL, &server.address("tls").port().to_string(), &certificate]));
    assert!(done.status.success(), "{done:?}");
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    let registered = output(Command::new(PROGRAM).args(["serve", &format!("{place}&register")]));
    let said = String::from_utf8(registered.stderr).unwrap();
    assert!(said.contains("register tcp:// or udp://"), "{said}");
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    if !have("tls::what_is_missing_or_wrong_is_named", &["openssl"]) {
        return;
    }
    let folder = Scratch::new();
    let (certificate, key) = certified(&folder);
    for (place, words) in [
        ("echo=tls://127.0.0.1:0".to_owned(), "write ?certificate=FILE&key=FILE behind the URL"),
        (format!("echo=tls://127.0.0.1:0?certificate={certificate}"), "c.pem: holds no private key in PEM"),
        (format!("echo=tls://127.0.0.1:0?certificate=/nowhere&key={key}"), "option \"certificate\": /nowhere: "),
        (format!("echo=tls://127.0.0.1:0?certificate={certificate}&key=/nowhere"), "option \"key\": /nowhere: "),
        (
            format!("echo=tls://127.0.0.1:0?certificate={certificate}&key={key}&clients=/nowhere"),
            "option \"clients\": /nowhere: ",
        ),
        (format!("http=https://127.0.0.1:0?reply=8&certificate={certificate}&key={key}&clients={key}"), "option \"clients\": "),
        (format!("echo=tls://127.0.0.1:0?certificate={key}&key={key}"), "k.pem: holds no certificate in PEM"),
        (format!("echo=tls://127.0.0.1:0?certificate={certificate}&key={key},{key}"), "as many files as for certificate"),
        (
            format!("echo=tls://127.0.0.1:0?certificate={certificate}&key={key}&strangers"),
            "it means nothing without clients=FILE",
        ),
        (
            format!("echo=tcp://127.0.0.1:0?certificate={certificate}"),
            "there is no such option; there are reflect, async; at tls:// there is",
        ),
    ] {
        let ended = output(Command::new(PROGRAM).args(["serve", &place]).env("CORELANE_RUN_DIR", folder.path().join("run")));
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(2) && said.contains(words), "{place}: {said}");
    }
}

/// A certificate for localhost that it has signed itself, and its key, both PEM; `year` is the last in which it is valid.
fn made(year: i32) -> [String; 2] {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(year, 12, 31));
    let key = KeyPair::generate().unwrap();
    [params.self_signed(&key).unwrap().pem(), key.serialize_pem()]
}

/// Has whole files take the place of those before, as who knows how does it.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

/// Two files, and the place that is served with them.
struct Pair {
    folder: Scratch,
}

impl Pair {
    fn new([certificate, key]: &[String; 2]) -> Self {
        let pair = Self { folder: Scratch::new() };
        replace(&pair.path("c.pem"), certificate);
        replace(&pair.path("k.pem"), key);
        pair
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn place(&self) -> String {
        format!(
            "http=https://127.0.0.1:0?reply=8&certificate={}&key={}",
            self.path("c.pem").display(),
            self.path("k.pem").display()
        )
    }

    /// What curl says that trusts `certificate`.
    fn curl(&self, server: &Server, certificate: &str) -> Output {
        let trusted = self.path("trusted.pem");
        fs::write(&trusted, certificate).unwrap();
        let url = format!("https://localhost:{}/", server.address("https").port());
        output(Command::new("curl").args(["-sS", "--max-time", "60", "--cacert"]).arg(trusted).arg(url))
    }
}

/// Waits until it says that it shows new certificates.
fn are_shown(server: &Server) {
    assert_eq!(server.lines.recv_timeout(PATIENCE).as_deref(), Ok("TLS: new certificates are shown from now on"));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_certificate_that_has_expired_is_served_with_a_warning_until_there_is_a_new_one() {
    if !have("tls::a_certificate_that_has_expired_is_served_with_a_warning_until_there_is_a_new_one", &["curl"]) {
        return;
    }
    let (old, new) = (made(2001), made(4000));
    let pair = Pair::new(&old);
    let mut server = Server::start(&["--lanes", "1", &pair.place()]);
    let note = format!("[CL-0021] {}: its first certificate has expired; clients will refuse it", pair.path("c.pem").display());
    assert!(server.notes.contains(&note), "{:?}", server.notes);
    assert!(server.page()["notes"].as_array().unwrap().iter().any(|shown| shown == note.as_str()));
    let refused = pair.curl(&server, &old[0]);
    // 60: the peer's certificate cannot be believed (curl(1)).
    assert_eq!(refused.status.code(), Some(60), "{refused:?}");
    assert!(text(&refused.stderr).contains("certificate has expired"), "{refused:?}");
    server.comes_to("transform_refusals", 1);
    replace(&pair.path("k.pem"), &new[1]);
    replace(&pair.path("c.pem"), &new[0]);
    are_shown(&server);
    let answered = pair.curl(&server, &new[0]);
    assert!(answered.status.success() && answered.stdout.len() == 8, "{answered:?}");
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

#[test]
fn a_key_of_another_certificate_is_refused_and_changes_nothing_while_it_serves() {
    if !have("tls::a_key_of_another_certificate_is_refused_and_changes_nothing_while_it_serves", &["curl"]) {
        return;
    }
    let (first, second) = (made(4000), made(4000));
    let pair = Pair::new(&[first[0].clone(), second[1].clone()]);
    let [certificate, key] = ["c.pem", "k.pem"].map(|name| pair.path(name).display().to_string());
    let words = format!(
        "{certificate} and {key} are no pair: the key is another certificate's; name the one that was made for the first certificate of the file"
    );
    let refused = output(Command::new(PROGRAM).args(["serve", &pair.place()]).env("CORELANE_RUN_DIR", pair.folder.path()));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains(&words), "{refused:?}");
    assert!(refused.stdout.is_empty(), "{refused:?}");

    replace(&pair.path("k.pem"), &first[1]);
    let mut server = Server::start(&["--lanes", "1", &pair.place()]);
    let serves = |server: &Server, certificate: &str| {
        let answered = pair.curl(server, certificate);
        assert!(answered.status.success() && answered.stdout.len() == 8, "{answered:?}");
    };
    serves(&server, &first[0]);
    replace(&pair.path("k.pem"), &second[1]);
    let kept = format!("[CL-0020] TLS: what was there before is kept: {words}");
    until("it is said that the old pair is kept", || server.words().contains(&kept));
    serves(&server, &first[0]);
    // Once its certificate comes as well, both are shown.
    replace(&pair.path("c.pem"), &second[0]);
    are_shown(&server);
    serves(&server, &second[0]);
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}
