//! The model file system: files in memory, directories, links. One for the whole world; no permissions. A path that is not from the root
//! starts there all the same.

use crate::paths::{NOT_A_DIRECTORY, NOT_FOUND, Name, Names, Way};
use corelane_seam::{Fault, FileFacts, FileKind, FileName, FileOutcome, OpenOptions, Reason};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most bytes of one file: 1 GiB.
const FILE_BYTES_MAX: u64 = 1 << 30;

const TOO_LARGE: Fault = Fault { reason: Reason::Other, number: 27 };
const IMPOSSIBLE: Fault = Fault { reason: Reason::Other, number: 22 };
const IS_A_DIRECTORY: Fault = Fault { reason: Reason::Other, number: 21 };

pub(crate) struct Files {
    names: Names,
    contents: Vec<Content>,
}

/// What a file or a directory is, whatever its name.
struct Content {
    bytes: Vec<u8>,
    /// Its name, if it is a directory: those never change.
    directory: Option<PathBuf>,
    /// Nanoseconds of the clock.
    modified: u64,
}

impl Files {
    pub(crate) fn new() -> Self {
        let mut files = Self { names: Names::new(), contents: Vec::new() };
        files.make_directory(Path::new("/"), 0);
        files
    }

    /// Names the contents of `path`, beneath a directory or anywhere, as openat2(2) would.
    pub(crate) fn open(&mut self, now: u64, beneath: Option<usize>, path: &Path, options: OpenOptions) -> Result<usize, Fault> {
        if !options.are_possible() {
            return Err(IMPOSSIBLE);
        }
        let from = match beneath.map(|directory| &self.contents[directory].directory) {
            None => Path::new("/"),
            Some(Some(directory)) => directory,
            Some(None) => return Err(NOT_A_DIRECTORY),
        };
        let way = Way { from, beneath: beneath.is_some(), no_links: options.no_links };
        let path = way.resolve(&self.names, path)?;
        let content = match (self.names.get(&path), options.directory) {
            (Some(&Name::File(content)), false) | (Some(&Name::Directory(content)), true) => content,
            (Some(Name::Directory(_)), false) => return Err(Fault::of(Reason::NotAFile)),
            (Some(Name::File(_)), true) => return Err(NOT_A_DIRECTORY),
            (Some(Name::Link { .. }), _) => unreachable!("links were followed"),
            (None, _) if options.create => self.create(path, now),
            (None, _) => return Err(NOT_FOUND),
        };
        if options.truncate {
            self.contents[content].bytes.clear();
            self.contents[content].modified = now;
        }
        Ok(content)
    }

    fn create(&mut self, path: PathBuf, now: u64) -> usize {
        self.contents.push(Content { bytes: Vec::new(), directory: None, modified: now });
        self.names.insert(path, Name::File(self.contents.len() - 1));
        self.contents.len() - 1
    }

    /// The test's way to make a file, and the directories where it lies.
    pub(crate) fn put(&mut self, path: &Path, bytes: &[u8], now: u64) {
        let path = self.place(path, now);
        let content = match self.names.get(&path) {
            Some(Name::File(content)) => *content,
            None => self.create(path, now),
            Some(_) => panic!("{} is no file", path.display()),
        };
        self.contents[content].bytes = bytes.to_vec();
        self.contents[content].modified = now;
    }

    /// The test's way to make a directory, and those where it lies.
    pub(crate) fn make_directory(&mut self, path: &Path, now: u64) {
        let path = self.place(path, now);
        match self.names.get(&path) {
            Some(Name::Directory(_)) => return,
            Some(_) => panic!("{} is no directory", path.display()),
            None => {}
        }
        self.contents.push(Content { bytes: Vec::new(), directory: Some(path.clone()), modified: now });
        self.names.insert(path, Name::Directory(self.contents.len() - 1));
    }

    /// The test's way to make a link.
    pub(crate) fn make_link(&mut self, path: &Path, to: &Path, magic: bool, now: u64) {
        let path = self.place(path, now);
        let before = self.names.insert(path, Name::Link { to: to.to_path_buf(), magic });
        assert!(before.is_none(), "a link takes no other's name");
    }

    /// The test's way to take the name of a file or a link away. Who has the file open keeps it.
    pub(crate) fn remove(&mut self, path: &Path) {
        let removed = self.names.remove(&Path::new("/").join(path));
        assert!(!matches!(removed, None | Some(Name::Directory(_))), "{} is no file", path.display());
    }

