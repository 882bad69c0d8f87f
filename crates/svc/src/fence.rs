//! The fence around every call into a service: a panic ends the connection it was for, never the lane.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call into a service.
///
/// # Errors
/// The panic's message.
pub(crate) fn fenced<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    // A service may be left half-changed by its panic; its sessions' owner is told, and decides.
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| words(payload.as_ref()))
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a value that is not text").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_words() {
        assert_eq!(fenced(|| 7), Ok(7));
        let number = 3;
        assert_eq!(fenced(|| assert!(number == 4, "number {number}")), Err("number 3".to_string()));
    }
}
