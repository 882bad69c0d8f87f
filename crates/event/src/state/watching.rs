//! Files that are watched: for what their interests ask, and what has come of it.

use corelane_os::events::changes::{Happened, Wanted};
use corelane_os::events::descriptor;
use corelane_os::events::number::ENOENT;
use corelane_os::events::polling::Readiness;
use corelane_seam::slab::Key;
use std::ffi::OsStr;
use std::os::fd::RawFd;

use super::files::{FileChange, Files, entry, lost, meaning, wanted};
use super::parts::State;
use crate::interest::Source;
use crate::names::Named;
use crate::record::{Filter, notes};
use crate::refused::{REPLACED, Refused};
use crate::set::Token;

/// What is watched for a file that is read.
const GROWTH: Wanted = Wanted::MODIFY;

impl State {
    /// Watches the file of an origin for what its interests want.
    pub(super) fn settle_file(&mut self, key: Key) -> Result<(), Refused> {
        // What came before is told to who was there: a file is compared from here on with what it is now.
        self.hear_files();
        let number = self.origins.get(key).ok_or(REPLACED)?.number;
        self.origins[key].rest().seen = descriptor::file_state(number).map_err(Refused::system)?;
        let watch = self.origins[key].rest().watch;
        let sharing = watch.zip(self.files.as_ref()).map_or(&[][..], |(watch, files)| files.sharing(watch));
        let others = sharing.iter().filter(|other| **other != key);
        let all = others.fold(self.wants(key), |all, other| all | self.wants(*other));
        let number = self.origins[key].number;
        let files = self.prepare_files()?;
        let watch = files.watch(number, all)?;
        if !files.share(watch, key) {
            return Ok(());
        }
        let sharing = files.sharing(watch).to_vec();
        if let Some(before) = self.origins[key].rest().watch.replace(watch) {
            // Another file had the same identity: its inode was used again, and that it has ended was dropped.
            self.prepare_files()?.leave(before, key);
        }
        // Another descriptor of the same file had its own wishes, which were just overwritten.
        let all = sharing.iter().fold(Wanted::empty(), |all, other| all | self.wants(*other));
        self.prepare_files()?.watch(number, all).map(|_| ())
    }

    /// What the interests of an origin want of its file.
    fn wants(&self, key: Key) -> Wanted {
        let origin = &self.origins[key];
        let interests = origin.interests.iter().map(|interest| &self.interests[interest]);
        interests.fold(Wanted::empty(), |all, interest| match interest.filter {
            Filter::Vnode => all | wanted(interest.notes, origin.kind),
            Filter::Read if origin.is_file() => all | GROWTH,
            _ => all,
        })
    }

    fn prepare_files(&mut self) -> Result<&mut Files, Refused> {
        let files = match self.files.take() {
            Some(files) => files,
            None => {
                let files = Files::new()?;
                self.set.add(files.number(), Readiness::IN, Token::Files.word()).map_err(Refused::system)?;
                files
            }
        };
        Ok(self.files.insert(files))
    }

    /// Hears of what has happened to files.
    pub(super) fn hear_files(&mut self) {
        let Some(mut files) = self.files.take() else { return };
        let (happened, dropped) = files.read();
        let mut gone = Vec::new();
        for FileChange { watch, what, name, is_within, .. } in happened {
            if what.contains(Happened::IGNORED) {
                gone.extend(files.forget(watch));
                continue;
            }
            files.sharing(watch).iter().for_each(|&key| self.changed(key, Some((what, is_within)), name.as_deref()));
        }
        if dropped {
            // Something has happened to some: each is looked at.
            for key in files.all() {
                self.lose_names(key);
                self.changed(key, None, None);
            }
        }
        self.files = Some(files);
        gone.into_iter().for_each(|key| self.watch_ended(key));
    }

    /// The kernel has ended the watch on an origin's file, because its last name was removed, or the file itself: then the program has closed it.
    fn watch_ended(&mut self, key: Key) {
        let origin = &mut self.origins[key];
        origin.rest().watch = None;
        let is_nameless = descriptor::file_state(origin.number).is_ok_and(|state| state.links == 0);
        // A file that has names may have got the inode, and so the identity, of the one that is gone.
        if !is_nameless || !self.origins[key].is_same(&self.set) {
            self.end_origin(key);
        }
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

    /// Something has happened to the file of an origin, or in a directory to the entry `name`, and whether it was given another name there; what that was nobody
    /// knows where the kernel has dropped it.
    fn changed(&mut self, key: Key, happened: Option<(Happened, bool)>, name: Option<&OsStr>) {
        // Who shares a watch is there: an origin leaves its list as it is forgotten.
        let origin = &mut self.origins[key];
        let (number, is_file) = (origin.number, origin.is_file());
        let seen = &mut origin.rest().seen;
        let now = descriptor::file_state(number).unwrap_or(*seen);
        let meaning = match happened {
            Some(happened) => meaning(happened, seen, now),
            None => lost(seen, now),
        };
        for interest in origin.interests.iter() {
            let one = &mut self.interests[interest];
            let asked = one.notes;
            let named = name.filter(|_| asked & notes::NAMES != 0).and_then(|name| entry(happened?.0, name));
            let has_come = match &mut one.source {
                Source::File(_, came) => {
                    *came |= meaning & asked | if named.is_some() { notes::NAMES } else { 0 };
                    named.into_iter().for_each(|named| self.names.entry(interest).or_default().push(named));
                    *came != 0
                }
                _ => is_file,
            };
            if has_come && !one.disabled {
                self.ready.push(interest.index);
            }
        }
    }
}
