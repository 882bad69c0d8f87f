//! Virtual hosts with a directory each, asked by curl.

use crate::common::*;
use nix::sys::signal::Signal;
use std::fs;
use std::process::Command;

#[test]
fn each_host_has_its_own_directory() {
    if !have("http_hosts::each_host_has_its_own_directory", &["curl"]) {
        return;
    }
    let folder = Scratch::new();
    let root = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("index.html"), name).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let [default, shop, others] = ["default", "shop", "others"].map(root);
    let sites = format!("site=shop.example:{shop},*.example:{others},[::1]:{shop}");
    let whole = format!("http=http://127.0.0.1:0?root={default}&{sites}");
    let strict = format!("http=http://127.0.0.1:0?{sites}");
    for (place, unknown) in [(whole, "default"), (strict, "421 Misdirected Request\n")] {
        let mut server = Server::start(&["--lanes", "2", &place]);
        let url = format!("http://{}/", server.address("http"));
        for (host, due) in [("SHOP.example.", "shop"), ("a.b.example:80", "others"), ("[::1]", "shop"), ("example", unknown)] {
            for _ in 0..2 {
                let done = output(Command::new("curl").args(["-sS", "-H", &format!("Host: {host}"), &url]));
                assert!(done.status.success() && done.stdout == due.as_bytes(), "{host}: {done:?}");
            }
        }
        server.signal(Signal::SIGTERM);
        assert!(server.ended().success());
    }
}

#[test]
fn sites_that_cannot_be_are_refused() {
    for (sites, due) in [
        ("shop.example", "\"shop.example\" has no directory: write site=shop.example:DIR"),
        ("shop.example:/nowhere", "\"/nowhere\" is no directory"),
        ("a%20b:/tmp", "\"a b\" is no host"),
        ("a:/tmp,A.:/tmp", "\"A.\" is named twice"),
    ] {
        let refused = output(Command::new(PROGRAM).args(["serve", &format!("http=http://127.0.0.1:0?site={sites}")]));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains(due), "{said}");
    }
}
