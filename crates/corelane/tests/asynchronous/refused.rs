//! Who was refused something is told when it is there, whatever has become of those before.

use crate::aio_parts::served;
use corelane::aio::{self, Connection, Lane};
use corelane::testing::{Faults, MS, Nobody, Rig, RigPlan, S, World, at, patient};
use corelane_watch::LaneCounter;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Lets a turn pass.
pub async fn next_turn() {
    let mut has_passed = false;
    poll_fn(|context: &mut Context<'_>| {
        if std::mem::replace(&mut has_passed, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub async fn poll_once<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// All memory that the lane still lends.
fn all_memory(lane: &Lane) -> Vec<impl Sized + use<>> {
    let sizes = (9..=20).rev().map(|power| 1 << power);
    sizes.flat_map(|bytes| std::iter::from_fn(move || lane.arena().lease(bytes)).collect::<Vec<_>>()).collect()
}

/// Writes twice while the lane has no memory: the first time it looks again by itself when there is some, the second time it waits to be woken.
#[test]
fn a_writer_that_was_refused_memory_is_woken_when_there_is_some() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            let write = |bytes: &'static [u8]| poll_fn(|context| connection.poll_write(context, bytes));
            // From now on it holds nothing, so that it is not ended for others.
            drop(connection.read().await?);
            let all = all_memory(&lane);
            let mut first = Box::pin(write(b"first "));
            assert!(!poll_once(&mut first).await, "there is no memory");
            next_turn().await;
            drop(all);
            assert!(poll_once(&mut first).await, "there is memory again");
            // Until what waited for memory in its place has been told.
            lane.sleep(100 * MILLISECOND).await;
            let all = all_memory(&lane);
            let mut second = Box::pin(write(b"second"));
            assert!(!poll_once(&mut second).await, "there is no memory");
            let later = lane.clone();
            lane.spawn(async move {
                later.sleep(100 * MILLISECOND).await;
                drop(all);
            })?;
            second.await.map(drop)
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    assert_eq!(rig.ask(&peer, "?"), "first ");
    rig.wait(S);
    assert_eq!(rig.hear(&peer), "second");
    rig.close(&mut Nobody);
}

/// A lane whose helper threads have room for so many calls.
pub fn with_helpers(offload_max: usize, make: impl Fn() -> aio::Serve) -> Rig {
    let mut plan = RigPlan::lanes(1);
    plan.tuning.offload_max = offload_max;
    let world = World::new(1, Faults::none());
    Rig::new(&world, &plan, |roster| {
        roster.serve(at(7), patient(), make());
        roster.serve(at(8), patient(), make());
    })
}

#[test]
fn a_call_that_waits_for_a_helper_is_begun_though_the_one_before_it_was_dropped() {
    let mut rig = with_helpers(1, || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            let mut calls: Vec<_> = (0..3).map(|number| Box::pin(lane.offload(move || number))).collect();
            for call in &mut calls {
                assert!(!poll_once(call).await, "a helper thread takes its time");
            }
            next_turn().await;
            drop(calls.remove(1));
            for call in calls {
                connection.write(format!("{} ", call.await?).as_bytes()).await?;
            }
            Ok(())
        })
    });
    let peer = rig.connect(0);
    rig.wait(S);
    assert_eq!(rig.hear(&peer), "0 2 ");
    rig.close(&mut Nobody);
}

#[test]
fn a_call_that_waits_for_a_helper_is_begun_though_only_others_had_them() {
    let mut rig = with_helpers(1, || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            while connection.read().await?.is_some() {
                connection.write(lane.offload(|| "done").await?.as_bytes()).await?;
            }
            Ok(())
        })
    });
    let peers = [7, 8].map(|port| rig.connect_to(usize::from(port), port));
    rig.wait(MS);
    for peer in &peers {
        assert_eq!(peer.send(b"?"), 1);
    }
    rig.wait(S);
    assert_eq!(peers.each_ref().map(|peer| rig.hear(peer)), ["done", "done"]);
    rig.close(&mut Nobody);
}

