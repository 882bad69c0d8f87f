//! No driver on a ring.

use crate::probes::Probes;

/// Nothing of a ring works.
pub(crate) fn tried(probes: Probes) -> Probes {
    Probes { uring_no_iowait: false, ..probes }
}
