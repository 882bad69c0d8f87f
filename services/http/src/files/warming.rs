//! Parts of large files, brought where sending them does not wait for the disk.

use super::entity::Entity;
use super::tokens::Tokens;
use crate::HttpCounter;
use corelane::Cx;
use corelane::service::{ConnectionId, File, FileOutcome, Outcome, PeerKey, Shares};
use corelane_wire::http1::Span;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
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
    peer: PeerKey,
    entity: Rc<Entity>,
}

/// Windows that are asked for at once, at the most: clients may have gone that asked for them, and the disk answers when it likes. Of these each peer has its share, for one alone could ask for parts of many
/// files on a slow disk. One more waits for the end of another.
pub(crate) const WARMINGS_MAX: usize = 1024;

/// So many have begun to wait at least when those are taken out that are wanted no more.
const SWEEP_LEAST: usize = 64;

/// Peers that are looked at when a window has come, whether one of theirs may be asked for.
const PEERS_AT_ONCE: usize = 64;

/// Windows that were asked for, and those for which there was no room.
pub(super) struct Warmings {
    asked: BTreeMap<u64, Asked>,
    /// Who has how many of them.
    peers: Shares,
    waiting: BTreeMap<PeerKey, VecDeque<Asker>>,
    /// How many have begun to wait since those were taken out that are wanted no more, and how many do until that is done again.
    unswept: [usize; 2],
    /// The peer whose turn was last.
    last: Option<PeerKey>,
}

impl Default for Warmings {
    fn default() -> Self {
        let (asked, waiting) = Default::default();
        Self { asked, peers: Shares::new(WARMINGS_MAX as u32), waiting, unswept: [0, SWEEP_LEAST], last: None }
    }
}

impl Warmings {
    fn wait(&mut self, peer: PeerKey, asker: Asker) {
        self.waiting.entry(peer).or_default().push_back(asker);
        self.unswept[0] += 1;
        if self.unswept[0] >= self.unswept[1] {
            self.waiting.retain(|_, askers| {
                askers.retain(is_wanted);
                !askers.is_empty()
            });
            let left: usize = self.waiting.values().map(VecDeque::len).sum();
            self.unswept = [0, left + SWEEP_LEAST];
        }
    }

    /// The peers of whom somebody waits, some of them, in turn.
    fn next_peers(&self) -> Vec<PeerKey> {
        let behind = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let before = self.last.map_or(Bound::Excluded(PeerKey::V4(0)), Bound::Included);
        let peers = |from, to| self.waiting.range((from, to)).map(|(peer, _)| *peer);
        peers(behind, Bound::Unbounded).chain(peers(Bound::Unbounded, before)).take(PEERS_AT_ONCE).collect()
    }

    /// The first of a peer that waits for room, and is wanted still.
    fn next_of(&mut self, peer: PeerKey) -> Option<Asker> {
        let askers = self.waiting.get_mut(&peer)?;
        let next = std::iter::from_fn(|| askers.pop_front()).find(is_wanted);
        if askers.is_empty() {
            self.waiting.remove(&peer);
        }
        next
    }

    /// Resumes those that wait, as many of each peer as it may have: one that was resumed before may not have asked.
    fn resume_waiting(&mut self, cx: &mut Cx<'_>) {
        for peer in self.next_peers() {
            self.last = Some(peer);
            let mut resumed = 0;
            while self.peers.admits_more(peer, resumed + 1) {
                let Some((id, warmth)) = self.next_of(peer) else { break };
                warmth.set(Warmth::Unknown);
                cx.resume(id);
                resumed += 1;
            }
        }
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
        let id = cx.id();
        // reason: it is asked for in a call for the connection.
        let peer = cx.peer_address(id).map(PeerKey::of).expect("a connection is there while its service is called for it");
        if !self.peers.admits(peer) {
            cx.count(HttpCounter::ReadAheadMaxHits, 1);
            warmth.set(Warmth::Waits);
            return self.wait(peer, (id, warmth.clone()));
        }
        warmth.set(Warmth::Asked);
        let token = tokens.next();
        cx.warm_file(file, span.begin, span.bytes().min(WINDOW_BYTES), token);
        self.peers.take(Some(peer));
        self.asked.insert(token, Asked { asker: (id, warmth.clone()), peer, entity: entity.clone() });
    }

    /// Takes what came of it; false if that was nobody's window.
    pub fn take_warmed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: &Outcome) -> bool {
        let Some(Asked { asker: (id, warmth), peer, entity }) = self.asked.remove(&token) else { return false };
        self.peers.give_back(Some(peer));
        assert_eq!(warmth.get(), Warmth::Asked, "what was asked is answered once");
        warmth.set(match outcome {
            Outcome::File(FileOutcome::Warm { bytes, was_cold, length, modified }) => {
                cx.count(HttpCounter::FilesCold, (*was_cold).into());
                // What is sent under one tag is of one state.
                Warmth::Warm(if entity.keeps_its_word(*length, *modified) { *bytes } else { 0 })
            }
            _ => Warmth::Warm(0),
        });
        // Those that wait come before who has just had a window and wants its next.
        self.resume_waiting(cx);
        cx.resume(id);
        true
    }
}

/// Whether somebody else than this list still has it.
fn is_wanted((_, warmth): &Asker) -> bool {
    Rc::strong_count(warmth) > 1
}
