//! No lane is on io_uring.

use corelane_drivers::{Crossing, EpollDriver, Error, EventBell};
use corelane_seam::{Arena, Tuning};
use std::sync::Arc;

pub(crate) fn driver(_: Arena, _: Tuning, _: Arc<EventBell>, _: Arc<Crossing>) -> Result<EpollDriver, Error> {
    Err(Error::UringLeftOut)
}

pub(crate) fn attempt(_: Arena) -> Result<(), Error> {
    Err(Error::UringLeftOut)
}

pub(crate) fn is_favoured(_: Result<(), Error>) -> bool {
    false
}
