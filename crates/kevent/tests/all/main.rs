//! The tests of rings from outside, in one program: each more would compile and link the same once more.
#![allow(missing_docs, clippy::unwrap_used)]

mod rows;
mod threads;
