//! When a drain waits for a task, and when it does not.

use super::refused::poll_once;
use crate::aio_parts::served;
use corelane::aio::{self, Connection, Either, Lane, select};
use corelane::testing::{MS, Nobody, Rig, S, Status, patient};
use std::rc::Rc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A lane whose drain begins half a second after one has connected, and said this.
fn drained(said: &[u8], make: impl Fn() -> aio::Serve) -> (Rig, corelane::testing::Peer) {
    let (_world, mut rig) = served(patient(), make);
    let peer = rig.connect(0);
    rig.wait(MS);
    peer.send(said);
    rig.wait(500 * MS);
    rig.begin_drain();
    rig.wait(100 * MS);
    (rig, peer)
}

#[test]
fn a_task_that_has_not_waited_yet_is_at_work() {
    let (mut rig, peer) = drained(b"", || {
        aio::each(async |lane: Lane, connection: Connection| {
            lane.sleep(SECOND).await;
            connection.write(b"welcome").await
        })
    });
    rig.wait(S);
    assert_eq!(rig.hear(&peer), "welcome");
    rig.close(&mut Nobody);
}

#[test]
fn a_task_that_gave_up_to_wait_is_at_work() {
    let (mut rig, peer) = drained(b"", || {
        aio::each(async |lane: Lane, connection: Connection| {
            assert!(lane.within(SECOND / 4, connection.fill(1)).await.is_none());
            lane.sleep(SECOND).await;
            connection.write(b"enough").await
        })
    });
    rig.wait(S);
    assert_eq!(rig.hear(&peer), "enough");
    rig.close(&mut Nobody);
}

#[test]
fn a_task_that_waits_since_some_time_is_not_at_work() {
    let (mut rig, peer) = drained(b"", || {
        aio::each(async |lane: Lane, connection: Connection| {
            lane.sleep(SECOND / 4).await;
            connection.fill(1).await
        })
    });
    assert_eq!(peer.status(), Status::Ended);
    rig.close(&mut Nobody);
}

/// Reads on, while another task answers what was asked before.
async fn answers_beside(lane: Lane, connection: Connection) -> aio::Result<()> {
    let connection = Rc::new(connection);
    let (reading, later) = (connection.clone(), lane.clone());
    lane.spawn(async move {
        later.sleep(SECOND / 4).await;
        let work = reading.at_work();
        later.sleep(SECOND).await;
        let _ = reading.write(b"beside").await;
        drop(work);
        later.sleep(60 * SECOND).await;
        drop(reading);
    })?;
    while connection.fill(1).await? {
        connection.input(|input| input.skip(input.len()));
    }
    Ok(())
}

#[test]
fn a_connection_that_is_said_to_be_at_work_is_until_that_ends() {
    let (mut rig, peer) = drained(b"hello", || aio::each(answers_beside));
    assert_eq!(peer.status(), Status::Open);
    rig.wait(S);
    assert_eq!((rig.hear(&peer), peer.status()), ("beside".to_owned(), Status::Ended));
    rig.close(&mut Nobody);
}

#[test]
fn who_outlives_a_drain_is_told_of_it_before_and_after_and_nobody_else_is() {
    let (mut rig, peer) = drained(b"", || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            connection.outlive_drain(true);
            let waits = select(connection.draining(), lane.sleep(2 * SECOND)).await;
            assert_eq!(waits, Either::First(()), "who waits is told");
            connection.draining().await;
            lane.draining().await;
            connection.write(b"told").await
        })
    });
    assert_eq!(rig.hear(&peer), "told");
    rig.close(&mut Nobody);
    let (mut rig, peer) = drained(b"", || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            lane.sleep(SECOND).await;
            assert!(!poll_once(&mut Box::pin(connection.draining())).await, "the lane ends it itself");
            connection.write(b"not told").await
        })
    });
    rig.wait(S);
    assert_eq!(rig.hear(&peer), "not told");
    rig.close(&mut Nobody);
}

#[test]
fn a_drain_is_told_to_who_waits_for_it_and_ends_nothing_else_that_is_waited_for() {
    let (mut rig, peer) = drained(b"", || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            connection.outlive_drain(true);
            let answer = lane.offload(|| "done");
            let (mut answer, mut drain) = (Box::pin(answer), Box::pin(lane.draining()));
            assert!(!poll_once(&mut drain).await);
            lane.sleep(SECOND / 2 - Duration::from_micros(1)).await;
            let mut operation = Box::pin(lane.offload(|| "as well"));
            assert!(!poll_once(&mut operation).await && !poll_once(&mut answer).await);
            drain.await;
            connection.write(format!("{} {}", answer.await?, operation.await?).as_bytes()).await
        })
    });
    rig.wait(S);
    assert_eq!(rig.hear(&peer), "done as well");
    rig.close(&mut Nobody);
}

#[test]
fn a_lane_that_drains_before_it_began_is_draining() {
    let seen = Rc::new(std::cell::Cell::new(false));
    let flag = seen.clone();
    let (_world, mut rig) = served(patient(), move || {
        let flag = flag.clone();
        aio::main(async move |lane: Lane| {
            flag.set(poll_once(&mut Box::pin(lane.draining())).await);
        })
    });
    rig.begin_drain();
    rig.close(&mut Nobody);
    assert!(seen.get());
}

/// More tasks than are polled in a turn have something to answer as the drain begins.
#[test]
fn whoever_was_handed_bytes_as_the_drain_began_is_at_work_though_its_turn_comes_later() {
    const PEERS: usize = 700;
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |_lane: Lane, connection: Connection| -> aio::Result<()> {
            while let Some(bytes) = connection.read().await? {
                connection.send_all(bytes).await?;
            }
            Ok(())
        })
    });
    let peers: Vec<_> = (0..PEERS).map(|number| rig.connect(number)).collect();
    rig.wait(S);
    for peer in &peers {
        assert_eq!(peer.send(b"hello"), 5);
    }
    rig.begin_drain();
    rig.wait(S);
    let heard = peers.iter().filter(|peer| peer.read(9) == b"hello").count();
    // What had not come as the drain began need not be answered; all of it comes at one time.
    assert!(heard == PEERS || heard == 0, "{heard} of {PEERS} were answered");
    rig.close(&mut Nobody);
}

/// It may hold one ticket, and that says that it is at work: the peer is heard nevertheless.
#[test]
fn who_is_at_work_hears_what_it_waits_for() {
    let (_world, mut rig) = served(patient().requests_in_flight_max(1), || {
        aio::each(async |_lane: Lane, connection: Connection| -> aio::Result<()> {
            let _work = connection.at_work();
            while let Some(bytes) = connection.read().await? {
                connection.send_all(bytes).await?;
            }
            Ok(())
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    for said in ["one", "two", "three"] {
        assert_eq!(rig.ask(&peer, said), said);
    }
    peer.close();
    rig.wait(S);
    rig.close(&mut Nobody);
}
