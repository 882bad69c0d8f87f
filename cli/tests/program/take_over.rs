//! `serve --take-over`: a new process goes on with the sockets of a running one. Nobody is refused or reset, and whoever dies in the middle leaves the other
//! one serving.

mod killed;

use crate::common::*;
use crate::confined::{below, without};
use crate::user::of_nobody;
use killed::whoever_is_killed_at_any_word_one_alone_serves_in_the_end;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

on_each_driver!(
    nobody_is_refused_by_program,
    nobody_is_refused_by_classic,
    nobody_is_refused_over_unix_sockets,
    datagrams_and_unix_sockets_go_over,
    who_is_connected_is_answered_by_the_one_before,
    a_new_process_that_dies_leaves_the_other_one_serving,
    a_new_process_whose_start_fails_last_leaves_the_other_one_serving,
    a_new_process_that_cannot_give_up_its_rights_leaves_the_other_one_serving,
    an_old_process_that_dies_in_the_middle_is_told_of,
    another_release_is_taken_over_from,
    sessions_of_tls_go_on,
    sessions_of_tls_end_where_more_is_asked_for,
    a_new_process_that_can_tell_nobody_leaves_the_other_one_serving,
    metrics_go_over,
    who_asks_again_and_again_is_sent_to_the_new_process_in_time,
    whoever_is_killed_at_any_word_one_alone_serves_in_the_end,
    an_old_process_that_dies_is_told_of,
    the_second_of_two_is_refused,
    of_two_that_take_over_at_once_one_serves,
    another_number_of_lanes_is_refused,
    the_table_goes_over,
    the_backlog_is_the_new_processs,
    bad_messages_change_nothing,
);

/// How often a process is followed by another under load.
const RESTARTS: u64 = 20;

/// How often a client asks that need not hurry.
const PACE: Duration = Duration::from_millis(5);
/// How long a client that keeps its connection rests between two requests: eight of them would have the CPUs to themselves otherwise.
const KEPT_PACE: Duration = Duration::from_millis(1);

/// Follows `server`: the same services, at the addresses where that one listens.
fn follow(driver: Driver, server: &Server, arguments: &[&str]) -> Server {
    let places: Vec<String> = server.urls.iter().map(|url| format!("echo={url}")).collect();
    let places = places.iter().map(String::as_str);
    let take_over = format!("--take-over={}", server.pid());
    let all: Vec<&str> =
        ["--driver", driver.name(), &take_over].into_iter().chain(arguments.iter().copied()).chain(places).collect();
    Server::start_as(Launch { wrapper: &[], program: PROGRAM, arguments: &all, run: server.run.clone() })
}

/// What a follower says that does not start.
fn refused(server: &Server, arguments: &[&str]) -> String {
    refused_at(server.tcp(), server.run.path(), arguments)
}

