//! Descriptors that the driver does not own.

/// The events for which a polled descriptor is waited for (poll(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Readable, or at its end.
    pub read: bool,
    /// Writable, or broken.
    pub write: bool,
}
