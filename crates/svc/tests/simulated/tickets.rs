//! Tickets: answered once, in their order, from wherever the lane has the answer.

use crate::for_seeds;
use crate::puppet::Stage;
use crate::rig::{MS, RigPlan};
use corelane_seam::nanoseconds;
use corelane_seam::{Fault, Reason};
use corelane_sim::{Faults, Peer, Random, Status, World};
use corelane_svc::{Ending, Limits};
use corelane_watch::{LaneHistogram, ServiceCounter as C};
use std::time::Duration;

const RESET: Status = Status::Failed(Fault { reason: Reason::Reset, number: 104 });

fn stage(lanes: usize) -> (Stage, Peer) {
    let world = World::new(1, Faults::none());
    let mut stage = Stage::with(&world, &RigPlan::lanes(lanes), Limits::default(), |_, _| None);
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    (stage, peer)
}

fn end(mut stage: Stage, peers: &[&Peer]) {
    peers.iter().for_each(|peer| peer.close());
    stage.rig.wait(MS);
    stage.close();
}

#[test]
fn answers_in_the_same_call_keep_their_place() {
    let (mut stage, peer) = stage(1);
    let text = "hold a\nsay 2\nhold b\nsay 4\nhere b 3\nhere a 1\nany c\nsay 5\nhere c 6\n";
    assert_eq!(stage.rig.ask(&peer, text), "1\n2\n3\n4\n5\n6\n");
    end(stage, &[&peer]);
}

#[test]
fn answers_of_later_turns_keep_their_place() {
    let (mut stage, peer) = stage(1);
    let text = "hold a\nsay 2\nhold b\nsay 4\nhold c\nafter 10 answer c 5\nafter 20 answer a 1\nafter 60 answer b 3\n";
    assert_eq!(stage.rig.ask(&peer, text), "");
    stage.rig.wait(20 * MS);
    assert_eq!(stage.rig.hear(&peer), "1\n2\n");
    stage.rig.wait(40 * MS);
    assert_eq!(stage.rig.hear(&peer), "3\n4\n5\n");
    end(stage, &[&peer]);
}

#[test]
fn requests_are_told_by_how_long_they_took() {
    let (mut stage, peer) = stage(1);
    let requests = |stage: &Stage| stage.rig.snapshot().histogram(LaneHistogram::RequestNanoseconds);
    stage.rig.ask(&peer, "say 1\nsay 2\n");
    let at_once = requests(&stage);
    assert_eq!(at_once.count(), stage.rig.count(C::Requests), "each is told once");
    assert!(at_once.quantile(1000).unwrap() < nanoseconds(MS), "they were answered in their turn");
    stage.rig.ask(&peer, "hold a\nhold b\nafter 40 answer a 1\nafter 80 answer b 2\n");
    stage.rig.wait(200 * MS);
    assert_eq!(stage.rig.hear(&peer), "1\n2\n");
    let held = requests(&stage).since(&at_once);
    let late = held.buckets().filter(|(lowest, ..)| *lowest > nanoseconds(MS)).collect::<Vec<_>>();
    assert_eq!(late.iter().map(|(.., count)| count).sum::<u64>(), 2, "those that were held: {late:?}");
    let late = [0, 1].map(|index| (Duration::from_nanos(late[index].0), Duration::from_nanos(late[index].1)));
    assert!(late[0].0 <= 40 * MS && 40 * MS <= late[0].1 + MS && late[1].0 <= 81 * MS && 80 * MS <= late[1].1, "{late:?}");
    end(stage, &[&peer]);
}

#[test]
fn unordered_answers_leave_as_they_come() {
    let (mut stage, peer) = stage(1);
    let text = "any a\nany b\nany c\nafter 10 here c 1\nafter 20 answer a 2\nafter 30 tell answer b 3\nsay 0\n";
    assert_eq!(stage.rig.ask(&peer, text), "0\n");
    stage.rig.wait(35 * MS);
    assert_eq!(stage.rig.hear(&peer), "1\n2\n3\n");
    end(stage, &[&peer]);
}

