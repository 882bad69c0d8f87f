//! The tests of pages from outside, in one program: each more would compile and link the same once more.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod damage;
mod pages;
mod processes;
