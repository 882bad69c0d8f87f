//! The model file system: files in memory, directories, links. One for the whole world; what nobody may open is closed to all. A path that is not from the root
//! starts there all the same.

use crate::paths::{NOT_A_DIRECTORY, NOT_FOUND, Name, Names, Way};
use corelane_seam::{Fault, FileFacts, FileKind, FileName, FileOutcome, OpenOptions, Reason};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most bytes of one file: 1 GiB.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The number of the one file system.
const DEVICE: u64 = 1;

const FORBIDDEN: Fault = Fault { reason: Reason::Permission, number: 13 };
const TOO_LARGE: Fault = Fault { reason: Reason::Other, number: 27 };
const IMPOSSIBLE: Fault = Fault { reason: Reason::Other, number: 22 };
const IS_A_DIRECTORY: Fault = Fault { reason: Reason::Other, number: 21 };

pub(crate) struct Files {
    names: Names,
    contents: Vec<Content>,
    /// Directories in which something has happened, or to which, and nobody was told of it yet.
    touched: BTreeSet<usize>,
}

/// What a file or a directory is, whatever its name.
struct Content {
    bytes: Vec<u8>,
    /// Its name, if it is a directory.
    directory: Option<PathBuf>,
    /// Nanoseconds of the clock.
    modified: u64,
    /// The same, whatever has changed.
    changed: u64,
    /// How many names it has.
    names: u32,
    /// Nobody may open it.
    is_closed: bool,
}

impl Content {
    fn new(directory: Option<PathBuf>, now: u64) -> Self {
        Self { bytes: Vec::new(), directory, modified: now, changed: now, names: 1, is_closed: false }
    }
}

impl Files {
    pub(crate) fn new() -> Self {
        let mut files = Self { names: Names::new(), contents: Vec::new(), touched: BTreeSet::new() };
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
        if self.contents[content].is_closed {
            return Err(FORBIDDEN);
        }
        if options.truncate {
            self.contents[content].bytes.clear();
            self.note_written(content, now);
        }
        Ok(content)
    }

    fn create(&mut self, path: PathBuf, now: u64) -> usize {
        self.contents.push(Content::new(None, now));
        self.touch(&path);
        self.names.insert(path, Name::File(self.contents.len() - 1));
        self.contents.len() - 1
    }

    /// Something has happened to a name.
    fn touch(&mut self, path: &Path) {
        let parent = path.parent().and_then(|parent| self.names.get(parent));
        if let Some(Name::Directory(directory)) = parent {
            self.touched.insert(*directory);
        }
    }

    /// Something has happened to what has this name, which is told where the name is: nobody hears of it at the file's other names (inotify(7)).
    fn changed_at(&mut self, path: &Path, content: usize, now: u64) {
        self.contents[content].changed = now;
        self.touch(path);
        self.touched.extend(self.is_directory(content).then_some(content));
    }

    /// It was written to by who has it open; that is told where its first name is.
    fn note_written(&mut self, content: usize, now: u64) {
        self.contents[content].modified = now;
        let is_it = |name: &Name| matches!(name, Name::File(of) if *of == content);
        let path = self.names.iter().find(|(_, name)| is_it(name)).map(|(path, _)| path.clone());
        path.into_iter().for_each(|path| self.changed_at(&path, content, now));
    }

