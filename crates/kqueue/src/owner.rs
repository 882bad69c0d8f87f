//! The process whose queues these are.

use std::sync::atomic::{AtomicU32, Ordering};

/// The process that has made a queue, 0 while none has. A child of fork(2) has none yet, and one of vfork(2) writes its parent's memory
/// but has a descriptor table of its own: what these close is no matter of the parent's queues.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// From now on closes are told.
pub(crate) fn this_process_has_queues() {
    OWNER.store(std::process::id(), Ordering::Release);
}

/// Whether the calling process is the one that has queues.
pub(crate) fn is_this_process() -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    owner != 0 && owner == std::process::id()
}
