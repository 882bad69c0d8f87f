//! Reassembly: its limits, its checks, and floods. What a row of the originals demands is in the test that is named after it.
#![allow(clippy::unwrap_used)] // all of this is tests

mod attacks;
mod checks;
mod flood;
mod flows;
mod frames;
mod limits;
mod links;
mod parts;
mod steps;
