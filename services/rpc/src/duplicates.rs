//! Replies that are kept for calls that come twice, because a caller repeats what it has no answer to.

use corelane::{Cx, SECOND, Shared};
use corelane_wire::rpc;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// Calls that a lane remembers for one service at most. The oldest answered one makes room for another.
pub const DUPLICATES_MAX: usize = SETS * WAYS;
/// Bytes of a reply that is kept at most. A longer one is not, and its call is carried out again.
pub const DUPLICATE_BYTES_MAX: usize = 1024;
/// Seconds for which a reply is kept: by then callers have given up, and their numbers begin anew.
pub const DUPLICATE_SECONDS: u64 = 120;

const SETS: usize = 128;
/// Places that a call may take: few enough to be looked through.
const WAYS: usize = 8;
/// Bytes of the arguments that the checksum reads: enough to tell calls apart that have the same number by chance.
const CHECKED_BYTES: usize = 256;

/// What makes two calls one and the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    xid: u32,
    peer: SocketAddr,
    program: u32,
    version: u32,
    procedure: u32,
    length: usize,
    checksum: u64,
}

impl Key {
    pub(crate) fn of(call: &rpc::Call<'_>, peer: SocketAddr) -> Self {
        let rpc::Call { xid, program, version, procedure, arguments, .. } = *call;
        let checked = &arguments[..arguments.len().min(CHECKED_BYTES)];
        Self { xid, peer, program, version, procedure, length: arguments.len(), checksum: checksum(checked) }
    }

    fn set(&self) -> usize {
        let word = u64::from(self.xid) ^ (u64::from(self.peer.port()) << 32) ^ self.checksum;
        (word.wrapping_mul(MULTIPLIER) >> (64 - SETS.ilog2())) as usize
    }
}

/// An odd number with its bits spread.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum: u64, &byte| (sum ^ u64::from(byte)).wrapping_mul(MULTIPLIER).rotate_left(29))
}

enum Place {
    Free,
    InProgress(Key),
    Answered { key: Key, reply: Shared, at: u64 },
}

impl Place {
    fn holds(&self, key: &Key, now: u64) -> bool {
        match self {
            Self::Free => false,
            Self::InProgress(held) => held == key,
            Self::Answered { key: held, .. } => held == key && !self.is_old(now),
        }
    }

    fn is_old(&self, now: u64) -> bool {
        matches!(self, Self::Answered { at, .. } if now.saturating_sub(*at) > DUPLICATE_SECONDS * SECOND)
    }

    /// When it may be taken for another call: the least first. None if never.
    fn age(&self) -> Option<u64> {
        match self {
            Self::Free => Some(0),
            Self::InProgress(_) => None,
            Self::Answered { at, .. } => Some(*at + 1),
        }
    }
}

/// What is known of a call.
pub(crate) enum Found {
    /// It is new, and now in progress.
    New(Memo),
    /// It is being carried out.
    InProgress,
    /// It was answered with this message.
    Answered(Shared),
    /// It is new, and there is no place for it.
    Full,
}

/// The calls of a lane that must not be carried out twice.
#[derive(Clone)]
pub(crate) struct Duplicates(Rc<RefCell<Vec<Place>>>);

impl Duplicates {
    /// Remembers nothing; the memory comes with the first call that asks for it.
    pub(crate) fn new() -> Self {
        Self(Rc::default())
    }

    /// Looks a call up, and takes it down as in progress if it is new.
    pub(crate) fn look(&self, key: Key, now: u64) -> Found {
        let mut places = self.0.borrow_mut();
        if places.is_empty() {
            places.resize_with(DUPLICATES_MAX, || Place::Free);
        }
        let first = key.set() * WAYS;
        let set = &mut places[first..first + WAYS];
        match set.iter().find(|place| place.holds(&key, now)) {
            Some(Place::Answered { reply, .. }) => return Found::Answered(reply.clone()),
            Some(_) => return Found::InProgress,
            None => {}
        }
        let oldest = (0..WAYS).filter_map(|way| set[way].age().map(|age| (age, way))).min();
        let Some((_, way)) = oldest else { return Found::Full };
        set[way] = Place::InProgress(key);
        Found::New(Memo { places: self.0.clone(), place: first + way })
    }
}

/// A call in progress: to be kept with its reply, or else forgotten, so that it is carried out when it comes again.
pub(crate) struct Memo {
    places: Rc<RefCell<Vec<Place>>>,
    place: usize,
}

impl Memo {
    /// Keeps `reply`, which has no mark; if it is too long, or the lane's memory is used up, the call is forgotten.
    pub(crate) fn keep(self, cx: &mut Cx<'_>, reply: &[u8]) {
        let copy = if reply.len() <= DUPLICATE_BYTES_MAX { cx.arena().copy_of(reply) } else { None };
        let Some(copy) = copy else { return cx.count(corelane::watch::ServiceCounter::DuplicatesMaxHits, 1) };
        let mut places = self.places.borrow_mut();
        if let Place::InProgress(key) = places[self.place] {
            places[self.place] = Place::Answered { key, reply: copy.share(), at: cx.now() };
        }
    }
}

impl Drop for Memo {
    fn drop(&mut self) {
        let mut places = self.places.borrow_mut();
        if matches!(places[self.place], Place::InProgress(_)) {
            places[self.place] = Place::Free;
        }
    }
}
