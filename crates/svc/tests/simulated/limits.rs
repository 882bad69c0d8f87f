//! Each bound: reached, counted, keeps its promise, and leaves the other connections alone.

use crate::echo::{Echo, pattern};
use crate::for_seeds;
use crate::puppet::{Book, Puppet, Stage};
use crate::rig::Talker;
use crate::rig::{Family, MS, Nobody, Rig, RigPlan, S, address, at, client, endings, patient};
use corelane_seam::nanoseconds;
use corelane_seam::{Fault, Reason};
use corelane_sim::{Faults, Peer, Report, Status, World};
use corelane_svc::{Ending, Limits};
use corelane_watch::{LaneCounter, ServiceCounter as C};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const RESET: Status = Status::Failed(Fault { reason: Reason::Reset, number: 104 });

/// A stage with a witness, whose connection must work as before when the test is over.
struct Case {
    stage: Stage,
    witness: Peer,
}

impl Case {
    fn new(limits: Limits) -> Self {
        Self::on(Stage::new(limits))
    }

    fn on(mut stage: Stage) -> Self {
        let witness = stage.rig.connect(50);
        stage.rig.wait(MS);
        assert_eq!(stage.rig.ask(&witness, "say before\n"), "before\n");
        Self { stage, witness }
    }

    fn connect(&mut self, number: usize) -> Peer {
        let peer = self.stage.rig.connect(number);
        self.stage.rig.wait(MS);
        peer
    }

    fn ask(&mut self, peer: &Peer, text: &str) -> String {
        self.stage.rig.ask(peer, text)
    }

    fn count(&self, counter: C) -> u64 {
        self.stage.rig.count(counter)
    }

    /// Lets time pass, with the witness at work all the while.
    fn wait(&mut self, nanoseconds: u64) {
        let end = self.stage.rig.world.now() + Duration::from_nanos(nanoseconds);
        while self.stage.rig.world.now() < end {
            let left = end - self.stage.rig.world.now();
            self.stage.rig.wait(left.min(500 * MS));
            assert_eq!(self.stage.rig.ask(&self.witness, "say here\n"), "here\n");
        }
    }

    fn close(self) {
        self.close_with(&[]);
    }

    /// `unborn` are the endings of connections that had no session yet.
    fn close_with(mut self, unborn: &[Ending]) {
        assert_eq!(self.stage.rig.ask(&self.witness, "say after\n"), "after\n");
        self.witness.close();
        self.stage.rig.wait(MS);
        self.stage.close_with(unborn);
    }
}

fn bytes(peer: &Peer) -> usize {
    peer.read(usize::MAX).len()
}

#[test]
fn connections_over_the_bound_wait_and_are_served_later() {
    let mut case = Case::new(Limits::new().connections_max(3));
    let peers = [1, 2, 3, 4].map(|number| case.connect(number));
    for peer in &peers {
        peer.send(b"say served\n");
    }
    case.wait(nanoseconds(20 * MS));
    let served = |peers: &[Peer]| peers.iter().map(|peer| bytes(peer) > 0).collect::<Vec<_>>();
    assert_eq!(served(&peers), [true, true, false, false]);
    assert_eq!((case.stage.rig.connections(), case.count(C::ConnectionsOpen), case.count(C::Accepts)), (3, 3, 3));
    assert!(case.count(C::ConnectionsMaxHits) > 0);
    peers[0].close();
    peers[1].close();
    case.wait(nanoseconds(20 * MS));
    assert_eq!(served(&peers[2..]), [true, true]);
    peers[2].close();
    peers[3].close();
    case.close();
}

#[test]
fn connections_over_the_bound_of_their_address_are_reset() {
    let mut case = Case::new(Limits::new().connections_per_peer_max(2));
    let peers = [1, 1, 1, 2].map(|number| case.connect(number));
    let open: Vec<_> = peers.iter().map(Peer::status).collect();
    assert_eq!(open, [Status::Open, Status::Open, RESET, Status::Open]);
    assert_eq!((case.count(C::ConnectionsPerPeerMaxHits), case.count(C::AcceptsRefused)), (1, 1));
    peers[0].close();
    case.wait(nanoseconds(5 * MS));
    let again = case.connect(1);
    assert_eq!(case.ask(&again, "say again\n"), "again\n");
    for peer in [&peers[1], &peers[3], &again] {
        peer.close();
    }
    case.close();
}

