//! RPC calls, over connections and datagrams: counts are exact, whatever the server answers and the way does.

use crate::simulated::plans::{datagrams, drawn, followed, is_steady, steady, streams, with_memory};
use crate::simulated::rig::{Outcome, Rig, patient, place, target};
use crate::simulated::rpc_server::{Answers, Seen, Server};
use crate::simulated::{account, datagram_account, for_seeds};
use corelane::lanes::Transport;
use corelane::testing::{Faults, Nobody, Random};
use corelane_load::kinds::Kind;
use corelane_load::plan::{Extent, Mode, Plan};
use corelane_load::workloads::Particulars;
use corelane_load::workloads::rpc::{Caller, DENIED, FAILED, RpcSettings, Split, UNAVAILABLE};
use std::rc::Rc;
use std::time::Duration;

fn run(seed: u64, faults: Faults, plan: Plan, answers: Answers) -> (Outcome, Rc<Seen>) {
    let seen: Rc<Seen> = Rc::default();
    let (transport, at) = (plan.transport, plan.target.clone());
    let rig = Rig::new(seed, faults, plan).serve(1 + seed as usize % 3, |roster| {
        let server = Server { answers, seen: seen.clone() };
        match transport {
            Transport::Tcp => roster.serve(at.clone(), patient(), server),
            Transport::Udp => roster.serve_datagrams(at.clone(), patient(), server),
        }
    });
    (rig.generate(0).run(&mut Nobody), seen)
}

/// Makes calls of a plan: with or without a payload, of anybody, and split somehow where that can be.
fn calls(seed: u64, plan: Plan) -> Plan {
    let mut random = Random::new(seed ^ 0x7270_6373);
    let split = match random.below(3) {
        _ if plan.transport == Transport::Udp => Split::Whole,
        0 => Split::Fragments(random.one_to(40) as u32),
        _ => Split::Whole,
    };
    let size = if random.below(2) == 0 { 0 } else { plan.size };
    Plan { workload: "rpc".into(), size, particulars: Particulars::of(RpcSettings { split, ..RpcSettings::default() }), ..plan }
}

fn over_streams(seed: u64) -> Plan {
    calls(seed, drawn(seed, streams(place(seed, false))))
}

fn over_datagrams(seed: u64) -> Plan {
    let plan = drawn(seed, datagrams(target(false)));
    // In a closed loop that ends by time nothing may be given up across the window's begin.
    let by_time = plan.mode == Mode::Closed && matches!(plan.extent, Extent::For(_));
    calls(seed, Plan { warm_up: if by_time { Duration::ZERO } else { plan.warm_up }, ..plan })
}

#[test]
fn counts_and_times_are_exact_over_connections() {
    for_seeds(150, |seed| {
        let plan = over_streams(seed);
        let by_number = matches!((&plan.mode, plan.extent), (Mode::Connections { .. }, Extent::Requests(_)));
        let faults = match seed % 3 {
            0 => Faults::none(),
            1 => steady(seed),
            _ => followed(seed),
        };
        let faults = if by_number { Faults { reset: 0, ..faults } } else { faults };
        let answers = if seed % 4 == 0 { Answers::InFragments } else { Answers::Right };
        let (outcome, _) = run(seed, faults, plan, answers);
        // The account knows answers by the bytes that were taken, so it sees neither the marks of fragments, nor when the first of the
        // bytes of a reply came that is taken as a whole.
        let by_connection = matches!(outcome.plan.mode, Mode::Connections { .. });
        let is_followed = answers == Answers::Right && (!by_connection || seed % 3 == 0) && account::is_clear(&outcome);
        if outcome.desk.borrow().collector.unreachable().is_none() && is_followed {
            account::verify(&outcome, is_steady(faults));
        }
        for kind in [Kind::Mismatch, Kind::Duplicate, UNAVAILABLE, DENIED, FAILED] {
            assert_eq!(outcome.report.errors[kind.name()], 0, "{kind}");
        }
    });
}

