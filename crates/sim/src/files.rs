//! The model file system: names, and contents in memory. One for the whole world; no directories, no permissions.

use corelane_seam::{Fault, OpenOptions, Reason};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most bytes of one file: 1 GiB.
const FILE_BYTES_MAX: u64 = 1 << 30;

const NOT_FOUND: Fault = Fault { reason: Reason::NotFound, number: 2 };
const TOO_LARGE: Fault = Fault { reason: Reason::Other, number: 27 };

pub(crate) struct Files {
    names: BTreeMap<PathBuf, usize>,
    contents: Vec<Vec<u8>>,
}

impl Files {
    pub(crate) fn new() -> Self {
        Self { names: BTreeMap::new(), contents: Vec::new() }
    }

    /// Names the contents of `path`, as open(2) would.
    pub(crate) fn open(&mut self, path: PathBuf, options: OpenOptions) -> Result<usize, Fault> {
        let content = match self.names.get(&path) {
            Some(&content) => content,
            None if options.create => self.create(path),
            None => return Err(NOT_FOUND),
        };
        if options.truncate && options.write {
            self.contents[content].clear();
        }
        Ok(content)
    }

    fn create(&mut self, path: PathBuf) -> usize {
        self.contents.push(Vec::new());
        self.names.insert(path, self.contents.len() - 1);
        self.contents.len() - 1
    }

    /// The test's way to make a file.
    pub(crate) fn put(&mut self, path: &Path, bytes: &[u8]) {
        let content = self.names.get(path).copied().unwrap_or_else(|| self.create(path.to_path_buf()));
        self.contents[content] = bytes.to_vec();
    }

    /// The test's way to read a file.
    pub(crate) fn get(&self, path: &Path) -> Option<&[u8]> {
        self.names.get(path).map(|&content| self.contents[content].as_slice())
    }

    pub(crate) fn length(&self, content: usize) -> u64 {
        self.contents[content].len() as u64
    }

    /// The bytes from `offset`, at most `most`.
    pub(crate) fn slice(&self, content: usize, offset: u64, most: u64) -> &[u8] {
        let length = self.length(content);
        let start = offset.min(length);
        let end = start.saturating_add(most).min(length);
        &self.contents[content][start as usize..end as usize]
    }

    /// Writes at `offset`; a gap before it reads as zeros.
    pub(crate) fn write(&mut self, content: usize, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        let end = offset.checked_add(bytes.len() as u64).filter(|&end| end <= FILE_BYTES_MAX).ok_or(TOO_LARGE)?;
        let content = &mut self.contents[content];
        if content.len() < end as usize {
            content.resize(end as usize, 0);
        }
        content[offset as usize..end as usize].copy_from_slice(bytes);
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
        assert_eq!(files.open("a".into(), read), Err(NOT_FOUND));
        let made = files.open("a".into(), read.create(true).write(true)).unwrap();
        files.write(made, 2, b"xy").unwrap();
        assert_eq!(files.get(Path::new("a")), Some(&b"\0\0xy"[..]));
        assert_eq!((files.open("a".into(), read), files.length(made)), (Ok(made), 4));
        files.open("a".into(), read.write(true).truncate(true)).unwrap();
        assert_eq!(files.length(made), 0);
    }

    #[test]
    fn offsets_out_of_range_are_harmless() {
        let mut files = Files::new();
        files.put(Path::new("a"), b"abc");
        let content = files.open("a".into(), OpenOptions::new()).unwrap();
        assert_eq!(files.slice(content, 1, u64::MAX), b"bc");
        assert_eq!(files.slice(content, u64::MAX, 1), b"");
        assert_eq!(files.write(content, u64::MAX, b"x"), Err(TOO_LARGE));
        assert_eq!(files.write(content, FILE_BYTES_MAX, b"x"), Err(TOO_LARGE));
    }
}
