//! The page files of a run directory. A file's name says whose it is: PID-START-NAMESPACE-NUMBER.page, so that a stale
//! one is known for what it is without reading it, whatever version wrote it.

use crate::error::Error;
use crate::process::Liveness;
use crate::process_id::ProcessId;
use corelane_os::page::{RunDirectory, SUFFIX_PUBLISHED, SUFFIX_UNPUBLISHED};
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::{io, path::Path};

/// A page file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFile {
    /// Where it is.
    pub path: PathBuf,
    /// Who made it.
    pub process: ProcessId,
    /// False while its process still fills it, or if it died while doing so.
    pub published: bool,
    /// When it was last changed, as far as the file system noticed: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
}

/// The page files in `directory`, published or not, the newest first. Other files are passed over.
///
/// # Errors
/// [`Error::File`].
pub fn list(directory: &RunDirectory) -> Result<Vec<PageFile>, Error> {
    let failed = |source| Error::File { path: directory.path().to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory.path()).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Some((process, published)) = parse_name(&entry.file_name()) else { continue };
        // Another process may remove it between the listing and this look.
        let Ok(found) = entry.metadata() else { continue };
        files.push(PageFile { path: entry.path(), process, published, modified: modified(&found) });
    }
    files.sort_by(|a, b| (Reverse(a.modified), &a.path).cmp(&(Reverse(b.modified), &b.path)));
    Ok(files)
}

/// Removes the pages of processes that have ended, but for the newest `keep`, which stay for a look at what happened;
/// and pages that a process died over before they were complete. Those of processes about which nothing is known
/// (another container's) stay. Returns what was removed.
///
/// # Errors
/// [`Error::File`].
pub fn remove_stale(directory: &RunDirectory, keep: usize) -> Result<Vec<PathBuf>, Error> {
    let files = list(directory)?;
    let dead = files.into_iter().filter(|file| file.process.liveness() == Liveness::Dead);
    let (published, unpublished): (Vec<_>, Vec<_>) = dead.partition(|file| file.published);
    let mut removed = Vec::new();
    for file in published.into_iter().skip(keep).chain(unpublished) {
        assert!(file.path.parent() == Some(directory.path()), "only what lies in the directory is removed");
        remove(&file.path)?;
        removed.push(file.path);
    }
    Ok(removed)
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        // Somebody else was tidying up, too.
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::File { path: path.to_owned(), source }),
        _ => Ok(()),
    }
}

/// What the name of a process's page begins with.
pub(crate) fn stem(process: ProcessId) -> String {
    let ProcessId { pid, start_ticks, pid_namespace } = process;
    format!("{pid}-{start_ticks}-{pid_namespace}")
}

fn parse_name(name: &OsStr) -> Option<(ProcessId, bool)> {
    let (stem, suffix) = name.to_str()?.rsplit_once('.')?;
    let published = match suffix {
        SUFFIX_PUBLISHED => true,
        SUFFIX_UNPUBLISHED => false,
        _ => return None,
    };
    let mut parts = stem.split('-');
    let process = ProcessId {
        pid: parts.next()?.parse().ok()?,
        start_ticks: parts.next()?.parse().ok()?,
        pid_namespace: parts.next()?.parse().ok()?,
    };
    let _number: u64 = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some((process, published))
}

fn modified(found: &Metadata) -> (i64, i64) {
    (found.mtime(), found.mtime_nsec())
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn names_survive_and_others_are_passed_over() {
        let process = ProcessId { pid: 1, start_ticks: 2, pid_namespace: 3 };
        assert_eq!(parse_name(OsStr::new(&format!("{}-4.page", stem(process)))), Some((process, true)));
        assert_eq!(parse_name(OsStr::new("1-2-3-4.tmp")), Some((process, false)));
        for name in ["1-2-3.page", "1-2-3-4-5.page", "1-2-3-x.page", "1-2-3-4.log", "1-2-3-4", "", "-.page"] {
            assert_eq!(parse_name(OsStr::new(name)), None, "{name}");
        }
    }
}
