//! What HTTP on a lane may be told.

use corelane_wire::http1::Limits;

/// Bounds of HTTP, beside those that all services have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Of heads.
    pub head: Limits,
    /// Bytes of content that are passed over where nobody wants them, so that the connection goes on: 65,536.
    pub unwanted_bytes: u64,
}

impl Settings {
    /// The defaults.
    pub fn new() -> Self {
        Self { head: Limits::default(), unwanted_bytes: 64 << 10 }
    }

    /// Sets the bounds of heads.
    pub fn head(mut self, head: Limits) -> Self {
        self.head = head;
        self
    }

    /// Sets how much content is passed over.
    pub fn unwanted_bytes(mut self, bytes: u64) -> Self {
        self.unwanted_bytes = bytes;
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}
