//! What waits for a work wakes its lane, and nothing that has to come stays behind.

use crate::rig::{MS, Rig, client, settings};
use crate::script::{Call, ONE, Scene, Script};
use corelane_lane::{Control, Mesh, Order, Works};
use corelane_seam::{Handle, Interest, Op, Outcome, StreamOp, StreamOptions, StreamOutcome};
use corelane_sim::{Faults, World, for_seeds};
use corelane_watch::LaneCounter;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Does nothing.
fn idle() -> Script<impl FnMut(Scene<'_>, Call)> {
    Script::new(|_, _| {})
}

/// How much a work has seen.
type Seen = Rc<Cell<u64>>;

fn note(seen: &Seen) {
    seen.set(seen.get() + 1);
}

#[test]
fn completions_over_the_budget_come_without_anything_else() {
    let world = World::new(1, Faults::none());
    let (outside, read) = (world.clone(), Interest { read: true, write: false });
    let (seen, mut begun, mut opened) = (Seen::default(), false, Vec::new());
    let counts = seen.clone();
    let script = Script::new(move |scene, call| match call {
        Call::Serve if !std::mem::replace(&mut begun, true) => {
            for index in 0..9 {
                let descriptor = outside.open_foreign(0).unwrap();
                outside.set_ready(0, descriptor, read);
                opened.push(descriptor);
                scene.kit.submit(Handle::new(1, index, 0), Op::Poll { descriptor, interest: read });
            }
        }
        Call::Completed(completion) => {
            outside.close_foreign(0, opened[counts.get() as usize]);
            assert_eq!(u64::from(completion.handle.index()), counts.get(), "in order");
            note(&counts);
        }
        _ => {}
    });
    let mut script = Some(script);
    let works = |_: usize, _: &mut _| Works::default().and_within(ONE, script.take().unwrap()).and(idle());
    let mut rig = Rig::new(world, Control::new(1), settings(), works);
    rig.pass(MS);
    assert_eq!(seen.get(), 9);
    rig.until_ended(Order::Drain);
    rig.world.check().unwrap();
}

#[test]
fn timers_over_the_budget_come_without_anything_else() {
    let seen = Seen::default();
    let mut rig = Rig::one(|_, _| {
        let (counts, mut begun) = (seen.clone(), false);
        let script = Script::new(move |scene, call| match call {
            Call::Serve if !std::mem::replace(&mut begun, true) => {
                let deadline = scene.kit.now() + 2 * MS;
                for index in 0..9 {
                    scene.kit.start_timer(deadline, Handle::new(2, index, 0));
                }
            }
            Call::Expired(handle) => {
                assert_eq!((handle.class(), handle.index() < 9), (2, true));
                note(&counts);
            }
            _ => {}
        });
        Works::default().and_within(ONE, script).and(idle())
    });
    rig.pass(4 * MS);
    assert_eq!((seen.get(), rig.count(LaneCounter::TimersFired), rig.count(LaneCounter::CompletionsForeign)), (9, 9, 0));
    rig.until_ended(Order::Drain);
}

#[test]
fn a_lane_sleeps_until_its_timer_comes_however_far_that_is() {
    let seen = Seen::default();
    let mut rig = Rig::one(|_, _| {
        let (counts, mut begun) = (seen.clone(), false);
        Works::of(Script::new(move |scene, call| match call {
            Call::Serve if !std::mem::replace(&mut begun, true) => {
                let deadline = scene.kit.now() + 5_000 * MS;
                scene.kit.start_timer(deadline, Handle::new(2, 0, 0));
            }
            Call::Expired(_) => note(&counts),
            _ => {}
        }))
    });
    rig.pass(6_000 * MS);
    let turns = rig.count(LaneCounter::TurnsProductive) + rig.count(LaneCounter::TurnsEmpty);
    assert!(seen.get() == 1 && turns < 20, "{turns} turns");
    rig.until_ended(Order::Drain);
}

