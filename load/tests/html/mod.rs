//! The page of a report: as text, and as a browser shows it.
#![forbid(unsafe_code)]

mod browser;
mod samples;
mod text;
