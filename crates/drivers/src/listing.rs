//! What lies in a directory (getdents(2)).

use crate::answer::Answer;
use corelane_seam::{FileKind, FileName};
use rustix::fs::{Dir, FileType};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;

/// The names of a directory, at most so many.
///
/// # Errors
/// The system's.
pub(crate) fn list(directory: &File, most: usize) -> std::io::Result<Answer> {
    let mut names = Vec::new();
    // It is opened once more: where a descriptor stands in its directory is shared by all who list it.
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if names.len() >= most {
            return Ok(Answer::Listed { names, is_whole: false });
        }
        let kind = match entry.file_type() {
            FileType::RegularFile => Some(FileKind::Regular),
            FileType::Directory => Some(FileKind::Directory),
            _ => None,
        };
        names.push(FileName { name: OsString::from_vec(name.to_vec()), kind });
    }
    Ok(Answer::Listed { names, is_whole: true })
}
