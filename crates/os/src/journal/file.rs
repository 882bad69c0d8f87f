//! The file behind a journal: opened, looked after, written to.

use crate::report;
use corelane_seam::{Code, Level, Record};
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The code of a log that cannot be written (docs/messages.md, `Degraded::LogNotWritten` of the facade).
pub(super) const LOG_NOT_WRITTEN: Code = Code::new("CL-0024");

/// How often it is looked whether the name is still that of the file.
const LOOKS_APART: Duration = Duration::from_secs(1);
/// How often it is said that it cannot be written.
const WORDS_APART: Duration = Duration::from_secs(60);

pub(super) struct LogFile {
    path: PathBuf,
    /// None as long as it is to be made.
    file: Option<File>,
    looked: Instant,
    /// The last write has ended within a line.
    is_torn: bool,
    /// When it was last said that something went wrong.
    said: Option<Instant>,
    /// Lines that were lost and not spoken of yet.
    lost: u64,
}

impl LogFile {
    /// Opens the file if it is there, and else looks whether it may be made: whoever only asks writes nothing.
    pub fn find(path: PathBuf) -> io::Result<Self> {
        let file = match open(&path, false) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                may_make(&path)?;
                None
            }
            opened => Some(opened?),
        };
        Ok(Self { path, file, looked: Instant::now(), is_torn: false, said: None, lost: 0 })
    }

    /// Makes the file if it is still to be made.
    pub fn make(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(open(&self.path, true)?);
        }
        Ok(())
    }

    /// Opens the file anew if its name has gone to another one, or to none: not more often than once a second unless `is_asked`.
    pub fn look(&mut self, is_asked: bool) {
        let is_due = is_asked || self.file.is_none() || self.looked.elapsed() >= LOOKS_APART;
        if !is_due {
            return;
        }
        self.looked = Instant::now();
        if !is_asked && self.has_its_name() {
            return;
        }
        match open(&self.path, true) {
            Ok(file) => (self.file, self.is_torn) = (Some(file), false),
            Err(error) => self.complain(&error),
        }
    }

    fn has_its_name(&self) -> bool {
        let of = |facts: fs::Metadata| (facts.dev(), facts.ino());
        let open = self.file.as_ref().and_then(|file| file.metadata().ok());
        open.is_some_and(|open| fs::metadata(&self.path).is_ok_and(|named| of(named) == of(open)))
    }

    /// Writes lines that lie in two pieces; returns how many were lost.
    pub fn write(&mut self, front: &[u8], back: &[u8]) -> u64 {
        let bytes = front.len() + back.len();
        if bytes == 0 {
            return 0;
        }
        let (mut written, mut error) = (0, self.end_torn_line().err());
        while error.is_none() && written < bytes {
            let (first, second) = (&front[written.min(front.len())..], &back[written.saturating_sub(front.len())..]);
            match self.file().and_then(|mut file| file.write_vectored(&[IoSlice::new(first), IoSlice::new(second)])) {
                Ok(0) => error = Some(ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => error = Some(why),
            }
        }
        let Some(error) = error else { return 0 };
        let at = |place: usize| if place < front.len() { front[place] } else { back[place - front.len()] };
        self.is_torn = if written > 0 { at(written - 1) != b'\n' } else { self.is_torn };
        let lost = (written..bytes).filter(|&place| at(place) == b'\n').count() as u64;
        assert!(lost > 0, "the last byte of all is a line's end, and was not written");
        self.lost += lost;
        self.complain(&error);
        lost
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Ends a line of which only a part was written.
    fn end_torn_line(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file()?.write_all(b"\n")?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Says what is wrong, now and then.
    fn complain(&mut self, error: &io::Error) {
        if self.said.is_some_and(|said| said.elapsed() < WORDS_APART) {
            return;
        }
        self.said = Some(Instant::now());
        let (path, lost) = (self.path.display(), std::mem::take(&mut self.lost));
        let lost = said_of(lost);
        let words = format!("the log {path} could not be written or opened: {error}; {lost} since this was last said");
        report::line(Record::new(Level::Warn, words).with_code(LOG_NOT_WRITTEN));
    }
}

fn said_of(lost: u64) -> String {
    if lost == 1 { "1 line was lost".to_owned() } else { format!("{lost} lines were lost") }
}

/// Whether a file that is not there may be made by this user.
///
/// # Errors
/// Why not.
fn may_make(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(()); // a link to what is not there: whether that can be made shows when it is
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        // An old filter of system calls knows no faccessat2(2): then it shows when the file is made.
        Ok(()) | Err(Errno::NOSYS | Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Without waiting: a pipe that nobody reads is refused (fifo(7)). Writing may wait for its reader: the thread that does so serves nobody.
fn open(path: &Path, makes: bool) -> io::Result<File> {
    if let Some(own) = own_socket(path) {
        return own;
    }
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().append(true).create(makes).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(number) if number == Errno::NXIO.raw_os_error() => {
            io::Error::new(error.kind(), "nobody reads this pipe: start its reader first")
        }
        _ => error,
    })?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// A socket, if the name is one's: that of standard output or error, which a service manager may have made (systemd.exec(5), `StandardOutput=journal`), is written to by
/// its descriptor, for no name of a socket can be opened (unix(7)).
fn own_socket(path: &Path) -> Option<io::Result<File>> {
    let named = fs::metadata(path).ok().filter(|facts| facts.file_type().is_socket())?;
    let own = [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()];
    let is_named = |file: &File| file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (named.dev(), named.ino()));
    let found = own.into_iter().flatten().map(File::from).find(is_named);
    Some(found.ok_or_else(|| {
        let words = "this is a socket, and neither standard output's nor standard error's: name a file, a pipe, or /dev/stdout";
        io::Error::new(ErrorKind::Unsupported, words)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, mkfifoat};
    use std::io::{Read, pipe};
    use std::os::fd::OwnedFd;

    #[test]
    fn a_line_that_was_torn_is_ended_before_the_next() {
        let (mut read, write) = pipe().unwrap();
        fcntl_setfl(&write, OFlags::NONBLOCK).unwrap();
        let mut log = LogFile { file: Some(File::from(OwnedFd::from(write))), ..LogFile::find("/dev/null".into()).unwrap() };
        let line = [&[b'x'; 9_999][..], b"\n"].concat();
        // A pipe takes 64 KiB, so the seventh line is torn.
        assert_eq!(log.write(&line.repeat(3), &line.repeat(5)), 2);
        let mut text = vec![0; 65_536];
        read.read_exact(&mut text).unwrap();
        assert_eq!(log.write(b"a\n", b"b\n"), 0);
        drop(log);
        read.read_to_end(&mut text).unwrap();
        let lines: Vec<usize> = text.split(|&byte| byte == b'\n').map(<[u8]>::len).collect();
        assert_eq!(lines, [9_999, 9_999, 9_999, 9_999, 9_999, 9_999, 5_536, 1, 1, 0]);
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_refused_and_waited_for_by_nobody() {
        let path = std::env::temp_dir().join(format!("corelane-journal-{}-pipe", std::process::id()));
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let refused = LogFile::find(path.clone()).map(drop).unwrap_err();
        assert!(refused.to_string().contains("nobody reads this pipe"), "{refused}");
        let mut reader = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path).unwrap();
        let mut log = LogFile::find(path.clone()).unwrap();
        assert_eq!((log.write(b"a\n", b""), reader.read(&mut [0; 10]).unwrap()), (0, 2));
        // Opened anew, it is refused without waiting as well, and the old one is kept.
        drop(reader);
        log.look(true);
        assert_eq!(log.write(b"a\n", b""), 1);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_not_there_is_made_when_it_is_to_be_written_and_not_before() {
        let directory = std::env::temp_dir().join(format!("corelane-journal-{}-made", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("log");
        let mut log = LogFile::find(path.clone()).unwrap();
        assert!(!path.exists());
        log.make().unwrap();
        assert_eq!((log.write(b"a\n", b""), fs::read(&path).unwrap()), (0, b"a\n".to_vec()));
        let beneath_nothing = LogFile::find(directory.join("none/log")).map(drop).unwrap_err();
        assert_eq!(beneath_nothing.kind(), ErrorKind::NotFound);
        assert!(LogFile::find(path.join("log")).is_err() && LogFile::find(directory.clone()).is_err());
        std::os::unix::fs::symlink("nothing", directory.join("link")).unwrap();
        LogFile::find(directory.join("link")).unwrap().make().unwrap();
        assert!(directory.join("nothing").exists());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn one_line_is_no_lines() {
        assert_eq!([0, 1, 2].map(said_of), ["0 lines were lost", "1 line was lost", "2 lines were lost"]);
    }
}
