//! Directories of files that are kept in memory: watched, so that those files need not be looked at again as long as nothing is told.
//!
//! ```text
//! the root -> a -> a/b      each is opened beneath the root, through no link, once that above it stands, and stands itself once it is watched
//! told -> it and all beneath it: what was seen there is looked at again, and they are watched anew, four times a second at the most
//! ```
//!
//! So a file that was opened, through no link, while its directory stood is what its name means until something is told: whatever changes that happens in one of these directories.
//! What nobody tells of (writes through mapped memory or through another name of the file, what is mounted above it) is found when the file is looked at after [`VOUCHED_FOR`].

use super::tokens::Tokens;
use corelane::Cx;
use corelane::service::{Fault, File, FileOutcome, OpenOptions, Outcome, Reason, Watch};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::{Rc, Weak};

/// How long what was seen of a file is taken for true where nobody tells that it has changed, in nanoseconds: a second.
pub(super) const TRUE_FOR: u64 = 1_000_000_000;
/// How long what was seen of a file is taken for true while its directory stands, in nanoseconds: a minute.
pub(super) const VOUCHED_FOR: u64 = 60 * TRUE_FOR;
/// How many watches of a directory may end within a second; then it rests for one, and what lies in it is looked at again each second. Something may
/// happen there all the time, and a watch costs more than a look.
const ENDS_MAX: u32 = 4;
/// Directories above each other that are watched; what lies deeper is looked at again each second.
const DEPTH_MAX: usize = 16;

/// How far a directory is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectoryState {
    /// That above it is to stand first.
    Waits,
    /// It is being opened, or its watch begins.
    Begins,
    /// Whatever happens in it will be told, and so it is with all above it.
    Stands,
    /// Something has happened in it or above it.
    Told,
    /// It is not to be watched.
    Failed,
}

/// A directory. Whoever wants it watched keeps it.
pub(super) struct Directory {
    /// Beneath the root, without a slash at its ends; empty for the root.
    path: Box<[u8]>,
    above: Option<Rc<Directory>>,
    state: Cell<DirectoryState>,
    watch: RefCell<Option<Watch>>,
}

impl Directory {
    /// Whether whatever changes what names in it mean will be told.
    pub fn stands(&self) -> bool {
        self.state.get() == DirectoryState::Stands
    }

    /// Whether something has happened.
    pub fn is_told(&self) -> bool {
        self.state.get() == DirectoryState::Told
    }

    fn end(&self, state: DirectoryState) {
        if matches!(self.state.get(), DirectoryState::Waits | DirectoryState::Begins | DirectoryState::Stands) {
            self.state.set(state);
        }
        *self.watch.borrow_mut() = None;
    }
}

/// What is known of a directory by its path.
struct Tracked {
    directory: Weak<Directory>,
    /// When it ended; 0: it has not.
    ended: u64,
    ends: Ends,
}

/// How many watches under a path ended within a second.
#[derive(Clone, Copy, Default)]
struct Ends {
    /// When the first of them did.
    since: u64,
    number: u32,
}

impl Ends {
    fn note(&mut self, now: u64, state: DirectoryState) {
        if now.saturating_sub(self.since) >= TRUE_FOR {
            *self = Self { since: now, number: 0 };
        }
        // What could not be watched cannot be right afterwards.
        self.number = if state == DirectoryState::Failed { ENDS_MAX } else { self.number + 1 };
    }
}

/// The directories beneath one root.
#[derive(Default)]
pub(super) struct Directories {
    all: BTreeMap<Box<[u8]>, Tracked>,
    asked: BTreeMap<u64, Weak<Directory>>,
    /// When a watch was refused; none is begun for a while.
    refused: u64,
    /// As many are there when those are taken out that nobody keeps.
    sweep_at: usize,
}

/// The directory that a file of this name lies in.
pub(super) fn directory_of(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'/').map_or(b"", |at| &name[..at])
}

fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

impl Directories {
    /// The directory of this path, if it stands.
    pub fn standing(&self, path: &[u8]) -> Option<Rc<Directory>> {
        self.all.get(path)?.directory.upgrade().filter(|directory| directory.stands())
    }

    /// Ends all of them: the root is another one.
    pub fn end_all(&mut self, now: u64) {
        self.end(b"", DirectoryState::Told, now);
    }

    /// The directory that is kept under this path, unless it has ended.
    fn kept(&self, path: &[u8]) -> Option<Rc<Directory>> {
        self.all.get(path).filter(|place| place.ended == 0)?.directory.upgrade()
    }

    /// Whether none is begun here for now: as many as may have just ended, or another was refused.
    fn rests(&self, path: &[u8], now: u64) -> bool {
        let is_recent = |time: u64| time > 0 && now.saturating_sub(time) < TRUE_FOR;
        is_recent(self.refused) || self.all.get(path).is_some_and(|place| place.ends.number >= ENDS_MAX && is_recent(place.ended))
    }