fn refused_at(at: SocketAddr, run: &Path, arguments: &[&str]) -> String {
    let place = format!("echo=tcp://{at}");
    let mut command = Command::new(PROGRAM);
    command.arg("serve").args(arguments).arg(place).env("CORELANE_RUN_DIR", run);
    let ended = output(&mut command);
    assert!(!ended.status.success(), "it starts");
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

/// A client for each of its threads, until it is dropped: each connects, asks, has the answer, and closes, again and again.
pub struct Load {
    ends: Arc<AtomicBool>,
    hurries: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<Result<(), String>>>,
}

impl Load {
    pub fn begin(clients: usize, ask: impl Fn() -> Result<(), String> + Clone + Send + 'static) -> Self {
        let (ends, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let hurries = Arc::new(AtomicBool::new(true));
        let client = |_| {
            let (ends, hurries, answered, ask) = (ends.clone(), hurries.clone(), answered.clone(), ask.clone());
            thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    ask()?;
                    answered.fetch_add(1, Ordering::Relaxed);
                    if !hurries.load(Ordering::Relaxed) {
                        // reason: it is a pace, and nothing is waited for.
                        thread::sleep(PACE);
                    }
                }
                Ok(())
            })
        };
        let threads = (0..clients).map(client).collect();
        Self { ends, hurries, answered, threads }
    }

    /// Whether clients ask as fast as they can. Elsewhere each asks once in [`PACE`]: while the old process lets those go on that it has, for a second.
    fn hurries(&self, all: bool) {
        self.hurries.store(all, Ordering::Relaxed);
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until more has been answered.
    pub fn goes_on(&self) {
        let before = self.answered();
        until("the load is answered", || {
            self.answered() > before + 20 || self.threads.iter().any(thread::JoinHandle::is_finished)
        });
    }

    /// Ends it; nobody had to do without an answer.
    pub fn ends_whole(self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads {
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
    }
}

pub fn asks(mut stream: impl Read + Write) -> Result<(), String> {
    let asked = pattern(64, 7);
    stream.write_all(&asked).map_err(|error| format!("writing: {error}"))?;
    let mut answer = vec![0; asked.len()];
    stream.read_exact(&mut answer).map_err(|error| format!("reading: {error}"))?;
    if answer == asked { Ok(()) } else { Err("another answer".to_owned()) }
}

pub fn connects(at: SocketAddr) -> Result<(), String> {
    let stream = TcpStream::connect(at).map_err(|error| format!("connecting: {error}"))?;
    patient(&stream);
    asks(stream)
}

fn nobody_is_refused(driver: Driver, test: &str, steering: &str) {
    let Some(mut server) = driver.start(test, &["--lanes", "2", "--steering", steering, TCP]) else { return };
    let at = server.tcp();
    let load = Load::begin(3, move || connects(at));
    load.goes_on();
    for _ in 0..RESTARTS {
        load.hurries(true);
        let new = follow(driver, &server, &[]);
        assert_eq!((new.tcp(), &new.steering), (at, &server.steering));
        load.goes_on();
        load.hurries(false);
        assert_eq!(server.ended().code(), Some(0), "{}", server.words());
        assert!(server.words().contains(&format!("process {} has taken over", new.pid())), "{}", server.words());
        server = new;
    }
    load.ends_whole();
    assert_eq!(server.count("strays"), 0, "the selection goes on as it was");
}

fn nobody_is_refused_by_program(driver: Driver) {
    let test = "take_over::nobody_is_refused_by_program";
    if is_root(&driver.case(test)) {
        nobody_is_refused(driver, test, "program");
    }
}

fn nobody_is_refused_by_classic(driver: Driver) {
    nobody_is_refused(driver, "take_over::nobody_is_refused_by_classic", "classic");
}

fn nobody_is_refused_over_unix_sockets(driver: Driver) {
    let folder = Scratch::new();
    let path = folder.path().join("echo.sock");
    let unix = format!("echo=unix:{}", path.display());
    let test = "take_over::nobody_is_refused_over_unix_sockets";
    let Some(mut server) = driver.start(test, &["--lanes", "2", TCP, &unix]) else { return };
    let at = path.clone();
    let load = Load::begin(8, move || {
        let stream = UnixStream::connect(&at).map_err(|error| format!("connecting: {error}"))?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        asks(stream)
    });
    load.goes_on();
    for _ in 0..RESTARTS {
        load.hurries(true);
        let new = follow(driver, &server, &[]);
        load.goes_on();
        load.hurries(false);
        assert_eq!(server.ended().code(), Some(0), "{}", server.words());
        server = new;
    }
    load.ends_whole();
}

fn datagrams_and_unix_sockets_go_over(driver: Driver) {
    let folder = Scratch::new();
    let path = folder.path().join("echo.sock");
    let unix = format!("echo=unix:{}", path.display());
    let Some(mut server) = driver.start("take_over::datagrams_and_unix_sockets_go_over", &["--lanes", "2", UDP, &unix]) else {
        return;
    };
    let at = server.udp();
    let datagrams = Load::begin(1, move || {
        let socket = datagrams_to(at);
        let (asked, mut answer) = (pattern(64, 3), [0; 100]);
        socket.send(&asked).map_err(|error| error.to_string())?;
        let length = socket.recv(&mut answer).map_err(|error| format!("no answer: {error}"))?;
        if answer[..length] == asked { Ok(()) } else { Err("another answer".to_owned()) }
    });
    let connects = || asks(UnixStream::connect(&path).unwrap());
    for _ in 0..5 {
        datagrams.hurries(true);
        let new = follow(driver, &server, &[]);
        datagrams.goes_on();
        datagrams.hurries(false);
        (0..20).for_each(|_| assert_eq!(connects(), Ok(())));
        assert_eq!(server.ended().code(), Some(0), "{}", server.words());
        (0..20).for_each(|_| assert_eq!(connects(), Ok(())));
        server = new;
    }
    datagrams.ends_whole();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
    assert!(!path.exists(), "the last process takes the name with it");
}

fn who_is_connected_is_answered_by_the_one_before(driver: Driver) {
    let Some(mut server) = driver.start("take_over::who_is_connected_is_answered_by_the_one_before", &["--lanes", "2", TCP])
    else {
        return;
    };
    // The one before waits for a second, and this test may be away for as long on a busy machine: then it is tried again.
    for attempt in 1.. {
        let mut stream = server.connect();
        echo(&mut stream, &pattern(1000, 1));
        let asked_before = control(&server);
        let new = follow(driver, &server, &[]);
        until("who looks for a process to ask finds the new one alone", || {
            let all = controls(&server);
            all.len() == 1 && all[0] != asked_before
        });
        // Behind its back: what it has accepted is its own.
        let answered = asks(&mut stream);
        if answered.is_ok() {
            assert_eq!(read_to_end(&mut stream), (Vec::new(), Ok(())), "then it ends in order");
        }
        drop(stream);
        assert_eq!(server.ended().code(), Some(0), "{}", server.words());
        if answered.is_ok() {
            assert_eq!((server.count("endings_aborted") + server.count("endings_error"), new.count("accepts")), (0, 0));
            return;
        }
        assert!(attempt < 3, "{answered:?}");
        server = new;
    }
}

/// A process that takes over, played by the test: what it has heard is counted.
struct Player {
    stream: UnixStream,
}

/// The control sockets in the folder of a server.
fn controls(server: &Server) -> Vec<PathBuf> {
    let files = fs::read_dir(server.run.path()).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|suffix| suffix == "control")).collect()
}

