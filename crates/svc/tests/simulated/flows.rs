//! What is told of flows, how strays are counted, and lanes that leave and come back.

use crate::for_seeds;
use crate::rig::{Family, MS, Nobody, Rig, RigPlan, S, address, at, client};
use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, Protocol, Table, Tuple};
use corelane_seam::Datagrams;
use corelane_sim::{Faults, Status, World};
use corelane_svc::{
    Command, Cx, DatagramService, Error, Flow, Flows, Input, Limits, Next, Output, Peer, Replies, Silent, SocketId, Steer,
    StreamService,
};
use corelane_watch::ServiceCounter as C;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// What a lane was told of something that came: the lane, both ends, the protocol, the flow.
type Seen = Rc<RefCell<Vec<(usize, SocketAddr, SocketAddr, Protocol, Option<Flow>)>>>;

/// Notes every flow, and answers with what it got.
#[derive(Clone)]
struct Witness(Seen);

impl StreamService for Witness {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, cx: &mut Cx<'_>, peer: &Peer) {
        self.0.borrow_mut().push((cx.lane(), peer.address.inet().unwrap(), peer.local.inet().unwrap(), Protocol::TCP, peer.flow));
    }

    fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), input: &mut Input, output: &mut Output) -> Next {
        output.forward(input.take_all());
        Next::Continue
    }
}

impl DatagramService for Witness {
    type Talk = Silent;
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            let asked = SocketAddr::new(arrival.asked.unwrap_or(at(PORT).ip()), PORT);
            let flow = cx.flow(arrival);
            self.0.borrow_mut().push((cx.lane(), arrival.peer.inet().unwrap(), asked, Protocol::UDP, flow));
            replies.echo(batch, arrival);
        }
    }
}

const PORT: u16 = 9;

fn hasher() -> FlowHasher {
    FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL)
}

fn table(lanes: usize) -> Table {
    Table::even(Buckets::new(256).unwrap(), lanes).unwrap()
}

/// Lanes that serve connections at [`address`] and datagrams at [`PORT`], on one host or on all of the machine's.
fn rig(world: &World, lanes: usize, wildcard: bool, seen: &Seen) -> Rig {
    let hasher = Arc::new(hasher());
    let mut plan = RigPlan::lanes(lanes).memory(1 << 20);
    plan.settings.channel_messages = 2; // there are channels between all lanes
    Rig::new(world, &plan, move |roster| {
        let flows = Flows::new(hasher.clone(), table(lanes));
        roster.tune(|services| services.set_flows(flows));
        let place = |at: SocketAddr| if wildcard { SocketAddr::from(([0, 0, 0, 0], at.port())) } else { at };
        roster.serve(place(address()), Limits::default(), Witness(seen.clone()));
        roster.serve_datagrams(place(at(PORT)), Limits::default(), Witness(seen.clone()));
    })
}

/// 100 connections and 100 datagrams; all that is told of them is as the software has it, and strays are counted exactly.
fn tells_flows(seed: u64, lanes: usize) {
    let world = World::new(seed, Faults::none());
    let seen = Seen::default();
    let mut rig = rig(&world, lanes, seed.is_multiple_of(2), &seen);
    let peers: Vec<_> = (0..100).map(|number| rig.connect(number)).collect();
    let shouters: Vec<_> =
        (0..100u16).map(|number| world.bind(SocketAddr::from(([192, 0, 2, 7], 3000 + number))).unwrap()).collect();
    shouters.iter().for_each(|shouter| shouter.send(at(PORT), b"hello").unwrap());
    rig.wait(S);
    let (hasher, table) = (hasher(), table(lanes));
    let mut strays = [0, 0];
    for (lane, peer, local, protocol, flow) in seen.borrow().iter() {
        let hashed = hasher.tuple(&Tuple::new(*peer, *local, *protocol).unwrap()).unwrap();
        let bucket = table.buckets().of(hashed.flow);
        assert_eq!(*flow, Some(Flow { id: hashed.flow, hash_type: hashed.hash_type, bucket }));
        strays[usize::from(*protocol == Protocol::UDP)] += u64::from(table.lane(bucket) != *lane);
    }
    assert_eq!(seen.borrow().len(), peers.len() + shouters.len());
    assert_eq!([rig.count_of(0, C::Strays), rig.count_of(1, C::Strays)], strays);
    assert!(strays[0] > 0 && strays[1] > 0, "the simulated network has another hash: {strays:?}");
}