    fn add(&mut self, path: &[u8], above: Option<Rc<Directory>>, now: u64) -> Rc<Directory> {
        let (state, watch) = (Cell::new(DirectoryState::Waits), RefCell::default());
        let directory = Rc::new(Directory { path: path.into(), above, state, watch });
        let ends = self.all.get(path).map(|place| place.ends).unwrap_or_default();
        let before = self.all.insert(path.into(), Tracked { directory: Rc::downgrade(&directory), ended: 0, ends });
        assert!(before.is_none_or(|place| place.ended > 0 || place.directory.strong_count() == 0), "one path, one directory");
        if self.all.len() >= self.sweep_at {
            self.all.retain(|_, place| match place.ended {
                0 => place.directory.strong_count() > 0,
                ended => now.saturating_sub(ended) < TRUE_FOR,
            });
            self.sweep_at = 2 * self.all.len() + 64;
        }
        directory
    }

    /// Ends the directory of this path, and all beneath it.
    fn end(&mut self, path: &[u8], state: DirectoryState, now: u64) {
        let from = (Bound::Included(path), Bound::Unbounded);
        let same = self.all.range_mut::<[u8], _>(from).take_while(|(other, _)| other.starts_with(path));
        for (_, place) in same.filter(|(other, place)| place.ended == 0 && is_at_or_beneath(other, path)) {
            place.ended = now.max(1);
            place.ends.note(now, state);
            if let Some(directory) = place.directory.upgrade() {
                directory.end(state);
            }
        }
    }

    /// Those that wait for `above` to stand.
    fn waiting_for(&self, above: &Rc<Directory>) -> Vec<Rc<Directory>> {
        let from = (Bound::Included(&*above.path), Bound::Unbounded);
        let same = self.all.range::<[u8], _>(from).take_while(|(other, _)| other.starts_with(&above.path));
        let directories = same.filter_map(|(_, place)| place.directory.upgrade());
        let waits = |directory: &Rc<Directory>| {
            directory.state.get() == DirectoryState::Waits && directory.above.as_ref().is_some_and(|of| Rc::ptr_eq(of, above))
        };
        directories.filter(waits).collect()
    }
}

fn is_at_or_beneath(other: &[u8], path: &[u8]) -> bool {
    path.is_empty() || other.len() == path.len() || other[path.len()] == b'/'
}

impl Directories {
    /// The directory of this path beneath `root`, to be kept by whoever wants it watched; none if it is not to be watched now.
    pub fn watched(&mut self, cx: &mut Cx<'_>, tokens: &mut Tokens, root: Option<&File>, path: &[u8]) -> Option<Rc<Directory>> {
        let levels = 1 + path.iter().filter(|byte| **byte == b'/').count();
        if levels > DEPTH_MAX {
            return None;
        }
        let now = cx.now().nanoseconds();
        if let Some(directory) = self.kept(path) {
            return Some(directory);
        }
        if self.rests(path, now) {
            return None;
        }
        let above = if path.is_empty() { None } else { Some(self.watched(cx, tokens, root, directory_of(path))?) };
        let directory = self.add(path, above, now);
        self.begin(cx, tokens, root, &directory);
        Some(directory)
    }

    /// Opens a directory, or watches the root, if all above it stands.
    fn begin(&mut self, cx: &mut Cx<'_>, tokens: &mut Tokens, root: Option<&File>, directory: &Rc<Directory>) {
        assert!(directory.state.get() == DirectoryState::Waits, "a directory begins to be watched once");
        let root = match root {
            Some(root) if directory.above.as_ref().is_none_or(|above| above.stands()) => root,
            _ => return,
        };
        let token = tokens.next();
        directory.state.set(DirectoryState::Begins);
        self.asked.insert(token, Rc::downgrade(directory));
        match &*directory.path {
            b"" => watch(cx, directory, root, token),
            name => {
                let options = OpenOptions::new().read(true).directory(true).no_links(true);
                cx.open_beneath(root, path(name).to_path_buf(), options, token);
            }
        }
    }

    /// Whether one of them was asked for by this token.
    pub fn have_asked(&self, token: u64) -> bool {
        self.asked.contains_key(&token)
    }

    /// Takes what came of a directory that was asked for.
    pub fn went_on(&mut self, cx: &mut Cx<'_>, tokens: &mut Tokens, root: Option<&File>, token: u64, outcome: Outcome) {
        let now = cx.now().nanoseconds();
        let directory = self.asked[&token].upgrade().filter(|directory| directory.state.get() != DirectoryState::Told);
        match (directory, outcome) {
            (Some(directory), Outcome::File(FileOutcome::Opened { file, .. })) => watch(cx, &directory, &file, token),
            (Some(directory), Outcome::File(FileOutcome::Watched)) => self.now_stands(cx, tokens, root, &directory),
            // It goes on until its end is told.
            (None, Outcome::File(FileOutcome::Watched)) => {}
            (directory, outcome) => {
                self.asked.remove(&token);
                match (directory, outcome) {
                    (Some(directory), Outcome::File(FileOutcome::Changed)) => {
                        self.end(&directory.path, DirectoryState::Told, now)
                    }
                    (Some(directory), Outcome::Failed(fault)) => self.failed(&directory.path, fault, now),
                    (Some(_), _) => unreachable!("an operation ends as one of its kind"),
                    (None, _) => {}
                }
            }
        }
    }

