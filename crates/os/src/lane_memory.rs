//! Memory of a lane without a file.
//!
//! Sources: mmap(2), madvise(2), mlock(2).

use crate::memory_file::{ALIGNMENT, advised, map};
use corelane_seam::{Arena, RegionMemory};
use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

/// Memory for [`Arena::of`](corelane_seam::Arena::of), zeroed and committed as it is touched.
#[derive(Debug)]
pub struct LaneMemory {
    base: NonNull<u8>,
    bytes: usize,
    /// What was mapped.
    mapping: NonNull<u8>,
    mapped: usize,
    /// What it has of what was asked for.
    pages: Pages,
}

// SAFETY: the mapping belongs to this value alone, and to no thread.
unsafe impl Send for LaneMemory {}

// SAFETY: so many bytes from the aligned beginning on are mapped until the value is dropped, are zeroed at first, and nobody else's.
unsafe impl RegionMemory for LaneMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    unsafe fn renew(&self, range: Range<usize>) -> bool {
        // A huge page that was taken out while a card has it is one fewer of those that were set aside: an access that then found none would fault.
        if self.pages.huge {
            return false;
        }
        // The next access finds a new page.
        let how = if self.pages.locked { DONTNEED_LOCKED } else { libc::MADV_DONTNEED };
        // SAFETY: the caller's promise.
        unsafe { advised(self.base, range, how) }
    }
}

/// madvise(2)'s MADV_DONTNEED_LOCKED, from Linux 5.18 on.
const DONTNEED_LOCKED: i32 = 24;

/// What kind of pages a lane's memory is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Huge ones of 2 MiB, of those that were set aside (`vm.nr_hugepages`). They are there from the beginning, and none is replaced.
    pub huge: bool,
    /// They are there from the beginning, and are never taken out. Huge ones are so as they are; others are locked (mlock(2)).
    pub locked: bool,
}

/// Pages that were asked for and were not to be had; shown with the remedy.
#[derive(Debug)]
pub enum Lacking {
    /// So many huge ones.
    Huge {
        /// The system's word for it.
        error: io::Error,
        /// How many were wanted.
        pages: usize,
    },
    /// Ones that stay in memory.
    Locked {
        /// The system's word for it.
        error: io::Error,
        /// How many bytes were to be locked.
        bytes: usize,
    },
    /// Memory in which pages could be locked.
    Memory {
        /// The system's word for it.
        error: io::Error,
        /// How many bytes were wanted.
        bytes: usize,
    },
}

impl Lacking {
    /// Whether one of these kinds of pages is lacking.
    pub fn is_of(&self, pages: Pages) -> bool {
        match self {
            Self::Huge { .. } => pages.huge,
            Self::Locked { .. } | Self::Memory { .. } => pages.locked,
        }
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Huge { error, pages } => {
                let remedy = format!("raise vm.nr_hugepages by {pages}");
                // So many were promised, and could not be touched.
                let group =
                    if is_refused_at_touch(error) { ", or hugetlb.2MB.max and cpuset.mems of the control group" } else { "" };
                write!(f, "no huge pages ({error}); remedy: {remedy}{group}")
            }
            Self::Locked { error, bytes } => {
                let kib = bytes >> 10;
                write!(
                    f,
                    "not locked ({error}); remedy: raise the limit of locked memory (ulimit -l, LimitMEMLOCK= of a unit) by {kib} KiB"
                )
            }
            Self::Memory { error, bytes } => {
                write!(
                    f,
                    "not locked, for {} KiB of memory are refused ({error}); remedy: less memory, or fewer lanes",
                    bytes >> 10
                )
            }
        }
    }
}

