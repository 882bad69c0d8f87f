//! What files are opened with.

/// How a file is opened (open(2)); always close-on-exec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Allow reading.
    pub read: bool,
    /// Allow writing.
    pub write: bool,
    /// Create it (mode 0600) if it is not there.
    pub create: bool,
    /// Empty it first.
    pub truncate: bool,
}