    /// Directories in which something has happened since this was asked last.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.touched)
    }

    pub(crate) fn is_directory(&self, content: usize) -> bool {
        self.contents[content].directory.is_some()
    }

    /// The test's way to make a file, and the directories where it lies.
    pub(crate) fn put(&mut self, path: &Path, bytes: &[u8], now: u64) {
        let path = self.place(path, now);
        let content = match self.names.get(&path) {
            Some(Name::File(content)) => *content,
            None => self.create(path.clone(), now),
            Some(_) => panic!("{} is no file", path.display()),
        };
        (self.contents[content].bytes, self.contents[content].modified) = (bytes.to_vec(), now);
        self.changed_at(&path, content, now);
    }

    /// The test's way to give a file another time of its last change, as its owner may.
    pub(crate) fn set_modified(&mut self, path: &Path, modified: u64, now: u64) {
        let (path, content) = self.there(path);
        self.contents[content].modified = modified;
        self.changed_at(&path, content, now);
    }

    /// The test's way to have nobody open a file or a directory, or everybody.
    pub(crate) fn close(&mut self, path: &Path, is_closed: bool, now: u64) {
        let (path, content) = self.there(path);
        self.contents[content].is_closed = is_closed;
        self.changed_at(&path, content, now);
    }

    fn there(&self, path: &Path) -> (PathBuf, usize) {
        let path = Path::new("/").join(path);
        match self.names.get(&path) {
            Some(&(Name::File(content) | Name::Directory(content))) => (path, content),
            _ => panic!("{} is no file", path.display()),
        }
    }

    /// The test's way to make a directory, and those where it lies.
    pub(crate) fn make_directory(&mut self, path: &Path, now: u64) {
        let path = self.place(path, now);
        match self.names.get(&path) {
            Some(Name::Directory(_)) => return,
            Some(_) => panic!("{} is no directory", path.display()),
            None => {}
        }
        self.contents.push(Content::new(Some(path.clone()), now));
        self.touch(&path);
        self.names.insert(path, Name::Directory(self.contents.len() - 1));
    }

    /// The test's way to make a link.
    pub(crate) fn make_link(&mut self, path: &Path, to: &Path, magic: bool, now: u64) {
        let path = self.place(path, now);
        self.touch(&path);
        let before = self.names.insert(path, Name::Link { to: to.to_path_buf(), magic });
        assert!(before.is_none(), "a link takes no other's name");
    }

    /// The test's way to give a file one more name (link(2)).
    pub(crate) fn name(&mut self, path: &Path, of: &Path, now: u64) {
        let (path, content) = (self.place(path, now), self.there(of).1);
        assert!(!self.is_directory(content), "a directory has one name");
        self.touch(&path);
        let before = self.names.insert(path, Name::File(content));
        assert!(before.is_none(), "it takes no other's name");
        // Of this the directory of its other name is not told (inotify(7)).
        (self.contents[content].names, self.contents[content].changed) = (self.contents[content].names + 1, now);
    }

    /// The test's way to take the name of a file or a link away. Who has the file open keeps it.
    pub(crate) fn remove(&mut self, path: &Path, now: u64) {
        let path = Path::new("/").join(path);
        self.touch(&path);
        match self.names.remove(&path) {
            Some(Name::File(content)) => self.lost_name(content, now),
            Some(Name::Link { .. }) => {}
            None | Some(Name::Directory(_)) => panic!("{} is no file", path.display()),
        }
    }

    fn lost_name(&mut self, content: usize, now: u64) {
        let Content { names, changed, .. } = &mut self.contents[content];
        (*names, *changed) = (*names - 1, now);
    }

    /// The test's way to give something another name (rename(2)), with all that lies beneath it. A file or link that had the name is gone.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path, now: u64) {
        let (from, to) = (Path::new("/").join(from), self.place(to, now));
        self.touch(&from);
        self.touch(&to);
        match self.names.remove(&to) {
            Some(Name::File(content)) => self.lost_name(content, now),
            Some(Name::Directory(_)) => panic!("{} is a directory", to.display()),
            Some(Name::Link { .. }) | None => {}
        }
        let moves = |path: &PathBuf, _: &mut Name| path.starts_with(&from);
        let moved: Vec<(PathBuf, Name)> = self.names.extract_if(.., moves).collect();
        assert!(!moved.is_empty(), "{} is not there", from.display());
        for (path, name) in moved {
            // reason: it was just seen to begin so.
            let rest = path.strip_prefix(&from).expect("it lies beneath what is moved");
            let path = if rest == Path::new("") { to.clone() } else { to.join(rest) };
            if let Name::Directory(content) = name {
                self.contents[content].directory = Some(path.clone());
            }
            if let (Name::Directory(content) | Name::File(content), true) = (&name, path == to) {
                self.contents[*content].changed = now;
                self.touched.extend(self.is_directory(*content).then_some(*content));
            }
            self.names.insert(path, name);
        }
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
        let Content { bytes, directory, modified, changed, names, .. } = &self.contents[content];
        let modified = Duration::from_nanos(*modified);
        let facts = match directory {
            Some(_) => FileFacts::of_directory(modified),
            None => FileFacts::of_file(bytes.len() as u64, modified),
        };
        facts.numbered(DEVICE, content as u64 + 1).changed_at(Duration::from_nanos(*changed)).named(*names)
    }

    /// What a directory holds.
    pub(crate) fn list(&self, content: usize, most: usize) -> Result<FileOutcome, Fault> {
        let directory = self.contents[content].directory.as_ref().ok_or(NOT_A_DIRECTORY)?;
        let inside = self.names.iter().filter(|(path, _)| path.parent() == Some(directory));
        let mut names: Vec<FileName> = inside
            .filter_map(|(path, name)| {
                let kind = match name {
                    Name::File(_) => Some(FileKind::Regular),
                    Name::Directory(_) => Some(FileKind::Directory),
                    Name::Link { .. } => None,
                };
                Some(FileName { name: path.file_name()?.to_owned(), kind })
            })
            .collect();
        names.sort();
        let is_whole = names.len() <= most;
        names.truncate(most);
        Ok(FileOutcome::Listed { names, is_whole })
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
        assert!(!self.is_directory(content), "a directory is not open for writing");
        self.note_written(content, now);
        let content = &mut self.contents[content];
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
            (Ok(made), FileFacts::of_file(4, Duration::from_nanos(8)).numbered(DEVICE, 2))
        );
        files.open(7, None, Path::new("a"), read.write(true).truncate(true)).unwrap();
        assert_eq!(files.facts(made), FileFacts::of_file(0, Duration::from_nanos(7)).numbered(DEVICE, 2));
        assert_eq!(files.open(7, None, Path::new("b/a"), read.write(true).create(true)), Err(NOT_FOUND));
        assert_eq!(files.open(7, None, Path::new("a/b"), read.write(true).create(true)), Err(NOT_A_DIRECTORY));
    }

    #[test]
    fn each_change_touches_where_it_is_seen() {
        let mut files = Files::new();
        files.put(Path::new("a/b/file"), b"1", 0);
        let [a, b] = ["a", "a/b"].map(|path| files.there(Path::new(path)).1);
        files.take_touched();
        let touched = |files: &mut Files, change: &dyn Fn(&mut Files)| {
            change(files);
            files.take_touched().into_iter().collect::<Vec<_>>()
        };
        let path = Path::new;
        assert_eq!(touched(&mut files, &|files| files.put(path("a/b/file"), b"2", 1)), [b]);
        assert_eq!(touched(&mut files, &|files| files.set_modified(path("a/b/file"), 0, 1)), [b]);
        assert_eq!(touched(&mut files, &|files| files.close(path("a/b"), true, 1)), [a, b]);
        assert_eq!(touched(&mut files, &|files| files.name(path("a/other"), path("a/b/file"), 1)), [a]);
        assert_eq!(touched(&mut files, &|files| files.put(path("a/other"), b"3", 1)), [a]);
        assert_eq!(touched(&mut files, &|files| files.rename(path("a/b/file"), path("a/new"), 1)), [a, b]);
        assert_eq!(touched(&mut files, &|files| files.remove(path("a/new"), 1)), [a]);
        let root = files.there(path("/")).1;
        assert_eq!(touched(&mut files, &|files| files.rename(path("a/b"), path("c"), 1)), [root, a, b]);
        assert_eq!(files.open(2, None, path("c"), OpenOptions::new().read(true).directory(true)), Err(FORBIDDEN));
    }

    #[test]
    fn a_directory_takes_along_what_lies_in_it() {
        let mut files = Files::new();
        files.put(Path::new("a/b/file"), b"1", 0);
        files.put(Path::new("a-b"), b"2", 0);
        let read = OpenOptions::new().read(true);
        let directory = files.open(1, None, Path::new("a"), read.directory(true)).unwrap();
        files.rename(Path::new("a"), Path::new("z/y"), 7);
        assert_eq!((files.get(Path::new("z/y/b/file")), files.get(Path::new("a-b"))), (Some(&b"1"[..]), Some(&b"2"[..])));
        assert_eq!(files.open(8, None, Path::new("a/b/file"), read), Err(NOT_FOUND));
        assert!(files.open(8, Some(directory), Path::new("b/file"), read).is_ok(), "who has it open finds it there");
        assert_eq!(files.facts(directory).changed(), Duration::from_nanos(7));
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
