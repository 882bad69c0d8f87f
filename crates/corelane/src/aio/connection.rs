//! A connection as its task has it.

#[allow(unused_imports, reason = "named in the documentation")]
use super::error::{Error, Result};
use super::link::{Fate, Link};
use corelane_seam::{Chain, Lease, Payer, Segment};
use corelane_svc::{Input, Owes, Peer, Refused};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A connection: accepted ([`Lane::accept`](super::Lane::accept)) or opened ([`Lane::connect`](super::Lane::connect)). Dropped, it is closed behind all that was written
/// ([`Ending::Completed`](crate::service::Ending::Completed)), which the peer sees as a stream that is whole; so a task whose own source broke off [breaks it off](Connection::abort) too.
///
/// One task may read while another writes, as both have it in an [`Rc`]: each direction waits for itself, so what the peer says is read on while it takes nothing of what is
/// written ([`Connection::hold_input`]). Of two that read, or write, at the same time the later one is woken.
pub struct Connection {
    link: Rc<Link>,
}

impl Connection {
    /// The payer of what it holds.
    pub(super) fn payer(&self) -> Payer {
        self.link.payer()
    }

    pub(super) fn new(link: Rc<Link>) -> Self {
        Self { link }
    }

    /// Breaks the connection off if it is dropped before it [is told](Guard::finish) that the task has finished.
    pub(super) fn guard(&self) -> Guard {
        Guard { link: Some(self.link.clone()) }
    }

    /// The two ends, and what a transform (TLS) has learned of the other one.
    pub fn peer(&self) -> Peer {
        self.link.peer()
    }

    /// Waits until at least `bytes` bytes (and one) have come and were not taken. False if the stream has ended with fewer: what there is can still be
    /// taken. Dropped, nothing is lost.
    ///
    /// # Errors
    /// [`Error::Ended`] if the connection failed or was broken off; [`Error::TooLong`] for more than `record_max`.
    pub fn fill(&self, bytes: usize) -> Filling<'_> {
        Filling { link: &self.link, bytes }
    }

    /// The bytes that have come and were not taken: looked at, and taken, in place. `with` is called at once, and may not use the connection.
    pub fn input<R>(&self, with: impl FnOnce(&mut Input) -> R) -> R {
        self.link.with_input(with)
    }

    /// All that has come, as leases of the lane's memory, once there is something. None when the stream has ended, or a drain has taken all that was to
    /// come. Sent on as it is ([`Connection::send_all`]), nothing is copied.
    ///
    /// # Errors
    /// As [`Connection::fill`].
    pub async fn read(&self) -> Result<Option<Chain>> {
        if !self.fill(1).await? {
            return Ok(None);
        }
        let mut chain = self.link.storage();
        self.input(|input| input.take_to(usize::MAX, &mut chain));
        Ok(Some(chain))
    }

    /// Whether the stream has ended though the peer has not said so ([`Input::is_truncated`]).
    pub fn is_truncated(&self) -> bool {
        self.link.is_truncated()
    }

    /// Copies `bytes` into the output, in pieces of 4 to 64 KiB: each waits for room, and for memory. Up to 4 KiB are written whole or not at
    /// all; of more, [`Write::written`] says how far it has come, also if it is not waited for to the end.
    ///
    /// # Errors
    /// [`Error::Ended`]; [`Error::Finished`] after [`Connection::finish`]. So for all that writes.
    pub fn write<'a>(&'a self, bytes: &'a [u8]) -> Write<'a> {
        Write { link: &self.link, bytes, written: 0 }
    }

    /// Sends a segment without copying, when there is room: a lease, bytes that live as long as the program, a part of a file. Whole or not at all.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub async fn send(&self, segment: impl Into<Segment>) -> Result<()> {
        let segment = segment.into();
        self.room().await?;
        self.link.push(segment);
        Ok(())
    }

    /// [`Connection::send`] of all of a chain.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub async fn send_all(&self, mut chain: Chain) -> Result<()> {
        self.room().await?;
        self.link.append(&mut chain);
        self.link.keep(chain);
        Ok(())
    }

    /// Waits until something may be written; returns how many bytes, until it waits again. One piece of writing may be more.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub async fn room(&self) -> Result<usize> {
        poll_fn(|context| self.link.poll_room(context)).await
    }

    /// Waits until all that was written has left the lane, for the system to send.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub async fn flush(&self) -> Result<()> {
        poll_fn(|context| self.link.poll_flush(context)).await
    }

    /// [`Connection::fill`], for who is polled. Between a call that was `Pending` and the next one the connection counts as waiting for its peer.
    ///
    /// # Errors
    /// As there.
    pub fn poll_fill(&self, context: &mut Context<'_>, bytes: usize) -> Poll<Result<bool>> {
        self.link.poll_fill(context, bytes)
    }

    /// [`Connection::write`] of one piece, for who is polled: returns how many bytes it was.
    ///
    /// # Errors
    /// As there.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.link.poll_write(context, bytes)
    }

    /// An empty lease of at least `capacity` bytes, for which the connection pays.
    ///
    /// # Errors
    /// [`Refused::Memory`] if the lane does not lend so much now, [`Refused::TooLarge`] if it never will.
    pub fn lease(&self, capacity: usize) -> std::result::Result<Lease, Refused> {
        self.link.lease(capacity)
    }

    /// Counts `requests` answered or taken (`requests`): only the service knows what a request is.
    pub fn count_requests(&self, requests: usize) {
        self.link.count_requests(requests);
    }

    /// Says what the peer owes from now on ([`Owes`]), for a task that counts all of its requests ([`Connection::count_requests`]) and knows where they begin. Of one that never
    /// says so, whatever it takes counts as a request, and what it waits for ([`Connection::fill`]) must come whole once it has begun (`read_limit`).
    pub fn peer_owes(&self, owes: Owes) {
        self.link.peer_owes(owes);
    }

    /// The peer has sent, or taken, so many bytes of requests and answers. As long as they keep `receive_rate_min`, requests go on ([`AtWork::goes_on`]).
    pub fn note_moved(&self, bytes: usize) {
        self.link.note_moved(bytes);
    }

    /// Has the connection count as at work until what this returns is dropped, though a task waits for its bytes meanwhile: for who answers one request while
    /// it reads the next. As a request that is held: a drain waits for it, it is not idle, and `answer_limit` is its time for as long as nothing is written. Of a task that says what
    /// [its peer owes](Connection::peer_owes) it is so long as nothing [goes on](AtWork::goes_on).
    pub fn at_work(&self) -> AtWork {
        self.link.work(true);
        AtWork { link: self.link.clone() }
    }

    /// Says no more: behind all that was written our side finishes, which the peer sees as the end of the stream. The peer's bytes are read as before, until it
    /// finishes too or the connection is dropped. A write from now on is [`Error::Finished`].
    pub fn finish(&self) {
        self.link.finish();
    }

    /// Breaks the connection off: what was written and has not left is dropped, and the peer sees a reset where it would else take what has come for all
    /// ([`Ending::Aborted`](crate::service::Ending::Aborted)). For a task that passes on what another connection says, and that has failed; all that waits for this connection then ends with [`Error::Ended`].
    pub fn abort(&self) {
        self.link.meet(Fate::Aborts);
    }

    /// Has a drain leave the end of this connection to its task, or not: what the peer says is taken as before, until the task drops it or `drain_limit` is
    /// over. The last call before the drain begins counts.
    pub fn outlive_drain(&self, outlives: bool) {
        self.link.outlive_drain(outlives);
    }

    /// Has what the peer says wait while what was written has no room (`output_high`), or not: for a task that makes something for whatever it reads, and has no bound
    /// of its own on that.
    pub fn hold_input(&self, holds: bool) {
        self.link.hold_input(holds);
    }

    /// Waits until a drain has left the end of this connection to its task ([`Connection::outlive_drain`]); one that the lane ends itself is not told.
    pub async fn draining(&self) {
        poll_fn(|context| self.link.poll_left(context)).await
    }

    /// Waits until clients of this connection are to come anew: another process has taken over ([`Connection::is_handed_over`]), or as of
    /// [`Connection::draining`]. One task waits for either.
    pub async fn leaving(&self) {
        poll_fn(|context| self.link.poll_leaves(context)).await
    }

    /// Whether another process serves in place of this one. The connection is served until the drain, about a second later. A protocol in which a server may
    /// send its clients elsewhere does so with its next answer.
    pub fn is_handed_over(&self) -> bool {
        self.link.is_handed_over()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.link.meet(Fate::Closes);
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({:?})", self.link.id())
    }
}

