//! A listener that lanes share: who is woken for a connection, and that none is left waiting when that lane does not take it.
#![allow(unsafe_code)] // all of this is tests; a table of descriptors is taken by a raw call

use crate::common::is_child;
use corelane_drivers::{EpollDriver, Probes, UringDriver};
use corelane_seam::{
    Address, Arena, Bell, Completion, Driver, DriverCounters, Handle, Listen, Op, Outcome, Reason, Socket, StreamOp,
    StreamOptions, StreamOutcome, Tuning, Unix, Wait,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const ACCEPT: Handle = Handle::new(1, 1, 0);
const CLOSE: Handle = Handle::new(1, 2, 0);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Epoll,
    Uring,
}

const KINDS: [Kind; 2] = [Kind::Epoll, Kind::Uring];

impl Kind {
    fn driver(self) -> Box<dyn Driver> {
        let arena = Arena::new(1 << 20).unwrap();
        match self {
            Self::Epoll => Box::new(EpollDriver::new(arena, Tuning::default(), Probes::default()).unwrap()),
            Self::Uring => Box::new(UringDriver::new(arena, Tuning::default(), Probes::default()).unwrap()),
        }
    }
}

/// An abstract name that nobody else has, and its socket.
struct Name {
    unix: Unix,
    at: SocketAddr,
    socket: UnixListener,
}

impl Name {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("corelane-shared-{}-{number}", std::process::id());
        let at = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixListener::bind_addr(&at).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { unix: Unix::hidden(name.as_bytes()).unwrap(), at, socket }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect_addr(&self.at).unwrap()
    }
}

/// A driver with its duplicate of the socket.
struct Lane {
    driver: Box<dyn Driver>,
    listener: Socket,
}

impl Lane {
    fn new(kind: Kind, name: &Name) -> Self {
        let mut driver = kind.driver();
        let listener = Self::listen(&mut *driver, name);
        Self { driver, listener }
    }

    fn listen(driver: &mut dyn Driver, name: &Name) -> Socket {
        let address: Address = name.unix.clone().into();
        driver.lend(&address, name.socket.as_raw_fd(), false);
        let listen = Listen { address, backlog: 64, share_port: false, v6_only: false, stream: StreamOptions::default() };
        driver.listen(&listen).unwrap()
    }

    fn accept(&mut self) {
        self.driver.push(ACCEPT, StreamOp::Accept { listener: self.listener }.into());
    }

    fn stop(&mut self) {
        self.driver.push(Handle::NOBODY, StreamOp::StopAccept { listener: self.listener }.into());
    }

    /// Connections that one collect brings.
    fn collect(&mut self, wait: Wait) -> usize {
        let mut completions = Vec::new();
        self.driver.collect(wait, 64, &mut completions);
        completions.iter().filter(|completion| is_connection(completion)).count()
    }

    /// Takes its place in the row.
    fn stand(&mut self) {
        self.accept();
        assert_eq!(self.collect(Wait::No), 0);
    }

    /// Collects until a connection comes.
    fn take(&mut self) {
        let give_up = self.driver.now() + PATIENCE.as_nanos() as u64;
        while self.collect(Wait::Until(give_up)) == 0 {
            assert!(self.driver.now() < give_up, "a connection is left waiting");
        }
    }
}

fn is_connection(completion: &Completion) -> bool {
    matches!(completion.outcome, Outcome::Stream(StreamOutcome::Accepted { .. }))
}

/// A lane in a thread, which collects until it is to end.
struct Running {
    thread: std::thread::JoinHandle<DriverCounters>,
    bell: Arc<dyn Bell>,
    number: i32,
}

