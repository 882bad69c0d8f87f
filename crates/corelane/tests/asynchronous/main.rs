//! Asynchronous connections where it matters how something ends: halves of connections, futures that are dropped, and crowds.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../aio_parts/mod.rs"]
#[allow(dead_code, reason = "what other suites need of it")]
mod aio_parts;
mod asking;
#[path = "../../examples/async_echo.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod async_echo;
mod crowds;
mod drained;
mod dropped;
mod half;
mod hearing;
mod reading;
mod refused;
mod writing;
