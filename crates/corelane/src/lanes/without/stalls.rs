//! Nobody watches for turns that take too long.

use super::lacking;
use crate::error::Error;
use corelane_watch::Page;
use std::time::Duration;

pub(crate) enum Stalls {}

impl Stalls {
    pub(crate) fn watch(_: &Page, _: Vec<u32>, _: Vec<String>, _: Duration) -> Result<Self, Error> {
        Err(lacking("stall", "profile"))
    }
}