/// Gives up twice: a write that has not been told of memory yet, and one that memory is kept for.
async fn gives_up_writing(lane: &Lane, connection: &Connection) {
    let all = all_memory(lane);
    for _ in 0..3 {
        let mut write = Box::pin(connection.write(b"given up"));
        assert!(!poll_once(&mut write).await, "there is no memory");
        next_turn().await;
        next_turn().await;
        drop(write);
        lane.sleep(10 * MILLISECOND).await;
    }
    // Now nobody writes, as there is memory again.
    drop(all);
    lane.sleep(200 * MILLISECOND).await;
    let all = all_memory(lane);
    let mut write = Box::pin(connection.write(b"given up"));
    assert!(!poll_once(&mut write).await, "there is no memory");
    next_turn().await;
    drop(all);
    lane.sleep(100 * MILLISECOND).await;
    drop(write);
}

#[test]
fn a_write_that_was_given_up_keeps_no_memory_and_no_other_write_waiting() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            drop(connection.read().await?);
            gives_up_writing(&lane, &connection).await;
            lane.sleep(1000 * MILLISECOND).await;
            let all = all_memory(&lane);
            let later = lane.clone();
            lane.spawn(async move {
                later.sleep(1000 * MILLISECOND).await;
                drop(all);
            })?;
            connection.write(b"written").await?;
            lane.sleep(10_000 * MILLISECOND).await;
            Ok(())
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    peer.send(b"?");
    rig.wait(150 * MS);
    assert_eq!(rig.lane_count(LaneCounter::MemoryUsed), 0, "nobody writes");
    rig.wait(650 * MS);
    assert_eq!(rig.lane_count(LaneCounter::MemoryUsed), 0, "nobody writes");
    rig.wait(700 * MS);
    let before = rig.lane_count(LaneCounter::TurnsProductive);
    rig.wait(500 * MS);
    let turns = rig.lane_count(LaneCounter::TurnsProductive) - before;
    assert!(turns < 100, "{turns} turns, in which nothing came");
    rig.wait(2 * S);
    assert_eq!((rig.hear(&peer).as_str(), rig.lane_count(LaneCounter::MemoryUsed)), ("written", 0));
    rig.wait(10 * S);
    rig.close(&mut Nobody);
}

#[test]
fn who_waits_for_room_waits_and_does_nothing_else() {
    let (_world, mut rig) = served(patient().output_high(4096), || {
        aio::each(async |_lane: Lane, connection: Connection| connection.write(&[7; 1 << 20]).await)
    });
    let peer = rig.connect(0);
    rig.wait(S);
    let before = rig.lane_count(LaneCounter::TurnsProductive);
    rig.wait(S);
    let turns = rig.lane_count(LaneCounter::TurnsProductive) - before;
    assert!(turns < 100, "{turns} turns, in which nothing came");
    peer.reset();
    rig.wait(S);
    rig.close(&mut Nobody);
}

/// What they hold would grow with each call as long as no helper thread is free.
#[test]
fn calls_that_were_given_up_before_they_began_are_forgotten() {
    let held = Arc::new(());
    let asked = Rc::new(Cell::new(0));
    let (calls, count) = (held.clone(), asked.clone());
    let mut rig = with_helpers(0, move || {
        let (calls, count) = (calls.clone(), count.clone());
        aio::each(async move |lane: Lane, connection: Connection| -> aio::Result<()> {
            while connection.read().await?.is_some() {
                for _ in 0..1000 {
                    let held = calls.clone();
                    let mut call = Box::pin(lane.offload(move || drop(held)));
                    assert!(!poll_once(&mut call).await, "no helper thread is free");
                    next_turn().await;
                    count.set(count.get() + 1);
                }
            }
            Ok(())
        })
    });
    let before = Arc::strong_count(&held);
    let peer = rig.connect(0);
    rig.wait(MS);
    peer.send(b"?");
    rig.wait(S);
    assert_eq!(asked.get(), 1000);
    assert!(Arc::strong_count(&held) < before + 100, "{} calls are kept", Arc::strong_count(&held) - before);
    peer.finish();
    rig.close(&mut Nobody);
}
