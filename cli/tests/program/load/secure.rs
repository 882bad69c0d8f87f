//! TLS: what a run counts of handshakes is what the server counts, and who does not prove who it is, is told.

use super::web::Site;
use super::*;
use crate::tls::certified;
use corelane_testkit::free;

on_each_driver!(handshakes_are_counted_apart_from_requests);

fn handshakes_are_counted_apart_from_requests(driver: Driver) {
    let test = "load::secure::handshakes_are_counted_apart_from_requests";
    if !have(&driver.case(test), &["openssl"]) {
        return;
    }
    let folder = Scratch::new();
    let (certificate, key) = certified(&folder);
    let place = format!("echo=tls://127.0.0.1:0?certificate={certificate}&key={key}");
    let Some(server) = driver.start(test, &["--lanes", "2", &place]) else { return };
    let url = format!("tls://localhost:{}", server.address("tls").port());
    let mut all = 0;
    for (more, requests, connections, resumes) in [
        (&["-n", "500", "-c", "3", "-d", "8"][..], 500, 3, false),
        (&["-n", "40", "-c", "2", "--requests-per-connection", "1"], 40, 40, true),
        (&["-n", "40", "-c", "2", "--requests-per-connection", "1", "--no-resumption"], 40, 40, false),
        (&["-n", "30", "--connection-rate", "100", "--requests-per-connection", "2"], 60, 30, true),
        (&["-n", "20", "-s", "100000"], 20, 1, false),
    ] {
        let run = load(&[&["echo", &url, "--ca", &certificate, "--driver", driver.name()], more].concat());
        run.met(&[]).doubted(&[]);
        let shaken = run.report.handshakes.as_ref().expect("behind TLS");
        assert_eq!((run.report.requests, shaken.full + shaken.resumed), (requests, connections), "{more:?}");
        assert_eq!(shaken.resumed > 0, resumes, "{more:?}: {shaken:?}");
        assert!(run.report.handshake_us.as_ref().is_some_and(|times| times["min"] > 0.0 && times["max"] >= times["50"]));
        all += connections;
        server.comes_to("handshakes", all);
    }
}

#[test]
fn https_is_asked_of_nginx() {
    if !have("load::secure::https_is_asked_of_nginx", &["nginx", "openssl"]) {
        return;
    }
    let site = Site::new();
    let (certificate, key) = certified(&site.folder);
    let secure = free();
    let more = format!("listen {secure} ssl; ssl_certificate {certificate}; ssl_certificate_key {key};");
    let _nginx = site.nginx_with(&more);
    let url = format!("https://localhost:{}/page", secure.port());
    for (more, requests) in [
        (&["-n", "300", "-c", "4", "-d", "4"][..], 300),
        (&["-n", "60", "-c", "2", "--requests-per-connection", "1"], 60),
        (&["-n", "60", "-c", "2", "--requests-per-connection", "1", "--no-resumption"], 60),
    ] {
        let run = load(&[&["http", &url, "--ca", &certificate], more].concat());
        run.met(&[]).doubted(&[]);
        let shaken = run.report.handshakes.as_ref().expect("behind TLS");
        assert_eq!(run.report.requests, requests, "{more:?}");
        assert_eq!(shaken.resumed == 0, more.contains(&"--no-resumption"), "{more:?}: {shaken:?}");
        assert_eq!(shaken.full + shaken.resumed, run.report.settings.connections + run.report.renewed, "{shaken:?}");
    }
    site.logs("GET /page ", 420);
}

