//! Where the bytes lie.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file, or what a test has in its place.
pub trait Disk {
    /// Reads what there is from this offset on, and says how much: less than asked for only at the end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all of it.
    ///
    /// # Errors
    /// The system's; then any part of it may have been written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Gives the file this length, in bytes. What is new reads as zeros.
    ///
    /// # Errors
    /// The system's.
    fn set_len(&mut self, bytes: u64) -> io::Result<()>;
}

impl Disk for File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match FileExt::read_at(self, &mut into[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }
}
