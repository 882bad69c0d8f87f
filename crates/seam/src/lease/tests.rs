//! Leases and views, and the arena that they are of.
//!
//! Holds a marked cell: a test hands in memory of its own.
#![allow(unsafe_code)]

use super::*;

#[test]
fn a_lease_keeps_what_is_written() {
    let arena = Arena::new(1).unwrap();
    let mut lease = arena.copy_of(b"hello").unwrap();
    lease.append(b" lane");
    lease[0] = b'H';
    assert_eq!((&*lease, lease.capacity()), (&b"Hello lane"[..], 256));
    let mut shared = lease.share();
    assert_eq!(&*shared.split_to(6), b"Hello ");
    assert_eq!(&*shared, b"lane");
}

#[test]
fn memory_returns_with_the_last_view() {
    let arena = Arena::new(LEASE_BYTES_MAX).unwrap();
    let shared = arena.lease(LEASE_BYTES_MAX).unwrap().share();
    let other = shared.clone();
    assert!(!shared.is_only() && !arena.has(1));
    drop(shared);
    assert!(other.is_only() && arena.lease(1).is_none());
    drop(other);
    assert_eq!((arena.used(), arena.peak()), (0, LEASE_BYTES_MAX));
    assert!(arena.lease(LEASE_BYTES_MAX).is_some());
}

#[test]
fn an_arena_is_aligned_and_commits_nothing_before_use() {
    let committed = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let before = committed();
    let arena = Arena::new(4 << 30).unwrap();
    assert!(committed() < before + (1 << 30), "{before} {}", committed());
    let (base, bytes) = arena.region();
    assert!(base.addr().get().is_multiple_of(ALIGNMENT) && bytes == arena.limit() && bytes == 4 << 30);
    // The allocator keeps pieces that were given back, and writes those with zeros that it gives out again.
    let several = || Vec::from_iter(std::iter::repeat_with(|| Arena::new(16 << 20).unwrap()).take(16));
    drop(several());
    let before = committed();
    let _again = several();
    assert!(committed() < before + (32 << 20), "{before} {}", committed());
}

/// Memory whose end is noticed.
struct Made {
    bytes: Vec<u8>,
    skip: usize,
    ends: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Made {
    fn new(bytes: usize, off: usize) -> Self {
        let memory = vec![0; bytes + 2 * ALIGNMENT];
        let skip = memory.as_ptr().align_offset(ALIGNMENT) + off;
        Self { bytes: memory, skip, ends: Default::default() }
    }
}

// SAFETY: the bytes are the value's own, and lie elsewhere than it.
unsafe impl RegionMemory for Made {
    fn base(&self) -> NonNull<u8> {
        NonNull::from(&self.bytes[self.skip]).cast()
    }

    fn bytes(&self) -> usize {
        self.bytes.len() - 2 * ALIGNMENT
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.ends.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn memory_that_others_made_lasts_until_the_last_lease() {
    let made = Made::new(2 * LEASE_BYTES_MAX, 0);
    let (ends, base) = (made.ends.clone(), made.base());
    let ends = || ends.load(std::sync::atomic::Ordering::Relaxed);
    let arena = Arena::of(made).unwrap();
    assert_eq!((arena.region(), arena.limit(), arena.used()), ((base, 2 * LEASE_BYTES_MAX), 2 * LEASE_BYTES_MAX, 0));
    let whole: Vec<_> = std::iter::from_fn(|| arena.lease(LEASE_BYTES_MAX)).collect();
    assert_eq!(whole.len(), 2, "all of it is lent");
    drop(whole);
    let shared = arena.copy_of(b"kept").unwrap().share();
    drop(arena);
    assert_eq!((&*shared, ends()), (&b"kept"[..], 0));
    drop(shared);
    assert_eq!(ends(), 1, "it is given back once");
}

#[test]
fn memory_that_does_not_fit_is_refused_and_given_back() {
    for (bytes, off) in [(LEASE_BYTES_MAX - 4096, 0), (LEASE_BYTES_MAX, 4096)] {
        let made = Made::new(bytes, off);
        let ends = made.ends.clone();
        assert!(matches!(Arena::of(made), Err(Error::ArenaRegion { .. })), "{bytes} at {off}");
        assert_eq!(ends.load(std::sync::atomic::Ordering::Relaxed), 1);
    }
}

#[test]
fn a_view_outlives_the_arenas_name() {
    let shared = Arena::new(1).unwrap().copy_of(b"kept").unwrap().share();
    assert_eq!(&*shared, b"kept");
}

#[test]
fn sparse_means_under_a_quarter() {
    let arena = Arena::new(1).unwrap();
    let mut lease = arena.lease(4096).unwrap();
    lease.advance(1024);
    let shared = lease.share();
    assert!(!shared.is_sparse());
    assert!(shared.slice(0..1023).is_sparse());
    assert!(!arena.copy_of(b"x").unwrap().share().is_sparse());
}

#[test]
fn sizes_out_of_range_are_refused() {
    assert!(matches!(Arena::new(0), Err(Error::ArenaSize { .. })));
    assert!(matches!(Arena::new(usize::MAX), Err(Error::ArenaSize { .. })));
    assert!(Arena::new(1).unwrap().lease(LEASE_BYTES_MAX + 1).is_none());
}

#[test]
fn what_is_withheld_of_plain_memory_is_never_lent_again() {
    let arena = Arena::new(1).unwrap();
    assert_eq!(arena.copy_of(&[1; 64 << 10]).unwrap().share().withhold(), 0);
    assert_eq!(arena.used(), 64 << 10);
    let rest: Vec<_> = std::iter::from_fn(|| arena.lease_or_none(64 << 10)).collect();
    assert_eq!(rest.len(), (4 << 20) / (64 << 10) - 1);
}
