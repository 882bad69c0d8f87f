//! What the tests of all crates share.
//!
//! A test that this machine cannot run is skipped by name: `cargo xtask test` has such names written into the file that the variable
//! `CORELANE_SKIPS` names, a line each (`NAME<tab>REASON`), and counts them.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};

/// Notes that this machine cannot run the test `name`.
///
/// # Panics
/// If the list of skips cannot be written: a skip that nobody sees is none.
pub fn skip(name: &str, reason: &str) {
    println!("skipped: {name}: {reason}");
    if let Some(list) = std::env::var_os("CORELANE_SKIPS") {
        note(&list, name, reason);
    }
}

fn note(list: &OsStr, name: &str, reason: &str) {
    let file = OpenOptions::new().append(true).create(true).open(list);
    // One write, which goes to the end as a whole: tests run at once.
    let noted = file.and_then(|mut file| file.write_all(format!("{name}\t{reason}\n").as_bytes()));
    noted.unwrap_or_else(|error| panic!("{}: the list of skips: {error}", Path::new(list).display()));
}

/// Whether a program of this name lies in one of the folders of `PATH`.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// An address of loopback where nobody is, by TCP or UDP, another at each call.
///
/// Its port is below those that Linux gives to sockets which ask for none (`ip_local_port_range`, ip(7)): a socket of another test would get it otherwise, and one that shares its
/// port with everybody, as HAProxy's does, would have half of that test's clients. Processes begin a hundred ports apart.
///
/// # Panics
/// If all of them are in use.
#[must_use]
pub fn free() -> SocketAddr {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 22_000;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id() % u32::from(COUNT / 100) * 100;
    let next = || {
        let port = (begin + u32::from(TAKEN.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT);
        SocketAddr::from(([127, 0, 0, 1], FIRST + u16::try_from(port).unwrap_or_default()))
    };
    (0..COUNT).map(|_| next()).find(|at| !is_taken(at.port())).unwrap_or_else(|| panic!("all ports from {FIRST} on are in use"))
}

/// Whether a socket has this port, at whatever address, by the kernel's tables (proc_net(5)).
///
/// Binding it to look would take it for longer than this: a child that another thread begins just then has the socket, too.
fn is_taken(port: u16) -> bool {
    let end = format!(":{port:04X}");
    let has_it = |line: &str| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&end));
    let read = |table| std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
    ["tcp", "udp", "tcp6", "udp6"].into_iter().any(|table| read(table).lines().any(has_it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn an_address_where_nobody_is_is_told_once_and_never_one_that_is_taken() {
        let first = free();
        let behind = |ports: u16| SocketAddr::new(first.ip(), first.port() + ports);
        let taken = (TcpListener::bind(behind(1)), UdpSocket::bind(behind(2)));
        let second = free();
        // A socket that keeps one of these from being bound may be gone when it is looked for.
        let least = if taken.0.is_ok() && taken.1.is_ok() { 3 } else { 1 };
        assert!(second.port() >= first.port() + least, "{first}, {second}");
        assert!(second.port() < 32_768);
    }

    #[test]
    fn skips_stand_in_their_list_a_line_each() {
        let list = std::env::temp_dir().join(format!("corelane-skips-{}", std::process::id()));
        note(list.as_os_str(), "one", "no root");
        note(list.as_os_str(), "two", "no network");
        let noted = std::fs::read_to_string(&list);
        std::fs::remove_file(&list).expect("it was made here");
        assert_eq!(noted.expect("it is readable"), "one\tno root\ntwo\tno network\n");
    }

    #[test]
    #[should_panic(expected = "the list of skips")]
    fn a_skip_that_cannot_be_noted_fails() {
        note(OsStr::new("/nowhere/list"), "one", "no root");
    }

    #[test]
    fn a_program_is_found_by_its_name() {
        assert!(is_installed("sh") && !is_installed("no-such-program"));
    }
}
