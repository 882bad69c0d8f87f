//! Upstreams, of which random things are told in random order.
#![allow(clippy::unwrap_used)] // all of this is tests

mod sources;
mod table;
