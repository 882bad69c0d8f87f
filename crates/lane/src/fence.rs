//! The fence around what users give to a lane. It stops a panic in their code, or in the drop of one of their values.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs a user's code.
///
/// # Errors
/// The panic's message.
pub fn fenced<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    // The code may leave its own state half-changed; the owner of that state is told, and decides.
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let words = words(payload.as_ref());
        // The panic's payload is the user's own, and its drop may panic again: then leaking it is better.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(second);
        }
        words
    })
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a value that is not text").to_string()
}

/// Counts drops that panicked where nobody could be told.
pub type Bursts = Arc<AtomicU64>;

/// A user's value on its way through code that is not the user's. Wherever it is dropped, a panic of its drop ends here.
pub struct Fenced<T> {
    value: Option<T>,
    bursts: Option<Bursts>,
}

impl<T> Fenced<T> {
    /// Puts the value behind the fence.
    pub fn new(value: T) -> Self {
        Self { value: Some(value), bursts: None }
    }

    /// The same; `bursts` counts if its drop panics there.
    pub fn counted(value: T, bursts: &Bursts) -> Self {
        Self { value: Some(value), bursts: Some(bursts.clone()) }
    }

    /// The value, its owner's again.
    pub fn into_inner(mut self) -> T {
        // reason: only this takes it, and only once.
        self.value.take().expect("a fenced value is there until it is taken")
    }
}

impl<T> Drop for Fenced<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take()
            && fenced(|| drop(value)).is_err()
            && let Some(bursts) = &self.bursts
        {
            bursts.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    struct Mine;

    impl Drop for Mine {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn a_panic_becomes_its_words() {
        assert_eq!(fenced(|| 7), Ok(7));
        let number = 3;
        assert_eq!(fenced(|| assert!(number == 4, "number {number}")), Err("number 3".to_string()));
    }

    #[test]
    fn a_panic_with_a_value_that_panics_again_ends_all_the_same() {
        assert_eq!(fenced(|| std::panic::panic_any(Mine)), Err("a value that is not text".to_string()));
    }

    #[test]
    fn a_fenced_value_is_counted_when_its_drop_panics_and_only_then() {
        let bursts = Bursts::default();
        drop(Fenced::new(Mine));
        drop(Fenced::counted(Mine, &bursts));
        assert_eq!((Fenced::counted(5, &bursts).into_inner(), bursts.load(Ordering::Relaxed)), (5, 1));
    }
}
