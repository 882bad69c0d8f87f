//! Placeholder of the crate, filled in by the commits that follow.

pub mod page;
