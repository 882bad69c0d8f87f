//! What no honest caller sends: answered as the RFC says, or closed for a counted reason, and no other is disturbed.

use crate::calls::{call, echo, messages, null, record, reply, split, success};
use crate::for_seeds;
use crate::programs::{BY_HELPER, DENIES, NEVER, PANIC, SLOW, Slow};
use crate::rig::{MS, Nobody, Rig, RigPlan, S, patient};
use corelane::admin::watch::ServiceCounter as C;
use corelane::service::{Arena, Lease, Limits};
use corelane::testing::{Faults, Peer, Status, World};
use corelane_rpc::{ECHO, Echo, FRAGMENTS_MAX, Null, Rpc};
use corelane_wire::rpc::{Acceptance, Auth, AuthStatus, Denial, Reply, Verdict};
use std::time::Duration;

fn rig_with(limits: Limits) -> Rig {
    let world = World::new(1, Faults::none());
    Rig::serving(&world, &RigPlan::lanes(1), limits, |_| Rpc::talking((Null, Echo, Slow::default())))
}

fn send(peer: &Peer, bytes: &[u8]) {
    assert_eq!(peer.send(bytes), bytes.len());
}

/// A connection that is open.
fn open(rig: &mut Rig, number: usize) -> Peer {
    let peer = rig.connect(number);
    rig.wait(5 * MS);
    assert_eq!(peer.status(), Status::Open);
    peer
}

/// What comes back for `stream`, and whether the server has ended the connection.
fn exchange(rig: &mut Rig, stream: &[u8]) -> (Vec<u8>, bool) {
    let peer = open(rig, 0);
    send(&peer, stream);
    rig.wait(5 * MS);
    (peer.read(usize::MAX), peer.status() != Status::Open)
}

fn denied(xid: u32, status: AuthStatus) -> Vec<u8> {
    crate::calls::bytes(&Reply { xid, verdict: Verdict::Denied(Denial::Authentication(status)) })
}

/// Asserts what is answered to a NULL call, then to `stream`; whether that ends the connection; and what it is counted as.
fn is_answered(stream: &[u8], answers: &[Vec<u8>], ends: bool, counter: Option<&str>) {
    let mut rig = rig_with(patient().record_max(10_000));
    let (got, ended) = exchange(&mut rig, &[&record(&null(1)), stream].concat());
    let due: Vec<Vec<u8>> = std::iter::once(success(1, &[])).chain(answers.iter().cloned()).collect();
    assert_eq!((messages(&got).0, ended), (due.iter().map(Vec::as_slice).collect(), ends));
    let counters = ["protocol_errors", "record_max_hits", "requests_dropped", "requests_refused"];
    let counts = counters.map(|counter| rig.named(counter));
    assert_eq!(counts, counters.map(|each| u64::from(Some(each) == counter)), "{counters:?}");
    let (got, ended) = exchange(&mut rig, &record(&null(2)));
    assert_eq!((messages(&got).0, ended), (vec![&success(2, &[])[..]], false), "others are served");
    rig.close(&mut Nobody);
}

#[test]
fn marks_that_lie_close() {
    is_answered(&0x8000_0000_u32.to_be_bytes(), &[], true, Some("protocol_errors"));
    for mark in [0x7fff_ffff_u32, u32::MAX, 0x8000_2710, 10_000] {
        is_answered(&mark.to_be_bytes(), &[], true, Some("record_max_hits"));
    }
}

#[test]
fn a_record_that_never_ends_closes_at_the_bound() {
    let fragment = [&1000_u32.to_be_bytes()[..], &[7; 1000]].concat();
    is_answered(&fragment.repeat(10), &[], true, Some("record_max_hits"));
    let empty = 0_u32.to_be_bytes().repeat(FRAGMENTS_MAX as usize);
    is_answered(&empty, &[], true, Some("protocol_errors"));
}

#[test]
fn heads_that_end_early_close() {
    for length in 0..40 {
        is_answered(&record(&null(7)[..length]), &[], true, Some("protocol_errors"));
    }
}

#[test]
fn a_reply_is_not_answered() {
    is_answered(&record(&success(7, &[])), &[], false, Some("requests_dropped"));
}

