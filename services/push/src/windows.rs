//! Parts of a file that are brought where a send of them waits for no disk: else the lane would.

use crate::begin::{Begin, PushCx};
use corelane::service::{ConnectionId, File, Level, Outcome};
use std::collections::{BTreeMap, VecDeque};

/// Bytes that are brought at once, where a piece has no more.
const WINDOW_BYTES: u64 = 1 << 20;

/// Windows that are asked for at once, at the most. Others wait for the end of one.
const ASKED_MAX: usize = 64;

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

/// Those that were asked for, and those for which there was no room.
#[derive(Default)]
pub(crate) struct Windows {
    asked: BTreeMap<u64, (ConnectionId, Window)>,
    waiting: VecDeque<(ConnectionId, Window)>,
    /// The number of the last one that was asked for, from 1 on.
    last: u64,
}

impl Windows {
    /// Asks for one, or has it wait.
    pub fn ask(&mut self, cx: &mut PushCx<'_>, file: &File, one: (ConnectionId, Window)) {
        if self.asked.len() >= ASKED_MAX {
            return self.waiting.push_back(one);
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
            Outcome::Failed(fault) => {
                cx.report(
                    Level::Error,
                    format_args!("the file that is pushed cannot be read: {fault}; a connection is broken off"),
                );
                cx.abort(id);
            }
            _ => cx.notify(id, Begin { warm: window.counts }),
        }
        while self.asked.len() < ASKED_MAX
            && let Some(next) = self.waiting.pop_front()
        {
            // Those that have ended need nothing more.
            if cx.peer_address(next.0).is_some() {
                self.ask(cx, file, next);
            }
        }
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
}
