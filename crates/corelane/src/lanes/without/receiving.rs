//! No interface's receiving is governed.

use crate::error::Error;
use crate::lanes::builder::Lanes;
use corelane_seam::Record;

/// Nothing.
#[derive(Clone, Default)]
pub(crate) struct Asked;

pub(crate) enum UserFraction {}

impl UserFraction {
    pub(crate) fn end(&self) {
        match *self {}
    }
}

pub(crate) fn check(_: &Lanes) -> Result<(), Error> {
    Ok(())
}

pub(crate) fn check_interfaces(_: &Lanes) -> Result<(), Error> {
    Ok(())
}

pub(crate) fn start(_: &Lanes, _: &[Option<usize>], _: &[u32]) -> Result<Option<(UserFraction, Vec<Record>)>, Error> {
    Ok(None)
}
