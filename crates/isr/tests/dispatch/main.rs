//! Workstreams and dispatch, and device polling. What a row of the originals demands is in the test that is named after it.
#![allow(clippy::unwrap_used)] // all of this is tests

mod order;
mod polling;
mod report;
mod rows;
