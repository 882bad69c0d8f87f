//! A directory of files under other people's clients: what the library is tried with, and the same against the program.

#[path = "../../../services/http/tests/foreign/fetching.rs"]
mod fetching;
#[path = "../../../services/http/tests/foreign/measuring.rs"]
mod measuring;
#[path = "../../../services/http/tests/foreign/table.rs"]
mod table;

use crate::common::{self, Driver, Scratch, have, on_each_driver, until};
use nix::sys::signal::Signal;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

on_each_driver!(curl_gets_whole_files_and_parts, wget_goes_on_where_it_stopped);

/// The program, with the log of what it answers.
struct Server {
    server: common::Server,
    log: PathBuf,
}

fn place(root: &Path, more: &str) -> String {
    format!("http=http://127.0.0.1:0?root={}&listing{more}", root.display())
}

impl Server {
    fn start(root: &Path, log: &Path) -> Self {
        let place = place(root, &format!("&log={}", log.display()));
        Self { server: common::Server::start(&["--lanes", "2", &place]), log: log.to_owned() }
    }

    fn address(&self) -> SocketAddr {
        self.server.address("http")
    }

    /// Waits until all that was answered is written to the log.
    fn write_log(&self) {
        let lines = || fs::read(&self.log).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count() as u64;
        until("what was answered is in the log", || lines() == self.server.count("log_lines"));
    }

    fn end(mut self) {
        self.server.signal(Signal::SIGTERM);
        assert!(self.server.ended().success());
    }
}

/// Serves a directory while `body` asks for what it puts there; the other path is for what it gets.
fn with_files(driver: Driver, test: &str, program: &str, body: impl FnOnce(&Path, &Path, &dyn Fn(&str) -> String)) {
    if !have(&driver.case(test), &[program]) {
        return;
    }
    let folder = Scratch::new();
    let [site, got] = ["site", "got"].map(|name| folder.path().join(name));
    fs::create_dir_all(site.join("sub")).unwrap();
    fs::create_dir(&got).unwrap();
    let Some(mut server) = driver.start(test, &[&place(&site, "")]) else { return };
    let address = server.address("http");
    body(&site, &got, &|path| format!("http://{address}{path}"));
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
}

fn curl_gets_whole_files_and_parts(driver: Driver) {
    with_files(driver, "http_clients::curl_gets_whole_files_and_parts", "curl", |site, _, url| {
        fetching::curl_gets_whole_files_and_parts(site, url);
    });
}

fn wget_goes_on_where_it_stopped(driver: Driver) {
    with_files(driver, "http_clients::wget_goes_on_where_it_stopped", "wget", |site, got, url| {
        fetching::wget_goes_on_where_it_stopped(site, got, url);
    });
}
