//! Outgoing connections: each takes a port whose answers belong to its lane, as long as there is one, and opens all the same if not.

use crate::for_seeds;
use crate::rig::{Play, Rig, RigPlan, patient};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Protocol, Table, Tuple};
use corelane_seam::Reason;
use corelane_sim::{Faults, Peer, Turn, World};
use corelane_svc::{Cx, Ending, Flows, Input, Next, Output, Silent, StreamService};
use corelane_watch::ServiceCounter as C;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const LANES: usize = 3;
/// Connections that each lane opens in its first turn.
const AT_ONCE: usize = 60;

/// Where the peers of the outgoing connections listen.
fn upstreams() -> [SocketAddr; 2] {
    ["198.51.100.1:80", "198.51.100.2:443"].map(|address| address.parse().unwrap())
}

/// A connection that was open: its lane, and its two ends.
type Seen = Rc<RefCell<Vec<(usize, SocketAddr, SocketAddr)>>>;

/// Opens all connections at once, and notes what becomes of them.
struct Opener {
    from: Option<SocketAddr>,
    seen: Seen,
    failed: Rc<RefCell<Vec<Option<Reason>>>>,
}

impl StreamService for Opener {
    type Talk = Silent;
    type Session = ();

    fn started(&mut self, cx: &mut Cx<'_>) {
        for number in 0..AT_ONCE {
            cx.connect_from(self.from.map(Into::into), upstreams()[number % 2], ()).unwrap();
        }
    }

    fn open(&mut self, _: &mut Cx<'_>, _: &corelane_svc::Peer) {}

    fn connected(&mut self, cx: &mut Cx<'_>, _: &mut (), _: &mut Output) -> Next {
        let id = cx.id();
        let peer = cx.peer(id).unwrap();
        self.seen.borrow_mut().push((cx.lane(), peer.address.inet().unwrap(), peer.local.inet().unwrap()));
        Next::Continue
    }

    fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_>, _: (), ending: Ending) {
        if ending == Ending::Error {
            self.failed.borrow_mut().push(cx.fault().map(|fault| fault.reason));
        }
    }
}

/// The peers: they keep what comes until all are there.
struct Upstreams {
    wanted: usize,
    seen: Seen,
    peers: Vec<Peer>,
}

impl Play for Upstreams {
    fn news(&mut self, _: &World, turn: Turn) {
        if let Turn::Incoming(peer) = turn {
            self.peers.push(peer);
        }
    }

    fn is_over(&self) -> bool {
        self.seen.borrow().len() == self.wanted
    }
}

struct Run {
    rig: Rig,
    hasher: Arc<FlowHasher>,
    table: Table,
    seen: Seen,
    upstreams: Upstreams,
}

impl Run {
    /// Lanes whose ports are chosen among `ports`, and that open connections from `from`, until all are open.
    fn new(seed: u64, lanes: usize, ports: RangeInclusive<u16>, from: Option<SocketAddr>) -> Self {
        let world = World::new(seed, Faults::default());
        upstreams().iter().for_each(|address| world.listen(*address).unwrap());
        let (hasher, table) =
            (Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL)), Table::even(Buckets::DEFAULT, lanes).unwrap());
        let (seen, failed) = (Seen::default(), Rc::default());
        let rig = Rig::new(&world, &RigPlan::lanes(lanes), |roster| {
            let flows = Flows::new(hasher.clone(), table.clone());
            roster.tune(|services| services.set_flows(flows));
            let ports = vec![ports.clone()];
            roster.tune(|services| services.set_ports(ports));
            let opener = Opener { from, seen: seen.clone(), failed: Rc::clone(&failed) };
            roster.client(patient(), opener);
        });
        let upstreams = Upstreams { wanted: lanes * AT_ONCE, seen: seen.clone(), peers: Vec::new() };
        let mut run = Self { rig, hasher, table, seen, upstreams };
        assert!(run.rig.play(&mut run.upstreams), "{} connections are open", run.seen.borrow().len());
        assert_eq!(*failed.borrow(), [], "none has failed");
        run
    }

    /// How many of the connections are home, by their ends.
    fn home(&self) -> usize {
        let lane =
            |peer, local| self.table.lane_of(self.hasher.tuple(&Tuple::new(peer, local, Protocol::TCP).unwrap()).unwrap().flow);
        self.seen.borrow().iter().filter(|(caller, peer, local)| lane(*peer, *local) == *caller).count()
    }

    /// The counters say what the ends say, and all ends well.
    fn close(mut self) -> usize {
        let (home, all) = (self.home(), self.upstreams.wanted);
        assert_eq!((self.rig.count(C::ConnectsHome), self.rig.count(C::ConnectsStray)), (home as u64, (all - home) as u64));
        assert_eq!((self.rig.count(C::Connects), self.rig.count(C::ConnectsFailed)), (all as u64, 0));
        self.upstreams.peers.iter().for_each(Peer::close);
        self.rig.close(&mut self.upstreams);
        home
    }
}

#[test]
fn connections_come_home() {
    for_seeds(20, |seed| {
        for from in [None, Some("10.0.0.1:0".parse().unwrap()), Some("0.0.0.0:0".parse().unwrap())] {
            let run = Run::new(seed, LANES, 32_768..=60_999, from);
            assert_eq!(run.close(), LANES * AT_ONCE);
        }
    });
}

