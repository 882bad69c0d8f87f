//! How connections end: each ending reached, each session closed once, the page equal to an independent count.

use crate::cipher::{Calls, Manner, ciphers};
use crate::puppet::{PANICS_IN_OPEN, PANICS_IN_TRANSFORM, Stage};
use crate::rig::{MS, RigPlan, S, at, client};
use corelane_seam::{Fault, Reason};
use corelane_sim::{Faults, Status, World};
use corelane_svc::{Ending, Limits};
use corelane_watch::{ConnectionState, LaneCounter, Reader, ServiceCounter as C};
use std::time::Duration;

const RESET: Status = Status::Failed(Fault { reason: Reason::Reset, number: 104 });

#[test]
fn a_peer_that_finishes_still_gets_all_its_answers() {
    let mut stage = Stage::new(Limits::default());
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    peer.send(b"say one\nhold a\nsay three\nafter 50 answer a two\nany b\nafter 90 answer b four\n");
    peer.finish();
    assert_eq!(stage.rig.hear(&peer), "one\n");
    assert_eq!(stage.rig.ask(&peer, ""), "");
    stage.rig.wait(100 * MS);
    assert_eq!(String::from_utf8(peer.read(99)).unwrap(), "two\nthree\nfour\n");
    assert_eq!((peer.status(), stage.last_ending()), (Status::Ended, Some(Ending::EndOfStream)));
    peer.close();
    stage.close();
}

#[test]
fn a_service_that_closes_lets_its_output_leave_and_lingers() {
    let mut stage = Stage::new(Limits::default());
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    assert_eq!(stage.rig.ask(&peer, "say bye\nclose\nsay never\n"), "bye\n");
    assert_eq!(peer.status(), Status::Ended);
    assert_eq!(stage.last_ending(), None, "it lingers until the peer has finished");
    assert_eq!(stage.rig.ask(&peer, "more that is not read"), "");
    peer.finish();
    stage.rig.wait(MS);
    assert_eq!(stage.last_ending(), Some(Ending::Completed));
    assert_eq!(stage.rig.count(C::LingerLimitHits), 0);
    stage.close();
}

/// Its service has said that the peer owes nothing: where the peer has taken all, its end is not awaited.
#[test]
fn a_peer_that_has_said_its_last_and_has_all_is_not_waited_for() {
    let mut stage = Stage::new(Limits::default());
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    assert_eq!(stage.rig.ask(&peer, "owes nothing\nsay bye\nafter 20 close\n"), "bye\n");
    stage.rig.wait(30 * MS);
    assert_eq!((stage.last_ending(), peer.status()), (Some(Ending::Completed), Status::Ended));
    assert_eq!(stage.rig.connections(), 0);
    stage.close();
}

/// What is on its way to it would be lost with a reset, and what it has sent beyond its last would bring one.
#[test]
fn a_peer_that_has_said_its_last_is_waited_for_while_anything_is_on_its_way() {
    for (lasts, then) in [("close\n", ""), ("after 20 close\n", "wait\n")] {
        let mut stage = Stage::new(Limits::default());
        let peer = stage.rig.connect(1);
        stage.rig.wait(MS);
        assert_eq!(stage.rig.ask(&peer, &format!("owes nothing\nsay bye\n{lasts}")), "bye\n");
        stage.rig.ask(&peer, then);
        peer.send(b"more");
        stage.rig.wait(30 * MS);
        assert_eq!((stage.last_ending(), peer.status()), (None, Status::Ended), "{lasts}");
        peer.finish();
        stage.rig.wait(MS);
        assert_eq!((stage.last_ending(), peer.status()), (Some(Ending::Completed), Status::Ended), "{lasts}");
        stage.close();
    }
}

/// What the page says of the connections of the only lane.
fn rows(stage: &Stage) -> Vec<(u32, u64, ConnectionState)> {
    let rows = Reader::of(&stage.rig.page).unwrap().connections(0);
    rows.iter().map(|row| (row.number, row.opened_second, row.state)).collect()
}

