//! Calls that come twice: answered again with the same reply, or not at all while the first is in progress.

use crate::calls::{call, record, success};
use crate::datagrams::{Caller, Callers, rig};
use crate::programs::{ADD, ADD_AT_LENGTH, ADD_LATER, Added, BY_HELPER, HOLD_AFTER, ONCE, Once, SLOW, STAYS, Slow};
use crate::rig::{MS, Nobody, Peer, Rig, RigPlan, S, patient};
use corelane::service::Limits;
use corelane::testing::parts::svc::bounds::{self, Bound};
use corelane::testing::{Faults, World};
use corelane_rpc::{DUPLICATE_AGE_MAX, Rpc, RpcDatagrams};

/// Calls that are remembered here.
const DUPLICATES_MAX: usize = crate::datagrams::DUPLICATES_MAX;

struct Stage {
    rig: Rig,
    callers: Callers,
    added: Added,
}

impl Stage {
    fn new(callers: usize) -> Self {
        let (world, added) = (World::new(1, Faults::none()), Added::default());
        let callers = Callers((0..callers).map(|number| Caller::new(&world, number)).collect());
        Self { rig: rig(&world, 1, &added), callers, added }
    }

    /// Sends a call, waits, and hands out what came.
    fn ask(&mut self, caller: usize, call: &[u8]) -> Vec<Vec<u8>> {
        self.callers.0[caller].peer.send(crate::rig::address(), call).unwrap();
        self.rig.pass(5 * MS, &mut self.callers);
        std::mem::take(&mut self.callers.0[caller].got)
    }

    fn times(&self, number: u32) -> u32 {
        self.added.borrow().get(&number).copied().unwrap_or(0)
    }
}

fn add(xid: u32, procedure: u32, number: u32) -> Vec<u8> {
    call(xid, [ONCE.number, 1, procedure], &number.to_be_bytes())
}

fn added(xid: u32, number: u32, times: u32) -> Vec<Vec<u8>> {
    vec![success(xid, &[number.to_be_bytes(), times.to_be_bytes()].concat())]
}

#[test]
fn a_repeated_call_gets_the_same_reply() {
    let mut stage = Stage::new(2);
    for procedure in [ADD, ADD_LATER] {
        let call = add(procedure, procedure, procedure);
        for _ in 0..3 {
            assert_eq!(stage.ask(0, &call), added(procedure, procedure, 1));
        }
        assert_eq!(stage.ask(1, &call), added(procedure, procedure, 2), "another peer's call is another one");
    }
    assert_eq!(stage.ask(0, &add(1, ADD, 9)), added(1, 9, 1), "other arguments make another call");
    assert_eq!((stage.rig.named("duplicates_found"), stage.rig.named("duplicates_max_hits")), (4, 0));
    stage.rig.close(&mut stage.callers);
}

#[test]
fn another_credential_and_the_last_of_long_arguments_make_another_call() {
    let mut stage = Stage::new(1);
    let padded = |last: u8| call(1, [ONCE.number, 1, ADD], &[&5_u32.to_be_bytes()[..], &[0; 600], &[last]].concat());
    assert_eq!(stage.ask(0, &padded(1)), added(1, 5, 1));
    assert_eq!(stage.ask(0, &padded(2)), added(1, 5, 2), "beyond what a short checksum reads");
    let mut other = padded(1);
    // AUTH_SYS with an empty machine name, user and group 0: 20 bytes.
    let credential: Vec<u8> = [1_u32, 20, 7, 0, 0, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
    other.splice(24..32, credential);
    assert_eq!(stage.ask(0, &other), added(1, 5, 3));
    assert_eq!(stage.ask(0, &padded(1)), added(1, 5, 1));
    stage.rig.close(&mut stage.callers);
}

/// Its program may have carried it out by then.
#[test]
fn a_call_that_cannot_be_held_has_its_answer_once_and_for_all() {
    let (world, added) = (World::new(1, Faults::none()), Added::default());
    let of_program = added.clone();
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), move |roster| {
        let programs = RpcDatagrams::new((Once::new(&of_program),)).held_max(0);
        roster.serve_datagrams(crate::rig::address(), Limits::default(), programs);
    });
    let mut callers = Callers(vec![Caller::new(&world, 0)]);
    let call = add(1, HOLD_AFTER, 5);
    let answers: Vec<Vec<u8>> = (0..3)
        .map(|_| {
            callers.0[0].peer.send(crate::rig::address(), &call).unwrap();
            rig.pass(5 * MS, &mut callers);
            callers.0[0].got.remove(0)
        })
        .collect();
    assert!(answers.iter().all(|answer| answer.ends_with(&[0, 0, 0, 5]) && *answer == answers[0]), "SYSTEM_ERR: {answers:?}");
    assert_eq!((rig.named("duplicates_found"), added.borrow()[&5]), (2, 1), "it is carried out once");
    rig.close(&mut callers);
}

