//! What `-d` writes of each run: the histogram as a table, and an HTML report with the plots.

use super::columns::Run;
use crate::exit::Late;
use anyhow::{Context, Result};
use corelane_load::html;
use corelane_load::report::Report;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes it, if it is not there: before the first run, because a path that cannot be written must not cost one.
    pub fn create(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("-d: {} cannot be made", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// Writes the files of run `number`: `run-001.txt` and `run-001.html`.
    pub fn write(&self, number: u64, run: &Run, report: &Report) -> Result<()> {
        for (ending, text) in [("txt", table(run)), ("html", html::page(report))] {
            let path = self.0.join(format!("run-{number:03}.{ending}"));
            fs::write(&path, text).map_err(|error| Late::of(&format!("writing {}", path.display()), error))?;
        }
        Ok(())
    }
}

/// The histogram, with what else the columns are computed from in lines that begin with `#`.
fn table(run: &Run) -> String {
    let Run { date, in_flight, calls, bytes, threads, buckets } = run;
    let mut text = format!("# date {date} in_flight {in_flight} calls {calls} bytes {bytes}\n");
    for (number, (seconds, longest_ns)) in threads.iter().enumerate() {
        // A string takes all that is written to it.
        let _ = writeln!(text, "# thread {number} seconds {seconds} longest_ns {longest_ns}");
    }
    text += "# from_ns to_ns calls\n";
    for bucket in buckets {
        let _ = writeln!(text, "{} {} {}", bucket.from_ns, bucket.to_ns, bucket.count);
    }
    text
}
