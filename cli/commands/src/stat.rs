//! `corelane stat`: what the lanes of running processes count, read from their pages.

pub mod behind;
mod datagrams;
pub mod figures;
mod flows;
pub mod glance;
pub mod json;
pub mod polled;
pub mod text;
mod workstreams;

pub use workstreams::workstreams;

use crate::exit::Exit;
use crate::print::{note, print_some};
use crate::upstreams::Beside;
use anyhow::{Result, bail};
use corelane::admin::watch::{Liveness, PageFile, Reader, RunDirectory, Snapshot, list};
use corelane_load::amounts;
use std::path::Path;
use std::time::Duration;

/// Shows running processes at a glance: services, lanes, and what is wrong
///
/// With --every the figures are for each second since the last look, else since the start of the process.
/// The counters are read from shared memory: this works while lanes hang, and after they died. Of upstreams alone lanes are asked, where a service has some, and waited for for 0.3 s at the most. Pages are looked
/// for in CORELANE_RUN_DIR, if that is set, else in every place where `serve` may put them (`serve --help`).
#[derive(clap::Args)]
pub struct Arguments {
    /// Only this process, running or not; by default all that run
    #[arg(long, value_parser = process_number)]
    pid: Option<u32>,
    /// As JSON, one object a line for each process
    #[arg(long)]
    json: bool,
    /// Every counter, of all lanes together and lane by lane
    #[arg(long)]
    all: bool,
    /// Queues and dispatch of packets (`serve --packet`) since the start: configuration, protocols, workstreams; then what services took
    #[arg(short = 'Q', long, conflicts_with_all = ["all", "datagrams", "flows"])]
    queues: bool,
    /// Datagrams since the start: what was received, and what became of each
    #[arg(short = 's', long, conflicts_with_all = ["all", "flows"])]
    datagrams: bool,
    /// Every TCP connection, with its flow, its bucket, its lanes, its age and its state, and how ended ones ended
    ///
    /// The columns are its queues, addresses, flow id (hexadecimal), hash type (decimal), bucket, the lane whose bucket it is, the lane that has it, its number there, its age, for how long nothing came or went, and its state, with how it ends. The process is not asked.
    #[arg(short = 'R', long, conflicts_with_all = ["all", "every"])]
    flows: bool,
    /// Print again after this time (1s, 500ms), with rates, until interrupted, or until no process runs any more
    #[arg(long, value_name = "TIME", value_parser = pause)]
    every: Option<Duration>,
}

/// Prints the pages that were asked for.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let readers = some(arguments.pid)?;
    if arguments.flows {
        return flows::run(&readers, arguments.json);
    }
    let mut earlier: Vec<Option<Snapshot>> = vec![None; readers.len()];
    let mut behind = vec![Beside::default(); readers.len()];
    loop {
        let mut lives = false;
        for ((reader, before), behind) in readers.iter().zip(&mut earlier).zip(&mut behind) {
            let now = reader.snapshot(corelane::now().nanoseconds());
            let shown = match before {
                Some(before) => now.since(before)?,
                None => now.clone(),
            };
            let view = match arguments {
                Arguments { queues: true, json, .. } => workstreams(&now, *json),
                Arguments { datagrams: true, json, .. } => datagrams::datagrams(&now, *json),
                _ => {
                    *behind = Beside::of(&now, behind);
                    view(arguments, &shown, behind)
                }
            };
            if print_some(view)?.is_break() {
                return Ok(Exit::Done);
            }
            // What was shown decides: a process that ends behind this look is shown once more, with what it left.
            lives |= now.liveness != Liveness::Dead;
            *before = Some(now);
        }
        match arguments.every.filter(|_| lives) {
            Some(pause) => std::thread::sleep(pause),
            None => return Ok(Exit::Done),
        }
    }
}

/// The time between two looks.
fn pause(text: &str) -> Result<Duration, String> {
    let fits = |time: &Duration| (Duration::from_millis(10)..=Duration::from_secs(86_400)).contains(time);
    amounts::time(text).and_then(|time| Some(time).filter(fits).ok_or_else(|| "write a time from 10ms to 24h".to_owned()))
}

fn view(arguments: &Arguments, shown: &Snapshot, behind: &Beside) -> String {
    match arguments {
        Arguments { json: true, .. } => json::json(shown, behind),
        Arguments { all: true, .. } => text::text(shown, behind),
        _ => glance::glance(shown, behind),
    }
}

/// Reads the number of a process.
///
/// # Errors
/// That it is none, and what to write.
pub fn process_number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "write a process number, such as 4711")
}

/// The pages, as [`readers`]; or what is said where there are none.
pub fn some(pid: Option<u32>) -> Result<Vec<Reader>> {
    let readers = readers(pid);
    match pid {
        _ if !readers.is_empty() => Ok(readers),
        Some(pid) => bail!("process {pid} has no counter page: is it a corelane process of this user, in this container?"),
        None => bail!("no corelane process of this user is running here: start one with `corelane serve`"),
    }
}

/// The pages of one process, running or not; or of all that run. What cannot be read is said on standard error.
pub fn readers(pid: Option<u32>) -> Vec<Reader> {
    let (readers, faults) = found(pid);
    faults.iter().for_each(|fault| note(format_args!("corelane: {fault}")));
    readers
}

/// The same, and what cannot be read.
pub fn found(pid: Option<u32>) -> (Vec<Reader>, Vec<String>) {
    let (mut readers, mut faults) = (Vec::new(), Vec::new());
    for directory in RunDirectory::existing() {
        let files = directory.map_err(|error| error.to_string()).and_then(|at| list(&at).map_err(|error| error.to_string()));
        let files = files.unwrap_or_else(|fault| {
            faults.push(fault);
            Vec::new()
        });
        for file in files.iter().filter(|file| is_wanted(file, pid)) {
            match Reader::open(&file.path) {
                Ok(reader) => readers.push(reader),
                Err(error) => faults.push(blamed(&file.path, &error.to_string())),
            }
        }
    }
    (readers, faults)
}

/// What is wrong with a page, which some faults name themselves.
fn blamed(page: &Path, why: &str) -> String {
    let page = page.display().to_string();
    if why.contains(&page) { why.to_owned() } else { format!("{page}: {why}") }
}

fn is_wanted(file: &PageFile, pid: Option<u32>) -> bool {
    match pid {
        Some(pid) => file.published && file.process.pid == pid,
        None => file.published && file.process.liveness() != Liveness::Dead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_process_is_told_with_what_to_write() {
        assert_eq!(process_number("17"), Ok(17));
        for text in ["", "x", "-1", "99999999999"] {
            assert_eq!(process_number(text), Err("write a process number, such as 4711"), "{text}");
        }
    }
}
