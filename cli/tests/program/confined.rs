//! Little is allowed: no root, hardly any locked memory, few descriptors, no io_uring.

use crate::common::*;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

on_each_driver!(
    an_ordinary_user_can_serve,
    little_locked_memory_is_enough,
    own_descriptors_give_each_lane_the_limit,
    without_own_descriptors_all_lanes_share_the_limit,
);

/// Serves a little of everything.
fn serves(server: &Server) {
    for seed in 0..20 {
        echo(&mut server.connect(), &pattern(100_000, seed));
        echo_datagram(&datagrams_to(server.udp()), &pattern(1000, seed));
    }
}

/// Runs a program as a user who may nothing special.
const AS_ORDINARY_USER: [&str; 6] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];

/// A server of an ordinary user, run by `wrapper`; none, and the test is skipped by name, where that cannot be.
fn of_an_ordinary_user(driver: Driver, test: &str, wrapper: &[&str]) -> Option<Server> {
    if !is_root(&driver.case(test)) || !have(&driver.case(test), &["setpriv", "prlimit"]) {
        return None;
    }
    let folder = Arc::new(Scratch::new());
    let program = copy_for_all(&folder);
    let wrapper = [wrapper, &AS_ORDINARY_USER].concat();
    let arguments = ["--driver", driver.name(), TCP, UDP];
    let server = Server::start_as(Plan { wrapper: &wrapper, program: &program, arguments: &arguments, run: folder });
    assert_eq!(server.status("Uid"), u64::from(ORDINARY_USER));
    Some(server)
}

fn an_ordinary_user_can_serve(driver: Driver) {
    let Some(server) = of_an_ordinary_user(driver, "confined::an_ordinary_user_can_serve", &[]) else { return };
    serves(&server);
    server.comes_to("datagrams_out", 20);
}

fn little_locked_memory_is_enough(driver: Driver) {
    let limit = ["prlimit", "--memlock=65536"]; // root would be above it
    let Some(server) = of_an_ordinary_user(driver, "confined::little_locked_memory_is_enough", &limit) else { return };
    let of_driver = server.notes.iter().filter(|note| note.contains("refused")).count();
    assert!(server.driver() == driver.name() || of_driver == 1, "{:?}", server.notes);
    serves(&server);
}

/// Has 500 connections with 320 descriptors on each of two lanes, and echoes on all of them.
fn has_five_hundred(server: &Server) {
    let mut streams: Vec<_> = (0..500).map(|_| server.connect()).collect();
    for round in 0..2 {
        for (seed, stream) in streams.iter_mut().enumerate() {
            echo(stream, &pattern(10 + round, seed as u64));
        }
    }
    assert_eq!((server.count("accepts"), server.count("accepts_no_descriptor")), (500, 0));
}

fn own_descriptors_give_each_lane_the_limit(driver: Driver) {
    let test = "confined::own_descriptors_give_each_lane_the_limit";
    if !have(&driver.case(test), &["prlimit"]) {
        return;
    }
    let arguments = ["--lanes", "2", TCP];
    let Some(server) = driver.start_under(test, &["prlimit", "--nofile=320"], &arguments) else { return };
    has_five_hundred(&server);
}

fn without_own_descriptors_all_lanes_share_the_limit(driver: Driver) {
    let test = "confined::without_own_descriptors_all_lanes_share_the_limit";
    if !have(&driver.case(test), &["prlimit"]) {
        return;
    }
    let Some(server) = driver.start_under(test, &["prlimit", "--nofile=320"], &["--lanes", "2", "--share-descriptors", TCP])
    else {
        return;
    };
    let streams: Vec<_> = (0..500).map(|_| server.connect()).collect();
    server.wait_for("accepts_no_descriptor", |accepts| accepts > 0);
    let accepts = server.count("accepts");
    assert!((200..320).contains(&accepts), "{accepts} connections with 320 descriptors");
    drop(streams);
}

/// A filter as a container's run time has it: io_uring_setup(2) is not permitted, all else is.
fn without_io_uring() -> BpfProgram {
    let rules = BTreeMap::from([(nix::libc::SYS_io_uring_setup, Vec::new())]);
    let refuse = SeccompAction::Errno(nix::libc::EPERM as u32);
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).unwrap().try_into().unwrap()
}

/// Starts a server below the filter. A thread passes its filter on to the processes that it starts (seccomp(2)).
fn start_without_io_uring(arguments: &'static [&'static str]) -> Server {
    let filtered = thread::spawn(move || {
        apply_filter(&without_io_uring()).unwrap();
        Server::start(arguments)
    });
    filtered.join().unwrap()
}

#[test]
fn where_io_uring_is_refused_epoll_serves_and_says_so_once() {
    let server = start_without_io_uring(&["--driver", "uring", TCP, UDP]);
    assert_eq!(server.driver(), "epoll");
    assert!(
        matches!(&server.notes[..], [note] if note.contains("uring refused") && note.contains("epoll")),
        "{:?}",
        server.notes
    );
    serves(&server);
    assert_eq!(server.words(), "", "it is said twice");
    let page = server.page();
    assert_eq!(page["notes"], serde_json::json!(server.notes));
    assert!(page["lanes"].as_array().unwrap().iter().all(|lane| lane["driver"] == "epoll"));
    let text = String::from_utf8(server.stat(&[]).stdout).unwrap();
    assert_eq!(text.matches("note:").count(), 1, "{text}");
}

#[test]
fn where_io_uring_is_refused_and_not_asked_for_nothing_is_said() {
    let server = start_without_io_uring(&["--driver", "epoll", TCP, UDP]);
    assert!(server.notes.is_empty(), "{:?}", server.notes);
    serves(&server);
}
