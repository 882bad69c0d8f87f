//! Sends in flight: they go on while the system still reads earlier ones, whose memory is charged until it is released, and no longer.

use crate::puppet::Stage;
use crate::rig::{MS, Nobody, RigPlan, S, patient};
use corelane_seam::{Payer, RELEASE_LIMIT};
use corelane_sim::{Faults, Peer, Status, World};
use corelane_svc::{Ending, Limits};
use corelane_watch::{LaneCounter, ServiceCounter as C};

/// The block of a piece that a puppet produces.
const PIECE: usize = 1024;
/// The block in which small writes gather. Only the first send in flight keeps all of it.
const BLOCK: usize = 16 << 10;

fn held(stage: &Stage) -> usize {
    stage.rig.arenas[0].held(Payer::LANE)
}

fn joined(stage: &mut Stage) -> Peer {
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    peer
}

/// A world whose system reads all that is sent until it is told to stop.
fn keeping(limits: Limits) -> Stage {
    let stage = Stage::new(limits);
    stage.rig.world.keep_sends(true);
    stage
}

#[test]
fn a_service_goes_on_while_its_sends_are_unreleased_up_to_what_may_wait() {
    let mut stage = keeping(patient().output_high(32 << 10));
    let peer = joined(&mut stage);
    let first = stage.rig.ask(&peer, "produce 40\n").len();
    assert_eq!((first, held(&stage)), (17_000, BLOCK + 16 * PIECE), "so many have left, and are held");
    assert_eq!(stage.rig.count(C::Sends), 17, "each was pushed as soon as the one before had left");
    stage.rig.wait(S);
    assert_eq!(peer.read(usize::MAX).len(), 0, "what is unreleased counts as what waits");
    stage.rig.world.keep_sends(false);
    let second = stage.rig.hear(&peer).len();
    assert_eq!((first + second, held(&stage)), (40_000, 0), "it was called again");
    peer.close();
    stage.close();
}

#[test]
fn input_waits_while_much_is_unreleased() {
    let mut stage = keeping(patient().output_high(16 << 10));
    let peer = joined(&mut stage);
    peer.send("flood 16000\n".repeat(4).as_bytes());
    let got = stage.rig.hear(&peer).len();
    assert!((16_000..40_000).contains(&got), "{got} bytes: the requests behind wait");
    assert!(stage.rig.count(C::OutputHighHits) > 0);
    stage.rig.world.keep_sends(false);
    assert_eq!(got + stage.rig.hear(&peer).len(), 64_000);
    peer.close();
    stage.close();
}

#[test]
fn unreleased_sends_are_bounded_in_number_too() {
    let mut stage = keeping(patient());
    let peer = joined(&mut stage);
    let answered = (0..100).take_while(|_| stage.rig.ask(&peer, "say x\n") == "x\n").count();
    assert_eq!((answered, held(&stage)), (64, BLOCK + 63 * 256 + 256), "one more waits");
    stage.rig.ask(&peer, "say y\n");
    stage.rig.world.keep_sends(false);
    assert_eq!(stage.rig.hear(&peer), "x\ny\n", "what waited leaves together");
    assert_eq!(stage.rig.count(C::Sends), 65);
    peer.close();
    stage.close();
}

#[test]
fn a_pair_waits_for_what_is_unreleased_of_the_other() {
    let mut stage = keeping(patient().output_high(16 << 10));
    let [one, other] = [1, 2].map(|number| stage.rig.connect(number));
    stage.rig.wait(MS);
    stage.rig.ask(&one, "hold first\n");
    stage.rig.ask(&other, "flood 20000\npair first\n");
    assert!(held(&stage) > 32 << 10, "its pieces are unreleased");
    one.send(&[b'\n'; 1]);
    stage.rig.wait(MS);
    assert!(stage.rig.count(C::OutputHighHits) > 0, "what the one brings is for the other, which has no room");
    stage.rig.world.keep_sends(false);
    one.reset();
    other.reset();
    stage.rig.wait(MS);
    stage.close();
}

/// Whoever waits for memory is called again when it is released, though its owner has nothing to do then.
#[test]
fn who_waits_for_memory_is_called_when_it_is_released() {
    let world = World::new(1, Faults::none());
    let mut stage = Stage::with(&world, &RigPlan::lanes(1).memory(4 << 20), patient().output_high(8 << 20), |_, _| None);
    stage.rig.world.keep_sends(true);
    let hog = joined(&mut stage);
    let asked = "flood 100000\n".repeat(40);
    hog.send(asked.as_bytes());
    let mut got = 0;
    for _ in 0..100 {
        got += stage.rig.hear(&hog).len();
    }
    assert!(got < 4_000_000 && stage.rig.count(C::MemoryHits) + stage.rig.lane_count(LaneCounter::MemoryLimitHits) > 0);
    stage.rig.world.keep_sends(false);
    for _ in 0..100 {
        got += stage.rig.hear(&hog).len();
    }
    assert_eq!((got, held(&stage)), (4_000_000, 0));
    hog.close();
    stage.close();
}

