//! How a parcel gets home from wherever it is dropped, and who frees the memory of a lane that has ended.
//!
//! Holds a marked cell: a parcel reaches its home's [`Home`] through a pointer, without a count that lanes would share.
//!
//! The way that is taken on a request's path is another one: the lane that is done with a parcel collects it, and a channel brings it home
//! ([`Guests`](super::Guests)). This one is for all other ends: a parcel that is dropped in a channel, on a thread that is no lane, or
//! after its home has ended. It is a stack that anybody may push to and only its home empties, all at once.
//!
//! The home lives as long as its lane or the last of its parcels, whichever is longer. The lane knows how many are away; when it ends it
//! leaves that number here, and the memory with it. From then on who brings one home counts down, and the last one frees all.
#![allow(unsafe_code)]

use crate::region::Region;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use std::ptr::NonNull;

/// Nothing lies on the stack.
const NONE: u32 = u32::MAX;
/// The lane has ended: parcels count down instead.
const ENDED: u32 = u32::MAX - 1;
/// The most parcels that a home may have away.
pub(crate) const SLOTS_MAX: usize = 1 << 20;

struct Home {
    lane: u16,
    /// The last slot that came home this way; the others follow by `next`.
    top: AtomicU32,
    next: Box<[AtomicU32]>,
    /// Parcels that are away after the lane's end.
    left: AtomicUsize,
    /// The memory, after the lane's end.
    remains: Option<Region>,
    /// Has loom report a home that is never freed.
    #[cfg(loom)]
    _alive: loom::alloc::Track<()>,
}

/// The home as its lane has it.
pub(crate) struct HomeOwner(NonNull<Home>);

impl HomeOwner {
    /// A home of lane `lane` that may have so many parcels away.
    pub(crate) fn new(lane: u16, slots: usize) -> Self {
        assert!(slots > 0 && slots <= SLOTS_MAX, "a home has some slots");
        let next = (0..slots).map(|_| AtomicU32::new(NONE)).collect();
        let home = Home {
            lane,
            top: AtomicU32::new(NONE),
            next,
            left: AtomicUsize::new(0),
            remains: None,
            #[cfg(loom)]
            _alive: loom::alloc::Track::new(()),
        };
        Self(NonNull::from(Box::leak(Box::new(home))))
    }

    fn home(&self) -> &Home {
        // SAFETY: it is freed by `end`, which consumes the owner, or after it.
        unsafe { self.0.as_ref() }
    }

    /// How many parcels may be away.
    pub(crate) fn slots(&self) -> usize {
        self.home().next.len()
    }

    /// The right to bring `slot` home. There is one for each slot that is away, no more: the owner's promise.
    pub(crate) fn right(&self, slot: u32) -> Return {
        assert!((slot as usize) < self.slots(), "a parcel has a slot of its home");
        Return { home: self.0, slot }
    }

    /// Whether a parcel of that right is one of this home's; then its slot, and the right is used up.
    pub(crate) fn redeem(&self, right: Return) -> Result<u32, Return> {
        if right.home != self.0 {
            return Err(right);
        }
        let slot = right.slot;
        std::mem::forget(right);
        Ok(slot)
    }

    /// Hands over each slot that came home over the stack.
    pub(crate) fn take_found(&self, mut each: impl FnMut(u32)) {
        let home = self.home();
        if home.top.load(Ordering::Relaxed) == NONE {
            return;
        }
        // Acquire: whoever pushed a slot is done with its memory.
        let mut at = home.top.swap(NONE, Ordering::Acquire);
        while at != NONE {
            let next = home.next[at as usize].load(Ordering::Relaxed);
            each(at);
            at = next;
        }
    }

