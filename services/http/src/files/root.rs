//! The directory beneath which everything lies, which may be replaced by another of its name.

use super::directories::TRUE_FOR;
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

    /// Opens it.
    pub fn open(&mut self, cx: &mut Cx<'_>, token: u64) {
        assert!(!self.is_opening, "it is opened once at a time");
        (self.is_opening, self.looked_at) = (true, cx.now().nanoseconds());
        cx.open_file(self.path.clone(), OpenOptions::new().read(true).directory(true), token);
    }

    /// Opens it again, if that is long ago; meanwhile what was opened then is good.
    pub fn look_after(&mut self, cx: &mut Cx<'_>, token: u64) {
        if !self.is_opening && cx.now().nanoseconds() - self.looked_at > TRUE_FOR {
            self.open(cx, token);
        }
    }

    /// Takes what came of that; returns whether it is another one now.
    pub fn opened(&mut self, outcome: Outcome) -> bool {
        assert!(std::mem::take(&mut self.is_opening), "it was asked for");
        let (directory, facts) = match outcome {
            Outcome::File(FileOutcome::Opened { file, facts }) => (Some(file), Some(facts)),
            _ => (None, None),
        };
        let is_same = match (&facts, &self.facts) {
            (Some(facts), Some(before)) => facts.are_of(before),
            (None, None) => true,
            _ => false,
        };
        (self.directory, self.facts) = (directory, facts);
        self.generation += u64::from(!is_same);
        !is_same
    }
}
