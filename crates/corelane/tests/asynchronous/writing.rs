//! What was written leaves in order, waits for room however it is written, and is waited for until it has left.

use super::refused::{next_turn, poll_once};
use crate::aio_parts::served;
use corelane::aio::{self, Connection, Lane};
use corelane::service::{Chain, Ending, ServiceCounter, Shared};
use corelane::testing::{MS, Nobody, S, Status, patient};
use corelane_watch::LaneCounter;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn copies_segments_and_chains_leave_in_the_order_in_which_they_were_written() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |_lane: Lane, connection: Connection| -> aio::Result<()> {
            let mut chain = connection.read().await?.unwrap_or_default();
            for number in ["1", "2"] {
                connection.write(b"copied ").await?;
                connection.send(&b"sent "[..]).await?;
                connection.write(number.as_bytes()).await?;
                connection.send_all(std::mem::take(&mut chain)).await?;
                connection.write(b"; ").await?;
            }
            Ok(())
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    assert_eq!(rig.ask(&peer, "(read)"), "copied sent 1(read); copied sent 2; ");
    rig.close(&mut Nobody);
}

/// A byte that takes a lease.
fn one_byte(lane: &Lane) -> Shared {
    let mut lease = lane.arena().lease(512).unwrap();
    lease.append(b"x");
    lease.share()
}

/// Writes in one poll, as long as it need not wait, by whatever takes so many bytes at a time: empty ones count as well.
fn written_at_once(times_max: usize, way: usize) {
    let times = Rc::new(Cell::new(0));
    let count = times.clone();
    let (_world, mut rig) = served(patient().output_high(4096), move || {
        let count = count.clone();
        aio::each(async move |lane: Lane, connection: Connection| -> aio::Result<()> {
            while count.get() < 100_000 {
                match way {
                    0 => connection.send(&[b'x'; 100][..]).await?,
                    1 => connection.send(&b""[..]).await?,
                    2 => connection.send(one_byte(&lane)).await?,
                    3 => connection.send_all(Chain::new()).await?,
                    _ => {
                        let mut chain = Chain::new();
                        chain.push(one_byte(&lane));
                        connection.send_all(chain).await?;
                    }
                }
                count.set(count.get() + 1);
            }
            Ok(())
        })
    });
    let peer = rig.connect(0);
    // As soon as the task has been polled once.
    while times.get() == 0 {
        rig.wait(Duration::from_nanos(1000));
    }
    assert!(times.get() <= times_max, "way {way}: {} times without a pause", times.get());
    peer.reset();
    rig.wait(S);
    rig.close(&mut Nobody);
}

#[test]
fn whatever_is_written_without_a_pause_waits_for_room() {
    for (way, times_max) in [(0, 4096), (1, 4096), (2, 100), (3, 4096), (4, 100)] {
        written_at_once(times_max, way);
    }
}

#[test]
fn who_waits_for_what_was_written_to_leave_is_told_when_it_has() {
    let (_world, mut rig) = served(patient().output_high(1 << 20), || {
        aio::each(async |_lane: Lane, connection: Connection| -> aio::Result<()> {
            connection.write(b"copied ").await?;
            assert!(!poll_once(&mut Box::pin(connection.flush())).await, "a copy has not left");
            connection.flush().await?;
            connection.send(&b"sent "[..]).await?;
            assert!(!poll_once(&mut Box::pin(connection.flush())).await, "a segment has not left");
            connection.flush().await?;
            connection.write(&[b'x'; 900_000]).await?;
            next_turn().await;
            next_turn().await;
            // Nothing was written since.
            assert!(!poll_once(&mut Box::pin(connection.flush())).await, "who reads nothing has not got so much");
            next_turn().await;
            connection.flush().await?;
            connection.write(b" left").await
        })
    });
    let peer = rig.connect(0);
    rig.wait(S);
    let mut heard = Vec::new();
    while peer.status() == Status::Open {
        heard.extend(peer.read(50_000));
        rig.wait(MS);
        assert!(heard.len() <= 900_017, "{} bytes", heard.len());
    }
    heard.extend(peer.read(usize::MAX));
    assert!(heard.starts_with(b"copied sent x") && heard.ends_with(b"x left") && heard.len() == 900_017, "{}", heard.len());
    rig.close(&mut Nobody);
}

