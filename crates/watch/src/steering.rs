//! How flows are told apart, and which lane serves each bucket: in the page, so that tools need not ask a process that may be stopped or dead.
//!
//! Written by whoever rewrites the table, one at a time, under a sequence number as a lane's groups are. What a key is and what a table may be is
//! the business of those who know hashes; here they are a text and numbers.

use crate::layout::{BUCKETS_OF_TABLE_MAX, LANES_IN_WORD, Layout, steering};
use crate::memory::{AtomicU64, Ordering, PageMemory};
use crate::sequence;
use std::sync::Arc;

/// What a page says of steering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SteeringSnapshot {
    /// Key and hash types of all flows, in words; empty if the process has told none.
    pub hasher: String,
    /// The lane of each bucket; empty if no table is told.
    pub lanes: Vec<u16>,
}

/// Writes what the page says of steering. It has one owner.
#[derive(Debug)]
pub struct SteeringRow(Arc<PageMemory>);

impl SteeringRow {
    pub(crate) fn new(memory: &Arc<PageMemory>) -> Self {
        Self(Arc::clone(memory))
    }

    /// Says how flows are told apart (at most 256 bytes), and which lane serves each bucket.
    ///
    /// # Panics
    /// With more buckets than [`BUCKETS_OF_TABLE_MAX`].
    pub fn set(&mut self, hasher: &str, lanes: &[u16]) {
        assert!(lanes.len() <= BUCKETS_OF_TABLE_MAX, "{} buckets are more than a table has", lanes.len());
        let words = self.0.words();
        sequence::write(&words[steering::SEQUENCE], || {
            Layout::hasher().write(words, hasher);
            words[steering::COUNT].store(lanes.len() as u64, Ordering::Relaxed);
            lanes.chunks(LANES_IN_WORD).zip(&words[steering::LANES..]).for_each(|(lanes, word)| pack(lanes, word));
        });
    }
}

fn pack(lanes: &[u16], word: &AtomicU64) {
    let packed = lanes.iter().rev().fold(0, |packed, &lane| packed << 16 | u64::from(lane));
    word.store(packed, Ordering::Relaxed);
}

/// Reads it back, whatever the words are.
pub(crate) fn read(load: impl Fn(usize) -> u64) -> SteeringSnapshot {
    let count = usize::try_from(load(steering::COUNT)).unwrap_or(usize::MAX).min(BUCKETS_OF_TABLE_MAX);
    let lane = |bucket: usize| (load(steering::LANES + bucket / LANES_IN_WORD) >> (bucket % LANES_IN_WORD * 16)) as u16;
    SteeringSnapshot { hasher: Layout::hasher().read(&load), lanes: (0..count).map(lane).collect() }
}