#[test]
fn the_lanes_cap_holds_over_all_its_connections() {
    let world = World::new(1, Faults::none());
    let plan = RigPlan::lanes(1).connections_max(2);
    let mut case = Case::on(Stage::with(&world, &plan, Limits::default(), |_, _| None));
    let [first, second] = [1, 2].map(|number| case.connect(number));
    second.send(b"say served\n");
    case.wait(nanoseconds(20 * MS));
    assert_eq!(bytes(&second), 0);
    assert!(case.stage.rig.lane_count(LaneCounter::ConnectionsCapHits) > 0);
    assert_eq!(case.count(C::ConnectionsMaxHits), 0);
    first.close();
    case.wait(nanoseconds(5 * MS));
    assert_eq!(bytes(&second), 7);
    second.close();
    case.close();
}

#[test]
fn requests_in_flight_wait_at_the_bound() {
    let mut case = Case::new(Limits::new().requests_in_flight_max(2));
    let peer = case.connect(1);
    assert_eq!(case.ask(&peer, "any a\nany b\nany c\nsay more\n"), "");
    assert_eq!(case.count(C::TicketsHeld), 2);
    case.wait(nanoseconds(10 * MS));
    assert_eq!(case.count(C::RequestsInFlightMaxHits), 1, "one pause");
    assert_eq!(case.count(C::OutputHighHits), 0, "the output was never full");
    let witness = case.witness.clone();
    case.ask(&witness, "answer b two\n");
    assert_eq!(bytes(&peer), "two\nmore\n".len());
    case.ask(&witness, "answer a one\nanswer c three\n");
    assert_eq!(bytes(&peer), "one\nthree\n".len());
    assert_eq!(case.ask(&peer, "say free\n"), "free\n");
    peer.close();
    case.close();
}

#[test]
fn a_record_over_the_bound_ends_its_connection() {
    let mut case = Case::new(Limits::new().record_max(1000));
    let fits = case.connect(1);
    assert_eq!(case.ask(&fits, &format!("{:a<999}", "say ")), "");
    assert_eq!(fits.status(), Status::Open);
    assert_eq!(case.ask(&fits, "a\n").len(), 997);
    for text in [format!("{:a<1001}", "say "), "need 1002\n".to_string()] {
        let peer = case.connect(2);
        case.ask(&peer, &text);
        assert_eq!((peer.status(), case.stage.last_ending()), (RESET, Some(Ending::Aborted)));
    }
    assert_eq!(case.count(C::RecordMaxHits), 2);
    fits.close();
    case.close();
}

#[test]
fn a_service_that_waits_of_itself_has_hit_no_bound() {
    let mut case = Case::new(Limits::default());
    let peer = case.connect(1);
    assert_eq!(case.ask(&peer, "wait\nsay later\n"), "");
    assert_eq!([C::OutputHighHits, C::RequestsInFlightMaxHits, C::MemoryHits].map(|hits| case.count(hits)), [0; 3]);
    peer.close();
    case.close();
}

#[test]
fn input_waits_while_the_output_is_high() {
    let mut case = Case::new(Limits::new().output_high(64 << 10));
    let peer = case.connect(1);
    let text = "flood 200000\n".repeat(20);
    peer.send(text.as_bytes());
    case.wait(nanoseconds(S));
    assert!(case.count(C::OutputHighHits) > 0);
    assert!(case.count(C::Requests) < 20, "it stopped reading");
    let used = case.stage.rig.arenas[0].used();
    assert!(used < 1 << 20, "{used} bytes are held for a reader that does not read");
    let mut got = 0;
    while got < 20 * 200_000 {
        let piece = bytes(&peer);
        assert!(piece > 0, "it stopped at {got}");
        got += piece;
        case.wait(nanoseconds(2 * MS));
    }
    assert_eq!((case.count(C::OutputMaxHits), got), (0, 4_000_000));
    peer.close();
    case.close();
}

#[test]
fn output_over_the_bound_ends_its_connection() {
    let mut case = Case::new(Limits::new().output_high(1 << 20).output_max(2 << 20));
    let peer = case.connect(1);
    case.ask(&peer, "flood 3000000\n");
    bytes(&peer);
    assert_eq!((peer.status(), case.stage.last_ending()), (RESET, Some(Ending::Aborted)));
    assert_eq!(case.count(C::OutputMaxHits), 1);
    case.close();
}

#[test]
fn output_over_the_bound_ends_a_connection_that_is_closing_too() {
    let mut case = Case::new(Limits::new().output_high(1 << 20).output_max(2 << 20));
    let peer = case.connect(1);
    case.ask(&peer, "hold never\nafter 10 flood 3000000\nclose\n");
    case.wait(nanoseconds(20 * MS));
    assert_eq!((case.stage.last_ending(), case.count(C::OutputMaxHits)), (Some(Ending::Aborted), 1));
    case.close();
}