/// A NULL call with these words in place of its empty credential and verifier.
fn with_auth(words: &[u32]) -> Vec<u8> {
    let words = words.iter().flat_map(|word| word.to_be_bytes());
    null(7)[..24].iter().copied().chain(words).collect()
}

#[test]
fn credentials_and_verifiers_are_held_against_the_rfc() {
    let long = [[6, 401].to_vec(), vec![0; 101], vec![0, 0]].concat();
    let cases = [
        (with_auth(&long), AuthStatus::BadCredential),
        (with_auth(&[0, 0, 0, 404]), AuthStatus::BadVerifier),
        (with_auth(&[0, 4, 9, 0, 0]), AuthStatus::BadCredential),
        (with_auth(&[1, 4, 9, 0, 0]), AuthStatus::BadCredential),
        (with_auth(&[2, 0, 0, 0]), AuthStatus::RejectedCredential),
        (with_auth(&[6, 0, 0, 0]), AuthStatus::RejectedCredential),
        (with_auth(&[0x7fff_ffff, 0, 0, 0]), AuthStatus::RejectedCredential),
        (with_auth(&[0, 0, 1, 0]), AuthStatus::BadVerifier),
    ];
    for (call, status) in cases {
        is_answered(&record(&call), &[denied(7, status)], false, Some("requests_refused"));
    }
}

#[test]
fn what_is_not_served_is_said_to_be() {
    let refused = |words, outcome| {
        is_answered(&record(&call(7, words, &[])), &[reply(7, outcome)], false, Some("requests_refused"));
    };
    refused([100_003, 3, 1], Acceptance::ProcedureUnavailable);
    refused([100_003, 4, u32::MAX], Acceptance::ProcedureUnavailable);
    refused([100_003, 2, 0], Acceptance::ProgramMismatch { low: 3, high: 4 });
    refused([100_003, 5, 0], Acceptance::ProgramMismatch { low: 3, high: 4 });
    refused([SLOW.number, 1, 0], Acceptance::ProgramMismatch { low: 2, high: 3 });
    refused([100_005, 3, 0], Acceptance::ProgramUnavailable);
    refused([0, 0, 0], Acceptance::ProgramUnavailable);
    refused([ECHO.number, 1, 1], Acceptance::GarbageArguments);
    let mut other = null(7);
    other[11] = 3;
    let mismatch = Reply { xid: 7, verdict: Verdict::Denied(Denial::RpcMismatch { low: 2, high: 2 }) };
    is_answered(&record(&other), &[crate::calls::bytes(&mismatch)], false, Some("requests_refused"));
}

#[test]
fn a_program_may_deny_a_call_itself() {
    for status in [AuthStatus::RejectedVerifier, AuthStatus::TooWeak] {
        let call = call(7, [SLOW.number, 2, DENIES], &status.number().to_be_bytes());
        is_answered(&record(&call), &[denied(7, status)], false, Some("requests_refused"));
    }
}

/// What is answered to two calls, the second in three fragments.
fn two_calls() -> (Vec<u8>, Vec<u8>) {
    let stream = [record(&echo(1, b"hello")), split(&echo(2, b"to you"), &[1, 50])].concat();
    let payload = |text| crate::calls::opaque(text);
    let answers = [record(&success(1, &payload(b"hello"))), record(&success(2, &payload(b"to you")))].concat();
    (stream, answers)
}

#[test]
fn two_calls_are_answered_wherever_they_are_split() {
    let (stream, answers) = two_calls();
    let mut rig = rig_with(patient());
    for at in 0..=stream.len() {
        let peer = open(&mut rig, 0);
        send(&peer, &stream[..at]);
        rig.wait(5 * MS);
        send(&peer, &stream[at..]);
        rig.wait(5 * MS);
        assert_eq!(peer.read(usize::MAX), answers, "split at {at}");
        peer.close();
    }
    rig.close(&mut Nobody);
}

#[test]
fn two_calls_are_answered_byte_by_byte() {
    let (stream, answers) = two_calls();
    let mut rig = rig_with(patient());
    let peer = open(&mut rig, 0);
    for byte in stream {
        send(&peer, &[byte]);
        rig.wait(2 * MS);
    }
    assert_eq!(peer.read(usize::MAX), answers);
    peer.close();
    rig.close(&mut Nobody);
}

