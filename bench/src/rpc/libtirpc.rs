//! A server on libtirpc, in C: `bench/peers/libtirpc`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::entrants::Peer;
use crate::server::is_installed;
use crate::stage;

/// Where Debian puts its headers.
const HEADERS: &str = "/usr/include/tirpc";

/// Why it cannot take part, if it cannot.
pub fn missing() -> Option<&'static str> {
    let is_here = is_installed("cc") && Path::new(HEADERS).join("rpc/rpc.h").is_file();
    (!is_here).then_some("it is not installed: apt-get install -y gcc libc6-dev libtirpc-dev")
}

/// Compiles it in the folder `peers`, where it is installed.
///
/// # Errors
/// When the compiler refuses.
pub fn build(peers: &Path) -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let program = stage::built(peers, Peer::Libtirpc);
    let folder = program.parent().context("a program lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Werror", "-isystem", HEADERS]).arg(peers.join("libtirpc/server.c"));
    let status = command.arg("-o").arg(&program).arg("-ltirpc").status().context("cc")?;
    ensure!(status.success(), "{command:?} failed: {status}; its own message is above");
    Ok(())
}