#[test]
fn output_behind_a_held_answer_is_bounded_too() {
    let mut case = Case::new(Limits::new().output_high(1 << 20).output_max(2 << 20));
    let peer = case.connect(1);
    case.ask(&peer, "hold never\nflood 3000000\n");
    assert_eq!((peer.status(), case.stage.last_ending()), (RESET, Some(Ending::Aborted)));
    assert_eq!((case.count(C::OutputMaxHits), bytes(&peer)), (1, 0));
    case.close();
}

/// What is let in, in one call or in many, reaches a peer that reads in the end; what it weighs then ends nobody.
fn is_let_in(text: &str, expected: usize) {
    let mut case = Case::new(Limits::new().output_high(64 << 10).output_max(256 << 10));
    let peer = case.connect(1);
    peer.send(text.as_bytes());
    case.wait(nanoseconds(S));
    assert_eq!(peer.status(), Status::Open);
    let mut got = 0;
    while got < expected {
        let piece = bytes(&peer);
        assert!(piece > 0, "it stopped at {got} of {expected}");
        got += piece;
        case.wait(nanoseconds(2 * MS));
    }
    assert_eq!((case.count(C::OutputMaxHits), got, peer.status()), (0, expected, Status::Open));
    peer.close();
    case.close();
}

#[test]
fn what_was_let_in_ends_nobody() {
    is_let_in(&"lump 1000000\n".repeat(4), 4_000_000);
    for order in ["any", "hold"] {
        let held: String = (0..100).map(|number| format!("{order} {number}\n")).collect();
        let answers: String = (0..100).map(|number| format!("after 20 weigh {number} 60000\n")).collect();
        is_let_in(&(held.clone() + &answers), 6_000_000);
        is_let_in(&(held + &answers + "after 30 say on\n"), 6_000_003);
    }
}

#[test]
fn what_is_pushed_without_asking_ends_its_connection_whatever_was_let_in() {
    let mut case = Case::new(Limits::new().output_high(64 << 10).output_max(256 << 10));
    let peer = case.connect(1);
    case.ask(&peer, "any a\nafter 20 weigh a 1000000\nafter 40 lump 100000\nafter 200 lump 100000\n");
    case.wait(nanoseconds(100 * MS));
    assert_eq!((case.count(C::OutputMaxHits), case.stage.last_ending()), (0, None));
    case.wait(nanoseconds(200 * MS));
    assert_eq!((case.count(C::OutputMaxHits), case.stage.last_ending()), (1, Some(Ending::Aborted)));
    case.close();
}

#[test]
fn timers_end_with_their_connection() {
    let mut case = Case::new(patient());
    let [reset, closed] = [1, 2].map(|number| case.connect(number));
    for peer in [&reset, &closed] {
        peer.send("after 800 say x\n".repeat(200).as_bytes());
    }
    case.stage.rig.wait(100 * MS);
    let before = case.stage.rig.lane_count(LaneCounter::TimersFired);
    reset.reset();
    closed.close();
    case.stage.rig.wait(5 * S);
    let fired = case.stage.rig.lane_count(LaneCounter::TimersFired) - before;
    assert!(fired < 10, "{fired} timers of connections that have ended");
    case.close();
}

#[test]
fn timers_over_the_bound_are_refused_to_the_service() {
    let mut case = Case::new(Limits::new().timers_per_connection_max(5));
    let peer = case.connect(1);
    for _ in 0..3 {
        assert_eq!(case.ask(&peer, &"after 20 say tick\n".repeat(8)), "");
        case.wait(nanoseconds(30 * MS));
        assert_eq!(bytes(&peer), 5 * 5);
    }
    assert_eq!(case.count(C::TimersMaxHits), 9);
    assert_eq!(case.ask(&peer, &("after 20 say never\nstop\n".repeat(8) + &"after 2 say tick\n".repeat(5))).len(), 25);
    case.wait(nanoseconds(30 * MS));
    assert_eq!((bytes(&peer), case.count(C::TimersMaxHits)), (0, 9));
    peer.close();
    case.close();
}

