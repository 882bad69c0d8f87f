//! Parts of a file that are brought where a send of them waits for no disk: else the lane would.

use crate::begin::{Begin, PushCx};
use corelane::lanes::DriverSettings;
use corelane::service::{ConnectionId, Fault, File, Level, Outcome, Reason};
use std::collections::BTreeMap;

/// Bytes that are brought at once, where a piece has no more.
const WINDOW_BYTES: u64 = 1 << 20;

/// Windows that are asked for at once, at the most: half of the helper threads that a lane has by default, so other services' calls find one that is free. Others wait for the end of one.
fn asked_max() -> usize {
    (DriverSettings::new().offload_threads / 2).max(1)
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    offset: u64,
    bytes: u64,
    /// How many bytes of the stream may be handed over when it is there: a short file more than once.
    counts: u64,
}

impl Window {
    /// Where a stream is at this position: whole pieces, or as far as the file goes.
    pub fn at(position: u64, size: u64, length: u64) -> Self {
        assert!(size > 0 && length > 0, "pieces and files have bytes");
        let whole = WINDOW_BYTES.max(size) / size * size;
        if length <= WINDOW_BYTES {
            assert!(position.is_multiple_of(length), "a short file is brought where it begins");
            return Self { offset: 0, bytes: length, counts: WINDOW_BYTES / length * length };
        }
        let offset = position % length;
        let bytes = whole.min(length - offset);
        Self { offset, bytes, counts: bytes }
    }
}

/// Those for which there is no room yet, at most one of each connection: the first goes first, and each leaves with its connection.
#[derive(Debug)]
struct Row<K> {
    windows: BTreeMap<u64, (K, Window)>,
    places: BTreeMap<K, u64>,
    last: u64,
}

impl<K> Default for Row<K> {
    fn default() -> Self {
        Self { windows: BTreeMap::new(), places: BTreeMap::new(), last: 0 }
    }
}

impl<K: Copy + Ord> Row<K> {
    fn push(&mut self, id: K, window: Window) {
        self.last += 1;
        self.windows.insert(self.last, (id, window));
        let before = self.places.insert(id, self.last);
        assert!(before.is_none(), "a connection asks for its next window when it has the last");
    }

    fn pop(&mut self) -> Option<(K, Window)> {
        let (_, (id, window)) = self.windows.pop_first()?;
        self.places.remove(&id);
        Some((id, window))
    }

    fn forget(&mut self, id: K) {
        if let Some(place) = self.places.remove(&id) {
            self.windows.remove(&place);
        }
    }
}

/// Those that were asked for, and those for which there was no room.
#[derive(Default)]
pub(crate) struct Windows {
    asked: BTreeMap<u64, (ConnectionId, Window)>,
    waiting: Row<ConnectionId>,
    /// The number of the last one that was asked for, from 1 on.
    last: u64,
}

/// Whether the disk was not even asked: for want of a thread or of memory, or since a bound was met. Then a send may go on and bring the bytes itself.
fn is_passing(fault: &Fault) -> bool {
    let is_short = matches!(fault.reason, Reason::Busy | Reason::NoMemory | Reason::NoDescriptor | Reason::UnderWay);
    is_short || fault.number == TRY_AGAIN
}

/// EAGAIN (errno(3)).
const TRY_AGAIN: i32 = 11;

impl Windows {
    /// Asks for one, or has it wait.
    pub fn ask(&mut self, cx: &mut PushCx<'_>, file: &File, one: (ConnectionId, Window)) {
        if self.asked.len() >= asked_max() {
            return self.waiting.push(one.0, one.1);
        }
        self.last += 1;
        cx.warm_file(file, one.1.offset, one.1.bytes, self.last);
        self.asked.insert(self.last, one);
    }

    /// One has come, or cannot. Of a file that has become shorter all is handed over that was to be: its send ends the connection where the file ends.
    pub fn take(&mut self, cx: &mut PushCx<'_>, file: &File, token: u64, outcome: &Outcome) {
        // reason: each has a number of its own.
        let (id, window) = self.asked.remove(&token).expect("what was asked for is answered once");
        match outcome {
            Outcome::Failed(fault) if is_passing(fault) => {
                let words = format_args!(
                    "a part of the file that is pushed is sent without being brought first, so the lane may wait for the disk: {fault}"
                );
                cx.report_kind("push without warming", Level::Warn, words);
                cx.notify(id, Begin { warm: window.counts });
            }
            Outcome::Failed(fault) => {
                let words = format_args!("the file that is pushed cannot be read: {fault}; a connection is broken off");
                cx.report_kind("push cannot read", Level::Error, words);
                cx.abort(id);
            }
            _ => cx.notify(id, Begin { warm: window.counts }),
        }
        while self.asked.len() < asked_max()
            && let Some(next) = self.waiting.pop()
        {
            self.ask(cx, file, next);
        }
    }

    /// A connection has ended: nothing more is asked for it.
    pub fn forget(&mut self, id: ConnectionId) {
        self.waiting.forget(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_whole_pieces_as_far_as_the_file_goes() {
        let (length, size) = (5 << 20, 300_000);
        let (mut position, mut seen) = (0, 0);
        while position < 2 * length {
            let window = Window::at(position, size, length);
            assert_eq!((window.offset, window.bytes), (position % length, window.counts));
            assert!(window.bytes.is_multiple_of(size) || window.offset + window.bytes == length, "{window:?}");
            (position, seen) = (position + window.counts, seen + 1);
        }
        assert_eq!((position, seen), (2 * length, 12));
        assert_eq!(Window::at(0, 4 << 20, 1 << 40), Window { offset: 0, bytes: 4 << 20, counts: 4 << 20 });
    }

    #[test]
    fn a_short_file_is_brought_once_for_many_passes() {
        let short = Window::at(0, 16 << 10, 100);
        assert_eq!(short, Window { offset: 0, bytes: 100, counts: 1_048_500 });
        assert_eq!(Window::at(short.counts, 16 << 10, 100), short);
        assert_eq!(Window::at(0, 1, WINDOW_BYTES).counts, WINDOW_BYTES);
    }

    #[test]
    fn those_who_come_and_go_leave_nothing_in_the_row() {
        let (window, mut row) = (Window::at(0, 1, 100), Row::default());
        (0..3).for_each(|id| row.push(id, window));
        for id in 3..10_000 {
            row.push(id, window);
            row.forget(id);
            row.forget(id);
        }
        row.forget(1);
        assert_eq!((row.windows.len(), row.places.len()), (2, 2));
        assert_eq!([row.pop(), row.pop(), row.pop()].map(|next| next.map(|(id, _)| id)), [Some(0), Some(2), None]);
        assert!(row.places.is_empty());
    }

    #[test]
    fn for_want_of_a_helper_a_stream_goes_on_and_for_a_disk_that_fails_it_ends() {
        let numbered = |number| Fault { reason: Reason::Other, number };
        assert!(
            is_passing(&Fault::of(Reason::Busy)) && is_passing(&Fault::of(Reason::NoMemory)) && is_passing(&numbered(TRY_AGAIN))
        );
        assert!(!is_passing(&numbered(5)) && !is_passing(&Fault::of(Reason::Permission)));
    }
}
