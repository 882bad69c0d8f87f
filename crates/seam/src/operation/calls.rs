//! Calls that helper threads make.

use std::any::Any;

/// The value that an offloaded call brings back.
pub type Offloaded = Box<dyn Any + Send>;
/// A call for a helper thread.
pub type OffloadCall = Box<dyn FnOnce() -> Offloaded + Send>;

/// A [`OffloadCall`] that can be printed.
pub struct OffloadWork(
    /// The call.
    pub OffloadCall,
);

impl std::fmt::Debug for OffloadWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OffloadWork")
    }
}

/// An [`Offloaded`] that can be printed.
pub struct OffloadResult(
    /// The value.
    pub Offloaded,
);

impl std::fmt::Debug for OffloadResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OffloadResult")
    }
}
