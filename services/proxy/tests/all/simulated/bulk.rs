//! Bulk, which passes through pipes of the system's, and what is small, which passes through the lane's memory.

use super::cast::{Accepting, Cast, Manner, stream};
use super::{list, listen, proxied, upstream};
use corelane::admin::watch::{LaneCounter as L, ServiceCounter as C};
use corelane::service::Random;
use corelane::testing::{
    FaultKind, Faults, MS, Nobody, Peer, Rig, RigPlan, S, Status, Talker, World, endings, for_seeds, patient,
};
use corelane_upstreams::Settings;
use std::time::Duration;

const BULK: usize = 1_000_000;

/// What comes faster than it is read piles up before the proxy: then receives are large.
fn piling() -> corelane::service::Limits {
    patient().output_high(128 << 10)
}

/// A client and its upstream, by a proxy with these limits.
fn joined(world: &World, limits: corelane::service::Limits) -> (Rig, Peer, Peer) {
    listen(world, 1);
    let mut rig = proxied(world, &RigPlan::lanes(1), limits, &list(1), Settings::new());
    let client = rig.connect(0);
    let mut accepting = Accepting(None);
    assert!(rig.play(&mut accepting));
    rig.wait(MS);
    (rig, client, accepting.0.unwrap())
}

/// Sends all of `bytes` from one end to the other, which reads what there is each time that so long has passed.
fn carry(rig: &mut Rig, from: &Peer, to: &Peer, bytes: &[u8], pause: Duration) {
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < bytes.len() {
        sent += from.send(&bytes[sent..]);
        rig.wait(pause);
        got.extend(to.read(usize::MAX));
    }
    assert!(got == bytes, "other bytes came");
}

fn piped(rig: &Rig) -> u64 {
    rig.lane_count(L::BytesPiped)
}

#[test]
fn a_pair_changes_its_way_there_and_back() {
    let (mut all_piped, mut all) = (0, 0);
    for_seeds(15, |seed| {
        let world = World::new(seed, Faults::none());
        let (mut rig, client, server) = joined(&world, piling());
        let bytes = stream(seed, 0, BULK);
        for (from, to) in [(&client, &server), (&server, &client)] {
            let mut before = piped(&rig);
            for round in 0..2 {
                // What is small is received into memory, but for the first behind bulk.
                for _ in 0..20 {
                    carry(&mut rig, from, to, &bytes[..500], MS);
                }
                assert!(piped(&rig) - before <= 500 * round, "what is small was piped");
                before = piped(&rig);
                carry(&mut rig, from, to, &bytes, MS);
                let bulk = piped(&rig) - before;
                assert!(bulk > 0 && bulk < BULK as u64, "{bulk} bytes of bulk were piped");
                (all_piped, all) = (all_piped + bulk, all + BULK as u64);
                before = piped(&rig);
            }
        }
        assert_eq!(rig.count(C::BytesIn), 4 * (20 * 500 + BULK as u64 + 1));
        assert_eq!((rig.count(C::BytesOut), rig.count(C::BytesForwarded)), (rig.count(C::BytesIn), rig.count(C::BytesIn)));
        assert_eq!(rig.lane_count(L::PipesHeld), 0, "an idle pair holds none");
        client.finish();
        rig.wait(MS);
        assert_eq!(server.status(), Status::Ended);
        // The other half goes on by itself.
        carry(&mut rig, &server, &client, &bytes, MS);
        server.close();
        client.close();
        rig.wait(S);
        rig.close(&mut Nobody);
    });
    // In one world alone most receives may be small: the other's output has little room each time.
    assert!(all_piped > all / 8, "{all_piped} of {all} bytes of bulk were piped");
}

#[test]
fn a_reader_that_stops_holds_two_pipes_at_the_most_and_gets_all_later() {
    for_seeds(20, |seed| {
        let world = World::new(seed, Faults::none());
        let (mut rig, client, server) = joined(&world, patient());
        let bytes = stream(seed, 0, 4_000_000);
        carry(&mut rig, &client, &server, &bytes[..BULK], MS);
        let mut sent = BULK;
        for _ in 0..50 {
            sent += client.send(&bytes[sent..]);
            rig.wait(20 * MS);
            let (pipes, memory) = (rig.lane_count(L::PipesHeld), rig.arenas[0].used());
            assert!(pipes <= 2 && memory <= 512 << 10, "{pipes} pipes and {memory} bytes of memory");
        }
        assert!(sent < bytes.len() && rig.count(C::OutputHighHits) > 0, "the sender is slowed down");
        let mut got = Vec::new();
        while got.len() < bytes.len() - BULK {
            sent += client.send(&bytes[sent..]);
            got.extend(server.read(usize::MAX));
            rig.wait(MS / 5);
        }
        assert!(got == bytes[BULK..], "other bytes came");
        assert_eq!(rig.lane_count(L::PipesHeld), 0);
        client.close();
        rig.wait(MS);
        server.close();
        rig.wait(S);
        rig.close(&mut Nobody);
    });
}

