//! Changes of files, heard by inotify(7), and what they mean in kqueue(2)'s notes.

use corelane_os::events::changes::{Change, Changes, Happened, Wanted};
use corelane_os::events::descriptor::{FileState, Kind};
use corelane_seam::slab::Key;
use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use super::spread::Map;
use crate::names::{self, Named};
use crate::record::notes;
use crate::refused::Refused;

/// Watches, and whose they are: descriptors of one file share one.
pub struct Files {
    changes: Changes,
    watches: Map<i32, Vec<Key>>,
}

/// What has happened.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// The watch.
    pub watch: i32,
    pub what: Happened,
    /// Of the entry, of a directory.
    pub name: Option<OsString>,
    /// It is one end of a move whose other one is in the same directory.
    pub is_within: bool,
    cookie: u32,
}

/// Changes among which the other end of a move is looked for: the kernel tells of both one after the other, but others may come between them.
const BETWEEN_ENDS_MAX: usize = 16;

impl Files {
    /// Without a watch.
    pub fn new() -> Result<Self, Refused> {
        Ok(Self { changes: Changes::new().map_err(Refused::system)?, watches: Map::default() })
    }

    pub fn number(&self) -> RawFd {
        self.changes.number()
    }

    /// Watches the file of a descriptor for what is `wanted`, in place of what was wanted of it before; returns its watch.
    pub fn watch(&self, number: RawFd, wanted: Wanted) -> Result<i32, Refused> {
        self.changes.watch(number, wanted).map_err(Refused::watch)
    }

    /// Whose a watch is.
    pub fn sharing(&self, watch: i32) -> &[Key] {
        self.watches.get(&watch).map_or(&[], Vec::as_slice)
    }

    /// A watch is an origin's, too. Whether that is new.
    pub fn share(&mut self, watch: i32, key: Key) -> bool {
        let sharing = self.watches.entry(watch).or_default();
        let is_new = !sharing.contains(&key);
        if is_new {
            sharing.push(key);
        }
        is_new
    }

    /// The kernel has ended a watch: whose it was.
    pub fn forget(&mut self, watch: i32) -> Vec<Key> {
        self.watches.remove(&watch).unwrap_or_default()
    }

    /// A watch is an origin's no more; with the last one it goes.
    pub fn leave(&mut self, watch: i32, key: Key) {
        // reason: who has a watch stands in its list.
        let sharing = self.watches.get_mut(&watch).expect("a watch has a list of those who share it");
        let before = sharing.len();
        sharing.retain(|other| *other != key);
        assert!(sharing.len() + 1 == before, "who shares a watch is listed once");
        if sharing.is_empty() {
            self.watches.remove(&watch);
            self.changes.unwatch(watch);
        }
    }

    /// What has happened since, and whether the kernel has dropped some of it.
    pub fn read(&self) -> (Vec<FileChange>, bool) {
        let mut happened: Vec<FileChange> = Vec::new();
        let dropped = self.changes.read(|Change { watch, what, name, cookie }| {
            if name.is_some() && !what.intersects(ENTRIES) {
                return;
            }
            let is_other_end = |before: &&mut FileChange| cookie != 0 && (before.watch, before.cookie) == (watch, cookie);
            let other_end = happened.iter_mut().rev().take(BETWEEN_ENDS_MAX).find(is_other_end);
            let is_within = other_end.map(|before| before.is_within = true).is_some();
            let name = name.map(|name| OsStr::from_bytes(name).to_owned());
            happened.push(FileChange { watch, what, name, is_within, cookie });
        });
        (happened, dropped)
    }

    /// Those of all watches.
    pub fn all(&self) -> impl Iterator<Item = Key> {
        self.watches.values().flatten().copied()
    }
}

/// What happens to a directory's entries; the rest of what is told with a name happens to the file of that name.
const ENTRIES: Happened = Happened::CREATE.union(Happened::DELETE).union(Happened::MOVED_FROM).union(Happened::MOVED_TO);

