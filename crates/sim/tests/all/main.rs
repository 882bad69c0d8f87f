//! The tests of the simulator from outside, in one program: each more would compile and link the same once more.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../bench/mod.rs"]
mod bench;
#[path = "../cases/mod.rs"]
mod cases;
#[path = "../echo/mod.rs"]
mod echo;
mod seeds;
mod wire;
mod wrapped;
