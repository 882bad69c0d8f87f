//! No lane is on io_uring.

use corelane_drivers::{Crossing, EpollDriver, Error, EventBell, Probes};
use corelane_seam::{Arena, Tuning};
use std::sync::Arc;

pub(crate) fn driver(_: Arena, _: Tuning, _: Probes, _: Arc<EventBell>, _: Arc<Crossing>) -> Result<EpollDriver, Error> {
    Err(Error::UringLeftOut)
}

pub(crate) fn attempt(_: Arena) -> Result<Probes, Error> {
    Err(Error::UringLeftOut)
}

pub(crate) fn is_favoured(_: &Result<Probes, Error>) -> bool {
    false
}
