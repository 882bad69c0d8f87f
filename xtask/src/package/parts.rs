//! What is packaged, and by which commands.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// What is packaged.
pub struct Parts<'a> {
    pub root: &'a Path,
    pub program: &'a Path,
    /// Of the program, as it says itself.
    pub version: String,
    /// As Debian calls it: amd64, arm64.
    pub architecture: String,
    pub into: &'a Path,
}

/// What a command prints, without the line's end.
pub fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}: {words}", command.get_program().display(), output.status);
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}