/// What is watched for these notes.
pub fn wanted(asked: u32, kind: Kind) -> Wanted {
    const PAIRS: [(u32, Wanted); 7] = [
        (notes::WRITE | notes::EXTEND | notes::TRUNCATE, Wanted::MODIFY),
        (notes::ATTRIB | notes::LINK | notes::DELETE, Wanted::ATTRIB),
        (notes::RENAME, Wanted::MOVE_SELF),
        (notes::OPEN, Wanted::OPEN),
        (notes::CLOSE, Wanted::CLOSE_NOWRITE),
        (notes::CLOSE_WRITE, Wanted::CLOSE_WRITE),
        (notes::READ, Wanted::ACCESS),
    ];
    // The kernel tells of the file's end in any case, and of that of its file system.
    let always = Wanted::DELETE_SELF;
    let of_entries = notes::WRITE | notes::EXTEND | notes::LINK | notes::NAMES | notes::ENTRY_CREATED | notes::ENTRY_REMOVED;
    let entries = if kind == Kind::Directory && asked & of_entries != 0 {
        Wanted::CREATE.union(Wanted::DELETE).union(Wanted::MOVE)
    } else {
        Wanted::empty()
    };
    let asked = PAIRS.iter().filter(|(asked_for, _)| asked & asked_for != 0);
    asked.fold(always | entries, |all, (_, wanted)| all | *wanted)
}

/// What a change means of a file that was `seen` so and is so `now`; it may be one end of a move within a directory. Several changes are looked at together, after the last: each takes over what it is about alone, and leaves
/// the rest to those behind it.
pub fn meaning((happened, is_within): (Happened, bool), seen: &mut FileState, now: FileState) -> u32 {
    const PAIRS: [(Happened, u32); 10] = [
        (Happened::CREATE, notes::ENTRY_CREATED),
        (Happened::MOVED_TO, notes::ENTRY_CREATED),
        (Happened::DELETE, notes::ENTRY_REMOVED),
        (Happened::MOVED_FROM, notes::ENTRY_REMOVED),
        (Happened::MOVE_SELF, notes::RENAME),
        (Happened::UNMOUNT, notes::REVOKE),
        (Happened::OPEN, notes::OPEN),
        (Happened::CLOSE_NOWRITE, notes::CLOSE),
        (Happened::CLOSE_WRITE, notes::CLOSE_WRITE),
        (Happened::ACCESS, notes::READ),
    ];
    let mut meaning = PAIRS.iter().filter(|(what, _)| happened.contains(*what)).fold(0, |all, (_, note)| all | note);
    if happened.contains(Happened::MODIFY) {
        meaning |= notes::WRITE | resized(seen, now);
        (seen.size, seen.modified) = (now.size, now.modified);
    }
    if happened.intersects(Happened::CREATE | Happened::DELETE | Happened::MOVED_FROM | Happened::MOVED_TO) {
        // An entry that is a directory is a link to this one; with another name it is the same one, unless it has taken that of another directory.
        let is_link = happened.contains(Happened::ISDIR) && (!is_within || seen.links != now.links);
        meaning |= notes::WRITE | if is_link { notes::LINK } else { 0 };
        (seen.size, seen.modified, seen.links) = (now.size, now.modified, now.links);
    }
    if happened.intersects(Happened::MOVED_FROM | Happened::MOVED_TO) && !is_within {
        meaning |= notes::EXTEND;
    }
    if happened.contains(Happened::ATTRIB) {
        meaning |= changed_attributes(seen, now);
        *seen = FileState { size: seen.size, ..now };
    }
    meaning | if happened.contains(Happened::DELETE_SELF) { notes::DELETE } else { 0 }
}

/// What a change of size means.
fn resized(seen: &FileState, now: FileState) -> u32 {
    match now.size.cmp(&seen.size) {
        Ordering::Greater => notes::EXTEND,
        Ordering::Less => notes::TRUNCATE,
        Ordering::Equal => 0,
    }
}

/// What a change of attributes means. The kernel tells of two that follow one another as of one, so both names and permissions, or times, may have changed.
fn changed_attributes(seen: &FileState, now: FileState) -> u32 {
    let is_linked = now.links != seen.links;
    let is_else = !is_linked || (now.attributes, now.modified) != (seen.attributes, seen.modified);
    let gone = if now.links == 0 && seen.links != 0 { notes::DELETE } else { 0 };
    gone | if is_linked { notes::LINK } else { 0 } | if is_else { notes::ATTRIB } else { 0 }
}

/// What may have happened to a file where the kernel has dropped changes: what shows, and what would not show.
pub fn lost(seen: &mut FileState, now: FileState) -> u32 {
    const HIDDEN: u32 = notes::RENAME | notes::OPEN | notes::CLOSE | notes::CLOSE_WRITE | notes::READ | notes::ATTRIB;
    let is_written = (now.size, now.modified) != (seen.size, seen.modified);
    let written = if is_written { notes::WRITE | resized(seen, now) } else { 0 };
    let meaning = HIDDEN | written | changed_attributes(seen, now);
    *seen = now;
    meaning
}

