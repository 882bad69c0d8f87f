//! No interface's receiving is governed.

use crate::error::Error;
use crate::lanes::frames::Wires;
use corelane_seam::Record;
use corelane_watch::Page;

/// Nothing.
#[derive(Clone, Default)]
pub(crate) struct Asked(());

impl Asked {
    pub(crate) fn user_fraction(&self) -> u8 {
        0
    }
}

#[derive(Clone)]
pub(crate) enum UserFraction {}

impl UserFraction {
    pub(crate) fn end(&self) {
        match *self {}
    }
}

pub(crate) fn check(_: &Asked, _: &Wires) -> Result<(), Error> {
    Ok(())
}

pub(crate) fn check_interfaces(_: &Asked) -> Result<(), Error> {
    Ok(())
}

pub(crate) fn start(
    _: &Asked,
    _: &[Option<usize>],
    _: &[u32],
    _: &Page,
    _: bool,
) -> Result<Option<(UserFraction, Vec<Record>)>, Error> {
    Ok(None)
}
