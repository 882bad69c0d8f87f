//! Replies that are kept for calls that come twice, because a caller repeats what it has no answer to.

use crate::counters::RpcCounter;
use corelane::service::{PeerKey, Shares};
use corelane::{Address, Cx, Instant, Talk};
use corelane_wire::rpc;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Once-only calls that a lane remembers for one service at most, unless set otherwise: the last of them. Each peer has its share, one alone half: at 8,192 calls a second those of
/// one second. Its own oldest answered one makes room for another; so who calls much has nobody else's calls carried out twice. Over datagrams an address may be forged: there the share holds
/// for callers that are who they seem to be.
pub const DUPLICATES_MAX: usize = 16_384;
/// Bytes of all replies that are kept for one service of a lane, shared alike: the oldest go first.
pub const DUPLICATES_BYTES_MAX: usize = 4 << 20;
/// Bytes of a reply that is kept at most. A longer one is not, and its call is carried out again.
pub const DUPLICATE_BYTES_MAX: usize = 1024;
/// How long a reply is kept at most: by then callers have given up, and their numbers begin anew.
pub const DUPLICATE_AGE_MAX: Duration = Duration::from_secs(120);

/// Replies that have become too old and are given back with each call that is looked up: more than a call can add.
const EXPIRED_AT_ONCE: usize = 4;

/// What makes two calls one and the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Of credential and arguments, all of them.
    checksum: u64,
    xid: u32,
    peer: Address,
    program: u32,
    version: u32,
    procedure: u32,
    length: usize,
}

impl Key {
    pub(crate) fn of(call: &rpc::Call<'_>, peer: &Address) -> Self {
        let rpc::Call { xid, program, version, procedure, arguments, credential, .. } = *call;
        let who = checksum(u64::from(credential.flavour.0), credential.body.bytes());
        Self { checksum: checksum(who, arguments), xid, peer: peer.clone(), program, version, procedure, length: arguments.len() }
    }

    /// Whose share it is a part of.
    fn payer(&self) -> PeerKey {
        PeerKey::of(&self.peer)
    }
}

/// An odd number with its bits spread.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(mix(seed, bytes.len() as u64), |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, &byte| mix(sum, u64::from(byte)))
}

enum CallState {
    InProgress,
    Answered { reply: Rc<[u8]>, at: Instant, number: u64 },
}

/// What is known of a call.
pub(crate) enum KnownCall {
    /// It is new, and now in progress.
    New(Memo),
    /// It is being carried out.
    InProgress,
    /// It was answered with this message.
    Answered(Rc<[u8]>),
    /// It is new, and there is no place for it: all that its peer may have are taken by calls in progress.
    Full,
}

struct ReplyCache {
    places: BTreeMap<Key, CallState>,
    /// The answered calls by age, the oldest first.
    ages: BTreeMap<u64, (Instant, Key)>,
    /// The same of each peer.
    of_peers: BTreeSet<(PeerKey, u64)>,
    /// Who has how many places, and how many bytes of replies.
    calls: Shares,
    bytes: Shares,
    /// The number of the call that was answered last.
    last: u64,
}

impl ReplyCache {
    fn remove(&mut self, key: &Key) {
        let Some(state) = self.places.remove(key) else { return };
        let peer = key.payer();
        self.calls.give_back(Some(peer));
        if let CallState::Answered { reply, number, .. } = state {
            self.bytes.give_more_back(Some(peer), bytes_of(&reply));
            let was_there = self.of_peers.remove(&(peer, number)) && self.ages.remove(&number).is_some();
            assert!(was_there, "a call that was answered has its age");
        }
    }

    /// Forgets the call that was answered first, of all or of one peer; false if there is none.
    fn forget_oldest(&mut self, peer: Option<PeerKey>) -> bool {
        let number = match peer {
            None => self.ages.keys().next().copied(),
            Some(peer) => self.of_peers.range((peer, 0)..=(peer, u64::MAX)).next().map(|(_, number)| *number),
        };
        let Some(key) = number.and_then(|number| self.ages.get(&number)).map(|(_, key)| key.clone()) else { return false };
        self.remove(&key);
        true
    }

