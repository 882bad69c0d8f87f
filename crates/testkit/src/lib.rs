//! What the tests of all crates share.
//!
//! A test that this machine cannot run is skipped by name: `cargo xtask test` has such names written into the file that the variable
//! `CORELANE_SKIPS` names, a line each (`NAME<tab>REASON`), and counts them.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
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
    let is_free = |at: &SocketAddr| TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok();
    (0..COUNT).map(|_| next()).find(is_free).unwrap_or_else(|| panic!("all ports from {FIRST} on are in use"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_where_nobody_is_is_told_once_and_never_one_that_is_taken() {
        let first = free();
        let taken = TcpListener::bind(SocketAddr::new(first.ip(), first.port() + 1));
        let second = free();
        assert!(second.port() > first.port() && taken.is_err() || second.port() > first.port() + 1, "{first}, {second}");
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
