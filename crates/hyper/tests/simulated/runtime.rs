//! What hyper asks of a runtime: time, reads and writes, each by itself.

use crate::simulated::rig;
use corelane::aio::{self, Connection, Lane};
use corelane::testing::{MS, Nobody, S};
use corelane_hyper::{Here, Io};
use hyper::rt::{Read, ReadBuf, Timer, Write};
use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Whether a second passes on the lane's clock while this is waited for.
async fn takes_a_second(lane: &Lane, waiting: impl Future) -> bool {
    let began = lane.now();
    waiting.await;
    let passed = Duration::from_nanos(lane.now().nanoseconds() - began.nanoseconds());
    (SECOND..SECOND + Duration::from_millis(10)).contains(&passed)
}

#[test]
fn the_clock_and_the_sleeps_of_hyper_are_the_lanes() {
    let (_world, mut rig) = rig(|| {
        aio::each(async |lane: Lane, connection: Connection| {
            let here = Here::new(lane.clone());
            lane.sleep(10 * SECOND).await;
            let began = Timer::now(&here);
            assert!(takes_a_second(&lane, Timer::sleep(&here, SECOND)).await);
            let passed = Timer::now(&here) - began;
            assert!((SECOND..2 * SECOND).contains(&passed), "{passed:?}");
            assert!(takes_a_second(&lane, here.sleep_until(Timer::now(&here) + SECOND)).await);
            // One that is set anew, though it has not come, and though it has.
            let mut sleep = Timer::sleep(&here, 20 * SECOND);
            here.reset(&mut sleep, Timer::now(&here) + SECOND);
            assert!(takes_a_second(&lane, sleep.as_mut()).await);
            here.reset(&mut sleep, Timer::now(&here) + SECOND);
            assert!(takes_a_second(&lane, sleep).await);
            connection.write(b"so it is").await
        })
    });
    let peer = rig.connect(0);
    rig.wait(30 * S);
    assert_eq!(rig.hear(&peer), "so it is");
    rig.close(&mut Nobody);
}

#[test]
fn a_read_takes_all_that_has_come_and_an_empty_slice_is_no_write() {
    const BYTES: usize = 150_000;
    let (_world, mut rig) = rig(|| {
        aio::each(async |_lane: Lane, connection: Connection| -> aio::Result<()> {
            let connection = Rc::new(connection);
            let mut io = Io::new(connection.clone());
            assert!(connection.fill(BYTES).await?);
            let mut memory = vec![0; BYTES + 100];
            let mut buffer = ReadBuf::new(&mut memory);
            let read = poll_fn(|context| Pin::new(&mut io).poll_read(context, buffer.unfilled())).await;
            assert!(read.is_ok() && buffer.filled().len() == BYTES, "{} bytes were read", buffer.filled().len());
            assert!(buffer.filled().iter().enumerate().all(|(at, byte)| *byte == at as u8));
            let slices = ["", "one ", "", "two", ""].map(|text| IoSlice::new(text.as_bytes()));
            let written = poll_fn(|context| Pin::new(&mut io).poll_write_vectored(context, &slices)).await;
            assert_eq!(written.unwrap(), 7);
            let nothing = [IoSlice::new(b"")];
            let written = poll_fn(|context| Poll::Ready(Pin::new(&mut io).poll_write_vectored(context, &nothing))).await;
            assert!(matches!(written, Poll::Ready(Ok(0))));
            Ok(())
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    let bytes: Vec<u8> = (0..BYTES).map(|at| at as u8).collect();
    let mut said = 0;
    while said < BYTES {
        said += peer.send(&bytes[said..]);
        rig.wait(MS);
    }
    assert_eq!(rig.hear(&peer), "one two");
    rig.close(&mut Nobody);
}