/// The control socket of a server.
fn control(server: &Server) -> PathBuf {
    let all = controls(server);
    let [one] = &all[..] else { panic!("{all:?}") };
    one.clone()
}

impl Player {
    fn asks(control: &Path, words: &str) -> Self {
        let stream = UnixStream::connect(control).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        (&stream).write_all(format!("take-over {words}\n").as_bytes()).unwrap();
        Self { stream }
    }

    /// The next message. Descriptors that come with it are left.
    fn hears(&mut self) -> Value {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while byte[0] != b'\n' {
            self.stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        serde_json::from_slice(&line).unwrap()
    }

    fn hears_all(&mut self) -> usize {
        let mut heard = 1;
        while self.hears()["message"] != "complete" {
            heard += 1;
        }
        heard
    }
}

const ASKED: &str = r#"{"version":2,"process":7}"#;

fn a_new_process_that_dies_leaves_the_other_one_serving(driver: Driver) {
    let test = "take_over::a_new_process_that_dies_leaves_the_other_one_serving";
    let Some(server) = driver.start(test, &["--lanes", "2", "--steering", "classic", TCP]) else { return };
    let all = Player::asks(&control(&server), ASKED).hears_all();
    assert!(all > 3, "offer, group, and a socket of each lane");
    let at = server.tcp();
    let load = Load::begin(2, move || connects(at));
    for after in 0..=all {
        // The one before may not have been noticed to be gone yet.
        let mut player = None;
        until("it is asked again", || {
            let mut next = Player::asks(&control(&server), ASKED);
            let first = next.hears();
            player = (first["message"] == "offer").then_some(next);
            player.is_some()
        });
        let mut player = player.unwrap();
        (1..after).for_each(|_| drop(player.hears()));
        drop(player);
        load.goes_on();
    }
    let mut new = follow(driver, &server, &[]);
    load.goes_on();
    load.ends_whole();
    new.signal(Signal::SIGKILL);
    new.ended();
}

/// What comes after the lanes serve may fail, too: rights that are given up, or another address.
fn a_new_process_whose_start_fails_last_leaves_the_other_one_serving(driver: Driver) {
    let test = "take_over::a_new_process_whose_start_fails_last_leaves_the_other_one_serving";
    let Some(server) = driver.start(test, &["--lanes", "2", TCP]) else { return };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = taken.local_addr().unwrap().to_string();
    let words = refused(&server, &["--take-over", "--metrics", &metrics]);
    assert!(words.contains(&metrics), "{words}");
    until("it is noticed", || server.words().contains("not taken over: "));
    (0..20).for_each(|_| connects(server.tcp()).unwrap());
    let new = follow(driver, &server, &[]);
    connects(new.tcp()).unwrap();
}

/// Rights are given up when all that takes them is done: the other process goes on if that is refused.
fn a_new_process_that_cannot_give_up_its_rights_leaves_the_other_one_serving(driver: Driver) {
    let test = "take_over::a_new_process_that_cannot_give_up_its_rights_leaves_the_other_one_serving";
    if !is_root(&driver.case(test)) || driver.start(test, &["--lanes", "1", TCP]).is_none() {
        return;
    }
    let server = of_nobody(driver, &[TCP]);
    // Not -1, by which the effective user alone is changed before.
    let for_good = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, ORDINARY_USER.into()).unwrap();
    let filter = without(&[(nix::libc::SYS_setresuid, vec![SeccompRule::new(vec![for_good]).unwrap()])]);
    let arguments = ["--driver", driver.name(), "--user", "nobody:nogroup", "--take-over"];
    let (at, run) = (server.tcp(), server.run.path());
    let words = below(&filter, || refused_at(at, run, &arguments));
    assert!(words.contains("--user: becoming nobody for good is refused"), "{words}");
    until("it is noticed", || server.words().contains("not taken over: "));
    assert!(!server.words().contains("has taken over"), "{}", server.words());
    (0..20).for_each(|_| connects(server.tcp()).unwrap());
}