#[test]
fn what_is_told_of_flows_is_what_the_software_has() {
    for (lanes, seeds) in [(2, 8), (3, 8), (16, 4), (64, 2), (256, 1)] {
        for_seeds(seeds, |seed| tells_flows(seed, lanes));
    }
}

#[test]
fn one_lane_has_no_strays() {
    let world = World::new(1, Faults::none());
    let seen = Seen::default();
    let mut rig = rig(&world, 1, false, &seen);
    let _peers: Vec<_> = (0..50).map(|number| rig.connect(number)).collect();
    rig.wait(S);
    assert_eq!((seen.borrow().len(), rig.count_of(0, C::Strays)), (50, 0));
}

/// Where each answer came to, and its flow.
type Answers = Rc<RefCell<Vec<(SocketAddr, Option<Flow>)>>>;

/// Asks `to` from a socket that has it as its only peer, and from one that has not.
struct Asker {
    to: SocketAddr,
    flows: Answers,
    locals: Vec<(SocketId, SocketAddr)>,
}

impl DatagramService for Asker {
    type Talk = Silent;
    fn started(&mut self, cx: &mut Cx<'_>) {
        for peer in [Some(self.to), None] {
            let socket = cx.open_datagrams(SocketAddr::from(([10, 0, 0, 1], 0)), peer.map(Into::into)).unwrap();
            assert!(cx.datagrams(socket).unwrap().send(self.to, None, &b"?"[..]));
        }
    }

    fn opened(&mut self, _: &mut Cx<'_>, socket: SocketId, outcome: Result<corelane_seam::Address, corelane_seam::Fault>) {
        self.locals.push((socket, outcome.unwrap().inet().unwrap()));
    }

    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, _: &mut Replies) {
        let socket = cx.socket();
        let local = self.locals.iter().find(|(opened, _)| *opened == socket).unwrap().1;
        for arrival in batch.arrivals() {
            let flow = cx.flow(arrival);
            self.flows.borrow_mut().push((local, flow));
        }
    }
}

#[test]
fn a_socket_of_a_client_knows_the_flow_of_its_answers_and_counts_no_strays() {
    let world = World::new(1, Faults::none());
    let flows = Rc::default();
    let shouter = world.bind(SocketAddr::from(([192, 0, 2, 7], 70))).unwrap();
    let to = shouter.local();
    let mut rig = Rig::new(&world, &RigPlan::lanes(2), |roster| {
        let steering = Flows::new(Arc::new(hasher()), table(2));
        roster.tune(|services| services.set_flows(steering));
        let asker = Asker { to, flows: Rc::clone(&flows), locals: Vec::new() };
        roster.client_datagrams(Limits::default(), asker);
    });
    rig.wait(S);
    while let Some((from, bytes)) = shouter.receive() {
        shouter.send(from, &bytes).unwrap();
    }
    rig.wait(S);
    assert_eq!(flows.borrow().len(), 4);
    for (local, flow) in flows.borrow().iter() {
        let hashed = hasher().tuple(&Tuple::new(to, *local, Protocol::UDP).unwrap()).unwrap();
        assert_eq!(flow.map(|flow| flow.id), Some(hashed.flow));
    }
    assert_eq!(rig.count(C::Strays), 0);
}

/// Tells a lane something; the answer comes when the lane has done it.
fn tell(rig: &Rig, lane: usize, command: Command) -> Receiver<Result<(), Error>> {
    let (done, answer) = channel();
    // A lane that has ended hears nothing: then the word is dropped, and so is `done`.
    let _ = rig.tell.tell(lane, Steer { command, reply: Box::new(move |result| done.send(result).unwrap()) });
    answer
}

#[test]
fn a_new_table_decides_what_is_a_stray() {
    let world = World::new(3, Faults::none());
    let seen = Seen::default();
    let mut rig = rig(&world, 2, false, &seen);
    // By this table everything belongs to lane 0.
    let all: Vec<_> =
        (0..2).map(|lane| tell(&rig, lane, Command::Table(Table::weighted(Buckets::DEFAULT, &[1]).unwrap()))).collect();
    rig.wait(MS);
    assert!(all.iter().all(|answer| answer.try_recv() == Ok(Ok(()))));
    let _peers: Vec<_> = (0..50).map(|number| rig.connect(number)).collect();
    rig.wait(S);
    let at_lane_1 = seen.borrow().iter().filter(|seen| seen.0 == 1).count() as u64;
    assert!(at_lane_1 > 0);
    assert_eq!(rig.count_of(0, C::Strays), at_lane_1);
    assert!(seen.borrow().iter().all(|seen| seen.4.unwrap().bucket.index() < 128));
}

