//! The lane as its tasks see it.

use super::connection::Connection;
use super::error::{Error, Result};
use super::link::{Fate, Link};
use super::select::{Either, select};
use super::shared::{Errand, Shared};
use super::waits::{Done, Wait};
use corelane_seam::parcel::Guests;
use corelane_seam::slab::Key;
use corelane_seam::{Address, Arena, File, FileFacts, FileOutcome, FilePart, Instant, OffloadResult, OpenOptions, Outcome};
use corelane_svc::{Cx, Error as ServiceError, Lost, Silent, Talk};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Bytes of a file that are brought and sent at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// The lane as the tasks of one service see it: time, tasks, connections, files, other lanes. Clones are the same; it stays on its lane.
///
/// Everything that waits may be dropped meanwhile: then what comes of it is dropped, and nothing is left behind.
pub struct Lane<T: Talk = Silent> {
    pub(super) shared: Rc<Shared<T>>,
}

impl<T: Talk> Clone for Lane<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: Talk> Lane<T> {
    /// The number of this lane, from 0.
    pub fn number(&self) -> usize {
        self.shared.lane
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.shared.lanes
    }

    /// This turn's time.
    pub fn now(&self) -> Instant {
        self.shared.spawner.now()
    }

    /// The lane's memory, for leases for which the lane pays.
    pub fn arena(&self) -> &Arena {
        &self.shared.arena
    }

    /// Where parcels of other lanes are taken in ([`Cx::guests`]), to be read and sent without a copy. A lane lends by [`Cx::lend`], which [`Lane::later`] has called.
    pub fn guests(&self) -> &Guests {
        &self.shared.guests
    }

    /// Runs a future on this lane until it is done; what it returns is dropped. Its panic is counted (`tasks_panicked`); the lane lives on. It ends with
    /// the lane: a drain waits for connections, operations and questions, and for no task alone.
    ///
    /// A task belongs to a connection: to the one that the task which calls this has accepted since it last waited, else to the same as that task; or to
    /// none. The tasks of a peer's connections are at most half of what is left of all ([`Share`](corelane_seam::share::Share)).
    ///
    /// # Errors
    /// [`Error::Refused`] at the lane's bound of tasks, or if the connection's peer has its share of them (`tasks_max`, counted in `tasks_max_hits`): the
    /// future is dropped.
    pub fn spawn<R>(&self, future: impl Future<Output = R> + 'static) -> Result<()> {
        let spawned = self.shared.spawner.spawn(async move { drop(future.await) });
        spawned.map_err(|_| Error::Refused(ServiceError::TasksFull))
    }

    /// The next connection that was accepted. Those that nobody takes wait, and count as open. Of several tasks each gets one, who has waited longest the first.
    pub fn accept(&self) -> Accepting<T> {
        Accepting { shared: self.shared.clone(), place: None }
    }

    /// Opens a connection. Dropped before it is open, it is given up.
    ///
    /// # Errors
    /// [`Error::Failed`] with what the system says, `Cancelled` when it could not be opened in time (`connect_limit`); [`Error::Refused`] at the bound of
    /// connections.
    pub async fn connect(&self, to: impl Into<Address>) -> Result<Connection> {
        let link = self.shared.link();
        let wait = Wait::new(&self.shared.waits);
        self.shared.ask(Errand::Connect(wait.key, link.clone(), to.into()));
        let mut opening = Opening(Some(link));
        let done = wait.await;
        opening.0 = None;
        match done {
            Done::Connected(outcome) => outcome,
            _ => unreachable!("who opens a connection is told of that alone"),
        }
    }

    /// Waits so long, and up to a millisecond more.
    pub fn sleep(&self, time: Duration) -> Sleep<T> {
        Sleep { shared: self.shared.clone(), deadline: self.shared.spawner.now() + time, key: None }
    }

    /// The result of a future within so long, or None: then it is dropped.
    pub async fn within<F: Future>(&self, time: Duration, future: F) -> Option<F::Output> {
        match select(future, self.sleep(time)).await {
            Either::First(output) => Some(output),
            Either::Second(()) => None,
        }
    }

