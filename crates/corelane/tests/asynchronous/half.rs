//! One side says no more, and the other goes on.

use crate::aio_parts::{gentle, run, served};
use corelane::aio::{self, Connection, Error, Lane};
use corelane::service::ServiceCounter;
use corelane::testing::{MS, Nobody, S, Status, at, patient};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

async fn read_to_end(connection: &Connection) -> aio::Result<usize> {
    let mut bytes = 0;
    while let Some(read) = connection.read().await? {
        bytes += read.len();
    }
    Ok(bytes)
}

#[test]
fn who_says_no_more_reads_on_to_the_end() {
    let heard = Rc::new(Cell::new(0));
    let count = heard.clone();
    let (_world, mut rig) = served(patient(), move || {
        let count = count.clone();
        aio::each(async move |_lane: Lane, connection: Connection| -> aio::Result<()> {
            connection.write(b"all").await?;
            connection.finish();
            count.set(read_to_end(&connection).await?);
            Ok(())
        })
    });
    let peer = rig.connect(0);
    assert_eq!((rig.hear(&peer), peer.status()), ("all".to_owned(), Status::Ended));
    for _ in 0..3 {
        assert_eq!(peer.send(&[7; 1000]), 1000);
        rig.wait(S);
    }
    assert_eq!((heard.get(), rig.connections()), (0, 1), "it has not come to the end");
    peer.finish();
    rig.wait(MS);
    assert_eq!((heard.get(), rig.connections(), rig.count(ServiceCounter::EndingsCompleted)), (3000, 0, 1));
    rig.close(&mut Nobody);
}

#[test]
fn what_was_written_leaves_before_the_end_and_nothing_is_written_after_it() {
    const BYTES: usize = 1_000_000;
    let (_world, mut rig) = served(patient().output_high(64 << 10), || {
        aio::each(async |_lane: Lane, connection: Connection| -> aio::Result<()> {
            connection.write(&[7; BYTES]).await?;
            connection.finish();
            assert_eq!(connection.write(b"more").await, Err(Error::Finished));
            assert_eq!(connection.room().await, Err(Error::Finished));
            connection.flush().await?;
            read_to_end(&connection).await.map(drop)
        })
    });
    let peer = rig.connect(0);
    let mut heard = 0;
    while peer.status() != Status::Ended {
        rig.wait(MS);
        heard += peer.read(50_000).len();
        assert!(heard <= BYTES, "more was heard than was written");
    }
    assert_eq!((heard, rig.connections()), (BYTES, 1));
    peer.finish();
    rig.wait(MS);
    assert_eq!((rig.connections(), rig.count(ServiceCounter::AnswersLate)), (0, 0));
    rig.close(&mut Nobody);
}

#[test]
fn a_peer_that_has_finished_is_answered_however_late() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            let bytes = read_to_end(&connection).await?;
            lane.sleep(Duration::from_secs(10)).await;
            connection.write(&vec![5; bytes]).await?;
            lane.sleep(Duration::from_secs(10)).await;
            connection.write(b"end").await
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    assert_eq!(peer.send(&[1; 5000]), 5000);
    peer.finish();
    rig.wait(9 * S);
    assert_eq!((peer.read(usize::MAX).len(), peer.status()), (0, Status::Open));
    rig.wait(2 * S);
    assert_eq!((peer.read(usize::MAX).len(), peer.status()), (5000, Status::Open));
    rig.wait(10 * S);
    assert_eq!((rig.hear(&peer), peer.status()), ("end".to_owned(), Status::Ended));
    rig.close(&mut Nobody);
}

#[test]
fn a_drain_ends_who_has_said_all_and_only_listens() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |_lane: Lane, connection: Connection| -> aio::Result<()> {
            connection.finish();
            read_to_end(&connection).await.map(drop)
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    assert_eq!((peer.status(), peer.send(b"heard")), (Status::Ended, 5));
    rig.close(&mut Nobody);
}

/// Says a length and so many bytes, says no more, and hears as many.
async fn asks(lane: &Lane, bytes: usize) -> aio::Result<usize> {
    let connection = lane.connect(at(7)).await?;
    connection.write(&vec![3; bytes]).await?;
    connection.finish();
    read_to_end(&connection).await
}

/// Who asks finishes first; who answers finishes its side before it lets go.
async fn answers(_lane: Lane, connection: Connection) -> aio::Result<()> {
    let bytes = read_to_end(&connection).await?;
    connection.write(&vec![4; bytes]).await?;
    connection.finish();
    connection.flush().await
}

/// Says what it has first and no more, and then hears the other.
async fn greets(_lane: Lane, connection: Connection) -> aio::Result<()> {
    connection.write(&[9; 70_000]).await?;
    connection.finish();
    assert_eq!(read_to_end(&connection).await?, 90_000);
    Ok(())
}

async fn is_greeted(lane: &Lane) -> aio::Result<usize> {
    let connection = lane.connect(at(8)).await?;
    let bytes = read_to_end(&connection).await?;
    connection.write(&[2; 90_000]).await?;
    Ok(bytes)
}

#[test]
fn halves_of_connections_end_one_after_the_other_whatever_the_network_does() {
    run(60, gentle, |scene| {
        scene.serve(7, |_lane| aio::each(answers));
        scene.serve(8, |_lane| aio::each(greets));
        let done = Rc::new(Cell::new(0));
        let count = done.clone();
        let bytes = 1 + scene.random().below(200_000) as usize;
        scene.client(move |_lane| {
            let count = count.clone();
            aio::main(async move |lane: Lane| {
                // The network breaks connections off as they open: until one holds.
                while asks(&lane, bytes).await != Ok(bytes) {}
                while is_greeted(&lane).await != Ok(70_000) {}
                count.set(count.get() + 1);
            })
        });
        // The lanes end when it has come to its end.
        scene.connect(7).say("x").pause(Duration::from_secs(5)).finish().hear([4]);
        scene.check(move |_| match done.get() {
            2 => Ok(()),
            done => Err(format!("{done} of two lanes have heard all")),
        });
    });
}

/// A long answer that waits for who reads it slowly, when the drain begins.
#[test]
fn a_drain_cuts_no_answer_that_is_being_written() {
    const BYTES: usize = 3_000_000;
    let (_world, mut rig) = served(patient().output_high(64 << 10), || {
        aio::each(async |_lane: Lane, connection: Connection| -> aio::Result<()> {
            while connection.read().await?.is_some() {
                connection.write(&[7; BYTES]).await?;
            }
            Ok(())
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    peer.send(b"?");
    rig.wait(10 * MS);
    rig.begin_drain();
    let mut heard = 0;
    for _ in 0..10_000 {
        rig.wait(MS);
        heard += peer.read(50_000).len();
    }
    assert_eq!((heard, peer.status()), (BYTES, Status::Ended));
    rig.close(&mut Nobody);
}
