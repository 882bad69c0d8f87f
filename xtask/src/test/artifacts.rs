//! The test programs that a build has made, and running them (the Cargo Book, "External tools", JSON messages, and
//! "Environment variables").

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use serde::Deserialize;

use super::process;
use super::scratch::{self, Scratch};
use super::sections::{Section, Work, holds};
use super::share::Share;
use super::skips::{Skips, VARIABLE};
use super::verdict::Verdict;
use crate::workspace::{Workspace, relative};

/// Arguments of cargo that build all test programs and name them on standard output. Examples are modules of tests, and linted as programs.
pub const BUILD: &[&str] =
    &["test", "--workspace", "--no-run", "--lib", "--bins", "--tests", "--message-format=json-render-diagnostics"];

/// Everything executable that the build has made.
#[derive(Clone, Debug)]
pub struct Artifacts {
    programs: Vec<Program>,
    /// What every test program is told beside what cargo would tell it.
    variables: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug)]
struct Program {
    /// Folder of its crate, relative to the root.
    folder: String,
    /// Name of the program, or of the library, program or test file that it tests.
    name: String,
    /// Whether it tests a library or a program from inside.
    is_unit: bool,
    /// Whether it runs tests, or is what tests of its crate run.
    is_test: bool,
    path: PathBuf,
}

#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    #[serde(default)]
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Artifacts {
    /// Reads the messages in the output of [`BUILD`]. Fails where one is malformed.
    pub fn read(output: &str, root: &Path) -> anyhow::Result<Self> {
        let mut programs = Vec::new();
        for line in output.lines().filter(|line| is_message(line)) {
            let message: Message = serde_json::from_str(line).context("cargo named its results in an unknown form")?;
            programs.extend(message.program(root));
        }
        Ok(Self { programs, variables: Vec::new() })
    }

    /// The same programs, whose environment says so too.
    pub fn told(mut self, variable: &'static str, value: String) -> Self {
        self.variables.push((variable, value));
        self
    }

    /// The folders whose tests no section runs.
    pub fn homeless<'a>(&self, sections: impl Iterator<Item = &'a Section> + Clone) -> Vec<String> {
        let runs = |section: &Section, folder: &str| match section.work {
            Work::Programs(patterns) => holds(patterns, folder),
            _ => false,
        };
        let mut folders: Vec<String> = self.tests().map(|p| p.folder.clone()).collect();
        folders.retain(|folder| !sections.clone().any(|section| runs(section, folder)));
        folders.dedup();
        folders
    }

    /// Runs the test programs of the crates that `folders` names, one after the other.
    pub fn run(&self, folders: &[&str], workspace: &Workspace, share: &Share) -> anyhow::Result<Verdict> {
        let mut sum = Verdict::default();
        for folder in self.without_tests(folders) {
            sum.tally.failed += 1;
            sum.output.push_str(&format!("no test program is in {folder}: mend xtask/src/test/sections.rs\n"));
        }
        for test in self.tests().filter(|test| holds(folders, &test.folder)) {
            self.run_into(&mut sum, test, &[], workspace, share);
        }
        Ok(sum)
    }

    /// Runs of each test program what `filters` makes of its folder, its name and whether it tests from inside: nothing, and says so, or the tests
    /// whose names hold one of the words; all where there are none.
    pub fn run_some(
        &self,
        filters: impl Fn(&str, &str, bool) -> Option<&'static [&'static str]>,
        workspace: &Workspace,
        share: &Share,
    ) -> anyhow::Result<Verdict> {
        let mut sum = Verdict::default();
        for test in self.tests() {
            let Some(words) = filters(&test.folder, &test.name, test.is_unit) else {
                println!("not run: {}", test.title());
                continue;
            };
            if !words.is_empty() {
                println!("run in part, what is simulated: {}", test.title());
            }
            self.run_into(&mut sum, test, words, workspace, share);
        }
        Ok(sum)
    }

    fn run_into(&self, sum: &mut Verdict, test: &Program, words: &[&str], workspace: &Workspace, share: &Share) {
        let start = Instant::now();
        let verdict = self
            .run_one(test, words, workspace, share)
            .unwrap_or_else(|error| Verdict::failed(format!("{}: {error:#}\n", test.title())));
        sum.tally.add(verdict.tally);
        sum.output.push_str(&verdict.output);
        sum.times.add(test.title(), start.elapsed());
    }

    /// What of `folders` stands for no test program.
    fn without_tests<'a>(&self, folders: &'a [&str]) -> impl Iterator<Item = &'a str> {
        folders.iter().copied().filter(|folder| !self.tests().any(|test| holds(&[folder], &test.folder)))
    }

    fn tests(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter().filter(|program| program.is_test)
    }

    /// Runs `test` as `cargo test` does: in the folder of its crate, whose programs the environment names.
    fn run_one(&self, test: &Program, words: &[&str], workspace: &Workspace, share: &Share) -> anyhow::Result<Verdict> {
        let (skips, scratch) = (Skips::new(&workspace.target)?, Scratch::new()?);
        let folder = workspace.root.join(&test.folder);
        let mut command = Command::new(&test.path);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env(VARIABLE, skips.path()).env("CARGO_MANIFEST_DIR", &folder).current_dir(folder);
        command.env(scratch::VARIABLE, scratch.path()).args(words);
        for program in self.programs.iter().filter(|p| !p.is_test && p.folder == test.folder) {
            command.env(format!("CARGO_BIN_EXE_{}", program.name), &program.path);
        }
        let outcome = process::run(command, share)?;
        let mut verdict = Verdict::counted(outcome);
        skips.apply(&mut verdict.tally)?;
        scratch.apply(&mut verdict)?;
        if !verdict.output.is_empty() {
            verdict.output.insert_str(0, &format!("{}:\n", test.title()));
        }
        Ok(verdict)
    }
}

