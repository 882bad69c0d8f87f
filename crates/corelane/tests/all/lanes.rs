//! Lanes as a library: several programs of lanes in one process, each with its own end.
#![forbid(unsafe_code)]

use crate::process;
use corelane::admin::machine::thread_times;
use corelane::lanes::{DriverChoice, DriverSettings, Running};
use corelane::{Address, Cx, Error, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::IntoRawFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Answers what it gets with the number of its lane program.
struct Named(u8);

impl StreamService for Named {
    type Talk = Silent;
    type Session = ();
    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}
    fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), input: &mut Input, output: &mut Output) -> Next {
        let asked = input.len();
        input.skip(input.len());
        output.write(&vec![self.0; asked]).unwrap();
        Next::Continue
    }
}

fn start(driver: DriverChoice, name: u8) -> Running {
    start_at("127.0.0.1", driver, name)
}

/// A port of 127.0.0.1 that is closed may be another test's at once: where one is to be closed, the address is its test's alone.
fn start_at(ip: &str, driver: DriverChoice, name: u8) -> Running {
    let url = format!("tcp://{ip}:0");
    Lanes::per_core().lanes(2).driver(driver).serve(&url, move |_| Named(name)).unwrap().start().unwrap()
}

fn ask(address: &Address) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"?").unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    (stream, answer[0])
}

fn is_refused(address: &Address) -> bool {
    TcpStream::connect(address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[test]
fn two_programs_serve_in_one_process_and_end_apart() {
    if process::is_parent("lanes::two_programs_serve_in_one_process_and_end_apart") {
        return;
    }
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let (first, second) = (start_at("127.0.0.12", driver, 1), start(driver, 2));
        assert_ne!(first.page(), second.page());
        let (mut stream, answer) = ask(first.address());
        assert_eq!((answer, ask(second.address()).1), (1, 2));
        first.drain();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the drain closes what is idle");
        drop(stream);
        let address = first.address().clone();
        first.wait().unwrap();
        assert!(is_refused(&address));
        assert_eq!(ask(second.address()).1, 2);
    }
}

#[test]
fn each_lane_has_a_thread_that_can_be_asked_about() {
    if process::is_parent("lanes::each_lane_has_a_thread_that_can_be_asked_about") {
        return;
    }
    let running = start(DriverChoice::Auto, 6);
    assert_eq!(running.threads().len(), running.cpus().len());
    for (lane, thread) in running.threads().into_iter().enumerate() {
        let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap();
        assert_eq!(name.trim(), format!("lane-{lane}"));
        assert!(thread_times(thread).unwrap().cpu_nanoseconds > 0);
    }
}

#[test]
fn dropping_ends_at_once() {
    if process::is_parent("lanes::dropping_ends_at_once") {
        return;
    }
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let running = start_at("127.0.0.14", driver, 3);
        let address = running.address().clone();
        let (mut stream, _) = ask(&address);
        drop(running);
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "the connection is over");
        assert!(is_refused(&address));
    }
}

/// What lanes open, in descriptor tables of their own or not, is closed when they have ended.
#[test]
fn lanes_that_have_ended_leave_no_descriptor() {
    if process::is_parent("lanes::lanes_that_have_ended_leave_no_descriptor") {
        return;
    }
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let cycle = || {
            let running = start(driver, 7);
            assert_eq!(ask(running.address()).1, 7);
            running.stop();
            running.wait().unwrap();
        };
        cycle();
        let before = open();
        (0..5).for_each(|_| cycle());
        assert_eq!(open(), before, "{driver:?}");
    }
}

/// Threads of this process that are named as lanes.
fn lane_threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("lane-")).count()
}

#[test]
fn what_cannot_start_says_so_and_leaves_nothing_running() {
    if process::is_parent("lanes::what_cannot_start_says_so_and_leaves_nothing_running") {
        return;
    }
    let taken = start(DriverChoice::Auto, 4);
    let url = format!("tcp://{}", taken.address());
    let lanes = || Lanes::per_core().serve("tcp://127.0.0.1:0", |_| Named(5)).unwrap();
    let refused = lanes().serve(&url, |_| Named(5)).unwrap().start().map(drop);
    assert!(matches!(refused, Err(Error::Listen { .. })), "{refused:?}");
    let refused = lanes().memory_bytes(usize::MAX).start().map(drop);
    assert!(matches!(refused, Err(Error::Memory(_))), "{refused:?}");
    let refused = lanes().lanes(0).start().map(drop);
    assert!(matches!(refused, Err(Error::Setting { name: "lanes", .. })), "{refused:?}");
    let refused = lanes().serve("udp://127.0.0.1:0", |_| Named(5)).map(drop);
    assert!(matches!(refused, Err(Error::Transport { ref expected, .. }) if expected == "tcp:// or unix:"), "{refused:?}");
    // A thread that was joined is still listed while the kernel takes its descriptor table apart.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while lane_threads() != taken.cpus().len() {
        assert!(std::time::Instant::now() < deadline, "{} lanes run", lane_threads());
        std::thread::yield_now();
    }
    assert_eq!(ask(taken.address()).1, 4);
}