/// Each of 18 ports leads home to one lane from each of the two peers; the lanes find and use all of them.
#[test]
fn without_a_port_that_leads_home_the_system_chooses() {
    for_seeds(20, |seed| {
        let run = Run::new(seed, LANES, 50_000..=50_017, None);
        let chosen = run.seen.borrow().iter().filter(|(_, _, local)| (50_000..=50_017).contains(&local.port())).count();
        assert_eq!(chosen, 36);
        assert!((chosen..LANES * AT_ONCE).contains(&run.close()));
    });
}

#[test]
fn with_one_lane_nothing_is_chosen() {
    let run = Run::new(1, 1, 50_000..=50_000, None);
    assert!(run.seen.borrow().iter().all(|(_, _, local)| local.port() != 50_000), "the system chose");
    assert_eq!(run.close(), AT_ONCE);
}

/// Whoever gives up while the route is looked for, or the port is taken, is told once and leaves nothing behind.
#[test]
fn those_that_are_given_up_end_once() {
    struct Fickle(Rc<RefCell<Vec<Ending>>>);
    impl StreamService for Fickle {
        type Talk = Silent;
        type Session = ();
        fn started(&mut self, cx: &mut Cx<'_>) {
            let id = cx.connect(upstreams()[0], ()).unwrap();
            cx.abort(id);
            cx.connect("203.0.113.1:9".parse::<corelane_seam::Address>().unwrap(), ()).unwrap();
        }
        fn open(&mut self, _: &mut Cx<'_>, _: &corelane_svc::Peer) {}
        fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), _: &mut Input, _: &mut Output) -> Next {
            Next::Continue
        }
        fn closed(&mut self, _: &mut Cx<'_>, _: (), ending: Ending) {
            self.0.borrow_mut().push(ending);
        }
    }
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults { late_completion: 300, cancel_race: 300, ..Faults::default() });
        world.listen(upstreams()[0]).unwrap();
        let (hasher, endings) = (Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL)), Rc::default());
        let mut rig = Rig::new(&world, &RigPlan::lanes(2), |roster| {
            let flows = Flows::new(hasher.clone(), Table::even(Buckets::DEFAULT, 2).unwrap());
            roster.tune(|services| services.set_flows(flows));
            roster.tune(|services| services.set_ports(vec![40_000..=50_000]));
            roster.client(patient(), Fickle(Rc::clone(&endings)));
        });
        rig.wait(crate::rig::S);
        let mut told = endings.borrow().clone();
        told.sort_by_key(|ending| *ending == Ending::Error);
        assert_eq!(told, [Ending::Aborted, Ending::Aborted, Ending::Error, Ending::Error]);
        assert_eq!((rig.count(C::ConnectsFailed), rig.connections()), (4, 0));
        rig.close(&mut crate::rig::Nobody);
    });
}

/// Our address towards a peer is remembered for a second. When it is ours no more, it is looked for again at once, so that the
/// connection still comes home.
#[test]
fn an_address_that_is_ours_no_more_is_forgotten() {
    struct Twice(Rc<RefCell<Vec<(usize, SocketAddr, SocketAddr)>>>);
    impl StreamService for Twice {
        type Talk = Silent;
        type Session = ();
        fn started(&mut self, cx: &mut Cx<'_>) {
            self.alarm(cx, 0);
        }
        fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
            cx.connect(upstreams()[0], ()).unwrap();
        }
        fn open(&mut self, _: &mut Cx<'_>, _: &corelane_svc::Peer) {}
        fn connected(&mut self, cx: &mut Cx<'_>, _: &mut (), _: &mut Output) -> Next {
            let peer = cx.peer(cx.id()).unwrap();
            self.0.borrow_mut().push((cx.lane(), peer.address.inet().unwrap(), peer.local.inet().unwrap()));
            if self.0.borrow().len() <= LANES {
                cx.start_alarm(Duration::from_millis(100), 0).unwrap();
            }
            Next::Continue
        }
        fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), _: &mut Input, _: &mut Output) -> Next {
            Next::Continue
        }
    }
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults::none());
        world.listen(upstreams()[0]).unwrap();
        let (hasher, seen) = (Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL)), Seen::default());
        let mut rig = Rig::new(&world, &RigPlan::lanes(LANES), |roster| {
            let flows = Flows::new(hasher.clone(), Table::even(Buckets::DEFAULT, LANES).unwrap());
            roster.tune(|services| services.set_flows(flows));
            roster.tune(|services| services.set_ports(vec![32_768..=60_999]));
            roster.client(patient(), Twice(seen.clone()));
        });
        let mut upstreams = Upstreams { wanted: LANES, seen: seen.clone(), peers: Vec::new() };
        assert!(rig.play(&mut upstreams));
        let moved_at = world.now();
        world.renumber(&["10.0.0.77".parse().unwrap()]);
        upstreams.wanted = 2 * LANES;
        assert!(rig.play(&mut upstreams));
        assert!(world.now() < moved_at + crate::rig::S / 2, "what was remembered is still believed");
        let moved = seen.borrow().iter().filter(|(_, _, local)| local.ip() == SocketAddr::from(([10, 0, 0, 77], 0)).ip()).count();
        assert_eq!((moved, rig.count(C::ConnectsHome), rig.count(C::ConnectsStray)), (LANES, 2 * LANES as u64, 0));
        upstreams.peers.iter().for_each(Peer::close);
        rig.close(&mut upstreams);
    });
}
