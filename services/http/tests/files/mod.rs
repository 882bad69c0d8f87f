//! Files on simulated lanes and on real ones.
//!
//! Each simulated run is made from one seed, so a failure names the seed that shows it again (`CORELANE_SEED=n`).
#![forbid(unsafe_code)]

mod bounds;
mod changes;
mod clients;
mod disk;
mod errors;
mod far;
#[path = "../foreign/fetching.rs"]
mod fetching;
mod found;
mod hostile;
mod parts;
mod real;
pub mod tools;
mod validators;
mod watched;
