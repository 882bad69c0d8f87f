//! Clients with many calls of every kind, in fragments and pieces, under faults: each call is answered exactly once, or the
//! connection's ending explains it.

use crate::calls::{call, echo, messages, null, opaque, record, reply, split, success, xid};
use crate::for_seeds;
use crate::programs::{
    ADD, ADD_AT_LENGTH, ADD_LATER, Added, BY_ANOTHER_LANE, BY_HELPER, FAILS, HOLD_AFTER, ONCE, Once, SLOW, Slow, WITH_DATA,
};
use crate::rig::Talker;
use crate::rig::{Family, MS, Rig, RigPlan, patient};
use corelane::admin::watch::{LaneCounter, ServiceCounter as C};
use corelane::service::Limits;
use corelane::testing::{FaultCounts, FaultKind, Faults, Random, Report, World};
use corelane_rpc::{ECHO, Echo, Null, Rpc};
use corelane_wire::rpc::Acceptance;

const CLIENTS: u64 = 4;

/// A call and the reply that is due.
struct Question {
    call: Vec<u8>,
    reply: Vec<u8>,
}

/// Bytes after which a pattern comes again.
const PATTERN_BYTES: usize = 2048;

fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let byte = |at| (seed.wrapping_mul(31).wrapping_add(at * 7) >> 3) as u8;
    let once: Vec<u8> = (0..bytes.min(PATTERN_BYTES) as u64).map(byte).collect();
    let mut pattern = once.repeat(bytes.div_ceil(PATTERN_BYTES));
    pattern.truncate(bytes);
    pattern
}

fn question(random: &mut Random, xid: u32) -> Question {
    let most = [200, 200, 200, 200, 200, 200, 20_000, 150_000][random.below(8) as usize];
    let payload = pattern(u64::from(xid), random.below(most) as usize);
    let (words, number) = (opaque(&payload), xid.to_be_bytes());
    let slow = |procedure, arguments: &[u8]| call(xid, [SLOW.number, 2, procedure], arguments);
    let (call, reply) = match random.below(11) {
        0..=2 => (null(xid), success(xid, &[])),
        3 => (echo(xid, &payload), success(xid, &words)),
        4 => (slow(BY_HELPER, &number), success(xid, &number)),
        5 => (slow(BY_ANOTHER_LANE, &number), success(xid, &number)),
        6 => (slow(WITH_DATA, &words), success(xid, &words)),
        7 => (slow(FAILS, &[]), reply(xid, Acceptance::SystemError)),
        8 => (call(xid, [ECHO.number, 1, 1], &[0, 0, 0, 9]), reply(xid, Acceptance::GarbageArguments)),
        9 => (call(xid, [100_003, 2, 0], &[]), reply(xid, Acceptance::ProgramMismatch { low: 3, high: 4 })),
        _ => (call(xid, [100_005, 3, 0], &words), reply(xid, Acceptance::ProgramUnavailable)),
    };
    Question { call, reply }
}

/// One record, of one fragment or of some.
fn framed(random: &mut Random, message: &[u8]) -> Vec<u8> {
    if random.below(3) > 0 {
        return record(message);
    }
    let mut cuts: Vec<usize> = (0..random.one_to(6)).map(|_| random.below(message.len() as u64 + 1) as usize).collect();
    cuts.sort_unstable();
    split(message, &cuts)
}

fn questions(seed: u64) -> (Vec<Question>, Vec<u8>) {
    let mut random = Random::new(seed);
    let questions: Vec<_> = (0..random.one_to(40) as u32).map(|xid| question(&mut random, xid)).collect();
    // A call at a time: byte by byte, without optimisation, took a fifth of a run.
    let mut stream = Vec::new();
    questions.iter().for_each(|question| stream.extend_from_slice(&framed(&mut random, &question.call)));
    (questions, stream)
}

/// Every reply is right, or where memory `was_refused` a failure of the service, and none comes twice; if all was heard to the end, none is missing.
fn judge(questions: &[Question], talker: &Talker, is_whole: bool, was_refused: bool) {
    let (mut replies, rest) = messages(&talker.got);
    replies.sort_unstable_by_key(|reply| xid(reply));
    assert!(replies.windows(2).all(|pair| xid(pair[0]) < xid(pair[1])), "a call was answered twice");
    for reply in &replies {
        let failed = was_refused && *reply == crate::calls::reply(xid(reply), Acceptance::SystemError);
        assert!(failed || &questions[xid(reply) as usize].reply == reply, "a wrong reply: {reply:?}");
    }
    let all = replies.len() == questions.len() && rest.is_empty();
    assert!(all || !is_whole, "{} of {} calls are answered", replies.len(), questions.len());
}

/// Bounds that a run meets often.
fn tight(random: &mut Random) -> Limits {
    patient().requests_in_flight_max(random.one_to(12) as u32).output_high(random.one_to(300_000)).record_max(160_000)
}