impl Running {
    /// `prepare` is done before the first collect; each connection is told with the lane's number, and kept open.
    fn start(kind: Kind, name: &Arc<Name>, index: usize, ends: &Arc<AtomicBool>, told: &Sender<usize>, stands: bool) -> Self {
        let (name, ends, told) = (name.clone(), ends.clone(), told.clone());
        let (tell, made) = channel();
        let thread = std::thread::spawn(move || {
            let mut lane = Lane::new(kind, &name);
            lane.stand();
            if !stands {
                lane.stop();
                lane.collect(Wait::No);
            }
            tell.send((lane.driver.bell(), gettid().as_raw_nonzero().get())).unwrap();
            while !ends.load(Ordering::Acquire) {
                (0..lane.collect(Wait::Forever)).for_each(|_| told.send(index).unwrap());
            }
            lane.driver.counters()
        });
        let (bell, number) = made.recv_timeout(PATIENCE).unwrap();
        Self { thread, bell, number }
    }

    /// Whether its thread sleeps in the kernel: then it waits for events, for there is nothing else that it waits for.
    fn sleeps(&self) -> bool {
        sleeps(self.number)
    }
}

fn sleeps(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('S')
}

struct Lanes {
    lanes: Vec<Running>,
    ends: Arc<AtomicBool>,
    told: Receiver<usize>,
}

impl Lanes {
    fn start(kind: Kind, name: &Arc<Name>, stand: &[bool]) -> Self {
        let (ends, (tell, told)) = (Arc::new(AtomicBool::new(false)), channel());
        let start = |(index, &stands)| Running::start(kind, name, index, &ends, &tell, stands);
        Self { lanes: stand.iter().enumerate().map(start).collect(), ends, told }
    }

    fn all_sleep(&self) {
        while !self.lanes.iter().all(Running::sleeps) {
            std::thread::yield_now();
        }
    }

    /// How often they went to sleep so far (`voluntary_ctxt_switches`, proc(5)).
    fn sleeps(&self) -> usize {
        let of = |lane: &Running| {
            let status = std::fs::read_to_string(format!("/proc/self/task/{}/status", lane.number)).unwrap();
            let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
            count.trim().parse::<usize>().unwrap()
        };
        self.lanes.iter().map(of).sum()
    }

    /// Connects when all lanes sleep; returns which of them took it.
    fn connect(&self, name: &Name) -> usize {
        self.all_sleep();
        let _client = name.connect();
        self.told.recv_timeout(PATIENCE).expect("a connection is left waiting")
    }

    fn end(self) -> Vec<DriverCounters> {
        self.ends.store(true, Ordering::Release);
        self.lanes.iter().for_each(|lane| lane.bell.ring());
        self.lanes.into_iter().map(|lane| lane.thread.join().unwrap()).collect()
    }
}

/// Lanes that sleep are not all woken: the system wakes one of them, and they take turns.
#[test]
fn a_connection_wakes_one_lane_and_lanes_take_turns() {
    const CONNECTIONS: usize = 200;
    const LANES: usize = 8;
    for kind in KINDS {
        let name = Arc::new(Name::new());
        let lanes = Lanes::start(kind, &name, &[true; LANES]);
        let mut accepted = [0; LANES];
        lanes.all_sleep();
        let before = lanes.sleeps();
        (0..CONNECTIONS).for_each(|_| accepted[lanes.connect(&name)] += 1);
        lanes.all_sleep();
        let woken = lanes.sleeps() - before;
        let counters = lanes.end();
        let empty: u64 = counters.iter().map(|counters| counters.receives_empty).sum();
        // For the connection, and for its end; if all were woken, it would be nine times a connection.
        assert!(woken <= 4 * CONNECTIONS, "{kind:?}: lanes were woken {woken} times");
        assert!(empty < CONNECTIONS as u64 / 4, "{kind:?}: {empty} accepts found nothing");
        assert!(accepted.iter().all(|&accepted| accepted > 0), "{kind:?}: {accepted:?}");
    }
}

/// The lane that is told has stopped accepting since: another one takes the connection, and later it does itself.
#[test]
fn a_lane_that_stopped_hands_on_what_it_is_told() {
    for kind in KINDS {
        let name = Arc::new(Name::new());
        let lanes = Lanes::start(kind, &name, &[false, false, true]);
        for _ in 0..10 {
            assert_eq!(lanes.connect(&name), 2, "{kind:?}");
        }
        lanes.end();
    }
}

