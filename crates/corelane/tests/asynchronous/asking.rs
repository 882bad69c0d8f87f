//! What tasks ask of their lane: in order, once, and not for who has gone.

use super::refused::{next_turn, poll_once, with_helpers};
use crate::aio_parts::served;
use corelane::aio::{self, Connection, Either, Error, Lane, select};
use corelane::service::{Asks, Fault, FileOutcome, Interest, OpenOptions, Outcome, ServiceCounter};
use corelane::testing::{Faults, MS, Nobody, Rig, RigPlan, S, Status, World, at, patient};
use corelane_watch::LaneCounter;
use std::cell::{Cell, RefCell};
use std::future::ready;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn calls_that_wait_for_a_helper_begin_in_the_order_in_which_they_were_asked() {
    let begun = Arc::new(Mutex::new(Vec::new()));
    let list = begun.clone();
    let mut rig = with_helpers(1, move || {
        let list = list.clone();
        aio::each(async move |lane: Lane, connection: Connection| -> aio::Result<()> {
            let call = |number: usize, list: Arc<Mutex<Vec<usize>>>| move || list.lock().unwrap().push(number);
            let mut calls: Vec<_> = (0..6).map(|number| Box::pin(lane.offload(call(number, list.clone())))).collect();
            for call in &mut calls {
                assert!(!poll_once(call).await, "a helper takes its time");
            }
            // Two that have not begun are wanted no more: one before it is known to its lane, and one that waits for a helper.
            let mut unknown = Box::pin(lane.offload(call(7, list.clone())));
            assert!(!poll_once(&mut unknown).await);
            drop(unknown);
            next_turn().await;
            drop(calls.remove(3));
            for call in calls {
                call.await?;
            }
            connection.write(b"all").await
        })
    });
    let peer = rig.connect(0);
    rig.wait(S);
    assert_eq!((rig.hear(&peer), begun.lock().unwrap().clone()), ("all".to_owned(), vec![0, 1, 2, 4, 5]));
    rig.close(&mut Nobody);
}

/// Gives up a thousand times what it has begun to wait for, each time when that waits in its turn.
async fn gives_up_often<F: Future>(asked: &Cell<usize>, wait: impl Fn() -> F) {
    for _ in 0..1000 {
        let mut waiting = Box::pin(wait());
        assert!(!poll_once(&mut waiting).await, "there is no room");
        next_turn().await;
        asked.set(asked.get() + 1);
    }
}

#[test]
fn what_waits_for_room_and_was_given_up_is_forgotten() {
    let held = Arc::new(());
    let asked = Rc::new(Cell::new(0));
    let (things, count) = (held.clone(), asked.clone());
    let mut plan = RigPlan::lanes(1);
    plan.tuning.offload_max = 0;
    let mut rig = Rig::new(&World::new(1, Faults::none()), &plan, |roster| {
        let (things, count, questions) = (things.clone(), count.clone(), things.clone());
        let handle = async move |lane: Lane<Asks<Arc<()>, ()>>, connection: Connection| {
            let mut first = Box::pin(lane.ask(0, questions.clone()));
            assert!(!poll_once(&mut first).await);
            gives_up_often(&count, || lane.ask(0, questions.clone())).await;
            gives_up_often(&count, || {
                let held = things.clone();
                lane.offload(move || drop(held))
            })
            .await;
            connection.write(b"enough").await
        };
        let never = async |_lane: Lane<Asks<Arc<()>, ()>>, _question| std::future::pending().await;
        roster.serve(at(7), patient().asks_max(1), aio::each(handle).answering(never));
    });
    let before = Arc::strong_count(&held);
    let peer = rig.connect(0);
    rig.wait(S);
    let kept = Arc::strong_count(&held) - before;
    assert!(asked.get() == 2000 && kept < 300, "{kept} of {} are kept", asked.get());
    drop(peer);
}

