//! Waiting for whichever of two comes first.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Which of two came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first.
    First(A),
    /// The second.
    Second(B),
}

/// Waits for whichever of two futures is ready first, the first one if both are, and drops the other: of what this module makes, that loses nothing. To
/// keep the other, pin it and pass `as_mut()`.
pub async fn select<A: Future, B: Future>(first: A, second: B) -> Either<A::Output, B::Output> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(move |context| {
        if let Poll::Ready(output) = first.as_mut().poll(context) {
            return Poll::Ready(Either::First(output));
        }
        second.as_mut().poll(context).map(Either::Second)
    })
    .await
}
