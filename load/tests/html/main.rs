//! The page of a report: as text, and as a browser shows it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // all of this is tests

mod browser;
mod samples;
mod text;
