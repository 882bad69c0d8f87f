//! What programs tell a process at once: numbers in a ring, and a descriptor that is readable while there are some (`Documentation/bpf/ringbuf.rst`).

use super::{CreateMap, create, named, refused};
use crate::errors::Error;
use corelane_os::errno::{checked, last};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `BPF_MAP_TYPE_RINGBUF`.
const KIND: u32 = 27;
/// What stands before each record: its length, of which two bits say more, and a number for the kernel.
const HEAD_BYTES: u64 = 8;
const IS_BEING_WRITTEN: u32 = 1 << 31;
const IS_DISCARDED: u32 = 1 << 30;
/// The bytes of a record that is told, and with its head.
const TOLD_BYTES: usize = 8;
const RECORD_BYTES: usize = HEAD_BYTES as usize + TOLD_BYTES;

/// Numbers of 64 bits that programs have put in (`bpf_ringbuf_output`, helper 130), for one process, which takes them out.
#[derive(Debug)]
pub struct Told {
    descriptor: OwnedFd,
    /// A page with the index of what was taken out, which is ours.
    taken: NonNull<AtomicU64>,
    /// A page with the index of what was put in, and the records behind it, twice.
    put: NonNull<AtomicU64>,
    page: usize,
    bytes: usize,
}

impl Told {
    /// A ring for so many numbers at least. The name is as for [`super::Map::new`].
    ///
    /// # Errors
    /// As for [`super::Map::new`].
    ///
    /// # Panics
    /// If the name is longer, or they are more than 2^24.
    pub fn new(numbers: usize, name: &str) -> Result<Self, Error> {
        assert!(numbers > 0 && numbers <= 1 << 24, "a ring has room, and bounded");
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).unwrap_or(4096);
        // One record more than there are: a ring is never quite full.
        let bytes = ((numbers + 1) * RECORD_BYTES).next_power_of_two().max(page);
        let attribute = CreateMap { kind: KIND, most_entries: bytes as u32, name: named(name), ..CreateMap::default() };
        let descriptor = create(&attribute)?;
        let taken = mapped(&descriptor, page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let put = mapped(&descriptor, page + 2 * bytes, libc::PROT_READ, page).inspect_err(|_| unmap(taken, page))?;
        Ok(Self { descriptor, taken: taken.cast(), put: put.cast(), page, bytes })
    }

    /// Takes the next number out.
    pub fn take(&mut self) -> Option<u64> {
        loop {
            // SAFETY: both lie in mappings that live as long as this, aligned, and are only ever used as atomics here.
            let (taken, put) = unsafe { (self.taken.as_ref(), self.put.as_ref()) };
            let at = taken.load(Ordering::Relaxed);
            if at >= put.load(Ordering::Acquire) {
                return None;
            }
            let place = self.page + (at as usize & (self.bytes - 1));
            // SAFETY: the kernel has put a record in, which begins within the ring, on a multiple of 8, and each record lies in one piece in the mapping of both copies.
            let record = unsafe { self.put.cast::<u8>().add(place) };
            // SAFETY: as above; the kernel writes it last.
            let head = unsafe { record.cast::<AtomicU32>().as_ref() }.load(Ordering::Acquire);
            if head & IS_BEING_WRITTEN != 0 {
                return None;
            }
            let length = (head & !IS_DISCARDED) as usize;
            assert!(length <= self.bytes - HEAD_BYTES as usize, "a record lies within its ring");
            // SAFETY: as above; behind the head are at least eight bytes of the mapping, of which any are good.
            let number = unsafe { record.add(HEAD_BYTES as usize).cast::<u64>().read() };
            taken.store(at + (HEAD_BYTES + length as u64).next_multiple_of(8), Ordering::Release);
            if head & IS_DISCARDED == 0 && length == TOLD_BYTES {
                return Some(number);
            }
        }
    }
}

impl AsFd for Told {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        unmap(self.taken.cast(), self.page);
        unmap(self.put.cast(), self.page + 2 * self.bytes);
    }
}

fn mapped(ring: &OwnedFd, bytes: usize, protection: i32, at: usize) -> Result<NonNull<u8>, Error> {
    let none = std::ptr::null_mut();
    // SAFETY: a new mapping, which touches no memory that is in use.
    let base = unsafe { libc::mmap(none, bytes, protection, libc::MAP_SHARED, ring.as_raw_fd(), at as libc::off_t) };
    if base == libc::MAP_FAILED {
        return Err(refused("mmap of a BPF ring", last()));
    }
    NonNull::new(base.cast()).ok_or_else(|| refused("mmap of a BPF ring", libc::ENOMEM))
}

fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: the mapping is the caller's, and nothing of it is used any more.
    let unmapped = checked(unsafe { libc::munmap(base.as_ptr().cast(), bytes) } as isize);
    assert!(unmapped.is_ok(), "a mapping ends once");
}
