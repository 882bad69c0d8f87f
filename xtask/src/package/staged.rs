//! A tree of files as it is to be on a machine.

use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder that stands for `/`.
pub struct Staged(PathBuf);

impl Staged {
    /// An empty one; what was there before is gone.
    pub fn new(folder: PathBuf) -> Result<Self> {
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot empty {}", folder.display()));
            }
            _ => {}
        }
        let staged = Self(folder);
        staged.folder("", 0o755)?;
        Ok(staged)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a folder, and those above it.
    pub fn folder(&self, place: &str, mode: u32) -> Result<PathBuf> {
        let path = self.0.join(place);
        let made = std::fs::create_dir_all(&path).and_then(|()| allow(&path, mode));
        made.with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    /// Writes a file.
    pub fn write(&self, place: &str, content: &[u8], mode: u32) -> Result<()> {
        let path = self.0.join(place);
        if let Some((folder, _)) = place.rsplit_once('/') {
            self.folder(folder, 0o755)?;
        }
        let written = std::fs::write(&path, content).and_then(|()| allow(&path, mode));
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Copies a file, through links.
    pub fn copy(&self, from: &Path, place: &str, mode: u32) -> Result<()> {
        let content = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.write(place, &content, mode)
    }
}

/// Whatever the file mode mask is.
fn allow(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}