    /// The lane ends while `away` parcels have not come home: the last of them frees the memory.
    pub(crate) fn end(self, away: usize, region: Region) {
        let pointer = self.0;
        if away == 0 {
            // SAFETY: no right is left, so nobody else knows the home.
            return drop(unsafe { Box::from_raw(pointer.as_ptr()) });
        }
        // SAFETY: rights read `remains` only after they have seen that the lane has ended.
        unsafe { (*pointer.as_ptr()).remains = Some(region) };
        let home = self.home();
        home.left.store(away, Ordering::Relaxed);
        // Release: who sees the end sees the number and the memory. Acquire: as in `take_found`.
        let mut at = home.top.swap(ENDED, Ordering::AcqRel);
        let mut found = 0;
        while at != NONE {
            assert!(at != ENDED, "a lane ends once");
            found += 1;
            at = home.next[at as usize].load(Ordering::Relaxed);
        }
        if found > 0 {
            // SAFETY: those found are among those that were counted as away, and this is the only time that they are counted down.
            unsafe { count_down(pointer, found) };
        }
    }
}

/// The right, and the duty, to bring one slot home.
pub(crate) struct Return {
    home: NonNull<Home>,
    slot: u32,
}

// SAFETY: what it points to lives until it is used up, and is reached by atomics only.
unsafe impl Send for Return {}

impl Return {
    /// The lane that is its home.
    pub(crate) fn lane(&self) -> u16 {
        // SAFETY: the home lives as long as a right does.
        unsafe { self.home.as_ref() }.lane
    }
}

impl Drop for Return {
    fn drop(&mut self) {
        // SAFETY: the home lives as long as a right does.
        let home = unsafe { self.home.as_ref() };
        // Acquire: who sees the end sees what was left there.
        let mut top = home.top.load(Ordering::Acquire);
        while top != ENDED {
            home.next[self.slot as usize].store(top, Ordering::Relaxed);
            // Release: this side is done with the memory, and the slot's `next` is written.
            match home.top.compare_exchange(top, self.slot, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
        // SAFETY: this slot was away at the lane's end, and it is counted down here and nowhere else.
        unsafe { count_down(self.home, 1) }
    }
}

/// `parcels` more have come to a home whose lane has ended; with the last one all is freed.
///
/// # Safety
/// Each parcel that was away at the lane's end is counted down once.
unsafe fn count_down(pointer: NonNull<Home>, parcels: usize) {
    // SAFETY: as long as a parcel is not counted down the home lives.
    let home = unsafe { pointer.as_ref() };
    // Release: this side is done with the memory; acquire: so are all others, if this is the last.
    let before = home.left.fetch_sub(parcels, Ordering::AcqRel);
    assert!(before >= parcels, "no more parcels come home than were away");
    if before == parcels {
        // SAFETY: none is left who knows the home.
        drop(unsafe { Box::from_raw(pointer.as_ptr()) });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    fn region() -> Region {
        Region::new(4096, 4096).expect("a page is there")
    }

    #[test]
    fn loom_parcels_that_two_threads_drop_are_all_found() {
        loom::model(|| {
            let home = HomeOwner::new(0, 2);
            let threads = [0, 1].map(|slot| {
                let right = home.right(slot);
                thread::spawn(move || drop(right))
            });
            let mut found = [false; 2];
            home.take_found(|slot| assert!(!std::mem::replace(&mut found[slot as usize], true)));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            home.take_found(|slot| assert!(!std::mem::replace(&mut found[slot as usize], true)));
            assert_eq!(found, [true; 2]);
            home.end(0, region());
        });
    }

    #[test]
    fn loom_a_slot_that_was_found_goes_out_again() {
        loom::model(|| {
            let home = HomeOwner::new(0, 2);
            let (one, other) = (home.right(0), home.right(1));
            let thread = thread::spawn(move || drop(one));
            let mut away = 2;
            home.take_found(|slot| {
                assert_eq!(slot, 0);
                away -= 1;
            });
            let again = (away == 1).then(|| home.right(0));
            drop(other);
            drop(again);
            thread.join().unwrap();
            let mut found = 0;
            home.take_found(|_| found += 1);
            assert_eq!(found, 2);
            home.end(0, region());
        });
    }

    #[test]
    fn loom_the_last_parcel_frees_what_its_lane_has_left() {
        // Memory that is never freed is reported by the tracked value in it.
        loom::model(|| {
            let home = HomeOwner::new(0, 2);
            let threads = [0, 1].map(|slot| {
                let right = home.right(slot);
                thread::spawn(move || drop(right))
            });
            let mut away = 2;
            home.take_found(|_| away -= 1);
            home.end(away, region());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
