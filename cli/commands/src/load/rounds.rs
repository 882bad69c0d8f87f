//! Carries out a job: one run, several, or paired rounds.

use super::options::Job;
use super::watch::Watcher;
use crate::exit::Late;
use anyhow::Result;
use corelane_load::plan::Plan;
use corelane_load::report::{Paired, Progress, Report};
use corelane_load::{Beside, Error, Verdict, Watched, find_server, repeated, run};
use std::io::Write;

/// Rounds of a comparison: at least so many, and at most while its answer is open.
const ROUNDS: (u32, u32) = (15, 40);

/// What came of a job.
pub enum Results {
    /// One run, or several as one report.
    One(Box<Report>),
    /// Two targets.
    Two(Box<Paired>),
}

impl Results {
    /// What the program ends with.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::One(report) => report.verdict(),
            Self::Two(paired) => paired.verdict(),
        }
    }
}

/// A run that could not be made: for what was asked, or for what came later.
pub fn failed(error: Error) -> anyhow::Error {
    match error {
        Error::Setting { .. } | Error::Server { .. } | Error::NoPage { .. } | Error::Lanes(_) => anyhow::anyhow!("{error}"),
        late => Late::of("load", late).into(),
    }
}

/// Does what was asked for.
pub fn carry_out(job: &Job, hdr: Option<&mut dyn Write>) -> Result<Results> {
    let mut watcher = Watcher::open(job.quiet)?;
    match &job.against {
        Some((other, watched)) => pairs(job, other, *watched, &mut watcher),
        None => runs(job, hdr, &mut watcher),
    }
}

fn runs(job: &Job, mut hdr: Option<&mut dyn Write>, watcher: &mut Watcher) -> Result<Results> {
    let count = job.runs.unwrap_or(1);
    let mut reports = Vec::new();
    for number in 1..=count {
        let hdr = hdr.as_mut().map(|out| out as &mut dyn Write);
        reports.push(one(job, &job.plan, job.watched, hdr, watcher, (number, count))?);
        if watcher.wants_end() {
            break;
        }
    }
    Ok(Results::One(Box::new(match reports.len() {
        1 => reports.remove(0),
        _ => repeated::repeated(reports),
    })))
}

fn pairs(job: &Job, other: &Plan, watched: Watched, watcher: &mut Watcher) -> Result<Results> {
    find_server(watched, other)?;
    let (least, most) = job.runs.map_or(ROUNDS, |runs| (runs, runs));
    let mut rounds: Vec<(Report, Report)> = Vec::new();
    let mut number = 0;
    while number < least || (number < most && repeated::is_open(&rounds)) {
        number += 1;
        let first = |watcher: &mut Watcher| one(job, &job.plan, job.watched, None, watcher, (number, least));
        let second = |watcher: &mut Watcher| one(job, other, watched, None, watcher, (number, least));
        // The order alternates, so that what drifts does not favour one side.
        rounds.push(match number % 2 {
            1 => {
                let a = first(watcher)?;
                (a, second(watcher)?)
            }
            _ => {
                let b = second(watcher)?;
                (first(watcher)?, b)
            }
        });
        if watcher.wants_end() {
            break;
        }
    }
    Ok(Results::Two(Box::new(repeated::paired(rounds))))
}

fn one(
    job: &Job,
    plan: &Plan,
    watched: Watched,
    hdr: Option<&mut dyn Write>,
    watcher: &mut Watcher,
    (number, of): (u32, u32),
) -> Result<Report> {
    let mut show = |progress: &Progress| {
        watcher.show(&Progress { run: (u64::from(number), u64::from(of)), ..progress.clone() });
        !watcher.wants_end()
    };
    let hdr = hdr.map(|out| out as &mut dyn Write);
    let beside = Beside { watched, hdr, show: &mut show };
    run(job.entry, plan.clone(), beside).map_err(failed)
}
