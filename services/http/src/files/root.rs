//! The directory beneath which everything lies, which may be replaced by another of its name.

use super::{Files, TRUE_FOR};
use corelane::Cx;
use corelane::service::{File, FileOutcome, OpenOptions, Outcome};
use std::path::PathBuf;

/// The directory.
pub(super) struct Root {
    path: PathBuf,
    /// None until it was opened, and when it is not there.
    directory: Option<File>,
    /// Tells it from another of the same name.
    number: u64,
    /// How often it was found to be another one.
    generation: u64,
    is_opening: bool,
    /// When it was last opened, or was tried to be.
    looked_at: u64,
}

impl Root {
    pub fn new(path: PathBuf) -> Self {
        Self { path, directory: None, number: 0, generation: 0, is_opening: false, looked_at: 0 }
    }

    pub fn directory(&self) -> Option<&File> {
        self.directory.as_ref()
    }

    /// Whether it is being opened.
    /// Tells one root from another of its name.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn is_opening(&self) -> bool {
        self.is_opening
    }
}

impl Files {
    pub(super) fn open_root(&mut self, cx: &mut Cx<'_>) {
        assert!(!self.root.is_opening, "it is opened once at a time");
        (self.root.is_opening, self.root.looked_at) = (true, cx.now().nanoseconds());
        cx.open_file(self.root.path.clone(), OpenOptions::new().read(true).directory(true), self.tokens);
    }

    /// Opens it again, if that is long ago; meanwhile what was opened then is good.
    pub(super) fn look_after_root(&mut self, cx: &mut Cx<'_>) {
        if !self.root.is_opening && cx.now().nanoseconds() - self.root.looked_at > TRUE_FOR {
            self.open_root(cx);
        }
    }

    pub(super) fn root_opened(&mut self, cx: &mut Cx<'_>, outcome: Outcome) {
        assert!(std::mem::take(&mut self.root.is_opening), "it was asked for");
        let (directory, number) = match outcome {
            Outcome::File(FileOutcome::Opened { file, facts }) => (Some(file), facts.number),
            _ => (None, 0),
        };
        if number != self.root.number {
            self.cache.clear();
            self.root.generation += 1;
        }
        (self.root.directory, self.root.number) = (directory, number);
        self.root_is_known(cx);
    }
}
