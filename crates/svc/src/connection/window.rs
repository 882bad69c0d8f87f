//! Sends of a connection in flight: what each holds of memory, from when it is sent until that is released.
//!
//! ```text
//! begin --Sent, released--------------> nothing is held            the usual case
//!       \-Sent, not released--> held --Released--> nothing is held    the system still reads it
//! ```
//!
//! At most one is unfinished, because two unlinked sends of one stream could change places. Of those that have ended, the oldest is released first.

use std::collections::VecDeque;

/// Bytes of memory in the sends of a connection that are in flight. How many they are, its [machine](super::machine::Machine) knows as well, also when this is gone.
#[derive(Default)]
pub(super) struct Window {
    /// In all of them; each counts for at least one.
    held: usize,
    /// In the one that has not ended; 0 if there is none.
    sending: usize,
    /// In those that have, the oldest first.
    ended: VecDeque<usize>,
}

impl Window {
    /// Whether nothing is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Whether a send has not ended.
    pub(super) fn is_sending(&self) -> bool {
        self.sending > 0
    }

    /// Bytes that all of them hold.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// A chain that holds so many bytes is sent.
    pub(super) fn begin(&mut self, bytes: usize) {
        assert!(self.sending == 0, "what was sent before has left, or is back");
        debug_assert!(self.held == self.ended.iter().sum::<usize>(), "what is held is in sends that have ended");
        self.sending = bytes.max(1);
        self.held += self.sending;
    }

    /// The send has ended, and what it left over holds `back` bytes.
    pub(super) fn end(&mut self, back: usize, is_released: bool) {
        assert!(self.sending > 0, "what comes back was charged");
        let kept = if is_released { 0 } else { self.keep(back) };
        self.held -= std::mem::take(&mut self.sending) - kept;
    }

    /// Notes what the send that ends goes on holding; returns how much that is.
    // Apart, so that the usual case pays only for the check.
    #[inline(never)]
    fn keep(&mut self, back: usize) -> usize {
        // What lies in a block with what was left over is charged with that.
        let bytes = self.sending.saturating_sub(back).max(1);
        self.ended.push_back(bytes);
        bytes
    }

    /// The oldest one that has ended is released; returns what it held.
    pub(super) fn release(&mut self) -> usize {
        // reason: its machine has counted it.
        let bytes = self.ended.pop_front().expect("what is released was sent");
        assert!(self.held >= bytes, "the sum has all that is in flight");
        self.held -= bytes;
        bytes
    }

    /// Forgets all of them, and keeps the storage: the connection has ended.
    pub(super) fn clear(&mut self) {
        self.ended.clear();
        (self.held, self.sending) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_is_held_until_it_is_released_the_oldest_first() {
        let mut window = Window::default();
        for (bytes, back, is_released) in [(100, 0, false), (300, 50, false), (0, 0, false), (500, 0, true)] {
            window.begin(bytes);
            assert!(window.is_sending() && !window.is_empty());
            window.end(back, is_released);
        }
        assert_eq!((window.held(), window.is_sending()), (100 + 250 + 1, false));
        window.begin(7);
        assert_eq!([window.release(), window.release(), window.release()], [100, 250, 1]);
        assert_eq!(window.held(), 7, "the one that has not ended is released later");
        window.end(7, true);
        assert!(window.is_empty());
    }

    #[test]
    fn what_was_sent_at_once_leaves_nothing() {
        let mut window = Window::default();
        window.begin(64);
        window.end(64, true);
        assert!(window.is_empty() && window.ended.capacity() == 0, "the usual case takes no storage");
    }
}
