//! `cargo xtask test`: every check and test, in sections whose shares are 33 minutes, and which end after 36 ([`sections::ends`]). Two cores take 14 to 24.
//! What tests need is installed beside the build.
//! Test programs that only compute run beside those that mostly wait, and beside both what compiles and checks.
//!
//! The last line is `N passed, N failed, N skipped`, alone; the exit code is 1 if anything failed. A section without
//! tests of its own (formatting, lints, documents) counts as one. How a test skips itself stands in `skips`.

mod artifacts;
mod facade;
mod fast;
mod features;
mod lacking;
mod packages;
mod process;
mod python;
mod scratch;
mod sections;
mod seeds;
mod share;
mod skips;
mod tally;
mod times;
mod verdict;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::builder::PossibleValuesParser;

use crate::tidy;
use crate::workspace::{Workspace, cargo};
use artifacts::Artifacts;
use process::Finished;
use sections::{APART, BESIDE, COMPUTING, READING, SECTIONS, Section, Work};
use share::Share;
use tally::Tally;
use verdict::Verdict;

/// The niceness of test programs that only compute: those that wait for each other's answers come before.
const LESS_URGENT: i32 = 5;

/// The niceness of what compiles and checks. It has half of the CPU time of what computes, as it takes about half of it: with next to nothing it would be left when all
/// else has ended, and one crate after the other leaves a CPU idle.
const LEAST_URGENT: i32 = 8;

/// From which size on malloc asks the system for memory (mallopt(3), M_MMAP_THRESHOLD), which hands out zeroes as they are touched. Left to itself malloc reuses what was
/// freed once, and writes zeroes over megabytes in thousands of simulated runs that touch little of them. Lanes' memory is so long that it is asked for in any case.
/// Smaller pieces come and go too often to be asked for each time.
const MAPPED_FROM: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "4194304");

/// How many tests of a program run at a time (the test harness's own variable), for those that mostly wait.
const AT_A_TIME: &str = "RUST_TEST_THREADS";

/// What stands before rustc where all is built once and run once: it says what it does. Elsewhere what one build left is of use to the next only if both are alike.
const ONCE: &str = "xtask/rustc";

/// Cargo leaves out the lines of functions, which take an eighth of the time of a build; [`ONCE`] has them written where tests look for them.
const UNLINED: (&str, &str) = ("CARGO_PROFILE_DEV_DEBUG", "0");

/// Nothing is kept for a second build where there is none.
const UNTRACED: (&str, &str) = ("CARGO_INCREMENTAL", "0");

/// Arguments of cargo that lint everything.
const LINT: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];

/// Arguments of cargo that build what [`artifacts::BUILD`] leaves: examples, benchmarks, and programs that no test runs.
const REST: &[&str] = &["build", "--workspace", "--examples", "--bench", "*", "--bins"];

/// Arguments of cargo that run the examples in documents, with the libraries that the build has left.
const EXAMPLES: &[&str] = &["test", "--workspace", "--doc"];

/// No environment variables.
const UNTOLD: &[(&str, &str)] = &[];

/// Most programs of a section of which is said how long they took.
const SLOWEST_MAX: usize = 5;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Install the programs that tests need and that are missing (as root; done unasked where CI=true)
    #[arg(long)]
    install: bool,
    /// Run one section alone, and the build where it needs one
    #[arg(long, value_name = "SECTION", value_parser = PossibleValuesParser::new(sections::names()))]
    only: Option<String>,
    /// Check layout and house rules, and run the unit and simulated tests of changed crates, in 15 minutes at the most
    ///
    /// Changed crates are those that differ from main, and those that directly depend on them. Most of the time is for building them.
    #[arg(long, conflicts_with_all = ["only", "install"])]
    fast: bool,
}

