//! Limits of time from both sides: a peer that does too little is ended within its limit, and one that is slow but does enough is not.

use crate::puppet::Stage;
use crate::rig::{MS, RigPlan, S};
use corelane_seam::{Fault, Reason};
use corelane_sim::{Faults, Peer, Status, World};
use corelane_svc::{Ending, Limits};
use corelane_watch::ServiceCounter as C;
use std::time::Duration;

const RESET: Status = Status::Failed(Fault { reason: Reason::Reset, number: 104 });

fn stage(limits: Limits) -> Stage {
    Stage::with(&World::new(1, Faults::none()), &RigPlan::lanes(1), limits, |_, _| None)
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn connect(stage: &mut Stage, number: usize) -> Peer {
    let peer = stage.rig.connect(number);
    stage.rig.wait(MS);
    peer
}

/// Reads so many bytes each second, for so long or until nothing more comes and the stream has ended; returns how many in all.
fn read_slowly(stage: &mut Stage, peer: &Peer, bytes: usize, seconds: usize) -> usize {
    let mut got = 0;
    for _ in 0..seconds {
        got += peer.read(bytes).len();
        stage.rig.wait(S);
    }
    got
}

/// The buffer of the system has room again when a third of it is free: that takes this reader longer than the limit.
#[test]
fn a_slow_reader_is_waited_for_as_long_as_it_takes_enough() {
    let mut stage = stage(Limits::new().send_limit(seconds(10)));
    let peer = connect(&mut stage, 1);
    peer.send(b"flood 400000\n");
    let got = read_slowly(&mut stage, &peer, 3_000, 140);
    assert_eq!((got, peer.status(), stage.rig.count(C::SendLimitHits)), (400_000, Status::Open, 0));
    peer.close();
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn a_reader_that_takes_too_little_is_ended_within_the_limit() {
    // (the least rate, what is read each second, whether that is too little)
    for (rate, bytes, is_ended) in [(4_000, 1_900, true), (1_000, 1_900, false), (0, 0, true), (0, 1_900, false)] {
        let mut stage = stage(Limits::new().send_limit(seconds(20)).send_rate_min(rate));
        let peer = connect(&mut stage, 1);
        peer.send(b"flood 1000000\n");
        read_slowly(&mut stage, &peer, bytes, 21);
        let what = format!("{bytes} bytes a second where {rate} are asked for");
        assert_eq!(stage.rig.count(C::SendLimitHits), is_ended.into(), "{what}");
        assert_eq!(stage.last_ending(), is_ended.then_some(Ending::Aborted), "{what}");
        peer.reset();
        stage.rig.wait(MS);
        stage.close();
    }
}

/// What a peer sends to a connection that is closed behind its answer would be answered with a reset, which takes the rest of the answer from it.
#[test]
fn who_reads_slowly_has_the_whole_answer_of_a_closed_connection() {
    let mut stage = stage(Limits::new().linger_limit(seconds(2)).drain_limit(seconds(5)));
    let peer = connect(&mut stage, 1);
    // More than a window, and less than window and buffer: all has left the lane, and waits in the system.
    peer.send(b"flood 240000\nclose\n");
    let mut got = 0;
    for second in 0..32 {
        // As long as some of it waits in the system here.
        if second < 14 && second % 4 == 1 {
            peer.send(b"\r\n");
        }
        got += peer.read(8_000).len();
        stage.rig.wait(S);
    }
    assert_eq!((got, peer.status()), (240_000, Status::Ended));
    peer.close();
    stage.rig.wait(MS);
    assert_eq!(
        (stage.last_ending(), stage.rig.count(C::LingerLimitHits)),
        (Some(Ending::Completed), 1),
        "all was taken, and the peer never finished"
    );
    stage.close();
}

#[test]
fn who_takes_nothing_of_a_closed_connections_answer_is_left_within_the_limits() {
    let mut stage = stage(Limits::new().send_limit(seconds(10)).linger_limit(seconds(2)).drain_limit(seconds(2)));
    let silent = connect(&mut stage, 1);
    let talks = connect(&mut stage, 2);
    // More than a window, and less than window and buffer: all has left the lane.
    for peer in [&silent, &talks] {
        peer.send(b"flood 200000\nclose\n");
    }
    for _ in 0..16 {
        talks.send(b"and on it talks");
        stage.rig.wait(S);
    }
    assert_eq!((stage.rig.connections(), stage.rig.count(C::LingerLimitHits)), (0, 2));
    [&silent, &talks].iter().for_each(|peer| peer.close());
    stage.rig.wait(MS);
    stage.close();
}

/// What a service says that the peer owes holds, whatever bytes come.
#[test]
fn the_rest_of_a_request_must_come_in_time_whatever_comes() {
    let mut stage = stage(Limits::new().read_limit(seconds(3)).idle_limit(seconds(60)));
    let peer = connect(&mut stage, 1);
    assert_eq!(stage.rig.ask(&peer, "owes rest\nsay begun\n"), "begun\n");
    for _ in 0..5 {
        assert_eq!(peer.status(), Status::Open);
        peer.send(b"say more than the least rate asks for\n");
        stage.rig.wait(500 * MS);
    }
    stage.rig.wait(S);
    peer.read(usize::MAX);
    assert_eq!((peer.status(), stage.rig.count(C::ReadLimitHits)), (RESET, 1));
    // One that is served in time has no limit but those of its service.
    let other = connect(&mut stage, 2);
    assert_eq!(stage.rig.ask(&other, "owes rest\nsay begun\n"), "begun\n");
    stage.rig.wait(2 * S);
    assert_eq!(stage.rig.ask(&other, "owes nothing\nany a\n"), "");
    stage.rig.wait(100 * S);
    assert_eq!((other.status(), stage.rig.count(C::ReadLimitHits)), (Status::Open, 1));
    assert_eq!(stage.rig.ask(&other, "answer a late\nowes request\n"), "late\n");
    stage.rig.wait(59 * S);
    assert_eq!(other.status(), Status::Open);
    stage.rig.wait(2 * S);
    assert_eq!((other.status(), stage.rig.count(C::IdleLimitHits)), (Status::Ended, 1));
    other.close();
    stage.rig.wait(MS);
    stage.close();
}

/// Its answers are what the peer is to take first: then the service is not late.
#[test]
fn a_held_request_is_not_late_while_the_peer_takes_other_answers() {
    let mut stage = stage(Limits::new().answer_limit(seconds(10)).send_limit(seconds(60)));
    let peer = connect(&mut stage, 1);
    peer.send(b"any a\nflood 1000000\n");
    let got = read_slowly(&mut stage, &peer, 5_000, 30);
    assert_eq!((peer.status(), stage.rig.count(C::AnswerLimitHits)), (Status::Open, 0));
    assert!(got > 100_000, "{got} bytes");
    peer.reset();
    stage.rig.wait(MS);
    stage.close();
}
