//! What each process has for itself. A child of fork(2) begins anew: what it has of its parent may be locked by a thread that is not there to unlock
//! it, and is about descriptors that are its parent's.

use corelane_os::events::home;
use std::sync::OnceLock;

/// One value for each process, made by the same function in each but the first.
pub struct PerProcess<T: 'static> {
    /// How many forks lie between its process and the first.
    forks: u32,
    value: T,
    fresh: fn() -> T,
    /// That of a process further down.
    next: OnceLock<&'static Self>,
}

impl<T> PerProcess<T> {
    /// The first process's. `fresh` makes a child's.
    pub const fn new(value: T, fresh: fn() -> T) -> Self {
        Self { forks: 0, value, fresh, next: OnceLock::new() }
    }

    /// The calling process's and those of the processes that it is a child of, the first one's first. What is not the calling process's may be locked for good.
    pub fn all(&'static self) -> impl Iterator<Item = &'static T> {
        self.mine();
        std::iter::successors(Some(self), |one| one.next.get().copied()).map(|one| &one.value)
    }

    /// The calling process's.
    pub fn mine(&'static self) -> &'static T {
        let forks = home::forks();
        let mut one = self;
        while one.forks != forks {
            assert!(one.forks < forks, "a child is further down than its parent");
            // What a child has made is kept for as long as it lives, once for each process.
            let next = || &*Box::leak(Box::new(Self { forks, value: (self.fresh)(), fresh: self.fresh, next: OnceLock::new() }));
            one = one.next.get_or_init(next);
        }
        &one.value
    }
}
