//! Steering on the real network: every flow on the lane of its bucket, by each means, while tables change and lanes come and go.
#![forbid(unsafe_code)]

use crate::process;
use corelane::admin::{InForce, Steering, SteeringError, SteeringSettings};
use corelane::lanes::{DriverChoice, Running};
use corelane::service::Flow;
use corelane::{Cx, DatagramService, Datagrams, Input, Lanes, Next, Output, Peer, Replies, Silent, StreamService};
use corelane_rss::{Buckets, FlowHasher, Protocol, Table, Transport, Tuple};
use corelane_select::holders::holders;
use nix::libc::{BPF_K, BPF_RET, sock_filter, sock_fprog};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket, sockopt};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// New flows for each check, as in the project's promise.
const FLOWS: usize = 400;
const LANES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells who asks on which lane they are, and as which flow.
struct Where;

fn answer(lane: usize, flow: Option<Flow>) -> [u8; 8] {
    let flow = flow.unwrap();
    let [a, b, c, d] = flow.id.0.to_be_bytes();
    let [high, low] = (flow.bucket.index() as u16).to_be_bytes();
    [lane as u8, flow.hash_type.bit() as u8, a, b, c, d, high, low]
}

impl StreamService for Where {
    type Talk = Silent;
    type Session = Option<Flow>;

    fn open(&mut self, _: &mut Cx<'_>, peer: &Peer) -> Option<Flow> {
        peer.flow
    }

    fn receive(&mut self, cx: &mut Cx<'_>, flow: &mut Option<Flow>, input: &mut Input, output: &mut Output) -> Next {
        for _ in 0..input.len() {
            output.write(&answer(cx.lane(), *flow)).unwrap();
        }
        input.skip(input.len());
        Next::Continue
    }
}

impl DatagramService for Where {
    type Talk = Silent;
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            let told = answer(cx.lane(), cx.flow(arrival));
            let told: Vec<u8> = (0..arrival.datagrams()).flat_map(|_| told).collect();
            let payload = cx.arena().copy_of(&told).unwrap().share();
            replies.reply(arrival, payload, 8);
        }
    }
}

fn settings(steering: Steering) -> SteeringSettings {
    SteeringSettings::default().by(steering)
}

fn serve(driver: DriverChoice, settings: SteeringSettings, hosts: &[&str]) -> Running {
    let lanes = Lanes::per_core().lanes(LANES).driver(driver).steering(settings);
    let add = |lanes: Lanes, host: &&str| {
        let lanes = lanes.serve(&format!("tcp://{host}:0"), |_| Where)?;
        lanes.serve_datagrams(&format!("udp://{host}:0"), |_| Where)
    };
    hosts.iter().try_fold(lanes, add).unwrap().start().unwrap()
}

/// Where clients reach a place.
fn reached(at: SocketAddr) -> Vec<SocketAddr> {
    let loopback = ["127.0.0.1", "::1"].map(|ip| SocketAddr::new(ip.parse::<IpAddr>().unwrap(), at.port()));
    if at.ip().is_unspecified() { loopback.to_vec() } else { vec![at] }
}

/// The client's end of a flow, kept open so that its port is nobody else's.
enum Client {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Client {
    fn open(protocol: Protocol, to: SocketAddr) -> Self {
        if protocol == Protocol::TCP {
            let stream = TcpStream::connect(to).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            return Self::Tcp(stream);
        }
        let own = if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let socket = UdpSocket::bind(own).unwrap();
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::Udp(socket)
    }

    fn tuple(&self) -> Tuple {
        let (local, peer, protocol) = match self {
            Self::Tcp(stream) => (stream.local_addr(), stream.peer_addr(), Protocol::TCP),
            Self::Udp(socket) => (socket.local_addr(), socket.peer_addr(), Protocol::UDP),
        };
        Tuple::new(local.unwrap(), peer.unwrap(), protocol).unwrap()
    }

    fn ask(&mut self) -> [u8; 8] {
        let mut answer = [0; 8];
        match self {
            Self::Tcp(stream) => {
                stream.write_all(b"?").unwrap();
                stream.read_exact(&mut answer).unwrap();
            }
            Self::Udp(socket) => {
                socket.send(b"?").unwrap();
                assert_eq!(socket.recv(&mut answer).unwrap(), 8);
            }
        }
        answer
    }