#[test]
fn who_writes_little_at_a_time_to_who_reads_never_waits_for_good() {
    const TIMES: usize = 500;
    let (_world, mut rig) = served(patient().output_high(4096), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            for _ in 0..TIMES {
                connection.write(&[b'x'; 1000]).await?;
                lane.sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        })
    });
    let peer = rig.connect(0);
    let mut heard = 0;
    for _ in 0..3 * TIMES {
        rig.wait(MS);
        heard += peer.read(usize::MAX).len();
    }
    assert_eq!((heard, peer.status()), (TIMES * 1000, Status::Ended));
    rig.close(&mut Nobody);
}

#[test]
fn who_waits_to_write_is_told_of_the_end_and_holds_nothing_of_what_was_not_sent() {
    let told = Rc::new(Cell::new(false));
    let flag = told.clone();
    let (_world, mut rig) = served(patient().output_high(64 << 10), move || {
        let flag = flag.clone();
        aio::each(async move |lane: Lane, connection: Connection| {
            let outcome = connection.write(&[7; 4 << 20]).await;
            assert!(matches!(outcome, Err(aio::Error::Ended { ending: Ending::Error, .. })), "{outcome:?}");
            flag.set(true);
            lane.sleep(1000 * SECOND).await;
        })
    });
    let peer = rig.connect(0);
    rig.wait(S);
    peer.reset();
    rig.wait(S);
    assert!(told.get() && rig.lane_count(LaneCounter::MemoryUsed) == 0, "{} bytes", rig.lane_count(LaneCounter::MemoryUsed));
    assert_eq!(rig.lane_count(LaneCounter::TasksPanicked), 0);
    rig.wait(1001 * S);
    rig.close(&mut Nobody);
}

/// Each word of an answer is a sign of life: `answer_limit` begins anew.
#[test]
fn who_answers_a_little_at_a_time_is_not_too_late() {
    let (_world, mut rig) = served(patient().answer_limit(20 * SECOND), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            for _ in 0..6 {
                lane.sleep(10 * SECOND).await;
                connection.write(b"word ").await?;
            }
            lane.sleep(30 * SECOND).await;
            assert!(matches!(connection.fill(1).await, Err(aio::Error::Ended { ending: Ending::Aborted, .. })));
            assert!(connection.lease(1000).is_ok(), "the lane pays for it");
            Ok(())
        })
    });
    let peer = rig.connect(0);
    rig.wait(65 * S);
    assert_eq!((rig.hear(&peer), peer.status()), ("word ".repeat(6), Status::Open));
    rig.wait(40 * S);
    assert_eq!((rig.count(ServiceCounter::AnswerLimitHits), rig.lane_count(LaneCounter::TasksPanicked)), (1, 0));
    rig.close(&mut Nobody);
}

/// A connection is closed, finished and counted though its task does nothing else at that moment.
#[test]
fn what_a_task_does_by_itself_is_done_in_that_turn() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| {
            lane.sleep(SECOND).await;
            connection.count_requests(1);
            lane.sleep(SECOND).await;
            connection.finish();
            lane.sleep(2 * SECOND).await;
        })
    });
    let peer = rig.connect(0);
    rig.wait(1500 * MS);
    assert_eq!((rig.count(ServiceCounter::Requests), peer.status()), (1, Status::Open));
    rig.wait(S);
    assert_eq!((peer.status(), rig.connections()), (Status::Ended, 1));
    peer.finish();
    rig.wait(2 * S);
    assert_eq!(rig.connections(), 0);
    rig.close(&mut Nobody);
}