#[test]
fn counts_and_times_are_exact_over_datagrams() {
    for_seeds(120, |seed| {
        let faults = if seed % 2 == 0 { Faults::none() } else { with_memory(steady(seed)) };
        let (outcome, seen) = run(seed, faults, over_datagrams(seed), Answers::Right);
        let figures = datagram_account::verify(&outcome);
        if seed % 2 == 0 {
            assert_eq!(figures.errors.values().sum::<u64>(), 0, "{:?}", outcome.report.errors);
            assert!(seen.calls.get() >= outcome.report.requests);
        }
    });
}

const REQUESTS: u64 = 60;

/// A closed loop of 60 calls.
fn closed_loop(transport: Transport, size: usize) -> Plan {
    let base = match transport {
        Transport::Tcp => streams(target(false)),
        Transport::Udp => datagrams(target(false)),
    };
    let extent = Extent::Requests(REQUESTS);
    Plan { workload: "rpc".into(), extent, connections: 3, lanes: 2, depth: 4, size, ..base }
}

/// What each way to answer comes to, over connections and over datagrams: what the calls fail with, if they do.
const MANNERS: [(Answers, Option<Kind>, Option<Kind>); 18] = [
    (Answers::Right, None, None),
    (Answers::InFragments, None, None),
    (Answers::Reversed, None, None),
    (Answers::Twice, None, None),
    (Answers::WrongNumber, Some(Kind::Mismatch), Some(Kind::Lost)),
    (Answers::Call, Some(Kind::Mismatch), Some(Kind::Lost)),
    (Answers::ProgramUnavailable, Some(UNAVAILABLE), Some(UNAVAILABLE)),
    (Answers::OtherVersions, Some(UNAVAILABLE), Some(UNAVAILABLE)),
    (Answers::ProcedureUnavailable, Some(UNAVAILABLE), Some(UNAVAILABLE)),
    (Answers::GarbageArguments, Some(FAILED), Some(FAILED)),
    (Answers::SystemError, Some(FAILED), Some(FAILED)),
    (Answers::OtherRpcVersion, Some(DENIED), Some(DENIED)),
    (Answers::NotAuthenticated, Some(DENIED), Some(DENIED)),
    (Answers::Sealed, Some(Kind::Mismatch), Some(Kind::Lost)),
    (Answers::Cut, Some(Kind::Mismatch), Some(Kind::Lost)),
    (Answers::Changed, Some(Kind::Mismatch), Some(Kind::Lost)),
    (Answers::Longer, Some(Kind::Mismatch), Some(Kind::Lost)),
    (Answers::Nonsense, Some(Kind::Mismatch), Some(Kind::Lost)),
];

fn each_manner(transport: Transport) {
    for (answers, over_connections, over_datagrams) in MANNERS {
        let expected = if transport == Transport::Tcp { over_connections } else { over_datagrams };
        for size in [0, 1, 100, 5_003] {
            let (outcome, _) = run(1, Faults::none(), closed_loop(transport, size), answers);
            let report = &outcome.report;
            let failed: u64 = Kind::ALL.iter().filter(|kind| kind.is_failure()).map(|kind| report.errors[kind.name()]).sum();
            let told = format!("{answers:?} of {size} bytes: {} and {:?}", report.requests, report.errors);
            match expected {
                None => assert_eq!((report.requests, failed), (REQUESTS, 0), "{told}"),
                Some(kind) => {
                    assert_eq!(report.requests, 0, "{told}");
                    assert!(report.errors[kind.name()] > 0, "{told}");
                }
            }
            if let (Some(kind), true) = (expected, outcome.desk.borrow().early.is_empty()) {
                assert_eq!(report.errors[kind.name()], REQUESTS, "{told}");
            }
            if transport == Transport::Udp && expected == Some(Kind::Lost) {
                assert!(report.errors["mismatch"] > 0, "what came is told: {told}");
            }
            if answers == Answers::Twice {
                assert!(report.errors["duplicate"] > 0, "{told}");
            }
        }
    }
}

