//! The directory beneath which everything lies, which may be replaced by another of its name.

use super::directories::TRUE_FOR;
use corelane::Cx;
use corelane::service::{Fault, File, FileFacts, FileOutcome, Level, OpenOptions, Outcome, Reason};
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
    /// Why it could not be opened when that was tried last, which the operator has been told.
    fault: Option<Fault>,
    /// When it was last opened, or was tried to be.
    looked_at: u64,
}

impl Root {
    pub fn new(path: PathBuf) -> Self {
        Self { path, directory: None, facts: None, generation: 0, is_opening: false, fault: None, looked_at: 0 }
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
    pub fn opened(&mut self, cx: &mut Cx<'_>, outcome: Outcome) -> bool {
        assert!(std::mem::take(&mut self.is_opening), "it was asked for");
        let (directory, facts, fault) = match outcome {
            Outcome::File(FileOutcome::Opened { file, facts }) => (Some(file), Some(facts), None),
            Outcome::Failed(fault) => (None, None, Some(fault)),
            _ => unreachable!("an operation ends as one of its kind"),
        };
        self.tell(cx, fault);
        let is_same = match (&facts, &self.facts) {
            (Some(facts), Some(before)) => facts.are_of(before),
            (None, None) => true,
            _ => false,
        };
        (self.directory, self.facts) = (directory, facts);
        self.generation += u64::from(!is_same);
        !is_same
    }

    /// Tells the operator that it cannot be opened, once for each reason, and that it can be again.
    fn tell(&mut self, cx: &mut Cx<'_>, fault: Option<Fault>) {
        let before = std::mem::replace(&mut self.fault, fault);
        let path = self.path.display();
        match fault {
            _ if fault == before => {}
            // The lane ends.
            Some(Fault { reason: Reason::Cancelled, .. }) => {}
            None => cx.report(Level::Info, format_args!("the directory {path} can be opened again")),
            Some(fault) => cx.report(
                Level::Warn,
                format_args!(
                    "the directory {path} cannot be opened: {fault}: what lies there is answered with 503; remedy: put it back, and let this user read it; \
                     under --sandbox a link in its place must lead to where one led at the start, or start anew"
                ),
            ),
        }
    }
}