#[test]
fn questions_beyond_the_bound_are_asked_one_after_the_other() {
    let (answers, count) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let heard = answers.clone();
    let asked = count.clone();
    let mut rig = Rig::new(&World::new(1, Faults::none()), &RigPlan::lanes(1), |roster| {
        let (heard, asked) = (heard.clone(), asked.clone());
        let handle = async move |lane: Lane<Asks<usize, usize>>, _connection: Connection| {
            for number in 0..5 {
                let (heard, own) = (heard.clone(), lane.clone());
                lane.spawn(async move {
                    assert_eq!(own.ask(0, number).await, Ok(number));
                    heard.set(heard.get() + 1);
                })?;
            }
            lane.sleep(10 * SECOND).await;
            aio::Result::Ok(())
        };
        let answer = async move |lane: Lane<Asks<usize, usize>>, question| {
            asked.set(asked.get() + 1);
            lane.sleep(SECOND).await;
            question
        };
        roster.serve(at(7), patient().asks_max(1), aio::each(handle).answering(answer));
    });
    let _peer = rig.connect(0);
    rig.wait(2500 * MS);
    assert_eq!((answers.get(), count.get()), (2, 3));
    rig.wait(10 * S);
    assert_eq!(answers.get(), 5);
    rig.close(&mut Nobody);
}

#[test]
fn a_panic_in_what_a_task_has_asked_for_is_counted_and_the_lane_lives_on() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            lane.later(|_| panic!("as it was told"));
            next_turn().await;
            let outcome = lane.operation(|_, _| panic!("as it was told")).await;
            assert!(matches!(outcome, Outcome::Failed(fault) if fault == Fault::CANCELLED), "{outcome:?}");
            connection.write(b"alive").await
        })
    });
    let peer = rig.connect(0);
    assert_eq!((rig.hear(&peer), rig.count(ServiceCounter::Panics)), ("alive".to_owned(), 2));
    rig.close(&mut Nobody);
}

#[test]
fn a_connection_beyond_the_bound_is_refused_and_one_that_is_given_up_is_no_more() {
    let said: Rc<RefCell<Vec<bool>>> = Rc::default();
    let log = said.clone();
    let mut rig = Rig::new(&World::new(1, Faults::none()), &RigPlan::lanes(1), |roster| {
        let log = log.clone();
        let start = async move |lane: Lane| {
            let nobody: corelane::service::Address = "203.0.113.9:9".parse().unwrap();
            let mut first = Box::pin(lane.connect(nobody.clone()));
            assert!(!poll_once(&mut first).await);
            next_turn().await;
            let is_refused = matches!(lane.connect(nobody.clone()).await, Err(Error::Refused(_)));
            log.borrow_mut().push(is_refused);
            drop(first);
            lane.sleep(SECOND).await;
            let third = select(lane.connect(nobody), lane.sleep(SECOND)).await;
            log.borrow_mut().push(!matches!(third, Either::First(Err(Error::Refused(_)))));
        };
        roster.client(patient().connections_max(1), aio::main(start));
    });
    rig.wait(5 * S);
    assert_eq!(said.borrow().as_slice(), [true, true], "refused, and not refused");
    rig.close(&mut Nobody);
}

#[test]
fn who_has_waited_longest_is_given_the_connection_however_often_it_was_polled() {
    let (_world, mut rig) = served(patient(), || {
        aio::main(async |lane: Lane| {
            // One that has gone, one that looks again and again, and one that waits.
            let mut gone = Box::pin(lane.accept());
            assert!(!poll_once(&mut gone).await);
            drop(gone);
            for name in ["first", "second"] {
                let own = lane.clone();
                lane.spawn(async move {
                    let mut accepting = Box::pin(own.accept());
                    loop {
                        let waits = Duration::from_millis(if name == "first" { 10 } else { 3_600_000 });
                        if let Either::First(connection) = select(accepting.as_mut(), own.sleep(waits)).await {
                            connection.write(name.as_bytes()).await.unwrap();
                            return;
                        }
                    }
                })
                .unwrap();
            }
            lane.sleep(10 * SECOND).await;
        })
    });
    rig.wait(S);
    for name in ["first", "second"] {
        let peer = rig.connect(0);
        assert_eq!((rig.hear(&peer).as_str(), peer.status()), (name, Status::Ended));
    }
    rig.wait(10 * S);
    rig.close(&mut Nobody);
}

