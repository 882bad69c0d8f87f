//! What a fragment lies in.

use corelane_seam::Frame;

/// Memory of a packet, which can be cut at both ends without moving what is left.
pub trait Memory {
    /// The packet.
    fn bytes(&self) -> &[u8];

    /// The packet, to be written to.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Drops the first `bytes`.
    ///
    /// # Panics
    /// If there are fewer.
    fn skip(&mut self, bytes: usize);

    /// Keeps the first `length` bytes only.
    ///
    /// # Panics
    /// If there are fewer.
    fn truncate(&mut self, length: usize);

    /// Bytes of memory that it keeps in use, however few of them are the packet's.
    fn held(&self) -> usize;
}

/// A frame, also one that has arrived as a parcel of another lane: it goes home when it is dropped.
impl Memory for Frame {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn skip(&mut self, bytes: usize) {
        Frame::skip(self, bytes);
    }

    fn truncate(&mut self, length: usize) {
        assert!(length <= self.len(), "{length} bytes kept of {}", self.len());
        self.set_length(length);
    }

    fn held(&self) -> usize {
        self.capacity()
    }
}
