//! What activity with a descriptor comes from.

use corelane_os::events::descriptor::{self, FileState, Identity, Kind};
use corelane_os::events::polling::Readiness;
use corelane_os::events::process::PidFd;
use corelane_seam::slab::Key;
use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::RawFd;

use super::interests::Interests;
use crate::closing::Watch;
use crate::set::Watched;

/// What activity with a descriptor comes from.
pub(super) struct Origin {
    /// The descriptor: the program's, or our own of a process.
    pub number: RawFd,
    pub kind: Kind,
    /// Which file it was.
    pub identity: Identity,
    /// Whether the number was closed since.
    pub watch: Watch,
    /// What the set waits for; none while it is not in the set.
    pub registered: Option<Readiness>,
    /// The set refuses it, because it never waits (epoll_ctl(2), EPERM): devices such as /dev/null, files and directories.
    pub is_always_ready: bool,
    /// When it was read last it was a socket that takes connections.
    pub listens: Cell<bool>,
    /// Interests by filter.
    pub interests: Interests,
    /// What few have.
    pub rest: Option<Box<Rest>>,
    /// What the set has reported, and in which batch of reports.
    pub reported: (u64, Readiness),
    /// The set reports it though there is nothing to tell: it is to tell of changes alone.
    pub dozing: bool,
}

/// What few origins have: a process, a file, operations. It is apart because an event looks at the others' origins alone, of which there are many.
#[derive(Default)]
pub(super) struct Rest {
    /// Our own descriptor, of the process with this id.
    pub process: Option<(u32, PidFd)>,
    /// The watch on the file, if there is one.
    pub watch: Option<i32>,
    /// How a watched file was when it was last looked at.
    pub seen: FileState,
    /// Operations that wait for it to be readable, and writable, each line in order.
    pub lines: [VecDeque<Key>; 2],
}

impl Origin {
    /// One in which nobody is interested yet, and whose number nobody watches.
    pub fn new(number: RawFd, kind: Kind, identity: Identity) -> Self {
        Self {
            number,
            kind,
            identity,
            watch: Watch::NONE,
            registered: None,
            is_always_ready: matches!(kind, Kind::File | Kind::Directory),
            listens: Cell::new(false),
            interests: Interests::default(),
            rest: None,
            reported: (0, Readiness::empty()),
            dozing: false,
        }
    }

    /// Whether its number means the file that was registered; the set knows where identity does not tell.
    pub fn is_same(&self, set: &Watched) -> bool {
        descriptor::identity_of(self.number) == Ok(self.identity)
            && (self.kind != Kind::Nameless || self.registered.is_none() || set.has(self.number))
    }

    pub fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// Whether its descriptor is our own, of a process.
    pub fn is_process(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.process.is_some())
    }

    /// Whether it is read by offset, and is not in the set.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    pub fn is_empty(&self) -> bool {
        self.interests.is_empty() && self.lines_are_empty()
    }

    /// Whether its interests may be told before anything else was heard: what a process has done is known before its end, operations carry on before anybody
    /// is told, and a queue is asked last.
    pub fn is_told_at_once(&self) -> bool {
        let is_plain = |rest: &Rest| rest.process.is_none() && rest.lines_are_empty();
        self.kind != Kind::Nameless && self.rest.as_deref().is_none_or(is_plain)
    }

    pub fn lines_are_empty(&self) -> bool {
        self.rest.as_ref().is_none_or(|rest| rest.lines_are_empty())
    }
}

impl Rest {
    fn lines_are_empty(&self) -> bool {
        self.lines.iter().all(VecDeque::is_empty)
    }
}
