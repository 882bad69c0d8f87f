//! Where the results go: standard output, and the files that were asked for.

use super::options::Job;
use super::rounds::Results;
use crate::exit::Late;
use crate::print::print;
use anyhow::{Context, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::NamedTempFile;

/// The files, made before the run: a path that cannot be written must not cost one.
pub struct Files {
    report: Option<Output>,
    hdr: Option<BufWriter<Output>>,
}

impl Files {
    /// Makes them. What lies there before stays as it is until the run has results.
    pub fn create(job: &Job) -> Result<Self> {
        Ok(Self { report: create(job.report.as_deref())?, hdr: create(job.hdr.as_deref())?.map(BufWriter::new) })
    }

    /// Where the histogram log goes.
    pub fn hdr(&mut self) -> Option<&mut dyn Write> {
        self.hdr.as_mut().map(|file| file as &mut dyn Write)
    }

    /// Writes the results: all that can be, whatever else cannot.
    pub fn write(self, job: &Job, outcome: &Results) -> Result<()> {
        let printed = show(job, outcome);
        let written = self.report.map_or(Ok(()), |file| write_report(file, outcome));
        let logged = self.hdr.map_or(Ok(()), |file| file.into_inner().map_err(io::IntoInnerError::into_error)?.finish());
        printed.and(written).and(logged.map_err(|error| Late::of("writing the histogram log", error).into()))
    }
}

fn write_report(mut file: Output, outcome: &Results) -> Result<()> {
    let page = match outcome {
        Results::One(report) => corelane_load::html::page(report),
        Results::Two(paired) => corelane_load::html::paired_page(paired),
    };
    let written = file.write_all(page.as_bytes()).and_then(|()| file.finish());
    written.map_err(|error| Late::of("writing the HTML report", error).into())
}

fn show(job: &Job, outcome: &Results) -> Result<()> {
    let text = match (job.json, outcome) {
        (true, Results::One(report)) => serde_json::to_string_pretty(report)?,
        (true, Results::Two(paired)) => serde_json::to_string_pretty(paired)?,
        (false, Results::One(report)) => corelane_load::text::summary(report),
        (false, Results::Two(paired)) => corelane_load::text::paired(paired),
    };
    print(text)
}

/// Names of files that lie beside those that were asked for, until these are whole.
static BESIDE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes what is not whole, for a program that ends at once.
pub fn give_up() {
    for path in BESIDE.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = fs::remove_file(path);
    }
}

/// A file that was asked for.
enum Output {
    /// Written beside it, and renamed when it is whole.
    Beside { file: NamedTempFile, path: PathBuf },
    /// What is no file of its own to be replaced: a device or a pipe, or in a folder where this user makes nothing. A file is emptied when there is
    /// something to write.
    There { file: File, is_to_be_emptied: bool },
}

fn create(path: Option<&Path>) -> Result<Option<Output>> {
    path.map(|path| Output::create(path).with_context(|| format!("{} cannot be written", path.display()))).transpose()
}

impl Output {
    fn create(path: &Path) -> io::Result<Self> {
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
            (Err(_), Some(_)) => {
                Ok(Self::There { file: OpenOptions::new().write(true).open(&path)?, is_to_be_emptied: true })
            }
            (Err(error), None) => Err(error),
        }
    }

    /// It is whole: now it takes the place of what was there.
    fn finish(mut self) -> io::Result<()> {
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
    let file = tempfile::Builder::new().prefix(".corelane-").permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder)?;
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
