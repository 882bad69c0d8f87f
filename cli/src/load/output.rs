//! Where the results go: standard output, and the files that were asked for.

use super::options::Job;
use super::rounds::Results;
use crate::exit::Late;
use crate::print::print;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The files, made before the run: a path that cannot be written must not cost one.
pub struct Files {
    report: Option<File>,
    hdr: Option<BufWriter<File>>,
}

impl Files {
    /// Makes them.
    pub fn create(job: &Job) -> Result<Self> {
        Ok(Self { report: create(job.report.as_deref())?, hdr: create(job.hdr.as_deref())?.map(BufWriter::new) })
    }

    /// Where the histogram log goes.
    pub fn hdr(&mut self) -> Option<&mut dyn Write> {
        self.hdr.as_mut().map(|file| file as &mut dyn Write)
    }

    /// Writes the results: all that can be, whatever else cannot.
    pub fn write(&mut self, job: &Job, outcome: &Results) -> Result<()> {
        let printed = show(job, outcome);
        let written = self.write_report(outcome);
        let logged = self.hdr.as_mut().map_or(Ok(()), |file| file.flush());
        printed.and(written).and(logged.map_err(|error| Late::of("writing the histogram log", error).into()))
    }

    fn write_report(&mut self, outcome: &Results) -> Result<()> {
        if let Some(file) = &mut self.report {
            let page = match outcome {
                Results::One(report) => corelane_load::html::page(report),
                Results::Two(paired) => corelane_load::html::paired_page(paired),
            };
            file.write_all(page.as_bytes()).map_err(|error| Late::of("writing the HTML report", error))?;
        }
        Ok(())
    }
}

fn show(job: &Job, outcome: &Results) -> Result<()> {
    let text = match (job.json, outcome) {
        (true, Results::One(report)) => serde_json::to_string_pretty(report)?,
        (true, Results::Two(paired)) => serde_json::to_string_pretty(paired)?,
        (false, Results::One(report)) => corelane_load::text::summary(report),
        (false, Results::Two(paired)) => corelane_load::text::paired(paired),
    };
    print(text)
}

fn create(path: Option<&Path>) -> Result<Option<File>> {
    path.map(|path| File::create(path).with_context(|| format!("{} cannot be written", path.display()))).transpose()
}
