//! `corelane rss table`: shows and rewrites the table of a running process.

use crate::exit::Late;
use crate::print::{note, print};
use anyhow::{Result, anyhow, bail};
use corelane::admin::control::{Command, ControlError, ask};
use corelane::admin::rss::Table;
use corelane::admin::watch::{Liveness, PageFile, RunDirectory, list};
use serde_json::json;
use std::os::unix::fs::MetadataExt;

/// Shows which lane serves each bucket in a running process, or changes it
///
/// Prints the table as it is then: each bucket, a colon, its lane. New connections and datagrams follow it at once, and so do idle connections. Busy connections stay, and so do those whose
/// service packs no session.
#[derive(clap::Args)]
pub struct Arguments {
    /// The process; need not be named where only one serves
    #[arg(long, value_parser = crate::stat::process_number)]
    pid: Option<u32>,
    #[command(flatten)]
    change: Change,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(multiple = false)]
struct Change {
    /// Give every bucket its lane: "0-63:0 64-127:1"
    #[arg(long, value_name = "ENTRIES")]
    set: Option<String>,
    /// Give these buckets another lane: 0-3,7:1
    #[arg(long = "move", value_name = "BUCKETS:LANE")]
    moved: Option<String>,
    /// Share the buckets by weights, one a lane, moving as few as possible: 3,1
    #[arg(long, value_name = "LIST")]
    weights: Option<String>,
    /// Share the buckets evenly, moving as few as possible
    #[arg(long)]
    even: bool,
    /// Have a lane leave: its buckets and its idle connections go to the others; it listens no more
    ///
    /// It accepts the connections that wait already. Connections that are not idle stay until they end.
    #[arg(long, value_name = "LANE")]
    leave: Option<usize>,
    /// Have a lane that left come back and take its part of the buckets
    #[arg(long, value_name = "LANE")]
    enter: Option<usize>,
}

impl Change {
    fn command(&self) -> Command<'_> {
        match self {
            Self { set: Some(entries), .. } => Command::Set(entries),
            Self { moved: Some(entries), .. } => Command::Move(entries),
            Self { weights: Some(weights), .. } => Command::Weights(weights),
            Self { even: true, .. } => Command::Even,
            &Self { leave: Some(lane), .. } => Command::Leave(lane),
            &Self { enter: Some(lane), .. } => Command::Enter(lane),
            _ => Command::Table,
        }
    }
}

/// Has the process carry it out, and prints the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    let page = page(arguments.pid)?;
    let table = ask(&page.path, arguments.change.command()).map_err(|error| match error {
        ControlError::Refused { .. } | ControlError::Request { .. } => anyhow!(error),
        error => Late::of("asking process", format!("{}: {error}", page.process.pid)).into(),
    })?;
    if !arguments.json {
        return print(table);
    }
    print(json!({ "pid": page.process.pid, "buckets": table.buckets().count(), "table": lanes(&table) }))
}

fn lanes(table: &Table) -> Vec<usize> {
    table.buckets().all().map(|bucket| table.lane(bucket)).collect()
}

/// The page of the process that is meant.
pub fn page(pid: Option<u32>) -> Result<PageFile> {
    let mut pages = pages()?;
    if let Some(pid) = pid {
        pages.retain(|page| page.process.pid == pid);
        if pages.is_empty() {
            bail!("{}", why_none(pid));
        }
    }
    the_one(pages, pid)
}

fn pages() -> Result<Vec<PageFile>> {
    let mut pages = Vec::new();
    for directory in RunDirectory::existing() {
        match directory {
            Ok(directory) => pages.extend(list(&directory)?.into_iter().filter(|page| page.published)),
            Err(error) => note(format_args!("corelane: {error}")),
        }
    }
    Ok(pages)
}

/// The only page of a process that runs and can be asked; those of one process, if it was named.
fn the_one(mut pages: Vec<PageFile>, pid: Option<u32>) -> Result<PageFile> {
    pages.retain(|page| page.process.liveness() != Liveness::Dead);
    let is_any = !pages.is_empty();
    pages.retain(|page| corelane::admin::control::is_open(&page.path));
    let pids: Vec<String> = pages.iter().map(|page| page.process.pid.to_string()).collect();
    match (pages.pop(), pages.is_empty(), pid) {
        (Some(page), true, _) => Ok(page),
        (Some(_), false, _) => bail!("several can be asked, in the processes {}: name one with --pid", pids.join(", ")),
        (None, _, Some(pid)) if is_any => bail!(
            "process {pid} cannot be asked: it serves nothing, is ending, or has handed over. `corelane stat` shows those that run"
        ),
        (None, _, Some(pid)) => bail!("process {pid} has ended: only running processes have a table"),
        (None, _, None) if is_any => {
            bail!("no process that runs here serves anything, so there is no table: start one with `corelane serve`")
        }
        (None, _, None) => bail!("no corelane process of this user is running here: start one with `corelane serve`"),
    }
}

fn why_none(pid: u32) -> String {
    let owner = std::fs::metadata(format!("/proc/{pid}")).map(|found| found.uid());
    let this = std::fs::metadata("/proc/self").map(|found| found.uid());
    match (owner, this) {
        (Ok(owner), Ok(this)) if owner != this => {
            format!("process {pid} belongs to user {owner} and this is user {this}: ask as that user")
        }
        (Err(_), _) => format!("there is no process {pid}: `corelane stat` shows those that run"),
        _ => format!("process {pid} has no counter page: is it a corelane process of this user, in this container?"),
    }
}
