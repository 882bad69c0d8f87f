//! How files are opened: with what flags, what links are followed, and what is made of what was found. Every call of this may wait for who serves the file system, so helpers make them.

use crate::answer::Answer;
use crate::components::{self, How};
use crate::open_file::OpenFile;
use corelane_os::{errno, watches};
use corelane_seam::{Fault, FileFacts, FileKind, OpenOptions, Reason};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, retry_on_intr};
use std::fs::{File, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// How to open with `options`, beneath a directory or anywhere.
///
/// # Errors
/// `EINVAL` for options that contradict each other.
pub(crate) fn how(options: OpenOptions, beneath: bool) -> Result<How, Errno> {
    if !options.are_possible() {
        return Err(Errno::INVAL);
    }
    let OpenOptions { read, write, create, truncate, directory, no_links, .. } = options;
    // A pipe is not waited for until it has another end.
    let mut flags = OFlags::CLOEXEC | OFlags::NONBLOCK | if read { OFlags::RDONLY } else { OFlags::WRONLY };
    flags.set(OFlags::RDWR, read && write);
    flags.set(OFlags::CREATE, create);
    flags.set(OFlags::TRUNC, truncate);
    flags.set(OFlags::DIRECTORY, directory);
    let mut resolve = ResolveFlags::empty();
    resolve.set(ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS, beneath);
    resolve.set(ResolveFlags::NO_SYMLINKS, no_links);
    // With a mode for a file that is not to be made, openat2(2) fails.
    let mode = if create { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
    Ok(How { flags, mode, resolve })
}

/// Opens a file. Names are resolved by openat2(2), unless the system is known to refuse that.
///
/// # Errors
/// The system's.
pub(crate) fn open(beneath: Option<&OpenFile>, path: &Path, options: OpenOptions, has_openat2: bool) -> std::io::Result<Answer> {
    let how = how(options, beneath.is_some())?;
    let from = beneath.map_or(CWD, |directory| directory.file.as_fd());
    // A filter of system calls may know openat(2) alone.
    let made = retry_on_intr(|| match how {
        How { flags, mode, resolve } if resolve.is_empty() => openat(from, path, flags, mode),
        How { flags, mode, resolve } if has_openat2 => openat2(from, path, flags, mode, resolve),
        how => components::open(from, path, how),
    });
    match made {
        Ok(descriptor) => opened(descriptor.into(), options),
        Err(error) => Ok(Answer::Failed(fault(error.raw_os_error()))),
    }
}

/// Whether the system lets openat2(2) resolve a name (since Linux 5.6; filters of containers did not know it until 2021).
pub(crate) fn has_openat2() -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    !matches!(openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS), Err(Errno::NOSYS | Errno::PERM))
}

/// What it means that opening failed. With some numbers it does so because there is something else than a file: a pipe without a reader, a
/// device that is not there, a socket; a directory that is to be written.
fn fault(number: i32) -> Fault {
    match number {
        libc::ENXIO | libc::ENODEV | libc::EISDIR => NOT_A_FILE,
        _ => errno::fault(number),
    }
}

pub(crate) const NOT_A_FILE: Fault = Fault::of(Reason::NotAFile);

/// What was opened without waiting, if it is what was asked for. From now on its calls wait: for a local file that is the disk alone.
fn opened(file: File, options: OpenOptions) -> std::io::Result<Answer> {
    let facts = facts(&file.metadata()?).filter(|facts| (facts.kind == FileKind::Directory) == options.directory);
    let Some(facts) = facts else { return Ok(Answer::Failed(NOT_A_FILE)) };
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    let is_far = !watches::is_local(file.as_fd());
    Ok(Answer::Opened { file: OpenFile { file, is_far }, facts: facts.far(is_far) })
}

/// What a file or a directory is; none for anything else.
pub(crate) fn facts(metadata: &Metadata) -> Option<FileFacts> {
    let modified = modified(metadata);
    let facts = match (metadata.is_dir(), metadata.is_file()) {
        (true, _) => FileFacts::of_directory(modified),
        (_, true) => FileFacts::of_file(metadata.len(), modified),
        _ => return None,
    };
    let (changed, names) = (time(metadata.ctime(), metadata.ctime_nsec()), metadata.nlink().try_into().unwrap_or(u32::MAX));
    Some(facts.numbered(metadata.dev(), metadata.ino()).changed_at(changed).named(names))
}

fn modified(metadata: &Metadata) -> Duration {
    time(metadata.mtime(), metadata.mtime_nsec())
}

/// A file system may say any time.
fn time(seconds: i64, nanoseconds: i64) -> Duration {
    match (u64::try_from(seconds), u32::try_from(nanoseconds)) {
        (Ok(seconds), Ok(nanoseconds)) => Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds.into()),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_contradicts_itself_is_refused() {
        let read = OpenOptions::new().read(true);
        let impossible = [OpenOptions::new(), read.truncate(true), read.create(true), read.write(true).directory(true)];
        assert!(impossible.iter().all(|&options| how(options, false).is_err()));
        assert!(how(OpenOptions::new().write(true).directory(true), false).is_err());
    }

    #[test]
    fn the_time_of_the_last_change_is_told() {
        let path = std::env::temp_dir().join(format!("corelane-opening-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        for (set, told) in [(Duration::new(1_234, 567), Duration::new(1_234, 567)), (Duration::ZERO, Duration::ZERO)] {
            file.set_modified(std::time::UNIX_EPOCH + set).unwrap();
            let metadata = file.metadata().unwrap();
            let now = time(metadata.ctime(), metadata.ctime_nsec());
            let expected = FileFacts::of_file(0, told).numbered(metadata.dev(), metadata.ino()).changed_at(now);
            let answer = open(None, &path, OpenOptions::new().read(true), true).unwrap();
            assert!(now > Duration::from_secs(1_000_000_000), "when it changed is nobody's to set");
            assert!(matches!(answer, Answer::Opened { facts, .. } if facts == expected));
        }
        file.set_modified(std::time::UNIX_EPOCH - Duration::from_millis(1)).unwrap();
        let answer = open(None, &path, OpenOptions::new().read(true), true).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(answer, Answer::Opened { facts, .. } if facts.modified.is_zero()));
    }

    #[test]
    fn flags_are_those_of_the_options() {
        let always = OFlags::CLOEXEC | OFlags::NONBLOCK;
        let read = OpenOptions::new().read(true);
        assert_eq!(how(read, false).unwrap().flags, always | OFlags::RDONLY);
        assert_eq!(how(OpenOptions::new().write(true), false).unwrap().flags, always | OFlags::WRONLY);
        let made = how(read.write(true).create(true).truncate(true), true).unwrap();
        assert_eq!(made.flags, always | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC);
        assert_eq!(made.mode.bits(), 0o600);
        assert_eq!(how(read.directory(true), false).unwrap().flags, always | OFlags::DIRECTORY);
    }
}
