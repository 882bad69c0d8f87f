//! Workstreams and dispatch. What a row of the originals demands is in the test that is named after it.
#![allow(clippy::unwrap_used)] // all of this is tests

mod order;
mod report;
mod rows;