fn an_old_process_that_dies_in_the_middle_is_told_of(driver: Driver) {
    let test = "take_over::an_old_process_that_dies_in_the_middle_is_told_of";
    // An address of its own: no other test has its port when the next one is to have it.
    let ip = format!("127.77.2.{}", 1 + driver as u8);
    let Some(mut server) = driver.start(test, &["--lanes", "2", &format!("echo=tcp://{ip}:0")]) else { return };
    // Who answers there now passes on the beginning, and is gone when the process is.
    let path = control(&server);
    let behind = path.with_extension("behind");
    fs::rename(&path, &behind).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    let (pid, tcp) = (server.pid(), server.tcp());
    let middle = thread::spawn(move || {
        let (mut asked, _) = listener.accept().unwrap();
        let mut player = Player::asks(&behind, ASKED);
        let offer = player.hears();
        asked.write_all(format!("{offer}\n").as_bytes()).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
        let mut rest = Vec::new();
        let _ = player.stream.read_to_end(&mut rest);
    });
    let words = refused(&server, &["--take-over"]);
    middle.join().unwrap();
    server.ended();
    assert!(words.contains("--take-over") && words.contains("start") && words.lines().count() == 1, "{words}");
    let place = format!("echo=tcp://{tcp}");
    let new = Server::start(&["--driver", driver.name(), "--lanes", "2", &place]);
    connects(new.tcp()).unwrap();
}

/// Stands between two processes as if they were of other releases: each hears `version` of the other, and the new one more than it knows.
fn translates(listener: &UnixListener, behind: &Path, version: u32) {
    let (asked, _) = listener.accept().unwrap();
    let answers = UnixStream::connect(behind).unwrap();
    let (mut request, mut rest) = (String::new(), asked.try_clone().unwrap());
    BufReader::new(&asked).read_line(&mut request).unwrap();
    let own = "\"version\":2";
    assert!(request.contains(own), "{request}");
    (&answers).write_all(request.replace(own, &format!("\"version\":{version},\"moon\":\"full\"")).as_bytes()).unwrap();
    let mut told = answers.try_clone().unwrap();
    let ready = thread::spawn(move || std::io::copy(&mut rest, &mut told));
    let (mut bytes, mut room) = (vec![0; 1 << 16], nix::cmsg_space!([RawFd; 253]));
    let mut is_first = true;
    while let Some((length, with)) = received(&answers, &mut bytes, &mut room) {
        let mut text = String::from_utf8(bytes[..length].to_vec()).unwrap();
        if std::mem::take(&mut is_first) {
            text = text.replacen(own, &format!("\"moon\":\"full\",\"version\":{version}"), 1);
            text = text.replacen('\n', "\n{\"descriptors\":0,\"message\":\"moon-phase\",\"full\":true}\n", 1);
        }
        let beside = ControlMessage::ScmRights(&with);
        let beside = if with.is_empty() { &[][..] } else { std::slice::from_ref(&beside) };
        let sent = sendmsg::<()>(asked.as_raw_fd(), &[IoSlice::new(text.as_bytes())], beside, MsgFlags::empty(), None).unwrap();
        (&asked).write_all(&text.as_bytes()[sent..]).unwrap();
        with.into_iter().for_each(|number| nix::unistd::close(number).unwrap());
    }
    let _ = asked.shutdown(std::net::Shutdown::Both);
    let _ = ready.join().unwrap();
}

