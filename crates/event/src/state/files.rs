//! Changes of files, heard by inotify(7), and what they mean in kqueue(2)'s notes.

use corelane_os::events::changes::{Changes, Happened, Wanted};
use corelane_os::events::descriptor::{self, Kind};
use corelane_os::events::number::ENOENT;
use corelane_os::events::polling::Readiness;
use corelane_seam::slab::Key;
use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use super::{Map, State};
use crate::interest::Source;
use crate::names::{self, Named};
use crate::record::{Filter, notes};
use crate::refused::Refused;
use crate::set::Token;

/// Watches, and whose they are: descriptors of one file share one.
pub struct Files {
    changes: Changes,
    watches: Map<i32, Vec<Key>>,
}

impl Files {
    pub fn number(&self) -> RawFd {
        self.changes.number()
    }
}

/// What is watched for a file that is read.
const GROWTH: Wanted = Wanted::MODIFY;

/// What happens to a directory's entries; the rest of what is told with a name happens to the file of that name.
const ENTRIES: Happened = Happened::CREATE.union(Happened::DELETE).union(Happened::MOVED_FROM).union(Happened::MOVED_TO);

/// What is watched for these notes.
fn wanted(asked: u32, kind: Kind) -> Wanted {
    const PAIRS: [(u32, Wanted); 7] = [
        (notes::WRITE | notes::EXTEND, Wanted::MODIFY),
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

/// What a change means, given the size and links before and after.
fn meaning(happened: Happened, before: (i64, u64), after: (i64, u64)) -> u32 {
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
        meaning |= notes::WRITE | if after.0 > before.0 { notes::EXTEND } else { 0 };
    }
    if happened.intersects(Happened::CREATE | Happened::DELETE | Happened::MOVED_FROM | Happened::MOVED_TO) {
        // An entry that is a directory is a link to this one.
        meaning |= notes::WRITE | if happened.contains(Happened::ISDIR) { notes::LINK } else { 0 };
    }
    if happened.intersects(Happened::MOVED_FROM | Happened::MOVED_TO) {
        meaning |= notes::EXTEND;
    }
    if happened.contains(Happened::ATTRIB) {
        meaning |= if after.1 != before.1 { notes::LINK } else { notes::ATTRIB };
    }
    let is_gone = after.1 == 0 && before.1 != 0;
    meaning | if is_gone || happened.contains(Happened::DELETE_SELF) { notes::DELETE } else { 0 }
}

/// What has happened to an entry called `name`.
fn entry(happened: Happened, name: &OsStr) -> Option<Named> {
    const PAIRS: [(Happened, names::Happened); 4] = [
        (Happened::CREATE, names::Happened::Created),
        (Happened::DELETE, names::Happened::Removed),
        (Happened::MOVED_FROM, names::Happened::MovedFrom),
        (Happened::MOVED_TO, names::Happened::MovedTo),
    ];
    let (_, what) = PAIRS.into_iter().find(|(bit, _)| happened.contains(*bit))?;
    Some(Named { what, name: name.to_owned() })
}

impl State {
    /// Watches the file of an origin for what its interests want.
    pub(super) fn settle_file(&mut self, key: Key) -> Result<(), Refused> {
        let watches = match self.origins[key].rest().watch {
            Some(watch) => self.files.as_ref().and_then(|files| files.watches.get(&watch)).cloned().unwrap_or_default(),
            None => Vec::new(),
        };
        let others = watches.into_iter().filter(|other| *other != key);
        let all = others.fold(self.wants(key), |all, other| all | self.wants(other));
        let number = self.origins[key].number;
        let files = self.prepare_files()?;
        let watch = files.changes.watch(number, all).map_err(Refused::watch)?;
        let sharing = files.watches.entry(watch).or_default();
        if sharing.contains(&key) {
            return Ok(());
        }
        sharing.push(key);
        let sharing = sharing.clone();
        let before = self.origins[key].rest().watch.replace(watch);
        assert!(before.is_none(), "an origin is one file");
        // Another descriptor of the same file had its own wishes, which were just overwritten.
        let all = sharing.iter().fold(Wanted::empty(), |all, other| all | self.wants(*other));
        let files = self.prepare_files()?;
        files.changes.watch(number, all).map(|_| ()).map_err(Refused::watch)
    }

    /// What the interests of an origin want of its file.
    fn wants(&self, key: Key) -> Wanted {
        let origin = &self.origins[key];
        let interests = origin.interests.iter().map(|interest| &self.interests[interest]);
        interests.fold(Wanted::empty(), |all, interest| match interest.filter {
            Filter::Vnode => all | wanted(interest.notes, origin.kind),
            _ => all | GROWTH,
        })
    }

    fn prepare_files(&mut self) -> Result<&mut Files, Refused> {
        let files = match self.files.take() {
            Some(files) => files,
            None => {
                let changes = Changes::new().map_err(Refused::system)?;
                self.set.add(changes.number(), Readiness::IN, Token::Files.word()).map_err(Refused::system)?;
                Files { changes, watches: Map::default() }
            }
        };
        Ok(self.files.insert(files))
    }

    /// An origin's file is of no interest any more.
    pub(super) fn unwatch_file(&mut self, key: Key) {
        let watch = self.origins[key].rest.as_mut().and_then(|rest| rest.watch.take());
        let Some(watch) = watch else { return };
        // reason: it is there from the first watch on.
        let files = self.files.as_mut().expect("an origin with a watch has somebody who watches");
        // reason: who has a watch stands in its list.
        let sharing = files.watches.get_mut(&watch).expect("a watch has a list of those who share it");
        let before = sharing.len();
        sharing.retain(|other| *other != key);
        assert!(sharing.len() + 1 == before, "who shares a watch is listed once");
        if sharing.is_empty() {
            files.watches.remove(&watch);
            files.changes.unwatch(watch);
        }
    }

    /// Hears of what has happened to files.
    pub(super) fn hear_files(&mut self) {
        let Some(files) = self.files.take() else { return };
        let mut happened = Vec::new();
        let dropped = files.changes.read(|watch, what, name| {
            if name.is_none() || what.intersects(ENTRIES) {
                happened.push((watch, what, name.map(|name| OsStr::from_bytes(name).to_owned())));
            }
        });
        for (watch, what, name) in happened {
            let sharing = files.watches.get(&watch).cloned().unwrap_or_default();
            sharing.into_iter().for_each(|key| self.changed(key, what, name.as_deref()));
        }
        if dropped {
            // Something has happened to some: each is looked at.
            let all: Vec<Key> = files.watches.values().flatten().copied().collect();
            for key in all {
                self.lose_names(key);
                self.changed(key, Happened::empty(), None);
            }
        }
        self.files = Some(files);
    }

    /// Names that were kept for the interest in the directory `number`, of at most `room` entries, and how many were lost.
    pub fn take_names(&mut self, number: RawFd, room: usize) -> Result<(Vec<Named>, u64), Refused> {
        let key = self.known(number as u64, Filter::Vnode);
        let asked = key.filter(|key| self.interests[*key].notes & notes::NAMES != 0);
        let words = "nobody asks for names of this directory: the caller registers it with NAMES first";
        let key = asked.ok_or(Refused::new(ENOENT, words))?;
        Ok(self.names.get_mut(&key).map_or((Vec::new(), 0), |names| names.take(room)))
    }

    /// Names of entries may have been lost, if somebody asks for those of an origin.
    fn lose_names(&mut self, key: Key) {
        for key in self.origins[key].interests.iter() {
            let interest = &mut self.interests[key];
            if let Source::File(_, came) = &mut interest.source
                && interest.notes & notes::NAMES != 0
            {
                *came |= notes::NAMES;
                self.names.entry(key).or_default().lose();
            }
        }
    }

    /// Something has happened to the file of an origin, or in a directory to the entry `name`.
    fn changed(&mut self, key: Key, happened: Happened, name: Option<&OsStr>) {
        // Who shares a watch is there: an origin leaves its list as it is forgotten.
        let origin = &mut self.origins[key];
        let before = origin.rest().seen;
        let after = descriptor::size_and_links(origin.number).unwrap_or(before);
        origin.rest().seen = after;
        let meaning = meaning(happened, before, after);
        for interest in origin.interests.iter() {
            let one = &mut self.interests[interest];
            let asked = one.notes;
            let named = name.filter(|_| asked & notes::NAMES != 0).and_then(|name| entry(happened, name));
            let has_come = match &mut one.source {
                Source::File(_, came) => {
                    *came |= meaning & asked | if named.is_some() { notes::NAMES } else { 0 };
                    named.into_iter().for_each(|named| self.names.entry(interest).or_default().push(named));
                    *came != 0
                }
                _ => true,
            };
            if has_come && !one.disabled {
                self.ready.push(interest.index);
            }
        }
    }
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

    #[test]
    fn a_change_means_what_size_and_links_show() {
        let of = |happened, before, after| meaning(happened, before, after);
        assert_eq!(of(Happened::MODIFY, (5, 1), (9, 1)), notes::WRITE | notes::EXTEND);
        assert_eq!(of(Happened::MODIFY, (9, 1), (9, 1)), notes::WRITE);
        assert_eq!(of(Happened::ATTRIB, (9, 1), (9, 1)), notes::ATTRIB);
        assert_eq!(of(Happened::ATTRIB, (9, 2), (9, 1)), notes::LINK);
        assert_eq!(of(Happened::ATTRIB, (9, 1), (9, 0)), notes::LINK | notes::DELETE);
        assert_eq!(of(Happened::CREATE | Happened::ISDIR, (9, 1), (9, 1)), notes::WRITE | notes::LINK | notes::ENTRY_CREATED);
        assert_eq!(of(Happened::MOVED_TO, (9, 1), (9, 1)), notes::WRITE | notes::EXTEND | notes::ENTRY_CREATED);
        assert_eq!(of(Happened::DELETE, (9, 1), (9, 1)), notes::WRITE | notes::ENTRY_REMOVED);
    }
}
