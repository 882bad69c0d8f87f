//! `cargo xtask release`: what is checked before a release, beside the tests: that every public crate could be published, licences and advisories of what is
//! linked, what a new version would break for those who use the last one, and the other architecture. Nothing is uploaded.

use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, ExitCode, Output};

/// Options of `cargo xtask release`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Run only these checks
    #[arg(long, value_name = "CHECK")]
    only: Vec<String>,
}

/// The architecture that is compiled for but not run, and the compiler of C that its libraries need.
const OTHER: (&str, &str) = ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc");

/// What is said where cargo-deny has no list of advisories and cannot get one.
const NO_LIST: &str = "failed to fetch advisory database";

/// How a check ended.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// What is missing here, and how to get it.
    Skipped(String),
    /// What was said.
    Failed(String),
}

/// One check.
struct Check {
    name: &'static str,
    run: fn(&Workspace) -> Result<Verdict>,
}

const CHECKS: &[Check] = &[
    Check { name: "publish", run: publish },
    Check { name: "licences", run: licences },
    Check { name: "advisories", run: advisories },
    Check { name: "semver", run: semver },
    Check { name: "aarch64", run: aarch64 },
];

/// Runs the checks, and prints a line for each.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    for name in &arguments.only {
        let known: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
        ensure!(known.contains(&name.as_str()), "--only {name}: the checks are {}", known.join(", "));
    }
    let workspace = Workspace::load()?;
    let mut failed = false;
    let asked = |check: &&Check| arguments.only.is_empty() || arguments.only.iter().any(|name| name == check.name);
    for check in CHECKS.iter().filter(asked) {
        let verdict = (check.run)(&workspace)?;
        match &verdict {
            Verdict::Passed => println!("passed: {}", check.name),
            Verdict::Skipped(reason) => println!("skipped: {}: {reason}", check.name),
            Verdict::Failed(said) => println!("{said}\nfailed: {}", check.name),
        }
        failed |= matches!(verdict, Verdict::Failed(_));
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Packs every public crate and builds it from its package, as a registry's user would.
fn publish(workspace: &Workspace) -> Result<Verdict> {
    // What is not committed is checked as well: this is no upload.
    let mut command = cargo();
    command.args(["publish", "--workspace", "--dry-run", "--locked", "--allow-dirty"]).env("CARGO_PROFILE_DEV_DEBUG", "0");
    verdict(&mut command, workspace)
}

fn licences(workspace: &Workspace) -> Result<Verdict> {
    match deny(workspace, &["licenses", "bans", "sources"]) {
        Some(output) => Ok(judged(&output?)),
        None => Ok(lacks("cargo-deny")),
    }
}

/// The list is fetched from where its editors keep it; without a way there, what is linked is not compared with anything.
fn advisories(workspace: &Workspace) -> Result<Verdict> {
    let Some(output) = deny(workspace, &["advisories"]) else { return Ok(lacks("cargo-deny")) };
    Ok(match judged(&output?) {
        Verdict::Failed(said) if said.contains(NO_LIST) => Verdict::Skipped(
            "the list of advisories cannot be reached from here: check that this machine has a way to it".to_owned(),
        ),
        verdict => verdict,
    })
}

/// Runs cargo-deny with the rules of `deny.toml`; nothing where it is not installed.
fn deny(workspace: &Workspace, checks: &[&str]) -> Option<Result<Output>> {
    is_there("deny").then(|| output(cargo().args(["deny", "check"]).args(checks), workspace))
}

/// Compares what the libraries offer with the last release, by its tag.
fn semver(workspace: &Workspace) -> Result<Verdict> {
    let tags = output(Command::new("git").args(["tag", "--list", "v*", "--sort=-version:refname"]), workspace)?;
    let tags = String::from_utf8_lossy(&tags.stdout).into_owned();
    let Some(last) = tags.lines().next() else {
        return Ok(Verdict::Skipped("nothing has been released: there is no tag v* to compare with".to_owned()));
    };
    if !is_there("semver-checks") {
        return Ok(lacks("cargo-semver-checks"));
    }
    verdict(cargo().args(["semver-checks", "--workspace", "--baseline-rev", last]), workspace)
}

/// Compiles for the other architecture, without linking.
fn aarch64(workspace: &Workspace) -> Result<Verdict> {
    let (target, compiler) = OTHER;
    let libraries = output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]), workspace)?;
    if !Path::new(String::from_utf8_lossy(&libraries.stdout).trim_end()).is_dir() {
        return Ok(Verdict::Skipped(format!("the toolchain has no {target}: rustup target add {target}")));
    }
    if Command::new(compiler).arg("--version").output().is_err() {
        return Ok(Verdict::Skipped(format!("there is no {compiler}: install gcc-aarch64-linux-gnu and libc6-dev-arm64-cross")));
    }
    verdict(cargo().args(["check", "--workspace", "--locked", "--target", target]).env("CARGO_PROFILE_DEV_DEBUG", "0"), workspace)
}