/// A connection is at work ([`Connection::at_work`]).
#[must_use = "it ends as it is dropped"]
pub struct AtWork {
    link: Rc<Link>,
}

impl AtWork {
    /// The work goes on: its time begins anew.
    pub fn goes_on(&self) {
        self.link.goes_on();
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.link.work(false);
    }
}

/// Sees that the connection of a task that does not finish is broken off.
pub(super) struct Guard {
    /// None once it has finished.
    link: Option<Rc<Link>>,
}

impl Guard {
    pub(super) fn finish(mut self) {
        self.link = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            link.meet(Fate::Breaks);
        }
    }
}

/// Waits for bytes ([`Connection::fill`]).
#[must_use = "nothing is waited for until it is awaited"]
pub struct Filling<'a> {
    link: &'a Rc<Link>,
    bytes: usize,
}

impl Future for Filling<'_> {
    type Output = Result<bool>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<bool>> {
        self.link.poll_fill(context, self.bytes)
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.link.cancel_fill();
    }
}

/// Writes ([`Connection::write`]).
#[must_use = "nothing is written until it is awaited"]
pub struct Write<'a> {
    link: &'a Rc<Link>,
    bytes: &'a [u8],
    written: usize,
}

impl Write<'_> {
    /// Bytes that were written: they leave, whatever becomes of this.
    pub fn written(&self) -> usize {
        self.written
    }
}

impl Future for Write<'_> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        while self.written < self.bytes.len() {
            let piece = ready!(self.link.poll_write(context, &self.bytes[self.written..]))?;
            self.written += piece;
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        self.link.cancel_write();
    }
}
