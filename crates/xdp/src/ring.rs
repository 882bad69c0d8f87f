//! A ring that the kernel and we share, one of us putting in and the other taking out (`Documentation/networking/af_xdp.rst`).
//!
//! Each side writes its own index and reads the other's. Entries between them are the taker's; all others the putter's. Indices go on
//! past the ring's size and wrap around at 2^32.

use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use corelane_os::errno::{checked, last};

/// The kernel wants a call before it goes on (`XDP_RING_NEED_WAKEUP`).
const NEEDS_CALL: u32 = 1;

/// A ring of `T`, mapped.
#[derive(Debug)]
pub struct Ring<T> {
    base: NonNull<u8>,
    bytes: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Our own index.
    own: u32,
    kind: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `size` entries that the socket has at `page`, where `offsets` says.
    ///
    /// # Errors
    /// The system's number.
    pub fn map(socket: BorrowedFd<'_>, page: i64, offsets: &libc::xdp_ring_offset, size: u32) -> Result<Self, i32> {
        assert!(size.is_power_of_two(), "an index wraps around at a multiple of the size");
        let bytes = offsets.desc as usize + size as usize * size_of::<T>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping, which touches no memory that is in use.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), page) };
        if base == libc::MAP_FAILED {
            return Err(last());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(libc::ENOMEM)?;
        // SAFETY: the kernel says where in the mapping the indices and the entries stand; they are aligned and lie within its length.
        let (producer, consumer, flags, entries) = unsafe {
            let at = |offset: u64| base.add(offset as usize);
            (at(offsets.producer).cast(), at(offsets.consumer).cast(), at(offsets.flags).cast(), at(offsets.desc).cast())
        };
        Ok(Self { base, bytes, producer, consumer, flags, entries, size, own: 0, kind: PhantomData })
    }

    fn load(&self, index: NonNull<AtomicU32>) -> u32 {
        // SAFETY: it lies in the mapping, which lives as long as this, and is only ever used as an atomic here.
        unsafe { index.as_ref() }.load(Ordering::Acquire)
    }

    fn store(&self, index: NonNull<AtomicU32>, value: u32) {
        // SAFETY: as for `load`.
        unsafe { index.as_ref() }.store(value, Ordering::Release);
    }

    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: below the size, so within the mapping.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }

    /// Whether the kernel wants a call.
    pub fn needs_call(&self) -> bool {
        self.load(self.flags) & NEEDS_CALL != 0
    }

    /// Entries that can be put in.
    pub fn room(&self) -> u32 {
        self.size - self.untaken()
    }

    /// Entries put in that the kernel has not taken.
    pub fn untaken(&self) -> u32 {
        self.checked(self.own.wrapping_sub(self.load(self.consumer)))
    }

    /// A number of entries, which the kernel's index says. One that makes no sense would have us use entries that are the kernel's.
    fn checked(&self, entries: u32) -> u32 {
        assert!(entries <= self.size, "the kernel counts {entries} entries in a ring of {}", self.size);
        entries
    }

    /// Puts one in; the kernel sees it with [`Ring::publish`].
    ///
    /// # Panics
    /// If there is no room.
    pub fn put(&mut self, value: T) {
        assert!(self.room() > 0, "a ring takes no more than it has room for");
        // SAFETY: the entry is ours, since the kernel has taken what was there before.
        unsafe { self.entry(self.own).write(value) };
        self.own = self.own.wrapping_add(1);
    }

    /// Shows the kernel what was put in.
    pub fn publish(&mut self) {
        self.store(self.producer, self.own);
    }

    /// Entries that the kernel has put in and we have not taken.
    pub fn ready(&self) -> u32 {
        self.checked(self.load(self.producer).wrapping_sub(self.own))
    }

    /// The one behind so many others, which stays; none if the kernel has not put it in.
    pub fn peek(&self, behind: u32) -> Option<T> {
        if self.ready() <= behind {
            return None;
        }
        // SAFETY: the kernel has put it in, and any bytes are good for what it puts there.
        Some(unsafe { self.entry(self.own.wrapping_add(behind)).read() })
    }

    /// Takes the next one out; its place is the kernel's at once.
    pub fn take(&mut self) -> Option<T> {
        if self.ready() == 0 {
            return None;
        }
        // SAFETY: the kernel has put it in, and any bytes are good for what it puts there.
        let value = unsafe { self.entry(self.own).read() };
        self.own = self.own.wrapping_add(1);
        self.store(self.consumer, self.own);
        Some(value)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing of it is used any more.
        let unmapped = checked(unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) } as isize);
        assert!(unmapped.is_ok(), "a mapping ends once");
    }
}