#[test]
fn the_page_says_since_when_each_is_there_and_how_it_ends() {
    let mut stage = Stage::new(Limits::default());
    assert_eq!(rows(&stage), []);
    let first = stage.rig.world.now().nanoseconds() / 1_000_000_000;
    let peer = stage.rig.connect(1);
    stage.rig.wait(3 * S);
    let other = stage.rig.connect(2);
    stage.rig.wait(MS);
    assert_eq!(rows(&stage), [(0, first, ConnectionState::Open), (1, first + 3, ConnectionState::Open)]);
    stage.rig.ask(&peer, "close\n");
    assert_eq!(rows(&stage)[0].2, ConnectionState::Completed, "it lingers, and its ending is decided");
    peer.reset();
    stage.rig.wait(MS);
    assert_eq!(
        (rows(&stage)[0].2, stage.last_ending()),
        (ConnectionState::Error, Some(Ending::Error)),
        "another one overrules it"
    );
    other.finish();
    stage.rig.wait(MS);
    assert_eq!(rows(&stage)[1].2, ConnectionState::EndOfStream);
    let third = stage.rig.connect(3);
    stage.rig.wait(MS);
    let both = rows(&stage);
    assert_eq!((both.len(), both[1]), (2, (1, first + 3, ConnectionState::Open)), "the number that was free last is used again");
    stage.rig.ask(&third, "abort\n");
    assert_eq!(rows(&stage)[1].2, ConnectionState::Aborted);
    stage.close();
}

#[test]
fn held_answers_leave_before_a_close() {
    let mut stage = Stage::new(Limits::default());
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    assert_eq!(stage.rig.ask(&peer, "hold a\nafter 20 answer a late\nclose\n"), "");
    stage.rig.wait(30 * MS);
    assert_eq!((String::from_utf8(peer.read(99)).unwrap().as_str(), peer.status()), ("late\n", Status::Ended));
    peer.close();
    stage.rig.wait(MS);
    assert_eq!(stage.last_ending(), Some(Ending::Completed));
    stage.close();
}

#[test]
fn a_service_that_aborts_breaks_the_connection_off() {
    let mut stage = Stage::new(Limits::default());
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    stage.rig.ask(&peer, "abort\n");
    assert_eq!((peer.status(), stage.last_ending()), (RESET, Some(Ending::Aborted)));
    stage.close();
}

#[test]
fn a_reset_is_an_error_whatever_the_connection_is_doing() {
    let mut stage = Stage::new(Limits::default());
    for (number, text) in
        ["", "say x\n", "hold a\n", "half a li", "fill 1000\nabc", "flood 500000\n", "need 500\n"].iter().enumerate()
    {
        let peer = stage.rig.connect(number);
        stage.rig.wait(MS);
        peer.send(text.as_bytes());
        stage.rig.wait(MS);
        peer.reset();
        stage.rig.wait(MS);
        assert_eq!((stage.last_ending(), stage.is_open()), (Some(Ending::Error), false), "after {text:?}");
    }
    let (mut rig, book) = (stage.rig, stage.book);
    let other = rig.connect(9);
    rig.wait(MS);
    assert_eq!(rig.ask(&other, "answer a late\nsay on\n"), "on\n");
    assert_eq!(rig.count(C::AnswersLate), 1);
    other.close();
    Stage { rig, book }.close();
}

