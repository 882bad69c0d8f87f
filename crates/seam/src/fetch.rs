//! A hint to the processor: memory that is needed soon.
//!
//! Holds a marked cell: the standard library has no safe call for the hint.

/// Asks for the cache line in which `what` begins, and waits for nothing: many such lines come at the same time. Where the processor is no x86-64, nothing is asked for.
#[inline]
pub fn fetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    // SAFETY: each such processor has the instruction, which changes nothing that a program sees and fails with no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
