//! What may be said at most so often.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// A bucket of tokens: so many a second, and so many at once (RFC 4443, section 2.4 (f)).
#[derive(Debug)]
pub(crate) struct Limiter {
    each: u64,
    most: u64,
    /// Nanoseconds of credit: a token costs `each`.
    credit: u64,
    last: u64,
}

impl Limiter {
    pub const fn new(per_second: u64, at_once: u64) -> Self {
        let each = SECOND / per_second;
        Self { each, most: each * at_once, credit: each * at_once, last: 0 }
    }

    /// One of so many that have this together: the rate is divided among them, and so is what may be said at once, of which each has one at the least.
    pub const fn part_of(per_second: u64, at_once: u64, parts: u64) -> Self {
        let (each, part) = (SECOND * parts / per_second, at_once / parts);
        let most = each * if part == 0 { 1 } else { part };
        Self { each, most, credit: most, last: 0 }
    }

    /// Whether there is a token.
    fn has(&mut self, now: u64) -> bool {
        self.credit = self.credit.saturating_add(now.saturating_sub(self.last)).min(self.most);
        self.last = self.last.max(now);
        self.credit >= self.each
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: u64) -> bool {
        let _is_there = self.has(now);
        let left = self.credit.checked_sub(self.each);
        self.credit = left.unwrap_or(self.credit);
        assert!(self.credit <= self.most, "no more is said at once than may be");
        left.is_some()
    }
}

/// Shares that peers fall into, by a hash that is nobody else's to know.
const SHARES: usize = 256;

/// A bound whose peers each have a little of their own: so one that uses up what is for all takes nothing of the others'.
#[derive(Debug)]
pub(crate) struct SharedLimiter {
    all: Limiter,
    own: Box<[Limiter]>,
    secret: u128,
}

impl SharedLimiter {
    pub fn new(secret: u128, all: Limiter, own: impl Fn() -> Limiter) -> Self {
        Self { all, own: (0..SHARES).map(|_| own()).collect(), secret }
    }

    /// Takes a token for a peer: of its share, or else of all.
    pub fn take(&mut self, now: u64, peer: IpAddr) -> bool {
        // Of IPv6 a host has a network of 64 bits to itself.
        let place = match peer {
            IpAddr::V4(peer) => u64::from(peer.to_bits()),
            IpAddr::V6(peer) => (peer.to_bits() >> 64) as u64,
        };
        self.own[share_of(self.secret, place)].take(now) || self.all.take(now)
    }
}

/// The share that a peer falls into.
fn share_of(secret: u128, peer: impl Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    (secret, peer).hash(&mut hasher);
    hasher.finish() as usize % SHARES
}

/// A bound that holds for all peers together, however many names one takes. Within it each share has a little of its own, and all have some in common: so one name
/// takes nothing of others'.
#[derive(Debug)]
pub(crate) struct CappedLimiter {
    all: Limiter,
    common: Limiter,
    own: Box<[Limiter]>,
    secret: u128,
}

impl CappedLimiter {
    /// With that bound of all, that part of it in common, and so much for each share.
    pub fn new(secret: u128, all: Limiter, common: Limiter, own: impl Fn() -> Limiter) -> Self {
        Self { all, common, own: (0..SHARES).map(|_| own()).collect(), secret }
    }

    /// Takes a token for a peer: of all, and of its share or of what is in common.
    pub fn take(&mut self, now: u64, peer: impl Hash) -> bool {
        // Nobody's share is used up for what does not go on.
        self.all.has(now) && (self.own[share_of(self.secret, peer)].take(now) || self.common.take(now)) && self.all.take(now)
    }
}

/// All that a stack says within bounds.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// ICMP errors and resets of TCP.
    pub errors: SharedLimiter,
    /// Answers to echo requests.
    pub echoes: SharedLimiter,
    /// Questions for neighbours to all of a link, for each interface: the lane's part of what all lanes may ask.
    pub questions: Box<[Limiter]>,
    /// Words to other lanes of neighbours who have answered, and of those whom nobody has asked.
    pub answers: Limiter,
    pub words: Limiter,
}

