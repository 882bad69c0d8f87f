//! Each bound of the lane's table is attacked from one address, again and again, while clients come from another one and from the attacker's own: each is
//! served within a second.

use crate::puppet::Stage;
use crate::rig::{Rig, RigPlan, S, Siege, patient};
use corelane_sim::{Faults, Peer, Status, World};
use corelane_svc::bounds::{BOUNDS, Bound, Owner};
use corelane_svc::{
    Cx, Ending, Input, Limits, Next, Output, Passage, Peer as Ends, Progress, Side, Silent, StreamService, Transform,
    TransformError,
};
use corelane_watch::{LaneCounter, ServiceCounter as C};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

fn stage(plan: RigPlan, limits: Limits) -> Stage {
    Stage::with(&World::new(1, Faults::none()), &plan, limits, |_, _| None)
}

fn attacked(siege: &Siege, plan: RigPlan, limits: Limits) -> Rig {
    let mut stage = stage(plan, limits);
    siege.lay(&mut stage.rig, "say served\n");
    stage.rig
}

/// Opens behind a `k`; all else is taken for a handshake that goes on.
struct Gate(bool);

impl Transform for Gate {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        let first = passage.received.front().and_then(|segment| segment.bytes()).and_then(|bytes| bytes.first().copied());
        if !self.0 && first == Some(b'k') {
            passage.received.skip(1);
            passage.open();
            self.0 = true;
        }
        if self.0 {
            passage.input.append(passage.received);
            passage.wire.append(passage.output);
        }
        Ok(Progress::Idle)
    }
}

/// Has a task for each byte that a connection sends, as long as the connection is there; answers each.
struct Spawning;

#[derive(Default)]
struct Spawned {
    has_ended: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl StreamService for Spawning {
    type Talk = Silent;
    type Session = Rc<Spawned>;

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Ends) -> Rc<Spawned> {
        Rc::default()
    }

    fn receive(&mut self, cx: &mut Cx<'_>, spawned: &mut Rc<Spawned>, input: &mut Input, output: &mut Output) -> Next {
        while !input.is_empty() {
            let spawned = spawned.clone();
            let task = poll_fn(move |context| {
                spawned.wakers.borrow_mut().push(context.waker().clone());
                if spawned.has_ended.get() { Poll::Ready(()) } else { Poll::Pending }
            });
            if cx.spawn(task).is_err() {
                input.skip(input.len());
                return Next::Close;
            }
            input.skip(1);
            output.push(&b"spawned\n"[..]);
        }
        Next::Continue
    }

