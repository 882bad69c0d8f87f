use super::{ident, queue};
use corelane_event::{Change, Filter, Flags, Happened, Named, notes};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use tempfile::TempDir;

/// A folder that goes with its case.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> File {
        let path = self.0.path().join(name);
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    }
}

const ALL: u32 = notes::DELETE | notes::WRITE | notes::EXTEND | notes::ATTRIB | notes::LINK | notes::RENAME;

#[test]
fn a_file_tells_the_distance_to_its_end_and_when_it_grows() {
    let folder = Folder::new();
    let queue = queue();
    let mut file = folder.file("a");
    file.write_all(b"12345").unwrap();
    file.rewind().unwrap();
    queue.ok(Change::readable(file.as_fd()));
    for _ in 0..2 {
        assert_eq!(queue.one().data, 5);
    }
    file.read_exact(&mut [0; 5]).unwrap();
    assert!(queue.now().is_empty());
    folder.file("a").seek(SeekFrom::End(0)).unwrap();
    let mut other = OpenOptions::new().append(true).open(folder.0.path().join("a")).unwrap();
    other.write_all(b"67").unwrap();
    assert_eq!(queue.one().data, 2);
    file.seek(SeekFrom::Start(10)).unwrap();
    assert_eq!(queue.one().data, -3);
}

#[test]
fn changes_of_a_file_add_up_until_they_are_told() {
    let folder = Folder::new();
    let queue = queue();
    let mut file = folder.file("a");
    queue.ok(Change::changed(file.as_fd(), ALL));
    assert!(queue.now().is_empty());
    file.write_all(b"12345").unwrap();
    assert_eq!(queue.one().notes, notes::WRITE | notes::EXTEND);
    file.rewind().unwrap();
    file.write_all(b"1").unwrap();
    fs::rename(folder.0.path().join("a"), folder.0.path().join("b")).unwrap();
    assert_eq!(queue.one().notes, notes::WRITE | notes::RENAME);
    fs::hard_link(folder.0.path().join("b"), folder.0.path().join("c")).unwrap();
    assert_eq!(queue.one().notes, notes::LINK);
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(queue.one().notes, notes::ATTRIB);
    fs::remove_file(folder.0.path().join("c")).unwrap();
    assert_eq!(queue.one().notes, notes::LINK);
    fs::remove_file(folder.0.path().join("b")).unwrap();
    let event = queue.one();
    assert_eq!((event.notes, event.flags), (notes::LINK | notes::DELETE, Flags::CLEAR));
    assert!(queue.now().is_empty());
}

#[test]
fn only_what_was_asked_for_is_told() {
    let folder = Folder::new();
    let queue = queue();
    let mut file = folder.file("a");
    queue.ok(Change::changed(file.as_fd(), notes::DELETE));
    file.write_all(b"12345").unwrap();
    assert!(queue.now().is_empty());
    fs::remove_file(folder.0.path().join("a")).unwrap();
    assert_eq!(queue.one().notes, notes::DELETE);
}

#[test]
fn a_directory_tells_of_its_entries() {
    let folder = Folder::new();
    let queue = queue();
    let directory = File::open(folder.0.path()).unwrap();
    queue.ok(Change::changed(directory.as_fd(), ALL));
    drop(folder.file("a"));
    assert_eq!(queue.one().notes, notes::WRITE);
    fs::create_dir(folder.0.path().join("d")).unwrap();
    assert_eq!(queue.one().notes, notes::WRITE | notes::LINK);
    // Another name inside adds no entry and takes none away (kqueue(2)).
    fs::rename(folder.0.path().join("a"), folder.0.path().join("b")).unwrap();
    assert_eq!(queue.one().notes, notes::WRITE);
}

#[test]
fn two_descriptors_of_a_file_have_wishes_of_their_own() {
    let folder = Folder::new();
    let queue = queue();
    let (mut first, second) = (folder.file("a"), folder.file("a"));
    queue.ok(Change::changed(first.as_fd(), notes::WRITE).cookie(1));
    queue.ok(Change::changed(second.as_fd(), notes::DELETE).cookie(2));
    first.write_all(b"x").unwrap();
    assert_eq!(queue.one().cookie, 1);
    queue.ok(Change::delete(ident(&first), Filter::Vnode));
    first.write_all(b"x").unwrap();
    assert!(queue.now().is_empty());
    fs::remove_file(folder.0.path().join("a")).unwrap();
    assert_eq!(queue.one().cookie, 2);
}

