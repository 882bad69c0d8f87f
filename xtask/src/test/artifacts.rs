//! The test programs that a build has made, and running them (the Cargo Book, "External tools", JSON messages).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use super::sections::{Section, Work, holds};
use super::skips::{Skips, VARIABLE};
use super::tally::Tally;
use super::{Share, Verdict, process};
use crate::workspace::{Workspace, relative};

/// Arguments of cargo that build all test programs and name them on standard output.
pub const BUILD: &[&str] = &[
    "test",
    "--workspace",
    "--no-run",
    "--message-format=json-render-diagnostics",
];

/// All test programs.
#[derive(Debug)]
pub struct Artifacts {
    programs: Vec<Program>,
}

#[derive(Debug)]
struct Program {
    /// Folder of its crate, relative to the root.
    folder: String,
    /// Name of the library, program or test file that it tests.
    name: String,
    path: PathBuf,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
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
            let message: Message =
                serde_json::from_str(line).context("cargo named its results in an unknown form")?;
            programs.extend(message.program(root));
        }
        Ok(Self { programs })
    }

    /// The folders whose tests no section runs.
    pub fn homeless(&self, sections: &[Section]) -> Vec<String> {
        let runs = |section: &Section, folder: &str| match section.work {
            Work::Programs(patterns) => holds(patterns, folder),
            _ => false,
        };
        let mut folders: Vec<String> = self.programs.iter().map(|p| p.folder.clone()).collect();
        folders.retain(|folder| !sections.iter().any(|section| runs(section, folder)));
        folders.dedup();
        folders
    }

    /// Runs the test programs of the crates that `folders` names, one after the other.
    pub fn run(
        &self,
        folders: &[&str],
        workspace: &Workspace,
        share: &Share,
    ) -> anyhow::Result<Verdict> {
        let mut sum = Verdict {
            tally: Tally::default(),
            output: String::new(),
        };
        for program in self
            .programs
            .iter()
            .filter(|program| holds(folders, &program.folder))
        {
            let verdict = program.run(workspace, share).unwrap_or_else(|error| {
                Verdict::failed(format!("{}: {error:#}\n", program.title()))
            });
            sum.tally.add(verdict.tally);
            sum.output.push_str(&verdict.output);
        }
        Ok(sum)
    }
}

impl Message {
    fn program(self, root: &Path) -> Option<Program> {
        let is_test = self.reason == "compiler-artifact" && self.profile?.test;
        let folder = relative(root, self.manifest_path?.parent()?);
        is_test.then_some(Program {
            folder,
            name: self.target?.name,
            path: self.executable?,
        })
    }
}

impl Program {
    fn title(&self) -> String {
        format!("{} ({})", self.name, self.folder)
    }

    /// Runs it as `cargo test` does: in the folder of its crate.
    fn run(&self, workspace: &Workspace, share: &Share) -> anyhow::Result<Verdict> {
        let skips = Skips::new(&workspace.target)?;
        let folder = workspace.root.join(&self.folder);
        let mut command = Command::new(&self.path);
        command
            .env(VARIABLE, skips.path())
            .env("CARGO_MANIFEST_DIR", &folder)
            .current_dir(folder);
        let outcome = process::run(command, share.left())?;
        let mut tally = Tally::read(&outcome);
        skips.apply(&mut tally)?;
        let shown = outcome.shown_if_failed();
        let title = if shown.is_empty() {
            String::new()
        } else {
            format!("{}:\n", self.title())
        };
        Ok(Verdict {
            tally,
            output: title + &shown,
        })
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
    use crate::test::sections::SECTIONS;

    const LIBRARY: &str = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/rss/Cargo.toml","target":{"name":"rss"},"profile":{"test":false},"executable":null}"#;
    const OTHER: &str = r#"{"reason":"build-finished","success":true}"#;

    fn program(folder: &str, path: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/{folder}/Cargo.toml","target":{{"name":"unit"}},"profile":{{"test":true}},"executable":"{path}"}}"#
        )
    }

    fn artifacts(programs: &[String]) -> Artifacts {
        let output = format!(
            "   Compiling a\n{LIBRARY}\n{}\n{OTHER}\n",
            programs.join("\n")
        );
        Artifacts::read(&output, Path::new("/w")).unwrap()
    }

    #[test]
    fn only_test_programs_are_taken() {
        let found = artifacts(&[program("crates/rss", "/t/rss-1")]);
        assert_eq!(found.programs.len(), 1);
        assert_eq!(found.programs[0].title(), "unit (crates/rss)");
        assert!(Artifacts::read("{\"reason\":1}", Path::new("/w")).is_err());
    }

    #[test]
    fn every_crate_has_a_section() {
        let found = artifacts(&[program("crates/rss", "/t/a"), program("crates/new", "/t/b")]);
        assert_eq!(found.homeless(SECTIONS), ["crates/new"]);
    }

    #[test]
    fn people_do_not_read_messages() {
        assert_eq!(
            without_messages(&format!("error: a\n{OTHER}\n  b\n")),
            "error: a\n  b\n"
        );
    }

    #[test]
    fn programs_run_and_are_counted() {
        let root = std::env::temp_dir().join(format!("corelane-artifacts-{}", std::process::id()));
        std::fs::create_dir_all(root.join("cli")).unwrap();
        let workspace = Workspace {
            target: root.clone(),
            root,
            ..Workspace::default()
        };
        let run = |path: &str| {
            let found = artifacts(&[program("cli", path), program("load", "/bin/false")]);
            let found = Artifacts {
                programs: found
                    .programs
                    .into_iter()
                    .filter(|p| p.folder != "load")
                    .collect(),
            };
            found.run(&["cli"], &workspace, &Share::new(60)).unwrap()
        };
        assert_eq!(run("/bin/true").tally, Tally::passed(1));
        assert_eq!(run("/bin/false").tally, Tally::failed(1));
        let missing = run("/no/such/program");
        assert_eq!(missing.tally, Tally::failed(1));
        assert!(missing.output.contains("unit (cli)"));
        std::fs::remove_dir_all(workspace.root).unwrap();
    }
}