/// Runs the sections and prints what came of them. Fails only where it cannot run them at all.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::load()?;
    if arguments.fast {
        return Ok(run_fast(&workspace));
    }
    let only = arguments.only.as_deref();
    let (before, programs): (Vec<_>, Vec<_>) = wanted(only).partition(|section| !matches!(section.work, Work::Programs(_)));
    let (mut sum, mut built) = (Tally::default(), None);
    let end = Instant::now() + sections::WHOLE;
    // Only the test programs need what is installed, and mostly a network is waited for: so it comes beside the build.
    let lacking = std::thread::scope(|scope| {
        let install = || packages::prepare(arguments.install, &workspace.target);
        let installing = runs_programs(only).then(|| scope.spawn(install));
        let reading = scope.spawn(|| run_beside(READING, LESS_URGENT, only, &workspace, end, &mut None));
        row(&before, &workspace, end - sections::kept(programs.iter().copied()), &mut built, &mut sum);
        sum.add(joined(reading));
        let lacking = installing.map(|thread| thread.join().map_err(|_| anyhow!("installing has panicked"))?);
        lacking.unwrap_or_else(|| Ok(Vec::new()))
    });
    sum.add(uninstalled(&lacking?));
    let mut computed = built.as_deref().map(|built| Arc::new(built.clone().told(MAPPED_FROM.0, MAPPED_FROM.1.to_owned())));
    let mut waiting = built.map(|built| Arc::new(Artifacts::clone(&built).told(AT_A_TIME, at_a_time())));
    std::thread::scope(|scope| {
        let (workspace, computed) = (&workspace, &mut computed);
        let computing = scope.spawn(move || run_beside(COMPUTING, LESS_URGENT, only, workspace, end, computed));
        let [beside, apart] =
            [BESIDE, APART].map(|of| scope.spawn(move || run_beside(of, LEAST_URGENT, only, workspace, end, &mut None)));
        row(&programs, workspace, end, &mut waiting, &mut sum);
        [computing, beside, apart].into_iter().for_each(|row| sum.add(joined(row)));
    });
    Ok(finish(&sum))
}

/// What a row came to; one that has panicked has failed.
fn joined(row: ScopedJoinHandle<'_, Tally>) -> Tally {
    row.join().unwrap_or_else(|_| Tally::failed(1))
}

/// Two tests for each CPU, unless it is said otherwise.
fn at_a_time() -> String {
    let each_cpu = || (2 * std::thread::available_parallelism().map_or(1, usize::from)).to_string();
    std::env::var(AT_A_TIME).unwrap_or_else(|_| each_cpu())
}

/// Runs what needs no build, and what the change touches.
fn run_fast(workspace: &Workspace) -> ExitCode {
    let (start, mut sum) = (Instant::now(), Tally::default());
    row(&READING.iter().collect::<Vec<_>>(), workspace, start + sections::WHOLE, &mut None, &mut sum);
    let share = Share::new(fast::SECONDS);
    let cargo = |arguments: &[&str]| run_cargo(workspace, arguments, UNTOLD, &share);
    let verdict = fast::check(workspace, cargo, &share).unwrap_or_else(|error| Verdict::failed(format!("{error:#}\n")));
    print(&Section { name: "touched", seconds: 60, work: Work::Build }, &verdict, start.elapsed(), &share);
    sum.add(verdict.tally);
    finish(&sum)
}

/// Says what came of all sections, and again why tests failed: of a long report perhaps the end alone is kept.
fn finish(sum: &Tally) -> ExitCode {
    for reason in &sum.reasons {
        println!("because: {reason}");
    }
    println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped.len());
    ExitCode::from(u8::from(sum.failed > 0))
}

/// Runs these sections one after the other until `end`, and adds what came of them to `sum`.
fn row(sections: &[&Section], workspace: &Workspace, end: Instant, built: &mut Option<Arc<Artifacts>>, sum: &mut Tally) {
    for (section, end) in sections.iter().zip(sections::ends(sections, end)) {
        let (start, share) = (Instant::now(), Share::until(end));
        let verdict = verdict(section, workspace, &share, built).unwrap_or_else(|error| Verdict::failed(format!("{error:#}\n")));
        print(section, &verdict, start.elapsed(), &share);
        sum.add(verdict.tally.explained(&verdict.output));
    }
}