    fn closed(&mut self, _cx: &mut Cx<'_>, spawned: Rc<Spawned>, _ending: Ending) {
        spawned.has_ended.set(true);
        spawned.wakers.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

/// Attacks a bound; how often it was met.
fn attack(bound: &Bound) -> u64 {
    let lane = || RigPlan::lanes(1).memory(16 << 20);
    let service = |rig: Rig, counter| rig.count(counter);
    match bound.name {
        "memory" => {
            // With little memory many small holders fill what their peer may have: readers that do not read, and records that do not end.
            let attacks = [
                (16, "flood 300000\n".repeat(20)),
                (64, "flood 300000\n".repeat(20)),
                (16, "x".repeat(60_000)),
                (64, "x".repeat(600_000)),
            ];
            let hits = attacks.map(|(mebibytes, says)| {
                let plan = RigPlan::lanes(1).memory(mebibytes << 20);
                let rig = attacked(&Siege::of(300, says), plan, patient());
                rig.lane_count(LaneCounter::MemoryLimitHits).max(rig.count(C::MemoryHits))
            });
            hits.into_iter().min().unwrap_or(0)
        }
        "lane_connections_max" => {
            let rig = attacked(&Siege::of(100, "say idle\n").again_each(10), lane().connections_max(64), patient());
            service(rig, C::ConnectionsPerPeerMaxHits)
        }
        "connections_max" => service(
            attacked(&Siege::of(100, "say idle\n").again_each(10), lane(), patient().connections_max(64)),
            C::ConnectionsPerPeerMaxHits,
        ),
        "connections_per_peer_max" => {
            let limits = patient().connections_per_peer_max(32);
            service(attacked(&Siege::of(100, "say idle\n").again_each(10), lane(), limits), C::ConnectionsPerPeerMaxHits)
        }
        "handshakes_max" => {
            let gate = |_: Side, _: &Ends| Some(Box::new(Gate(false)) as Box<dyn Transform>);
            let limits = patient().handshakes_max(64).handshake_limit(Duration::from_secs(10));
            let mut stage = Stage::with(&World::new(1, Faults::none()), &lane(), limits, gate);
            Siege::of(500, "sixsix").drips(".").lay(&mut stage.rig, "ksay served\n");
            assert!(stage.rig.count(C::ShareEndings) > 0);
            service(stage.rig, C::HandshakesMaxHits)
        }
        "tasks_max" => {
            let mut plan = lane();
            plan.settings.tasks_max = 1_024;
            let mut rig = Rig::serving(&World::new(1, Faults::none()), &plan, patient(), |_| Spawning);
            Siege::of(40, ".".repeat(50)).drips(".").lay(&mut rig, "..");
            assert!(rig.count(C::ShareEndings) > 0);
            rig.lane_count(LaneCounter::TasksMaxHits)
        }
        _ => attack_alone(bound),
    }
}

/// The same for one of a connection's own.
fn attack_alone(bound: &Bound) -> u64 {
    let lane = || RigPlan::lanes(1).memory(16 << 20);
    let service = |rig: Rig, counter| rig.count(counter);
    match bound.name {
        "requests_in_flight_max" => {
            // One puppet has one ticket of each name.
            let says: String = (0..20).map(|name| format!("any {name}\n")).collect();
            let rig = attacked(&Siege::of(1, says), lane(), patient().requests_in_flight_max(10));
            service(rig, C::RequestsInFlightMaxHits)
        }
        "timers_per_connection_max" => {
            let says = "after 100000 say late\n".repeat(20);
            service(attacked(&Siege::of(40, says), lane(), patient().timers_per_connection_max(10)), C::TimersMaxHits)
        }
        "record_max" => {
            service(attacked(&Siege::of(40, "x".repeat(2_000)), lane(), patient().record_max(1_000)), C::RecordMaxHits)
        }
        "output_high" => {
            let limits = patient().output_high(64 << 10);
            service(attacked(&Siege::of(40, "flood 200000\n".repeat(20)), lane(), limits), C::OutputHighHits)
        }
        "output_max" => {
            let limits = patient().output_high(1 << 20).output_max(2 << 20);
            service(attacked(&Siege::of(1, "flood 3000000\n").again_each(10), lane(), limits), C::OutputMaxHits)
        }
        other => panic!("nobody attacks {other}"),
    }
}

#[test]
fn no_bound_that_peers_can_meet_silences_anybody() {
    let fails = |bound: &&Bound| {
        println!("{}", bound.name);
        let hits = std::panic::catch_unwind(|| attack(bound));
        !hits.is_ok_and(|hits| hits > 0)
    };
    let of_peers = BOUNDS.iter().filter(|bound| bound.owner != Owner::Service && bound.service.is_none());
    let failed: Vec<&str> = of_peers.filter(fails).map(|bound| bound.name).collect();
    assert!(failed.is_empty(), "never met, or somebody waited: {failed:?}");
}

/// The same from many addresses: nobody holds much, and all is taken.
#[test]
fn connections_that_stand_still_end_where_nearly_all_are_taken() {
    let mut stage = stage(RigPlan::lanes(1).connections_max(64), patient());
    let crowd: Vec<Peer> = (0..200).map(|number| stage.rig.connect(10 + number % 80)).collect();
    stage.rig.wait(S / 2);
    let open = |crowd: &[Peer]| crowd.iter().filter(|peer| peer.status() == Status::Open).count();
    assert_eq!((stage.rig.connections(), open(&crowd)), (64, 200), "the others wait in the backlog");
    let late = stage.rig.connect(2);
    stage.rig.wait(S / 100);
    late.send(b"say served\n");
    stage.rig.wait(8 * S);
    assert!(late.readable_bytes() > 0 && stage.rig.count(C::ShareEndings) > 0);
    assert!(stage.rig.reports.borrow().iter().any(|record| record.text.contains("connections are short")));
}

#[test]
fn each_limit_that_bounds_something_is_in_the_table_and_so_is_the_page_that_tells_of_it() {
    let told = Limits::new().describe();
    let counts = ["connections", "handshakes", "requests", "timers", "alarms", "questions", "sockets", "datagrams", "bytes"];
    let names = told.lines().filter(|line| counts.iter().any(|count| line.ends_with(&format!(" {count}"))));
    let beside = ["backlog", "send_buffer", "receive_buffer"];
    for name in names.filter_map(|line| Some(line.split_once('=')?.0)).filter(|name| !beside.contains(name)) {
        assert!(BOUNDS.iter().any(|bound| bound.name == name), "{name} is a bound, and nobody is named who pays for it");
    }
    let page = include_str!("../../../../docs/limits.md");
    for Bound { name, owner, counter, .. } in BOUNDS {
        let owner = format!("{owner:?}").to_lowercase();
        let row = format!("| `{name}` | {owner} |");
        assert!(
            page.lines().any(|line| line.starts_with(&row) && line.contains(counter)),
            "docs/limits.md says nothing of {row}"
        );
    }
}
