//! The tests of steering from outside, in one program: each more would compile and link the same once more.
#![allow(missing_docs, clippy::unwrap_used)]

mod plans;
mod verify;