#[test]
fn nothing_holds_a_watched_file_open() {
    let folder = Folder::new();
    let queue = queue();
    let file = folder.file("a");
    queue.ok(Change::changed(file.as_fd(), ALL));
    queue.ok(Change::readable(file.as_fd()));
    corelane_event::closed(super::number(&file));
    drop(file);
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    assert_eq!(open.filter(|path| path.starts_with(folder.0.path())).count(), 0);
    assert_eq!(queue.registered(), 0);
}

#[test]
fn a_file_that_grows_is_told_although_the_kernel_has_dropped_its_change() {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let folder = Folder::new();
    let queue = queue();
    let mut files = [folder.file("a"), folder.file("b"), folder.file("c")];
    files.iter().for_each(|file| queue.ok(Change::readable(file.as_fd())));
    assert!(queue.now().is_empty());
    // Equal changes in a row count as one.
    for round in 0..=limit {
        files[round % 2].write_all(b"a").unwrap();
    }
    files[2].write_all(b"abc").unwrap();
    files[2].rewind().unwrap();
    assert!(queue.now().iter().any(|event| event.ident == ident(&files[2]) && event.data == 3));
}

fn name(what: Happened, name: &str) -> Named {
    Named { what, name: name.into() }
}

#[test]
fn names_of_entries_are_kept_for_who_asks_for_them() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let queue = queue();
    let directory = File::open(folder.0.path()).unwrap();
    let number = super::number(&directory);
    queue.ok(Change::changed(directory.as_fd(), notes::NAMES));
    drop(folder.file("a"));
    fs::rename(folder.0.path().join("a"), folder.0.path().join("b")).unwrap();
    fs::rename(folder.0.path().join("b"), elsewhere.0.path().join("c")).unwrap();
    drop(folder.file("d"));
    fs::remove_file(folder.0.path().join("d")).unwrap();
    fs::write(elsewhere.0.path().join("c"), b"changes no name").unwrap();
    let event = queue.one();
    assert_eq!((event.ident, event.notes), (ident(&directory), notes::NAMES));
    let (first, lost) = queue.names(number, 2).unwrap();
    assert_eq!((first, lost), (vec![name(Happened::Created, "a"), name(Happened::MovedFrom, "a")], 0));
    let (rest, lost) = queue.names(number, usize::MAX).unwrap();
    let expected = [
        name(Happened::MovedTo, "b"),
        name(Happened::MovedFrom, "b"),
        name(Happened::Created, "d"),
        name(Happened::Removed, "d"),
    ];
    assert_eq!((rest.as_slice(), lost), (expected.as_slice(), 0));
    assert!(queue.now().is_empty());
    queue.ok(Change::delete(ident(&directory), Filter::Vnode));
    assert_eq!(queue.names(number, 1).unwrap_err().number, 2);
    queue.ok(Change::changed(directory.as_fd(), notes::WRITE));
    assert_eq!(queue.names(number, 1).unwrap_err().number, 2, "nobody asks for them");
    assert_eq!(queue.refused(Change::changed(directory.as_fd(), notes::NAMES).once()), 22);
}

#[test]
fn names_that_find_no_room_are_counted() {
    let folder = Folder::new();
    let queue = queue();
    let directory = File::open(folder.0.path()).unwrap();
    queue.ok(Change::changed(directory.as_fd(), notes::NAMES));
    for round in 0..1030 {
        drop(folder.file(&format!("{round}")));
        if round % 100 == 0 {
            queue.now();
        }
    }
    queue.now();
    let (names, lost) = queue.names(super::number(&directory), usize::MAX).unwrap();
    assert_eq!((names.len(), lost, &names[1023]), (1024, 6, &name(Happened::Created, "1023")));
    assert_eq!(queue.names(super::number(&directory), usize::MAX).unwrap(), (vec![], 0));
}

#[test]
fn names_that_the_kernel_has_dropped_are_counted() {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let folder = Folder::new();
    let queue = queue();
    let directory = File::open(folder.0.path()).unwrap();
    queue.ok(Change::changed(directory.as_fd(), notes::NAMES));
    for round in 0..=limit / 2 {
        drop(folder.file(&format!("{round}")));
        fs::remove_file(folder.0.path().join(format!("{round}"))).unwrap();
    }
    assert_eq!(queue.one().notes, notes::NAMES);
    let (names, lost) = queue.names(super::number(&directory), usize::MAX).unwrap();
    assert_eq!(names.len(), 1024);
    assert_eq!(lost, limit as u64 - 1024 + 1, "those without room, and one for what the kernel does not count");
}