fn run(seed: u64, faults: Faults) -> Report {
    let world = World::new(seed, faults);
    let mut random = Random::new(seed);
    let (lanes, limits) = (random.one_to(3), tight(&mut random));
    let programs = |_| Rpc::talking((Null, Echo, Slow::default()));
    let mut rig = Rig::serving(&world, &RigPlan::lanes(lanes).memory(16 << 20).family(Family::of(seed)), limits, programs);
    let (questions, streams): (Vec<_>, Vec<_>) = (0..CLIENTS).map(|number| questions(seed * 100 + number)).unzip();
    let talker = |(number, stream)| {
        let mut talker = Talker::new(rig.connect(number), seed, stream);
        if seed.is_multiple_of(3) {
            talker.read_most = 1 + seed as usize % 5_000;
        }
        talker
    };
    let mut talkers: Vec<Talker> = streams.into_iter().enumerate().map(talker).collect();
    let drains_early = seed.is_multiple_of(5);
    match drains_early {
        true => rig.pass(random.time_below(20 * MS), &mut talkers),
        false => assert!(rig.play(&mut talkers), "clients wait for ever"),
    }
    rig.close(&mut talkers);
    let was_refused = world.report().faults.of(FaultKind::RefusedMemory) > 0;
    for (talker, questions) in talkers.iter().zip(&questions) {
        judge(questions, talker, talker.is_complete() && !drains_early, was_refused);
        assert!(talker.is_complete() || faults != Faults::none() || drains_early, "{:?}", talker.end);
    }
    assert_eq!(["tickets_dropped", "panics", "protocol_errors", "record_max_hits"].map(|counter| rig.named(counter)), [0; 4]);
    if faults == Faults::none() && !drains_early {
        let calls = questions.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!((rig.count(C::Requests), rig.count(C::AnswersLate)), (calls, 0));
        assert_eq!(rig.lane_count(LaneCounter::MemoryLimitHits), 0);
    }
    world.report()
}

#[test]
fn every_call_is_answered_once() {
    for_seeds(300, |seed| {
        run(seed, Faults::none());
    });
}

#[test]
fn every_call_is_answered_once_or_the_ending_explains_it_under_every_fault() {
    for_seeds(1_500, |seed| {
        run(seed, Faults::all(seed));
    });
}

#[test]
fn every_fault_of_connections_happens_and_the_same_seed_gives_the_same_run() {
    let mut all = FaultCounts::default();
    for_seeds(20, |seed| {
        let report = run(seed, Faults::all(seed));
        assert_eq!(report, run(seed, Faults::all(seed)), "seed {seed}");
    });
    (0..200).for_each(|seed| all.add(&run(seed, Faults::all(seed)).faults));
    // Nothing is closed here while the system still reads what was sent.
    let is_elsewhere = |name: &str| {
        ["datagram", "file", "pipe", "bridge"].iter().any(|what| name.contains(what)) || name == FaultKind::NeverRelease.name()
    };
    let never = FaultKind::ALL.into_iter().filter(|&kind| all.of(kind) == 0).map(FaultKind::name);
    let never: Vec<_> = never.filter(|name| !is_elsewhere(name)).collect();
    assert!(never.is_empty(), "{never:?} never happened");
}

/// A program is called once for each call, whatever the lane refuses it: what it has carried out is answered, if need be with a failure of the service.
#[test]
fn every_call_is_carried_out_once_whatever_is_refused() {
    let (mut faults, mut failures) = (FaultCounts::default(), 0);
    for_seeds(100, |seed| {
        let world = World::new(seed, Faults::all(seed).with(FaultKind::RefusedMemory, [20, 100, 300][(seed % 3) as usize]));
        let (mut random, added) = (Random::new(seed), Added::default());
        let limits = patient().requests_in_flight_max(random.one_to(4) as u32).output_high(random.one_to(20_000));
        let mut rig = Rig::serving(&world, &RigPlan::lanes(2).memory(4 << 20), limits, |_| Rpc::new((Once::new(&added),)));
        let mut talkers = Vec::new();
        for client in 0..4 {
            let calls = (0..random.one_to(40) as u32).flat_map(|number| {
                let procedure = [ADD, ADD_LATER, ADD_AT_LENGTH, HOLD_AFTER][random.below(4) as usize];
                record(&call(number, [ONCE.number, 1, procedure], &(client * 1_000 + number).to_be_bytes()))
            });
            talkers.push(Talker::new(rig.connect(client as usize), seed, calls.collect()));
        }
        assert!(rig.play(&mut talkers), "clients wait for ever");
        rig.close(&mut talkers);
        let twice: Vec<_> = added.borrow().iter().filter(|(_, times)| **times > 1).map(|(number, _)| *number).collect();
        assert!(twice.is_empty(), "carried out more than once: {twice:?}");
        for talker in talkers.iter().filter(|talker| talker.is_complete()) {
            let (mut replies, rest) = messages(&talker.got);
            replies.sort_unstable_by_key(|reply| xid(reply));
            assert!(replies.iter().enumerate().all(|(number, reply)| xid(reply) as usize == number) && rest.is_empty());
        }
        failures += rig.named("requests_refused");
        faults.add(&world.report().faults);
    });
    let refused = faults.of(FaultKind::RefusedMemory);
    println!("memory was refused {refused} times, {failures} calls have failed for it");
    assert!(refused > 100 && failures > 0);
}