/// Runs a row of sections, or the one of them named `only`, until `end`, on what CPU time more urgent ones leave.
fn run_beside(
    row_of: &'static [Section],
    niceness: i32,
    only: Option<&str>,
    workspace: &Workspace,
    end: Instant,
    built: &mut Option<Arc<Artifacts>>,
) -> Tally {
    // Of this thread alone, and of what it starts (nice(2), "C library/kernel differences"). A refusal costs only time.
    let _ = rustix::process::nice(niceness);
    let sections: Vec<_> = row_of.iter().filter(|section| is_named(section, only)).collect();
    let mut sum = Tally::default();
    row(&sections, workspace, end, built, &mut sum);
    sum
}

/// What was to be installed and is not there is a failure each: the tests that need it would only be skipped.
fn uninstalled(packages: &[&str]) -> Tally {
    for package in packages {
        println!("failed: {package} was to be installed, and is not there; what was said is above");
    }
    Tally::failed(packages.len() as u64)
}

/// The sections of [`SECTIONS`] to run: all, or the one named `only` after the build if it needs that.
fn wanted(only: Option<&str>) -> impl Iterator<Item = &'static Section> {
    let is_wanted = move |s: &&Section| is_named(s, only) || runs_programs(only) && matches!(s.work, Work::Build);
    SECTIONS.iter().filter(is_wanted)
}

/// Whether test programs are to run.
fn runs_programs(only: Option<&str>) -> bool {
    sections::all().any(|section| is_named(section, only) && matches!(section.work, Work::Programs(_)))
}

fn is_named(section: &Section, only: Option<&str>) -> bool {
    only.is_none_or(|only| section.name == only)
}

fn verdict(
    section: &Section,
    workspace: &Workspace,
    share: &Share,
    built: &mut Option<Arc<Artifacts>>,
) -> anyhow::Result<Verdict> {
    let verdict = match &section.work {
        Work::Tidy => check_rules()?,
        Work::Documents => facade::check(workspace, &once(workspace)?, share)?,
        Work::Features => features::check(workspace, |arguments| run_cargo(workspace, arguments, UNTOLD, share), share)?,
        Work::Check(arguments, variables) => {
            let outcome = run_cargo(workspace, arguments, variables, share)?;
            Verdict::one(outcome.success, outcome.output)
        }
        Work::Counted(arguments, variables) => Verdict::counted(run_cargo(workspace, arguments, variables, share)?),
        Work::Build => build(workspace, share, built)?,
        Work::Examples => Verdict::counted(run_cargo(workspace, EXAMPLES, &once(workspace)?, share)?),
        Work::Lint => {
            // What builds a crate has linted it, where all is built once.
            let rest = if packages::in_ci() { REST } else { LINT };
            let outcome = run_cargo(workspace, rest, &once(workspace)?, share)?;
            Verdict::one(outcome.success, outcome.output)
        }
        Work::Programs(folders) => match built {
            Some(built) => built.run(folders, workspace, share)?,
            None => Verdict::failed("not run, for the build failed\n".to_owned()),
        },
    };
    Ok(verdict.unless_idle())
}

fn check_rules() -> anyhow::Result<Verdict> {
    let findings = tidy::check(Workspace::load()?)?;
    let output: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
    Ok(Verdict::one(findings.is_empty(), output))
}

fn run_cargo(
    workspace: &Workspace,
    arguments: &[&str],
    variables: &[(&str, impl AsRef<str>)],
    share: &Share,
) -> anyhow::Result<Finished> {
    let mut command = cargo();
    let variables = variables.iter().map(|(name, value)| (name, value.as_ref()));
    command.args(arguments).envs(variables).current_dir(&workspace.root);
    if packages::in_ci() {
        command.env(UNTRACED.0, UNTRACED.1);
    }
    process::run(command, share)
}

/// The variables of a build that is the only one. Cargo keeps what it leaves apart from what others leave: so nothing stays unlinted for having been built before.
fn once(workspace: &Workspace) -> anyhow::Result<Vec<(&'static str, String)>> {
    if !packages::in_ci() {
        return Ok(Vec::new());
    }
    let wrapper = workspace.root.join(ONCE).into_os_string().into_string();
    let wrapper = wrapper.map_err(|path| anyhow!("{}: the path of the workspace is not UTF-8", path.display()))?;
    Ok(vec![("RUSTC_WORKSPACE_WRAPPER", wrapper), (UNLINED.0, UNLINED.1.to_owned()), (UNTRACED.0, UNTRACED.1.to_owned())])
}