/// Whether this is what populating says of pages that a control group keeps back (madvise(2), EFAULT: an access would have been a SIGBUS).
fn is_refused_at_touch(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

/// Tries whether so many bytes, a multiple of 2 MiB, could have such pages now: what could not be had of them. No page is touched, and nothing is kept: a control group
/// may still refuse huge pages that the system promises here.
///
/// # Panics
/// As of [`LaneMemory::new`].
pub fn lacking(bytes: usize, pages: Pages) -> Vec<Lacking> {
    assert!(bytes > 0 && bytes.is_multiple_of(ALIGNMENT), "{bytes} bytes are no whole huge pages");
    let mut lacking = Vec::new();
    if pages.huge {
        // They are set aside for a mapping when it is made, and need no lock.
        match LaneMemory::huge(bytes) {
            Ok(_) => return lacking,
            Err(why) => lacking.push(why),
        }
    }
    if pages.locked {
        lacking.extend(LaneMemory::small(bytes).map_or_else(
            |error| Some(Lacking::Memory { error, bytes }),
            // Pages are locked as they are touched, and none is.
            |memory| memory.lock(libc::MLOCK_ONFAULT).err(),
        ));
    }
    lacking
}

impl LaneMemory {
    /// So many bytes of zeros, a multiple of 2 MiB, and what was not to be had of the pages that were asked for. Where there are no huge ones, the kernel is asked for transparent ones.
    ///
    /// # Errors
    /// The system's: no memory.
    ///
    /// # Panics
    /// For none, and for a part of a huge page.
    pub fn new(bytes: usize, pages: Pages) -> io::Result<(Self, Vec<Lacking>)> {
        assert!(bytes > 0 && bytes.is_multiple_of(ALIGNMENT), "{bytes} bytes are no whole huge pages");
        let (mut memory, mut lacking) = (None, Vec::new());
        if pages.huge {
            match Self::huge(bytes).and_then(Self::touched) {
                Ok(huge) => memory = Some(huge),
                Err(why) => lacking.push(why),
            }
        }
        let has_huge = memory.is_some();
        let mut memory = memory.map_or_else(|| Self::small(bytes), Ok)?;
        if pages.huge && !has_huge {
            // SAFETY: advice on a mapping of our own. What it comes to is the kernel's affair.
            let _ = unsafe { libc::madvise(memory.base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        memory.pages.huge = has_huge;
        if pages.locked {
            match if has_huge { Ok(()) } else { memory.lock(0) } {
                Ok(()) => memory.pages.locked = true,
                Err(why) => lacking.push(why),
            }
        }
        Ok((memory, lacking))
    }

    /// Memory in huge pages.
    fn huge(bytes: usize) -> Result<Self, Lacking> {
        Self::mapped(bytes, bytes, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB)
            .map_err(|error| Lacking::Huge { error, pages: bytes / ALIGNMENT })
    }

    /// Has each huge page brought now. They are promised, but a control group (hugetlb.2MB.max, cpuset.mems) may keep them back, and the lane's first access would be a SIGBUS.
    fn touched(self) -> Result<Self, Lacking> {
        // SAFETY: the mapping is our own, and what is brought are the zeros that an access would find.
        match unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, libc::MADV_POPULATE_WRITE) } {
            0 => Ok(self),
            _ => Err(Lacking::Huge { error: io::Error::last_os_error(), pages: self.bytes / ALIGNMENT }),
        }
    }

    /// Locks its pages, so (mlock2(2)); those that are refused are as they were.
    fn lock(&self, how: libc::c_uint) -> Result<(), Lacking> {
        let (at, bytes) = (self.base.as_ptr().cast(), self.bytes);
        // SAFETY: the mapping is our own, and lives.
        if unsafe { libc::mlock2(at, bytes, how) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // Where it was refused midway the mapping is marked as locked, and its pages could not be renewed as others are.
        // SAFETY: as above.
        let _ = unsafe { libc::munlock(at, bytes) };
        Err(Lacking::Locked { error, bytes })
    }

    /// Memory in pages of the usual size.
    fn small(bytes: usize) -> io::Result<Self> {
        let mapped = bytes.checked_add(ALIGNMENT).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Self::mapped(bytes, mapped, 0)
    }

    /// Memory in a new mapping that is as long, or longer by an alignment.
    fn mapped(bytes: usize, mapped: usize, how: i32) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = map(ptr::null_mut(), mapped, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | how, -1)?;
        let skip = mapping.align_offset(ALIGNMENT);
        assert!(skip <= mapped - bytes, "an aligned address lies within what was mapped for it");
        // SAFETY: so much was mapped beyond the memory.
        let base = unsafe { mapping.add(skip) };
        Ok(Self { base, bytes, mapping, mapped, pages: Pages::default() })
    }

    /// An arena in so many bytes of it, in pages of the usual size.
    ///
    /// # Errors
    /// As of [`Arena::made`].
    pub fn arena(bytes: usize) -> Result<Arena, corelane_seam::Error> {
        Arena::made(bytes, |bytes| Self::new(bytes, Pages::default()).ok().map(|(memory, _)| memory))
    }

    /// What kind of pages it has.
    pub fn pages(&self) -> Pages {
        self.pages
    }
}

impl Drop for LaneMemory {
    fn drop(&mut self) {
        // SAFETY: the drop of the only owner of these addresses; who drops it knows that nobody uses the memory any more.
        let result = unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapped) };
        assert_eq!(result, 0, "munmap of a mapping of our own cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_file::MemoryFile;
    use crate::testing::in_child;
    use corelane_seam::Chain;
    use rustix::pipe::{IoSliceRaw, SpliceFlags, pipe, vmsplice};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use std::io::Read;

    /// A pipe reads pages from where they lie, as a card does. What it brings after all free memory was lent and written, and how many bytes were given new pages.
    fn read_later(arena: &Arena, bytes: usize, give_up: impl FnOnce(Chain) -> usize) -> (u8, usize) {
        let (reader, writer) = pipe().unwrap();
        let mut lease = arena.lease(bytes).unwrap();
        lease.spare().fill(b'a');
        lease.advance(bytes);
        let shared = lease.share();
        // SAFETY: the pipe reads the pages, and what becomes of them meanwhile is what is tested.
        assert_eq!(unsafe { vmsplice(&writer, &[IoSliceRaw::from_slice(&shared)], SpliceFlags::empty()) }, Ok(bytes));
        let mut chain = Chain::new();
        chain.push(shared);
        let renewed = give_up(chain);
        let mut free: Vec<_> = std::iter::from_fn(|| arena.lease_or_none(bytes)).collect();
        free.iter_mut().for_each(|lease| lease.spare().fill(b'b'));
        let mut got = vec![0; bytes];
        std::fs::File::from(reader).read_exact(&mut got).unwrap();
        assert!(got.iter().all(|&byte| byte == got[0]));
        assert_eq!(free.len(), arena.limit() / bytes - usize::from(renewed == 0 && got[0] == b'a'), "no other memory is lost");
        (got[0], renewed)
    }

    fn arenas(bytes: usize) -> [Arena; 2] {
        [
            Arena::of(LaneMemory::new(bytes, Pages::default()).unwrap().0).unwrap(),
            Arena::of(MemoryFile::new(bytes).unwrap().0).unwrap(),
        ]
    }

    #[test]
    fn what_is_withheld_is_not_written_and_its_place_is_used_again() {
        for arena in arenas(4 << 20) {
            assert_eq!(read_later(&arena, 64 << 10, |chain| chain.withhold().1), (b'a', 64 << 10));
        }
    }

    #[test]
    fn what_is_no_whole_page_stays_away() {
        for arena in arenas(4 << 20) {
            assert_eq!(read_later(&arena, 2 << 10, |chain| chain.withhold().1), (b'a', 0));
        }
    }

    /// Else the tests above would show nothing.
    #[test]
    fn what_is_released_too_early_is_written() {
        for arena in arenas(4 << 20) {
            assert_eq!(read_later(&arena, 64 << 10, |mut chain| chain.skip(usize::MAX) - (64 << 10)), (b'b', 0));
        }
    }

    /// Whatever this machine has of it.
    #[test]
    fn memory_has_the_pages_that_are_to_be_had_and_says_which_are_not() {
        for pages in [(false, false), (true, false), (false, true), (true, true)].map(|(huge, locked)| Pages { huge, locked }) {
            let (memory, lacking) = LaneMemory::new(4 << 20, pages).unwrap();
            let has = memory.pages();
            let lacks = usize::from(pages.huge && !has.huge) + usize::from(pages.locked && !has.locked);
            assert!(
                lacking.len() == lacks
                    && lacking.iter().all(|lack| lack.is_of(pages) && lack.to_string().contains("remedy: raise")),
                "{lacking:?}"
            );
            assert!((pages.huge || !has.huge) && (pages.locked || !has.locked), "nothing that nobody asked for");
            let arena = Arena::of(memory).unwrap();
            let mut lease = arena.lease(4 << 20).unwrap();
            assert!(lease.spare().iter().all(|&byte| byte == 0));
            lease.spare().fill(1);
            let mut chain = Chain::new();
            lease.advance(4 << 20);
            chain.push(lease.share());
            let renewed = chain.withhold().1;
            assert!(renewed == 4 << 20 || has != Pages::default(), "{renewed}");
            assert!(renewed == 0 || !has.huge, "a huge page stays where it is: {renewed}");
            if renewed > 0 {
                assert!(arena.lease(4 << 20).unwrap().spare().iter().all(|&byte| byte == 0), "they are new");
            }
        }
    }

    /// Root locks whatever the limit is, as long as it has the right to.
    #[test]
    fn where_nothing_may_be_locked_memory_is_there_all_the_same() {
        // The limit is of a whole process.
        assert!(in_child(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::IPC_LOCK;
            set_capabilities(None, sets).unwrap();
            setrlimit(Resource::Memlock, Rlimit { current: Some(0), ..getrlimit(Resource::Memlock) }).unwrap();
            let (memory, lacking) = LaneMemory::new(4 << 20, Pages { huge: false, locked: true }).unwrap();
            assert!(
                matches!(&lacking[..], [lack @ Lacking::Locked { bytes, .. }] if *bytes == 4 << 20 && lack.to_string().contains("by 4096 KiB")),
                "{lacking:?}"
            );
            let tried = super::lacking(4 << 20, Pages { huge: false, locked: true });
            assert!(matches!(&tried[..], [Lacking::Locked { .. }]), "a try finds the same: {tried:?}");
            assert_eq!(memory.pages(), Pages::default());
            let arena = Arena::of(memory).unwrap();
            let (byte, renewed) = read_later(&arena, 64 << 10, |chain| chain.withhold().1);
            assert_eq!((byte, renewed), (b'a', 64 << 10), "it is renewed as unlocked memory is");
            true
        }));
    }

    /// A card may still read it, and no other may be to be had.
    #[test]
    fn huge_pages_are_never_taken_out() {
        let (mut memory, _) = LaneMemory::new(4 << 20, Pages::default()).unwrap();
        memory.pages.huge = true;
        // SAFETY: nobody uses it.
        assert!(!unsafe { memory.renew(0..2 << 20) }, "not even whole ones");
    }

    #[test]
    fn what_could_not_be_locked_or_touched_is_told_with_the_remedy() {
        // More than there are addresses.
        let tried = lacking(1 << 60, Pages { huge: false, locked: true });
        assert!(
            matches!(&tried[..], [lack @ Lacking::Memory { .. }] if lack.to_string().contains("remedy: less memory")),
            "{tried:?}"
        );
        assert!(tried[0].is_of(Pages { huge: false, locked: true }) && !tried[0].is_of(Pages { huge: true, locked: false }));
        let told = |error| Lacking::Huge { error: io::Error::from_raw_os_error(error), pages: 2 }.to_string();
        assert!(told(libc::EFAULT).contains("hugetlb.2MB.max") && !told(libc::ENOMEM).contains("hugetlb"));
    }

    /// Else a range that was refused halfway would stay marked (mlock(2)), and advice on it would be refused.
    #[test]
    fn what_was_locked_in_part_is_unlocked() {
        // No other thread may map something into the hole.
        assert!(in_child(|| {
            let (mut memory, _) = LaneMemory::new(4 << 20, Pages::default()).unwrap();
            let bytes = memory.bytes;
            let page = rustix::param::page_size();
            memory.mapped -= page;
            // SAFETY: the mapping is our own, and nobody uses its last page, which lies behind the memory.
            unsafe { libc::munmap(memory.mapping.add(memory.mapped).as_ptr().cast(), page) };
            // With a hole at its end the lock is refused after it has marked the rest.
            memory.bytes = memory.mapped + page - (memory.base.as_ptr() as usize - memory.mapping.as_ptr() as usize);
            assert!(matches!(memory.lock(libc::MLOCK_ONFAULT), Err(Lacking::Locked { .. })));
            // SAFETY: nobody uses it.
            assert!(unsafe { memory.renew(0..bytes) }, "it is no longer marked");
            true
        }));
    }

    #[test]
    fn what_others_see_is_not_renewed() {
        for arena in arenas(4 << 20) {
            let one = arena.copy_of(&[7; 8192]).unwrap().share();
            let other = one.clone();
            assert_eq!(one.withhold(), 0);
            assert_eq!(*other, [7; 8192]);
        }
    }
}
