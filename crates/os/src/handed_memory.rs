//! Memory in a file of its own that is handed to another process (with [`passing`](crate::passing)).
//!
//! Sources: memfd_create(2), fcntl(2) (seals), mmap(2).
//!
//! The file has its whole size before anybody sees it and is sealed at that: neither side can cut it off, and no access faults. Either may write anything
//! into its words: who reads them believes nothing.

use crate::shared::sealed;
use rustix::fs::SealFlags;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The most words: 64 MiB.
pub const WORDS_MAX: usize = 8 << 20;

/// See the module. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct HandedMemory(Arc<Mapped>);

#[derive(Debug)]
struct Mapped {
    start: NonNull<u8>,
    words: usize,
}

// SAFETY: the mapping belongs to this value until it is dropped, and its words are reached through atomics.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl HandedMemory {
    /// So many words of zeros, and the file that they are in: the mapping outlives it, and a thread with a descriptor table of its own may drop it.
    ///
    /// # Errors
    /// The system's: no memory, too many descriptors.
    ///
    /// # Panics
    /// For none, or more than [`WORDS_MAX`].
    pub fn new(words: usize) -> io::Result<(Self, OwnedFd)> {
        assert!(words > 0 && words <= WORDS_MAX, "memory of a size that can be had");
        let file = sealed(words * size_of::<u64>())?;
        Ok((Self::map(&file, words)?, file))
    }

    /// The memory in a file that another process has handed over.
    ///
    /// # Errors
    /// `InvalidData` for a file that is not sealed, is empty or too large; the system's.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let wanted = SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        let is_sealed = rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(wanted));
        let bytes = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        let words = bytes / size_of::<u64>();
        if !is_sealed || words == 0 || words > WORDS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a file that was handed over is no sealed memory"));
        }
        Self::map(&file, words)
    }

    fn map(file: &OwnedFd, words: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice replaces no other; the descriptor is open.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), words * size_of::<u64>(), protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // reason: only an address that was asked for could be null.
        let start = NonNull::new(start.cast()).expect("a mapping has an address");
        Ok(Self(Arc::new(Mapped { start, words })))
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so long (its file is sealed at that), aligned to a page, any bytes are a valid AtomicU64, it lives as long as `self`, and
        // nobody reaches these words except through atomics.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr().cast(), self.0.words) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the drop of the only owner of this mapping, with the length that it was mapped with.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
        assert_eq!(result, 0, "munmap of a mapping of our own cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passing;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::Ordering;

    #[test]
    fn memory_that_was_handed_over_is_the_same_and_keeps_its_size() {
        let (here, there) = UnixStream::pair().unwrap();
        let (memory, file) = HandedMemory::new(100).unwrap();
        memory.words()[99].store(7, Ordering::Relaxed);
        assert_eq!(passing::send(here.as_fd(), b"one", &[file.as_fd()]).unwrap(), 3);
        let mut message = [0; 8];
        let (bytes, mut files) = passing::receive(there.as_fd(), &mut message).unwrap();
        assert_eq!((&message[..bytes], files.len()), (&b"one"[..], 1));
        let file = files.pop().unwrap();
        assert!(rustix::fs::ftruncate(&file, 8).is_err(), "it is sealed");
        let other = HandedMemory::open(file).unwrap();
        other.words()[0].store(8, Ordering::Relaxed);
        assert_eq!((other.words()[99].load(Ordering::Relaxed), memory.words()[0].load(Ordering::Relaxed)), (7, 8));
    }

    #[test]
    fn what_is_no_sealed_memory_is_refused() {
        let (here, _there) = UnixStream::pair().unwrap();
        let open = |file| HandedMemory::open(file).unwrap_err().kind();
        assert_eq!(open(here.into()), io::ErrorKind::InvalidData);
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        assert_eq!(open(file), io::ErrorKind::InvalidData);
    }
}
