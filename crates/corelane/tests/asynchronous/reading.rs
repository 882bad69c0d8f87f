//! What has come is there for who asks for it, in whatever way, and takes no more memory than it must.

use crate::aio_parts::served;
use corelane::aio::{self, Connection, Lane};
use corelane::testing::{MS, Nobody, S, patient};
use corelane_watch::LaneCounter;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Says who has heard so many bytes; what was not waited for stays where it is.
async fn says_whether_all_came(lane: Lane, connection: Connection, bytes: usize) -> aio::Result<()> {
    lane.sleep(2 * SECOND).await;
    let is_all_there = connection.fill(bytes).await?;
    connection.write(format!("{is_all_there} {}", connection.input(|input| input.len() >= bytes)).as_bytes()).await
}

#[test]
fn what_comes_behind_bytes_that_nobody_has_taken_counts_also_with_the_end_behind_it() {
    for finishes in [false, true] {
        let (_world, mut rig) = served(patient(), || {
            aio::each(async |lane: Lane, connection: Connection| says_whether_all_came(lane, connection, 100).await)
        });
        let peer = rig.connect(0);
        rig.wait(MS);
        peer.send(&[1; 10]);
        rig.wait(S);
        peer.send(&[2; 90]);
        if finishes {
            peer.finish();
        }
        rig.wait(2 * S);
        assert_eq!(rig.hear(&peer), "true true", "finishes: {finishes}");
        rig.close(&mut Nobody);
    }
}

#[test]
fn bytes_that_are_waited_for_come_in_pieces_and_beyond_what_waits_with_the_lane() {
    const BYTES: usize = 400_000;
    let (_world, mut rig) = served(patient().record_max(1 << 20), || {
        aio::each(async |lane: Lane, connection: Connection| says_whether_all_came(lane, connection, BYTES).await)
    });
    let peer = rig.connect(0);
    let mut said = 0;
    while said < BYTES {
        rig.wait(100 * MS);
        said += peer.send(&vec![3; (BYTES - said).min(50_000)]);
    }
    rig.wait(S);
    assert_eq!(rig.hear(&peer), "true true");
    rig.close(&mut Nobody);
}

#[test]
fn who_looks_at_what_has_come_without_waiting_for_it_comes_to_see_all() {
    const BYTES: usize = 600_000;
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            let mut seen = 0;
            while seen < BYTES {
                lane.sleep(Duration::from_millis(10)).await;
                seen += connection.input(|input| {
                    let there = input.len();
                    input.skip(there);
                    there
                });
            }
            connection.write(b"all").await
        })
    });
    let peer = rig.connect(0);
    let mut said = 0;
    for _ in 0..1000 {
        rig.wait(10 * MS);
        said += peer.send(&vec![3; (BYTES - said).min(50_000)]);
    }
    assert_eq!(rig.hear(&peer), "all");
    rig.close(&mut Nobody);
}

#[test]
fn a_few_bytes_that_nobody_takes_hold_a_little_memory() {
    let (_world, mut rig) =
        served(patient(), || aio::each(async |lane: Lane, _connection: Connection| lane.sleep(60 * SECOND).await));
    let peers: Vec<_> = (0..10).map(|number| rig.connect(number)).collect();
    rig.wait(MS);
    for peer in &peers {
        peer.send(b"hello");
        rig.wait(MS);
    }
    let used = rig.lane_count(LaneCounter::MemoryUsed);
    assert!(used <= 10 * 1024, "{used} bytes for fifty");
    rig.wait(61 * S);
    rig.close(&mut Nobody);
}

/// A future that waits may be given to another task, or be polled by one that makes wakers of its own.
#[test]
fn who_polled_last_is_woken() {
    let (_world, mut rig) = served(patient(), || {
        aio::main(async |lane: Lane| {
            let mut nobody = Context::from_waker(Waker::noop());
            let mut accepting = lane.accept();
            assert!(std::pin::Pin::new(&mut accepting).poll(&mut nobody).is_pending());
            let connection = accepting.await;
            let mut sleep = lane.sleep(SECOND);
            assert!(std::pin::Pin::new(&mut sleep).poll(&mut nobody).is_pending());
            sleep.await;
            let mut filling = connection.fill(1);
            assert!(std::pin::Pin::new(&mut filling).poll(&mut nobody).is_pending());
            assert!(filling.await.unwrap());
            connection.write(b"heard").await.unwrap();
        })
    });
    let peer = rig.connect(0);
    rig.wait(2 * S);
    assert_eq!(rig.ask(&peer, "hello"), "heard");
    rig.close(&mut Nobody);
}

/// One look at whether so many bytes are there.
async fn looked_at(connection: &Connection, bytes: usize) -> Poll<aio::Result<bool>> {
    poll_fn(|context| Poll::Ready(connection.poll_fill(context, bytes))).await
}

#[test]
fn who_asks_for_less_than_before_is_at_work_when_that_has_come() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            while lane.within(Duration::from_millis(10), std::future::pending::<()>()).await.is_none() {
                if looked_at(&connection, 100).await.is_pending() && looked_at(&connection, 1).await.is_ready() {
                    break;
                }
            }
            lane.sleep(2 * SECOND).await;
            connection.write(b"answered").await
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    peer.send(b"hello");
    rig.wait(S);
    rig.begin_drain();
    rig.wait(2 * S);
    assert_eq!(rig.hear(&peer), "answered");
    rig.close(&mut Nobody);
}