    /// The name of what lies at `path`, with the directories on the way made.
    fn place(&mut self, path: &Path, now: u64) -> PathBuf {
        let path = Path::new("/").join(path);
        if let Some(parent) = path.parent() {
            self.make_directory(parent, now);
        }
        path
    }

    /// The test's way to read a file.
    pub(crate) fn get(&self, path: &Path) -> Option<&[u8]> {
        match self.names.get(&Path::new("/").join(path)) {
            Some(&Name::File(content)) => Some(&self.contents[content].bytes),
            _ => None,
        }
    }

    pub(crate) fn facts(&self, content: usize) -> FileFacts {
        let Content { bytes, directory, modified } = &self.contents[content];
        let modified = Duration::from_nanos(*modified);
        let facts = match directory {
            Some(_) => FileFacts::of_directory(modified),
            None => FileFacts::of_file(bytes.len() as u64, modified),
        };
        facts.numbered(content as u64 + 1)
    }

    /// What a directory holds.
    pub(crate) fn list(&self, content: usize, most: usize) -> Result<FileOutcome, Fault> {
        let directory = self.contents[content].directory.as_ref().ok_or(NOT_A_DIRECTORY)?;
        let inside = self.names.iter().filter(|(path, _)| path.parent() == Some(directory));
        let mut names = inside.filter_map(|(path, name)| {
            let kind = match name {
                Name::File(_) => Some(FileKind::Regular),
                Name::Directory(_) => Some(FileKind::Directory),
                Name::Link { .. } => None,
            };
            Some(FileName { name: path.file_name()?.to_owned(), kind })
        });
        let told = names.by_ref().take(most).collect();
        Ok(FileOutcome::Listed { names: told, is_whole: names.next().is_none() })
    }

    /// Why it cannot be read.
    pub(crate) fn unreadable(&self, content: usize) -> Option<Fault> {
        self.contents[content].directory.is_some().then_some(IS_A_DIRECTORY)
    }

    /// The bytes from `offset`, at most `most`.
    pub(crate) fn slice(&self, content: usize, offset: u64, most: u64) -> &[u8] {
        let bytes = &self.contents[content].bytes;
        let start = offset.min(bytes.len() as u64);
        let end = start.saturating_add(most).min(bytes.len() as u64);
        &bytes[start as usize..end as usize]
    }

    /// Writes at `offset`; a gap before it reads as zeros.
    pub(crate) fn write(&mut self, now: u64, content: usize, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        let end = offset.checked_add(bytes.len() as u64).filter(|&end| end <= FILE_BYTES_MAX).ok_or(TOO_LARGE)?;
        let content = &mut self.contents[content];
        assert!(content.directory.is_none(), "a directory is not open for writing");
        content.modified = now;
        if content.bytes.len() < end as usize {
            content.bytes.resize(end as usize, 0);
        }
        content.bytes[offset as usize..end as usize].copy_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_as_asked() {
        let mut files = Files::new();
        let read = OpenOptions::new().read(true);
        assert_eq!(files.open(7, None, Path::new("a"), read), Err(NOT_FOUND));
        let made = files.open(7, None, Path::new("a"), read.create(true).write(true)).unwrap();
        files.write(8, made, 2, b"xy").unwrap();
        assert_eq!(files.get(Path::new("a")), Some(&b"\0\0xy"[..]));
        assert_eq!(
            (files.open(7, None, Path::new("a"), read), files.facts(made)),
            (Ok(made), FileFacts::of_file(4, Duration::from_nanos(8)).numbered(2))
        );
        files.open(7, None, Path::new("a"), read.write(true).truncate(true)).unwrap();
        assert_eq!(files.facts(made), FileFacts::of_file(0, Duration::from_nanos(7)).numbered(2));
        assert_eq!(files.open(7, None, Path::new("b/a"), read.write(true).create(true)), Err(NOT_FOUND));
        assert_eq!(files.open(7, None, Path::new("a/b"), read.write(true).create(true)), Err(NOT_A_DIRECTORY));
    }

    #[test]
    fn offsets_out_of_range_are_harmless() {
        let mut files = Files::new();
        files.put(Path::new("a"), b"abc", 0);
        let content = files.open(7, None, Path::new("a"), OpenOptions::new().read(true)).unwrap();
        assert_eq!(files.slice(content, 1, u64::MAX), b"bc");
        assert_eq!(files.slice(content, u64::MAX, 1), b"");
        assert_eq!(files.write(0, content, u64::MAX, b"x"), Err(TOO_LARGE));
        assert_eq!(files.write(0, content, FILE_BYTES_MAX, b"x"), Err(TOO_LARGE));
    }
}