    /// Waits until the lane drains.
    pub async fn draining(&self) {
        if !self.shared.is_draining.get() {
            Wait::for_drain(&self.shared.waits).await;
        }
    }

    /// Asks this service on a lane, which may be this one: there what [`Serve::answering`](super::Serve::answering) was given is called. Waits for room, if as many questions wait as may.
    ///
    /// # Errors
    /// [`Error::Lost`]: why there is no answer.
    pub async fn ask(&self, lane: usize, question: T::Question) -> Result<T::Answer> {
        let wait = Wait::new(&self.shared.waits);
        self.shared.ask(Errand::Ask(wait.key, lane, question));
        match wait.await {
            Done::Replied(outcome) => Ok(outcome?),
            _ => unreachable!("who asks is told of that alone"),
        }
    }

    /// Runs a call on a helper thread, when there is room for it.
    ///
    /// # Errors
    /// [`Error::Panicked`], [`Error::Failed`].
    pub async fn offload<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R> {
        let wait = Wait::new(&self.shared.waits);
        self.shared.ask(Errand::Offload(wait.key, Box::new(move |cx, token| cx.offload(work, token))));
        match wait.await {
            Done::Outcome(Outcome::Offloaded(OffloadResult(value))) => {
                value.downcast().map_or(Err(Error::Panicked), |value| Ok(*value))
            }
            Done::Outcome(Outcome::Failed(fault)) => Err(fault.into()),
            _ => Err(Error::Panicked),
        }
    }

    /// Begins an operation of the service by a call of [`Cx`] that takes a token, and waits for what comes of it: `lane.operation(|cx, token|
    /// cx.sync_file(&file, token))`.
    pub async fn operation(&self, begin: impl FnOnce(&mut Cx<'_, T>, u64) + 'static) -> Outcome {
        let wait = Wait::new(&self.shared.waits);
        self.shared.ask(Errand::Begin(wait.key, Box::new(begin)));
        match wait.await {
            Done::Outcome(outcome) => outcome,
            _ => unreachable!("who begins an operation is told of that alone"),
        }
    }

    /// Has something done with the lane as a service sees it, before this turn ends: counters, messages.
    pub fn later(&self, call: impl FnOnce(&mut Cx<'_, T>) + 'static) {
        self.shared.ask(Errand::Do(Box::new(call)));
    }

    /// Opens a file, or a directory where `options` say so.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub async fn open(&self, path: impl Into<PathBuf>, options: OpenOptions) -> Result<(File, FileFacts)> {
        let path = path.into();
        opened(self.operation(move |cx, token| cx.open_file(path, options, token)).await)
    }

    /// Opens what lies beneath a directory ([`Cx::open_beneath`]): for paths that come from a peer.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub async fn open_beneath(
        &self,
        directory: &File,
        path: impl Into<PathBuf>,
        options: OpenOptions,
    ) -> Result<(File, FileFacts)> {
        let (directory, path) = (directory.clone(), path.into());
        opened(self.operation(move |cx, token| cx.open_beneath(&directory, path, options, token)).await)
    }

    /// Sends a whole file by its path beneath a directory: it is opened, and what it holds then leaves from it without passing through the program, a
    /// window of 1 MiB behind the other. Each is brought from the disk first, by a helper thread if need be, so that a cold disk holds nobody else up. Given up
    /// or failed, as many windows have been sent as had been brought by then, each whole: of a file of up to 1 MiB nothing.
    ///
    /// It is several operations: one opens the file, each window is brought by one, and leaves behind what the connection sends before. Nothing is synced. To send only what no loss of
    /// power takes back, sync the file first ([`Cx::sync_file`] by [`Lane::operation`]). A driver has all three steps in one operation (`StreamOp::SendFile`), for programs that drive it themselves.
    ///
    /// # Errors
    /// [`Error::Failed`] if it cannot be opened or read, [`Error::Ended`].
    pub async fn send_file(&self, to: &Connection, directory: &File, path: impl Into<PathBuf>) -> Result<FileFacts> {
        let (file, facts) = self.open_beneath(directory, path, OpenOptions::new().read(true)).await?;
        let mut offset = 0;
        while offset < facts.length {
            // A part brought before there is room for it could be gone from memory again by then.
            to.room().await?;
            let length = self.warm(&file, offset, WINDOW_BYTES.min(facts.length - offset)).await?;
            to.send(FilePart { file: file.clone(), offset, length }).await?;
            offset += length;
        }
        Ok(facts)
    }