#[test]
fn over_a_connection_a_kept_reply_comes_with_its_mark() {
    for procedure in [ADD, ADD_LATER] {
        let (world, added) = (World::new(1, Faults::none()), Added::default());
        let kept = added.clone();
        let mut rig = Rig::serving(&world, &RigPlan::lanes(1), patient(), move |_| Rpc::new((Once::new(&kept),)));
        let (peer, call) = (rig.connect(0), record(&add(7, procedure, 5)));
        rig.wait(5 * MS);
        for _ in 0..3 {
            assert_eq!(peer.send(&call), call.len());
            rig.wait(5 * MS);
            let reply = success(7, &[5_u32.to_be_bytes(), 1_u32.to_be_bytes()].concat());
            assert_eq!(peer.read(usize::MAX), record(&reply), "procedure {procedure}");
        }
        assert_eq!((added.borrow()[&5], rig.named("duplicates_found")), (1, 2));
        rig.close(&mut Nobody);
    }
}

#[test]
fn a_call_in_progress_is_not_begun_again() {
    let mut stage = Stage::new(1);
    let call = add(1, ADD_LATER, 5);
    (0..3).for_each(|_| stage.callers.0[0].peer.send(crate::rig::address(), &call).unwrap());
    let got = stage.ask(0, &call);
    assert!(got.iter().all(|reply| *reply == added(1, 5, 1)[0]) && !got.is_empty());
    assert_eq!((stage.times(5), got.len() as u64 + stage.rig.named("requests_dropped")), (1, 4));
    assert!(stage.rig.named("requests_dropped") > 0);
    stage.rig.close(&mut stage.callers);
}

#[test]
fn a_reply_that_is_too_long_is_not_kept() {
    let mut stage = Stage::new(1);
    for times in 1..=2 {
        assert_eq!(stage.ask(0, &add(1, ADD_AT_LENGTH, 5)).len(), 1);
        assert_eq!((stage.times(5), stage.rig.named("duplicates_max_hits")), (times, u64::from(times)));
    }
    stage.rig.close(&mut stage.callers);
}

#[test]
fn a_reply_is_kept_for_a_time() {
    let mut stage = Stage::new(1);
    assert_eq!(stage.ask(0, &add(1, ADD, 5)), added(1, 5, 1));
    stage.rig.pass(DUPLICATE_AGE_MAX - S, &mut stage.callers);
    assert_eq!(stage.ask(0, &add(1, ADD, 5)), added(1, 5, 1));
    stage.rig.pass(2 * S, &mut stage.callers);
    assert_eq!(stage.ask(0, &add(1, ADD, 5)), added(1, 5, 2));
    stage.rig.close(&mut stage.callers);
}

#[test]
fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
    let mut stage = Stage::new(1);
    for number in 0..4 * DUPLICATES_MAX as u32 {
        assert_eq!(stage.ask(0, &add(number, ADD, number)), added(number, number, 1));
    }
    let used = stage.rig.arenas[0].used();
    assert!(used <= DUPLICATES_MAX * 256 + (2 << 20), "{used} bytes are kept");
    let last = 4 * DUPLICATES_MAX as u32 - 1;
    assert_eq!(stage.ask(0, &add(last, ADD, last)), added(last, last, 1));
    assert_eq!(stage.ask(0, &add(0, ADD, 0)), added(0, 0, 2));
    stage.rig.close(&mut stage.callers);
}

