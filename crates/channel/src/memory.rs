//! The words of a ring. Under `cfg(loom)` they are loom's, on the heap, so that loom can run the code above as it is shipped.

#[cfg(not(loom))]
pub use corelane_os::handed_memory::HandedMemory;
/// The file that a ring is in.
#[cfg(not(loom))]
pub type File = std::os::fd::OwnedFd;
#[cfg(loom)]
pub type File = ();
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
#[derive(Clone, Debug)]
pub struct HandedMemory(std::sync::Arc<[AtomicU64]>);

#[cfg(loom)]
impl HandedMemory {
    pub fn new(words: usize) -> std::io::Result<(Self, File)> {
        Ok((Self((0..words).map(|_| AtomicU64::new(0)).collect()), ()))
    }

    pub fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}
