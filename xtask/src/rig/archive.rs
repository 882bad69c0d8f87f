//! The archive from which Linux makes its first files: the format "newc" of cpio (`Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeSet;

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;

/// An archive that is being written. Each folder is there before what lies in it.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    /// What is in it, by its path from the root.
    names: BTreeSet<String>,
}

impl Archive {
    /// A folder, and those above it.
    pub fn folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        if path.is_empty() || !self.names.insert(path.to_owned()) {
            return;
        }
        self.folder_of(path);
        self.entry(path, FOLDER, &[]);
    }

    /// A file; one that is there already stays.
    pub fn file(&mut self, path: &str, bytes: &[u8], is_program: bool) {
        let path = path.trim_matches('/');
        if self.names.insert(path.to_owned()) {
            self.folder_of(path);
            self.entry(path, if is_program { PROGRAM } else { FILE }, bytes);
        }
    }

    /// The whole.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn folder_of(&mut self, path: &str) {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        let number = if mode == 0 { 0 } else { self.names.len() };
        let links = if mode == FOLDER { 2 } else { 1 };
        let fields = [number, mode as usize, 0, 0, links, 0, bytes.len(), 0, 0, 0, 0, name.len() + 1, 0];
        self.bytes.extend(b"070701");
        fields.iter().for_each(|field| self.bytes.extend(format!("{field:08x}").bytes()));
        self.bytes.extend(name.bytes().chain([0]));
        self.align();
        self.bytes.extend(bytes);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_lies_in_them_and_each_once() {
        let mut archive = Archive::default();
        archive.file("/usr/lib/a", b"abc", true);
        archive.folder("usr/lib");
        archive.file("usr/lib/a", b"other", false);
        let bytes = archive.finish();
        let text = String::from_utf8(bytes.clone()).expect("letters alone");
        let heads: Vec<_> = text.match_indices("070701").map(|(at, _)| at).collect();
        let names = heads.iter().map(|at| text[at + 110..].split('\0').next().expect("a name"));
        assert_eq!(names.collect::<Vec<_>>(), ["usr", "usr/lib", "usr/lib/a", "TRAILER!!!"]);
        assert!(heads.iter().all(|at| at % 4 == 0) && bytes.len() % 4 == 0);
        assert!(text.contains("abc") && !text.contains("other"));
    }
}
