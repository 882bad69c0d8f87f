//! `cargo xtask package`: what is installed on other machines, a Debian package and the root file system of a container.
//!
//! ```text
//! program --generate--> manual pages, completions --+
//! packaging/ (unit, maintainer scripts) ------------+--> staged tree --dpkg-deb--> corelane_VERSION_ARCH.deb
//! program --ldd--> the libraries that it loads -----> tree ----------tar---------> corelane-VERSION-ARCH-rootfs.tar
//! ```

mod debian;
mod image;
mod parts;
mod staged;

use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail, ensure};
use parts::{Parts, said};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Options of `cargo xtask package`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The program to package; by default it is built as a release
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The folder that the packages go to; by default target/package
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

/// Writes both packages, and prints where they are.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let program = match &arguments.program {
        Some(program) => program.canonicalize().with_context(|| format!("--program {}", program.display()))?,
        None => built(&workspace)?,
    };
    let into = arguments.into.clone().unwrap_or_else(|| workspace.target.join("package"));
    std::fs::create_dir_all(&into).with_context(|| format!("cannot make {}", into.display()))?;
    let packed = into.join("corelane");
    // Function names stay, for a report of what went wrong has them.
    said(Command::new("strip").arg("--strip-debug").arg("-o").arg(&packed).arg(&program))?;
    let parts = Parts {
        root: &workspace.root,
        version: version(&packed)?,
        program: &packed,
        architecture: said(Command::new("dpkg").arg("--print-architecture"))?,
        into: &into,
    };
    println!("{}", debian::package(&parts)?.display());
    println!("{}", image::package(&parts)?.display());
    Ok(ExitCode::SUCCESS)
}

fn built(workspace: &Workspace) -> Result<PathBuf> {
    let status = cargo().args(["build", "--release", "--locked", "-p", "corelane-cli"]).status().context("cannot start cargo")?;
    ensure!(status.success(), "the program was not built: {status}");
    Ok(workspace.target.join("release/corelane"))
}

/// The version that the program says it has.
fn version(program: &Path) -> Result<String> {
    let line = said(Command::new(program).arg("--version"))?;
    match line.split_once(' ') {
        Some(("corelane", version)) => Ok(version.to_owned()),
        _ => bail!("{} is not the corelane program: it says {line:?}", program.display()),
    }
}
