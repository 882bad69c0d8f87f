//! The tests of the drivers from outside, in one program: each more would compile and link the same once more.
#![allow(clippy::unwrap_used)]

mod card;
#[path = "../common/mod.rs"]
mod common;
mod corruption;
mod mapped;
mod route;
mod sender;
mod shared;
mod transparent;
mod uring;
