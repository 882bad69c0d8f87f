//! Outgoing connections on the real network: what comes back belongs, by key and table, to the lane that opened them.
#![forbid(unsafe_code)]

use crate::process;
use corelane::admin::watch::{Reader, ServiceCounter};
use corelane::admin::{InForce, Steering, SteeringSettings};
use corelane::lanes::{DriverChoice, Running};
use corelane::service::Ending;
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use corelane_rss::{FlowHasher, HashTypes, Key, Protocol, Tuple};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const LANES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);
/// Connections that a lane has at once.
const AT_ONCE: usize = 50;

/// Only makes the program one that is served somewhere.
struct Served;

impl StreamService for Served {
    type Talk = Silent;
    type Session = ();
    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}
    fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Close
    }
}

/// Opens connections one after the other, to each place in turn, and tells of each its lane and both ends.
struct Opener {
    to: Vec<SocketAddr>,
    left: usize,
    tell: Sender<(usize, Option<(SocketAddr, SocketAddr)>)>,
}

impl Opener {
    fn open_next(&mut self, cx: &mut Cx<'_>) {
        if self.left > 0 {
            self.left -= 1;
            cx.connect(self.to[self.left % self.to.len()], ()).unwrap();
        }
    }
}

impl StreamService for Opener {
    type Talk = Silent;
    type Session = ();

    fn started(&mut self, cx: &mut Cx<'_>) {
        (0..AT_ONCE).for_each(|_| self.open_next(cx));
    }

    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}

    fn connected(&mut self, cx: &mut Cx<'_>, _: &mut (), _: &mut Output) -> Next {
        let id = cx.id();
        let ends = cx.peer(id).and_then(|peer| Some((peer.address.inet()?, peer.local.inet()?)));
        self.tell.send((cx.lane(), ends)).unwrap();
        Next::Close
    }

    fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_>, _: (), ending: Ending) {
        if ending == Ending::Error {
            self.tell.send((cx.lane(), None)).unwrap();
        }
        self.open_next(cx);
    }
}

/// Accepts and closes for ever; the threads end with the process.
fn upstreams() -> Vec<SocketAddr> {
    let listeners = ["127.0.0.1:0", "[::1]:0"].map(|address| TcpListener::bind(address).unwrap());
    let serve = |listener: TcpListener| {
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().for_each(drop));
        address
    };
    listeners.into_iter().map(serve).collect()
}

fn count(running: &Running, counter: ServiceCounter) -> u64 {
    let page = Reader::of(running.counters()).unwrap().snapshot(0);
    page.services.iter().map(|service| service.values.get(counter)).sum()
}

struct Tally {
    home: usize,
    failed: usize,
    running: Running,
}

/// Opens so many connections, and looks at the ends of each.
fn open(driver: DriverChoice, steering: SteeringSettings, lanes: usize, connections: usize) -> Tally {
    let ((tell, told), to) = (channel(), upstreams());
    let program = Lanes::per_core().lanes(lanes).driver(driver).steering(steering);
    let opener = move |_| Opener { to: to.clone(), left: connections / lanes, tell: tell.clone() };
    let running = program.serve("tcp://127.0.0.1:0", |_| Served).unwrap().client(opener).start().unwrap();
    let hasher = FlowHasher::new(&steering.key, steering.types);
    let table = steering.table(lanes).unwrap();
    let (mut home, mut failed) = (0, 0);
    for _ in 0..connections / lanes * lanes {
        match told.recv_timeout(PATIENCE).unwrap() {
            (lane, Some((peer, local))) => {
                let hashed = hasher.tuple(&Tuple::new(peer, local, Protocol::TCP).unwrap()).unwrap();
                home += usize::from(table.lane_of(hashed.flow) == lane);
            }
            (_, None) => failed += 1,
        }
    }
    Tally { home, failed, running }
}

/// At least 99 of 100 are home, by each driver, and the counters say the same.
fn come_home(connections: usize, settings: SteeringSettings) {
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let Tally { home, failed, running } = open(driver, settings, LANES, connections);
        let all = connections / LANES * LANES;
        println!("{driver:?}: {home} of {all} are home");
        assert_eq!(failed, 0);
        assert!(home * 100 >= all * 99, "{home} of {all} are home");
        let counted = [ServiceCounter::ConnectsHome, ServiceCounter::ConnectsStray].map(|counter| count(&running, counter));
        assert_eq!(counted, [home as u64, (all - home) as u64]);
    }
}

#[test]
fn connections_come_home() {
    if process::is_parent("outgoing::connections_come_home") {
        return;
    }
    come_home(999, SteeringSettings::default());
    let mut state = 11_u64;
    let random = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state ^ state >> 29
    };
    let key = Key::random(40, random).unwrap();
    come_home(300, SteeringSettings::default().by(Steering::Classic).key(key).types(HashTypes::ALL));
}

#[test]
#[ignore = "long: ten thousand connections with each driver"]
fn ten_thousand_connections_come_home() {
    if process::is_parent("outgoing::ten_thousand_connections_come_home") {
        return;
    }
    come_home(10_000, SteeringSettings::default());
}

/// A block of ports is another's: those are passed over, and what finds none there opens all the same.
#[test]
fn ports_that_are_taken_are_passed_over() {
    if process::is_parent("outgoing::ports_that_are_taken_are_passed_over") {
        return;
    }
    let others: Vec<TcpListener> =
        (0..400).flat_map(|_| [TcpListener::bind("127.0.0.1:0"), TcpListener::bind("[::1]:0")]).map(Result::unwrap).collect();
    come_home(2_997, SteeringSettings::default());
    drop(others);
}

#[test]
fn where_no_table_steers_nothing_is_chosen() {
    if process::is_parent("outgoing::where_no_table_steers_nothing_is_chosen") {
        return;
    }
    let kernel = SteeringSettings::default().by(Steering::Kernel);
    for (settings, lanes, in_force) in [(kernel, LANES, InForce::Kernel), (SteeringSettings::default(), 1, InForce::Nothing)] {
        let Tally { failed, running, .. } = open(DriverChoice::Auto, settings, lanes, 30);
        assert_eq!((failed, running.steered().in_force()), (0, in_force));
        let counters = [ServiceCounter::ConnectsHome, ServiceCounter::ConnectsStray, ServiceCounter::Connects];
        assert_eq!(counters.map(|counter| count(&running, counter)), [0, 0, 30]);
    }
}