/// Offloads a call for each byte, which tells that it has begun and waits for its end, and returns whether there is room for one more.
struct Offloading {
    begin: Sender<()>,
    ended: Arc<Mutex<Receiver<()>>>,
}

impl StreamService for Offloading {
    type Talk = Silent;
    type Session = ();
    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}
    fn receive(&mut self, cx: &mut Cx<'_>, _: &mut (), input: &mut Input, output: &mut Output) -> Next {
        let calls = input.len();
        input.skip(input.len());
        for _ in 0..calls {
            let (begin, ended) = (self.begin.clone(), self.ended.clone());
            let call = move || {
                begin.send(()).unwrap();
                // Whoever has the lock waits for all.
                let _ = ended.lock().unwrap().recv();
            };
            cx.offload(call, 0);
            output.write(&[u8::from(!cx.ask_offload())]).unwrap();
        }
        Next::Continue
    }
}

#[test]
fn driver_settings_reach_the_drivers() {
    if process::is_parent("lanes::driver_settings_reach_the_drivers") {
        return;
    }
    // One more than by default begin at once, with a thread kept for files.
    const CALLS: usize = 4;
    let settings = DriverSettings::default().offload_threads(CALLS + 1).offload_max(CALLS);
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let ((begin, begun), (end, ended)) = (channel(), channel());
        let ended = Arc::new(Mutex::new(ended));
        let lanes = Lanes::per_core().lanes(1).driver(driver).driver_settings(settings);
        let build = move |_| Offloading { begin: begin.clone(), ended: ended.clone() };
        let running = lanes.serve("tcp://127.0.0.1:0", build).unwrap().start().unwrap();
        let mut stream = TcpStream::connect(running.address()).unwrap();
        stream.write_all(&[0; CALLS]).unwrap();
        let mut full = [9; CALLS];
        stream.read_exact(&mut full).unwrap();
        assert_eq!(full, [0, 0, 0, 1]);
        (0..CALLS).for_each(|_| begun.recv().unwrap());
        drop(end);
    }
}

#[test]
fn driver_settings_out_of_range_are_refused_at_the_start() {
    let lanes = Lanes::per_core().driver_settings(DriverSettings::default().offload_threads(1));
    let refused = lanes.serve("tcp://127.0.0.1:0", |_| Named(0)).unwrap().start().map(drop);
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("offload_threads must be 2 to 256, not 1: change it"), "{words}");
}

/// The port in the URL of the only page in this process's run directory.
fn chosen_port() -> u16 {
    let mut folders = vec![std::path::PathBuf::from(std::env::var_os("CORELANE_RUN_DIR").unwrap())];
    let mut bytes = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => bytes.extend(std::fs::read(entry.path()).unwrap()),
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let port = text.split("tcp://127.0.0.1:").nth(1).unwrap();
    port.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// The lanes cannot hold a port while they share it out: where the system chooses, another one does as well.
#[test]
fn a_chosen_port_that_somebody_takes_meanwhile_is_chosen_again() {
    if process::is_parent("lanes::a_chosen_port_that_somebody_takes_meanwhile_is_chosen_again") {
        return;
    }
    let thefts = Arc::new(Mutex::new(0));
    let counts = thefts.clone();
    let lanes = Lanes::per_core().lanes(2).driver(DriverChoice::Epoll);
    let build = move |_| {
        let mut thefts = counts.lock().unwrap();
        if *thefts == 0 {
            *thefts += 1;
            // Of this lane's descriptor table: it is closed with that.
            let _ = std::net::TcpListener::bind(("127.0.0.1", chosen_port())).unwrap().into_raw_fd();
        }
        Named(1)
    };
    let running = lanes.serve("tcp://127.0.0.1:0", build).unwrap().start().unwrap();
    assert_eq!(*thefts.lock().unwrap(), 1);
    assert_eq!(ask(running.address()).1, 1);
    running.drain();
    running.wait().unwrap();
}