#[test]
fn all_calls_of_one_segment_are_answered_in_one_send() {
    let mut rig = rig_with(patient());
    let stream: Vec<u8> = (0..128).flat_map(|xid| record(&null(xid))).collect();
    let (got, _) = exchange(&mut rig, &stream);
    assert_eq!(messages(&got).0.len(), 128);
    assert_eq!((rig.count(C::Requests), rig.count(C::Sends), rig.count(C::BytesCopied)), (128, 1, 0));
    rig.close(&mut Nobody);
}

#[test]
fn a_record_under_way_has_a_time_limit_between_its_fragments_too() {
    let limits = patient().read_limit(Duration::from_secs(1));
    let mut rig = rig_with(limits);
    let peer = open(&mut rig, 0);
    send(&peer, &[&4_u32.to_be_bytes()[..], &[1, 2, 3, 4]].concat());
    rig.wait(3 * S);
    assert_eq!((rig.count(C::ReadLimitHits), peer.status() == Status::Open), (1, false));
    rig.close(&mut Nobody);
}

#[test]
fn a_long_record_lends_no_more_memory_than_some_times_what_has_come() {
    let mut rig = rig_with(patient());
    let before = rig.arenas[0].used();
    let peers: Vec<_> = (0..20).map(|number| open(&mut rig, number)).collect();
    for peer in &peers {
        send(peer, &[&0x8008_0000_u32.to_be_bytes()[..], &[7; 1000]].concat());
    }
    rig.wait(5 * MS);
    let lent = rig.arenas[0].used() - before;
    assert!(lent <= 20 * 2 * 16 * 1024, "{lent} bytes are lent to peers that have sent 20,000");
    peers.iter().for_each(Peer::close);
    rig.close(&mut Nobody);
}

#[test]
fn who_stops_reading_is_no_longer_read_from_and_others_are_served() {
    let limits = patient().output_high(64 << 10).send_limit(Duration::from_secs(20));
    let mut rig = rig_with(limits);
    let (slow, question) = (open(&mut rig, 0), record(&echo(1, &[7; 8_000])));
    let mut sent = 0;
    for _ in 0..200 {
        let offset = sent % question.len();
        sent += slow.send(&question[offset..]);
        rig.wait(MS);
    }
    assert!(rig.count(C::OutputHighHits) > 0 && rig.arenas[0].used() < 1 << 20, "{:?}", rig.arenas[0]);
    let (got, _) = exchange(&mut rig, &record(&null(2)));
    assert_eq!(messages(&got).0, [&success(2, &[])[..]]);
    rig.wait(60 * S);
    assert_eq!((rig.count(C::SendLimitHits), rig.count(C::EndingsAborted)), (1, 1));
    rig.close(&mut Nobody);
}

#[test]
fn more_calls_in_flight_than_the_bound_wait() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults::none());
        let limits = patient().requests_in_flight_max(3);
        let mut rig = Rig::serving(&world, &RigPlan::lanes(1), limits, |_| Rpc::talking((Slow::default(),)));
        let peer = open(&mut rig, 0);
        let calls: Vec<u8> =
            (0..50).flat_map(|xid| split(&call(xid, [SLOW.number, 2, BY_HELPER], &[0, 0, 0, 1]), &[9])).collect();
        send(&peer, &calls);
        rig.wait(S);
        assert_eq!(messages(&peer.read(usize::MAX)).0.len(), 50);
        assert!(rig.count(C::RequestsInFlightMaxHits) + rig.count(C::OutputHighHits) > 0);
        peer.close();
        rig.close(&mut Nobody);
    });
}

