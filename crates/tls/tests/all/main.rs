//! The tests of TLS from outside, in one program: each more would compile and link the same once more. Apart is what counts all
//! allocations of its process.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../simulated/mod.rs"]
mod simulated;
#[path = "../tls/mod.rs"]
mod tls;