#[test]
fn an_alarm_wakes_the_lane_whosever_it_is() {
    let (rung, world): ([Seen; 2], _) = (Default::default(), World::new(1, Faults::none()));
    let times = [5, 3].map(|after| world.now() + Duration::from_nanos(after * MS));
    let mut rig = Rig::new(world, Control::new(1), settings(), |_, _| {
        let alarms = rung.clone().into_iter().zip(times).map(|(rung, at)| {
            Script::new(move |Scene { kit, .. }, call| {
                if matches!(call, Call::Serve) && rung.get() == 0 {
                    kit.alarm = at.nanoseconds();
                    if kit.now() >= at.nanoseconds() {
                        kit.alarm = u64::MAX;
                        rung.set(kit.now());
                    }
                }
            })
        });
        alarms.fold(Works::default(), Works::and).and(idle())
    });
    rig.pass(10 * MS);
    for (rung, at) in rung.iter().zip(times) {
        let at = at.nanoseconds();
        assert!((at..at + MS / 2).contains(&rung.get()), "{} for {at}", rung.get());
    }
    rig.until_ended(Order::Drain);
}

/// Two lanes: on the first a work sends so many messages at once; on the second it takes them, or breaks before.
fn messages(count: u64, breaks: bool) -> (Rig, Seen) {
    let control = Control::new(2);
    let mut meshes = Mesh::between(&control, 64).into_iter();
    let (seen, world) = (Seen::default(), World::new(1, Faults::none()));
    let begin = world.now() + Duration::from_nanos(MS);
    let rig = Rig::new(world, control, settings(), |lane, _| {
        let (mut left, counts) = (if lane == 0 { count } else { 0 }, seen.clone());
        let script = Script::new(move |Scene { kit, mesh }, call| match call {
            // Both lanes have begun by then.
            Call::Serve if lane == 0 && kit.now() < begin.nanoseconds() => kit.alarm = begin.nanoseconds(),
            Call::Serve => {
                kit.alarm = u64::MAX;
                for number in count - left..std::mem::take(&mut left) {
                    mesh.as_mut().unwrap().send(kit, 1, number).unwrap();
                }
            }
            Call::Message(_) if breaks => panic!("not a word more"),
            Call::Message(number) => {
                assert_eq!(number, counts.get(), "in order and once");
                note(&counts);
            }
            _ => {}
        });
        Works::default().and_within(ONE, script.with(meshes.next().unwrap())).and(idle())
    });
    (rig, seen)
}

#[test]
fn messages_over_the_budget_come_without_anything_else() {
    let (mut rig, seen) = messages(9, false);
    rig.pass(2 * MS);
    assert_eq!(seen.get(), 9);
    rig.until_ended(Order::Drain);
}

#[test]
fn a_drain_does_not_wait_for_what_was_sent_to_a_work_that_broke() {
    let (mut rig, _) = messages(9, true);
    rig.pass(2 * MS);
    assert_eq!((rig.count(LaneCounter::MessagesSent), rig.count(LaneCounter::WorksBroken)), (9, 1));
    rig.until_ended(Order::Drain);
}

/// A work opens a connection, and breaks before it is open. That it is given up may come too late.
fn breaks_while_it_connects(seed: u64) {
    let world = World::new(seed, Faults { cancel_race: 1_000, ..Faults::none() });
    let to = (client(1).ip(), 80).into();
    world.listen(to).unwrap();
    let mut begun = false;
    let script = Script::new(move |scene: Scene<'_>, call| match call {
        Call::Serve if !std::mem::replace(&mut begun, true) => {
            let options = StreamOptions::default();
            scene.kit.submit(Handle::new(1, 0, 0), StreamOp::Connect { to: to.into(), from: None, options });
            scene.kit.alarm = 1;
        }
        Call::Serve => panic!("before it is open"),
        Call::Completed(completion) => assert!(matches!(completion.outcome, Outcome::Stream(StreamOutcome::Connected { .. }))),
        _ => {}
    });
    let mut script = Some(script);
    let mut rig = Rig::new(world, Control::new(1), settings(), |_, _| Works::of(script.take().unwrap()).and(idle()));
    rig.pass(2_000 * MS);
    assert_eq!((rig.count(LaneCounter::WorksBroken), rig.count(LaneCounter::CompletionsForeign)), (1, 1));
    rig.world.check().expect("nothing is left open, and the lane lives");
    rig.until_ended(Order::Drain);
}

#[test]
fn a_connection_that_opens_after_its_work_broke_is_closed() {
    for_seeds(200, breaks_while_it_connects);
}