    /// Asks, and checks all that the answer tells. The lane is that of `table`.
    fn check(&mut self, hasher: &FlowHasher, table: &Table) {
        let hashed = hasher.tuple(&self.tuple()).unwrap();
        let flow = Flow { id: hashed.flow, hash_type: hashed.hash_type, bucket: table.buckets().of(hashed.flow) };
        assert_eq!(self.ask(), answer(table.lane_of(hashed.flow), Some(flow)), "{:?}", self.tuple());
    }
}

fn protocols(running: &Running) -> Vec<(Protocol, SocketAddr)> {
    let places = running.places().iter();
    let protocol = |url: String| if url.starts_with("tcp") { Protocol::TCP } else { Protocol::UDP };
    places
        .flat_map(|place| {
            reached(place.address().inet().unwrap()).into_iter().map(move |to| (protocol(place.url.to_string()), to))
        })
        .collect()
}

/// 400 new flows to each place that is served: 400 on the right lane.
fn check_new(running: &Running) {
    let (hasher, table) = (running.steered().hasher(), running.steered().table());
    for (protocol, to) in protocols(running) {
        let mut clients: Vec<Client> = (0..FLOWS).map(|_| Client::open(protocol, to)).collect();
        clients.iter_mut().for_each(|client| client.check(hasher, &table));
    }
}

/// A table that gives every bucket to another lane than `table` does.
fn moved(table: &Table) -> Table {
    let mut moved = table.clone();
    for bucket in table.buckets().all() {
        moved.set(bucket, (table.lane(bucket) + 1) % LANES).unwrap();
    }
    moved
}

fn strays(running: &Running) -> u64 {
    let snapshot = corelane::admin::watch::Reader::of(running.counters()).unwrap().snapshot(0);
    snapshot.services.iter().map(|service| service.values.get(corelane::admin::watch::ServiceCounter::Strays)).sum()
}

const HOSTS: [&str; 3] = ["127.0.0.1", "[::1]", "[::]"];

/// The means that this process may use; the program needs root.
fn means() -> Vec<(Steering, InForce)> {
    let program = serve(DriverChoice::Auto, SteeringSettings::default(), &HOSTS[..1]).steered().in_force() == InForce::Program;
    let classic = (Steering::Classic, InForce::Classic);
    if program { vec![(Steering::Program, InForce::Program), classic] } else { vec![classic] }
}

#[test]
fn all_flows_are_right_before_and_after_a_rewrite() {
    if process::is_parent("steering::all_flows_are_right_before_and_after_a_rewrite") {
        return;
    }
    for (steering, in_force) in means() {
        for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
            let running = serve(driver, settings(steering), &HOSTS);
            assert_eq!(running.steered().in_force(), in_force);
            check_new(&running);
            let table = moved(&running.steered().table());
            running.steered().rewrite(&table).unwrap();
            assert_eq!(running.steered().table(), table);
            check_new(&running);
            assert_eq!(strays(&running), 0, "{in_force}");
        }
    }
}

/// Opens connections, one after the other on each of some threads, until told to stop; each must be answered on a lane.
struct Load {
    stop: AtomicBool,
    answered: AtomicU64,
    lost: AtomicU64,
}

const CLIENTS: usize = 4;

impl Load {
    /// Runs clients against `to` while `body` does its part; returns how many connections were answered, and how many were lost.
    fn during(to: SocketAddr, body: impl FnOnce(&Load)) -> (u64, u64) {
        let load = Load { stop: AtomicBool::new(false), answered: AtomicU64::new(0), lost: AtomicU64::new(0) };
        std::thread::scope(|scope| {
            (0..CLIENTS).for_each(|_| drop(scope.spawn(|| load.client(to))));
            body(&load);
            load.stop.store(true, Ordering::Relaxed);
        });
        (load.answered.into_inner(), load.lost.into_inner())
    }