    /// Makes room for one more call of a peer: for one that holds few, by the oldest of all, else by its own oldest. False if those are all in progress.
    fn make_place(&mut self, peer: PeerKey) -> bool {
        while !self.calls.admits(peer) {
            let is_few = self.calls.held(peer) < self.calls.share().small();
            if !self.forget_oldest((!is_few).then_some(peer)) {
                return false;
            }
        }
        true
    }

    /// The same for the bytes of a reply, for which there is always room without others.
    fn make_room(&mut self, peer: PeerKey, bytes: u32) {
        while !self.bytes.admits_more(peer, bytes) {
            let is_few = self.bytes.held(peer).saturating_add(bytes) <= self.bytes.share().small();
            let has_forgotten = !is_few && self.forget_oldest(Some(peer)) || self.forget_oldest(None);
            assert!(has_forgotten, "without replies there is room for one");
        }
    }

    fn expire(&mut self, now: Instant) {
        for _ in 0..EXPIRED_AT_ONCE {
            if !self.ages.values().next().is_some_and(|(at, _)| is_old(*at, now)) {
                return;
            }
            self.forget_oldest(None);
        }
    }

    fn keep(&mut self, key: Key, reply: &[u8], now: Instant) {
        assert!(reply.len() <= DUPLICATE_BYTES_MAX, "a longer reply is not kept");
        let (peer, bytes) = (key.payer(), bytes_of(reply));
        self.make_room(peer, bytes);
        self.bytes.take_more(Some(peer), bytes);
        self.last += 1;
        // reason: nothing but its memo, which is here, ends a call in progress.
        let place = self.places.get_mut(&key).expect("a call in progress has its place");
        assert!(matches!(place, CallState::InProgress), "a call is answered once");
        *place = CallState::Answered { reply: reply.into(), at: now, number: self.last };
        assert!(self.ages.values().next_back().is_none_or(|(last, _)| *last <= now), "the oldest reply stands first");
        self.of_peers.insert((peer, self.last));
        self.ages.insert(self.last, (now, key));
    }
}

/// Bytes of a reply, which are few.
fn bytes_of(reply: &[u8]) -> u32 {
    u32::try_from(reply.len()).unwrap_or(u32::MAX)
}

fn is_old(at: Instant, now: Instant) -> bool {
    now - at > DUPLICATE_AGE_MAX
}

/// The calls of a lane that must not be carried out twice.
#[derive(Clone)]
pub(crate) struct Duplicates(Rc<RefCell<ReplyCache>>);

impl Duplicates {
    /// Remembers nothing yet, and at most `most` calls.
    pub(crate) fn new(most: usize) -> Self {
        let calls = Shares::new(u32::try_from(most).unwrap_or(u32::MAX));
        let bytes = Shares::new(DUPLICATES_BYTES_MAX as u32);
        let (places, ages, of_peers) = Default::default();
        Self(Rc::new(RefCell::new(ReplyCache { places, ages, of_peers, calls, bytes, last: 0 })))
    }

    /// Looks a call up, and takes it down as in progress if it is new.
    pub(crate) fn look(&self, key: Key, now: Instant) -> KnownCall {
        let mut table = self.0.borrow_mut();
        table.expire(now);
        match table.places.get(&key) {
            Some(CallState::InProgress) => return KnownCall::InProgress,
            Some(CallState::Answered { reply, at, .. }) if !is_old(*at, now) => return KnownCall::Answered(reply.clone()),
            Some(_) => table.remove(&key),
            None => {}
        }
        if !table.make_place(key.payer()) {
            return KnownCall::Full;
        }
        table.calls.take(Some(key.payer()));
        let before = table.places.insert(key.clone(), CallState::InProgress);
        assert!(before.is_none(), "a new call takes one of the places that there are");
        KnownCall::New(Memo { table: self.0.clone(), key })
    }
}

/// A call in progress: to be kept with its reply, or else forgotten, so that it is carried out when it comes again.
pub(crate) struct Memo {
    table: Rc<RefCell<ReplyCache>>,
    key: Key,
}

impl Memo {
    /// Keeps `reply`, which has no mark; if it is too long, the call is forgotten.
    pub(crate) fn keep(self, cx: &mut Cx<'_, impl Talk>, reply: &[u8]) {
        if reply.len() > DUPLICATE_BYTES_MAX {
            return cx.count(RpcCounter::DuplicatesMaxHits, 1);
        }
        self.table.borrow_mut().keep(self.key.clone(), reply, cx.now());
    }
}