fn is_there(subcommand: &str) -> bool {
    cargo().args([subcommand, "--version"]).output().is_ok_and(|output| output.status.success())
}

fn lacks(tool: &str) -> Verdict {
    Verdict::Skipped(format!("{tool} is not installed: cargo install --locked {tool}"))
}

fn output(command: &mut Command, workspace: &Workspace) -> Result<Output> {
    let program = command.get_program().to_owned();
    command.current_dir(&workspace.root).output().with_context(|| format!("cannot start {}", program.display()))
}

fn verdict(command: &mut Command, workspace: &Workspace) -> Result<Verdict> {
    Ok(judged(&output(command, workspace)?))
}

fn judged(output: &Output) -> Verdict {
    if output.status.success() {
        return Verdict::Passed;
    }
    let said = [&output.stdout[..], &output.stderr].concat();
    Verdict::Failed(String::from_utf8_lossy(&said).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of two crates in a folder of its own, which is gone with it.
    struct Small(Workspace);

    impl Small {
        fn new(name: &str, manifest: &str) -> Self {
            let root = std::env::temp_dir().join(format!("corelane-release-{}-{name}", std::process::id()));
            std::fs::create_dir_all(root.join("src")).unwrap();
            std::fs::write(root.join("src/lib.rs"), "").unwrap();
            std::fs::write(root.join("Cargo.toml"), manifest).unwrap();
            let inner = CRATE.replace("one", "two");
            std::fs::create_dir_all(root.join("two/src")).unwrap();
            std::fs::write(root.join("two/src/lib.rs"), "").unwrap();
            std::fs::write(root.join("two/Cargo.toml"), inner).unwrap();
            let locked = cargo().arg("generate-lockfile").current_dir(&root).output().unwrap();
            assert!(locked.status.success());
            Self(Workspace { root, ..Workspace::default() })
        }
    }

    impl Drop for Small {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0.root).unwrap();
        }
    }

    const CRATE: &str = "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2024\"\ndescription = \"one\"\n";

    #[test]
    fn what_no_registry_takes_fails() {
        let small = Small::new("publish", &format!("{CRATE}[dependencies]\ntwo = {{ path = \"two\" }}\n[workspace]\n"));
        let Verdict::Failed(said) = publish(&small.0).unwrap() else { panic!("a dependency has no version") };
        assert!(said.contains("version"), "{said}");
    }

    #[test]
    fn without_a_release_there_is_nothing_to_compare_with() {
        let small = Small::new("semver", &format!("{CRATE}[workspace]\n"));
        assert!(output(Command::new("git").args(["init", "-q"]), &small.0).unwrap().status.success());
        let Verdict::Skipped(reason) = semver(&small.0).unwrap() else { panic!("there was no release") };
        assert!(reason.contains("no tag v*"), "{reason}");
    }

    #[test]
    fn a_check_that_nobody_knows_is_named_with_those_there_are() {
        let error = run(&Arguments { only: vec!["licenses".to_owned()] }).unwrap_err().to_string();
        assert_eq!(error, "--only licenses: the checks are publish, licences, advisories, semver, aarch64");
    }
}
