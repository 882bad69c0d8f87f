//! The tests of hyper's driver from outside, in one program: each more would compile and link the same once more.
#![allow(missing_docs, clippy::unwrap_used)]

mod applications;
#[path = "../simulated/mod.rs"]
mod simulated;