#[test]
fn what_a_service_sends_unasked_does_not_keep_a_connection_open() {
    let mut case = Case::new(Limits::new().idle_limit(Duration::from_secs(2)));
    let peer = case.connect(1);
    let pushes: String = (1..10).map(|number| format!("after {} say x\n", number * 500)).collect();
    peer.send(pushes.as_bytes());
    case.wait(nanoseconds(S));
    assert_eq!((bytes(&peer), peer.status()), (4, Status::Open));
    case.wait(nanoseconds(2 * S));
    bytes(&peer);
    assert_eq!((peer.status(), case.count(C::IdleLimitHits)), (Status::Ended, 1));
    peer.close();
    case.wait(nanoseconds(S));
    assert_eq!(case.stage.last_ending(), Some(Ending::Closing));
    case.close();
}

#[test]
fn a_connection_is_idle_from_when_its_answer_has_left() {
    for order in ["hold", "any"] {
        let mut case = Case::new(Limits::new().idle_limit(Duration::from_secs(2)));
        let peer = case.connect(1);
        peer.send(format!("{order} a\nafter 5000 answer a late\n").as_bytes());
        case.wait(nanoseconds(6500 * MS));
        assert_eq!((bytes(&peer), peer.status()), (5, Status::Open));
        case.wait(nanoseconds(S));
        assert_eq!((peer.status(), case.count(C::IdleLimitHits)), (Status::Ended, 1));
        peer.close();
        case.close();
    }
}

#[test]
fn a_request_that_is_held_for_too_long_ends_its_connection() {
    let mut case = Case::new(Limits::new().answer_limit(Duration::from_secs(3)));
    let [stuck, busy, slow] = [1, 2, 3].map(|number| case.connect(number));
    case.ask(&stuck, "hold stuck\n");
    case.ask(&busy, "any lost\n");
    for number in 0..7 {
        assert_eq!((busy.status(), stuck.status()), (Status::Open, Status::Open), "after {number} half seconds");
        busy.send(format!("any b{number}\nafter 900 answer b{number} x\nsay y\n").as_bytes());
        slow.send(format!("hold s{number}\nafter 2900 answer s{number} x\n").as_bytes());
        case.wait(if number == 5 { nanoseconds(400 * MS) } else { nanoseconds(500 * MS) });
        if number == 5 {
            break;
        }
    }
    case.wait(nanoseconds(200 * MS));
    bytes(&busy);
    assert_eq!((stuck.status(), busy.status(), slow.status()), (RESET, RESET, Status::Open));
    assert_eq!((case.count(C::AnswerLimitHits), case.stage.last_ending()), (2, Some(Ending::Aborted)));
    let reports = case.stage.rig.reports.borrow().clone();
    assert!(reports.len() == 1 && reports[0].text.contains("answer_limit"), "it is said once: {reports:?}");
    case.wait(nanoseconds(4 * S));
    assert_eq!((slow.status(), bytes(&slow)), (Status::Open, 12));
    slow.close();
    case.close();
}

#[test]
fn room_under_the_lanes_cap_serves_the_other_service() {
    let world = World::new(1, Faults::none());
    let plan = RigPlan::lanes(1).connections_max(1);
    let mut rig = Rig::new(&world, &plan, |roster| {
        for port in [address(), at(8)] {
            roster.serve(port, Limits::default(), Echo);
        }
    });
    // Both wait, each accepted by its own listener, when the only place is given to one of them.
    let [one, other] = [address(), at(8)].map(|to| world.connect(client(1), to).unwrap());
    rig.wait(5 * MS);
    assert_eq!(rig.connections(), 1);
    [&one, &other].iter().for_each(|peer| assert_eq!(peer.send(b"hello"), 5));
    rig.wait(5 * MS);
    let (first, second) = if one.readable_bytes() > 0 { (one, other) } else { (other, one) };
    assert_eq!((bytes(&first), bytes(&second)), (5, 0));
    first.close();
    rig.wait(5 * MS);
    assert_eq!(bytes(&second), 5, "the place is the other's now");
    second.close();
    rig.close(&mut Nobody);
}

#[test]
fn a_peer_that_talks_on_after_the_end_is_left_at_the_drain_limit() {
    let mut case = Case::new(Limits::new().linger_limit(Duration::from_secs(2)).drain_limit(Duration::from_secs(5)));
    let peer = case.connect(1);
    assert_eq!(case.ask(&peer, "say bye\nclose\n"), "bye\n");
    for second in 0..8 {
        assert_eq!(case.stage.last_ending(), (second >= 5).then_some(Ending::Completed), "after {second} seconds");
        peer.send(b"and on it talks");
        case.wait(nanoseconds(S));
    }
    assert_eq!(case.count(C::LingerLimitHits), 1);
    case.close();
}

