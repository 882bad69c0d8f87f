//! Calls of which a panic breaks nothing but the call.

use corelane_os::report::{last_panic, panic_words};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a part of a lane's life. The error is a panic's place and words.
pub(crate) fn unbroken<R>(part: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(part)).map_err(|payload| {
        let words = last_panic().unwrap_or_else(|| panic_words(payload.as_ref()).to_owned());
        // It is a value of whoever panicked, and may panic as it is dropped.
        std::mem::forget(payload);
        words
    })
}