    /// Has bytes of a file brought where a send of them does not wait for the disk; how many may be sent.
    async fn warm(&self, file: &File, offset: u64, length: u64) -> Result<u64> {
        let file = file.clone();
        match self.operation(move |cx, token| cx.warm_file(&file, offset, length, token)).await {
            // It has become shorter: whoever sends what is not there any more is told, and breaks off.
            Outcome::File(FileOutcome::Warm { bytes: 0, .. }) => Ok(length),
            Outcome::File(FileOutcome::Warm { bytes, .. }) => Ok(bytes),
            Outcome::Failed(fault) => Err(fault.into()),
            other => unreachable!("a file is warm, or is not: {other:?}"),
        }
    }
}

fn opened(outcome: Outcome) -> Result<(File, FileFacts)> {
    match outcome {
        Outcome::File(FileOutcome::Opened { file, facts }) => Ok((file, facts)),
        Outcome::Failed(fault) => Err(fault.into()),
        other => unreachable!("a file is opened, or is not: {other:?}"),
    }
}

/// A connection that is given up if nobody waits for it to open.
struct Opening(Option<Rc<Link>>);

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(link) = &self.0 {
            link.meet(Fate::Closes);
        }
    }
}

/// Waits for a connection ([`Lane::accept`]). Dropped, the connection that it was woken for is somebody else's.
#[must_use = "nothing is accepted until it is awaited"]
pub struct Accepting<T: Talk = Silent> {
    shared: Rc<Shared<T>>,
    /// Among those who wait; none until it does, and once it has a connection.
    place: Option<u64>,
}

impl<T: Talk> Accepting<T> {
    /// Waits no more; whether it was woken since it began to.
    fn leave(&mut self) -> bool {
        let Some(place) = self.place.take() else { return false };
        let left = self.shared.acceptors.borrow_mut().leave(place);
        left.is_none()
    }
}

impl<T: Talk> Future for Accepting<T> {
    type Output = Connection;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Connection> {
        let connection = self.shared.accepted.borrow_mut().pop_front();
        if let Some(connection) = connection {
            self.leave();
            self.shared.spawner.pay_as(connection.payer());
            return Poll::Ready(connection);
        }
        let place = self.shared.acceptors.borrow_mut().wait(self.place, context);
        self.place = Some(place);
        Poll::Pending
    }
}

impl<T: Talk> Drop for Accepting<T> {
    fn drop(&mut self) {
        if self.leave() && !self.shared.accepted.borrow().is_empty() {
            let next = self.shared.acceptors.borrow_mut().next();
            next.into_iter().for_each(Waker::wake);
        }
    }
}

/// Waits for a time to come ([`Lane::sleep`]).
#[must_use = "nobody sleeps until it is awaited"]
pub struct Sleep<T: Talk = Silent> {
    shared: Rc<Shared<T>>,
    deadline: Instant,
    /// None until it is polled.
    key: Option<Key>,
}

impl<T: Talk> Sleep<T> {
    /// When it ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl<T: Talk> Future for Sleep<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { shared, deadline, key } = &mut *self;
        let mut sleeps = shared.sleeps.borrow_mut();
        let key = *key.get_or_insert_with(|| sleeps.add(shared.spawner.now(), *deadline));
        if sleeps.to_arm().is_some() {
            shared.touched.nudge();
        }
        sleeps.poll(key, context)
    }
}

impl<T: Talk> Drop for Sleep<T> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.sleeps.borrow_mut().remove(key);
        }
    }
}

/// Why a question was not asked: the lane that is asked is gone.
pub(super) const GONE: Lost = Lost::Gone;
