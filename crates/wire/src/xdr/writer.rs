//! Writing.

use super::padding;
use crate::Error;

/// Memory of the caller that items are written into, front to back.
#[derive(Debug)]
pub struct Writer<'a> {
    memory: &'a mut [u8],
    length: usize,
}

impl<'a> Writer<'a> {
    /// Writes into `memory`.
    pub const fn new(memory: &'a mut [u8]) -> Self {
        Self { memory, length: 0 }
    }

    /// What has been written.
    pub fn written(&self) -> &[u8] {
        &self.memory[..self.length]
    }

    /// Bytes that have been written.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing has been written.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes that can still be written.
    pub const fn room(&self) -> usize {
        self.memory.len() - self.length
    }

    /// Bytes as they are, without a length and without padding: what is encoded already.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then nothing was written.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let room = &mut self.memory[self.length..];
        let left = room.len();
        let Some(place) = room.get_mut(..bytes.len()) else {
            return Err(Error::NoRoom { expected: bytes.len(), got: left });
        };
        place.copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }

    /// An unsigned integer (RFC 4506 section 4.2).
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    #[inline]
    pub fn u32(&mut self, value: u32) -> Result<(), Error> {
        self.put(&value.to_be_bytes())
    }

    /// An unsigned hyper integer (RFC 4506 section 4.5).
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    #[inline]
    pub fn u64(&mut self, value: u64) -> Result<(), Error> {
        self.put(&value.to_be_bytes())
    }

    /// A boolean (RFC 4506 section 4.4).
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    #[inline]
    pub fn boolean(&mut self, value: bool) -> Result<(), Error> {
        self.u32(u32::from(value))
    }

    /// Fixed-length opaque data (RFC 4506 section 4.9) with its padding.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn fixed(&mut self, data: &[u8]) -> Result<(), Error> {
        self.put(data)?;
        self.padding(data.len())
    }

    /// Variable-length opaque data (RFC 4506 section 4.10) or a string (section 4.11): length, data, padding.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; [`Error::Oversized`] where the length is no 32-bit number.
    pub fn opaque(&mut self, data: &[u8]) -> Result<(), Error> {
        let limit = u32::MAX;
        let length = u32::try_from(data.len()).map_err(|_| Error::Oversized { limit, got: data.len() })?;
        self.u32(length)?;
        self.fixed(data)
    }

    /// The zeros after `bytes` of data that went another way, for example as a lease.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn padding(&mut self, bytes: usize) -> Result<(), Error> {
        self.put(&[0; 3][..padding(bytes)])
    }

    /// Drops all but the first `length` bytes, which have been written.
    pub(crate) fn truncate(&mut self, length: usize) {
        assert!(length <= self.length, "what is kept was written");
        self.length = length;
    }

    /// Overwrites the four bytes at `at`, which have been written.
    pub(crate) fn patch(&mut self, at: usize, bytes: [u8; 4]) {
        assert!(at + bytes.len() <= self.length, "what is overwritten was written");
        self.memory[at..at + 4].copy_from_slice(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_zero() {
        let mut memory = [9; 16];
        let mut writer = Writer::new(&mut memory);
        writer.opaque(b"hello").unwrap();
        writer.fixed(b"abcd").unwrap();
        assert_eq!(writer.written(), b"\0\0\0\x05hello\0\0\0abcd");
        assert_eq!(writer.len(), 16);
    }

    #[test]
    fn a_full_writer_keeps_what_it_has() {
        let mut memory = [0; 6];
        let mut writer = Writer::new(&mut memory);
        writer.u32(1).unwrap();
        assert_eq!(writer.u32(2), Err(Error::NoRoom { expected: 4, got: 2 }));
        assert_eq!(writer.written(), [0, 0, 0, 1]);
    }

    #[test]
    fn memory_is_overwritten_only_up_to_the_length() {
        let mut memory = [7; 8];
        Writer::new(&mut memory).boolean(true).unwrap();
        assert_eq!(memory, [0, 0, 0, 1, 7, 7, 7, 7]);
    }
}