impl Message {
    fn program(self, root: &Path) -> Option<Program> {
        let Target { name, kind } = self.target?;
        Some(Program {
            folder: relative(root, self.manifest_path?.parent()?),
            name,
            is_unit: !kind.iter().any(|kind| kind == "test"),
            is_test: self.profile?.test,
            path: self.executable?,
        })
    }
}

impl Program {
    fn title(&self) -> String {
        format!("{} ({})", self.name, self.folder)
    }
}

/// What of the output of [`BUILD`] is for people.
pub fn without_messages(output: &str) -> String {
    let lines = output.lines().filter(|line| !is_message(line));
    lines.map(|line| format!("{line}\n")).collect()
}

fn is_message(line: &str) -> bool {
    line.starts_with("{\"reason\":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::sections::all;
    use crate::test::seeds;
    use crate::test::tally::Tally;

    const LIBRARY: &str = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/rss/Cargo.toml","target":{"name":"rss"},"profile":{"test":false},"executable":null}"#;
    const OTHER: &str = r#"{"reason":"build-finished","success":true}"#;

    fn program(folder: &str, path: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/{folder}/Cargo.toml","target":{{"name":"unit"}},"profile":{{"test":true}},"executable":"{path}"}}"#
        )
    }

    fn artifacts(programs: &[String]) -> Artifacts {
        let output = format!("   Compiling a\n{LIBRARY}\n{}\n{OTHER}\n", programs.join("\n"));
        Artifacts::read(&output, Path::new("/w")).unwrap()
    }

    #[test]
    fn executables_are_taken_and_tests_told_apart() {
        let tool = program("cli", "/t/tool").replace("\"test\":true", "\"test\":false");
        let found = artifacts(&[program("crates/rss", "/t/rss-1"), tool]);
        assert_eq!(found.programs.len(), 2);
        assert_eq!(found.tests().count(), 1);
        assert_eq!(found.programs[0].title(), "unit (crates/rss)");
        assert!(Artifacts::read("{\"reason\":", Path::new("/w")).is_err());
    }

    #[test]
    fn every_crate_has_a_section() {
        let found = artifacts(&[program("crates/rss", "/t/a"), program("crates/new", "/t/b")]);
        assert_eq!(found.homeless(all()), ["crates/new"]);
    }

    #[test]
    fn people_do_not_read_messages() {
        assert_eq!(without_messages(&format!("error: a\n{OTHER}\n  b\n")), "error: a\n  b\n");
    }

    /// Runs a test program of `cli` that is a shell script, with a tool beside it.
    fn run(name: &str, script: &str) -> Verdict {
        let root = std::env::temp_dir().join(format!("corelane-run-{}-{name}", std::process::id()));
        std::fs::create_dir_all(root.join("cli")).unwrap();
        let (text, path) = (root.join("text"), root.join("test"));
        std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        // Another program makes it executable, for a file that this one has written may still be open in a process
        // that another test has just forked, and cannot run until that is gone.
        let install = Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
        assert!(install.unwrap().success());
        let tool = program("cli", "/t/tool").replace("\"test\":true", "\"test\":false");
        let other = program("load", "/no/such/program");
        let found = artifacts(&[program("cli", &path.to_string_lossy()), tool, other]).told(seeds::VARIABLE, "7".to_owned());
        let workspace = Workspace { target: root.clone(), root, ..Workspace::default() };
        let verdict = found.run(&["cli"], &workspace, &Share::new(60)).unwrap();
        std::fs::remove_dir_all(workspace.root).unwrap();
        verdict
    }

    #[test]
    fn programs_run_where_cargo_would_run_them() {
        let script = "test ${PWD##*/} = cli && test $CARGO_BIN_EXE_unit = /t/tool && echo 'test result: ok. 1 passed; 0 failed'";
        assert_eq!(run("place", script).tally, Tally::passed(1));
    }

    #[test]
    fn how_long_each_program_took_is_kept() {
        let verdict = run("times", "echo 'test result: ok. 1 passed; 0 failed'");
        assert_eq!(verdict.tally, Tally::passed(1));
        assert!(verdict.times.slowest(1).starts_with("unit (cli) "), "{}", verdict.times.slowest(1));
    }

    #[test]
    fn programs_are_told_where_new_seeds_begin() {
        let script = "test \"$CORELANE_NEW_SEEDS\" = 7 && echo 'test result: ok. 1 passed; 0 failed'";
        assert_eq!(run("seeds", script).tally, Tally::passed(1));
    }

    #[test]
    fn a_program_that_a_test_has_ended_fails_by_name() {
        let ended = run("ended", "echo 'running 3 tests'");
        assert_eq!(ended.tally, Tally::failed(1));
        assert!(ended.output.starts_with("unit (cli):\nrunning 3 tests\n"), "{}", ended.output);
        assert!(ended.output.contains("without a closing line"), "{}", ended.output);
    }

    #[test]
    fn a_folder_without_a_test_program_is_noticed() {
        let found = artifacts(&[]);
        let target = std::env::temp_dir().join("corelane-never-written");
        let workspace = Workspace { target, ..Workspace::default() };
        let verdict = found.run(&["crates/gone", "services/*"], &workspace, &Share::new(60)).unwrap();
        assert_eq!(verdict.tally, Tally::failed(2));
        assert!(verdict.output.contains("crates/gone") && verdict.output.contains("services/*"), "{}", verdict.output);
    }

    #[test]
    fn tests_that_skip_themselves_are_counted_as_skipped() {
        let script =
            "printf 'a\\tno-nc is not installed\\n' >> $CORELANE_SKIPS; echo 'test result: ok. 3 passed; 0 failed; 0 ignored'";
        let tally = run("skip", script).tally;
        assert_eq!((tally.passed, tally.failed, tally.skipped.len()), (2, 0, 1));
        assert_eq!(tally.skipped[0].reason, "no-nc is not installed");
    }

    #[test]
    fn what_a_program_leaves_behind_is_a_failure_and_goes() {
        let well = "echo 'test result: ok. 1 passed; 0 failed'";
        let left = run("left", &format!("touch $TMPDIR/page; {well}"));
        assert_eq!((left.tally.passed, left.tally.failed), (1, 1));
        assert!(left.output.contains("left behind in TMPDIR: page; "), "{}", left.output);
        let gone = format!("touch $TMPDIR/page; rm $TMPDIR/page; {well}");
        assert_eq!(run("gone", &gone).tally, Tally::passed(1));
        let failed = run("failed", "touch $TMPDIR/page; echo 'test result: FAILED. 3 passed; 1 failed'; exit 101");
        assert_eq!((failed.tally.failed, failed.output.contains("left behind")), (1, false));
    }

    #[test]
    fn what_a_failing_program_says_is_shown() {
        let failed = run("fail", "echo 'test result: FAILED. 3 passed; 1 failed; 0 ignored'; exit 101");
        assert_eq!((failed.tally.passed, failed.tally.failed), (3, 1));
        assert!(failed.output.starts_with("unit (cli):\ntest result"));
    }

    #[test]
    fn a_program_that_cannot_run_fails_by_name() {
        let found = artifacts(&[program("cli", "/no/such/program")]);
        let target = std::env::temp_dir().join(format!("corelane-none-{}", std::process::id()));
        let workspace = Workspace { target: target.clone(), ..Workspace::default() };
        let verdict = found.run(&["cli"], &workspace, &Share::new(60)).unwrap();
        assert_eq!(verdict.tally, Tally::failed(1));
        assert!(verdict.output.contains("unit (cli)"));
        std::fs::remove_dir_all(target).unwrap();
    }
}
