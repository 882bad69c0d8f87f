//! The tests of the metrics server from outside, in one program: each more would compile and link the same once more.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod browser;
mod dashboard;
mod graphs;
mod managed;
mod server;
