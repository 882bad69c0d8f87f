//! Where the results go: standard output, and the files that were asked for.

use super::file::Output;
use super::options::Job;
use super::rounds::Results;
use crate::exit::Late;
use crate::print::print;
use anyhow::{Context, Result};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The files, made before the run: a path that cannot be written must not cost one.
pub struct Files {
    report: Option<Output>,
    hdr: Option<BufWriter<Output>>,
}

impl Files {
    /// Makes them. What lies there before stays as it is until the run has results.
    pub fn create(job: &Job) -> Result<Self> {
        Ok(Self { report: create(job.report.as_deref())?, hdr: create(job.hdr.as_deref())?.map(BufWriter::new) })
    }

    /// Where the histogram log goes.
    pub fn hdr(&mut self) -> Option<&mut dyn Write> {
        self.hdr.as_mut().map(|file| file as &mut dyn Write)
    }

    /// Writes the results: all that can be, whatever else cannot.
    pub fn write(self, job: &Job, outcome: &Results) -> Result<()> {
        let printed = show(job, outcome);
        let written = self.report.map_or(Ok(()), |file| write_report(file, outcome));
        let logged = self.hdr.map_or(Ok(()), |file| file.into_inner().map_err(io::IntoInnerError::into_error)?.finish());
        printed.and(written).and(logged.map_err(|error| Late::of("writing the histogram log", error).into()))
    }
}

fn write_report(mut file: Output, outcome: &Results) -> Result<()> {
    let page = match outcome {
        Results::One(report) => corelane_load::html::page(report),
        Results::Two(paired) => corelane_load::html::paired_page(paired),
    };
    let written = file.write_all(page.as_bytes()).and_then(|()| file.finish());
    written.map_err(|error| Late::of("writing the HTML report", error).into())
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

fn create(path: Option<&Path>) -> Result<Option<Output>> {
    path.map(|path| Output::create(path).with_context(|| format!("{} cannot be written", path.display()))).transpose()
}
