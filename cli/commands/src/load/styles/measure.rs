//! A run of a style: a plan that can be met, the run itself, and what failed in it.

use crate::load::rounds::failed;
use crate::load::watch::Watcher;
use crate::print::note;
use anyhow::{Context, Result, anyhow, bail};
use corelane::admin::watch::LANES_MAX;
use corelane_load::kinds::is_failure;
use corelane_load::plan::Plan;
use corelane_load::report::Report;
use corelane_load::text::figures;
use corelane_load::workloads::WorkloadEntry;
use corelane_load::{Beside, Watched};

/// The plan, if it can be met.
pub fn checked(entry: &WorkloadEntry, plan: Plan) -> Result<Plan> {
    let settled = plan.settled();
    settled.and_then(|plan| (entry.check)(&plan).map(|()| plan)).map_err(|error| anyhow!("{error}"))
}

/// The plan of all threads (`-j`) together, each of which asks for so many connections (`-c`).
pub fn of_threads(each: u64, threads: u64) -> Result<u64> {
    if threads > LANES_MAX as u64 {
        bail!("-j: {threads} threads are too many: take at most {LANES_MAX}");
    }
    each.checked_mul(threads).with_context(|| format!("-c {each} of -j {threads} is too many: take fewer"))
}

/// Makes one run of a checked plan, which the watcher can end early.
pub fn measure(entry: &WorkloadEntry, plan: Plan, watcher: &Watcher) -> Result<Report> {
    let beside = Beside { watched: Watched::Nobody, hdr: None, show: &mut |_| !watcher.wants_end() };
    corelane_load::run(entry, plan, beside).map_err(failed)
}

/// What failed, by kind: `lost 3, reset 1`. None if nothing did.
pub fn failures(report: &Report) -> Option<String> {
    let met = figures::errors(&report.errors).into_iter().filter(|&(kind, _)| is_failure(kind));
    let parts: Vec<String> = met.map(|(kind, count)| format!("{kind} {}", figures::count(count))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Says what failed in a run of these, and what casts doubt on it if that is wanted. True if something failed.
pub fn comment(what: &str, number: u64, report: &Report, is_verbose: bool) -> bool {
    let failed = failures(report);
    if let Some(failed) = &failed {
        note(format_args!("run {number}: {what} failed: {failed}"));
    }
    let doubts = report.doubts.iter().chain(&report.notes).filter(|_| is_verbose);
    doubts.for_each(|doubt| note(format_args!("run {number}: {doubt}")));
    failed.is_some()
}