impl Drop for Memo {
    fn drop(&mut self) {
        let mut table = self.table.borrow_mut();
        // One that was kept is answered by now, and may be forgotten already.
        if matches!(table.places.get(&self.key), Some(CallState::InProgress)) {
            table.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_wire::rpc::{Auth, Flavour};
    use corelane_wire::xdr::Opaque;

    fn call(xid: u32, credential: &[u8], arguments: &[u8]) -> Key {
        let credential = Auth { flavour: Flavour::SYS, body: Opaque::new(credential).unwrap() };
        let call = rpc::Call { xid, program: 1, version: 1, procedure: 1, credential, verifier: Auth::NONE, arguments };
        Key::of(&call, &"127.0.0.1:7".parse().unwrap())
    }

    fn key(xid: u32) -> Key {
        call(xid, &[], &[])
    }

    fn at(nanoseconds: u64) -> Instant {
        Instant::from_nanoseconds(nanoseconds)
    }

    /// Answers a call that is new.
    fn answer(duplicates: &Duplicates, key: Key, reply: &[u8], now: u64) {
        let KnownCall::New(memo) = duplicates.look(key.clone(), at(now)) else { panic!("it is known") };
        memo.table.borrow_mut().keep(key, reply, at(now));
    }

    fn is_known(duplicates: &Duplicates, key: Key, now: u64) -> bool {
        matches!(duplicates.look(key, at(now)), KnownCall::Answered(_))
    }

    #[test]
    fn the_key_is_of_all_that_was_sent() {
        let long = [7; 3000];
        let first = call(1, b"user", &long);
        for place in [0, 255, 256, 257, 2998, 2999] {
            let mut other = long;
            other[place] = 8;
            assert_ne!(call(1, b"user", &other), first, "byte {place}");
        }
        assert_ne!(call(1, b"root", &long), first);
        assert_ne!(call(1, b"userx", &long[1..]), call(1, b"user", &long), "what moves from one to the other");
        assert_eq!(call(1, b"user", &[7; 3000]), first);
    }

    #[test]
    fn the_oldest_answered_call_makes_room_and_one_in_progress_never() {
        // One alone has half.
        let duplicates = Duplicates::new(6);
        let KnownCall::New(progress) = duplicates.look(key(0), at(0)) else { panic!("nothing is known") };
        (1..=4).for_each(|xid| answer(&duplicates, key(xid), b"reply", u64::from(xid)));
        assert!(matches!(duplicates.look(key(0), at(5)), KnownCall::InProgress), "it is never forgotten");
        assert!(is_known(&duplicates, key(3), 5) && is_known(&duplicates, key(4), 5));
        let KnownCall::New(second) = duplicates.look(key(1), at(6)) else { panic!("it was the oldest") };
        let KnownCall::New(third) = duplicates.look(key(2), at(6)) else { panic!("it was the next") };
        assert!(matches!(duplicates.look(key(3), at(6)), KnownCall::Full), "all places are taken by calls in progress");
        drop((progress, second, third));
        assert!(matches!(duplicates.look(key(0), at(7)), KnownCall::New(_)), "a call that was dropped is carried out again");
    }

    #[test]
    fn replies_are_bounded_in_bytes_and_age() {
        let duplicates = Duplicates::new(usize::MAX);
        let fit = (DUPLICATES_BYTES_MAX / 2 / DUPLICATE_BYTES_MAX) as u32;
        (0..fit + 10).for_each(|xid| answer(&duplicates, key(xid), &[7; DUPLICATE_BYTES_MAX], 1));
        assert_eq!(duplicates.0.borrow().bytes.share().used as usize, DUPLICATES_BYTES_MAX / 2);
        assert!(!is_known(&duplicates, key(9), 1) && is_known(&duplicates, key(10), 1));
        let late = 2 + DUPLICATE_AGE_MAX.as_nanos() as u64;
        (0..fit).for_each(|xid| assert!(!is_known(&duplicates, key(xid), late)));
        let table = duplicates.0.borrow();
        let left =
            (table.bytes.share().used, table.calls.share().used, table.ages.len(), table.of_peers.len(), table.places.len());
        assert_eq!(left, (0, 0, 0, 0, 0));
    }
}
