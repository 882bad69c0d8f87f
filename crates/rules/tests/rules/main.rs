//! The language, and the executions of what is written in it.
#![allow(clippy::unwrap_used)] // all of this is tests

mod drawn;
mod executions;
mod gateway;
mod language;
mod post;