/// The next bytes, and the numbers of the descriptors that came with them, which are the caller's; none at the end, which is a reset where the other was killed with words unread.
fn received(from: &UnixStream, bytes: &mut [u8], room: &mut [u8]) -> Option<(usize, Vec<RawFd>)> {
    let mut parts = [IoSliceMut::new(bytes)];
    let message = match recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(room), MsgFlags::MSG_CMSG_CLOEXEC) {
        Err(Errno::ECONNRESET) => return None,
        message => message.unwrap(),
    };
    let rights = |one| if let ControlMessageOwned::ScmRights(all) = one { all } else { Vec::new() };
    let with = message.cmsgs().unwrap().flat_map(rights).collect();
    (message.bytes > 0).then_some((message.bytes, with))
}

fn another_release_is_taken_over_from(driver: Driver) {
    let test = "take_over::another_release_is_taken_over_from";
    for version in [1, 3] {
        let Some(mut server) = driver.start(test, &["--lanes", "2", TCP]) else { return };
        let path = control(&server);
        // The layout of its page is another one, too.
        let (page, other) = (path.with_extension("page"), path.with_extension("other"));
        let mut bytes = fs::read(&page).unwrap();
        bytes[8..16].copy_from_slice(&99_u64.to_ne_bytes());
        fs::write(&other, bytes).and_then(|()| fs::rename(&other, &page)).unwrap();
        let behind = path.with_extension("behind");
        fs::rename(&path, &behind).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let between = thread::spawn(move || translates(&listener, &behind, version));
        let at = server.tcp();
        let load = Load::begin(2, move || connects(at));
        load.goes_on();
        load.hurries(true);
        let new = follow(driver, &server, &[]);
        assert_eq!((new.tcp(), &new.steering), (at, &server.steering));
        load.goes_on();
        load.hurries(false);
        assert_eq!(server.ended().code(), Some(0), "{}", server.words());
        between.join().unwrap();
        load.goes_on();
        load.ends_whole();
    }
}

/// A ticket that one process has sealed is opened by the next.
const RESUMES: &str = r#"
import socket, ssl, subprocess, sys
context = ssl.create_default_context(cafile=sys.argv[2])
def ask(session):
    stream = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60), server_hostname="localhost", session=session)
    stream.sendall(b"said")
    assert stream.recv(4) == b"said"
    return stream
first = ask(None)
assert not first.session_reused
print("asked", flush=True)
sys.stdin.readline()
try:
    print("resumed" if ask(first.session).session_reused else "anew")
except (OSError, AssertionError):
    print("refused")
"#;

/// What a client with a session finds at a process that takes over with these options beside certificate and key.
fn comes_back(driver: Driver, test: &str, options_of_new: impl Fn(&str) -> String) -> Option<String> {
    if !have(&driver.case(test), &["openssl", "python3"]) {
        return None;
    }
    let folder = Scratch::new();
    let (certificate, key) = crate::tls::certified(&folder);
    let options = format!("?certificate={certificate}&key={key}");
    let place = format!("echo=tls://127.0.0.1:0{options}");
    let mut server = driver.start(test, &["--lanes", "2", &place])?;
    let at = server.address("tls");
    let mut client = Command::new("python3");
    client.args(["-c", RESUMES, &at.port().to_string(), &certificate]);
    let mut client = client.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let said = lines(client.stdout.take().unwrap());
    assert_eq!(said.recv_timeout(PATIENCE).unwrap(), "asked");
    let take_over = format!("--take-over={}", server.pid());
    let place = format!("echo=tls://{at}{options}{}", options_of_new(&certificate));
    let arguments = ["--driver", driver.name(), &take_over, &place];
    let new = Server::start_as(Launch { wrapper: &[], program: PROGRAM, arguments: &arguments, run: server.run.clone() });
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
    drop(client.stdin.take());
    let found = said.recv_timeout(PATIENCE).unwrap();
    assert!(client.wait().unwrap().success(), "it says what it found");
    assert!(found != "resumed" || new.count("handshakes") == 1);
    Some(found)
}

fn sessions_of_tls_go_on(driver: Driver) {
    let found = comes_back(driver, "take_over::sessions_of_tls_go_on", |_| String::new());
    assert!(found.is_none_or(|found| found == "resumed"), "the session goes on");
}