#[test]
fn another_lane_may_have_the_answer() {
    let (mut stage, peer) = stage(2);
    let here: usize = stage.rig.ask(&peer, "lane\n").trim().parse().unwrap();
    let there = 1 - here;
    let text = format!("hold a\nsay 2\nany b\npass {there} pass {here} answer b 3\npass {there} pass {here} answer a 1\n");
    assert_eq!(stage.rig.ask(&peer, &text), "1\n2\n3\n");
    end(stage, &[&peer]);
}

#[test]
fn many_tickets_in_any_order_of_answers() {
    for_seeds(40, |seed| {
        let (mut stage, peer) = stage(1);
        let mut random = Random::new(seed);
        let mut text: String = (0..200).map(|number| format!("hold {number}\n")).collect();
        let mut left: Vec<usize> = (0..200).collect();
        while !left.is_empty() {
            let number = left.remove(random.below(left.len() as u64) as usize);
            text += &match random.below(3) {
                0 => format!("here {number} {number}\n"),
                1 => format!("answer {number} {number}\n"),
                _ => format!("after {} answer {number} {number}\n", random.below(20)),
            };
        }
        let mut got = stage.rig.ask(&peer, &text);
        stage.rig.wait(30 * MS);
        got += &stage.rig.hear(&peer);
        assert_eq!(got, (0..200).map(|number| format!("{number}\n")).collect::<String>(), "seed {seed}");
        assert_eq!(stage.rig.count(C::TicketsHeld), 200);
        end(stage, &[&peer]);
    });
}

#[test]
fn a_dropped_unordered_ticket_is_counted_and_harms_nobody() {
    let (mut stage, peer) = stage(1);
    assert_eq!(stage.rig.ask(&peer, "any a\ndrop a\nsay on\n"), "on\n");
    assert_eq!(stage.rig.count(C::TicketsDropped), 1);
    peer.finish();
    stage.rig.wait(MS);
    assert_eq!(stage.last_ending(), Some(Ending::EndOfStream), "nothing is waited for");
    end(stage, &[&peer]);
}

/// Wherever an ordered ticket is dropped, its connection ends at once: nobody waits for what never comes.
fn dropped_by(line: &str) {
    let (mut stage, peer) = stage(2);
    let other = stage.rig.connect(2);
    stage.rig.wait(MS);
    let lane: usize = stage.rig.ask(&peer, "lane\n").trim().parse().unwrap();
    let line = line.replace("THERE", &(1 - lane).to_string()).replace("HERE", &lane.to_string());
    stage.rig.ask(&peer, &format!("hold a\n{line}\n"));
    stage.rig.wait(30 * MS);
    peer.read(usize::MAX);
    assert_eq!((peer.status(), stage.last_ending()), (RESET, Some(Ending::Aborted)), "{line}");
    assert_eq!(stage.rig.count(C::TicketsDropped), 1);
    assert_eq!(stage.rig.ask(&other, "say on\n"), "on\n");
    end(stage, &[&other]);
}

#[test]
fn a_dropped_ordered_ticket_ends_its_connection() {
    dropped_by("drop a");
}

#[test]
fn a_ticket_dropped_by_a_message_is_noticed_at_once() {
    dropped_by("tell drop a");
}

#[test]
fn a_ticket_dropped_by_a_timer_is_noticed_at_once() {
    dropped_by("after 10 drop a");
}

#[test]
fn a_ticket_dropped_by_another_lanes_message_is_noticed_at_once() {
    dropped_by("pass THERE pass HERE drop a");
}

#[test]
fn an_answer_after_the_end_is_counted_and_does_nothing() {
    let (mut stage, peer) = stage(1);
    let other = stage.rig.connect(2);
    stage.rig.wait(MS);
    stage.rig.ask(&peer, "hold a\nany b\n");
    peer.reset();
    stage.rig.wait(MS);
    assert_eq!(stage.last_ending(), Some(Ending::Error));
    // The entry is used again: the answers must not reach the next connection.
    let next = stage.rig.connect(3);
    stage.rig.wait(MS);
    stage.rig.ask(&next, "any x\n");
    assert_eq!(stage.rig.ask(&other, "answer a late\nanswer b late\nsay on\n"), "on\n");
    assert_eq!((stage.rig.count(C::AnswersLate), stage.rig.hear(&next).as_str()), (2, ""));
    assert_eq!(stage.rig.ask(&next, "answer x mine\n"), "mine\n");
    assert_eq!(stage.rig.count(C::TicketsDropped), 0);
    end(stage, &[&other, &next]);
}