    fn now_stands(&mut self, cx: &mut Cx<'_>, tokens: &mut Tokens, root: Option<&File>, directory: &Rc<Directory>) {
        assert!(directory.state.get() == DirectoryState::Begins, "what is watched was begun");
        assert!(directory.above.as_ref().is_none_or(|above| above.stands()), "what was told of above ended all beneath it");
        directory.state.set(DirectoryState::Stands);
        for waiting in self.waiting_for(directory) {
            self.begin(cx, tokens, root, &waiting);
        }
    }

    /// A directory could not be opened or watched.
    fn failed(&mut self, path: &[u8], fault: Fault, now: u64) {
        // A link on the way, or a directory that is gone, says nothing of others.
        if !matches!(fault.reason, Reason::Outside | Reason::NotFound | Reason::NotAFile | Reason::Cancelled) {
            self.refused = now.max(1);
        }
        self.end(path, DirectoryState::Failed, now);
    }
}

fn watch(cx: &mut Cx<'_>, directory: &Directory, file: &File, token: u64) {
    let before = directory.watch.replace(Some(cx.watch_directory(file, token)));
    assert!(before.is_none(), "a directory is watched once");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(paths: &[&str]) -> (Directories, Vec<Rc<Directory>>) {
        let mut directories = Directories::default();
        let kept = paths.iter().map(|path| directories.add(path.as_bytes(), None, 1)).collect::<Vec<_>>();
        kept.iter().for_each(|directory| directory.state.set(DirectoryState::Stands));
        (directories, kept)
    }

    #[test]
    fn what_is_told_ends_all_beneath_it() {
        let paths = ["", "a", "a-b", "a/b", "a/b/c", "ab", "a/bc"];
        for (told, ended) in
            [("a/b", &["a/b", "a/b/c"][..]), ("a", &["a", "a/b", "a/b/c", "a/bc"]), ("ab", &["ab"]), ("", &paths)]
        {
            let (mut directories, kept) = with(&paths);
            directories.end(told.as_bytes(), DirectoryState::Told, TRUE_FOR);
            for (path, directory) in paths.iter().zip(kept) {
                assert_eq!(directory.is_told(), ended.contains(path), "{path} as {told} was told of");
                assert_eq!(directories.standing(path.as_bytes()).is_none(), ended.contains(path));
                assert!(!directories.rests(path.as_bytes(), TRUE_FOR), "it may be watched again");
            }
        }
    }

    #[test]
    fn what_is_told_of_too_often_rests() {
        let mut directories = Directories::default();
        let mut end = |now: u64| {
            let directory = directories.add(b"a", None, now);
            directory.state.set(DirectoryState::Stands);
            directories.end(b"a", DirectoryState::Told, now);
            directories.rests(b"a", now)
        };
        for second in 1..4 {
            // A second after the last of those before, that is over.
            let begin = 2 * second * TRUE_FOR;
            let rested: Vec<_> = (0..4).map(|number| end(begin + number)).collect();
            assert_eq!(rested, [false, false, false, true]);
        }
        assert!(directories.rests(b"a", 7 * TRUE_FOR) && !directories.rests(b"a", 7 * TRUE_FOR + 3));
    }

    #[test]
    fn what_nobody_keeps_is_taken_out() {
        let mut directories = Directories::default();
        for number in 0_u32..10_000 {
            directories.add(&number.to_be_bytes(), None, 1);
            assert!(directories.all.len() <= 130);
        }
        let kept: Vec<_> =
            (0_u32..1_000).map(|number| directories.add(&[0, 1, number as u8, (number >> 8) as u8, 7], None, 1)).collect();
        assert!(kept.iter().all(|directory| directories.kept(&directory.path).is_some()));
    }

    #[test]
    fn a_refusal_is_for_all_and_a_link_for_one() {
        let (mut directories, kept) = with(&["a", "b"]);
        directories.failed(b"a", Fault::of(Reason::Outside), TRUE_FOR);
        assert!(
            directories.rests(b"a", TRUE_FOR) && !directories.rests(b"c", TRUE_FOR) && !directories.rests(b"a", 2 * TRUE_FOR)
        );
        assert!(!kept[0].is_told() && !kept[0].stands() && kept[1].stands());
        directories.failed(b"b", Fault::of(Reason::Busy), TRUE_FOR);
        assert!(directories.rests(b"c", TRUE_FOR) && !directories.rests(b"c", 2 * TRUE_FOR));
    }

    #[test]
    fn a_file_lies_in_its_directory() {
        let of = |name: &'static str| directory_of(name.as_bytes());
        assert_eq!((of("a"), of("a/b"), of("a/b/c.txt")), (&b""[..], &b"a"[..], &b"a/b"[..]));
    }
}
