//! What came of a call that was made on a helper thread.

use corelane_seam::{Fault, FileFacts, Offloaded};
use std::fs::File;

/// What came of a call.
pub enum Answer {
    Opened { file: File, facts: FileFacts },
    Moved { bytes: usize },
    Done,
    Returned(Offloaded),
    Failed(Fault),
}
