//! No gateway runs.

use crate::error::Error;
use crate::lanes::builder::Lanes;
use crate::lanes::frames::{Placing, Wires};
use corelane_os::aside::Aside;
use std::sync::Arc;

pub(crate) enum Ruling {}

impl Ruling {
    pub(crate) fn set(&self) -> Arc<()> {
        match *self {}
    }
}

#[derive(Clone)]
pub(crate) enum LiveGateway {}

pub(crate) fn ruling(_: &Wires) -> Result<Option<Arc<Ruling>>, Error> {
    Ok(None)
}

impl LiveGateway {
    pub(crate) fn new(_: &Lanes, _: Option<Arc<Ruling>>, _: Option<&Arc<Placing>>, _: Aside) -> Option<Self> {
        None
    }

    #[cfg(feature = "control")]
    pub(crate) fn answer(&self, _: &str) -> Result<String, String> {
        match *self {}
    }
}
