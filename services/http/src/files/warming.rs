//! Parts of large files, brought where sending them does not wait for the disk.

use super::entity::Entity;
use super::tokens::Tokens;
use crate::HttpCounter;
use corelane::Cx;
use corelane::service::{ConnectionId, File, FileOutcome, Outcome};
use corelane_wire::http1::Span;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
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
    /// It is to be asked when there is room.
    Waits,
    /// So many bytes may. None: the file ends there, or cannot be read.
    Warm(u64),
}

/// Who waits for a window, and what it is told.
type Asker = (ConnectionId, Rc<Cell<Warmth>>);

/// Who has asked, and of which file.
struct Asked {
    asker: Asker,
    entity: Rc<Entity>,
}

/// Windows that are asked for at once, at the most: clients may have gone that asked for them, and the disk answers when it likes. One more waits for the end of another.
pub(crate) const WARMINGS_MAX: usize = 1024;

/// Windows that were asked for, and those for which there was no room.
#[derive(Default)]
pub(super) struct Warmings {
    asked: BTreeMap<u64, Asked>,
    waiting: VecDeque<Asker>,
    /// As many wait when those are taken out that are wanted no more.
    sweep_at: usize,
}

impl Warmings {
    fn wait(&mut self, asker: Asker) {
        self.waiting.push_back(asker);
        if self.waiting.len() >= self.sweep_at {
            self.waiting.retain(is_wanted);
            self.sweep_at = 2 * self.waiting.len() + 64;
        }
    }

    /// The first that waits for room, and is wanted still.
    fn next(&mut self) -> Option<Asker> {
        std::iter::from_fn(|| self.waiting.pop_front()).find(is_wanted)
    }

    /// Asks for the next window of a file, at the beginning of `span`; the connection is resumed when it is warm.
    pub fn warm(
        &mut self,
        cx: &mut Cx<'_>,
        tokens: &mut Tokens,
        (entity, file): (&Rc<Entity>, &File),
        span: Span,
        warmth: &Rc<Cell<Warmth>>,
    ) {
        assert!(span.bytes() > 0 && warmth.get() == Warmth::Unknown, "one window is asked for at a time");
        if self.asked.len() >= WARMINGS_MAX {
            warmth.set(Warmth::Waits);
            return self.wait((cx.id(), warmth.clone()));
        }
        warmth.set(Warmth::Asked);
        let token = tokens.next();
        cx.warm_file(file, span.begin, span.bytes().min(WINDOW_BYTES), token);
        self.asked.insert(token, Asked { asker: (cx.id(), warmth.clone()), entity: entity.clone() });
    }

    /// Takes what came of it; false if that was nobody's window.
    pub fn take_warmed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: &Outcome) -> bool {
        let Some(Asked { asker: (id, warmth), entity }) = self.asked.remove(&token) else { return false };
        assert_eq!(warmth.get(), Warmth::Asked, "what was asked is answered once");
        warmth.set(match outcome {
            Outcome::File(FileOutcome::Warm { bytes, was_cold, length, modified }) => {
                cx.count(HttpCounter::FilesCold, (*was_cold).into());
                // What is sent under one tag is of one state.
                Warmth::Warm(if entity.keeps_its_word(*length, *modified) { *bytes } else { 0 })
            }
            _ => Warmth::Warm(0),
        });
        // Those that wait come before who has just had a window and wants its next; as many as there is room for, as one that was called before may not
        // have asked.
        for _ in self.asked.len()..WARMINGS_MAX {
            let Some((id, warmth)) = self.next() else { break };
            warmth.set(Warmth::Unknown);
            cx.resume(id);
        }
        cx.resume(id);
        true
    }
}

/// Whether somebody else than this list still has it.
fn is_wanted((_, warmth): &Asker) -> bool {
    Rc::strong_count(warmth) > 1
}