#[test]
fn a_request_that_trickles_in_too_slowly_ends_its_connection() {
    let limits = Limits::new().receive_rate_min(100).read_limit(Duration::ZERO);
    let mut case = Case::new(limits);
    let (slow, fast) = (case.connect(1), case.connect(2));
    for second in 0..12 {
        slow.send(b"aaaaaaaaaa");
        fast.send(&[b'a'; 110]);
        case.wait(nanoseconds(S));
        if second < 4 {
            assert_eq!(slow.status(), Status::Open, "the first seconds are free");
        }
    }
    assert_eq!((slow.status(), fast.status()), (RESET, Status::Open));
    assert_eq!((case.count(C::ReceiveRateMinHits), case.stage.last_ending()), (1, Some(Ending::Aborted)));
    fast.close();
    case.close();
}

#[test]
fn a_record_that_takes_too_long_ends_its_connection() {
    let mut case = Case::new(Limits::new().receive_rate_min(0).read_limit(Duration::from_secs(3)));
    let (slow, patient) = (case.connect(1), case.connect(2));
    let fill = case.connect(3);
    case.ask(&fill, "fill 10000\nabc");
    for _ in 0..5 {
        slow.send(b"a");
        patient.send(b"say x\n");
        case.wait(nanoseconds(S));
    }
    assert_eq!((slow.status(), fill.status(), patient.status()), (RESET, RESET, Status::Open));
    assert_eq!((case.count(C::ReadLimitHits), case.stage.last_ending()), (2, Some(Ending::Aborted)));
    patient.close();
    case.close();
}

/// What came of a record while the service waited is no older, when that goes on, than the peer could help.
#[test]
fn time_in_which_the_service_waited_is_no_time_of_the_record() {
    // (what the peer sends after it was resumed, and how it stands then)
    for (number, (rest, status)) in [("art\n", Status::Open), ("", RESET)].into_iter().enumerate() {
        let mut case = Case::new(Limits::new().receive_rate_min(0).read_limit(Duration::from_secs(3)));
        let (peer, witness) = (case.connect(1 + number), case.witness.clone());
        assert_eq!(case.ask(&peer, "any a\nwait\nsay p"), "");
        case.wait(nanoseconds(10 * S));
        assert_eq!(case.ask(&witness, "resume a\nsay resumed\n"), "resumed\n");
        case.wait(nanoseconds(2 * S));
        assert_eq!((peer.status(), case.count(C::ReadLimitHits)), (Status::Open, 0), "it has its three seconds");
        peer.send(rest.as_bytes());
        case.wait(nanoseconds(2 * S));
        assert_eq!((peer.status(), case.count(C::ReadLimitHits)), (status, u64::from(rest.is_empty())));
        assert_eq!(bytes(&peer), rest.len() + usize::from(!rest.is_empty()), "{rest:?}");
        assert_eq!(case.ask(&witness, "drop a\nsay dropped\n"), "dropped\n");
        peer.close();
        case.wait(nanoseconds(MS));
        case.close();
    }
}

#[test]
fn a_service_may_say_that_a_record_takes_too_long() {
    let mut case = Case::new(Limits::new().receive_rate_min(0).read_limit(Duration::from_secs(3)));
    // (what is said at the end, how the connection ends; it does in any case)
    for (number, (words, status)) in [("say sorry", Status::Ended), ("more", RESET)].into_iter().enumerate() {
        let peer = case.connect(1 + number);
        peer.send(format!("overdue {words}\nsay").as_bytes());
        case.wait(nanoseconds(4 * S));
        let heard = String::from_utf8(peer.read(usize::MAX)).unwrap();
        assert_eq!((heard.as_str(), peer.status()), (if number == 0 { "sorry\n" } else { "" }, status), "{words}");
        assert_eq!(case.count(C::ReadLimitHits), 1 + number as u64, "{words}");
        peer.close();
    }
    case.wait(nanoseconds(S));
    case.close();
}

#[test]
fn a_transform_that_waits_for_its_header_is_bounded_as_a_record_is() {
    let world = World::new(1, Faults::none());
    let limits = Limits::new().receive_rate_min(0).read_limit(Duration::from_secs(3));
    let transform = |_, peer: &corelane_svc::Peer| match peer.address.ip() == Some(client(50).ip()) {
        true => None,
        false => Some(crate::transform::proxy_header()),
    };
    let mut case = Case::on(Stage::with(&world, &RigPlan::lanes(1), limits, transform));
    let slow = case.connect(1);
    slow.send(b"PROXY 1");
    case.wait(nanoseconds(5 * S));
    assert_eq!((slow.status(), case.count(C::ReadLimitHits)), (RESET, 1));
    case.close_with(&[Ending::Aborted]);
}