/// A session that began where nobody was asked is none where everybody must be known, though the files are the same.
fn sessions_of_tls_end_where_more_is_asked_for(driver: Driver) {
    let test = "take_over::sessions_of_tls_end_where_more_is_asked_for";
    let found = comes_back(driver, test, |certificate| format!("&clients={certificate}"));
    assert!(found.is_none_or(|found| found == "refused"), "who shows no certificate is not let in");
}

fn an_old_process_that_dies_is_told_of(driver: Driver) {
    let Some(mut server) = driver.start("take_over::an_old_process_that_dies_is_told_of", &["--lanes", "2", TCP]) else { return };
    server.signal(Signal::SIGKILL);
    server.ended();
    let words = refused(&server, &["--take-over"]);
    assert!(words.contains("--take-over: no corelane process"), "{words}");
}

fn the_second_of_two_is_refused(driver: Driver) {
    let Some(server) = driver.start("take_over::the_second_of_two_is_refused", &["--lanes", "2", TCP]) else { return };
    let mut first = Player::asks(&control(&server), ASKED);
    assert_eq!(first.hears()["message"], "offer");
    let words = refused(&server, &["--take-over"]);
    assert!(words.contains("process 7 is taking over already: wait for it"), "{words}");
    let mut table = Command::new(PROGRAM);
    table.args(["rss", "table", "--even", "--pid", &server.pid().to_string()]).env("CORELANE_RUN_DIR", server.run.path());
    let kept = String::from_utf8(output(&mut table).stderr).unwrap();
    assert!(kept.contains("process 7 is taking over: ask it when it serves"), "{kept}");
    drop(first);
    connects(server.tcp()).unwrap();
}

/// How often two processes take over at once: who is first differs.
const RACES: usize = 5;

