//! A file that is open.

use std::fs::File;

/// A file that is open, and whether it [is far](corelane_seam::FileFacts::is_far).
pub struct OpenFile {
    pub(crate) file: File,
    pub(crate) is_far: bool,
}
