//! `cargo xtask test`: every check and test, in sections that share 25 minutes on two cores.
//!
//! The last line is `N passed, N failed, N skipped`, alone; the exit code is 1 if anything failed. A section without
//! tests of its own (formatting, lints, documents) counts as one. How a test skips itself stands in `skips`.

mod artifacts;
mod packages;
mod process;
mod python;
mod sections;
mod skips;
mod tally;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;

use crate::tidy;
use crate::workspace::{Workspace, cargo};
use artifacts::Artifacts;
use sections::{SECTIONS, Section, Work};
use tally::Tally;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Install the programs that tests need and that are missing (as root; done unasked where CI=true)
    #[arg(long)]
    install: bool,
    /// Run one section alone, and the build where it needs one
    #[arg(long, value_name = "SECTION", value_parser = PossibleValuesParser::new(sections::names()))]
    only: Option<String>,
}

/// What a section came to.
struct Verdict {
    tally: Tally,
    /// What to print in full: everything that failing programs said.
    output: String,
}

impl Verdict {
    fn failed(output: String) -> Self {
        Self { tally: Tally::failed(1), output }
    }

    /// One check, passed or not.
    fn one(passed: bool, output: String) -> Self {
        if passed { Self { tally: Tally::passed(1), output: String::new() } } else { Self::failed(output) }
    }
}

/// What is left of a section's share.
struct Share {
    until: Instant,
}

impl Share {
    fn new(seconds: u64) -> Self {
        Self { until: Instant::now() + Duration::from_secs(seconds) }
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Runs the sections and prints what came of them. Fails only where it cannot run them at all.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::load()?;
    let sections: Vec<_> = wanted(arguments.only.as_deref()).collect();
    if sections.iter().any(|section| matches!(section.work, Work::Programs(_))) {
        packages::prepare(arguments.install, &workspace.target)?;
    }
    let mut built = None;
    let mut sum = Tally::default();
    for section in sections {
        let start = Instant::now();
        let verdict = verdict(section, &workspace, &mut built).unwrap_or_else(|error| Verdict::failed(format!("{error:#}\n")));
        print(section, &verdict, start.elapsed());
        sum.add(verdict.tally);
    }
    println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped.len());
    Ok(ExitCode::from(u8::from(sum.failed > 0)))
}

/// The sections to run: all, or the one named `only` after the build if it needs that.
fn wanted(only: Option<&str>) -> impl Iterator<Item = &'static Section> {
    let named = move |section: &Section| only.is_none_or(|only| section.name == only);
    let needs_build = SECTIONS.iter().any(|s| named(s) && matches!(s.work, Work::Programs(_)));
    let is_wanted = move |s: &&Section| named(s) || needs_build && matches!(s.work, Work::Build);
    SECTIONS.iter().filter(is_wanted)
}

fn verdict(section: &Section, workspace: &Workspace, built: &mut Option<Artifacts>) -> anyhow::Result<Verdict> {
    let share = Share::new(section.seconds);
    match &section.work {
        Work::Tidy => check_rules(),
        Work::Check(arguments, variables) => {
            let outcome = run_cargo(workspace, arguments, variables, &share)?;
            Ok(Verdict::one(outcome.success, outcome.output))
        }
        Work::Counted(arguments, variables) => {
            let outcome = run_cargo(workspace, arguments, variables, &share)?;
            Ok(Verdict { tally: Tally::read(&outcome), output: outcome.shown_if_failed() })
        }
        Work::Build => build(workspace, &share, built),
        Work::Programs(folders) => {
            let Some(built) = built else {
                return Ok(Verdict::failed("not run, for the build failed\n".to_owned()));
            };
            built.run(folders, workspace, &share)
        }
    }
}

fn check_rules() -> anyhow::Result<Verdict> {
    let findings = tidy::check(Workspace::load()?)?;
    let output: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
    Ok(Verdict::one(findings.is_empty(), output))
}

fn run_cargo(
    workspace: &Workspace,
    arguments: &[&str],
    variables: &[(&str, &str)],
    share: &Share,
) -> anyhow::Result<process::Outcome> {
    let mut command = cargo();
    command.args(arguments).envs(variables.iter().copied()).current_dir(&workspace.root);
    process::run(command, share.left())
}

fn build(workspace: &Workspace, share: &Share, built: &mut Option<Artifacts>) -> anyhow::Result<Verdict> {
    let outcome = run_cargo(workspace, artifacts::BUILD, &[], share)?;
    if !outcome.success {
        return Ok(Verdict::failed(artifacts::without_messages(&outcome.output)));
    }
    let found = Artifacts::read(&outcome.output, &workspace.root)?;
    let homeless = found.homeless(SECTIONS);
    *built = Some(found);
    let remedy = |folder: String| format!("the tests of {folder} are in no section: add it in xtask/src/test/sections.rs\n");
    Ok(Verdict::one(homeless.is_empty(), homeless.into_iter().map(remedy).collect()))
}

fn print(section: &Section, verdict: &Verdict, took: Duration) {
    let Verdict { tally, output } = verdict;
    let share = 100.0 * took.as_secs_f64() / section.seconds as f64;
    println!(
        "{:<12} {:>5} passed, {} failed, {} skipped; {:.1} s of {} s ({share:.0} %)",
        section.name,
        tally.passed,
        tally.failed,
        tally.skipped.len(),
        took.as_secs_f64(),
        section.seconds,
    );
    for skip in &tally.skipped {
        println!("  skipped: {}: {}", skip.name, skip.reason);
    }
    if tally.failed > 0 {
        println!("---- {} failed:\n{}----", section.name, output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: Option<&str>) -> Vec<&'static str> {
        wanted(only).map(|section| section.name).collect()
    }

    #[test]
    fn one_section_brings_the_build_if_it_needs_it() {
        assert_eq!(names(None).len(), SECTIONS.len());
        assert_eq!(names(Some("tidy")), ["tidy"]);
        assert_eq!(names(Some("drivers")), ["build", "drivers"]);
    }

    #[test]
    fn programs_without_a_build_fail() {
        let section = SECTIONS.iter().find(|s| matches!(s.work, Work::Programs(_))).unwrap();
        let verdict = verdict(section, &Workspace::default(), &mut None).unwrap();
        assert_eq!(verdict.tally.failed, 1);
    }

    #[test]
    fn a_check_counts_once_and_speaks_only_when_it_fails() {
        let passed = Verdict::one(true, "noise".into());
        assert_eq!((passed.tally.passed, passed.output.as_str()), (1, ""));
        let failed = Verdict::one(false, "cause".into());
        assert_eq!((failed.tally.failed, failed.output.as_str()), (1, "cause"));
    }
}
