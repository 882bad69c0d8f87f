//! Limits of the process (getrlimit(2)).

use crate::errno::checked;

/// What a limit and the largest that may be set are where there is none: the kernel writes it as the largest number.
pub(crate) const NONE: (u64, u64) = (libc::RLIM_INFINITY, libc::RLIM_INFINITY);

/// A limit in force and the largest that may be set (getrlimit(2)).
///
/// # Errors
/// The number that the call fails with, where a filter of calls keeps it. `rustix` has no error there, and no value either.
pub(crate) fn in_force(of: libc::__rlimit_resource_t) -> Result<(u64, u64), i32> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes a limit to a place of ours, and keeps no pointer.
    checked(unsafe { libc::getrlimit(of, &raw mut limit) } as isize).map(|_| (limit.rlim_cur, limit.rlim_max))
}
