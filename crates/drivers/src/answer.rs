//! What comes back from helper threads, and of file operations from the ring.

use crate::open_file::OpenFile;
use corelane_seam::{Fault, FileFacts, FileName, Offloaded};

/// What came of a call.
pub enum Answer {
    Opened { file: OpenFile, facts: FileFacts },
    Moved { bytes: usize },
    Warm { bytes: u64, facts: FileFacts },
    Listed { names: Vec<FileName>, is_whole: bool },
    Done,
    Returned(Offloaded),
    Failed(Fault),
}