/// The lanes that new connections come to.
fn lanes_of_new(rig: &mut Rig, seen: &Seen, first: usize) -> Vec<usize> {
    seen.borrow_mut().clear();
    let peers: Vec<_> = (first..first + 60).map(|number| rig.connect(number)).collect();
    rig.wait(S);
    assert!(peers.iter().all(|peer| peer.status() == Status::Open));
    let mut lanes: Vec<_> = seen.borrow().iter().map(|seen| seen.0).collect();
    assert_eq!(lanes.len(), peers.len());
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

#[test]
fn a_lane_that_leaves_accepts_what_waits_and_comes_back() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults::none());
        let seen = Seen::default();
        let mut rig = rig(&world, 3, false, &seen);
        let early: Vec<_> = (0..60).map(|number| rig.connect(number)).collect();
        rig.wait(MS * (seed % 20) as u32 / 4);
        let left = tell(&rig, 1, Command::Leave);
        rig.wait(S);
        assert_eq!(left.try_recv(), Ok(Ok(())));
        assert!(early.iter().all(|peer| peer.status() == Status::Open), "a connection that waited is lost");
        assert_eq!(lanes_of_new(&mut rig, &seen, 60), [0, 2]);
        for peer in &early {
            assert_eq!(rig.ask(peer, "still there?"), "still there?");
        }
        let back = tell(&rig, 1, Command::Enter);
        rig.wait(MS);
        assert_eq!(back.try_recv(), Ok(Ok(())));
        assert_eq!(lanes_of_new(&mut rig, &seen, 120), [0, 1, 2]);
        let datagrams = world.bind(client(7)).unwrap();
        datagrams.send(at(PORT), b"hello").unwrap();
        rig.wait(S);
        assert_eq!(datagrams.receive(), Some((at(PORT), b"hello".to_vec())));
        rig.close(&mut Nobody);
    });
}

#[test]
fn a_drain_while_a_lane_leaves_ends_both() {
    let world = World::new(5, Faults::none());
    let mut rig = rig(&world, 2, false, &Seen::default());
    rig.wait(MS);
    let left = tell(&rig, 1, Command::Leave);
    let again = tell(&rig, 1, Command::Leave);
    rig.wait(MS);
    assert_eq!((left.try_recv(), again.try_recv()), (Err(TryRecvError::Empty), Ok(Err(Error::Draining))));
    rig.close(&mut Nobody);
    assert_eq!(left.try_recv(), Ok(Ok(())));
    assert_eq!(tell(&rig, 1, Command::Enter).try_recv(), Err(TryRecvError::Disconnected), "an ended lane hears nothing");
}

/// Counts whom its lane accepts.
struct Counting(Rc<RefCell<[usize; 2]>>);

impl StreamService for Counting {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, cx: &mut Cx<'_>, _: &Peer) {
        self.0.borrow_mut()[cx.lane()] += 1;
    }

    fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), input: &mut Input, output: &mut Output) -> Next {
        output.forward(input.take_all());
        Next::Continue
    }
}

#[test]
fn a_lane_leaves_unix_sockets_too_where_clients_never_cease_to_come() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults::none());
        let accepted = Rc::<RefCell<[usize; 2]>>::default();
        let mut rig = Rig::new(&world, &RigPlan::lanes(2).family(Family::Path), |roster| {
            roster.serve(Family::Path.at(address().port()), Limits::default(), Counting(accepted.clone()));
            roster.serve_datagrams(at(PORT), Limits::default(), Witness(Seen::default()));
        });
        rig.wait(MS);
        let left = tell(&rig, 0, Command::Leave);
        let mut peers = Vec::new();
        let mut come = |rig: &mut Rig, until: &dyn Fn() -> bool| {
            for number in 0..100 {
                if until() {
                    return;
                }
                peers.push(rig.connect(number));
                rig.wait(10 * MS);
            }
        };
        come(&mut rig, &|| left.try_recv() == Ok(Ok(())));
        let [before, _] = *accepted.borrow();
        come(&mut rig, &|| false);
        let [after, other] = *accepted.borrow();
        assert_eq!((after, other), (before, peers.len() - before), "who has left accepts nobody, and nobody waits in vain");
        rig.close(&mut Nobody);
    });
}
