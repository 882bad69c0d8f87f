//! A file that was asked for: what lies there before stays until all that was to be written is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::NamedTempFile;

/// Names of files that lie beside those that were asked for, until these are whole.
static BESIDE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes what is not whole, for a program that ends at once.
pub fn give_up() {
    for path in BESIDE.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = fs::remove_file(path);
    }
}

/// A file that was asked for.
pub enum Output {
    /// Written beside it, and renamed when it is whole.
    Beside { file: NamedTempFile, path: PathBuf },
    /// What is no file of its own to be replaced: a device or a pipe, or in a folder where this user makes nothing. A file is emptied when there is
    /// something to write.
    There { file: File, is_to_be_emptied: bool },
}

impl Output {
    /// Begins it.
    ///
    /// # Errors
    /// What the system says: a path that cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        // A link stays one.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let there = fs::metadata(&path).ok();
        if let Some(found) = &there {
            // It says whether this user may.
            let file = OpenOptions::new().write(true).open(&path)?;
            if !found.is_file() {
                return Ok(Self::There { file, is_to_be_emptied: false });
            }
        }
        match (beside(&path, there.as_ref()), there) {
            (Ok(file), _) => {
                BESIDE.lock().unwrap_or_else(PoisonError::into_inner).push(file.path().to_owned());
                Ok(Self::Beside { file, path })
            }
            (Err(_), Some(_)) => Ok(Self::There { file: OpenOptions::new().write(true).open(&path)?, is_to_be_emptied: true }),
            (Err(error), None) => Err(error),
        }
    }

    /// It is whole: now it takes the place of what was there.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self {
            Self::Beside { file, path } => file.persist(path).map(drop).map_err(|error| error.error),
            Self::There { .. } => Ok(()),
        }
    }
}

/// A new file in the folder of `path`, for whom that one is, or a new one would be.
fn beside(path: &Path, there: Option<&fs::Metadata>) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The system takes from these what this user's umask takes (umask(2)).
    let file =
        tempfile::Builder::new().prefix(".corelane-").permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder)?;
    if let Some(found) = there {
        file.as_file().set_permissions(found.permissions())?;
    }
    Ok(file)
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Beside { file, .. } => file.write(bytes),
            Self::There { file, is_to_be_emptied } => {
                if std::mem::take(is_to_be_emptied) {
                    file.set_len(0)?;
                }
                file.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Beside { file, .. } => file.flush(),
            Self::There { file, .. } => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_all_is_written_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("report"), folder.path().join("link"));
        fs::write(&path, "before").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let read = || fs::read_to_string(&path).unwrap();
        let mut given_up = Output::create(&path).unwrap();
        given_up.write_all(b"half").unwrap();
        assert_eq!(read(), "before");
        drop(given_up);
        let mut output = Output::create(&link).unwrap();
        output.write_all(b"whole").unwrap();
        assert_eq!(read(), "before");
        output.finish().unwrap();
        assert_eq!((read(), fs::read_dir(folder.path()).unwrap().count()), ("whole".to_owned(), 2));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "a link stays one");
        assert!(Output::create(&folder.path().join("none/report")).is_err());
        let mut device = Output::create(Path::new("/dev/null")).unwrap();
        device.write_all(b"lost").unwrap();
        device.finish().unwrap();
    }
}