#[test]
fn a_certificate_is_shown_to_who_asks_for_one() {
    if !have("load::secure::a_certificate_is_shown_to_who_asks_for_one", &["openssl"]) {
        return;
    }
    let (folder, elsewhere) = (Scratch::new(), Scratch::new());
    let (certificate, key) = certified(&folder);
    let (other, its_key) = certified(&elsewhere);
    let server = Server::start(&[&format!("echo=tls://127.0.0.1:0?certificate={certificate}&key={key}&clients={other}")]);
    let url = format!("tls://localhost:{}", server.address("tls").port());
    let few = ["echo", &url, "--ca", &certificate, "-n", "20", "--requests-per-connection", "5"];
    let both = folder.path().join("both.pem");
    std::fs::write(&both, [std::fs::read(&other).unwrap(), std::fs::read(&its_key).unwrap()].concat()).unwrap();
    for shown in [&["--certificate", &other, "--key", &its_key][..], &["--certificate", both.to_str().unwrap()]] {
        load(&[&few[..], shown].concat()).met(&[]).doubted(&[]);
    }
    // A server of TLS 1.3 refuses what a client shows after that has begun to speak.
    for (shown, words) in [
        (&[][..], "it wants a certificate, and was shown none"),
        (&["--certificate", &certificate, "--key", &key], "a signature that it was shown is wrong"),
    ] {
        let refused = ended(&[], &[&few[..], &["--timeout", "20s"], shown].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(FAILURES) && said.contains(words), "{:?}: {said}", refused.status);
    }
    says(&[], &[&few[..], &["--certificate", &other, "--key", &key]].concat(), REFUSED, &["key"]);
}

#[test]
fn who_does_not_prove_who_it_is_is_told() {
    if !have("load::secure::who_does_not_prove_who_it_is_is_told", &["openssl"]) {
        return;
    }
    let (folder, elsewhere) = (Scratch::new(), Scratch::new());
    let (certificate, key) = certified(&folder);
    let (other, _) = certified(&elsewhere);
    let server =
        Server::start(&[&format!("echo=tls://127.0.0.1:0?certificate={certificate}&key={key}"), "echo=tcp://127.0.0.1:0"]);
    let port = server.address("tls").port();
    let (by_name, by_address) = (format!("tls://localhost:{port}"), format!("tls://127.0.0.1:{port}"));
    let few = ["-n", "5"];
    for (url, ca, words) in [
        (&by_name, &other, &["certificate", "--ca", "--trust-anybody"][..]),
        (&by_address, &certificate, &["127.0.0.1", "certificate"]),
    ] {
        let refused = ended(&[], &[&["echo", url, "--quiet", "--ca", ca], &few[..]].concat());
        // The lane says so as well, as it does of any peer.
        let said = String::from_utf8(refused.stderr).unwrap();
        let last = said.lines().last().unwrap();
        assert!(refused.status.code() == Some(NOT_MADE) && last.starts_with("corelane: load: "), "{said}");
        assert!(words.iter().all(|word| last.contains(word)), "{said}");
        let run = load(&[&["echo", url, "--trust-anybody"], &few[..]].concat());
        run.met(&[]).doubted(&[]);
        assert_eq!(run.report.settings.tls.as_deref(), Some("TLS, resuming sessions, any certificate"));
    }
    let plain = format!("tls://127.0.0.1:{}", server.tcp().port());
    let silent = ended(&[], &[&["echo", &plain, "--trust-anybody", "--quiet", "--timeout", "1s"], &few[..]].concat());
    assert_eq!(silent.status.code(), Some(NOT_MADE), "{silent:?}");
    let host = super::hosts::Host::start(super::hosts::swallow);
    let deaf = format!("tls://{}", host.address);
    let never = ["echo", &deaf, "--trust-anybody", "--timeout", "300ms", "-n", "1"];
    says(&[], &never, NOT_MADE, &["client_timeout", "nothing answered"]);
    says(&[], &["echo", "tcp://127.0.0.1:9", "--ca", &certificate], REFUSED, &["--ca", "has none", "tls://"]);
    says(&[], &["echo", &by_name, "--ca", "/nowhere"], REFUSED, &["/nowhere"]);
    says(&[], &["echo", &by_name, "--ca", &key], REFUSED, &["k.pem"]);
}