/// All stop accepting while one who asked still waits: whoever goes on first takes it.
#[test]
fn whoever_accepts_again_first_takes_who_waited() {
    for kind in KINDS {
        let name = Name::new();
        let mut lanes = [(); 3].map(|()| Lane::new(kind, &name));
        lanes.iter_mut().for_each(Lane::stand);
        lanes.iter_mut().for_each(Lane::stop);
        lanes.iter_mut().for_each(|lane| assert_eq!(lane.collect(Wait::No), 0));
        let _waiting = [name.connect(), name.connect()];
        // Each is told, and nobody is left who could be.
        (0..3).for_each(|_| lanes.iter_mut().for_each(|lane| assert_eq!(lane.collect(Wait::No), 0)));
        for lane in &mut lanes[1..] {
            lane.accept();
            lane.take();
        }
    }
}

/// Told in the middle of its turn, a lane stops or closes in the same breath: the connection is another lane's.
#[test]
fn what_a_lane_was_told_as_it_left_goes_to_another() {
    let ways: [fn(&mut Lane); 3] = [
        Lane::stop,
        |lane| lane.driver.push(CLOSE, Op::Close { socket: lane.listener, reset: false }),
        |lane| *lane = Lane { driver: Kind::Epoll.driver(), listener: lane.listener },
    ];
    for kind in KINDS {
        for leave in ways {
            let name = Name::new();
            let mut lanes = [(); 2].map(|()| Lane::new(kind, &name));
            lanes.iter_mut().for_each(Lane::stand);
            let _client = name.connect();
            let [first, second] = &mut lanes;
            leave(first);
            // What it stopped or closed is told first, and then what the system tells.
            (0..2).for_each(|_| assert_eq!(first.collect(Wait::No), 0));
            second.take();
        }
    }
}

/// A lane that was told of two listeners at once, with room for one completion; and which of them it has not come to. Others may stand
/// behind it `before` somebody connects.
fn told_of_both(kind: Kind, names: &[Name; 2], before: impl FnOnce()) -> (Lane, usize, Socket) {
    let mut lane = Lane::new(kind, &names[0]);
    let second = Lane::listen(&mut *lane.driver, &names[1]);
    let handle = |index| Handle::new(1, index, 0);
    let listeners = [lane.listener, second];
    for (index, listener) in listeners.into_iter().enumerate() {
        lane.driver.push(handle(index as u32), StreamOp::Accept { listener }.into());
    }
    assert_eq!(lane.collect(Wait::No), 0);
    before();
    let _clients = names.each_ref().map(Name::connect);
    let mut completions = Vec::new();
    lane.driver.collect(Wait::No, 1, &mut completions);
    assert!(completions.len() == 1 && is_connection(&completions[0]), "{kind:?}");
    let left = (0..2).find(|index| completions[0].handle != handle(*index)).unwrap() as usize;
    (lane, left, listeners[left])
}

/// It stops before it comes to the second: another lane, which waits in the row already, takes that.
#[test]
fn what_a_lane_had_not_come_to_goes_to_another() {
    for kind in KINDS {
        let names = [Name::new(), Name::new()];
        let mut others = Vec::new();
        let (mut lane, left, listener) = told_of_both(kind, &names, || {
            others.extend(names.each_ref().map(|name| Lane::new(kind, name)));
            others.iter_mut().for_each(Lane::stand);
        });
        lane.driver.push(Handle::NOBODY, StreamOp::StopAccept { listener }.into());
        assert_eq!(lane.collect(Wait::No), 0);
        others[left].take();
    }
}

/// It finds nobody, since another lane was faster: it is told of the next.
#[test]
fn a_lane_that_came_too_late_is_told_of_the_next() {
    for kind in KINDS {
        let names = [Name::new(), Name::new()];
        let (mut lane, left, _) = told_of_both(kind, &names, || ());
        let mut other = Lane::new(kind, &names[left]);
        other.accept();
        other.take();
        other.stop();
        assert_eq!(other.collect(Wait::No), 0);
        assert_eq!((lane.collect(Wait::No), lane.driver.counters().receives_empty), (0, 1), "{kind:?}: nobody is there");
        let _next = names[left].connect();
        lane.take();
    }
}

