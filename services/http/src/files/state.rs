//! Files: how they are set, and what a lane keeps of them.

use super::cache::Cache;
use super::lookup::Finder;
use super::name::Decoded;
use super::tokens::Tokens;
use super::trees::{Tree, Trees};
use super::warming::Warmings;
use std::path::PathBuf;

/// Serves what lies beneath a directory (RFC 9110): GET, HEAD and OPTIONS, conditions, ranges, and what lies beside a file in compressed form with `.br`, `.zst` or `.gz`
/// behind its name.
///
/// Nothing whose name begins with a dot is served, nothing that is no regular file, and no link that leads out of the directory. A file that has changed is
/// noticed at once where the system tells of it, else within a second; within a minute what the system tells nobody where it tells of the rest: writes through mapped memory, or through another
/// name that the file got later, and what is mounted above it. A large one is sent part by part, each of which a helper thread has read before if it was not in the system's memory, so that a disk holds up nobody else.
pub struct Files {
    pub(super) finder: Finder,
    pub(super) warmings: Warmings,
    pub(super) cache_bytes: usize,
    pub(super) decoded: Decoded,
    /// How many there are beside each other on the lane.
    pub(super) beside: usize,
    /// Memory to put a cache's key together in.
    pub(super) key: Vec<u8>,
}

impl Files {
    /// What lies beneath this directory. It need not be there yet, and may be replaced by another of its name.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let trees = Trees { site: Tree::new(root.into()), errors: None };
        Self {
            finder: Finder::new(trees, "index.html".to_owned(), Cache::new(Self::CACHE_BYTES)),
            warmings: Warmings::default(),
            cache_bytes: Self::CACHE_BYTES,
            decoded: Decoded::new(),
            beside: 1,
            key: Vec::new(),
        }
    }

    /// Bytes of a lane's memory for small files, unless others are set: 16 MiB.
    pub const CACHE_BYTES: usize = 16 << 20;

    /// Sets the name of the file that a directory is shown by: `index.html`.
    pub fn index(mut self, index: impl Into<String>) -> Self {
        self.finder.index = index.into();
        self
    }

    /// Lists directories that have no such file; otherwise they are refused with 403 (Forbidden).
    pub fn listing(mut self, lists: bool) -> Self {
        self.finder.lists = lists;
        self
    }

    /// Shows what is refused by the pages of this directory: `404.html`, or else `40x.html` for all that begin so, and so on. They are kept in memory as other files are, and one that
    /// has changed is noticed as soon. Where there is none, a page of ours is shown. What is refused before its name is looked at (a head that is none) is told without a page.
    pub fn errors(mut self, directory: impl Into<PathBuf>) -> Self {
        self.finder.trees.errors = Some(Tree::new(directory.into()));
        self
    }

    /// Sets how much of a lane's memory holds small files ([`Files::CACHE_BYTES`]); never more than a quarter of it is used.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self.finder.cache = Cache::new(bytes);
        self
    }

    /// Says that it is one of so many beside each other ([`Hosts`](crate::Hosts)), which share that memory, and where its tokens begin.
    pub fn beside(mut self, sites: usize, tokens: u64) -> Self {
        assert!(sites > 0, "it is one itself");
        self.finder.tokens = Tokens::starting_at(tokens);
        self.beside = sites;
        self
    }
}
