//! The tests of the proxy from outside, in one program: on simulated lanes, and over real sockets by both drivers.
#![forbid(unsafe_code)]
#![allow(missing_docs, clippy::unwrap_used)]

mod bridged;
mod names;
mod real;
mod simulated;
