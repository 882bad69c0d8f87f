//! Memory of a lane in a file without a name, of which others may have the descriptor.
//!
//! Sources: memfd_create(2), fcntl(2) (seals), mmap(2).
//!
//! The file has its whole size before anybody sees it and is sealed at that: nobody can cut it off, and no access faults.

use crate::shared::sealed;
use corelane_seam::RegionMemory;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// At what addresses an arena begins: those of huge pages.
pub(crate) const ALIGNMENT: usize = 2 << 20;

/// Memory for [`Arena::of`](corelane_seam::Arena::of).
#[derive(Debug)]
pub struct MemoryFile {
    base: NonNull<u8>,
    bytes: usize,
    /// What was mapped.
    mapping: NonNull<u8>,
    mapped: usize,
}

// SAFETY: the mapping belongs to this value alone, and to no thread.
unsafe impl Send for MemoryFile {}

// SAFETY: so many bytes from the aligned beginning on are mapped until the value is dropped, are zeroed at first, and the value's alone in this process. Who has the file may
// read it; nobody else is to map it to write, as `new` says.
unsafe impl RegionMemory for MemoryFile {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    unsafe fn renew(&self, range: Range<usize>) -> bool {
        // A hole in the file (fallocate(2)): the next access finds a new page.
        // SAFETY: the caller's promise.
        unsafe { advised(self.base, range, libc::MADV_REMOVE) }
    }
}

impl MemoryFile {
    /// So many bytes of zeros, and the file that they are in. The mapping outlives that. Whoever gets the file may read it, and must not write to it: what the lane has received would change.
    ///
    /// # Errors
    /// The system's: no memory, too many descriptors.
    ///
    /// # Panics
    /// For none.
    pub fn new(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        assert!(bytes > 0, "memory of a size that can be had");
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let mapped = bytes.checked_add(ALIGNMENT).ok_or_else(too_large)?;
        let file = sealed(bytes)?;
        // Addresses are taken first, more than are needed, so that the file can begin at an aligned one.
        let mapping =
            map(ptr::null_mut(), mapped, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)?;
        let skip = mapping.align_offset(ALIGNMENT);
        assert!(skip < ALIGNMENT, "an aligned address lies within the alignment");
        // SAFETY: the addresses are more than the memory by the alignment.
        let base = unsafe { mapping.add(skip) };
        let memory = Self { base, bytes, mapping, mapped };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = map(base.as_ptr().cast(), bytes, access, libc::MAP_SHARED | libc::MAP_FIXED, file.as_raw_fd())?;
        assert!(at == base, "the file is mapped where it was wanted");
        Ok((memory, file))
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        // SAFETY: the drop of the only owner of these addresses; who drops it knows that nobody uses the memory any more.
        let result = unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapped) };
        assert_eq!(result, 0, "munmap of a mapping of our own cannot fail");
    }
}

/// Takes the pages of a range of a mapping out of it, by what madvise(2) knows for its kind; returns whether it did.
///
/// # Safety
/// As of [`RegionMemory::renew`].
pub(crate) unsafe fn advised(base: NonNull<u8>, range: Range<usize>, how: i32) -> bool {
    let page = rustix::param::page_size();
    if range.is_empty() || !range.start.is_multiple_of(page) || !range.end.is_multiple_of(page) {
        return false;
    }
    // SAFETY: the range lies within what is mapped from `base` on; nobody of this program counts on what it holds.
    unsafe { libc::madvise(base.add(range.start).as_ptr().cast(), range.len(), how) == 0 }
}

/// Maps `length` bytes of a file, or of nothing where there is none. With an address of its own, only what the caller has mapped there is replaced.
pub(crate) fn map(at: *mut libc::c_void, length: usize, access: i32, how: i32, file: i32) -> io::Result<NonNull<u8>> {
    // SAFETY: without an address the kernel chooses one that nobody uses; with one, the caller owns what is there.
    let start = unsafe { libc::mmap(at, length, access, how, file, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // reason: only an address that was asked for could be null.
    Ok(NonNull::new(start.cast()).expect("a mapping has an address"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::Arena;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_a_lane_writes_is_in_its_file_and_lasts_as_long_as_its_leases() {
        let (memory, file) = MemoryFile::new(8 << 20).unwrap();
        let base = memory.base();
        let arena = Arena::of(memory).unwrap();
        let lease = arena.copy_of(b"in the file").unwrap();
        let at = lease.as_ptr().addr() - base.addr().get();
        let shared = lease.share();
        drop(arena);
        let (file, mut got) = (File::from(file), [0; 11]);
        file.read_exact_at(&mut got, at as u64).unwrap();
        assert_eq!((&got, &*shared), (b"in the file", &b"in the file"[..]));
        assert!(file.set_len(4096).is_err(), "it is sealed");
        drop(file);
        assert_eq!(&*shared, b"in the file", "the memory outlives the file's name");
    }

    #[test]
    fn all_of_it_can_be_lent_and_is_zero() {
        let (memory, _file) = MemoryFile::new(4 << 20).unwrap();
        let arena = Arena::of(memory).unwrap();
        let mut lease = arena.lease(4 << 20).unwrap();
        assert!(lease.spare().iter().all(|&byte| byte == 0));
        lease.spare().fill(1);
    }
}