#[test]
fn a_reader_that_stops_for_good_ends_at_the_send_limit_and_leaves_no_pipe() {
    for_seeds(10, |seed| {
        let world = World::new(seed, Faults::none());
        let (mut rig, client, server) = joined(&world, patient().send_limit(5 * S));
        let bytes = stream(seed, 0, 3_000_000);
        carry(&mut rig, &client, &server, &bytes[..BULK], MS);
        let mut sent = BULK;
        for _ in 0..100 {
            sent += client.send(&bytes[sent..]);
            rig.wait(100 * MS);
        }
        assert_eq!((rig.count(C::SendLimitHits), rig.lane_count(L::PipesHeld)), (1, 0));
        client.close();
        server.close();
        rig.wait(S);
        rig.close(&mut Nobody);
    });
}

/// Says so much of `bytes` that nothing more is taken for a while: the other end reads nothing. Returns how much that is.
fn say_until_it_waits(rig: &mut Rig, from: &Peer, bytes: &[u8]) -> usize {
    let (mut sent, mut stands) = (0, 0);
    while stands < 20 {
        let taken = from.send(&bytes[sent..]);
        (sent, stands) = (sent + taken, if taken == 0 { stands + 1 } else { 0 });
        rig.wait(10 * MS);
    }
    assert!(sent < bytes.len() && rig.count(C::OutputHighHits) > 0, "its input waits");
    sent
}

#[test]
fn a_clients_reset_is_heard_while_its_upstream_takes_nothing() {
    for_seeds(10, |seed| {
        let world = World::new(seed, Faults::none());
        let (mut rig, client, server) = joined(&world, patient());
        say_until_it_waits(&mut rig, &client, &stream(seed, 0, 3_000_000));
        client.reset();
        rig.wait(3 * S);
        assert_eq!((rig.connections(), rig.lane_count(L::PipesHeld), rig.count(C::SendLimitHits)), (0, 0, 0));
        // It is seen behind the bytes that came before it.
        server.read(usize::MAX);
        rig.wait(MS);
        assert!(matches!(server.status(), Status::Failed(_)), "a reset becomes a reset");
        server.close();
        rig.close(&mut Nobody);
    });
}

#[test]
fn a_clients_reset_is_heard_behind_its_end() {
    for_seeds(10, |seed| {
        let world = World::new(seed, Faults::none());
        let (mut rig, client, server) = joined(&world, patient());
        assert_eq!(client.send(b"a question"), 10);
        client.finish();
        rig.wait(S);
        assert_eq!((server.read(usize::MAX), server.status()), (b"a question".to_vec(), Status::Ended));
        client.reset();
        rig.wait(3 * S);
        assert_eq!(rig.connections(), 0);
        assert!(matches!(server.status(), Status::Failed(_)), "a reset becomes a reset");
        server.close();
        rig.close(&mut Nobody);
    });
}

#[test]
fn a_client_that_has_finished_and_leaves_holds_no_place_while_its_upstream_is_silent() {
    let world = World::new(1, Faults::none());
    listen(&world, 1);
    world.silence(upstream(1), true);
    let mut rig = proxied(&world, &RigPlan::lanes(1), patient(), &list(1), Settings::new());
    let client = rig.connect(0);
    rig.wait(S);
    client.finish();
    rig.wait(S);
    client.reset();
    rig.wait(3 * S);
    assert_eq!((rig.connections(), rig.named("clients_turned_away")), (0, 0));
    rig.close(&mut Nobody);
}

/// What it has said before its end may be all that it wanted to say.
#[test]
fn what_a_client_has_said_before_its_end_waits_for_its_upstream_though_it_has_left() {
    let world = World::new(1, Faults::none());
    listen(&world, 1);
    world.silence(upstream(1), true);
    let mut rig = proxied(&world, &RigPlan::lanes(1), patient().connect_limit(20 * S), &list(1), Settings::new());
    let client = rig.connect(0);
    rig.wait(S);
    assert_eq!(client.send(b"all of it"), 9);
    client.finish();
    rig.wait(S);
    client.reset();
    rig.wait(10 * S);
    assert_eq!((rig.connections(), rig.named("clients_turned_away")), (2, 0));
    rig.wait(10 * S);
    assert_eq!((rig.connections(), rig.named("clients_turned_away")), (0, 1));
    rig.close(&mut Nobody);
}

