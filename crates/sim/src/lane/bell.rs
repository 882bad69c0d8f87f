//! A lane's doorbell.

use corelane_seam::Bell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The doorbell; the world looks at it between turns.
#[derive(Default)]
pub(crate) struct SimBell {
    rung: AtomicBool,
    rings: AtomicU64,
}

impl SimBell {
    /// Takes the ring, if there is one.
    pub(crate) fn take(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// How often it was rung.
    pub(crate) fn rings(&self) -> u64 {
        self.rings.load(Ordering::Acquire)
    }
}

impl Bell for SimBell {
    fn ring(&self) {
        self.rings.fetch_add(1, Ordering::AcqRel);
        self.rung.store(true, Ordering::Release);
    }
}
