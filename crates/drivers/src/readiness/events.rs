//! Asking the kernel for events, and what follows from each; descriptors that the driver does not own.

use super::endpoint::{BELL_EDGES, BROKEN, Bridging, EXHAUST, EndpointKind, IN, OUT, Sending, edges};
use super::source::{BELL, Pause, ReadinessSource, UNWATCHED};
use super::state::{LOOK_EVERY, ReadinessDriver};
use corelane_os::clock;
use corelane_os::errno;
use corelane_seam::slab::Key;
use corelane_seam::{Attention, Completion, Fault, Handle, Interest, Outcome, Wait};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::os::fd::{AsFd, BorrowedFd};

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// Asks the kernel once, and notes what has happened; returns whether the wait is over.
    pub(super) fn look(&mut self, wait: Wait, at_most: usize, completions: &mut Vec<Completion>) -> bool {
        let mut pause = match wait {
            Wait::No => Pause::Nanoseconds(0),
            Wait::Until(time) => Pause::Nanoseconds(time.saturating_sub(clock::now())),
            Wait::Forever => Pause::Endless,
        };
        let sleeps = pause != Pause::Nanoseconds(0);
        let mut rung = sleeps && !self.bell.before_sleep();
        if rung {
            pause = Pause::Nanoseconds(0);
        }
        self.counters.calls_wait += 1;
        // Few events are completions, so a small bound of those must not make many looks.
        let found = self.source.look(pause, at_most.max(LOOK_EVERY));
        rung |= self.bell.awake();
        let count = match found {
            Ok(count) => count,
            Err(number) => {
                assert!(number == libc::EINTR, "looking for events: {}", errno::fault(number));
                return true;
            }
        };
        for index in 0..count {
            let (data, events) = self.source.event(index);
            assert!(events != 0, "an event tells of something");
            if events & UNWATCHED != 0 {
                self.watch_again(data);
            }
            if data != BELL {
                self.note(Key::from_bits(data), events, completions);
            }
        }
        rung || count == 0 || !sleeps
    }

    fn watch_again(&mut self, data: u64) {
        let watched = match (data, self.endpoints.get(Key::from_bits(data))) {
            (BELL, _) => self.source.watch(self.bell.as_fd(), BELL_EDGES, BELL),
            (_, Some(endpoint)) if endpoint.is_shared_listener() => Ok(()),
            (_, Some(endpoint)) => self.source.watch(endpoint.descriptor.as_fd(), edges(endpoint), data),
            (_, None) => Ok(()),
        };
        assert!(watched.is_ok(), "a source that ends watching can take it up again");
    }

    fn note(&mut self, key: Key, events: i32, completions: &mut Vec<Completion>) {
        let Some(endpoint) = self.endpoints.get_mut(key) else {
            let is_parted = self.note_parted(key, completions);
            self.counters.events_stale += u64::from(!is_parted);
            return;
        };
        if endpoint.is_shared_listener() {
            return self.told_of_connection(key, events);
        }
        match endpoint.kind {
            EndpointKind::Polled(interest) => return self.end_poll(key, interest, events, completions),
            EndpointKind::Notices => return self.take_notices(key, completions),
            EndpointKind::PortNews => return self.note_news(key),
            EndpointKind::Bells => return self.note_bells(),
            EndpointKind::Port => {
                let (receive, send) = (events & (IN | EXHAUST) != 0, events & (OUT | BROKEN) != 0);
                return self.note_port(key, Attention { receive, send });
            }
            _ => {}
        }
        if endpoint.kind == EndpointKind::Connecting {
            if events & (OUT | BROKEN) == 0 {
                return;
            }
            self.end_connect(key, events, completions);
        }
        // A connect that failed has given up its socket.
        let Some(endpoint) = self.endpoints.get_mut(key) else { return };
        if events & (IN | EXHAUST) != 0 {
            endpoint.mark_news();
            endpoint.exhaust |= events & EXHAUST != 0;
            self.queue(key);
        }
        if events & BROKEN != 0 && self.endpoints.at(key.index).bridging != Bridging::No {
            self.broke_bridged(key);
        }
        if events & BROKEN != 0 && !self.kept.is_empty() {
            self.note_notices(key, completions);
        }
        if events & (OUT | BROKEN) != 0 {
            self.resume(key, completions);
        }
    }

    fn resume(&mut self, key: Key, completions: &mut Vec<Completion>) {
        let endpoint = self.endpoints.at_mut(key.index);
        match endpoint.sending {
            // A connection's room is told of with what comes, and nobody has asked.
            Sending::Nothing if !endpoint.awaits_room => {}
            Sending::Nothing => self.await_no_room(key),
            Sending::Bytes(held) => self.resume_send(key, held.get(), completions),
            Sending::Datagrams(held) => self.resume_datagrams(key, held.get(), completions),
        }
    }

    /// Waits for a descriptor that the driver does not own. It is copied, so that it can be waited for twice, and
    /// stays what it is if its owner closes it.
    pub(super) fn poll(&mut self, handle: Handle, descriptor: i32, interest: Interest) -> Option<Outcome> {
        match self.begin_poll(handle, descriptor, interest) {
            Ok(()) => None,
            // What cannot be waited for, such as a file, is always ready (poll(2)).
            Err(libc::EPERM) => Some(Outcome::Ready { interest }),
            Err(number) => Some(Outcome::Failed(errno::fault(number))),
        }
    }

    fn begin_poll(&mut self, handle: Handle, descriptor: i32, interest: Interest) -> Result<(), i32> {
        if descriptor < 0 {
            return Err(libc::EBADF);
        }
        // SAFETY: the number is only used for the call, which fails where it names nothing; it is not the one that a borrow cannot have.
        let lent = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let copy = fcntl_dupfd_cloexec(lent, 0).map_err(Errno::raw_os_error)?;
        let key = self.enter(copy, EndpointKind::Polled(interest)).map_err(|fault| fault.number)?;
        self.endpoints.at_mut(key.index).receive_handle = handle;
        self.make_cancellable(handle, key);
        Ok(())
    }

    fn end_poll(&mut self, key: Key, interest: Interest, events: i32, completions: &mut Vec<Completion>) {
        let read = interest.read && events & (IN | libc::EPOLLRDHUP | BROKEN) != 0;
        let write = interest.write && events & (OUT | BROKEN) != 0;
        if !read && !write {
            // io_uring reports a peer's end (RDHUP) even to those who wait to write.
            return;
        }
        let handle = self.forget(key);
        completions.push(Completion::last(handle, Outcome::Ready { interest: Interest { read, write } }));
    }

    /// Ends a connect, poll or watch that is still under way.
    pub(super) fn cancel(&mut self, target: Handle, completions: &mut Vec<Completion>) {
        self.end_watch(target, completions);
        if let Some(&key) = self.cancellable.get(target) {
            let handle = self.forget(key);
            assert!(handle == target);
            completions.push(Completion::failed(handle, Fault::CANCELLED));
        }
    }

    /// Gives up a connect's socket or a poll's copy; returns its handle.
    fn forget(&mut self, key: Key) -> Handle {
        let endpoint = self.endpoints.remove_at(key.index);
        assert!(matches!(endpoint.kind, EndpointKind::Connecting | EndpointKind::Polled(_)), "only these are given up");
        let copies = endpoint.copies();
        self.source.close(key.bits(), endpoint.descriptor, copies);
        let known = self.cancellable.remove(endpoint.receive_handle);
        assert!(known == Some(key), "a connect or poll can be cancelled as long as it is under way");
        endpoint.receive_handle
    }
}
