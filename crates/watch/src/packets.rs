//! The row of a lane's packet path: written whole, and read whole or not at all.

use crate::catalogue::{Counter, PacketCounter, StreamCounter};
use crate::layout::{PROTOCOLS_MAX, packets_row};
use crate::memory::{AtomicU64, Ordering, PageMemory};
use crate::sequence;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// The row of one lane's packet path, written by that lane alone, as a [`Row`](crate::Row).
#[derive(Debug)]
pub struct PacketsRow {
    memory: Arc<PageMemory>,
    first: usize,
    single_writer: PhantomData<Cell<()>>,
}

/// A row that is being written.
#[derive(Debug)]
pub struct PacketsWriter<'a> {
    words: &'a [AtomicU64],
    first: usize,
}

impl PacketsRow {
    pub(crate) fn new(memory: &Arc<PageMemory>, first: usize) -> Self {
        assert!(first + packets_row::WORDS <= memory.words().len(), "a row lies in its page");
        Self { memory: Arc::clone(memory), first, single_writer: PhantomData }
    }

    /// Writes what belongs together, as [`LaneRow::together`](crate::LaneRow): a reader sees all of it, or nothing.
    ///
    /// # Panics
    /// After a panic in it.
    pub fn together(&self, write: impl FnOnce(&PacketsWriter<'_>)) {
        let words = self.memory.words();
        sequence::write(&words[self.first + packets_row::SEQUENCE], || write(&PacketsWriter { words, first: self.first }));
    }
}

impl PacketsWriter<'_> {
    /// Sets a count that is kept elsewhere, or a mark.
    #[inline]
    pub fn set(&self, counter: PacketCounter, value: u64) {
        self.words[self.first + packets_row::COUNTERS + counter.index()].store(value, Ordering::Relaxed);
    }

    /// How many protocols there are.
    ///
    /// # Panics
    /// For more than [`PROTOCOLS_MAX`].
    pub fn set_protocols(&self, protocols: usize) {
        assert!(protocols <= PROTOCOLS_MAX, "{protocols} protocols");
        self.words[self.first + packets_row::PROTOCOLS].store(protocols as u64, Ordering::Relaxed);
    }

    /// The name of the interface; 16 bytes.
    pub fn set_interface(&self, name: &str) {
        packets_row::interface(self.first).write(self.words, name);
    }

    /// The name of a protocol; 16 bytes.
    pub fn name(&self, protocol: usize, name: &str) {
        packets_row::name(self.first, protocol).write(self.words, name);
    }

    /// Sets one of a protocol's.
    #[inline]
    pub fn set_stream(&self, protocol: usize, counter: StreamCounter, value: u64) {
        self.words[packets_row::stream(self.first, protocol) + counter.index()].store(value, Ordering::Relaxed);
    }
}