#[test]
fn a_reader_that_takes_nothing_is_given_up() {
    let mut case = Case::new(Limits::new().send_limit(Duration::from_secs(3)));
    let (stuck, slow) = (case.connect(1), case.connect(2));
    for peer in [&stuck, &slow] {
        case.ask(peer, "");
        peer.send(b"flood 1000000\n");
    }
    let mut got = 0;
    for _ in 0..8 {
        case.wait(nanoseconds(S));
        got += slow.read(150_000).len();
    }
    bytes(&stuck);
    assert_eq!((stuck.status(), case.stage.last_ending()), (RESET, Some(Ending::Aborted)));
    assert_eq!(case.count(C::SendLimitHits), 1);
    for _ in 0..3 {
        got += bytes(&slow);
        case.wait(nanoseconds(10 * MS));
    }
    got += bytes(&slow);
    assert_eq!((got, slow.status()), (1_000_000, Status::Open));
    slow.close();
    case.close();
}

#[test]
fn the_send_limit_counts_from_when_the_output_began_to_wait() {
    let faults = Faults { late_completion: 1000, ..Faults::none() };
    let world = World::new(3, faults);
    let limits = Limits::new().send_limit(Duration::from_secs(1));
    let mut case = Case::on(Stage::with(&world, &RigPlan::lanes(1), limits, |_, _| None));
    let peer = case.connect(1);
    for _ in 0..20 {
        assert_eq!(case.ask(&peer, "say x\n"), "x\n");
        case.stage.rig.wait(5 * S);
    }
    assert_eq!(case.count(C::SendLimitHits), 0);
    peer.close();
    case.close();
}

#[test]
fn a_peer_that_never_finishes_is_left_at_the_linger_limit() {
    let mut case = Case::new(Limits::new().linger_limit(Duration::from_secs(2)));
    let peer = case.connect(1);
    assert_eq!(case.ask(&peer, "say bye\nclose\n"), "bye\n");
    for _ in 0..4 {
        peer.send(b"and on it talks");
        case.wait(nanoseconds(1900 * MS));
    }
    assert_eq!(case.stage.last_ending(), None);
    case.wait(nanoseconds(S));
    assert_eq!((case.stage.last_ending(), case.count(C::LingerLimitHits)), (Some(Ending::Completed), 1));
    case.close();
}

/// A puppet's stage with an echo service beside it, at port 8, that has no room and no backlog left.
fn stage_beside_a_full_service(limits: Limits) -> Stage {
    let world = World::new(1, Faults::none());
    let book: Rc<RefCell<Book>> = Rc::default();
    let rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        roster.serve(address(), limits, Puppet::new(&book));
        let full = Limits::new().connections_max(1).backlog(1);
        roster.serve(at(8), full, Echo);
    });
    Stage { rig, book }
}

#[test]
fn an_outgoing_connection_that_nobody_answers_is_given_up() {
    let mut case = Case::on(stage_beside_a_full_service(Limits::new().connect_limit(Duration::from_secs(2))));
    let fill = |case: &mut Case| {
        let peer = case.stage.rig.world.connect(client(1), at(8)).unwrap();
        case.stage.rig.wait(MS);
        peer
    };
    let full = [fill(&mut case), fill(&mut case)];
    let witness = case.witness.clone();
    case.ask(&witness, &format!("connect {} panic\n", at(8)));
    case.wait(nanoseconds(S));
    assert_eq!(case.stage.last_ending(), None);
    case.wait(nanoseconds(2 * S));
    assert_eq!((case.stage.last_ending(), case.count(C::ConnectsFailed)), (Some(Ending::Error), 1));
    assert_eq!(case.stage.rig.connections(), 2);
    full.iter().for_each(Peer::close);
    case.close();
}

#[test]
fn what_is_closed_while_it_opens_is_gone_and_its_session_told() {
    for drains in [false, true] {
        let mut stage =
            stage_beside_a_full_service(Limits::new().drain_limit(Duration::from_secs(2)).linger_limit(Duration::from_secs(1)));
        let full = [1, 2].map(|number| {
            let peer = stage.rig.world.connect(client(number), at(8)).unwrap();
            stage.rig.wait(MS);
            peer
        });
        let peer = stage.rig.connect(3);
        stage.rig.wait(MS);
        stage.rig.ask(&peer, &format!("connect {} panic\n", at(8)));
        assert_eq!(stage.rig.connections(), 3);
        if !drains {
            stage.rig.ask(&peer, "hangup\n");
            assert_eq!(stage.rig.connections(), 2);
            assert_eq!(stage.book.borrow().endings.len(), 1);
        }
        full.iter().chain([&peer]).for_each(Peer::close);
        stage.close();
    }
}

