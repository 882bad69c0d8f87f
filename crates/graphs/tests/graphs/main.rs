//! A file of graphs beside a model, torn at every byte, and made by an enemy.

#![allow(clippy::unwrap_used)] // all of this is tests

mod disk;
mod hostile;
mod kept;
mod model;
mod room;
mod torn;