#[test]
fn more_calls_than_a_peer_may_have_held_are_refused() {
    let world = World::new(1, Faults::none());
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1), patient(), |_| Rpc::talking((Slow::default(),)).held_max(4));
    let calls: Vec<u8> = (0..5).flat_map(|xid| record(&call(xid, [SLOW.number, 2, BY_HELPER], &[0, 0, 0, 1]))).collect();
    let (got, _) = exchange(&mut rig, &calls);
    let (mut replies, _) = messages(&got);
    replies.sort_unstable();
    let due: Vec<Vec<u8>> = (0..2).map(|xid| success(xid, &[0, 0, 0, 1])).collect();
    let refused: Vec<Vec<u8>> = (2..5).map(|xid| reply(xid, Acceptance::SystemError)).collect();
    assert_eq!(replies, [due, refused].concat());
    assert_eq!((rig.named("requests_held_max_hits"), rig.named("requests_refused")), (3, 3));
    let (got, _) = exchange(&mut rig, &record(&call(9, [SLOW.number, 2, BY_HELPER], &[0, 0, 0, 1])));
    assert_eq!(messages(&got).0, [&success(9, &[0, 0, 0, 1])[..]], "what was held has left its place");
    rig.close(&mut Nobody);
}

#[test]
fn a_panic_ends_its_connection_and_its_replies_go_to_nobody_else() {
    let mut rig = rig_with(patient());
    let stream = [record(&null(1)), record(&call(2, [SLOW.number, 2, PANIC], &[]))].concat();
    let (got, ended) = exchange(&mut rig, &stream);
    assert_eq!((got.is_empty(), ended, rig.count(C::Panics)), (true, true, 1));
    let (got, _) = exchange(&mut rig, &record(&null(3)));
    assert_eq!(messages(&got).0, [&success(3, &[])[..]]);
    rig.close(&mut Nobody);
}

#[test]
fn a_held_call_that_is_dropped_is_counted() {
    let mut rig = rig_with(patient());
    let (got, _) = exchange(&mut rig, &record(&call(1, [SLOW.number, 2, NEVER], &[0, 0, 0, 1])));
    assert_eq!((got.is_empty(), rig.count(C::TicketsDropped)), (true, 1));
    rig.close(&mut Nobody);
}

#[test]
fn auth_sys_is_served() {
    let words = [0x0102_0304, 4, u32::from_be_bytes(*b"host"), 1000, 100, 1, 4];
    let auth: Vec<u32> = [1, 28].into_iter().chain(words).chain([0, 0]).collect();
    is_answered(&record(&with_auth(&auth)), &[success(7, &[])], false, None);
    assert_eq!(Auth::NONE.body.bytes().len(), 0);
}

/// All but `left` bytes of a lane's memory, in whole blocks from one end.
fn all_but(arena: &Arena, left: usize) -> Vec<Lease> {
    let mut bytes = arena.limit() / 2;
    let mut taken = Vec::new();
    while arena.free() > left {
        match arena.free() - bytes.min(arena.free()) >= left {
            true => taken.push(arena.lease(bytes).unwrap()),
            false => bytes /= 2,
        }
    }
    taken
}

/// Calls that come together and are held: a peer may hold as much as it leaves, so there is memory for none at first, or only for some.
#[test]
fn calls_for_which_there_is_no_memory_now_are_answered_later() {
    const CALLS: u32 = 600;
    let refused_at_first = |more| {
        let world = World::new(1, Faults::none());
        let mut rig = Rig::serving(&world, &RigPlan::lanes(1).memory(4 << 20), patient(), |_| Rpc::talking((Slow::default(),)));
        let peer = open(&mut rig, 0);
        let arena = rig.arenas[0].clone();
        let taken = all_but(&arena, arena.reserve() + more);
        let slow = |xid: u32| record(&call(xid, [SLOW.number, 2, BY_HELPER], &xid.to_be_bytes()));
        send(&peer, &(0..CALLS).flat_map(slow).collect::<Vec<u8>>());
        rig.wait(20 * MS);
        let got = peer.read(usize::MAX);
        let mut replies: Vec<&[u8]> = messages(&got).0;
        replies.sort_unstable();
        assert_eq!(replies.len(), CALLS as usize, "with {more} bytes");
        assert!(
            (0..CALLS).zip(&replies).all(|(xid, reply)| **reply == success(xid, &xid.to_be_bytes())[..]),
            "with {more} bytes"
        );
        assert_eq!(rig.named("requests_refused") + rig.named("requests_dropped"), 0, "with {more} bytes");
        drop(taken);
        rig.close(&mut Nobody);
        arena.refused() > 0
    };
    let refused: Vec<bool> = (0..9).map(|part| refused_at_first(part * (96 << 10))).collect();
    assert!(refused[0] && refused[2] && !refused[8], "{refused:?}");
}
