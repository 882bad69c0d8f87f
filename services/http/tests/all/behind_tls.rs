//! Servers behind that are spoken to by TLS, over real sockets by both drivers.

use corelane::Lanes;
use corelane::lanes::{DriverChoice, Running};
use corelane_http::{ENTRY, Http, Routes};
use corelane_tls::{Pem, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;

const DRIVERS: [DriverChoice; 2] = [DriverChoice::Epoll, DriverChoice::Uring];

/// An authority, and a certificate that it has signed for these names; returns the files.
fn signed(folder: &Path, names: &[&str]) -> Pem {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "an authority");
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    for (file, text) in [("authority", issuer.pem()), ("certificate", certificate.pem()), ("key", key.serialize_pem())] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    Pem::new(folder.join("certificate"), folder.join("key"))
}

/// Says by which name it was asked for, in which protocol, and whether the session had begun before.
fn behind(driver: DriverChoice, pem: Pem) -> Running {
    let routes = || {
        let mut routes = Routes::new(());
        routes.get("/", |(), cx, _request, reply| {
            let learned = cx.peer(cx.id()).and_then(|peer| peer.learned).unwrap();
            let protocol = learned.protocol.as_deref().map(String::from_utf8_lossy);
            reply.text(&format!("{:?} {protocol:?} {}", learned.server_name, learned.resumed))
        });
        routes
    };
    let lanes = Lanes::per_core().lanes(1).driver(driver).serve("tcp://127.0.0.1:0", move |_| Http::new(routes())).unwrap();
    Server::new([pem]).protocols(&[b"http/1.1"]).before(lanes).unwrap().start().unwrap()
}

fn forwarding(driver: DriverChoice, query: &str) -> Running {
    let place = format!("http://127.0.0.1:0?{query}");
    Lanes::per_core().lanes(1).driver(driver).serve_entry(&ENTRY, &place).unwrap().start().unwrap()
}

/// Asks until the name of the server behind is known: nobody is there before.
fn ask(running: &Running, method: &str) -> String {
    loop {
        let answer = ask_once(running, method);
        if !answer.starts_with("HTTP/1.1 503 ") {
            return answer;
        }
        std::thread::yield_now();
    }
}

fn ask_once(running: &Running, method: &str) -> String {
    let mut stream = TcpStream::connect(running.address().inet().unwrap()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    write!(stream, "{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_server_behind_tls_is_asked_by_its_name_and_its_session_goes_on() {
    for driver in DRIVERS {
        let folder = tempfile::tempdir().unwrap();
        let server = behind(driver, signed(folder.path(), &["localhost", "127.0.0.1", "shop.example"]));
        let (port, ca) = (server.address().port(), folder.path().join("authority").display().to_string());
        let running = forwarding(driver, &format!("to=tls://localhost:{port}&upstream-ca={ca}"));
        let first = ask(&running, "GET");
        assert!(
            first.starts_with("HTTP/1.1 200 OK\r\n") && first.ends_with("Some(\"localhost\") Some(\"http/1.1\") false"),
            "{first}"
        );
        // Behind HEAD a connection is not used again, and the next one goes on with its session.
        ask(&running, "HEAD");
        assert!(ask(&running, "GET").ends_with("Some(\"localhost\") Some(\"http/1.1\") true"));
        let by_address = forwarding(driver, &format!("to=tls://127.0.0.1:{port}&upstream-ca={ca}"));
        assert!(ask(&by_address, "GET").ends_with("None Some(\"http/1.1\") false"));
        let named = forwarding(driver, &format!("to=tls://127.0.0.1:{port}&upstream-ca={ca}&upstream-name=shop.example"));
        assert!(ask(&named, "GET").ends_with("Some(\"shop.example\") Some(\"http/1.1\") false"));
    }
}

#[test]
fn a_server_that_does_not_prove_its_name_gets_no_request() {
    for driver in DRIVERS {
        let folder = tempfile::tempdir().unwrap();
        let server = behind(driver, signed(folder.path(), &["other.example"]));
        let (port, ca) = (server.address().port(), folder.path().join("authority").display().to_string());
        let plain = forwarding(driver, "reply=8");
        for to in [
            format!("to=tls://localhost:{port}&upstream-ca={ca}"),
            // Nobody that this system trusts has signed it.
            format!("to=tls://localhost:{port}&upstream-name=other.example"),
            format!("to=tls://localhost:{}&upstream-ca={ca}", plain.address().port()),
        ] {
            let running = forwarding(driver, &to);
            let answer = ask(&running, "GET");
            assert!(
                answer.starts_with("HTTP/1.1 502 ") && answer.ends_with("no TLS came about with the server behind this one\n"),
                "{to}: {answer}"
            );
            // The other of two is tried.
            let two = forwarding(driver, &to.replacen("to=", &format!("to=127.0.0.1:{},", plain.address().port()), 1));
            assert!((0..4).all(|_| ask(&two, "GET").starts_with("HTTP/1.1 200 ")), "{to}");
        }
    }
}
