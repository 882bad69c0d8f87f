//! Whatever is dropped, and wherever: nothing is lost, nothing is done twice, and nothing is left behind.

use crate::aio_parts::{Rolls, gentle, run};
use crate::async_echo;
use corelane::aio::{self, Connection, Either, Lane, select};
use corelane::service::{Address, Asks, FileFacts, Input, Limits, OpenOptions, ServiceCounter};
use corelane::testing::{Faults, MS, Nobody, Plan, Rig, World, at, for_seeds, patient};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

type Asking = Asks<Vec<u8>, Vec<u8>>;

/// What a future gives within so many polls; else it is dropped between two of them.
async fn cut<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Pending if left == 0 => Poll::Ready(None),
            outcome => outcome.map(Some),
        }
    })
    .await
}

/// Polls, and patience, that differ: sooner or later it is long enough.
async fn fickle<T, F: Future>(lane: &Lane<Asking>, rolls: &mut Rolls, future: F) -> Option<F::Output> {
    let _ = lane;
    match rolls.below(4) {
        0 => Some(future.await),
        _ => cut(rolls.below(4), future).await,
    }
    .map(|output| {
        let _: Option<T> = None;
        output
    })
}
