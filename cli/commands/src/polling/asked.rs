//! The process whose lanes poll.

use crate::exit::Late;
use crate::rss::page;
use anyhow::{Result, anyhow};
use corelane::admin::control::ControlError;
use corelane::admin::dispatch;
use corelane::admin::polling::Change;
use corelane::admin::watch::{Reader, Snapshot};
use std::path::PathBuf;

/// The process that is asked, and its counters.
pub struct Page {
    pub path: PathBuf,
    pub pid: u32,
    reader: Reader,
}

impl Page {
    /// That one, or the only one.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn of(pid: Option<u32>) -> Result<Self> {
        let page = page(pid)?;
        Ok(Self { reader: Reader::open(&page.path)?, pid: page.process.pid, path: page.path })
    }

    /// What it counts now.
    pub fn look(&self) -> Snapshot {
        self.reader.snapshot(corelane::now().nanoseconds())
    }

    /// That there is nothing to show or change.
    pub fn polls_nothing(&self) -> anyhow::Error {
        anyhow!("nothing polls in process {}: start it with `--packet INTERFACE,..,poll` or `--receive-threads`", self.pid)
    }

    /// What the process says, or that it says nothing.
    pub fn said(&self, error: ControlError) -> anyhow::Error {
        match error {
            ControlError::Refused { .. } | ControlError::Request { .. } => anyhow!(error),
            error => Late::of("asking process", format!("{}: {error}", self.pid)).into(),
        }
    }
}

/// Puts one thing in force.
///
/// # Errors
/// What is refused, and a process that does not answer.
pub fn change(page: &Page, wanted: Change) -> Result<()> {
    let done = dispatch::change(&page.path, dispatch::Change::Polling(wanted));
    done.map_err(|error| page.said(error).context(format!("--set {wanted}")))
}
