//! Many of a kind, and one that never rests: the others are served all the same.

use crate::aio_parts::served;
use crate::examples::async_echo;
use corelane::aio::{self, Connection, Lane};
use corelane::service::ServiceCounter;
use corelane::testing::{Faults, MS, Nobody, Rig, RigPlan, S, Status, World, patient};
use corelane_watch::LaneCounter;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// One lane that has so many tasks.
fn with_tasks(tasks_max: usize, make: impl Fn() -> aio::Serve) -> Rig {
    let mut plan = RigPlan::lanes(1);
    plan.settings = plan.settings.tasks_max(tasks_max);
    Rig::serving(&World::new(1, Faults::none()), &plan, patient(), move |_lane| make())
}

#[test]
fn connections_beyond_the_bound_of_tasks_are_closed_and_counted_as_that() {
    // One task accepts.
    let mut rig = with_tasks(3, || aio::each(async_echo::echo));
    let peers = [0, 1, 2, 3, 4].map(|number| rig.connect(number));
    rig.wait(10 * MS);
    let open = peers.iter().filter(|peer| peer.status() == Status::Open).count();
    let counters = [ServiceCounter::Panics, ServiceCounter::EndingsAborted].map(|counter| rig.count(counter));
    assert_eq!((open, rig.lane_count(LaneCounter::TasksMaxHits), counters), (2, 3, [0, 0]));
    let served = peers.iter().find(|peer| peer.status() == Status::Open).unwrap();
    assert_eq!(rig.ask(served, "hello"), "hello");
    served.finish();
    rig.wait(10 * MS);
    let next = rig.connect(9);
    rig.wait(MS);
    assert_eq!(rig.ask(&next, "again"), "again");
    rig.close(&mut Nobody);
}

/// Is polled in every turn, for ever.
async fn never_rest() {
    poll_fn(|context: &mut Context<'_>| -> Poll<()> {
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Echoes; of who begins with `!` the task never rests again, nor do a hundred others.
async fn echo_or_never_rest(lane: Lane, connection: Connection) -> aio::Result<()> {
    while let Some(bytes) = connection.read().await? {
        if bytes.front().and_then(|segment| segment.bytes()).is_some_and(|bytes| bytes[0] == b'!') {
            for _ in 0..1000 {
                lane.spawn(never_rest())?;
            }
            never_rest().await;
        }
        connection.send_all(bytes).await?;
    }
    Ok(())
}

#[test]
fn tasks_that_never_rest_silence_nobody() {
    let limits = patient().drain_limit(Duration::from_secs(1));
    let (_world, mut rig) = served(limits, || aio::each(echo_or_never_rest));
    let [other, restless] = [rig.connect(0), rig.connect(1)];
    rig.wait(MS);
    restless.send(b"!");
    rig.wait(MS);
    for _ in 0..10 {
        assert_eq!(rig.ask(&other, "hello"), "hello");
    }
    // They are never quiet, but no drain waits longer than its limit.
    rig.close(&mut Nobody);
}

#[test]
fn a_crowd_that_wakes_at_once_silences_nobody() {
    const SLEEPERS: usize = 50_000;
    let awake = Rc::new(Cell::new(0));
    let count = awake.clone();
    // One peer has less than half of them.
    let mut rig = with_tasks(1 << 17, move || {
        let count = count.clone();
        aio::each(async move |lane: Lane, connection: Connection| -> aio::Result<()> {
            while let Some(bytes) = connection.read().await? {
                if bytes.len() == 1 {
                    for _ in 0..SLEEPERS {
                        let (sleeper, count) = (lane.clone(), count.clone());
                        lane.spawn(async move {
                            sleeper.sleep(Duration::from_secs(1)).await;
                            count.set(count.get() + 1);
                        })?;
                    }
                }
                connection.send_all(bytes).await?;
            }
            Ok(())
        })
    });
    let [other, many] = [rig.connect(0), rig.connect(1)];
    rig.wait(MS);
    many.send(b"!");
    rig.wait(S - 2 * MS);
    let mut asked_among_them = 0;
    while awake.get() < SLEEPERS {
        asked_among_them += usize::from(awake.get() > 0);
        assert_eq!(rig.ask(&other, "hello"), "hello", "with {} of them awake", awake.get());
    }
    println!("{asked_among_them} questions were answered while they woke");
    rig.close(&mut Nobody);
}

/// Sleeps, waits and connections that were given up leave their places to the next ones.
#[test]
fn ten_thousand_tasks_that_were_dropped_keep_nothing() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            while let Some(bytes) = connection.read().await? {
                for _ in 0..10_000 {
                    let (own, lease) = (lane.clone(), lane.arena().lease(512));
                    lane.spawn(async move {
                        let sleep = own.within(Duration::from_micros(1), own.sleep(Duration::from_secs(3600)));
                        assert!(sleep.await.is_none());
                        drop(lease);
                    })?;
                }
                connection.send_all(bytes).await?;
            }
            Ok(())
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    for _ in 0..3 {
        assert_eq!(peer.send(b"!"), 1);
        rig.wait(S);
        assert_eq!(peer.read(9), b"!");
        assert_eq!(rig.lane_count(LaneCounter::MemoryUsed), 0);
    }
    assert_eq!((rig.lane_count(LaneCounter::TasksMaxHits), rig.lane_count(LaneCounter::TasksPanicked)), (0, 0));
    rig.close(&mut Nobody);
}
