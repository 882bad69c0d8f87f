//! Builds what takes part in a measurement.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use xtask::workspace::{Workspace, cargo};

/// With optimisation, which everything that takes part in a measurement needs.
pub const BUILD: [&str; 3] = ["build", "--release", "--quiet"];

/// Builds the peers that are written in Rust.
pub fn build_peers(peers: &Path) -> Result<()> {
    let mut command = cargo();
    command.args(BUILD).arg("--manifest-path").arg(peers.join("Cargo.toml")).arg("--target-dir").arg(peers.join("target"));
    run_cargo(&mut command)
}

/// Builds this program as [`BUILD`] says, and becomes that.
pub fn become_optimised(workspace: &Workspace) -> Result<()> {
    build_package(workspace, env!("CARGO_PKG_NAME"))?;
    let program = workspace.target.join("release").join(env!("CARGO_BIN_NAME"));
    let error = Command::new(&program).args(std::env::args_os().skip(1)).exec();
    Err(error).with_context(|| program.display().to_string())
}

/// Builds a package of this project: its programs, and its libraries.
pub fn build_package(workspace: &Workspace, name: &str) -> Result<()> {
    run_cargo(cargo().args(BUILD).args(["--package", name]).current_dir(&workspace.root))
}

/// Runs cargo to its end.
pub fn run_cargo(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}; its own message is above");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `[profile.release]` of a manifest, from the root: of all packages, and of some.
    fn release_profile(manifest: &str) -> (toml::Value, Option<toml::Value>) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(manifest);
        let manifest: toml::Table = std::fs::read_to_string(path).expect("a manifest").parse().expect("TOML");
        let mut profile = manifest["profile"]["release"].clone();
        let apart = profile.as_table_mut().and_then(|table| table.remove("package"));
        (profile, apart)
    }

    /// Small, or as everything is.
    fn is_no_better(key: &str, value: &toml::Value) -> bool {
        match key {
            "opt-level" => matches!(value.as_str(), Some("s" | "z")) || value.as_integer() == Some(3),
            "debug" => value.as_bool() == Some(false),
            _ => false,
        }
    }

    #[test]
    fn peers_are_built_as_the_project_is() {
        let (ours, apart) = release_profile("Cargo.toml");
        assert!(ours.get("lto").is_some() && ours.get("codegen-units").is_some(), "{ours:?}");
        // None of them is small.
        assert_eq!(release_profile("bench/peers/Cargo.toml"), (ours, None));
        for (name, with) in apart.iter().filter_map(toml::Value::as_table).flatten() {
            let is_no_better = with.as_table().is_some_and(|with| with.iter().all(|(key, value)| is_no_better(key, value)));
            assert!(is_no_better, "{name} is built better than the peers are");
        }
    }
}
