//! What lies in a directory (getdents(2)).

use crate::answer::Answer;
use corelane_seam::{FileKind, FileName};
use rustix::fs::{Dir, FileType};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;

/// The first names of a directory, at most so many; no more than twice as many are kept at a time, however many it has.
///
/// # Errors
/// The system's.
pub(crate) fn list(directory: &File, most: usize) -> std::io::Result<Answer> {
    let (mut names, mut is_whole) = (Vec::new(), true);
    let mut settle = |names: &mut Vec<FileName>| {
        names.sort_unstable();
        // A directory that changes may tell a name twice.
        names.dedup();
        is_whole &= names.len() <= most;
        names.truncate(most);
    };
    // It is opened once more: where a descriptor stands in its directory is shared by all who list it.
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::RegularFile => Some(FileKind::Regular),
            FileType::Directory => Some(FileKind::Directory),
            _ => None,
        };
        names.push(FileName { name: OsString::from_vec(name.to_vec()), kind });
        if names.len() > 2 * most {
            settle(&mut names);
        }
    }
    settle(&mut names);
    Ok(Answer::Listed { names, is_whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_the_first_are_told() {
        let path = std::env::temp_dir().join(format!("corelane-listing-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        // In no order.
        for number in (0..3_000_u32).map(|number| number * 1_237 % 3_000) {
            File::create(path.join(format!("{number:04}"))).unwrap();
        }
        (0..50).for_each(|number| drop(File::create(path.join(format!(".{number}"))).unwrap()));
        let directory = File::open(&path).unwrap();
        for (most, told, whole) in [(10, 10, false), (3_000, 3_000, false), (3_050, 3_050, true), (9_999, 3_050, true)] {
            let Answer::Listed { names, is_whole } = list(&directory, most).unwrap() else { panic!("it is listed") };
            assert_eq!((names.len(), is_whole), (told, whole));
            assert!(names.iter().take(3_000).enumerate().all(|(at, name)| *name.name == *format!("{at:04}")));
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}