/// A server that answers without having read all that it was sent resets its connection, and its answer is whole.
#[test]
fn an_answer_that_has_come_is_passed_on_whatever_became_of_its_server() {
    for_seeds(10, |seed| {
        let world = World::new(seed, Faults::none());
        let (mut rig, client, server) = joined(&world, patient());
        let bytes = stream(seed, 0, 3_000_000);
        say_until_it_waits(&mut rig, &server, &bytes);
        rig.wait(S);
        server.reset();
        rig.wait(5 * S);
        assert_eq!(rig.connections(), 2, "what has come is not read yet");
        let mut got = Vec::new();
        while !matches!(client.status(), Status::Failed(_)) {
            got.extend(client.read(usize::MAX));
            rig.wait(MS);
        }
        assert!(!got.is_empty() && got == bytes[..got.len()], "other bytes came");
        rig.wait(3 * S);
        assert_eq!((rig.connections(), rig.lane_count(L::PipesHeld)), (0, 0));
        client.close();
        rig.close(&mut Nobody);
    });
}

#[test]
fn an_end_in_order_waits_for_the_bytes_before_it_however_long_the_other_takes_nothing() {
    for_seeds(5, |seed| {
        let world = World::new(seed, Faults::none());
        let (mut rig, client, server) = joined(&world, patient());
        let bytes = stream(seed, 0, 3_000_000);
        let sent = say_until_it_waits(&mut rig, &client, &bytes);
        client.finish();
        rig.wait(5 * S);
        let mut got = Vec::new();
        while got.len() < sent {
            got.extend(server.read(usize::MAX));
            rig.wait(MS);
        }
        assert!(got == bytes[..sent] && server.status() == Status::Ended, "other bytes came, or no end");
        server.close();
        client.close();
        rig.wait(S);
        rig.close(&mut Nobody);
    });
}

#[test]
fn bulk_keeps_a_pair_from_being_idle() {
    let world = World::new(1, Faults::none());
    let (mut rig, client, server) = joined(&world, patient().idle_limit(10 * S));
    let bytes = stream(1, 0, 2_000_000);
    let mut sent = 0;
    // A part each second, for longer than the limit.
    for _ in 0..20 {
        let mut part = 100_000;
        while part > 0 {
            let taken = client.send(&bytes[sent..sent + part]);
            (sent, part) = (sent + taken, part - taken);
            rig.wait(MS);
            server.read(usize::MAX);
        }
        rig.wait(S);
    }
    assert!(rig.connections() == 2 && piped(&rig) > 0, "bytes in one direction count for both ends");
    rig.wait(11 * S);
    assert_eq!((client.status(), server.status()), (Status::Ended, Status::Ended));
    client.close();
    server.close();
    rig.close(&mut Nobody);
}

#[test]
fn where_there_is_no_pipe_bulk_passes_through_memory() {
    for_seeds(10, |seed| {
        let world = World::new(seed, Faults::none().with(FaultKind::RefusedPipe, 1_000));
        let (mut rig, client, server) = joined(&world, piling());
        carry(&mut rig, &client, &server, &stream(seed, 0, BULK), MS);
        assert!(piped(&rig) == 0 && rig.lane_count(L::PipesMaxHits) > 0);
        client.close();
        rig.wait(MS);
        server.close();
        rig.wait(S);
        rig.close(&mut Nobody);
    });
}

/// Everybody at once, under these faults; returns how much was piped.
fn storm(seed: u64, faults: Faults) -> u64 {
    let mut random = Random::new(seed ^ 0x6275_6c6b);
    let world = World::new(seed, faults);
    listen(&world, 2);
    let limits = patient().connect_limit(S).output_high(1 << (15 + random.below(4)));
    let mut rig = proxied(&world, &RigPlan::lanes(1), limits, &format!("{},{}", upstream(1), upstream(2)), Settings::new());
    let talkers: Vec<_> = (0..4).map(|number| Talker::new(rig.connect(number), seed, stream(seed, number, 150_000))).collect();
    let breakers: Vec<usize> = (0..4).filter(|_| random.below(4) == 0).collect();
    let mut manners = random.clone();
    let manner = move |_| match manners.below(5) {
        0 => Manner::Resets(manners.index(150_000)),
        1 => Manner::Closes(manners.index(150_000)),
        _ => Manner::Echoes,
    };
    let mut cast = Cast::new(talkers, manner);
    for number in breakers {
        cast.break_off(&world, number, random.time_below(Duration::from_millis(10)));
    }
    assert!(rig.play(&mut cast), "somebody waits for ever: {}", cast.waiting());
    cast.judge();
    rig.close(&mut cast);
    let opened = rig.count(C::Accepts) + rig.count(C::Connects) + rig.count(C::ConnectsFailed);
    assert_eq!(endings(&rig, 0), opened, "each connection ends once");
    piped(&rig)
}

#[test]
fn bulk_comes_out_as_it_went_in_whoever_leaves_and_under_every_fault() {
    let mut bytes = 0;
    for_seeds(80, |seed| bytes += storm(seed, Faults::none()) + storm(seed, Faults::all(seed)));
    assert!(bytes > 0, "nothing was piped");
}
