//! The tests of the load generator from outside, in one program: each more would compile and link the same once more.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../histogram_log/mod.rs"]
mod histogram_log;
#[path = "../html/mod.rs"]
mod html;
#[path = "../simulated/mod.rs"]
mod simulated;
