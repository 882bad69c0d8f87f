//! The words of a ring and the lock over its filling. Under `cfg(loom)` they are loom's, on the heap, so that loom can run the code above as it is shipped.

#[cfg(not(loom))]
pub use corelane_os::shared::{Locked, SharedMemory};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
pub type Locked<'a> = loom::sync::MutexGuard<'a, ()>;

#[cfg(loom)]
pub struct SharedMemory {
    words: Box<[AtomicU64]>,
    lock: loom::sync::Mutex<()>,
}

#[cfg(loom)]
impl SharedMemory {
    pub fn new(words: usize) -> std::io::Result<Self> {
        Ok(Self { words: (0..words).map(|_| AtomicU64::new(0)).collect(), lock: loom::sync::Mutex::new(()) })
    }

    pub fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    pub fn lock(&self) -> Locked<'_> {
        // reason: a thread that panics ends the model.
        self.lock.lock().expect("loom's lock is whole")
    }
}
