//! `--fast`: what a developer waits for between two changes. Layout and house rules, then of the crates that differ from `main` and of those that directly
//! depend on them: the unit tests, and the tests that run in the simulator. A test program of which nothing is run is not built. Both are named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::artifacts::Artifacts;
use super::process::Finished;
use super::sections::{COMPUTING, Work, holds};
use super::share::Share;
use super::verdict::Verdict;
use super::{artifacts, seeds};
use crate::workspace::{Member, Workspace};

/// Most seconds that building and running may take: of a large change, much is built.
pub const SECONDS: u64 = 900;

/// What the names of tests hold that run in the simulator, where a program has others beside them.
const SIMULATED: &[&str] = &["simulated::", "aio::", "asynchronous::"];

/// The crates of the program itself, whose tests start it.
const PROGRAM: &str = "cli";

/// Builds by `cargo`, which takes arguments, and runs what the change touches.
pub fn check(
    workspace: &Workspace,
    cargo: impl Fn(&[&str]) -> anyhow::Result<Finished>,
    share: &Share,
) -> anyhow::Result<Verdict> {
    let touched = touched(&workspace.members, &changed(workspace)?);
    if touched.is_empty() {
        return Ok(Verdict::one(true, String::new()));
    }
    let names: Vec<_> = touched.iter().map(|member| member.name.as_str()).collect();
    println!("built: {}", names.join(" "));
    let mut arguments = vec!["test", "--no-run", "--lib", "--bins", "--message-format=json-render-diagnostics"];
    arguments.extend(names.iter().flat_map(|name| ["--package", name]));
    let (run, left): (Vec<_>, Vec<_>) =
        tests_of(&touched).partition(|(member, name, root)| is_run(workspace, member, name, root));
    left.iter().for_each(|(member, name, _)| println!("not built, for nothing of it would be run: {name} ({})", member.folder));
    // A name is of each package that has it: what is built too is told apart below.
    let names: BTreeSet<&str> = run.iter().map(|(_, name, _)| *name).collect();
    arguments.extend(names.iter().flat_map(|name| ["--test", name]));
    let outcome = cargo(&arguments)?;
    if !outcome.success {
        return Ok(Verdict::failed(artifacts::without_messages(&outcome.output)));
    }
    let found = Artifacts::read(&outcome.output, &workspace.root)?.told(seeds::VARIABLE, seeds::first());
    found.run_some(filters, workspace, share)
}

/// What of a test program is run: nothing, all (no filters), or the tests whose names hold one of these.
fn filters(folder: &str, name: &str, is_unit: bool) -> Option<&'static [&'static str]> {
    let computes = COMPUTING.iter().any(|section| match section.work {
        Work::Programs(patterns) => holds(patterns, folder),
        _ => false,
    });
    match () {
        () if is_unit || computes || name == "simulated" => Some(&[]),
        () if folder == PROGRAM => None,
        () => Some(SIMULATED),
    }
}

/// The test programs of these members that stand in files of their own: whose each is, its name, and its root file.
fn tests_of<'a>(members: &'a [&Member]) -> impl Iterator<Item = (&'a Member, &'a str, &'a str)> {
    let of = |member: &'a &Member| member.tests.iter().map(|(name, root)| (*member, name.as_str(), root.as_str()));
    members.iter().flat_map(of)
}

/// Whether anything of a test program is run.
fn is_run(workspace: &Workspace, member: &Member, name: &str, root: &str) -> bool {
    let Some(words) = filters(&member.folder, name, false) else { return false };
    words.is_empty() || words.iter().any(|word| declares(&sources(workspace, root), word.trim_end_matches(':')))
}

/// Where the files of a test program are: its folder, or its only file.
fn sources(workspace: &Workspace, root: &str) -> PathBuf {
    let root = workspace.root.join(root);
    match root.parent() {
        Some(folder) if root.ends_with("main.rs") => folder.to_owned(),
        _ => root,
    }
}

/// Whether this file, or one below this folder, declares a module of this name.
fn declares(path: &Path, module: &str) -> bool {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().any(|entry| declares(&entry.path(), module)),
        Err(_) => std::fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("mod {module}"))),
    }
}

