//! The page of a report: as text, and as a browser shows it.

mod browser;
mod samples;
mod text;
