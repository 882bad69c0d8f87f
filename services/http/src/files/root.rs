//! The directory beneath which everything lies, which may be replaced by another of its name.

use super::place::Where;
use super::{Files, TRUE_FOR, lookup};
use corelane::Cx;
use corelane::service::{File, FileFacts, FileOutcome, OpenOptions, Outcome};
use std::path::PathBuf;

/// The directory.
pub(super) struct Root {
    path: PathBuf,
    /// None until it was opened, and when it is not there.
    directory: Option<File>,
    /// Which one it was when it was last there.
    facts: Option<FileFacts>,
    /// How often it was found to be another one.
    generation: u64,
    is_opening: bool,
    /// When it was last opened, or was tried to be.
    looked_at: u64,
}

impl Root {
    pub fn new(path: PathBuf) -> Self {
        Self { path, directory: None, facts: None, generation: 0, is_opening: false, looked_at: 0 }
    }

    pub fn directory(&self) -> Option<&File> {
        self.directory.as_ref()
    }

    /// Tells one root from another of its name.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether it is being opened.
    pub fn is_opening(&self) -> bool {
        self.is_opening
    }
}

impl Files {
    pub(super) fn open_root(&mut self, cx: &mut Cx<'_>, at: Where) {
        let (token, now) = (self.root_token(at), cx.now().nanoseconds());
        let root = &mut self.tree_mut(at).root;
        assert!(!root.is_opening, "it is opened once at a time");
        (root.is_opening, root.looked_at) = (true, now);
        cx.open_file(root.path.clone(), OpenOptions::new().read(true).directory(true), token);
    }

    /// Opens it again, if that is long ago; meanwhile what was opened then is good.
    pub(super) fn look_after_root(&mut self, cx: &mut Cx<'_>, at: Where) {
        let root = &self.tree(at).root;
        if !root.is_opening && cx.now().nanoseconds() - root.looked_at > TRUE_FOR {
            self.open_root(cx, at);
        }
    }

    pub(super) fn root_opened(&mut self, cx: &mut Cx<'_>, at: Where, outcome: Outcome) {
        let tree = self.tree_mut(at);
        assert!(std::mem::take(&mut tree.root.is_opening), "it was asked for");
        let (directory, facts) = match outcome {
            Outcome::File(FileOutcome::Opened { file, facts }) => (Some(file), Some(facts)),
            _ => (None, None),
        };
        let is_same = match (&facts, &tree.root.facts) {
            (Some(facts), Some(before)) => facts.are_of(before),
            (None, None) => true,
            _ => false,
        };
        (tree.root.directory, tree.root.facts) = (directory, facts);
        if !is_same {
            tree.root.generation += 1;
            tree.directories.end_all(cx.now().nanoseconds());
            // What lies beneath the other root is as it was.
            self.cache.forget(|key| lookup::place_of(key) == at);
        }
        self.root_is_known(cx, at);
    }
}
