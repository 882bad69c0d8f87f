//! What a queue promises, one case a rule.

mod changes;
mod closing;
mod descriptors;
mod files;
mod processes;
mod timers;
mod waiting;

use corelane_event::{Change, Event, Filter, Flags, Queue};
use corelane_os::testing::wait_until_readable;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// Longer than anything takes that is to happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A queue that ends with its case.
struct Owned(Arc<Queue>);

impl std::ops::Deref for Owned {
    type Target = Arc<Queue>;

    fn deref(&self) -> &Arc<Queue> {
        &self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn queue() -> Owned {
    Owned(Queue::new().unwrap())
}

impl Owned {
    /// What there is to tell now.
    fn now(&self) -> Vec<Event> {
        self.told(64, Some(Duration::ZERO))
    }

    /// What there is to tell, waiting for the first.
    fn next(&self) -> Vec<Event> {
        loop {
            // Whatever there is to tell makes the queue's descriptor readable; what is readable need not tell anything.
            wait_until_readable(self.descriptor());
            let told = self.now();
            if !told.is_empty() {
                return told;
            }
        }
    }

    /// The only event there is to tell, waiting for it.
    fn one(&self) -> Event {
        let told = self.next();
        assert_eq!(told.len(), 1, "{told:?}");
        told[0]
    }

    fn told(&self, room: usize, timeout: Option<Duration>) -> Vec<Event> {
        let mut events = vec![Event::BLANK; room];
        let count = self.take(&mut events, 1, timeout).unwrap();
        events.truncate(count);
        events
    }

    fn ok(&self, change: Change) {
        self.change(&change).unwrap();
    }

    fn refused(&self, change: Change) -> i32 {
        self.change(&change).unwrap_err().number
    }
}

fn change(ident: u64, filter: Filter, flags: Flags) -> Change {
    Change { flags, ..Change::add(ident, filter) }
}

fn ident(descriptor: &impl AsRawFd) -> u64 {
    descriptor.as_raw_fd() as u64
}

fn number(descriptor: &impl AsRawFd) -> RawFd {
    descriptor.as_raw_fd()
}