impl Bounds {
    /// Of one of so many lanes.
    pub fn new(secret: u128, interfaces: usize, lanes: usize) -> Self {
        Self {
            errors: SharedLimiter::new(secret, Limiter::new(1000, 50), || Limiter::new(10, 5)),
            echoes: SharedLimiter::new(secret, Limiter::new(10_000, 500), || Limiter::new(20, 20)),
            questions: (0..interfaces).map(|_| Limiter::part_of(250, 100, lanes as u64)).collect(),
            answers: Limiter::new(2000, 100),
            words: Limiter::new(2000, 100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_uses_up_what_is_for_all_leaves_others_their_own() {
        let mut shared = SharedLimiter::new(7, Limiter::new(100, 50), || Limiter::new(10, 5));
        let peer = |number: u8| IpAddr::from([10, 0, 0, number]);
        let mut taken = |number, now| (0..1000).filter(|_| shared.take(now, peer(number))).count();
        assert_eq!(taken(1, 0), 55);
        // These hashes fall apart: others share, as any of so many may.
        assert_eq!([2, 3, 2].map(|number| taken(number, 0)), [5, 5, 0]);
        assert_eq!(taken(2, SECOND / 10), 11);
    }

    #[test]
    fn one_name_takes_nothing_of_others_and_many_names_take_no_more_than_all_may() {
        let limiter = || CappedLimiter::new(7, Limiter::new(100, 50), Limiter::new(50, 20), || Limiter::new(10, 5));
        let taken =
            |shared: &mut CappedLimiter, now, peers: std::ops::Range<u32>| peers.filter(|peer| shared.take(now, peer)).count();
        let mut shared = limiter();
        assert_eq!((0..1000).filter(|_| shared.take(0, 1)).count(), 25, "its own, and what is in common");
        assert_eq!((0..1000).filter(|_| shared.take(0, 2)).count(), 5);
        assert_eq!(taken(&mut shared, 0, 10..1000), 20, "the rest of all");
        assert_eq!((0..1000).filter(|_| shared.take(SECOND / 10, 1)).count(), 6, "a second has 10 of its own, and 50 in common");
        let mut shared = limiter();
        assert_eq!(taken(&mut shared, 0, 0..100_000), 50);
        assert_eq!(taken(&mut shared, SECOND / 10, 0..100_000), 10);
        // What was refused has cost no share anything.
        let mut shared = limiter();
        assert_eq!(taken(&mut shared, 0, 10..1000), 50);
        assert_eq!((0..1000).filter(|_| shared.take(0, 5)).count(), 0);
        assert_eq!((0..1000).filter(|_| shared.take(SECOND / 20, 5)).count(), 5);
    }

    #[test]
    fn so_many_at_once_and_then_so_many_a_second() {
        let mut limiter = Limiter::new(100, 5);
        let taken = |limiter: &mut Limiter, now| (0..1000).filter(|_| limiter.take(now)).count();
        assert_eq!(taken(&mut limiter, 0), 5);
        assert_eq!(taken(&mut limiter, SECOND / 100), 1);
        assert_eq!(taken(&mut limiter, 100 * SECOND), 5, "credit does not grow without bound");
        assert_eq!(taken(&mut limiter, 99 * SECOND), 0, "nor by a clock that was read earlier");
        let mut part = Limiter::part_of(100, 50, 4);
        assert_eq!((taken(&mut part, 0), taken(&mut part, SECOND / 5)), (12, 5));
        let mut least = Limiter::part_of(100, 50, 200);
        assert_eq!((taken(&mut least, 0), taken(&mut least, SECOND), taken(&mut least, 2 * SECOND)), (1, 0, 1));
    }
}
