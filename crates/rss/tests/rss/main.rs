//! Receive side scaling against published vectors, a naive reference, another implementation, and hostile input.

#![allow(clippy::unwrap_used)] // all of this is tests

mod common;
mod dpdk;
mod forms;
mod fuzz;
mod keys;
mod packets;
mod plans;
mod tables;
mod texts;
mod vectors;
