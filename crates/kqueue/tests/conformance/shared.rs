//! The shared library, linked as a user does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Links the shared library under the name `soname` into `folder`, from the static library beside this program; its path.
pub fn library(folder: &Path, soname: &str) -> PathBuf {
    let output = folder.join(soname);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("shared.sh");
    let status = Command::new("sh").arg(script).args([&archive(), &output]).arg(soname).status().expect("sh is there");
    assert!(status.success(), "the shared library links");
    output
}

/// The static library that belongs to this program: the newest, where several builds lie side by side.
pub fn archive() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let folder = program.parent().expect("it lies in a folder");
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let named = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("libcorelane_kqueue") && name.ends_with(".a")
    };
    let changed = |path: &PathBuf| path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let archives = entries.flatten().map(|entry| entry.path()).filter(named);
    archives.max_by_key(changed).expect("the static library is built with this program")
}
