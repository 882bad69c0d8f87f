//! The Rust face: a queue with an owner, that a task can wait at.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use crate::queue::Queue;
use crate::record::Event;
use crate::refused::Refused;

/// A queue that ends with its owner. Share it by reference or in an `Arc`: any thread may change it and wait at it.
///
/// Its descriptor is readable while there may be something to tell: whatever waits for descriptors can wait for it (a runtime, another queue, a lane's
/// poll operation), and then [`Queue::take`] with no time brings what there is.
pub struct Events {
    queue: Arc<Queue>,
    descriptor: OwnedFd,
}

impl Events {
    /// An empty queue.
    ///
    /// # Errors
    /// As [`Queue::new`].
    pub fn new() -> Result<Self, Refused> {
        let queue = Queue::unknown()?;
        let number = |error: io::Error| error.raw_os_error().unwrap_or(corelane_os::events::number::EMFILE);
        let descriptor = queue.duplicate().map_err(|error| Refused::system(number(error)))?;
        Ok(Self { queue, descriptor })
    }

    /// Waits as a task does until there is something to tell, writes it to the beginning of `events`, and says how much it is: never nothing, unless
    /// there is no room. `readable` waits until the descriptor is readable, by whatever means the task's runtime has; dropped meanwhile, nothing is
    /// lost. `examples/watching.rs` of the facade waits so on a lane.
    ///
    /// # Errors
    /// As [`Queue::take`]; what `readable` says.
    pub async fn next(
        &self,
        events: &mut [Event],
        mut readable: impl AsyncFnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> io::Result<usize> {
        loop {
            let told = self.queue.take(events, 1, Some(Duration::ZERO))?;
            if told > 0 || events.is_empty() {
                return Ok(told);
            }
            readable(self.as_fd()).await?;
        }
    }
}

impl Deref for Events {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.queue
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.queue.close();
    }
}
