//! The words of a page and the atomics on them. Under `cfg(loom)` they are loom's, on the heap, so that loom can run
//! the code above as it is shipped.

#[cfg(not(loom))]
pub(crate) use corelane_os::page::PageMemory;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct PageMemory(Box<[AtomicU64]>);

#[cfg(loom)]
impl PageMemory {
    pub fn heap(words: usize) -> Result<Self, corelane_os::page::PageError> {
        Ok(Self((0..words).map(|_| AtomicU64::new(0)).collect()))
    }

    pub fn create(_: &corelane_os::page::RunDirectory, _: &str, words: usize) -> Result<Self, corelane_os::page::PageError> {
        Self::heap(words)
    }

    pub fn publish(&mut self) -> Result<(), corelane_os::page::PageError> {
        Ok(())
    }

    pub fn words(&self) -> &[AtomicU64] {
        &self.0
    }

    pub fn path(&self) -> Option<&std::path::Path> {
        None
    }
}
