//! Lanes on io_uring.

use corelane_drivers::{Crossing, Error, EventBell, Probes, UringDriver};
use corelane_seam::{Arena, Tuning};
use std::sync::Arc;

/// The driver of a lane.
pub(crate) fn driver(
    arena: Arena,
    tuning: Tuning,
    found: Probes,
    bell: Arc<EventBell>,
    crossing: Arc<Crossing>,
) -> Result<UringDriver, Error> {
    Ok(UringDriver::with_bell(arena, tuning, found, bell)?.joined(crossing))
}

/// Makes a driver once, to see whether that works, and what it finds.
pub(crate) fn attempt(arena: Arena) -> Result<Probes, Error> {
    UringDriver::new(arena, Tuning::default(), Probes::default()).map(|driver| driver.probes())
}

/// The ring costs a little less (BENCHMARKS.md). Only where it works, and yet the kernel would show its waiting as one for
/// disks (before 6.15), is it left alone; where it is refused, that is to be found out and said.
pub(crate) fn is_favoured(attempted: &Result<Probes, Error>) -> bool {
    attempted.as_ref().map_or(true, |found| found.uring_no_iowait)
}
