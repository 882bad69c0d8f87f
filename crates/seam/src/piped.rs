//! Bytes that lie in a pipe of the system's, on their way from one connection to another.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

/// A view of bytes that a driver has brought into a pipe ([`StreamOp::ReceivePiped`](crate::StreamOp::ReceivePiped)), and that nobody can look at. They can be sent, each once and
/// in their order, by the driver that has them, and nothing else. What a view skips is gone when something behind it is sent. The pipe is the driver's again when the last view of
/// it is dropped, with what is left in it.
#[derive(Clone)]
pub struct Piped {
    pipe: Rc<dyn Any>,
    start: u32,
    length: u32,
}

impl Piped {
    /// The most bytes: 16 MiB, less one.
    pub const BYTES_MAX: usize = (1 << 24) - 1;

    /// All of the `bytes` that lie in a pipe, as its driver knows that. Its drop gives the pipe back.
    ///
    /// # Panics
    /// If there are more than [`Piped::BYTES_MAX`].
    #[doc(hidden)] // A driver calls it, and no program.
    pub fn new(pipe: Rc<dyn Any>, bytes: usize) -> Self {
        assert!(bytes <= Self::BYTES_MAX, "{bytes} bytes in a pipe, at most {} may be", Self::BYTES_MAX);
        Self { pipe, start: 0, length: bytes as u32 }
    }

    /// The pipe, for a driver of the kind that has made it.
    #[doc(hidden)] // A driver calls it, and no program.
    pub fn pipe<T: Any>(&self) -> Option<&T> {
        self.pipe.downcast_ref()
    }

    /// Where the bytes begin, counted from the first that was brought into the pipe.
    #[doc(hidden)] // A driver calls it, and no program.
    pub fn start(&self) -> usize {
        self.start as usize
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Drops the first `bytes` from the view.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "{bytes} of {} bytes", self.length);
        self.start += bytes as u32;
        self.length -= bytes as u32;
    }

    /// Drops all but the first `bytes` from the view.
    pub fn truncate(&mut self, bytes: usize) {
        self.length = self.length.min(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

impl fmt::Debug for Piped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piped({} bytes from {})", self.length, self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_view_gives_the_pipe_back() {
        let pipe = Rc::new(7_u8);
        let mut one = Piped::new(pipe.clone(), 100);
        assert_eq!((one.pipe::<u8>(), one.pipe::<u16>()), (Some(&7), None));
        let mut other = one.clone();
        one.skip(30);
        other.truncate(30);
        assert_eq!(((one.start(), one.len()), (other.start(), other.len())), ((30, 70), (0, 30)));
        drop(one);
        assert_eq!(Rc::strong_count(&pipe), 2);
        drop(other);
        assert_eq!(Rc::strong_count(&pipe), 1);
    }
}