/// What is unreleased is its peer's: it takes from that peer's share. Where a connection that keeps much of it ends for a fellow, no other one does because the memory is not back at once.
#[test]
fn what_is_unreleased_counts_for_its_peer_and_for_who_ends() {
    let world = World::new(1, Faults::none());
    let mut stage = Stage::with(&world, &RigPlan::lanes(1).memory(16 << 20), patient().output_high(16 << 20), |_, _| None);
    stage.rig.world.keep_sends(true);
    let hog = joined(&mut stage);
    let mut left = "flood 100000\n".repeat(200);
    let mut got = 0;
    for _ in 0..200 {
        left.drain(..hog.send(left.as_bytes()));
        got += stage.rig.hear(&hog).len();
    }
    let share = stage.rig.arenas[0].limit() / 4 * 3 / 2;
    let hogged = held(&stage);
    assert!(
        got > share / 2 && (share / 2..=share + (1 << 20)).contains(&hogged),
        "{got} bytes came, {hogged} are held, {share} are its share"
    );
    let (fellow, other) = (stage.rig.connect(1), stage.rig.connect(2));
    stage.rig.wait(MS);
    let hear = |stage: &mut Stage, peer: &Peer| (0..200).map(|_| stage.rig.hear(peer).len()).sum::<usize>();
    other.send(b"flood 400000\n");
    assert_eq!(hear(&mut stage, &other), 400_000, "another peer has its own share");
    let refused = stage.rig.arenas[0].refused();
    fellow.send(b"flood 4000000\n");
    let early = hear(&mut stage, &fellow);
    assert!(stage.rig.arenas[0].refused() > refused, "its peer holds its share");
    stage.rig.wait(3 * S);
    assert!(
        stage.rig.count(C::MemoryEndings) <= 1 && fellow.status() == Status::Open,
        "nobody ends for what is not back at once"
    );
    assert!(held(&stage) >= hogged, "what the system reads is not back");
    stage.rig.world.keep_sends(false);
    assert_eq!(early + hear(&mut stage, &fellow), 4_000_000);
    hog.reset(); // it asks for more than anybody reads
    for peer in [&fellow, &other] {
        peer.close();
    }
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn a_connection_that_ended_gives_back_what_is_unreleased_once_when_that_is() {
    for (word, ending) in [("abort\n", Ending::Aborted), ("close\n", Ending::Completed)] {
        let mut stage = keeping(patient());
        let peer = joined(&mut stage);
        assert_eq!(stage.rig.ask(&peer, "say bye\n"), "bye\n");
        stage.rig.ask(&peer, word);
        peer.close();
        stage.rig.wait(MS);
        assert_eq!(stage.last_ending(), Some(ending));
        assert_eq!((stage.rig.connections(), held(&stage)), (1, BLOCK), "its socket is not closed before");
        stage.rig.world.keep_sends(false);
        stage.rig.wait(MS);
        assert_eq!((stage.rig.connections(), held(&stage)), (0, 0));
        stage.close();
    }
}

/// No close, and no drain, waits for ever for a system that does not say that it is done; and nobody gets the memory.
#[test]
fn what_is_never_released_is_nobodys_and_is_told() {
    let mut stage = keeping(patient());
    let peer = joined(&mut stage);
    assert_eq!(stage.rig.ask(&peer, "say bye\nclose\n"), "bye\n");
    peer.close();
    stage.rig.wait(RELEASE_LIMIT - S);
    assert_eq!((stage.rig.connections(), stage.rig.lane_count(LaneCounter::MemoryWithheld)), (1, 0));
    let other = stage.rig.connect(2);
    stage.rig.wait(MS);
    assert_eq!(stage.rig.ask(&other, "say more\n"), "more\n");
    stage.rig.wait(2 * S);
    assert_eq!((stage.rig.connections(), stage.rig.lane_count(LaneCounter::MemoryWithheld)), (1, BLOCK as u64));
    let told: Vec<String> = stage.rig.reports.borrow().iter().map(|record| record.text.clone()).collect();
    assert!(told.len() == 1 && told[0].contains("still reads memory that was sent on it"), "{told:?}");
    assert_eq!(held(&stage), 2 * BLOCK, "it is not used again");
    other.close();
    stage.rig.begin_drain();
    stage.rig.until_ended(&mut Nobody);
    assert!(stage.rig.has_ended(), "the drain does not wait for ever");
    assert_eq!(stage.rig.world.check(), Ok(()));
    assert_eq!(stage.rig.lane_count(LaneCounter::MemoryWithheld), 2 * BLOCK as u64);
}

/// A card may say that it is done only with the next packet: nobody ends for that. What cannot go on for it is no different from what its peer holds up.
#[test]
fn a_system_that_keeps_what_the_peer_has_ends_only_who_can_do_nothing_more() {
    let limits = Limits::new().output_high(32 << 10);
    let mut stage = keeping(limits);
    let peer = joined(&mut stage);
    assert_eq!(stage.rig.ask(&peer, "say x\n"), "x\n");
    stage.rig.wait(limits.send_limit * 4);
    assert_eq!((peer.status(), stage.rig.ask(&peer, "say y\n").as_str()), (Status::Open, "y\n"));
    assert_eq!(stage.rig.ask(&peer, "produce 40\n").len(), 16_000, "as much as may wait");
    stage.rig.wait(limits.send_limit * 2);
    assert_eq!((stage.rig.count(C::SendLimitHits), stage.last_ending()), (1, Some(Ending::Aborted)));
    stage.rig.world.keep_sends(false);
    stage.rig.wait(MS);
    stage.close();
}

/// An idle connection whose last answer is still read by the system ends as idle all the same.
#[test]
fn what_is_unreleased_keeps_no_connection_from_being_idle() {
    let limits = Limits::new();
    let mut stage = keeping(limits);
    let peer = joined(&mut stage);
    assert_eq!(stage.rig.ask(&peer, "say x\n"), "x\n");
    stage.rig.wait(limits.idle_limit + S);
    assert_eq!((stage.rig.count(C::IdleLimitHits), peer.status()), (1, Status::Ended));
    stage.rig.world.keep_sends(false);
    peer.close();
    stage.rig.wait(MS);
    assert_eq!(stage.last_ending(), Some(Ending::Closing));
    stage.close();
}
