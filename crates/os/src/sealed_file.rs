//! Bytes in a file without a name that nobody can write to any more: their pages may be given to whoever receives them.
//!
//! Sources: memfd_create(2), fcntl(2) (seals), mmap(2), sendfile(2).

use crate::memory_file::map;
use corelane_seam::{Sealed, SealedMemory};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::retry_on_intr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

/// What makes a file's bytes the same for ever.
const SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK).union(SealFlags::SEAL);

/// A mapped file that is sealed.
#[derive(Debug)]
struct SealedFile {
    start: NonNull<u8>,
    bytes: usize,
    file: OwnedFd,
}

impl SealedMemory for SealedFile {
    fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes from there on are mapped until the value is dropped. The file is sealed, so nobody changes them, and no access faults.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

impl Drop for SealedFile {
    fn drop(&mut self) {
        // SAFETY: the drop of the only owner of this mapping, with the length that it was mapped with; no slice of it outlives the value.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        assert_eq!(result, 0, "munmap of a mapping of our own cannot fail");
    }
}

/// Copies these bytes, in their order, into a memory file and seals that. The file is this thread's: it is to be dropped by one with the same table of descriptors.
///
/// # Errors
/// The system's: no memory, no descriptor, or no such files; `InvalidInput` for no byte, or more than [`Sealed::BYTES_MAX`].
pub fn seal(parts: &[&[u8]]) -> io::Result<Sealed> {
    let file = rustix::fs::memfd_create(c"corelane-sealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    for part in parts {
        let mut left = *part;
        while !left.is_empty() {
            let written = retry_on_intr(|| rustix::io::write(&file, left))?;
            left = &left[written..];
        }
    }
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    open(file)
}

/// The bytes of a memory file that somebody has sealed.
///
/// # Errors
/// `InvalidInput` for a file that is not sealed against every change, is empty, or has more than [`Sealed::BYTES_MAX`] bytes; the system's.
pub fn open(file: OwnedFd) -> io::Result<Sealed> {
    let is_sealed = rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS));
    let bytes = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
    if !is_sealed || bytes == 0 || bytes > Sealed::BYTES_MAX {
        let words =
            format!("a sealed file of 1 to {} bytes was expected, not one of {bytes} (sealed: {is_sealed})", Sealed::BYTES_MAX);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    }
    let start = map(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd())?;
    Ok(Sealed::new(SealedFile { start, bytes, file }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_sealed_is_known_by_file_and_place_and_nobody_writes_to_it() {
        let whole = seal(&[b"one ", b"", b"two"]).unwrap();
        let part = whole.slice(4..7);
        assert_eq!((&*whole, &*part), (&b"one two"[..], &b"two"[..]));
        let (file, offset) = part.file().unwrap();
        let file = std::fs::File::from(file.try_clone_to_owned().unwrap());
        let mut got = [0; 3];
        file.read_exact_at(&mut got, offset).unwrap();
        assert_eq!(&got, b"two");
        assert!(file.write_at(b"x", 0).is_err() && file.set_len(1).is_err() && file.set_len(100).is_err());
        assert!(map(ptr::null_mut(), 7, libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd()).is_err());
        let again = open(file.into()).unwrap();
        drop((whole, part));
        assert_eq!(&*again, b"one two");
    }

    #[test]
    fn what_may_still_change_is_refused() {
        let file = || {
            let file = rustix::fs::memfd_create(c"open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
            rustix::io::write(&file, b"abc").unwrap();
            file
        };
        for missing in [SealFlags::WRITE, SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
            let file = file();
            rustix::fs::fcntl_add_seals(&file, SEALS.difference(missing)).unwrap();
            assert_eq!(open(file).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{missing:?}");
        }
        assert_eq!(seal(&[]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let on_disk = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(open(on_disk.into()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
