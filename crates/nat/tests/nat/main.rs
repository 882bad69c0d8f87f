//! Translations beside what the RFCs say of them, beside a model, and against bad input.

#![allow(clippy::unwrap_used)] // all of this is tests

mod batches;
mod bounds;
mod common;
mod errors;
mod flows;
mod forwards;
mod mixed;
