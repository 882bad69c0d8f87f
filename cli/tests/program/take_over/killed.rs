//! Whichever of the two processes is killed, at whatever word of a take-over: one alone serves in the end.

use super::{connects, control, received};
use crate::common::*;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::fs;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

/// Whom the test kills at a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Old,
    New,
}

/// Stands between two processes and passes on what they say, until `killed` says that one of them was killed before it could.
fn between(listener: &UnixListener, behind: &Path, killed: &(dyn Fn(&str) -> bool + Sync)) {
    let (asked, _) = listener.accept().unwrap();
    let answers = UnixStream::connect(behind).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| passes(&asked, &answers, killed));
        passes(&answers, &asked, killed);
    });
}

fn passes(from: &UnixStream, to: &UnixStream, killed: &dyn Fn(&str) -> bool) {
    let (mut bytes, mut room) = (vec![0; 1 << 16], nix::cmsg_space!([RawFd; 253]));
    while let Some((length, with)) = received(from, &mut bytes, &mut room) {
        if killed(&String::from_utf8_lossy(&bytes[..length])) {
            // A listener that stays open here would still be connected to, and nobody would accept there.
            close_all(with);
            break;
        }
        let beside = ControlMessage::ScmRights(&with);
        let beside = if with.is_empty() { &[][..] } else { std::slice::from_ref(&beside) };
        let sent = sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(&bytes[..length])], beside, MsgFlags::MSG_NOSIGNAL, None);
        close_all(with);
        if sent.is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = from.shutdown(std::net::Shutdown::Both);
}

fn close_all(descriptors: Vec<RawFd>) {
    descriptors.into_iter().for_each(|number| nix::unistd::close(number).unwrap());
}

/// The words of a take-over, and who serves in the end if one of the two is killed as it is said: the other one, and where `serving` was said already, the new one.
const WORDS: [&str; 6] = ["offer", "complete", "ready", "agreed", "serving", "released"];

pub fn whoever_is_killed_at_any_word_one_alone_serves_in_the_end(driver: Driver) {
    let test = "take_over::whoever_is_killed_at_any_word_one_alone_serves_in_the_end";
    // What they say to each other is the same with each driver.
    if driver == Driver::Uring {
        return;
    }
    for word in WORDS {
        for victim in [Victim::Old, Victim::New] {
            killed_at(driver, test, word, victim);
        }
    }
}

fn killed_at(driver: Driver, test: &str, word: &'static str, victim: Victim) {
    let Some(mut old) = driver.start(test, &["--lanes", "1", TCP]) else { return };
    let path = control(&old);
    let behind = path.with_extension("behind");
    fs::rename(&path, &behind).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    let mut command = Command::new(PROGRAM);
    let (take_over, place) = (format!("--take-over={}", old.pid()), format!("echo=tcp://{}", old.tcp()));
    command.args(["serve", &take_over, &place]).env("CORELANE_RUN_DIR", old.run.path());
    let mut new = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (old_pid, new_pid) = (old.pid() as i32, new.id() as i32);
    let killed = move |said: &str| {
        let is_it = said.contains(&format!("\"message\":\"{word}\""));
        if is_it {
            let pid = if victim == Victim::Old { old_pid } else { new_pid };
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        }
        is_it
    };
    between(&listener, &behind, &killed);
    let case = format!("{victim:?} killed at {word}");
    let told = |old: &Server| old.words().contains("has taken over");
    match victim {
        // The new one has nothing to begin with, or serves.
        Victim::Old => {
            old.ended();
            let begins = !matches!(word, "offer" | "complete");
            assert_eq!(!begins, new_ends(&mut new, old.tcp()), "{case}");
        }
        Victim::New => {
            new.wait().unwrap();
            // Behind `released` it is gone like any process that serves.
            if word == "released" {
                assert_eq!(old.ended().code(), Some(0), "{case}");
            } else {
                until("it is noticed", || old.words().contains("not taken over: "));
                assert!(!told(&old), "{case}: {}", old.words());
                (0..5).for_each(|_| connects(old.tcp()).unwrap());
            }
        }
    }
    let _ = new.kill();
    let _ = new.wait();
}

/// Whether the new process ends, or serves at `at` alone.
fn new_ends(new: &mut Child, at: SocketAddr) -> bool {
    let mut ended = false;
    until("it serves or ends", || {
        ended = new.try_wait().unwrap().is_some();
        ended || connects(at).is_ok()
    });
    ended
}