#[test]
fn an_idle_connection_closes_as_closing() {
    let mut stage = Stage::new(Limits::new().idle_limit(Duration::from_secs(2)));
    let (silent, lively) = (stage.rig.connect(1), stage.rig.connect(2));
    for _ in 0..6 {
        stage.rig.wait(500 * MS);
        assert_eq!(stage.rig.ask(&lively, "say here\n"), "here\n");
    }
    assert_eq!((silent.status(), stage.rig.count(C::IdleLimitHits)), (Status::Ended, 1));
    silent.close();
    stage.rig.wait(MS);
    assert_eq!(stage.last_ending(), Some(Ending::Closing));
    lively.close();
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn a_record_that_its_peer_does_not_complete_is_counted() {
    let mut stage = Stage::new(Limits::default());
    for text in ["say half", "need 100\nxyz", "fill 100\nxyz"] {
        let peer = stage.rig.connect(1);
        stage.rig.wait(MS);
        peer.send(text.as_bytes());
        peer.finish();
        stage.rig.wait(MS);
        peer.read(usize::MAX);
        assert_eq!((stage.last_ending(), peer.status()), (Some(Ending::EndOfStream), Status::Ended), "after {text:?}");
        peer.close();
    }
    assert_eq!(stage.rig.count(C::RecordsTruncated), 2, "a fill is handed over as far as it came");
    stage.close();
}

/// A panic ends its connection and nothing else.
fn panic_in(line: &str, panics: u64) {
    let mut stage = Stage::new(Limits::default());
    let (victim, other) = (stage.rig.connect(1), stage.rig.connect(2));
    stage.rig.wait(MS);
    assert_eq!(stage.rig.ask(&other, "hold a\n"), "");
    stage.rig.ask(&victim, line);
    stage.rig.wait(20 * MS);
    assert_eq!(victim.status(), RESET, "{line:?}");
    assert_eq!((stage.last_ending(), stage.rig.count(C::Panics)), (Some(Ending::Aborted), panics), "{line:?}");
    // A second line of the kind within a second is left out, which is said when the second is over.
    stage.rig.wait(S);
    assert_eq!(stage.rig.reports.borrow().len(), panics as usize);
    assert_eq!(stage.rig.ask(&other, "answer a alive\n"), "alive\n");
    other.close();
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn a_panic_in_a_call_ends_that_connection_only() {
    for line in ["panic\n", "after 5 panic\n", "tell panic\n", "say x\ndrained panic\n", "hold b\npanic\n"] {
        panic_in(line, 1);
    }
}

#[test]
fn a_panic_in_closed_is_counted_beside_the_ending() {
    panic_in("closing\nabort\n", 1);
    panic_in("closing\npanic\n", 2);
}

#[test]
fn a_panic_in_open_ends_a_connection_that_has_no_session() {
    let mut stage = Stage::new(Limits::default());
    let (victim, other) = (stage.rig.connect(PANICS_IN_OPEN), stage.rig.connect(2));
    stage.rig.wait(MS);
    assert_eq!((victim.status(), stage.rig.count(C::Panics), stage.rig.count(C::EndingsAborted)), (RESET, 1, 1));
    assert_eq!(stage.rig.ask(&other, "say alive\n"), "alive\n");
    other.close();
    stage.rig.wait(MS);
    stage.close_with(&[Ending::Aborted]);
}

#[test]
fn a_panic_while_a_transform_is_made_ends_the_connection_before_it_is_opened() {
    let mut stage = Stage::new(Limits::default());
    let victim = stage.rig.connect(PANICS_IN_TRANSFORM);
    stage.rig.wait(MS);
    assert_eq!((victim.status(), stage.rig.count(C::Panics), stage.rig.count(C::EndingsAborted)), (RESET, 1, 1));
    stage.close_with(&[Ending::Aborted]);
}

#[test]
fn a_panic_in_connected_ends_the_new_connection_only() {
    let mut stage = Stage::new(Limits::default());
    let upstream = "198.51.100.1:80".parse().unwrap();
    stage.rig.world.listen(upstream).unwrap();
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    assert_eq!(stage.rig.ask(&peer, &format!("connect {upstream} panic\nsay alive\n")), "alive\n");
    assert_eq!((stage.last_ending(), stage.rig.count(C::Panics)), (Some(Ending::Aborted), 1));
    assert_eq!((stage.rig.count(C::Connects), stage.rig.connections()), (1, 1));
    peer.close();
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn a_panic_in_a_call_for_the_whole_service_ends_no_connection() {
    let world = corelane_sim::World::new(1, corelane_sim::Faults::none());
    let mut stage = Stage::with(&world, &crate::rig::RigPlan::lanes(2), Limits::default(), |_, _| None);
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    let lane: usize = stage.rig.ask(&peer, "lane\n").trim().parse().unwrap();
    assert_eq!(stage.rig.ask(&peer, &format!("pass {} burst\nsay alive\n", 1 - lane)), "alive\n");
    assert_eq!((stage.rig.count(C::Panics), stage.rig.connections()), (1, 1));
    peer.close();
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn an_outgoing_connection_that_cannot_be_opened_ends_as_error() {
    let mut stage = Stage::new(Limits::new().connect_limit(Duration::from_millis(300)));
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    for refused in [at(99).to_string(), "203.0.113.1:1".to_string()] {
        assert_eq!(stage.rig.ask(&peer, &format!("connect {refused} panic\nsay on\n")), "on\n");
        assert_eq!(stage.last_ending(), Some(Ending::Error), "{refused}");
    }
    assert_eq!((stage.rig.count(C::ConnectsFailed), stage.rig.count(C::Connects)), (2, 0));
    peer.close();
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn an_outgoing_connection_serves_like_an_accepted_one() {
    let mut stage = Stage::new(Limits::default());
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    // The lane connects to itself: both ends are sessions of the same service.
    assert_eq!(stage.rig.ask(&peer, &format!("connect {} say close\nsay on\n", crate::rig::address())), "on\n");
    assert_eq!(stage.rig.count(C::Connects), 1);
    stage.rig.wait(3 * S);
    assert_eq!(stage.rig.connections(), 1);
    assert_eq!(client(1).ip(), peer.local().ip());
    peer.close();
    stage.rig.wait(MS);
    stage.close();
}

/// Whoever has said before it opens that this is all is not heard for longer.
#[test]
fn an_outgoing_connection_that_is_finished_before_it_is_open_says_what_it_has_to_say_and_finishes() {
    for is_behind_cipher in [false, true] {
        let (world, calls) = (World::new(1, Faults::none()), Calls::default());
        let mut make = ciphers(|_, _| Manner::default(), &calls);
        let is_ours = |peer: &corelane_svc::Peer| peer.address.ip() == Some(client(1).ip());
        let make = move |side, peer: &corelane_svc::Peer| {
            if is_behind_cipher && !is_ours(peer) { make(side, peer) } else { None }
        };
        let mut stage = Stage::with(&world, &RigPlan::lanes(1), Limits::default(), make);
        let peer = stage.rig.connect(1);
        stage.rig.wait(MS);
        let line = format!("connect {} say produce 0\nhalf\nhalf\nsay on\n", crate::rig::address());
        assert_eq!(stage.rig.ask(&peer, &line), "on\n");
        stage.rig.wait(5 * MS);
        assert_eq!((stage.rig.count(C::Connects), stage.rig.connections()), (1, 1), "cipher {is_behind_cipher}");
        assert_eq!(stage.book.borrow().count(Ending::EndOfStream), 2);
        peer.close();
        stage.rig.wait(MS);
        stage.close();
    }
}

#[test]
fn what_is_still_produced_reaches_a_peer_that_has_finished() {
    for slow in [false, true] {
        let mut stage = Stage::new(Limits::default());
        let peer = stage.rig.connect(1);
        stage.rig.wait(MS);
        peer.send(b"produce 500\n");
        peer.finish();
        let mut got = 0;
        while peer.status() == Status::Open {
            stage.rig.wait(MS);
            got += peer.read(if slow { 5_000 } else { usize::MAX }).len();
        }
        assert_eq!((got, peer.status(), stage.last_ending()), (500_000, Status::Ended, Some(Ending::EndOfStream)));
        peer.close();
        stage.close();
    }
}

#[test]
fn the_end_of_one_of_a_pair_closes_the_other() {
    let mut stage = Stage::new(Limits::default());
    let [one, other] = [1, 2].map(|number| stage.rig.connect(number));
    stage.rig.wait(MS);
    stage.rig.ask(&one, "any a\n");
    assert_eq!(stage.rig.ask(&other, "pair a\nanswer a paired\nsay bye\n"), "bye\n");
    one.reset();
    stage.rig.wait(MS);
    assert_eq!((other.status(), stage.last_ending()), (Status::Ended, Some(Ending::Error)));
    other.close();
    stage.rig.wait(MS);
    assert_eq!(stage.last_ending(), Some(Ending::Closing));
    stage.close();
}

#[test]
fn who_is_coupled_anew_is_closed_with_the_new_one_only() {
    let mut stage = Stage::new(Limits::default());
    let [one, old, new] = [1, 2, 3].map(|number| stage.rig.connect(number));
    stage.rig.wait(MS);
    stage.rig.ask(&one, "any a\n");
    stage.rig.ask(&old, "pair a\n");
    stage.rig.ask(&new, "pair a\n");
    assert_eq!(stage.rig.ask(&old, "say alone\n"), "alone\n");
    old.reset();
    stage.rig.wait(MS);
    assert_eq!(stage.rig.ask(&new, "say on\n"), "on\n");
    assert_eq!(stage.rig.ask(&one, "here a on\n"), "on\n", "who has left the pair closes nobody");
    new.reset();
    stage.rig.wait(MS);
    assert_eq!(one.status(), Status::Ended);
    one.close();
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn one_of_a_pair_that_lingers_goes_on_when_the_other_ends() {
    let mut stage = Stage::new(Limits::default());
    let [one, other] = [1, 2].map(|number| stage.rig.connect(number));
    stage.rig.wait(MS);
    stage.rig.ask(&one, "any a\n");
    stage.rig.ask(&other, "pair a\n");
    assert_eq!(stage.rig.ask(&one, "here a bye\nclose\n"), "bye\n");
    other.reset();
    stage.rig.wait(MS);
    assert_eq!(stage.book.borrow().endings, [(1, Ending::Error)], "the first still lingers");
    one.finish();
    stage.rig.wait(MS);
    assert_eq!(stage.last_ending(), Some(Ending::Completed));
    stage.close();
}

#[test]
fn a_timer_does_not_disturb_what_the_service_waits_for() {
    let mut stage = Stage::new(Limits::default());
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    assert_eq!(stage.rig.ask(&peer, "after 6 say tick\nfill 10\nabc"), "");
    assert_eq!(stage.rig.hear(&peer), "tick\n");
    assert_eq!(stage.rig.ask(&peer, "defghijsay on\n"), "filled 10 1015\non\n");
    assert_eq!(stage.rig.ask(&peer, "after 6 say tick\nneed 6\nsay 1\n"), "");
    assert_eq!(stage.rig.hear(&peer), "tick\n");
    assert_eq!(stage.rig.ask(&peer, "say"), "", "fewer bytes than it needs");
    assert_eq!(stage.rig.ask(&peer, " 2\n"), "1\n2\n");
    peer.close();
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn a_lane_lives_on_when_nobody_reads_what_it_reports() {
    let mut stage = Stage::new(Limits::default());
    let witness = stage.rig.connect(50);
    stage.rig.wait(MS);
    stage.rig.operator_is_gone.set(true);
    for number in 0..3 {
        let peer = stage.rig.connect(number);
        stage.rig.wait(MS);
        stage.rig.ask(&peer, "panic\n");
        stage.rig.wait(2 * S);
        assert_eq!(stage.rig.ask(&witness, "say here\n"), "here\n");
    }
    assert!(stage.rig.reports.borrow().is_empty());
    assert_eq!(stage.rig.lane_count(LaneCounter::ReportLinesDropped), 3);
    witness.close();
    stage.rig.wait(MS);
    stage.close();
}
