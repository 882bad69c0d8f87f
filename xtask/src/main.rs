//! The project's own scripts: `cargo xtask test` runs every check, `cargo xtask tidy` the house rules alone,
//! `cargo xtask bench` measures against others, `cargo xtask package` makes what is installed elsewhere, `cargo xtask release` checks what must hold before a
//! release, and `cargo xtask rig` builds networks to try things in.
#![forbid(unsafe_code)]

mod package;
mod release;
mod test;
mod tidy;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use xtask::{rig, workspace};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own scripts")]
enum Command {
    /// Run every check and test, each section within its share of 33 minutes, all within 36
    Test(test::Arguments),
    /// Check the house rules on every file that git would keep
    Tidy(tidy::Arguments),
    /// Measure services against peers, in paired rounds
    #[command(disable_help_flag = true)]
    Bench {
        /// The arguments of the package `corelane-bench`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Write a Debian package, and the root file system of a container
    Package(package::Arguments),
    /// Check what must hold before a release: publishing, licences, advisories, compatibility, the other architecture
    Release(release::Arguments),
    /// Build a network in namespaces, run a command in it, and take it down
    Rig(rig::Arguments),
}

fn main() -> anyhow::Result<ExitCode> {
    match Command::parse() {
        Command::Test(arguments) => test::run(&arguments),
        Command::Tidy(arguments) => tidy::run(&arguments),
        Command::Bench { words } => bench(&words),
        Command::Package(arguments) => package::run(&arguments),
        Command::Release(arguments) => release::run(&arguments),
        Command::Rig(arguments) => rig::run(&arguments),
    }
}

/// Becomes the program that measures. It is a package of its own: what runs tests need not wait for the services that it measures.
fn bench(words: &[OsString]) -> anyhow::Result<ExitCode> {
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "--package", "corelane-bench", "--"]).args(words);
    Err(command.exec()).context("cannot start cargo")
}