fn build(workspace: &Workspace, share: &Share, built: &mut Option<Arc<Artifacts>>) -> anyhow::Result<Verdict> {
    let outcome = run_cargo(workspace, artifacts::BUILD, &once(workspace)?, share)?;
    if !outcome.success {
        return Ok(Verdict::failed(artifacts::without_messages(&outcome.output)));
    }
    let found = Artifacts::read(&outcome.output, &workspace.root)?;
    let homeless = found.homeless(sections::all());
    let new_seeds = seeds::first();
    println!("{}={new_seeds} runs these new seeds again", seeds::VARIABLE);
    let found = found.told(seeds::VARIABLE, new_seeds).told("PATH", python::path_with(&workspace.target)?);
    *built = Some(Arc::new(found));
    let remedy = |folder: String| format!("the tests of {folder} are in no section: add it in xtask/src/test/sections.rs\n");
    Ok(Verdict::one(homeless.is_empty(), homeless.into_iter().map(remedy).collect()))
}

fn print(section: &Section, verdict: &Verdict, took: Duration, used: &Share) {
    let Verdict { tally, output, times } = verdict;
    let share = 100.0 * took.as_secs_f64() / section.seconds as f64;
    // A section without programs is this one's own work, which is not told apart.
    let cpu = if used.spent().is_zero() { String::new() } else { format!("; {:.0} s of CPU", used.spent().as_secs_f64()) };
    let memory = if used.taken() == 0 { String::new() } else { format!(", {} MiB", used.taken() >> 20) };
    println!(
        "{:<12} {:>5} passed, {} failed, {} skipped; {:.1} s of {} s ({share:.0} %){cpu}{memory}",
        section.name,
        tally.passed,
        tally.failed,
        tally.skipped.len(),
        took.as_secs_f64(),
        section.seconds,
    );
    if !times.is_empty() {
        println!("  slowest: {}", times.slowest(SLOWEST_MAX));
    }
    for skip in &tally.skipped {
        println!("  skipped: {}: {}", skip.name, skip.reason);
    }
    if tally.failed > 0 {
        println!("---- {} failed:\n{}----", section.name, output);
    }
}

#[cfg(test)]
mod tests {
    use super::verdict::UNCLOSED;
    use super::*;