#[test]
fn each_way_to_answer_over_connections_shows_as_its_own_kind() {
    each_manner(Transport::Tcp);
}

#[test]
fn each_way_to_answer_over_datagrams_shows_as_its_own_kind() {
    each_manner(Transport::Udp);
}

#[test]
fn who_answers_never_or_without_end_is_given_up() {
    for (transport, answers, kind) in [
        (Transport::Tcp, Answers::Never, Kind::ClientTimeout),
        (Transport::Udp, Answers::Never, Kind::Lost),
        (Transport::Tcp, Answers::Endless, Kind::Mismatch),
    ] {
        let (outcome, _) = run(1, Faults::none(), closed_loop(transport, 0), answers);
        assert_eq!(outcome.report.requests, 0);
        assert!(outcome.report.errors[kind.name()] > 0, "{answers:?}: {:?}", outcome.report.errors);
    }
}

/// Calls whose stream leaves piece by piece; returns how many receives brought how many calls.
fn in_pieces(seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let (piece, size) = (random.one_to(50) as u32, [0, random.one_to(200)][random.below(2) as usize]);
    let rpc = RpcSettings { split: Split::Bytes(piece), ..RpcSettings::default() };
    let faults = if seed.is_multiple_of(2) { Faults::none() } else { Faults { reset: 0, ..steady(seed) } };
    let plan = Plan { particulars: Particulars::of(rpc), timeout: Duration::from_secs(20), ..closed_loop(Transport::Tcp, size) };
    let (outcome, seen) = run(seed, faults, plan, Answers::Right);
    let report = &outcome.report;
    assert_eq!((report.requests, seen.calls.get()), (REQUESTS, REQUESTS), "{:?}", report.errors);
    let each = if size == 0 { 44 } else { 48 + size.next_multiple_of(4) as u64 };
    assert!(report.bytes_sent <= REQUESTS * each, "what is sent in the window");
    (seen.receives.get(), seen.calls.get())
}

/// All calls are made and answered, and each piece had a send of its own.
#[test]
fn a_stream_in_pieces_is_made_whole_again() {
    let (mut receives, mut calls) = (0, 0);
    for_seeds(40, |seed| {
        let (received, called) = in_pieces(seed);
        (receives, calls) = (receives + received, calls + called);
    });
    assert!(receives > calls, "calls came in pieces: {receives} receives of {calls} calls");
}

/// This seed refuses memory to the first piece of what another connection's call has asked.
#[test]
fn a_piece_without_memory_is_asked_for_again() {
    in_pieces(776_397_095);
}

#[test]
fn records_in_fragments_are_joined_by_the_server() {
    let rpc = RpcSettings { split: Split::Fragments(3), ..RpcSettings::default() };
    let (outcome, seen) =
        run(3, Faults::none(), Plan { particulars: Particulars::of(rpc), ..closed_loop(Transport::Tcp, 0) }, Answers::Right);
    assert_eq!((outcome.report.requests, seen.records_joined.get()), (REQUESTS, REQUESTS));
    assert_eq!(outcome.report.bytes_sent, REQUESTS * (40 + 3 * 4));
}

#[test]
fn who_calls_is_said() {
    let caller = Caller::User { machine: "m".repeat(300), uid: 5, gid: 6 };
    for transport in [Transport::Tcp, Transport::Udp] {
        let rpc = RpcSettings { caller: caller.clone(), ..RpcSettings::default() };
        let (outcome, _) =
            run(3, Faults::none(), Plan { particulars: Particulars::of(rpc), ..closed_loop(transport, 9) }, Answers::Right);
        assert_eq!(outcome.report.requests, REQUESTS);
        let mark = if transport == Transport::Tcp { 4 } else { 0 };
        // AUTH_SYS: stamp, a name of 255 bytes, uid, gid, no groups.
        assert_eq!(outcome.report.bytes_sent, REQUESTS * (mark + 40 + (4 + 4 + 256 + 4 + 4 + 4) + 4 + 12));
    }
}