/// Who calls as much as it can has nobody else's call carried out twice, and takes no place from others with calls in progress.
fn attack_remembered(bound: &Bound) -> u64 {
    const MOST: usize = 64;
    let (world, added_by) = (World::new(1, Faults::none()), Added::default());
    let of_program = added_by.clone();
    let rig = Rig::new(&world, &RigPlan::lanes(1), move |roster| {
        let programs = RpcDatagrams::new((Once::new(&of_program),)).duplicates_max(MOST);
        roster.serve_datagrams(crate::rig::address(), Limits::default(), programs);
    });
    let callers = Callers([0, 1].map(|number| Caller::new(&world, number)).into());
    let mut stage = Stage { rig, callers, added: added_by };
    let (first, second) = (add(1, ADD, 900_001), add(2, ADD, 900_002));
    assert_eq!(stage.ask(1, &first), added(1, 900_001, 1));
    for procedure in [ADD, ADD_LATER] {
        for number in 0..4 * MOST as u32 {
            let call = add(number, procedure, number);
            stage.callers.0[0].peer.send(crate::rig::address(), &call).unwrap();
            if number % 16 == 0 && procedure == ADD {
                stage.rig.pass(5 * MS, &mut stage.callers);
            }
        }
        if procedure == ADD_LATER {
            assert_eq!(stage.ask(1, &second), added(2, 900_002, 1));
        }
        stage.rig.pass(500 * MS, &mut stage.callers);
        stage.callers.0[0].got.clear();
        assert_eq!(stage.ask(1, &first), added(1, 900_001, 1), "{}: it was forgotten", bound.name);
    }
    assert_eq!(stage.ask(1, &second), added(2, 900_002, 1), "{}: it was never remembered", bound.name);
    let hits = stage.rig.named(bound.counter);
    stage.rig.close(&mut stage.callers);
    hits
}

/// Who makes as many calls as it can that are answered late takes no place from others; nor, of its own address, from who has none.
fn attack_held(bound: &Bound) -> u64 {
    let rpc = |_| Rpc::talking((Slow::default(),)).held_max(64);
    let mut rig = Rig::serving(&World::new(1, Faults::none()), &RigPlan::lanes(1), patient(), rpc);
    let stays: Vec<u8> = (0..100).flat_map(|xid| record(&call(xid, [SLOW.number, 2, STAYS], &[0; 4]))).collect();
    let attackers = [0; 3].map(|attacker| rig.connect(attacker));
    rig.wait(5 * MS);
    attackers.iter().for_each(|peer| assert_eq!(peer.send(&stays), stays.len()));
    rig.wait(5 * MS);
    for client in [1, 0] {
        let peer = rig.connect(client);
        rig.wait(5 * MS);
        peer.send(&record(&call(7, [SLOW.number, 2, BY_HELPER], &[0, 0, 0, 1])));
        rig.wait(5 * MS);
        assert_eq!(peer.read(usize::MAX), record(&success(7, &[0, 0, 0, 1])), "{}: client {client}", bound.name);
        peer.close();
    }
    attackers.iter().for_each(Peer::reset);
    let hits = rig.named(bound.counter);
    rig.close(&mut Nobody);
    hits
}

/// A bound of RPC's own, attacked from one address.
fn attack(bound: &Bound) -> u64 {
    match bound.name {
        "calls that are remembered" => attack_remembered(bound),
        "calls that are held" => attack_held(bound),
        other => panic!("nobody attacks {other}"),
    }
}

#[test]
fn no_bound_of_rpc_that_peers_can_meet_is_taken_from_others() {
    let hits: Vec<u64> = bounds::of("rpc").map(attack).collect();
    assert!(!hits.is_empty() && hits.iter().all(|hits| *hits > 0), "{hits:?}");
}