#[test]
fn a_connection_that_is_closing_can_be_written_to_as_long_as_its_tickets_can_be_answered() {
    let (mut stage, peer) = stage(1);
    let other = stage.rig.connect(2);
    stage.rig.wait(MS);
    stage.rig.ask(&peer, "any a\nany b\nclose\n");
    assert_eq!(stage.rig.ask(&other, "write a beside\nanswer a first\nwrite b between\nanswer b last\nsay on\n"), "on\n");
    assert_eq!(stage.rig.hear(&peer), "beside\nbetween\nfirst\nlast\n");
    end(stage, &[&other, &peer]);
}

#[test]
fn a_ticket_names_its_connection_for_closing() {
    let (mut stage, peer) = stage(1);
    let other = stage.rig.connect(2);
    stage.rig.wait(MS);
    stage.rig.ask(&peer, "any a\n");
    stage.rig.ask(&other, "shut a\nanswer a bye\n");
    assert_eq!((stage.rig.hear(&peer).as_str(), peer.status()), ("bye\n", Status::Ended));
    peer.close();
    stage.rig.wait(MS);
    assert_eq!(stage.last_ending(), Some(Ending::Completed));
    end(stage, &[&other]);
}

#[test]
fn what_a_ticket_keeps_is_there_when_the_lane_has_no_memory_left() {
    let (mut stage, peer) = stage(1);
    let text = "x".repeat(60_000);
    let asked = format!("keep a 60000\nhold b\nafter 40 reply a {text}\nafter 40 reply b {text}\nafter 80 reply b 8\n");
    assert_eq!(stage.rig.ask(&peer, &asked), "");
    stage.rig.wait(20 * MS);
    let arena = stage.rig.arenas[0].clone();
    let others: Vec<_> =
        std::iter::from_fn(|| (arena.free() > arena.reserve()).then(|| arena.lease(64 << 10).unwrap())).collect();
    stage.rig.wait(40 * MS);
    assert_eq!(stage.rig.hear(&peer), text);
    assert_eq!(stage.book.borrow().notes, ["Memory"], "the ticket that kept nothing came back");
    drop(others);
    stage.rig.wait(40 * MS);
    assert_eq!(stage.rig.hear(&peer), "8");
    end(stage, &[&peer]);
}

#[test]
fn what_tickets_keep_counts_as_output_until_they_are_answered() {
    let world = World::new(1, Faults::none());
    let limits = Limits::new().output_high(24 << 10);
    let mut stage = Stage::with(&world, &RigPlan::lanes(1), limits, |_, _| None);
    let peer = stage.rig.connect(1);
    stage.rig.wait(MS);
    let text = "keep a 10000\nafter 10 reply a 1\nkeep b 10000\nafter 30 reply b 2\nsay 3\n";
    assert_eq!(stage.rig.ask(&peer, text), "");
    stage.rig.wait(15 * MS);
    assert_eq!(stage.rig.hear(&peer), "1", "only now there was room for what comes behind b");
    stage.rig.wait(30 * MS);
    assert_eq!(stage.rig.hear(&peer), "23\n");
    end(stage, &[&peer]);
}

#[test]
fn a_ticket_expires_once_and_its_service_answers_with_another() {
    let (mut stage, peer) = stage(1);
    let text = "within a 20\nsay 2\nwithin b 10\nwithin c 30\nsay 4\nafter 15 reply a 1\nafter 25 answer b 3\n";
    assert_eq!(stage.rig.ask(&peer, text), "");
    stage.rig.wait(20 * MS);
    assert_eq!(stage.rig.hear(&peer), "12\nlate 10\n");
    stage.rig.wait(30 * MS);
    assert_eq!(stage.rig.hear(&peer), "late 30\n4\n");
    assert_eq!(stage.rig.count(C::AnswersLate), 1, "of the ticket that had expired");
    assert_eq!(stage.rig.count(C::TicketsDropped), 0);
    assert_eq!(stage.rig.ask(&peer, "drop c\nsay 5\n"), "5\n", "the other one that had expired is void: nothing is lost with it");
    assert_eq!(stage.rig.count(C::TicketsDropped), 0);
    end(stage, &[&peer]);
}
