//! The operations of a queue that are not over, or whose outcome nobody has taken.

use corelane_seam::slab::{Key, Slab};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::spread::Map;
use crate::helpers::{Helpers, Tell, Transfer};
use crate::operation::{Memory, Work};

/// All operations of a queue.
pub struct Operations {
    pub all: Slab<Operation>,
    /// By their idents.
    pub idents: Map<u64, Key>,
    pub lists: Map<u64, List>,
    pub helpers: Arc<Helpers>,
    /// Whom helpers tell.
    pub tell: Option<Tell>,
    /// What an operation leaves is the program's with its event.
    pub are_handed_over: bool,
}

/// One of them.
pub struct Operation {
    pub ident: u64,
    pub work: Work,
    /// Bytes that were moved, as far as no helper counts them.
    pub done: u64,
    /// Bytes that it may move.
    pub length: u64,
    pub stage: Stage,
    pub shared: Arc<Transfer>,
    /// The file that is sent, once it is open.
    pub file: Option<Arc<OwnedFd>>,
    /// The list that it belongs to.
    pub list: Option<u64>,
}

/// Where an operation is.
pub enum Stage {
    /// Submitted, and not looked at.
    New,
    /// In its socket's line.
    Waits(Key),
    /// A connection is being made, in its socket's line.
    Connects(Key),
    /// A helper has it; it is the first of the socket's line, if it has one.
    Helped(Option<Key>),
    /// It is over.
    Ended(Ending),
}

/// How an operation is over.
#[derive(Default)]
pub struct Ending {
    pub error: i32,
    pub is_end: bool,
    pub accepted: Option<OwnedFd>,
}

/// Operations that were submitted together.
pub struct List {
    pub left: usize,
    pub failed: i64,
    /// The first error.
    pub error: i32,
}

impl Ending {
    pub fn of(error: i32) -> Self {
        Self { error, ..Self::default() }
    }
}

impl Operations {
    pub fn new() -> Self {
        Self {
            all: Slab::new(),
            idents: Map::default(),
            lists: Map::default(),
            helpers: Arc::default(),
            tell: None,
            are_handed_over: false,
        }
    }

    pub fn by_ident(&self, ident: u64) -> Option<Key> {
        self.idents.get(&ident).copied()
    }
}

impl Operation {
    /// Has its memory back.
    pub fn restore(&mut self, came: Memory) {
        match &mut self.work {
            Work::Read { memory, .. } | Work::Write { memory, .. } => *memory = came,
            // reason: only these gave their memory away.
            _ => unreachable!("memory comes back to who gave it"),
        }
    }
}
