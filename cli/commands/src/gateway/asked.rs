//! The process whose gateway is asked, and how its answers are printed.

use crate::exit::Late;
use crate::print::{note, print};
use crate::rss::page;
use anyhow::{Result, anyhow};
use corelane::admin::control::ControlError;
use corelane::admin::gateway::Listed;
use corelane::admin::watch::Reader;
use corelane::lanes::Aside;
use serde::Serialize;
use std::path::PathBuf;

/// Which process a command asks, and how it shows the answer.
#[derive(clap::Args)]
pub struct Whom {
    /// The process; need not be named where only one serves
    #[arg(long, global = true, value_parser = crate::stat::process_number)]
    pid: Option<u32>,
    /// As JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// The process that is asked.
pub struct Asked {
    pub page: PathBuf,
    pid: u32,
    json: bool,
}

impl Asked {
    /// That one, or the only one.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn of(&Whom { pid, json }: &Whom) -> Result<Self> {
        let page = page(pid)?;
        // Reading scripts and writing lists take milliseconds, which are not to be a lane's.
        if let Ok(reader) = Reader::open(&page.path) {
            let lanes = reader.snapshot(corelane::now().nanoseconds()).lanes;
            Aside::of(lanes.iter().filter_map(|lane| lane.name.cpu).map(|cpu| cpu as usize)).take();
        }
        Ok(Self { pid: page.process.pid, page: page.path, json })
    }

    /// What it has answered, or what it says against that, or that it says nothing.
    pub fn said<T>(&self, answer: Result<T, ControlError>) -> Result<T> {
        answer.map_err(|error| match error {
            ControlError::Refused { .. } | ControlError::Request { .. } => anyhow!(error),
            error => Late::of("asking process", format!("{}: {error}", self.pid)).into(),
        })
    }

    /// The rows of a list; where it was changed while it came, that is said.
    pub fn rows<T>(&self, answer: Result<Listed<T>, ControlError>) -> Result<Vec<T>> {
        let listed = self.said(answer)?;
        if listed.has_changed {
            note("it was changed while it was shown: some may be missing, or there twice");
        }
        Ok(listed.rows)
    }

    /// Prints the text, or the value as JSON where that is wanted.
    pub fn print(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        let text = if self.json { serde_json::to_string_pretty(value)? } else { text() };
        if text.is_empty() { Ok(()) } else { print(text) }
    }

    /// Says where a change is not in force on all lanes yet.
    pub fn note_late(&self, is_in_force: bool) {
        if !is_in_force {
            note(format_args!(
                "a lane of process {} has not taken the change yet, and will when its turn ends: `corelane stat` shows which",
                self.pid
            ));
        }
    }
}
