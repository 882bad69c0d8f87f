//! The tests of queues from outside, in one program: each more would compile and link the same once more. Apart are those that fork, and
//! those of what belongs to a whole process: signals, and the promise that closes are told.
#![allow(missing_docs, clippy::unwrap_used)]

mod manners;
mod model;
mod operations;
#[path = "../rules/mod.rs"]
mod rules;
mod tasks;
mod threads;