    fn names(only: Option<&str>) -> Vec<&'static str> {
        wanted(only).map(|section| section.name).collect()
    }

    #[test]
    fn one_section_brings_the_build_if_it_needs_it() {
        assert_eq!(names(None).len(), SECTIONS.len());
        assert_eq!(names(Some("tidy")), [""; 0]);
        assert_eq!(names(Some("drivers")), ["build", "drivers"]);
        assert_eq!(names(Some("simulation")), ["build"]);
    }

    #[test]
    fn programs_without_a_build_fail() {
        let section = SECTIONS.iter().find(|s| matches!(s.work, Work::Programs(_))).unwrap();
        let verdict = verdict(section, &Workspace::default(), &Share::new(60), &mut None).unwrap();
        assert_eq!(verdict.tally.failed, 1);
    }

    /// The verdict on a section that runs `cargo` with `arguments`.
    fn of_cargo(arguments: &'static [&'static str]) -> Verdict {
        let section = Section { name: "x", seconds: 60, work: Work::Counted(arguments, &[]) };
        let workspace = Workspace { root: env!("CARGO_MANIFEST_DIR").into(), ..Workspace::default() };
        verdict(&section, &workspace, &Share::new(60), &mut None).unwrap()
    }

    #[test]
    fn a_run_that_ends_well_and_says_nothing_of_tests_has_failed() {
        let verdict = of_cargo(&["--version"]);
        assert_eq!(verdict.tally, Tally::failed(1));
        assert!(verdict.output.starts_with("cargo ") && verdict.output.ends_with(UNCLOSED), "{}", verdict.output);
    }

    /// What becomes of a call of rustc with these arguments: the name of what is called, and its arguments.
    fn called(arguments: &str) -> String {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("corelane-rustc-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        for name in ["rustc", "clippy-driver", "rustdoc"] {
            std::os::unix::fs::symlink("/bin/echo", folder.join(name)).unwrap();
        }
        let rustc = folder.join("rustc");
        let wrapper = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(ONCE);
        let output = std::process::Command::new(wrapper).arg(&rustc).args(arguments.split(' ')).env("PATH", &folder).output();
        std::fs::remove_dir_all(&folder).unwrap();
        String::from_utf8(output.unwrap().stdout).unwrap().replace(rustc.to_str().unwrap(), "lints and")
    }

    #[test]
    fn what_builds_a_crate_lints_it() {
        let tests = "x crates/svc/src/lib.rs --test";
        assert_eq!(called(tests), format!("lints and {tests} -D warnings\n"));
        assert_eq!(called("-vV"), "-vV\n");
    }

    #[test]
    fn what_others_are_linked_with_is_linted_with_its_tests() {
        for source in ["crates/svc/src/lib.rs", "cli/src/main.rs"] {
            assert_eq!(called(&format!("x {source}")), format!("x {source} -C codegen-units=1 -D warnings\n"));
            assert!(called(&format!("x {source} --test")).starts_with("lints and "));
        }
    }

    #[test]
    fn only_test_programs_that_compute_little_are_built_without_optimisation() {
        let unoptimised = [
            "x crates/watch/src/lib.rs --test",
            "x crates/svc/tests/simulated/main.rs --test",
            "x crates/kqueue/tests/a/main.rs",
        ];
        for arguments in unoptimised {
            assert_eq!(called(arguments), format!("lints and {arguments} -C opt-level=0 -D warnings\n"));
        }
        let plain = "x crates/rss/src/lib.rs --out-dir /a/tests/b.rs";
        assert_eq!(called(plain), format!("{plain} -C codegen-units=1 -D warnings\n"));
        for arguments in ["x crates/svc/src/lib.rs --test", "x crates/isr/tests/dispatch.rs --test"] {
            assert_eq!(called(arguments), format!("lints and {arguments} -D warnings\n"));
        }
        let some = "x load/tests/all/main.rs --test";
        assert_eq!(called(some), format!("lints and {some} -C opt-level=1 -D warnings\n"));
        assert_eq!(called("/a/tests/b.rs"), "/a/tests/b.rs\n");
    }

    #[test]
    fn lines_are_written_where_tests_look_for_them() {
        let lines = "-C debuginfo=line-tables-only -C strip=none";
        assert!(called("x crates/lane/src/lib.rs").starts_with(&format!("x crates/lane/src/lib.rs {lines} ")));
        assert!(called("x crates/corelane/tests/all/main.rs --test").contains(lines));
        assert!(!called("x crates/svc/src/lib.rs").contains("debuginfo"));
    }

    #[test]
    fn what_is_never_run_is_not_linked() {
        let whole = "--emit=dep-info,link x";
        for source in ["crates/tls/examples/tls.rs", "crates/wire/benches/checksum.rs --cfg test"] {
            let looked_at = format!("lints and --emit=dep-info,metadata x {source} -D warnings\n");
            assert_eq!(called(&format!("{whole} {source}")), looked_at);
        }
        let documented = "x bench/src/main.rs --document-private-items -D warnings -Z unstable-options --output-format json\n";
        let looked_at = "--emit=dep-info,metadata x bench/src/main.rs -C codegen-units=1 -D warnings\n";
        assert_eq!(called(&format!("{whole} bench/src/main.rs")), [documented, looked_at].concat());
        for source in ["crates/corelane/examples/lengths.rs --test", "bench/src/main.rs --test", "cli/src/main.rs"] {
            assert!(called(&format!("{whole} {source}")).contains(whole), "{source}");
        }
    }

    #[test]
    fn each_package_that_could_not_be_installed_is_a_failure() {
        assert_eq!(uninstalled(&["ncat", "socat"]), Tally::failed(2));
        assert_eq!(uninstalled(&[]), Tally::default());
    }
}