/// Files that differ from where this branch left `main`, those not committed among them.
fn changed(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let base = git(workspace, &["merge-base", "HEAD", "main"]).context("there is no branch main to compare with")?;
    let mut files = git(workspace, &["diff", "--name-only", base.trim()])?;
    files += &git(workspace, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(files.lines().map(str::to_owned).collect())
}

fn git(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(&workspace.root).output().context("cannot start git")?;
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The members that hold one of these files, and those that directly depend on such a one.
fn touched<'a>(members: &'a [Member], files: &[String]) -> Vec<&'a Member> {
    let holds = |member: &Member, file: &str| file.strip_prefix(&member.folder).is_some_and(|rest| rest.starts_with('/'));
    let own: BTreeSet<&str> =
        members.iter().filter(|member| files.iter().any(|file| holds(member, file))).map(|member| &*member.folder).collect();
    let depends = |member: &Member| {
        member.dependencies.iter().any(|dependency| dependency.folder.as_deref().is_some_and(|f| own.contains(f)))
    };
    members.iter().filter(|member| own.contains(&*member.folder) || depends(member)).collect()
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::workspace::Dependency;

    fn member(folder: &str, on: &[&str]) -> Member {
        let dependency = |folder: &&str| Dependency { folder: Some((*folder).to_owned()), ..Dependency::default() };
        Member { folder: folder.to_owned(), dependencies: on.iter().map(dependency).collect(), ..Member::default() }
    }

    #[test]
    fn who_changed_and_who_directly_depends_on_it_are_touched() {
        let members = [member("crates/seam", &[]), member("crates/lane", &["crates/seam"]), member("cli", &["crates/lane"])];
        let of =
            |file: &str| touched(&members, &[file.to_owned()]).iter().map(|member| member.folder.clone()).collect::<Vec<_>>();
        assert_eq!(of("crates/seam/src/lib.rs"), ["crates/seam", "crates/lane"]);
        assert_eq!(of("cli/tests/a.rs"), ["cli"]);
        assert!(of("crates/seams/src/lib.rs").is_empty() && of("README.md").is_empty());
    }

    /// The files below `folder` that play seeds, whatever is between.
    fn playing(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
            match entry.path() {
                inner if inner.is_dir() => playing(&inner, found),
                file if std::fs::read_to_string(&file).is_ok_and(|text| text.contains("for_seeds(")) => found.push(file),
                _ => {}
            }
        }
    }

    #[test]
    fn whatever_plays_seeds_runs() {
        let workspace = Workspace::load().unwrap();
        let mut played = 0;
        for member in workspace.members.iter().filter(|member| member.folder != PROGRAM) {
            let (tests, mut files) = (workspace.root.join(&member.folder).join("tests"), Vec::new());
            playing(&tests, &mut files);
            for file in &files {
                let modules: Vec<_> = file
                    .strip_prefix(&tests)
                    .unwrap()
                    .with_extension("")
                    .iter()
                    .map(|part| part.to_string_lossy().into_owned())
                    .collect();
                let words = filters(&member.folder, &modules[0], false).unwrap();
                let path = modules.join("::") + "::";
                let is_run = words.is_empty() || words.iter().any(|word| path.contains(word));
                let members = [member];
                let mut built = tests_of(&members).filter(|(member, name, root)| super::is_run(&workspace, member, name, root));
                let is_built =
                    built.any(|(_, name, root)| name == modules[0] || declares(&sources(&workspace, root), &modules[0]));
                assert!(is_built, "{} plays seeds, and --fast does not build it", file.display());
                assert!(
                    is_run,
                    "{} plays seeds, and --fast leaves it out: put it below a module named `simulated`",
                    file.display()
                );
                played += 1;
            }
        }
        assert!(played > 40, "{played} files play seeds");
    }

    #[test]
    fn what_would_run_nothing_is_not_built() {
        let workspace = Workspace::load().unwrap();
        let members: Vec<_> = workspace.members.iter().collect();
        let is_built = |folder: &str, wanted: &str| {
            let mut tests = tests_of(&members).filter(|(member, name, _)| member.folder == folder && *name == wanted);
            tests.next().map(|(member, name, root)| is_run(&workspace, member, name, root))
        };
        assert_eq!([is_built("cli", "program"), is_built("crates/corelane", "drivers")], [Some(false); 2]);
        assert_eq!([is_built("crates/drivers", "all"), is_built("crates/tls", "allocations")], [Some(false); 2]);
        assert_eq!([is_built("crates/sim", "all"), is_built("services/rpc", "simulated")], [Some(true); 2]);
        assert_eq!(
            [is_built("services/http", "all"), is_built("crates/corelane", "all"), is_built("crates/corelane", "log")],
            [Some(true), Some(true), Some(false)]
        );
    }

    #[test]
    fn units_and_simulations_run_and_what_starts_programs_does_not() {
        assert_eq!(filters("cli", "corelane", true), Some(&[][..]));
        assert_eq!(filters("cli", "program", false), None);
        assert_eq!(filters("crates/sim", "all", false), Some(&[][..]));
        assert_eq!(filters("services/rpc", "simulated", false), Some(&[][..]));
        assert_eq!(filters("services/http", "all", false), Some(SIMULATED));
        assert_eq!(filters("crates/corelane", "all", false), Some(SIMULATED));
    }
}
