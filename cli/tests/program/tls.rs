//! TLS before a service, asked by Python with a certificate of OpenSSL's making.

use crate::common::*;
use nix::sys::signal::Signal;
use std::process::Command;

on_each_driver!(a_foreign_client_gets_its_bytes_back);

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
        (format!("echo=tls://127.0.0.1:0?certificate={key}&key={key}"), "k.pem: holds no certificate in PEM"),
        (format!("echo=tls://127.0.0.1:0?certificate={certificate}&key={key},{key}"), "as many files as for certificate"),
        (
            format!("echo=tls://127.0.0.1:0?certificate={certificate}&key={key}&strangers"),
            "it means nothing without clients=FILE",
        ),
        (format!("echo=tcp://127.0.0.1:0?certificate={certificate}"), "there is no such option; there are reflect"),
    ] {
        let ended = output(Command::new(PROGRAM).args(["serve", &place]).env("CORELANE_RUN_DIR", folder.path().join("run")));
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(2) && said.contains(words), "{place}: {said}");
    }
}