/// The handler breaks its connection off, and in the same turn another task lets it go.
#[test]
fn a_connection_that_is_broken_off_is_though_another_task_lets_it_go() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| {
            let connection = Rc::new(connection);
            let (other, own) = (connection.clone(), lane.clone());
            lane.spawn(async move {
                own.sleep(SECOND).await;
                drop(other);
            })
            .unwrap();
            lane.sleep(SECOND).await;
            drop(connection);
            panic!("as it was told");
        })
    });
    let peer = rig.connect(0);
    rig.wait(2 * S);
    assert!(matches!(peer.status(), Status::Failed(_)), "{:?}", peer.status());
    assert_eq!([ServiceCounter::EndingsAborted, ServiceCounter::Panics].map(|counter| rig.count(counter)), [1, 1]);
    rig.close(&mut Nobody);
}

#[test]
fn sleeps_one_after_the_other_and_an_empty_file_are_nothing_special() {
    let (world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            for _ in 0..3 {
                lane.sleep(SECOND).await;
            }
            let options = corelane::service::OpenOptions::new().read(true).directory(true);
            let (directory, _) = lane.open("/srv", options).await?;
            assert_eq!(lane.send_file(&connection, &directory, "empty").await?.length, 0);
            assert_eq!(select(ready(1), ready(2)).await, Either::First(1));
            connection.write(b"awake").await
        })
    });
    world.write_file("/srv/empty", b"");
    let peer = rig.connect(0);
    rig.wait(2900 * MS);
    assert_eq!(rig.hear(&peer), "");
    rig.wait(200 * MS);
    assert_eq!((rig.hear(&peer).as_str(), rig.lane_count(LaneCounter::TasksPanicked)), ("awake", 0));
    rig.close(&mut Nobody);
}

/// What no driver can do ends a call of the service, and not the lane.
#[test]
fn operations_that_cannot_be_are_the_services_own_fault() {
    let (world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            let (file, _) = lane.open("/srv/there", OpenOptions::new().read(true)).await?;
            let lease = connection.lease(256).unwrap();
            let whole = file.clone();
            // More than the lease has room for: as much as it has.
            let outcome = lane.operation(move |cx, token| cx.read_file(&whole, 0, lease, usize::MAX, token)).await;
            let Outcome::File(FileOutcome::Filled { lease, fault: None }) = outcome else { panic!("{outcome:?}") };
            assert_eq!((lease.len(), lease.room()), (256, 0));
            let full = file.clone();
            let nothing = [
                lane.operation(move |cx, token| cx.read_file(&full, 0, lease, 256, token)).await,
                lane.operation(|cx, token| cx.poll(1, Interest { read: false, write: false }, token)).await,
            ];
            assert!(nothing.iter().all(|outcome| matches!(outcome, Outcome::Failed(fault) if *fault == Fault::CANCELLED)));
            let warm = lane.operation(move |cx, token| cx.warm_file(&file, 0, u64::MAX, token)).await;
            assert!(matches!(warm, Outcome::File(FileOutcome::Warm { bytes: 300, .. })), "{warm:?}");
            connection.write(b"all").await
        })
    });
    world.write_file("/srv/there", &[b'x'; 300]);
    let peer = rig.connect(0);
    assert_eq!((rig.hear(&peer), rig.count(ServiceCounter::Panics)), ("all".to_owned(), 2));
    rig.close(&mut Nobody);
}