/// A process that takes over as far as it comes: it serves, or says why not.
fn contend(driver: Driver, server: &Server) -> thread::JoinHandle<(Child, Option<String>)> {
    let mut command = Command::new(PROGRAM);
    let (take_over, place) = (format!("--take-over={}", server.pid()), format!("echo=tcp://{}", server.tcp()));
    command.args(["serve", "--driver", driver.name(), &take_over, &place]).env("CORELANE_RUN_DIR", server.run.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    thread::spawn(move || {
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        if said.any(|line| line == "ready") {
            return (child, None);
        }
        let ended = child.wait().unwrap();
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!(ended.code(), Some(2), "{words}");
        (child, Some(words))
    })
}

fn of_two_that_take_over_at_once_one_serves(driver: Driver) {
    let test = "take_over::of_two_that_take_over_at_once_one_serves";
    for _ in 0..RACES {
        let Some(mut server) = driver.start(test, &["--lanes", "2", TCP]) else { return };
        let at = server.tcp();
        let load = Load::begin(2, move || connects(at));
        load.goes_on();
        let both = [contend(driver, &server), contend(driver, &server)].map(|one| one.join().unwrap());
        let refused: Vec<&str> = both.iter().filter_map(|(_, refused)| refused.as_deref()).collect();
        let [words] = refused[..] else { panic!("one of two serves: {both:?}") };
        let known = [
            "is taking over already: wait for it",
            "no process answers there",
            "--take-over: no corelane process",
            "has handed over",
            "has ended: only running",
        ];
        assert!(known.iter().any(|why| words.contains(why)) && words.lines().count() == 1, "{words}");
        load.goes_on();
        load.hurries(false);
        assert_eq!(server.ended().code(), Some(0), "{}", server.words());
        load.goes_on();
        load.ends_whole();
        for (mut child, _) in both {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn another_number_of_lanes_is_refused(driver: Driver) {
    let Some(server) = driver.start("take_over::another_number_of_lanes_is_refused", &["--lanes", "2", TCP]) else { return };
    for lanes in ["1", "3"] {
        let words = refused(&server, &["--take-over", "--lanes", lanes]);
        assert!(words.contains("has 2 lanes, which are handed over one by one: leave out --lanes"), "{words}");
    }
    let words = refused(&server, &["--take-over", "--steering", "kernel"]);
    assert!(words.contains("which goes on: leave out --steering"), "{words}");
    connects(server.tcp()).unwrap();
}

fn the_table_goes_over(driver: Driver) {
    let settings = ["--lanes", "2", "--key", "random", "--log-format", "json", TCP];
    let Some(server) = driver.start("take_over::the_table_goes_over", &settings) else { return };
    let table = |server: &Server, words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let pid = server.pid().to_string();
        command.args(["rss", "table", "--pid", &pid]).args(words).env("CORELANE_RUN_DIR", server.run.path());
        let ended = output(&mut command);
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap()
    };
    let set = table(&server, &["--move", "0-63:1"]);
    let new = follow(driver, &server, &[]);
    assert_eq!(table(&new, &[]), set);
    let even = table(&new, &["--even"]);
    assert_ne!(even, set);
    (0..50).for_each(|_| connects(new.tcp()).unwrap());
    assert_eq!(new.count("strays"), 0, "the new process rewrites what is in force");
    let words = format!("process {} has taken over: what is open here is finished", new.pid());
    let said = || server.words().lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect::<Vec<_>>();
    until("it is said, in order", || {
        said().iter().any(|object| object["fields"]["message"] == *words && object["level"] == "INFO")
    });
}

fn the_backlog_is_the_new_processs(driver: Driver) {
    const TEST: &str = "take_over::the_backlog_is_the_new_processs";
    let (folder, limit) = (Scratch::new(), |backlog: &str| format!("backlog={backlog}"));
    let (path, few) = (folder.path().join("echo.sock"), limit("100"));
    let unix = format!("echo=unix:{}", path.display());
    let Some(server) = driver.start(TEST, &["--lanes", "2", "--limit", &few, TCP, &unix]) else { return };
    if !have(TEST, &["ss"]) {
        return;
    }
    // Of what listens: how many wait, and how many may (ss(8), Recv-Q and Send-Q).
    let of_each = |words: &[&str]| {
        let ended = output(Command::new("ss").args(["-Hnl"]).args(words));
        let lines = String::from_utf8(ended.stdout).unwrap();
        let may_wait = |line: &str| line.split_whitespace().skip_while(|word| *word != "LISTEN").nth(2).map(str::to_owned);
        lines.lines().map(|line| may_wait(line).unwrap()).collect::<Vec<_>>()
    };
    let (port, path) = (format!(":{}", server.tcp().port()), path.to_str().unwrap());
    let backlogs = || [of_each(&["-t", "sport", "=", &port]), of_each(&["-x", "src", path])].concat();
    assert_eq!(backlogs(), ["100"; 3], "each lane has a listener, and all share one of a path");
    let _new = follow(driver, &server, &["--limit", &limit("200")]);
    assert_eq!(backlogs(), ["200"; 3]);
}

fn bad_messages_change_nothing(driver: Driver) {
    let Some(server) = driver.start("take_over::bad_messages_change_nothing", &["--lanes", "2", TCP]) else { return };
    let cases = [
        ("", "is no take-over"),
        ("GET / HTTP/1.1", "is no take-over"),
        (r#"{"version":"#, "is no take-over"),
        (r#"{"version":4,"process":7}"#, "speaks version 4 of this, and the running one 2"),
    ];
    for (asked, why) in cases {
        let refusal = Player::asks(&control(&server), asked).hears();
        assert!(refusal["why"].as_str().unwrap().contains(why), "{refusal}");
    }
    // A release later may say more than is known.
    let mut player = Player::asks(&control(&server), r#"{"version":3,"process":7,"moon":"full"}"#);
    player.hears_all();
    player.stream.write_all(b"{\"message\":\"moon-phase\"}\n{\"message\":\"offer\"}\n").unwrap();
    assert!(player.hears()["why"].as_str().unwrap().contains("has gone"), "what is cut is no message");
    connects(server.tcp()).unwrap();
    let mut rest = Vec::new();
    let ended = player.stream.read_to_end(&mut rest);
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
}

/// What `serve` prints is what its supervisor waits for: while that cannot be said, nobody else may leave.
fn a_new_process_that_can_tell_nobody_leaves_the_other_one_serving(driver: Driver) {
    let test = "take_over::a_new_process_that_can_tell_nobody_leaves_the_other_one_serving";
    let Some(server) = driver.start(test, &["--lanes", "2", TCP]) else { return };
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--take-over", &format!("echo=tcp://{}", server.tcp())]).env("CORELANE_RUN_DIR", server.run.path());
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(1) && words.contains("writing to standard output"), "{words}");
    until("it is noticed", || server.words().contains("not taken over: "));
    assert!(!server.words().contains("has taken over"), "{}", server.words());
    (0..20).for_each(|_| connects(server.tcp()).unwrap());
    connects(follow(driver, &server, &[]).tcp()).unwrap();
}

fn scrape(at: SocketAddr) -> Result<String, String> {
    let mut stream = TcpStream::connect(at).map_err(|error| format!("connecting: {error}"))?;
    patient(&stream);
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n")
        .map_err(|error| format!("writing: {error}"))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| format!("reading: {error}"))?;
    if answer.ends_with("# EOF\n") { Ok(answer) } else { Err(format!("cut: {answer:?}")) }
}

/// The address of metrics is the same in the next process, and who scrapes is answered all the time.
fn metrics_go_over(driver: Driver) {
    let settings = ["--lanes", "1", "--metrics", "127.0.0.1:0", TCP];
    let Some(mut server) = driver.start("take_over::metrics_go_over", &settings) else { return };
    let (at, place) = (server.address("http"), format!("echo=tcp://{}", server.tcp()));
    let load = Load::begin(1, move || scrape(at).map(drop));
    load.goes_on();
    for _ in 0..2 {
        let (take_over, metrics) = (format!("--take-over={}", server.pid()), at.to_string());
        let arguments = ["--driver", driver.name(), &take_over, "--metrics", &metrics, &place];
        load.hurries(true);
        let new = Server::start_as(Launch { wrapper: &[], program: PROGRAM, arguments: &arguments, run: server.run.clone() });
        load.goes_on();
        load.hurries(false);
        assert_eq!(server.ended().code(), Some(0), "{}", server.words());
        server = new;
    }
    load.ends_whole();
    connects(server.tcp()).unwrap();
    assert!(
        scrape(at).unwrap().contains("corelane_service_accepts_total{lane=\"0\",service=\"echo\""),
        "of the process that serves"
    );
}

/// Asks on a connection that is kept until the server says that it closes it.
fn kept(at: SocketAddr, ends: &AtomicBool, answered: &AtomicU64) -> Result<(), String> {
    while !ends.load(Ordering::Relaxed) {
        let stream = TcpStream::connect(at).map_err(|error| format!("connecting: {error}"))?;
        patient(&stream);
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut closes = false;
        while !(closes || ends.load(Ordering::Relaxed)) {
            (&stream).write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").map_err(|error| format!("asking: {error}"))?;
            let (mut line, mut length) = (String::new(), 0);
            while line != "\r\n" {
                line.clear();
                if lines.read_line(&mut line).map_err(|error| format!("reading: {error}"))? == 0 {
                    return Err("closed without a word".to_owned());
                }
                let field = line.to_ascii_lowercase();
                closes |= field.starts_with("connection: close");
                length = field.strip_prefix("content-length: ").map_or(length, |length| length.trim().parse().unwrap());
            }
            lines.read_exact(&mut vec![0; length]).map_err(|error| format!("reading content: {error}"))?;
            answered.fetch_add(1, Ordering::Relaxed);
            // reason: it is a pace, and nothing is waited for.
            thread::sleep(KEPT_PACE);
        }
    }
    Ok(())
}

/// HTTP lets a server say which answer is a connection's last: clients who heed that lose nothing.
fn who_asks_again_and_again_is_sent_to_the_new_process_in_time(driver: Driver) {
    let test = "take_over::who_asks_again_and_again_is_sent_to_the_new_process_in_time";
    let Some(mut server) = driver.start(test, &["--lanes", "2", "http=http://127.0.0.1:0?reply=100"]) else { return };
    let (at, place) = (server.address("http"), format!("http={}?reply=100", server.urls[0]));
    let (ends, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let client = |_| {
        let (ends, answered) = (ends.clone(), answered.clone());
        thread::spawn(move || kept(at, &ends, &answered))
    };
    let clients: Vec<_> = (0..8).map(client).collect();
    for _ in 0..3 {
        let before = answered.load(Ordering::Relaxed);
        until("all ask", || answered.load(Ordering::Relaxed) > before + 100);
        let take_over = format!("--take-over={}", server.pid());
        let arguments = ["--driver", driver.name(), &take_over, &place];
        let new = Server::start_as(Launch { wrapper: &[], program: PROGRAM, arguments: &arguments, run: server.run.clone() });
        assert_eq!(server.ended().code(), Some(0), "{}", server.words());
        server = new;
    }
    ends.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| assert_eq!(client.join().unwrap(), Ok(())));
}
