//! `corelane profile`: what the lanes of a running process do, as a flame graph.

mod flames;

use crate::exit::{Exit, Late};
use crate::print::{note, print};
use crate::stat;
use anyhow::{Result, bail};
use corelane::admin::profile::{Profile, lanes, profile};
use corelane::admin::watch::Liveness;
use corelane_load::amounts;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Shows in which functions the lanes of a running process spend their time, as a flame graph
///
/// The system looks 99 times for each second that a lane runs; a lane that sleeps costs nothing and shows nothing. The process is not asked and does nothing for it. Nobody but its
/// own user, or root, may look (kernel.perf_event_paranoid at most 2, else CAP_PERFMON); what lanes do in the kernel shows as `[kernel]`, where that is allowed.
#[derive(clap::Args)]
pub struct Arguments {
    /// The process; may be left out where one runs
    #[arg(long, value_parser = crate::stat::process_number)]
    pid: Option<u32>,
    /// Only this lane; by default all
    #[arg(long, value_name = "N")]
    lane: Option<usize>,
    /// For how long, such as 30s or 5m, 1s to 1h
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = extent)]
    duration: Duration,
    /// A picture to open in a browser, or one line a stack with its count, as tools for flame graphs read it
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Form::Svg)]
    format: Form,
    /// Where it is written; by default on standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// For how long a profile is made.
fn extent(text: &str) -> Result<Duration, String> {
    let fits = |time: &Duration| (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(time);
    amounts::time(text).and_then(|time| Some(time).filter(fits).ok_or_else(|| "write a time from 1s to 1h".to_owned()))
}

/// How a profile is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    Svg,
    Collapsed,
}

/// Looks, and writes what it saw.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let process = process(arguments.pid)?;
    let threads = chosen(process, arguments.lane)?;
    let failed = |error| Late::of(&format!("profiling process {process}"), error);
    let found = profile(process, &threads, arguments.duration).map_err(failed)?;
    say(&found);
    let words = match arguments.format {
        Form::Svg => flames::svg(&found, &format!("process {process}, {}", humantime::format_duration(arguments.duration))),
        Form::Collapsed => found.collapsed(),
    };
    match &arguments.out {
        Some(path) => std::fs::write(path, words).map_err(|error| Late::of(&format!("writing {}", path.display()), error))?,
        None if words.is_empty() => {}
        None => print(words)?,
    }
    Ok(Exit::Done)
}

/// The one process that is meant.
fn process(pid: Option<u32>) -> Result<u32> {
    let readers = stat::some(pid)?;
    let [reader] = &readers[..] else { bail!("several processes run: name one with --pid") };
    let process = reader.description().process.pid;
    if reader.liveness() == Liveness::Dead {
        bail!("process {process} has ended: only one that runs can be profiled");
    }
    Ok(process)
}

/// The threads of the lanes that are meant.
fn chosen(process: u32, lane: Option<usize>) -> Result<BTreeMap<usize, u32>> {
    let mut all = lanes(process).map_err(|error| Late::of(&format!("looking for the lanes of process {process}"), error))?;
    let Some(last) = all.last_key_value().map(|(lane, _)| *lane) else {
        bail!("process {process} has no lanes any more, for it is ending: profile one that serves")
    };
    if let Some(lane) = lane {
        all.retain(|number, _| *number == lane);
        if all.is_empty() {
            bail!("--lane: process {process} has no lane {lane}, but lanes 0 to {last}");
        }
    }
    Ok(all)
}

/// What has to be known of a profile, on standard error.
fn say(found: &Profile) {
    if found.samples() == 0 {
        note("corelane: nothing was seen: the lanes slept all the time; profile them while they have work");
    }
    if !found.sees_kernel {
        note(
            "corelane: what lanes do in the kernel may not be seen: for that have CAP_PERFMON, or set kernel.perf_event_paranoid to 1",
        );
    }
    if found.others > 0 {
        note(format_args!(
            "corelane: {} samples were left out, because they were not read in time: profile one lane, or while the machine is less busy",
            found.others
        ));
    }
}