#[test]
fn an_idle_connection_holds_no_memory_of_the_lane() {
    let mut stage = Stage::new(Limits::default());
    let peers: Vec<Peer> = (0..100).map(|number| stage.rig.connect(number)).collect();
    stage.rig.wait(MS);
    for peer in &peers {
        assert_eq!(stage.rig.ask(peer, "say x\n"), "x\n");
    }
    assert_eq!(stage.rig.arenas[0].used(), 0);
    peers.iter().for_each(Peer::close);
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn a_drain_that_takes_too_long_breaks_off_what_is_left() {
    let mut case = Case::new(Limits::new().drain_limit(Duration::from_secs(2)).linger_limit(Duration::from_secs(1)));
    let held = case.connect(1);
    case.ask(&held, "hold never\n");
    let begun = case.stage.rig.world.now();
    case.stage.rig.drain(&mut Nobody);
    assert!(case.stage.rig.world.now() - begun >= 2 * S);
    case.stage.rig.wait(MS);
    assert_eq!((held.status(), case.count(C::DrainDeadlineHits)), (RESET, 1));
    case.stage.close();
}

#[test]
fn a_drain_counts_as_over_its_deadline_only_what_it_breaks_off() {
    let mut case = Case::new(Limits::new().drain_limit(Duration::from_secs(5)));
    let silent = case.stage.rig.connect(1);
    case.stage.rig.wait(Duration::from_micros(100)); // it has arrived, and may not be accepted yet
    case.stage.rig.drain(&mut Nobody);
    case.stage.rig.wait(MS);
    assert_eq!((silent.status(), case.count(C::DrainDeadlineHits), case.count(C::EndingsAborted)), (Status::Ended, 0, 0));
    case.stage.close();
}

/// Two connections take all that the lane lends them with output that nobody reads; a third one asks for little.
fn lane_without_memory(receive_bytes: usize) {
    let world = World::new(1, Faults::none());
    let limits = Limits::new().output_high(8 << 20).send_limit(Duration::ZERO).read_limit(Duration::ZERO).receive_rate_min(0);
    let mut plan = RigPlan::lanes(1).memory(4 << 20);
    plan.tuning.receive_bytes = receive_bytes;
    let mut case = Case::on(Stage::with(&world, &plan, limits, |_, _| None));
    let hogs = [1, 2].map(|number| case.connect(number));
    for hog in &hogs {
        hog.send("flood 100000\n".repeat(40).as_bytes());
    }
    case.stage.rig.wait(S);
    assert!(case.stage.rig.lane_count(LaneCounter::MemoryLimitHits) > 0, "they were refused more");
    let poor = case.connect(3);
    assert_eq!(case.ask(&poor, "say poor\n"), "poor\n", "who needs little is served meanwhile");
    case.stage.rig.wait(S);
    assert_eq!(poor.status(), Status::Open);
    let mut got = [0; 2];
    for _ in 0..400 {
        for (hog, got) in hogs.iter().zip(&mut got) {
            *got += bytes(hog);
        }
        case.stage.rig.wait(2 * MS);
    }
    assert_eq!(got, [4_000_000; 2], "all that was held back is delivered");
    assert_eq!(case.count(C::EndingsAborted) + case.count(C::EndingsError), 0, "nobody was killed");
    for peer in hogs.iter().chain([&poor]) {
        peer.close();
    }
    case.close();
}

#[test]
fn a_lane_without_memory_for_receiving_pushes_back_and_recovers() {
    lane_without_memory(64 << 10);
}

#[test]
fn a_lane_without_memory_for_answers_pushes_back_and_recovers() {
    lane_without_memory(256);
}

#[test]
fn a_service_at_its_bound_does_not_stop_another() {
    let world = World::new(1, Faults::none());
    let plan = RigPlan::lanes(1);
    let mut rig = Rig::new(&world, &plan, |roster| {
        for (number, connections_max) in [(0, 1), (1, 10)] {
            let limits = Limits::new().connections_max(connections_max);
            let at = at(address().port() + number as u16);
            roster.serve(at, limits, Echo);
        }
    });
    let of_first: Vec<_> = (0..3).map(|number| rig.connect(number)).collect();
    rig.wait(MS);
    let of_second: Vec<_> = (0..3).map(|n| world.connect(client(n), at(8)).unwrap()).collect();
    rig.wait(MS);
    assert!(of_second.iter().all(|peer| rig.ask(peer, "hello") == "hello"));
    assert_eq!(of_first.iter().filter(|peer| rig.ask(peer, "hello") == "hello").count(), 1);
    assert!(rig.count_of(0, C::ConnectionsMaxHits) > 0 && rig.count_of(1, C::ConnectionsMaxHits) == 0);
    of_first.iter().chain(&of_second).for_each(Peer::close);
    rig.wait(5 * MS);
    rig.close(&mut Nobody);
}

/// More clients than there is room for, under faults: accepting stops and goes on, and everybody is served at last.
pub fn crowd(seed: u64, faults: Faults) -> Report {
    let world = World::new(seed, faults);
    let limits = patient().connections_max(2);
    let mut rig = Rig::serving(&world, &RigPlan::lanes(2).family(Family::of(seed)), limits, |_| Echo);
    let talker = |number| Talker::new(rig.connect(number), seed, pattern(seed + number as u64, 2_000));
    let mut talkers: Vec<Talker> = (0..20).map(talker).collect();
    assert!(rig.play(&mut talkers), "clients wait for ever");
    rig.close(&mut talkers);
    for talker in &talkers {
        assert!(talker.to_send.starts_with(&talker.got) && (!talker.is_complete() || talker.got == talker.to_send));
        assert!(talker.is_complete() || faults.reset + faults.aborted_accept + faults.lost_accept > 0);
    }
    assert_eq!(endings(&rig, 0), rig.count(C::Accepts));
    assert!(rig.count(C::ConnectionsMaxHits) > 0);
    world.report()
}

#[test]
fn a_crowd_is_served_bit_by_bit() {
    for_seeds(30, |seed| {
        crowd(seed, Faults::none());
    });
    for_seeds(100, |seed| {
        crowd(seed, Faults::all(seed));
    });
}

#[test]
fn a_message_in_pieces_must_come() {
    // (what is sent each second, which limit ends it)
    let silent = ("", C::ReadLimitHits);
    let slow = ("more\n", C::ReceiveRateMinHits);
    for (piece, limit) in [silent, slow] {
        let mut case = Case::new(Limits::new().receive_rate_min(100).read_limit(Duration::from_secs(6)));
        let peer = case.connect(1);
        peer.send(b"more\n");
        for second in 1..=6 {
            case.wait(nanoseconds(S - 20 * MS));
            assert_eq!(peer.status(), Status::Open, "{piece:?}, {second} s: the peer may pause");
            peer.send(piece.as_bytes());
        }
        case.wait(nanoseconds(S));
        assert_eq!((peer.status(), case.count(limit)), (RESET, 1), "{piece:?}");
        case.close();
    }
}

#[test]
fn a_message_in_pieces_that_comes_may_take_long() {
    let mut case = Case::new(Limits::new().receive_rate_min(100).read_limit(Duration::from_secs(3)));
    let peer = case.connect(1);
    let piece = format!("more {}\n", "x".repeat(250));
    for _ in 0..20 {
        peer.send(piece.as_bytes());
        case.wait(nanoseconds(2 * S));
    }
    assert_eq!(case.ask(&peer, "say over\n"), "over\n");
    case.wait(nanoseconds(8 * S));
    assert_eq!(case.ask(&peer, "say again\n"), "again\n", "the message is over");
    peer.close();
    case.close();
}

#[test]
fn a_service_that_waits_is_called_when_it_says_so() {
    let mut case = Case::new(Limits::new().record_max(1 << 20));
    let (peer, witness) = (case.connect(1), case.witness.clone());
    assert_eq!(case.ask(&peer, "any a\nwait\nsay one\n"), "");
    let received = case.count(C::BytesIn);
    peer.send(&b"say more\n".repeat(10_000));
    case.stage.rig.wait(2 * S);
    assert_eq!(case.count(C::BytesIn), received, "nothing more is received");
    assert_eq!(case.ask(&witness, "resume a\nsay resumed\n"), "resumed\n");
    case.wait(nanoseconds(10 * MS));
    assert_eq!(bytes(&peer), "one\n".len() + 10_000 * "more\n".len());
    assert_eq!(case.ask(&witness, "resume a\nanswer a last\nsay again\n"), "again\n");
    assert_eq!(case.ask(&peer, "any b\nwait\n"), "last\n", "nobody waited, so nothing was to be resumed");
    peer.finish();
    case.wait(nanoseconds(10 * MS));
    case.ask(&witness, "resume b\nanswer b end\n");
    case.wait(nanoseconds(10 * MS));
    assert_eq!(bytes(&peer), "end\n".len(), "the peer had finished meanwhile");
    peer.close();
    case.close();
}