    fn client(&self, to: SocketAddr) {
        while !self.stop.load(Ordering::Relaxed) {
            match asked(to) {
                Ok(()) => self.answered.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    eprintln!("lost: {error}");
                    self.lost.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
    }

    /// Waits until so many more have been answered, or one was lost.
    fn go_on(&self, more: u64) {
        let enough = self.answered.load(Ordering::Relaxed) + more;
        while self.answered.load(Ordering::Relaxed) < enough && self.lost.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
    }
}

/// One connection with one request.
fn asked(to: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"?")?;
    stream.read_exact(&mut [0; 8])
}

/// Each lane in turn leaves and comes back, under load, until `connections` have been answered. None is lost.
fn lanes_come_and_go(steering: Steering, connections: u64) {
    let running = serve(DriverChoice::Auto, settings(steering), &HOSTS[..1]);
    let (steered, to) = (running.steered(), running.address());
    let mut stays = Client::open(Protocol::TCP, to.inet().unwrap());
    let before = stays.ask();
    let rounds = 3 * LANES as u64;
    let (answered, lost) = Load::during(to.inet().unwrap(), |load| {
        for round in 0..rounds {
            let lane = round as usize % LANES;
            load.go_on(connections / rounds / 2);
            steered.leave(lane).unwrap();
            assert_eq!(steered.table().owned(lane).count(), 0);
            load.go_on(connections / rounds / 2 + 1);
            steered.enter(lane).unwrap();
            assert!(steered.table().owned(lane).count() >= 128 / LANES);
        }
        load.go_on(connections.saturating_sub(load.answered.load(Ordering::Relaxed)));
    });
    println!("{steering:?}: {answered} answered, {lost} lost, {} strays", strays(&running));
    assert_eq!(lost, 0);
    assert!(answered >= connections);
    assert_eq!(stays.ask(), before, "a connection lives on, on the lane that it had");
    let before = strays(&running);
    check_new(&running);
    assert_eq!(strays(&running), before);
}

#[test]
fn no_connection_is_lost_while_lanes_leave_and_come_back() {
    if process::is_parent("steering::no_connection_is_lost_while_lanes_leave_and_come_back") {
        return;
    }
    means().into_iter().for_each(|(steering, _)| lanes_come_and_go(steering, 2_000));
}

#[test]
fn flows_are_right_as_soon_as_a_lane_has_left_and_as_soon_as_it_is_back() {
    if process::is_parent("steering::flows_are_right_as_soon_as_a_lane_has_left_and_as_soon_as_it_is_back") {
        return;
    }
    for (steering, in_force) in means() {
        let running = serve(DriverChoice::Auto, settings(steering), &HOSTS[..1]);
        for lane in 0..LANES {
            running.steered().leave(lane).unwrap();
            check_new(&running);
            running.steered().enter(lane).unwrap();
            check_new(&running);
        }
        assert_eq!(strays(&running), 0, "{in_force}");
    }
}

#[test]
#[ignore = "long: ten thousand connections with each means"]
fn no_connection_of_ten_thousand_is_lost() {
    means().into_iter().for_each(|(steering, _)| lanes_come_and_go(steering, 10_000));
}

/// Has another program choose at `at`: one that sends everything to the first socket.
fn take_over(at: SocketAddr) -> OwnedFd {
    let own = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
    setsockopt(&own, sockopt::ReusePort, &true).unwrap();
    bind(own.as_raw_fd(), &SockaddrStorage::from(at)).unwrap();
    listen(&own, Backlog::new(1).unwrap()).unwrap();
    let mut first = [sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    let program = sock_fprog { len: 1, filter: first.as_mut_ptr() };
    setsockopt(&own, sockopt::AttachReusePortCbpf, &program).unwrap();
    own
}

#[test]
fn what_others_took_over_is_taken_back_when_they_are_gone() {
    if process::is_parent("steering::what_others_took_over_is_taken_back_when_they_are_gone") {
        return;
    }
    for (steering, _) in means() {
        let running = serve(DriverChoice::Auto, settings(steering), &HOSTS[..1]);
        let other = take_over(running.address().inet().unwrap());
        (0..16).for_each(|_| asked(running.address().inet().unwrap()).unwrap());
        assert!(strays(&running) > 0, "all went to one lane");
        drop(other);
        // A lane looks at its strays once a second.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = strays(&running);
            (0..64).for_each(|_| asked(running.address().inet().unwrap()).unwrap());
            if strays(&running) == before {
                break;
            }
            assert!(Instant::now() < deadline, "{steering:?}: flows still stray");
        }
        check_new(&running);
    }
}

/// While somebody else really serves at an address, what they have attached stays, however much strays.
#[test]
fn nobody_is_fought_who_still_serves_at_the_address() {
    if process::is_parent("steering::nobody_is_fought_who_still_serves_at_the_address") {
        return;
    }
    for (steering, _) in means() {
        let running = serve(DriverChoice::Auto, settings(steering), &HOSTS[..1]);
        let _other = take_over(running.address().inet().unwrap());
        // A lane looks at its strays once a second: this is long enough for some looks.
        let until = Instant::now() + 4 * Duration::from_secs(1);
        while Instant::now() < until {
            let before = strays(&running);
            (0..64).for_each(|_| asked(running.address().inet().unwrap()).unwrap());
            assert!(strays(&running) > before, "{steering:?}: what others have attached was taken away");
        }
    }
}

/// Sockets at each place of the lanes.
fn sockets(running: &Running) -> Vec<usize> {
    let transport = |url: String| if url.starts_with("tcp") { Transport::Tcp } else { Transport::Udp };
    let places = running.places().iter();
    places.map(|place| holders(transport(place.url.to_string()), place.address().inet().unwrap()).unwrap().len()).collect()
}

/// A lane that comes back and cannot open all of its places has none of them: with one descriptor too few, two too few, and so on.
#[test]
fn a_lane_that_cannot_come_back_leaves_no_socket() {
    if process::is_parent("steering::a_lane_that_cannot_come_back_leaves_no_socket") {
        return;
    }
    for (steering, _) in means() {
        let running = serve(DriverChoice::Auto, settings(steering), &HOSTS[..2]);
        assert_eq!(sockets(&running), [LANES; 4]);
        running.steered().leave(1).unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let enter = |descriptors: u64| {
            setrlimit(Resource::RLIMIT_NOFILE, descriptors, hard).unwrap();
            let entered = running.steered().enter(1);
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
            entered
        };
        let mut reasons: Vec<String> = Vec::new();
        for descriptors in 3.. {
            let Err(error) = enter(descriptors) else { break };
            reasons.push(error.to_string());
            assert_eq!(sockets(&running), [LANES - 1; 4], "{steering:?}, {descriptors} descriptors: {error}");
            assert_eq!(running.steered().present(), [true, false, true]);
        }
        reasons.dedup();
        assert!(reasons.len() >= 3, "{steering:?}: each place fails once: {reasons:?}");
        assert_eq!(sockets(&running), [LANES; 4]);
        check_new(&running);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    if process::is_parent("steering::what_cannot_be_is_refused") {
        return;
    }
    let running = serve(DriverChoice::Auto, settings(Steering::Classic), &HOSTS[..1]);
    let steered = running.steered();
    let refused = steered.leave(LANES).unwrap_err();
    assert!(refused.to_string().contains("there is no lane 3"), "{refused}");
    assert_eq!(steered.enter(0), Err(SteeringError::LanePresent { lane: 0 }));
    steered.leave(0).unwrap();
    assert_eq!(steered.leave(0), Err(SteeringError::LaneAway { lane: 0 }));
    let even = Table::even(Buckets::DEFAULT, LANES).unwrap();
    assert_eq!(steered.rewrite(&even), Err(SteeringError::LaneAway { lane: 0 }));
    steered.leave(1).unwrap();
    assert!(matches!(steered.leave(2), Err(SteeringError::Table(_))), "the last lane stays");
    check_new(&running);
    let small = Table::weighted(Buckets::new(8).unwrap(), &[0, 0, 1]).unwrap();
    assert!(matches!(steered.rewrite(&small), Err(SteeringError::Refused(_))));
    let kernel = serve(DriverChoice::Auto, settings(Steering::Kernel), &HOSTS[..1]);
    assert_eq!(kernel.steered().rewrite(&even), Err(SteeringError::NotSteered { in_force: InForce::Kernel }));
    let handle = running.steered().clone();
    running.drain();
    running.wait().unwrap();
    assert_eq!(handle.rewrite(&handle.table()), Err(SteeringError::LaneEnded { lane: 2 }));
}