/// What has happened to an entry called `name`.
pub fn entry(happened: Happened, name: &OsStr) -> Option<Named> {
    const PAIRS: [(Happened, names::Happened); 4] = [
        (Happened::CREATE, names::Happened::Created),
        (Happened::DELETE, names::Happened::Removed),
        (Happened::MOVED_FROM, names::Happened::MovedFrom),
        (Happened::MOVED_TO, names::Happened::MovedTo),
    ];
    let (_, what) = PAIRS.into_iter().find(|(bit, _)| happened.contains(*bit))?;
    Some(Named { what, name: name.to_owned() })
}

impl Refused {
    /// What inotify(7) refused.
    fn watch(number: i32) -> Self {
        use corelane_os::events::number::{EBADF, ENOENT, ENOTDIR};
        match number {
            ENOENT | ENOTDIR => Self::new(EBADF, "the file cannot be watched: mount /proc, by which it is named"),
            _ => Self::new(number, "the file cannot be watched: raise fs.inotify.max_user_watches, or watch less"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: i64, links: u64, mode: u32) -> FileState {
        FileState { size, links, attributes: (mode, 0, 0), modified: 0 }
    }

    #[test]
    fn a_change_means_what_size_and_links_show() {
        let of = |happened, before: (i64, u64), after: (i64, u64)| {
            meaning((happened, false), &mut file(before.0, before.1, 0), file(after.0, after.1, 0))
        };
        assert_eq!(of(Happened::MODIFY, (5, 1), (9, 1)), notes::WRITE | notes::EXTEND);
        assert_eq!(of(Happened::MODIFY, (9, 1), (9, 1)), notes::WRITE);
        assert_eq!(of(Happened::MODIFY, (9, 1), (5, 1)), notes::WRITE | notes::TRUNCATE);
        assert_eq!(of(Happened::ATTRIB, (9, 1), (9, 1)), notes::ATTRIB);
        assert_eq!(of(Happened::ATTRIB, (9, 2), (9, 1)), notes::LINK);
        assert_eq!(of(Happened::ATTRIB, (9, 1), (9, 0)), notes::LINK | notes::DELETE);
        assert_eq!(of(Happened::CREATE | Happened::ISDIR, (9, 1), (9, 1)), notes::WRITE | notes::LINK | notes::ENTRY_CREATED);
        assert_eq!(of(Happened::MOVED_TO, (9, 1), (9, 1)), notes::WRITE | notes::EXTEND | notes::ENTRY_CREATED);
        assert_eq!(of(Happened::DELETE, (9, 1), (9, 1)), notes::WRITE | notes::ENTRY_REMOVED);
    }

    #[test]
    fn another_name_in_the_same_directory_is_a_write_and_one_in_the_place_of_a_directory_a_link_less() {
        let (from, to) = (Happened::MOVED_FROM | Happened::ISDIR, Happened::MOVED_TO | Happened::ISDIR);
        let entries = notes::ENTRY_CREATED | notes::ENTRY_REMOVED;
        for (links, told) in [(4, notes::WRITE), (3, notes::WRITE | notes::LINK)] {
            let mut seen = file(9, 4, 0);
            let both = [from, to].map(|end| meaning((end, true), &mut seen, file(9, links, 0)));
            assert_eq!((both[0] | both[1]) & !entries, told);
        }
    }

    #[test]
    fn each_of_several_changes_takes_what_it_is_about() {
        let (mut seen, now) = (file(5, 1, 0o644), file(9, 2, 0o644));
        assert_eq!(meaning((Happened::ATTRIB, false), &mut seen, now), notes::LINK);
        assert_eq!(meaning((Happened::MODIFY, false), &mut seen, now), notes::WRITE | notes::EXTEND);
        assert_eq!(meaning((Happened::ATTRIB, false), &mut seen, now), notes::ATTRIB);
        let mut seen = file(5, 1, 0o644);
        assert_eq!(
            meaning((Happened::ATTRIB, false), &mut seen, file(5, 2, 0o600)),
            notes::LINK | notes::ATTRIB,
            "two told as one"
        );
    }

    #[test]
    fn of_what_was_dropped_all_is_told_that_shows_or_cannot_show() {
        let mut seen = file(5, 1, 0o644);
        let told = lost(&mut seen, file(9, 2, 0o644));
        assert_eq!(
            told & (notes::WRITE | notes::EXTEND | notes::LINK | notes::DELETE),
            notes::WRITE | notes::EXTEND | notes::LINK
        );
        assert_eq!(told & notes::RENAME, notes::RENAME);
        let again = seen;
        assert_eq!(lost(&mut seen, again) & (notes::WRITE | notes::LINK | notes::DELETE), 0);
    }
}
