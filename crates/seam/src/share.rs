//! How peers share a bounded number of things, such as tasks, handshakes or connections.
//!
//! It is the rule of a lane's memory, for what is counted by ones:
//!
//! * **A peer never holds more than it leaves.** One alone may hold half, the next one half of the rest.
//! * **A reserve is kept for who holds little**: the last quarter is given only to peers that hold a few.

/// The part that is kept for peers that hold little: a quarter.
const RESERVE_DIVISOR: u32 = 4;
/// Peers that the reserve is enough for at the same time, where each may hold [`SMALL_MIN`] of it.
const RESERVE_PEERS: u32 = 128;
/// The least that a peer may hold. Of a bound below 4,096 the reserve is enough for fewer peers therefore.
const SMALL_MIN: u32 = 8;
/// Nearly all are gone when less than this part is left.
const NEARLY_GONE_DIVISOR: u32 = 64;

/// A bounded number of things, of which some are used.
///
/// ```
/// # mod corelane { pub mod service { pub mod parts { pub use corelane_seam::share::Share; } } }
/// use corelane::service::parts::Share;
///
/// let mut tasks = Share { limit: 1_000, used: 0 };
/// while tasks.admits(tasks.used) {
///     tasks.used += 1;
/// }
/// assert_eq!(tasks.used, 500, "one peer alone has half");
/// assert!(tasks.admits(0), "and the next one a part of what it leaves");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How many there may be.
    pub limit: u32,
    /// How many there are.
    pub used: u32,
}

impl Share {
    /// How many are left.
    pub fn left(self) -> u32 {
        self.limit.saturating_sub(self.used)
    }

    /// Whether a peer that holds `held` of them may have one more.
    pub fn admits(self, held: u32) -> bool {
        self.admits_more(held, 1)
    }

    /// The same of so many more, for what is counted by bytes.
    pub fn admits_more(self, held: u32, more: u32) -> bool {
        let Some(left) = self.left().checked_sub(more) else { return false };
        let after = held.saturating_add(more);
        after <= self.small() || (left >= self.reserve() && after <= left)
    }

    /// Whether a holder of few may have one more though its peer may not: until half of the reserve is gone.
    pub fn admits_few(self) -> bool {
        self.left() > self.reserve() / 2
    }

    /// Whether so few are left that the largest holders give some back.
    pub fn is_nearly_gone(self) -> bool {
        self.left() < self.kept_free()
    }

    /// How many must come back now: none unless nearly all are gone; then twice as many are made free as are kept free.
    pub fn wanted(self) -> u32 {
        if self.is_nearly_gone() { (2 * self.kept_free()).saturating_sub(self.left()) } else { 0 }
    }

    /// How many a peer may hold however few are left, as long as one is.
    pub fn small(self) -> u32 {
        let least = SMALL_MIN.min(self.limit / SMALL_MIN);
        (self.reserve() / RESERVE_PEERS).max(least).max(1)
    }

    fn reserve(self) -> u32 {
        self.limit / RESERVE_DIVISOR
    }

    /// How many are kept free for who comes next. Bounds of less than eight keep none: there each holder has a good part.
    fn kept_free(self) -> u32 {
        (self.limit / NEARLY_GONE_DIVISOR).max(u32::from(self.limit >= SMALL_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How many each of so many peers gets, which take all they can, one behind the other.
    fn taken(limit: u32, peers: usize) -> Vec<u32> {
        let mut share = Share { limit, used: 0 };
        let mut all = Vec::new();
        for _ in 0..peers {
            let mut held = 0;
            while share.admits(held) {
                (held, share.used) = (held + 1, share.used + 1);
            }
            all.push(held);
        }
        all
    }

    #[test]
    fn each_peer_takes_half_of_what_is_left_and_the_reserve_is_for_who_holds_little() {
        assert_eq!(taken(1_024, 4), [512, 256, 8, 8]);
        assert_eq!(taken(65_536, 3), [32_768, 16_384, 128]);
        assert_eq!((taken(2, 3), taken(8, 4)), (vec![1, 1, 0], vec![4, 2, 1, 1]));
    }

    #[test]
    fn what_is_counted_by_bytes_is_shared_alike() {
        let share = |used| Share { limit: 4 << 20, used };
        assert!(share(0).admits_more(0, 2 << 20) && !share(0).admits_more(0, (2 << 20) + 1));
        assert!(share(2 << 20).admits_more(0, 1 << 20) && !share(2 << 20).admits_more(2 << 20, 100_000));
        assert!(share(4_100_000).admits_more(0, 8_000) && !share(4_100_000).admits_more(0, 10_000), "a little of the reserve");
        assert!(!share(4 << 20).admits_more(0, 1));
    }

    #[test]
    fn who_is_to_make_room_does_so_before_nothing_is_left() {
        let at = |limit, used| Share { limit, used }.wanted();
        assert_eq!((at(1_024, 1_008), at(1_024, 1_009), at(1_024, 1_024)), (0, 17, 32));
        assert_eq!((at(8, 7), at(8, 8), at(7, 7)), (0, 2, 0));
    }

    proptest! {
        #[test]
        fn as_many_peers_as_the_reserve_is_for_find_a_place(limit in 1u32..200_000, takers in any::<usize>()) {
            let share = Share { limit, used: 0 };
            let takers = takers % (share.reserve() / share.small()).max(1) as usize;
            let used: u32 = taken(limit, takers).iter().sum();
            prop_assert!(Share { limit, used }.admits(0), "{used} of {limit} are gone with {takers} peers");
        }
    }
}
