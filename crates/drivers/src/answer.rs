//! What comes back from helper threads, and of file operations from the ring.

use corelane_seam::{Fault, FileFacts, FileName, Offloaded};
use std::fs::File;

/// What came of a call.
pub enum Answer {
    Opened { file: File, facts: FileFacts },
    Moved { bytes: usize },
    Warm { bytes: u64 },
    Listed { names: Vec<FileName>, is_whole: bool },
    Done,
    Returned(Offloaded),
    Failed(Fault),
}
