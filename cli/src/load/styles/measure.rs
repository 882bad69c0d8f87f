//! A run of a style: a plan that can be met, the run itself, and what failed in it.

use crate::load::rounds::failed;
use crate::load::watch::Watcher;
use anyhow::{Result, anyhow};
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
