//! Memory that a process shares with its children: words, a lock that survives its holder, and a place to sleep.
//!
//! Sources: memfd_create(2), fcntl(2) (seals), mmap(2), pthread_mutexattr_setrobust(3), futex(2), madvise(2).
//!
//! The file behind it has no name, is of its whole size before it is mapped and sealed at that, and its descriptor is closed: nobody can cut it off, and no
//! access faults. A child of fork(2) has it at the same address. Whoever shares it may write anything into its words: who reads them believes nothing.

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::thread::futex;
use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// Bytes before the words, for the lock: two cache lines, so that the words begin at one.
const LOCK_BYTES: usize = 128;

/// The most words: 64 MiB.
pub const WORDS_MAX: usize = 8 << 20;

const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= LOCK_BYTES);

/// See the module.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    words: usize,
}

// SAFETY: the mapping belongs to this value until it is dropped; its words are reached through atomics, its lock through pthread's functions.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// So many words of zeros.
    ///
    /// # Errors
    /// The system's: no memory, too many descriptors.
    ///
    /// # Panics
    /// For none, or more than [`WORDS_MAX`].
    pub fn new(words: usize) -> io::Result<Self> {
        assert!(words > 0 && words <= WORDS_MAX, "memory of a size that can be had");
        let bytes = bytes_of(words);
        let file = sealed(bytes)?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces no other; the descriptor is open.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // reason: only an address that was asked for could be null.
        let memory = Self { start: NonNull::new(start.cast()).expect("a mapping has an address"), words };
        memory.make_lock();
        Ok(memory)
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so long, aligned to a page, zeroed at first (a valid AtomicU64), lives as long as `self`, and nobody reaches these words
        // except through atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(LOCK_BYTES).cast(), self.words) }
    }

    /// Waits for the lock. One whose holder has ended, by whatever cause, is had as any other: what he left undone is for the caller to see.
    pub fn lock(&self) -> Locked<'_> {
        // SAFETY: `make_lock` has made it, and the mapping lives.
        let answer = unsafe { libc::pthread_mutex_lock(self.mutex()) };
        if answer == libc::EOWNERDEAD {
            // SAFETY: as above, and this thread holds it.
            let mended = unsafe { libc::pthread_mutex_consistent(self.mutex()) };
            assert!(mended == 0, "a lock that was left behind is taken over by who has it");
        }
        assert!(answer == 0 || answer == libc::EOWNERDEAD, "a lock is had, or waited for");
        Locked(self, PhantomData)
    }

    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.start.as_ptr().cast()
    }

    fn make_lock(&self) {
        let mut attributes = std::mem::MaybeUninit::uninit();
        // SAFETY: the attributes are initialised by the first call and used by the others; the mutex's memory is ours alone as yet, large enough, and
        // aligned to a page.
        let answers = unsafe {
            [
                libc::pthread_mutexattr_init(attributes.as_mut_ptr()),
                libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED),
                libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST),
                libc::pthread_mutex_init(self.mutex(), attributes.as_ptr()),
                libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()),
            ]
        };
        assert_eq!(answers, [0; 5], "a lock with attributes that every Linux has");
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the drop of the only owner of this mapping, with the length that it was mapped with.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), bytes_of(self.words)) };
        assert_eq!(result, 0, "munmap of a mapping of our own cannot fail");
    }
}

/// The lock, until it is dropped by the thread that has it.
#[derive(Debug)]
pub struct Locked<'a>(&'a SharedMemory, PhantomData<*const ()>);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread holds it: a value with a reference to it does not leave the thread, since pointers are not `Send`.
        let answer = unsafe { libc::pthread_mutex_unlock(self.0.mutex()) };
        assert!(answer == 0, "who has a lock lets go of it");
    }
}

fn bytes_of(words: usize) -> usize {
    LOCK_BYTES + words * size_of::<u64>()
}

/// A file of so many zeros without a name, which cannot change its size.
pub(crate) fn sealed(bytes: usize) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("corelane-shared", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

/// The half of a word that is slept at: its lower 32 bits.
fn half(word: &AtomicU64) -> &AtomicU32 {
    let place = usize::from(cfg!(target_endian = "big"));
    // SAFETY: within the word, aligned, and alive as long; only the kernel looks at it through this reference.
    unsafe { &*ptr::from_ref(word).cast::<AtomicU32>().add(place) }
}

/// Sleeps while the lower half of `word` is `seen`, until somebody [`wake`]s, a signal comes, or `timeout` is over.
pub fn sleep(word: &AtomicU64, seen: u32, timeout: Option<Duration>) {
    let time = timeout.and_then(|time| rustix::time::Timespec::try_from(time).ok());
    // Whatever it answers, the caller looks again.
    let _ = futex::wait(half(word), futex::Flags::empty(), seen, time.as_ref());
}

/// Wakes at most `count` of those that sleep at `word`, in whatever process.
pub fn wake(word: &AtomicU64, count: u32) {
    // It fails for addresses that are no memory alone.
    let _ = futex::wake(half(word), futex::Flags::empty(), count.min(i32::MAX as u32));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_child;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_child_shares_the_words_and_may_die_with_the_lock() {
        let memory = SharedMemory::new(3).unwrap();
        assert!(memory.words().iter().all(|word| word.load(Ordering::Relaxed) == 0));
        assert!(in_child(|| {
            std::mem::forget(memory.lock());
            memory.words()[2].store(7, Ordering::SeqCst);
            true
        }));
        drop(memory.lock());
        drop(memory.lock());
        assert_eq!(memory.words()[2].load(Ordering::SeqCst), 7);
    }

    #[test]
    fn who_sleeps_is_woken_by_another_process_and_not_where_the_word_has_changed() {
        let memory = SharedMemory::new(1).unwrap();
        let word = &memory.words()[0];
        sleep(word, 1, None);
        assert!(in_child(|| {
            word.store(1, Ordering::SeqCst);
            wake(word, 1);
            true
        }));
        sleep(word, 0, None);
    }
}