/// What was accepted in one collect is one connection, however many wait: the lane may have no room for the next.
#[test]
fn a_lane_takes_one_connection_at_a_time() {
    for kind in KINDS {
        let name = Name::new();
        let mut lanes = [(); 2].map(|()| Lane::new(kind, &name));
        lanes.iter_mut().for_each(Lane::stand);
        let _clients: Vec<_> = (0..10).map(|_| name.connect()).collect();
        let [first, second] = &mut lanes;
        assert_eq!(first.collect(Wait::No), 1, "{kind:?}");
        first.stop();
        assert_eq!(first.collect(Wait::No), 0);
        (0..9).for_each(|_| second.take());
    }
}

/// After the refusal each that waits is accepted, and a lane that has found nobody sleeps.
#[test]
fn lanes_that_refuse_take_who_waits_and_sleep() {
    for kind in KINDS {
        let name = Name::new();
        let mut lanes = [(); 2].map(|()| Lane::new(kind, &name));
        lanes[0].stand();
        let _clients: Vec<_> = (0..10).map(|_| name.connect()).collect();
        let mut taken = lanes[0].collect(Wait::No);
        let Lane { driver, listener } = &mut lanes[1];
        driver.refuse_new(*listener);
        lanes[1].accept();
        while taken < 10 {
            taken += lanes.iter_mut().map(|lane| lane.collect(Wait::No)).sum::<usize>();
        }
        let calls = |lane: &Lane| lane.driver.counters().calls_work;
        for lane in &mut lanes {
            (0..3).for_each(|_| assert_eq!(lane.collect(Wait::No), 0));
            let before = calls(lane);
            (0..100).for_each(|_| assert_eq!(lane.collect(Wait::No), 0));
            assert_eq!(calls(lane), before, "{kind:?}: it asks again and again");
        }
    }
}

/// A lane whose table of descriptors is full cannot take a connection, though it is told: another one does.
#[test]
fn a_lane_without_descriptors_hands_on_what_it_is_told() {
    if !is_child("shared::a_lane_without_descriptors_hands_on_what_it_is_told") {
        return;
    }
    const DESCRIPTORS: u64 = 1_000;
    let limit = Rlimit { current: Some(DESCRIPTORS), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    for kind in KINDS {
        let name = Arc::new(Name::new());
        let (tell, told) = channel();
        let theirs = name.clone();
        let poor = std::thread::spawn(move || without_descriptors(kind, &theirs, &tell));
        let number = told.recv_timeout(PATIENCE).unwrap();
        let mut rich = Lane::new(kind, &name);
        rich.stand();
        while !sleeps(number) {
            std::thread::yield_now();
        }
        let _client = name.connect();
        rich.take();
        assert_eq!(poor.join().unwrap(), Some(Reason::NoDescriptor));
    }
}

/// Waits for a connection with a full table; tells its thread's number first. Returns what came of it.
fn without_descriptors(kind: Kind, name: &Name, tell: &Sender<i32>) -> Option<Reason> {
    // SAFETY: from here on this thread uses copies of the descriptors that it knows, and its own.
    unsafe { unshare_unsafe(UnshareFlags::FILES) }.unwrap();
    let mut lane = Lane::new(kind, name);
    lane.stand();
    let null = std::fs::File::open("/dev/null").unwrap();
    let all: Vec<_> = std::iter::from_fn(|| null.try_clone().ok()).collect();
    assert!(all.len() > 900);
    tell.send(gettid().as_raw_nonzero().get()).unwrap();
    let mut completions = Vec::new();
    while completions.is_empty() {
        lane.driver.collect(Wait::Forever, 64, &mut completions);
    }
    match completions.swap_remove(0).outcome {
        Outcome::Failed(fault) => Some(fault.reason),
        _ => None,
    }
}
