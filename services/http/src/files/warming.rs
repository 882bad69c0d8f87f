//! Parts of large files, brought where sending them does not wait for the disk.

use super::Files;
use crate::HttpCounter;
use corelane::Cx;
use corelane::service::{ConnectionId, File, FileOutcome, Outcome};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of a file that are handed over at once, at the most: more than the output of a connection holds, so that it does not run dry meanwhile.
const WINDOW_BYTES: u64 = 1 << 20;

/// Whether the next window of a file may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Warmth {
    /// It was not asked.
    Unknown,
    /// It was asked.
    Asked,
    /// So many bytes may. None: the file ends there, or cannot be read.
    Warm(u64),
}

/// Windows that were asked for.
#[derive(Default)]
pub(super) struct Warmings(BTreeMap<u64, (ConnectionId, Rc<Cell<Warmth>>)>);

impl Files {
    /// Asks for the next window of a file, at `offset` and of `length` at the most; the connection is resumed when it is warm.
    pub(super) fn warm(&mut self, cx: &mut Cx<'_>, file: &File, offset: u64, length: u64, warmth: &Rc<Cell<Warmth>>) {
        assert!(length > 0 && warmth.get() == Warmth::Unknown, "one window is asked for at a time");
        warmth.set(Warmth::Asked);
        let token = self.next_token();
        cx.warm_file(file, offset, length.min(WINDOW_BYTES), token);
        self.warmings.0.insert(token, (cx.id(), warmth.clone()));
    }

    /// Takes what came of it; false if that was nobody's window.
    pub(super) fn take_warmed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: &Outcome) -> bool {
        let Some((id, warmth)) = self.warmings.0.remove(&token) else { return false };
        assert_eq!(warmth.get(), Warmth::Asked, "what was asked is answered once");
        warmth.set(match outcome {
            Outcome::File(FileOutcome::Warm { bytes, was_cold }) => {
                cx.count(HttpCounter::FilesCold, (*was_cold).into());
                Warmth::Warm(*bytes)
            }
            _ => Warmth::Warm(0),
        });
        cx.resume(id);
        true
    }
}
